from __future__ import annotations

import contextlib
import inspect
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing.jsonschema import EMPTY_REGISTRY

from mcp_client import Limits
from mcp_client.errors import InvalidSchema
from mcp_client.validation import engine
from mcp_client.validation import worker_pool as worker
from mcp_client.validation.checker import Problem, checker_for
from mcp_client.validation.fast_path import compile_fast_path
from mcp_client.validation.known_cost import has_at_most
from mcp_client.validation.worker_pool import WorkerPool, _pieces
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend

RUNAWAY = {"pattern": "^(a+)+$"}
NEVER_ENDS = "a" * 64 + "!"


async def verdict(schema: Any, value: Any, budget: float = 5.0) -> Problem | None:
    """What a caller gets, and no process afterwards."""
    workers = WorkerPool()
    try:
        checker = checker_for(schema, Limits())
        if checker.is_known_valid(value):
            return None
        return await checker.problem(value, workers, budget)
    finally:
        await workers.aclose()


# ------------------------------------------------------------- what a user reads


async def test_a_problem_names_its_place_what_was_expected_and_what_came() -> None:
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "array", "items": {"type": "string"}}},
    }
    assert await verdict(schema, {"a/b": ["x", 7]}) == Problem("/a~1b/1", "string", "7")


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": ["string", "null"]}, 1, "the whole value: expected string or null, got 1"),
        ({"required": ["a", "b"]}, {"a": 1}, 'expected the property "b", got {"a": 1}'),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            'expected no properties but ["a"], got {"b": 1}',
        ),
        ({"properties": {"a": False}}, {"a": 1}, "expected nothing, got 1"),
        ({"enum": ["a", "b"]}, "c", 'expected enum ["a", "b"], got "c"'),
        ({"multipleOf": 2}, 3, "expected multipleOf 2, got 3"),
        ({"pattern": "^a$"}, "b", 'expected pattern "^a$", got "b"'),
        ({"type": "string"}, {"a": "x" * 500}, "…"),
        ({"type": "string"}, list(range(100)), "… 92 more"),
    ],
)
async def test_each_kind_of_problem_is_reported_in_words(
    schema: Any, value: Any, expected: str
) -> None:
    problem = await verdict(schema, value)
    assert expected in str(problem)
    assert len(str(problem)) < 400


async def test_what_came_is_made_safe_to_show() -> None:
    problem = await verdict({"type": "integer"}, "\x1b[2J\u202e")
    assert "\x1b" not in str(problem)
    assert "\u202e" not in str(problem)


TWO: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a", "b"],
}
SLOW: dict[str, Any] = {"properties": {"slow": {"pattern": "^(a+)+$"}}}


@pytest.mark.parametrize("more", [{}, SLOW], ids=["in place", "in the worker"])
async def test_all_that_is_wrong_is_reported_and_the_most_telling_first(more: Any) -> None:
    value = {"a": "two", "slow": "aa"} if more else {"a": "two"}
    properties = {**more.get("properties", {}), **TWO["properties"]}
    problem = await verdict({**TWO, "properties": properties}, value)
    assert problem is not None
    assert problem.path == ""
    assert [(one.path, one.came) for one in problem.others] == [("/a", '"two"')]
    sentence = problem.of("the arguments", "the schema")
    assert sentence.startswith(
        'the arguments broke the schema at the whole value: expected the property "b", got {'
    )
    assert sentence.endswith('}; at /a: expected integer, got "two"')


async def test_properties_that_are_missing_are_named_together() -> None:
    problem = await verdict({"required": [f"p{i}" for i in range(20)]}, {})
    assert str(problem) == (
        'the whole value: expected the properties ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", '
        '"… 12 more"], got {}'
    )


@pytest.mark.parametrize(
    ("items", "end"), [(5, "got 1"), (7, "; and 2 more"), (5_000, "; and at least 59 more")]
)
async def test_five_things_that_are_wrong_are_reported_and_the_rest_counted(
    items: int, end: str
) -> None:
    problem = await verdict({"items": {"type": "string"}}, [1] * items)
    assert problem is not None
    assert len(problem.others) == 4
    assert str(problem).count("expected") == 5
    assert str(problem).endswith(end)


