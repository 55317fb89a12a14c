"""Server-sent events: bytes to events, in time linear in their number.

The HTML standard, "Server-sent events", event stream interpretation. A comment is not an event. An
event with empty data carries no message, but its ``id`` and ``retry`` count.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Event", "EventParser", "TooLong"]

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    kind: str
    data: bytes


class TooLong(ValueError):
    """An event, or a line, beyond the cap."""


class EventParser:
    """Fed bytes in pieces of any size. No event, and no line, may be longer than ``cap`` bytes."""

    def __init__(self, cap: int) -> None:
        self.last_id: str | None = None
        """The id to resume after, once an event had one."""
        self.retry: float | None = None
        """Seconds the server wants us to wait before we resume."""
        self.count = 0
        """How many events there were."""
        self._cap = cap
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._kind = b""
        self._id: str | None = None
        self._after_return = False
        self._first = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completes. Raises ``TooLong``."""
        if self._after_return and data[:1] == b"\n":
            data, self._after_return = data[1:], False
        if not data:
            return []
        self._after_return = data[-1:] == b"\r"
        events: list[Event] = []
        for line in data.splitlines(keepends=True):
            self._held += len(line)
            if self._held > self._cap:
                raise TooLong
            if line[-1] not in b"\r\n":
                self._pieces.append(line)
                continue
            if self._pieces:
                self._pieces.append(line)
                line = b"".join(self._pieces)
                self._pieces.clear()
            event = self._line(line.rstrip(b"\r\n"), len(line))
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: bytes, size: int) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            return None
        self._held -= size
        if name == b"event":
            self._kind = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000
        return None

    def _dispatch(self) -> Event | None:
        if self._id is not None:
            self.last_id = self._id or None
        data, kind = self._data, self._kind
        self._data, self._kind, self._held = [], b"", 0
        if not any(data):
            return None
        self.count += 1
        return Event(kind.decode("utf-8", "replace") or "message", b"\n".join(data))
