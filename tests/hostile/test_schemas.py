"""Schemas made to hurt: each settles within twice its budget, the loop runs on, memory stays."""

from __future__ import annotations

import resource
import sys
from typing import Any

import anyio
import pytest

from mcp_client import Limits, MemoryServer, connect
from mcp_client.errors import InvalidSchema
from mcp_client.protocol.capabilities import LATEST_STATELESS
from mcp_client.validation.checker import Problem, checker_for, checker_of
from mcp_client.validation.usable_schema import usable_schema
from mcp_client.validation.worker_pool import WorkerPool
from tests.support.timing import loop_lag

pytestmark = pytest.mark.one_backend

BUDGET = 0.25
STARTING = 60.0
"""Starting a worker has a clock of its own; this is generous for a busy machine."""
LAG = 16.0
"""Millions of trivial steps: some 0.6 seconds, four times what the slowest of these takes."""
MEMORY = 64 * 1024
"""KiB this process may grow while one schema is judged."""

A = "a" * 40_000 + "!"


def nest(keyword: str, depth: int, inner: Any, times: int = 1) -> Any:
    for _ in range(depth):
        part = [inner] * times if keyword in ("allOf", "anyOf", "oneOf", "prefixItems") else inner
        inner = {keyword: part}
    return inner


def doubling(keyword: str, levels: int, last: Any) -> Any:
    """A nest that doubles at each level, small because each level is referred to."""
    defs: dict[str, Any] = {
        f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": last}}


def deep(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def long_names(tag: int) -> list[str]:
    return [f"name{tag}{number}" for number in range(350)]


DYNAMIC = {
    "$id": "urn:tree",
    "$dynamicAnchor": "node",
    "anyOf": [{"items": {"$dynamicRef": "#node"}}, {"items": {"$dynamicRef": "#node"}}],
    "type": "array",
}
UNEVALUATED: Any = {"properties": {"a": True}}
for _ in range(20):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": True}

CORPUS: dict[str, tuple[Any, Any]] = {
    "a nested repeat": ({"pattern": "^(a+)+$"}, A),
    "alternatives that overlap": ({"pattern": "^(a|aa)+$"}, A),
    "alternatives that are the same": ({"pattern": "^(a|a)*$"}, "a" * 60 + "!"),
    "a repeat of what may be empty": ({"pattern": "^(a*)*$"}, "a" * 60 + "!"),
    "counted repeats": ({"pattern": "^((a{1,9}){1,9}){1,9}$"}, "a" * 200 + "!"),
    "optional before required": ({"pattern": "^" + "a?" * 40 + "a" * 40 + "$"}, "a" * 39),
    "a back-reference": ({"pattern": r"^(.*)(.*)(.*)\1\2\3x$"}, "a" * 3_000),
    "a look-ahead": ({"pattern": "^(?=(a+)+$).*$"}, A),
    "a look-behind of plain size": ({"pattern": "(?<=a)(a+)+$"}, A),
    "stars in a row": ({"pattern": ".*.*.*.*.*.*=x"}, "a" * 5_000),
    "a pattern not anchored": ({"pattern": "a*a*b"}, "a" * 30_000),
    "a name by a nested repeat": ({"patternProperties": {"^(a+)+$": {}}}, {A: 1}),
    "many names by stars": (
        {"patternProperties": {"a*" * i + "b": {} for i in range(1, 9)}},
        {"a" * 500 + str(i): 1 for i in range(100)},
    ),
    "a pattern for property names": ({"propertyNames": {"pattern": "^(a+)+$"}}, {A: 1}),
    "a pattern under contains": ({"contains": {"pattern": "^(a|a)*$"}}, ["a" * 50 + "!"] * 50),
    "a set as large as Unicode": ({"pattern": "(?i)" + "[\u0001-\U0010fffe]" * 80}, "a"),
    "many sets": (
        {"allOf": [{"pattern": "[\u0100-\ufffe]" * 80 + str(i)} for i in range(50)]},
        "a",
    ),
    "a schema hidden in a default": (
        {"default": {"pattern": "^(a+)+$"}, "$ref": "#/default"},
        A,
    ),
    "doubling by allOf": (doubling("allOf", 40, {"type": "string"}), "x"),
    "doubling by anyOf": (doubling("anyOf", 40, {"type": "string"}), 1),
    "doubling by oneOf": (doubling("oneOf", 40, {"type": "string"}), 1),
    "doubling down the value": (
        {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}], "type": "array"},
        deep(40),
    ),
    "nested composition": (nest("anyOf", 14, {"type": "string"}, 1), 1),
    "wide composition": ({"anyOf": [{"required": [f"k{i}"]} for i in range(4_000)]}, {"a": A}),
    "not upon not": (nest("not", 50, {"type": "string"}), 1),
    "itself": ({"$ref": "#"}, 1),
    "two that are each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        1,
    ),
    "itself under a combinator": ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, 1),
    "itself under if": ({"if": {"$ref": "#"}, "then": {}}, 1),
    "itself under not": ({"not": {"$ref": "#"}}, 1),
    "a dynamic reference to itself": ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, 1),
    "a dynamic reference that doubles": (DYNAMIC, deep(40)),
    "a recursive reference to itself": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "$recursiveRef": "#",
        },
        1,
    ),
    "unevaluated properties in a nest": (UNEVALUATED, {"b": 1}),
    "a schema too deep": (nest("items", 100_000, {}), 1),
    "a schema just deep enough": (nest("items", 62, {"type": "string"}), deep(62)),
    "a value as deep as the wire allows": (
        {"items": {"$ref": "#"}, "not": {"type": "string"}},
        deep(126),
    ),
    "an enum too large": ({"enum": list(range(1_000_000))}, -1),
    "an enum large enough": ({"enum": [[i] for i in range(9_999)]}, [[-1]] * 100),
    "an enum against many": ({"items": {"enum": [[i] for i in range(9_000)]}}, [[-1]] * 5_000),
    "a schema of many": ({"properties": {str(i): {"minimum": i} for i in range(4_900)}}, {"7": 1}),
    "too many references": ({"allOf": [{"$ref": "#/$defs/a"}] * 2_000, "$defs": {"a": {}}}, 1),
    "unique among unlike": (
        {"uniqueItems": True},
        [{"a": i} if i % 2 else [i] for i in range(20_000)],
    ),
    "unlike in the schema itself": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "enum": [["x" if i % 2 else i] for i in range(9_000)],
        },
        1,
    ),
    "a huge value that breaks everywhere": ({"items": {"type": "string"}}, [0] * 1_000_000),
    "a huge value under alternatives": (
        {"anyOf": [{"items": {"type": "string"}}] * 50},
        [[0] * 100] * 5_000,
    ),
    "a huge text": ({"pattern": "^(a+)+$"}, "a" * 8_000_000 + "!"),
    "numbers as long as they come": ({"items": {"multipleOf": 0.001}}, [10**4200] * 2_000),
    "names that depend on a name": (
        {"items": {"anyOf": [{"dependentRequired": {"a": long_names(i)}} for i in range(8)]}},
        [{"a": 1}] * 100,
    ),
    "names that depend on a name, in draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": {"anyOf": [{"dependencies": {"a": long_names(i)}} for i in range(8)]},
        },
        [{"a": 1}] * 100,
    ),
    "names required under alternatives": (
        {"items": {"anyOf": [{"required": long_names(i)} for i in range(8)]}},
        [{}] * 100,
    ),
    "a reference to the network": ({"$ref": "http://127.0.0.1:9/"}, 1),
    "a pattern that does not compile": ({"pattern": "(" * 1_900}, "a"),
    "a repeat beyond counting": ({"pattern": "a{99999999999}"}, "a"),
}