# --------------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-03/schema#",
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
async def test_every_dialect_that_is_documented_judges(dialect: str) -> None:
    schema = {"$schema": dialect, "type": "object", "properties": {"a": {"type": "integer"}}}
    assert await verdict(schema, {"a": 1}) is None
    assert await verdict(schema, {"a": "x"}) is not None


async def test_a_dialect_is_honoured() -> None:
    tuples = {"items": [{"type": "integer"}]}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}
    assert await verdict(old, ["x"]) is not None
    with pytest.raises(
        InvalidSchema, match="cannot be used: items: expected a schema, got an array"
    ):
        await verdict(tuples, ["x"])


async def test_a_value_whose_problem_cannot_be_described_makes_the_schema_unusable() -> None:
    types = ["string", {"type": "object"}]  # which only draft-03 takes for types
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", "type": types}
    with pytest.raises(InvalidSchema, match="cannot be used: TypeError"):
        await verdict(schema, 5)


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://example.com/mine"},
        {"$schema": 7},
        {"$schema": ["http://json-schema.org/draft-07/schema#"]},
        {"properties": {"a": {"$schema": "http://example.com/mine"}}},
        {"properties": {"default": {"$schema": "http://example.com/mine"}}},
    ],
)
async def test_an_unknown_dialect_is_refused_with_a_reason(schema: Any) -> None:
    with pytest.raises(InvalidSchema, match="dialect"):
        await verdict(schema, {})


async def test_data_that_looks_like_a_dialect_is_data() -> None:
    schema = {"default": {"$schema": "http://example.com/mine"}, "type": "object"}
    assert await verdict(schema, {}) is None


async def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "integer"}}}
    assert await verdict(schema, {"pattern": "(((", "$ref": 1}) is None
    assert await verdict(schema, {"$ref": "#"}) is not None


# ------------------------------------------------------------------- references


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
        {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "integer"}}},
        {"$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a", "type": "integer"}}},
        {"$id": "urn:x", "$ref": "urn:y", "$defs": {"y": {"$id": "urn:y", "type": "integer"}}},
    ],
)
async def test_references_within_the_schema_are_followed(schema: Any) -> None:
    assert await verdict(schema, 1) is None
    assert await verdict(schema, "x") is not None


@pytest.mark.parametrize(
    "at", ["http://127.0.0.1:9/s.json", "file:///etc/passwd", "#/nowhere", "x"]
)
async def test_a_reference_that_leads_elsewhere_spoils_the_schema_reached_or_not(at: str) -> None:
    for schema in ({"$ref": at}, {"properties": {"never": {"$ref": at}}, "uniqueItems": 1 == 1}):
        with pytest.raises(InvalidSchema) as caught:
            await verdict({**schema, "multipleOf": 1}, {"a": 1})
        assert at in str(caught.value)


@pytest.mark.slow
async def test_the_meta_schemas_themselves_may_be_referred_to() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert await verdict(schema, {"type": "object"}) is None
    assert await verdict(schema, {"type": 7}) is not None


async def test_a_schema_of_trees_judges_trees() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert await verdict(tree, {"kids": [{"kids": []}, {}]}) is None
    problem = await verdict(tree, {"kids": [{"kids": [3]}]})
    assert problem is not None
    assert problem.path == "/kids/0/kids/0"


async def test_a_schema_that_is_itself_and_nothing_else_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="without end"):
        await verdict({"$ref": "#"}, 1)


# ------------------------------------------------------------- decided once: JSON


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"type": "integer"}, 1.0, True),
        ({"const": 1}, True, False),
        ({"enum": [0]}, False, False),
        ({"type": "number"}, True, False),
        ({"type": "integer"}, 10**4000, True),
        ({"maximum": 10**300}, 10**4000, False),
        ({"maximum": 10}, math.inf, False),
        ({"type": "number"}, math.inf, True),
        ({"multipleOf": 0.5}, math.inf, False),
        ({"multipleOf": 0.01}, 10**400, False),
        ({"maxLength": 1}, "\ud800", True),
        ({"maxLength": 1}, "\U0001f600", True),
        ({"const": "\u00e9"}, "e\u0301", False),
        ({"format": "email"}, "no mail", True),
    ],
)
async def test_what_json_leaves_open_is_decided(schema: Any, value: Any, valid: bool) -> None:
    assert (await verdict(schema, value) is None) is valid


