"""Parse the response to one HTTP request, within bounds.

Bytes are counted after decompression. It is done here in steps, so that a small body that unpacks
to a huge one stops at the limit. A response is one JSON text or a stream of events; either way
``frame`` returns one JSON text after the other.

Events are those of the HTML standard, "Server-sent events", read by httpx-sse within bounds. It
splits and interprets the lines; what it is fed, and what of its events counts, is decided here:

- The stream is UTF-8 whatever its content type is, and a byte order mark at its beginning is
  dropped. Bytes that are not UTF-8 come out as they went in: the parser refuses them.
- It is fed whole lines, so it holds no more than one event. No event, and no line, may be longer
  than the cap, which is checked while they come.
- A ``retry`` that is not made of ASCII digits is left out, as the standard requires.
- An event without data is not a message (httpx-sse has one for each comment after an ``id``), but
  its ``id`` and ``retry`` count.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import anyio

from ..errors import ConnectionLost
from ..protocol.headers import retry_after_seconds
from ..protocol.jsonrpc import ErrorResponse, InvalidFrame
from ..runtime.limits import Limits
from ..runtime.masking import mask, mask_json
from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

__all__ = ["Event", "EventStream", "HttpResponse", "InvalidHttp", "TooLong"]

_log = logging.getLogger("mcp_client")
_STEP_BYTES = 256 * 1024
_MAX_EXCERPT_BYTES = 64 * 1024
_FINISH_SECONDS = 0.05
_BOM = b"\xef\xbb\xbf"
_BAD_RETRY = re.compile(rb"^retry:(?! ?[0-9]{1,9}$).*", re.MULTILINE)
_TITLE = re.compile(rb"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


class InvalidHttp(Exception):
    """An error: the response is not HTTP/1.1, or ended in the middle."""


class HttpResponse:
    """The response to one request, from the moment its headers are there."""

    def __init__(
        self,
        response: httpx.Response,
        limits: Limits,
        lost: Callable[[str], ConnectionLost],
        secrets: Callable[[Any], Iterable[str]] = lambda response: (),
    ) -> None:
        """Wrap a response.

        ``lost`` makes the error for a connection that ended; ``secrets`` returns the texts that
        must be hidden if the server repeats them.
        """
        self.headers: Any = response.headers
        self._response = response
        self._lost = lost
        self._secrets = secrets
        self.status: int = response.status_code
        fields = {name.lower(): value for name, value in response.headers.raw}
        kind = fields.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        self.kind: str = kind
        self.streaming: bool = kind == "text/event-stream"
        self.ended: bool = False
        self.events: EventStream = EventStream(self._read, limits.message_bytes)
        self._cap = limits.message_bytes
        if response.is_stream_consumed:
            # It was made of a whole body, as for httpx.MockTransport, or a hook of the host's own
            # client read it: httpx has all of it, unpacked.
            self._raw: Any = _once(response.content)
            self._inflater = None
        else:
            self._raw = aiter(response.stream)  # type: ignore[arg-type]
            self._inflater = _inflater(fields.get(b"content-encoding", b"").decode("latin-1"))

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the server asks for another request."""
        return retry_after_seconds(self.headers.get("retry-after"))

    async def frame(self) -> bytes | None:
        """Return the next JSON text; None at the end. Raises ``InvalidFrame`` beyond the cap."""
        if self.streaming:
            event = await self.event()
            while event is not None and event.kind != "message":
                event = await self.event()
            return None if event is None else event.data
        if self.ended:
            return None
        body = await self.body(self._cap)
        if not self.ended:
            raise self._too_long()
        return body or None

    async def event(self) -> Event | None:
        """Return the next event of a stream; None at its end."""
        try:
            return await self.events.next()
        except TooLong:
            raise self._too_long() from None

    async def body(self, most: int) -> bytes:
        """Return the rest, up to ``most`` bytes and one piece; ``ended`` is whether that is all."""
        pieces: list[bytes] = []
        size = 0
        while size <= most and (piece := await self._read()):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    async def excerpt(self) -> bytes:
        """Return the beginning of the body, for an error message."""
        try:
            return await self.body(_MAX_EXCERPT_BYTES)
        except (ConnectionLost, InvalidFrame):
            return b""

    def _too_long(self) -> InvalidFrame:
        return InvalidFrame(f"it is longer than {self._cap} bytes (Limits.message_bytes)")

    async def _read(self) -> bytes:
        """Some more bytes; empty at the end."""
        inflater = self._inflater
        while not self.ended:
            if inflater is not None and inflater.waiting:
                data = inflater.more(b"")
            else:
                try:
                    raw: bytes = await self._raw.__anext__()
                except StopAsyncIteration:
                    self.ended = True
                    return b""
                except Exception as error:  # noqa: BLE001 - httpx, or a stream closed under it
                    self.ended = True
                    why = safe_text(str(error), 200) or type(error).__name__
                    raise self._lost(why) from None
                data = raw if inflater is None else inflater.more(raw)
            if data:
                return data
        return b""

    async def finish(self) -> bool:
        """Read to the end of a stream that has served its purpose: its connection is reused.

        Returns False if the server holds it open.
        """
        self.ended = self.ended or getattr(self._response.stream, "ended", False)
        if not self.ended:
            with anyio.move_on_after(_FINISH_SECONDS):
                size = 0
                while size < _STEP_BYTES and (piece := await self._read()):
                    size += len(piece)
        return self.ended

    async def aclose(self) -> None:
        """Give the response up, read or not. Raises only what cancels the task."""
        if getattr(self._response.stream, "ended", False):  # it is with the pool again
            self.ended = True
            await self.events.aclose()
            return
        with anyio.move_on_after(1, shield=True):
            try:
                await self._response.aclose()
                # Trio warns about generators that are left open. Their response is closed, so
                # the next read ends them.
                await self.events.aclose()
                while not self.ended:
                    await self._raw.__anext__()
            except StopAsyncIteration:
                pass
            except Exception as error:  # noqa: BLE001 - it is being given up
                _log.debug("a response was abandoned: %s", type(error).__name__)
        self.ended = True

    def is_html(self, body: bytes) -> bool:
        """Whether the body is an HTML page."""
        return self.kind in ("text/html", "application/xhtml+xml") or body[:256].lstrip()[
            :14
        ].lower().startswith((b"<!doctype html", b"<html"))

    def html_page(self, body: bytes) -> str:
        """Return the description of an HTML page for an error."""
        found = _TITLE.search(body)
        title = f" titled {found.group(1).decode(errors='replace').strip()!r}" if found else ""
        return f"an HTML page{title}"

    def mask(self, text: str) -> str:
        """``text`` with the credentials hidden that the request carried."""
        return mask(text, self._secrets(self._response))

    def without_secrets(self, error: ErrorResponse) -> ErrorResponse:
        """Return the JSON-RPC error with the same hidden."""
        secrets = self._secrets(self._response)
        return error._replace(
            message=mask(error.message, secrets), data=mask_json(error.data, secrets)
        )

    def unlike(self, body: bytes) -> str:
        """Return the description of a successful response that is not of MCP."""
        if self.is_html(body):
            page = self.mask(self.html_page(body))
            return f"{page} and not MCP: perhaps a login page, or not the URL of the MCP endpoint"
        return f"of content type {self.mask(self.kind)[:60]!r} and not JSON or an event stream"


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


