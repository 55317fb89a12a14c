"""``help()`` of what is public describes every field, in the words of this package."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pydoc
from functools import cached_property
from typing import Any

import pytest

import mcp_client
from mcp_client import ServerConfig, StdioServer, ToolCall, ToolResult
from mcp_client.approval import PendingApproval, Remember

ROOMS = ("approval", "audit", "auth", "config", "content", "extensions", "handlers", "transports")
OF_PYTHON = ("Alias for field number", "Represent a PEP 604", "PEP 604 union", "Built-in mutable")


def classes() -> dict[str, type]:
    found = dict[str, type]()
    for room in (mcp_client, *(importlib.import_module(f"mcp_client.{name}") for name in ROOMS)):
        for name in getattr(room, "__all__", ()):
            value = getattr(room, name)
            if isinstance(value, type) and value.__module__.startswith("mcp_client"):
                found[name] = value
    return found


def help_of(cls: Any) -> str:
    renderer: Any = vars(pydoc)["plaintext"]
    return pydoc.render_doc(cls, renderer=renderer)


def text_of(cls: type, field: str) -> str | None:
    for one in cls.__mro__:
        slots: Any = vars(one).get("__slots__")
        if isinstance(slots, dict) and field in slots:
            return str(slots[field])
    found = getattr(cls, field, None)
    return found.__doc__ if isinstance(found, property | cached_property) else None


def fields_without_a_text(cls: Any) -> set[str]:
    names = {one.name for one in dataclasses.fields(cls) if one.name[0] != "_"}
    whole = inspect.getdoc(cls) or ""  # since Python 3.13 the compiler takes the margin off
    named = {name for name in names if f"``{name}" in whole or f"\n    {name}: " in whole}
    return {name for name in names - named if not text_of(cls, name)}


@pytest.mark.one_backend
class TestHelp:
    @pytest.mark.parametrize("name", sorted(classes()))
    def test_has_a_text_for_each_field_and_none_of_pythons(self, name: str) -> None:
        cls = classes()[name]
        displayed = help_of(cls)
        assert [words for words in OF_PYTHON if words in displayed] == []
        if dataclasses.is_dataclass(cls):
            assert fields_without_a_text(cls) == set()

    @pytest.mark.parametrize("cls", [PendingApproval, ServerConfig, ToolResult, ToolCall])
    def test_shows_the_text_below_a_field(self, cls: Any) -> None:
        displayed = help_of(cls)
        first = dataclasses.fields(cls)[0].name
        assert vars(cls)["__slots__"][first] in " ".join(displayed.replace("|", " ").split())


@pytest.mark.one_backend
def test_objects_of_a_described_class_are_copied_and_pickled_as_before() -> None:
    values: list[Any] = [Remember("session"), ServerConfig(StdioServer("x"))]
    for one in values:
        for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert copied == one
