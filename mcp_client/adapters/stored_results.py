"""Results that are too large for a model's context, stored so that it can read them in pieces.

A model sees the start and the end, and a handle for ``read_result``. This is not a tool call: it
needs no approval, sends nothing, and is not in the audit log. It returns only results whose handle
was given to an equal context. Its texts are between marks, like the result itself.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog.call_context import same_context
from .definitions import Definition
from .model_calls import ModelCall, RawCall
from .parts import Media, Part, ServerContent, ends

__all__ = ["READ", "STORED_BYTES", "StoredResults", "declaration", "read_call"]

READ = "read_result"
STORED_BYTES = 64 * 1024 * 1024
_LIMIT = 10_000
_MAX_FIND_CHARS = 1_000
_MAX_PLACES = 10
_BESIDE = 200
"""Characters on either side of what was found."""
_ENTRY_BYTES = 500
"""The size of an entry beside its texts."""
_UNKNOWN = (
    "No result is stored under this handle. Handles are below results that were too long, "
    "and the oldest are forgotten."
)
_LATER = "It is read from the stored results when the responses are made."
_ABOUT = (
    "Read on in a result that was too long to show: characters from an offset on, or the places "
    "where a text is in it. It runs nothing."
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "The handle below the result."},
        "offset": {
            "type": "integer",
            "description": "The character to begin at, counted from 0. Without it, 0.",
        },
        "limit": {
            "type": "integer",
            "description": f"The most characters to give. Without it, {_LIMIT}.",
        },
        "find": {
            "type": "string",
            "description": "Give the places of exactly this text, from offset on.",
        },
    },
    "required": ["handle"],
    "additionalProperties": False,
}


def declaration() -> tuple[str, str, Definition]:
    """The name, the description and the arguments of ``read_result``."""
    return READ, _ABOUT, Definition(_SCHEMA, (), None, False)


def read_call(raw: RawCall, arguments: dict[str, Any], problem: str | None) -> ModelCall:
    """Return a call of ``read_result``, which ``StoredResults.read`` handles."""
    if problem is None:
        problem = _Asked.problem_of(arguments)
    later = _LATER if problem is None else None
    return ModelCall(raw.id, READ, arguments, problem, later, READ, is_own=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    handle: str
    offset: int
    limit: int
    find: str

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> _Asked:
        """Parse the arguments; null, which models send for omitted ones, is the default."""
        present = {name: value for name, value in arguments.items() if value is not None}
        offset, limit = _integer(present.get("offset", 0)), _integer(present.get("limit", _LIMIT))
        return cls(present.get("handle", ""), offset, limit, present.get("find", ""))

    @classmethod
    def problem_of(cls, arguments: Mapping[str, Any]) -> str | None:
        asked = cls.of(arguments)
        if type(asked.handle) is not str or not asked.handle:
            return "Give the argument 'handle': the text below the result."
        if type(asked.offset) is not int or asked.offset < 0:
            return "Give 'offset' as a whole number, 0 or more."
        if type(asked.limit) is not int or asked.limit < 1:
            return "Give 'limit' as a whole number, 1 or more."
        if type(asked.find) is not str or len(asked.find) > _MAX_FIND_CHARS:
            return f"Give 'find' as a text of at most {_MAX_FIND_CHARS} characters."
        return None


def _integer(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class _Stored:
    text: str
    head: str
    context: Hashable
    size: int


class StoredResults:
    """The results of one toolset, and of those that it was updated to; safe to use from threads."""

    def __init__(self, max_bytes: int = STORED_BYTES) -> None:
        """Use at most ``max_bytes`` of memory; the oldest text is dropped for a new one."""
        self._max_bytes = max_bytes
        self._stored: dict[str, _Stored] = {}
        self._lock = threading.Lock()
        self.size: int = 0
        """Bytes of memory in use."""

    def shown(self, content: ServerContent, max_chars: int, context: Hashable) -> list[Part]:
        """Return the parts of a response of ``max_chars``, with a handle if not all of it fits."""
        if content.fits(max_chars):
            return content.marked(max_chars)
        text = content.text
        handle = self._store(text, content.head, context)
        if handle is None:
            return content.marked(max_chars)
        media = [part for part in content.parts if isinstance(part, Media)]
        whole, total = ServerContent(content.head, (text, *media)), len(text)
        longest = max(max_chars - len(_note(handle, total, total, total)) - 1, max_chars // 2)
        head, tail = ends(total, whole.room(longest))
        parts = whole.marked(longest)
        parts[-1] = f"{parts[-1]}\n{_note(handle, total, head, total - tail)}"
        return parts

    def _store(self, text: str, head: str, context: Hashable) -> str | None:
        """Store the texts and return their handle; None if they alone are larger than the limit."""
        size = sys.getsizeof(text) + sys.getsizeof(head) + _ENTRY_BYTES
        if size > self._max_bytes:
            return None
        handle = secrets.token_hex(12)
        with self._lock:
            while self.size + size > self._max_bytes:
                self.size -= self._stored.pop(next(iter(self._stored))).size
            self._stored[handle] = _Stored(text, head, context, size)
            self.size += size
        return handle

    def read(
        self, arguments: Mapping[str, Any], max_chars: int, context: Hashable
    ) -> tuple[str, bool]:
        """Return the response to a call without a ``problem``, and whether it succeeded."""
        asked = _Asked.of(arguments)
        stored = self._stored.get(asked.handle)
        if stored is None or not same_context(stored.context, context):
            return _UNKNOWN, False
        total = len(stored.text)
        if asked.offset >= total:
            return f"The text ends before that: it has {total} characters, from 0 on.", False
        return (_places if asked.find else _piece)(stored, asked, max_chars), True


def _note(handle: str, total: int, start: int, end: int) -> str:
    return (
        f"[{total} characters, of which {start} to {end} are left out: "
        f'{READ}(handle="{handle}", offset={start})]'
    )


def _piece(kept: _Stored, asked: _Asked, max_chars: int) -> str:
    total = len(kept.text)

    def said(end: int) -> tuple[ServerContent, str]:
        head = f"Characters {asked.offset} to {end} of {total}. {kept.head}"
        more = f"\n[More: offset={end}]" if end < total else "\n[It ends here.]"
        return ServerContent(head, (kept.text[asked.offset : end],)), more

    widest, more = said(total - 1)
    room = max(min(asked.limit, widest.room(max_chars - len(more))), 1)
    content, more = said(min(asked.offset + room, total))
    return f"{_text(content)}{more}"


def _places(stored: _Stored, asked: _Asked, max_chars: int) -> str:
    head = f"Places of the text to find, from character {asked.offset} on. {stored.head}"
    more = f"\n[More places: offset={len(stored.text)}]"
    room = max(min(asked.limit, ServerContent(head, ()).room(max_chars - len(more))), 1)
    beside = max(min(_BESIDE, (room - len(asked.find)) // 2), 0)
    found: list[str] = []
    at = stored.text.find(asked.find, asked.offset)
    while at >= 0 and len(found) < _MAX_PLACES:
        end = at + len(asked.find)
        place = f"[at {at}] {stored.text[max(at - beside, 0) : end + beside][:room]}"
        if found and len(place) >= room:
            break
        found.append(place)
        room -= len(place) + 1
        at = stored.text.find(asked.find, end)
    if not found:
        return f"The text does not occur from character {asked.offset} on; capitals count."
    piece = _text(ServerContent(head, ("\n".join(found),)))
    return piece + (f"\n[More places: offset={at}]" if at >= 0 else "\n[No more places.]")


def _text(content: ServerContent) -> str:
    return "".join(part for part in content.whole() if isinstance(part, str))
