"""The page of what is defended, in the docstring of ``runtime/limits.py``, is complete and true."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcp_client.runtime import limits
from mcp_client.runtime.limits import Limits, Timeouts

TESTS = Path(__file__).parents[1]
PAGE = limits.__doc__ or ""
NAMED = re.compile(r"(\w+/\w+\.py)::(\w+)$", re.MULTILINE)
ROW = re.compile(
    r"^    (Limits|Timeouts)\.(\w+) +(\S+(?: \w+)?) +(\w+/\w+\.py)::(\w+)$", re.MULTILINE
)
ROWS = {(row[1], row[2]): row for row in ROW.finditer(PAGE)}


def _shown(kind: str, value: Any) -> str:
    if value is None:
        return "None"
    if kind == "Timeouts":
        return f"{value:,.0f} s"
    for unit, size in (("MiB", 1024**2), ("KiB", 1024)):
        if value % size == 0 and value >= 64 * 1024:
            return f"{value // size} {unit}"
    return f"{value:,}"


@cache
def _tests_of(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize("kind", [Limits, Timeouts], ids=["limits", "timeouts"])
def test_each_field_is_on_the_page_with_its_default(kind: type[Any]) -> None:
    for field in fields(kind):
        row = ROWS.get((kind.__name__, field.name))
        assert row is not None, f"{kind.__name__}.{field.name} is not on the page"
        assert row[3] == _shown(kind.__name__, field.default), row[0]


def test_the_page_has_no_row_of_a_field_that_is_gone() -> None:
    known = {(kind.__name__, field.name) for kind in (Limits, Timeouts) for field in fields(kind)}
    assert set(ROWS) <= known


@pytest.mark.slow
def test_each_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > len(ROWS)
    missing = [f"{path}::{name}" for path, name in named if name not in _tests_of(path)]
    assert not missing, missing