async def settle(schema: Any, value: Any, workers: WorkerPool) -> Problem | str | None:
    try:
        checker = checker_of(schema, usable_schema(schema), Limits())
        if checker.is_known_valid(value):
            return None
        return await checker.problem(value, workers, BUDGET)
    except InvalidSchema as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPUS)
async def test_a_hostile_schema_settles_and_the_loop_runs_on(name: str) -> None:
    schema, value = CORPUS[name]
    workers = WorkerPool()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with loop_lag() as lag:
        with anyio.fail_after(2 * BUDGET + STARTING):
            await settle(schema, value, workers)
    await workers.aclose()
    assert lag.worst < LAG
    if sys.platform == "linux":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.slow
async def test_no_pattern_is_compiled_for_a_list() -> None:
    # Each takes the better part of a second to compile.
    slow = "(?i)" + "[\u0101-\u0200\u0300-\u0400\u0500-\u0600\u0700-\ufffe]" * 30
    many = {f"p{i}": {"pattern": f"^[a-z]{{2,9}}-{i}[0-9]*\\.[^@]{{3}}$"} for i in range(900)}
    tools = [
        {"name": f"t{i}", "inputSchema": {"properties": {"a": {"pattern": slow + str(i)}, **many}}}
        for i in range(200)
    ]

    def handle(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": [LATEST_STATELESS], "capabilities": {"tools": {}}}
            case "tools/list":
                return {"tools": tools}
        return NotImplemented

    async with connect(MemoryServer(handle)) as session:
        with anyio.fail_after(120):
            assert len(await session.list_tools()) == 200


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CORPUS) >= 25


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's memory")
async def test_a_worker_that_wants_too_much_memory_gives_up_and_not_the_host() -> None:
    workers = WorkerPool()
    checker = checker_for(
        {"anyOf": [{"type": "integer", "title": str(i)} for i in range(3_000)]}, Limits()
    )
    problem = await checker.problem("x" * 1_000_000, workers, 20.0)
    assert "too much memory" in str(problem)
    assert await checker.problem(1, workers, 20.0) is None
    await workers.aclose()
