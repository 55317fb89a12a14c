"""Prompts and resources of servers, as messages and content for a model.

2026-07-28 ``server/prompts`` and ``server/resources``. Loaded when the first is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..catalog.library import PromptResult, ResourceResult
from ..errors import ConfigError
from .parts import MediaTypes, Part, ServerContent

__all__ = ["content_of", "messages_of"]

T = TypeVar("T")

_MAX_MESSAGES = 100


def messages_of(
    result: PromptResult, media: MediaTypes, max_chars: int
) -> Iterator[tuple[str, list[Part]]]:
    """The role and the parts of each message. ``media`` is what a user's may have: an assistant's
    is text. Raises ``ConfigError`` for anything but a ``PromptResult``."""
    messages = _checked(result, PromptResult, "prompt", "get_prompt").messages
    contents = [
        ServerContent.of_message(one, media if one.role == "user" else {}, result.server)
        for one in messages[:_MAX_MESSAGES]
    ]
    most = _level([one.chars for one in contents], max_chars)
    for message, content in zip(messages, contents, strict=False):
        yield message.role, content.marked(most)
    if len(messages) > _MAX_MESSAGES:
        left_out = len(messages) - _MAX_MESSAGES
        yield "user", [f"[{left_out} more messages of the prompt are left out]"]


def content_of(result: ResourceResult, media: MediaTypes, max_chars: int) -> list[Part]:
    """The parts of a resource. Raises ``ConfigError`` for anything but a ``ResourceResult``."""
    checked = _checked(result, ResourceResult, "resource", "read_resource")
    return ServerContent.of_resource(checked, media).marked(max_chars)


def _checked(result: object, wanted: type[T], method: str, source: str) -> T:
    if isinstance(result, wanted):
        return result
    waits = " that was not awaited" if inspect.isawaitable(result) else ""
    raise ConfigError(
        f"{method}() was given a {type(result).__name__}{waits}: give what {source}() of a session "
        "or host returns"
    )


def _level(sizes: Iterable[int], max_chars: int) -> int:
    """How long each may be so that all together are no longer than ``max_chars``: what the short
    ones leave is for the long ones."""
    left, ascending = max_chars, sorted(sizes)
    for number, size in enumerate(ascending):
        level = left // (len(ascending) - number)
        if size > level:
            return level
        left -= size
    return max_chars