async def test_a_lone_surrogate_in_a_schema_spoils_it_and_in_a_value_does_not() -> None:
    with pytest.raises(InvalidSchema, match="surrogate"):
        checker_for({"const": "\ud800"}, Limits())
    assert await verdict({**RUNAWAY, "multipleOf": 1}, "b\udfff" * 200, 2.0) is not None


# ------------------------------------------------------------------ the quick check

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, 1e300])
VALUES = st.recursive(
    SCALARS | st.sampled_from(["", "a", "b", "abc"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.lists(st.sampled_from("abc"), unique=True, max_size=3)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def schemas(inner: Any) -> Any:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, unique=True, min_size=1, max_size=3),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "required": NAMES,
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
            "uniqueItems": st.booleans(),
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.sampled_from([0, 1.5]),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "minProperties": st.integers(0, 2),
            "title": st.just("t"),
            "default": VALUES,
        },
    )


SCHEMAS = st.recursive(st.booleans() | schemas(st.booleans()), schemas, max_leaves=6)


@pytest.mark.slow
@examples(300)
@given(SCHEMAS, VALUES)
def test_the_quick_check_never_calls_valid_what_jsonschema_calls_invalid(
    schema: Any, value: Any
) -> None:
    fast_path = compile_fast_path(schema)
    if fast_path is not None and fast_path.accepts(value):
        registry: Any = EMPTY_REGISTRY
        assert jsonschema.Draft202012Validator(schema, registry=registry).is_valid(value)


