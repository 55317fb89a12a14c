"""Whatever JSON a server sends as a schema or as a value, only ``InvalidSchema`` is raised."""

from __future__ import annotations

from typing import Any

import anyio
import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from mcp_client import Limits
from mcp_client.errors import InvalidSchema
from mcp_client.protocol.headers import InvalidHeaderParam, header_params_of
from mcp_client.protocol.json_paths import walk
from mcp_client.validation.checker import checker_for
from mcp_client.validation.schema_shape import listed_schema_fault
from mcp_client.validation.worker_pool import WorkerPool
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend

KEYWORDS = [
    *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef"),
    *("$ref", "$schema", "$vocabulary", "additionalItems", "additionalProperties", "allOf"),
    *("anyOf", "const", "contains", "contentSchema", "default", "definitions", "dependencies"),
    *("dependentRequired", "dependentSchemas", "deprecated", "description", "else", "enum"),
    *("examples", "exclusiveMaximum", "exclusiveMinimum", "extends", "format", "id", "if"),
    *("items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum"),
    *("minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not"),
    *("oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames"),
    *("required", "then", "title", "type", "unevaluatedItems", "unevaluatedProperties"),
    *("uniqueItems", "x-mcp-header", "a", "b"),
]
TEXTS = st.sampled_from(
    [
        *("", "a", "b", "string", "object", "array", "integer", "null", "#", "#/", "#/a", "#a"),
        *("#/$defs/a", "#/definitions/a", "#/properties", "http://example.com/", "[", "(a+)+$"),
        *("[[:alpha:]]", "a--b", "^[a-z]+$", "\\", "\ud800", "urn:x", "~2", "%zz", "#/%25"),
        "http://json-schema.org/draft-03/schema#",
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([0, 1, -1, 1.0, 10**400, -(10**4_299)])
    | TEXTS
    | st.text(max_size=3)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=2)
    ),
    max_leaves=12,
)
BUDGET = 1.0


async def checked(schema: Any, value: Any) -> str | None:
    """``"valid"``, ``"invalid"``, ``"unusable"``, or None where there is no verdict."""
    workers = WorkerPool()
    try:
        with anyio.fail_after(60):
            checker = checker_for(schema, Limits())
            await checker.prepare(workers, BUDGET)
            if checker.is_known_valid(value):
                return "valid"
            problem = await checker.problem(value, workers, BUDGET)
            if problem is None:
                return "valid"
            assert len(str(problem)) < 2_000
            return None if problem.undecided else "invalid"
    except InvalidSchema:
        return "unusable"
    finally:
        await workers.aclose()


@pytest.mark.slow
@given(schema=JSON, value=JSON)
@example(schema={"additionalProperties": False, "properties": None}, value={})
@example(schema={"additionalProperties": {}, "properties": [[]]}, value={"a": 1})
@example(schema={"pattern": "[[:alpha:]]"}, value="a")
@example(schema={"$ref": "#"}, value=1)
@example(schema={"enum": [10**4_299]}, value=10**4_299)
@examples(120)
def test_any_json_gives_a_verdict_or_invalid_schema(schema: Any, value: Any) -> None:
    assert anyio.run(checked, schema, value) in ("valid", "invalid", "unusable", None)


@given(schema=JSON)
@examples(400)
def test_any_json_in_a_list_is_looked_through_without_an_exception(schema: Any) -> None:
    listed_schema_fault(schema, Limits(), [])
    assert all(type(part) is dict or type(part) is list for part, *_ in walk(schema))
    try:
        header_params_of(schema)
    except InvalidHeaderParam:
        pass


@pytest.mark.slow
@given(schema=JSON, value=JSON)
@examples(1_000)
def test_no_verdict_without_the_worker_differs_from_that_of_jsonschema(
    schema: Any, value: Any
) -> None:
    async def in_place() -> str:
        class NoWorkers(WorkerPool):
            async def ask(self, *args: Any) -> Any:
                raise NotInPlace

        checker = checker_for(schema, Limits())
        if checker.is_known_valid(value):
            return "valid"
        problem = await checker.problem(value, NoWorkers(), BUDGET)
        return "valid" if problem is None else "invalid"

    try:
        output = anyio.run(in_place)
    except (InvalidSchema, NotInPlace):
        return
    judge: Any = jsonschema.Draft202012Validator
    if type(schema) is dict:
        judge = validator_for(schema, default=judge)
    judge.check_schema(schema)
    try:
        valid = judge(schema).is_valid(value)
    except OverflowError:
        valid = False  # a number beyond any that can be compared
    assert output == ("valid" if valid else "invalid")


class NotInPlace(Exception):
    pass


@pytest.mark.parametrize(
    "pattern", ["[[:alpha:]]", "[a--b]", "[a&&b]", "[a||b]", "[a~~b]", "a(?i)b", "[--]"]
)
@pytest.mark.filterwarnings("error")
async def test_a_pattern_that_python_warns_of_raises_no_warning(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": pattern}}}
    assert listed_schema_fault(schema, Limits(), []) == ""
    assert await checked(schema, {"a": "a"}) in ("valid", "invalid", "unusable")
    named = {"patternProperties": {pattern: {"type": "integer"}}}
    assert await checked(named, {"a": "x"}) in ("valid", "invalid", "unusable")
