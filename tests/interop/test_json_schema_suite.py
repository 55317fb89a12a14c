"""The official JSON-Schema-Test-Suite through our wrapper: the verdicts of ``jsonschema`` alone.

Fetched by ``python tests/interop/fetch_suite.py``. Every schema is judged three ways: as a caller
would have it judged, by ``jsonschema`` in this process, and in the worker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

from mcp_client.errors import InvalidSchema
from mcp_client.runtime.limits import Limits
from mcp_client.validation.checker import Checker, checker_for
from mcp_client.validation.usable_schema import usable_schema
from mcp_client.validation.worker_pool import WorkerPool
from tests.interop.fetch_suite import SUITE

DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
LEAST = {"draft7": 850, "draft2019-09": 1_100, "draft2020-12": 1_150}
"""Tests that must have been judged, lest an empty suite pass."""


def groups(draft: str) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    for file in sorted((SUITE / draft).glob("*.json")):
        for group in json.loads(file.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema.setdefault("$schema", DRAFTS[draft])
            yield f"{file.name}: {group['description']}", schema, group["tests"]


def elsewhere(schema: Any) -> bool:
    """Whether a schema needs a document that the suite serves over the network."""
    return "localhost:1234" in json.dumps(schema)


def alone(schema: Any, value: Any) -> bool:
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    cls: Any = validator_for(schema, default=jsonschema.Draft202012Validator)
    registry: Any = EMPTY_REGISTRY
    verdict: bool = cls(schema, registry=registry).is_valid(value)
    return verdict


async def ours(checker: Checker, value: Any, workers: WorkerPool) -> bool:
    return checker.is_known_valid(value) or await checker.problem(value, workers, 20.0) is None


async def in_worker(schema: Any, value: Any, id: int, workers: WorkerPool) -> bool:
    response = await workers.ask(id, schema, value, True, 20.0)
    assert "unusable" not in response, response
    return "problems" not in response


@pytest.mark.interop
@pytest.mark.needs("the JSON-Schema-Test-Suite")
@pytest.mark.parametrize("draft", DRAFTS)
async def test_every_schema_of_the_suite_gets_the_verdict_of_jsonschema_alone(draft: str) -> None:
    workers = WorkerPool()
    judged, wrong, refused = 0, [], set()
    for number, (name, schema, tests) in enumerate(groups(draft)):
        for test in tests:
            value = test["data"]
            try:
                verdict = await ours(checker_for(schema, Limits()), value, workers)
            except InvalidSchema as error:
                refused.add(name)
                if not elsewhere(schema):
                    wrong.append(f"{name}: {error}")
                continue
            judged += 1
            other = await in_worker(schema, value, -number - 1, workers)
            if not verdict == other == alone(schema, value):
                wrong.append(f"{name}: {test['description']}")
    await workers.aclose()
    assert not wrong, "\n".join(wrong)
    assert judged >= LEAST[draft], judged
    assert len(refused) < 40, refused


@pytest.mark.interop
@pytest.mark.needs("the JSON-Schema-Test-Suite")
@pytest.mark.parametrize("draft", DRAFTS)
def test_of_every_schema_of_the_suite_all_can_be_judged_and_means_the_same(draft: str) -> None:
    judged, wrong = 0, []
    for name, schema, tests in groups(draft):
        if elsewhere(schema):
            continue
        usable = usable_schema(schema)
        if usable.skipped or usable.mixed or usable.slips:
            wrong.append(f"{name}: {usable}")
        for test in tests:
            judged += 1
            if alone(usable.schema, test["data"]) is not alone(schema, test["data"]):
                wrong.append(f"{name}: {test['description']}")
    assert not wrong, "\n".join(wrong)
    assert judged >= LEAST[draft], judged


@pytest.mark.interop
@pytest.mark.needs("the JSON-Schema-Test-Suite")
def test_the_verdicts_of_jsonschema_are_those_that_the_suite_expects() -> None:
    fetched = json.loads((SUITE / "source.json").read_text())["version"]
    installed = metadata.version("jsonschema")
    if installed != fetched:
        pytest.skip(f"the suite is that of jsonschema {fetched}, installed is {installed}")
    wrong = [
        f"{draft}/{name}: {test['description']}"
        for draft in DRAFTS
        for name, schema, tests in groups(draft)
        if not elsewhere(schema)
        for test in tests
        if alone(schema, test["data"]) is not test["valid"]
    ]
    assert not wrong, "\n".join(wrong)
