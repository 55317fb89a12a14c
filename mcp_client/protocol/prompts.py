"""Prompts and completion as a server sends them: frozen values.

2026-07-28 ``server/prompts`` and ``server/utilities/completion``; prompts since 2024-11-05, with
``title`` since 2025-06-18 and icons since 2025-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .content import ContentBlock, content_block
from .metadata import Metadata, texts_in

if TYPE_CHECKING:
    from .metadata import Origin

__all__ = ["Completion", "Prompt", "PromptArgument", "PromptMessage"]

_ROLES = ("user", "assistant")
_MAX_VALUES = 100


@dataclass(frozen=True, slots=True)
class PromptArgument(Metadata):
    """An argument of a prompt: ``name``, ``title`` and ``description`` are the server's.

    ``required`` is whether ``get_prompt`` needs it; ``raw`` is the entry as the server sent it.
    """

    name: str
    title: str | None
    description: str | None
    required: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Prompt(Metadata):
    """A prompt that a person may choose: ``get_prompt(prompt.name, arguments)`` requests it.

    ``arguments`` needs a value for each of its ``arguments`` that is required. ``name`` and
    ``title`` are the server's.
    """

    name: str
    title: str | None
    description: str | None
    """Text from the server, not trusted, as is all of a prompt."""
    arguments: tuple[PromptArgument, ...]
    server: str
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The entry as it came."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, entry: Any, server: str, origin: Origin | None = None) -> Prompt:
        """Parse an entry of a list.

        Args:
            entry: The entry.
            server: The host's name for the server.
            origin: The origin of the server, if it is at a URL.

        Raises:
            ValueError: The reason why the entry is rejected.
        """
        if type(entry) is not dict:
            raise ValueError("it is not a JSON object")
        name, arguments = entry.get("name"), entry.get("arguments")
        if type(name) is not str or not name or name.isspace():
            raise ValueError("its name is missing, empty or not a string")
        if arguments is not None and type(arguments) is not list:
            raise ValueError("its arguments are not an array")
        title, about = texts_in(entry, "title", "description")
        asked = tuple(map(_argument, arguments or ()))
        return cls(name, title, about, asked, server, entry, origin)


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt, for a model: untrusted text that a person asked for."""

    role: str
    """"user" or "assistant"."""
    content: ContentBlock
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_wire(cls, message: Any, server: str, origin: str = "") -> PromptMessage:
        """Parse a message. Raises ``ValueError`` if it is invalid."""
        if type(message) is not dict or message.get("role") not in _ROLES:
            raise ValueError("a message is not a JSON object with the role 'user' or 'assistant'")
        content = content_block(message.get("content"), server, origin)
        return cls(message["role"], content, message)

    def __str__(self) -> str:
        return str(self.content)


@dataclass(frozen=True, slots=True)
class Completion:
    """The server's suggestions for an argument, the best first."""

    values: tuple[str, ...]
    """The suggestions: at most 100, without values that are not str."""
    total: int | None
    """The total number of suggestions, if the server states it."""
    has_more: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The result as it came."""

    @classmethod
    def from_wire(cls, result: Mapping[str, Any]) -> Completion:
        """Parse a result. Raises ``ValueError`` if it is invalid."""
        found = result.get("completion")
        values = found.get("values", ()) if type(found) is dict else ()
        values = [] if values is None else values
        if type(found) is not dict or type(values) is not list:
            raise ValueError("it has no array of values")
        total = found.get("total")
        texts = [value for value in values if type(value) is str]
        return cls(
            tuple(texts[:_MAX_VALUES]),
            total if type(total) is int and total >= 0 else None,
            found.get("hasMore") is True or len(texts) > _MAX_VALUES,
            result,
        )


def _argument(argument: Any) -> PromptArgument:
    if type(argument) is not dict or type(argument.get("name")) is not str:
        raise ValueError("one of its arguments is not a JSON object with a name")
    title, about = texts_in(argument, "title", "description")
    return PromptArgument(
        argument["name"], title, about, argument.get("required") is True, argument
    )
