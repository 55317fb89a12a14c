"""The values of a tool call: its context and origin, and its result.

``ToolCall.context`` is compared and stored here. Results: 2026-07-28 ``server/tools`` (tool
result); older revisions have the same fields or fewer.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Hashable
from dataclasses import field
from reprlib import Repr
from typing import Any, Literal, TypeAlias

from ..errors import ToolFailed
from ..protocol.content import ContentBlock, ResourceLink, content_block
from ..protocol.jsonrpc import dump, not_finite
from ..protocol.metadata import brief
from ..runtime.frozen import frozen_dataclass, json_of
from ..runtime.safe_text import safe_text
from .finding import Finding

__all__ = [
    "CallOrigin",
    "ModelArguments",
    "NotAnObject",
    "ToolResult",
    "context_from_json",
    "context_text",
    "context_to_json",
    "is_storable",
    "same_context",
]

CallOrigin: TypeAlias = Literal["host", "app", "code"]
"""The maker of a call: the host, the view of a tool, or a script of a model."""

_MAX_INTEGER_BITS = 256
_MAX_DEPTH = 16
_MAX_MARKS = 1_000
_marks: dict[Hashable, str] = {}
_lock = threading.RLock()


class ModelArguments(dict[str, Any]):
    """The arguments of a model, as an adapter parsed them.

    The model receives the errors about them itself, before a person is asked.
    """

    __slots__ = ()


class NotAnObject:
    """A placeholder in records for a model's arguments that are not a JSON object."""


def _context_key(context: Hashable) -> Hashable:
    """Return a key that is equal for equal contexts, and distinguishes ``True`` from ``1``."""
    if type(context) is tuple:
        return ("tuple", *map(_context_key, context))
    return type(context) is bool, context


def same_context(one: Hashable, other: Hashable) -> bool:
    """Return whether two contexts are equal."""
    return one is other or _context_key(one) == _context_key(other)


def is_storable(context: Hashable, depth: int = 0) -> bool:
    """Return whether a context can be written to a file and loaded as an equal one.

    That applies to str, numbers, booleans and tuples of them; None, for no context, only at the
    top.
    """
    kind = type(context)
    if kind is tuple:
        members: tuple[Any, ...] = context  # type: ignore[assignment]
        return depth < _MAX_DEPTH and all(
            member is not None and is_storable(member, depth + 1) for member in members
        )
    if kind is float:
        return math.isfinite(context)  # type: ignore[arg-type]
    if kind is int:
        return context.bit_length() <= _MAX_INTEGER_BITS  # type: ignore[attr-defined, no-any-return]
    return context is None or kind in (str, bool)


def context_text(context: Hashable) -> str:
    """Return a text that is equal for equal contexts only.

    It is the same in every process if the context is storable. Any other context gets a mark in
    this process, because its ``repr`` may be equal for different objects, and different for equal
    ones. A thousand contexts have marks at once; an older one then gets another mark, so that
    approvals bound to it no longer apply.
    """
    if is_storable(context):
        return json.dumps(_tagged(context))
    key = _context_key(context)
    with _lock:
        mark = _marks.pop(key, None) or f"mark {os.urandom(16).hex()}"
        _marks[key] = mark
        while len(_marks) > _MAX_MARKS:
            del _marks[next(iter(_marks))]
        return mark


def _tagged(context: Any) -> Any:
    if type(context) is tuple:
        return [_tagged(member) for member in context]
    if type(context) is float and context.is_integer():
        return int(context)  # 1.0 and 1 are equal
    return context


def context_to_json(context: Hashable) -> Any:
    """Return a storable context as plain JSON, with lists in place of tuples."""
    return [context_to_json(member) for member in context] if type(context) is tuple else context


def context_from_json(value: Any) -> Hashable:
    """The context that was stored. Raises ``ValueError`` for what is never stored."""
    context: Hashable = _tuples(value)
    if not is_storable(context):
        raise ValueError("the context is not a str, a number, a boolean or a list of them")
    return context


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value


# --------------------------------------------------------------------- the result

_SHORT = Repr()
_SHORT.maxlevel = 2
_NESTED = frozenset({dict, list})
_MAX_LOOKED_THROUGH = 8


