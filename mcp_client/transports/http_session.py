"""Streamable HTTP in the handshake era: a session made of many streams.

2025-11-25, 2025-06-18 and 2025-03-26 ``basic/transports``. Every request is a POST with a stream
of its own, and beside them stands a GET for what the server says by itself. But servers do not
keep to that: progress comes on the GET, an answer on the stream that resumes a lost one. So all
streams feed one ``Multiplexer``, which sorts what comes by owner, and each POST is a task that
reads.

*Resumption.* A stream that ends before its answer is asked for again with the id of its last
event, after the time the server named. Without an event id there is nothing to resume, and the
answer is lost. Resuming repeats nothing: the request itself is sent once.

*Sessions end.* A 404 to a request that names our session means that the server does not know it
any more, and so did not run the request. ``gone`` tells the host to open a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from ..errors import ConnectError, McpError
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, Notification, Response, parse
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.event_loop import Backend
from .http_client import HttpClient
from .http_errors import http_error, session_ended, without_secrets
from .http_response import HttpResponse
from .multiplexer import LineExchange, Multiplexer

__all__ = ["HttpSession"]

_log = logging.getLogger("mcp_client")
_RETRY = 1.0
_RETRY_LEAST, _RETRY_MOST = 0.05, 60.0
_TRIES = 5
"""Attempts in a row to resume a stream which bring nothing."""
_LISTENING = 1.0
"""Seconds the first request waits for the GET stream to stand."""
_STREAM = {"Accept": "text/event-stream"}
_LONGEST_ID = 4096


class PostedExchange:
    """One request under way: what comes for it, and the job that reads its stream."""

    __slots__ = ("_inner", "_job", "_session")

    def __init__(self, session: HttpSession, inner: LineExchange, job: BackgroundTask) -> None:
        self._session = session
        self._inner = inner
        self._job = job

    async def receive(self, until: float) -> Response | ErrorResponse | Notification:
        watch = self._session.watch
        while True:
            try:
                return await self._inner.receive(watch.on_the_loop(until))
            except TimeoutError:
                if watch.now() >= until:
                    raise

    async def aclose(self) -> None:
        await self._inner.aclose()
        if not self._inner.settled:
            self._job.cancel()
        session = self._session
        if session.when_idle is not None and not session.under_way:
            await session.when_idle()


class HttpSession:
    def __init__(
        self,
        web: HttpClient,
        jobs: BackgroundTasks,
        backend: Backend,
        session_id: str | None,
        session_headers: Mapping[str, str],
        owner: Callable[[], Any],
    ) -> None:
        self.gone = False
        """Whether the server has ended the session."""
        self.when_idle: Callable[[], Awaitable[None]] | None = None
        """Called once nothing is under way any more."""
        self._web = web
        self.watch = web.watch
        self._jobs = jobs
        self._link = web.link
        self._closed = False
        self._channel = Multiplexer(backend, web.link, owner)
        self._session_headers = session_headers
        self._listening = False
        self._id = _sound(session_id, web.link.server)
        self.headers: Mapping[str, str] = {"Mcp-Session-Id": self._id} if self._id else {}

    # ---------------------------------------------------------------- requests

    def exchange(self, id: Id, text: str, headers: Mapping[str, str]) -> PostedExchange:
        if self.gone:
            raise self._ended()
        exchange = self._channel.exchange(id)
        own = {**headers, **self.headers}
        job = self._jobs.start(lambda: self._carry(exchange, text, own))
        return PostedExchange(self, exchange, job)

    @property
    def under_way(self) -> int:
        return len(self._channel)

    async def _carry(self, exchange: LineExchange, text: str, headers: Mapping[str, str]) -> None:
        try:
            reply = await self._web.open("POST", headers, text)
            if not reply.ok:
                await self._refused(exchange, reply)
                return
            await self._read_out(exchange, reply)
        except (McpError, InvalidFrame) as error:
            if not exchange.settled:
                exchange.fail(error)

    async def _refused(self, exchange: LineExchange, reply: HttpResponse) -> None:
        outcome = await http_error(self._web, reply, exchange.id, agreed=True)
        said = outcome.message if isinstance(outcome, ErrorResponse) else str(outcome)
        ended = session_ended(self._web, reply.status, said.encode()) if self._id else None
        if ended is not None:
            self.gone = True
            exchange.fail(ended)
        elif isinstance(outcome, ErrorResponse):
            exchange.deliver(outcome)
        else:
            exchange.fail(outcome)

    async def _read_out(self, exchange: LineExchange, reply: HttpResponse) -> None:
        """Read until the request is answered, resuming its stream as often as it takes."""
        resume_from: str | None = None
        tries = 0
        while True:
            lost: McpError | None = None
            before = resume_from
            try:
                await self._read(reply, exchange)
            except McpError as error:
                lost = error
            finally:
                await reply.aclose()
            if exchange.settled:
                return
            resume_from = reply.events.last_id or resume_from
            tries = 0 if resume_from != before else tries + 1
            if resume_from is None or not reply.streaming or tries > _TRIES:
                raise lost or self._unanswered(reply)
            reply = await self._resumed(resume_from, _clamped(reply.events.retry))

    async def _resumed(self, last_id: str, pause: float) -> HttpResponse:
        headers = {**_STREAM, **self._session_headers, **self.headers, "Last-Event-ID": last_id}
        for attempt in range(_TRIES):
            await anyio.sleep(pause * 2**attempt)
            try:
                reply = await self._web.open("GET", headers)
            except McpError as error:
                why = str(error)
                continue
            if reply.ok and reply.streaming:
                return reply
            await reply.aclose()
            why = f"resuming it got HTTP {reply.status}"
            if reply.status < 500:
                break
        raise self._web.lost(f"its stream ended without the answer, and {why}")

    def _unanswered(self, reply: HttpResponse) -> Exception:
        if reply.streaming:
            return self._web.lost("the stream of events ended without the answer")
        return InvalidFrame("it has no answer to the request in it")

    async def _read(self, reply: HttpResponse, exchange: LineExchange | None) -> None:
        """Sort what comes, until the end of the stream or the answer to ``exchange``."""
        while (frame := await reply.frame()) is not None:
            frame = frame.strip()
            try:
                messages = parse(frame, self._link.limits.depth)
            except InvalidFrame as error:
                if exchange is not None and not reply.streaming:
                    raise (
                        error
                        if "json" in reply.kind
                        else InvalidFrame(f"it is {reply.unlike(frame)}")
                    ) from None
                self._channel.junk(frame, error)
                continue
            if exchange is not None and any(type(m) in (Response, ErrorResponse) for m in messages):
                await self._finish(reply)
            for message in messages:
                if type(message) is ErrorResponse:
                    message = without_secrets(self._web, reply, message)
                    if exchange is not None and message.id is None:
                        message = message._replace(id=exchange.id)
                self._channel.sort(frame, message)
            if exchange is not None and exchange.settled:
                return

    async def _finish(self, reply: HttpResponse) -> None:
        if self._web.held_open < 3 and reply.streaming and not await reply.finish():
            self._web.held_open += 1

    # --------------------------------------------------------------- listening

    async def listen(self) -> None:
        """Open the stream for what the server says by itself, if it has one."""
        if self._listening:
            return
        self._listening = True
        stands = anyio.Event()
        self._jobs.start(lambda: self._listen(stands))
        with anyio.move_on_after(_LISTENING):
            await stands.wait()

    async def _listen(self, stands: anyio.Event) -> None:
        last_id: str | None = None
        tries = 0
        try:
            while tries <= _TRIES and not self.gone:
                reply = await self._heard(last_id, stands)
                if reply is None:
                    return
                fresh = reply.events.last_id not in (None, last_id)
                last_id = reply.events.last_id or last_id
                tries = 0 if fresh else tries + 1
                await anyio.sleep(_clamped(reply.events.retry) * 2 ** max(0, tries - 1))
        finally:
            stands.set()

    async def _heard(self, last_id: str | None, stands: anyio.Event) -> HttpResponse | None:
        """One GET, read to its end; None where the server has no such stream."""
        headers = {**_STREAM, **self._session_headers, **self.headers}
        if last_id:
            headers["Last-Event-ID"] = last_id
        try:
            reply = await self._web.open("GET", headers)
        except McpError as error:
            _log.debug("%s: the GET stream could not be opened: %s", self._link.server, error)
            return None
        try:
            if reply.status != 200 or not reply.streaming:
                return None
            stands.set()
            await self._read(reply, None)
        except (McpError, InvalidFrame) as error:
            _log.debug("%s: the GET stream was lost: %s", self._link.server, error)
        finally:
            await reply.aclose()
        return reply

    # ----------------------------------------------------------------- closing

    def _ended(self) -> ConnectError:
        ended = session_ended(self._web, 404, b"")
        assert ended is not None
        return ended

    async def aclose(self, within: float) -> None:
        """End the session on the server too. A server may refuse that (405), or not answer."""
        self._closed = True
        self._channel.end(lambda: self._web.lost("the session was closed"))
        await self._jobs.aclose(within)
        if self._id is None or self.gone:
            return
        with anyio.move_on_after(within, shield=True):
            try:
                reply = await self._web.open("DELETE", {**self._session_headers, **self.headers})
                await reply.excerpt()
                await reply.aclose()
            except McpError as error:
                _log.debug("%s: the session could not be ended: %s", self._link.server, error)


def _clamped(retry: float | None) -> float:
    return _RETRY if retry is None else min(max(retry, _RETRY_LEAST), _RETRY_MOST)


def _sound(session_id: str | None, server: str) -> str | None:
    if not session_id:
        return None
    if len(session_id) > _LONGEST_ID or not all("!" <= char <= "~" for char in session_id):
        _log.warning("%s: its session id is not of visible ASCII, and is not used", server)
        return None
    return session_id