SINGLE: list[dict[str, Any]] = [
    *[{"type": kind} for kind in ("object", "array", "string", "integer", "number", "null")],
    {"type": "boolean"},
    {"type": ["string", "null"]},
    *[{keyword: bound} for keyword in ("minimum", "maximum") for bound in (0, 1, 1.5)],
    *[{f"exclusive{which}": bound} for which in ("Minimum", "Maximum") for bound in (0, 1)],
    *[{f"{which}Length": 1} for which in ("min", "max")],
    *[{f"{which}Items": 1} for which in ("min", "max")],
    *[{f"{which}Properties": 1} for which in ("min", "max")],
    *[{"uniqueItems": wanted} for wanted in (True, False)],
    {"enum": ["a", "b"]},
    {"const": "a"},
    {"required": ["a"]},
    {"required": ["a", "b"]},
    {"properties": {"a": {"type": "integer"}}},
    {"additionalProperties": False},
    {"additionalProperties": {"type": "string"}},
    {"items": {"type": "integer"}},
    {"items": False},
    {"anyOf": [{"type": "string"}, {"minimum": 1}]},
    {"allOf": [{"type": "integer"}, {"minimum": 1}]},
    {"pattern": "^a"},
    {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
]
PLAIN: list[Any] = [
    *[None, True, False, 0, 1, 2, -1, 0.0, 1.0, 0.5, 1.5, math.inf, math.nan, 10**30],
    *["", "a", "b", "ab", "\ud800", [], [1], ["a"], [1, 1.0], ["a", "a"], ["a", "b"], [True, 1]],
    *[
        {},
        {"a": 1},
        {"a": "x"},
        {"b": "x"},
        {"a": 1, "b": 2},
        {"a": None, "c": "x"},
        [[]],
        [{}, {}],
    ],
]


def test_the_quick_check_is_right_about_every_two_keywords_together() -> None:
    registry: Any = EMPTY_REGISTRY
    reported = 0
    for one in SINGLE:
        for other in SINGLE:
            schema = {**one, **other}
            fast_path = compile_fast_path(schema)
            if fast_path is None:
                continue
            judge = jsonschema.Draft202012Validator(schema, registry=registry)
            for value in PLAIN:
                if fast_path.accepts(value):
                    reported += 1
                    assert judge.is_valid(value), (schema, value)
    assert reported > 10_000


def test_a_keyword_that_is_left_to_jsonschema_leaves_it_only_what_it_is_applied_to() -> None:
    rare = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    optional = compile_fast_path({"properties": {"a": {"type": "string"}, "b": rare}})
    assert optional is not None
    assert optional.accepts({"a": "x"})
    assert not optional.accepts({"a": "x", "b": 1})
    either = compile_fast_path({"anyOf": [rare, {"type": "null"}]})
    assert either is not None
    assert either.accepts(None)
    assert not either.accepts(1)
    for schema in (rare, {"allOf": [rare]}, {"$ref": "#/$defs/a", "$defs": {"a": rare}}):
        assert compile_fast_path(schema) is None


def test_what_an_ordinary_object_costs_does_not_grow_with_its_arguments() -> None:
    fast_path = compile_fast_path({"properties": {"a": {"type": "string"}}, "required": ["a"]})
    assert fast_path is not None
    assert fast_path.accepts({"a": "x", **dict.fromkeys(map(str, range(200_000)), 1)})
    texts, objects = {"items": {"type": "string"}}, {"items": {"type": "object", "required": ["b"]}}
    for listed, item, most in (
        ({"a": texts}, "x", 1_000_000),
        ({"a": texts, "b": texts}, "x", 500_000),
        ({"a": objects}, {"b": 1}, 50_000),
        ({"a": objects, "b": texts}, {"b": 1}, 50_000),
        ({"a": texts, "b": objects}, "x", 100_000),
    ):
        fast_path = compile_fast_path({"properties": listed})
        assert fast_path is not None
        assert fast_path.accepts({"a": [item] * 40_000})
        assert not fast_path.accepts({"a": [item] * 39_999 + [1]})
        assert not fast_path.accepts({"a": [item] * (most + 1)}), "it could take too long"


def test_texts_beside_a_list_of_texts_are_searched_without_measuring_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(value: Any, most: int) -> None:
        raise AssertionError("the value was measured")

    monkeypatch.setattr("mcp_client.validation.fast_path.size_of", measured)
    name = {"type": "string", "pattern": "^[a-z]+$"}
    fast_path = compile_fast_path({"properties": {"a": name, "b": {"items": {"type": "string"}}}})
    assert fast_path is not None
    assert fast_path.accepts({"a": "x" * 10_000, "b": ["y"] * 10_000})
    assert not fast_path.accepts({"a": "x" * 10_000_000, "b": ["y"]}), "it could take too long"


def test_a_text_that_is_long_for_its_pattern_is_left_to_jsonschema() -> None:
    for kind, longest in (("^[a-z]+$", 10_000), ("[^@]+@[^@]+", 20)):
        pattern = {"type": "string", "pattern": kind}
        fast_path = compile_fast_path({"properties": {"a": pattern, "b": pattern}})
        assert fast_path is not None
        text = "x" * longest + "@x" * ("@" in kind)
        assert fast_path.accepts({"a": text, "b": text})
        assert not fast_path.accepts({"a": text * 1_000}), "it could take too long"
        assert not fast_path.accepts({"a": "A1" if kind[0] == "^" else "x"})


def test_the_quick_check_knows_an_ordinary_tool() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where", "minLength": 1},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    value = {"city": "Oslo", "unit": "c", "days": 3, "tags": ["a", "b"], "note": None}
    checker = checker_for(schema, Limits())
    assert checker.is_known_valid(value)
    assert not checker.is_known_valid({**value, "tags": ["a", "a"]})


# ------------------------------------------------------------- caps and the bound


@pytest.mark.parametrize(
    ("limit", "schema"),
    [
        ("schema_bytes", {"description": "x" * 100}),
        ("schema_depth", {"items": {"items": {"items": {"items": {"items": {"items": {}}}}}}}),
        ("subschemas", {"properties": {str(i): {} for i in range(20)}}),
        ("references", {"allOf": [{"$ref": "#/$defs/a"}] * 7, "$defs": {"a": {}}}),
        ("pattern_chars", {"pattern": "a" * 30}),
        ("pattern_chars", {"patternProperties": {"a" * 30: {}}}),
        ("enum_values", {"enum": list(range(30))}),
    ],
)
def test_each_cap_has_its_knob(limit: str, schema: Any) -> None:
    checker_for(schema, Limits())
    with pytest.raises(InvalidSchema, match=f"Limits.{limit}"):
        checker_for(schema, Limits(**{limit: 5}))


# --------------------------------------------------------------------- the worker


async def test_a_worker_is_started_only_when_it_is_needed_and_then_used_again() -> None:
    workers = WorkerPool()
    checker = checker_for({"type": "object", "properties": {"a": {"type": "integer"}}}, Limits())
    assert await checker.problem({"a": "x"}, workers, 1.0) is not None
    assert not workers._idle
    runaway = checker_for(RUNAWAY, Limits())
    pids = set()
    for _ in range(3):
        assert await runaway.problem("a" * 64, workers, 5.0) is None
        (worker,) = workers._idle
        assert worker._process is not None
        pids.add(worker._process.pid)
    assert len(pids) == 1
    await workers.aclose()
    await workers.aclose()


@pytest.mark.slow
@pytest.mark.both_backends
async def test_many_judgements_at_once_share_two_workers() -> None:
    workers = WorkerPool()
    most = 0

    async def one() -> None:
        nonlocal most
        assert await checker_for(RUNAWAY, Limits()).problem("a" * 64, workers, 10.0) is None
        most = max(most, len(workers._idle) + len(workers._working))

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(one)
    assert most == 2
    await workers.aclose()


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_judgement_under_way_outlives_the_closing_of_its_session() -> None:
    workers = WorkerPool()
    found: list[Any] = []

    async def one() -> None:
        checker = checker_for({"items": {"multipleOf": 2}}, Limits())
        found.append(await checker.problem([0] * 70_000, workers, 10.0))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        while not workers._working:
            await anyio.sleep(0.001)
        await workers.aclose()
        assert not workers._working
    assert found == [None]
    assert await checker_for(RUNAWAY, Limits()).problem("a" * 64, workers, 10.0) is None
    assert not workers._idle


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_cancelled_judgement_leaves_no_process() -> None:
    workers = WorkerPool()
    with anyio.move_on_after(0.4) as scope:
        await checker_for(RUNAWAY, Limits()).problem(NEVER_ENDS, workers, 60.0)
    assert scope.cancelled_caught
    assert not workers._working
    assert not workers._idle


def test_a_panic_of_the_code_under_jsonschema_is_a_stack_that_is_too_deep() -> None:
    class PanicException(BaseException):
        """As ``rpds`` raises where the stack ends while Python compares its keys."""

    class Validator:
        def iter_errors(self, value: object) -> Iterator[object]:
            raise PanicException

    with pytest.raises(RecursionError):
        engine.find_problems(Validator(), 1)


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_worker_that_died_idle_is_replaced() -> None:
    workers = WorkerPool()
    checker = checker_for(RUNAWAY, Limits())
    assert await checker.problem("a" * 64, workers, 5.0) is None
    workers._idle[0].kill()
    await anyio.sleep(0.1)
    assert await checker.problem("b" * 64, workers, 5.0) is not None
    await workers.aclose()


async def test_more_schemas_than_a_worker_keeps_are_all_judged() -> None:
    workers = WorkerPool()
    for number in range(70):
        checker = checker_for({**RUNAWAY, "maxLength": 64 + number}, Limits())
        assert await checker.problem("a" * 64, workers, 5.0) is None
    again = checker_for({**RUNAWAY, "maxLength": 64}, Limits())
    assert await again.problem("a" * 65, workers, 5.0) is not None
    await workers.aclose()


@pytest.mark.both_backends
@pytest.mark.both_backends
async def test_values_larger_than_the_pipe_of_a_worker_are_sent_one_after_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    workers = WorkerPool()
    checker = checker_for({"anyOf": [{"pattern": "^(a|b)+$"}, {"maxLength": 9}]}, Limits())
    for value in ("c" * 2_000_000, "c" * 20, "c" * 2_000_000):
        problem = await checker.problem(value, workers, 20.0)
        assert problem is not None and not problem.undecided
    assert len(workers._idle) == 1
    await workers.aclose()
    here = [one for one in caplog.records if one.thread == threading.get_ident()]
    assert not here, "a file watch that was not ended would meet the next one"


@pytest.mark.slow
async def test_an_idle_worker_exits() -> None:
    workers = WorkerPool(idle=0.1)
    checker = checker_for(RUNAWAY, Limits())
    assert await checker.problem("a" * 64, workers, 5.0) is None
    (idle,) = workers._idle
    while not idle._ended:
        await anyio.sleep(0.01)
    assert await checker.problem("a" * 64, workers, 5.0) is None
    assert workers._idle != [idle]
    await workers.aclose()


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A worker whose parent does nothing for it."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", worker._code()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_worker_left_alone_with_a_runaway_is_ended_by_the_kernel() -> None:
    question = {"id": 1, "has_value": True, "forget": False, "seconds": 0.3, "schema": RUNAWAY}
    with child() as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(worker._frames(question, NEVER_ENDS)))
        process.stdin.flush()
        assert process.wait(60) == -signal.SIGALRM


