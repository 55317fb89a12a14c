"""What a word of a command line may become: commands, options, tools, arguments, values.

Used by the shell of ``mcp-client shell`` and by the completion of bash, zsh and fish.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .words import parser

if TYPE_CHECKING:
    from ..catalog.tool import Tool

__all__ = ["Known", "commands", "following", "known_of", "option_words", "positionals"]

_MOST_VALUES = 50
_VALUES = {"--approve": ("ask", "deny", "web")}


@dataclass(frozen=True, slots=True)
class Known:
    """The names of a server's tools, prompts and resources."""

    tools: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Each tool's arguments, each with the values that its schema names."""
    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Each prompt's arguments."""
    resources: tuple[str, ...] = ()
    """URIs, and templates of them."""
    secret: frozenset[str] = frozenset()
    """The tools whose schema marks an argument as secret."""


def known_of(
    tools: Iterable[Tool], prompts: Iterable[Any] = (), resources: Iterable[str] = ()
) -> Known:
    """What the lists of a server name."""
    from ..audit.schema_marks import marked  # not at each Tab of a shell

    tools = list(tools)
    return Known(
        {tool.name: _arguments(tool.input_schema) for tool in tools},
        {one.name: tuple(each.name for each in one.arguments) for one in prompts},
        tuple(resources),
        frozenset(tool.name for tool in tools if marked(tool.input_schema)),
    )


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command with its own parser."""
    (group,) = (each for each in parser()._actions if each.dest == "command")
    return dict(group.choices or {})


def option_words(command: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """The options of a command, each with what it is for."""
    return [
        (max(action.option_strings, key=len), action.help or "")
        for action in command._actions
        if action.option_strings
    ]


def positionals(command: str, words: Sequence[str]) -> list[str]:
    """The words that are neither options nor their values."""
    its = commands().get(command)
    flags = {
        option
        for action in (() if its is None else its._actions)
        for option in action.option_strings
        if action.nargs == 0
    }
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("--"):
            skip = "=" not in word and word not in flags
        else:
            found.append(word)
    return found


def following(command: str, words: Sequence[str], known: Known) -> list[str]:
    """What the last of ``words`` may become: those after the command and its TARGET.

    A word before the end that begins with ``--`` counts as an option, with its value.
    """
    given, word = positionals(command, words[:-1]), words[-1] if words else ""
    previous = words[-2] if len(words) > 1 else ""
    found: Iterable[str] = ()
    if previous in _VALUES:
        found = _VALUES[previous]
    elif previous == "--accept" or (command in ("call", "describe") and not given):
        found = known.tools
    elif command == "call":
        found = _assignments(known.tools.get(given[0], {}), given[1:], word)
    elif command == "read" and not given:
        found = known.resources
    elif command in ("prompt", "complete") and not given:
        found = known.prompts
    elif command in ("prompt", "complete"):
        names = known.prompts.get(given[0], ())
        found = _assignments(dict.fromkeys(names, ()), given[1:], word)
    return [each for each in found if each.startswith(word)]


def _assignments(
    arguments: Mapping[str, tuple[str, ...]], given: Sequence[str], word: str
) -> list[str]:
    """``name=`` of the arguments that were not given, or ``name=value`` of the one that is."""
    name, sign, _ = word.partition("=")
    if sign:
        return [f"{name}={value}" for value in arguments.get(name, ())]
    taken = {each.partition("=")[0].removesuffix(":") for each in given}
    return [f"{name}=" for name in arguments if name not in taken]


def _arguments(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): _values(its) for name, its in properties.items()}


def _values(schema: Any) -> tuple[str, ...]:
    if not isinstance(schema, Mapping):
        return ()
    if schema.get("type") == "boolean":
        return ("true", "false")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    kept = values[:_MOST_VALUES] if isinstance(values, list) else []
    return tuple(
        value if isinstance(value, str) else str(value).lower()
        for value in kept
        if isinstance(value, str | bool | int | float)
    )
