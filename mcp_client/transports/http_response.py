"""What comes back from one HTTP request, read within bounds.

Bytes are counted after decompression, which is done here in steps so that a small body which
unpacks to a huge one stops at the cap and not in memory. A response is one JSON text or a stream
of events; either way ``frame`` returns one JSON text after the other.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import ConnectionLost
from ..protocol.jsonrpc import ErrorResponse, InvalidFrame
from ..protocol.response_headers import retry_after_seconds
from ..runtime.limits import Limits
from ..runtime.masking import mask, mask_json
from ..runtime.safe_text import safe_text
from .event_stream import Event, EventStream, TooLong

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpResponse", "InvalidHttp"]

_log = logging.getLogger("mcp_client")
_STEP = 256 * 1024
_EXCERPT = 64 * 1024
_TAIL = 0.05
_TITLE = re.compile(rb"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


class InvalidHttp(Exception):
    """What came is not HTTP/1.1, or ended in the middle."""


class HttpResponse:
    """The response to one request, from the moment its headers are there."""

    def __init__(
        self,
        response: httpx.Response,
        limits: Limits,
        lost: Callable[[str], ConnectionLost],
        secrets: Callable[[Any], Iterable[str]] = lambda response: (),
    ) -> None:
        """``lost`` makes the error for a connection that ended; ``secrets`` tells what must not be
        shown, should the server repeat it."""
        self.headers = response.headers
        self._response = response
        self._lost = lost
        self._secrets = secrets
        self.status: int = response.status_code
        fields = {name.lower(): value for name, value in response.headers.raw}
        kind = fields.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        self.kind: str = kind
        self.streaming = kind == "text/event-stream"
        self.ended = False
        self.events = EventStream(self._read, limits.message_bytes)
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
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again."""
        return retry_after_seconds(self.headers.get("retry-after"))

    async def frame(self) -> bytes | None:
        """The next JSON text; None at the end. Raises ``InvalidFrame`` beyond the cap."""
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
        """The next event of a stream; None at its end."""
        try:
            return await self.events.next()
        except TooLong:
            raise self._too_long() from None

    async def body(self, most: int) -> bytes:
        """The rest, up to ``most`` bytes and one piece; ``ended`` tells whether that is all."""
        pieces: list[bytes] = []
        size = 0
        while size <= most and (piece := await self._read()):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    async def excerpt(self) -> bytes:
        """The beginning of the body, for an error message."""
        try:
            return await self.body(_EXCERPT)
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
        """Read to the end of a stream that has served its purpose, so that its connection can be
        used again. False where the server holds it open."""
        self.ended = self.ended or getattr(self._response.stream, "ended", False)
        if not self.ended:
            with anyio.move_on_after(_TAIL):
                size = 0
                while size < _STEP and (piece := await self._read()):
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
                # The generators inside would wait for a collector that trio complains about:
                # what they would read is closed, so going on ends them.
                await self.events.aclose()
                while not self.ended:
                    await self._raw.__anext__()
            except StopAsyncIteration:
                pass
            except Exception as error:  # noqa: BLE001 - it is being given up
                _log.debug("a response was given up: %s", type(error).__name__)
        self.ended = True

    def is_html(self, body: bytes) -> bool:
        return self.kind in ("text/html", "application/xhtml+xml") or body[:256].lstrip()[
            :14
        ].lower().startswith((b"<!doctype html", b"<html"))

    def html_page(self, body: bytes) -> str:
        found = _TITLE.search(body)
        title = f" titled {found.group(1).decode(errors='replace').strip()!r}" if found else ""
        return f"an HTML page{title}"

    def mask(self, text: str) -> str:
        """``text`` with the credentials hidden that the request carried."""
        return mask(text, self._secrets(self._response))

    def without_secrets(self, error: ErrorResponse) -> ErrorResponse:
        """The JSON-RPC error with the same hidden."""
        secrets = self._secrets(self._response)
        return error._replace(
            message=mask(error.message, secrets), data=mask_json(error.data, secrets)
        )

    def unlike(self, body: bytes) -> str:
        """What a successful response is, if it is not what MCP answers with."""
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
            out = self._inflate.decompress(data, _STEP)
        except zlib.error:
            if self._started:
                raise InvalidFrame("its compression is broken") from None
            # "deflate" without the zlib wrapper, as some servers have it
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            self._started = True
            return self.more(data)
        self._started = True
        self._rest = self._inflate.unconsumed_tail
        self._full = len(out) >= _STEP
        return out


class _Unknown:
    waiting = False

    def __init__(self, coding: str) -> None:
        self._coding = coding

    def more(self, data: bytes) -> bytes:
        raise InvalidFrame(
            f"its content encoding is {self._coding[:40]!r}, which was not asked for"
        )


def _inflater(coding: str) -> _Inflater | _Unknown | None:
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return _Inflater(coding != "deflate")
    return _Unknown(coding)
