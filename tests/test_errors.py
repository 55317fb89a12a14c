"""One tree: the drawing at its head is true."""

from __future__ import annotations

import ast
import copy
import functools
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client import BrokenPromise, errors
from mcp_client.errors import (
    CallDenied,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    InvalidResult,
    McpError,
    NotSent,
    OutcomeUnknown,
    ServerError,
    StateError,
    ToolFailed,
)
from tests.room_stubs import public_names

CLASSES: list[type[McpError]] = [
    found for name in errors.__all__ if isinstance(found := getattr(errors, name), type)
]
NEEDS: dict[str, dict[str, Any]] = {
    "CallTimeout": {"clock": "idle"},
    "ServerError": {"code": -32000},
    "UrlElicitationRequired": {"code": -32042},
    "ToolFailed": {"result": None},
}
EACH = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def made(cls: type[McpError], message: str = "what happened", **rest: Any) -> McpError:
    return cls(message, **NEEDS.get(cls.__name__, {}), **rest)


def drawn() -> dict[str, tuple[str | None, set[str]]]:
    """Each error of the tree at the head of the module, with the one above it and its fields."""
    found: dict[str, tuple[str | None, set[str]]] = {}
    above: list[str] = []
    tree, _, _ = (errors.__doc__ or "").partition("\n\nIf ")
    for line in tree.splitlines():
        branch = re.match(r"([│├└─ ]*)([A-Z]\w+)", line)
        if branch and (branch[1] or branch[2] == "McpError"):
            depth = len(branch[1]) // 4
            above[depth:] = [branch[2]]
            found[branch[2]] = (above[depth - 1] if depth else None, set())
        if above:
            found[above[-1]][1].update(re.findall(r"(?<!\w)\.(\w+)", line))
    return found


@EACH
def test_an_error_is_in_the_tree_where_the_head_of_the_module_draws_it(
    cls: type[McpError],
) -> None:
    base, fields = drawn()[cls.__name__]
    assert base == (None if cls is McpError else cls.__bases__[0].__name__)
    own = set(vars(cls).get("__annotations__", ()))
    assert fields == (own | {"message"} if cls is McpError else own)


def test_the_tree_draws_every_error_and_no_other() -> None:
    assert set(drawn()) == {each.__name__ for each in CLASSES}


ALWAYS_STATED: dict[str, set[str]] = {
    "AuditError": {"path"},
    "CallCancelled": {"reason", "server"},
    "CallDenied": {"reason"},
    "CallPending": {"ticket", "retryable"},
    "CallTimeout": {"clock"},
    "ConnectionLost": {"why", "server"},
    "InvalidResult": {"result"},
    "NotPending": {"ids"},  # a decision in another process has no known reason
    "OutcomeUnknown": {"server"},
    "ProtocolViolation": {"result"},
    "ServerError": {"server"},
    "SkillError": {"uri", "reason", "server"},
    "StartDenied": {"reason", "source", "server"},
    "ToolChanged": {"expected", "found", "server", "tool"},
    "ToolFailed": {"result", "server", "tool"},
    "Unanswered": {"result", "server"},
    "UrlElicitationRequired": {"elicitations", "code", "data", "server_message", "server"},
}
"""The fields that each place that makes such an error gives it."""


@functools.cache
def nodes() -> list[ast.AST]:
    """Of all files of the package."""
    files = Path(errors.__file__).parent.rglob("*.py")
    return [node for path in files for node in ast.walk(ast.parse(path.read_text()))]


def made_in_the_package() -> Iterator[tuple[str, set[str | None]]]:
    """Each call of an error's class by its name, and the fields given; None for ``**fields``."""
    for node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, {keyword.arg for keyword in node.keywords}


@pytest.mark.slow
def test_every_place_that_makes_an_error_states_what_was_promised_of_it() -> None:
    silent = [
        (name, fields)
        for name, passed in made_in_the_package()
        if None not in passed and (fields := ALWAYS_STATED.get(name, set()) - passed)
    ]
    assert silent == []