@frozen_dataclass
class ToolResult:
    """The result of a tool. An error that the tool reports is a result, too: see ``is_error``."""

    content: tuple[ContentBlock, ...]
    """The content blocks that the tool returned; untrusted."""
    structured_content: Any
    """A JSON value that is valid for the tool's output schema, or None.

    In revision 2026-07-28 None may also be a real ``null``: see ``"structuredContent" in raw``.
    """
    is_error: bool
    """Whether the tool ran and reported an error; the reason is in ``text``."""
    findings: tuple[Finding, ...] = ()
    """The findings about the result, with ``validation="warn"``, or about its audit record."""
    server: str = ""
    """The name the host gave the server."""
    tool: str = ""
    """The tool's own name, as its server has it."""
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The result as it came."""

    @staticmethod
    def from_wire(result: dict[str, Any], server: str, tool: str, origin: str = "") -> ToolResult:
        """Parse a result.

        Args:
            result: The result of ``tools/call``.
            server: The host's name for the server.
            tool: The name of the tool.
            origin: The origin of the server, if it is at a URL.

        Raises:
            ValueError: The result breaks the specification.
        """
        content = result.get("content", [])
        if type(content) is not list:
            if content is not None:
                raise ValueError("content is not an array")
            content = []
        is_error = result.get("isError", False)
        if type(is_error) is not bool:
            if is_error is not None:
                raise ValueError("isError is neither true nor false")
            is_error = False
        structured = result.get("structuredContent")
        if _may_overflow(structured) and (odd := not_finite(structured)) is not None:
            raise ValueError(f"structuredContent: its member {odd}, for which JSON has no number")
        return ToolResult(
            tuple([content_block(block, server, origin) for block in content]),
            structured,
            is_error,
            (),
            server,
            tool,
            result,
        )

    @property
    def meta(self) -> dict[str, Any]:
        """The server's ``_meta``; empty without one."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def text(self) -> str:
        """All content as text for a model; what is not text is named in brackets, never omitted.

        The text of a result without content is the structured content as JSON. Servers should
        repeat it as text (2026-07-28 ``server/tools``, structured content), and not all do.
        """
        if not self.content and self.structured_content is not None:
            return json.dumps(self.structured_content, ensure_ascii=False)
        return "\n".join([str(block) for block in self.content])

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resource links in it, in order. Nothing is read: ``Session.follow`` reads one."""
        return tuple(block for block in self.content if isinstance(block, ResourceLink))

    def __repr__(self) -> str:
        """Sizes and beginnings, never all of the data: a result may be as large as a message."""
        parts = [brief(self.content)]
        if self.structured_content is not None:
            short = safe_text(_SHORT.repr(self.structured_content), 500)
            parts.append(f"structured_content={short}")
        if self.is_error:
            parts.append("is_error=True")
        if self.findings:
            parts.append(f"findings={brief([str(one) for one in self.findings])}")
        return f"<ToolResult of {self.server}/{safe_text(self.tool, 64)}: {', '.join(parts)}>"

    def to_json(self) -> dict[str, Any]:
        """Return the public fields as JSON values, for an endpoint or a log of your own.

        ``content`` has the blocks as the server sent them; ``raw`` is the whole result as sent.
        """
        return {
            "server": self.server,
            "tool": self.tool,
            "is_error": self.is_error,
            "text": self.text,
            "content": [json_of(block.raw) for block in self.content],
            "structured_content": self.structured_content,
            "findings": [json_of(finding) for finding in self.findings],
        }

    def raise_for_error(self) -> ToolResult:
        """This result, or ``ToolFailed`` if the tool reported an error."""
        if self.is_error:
            reason = safe_text(self.text, 500, lines=True) or "no reason given"
            raise ToolFailed(
                f"the tool reported an error: {reason}",
                result=self,
                server=self.server,
                tool=self.tool,
            )
        return self


def _may_overflow(value: Any) -> bool:
    """Whether there may be a number such as 1e999 in it, which JSON can spell and no float holds.

    A few arrays and objects are quickest to look through one by one. For more, one pass over the
    text that the encoder makes in C is.
    """
    if type(value) not in _NESTED:
        return type(value) is float
    looked_through = [value]
    for each in looked_through:
        members = each.values() if type(each) is dict else each
        kinds = set(map(type, members))
        if float in kinds:
            total = sum([member for member in members if type(member) is float])
            if total - total != 0:
                return True
        if not kinds.isdisjoint(_NESTED):
            looked_through += [member for member in members if type(member) in _NESTED]
            if len(looked_through) > _MAX_LOOKED_THROUGH:
                return _cannot_encode(value)
    return False


def _cannot_encode(value: Any) -> bool:
    try:
        dump(value)
    except ValueError:
        return True
    return False
