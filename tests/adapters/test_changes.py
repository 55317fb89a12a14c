"""``.changes`` has every change: where a shown schema differs from the tool's, a sentence is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from mcp_client.protocol.json_paths import pointer
from tests.adapters.zoo import ZOO
from tests.support.properties import examples
from tests.support.provider_shapes import ANTHROPIC, CHAT, GEMINI, Provider
from tests.support.schemas import object_schemas, tool_of

ONE = (
    *("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas")
DIALECTS = (ANTHROPIC, CHAT, GEMINI)
"""Responses has that of Chat Completions."""
EVERYWHERE = re.compile(r"an empty 'items' is added$|the member '.*' is shown as '.*'")
"""Each sentence that is reported once for a whole schema, with its subject."""
ABOUT = {"items", *NAMED, "required", "dependentRequired"}
MERGED = re.compile(
    r"is merged into the members|becomes members of its own|where schemas are merged;"
)
"""Said of the root, where it is about any of its members."""


def is_same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def differences(
    passed: Any, displayed: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The places where something differs, each with the keyword that does."""
    if type(passed) is not dict or type(displayed) is not dict:
        if not is_same(passed, displayed):
            yield path, ""
        return
    for keyword in dict.fromkeys([*passed, *displayed]):
        before: Any = passed.get(keyword)
        after: Any = displayed.get(keyword)
        kinds = {type(before), type(after)}
        below = (*path, keyword)
        if (keyword in passed) != (keyword in displayed):
            yield path, keyword
        elif keyword in ONE and kinds == {dict}:
            yield from differences(before, after, below)
        elif keyword in SEVERAL and kinds == {list} and len(before) == len(after):
            for number, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from differences(one, other, (*below, str(number)))
        elif keyword in NAMED and kinds == {dict} and before.keys() == after.keys():
            for name in before:
                yield from differences(before[name], after[name], (*below, name))
        elif not is_same(before, after):
            yield path, keyword


def places(changes: tuple[str, ...]) -> list[str]:
    """The places that the sentences report as changed, as JSON pointers."""
    found: list[str] = []
    for change in changes:
        clause = change.partition(";")[0]
        where = re.search(r" at ((?:/|the root).*)$", clause)
        named = where[1].partition(" and ")[0].split(", ") if where else ["the root"]
        found += ["" if one == "the root" else one for one in named]
    return found


def unsaid(provider: Provider, schema: dict[str, Any], strict: bool) -> list[str]:
    """The places of changes for which there is no sentence."""
    kit = provider.toolset([tool_of(schema)], strict=strict)
    changes = tuple(change for change in kit.changes if "it is not strict" not in change)
    if any("more places" in one or "…" in one or MERGED.search(one) for one in changes):
        return []
    reported = places(changes)
    everywhere = any(EVERYWHERE.search(change) for change in changes)
    found = []
    for path, keyword in differences(schema, provider.schemas(kit)["tool"]):
        at = pointer(path)
        is_near = any(
            one == at or one.startswith(f"{at}/") or (one and at.startswith(f"{one}/"))
            for one in reported
        )
        if not is_near and not (everywhere and keyword in ABOUT):
            found.append(f"{at} {keyword}")
    return found


@pytest.mark.slow
@examples(60)
@given(schema=object_schemas())
def test_where_a_schema_differs_a_sentence_reports_it(schema: dict[str, Any]) -> None:
    for provider in DIALECTS:
        for strict in (False, True):
            assert unsaid(provider, schema, strict) == []


@pytest.mark.parametrize("provider", DIALECTS, ids=str)
@pytest.mark.parametrize("name", ZOO)
def test_where_a_hostile_schema_differs_a_sentence_reports_it(
    provider: Provider, name: str
) -> None:
    for strict in (False, True):
        assert unsaid(provider, ZOO[name], strict) == []


ONCE_SILENT: dict[str, tuple[dict[str, Any], str]] = {
    "a bare array": ({"type": "array"}, "an empty 'items' is added at /properties/a"),
    "a list of types": (
        {"type": ["string", "null"]},
        "its types become alternatives of 'anyOf' at /properties/a",
    ),
    "a required member that is not declared": (
        {"type": "object", "required": ["b"]},
        "a required member that is not declared is added at /properties/a/properties/b",
    ),
    "a keyword for another type": (
        {"type": "string", "minItems": 1},
        "'minItems' is left out at /properties/a",
    ),
    "an exclusive bound": (
        {"type": "integer", "exclusiveMinimum": 0},
        "'exclusiveMinimum' becomes 'minimum' at /properties/a",
    ),
    "a condition without a consequence": (
        {"type": "string", "if": {"minLength": 1}},
        "it is written another way at /properties/a",
    ),
    "one alternative": (
        {"anyOf": [{"type": "string"}]},
        "'anyOf' of one schema is merged at /properties/a",
    ),
    "true": (True, "'true' is written as a schema at /properties/a"),  # type: ignore[dict-item]
}
"""Cases for Gemini, each with the sentence that is reported now."""


@pytest.mark.parametrize("what", ONCE_SILENT)
def test_what_was_once_silent_is_reported(what: str) -> None:
    member, sentence = ONCE_SILENT[what]
    kit = GEMINI.toolset([tool_of({"type": "object", "properties": {"a": member}})])
    assert f"tool 'tool': {sentence}" in kit.changes


def test_changes_are_reported_in_the_order_of_the_schema() -> None:
    counts = ("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "multipleOf")
    member = {"type": "string", **dict.fromkeys(counts, 1), "uniqueItems": True, "items": {}}
    kit = GEMINI.toolset([tool_of({"type": "object", "properties": {"a": member}})])
    left_out = [f"tool 'tool': '{each}' is left out at /properties/a" for each in member]
    assert list(kit.changes) == left_out[1:]