@pytest.mark.slow
def test_every_field_of_an_error_is_set_somewhere() -> None:
    passed: set[object] = set()
    for node in nodes():
        match node:
            case ast.keyword(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                passed.add(name)
            case ast.Dict(keys=keys):
                passed |= {key.value for key in keys if isinstance(key, ast.Constant)}
    assert {name for cls in CLASSES for name in vars(cls).get("__annotations__", ())} <= passed


@EACH
def test_an_error_is_public_and_documented(cls: type[McpError]) -> None:
    assert cls.__name__ in public_names()
    assert cls.__doc__


@EACH
def test_an_error_names_where_and_what(cls: type[McpError]) -> None:
    error = made(cls, server="weather", tool="get")
    assert str(error) == "weather/get: what happened"
    assert str(made(cls, server="weather")) == "weather: what happened"
    assert str(made(cls)) == "what happened"
    assert (error.server, error.tool) == ("weather", "get")
    assert error.retryable is (cls is StateError)
    assert made(cls, retryable=True).retryable


@EACH
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["copy", "pickle"],
)
def test_an_error_can_be_copied_and_carried_to_another_process(
    cls: type[McpError], duplicate: Any
) -> None:
    error = made(cls, server="weather", retryable=True)
    again = duplicate(error)
    assert type(again) is cls
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


@EACH
def test_every_error_answers_whether_anything_happened(cls: type[McpError]) -> None:
    calls = (NotSent, OutcomeUnknown, ServerError, BrokenPromise, ToolFailed)
    others = (errors.ConfigError, errors.AuditError, errors.NotPending, errors.SkillError)
    stages = (*calls, *others)
    assert cls is McpError or sum(issubclass(cls, stage) for stage in stages) == 1


@pytest.mark.parametrize("cls", [ConnectError, ConnectionLost])
def test_an_error_of_a_connection_shows_the_servers_last_words(cls: Any) -> None:
    tail = "\n".join(f"line {number}" for number in range(20))
    error = cls("it exited", server="weather", exit_code=3, stderr_tail=tail)
    assert error.exit_code == 3
    assert str(error).startswith("weather: it exited\n")
    assert "line 19" in str(error)
    assert "line 3\n    [8 more lines]\n    line 12\n" in str(error)
    assert error.stderr_tail == tail


def test_what_an_error_knows_is_in_its_attributes() -> None:
    assert CallTimeout("m", clock="total").clock == "total"
    assert CallDenied("m", reason="no").reason == "no"
    assert InvalidResult("m", path="/a", result=1).path == "/a"
    assert ServerError("m", code=7, data=[1]).data == [1]


@pytest.mark.parametrize("cls", [ConnectError, ConnectionLost])
def test_the_message_is_the_sentence_without_standard_error(cls: Any) -> None:
    error = cls("it exited", server="weather", stderr_tail="token=hunter2")
    assert error.message == "it exited"
    assert "hunter2" in str(error)


def test_an_error_without_its_sentence_is_shown_by_its_kind() -> None:
    error = CallDenied("no", server="desk", tool="delete")
    error.args = ()  # as some ways of carrying it elsewhere leave it
    assert str(error) == "desk/delete: CallDenied"


def test_an_error_that_was_attempted_several_times_states_how_often() -> None:
    error = ConnectError("it exited", server="weather", attempts=3)
    assert error.message == "it exited (3 attempts)"
    assert str(error) == "weather: it exited (3 attempts)"


@EACH
def test_a_field_that_an_error_does_not_have_is_refused(cls: type[McpError]) -> None:
    with pytest.raises(TypeError, match="'colour'"):
        made(cls, colour="red")


@EACH
def test_the_fields_of_an_error_have_defaults(cls: type[McpError]) -> None:
    error = cls("what happened")
    for field in (name for each in cls.__mro__ for name in vars(each).get("__annotations__", ())):
        getattr(error, field)


def test_a_state_that_cannot_be_used_now_sent_nothing_and_states_whether_it_is_busy() -> None:
    down, busy = StateError("down"), StateError("busy", busy=True)
    assert isinstance(down, NotSent)
    assert down.retryable
    assert (down.busy, busy.busy) == (False, True)