def test_a_worker_whose_parent_has_ended_ends_too() -> None:
    with child() as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


async def test_without_an_interpreter_there_is_no_verdict_and_no_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await verdict(RUNAWAY, "a") is None  # from here on the schema is known to be sound
    checker = checker_for(RUNAWAY, Limits())
    for executable in ("", "/nowhere/python"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            problem = await checker.problem("a" * 64, WorkerPool(), 5.0)
        assert "worker process" in str(problem)
    monkeypatch.setattr(sys, "frozen", True, raising=False)  # then the executable is the host
    problem = await checker.problem("a" * 64, WorkerPool(), 5.0)
    assert "worker process" in str(problem)


async def test_a_host_deep_in_its_own_stack_gets_the_same_verdict() -> None:
    tree = {"type": "object", "properties": {"k": {"$ref": "#"}}, "multipleOf": 1}
    value: Any = {}
    for _ in range(20):
        value = {"k": value}
    workers = WorkerPool()
    checker = checker_for(tree, Limits())
    assert await checker.problem(value, workers, 5.0) is None
    assert not workers._idle
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 70)
    try:
        problem = await checker.problem(value, workers, 5.0)
    finally:
        sys.setrecursionlimit(limit)
    assert problem is None
    assert workers._idle
    await workers.aclose()


