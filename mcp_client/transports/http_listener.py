"""The GET stream of a session over HTTP, on which a server sends messages by itself.

2025-11-25 ``basic/transports``, listening for messages from the server. The stream is cut every now
and then by servers and by proxies before them, so it is opened again for as long as the session
lives:

- A stream that ended is opened again after the ``retry`` the server named, else after half a
  second. Streams that end soon and bring nothing are opened ever more slowly. A stream that lasted
  some seconds, or brought a request, a change, or what a request waits for, resets that.
- No connection, and statuses that pass (5xx, 408, 425, 429), are tried again likewise, and not
  before a ``Retry-After``.
- 404 or 410, once a stream was open, means that the session is gone. Before that it means, as 405
  and the other statuses always do, that this server has no such stream.

While no stream is open, no message of the server itself arrives, and ``epoch`` is None. Messages of
that time may be lost, so each stream has another ``epoch``, and a stream that opens after a time
without one calls ``TransportContext.missed``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import anyio

from ..errors import AuthError, ConfigError, ConnectError, McpError
from ..protocol.jsonrpc import InvalidFrame
from ..runtime.background import BackgroundTasks
from ..runtime.backoff import chance, doubled, spread
from .base import is_passing
from .http_client import HttpClient
from .http_errors import session_has_ended
from .http_response import HttpResponse

__all__ = [
    "MIN_PAUSE_SECONDS",
    "PAUSE_SECONDS",
    "HttpListener",
    "pause_before_next",
    "resume_headers",
]

_log = logging.getLogger("mcp_client")
_EVENT_STREAM = {"Accept": "text/event-stream"}
_FIRST_STREAM_SECONDS = 1.0
"""The seconds for which the first request of a session waits for the GET stream."""
_STOOD_SECONDS = 5.0
"""The seconds after which a stream counts as stable."""
PAUSE_SECONDS = 0.5
"""The seconds before a stream is opened again, if the server named none."""
MIN_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 60.0
"""The limit of pauses that grow, in seconds. A server may ask for a longer one."""
_MAX_EVENT_ID_CHARS = 4096


class _Attempt(NamedTuple):
    """The end of a GET that is worth another."""

    stood: bool
    """Whether it was open for a while, or brought anything but signs of life."""
    wait: float = 0.0
    """The least pause until the next one, in seconds."""


class HttpListener:
    """A listener on the GET stream of a session."""

    def __init__(
        self,
        client: HttpClient,
        headers: Mapping[str, str],
        read: Callable[[HttpResponse], Awaitable[None]],
        session_ended: Callable[[], None],
    ) -> None:
        """``read`` reads a stream to its end; ``session_ended`` is called at most once."""
        self.epoch: int | None = None
        """The number of the open stream; None while no stream is open."""
        self._client = client
        self._headers = headers
        self._read = read
        self._session_ended = session_ended
        self.brought: bool = False
        """Whether the open stream has brought anything but signs of life."""
        self._streams = 0
        self._last_id: str | None = None
        self._retry: float | None = None
        self._started = False
        self._may_miss = False
        """Whether messages may have been lost while no stream was open."""

    async def start(self, tasks: BackgroundTasks) -> None:
        """Listen from now on; return when the first stream is open, or after a second."""
        if self._started:
            return
        self._started = True
        tried = anyio.Event()
        tasks.start(lambda: self._keep_listening(tried))
        with anyio.move_on_after(_FIRST_STREAM_SECONDS):
            await tried.wait()
        self._may_miss = self.epoch is None

    async def _keep_listening(self, tried: anyio.Event) -> None:
        in_vain = 0
        try:
            while (attempt := await self._listen_once(tried)) is not None:
                tried.set()
                in_vain = 0 if attempt.stood else in_vain + 1
                await anyio.sleep(pause_before_next(in_vain, self._retry, attempt.wait))
        finally:
            tried.set()

    async def _listen_once(self, tried: anyio.Event) -> _Attempt | None:
        """Read one GET to its end. Returns None if trying again is useless."""
        headers = {**_EVENT_STREAM, **self._headers}
        if self._last_id is not None:
            headers = resume_headers(self._headers, self._last_id) or headers
        try:
            response = await self._client.open("GET", headers)
        except McpError as error:
            self._note(f"could not be opened: {error}")
            permanent = isinstance(error, AuthError | ConfigError) or (
                isinstance(error, ConnectError) and not error.retryable
            )
            return None if permanent else _Attempt(stood=False)
        try:
            if response.status != 200 or not response.streaming:
                return await self._refused(response)
            return await self._follow(response, tried)
        finally:
            await response.aclose()

    async def _follow(self, response: HttpResponse, tried: anyio.Event) -> _Attempt:
        began = self._client.clock.now()
        self._streams += 1
        self.epoch = self._streams
        self.brought = False
        tried.set()
        if self._may_miss:
            self._client.context.missed()
        self._may_miss = True
        try:
            await self._read(response)
            self._note("ended")
        except (McpError, InvalidFrame) as error:
            self._note(f"was lost: {error}")
        finally:
            self.epoch = None
        self._last_id = response.events.last_id or self._last_id
        if response.events.retry is not None:
            self._retry = response.events.retry
        return _Attempt(self.brought or self._client.clock.now() - began >= _STOOD_SECONDS)

    async def _refused(self, response: HttpResponse) -> _Attempt | None:
        self._note(f"was answered with HTTP {response.status}")
        if is_passing(response.status):
            return _Attempt(stood=False, wait=response.retry_after or 0.0)
        if self._streams:
            text = (await response.excerpt()).decode("utf-8", "replace")
            if session_has_ended(response.status, text):
                self._session_ended()
        return None

    def _note(self, what: str) -> None:
        _log.debug("%s: the GET stream %s", self._client.context.server, what)


def pause_before_next(
    in_vain: int, retry: float | None, wait: float, jitter: Callable[[], float] = chance
) -> float:
    """Return the seconds until the next attempt, after so many in a row that brought nothing.

    ``retry`` is what the last stream asked for, ``wait`` what the last refusal did.
    """
    first = PAUSE_SECONDS if retry is None else max(retry, MIN_PAUSE_SECONDS)
    pause = max(first, wait, doubled(first, in_vain - 1, _MAX_PAUSE_SECONDS))
    if pause == retry:
        return pause  # the server may well spread its clients itself
    return spread(pause, 1.0, 1.25, jitter)


def resume_headers(headers: Mapping[str, str], last_id: str) -> dict[str, str] | None:
    """Return the headers of a GET that resumes a stream; None if the id cannot be sent."""
    fits = (
        len(last_id) <= _MAX_EVENT_ID_CHARS and last_id.isprintable() and last_id == last_id.strip()
    )
    if not fits or not last_id.isascii():
        return None
    return {**_EVENT_STREAM, **headers, "Last-Event-ID": last_id}
