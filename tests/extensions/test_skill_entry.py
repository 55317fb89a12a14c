"""The entry of a skill: which entries are valid, and which paths lead to a file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.approval.skill_request import SkillFile, digest_of
from mcp_client.extensions.skill import SkillEntry, path_problem
from tests.support.properties import examples
from tests.support.skills import FORMS, MAIN, PDF, entry_of

pytestmark = pytest.mark.one_backend
DIGEST = "sha256:" + "0" * 64


def entry(**changed: Any) -> dict[str, Any]:
    return {**entry_of(PDF, {PDF: MAIN, FORMS: b"forms"}), **changed}


def files(*uris: str) -> list[dict[str, Any]]:
    return [{"uri": uri, "digest": DIGEST, "size": 1} for uri in uris]


def named(**fields: Any) -> dict[str, Any]:
    return entry(frontmatter={"name": "pdf", "description": "d", **fields})


def test_a_valid_entry_states_what_the_skill_consists_of() -> None:
    found = SkillEntry.from_wire(named(**{"allowed-tools": "Bash", "license": "MIT"}), "docs")
    assert (found.name, found.description, found.server, found.uri) == ("pdf", "d", "docs", PDF)
    assert [file.path for file in found.files] == ["SKILL.md", "references/FORMS.md"]
    assert (found.size, found.dynamic, found.ignored) == (len(MAIN) + 5, False, ("allowed-tools",))
    assert found.digest == digest_of(found.files)


def test_a_dynamic_skill_has_no_files_no_size_and_no_digest() -> None:
    found = SkillEntry.from_wire(entry(resources="dynamic"), "docs")
    assert (found.dynamic, found.files, found.size, found.digest) == (True, (), None, None)


@pytest.mark.parametrize(
    "uri",
    [
        "skill://acme/billing/pdf/SKILL.md",
        "github://owner/repo/skills/pdf/SKILL.md",
        "file:///srv/pdf/SKILL.md",
    ],
)
def test_no_scheme_is_privileged(uri: str) -> None:
    assert SkillEntry.from_wire(entry(uri=uri, resources=files(uri)), "docs").uri == uri


INVALID: list[tuple[Any, str]] = [
    ("text", "not a JSON object"),
    (entry(uri=1), "its uri is missing"),
    (entry(uri="skill://pdf/skill.md"), "does not end with"),
    (entry(uri="skill://pdf/SKILL.md/"), "does not end with"),
    (entry(uri="skill://SKILL.md"), "does not end with"),
    (entry(uri="SKILL.md"), "no scheme"),
    (entry(uri="pdf/SKILL.md"), "no scheme"),
    (entry(uri="skill://pdf/SKILL.md?x"), "does not end with"),
    (entry(uri="skill://x?y/pdf/SKILL.md"), "a query"),
    (entry(uri="skill://x#y/pdf/SKILL.md"), "a fragment"),
    (entry(uri="skill://x/../pdf/SKILL.md"), "a segment '..'"),
    (entry(uri="skill://x/%2E%2e/pdf/SKILL.md"), "a segment '..'"),
    (entry(uri="skill://x//pdf/SKILL.md"), "an empty segment"),
    (entry(uri="skill://x\u200b/pdf/SKILL.md"), "invisible"),
    (entry(uri=f"skill://{'x' * 65_536}/pdf/SKILL.md"), "its uri has more than 65536"),
    (entry(uri="skill://other/SKILL.md"), "differs from the name of its directory"),
    (entry(frontmatter=None), "frontmatter"),
    (named(name=None), "its name"),
    (named(name="PDF"), "its name"),
    (named(name="pdf--x"), "its name"),
    (named(name="-pdf"), "its name"),
    (named(name="pdf-"), "its name"),
    (named(name="x" * 65), "its name"),
    (named(name="pdf\n"), "its name"),
    (named(description=""), "its description"),
    (named(description="  "), "its description"),
    (named(description=5), "its description"),
    (named(description="x" * 1_025), "1,024 characters"),
    (entry(resources=None), "neither an array nor 'dynamic'"),
    (entry(resources="static"), "neither an array nor 'dynamic'"),
    (entry(resources=[]), "lack its SKILL.md"),
    (entry(resources=files(FORMS)), "lack its SKILL.md"),
    (entry(resources=files(PDF, PDF)), "listed twice"),
    (entry(resources=files(PDF, "skill://pdf")), "not within"),
    (entry(resources=files(PDF, "skill://pdfs/x")), "not within"),
    (entry(resources=files(PDF, "skill://other/x")), "not within"),
    (entry(resources=files(PDF, "https://pdf/x")), "not within"),
    (entry(resources=files(PDF, "skill://pdf/../x")), "a segment '..'"),
    (entry(resources=files(PDF, "skill://pdf/a/%2e%2E/x")), "a segment '..'"),
    (entry(resources=files(PDF, "skill://pdf/a/./x")), "a segment '.'"),
    (entry(resources=files(PDF, "skill://pdf/a//x")), "an empty segment"),
    (entry(resources=files(PDF, "skill://pdf/")), "an empty path"),
    (entry(resources=files(PDF, "skill://pdf/a/")), "an empty segment"),
    (entry(resources=files(PDF, "skill://pdf/a%2fx")), "percent-encoded"),
    (entry(resources=files(PDF, "skill://pdf/a%5Cx")), "percent-encoded"),
    (entry(resources=files(PDF, "skill://pdf/a%00")), "percent-encoded"),
    (entry(resources=files(PDF, "skill://pdf/a%")), "encodes nothing"),
    (entry(resources=files(PDF, "skill://pdf/a\\x")), "a backslash"),
    (entry(resources=files(PDF, "skill://pdf/a?x")), "a query"),
    (entry(resources=[*files(PDF), "x"]), "not an object"),
    (entry(resources=[*files(PDF), {"uri": FORMS, "size": 1}]), "a digest"),
    (entry(resources=[{**files(PDF)[0], "digest": "sha256:" + "A" * 64}]), "a digest"),
    (entry(resources=[{**files(PDF)[0], "digest": "0" * 64}]), "a digest"),
    (entry(resources=[{**files(PDF)[0], "size": -1}]), "a size"),
    (entry(resources=[{**files(PDF)[0], "size": True}]), "a size"),
    (entry(resources=[{**files(PDF)[0], "size": 1.5}]), "a size"),
]


@pytest.mark.parametrize(("wrong", "reason"), INVALID)
def test_an_invalid_entry_is_rejected_with_its_reason(wrong: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=r".*") as refused:
        SkillEntry.from_wire(wrong, "docs")
    assert reason in str(refused.value)


def test_a_file_is_found_by_its_path_as_in_its_uri_or_decoded() -> None:
    uris = [PDF, "skill://pdf/My%20File.md", "skill://pdf/a b", "skill://pdf/a%20b"]
    found = SkillEntry.from_wire(entry(resources=files(*uris)), "docs")
    by_path = {path: found.file(path) for path in ("My File.md", "My%20File.md", "a b", "a%20b")}
    assert {path: file and file.uri for path, file in by_path.items()} == {
        "My File.md": uris[1],
        "My%20File.md": uris[1],
        "a b": uris[2],
        "a%20b": uris[3],
    }
    assert found.file("my file.md") is None


_PATHS = st.text(st.sampled_from("ab./\\%25EeFf?#: \0é"), max_size=12)


@given(_PATHS)
@examples(2_000)
def test_no_path_that_is_taken_leads_out_of_the_directory(path: str) -> None:
    from posixpath import normpath
    from urllib.parse import unquote

    if path_problem(path) is None:
        for seen in (path, unquote(path), unquote(unquote(path)) if "%25" not in path else path):
            assert normpath(f"/skill/{seen}").startswith("/skill/")
            assert not {"\\", "\0", "?", "#"} & set(path)


_FILES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)


@given(_FILES, st.randoms())
def test_the_digest_of_a_skill_is_of_the_set_and_not_of_its_order(names: list[str], r: Any) -> None:
    one = [SkillFile(f"skill://x/{name}", DIGEST, 1, name) for name in names]
    other = r.sample(one, len(one))
    assert digest_of(tuple(one)) == digest_of(tuple(other))
    changed = [SkillFile(one[0].uri, "sha256:" + "1" * 64, 1, one[0].path), *one[1:]]
    assert digest_of(tuple(one)) != digest_of(tuple(changed))
    assert digest_of(tuple(one)) != digest_of(tuple(one[1:]))