class _Inflater:
    """gzip and deflate, in steps of bounded size."""

    def __init__(self, gzip: bool) -> None:
        self._started = gzip
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | (32 if gzip else 0))
        self._rest = b""
        self._full = False

    @property
    def waiting(self) -> bool:
        return self._full or bool(self._rest)

    def more(self, data: bytes) -> bytes:
        data = self._rest + data
        try:
            out = self._inflate.decompress(data, _STEP_BYTES)
        except zlib.error:
            if self._started:
                raise InvalidFrame("it cannot be decompressed") from None
            # "deflate" without the zlib wrapper, as some servers have it
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            self._started = True
            return self.more(data)
        self._started = True
        self._rest = self._inflate.unconsumed_tail
        self._full = len(out) >= _STEP_BYTES
        return out


class _Unknown:
    waiting = False

    def __init__(self, coding: str) -> None:
        self._coding = coding

    def more(self, data: bytes) -> bytes:
        raise InvalidFrame(
            f"its content encoding is {self._coding[:40]!r}, which was not requested"
        )


def _inflater(coding: str) -> _Inflater | _Unknown | None:
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return _Inflater(coding != "deflate")
    return _Unknown(coding)


# ------------------------------------------------------------------------- events


class Event(NamedTuple):
    """An event of a stream."""

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
        """The seconds that the server asks the client to wait before it resumes."""
        self.count: int = 0
        """The number of events so far."""
        self._lines = _Lines(read, cap)
        self._events: AsyncGenerator[ServerSentEvent, None] | None = None

    async def next(self) -> Event | None:
        """Return the next event; None at the end. Raises ``TooLong``, and what ``read`` raises."""
        events = self._events
        if events is None:
            from httpx_sse import EventSource  # only if there is a stream

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
        """End the generators of httpx-sse. Trio warns about generators that are left open."""
        if self._events is not None:
            await self._events.aclose()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _readable(text: str) -> str:
    return _bytes(text).decode("utf-8", "replace")


def _names_retry(lines: bytes) -> bool:
    """Whether one of the lines begins with ``retry``.

    If lines are long, a search for it takes longer than all else.
    """
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
        """The pieces of a line that has not ended."""
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
        """Do nothing: there is nothing to end."""

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
            self._event += len(
                lines
            )  # and not a comment alone, such as those that prevent a timeout
