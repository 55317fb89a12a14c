"""The papers under ``.github``: what they name exists, and the workflows try what we promise."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

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


def test_the_workflow_tries_each_python_that_the_package_claims() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    jobs = workflow("ci.yml")["jobs"]
    assert jobs["systems"]["strategy"]["matrix"]["python"] == claimed
    assert project["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_no_job_has_more_rights_than_it_says_and_each_action_is_pinned(name: str) -> None:
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
