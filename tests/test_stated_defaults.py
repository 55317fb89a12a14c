"""A default that README or a docstring states in words is the default that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Host
from mcp_client.adapters import model_tools as toolset_options
from mcp_client.adapters import toolset
from mcp_client.adapters.own_tools import STORED_BYTES
from mcp_client.catalog import definition
from mcp_client.catalog.definition import task_support_of
from mcp_client.code import interpreter
from mcp_client.connection.call_options import MAX_KEY_CHARS, CallOptions
from mcp_client.extensions import task_state
from mcp_client.runtime import limits
from mcp_client.runtime.limits import Limits, Timeouts
from mcp_client.state.calls import KEEP_CLAIM
from mcp_client.state.state import MemoryState, State
from mcp_client.transports import http_pool, stdio
from mcp_client.validation import Validation, engine
from tests.test_readme import TEXTS, prose

ROOT = Path(__file__).parent.parent
README = "\n".join(prose(page.read_text()) for page in TEXTS)
"""README and the guides without their programs, which may set what they like."""
DEFAULTS: dict[str, Any] = {"Timeouts": Timeouts(), "Limits": Limits()}
NUMBERS = {"a": 1, "an": 1, "one": 1, "ten": 10, "thirty": 30}
_DAY = 86_400
UNITS = {
    "ms": 0.001,
    "s": 1,
    "second": 1,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "day": _DAY,
    "week": 7 * _DAY,
}
UNITS |= {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "byte": 1, "character": 1, "call": 1}
AMOUNT = rf"(?:[\d,]+|{'|'.join(NUMBERS)}) (?:{'|'.join(UNITS)})s?\b"


def amount(text: str) -> float:
    """What an amount such as "64 MiB" or "thirty days" is, in bytes, seconds or pieces."""
    number, _, unit = text.partition(" ")
    factor = UNITS[unit if unit in UNITS else unit.removesuffix("s")] if unit else 1
    return (NUMBERS.get(number) or float(number.replace(",", ""))) * factor


def test_the_table_of_limits_in_the_guides_states_the_defaults() -> None:
    rows = [
        (row, [cell.strip() for cell in row.strip("|").split("|")])
        for row in re.findall(
            r"^\|[^|]*\|[^|]*\| `(?:Timeouts|Limits)\([^|]*\|$", README, re.MULTILINE
        )
    ]
    assert len(rows) >= 3
    for row, (_, stated, option) in rows:
        fields = [
            getattr(DEFAULTS[kind], name)
            for kind, names in re.findall(r"(Timeouts|Limits)\(([\w=, ]+)\)", option)
            for name in re.findall(r"(\w+)=", names)
        ]
        amounts, unit = list[float](), ""
        for each in reversed(stated.split(", ")):  # "30, 60 s": the unit is that of the next one
            number, _, own = each.partition(" ")
            unit = own or unit
            amounts.insert(0, amount(f"{number} {unit}"))
        assert amounts == fields, row


@cache
def docstrings() -> dict[str, list[str]]:
    """Every docstring of the package, those of fields included, by its file."""
    return {
        path.relative_to(ROOT / "mcp_client").as_posix(): [
            " ".join(node.value.value.split())
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ]
        for path in (ROOT / "mcp_client").rglob("*.py")
    }


def test_timeouts_and_limits_that_a_text_writes_with_numbers_alone_are_the_defaults() -> None:
    """``Limits(tools=100, ...)`` is an example, ``Timeouts(approval=3600)`` states a default."""
    texts = [("a guide", README)]
    texts += [(path, text) for path, all_of in docstrings().items() for text in all_of]
    wrong, found = [], 0
    for path, text in texts:
        for displayed, kind, values in re.findall(
            r"((Timeouts|Limits)\(((?:\w+=\d[\d_]*(?:\.\d+)?(?:, )?)+)\))", text
        ):
            for name, value in re.findall(r"(\w+)=([\d_.]+)", values):
                found += 1
                default = getattr(DEFAULTS[kind], name)
                if float(value) != default:
                    wrong.append(f"{path} has {displayed}, and the default of {name} is {default}")
    assert not wrong, wrong
    assert found >= 4


AMOUNTS: list[tuple[str | None, str, float]] = [
    (Timeouts.__doc__, r"compute for at most (.+?)\.", interpreter._TURN_SECONDS),
    (CallOptions.__doc__, r"name for this one call, at most (.+?)\.", MAX_KEY_CHARS),
    (Host.__init__.__doc__, r"waited for, up to (.+?) after", Timeouts().gather),
    (MemoryState.__doc__, r"for ``keep`` seconds, (.+?) by default", State.keep),
    (
        toolset_options.ToolsetOptions.__doc__,
        r"ascii=False\)\)``: (.+? characters),",
        toolset_options.BUDGET,
    ),
    (toolset_options.ToolsetOptions.__doc__, r"stored results, (.+?) by default", STORED_BYTES),
    (toolset.Toolset.resume.__doc__, r"expired \(after (.+?)\)", KEEP_CLAIM),
    (limits.__doc__, r"headers without end (.+?) redirects", http_pool._MAX_HEAD_BYTES),
    (limits.__doc__, r"memory of a schema check (.+?),", engine.MEMORY_BYTES),
    (limits.__doc__, r"a server never reads (.+?) an entry", stdio._MAX_BACKLOG_BYTES),
    (limits.__doc__, r"entry of a tool search (.+?) text", definition.MAX_TEXTS_CHARS),
    (limits.__doc__, r"polls of a task (.+?) apart", task_state._MIN_POLL_SECONDS),
]
"""A docstring, where it states an amount, and the amount in force."""


@pytest.mark.parametrize(("text", "pattern", "in_force"), AMOUNTS)
def test_an_amount_that_a_docstring_states_is_the_one_in_force(
    text: str | None, pattern: str, in_force: float
) -> None:
    stated = re.search(pattern, " ".join((text or "").split()))
    assert stated, "the docstring states it no longer: remove the row"
    assert amount(stated[1]) == in_force


WORDS: dict[tuple[str, str], Any] = {
    ("adapters/model_tools.py", '"auto", the default'): toolset_options.STRUCTURED,
    ("adapters/model_tools.py", '"cut", the default'): toolset_options.LARGE_RESULTS,
    ("catalog/tool.py", '"forbidden" (the default)'): task_support_of({}),
    ("validation/strictness.py", "None, the default"): Validation().arguments,
}
"""Where a docstring states that a word is the default, and the default in force."""


def test_a_word_that_a_docstring_calls_the_default_is_the_default() -> None:
    for (path, phrase), in_force in WORDS.items():
        assert phrase.startswith(str(in_force) if in_force is None else f'"{in_force}"'), path


def test_every_default_that_a_docstring_states_is_compared_here() -> None:
    stated = rf'(?:"\w+"|\bNone|\bTrue|\bFalse),? \(?the default\b\)?|{AMOUNT},? by default'
    compared = {phrase for _, phrase in WORDS} | {
        found[1] + " by default"
        for text, pattern, _ in AMOUNTS
        if (found := re.search(pattern, " ".join((text or "").split())))
    }
    wrong = [
        f"{path}: {phrase}"
        for path, texts in docstrings().items()
        for text in texts
        for phrase in re.findall(stated, text)
        if phrase not in compared
    ]
    assert not wrong, wrong
