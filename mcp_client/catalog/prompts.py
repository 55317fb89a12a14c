"""The prompts of a server, their messages, and completion of their arguments.

2026-07-28 ``server/prompts`` and ``server/utilities/completion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArguments, ProtocolViolation
from ..protocol.content import ResourceLink
from ..protocol.metadata import brief
from ..protocol.prompts import Completion, Prompt, PromptMessage
from ..protocol.resources import ResourceTemplate
from ..runtime.safe_text import safe_text
from .paged_list import Kind, ListSource, PagedEntries
from .reading import FetchResult
from .subscription import ListSubscription

__all__ = ["PROMPTS", "PromptResult", "complete", "get", "prompt_list"]

PROMPTS = Kind("prompts/list", "prompts", "prompts", lambda prompt: prompt.name, "entries")


@dataclass(frozen=True, slots=True)
class PromptResult:
    """A prompt with its arguments filled in: messages for a model."""

    messages: tuple[PromptMessage, ...]
    description: str | None
    server: str
    prompt: str
    """The name of the prompt."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The result as it came."""

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def __repr__(self) -> str:
        return f"<PromptResult of {safe_text(self.prompt, 64)}: {brief(self.messages)}>"

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resource links in it, in order: ``Session.follow`` reads one."""
        contents = (message.content for message in self.messages)
        return tuple(content for content in contents if isinstance(content, ResourceLink))


def prompt_list(source: ListSource, subscription: ListSubscription) -> PagedEntries[Prompt]:
    def read(entry: Any, server: str) -> Prompt:
        return Prompt.from_wire(entry, server, source.origin())

    return PagedEntries(PROMPTS, read, source, subscription)


async def get(
    read: FetchResult, server: str, origin: str, name: str, arguments: Mapping[str, str] | None
) -> PromptResult:
    fields: dict[str, Any] = {"name": _named("the prompt's name", name)}
    if arguments is not None:
        fields["arguments"] = _texts(arguments)
    result = await read("prompts/get", fields)
    messages = result.get("messages")
    try:
        if type(messages) is not list:
            raise ValueError("messages is not an array")
        found = tuple(PromptMessage.from_wire(message, server, origin) for message in messages)
    except ValueError as error:
        raise ProtocolViolation(
            f"invalid prompt result: {error}", result=result, server=server
        ) from None
    about = result.get("description")
    return PromptResult(found, about if isinstance(about, str) else None, server, name, result)


async def complete(
    read: FetchResult,
    server: str,
    ref: Prompt | ResourceTemplate | Mapping[str, Any],
    argument: Mapping[str, str],
    context: Mapping[str, str] | None,
) -> Completion:
    fields: dict[str, Any] = {"ref": _reference(ref), "argument": _argument(argument)}
    if context is not None:
        fields["context"] = {"arguments": _texts(context)}
    result = await read("completion/complete", fields)
    try:
        return Completion.from_wire(result)
    except ValueError as error:
        raise ProtocolViolation(
            f"invalid completion result: {error}", result=result, server=server
        ) from None


def _reference(ref: Prompt | ResourceTemplate | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(ref, Prompt):
        return {"type": "ref/prompt", "name": ref.name}
    if isinstance(ref, ResourceTemplate):
        return {"type": "ref/resource", "uri": ref.uri_template}
    if isinstance(ref, Mapping):
        match dict(ref):
            case {"type": "ref/prompt", "name": str()} | {"type": "ref/resource", "uri": str()}:
                return dict(ref)
    raise InvalidArguments(
        "give a Prompt, a ResourceTemplate, or a reference such as "
        "{'type': 'ref/prompt', 'name': ...} or {'type': 'ref/resource', 'uri': ...}"
    )


def _argument(argument: Mapping[str, str]) -> dict[str, str]:
    found = _texts(argument)
    if set(found) != {"name", "value"}:
        raise InvalidArguments("argument: give {'name': ..., 'value': the text typed so far}")
    return found


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(values, Mapping):
        raise InvalidArguments(f"the arguments are a {type(values).__name__}: give a dict")
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArguments(f"{str(name)[:80]!r}: names and values must be strings")
    return dict(values)


def _named(what: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArguments(f"{what} is not a string, or empty")
    return name
