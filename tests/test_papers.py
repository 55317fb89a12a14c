"""The papers under ``.github``: what they name exists, and the workflows try what we promise."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcp_client import connect
from mcp_client.connection.call_options import CallOptions

ROOT = Path(__file__).parent.parent
PAPERS = ROOT / ".github"


def workflow(name: str) -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml")
    return dict(yaml.safe_load((PAPERS / "workflows" / name).read_text()))


@pytest.mark.parametrize("paper", ["CONTRIBUTING.md", "SECURITY.md"])
def test_each_file_that_a_paper_names_exists(paper: str) -> None:
    text = (PAPERS / paper).read_text()
    links = [PAPERS / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = [ROOT / path for path in re.findall(r"`((?:mcp_client|tests|\.github)/[\w./]+)`", text)]
    assert links
    assert [str(path) for path in links + named if not path.exists()] == []


def checklist(name: str) -> str:
    """The part of CONTRIBUTING below the line that begins with ``name`` in bold."""
    _, _, rest = (PAPERS / "CONTRIBUTING.md").read_text().partition(f"\n**{name}")
    assert rest, name
    return re.split(r"\n(?:\*\*|## )", rest)[0]


@cache
def names_in(path: Path) -> set[str]:
    """The names and the texts in the code of a file; no docstring is one of them."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {getattr(node, field, None) for node in nodes for field in ("id", "arg", "attr")}
    return {str(each) for each in names} | {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


CONNECT = {
    name
    for name, one in inspect.signature(connect).parameters.items()
    if one.kind is one.KEYWORD_ONLY
}


OF_CONNECT = "An option** of `connect`"


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [(OF_CONNECT, CONNECT, 10), ("An option** of `call_tool`", {*CallOptions.__annotations__}, 7)],
)
def test_the_checklist_of_an_option_names_every_file_that_handles_most_of_them(
    name: str, options: set[str], most: int
) -> None:
    places = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "mcp_client").rglob("*.py")
        if len(names_in(path) & options) >= most
    }
    assert len(places) >= 3
    assert {place for place in places if f"`{place}`" not in checklist(name)} == set()


@pytest.mark.parametrize(
    ("name", "places"),
    [
        (OF_CONNECT, ("HostOptions", "ServerConfig", "Host.__init__", "mcp_client/host/host.py")),
        (OF_CONNECT, ("mcp_client/runtime/option_names.py", "tests/test_option_tables.py")),
        ("A default**", ("mcp_client/runtime/limits.py", "tests/test_stated_defaults.py")),
        ("A program of config files**", ("mcp_client/config/programs.py",)),
        ("A program of config files**", ("tests/config/test_programs.py",)),
    ],
)
def test_a_checklist_names_the_other_places_too(name: str, places: tuple[str, ...]) -> None:
    assert [place for place in places if f"`{place}`" not in checklist(name)] == []


REPLACED = [
    *("mends?", "mended", "give back", "hands? over", "folders?", "stands?", "anew", "once more"),
    *("whoever", "nobody", "somebody", "for good", "the other side", "our side", "puts? up with"),
]
TEXTS = [*PAPERS.glob("*.md"), *PAPERS.glob("ISSUE_TEMPLATE/*.yml")]


@pytest.mark.parametrize("paper", sorted(path.relative_to(PAPERS).as_posix() for path in TEXTS))
def test_no_paper_has_a_word_that_a_plainer_one_replaces(paper: str) -> None:
    text = " ".join((PAPERS / paper).read_text().split())
    assert re.findall(rf"\b(?:{'|'.join(REPLACED)})\b", text, re.IGNORECASE) == []


def test_the_workflow_tries_each_python_that_the_package_claims() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    jobs = workflow("ci.yml")["jobs"]
    assert jobs["systems"]["strategy"]["matrix"]["python"] == claimed
    assert project["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_no_job_has_more_rights_than_it_declares_and_each_action_is_pinned(name: str) -> None:
    found = workflow(name)
    assert found["permissions"] == {}
    for job in found["jobs"].values():
        assert job["permissions"]
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_only_the_job_that_publishes_can_publish_and_what_it_publishes_was_tested() -> None:
    jobs = workflow("release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "environment" in job] == ["publish"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["build"]["needs"] == "test"


def test_a_release_publishes_the_reference_and_the_guides_as_a_site() -> None:
    steps = workflow("release.yml")["jobs"]["site"]["steps"]
    built = [step["run"].split()[-1] for step in steps if "tests.reference" in step.get("run", "")]
    published = [step["with"]["path"] for step in steps if "upload-artifact@" in str(step)]
    assert [f"{directory}/" for directory in built] == published == ["site/"]