@pytest.mark.slow
@examples(100)
@given(VALUES)
def test_a_value_is_the_same_after_being_taken_to_pieces(value: Any) -> None:
    big = {"a": [value] * 300, "b": {str(i): [value] * 40 for i in range(300)}, "c": value}
    assert _put_together(_pieces(big)) == big


def test_a_value_taken_to_the_smallest_pieces_is_put_together_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_PIECE_VALUES", 1)
    monkeypatch.setattr(worker, "_SLICE_ITEMS", 2)
    value = {"a": [[1, [2, 3, [4], {}]], {"b": [5, 6, []]}], "c": {"d": None, "e": "f"}}
    assert _put_together(_pieces(value)) == value


def test_no_piece_of_a_value_stops_the_loop_for_long() -> None:
    big = {"a": [[0] * 50_000, {str(i): i for i in range(50_000)}], "b": [[1, 2]] * 20_000}
    assert all([has_at_most(piece, worker._PIECE_VALUES + 8) for piece in map(list, _pieces(big))])


def _put_together(pieces: Any) -> Any:
    import io
    import marshal

    from mcp_client.validation.engine import _value

    frames = [marshal.dumps(piece) for piece in pieces]
    return _value(io.BytesIO(b"".join(len(f).to_bytes(4, "big") + f for f in frames)))


def test_counting_values_stops_when_there_are_too_many() -> None:
    assert has_at_most({"a": [1, 2]}, 4)
    assert not has_at_most({"a": [1, 2]}, 3)
    assert not has_at_most([[0] * 10] * 10, 50)
