"""A frozen dataclass of ours is as ``dataclasses`` makes one."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from mcp_client import Limits, Tool, ToolCall, ToolResult
from mcp_client.content import TextContent
from mcp_client.runtime.frozen import frozen_dataclass

TOOL = Tool("echo", "memory", False, {"name": "echo", "inputSchema": {}})
CALL = {"id": "1", "server": "memory", "tool": TOOL, "arguments_json": '{"a":1}', "meta_json": None}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (TextContent, {"text": "a", "raw": {}}),
        (Tool, {"name": "a", "server": "s", "trusted": True, "_definition": {}}),
        (ToolCall, {**CALL, "hints": TOOL.hints, "findings": (), "generation": 1}),
        (ToolResult, {"content": (), "structured_content": {"a": 1}, "is_error": False}),
    ],
)
def test_a_created_object_is_frozen_and_can_be_copied(
    kind: type[Any], arguments: dict[str, Any]
) -> None:
    one = kind(**arguments)
    assert type(one) is kind
    for name in [each.name for each in dataclasses.fields(kind)]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(one, name)
    for other in (kind(**arguments), replace(one), copy.copy(one), pickle.loads(pickle.dumps(one))):
        assert type(other) is kind
        assert other == one


class Plain:
    """A class with fields of every kind, before a decorator makes a dataclass of it."""

    passed: Any
    hidden: Any = field(default=1, repr=False)
    beside: Any = field(default=2, compare=False)
    unhashed: Any = field(default_factory=list, hash=False)
    derived: Any = field(default=None, init=False)
    named: Any = field(default=3, kw_only=True)
    kind: ClassVar[str] = "plain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", ("derived from", self.passed))


class Bare:
    """A class without a field."""


class Alone:
    """A class with one field."""

    only: Any


class Particular:
    """A class with methods of its own."""

    a: int
    b: int = 0

    def __repr__(self) -> str:
        return "particular"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def copied(plain: type[Any]) -> Any:
    members = {name: value for name, value in vars(plain).items() if name[:7] != "__dict_"}
    members.pop("__weakref__", None)
    return type(plain.__name__, (), members)


def outcome(function: Callable[[], Any]) -> Any:
    """What it returns, or the type and the text of what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


CASES: list[tuple[type[Any], tuple[Any, ...], dict[str, Any]]] = [
    (Plain, (1,), {}),
    (Plain, (1, 2, 3), {"named": 4}),
    (Plain, (1,), {"unhashed": [1], "hidden": 0}),
    (Plain, ([],), {}),
    (Plain, (), {}),
    (Plain, (1, 2, 3, [4], 5), {}),
    (Plain, (1,), {"derived": 2}),
    (Plain, (1,), {"other": 2}),
    (Bare, (), {}),
    (Alone, ("one",), {}),
    (Alone, ((1, "two"),), {}),
    (Particular, (1,), {}),
]


@pytest.mark.parametrize(("plain", "arguments", "named"), CASES)
def test_a_frozen_dataclass_does_what_the_standard_one_does(
    plain: type[Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    standard: Any = dataclass(frozen=True, slots=True)(copied(plain))
    quick: Any = frozen_dataclass(copied(plain))
    one = outcome(partial(standard, *arguments, **named))
    other = outcome(partial(quick, *arguments, **named))
    if type(one) is tuple:
        assert one == other
        return
    ways: list[Callable[[Any], Any]] = [
        repr,
        hash,
        dataclasses.astuple,
        lambda it: it == copy.copy(it),
        lambda it: it == replace(it),
        lambda it: it == type(it)(*arguments, **named),
        lambda it: it == 1,
        lambda it: it != object(),
        lambda it: it.passed,
        lambda it: it.__dict__,
    ]
    for way in ways:
        assert outcome(partial(way, one)) == outcome(partial(way, other))
    for name in [*(each.name for each in dataclasses.fields(quick)), "unknown"]:
        refusal = dataclasses.FrozenInstanceError
        assert outcome(partial(setattr, other, name, 1)) == (
            refusal,
            f"cannot assign to field {name!r}",
        )
        assert outcome(partial(delattr, other, name)) == (
            refusal,
            f"cannot delete field {name!r}",
        )


@pytest.mark.parametrize("plain", [Plain, Bare, Alone, Particular])
def test_a_frozen_dataclass_is_described_as_the_standard_one(plain: type[Any]) -> None:
    standard = dataclass(frozen=True, slots=True)(copied(plain))
    quick = frozen_dataclass(copied(plain))
    assert str(inspect.signature(quick)) == str(inspect.signature(standard))
    assert quick.__match_args__ == standard.__match_args__
    assert getattr(quick, "__slots__", None) == getattr(standard, "__slots__", None)
    assert str(quick.__dataclass_params__) == str(standard.__dataclass_params__)
    assert quick.__doc__ == standard.__doc__
    assert quick.__init__.__qualname__ == standard.__init__.__qualname__
    names = [each.name for each in dataclasses.fields(standard)]
    assert [each.name for each in dataclasses.fields(quick)] == names


def test_it_makes_up_no_documentation() -> None:
    class Undocumented:
        a: int

    assert frozen_dataclass(Undocumented).__doc__ is None


def test_fields_that_are_not_compared_do_not_count_in_equality() -> None:
    quick = frozen_dataclass(copied(Plain))
    assert quick(1, beside=3) == quick(1, beside=4)
    assert hash(quick((), beside=3, unhashed=[1])) == hash(quick((), beside=4, unhashed=[2]))
    assert quick(1, unhashed=[1]) != quick(1, unhashed=[2])


def test_a_value_that_contains_itself_is_shown() -> None:
    quick = frozen_dataclass(copied(Alone))
    loop = quick(None)
    object.__setattr__(loop, "only", loop)
    assert repr(loop) == "Alone(only=...)"


def test_a_public_class_can_be_copied_pickled_and_inherited_from() -> None:
    limits = dataclasses.replace(Limits(), depth=7)
    assert pickle.loads(pickle.dumps(limits)) == limits
    assert copy.deepcopy(limits) == limits

    @dataclass(frozen=True)
    class Wider(Limits):
        more: int = 1

    assert Wider(depth=3, more=2).depth == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        Wider().more = 3  # type: ignore[misc]

    class Open(Limits):
        """Of an ordinary class, only the fields are protected."""

    opened: Any = Open()
    opened.note = "a"
    assert opened.note == "a"
    del opened.note
    with pytest.raises(dataclasses.FrozenInstanceError):
        opened.depth = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        del opened.depth


def test_an_object_is_frozen_also_if_its_initializer_fails() -> None:
    limits = Limits()
    with pytest.raises(TypeError):
        Limits.__init__(limits, unknown=1)  # type: ignore[call-arg]
    assert type(limits) is Limits
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.depth = 1  # type: ignore[misc]
