"""Two schemas as one, and the root of a schema: what remains, and what is reported as lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_client.adapters import anthropic, gemini, openai_chat
from mcp_client.adapters.schema_merging import Effect, Notes, both, described, either, object_root
from tests.support.schemas import tool_of
from tests.support.timing import grows_linearly

CASES = Path(__file__).with_name("merging_cases.jsonl").read_text().splitlines()
"""Each line: a function, its arguments, and its result. For ``both`` the loss follows,
for ``root`` the notes; there ``+`` marks where more is accepted."""


@pytest.mark.parametrize("number", range(len(CASES)))
def test_schemas_are_merged(number: int) -> None:
    function, passed, *wanted = json.loads(CASES[number])
    before = json.dumps(passed)
    lost: list[str] = []
    notes = Notes()
    match function:
        case "both":
            found = [both(passed[0], passed[1], lost), lost]
        case "either":
            found = [either(passed)]
        case _:
            made = object_root(passed, notes)
            reported = [one.replace(Effect.ACCEPTS_MORE.value, " +") for one in notes.sentences()]
            found = [made, reported]
    assert json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    assert json.dumps(passed) == before


@pytest.mark.parametrize(("limit", "passed"), [(400, ()), (7, (7,))], ids=["usual", "given"])
def test_a_description_has_each_keyword_up_to_a_limit(limit: int, passed: tuple[int, ...]) -> None:
    whole, long = "x" * (limit - 2), "x" * (limit - 1)
    found: dict[str, Any] = described({"description": "Said"}, {"a": whole, "b": long}, *passed)
    assert found == {"description": f'Said (a: "{whole}"; b: "{long}…)'}


def test_of_the_alternatives_at_a_root_two_thousand_characters_are_reported() -> None:
    for chars, is_cut in ((2_000, False), (2_001, True)):
        options = [{"title": "x" * (chars - len('[{"title": ""}]'))}]
        text = object_root({"type": "object", "anyOf": options}, Notes())["description"]
        assert ("…" in text) is is_cut


def _branches(kind: str, count: int) -> dict[str, Any]:
    """A schema with ``count`` alternatives, no two of them alike."""
    options: list[dict[str, Any]] = [
        {"properties": {"kind": {"const": f"v{n}"}}, "required": ["kind"]} for n in range(count)
    ]
    if kind == "names":
        options = [
            {"properties": {f"k{n}": {}}, "additionalProperties": False} for n in range(count)
        ]
    if kind == "member":
        return {"type": "object", "properties": {"p": {"oneOf": options}}}
    if kind == "enum":
        values = {"enum": [f"v{n}" for n in range(count)]}
        return {"type": "object", "allOf": [{"properties": {"p": values}} for _ in range(2)]}
    return {"type": "object", "oneOf": options}


@pytest.mark.parametrize("kind", ["consts", "names", "member", "enum"])
@pytest.mark.parametrize("module", [anthropic, gemini, openai_chat], ids=lambda one: one.__name__)
def test_the_time_for_a_schema_grows_linearly_with_its_alternatives(kind: str, module: Any) -> None:
    def prepare(count: int) -> Any:
        tool = tool_of(_branches(kind, count))
        return lambda: module.toolset([tool]).tools

    assert grows_linearly(prepare, 40, 25)
