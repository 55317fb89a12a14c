"""How much of strict mode fits: in one schema for OpenAI, in all of a request for Anthropic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.adapters.definitions import RequestLimits, exceeded
from tests.support.provider_shapes import ANTHROPIC, CHAT, Provider, strict_providers
from tests.support.schemas import tool_of

TEXT = {"type": "string"}
EITHER = {"anyOf": [TEXT, {"type": "integer"}]}


def schema(optional: int = 0, unions: int = 0) -> dict[str, Any]:
    """A strict schema with so many optional members and so many unions, which are required."""
    needed = {f"u{n}": EITHER for n in range(unions)}
    return {
        "type": "object",
        "properties": {**needed, **{f"o{n}": TEXT for n in range(optional)}},
        "required": list(needed),
        "additionalProperties": False,
    }


def strict_names(provider: Provider, kit: Any) -> list[str]:
    return [one["name"] for one in provider.declarations(kit) if one.get("strict")]


def kit_of(*costs: tuple[int, int], **options: Any) -> Any:
    tools = [tool_of(schema(*cost), f"t{n}") for n, cost in enumerate(costs)]
    return ANTHROPIC.toolset(tools, strict=True, **options)


# --------------------------------------------------------------- one request


costs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=12)


@given(costs=costs, before=st.sets(st.integers(0, 12)), taken=st.integers(0, 3))
def test_what_is_chosen_fits_and_nothing_else_would(
    costs: list[tuple[int, int]], before: set[int], taken: int
) -> None:
    limits = RequestLimits(tools=6, optional=20, unions=10)
    schemas = {f"t{n}": schema(*cost) for n, cost in enumerate(costs)}
    chosen = limits.chosen(schemas, {f"t{n}" for n in before}, taken)
    used = [costs[int(name[1:])] for name in chosen]
    optional, unions = sum(one for one, _ in used), sum(one for _, one in used)
    assert len(used) + taken <= 6
    assert optional <= 20
    assert unions <= 10
    if len(used) + taken < 6:
        for name in schemas.keys() - chosen:
            more_optional, more_unions = costs[int(name[1:])]
            assert optional + more_optional > 20 or unions + more_unions > 10


@pytest.mark.parametrize(
    ("costs", "strict"),
    [
        ([(0, 0)] * 25, range(20)),
        ([(3, 0)] * 10, range(8)),
        ([(0, 4)] * 10, range(4)),
        ([(25, 0), (2, 0), (0, 17), (0, 2)], (1, 3)),
        ([(24, 0), (1, 0), (0, 16), (0, 1)], (1, 3)),
        ([(24, 16)], (0,)),
    ],
    ids=["tools", "optional members", "unions", "too much alone", "the least first", "all of it"],
)
def test_as_many_tools_as_anthropic_takes_are_strict_and_the_others_are_reported(
    costs: list[tuple[int, int]], strict: Any
) -> None:
    kit = kit_of(*costs)
    assert strict_names(ANTHROPIC, kit) == [f"t{n}" for n in strict]
    for number, (optional, unions) in enumerate(costs):
        reported = (
            f"tool 't{number}': it is not strict: Anthropic takes 20 strict tools in one request, "
            "with 24 optional members and 16 unions in all of them, and those of other tools come "
            f"first; it has {optional} and {unions}"
        )
        assert (reported in kit.changes) is (number not in strict)


def test_unions_and_optional_members_count_wherever_they_are() -> None:
    nested = {"type": "array", "items": schema(optional=4, unions=3)}
    whole = {"type": "object", "properties": {"a": {"anyOf": [nested, TEXT]}}, "required": ["a"]}
    kit = ANTHROPIC.toolset([tool_of(whole, f"t{n}") for n in range(5)], strict=True)
    assert len(strict_names(ANTHROPIC, kit)) == 4
    assert kit.changes[-1].endswith("it has 4 and 4")


def test_what_is_strict_stays_strict_when_cheaper_tools_come() -> None:
    kit = kit_of((12, 0), (12, 0))
    assert strict_names(ANTHROPIC, kit) == ["t0", "t1"]
    old = [tool_of(schema(12), name) for name in ("t0", "t1")]
    later = kit.updated([*old, tool_of(schema(1), "new"), tool_of(schema(), "free")])
    assert strict_names(ANTHROPIC, later) == ["t0", "t1", "free"]
    assert later.tools[:2] == kit.tools
    fewer = later.updated([old[1], tool_of(schema(1), "new")])
    assert strict_names(ANTHROPIC, fewer) == ["t1", "new"]


def test_the_tools_of_a_search_count_too() -> None:
    kit = kit_of(*[(0, 0)] * 25, search=True, always=["*"])
    names = strict_names(ANTHROPIC, kit)
    assert names[:2] == ["search_tools", "describe_tools"]
    assert len(names) == 20
    native = kit_of(*[(0, 0)] * 25, search="native")
    assert len(strict_names(ANTHROPIC, native)) == 20


def test_openai_takes_any_number() -> None:
    tools = [tool_of(schema(9, 9), f"t{n}") for n in range(50)]
    assert len(strict_names(CHAT, CHAT.toolset(tools, strict=True))) == 50


# ---------------------------------------------------------------- one schema


def of_values(*counts: int, chars: int = 75) -> dict[str, Any]:
    members = {
        f"m{n}": {"enum": [f"{value:0{chars}}" for value in range(count)]}
        for n, count in enumerate(counts)
    }
    return {"type": "object", "properties": members, "required": list(members)}


@strict_providers
@pytest.mark.parametrize(
    ("passed", "reason"),
    [
        (of_values(250), None),
        (of_values(251), "the values of one 'enum' have 18,825 characters"),
        (of_values(251, chars=59), None),
        (of_values(200, 200), None),
        (of_values(250, 250, 250, 251, chars=4), "more members or values"),
    ],
    ids=["250 long ones", "one more", "short ones", "in two members", "too many in all"],
)
def test_a_schema_with_too_many_values_is_not_strict(
    provider: Provider, passed: dict[str, Any], reason: str | None
) -> None:
    kit = provider.toolset([tool_of(passed)], strict=True)
    assert strict_names(provider, kit) == (["tool"] if reason is None else [])
    assert any("it is not strict" in one for one in kit.changes) is (reason is not None)
    assert reason is None or any(reason in change for change in kit.changes)


def deep(levels: int, step: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(TEXT)
    for _ in range(levels - 1):
        if step == "items":
            found = {"type": "array", "items": found}
        else:
            found = {"anyOf": [{"type": "object", "properties": {"a": found}}, {"type": "null"}]}
    return found


MANY_MEMBERS = "it has more members or values than strict mode takes"


@pytest.mark.parametrize(
    ("fitting", "larger", "why"),
    [
        *(
            (
                deep(10, step),
                deep(11, step),
                "it is nested 11 levels deep, and strict mode takes 10",
            )
            for step in ("items", "members")
        ),
        (
            {"enum": ["v" * 60] * 249 + ["v" * 59, "v"]},
            {"enum": ["v" * 60] * 249 + ["v" * 60, "v"]},
            "the values of one 'enum' have 15,001 characters, and strict mode takes 15,000 of more",
        ),
        ({"enum": ["v" * 400] * 250}, {"enum": ["v" * 400] * 251}, "the values of one 'enum'"),
        ({"enum": [1] * 1_000}, {"enum": [1] * 1_001}, MANY_MEMBERS),
        (
            {"anyOf": [{"enum": [1] * 500}, {"enum": [None] * 500}]},
            {"anyOf": [{"enum": [1] * 500}, {"enum": [None] * 501}]},
            MANY_MEMBERS,
        ),
        (
            {"properties": {f"{n}": TEXT for n in range(5_000)}},
            {"properties": {f"{n}": TEXT for n in range(5_001)}},
            MANY_MEMBERS,
        ),
        (
            {"properties": {"m" * 60_000: {"enum": ["v" * 60_000]}}},
            {"properties": {"m" * 60_000: {"enum": ["v" * 60_001]}}},
            MANY_MEMBERS,
        ),
    ],
    ids=["items", "members", "long", "of 251", "values", "of options", "all members", "characters"],
)
def test_each_limit_of_openai_holds_from_its_first_excess(
    fitting: dict[str, Any], larger: dict[str, Any], why: str
) -> None:
    assert exceeded(fitting) is None
    found = exceeded(larger)
    assert found is not None
    assert found.startswith(why)
