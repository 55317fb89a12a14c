"""Server-sent events, read by httpx-sse within bounds.

The HTML standard, "Server-sent events". httpx-sse splits and interprets the lines; what it is fed,
and what of its events counts, is decided here:

- The stream is UTF-8 whatever its content type says, and a byte order mark at its beginning is
  dropped. Bytes that are not UTF-8 come out as they went in: the parser refuses them.
- It is fed whole lines, so it holds no more than one event. No event, and no line, may be longer
  than the cap, which is checked while they come.
- A ``retry`` that is not made of ASCII digits is left out, as the standard says.
- An event without data is not a message (httpx-sse has one for each comment after an ``id``), but
  its ``id`` and ``retry`` count.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

__all__ = ["Event", "EventStream", "TooLong"]

_BOM = b"\xef\xbb\xbf"
_BAD_RETRY = re.compile(rb"^retry:(?! ?[0-9]{1,9}$).*", re.MULTILINE)


class Event(NamedTuple):
    kind: str
    data: bytes


class TooLong(ValueError):
    """An event, or a line, beyond the cap."""


class EventStream:
    """The events of one response. ``read`` returns some more bytes, and none at the end."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], cap: int) -> None:
        self.last_id: str | None = None
        """The id to resume after, once an event had one."""
        self.retry: float | None = None
        """Seconds the server wants us to wait before we resume."""
        self.count = 0
        """How many events there were."""
        self._lines = _Lines(read, cap)
        self._events: AsyncGenerator[ServerSentEvent, None] | None = None

    async def next(self) -> Event | None:
        """The next event; None at the end. Raises ``TooLong``, and what ``read`` raises."""
        events = self._events
        if events is None:
            from httpx_sse import EventSource  # only where there is a stream

            source: Any = self._lines  # it has all of a response that is asked for
            events = self._events = EventSource(source).aiter_sse()
        async for event in events:
            self.last_id = _bytes(event.id).decode("utf-8", "replace") or None
            if event.retry is not None:
                self.retry = event.retry / 1000
            if event.data.strip("\n"):
                self.count += 1
                kind = event.event
                return Event(kind if kind.isascii() else _readable(kind), _bytes(event.data))
        return None

    async def aclose(self) -> None:
        """End the generators of httpx-sse, or they wait for a collector that trio complains of."""
        if self._events is not None:
            await self._events.aclose()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _readable(text: str) -> str:
    return _bytes(text).decode("utf-8", "replace")


def _names_retry(lines: bytes) -> bool:
    """Whether one of the lines begins so: a search for it takes longer than all else, if they are
    long."""
    at = 0
    while at < len(lines):
        if lines.startswith(b"retry", at):
            return True
        at = lines.find(b"\n", at) + 1
    return False


class _Lines:
    """Bytes in pieces of any size to text of whole lines, which end with a line feed.

    It is to ``EventSource`` what ``httpx.Response`` is.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], cap: int) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._read = read
        self._cap = cap
        self._pieces: list[bytes] = []
        """Of a line that has not ended."""
        self._held = 0
        """Bytes of these pieces."""
        self._event = 0
        """Bytes of the lines of an event that has not ended."""
        self._after_return = False
        self._first = True

    def aiter_text(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while data := await self._read():
            lines = self._whole_lines(data)
            if lines:
                return lines.decode("utf-8", "surrogateescape")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Nothing is to be ended."""

    def _whole_lines(self, data: bytes) -> bytes:
        if self._after_return and data[:1] == b"\n":
            data = data[1:]
        self._after_return = data[-1:] == b"\r"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        lines, rest = data[:end], data[end:]
        if lines and self._pieces:
            lines = b"".join([*self._pieces, lines])
            self._pieces.clear()
            self._held = 0
        if lines:
            if self._first:
                self._first = False
                lines = lines.removeprefix(_BOM)
            self._measure(lines)
            if _names_retry(lines):
                lines = _BAD_RETRY.sub(b":", lines)  # a comment
        if rest:
            self._pieces.append(rest)
            self._held += len(rest)
        if self._event + self._held > self._cap:
            raise TooLong
        return lines

    def _measure(self, lines: bytes) -> None:
        """Count the bytes since the last blank line. Raises ``TooLong``."""
        if self._event + len(lines) > self._cap:
            sizes = [len(event) for event in lines.split(b"\n\n")]
            sizes[0] += 0 if lines[:1] == b"\n" else self._event
            if max(sizes) > self._cap:
                raise TooLong
        blank = lines.rfind(b"\n\n")
        if blank >= 0:
            self._event = len(lines) - blank - 2
        elif lines[:1] == b"\n":
            self._event = len(lines) - 1
        elif lines[:1] != b":" or lines.find(b"\n") != len(lines) - 1:
            self._event += len(lines)  # and not a comment alone, such as those that keep alive
