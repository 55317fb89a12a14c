"""Send one request and receive its response: ids, timeouts, progress, cancellation.

An ``RpcConnection`` is a transport on which an era has been agreed. It runs in the caller's task
and keeps nothing between requests but a counter. A request's id is also its progress token, which
is how a progress notification finds its request without a table.

When a timeout expires (see ``deadlines``, and ``runtime.pausable_clock`` for time that a person
needs to log in) or the caller is cancelled, the server is told as its era and transport want, and a
late response is dropped. Progress that does not increase is dropped (2026-07-28
``basic/patterns/progress``). An async progress callback runs in a task of its own, a plain function
in place.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from ..errors import CallTimeout, McpError, ProtocolViolation, ServerError
from ..protocol.era import Era, Malformed, Reading
from ..protocol.headers import HeaderParam
from ..protocol.jsonrpc import (
    ErrorResponse,
    Id,
    InvalidFrame,
    Notification,
    Response,
    encode_notification,
    encode_request,
)
from ..protocol.notifications import CANCELLED
from ..runtime.callbacks import ProgressNotifier
from ..runtime.limits import Timeouts
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext
from ..transports.base import AnnouncedSilence, Exchange, Transport
from .cancellation import CancelToken
from .deadlines import RequestDeadlines
from .tracing import Span, span

__all__ = ["REPEATABLE", "CallOptions", "OnProgress", "RpcConnection", "Traffic"]

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Called with ``progress``, ``total`` and ``message`` of each progress notification.

An async one may take its time: what it is not quick enough for waits, the oldest is dropped beyond
``Limits.notices``, and the call returns at most a second later for it. A plain function is called
in place, in the event loop, and must not block.
"""

_log = logging.getLogger("mcp_client")
_NO_HEADERS: Mapping[str, str] = {}
_BUSY = frozenset({429, 503})
_TRIES = 4
_PAUSE = 0.25
_LAST_WORDS = 1.0
"""Seconds a slow callback has to hear the rest of the progress once the answer is there."""
_GAVE_UP = "the client gave up waiting"


class Traffic:
    """What went out for one call, and what came back, all its requests together."""

    __slots__ = ("answers", "received", "sent")

    def __init__(self) -> None:
        self.sent = 0
        """Bytes of the messages sent, or handed over to be sent."""
        self.received = 0
        """Bytes of the answers."""
        self.answers = 0


class CallOptions(NamedTuple):
    """How one request is to be made. A call that takes rounds makes each of them so."""

    meta: Mapping[str, Any] | None = None
    """The caller's own ``_meta``."""
    progress: bool = False
    """Whether progress is asked for; it restarts the idle clock."""
    on_progress: OnProgress | None = None
    mirrors: Sequence[HeaderParam] = ()
    """The arguments of the tool that HTTP headers repeat."""
    repeatable: bool = False
    """Whether it may be sent again if the server says that it is busy (HTTP 429 and 503), after a
    pause, within the clocks."""
    traffic: Traffic | None = None
    """Where bytes are counted."""
    cancel: CancelToken | None = None
    """Knows why the request is given up."""
    cancel_requests: int = 0
    """``cancel_requests()`` as it was when the call began."""


_DEFAULT = CallOptions()
REPEATABLE = CallOptions(repeatable=True)


class RpcConnection:
    def __init__(
        self,
        transport: Transport,
        era: Era,
        context: SessionContext,
        *,
        ids: itertools.count[int],
        clock: PausableClock,
    ) -> None:
        self.transport = transport
        self.era = era
        self.server = context.server
        self.generation = 0
        """Which connection of its session this is, from 1."""
        self.now = clock.now
        """Seconds on the connection's own clock, which is paused while a person logs in."""
        self.clocks = RequestDeadlines(clock.now)
        """Those of the requests under way."""
        self._context = context
        self._stats = context.stats
        self._ids = ids
        self._clock = clock
        self._log_level: str | None = None

    def ask_for_logs(self, level: str | None) -> None:
        """Ask for log messages from ``level`` on with every request, in the stateless era."""
        self._log_level = level

    @property
    def mirrors(self) -> bool:
        """Whether arguments of calls are repeated in headers."""
        return self.era.mirrors and self.transport.has_headers

    async def request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: CallOptions = _DEFAULT,
    ) -> Reading:
        """Send a request and read its answer.

        Raises ``ConnectError`` where nothing was sent; ``CallTimeout`` or ``ConnectionLost`` where
        it is not known what the server did; ``ServerError`` or ``ProtocolViolation`` where it
        answered.
        """
        began, tries = self._clock.time(), 0
        while True:
            try:
                if "opentelemetry.trace" not in sys.modules:
                    return await self._request(method, fields, timeouts, options)
                with span(method, fields, self.era.revision) as traced:
                    return traced.done(
                        await self._request(method, fields, timeouts, options, traced)
                    )
            except ServerError as error:
                tries += 1
                pause = _pause(error, tries) if options.repeatable else None
                until = began + min(timeouts.idle, timeouts.total)
                if pause is None or self._clock.time() + pause >= until:
                    raise
            await anyio.sleep(pause)

    async def _request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: CallOptions,
        traced: Span | None = None,
    ) -> Reading:
        headers = (
            self.era.headers(method, fields, options.mirrors)
            if self.transport.has_headers
            else _NO_HEADERS
        )
        id = next(self._ids)
        token = id if options.progress or options.on_progress else None
        meta = options.meta
        if traced is not None:
            traced.sent(id)
            meta = traced.meta(meta)
        text = encode_request(id, method, self.era.params(fields, meta, token, self._log_level))
        self._stats.requests += 1
        traffic = options.traffic
        if traffic is not None:
            traffic.sent += len(text) if text.isascii() else len(text.encode())
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s > %s id=%s (%d characters)", self.server, method, id, len(text))
        started = self._clock.time()
        try:
            exchange = await self.transport.exchange(
                id, text, headers, started + min(timeouts.idle, timeouts.total)
            )
        except McpError:
            raise
        except TimeoutError:
            self._give_up(id)  # some of it may have left, and the rest follows in its turn
            spent = "total" if self._clock.time() - started >= timeouts.total else "idle"
            raise self._timeout(method, timeouts, spent) from None
        except BaseException:
            self._give_up(id, options.cancel)
            raise
        try:
            answer = await self._answer(exchange, method, timeouts, started, options)
        except BaseException as error:
            if isinstance(error, CallTimeout) or not isinstance(error, McpError):
                self._give_up(id, options.cancel)
            raise
        finally:
            await exchange.aclose()
        if traffic is not None:
            traffic.received += answer.size
            traffic.answers += 1
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s < answer to %s id=%s", self.server, method, id)
        return self._read(answer)

    async def _answer(
        self,
        exchange: Exchange,
        method: str,
        timeouts: Timeouts,
        started: float,
        options: CallOptions,
    ) -> Response | ErrorResponse:
        clock = self.clocks.start(timeouts, started)
        notifier = None
        if options.on_progress is not None:
            notifier = ProgressNotifier(
                options.on_progress, self.server, self._context.limits.notices, self._stats
            )
        reached, now = float("-inf"), started
        try:
            while True:
                try:
                    message = await exchange.receive(clock.until(now))
                except TimeoutError:
                    now = self._clock.time()
                    if clock.until(now) > now:
                        continue
                    raise self._timeout(method, timeouts, clock.ran_out(now)) from None
                except InvalidFrame as error:
                    raise ProtocolViolation(
                        f"the server's answer cannot be used: {error.reason}; it may have run",
                        result=error.raw,
                        server=self.server,
                    ) from None
                if type(message) is AnnouncedSilence:
                    if not clock.allows(message.until):
                        raise self._too_long_a_wait(message.until - self.now(), timeouts)
                    clock.sign(message.until)
                    continue
                if type(message) is not Notification:
                    if notifier is not None:
                        await notifier.aclose(_LAST_WORDS)
                    return message  # type: ignore[return-value]
                progress = message.params.get("progress")
                if type(progress) in (int, float) and progress > reached:  # type: ignore[operator]
                    reached, now = progress, self._clock.time()  # type: ignore[assignment]
                    clock.sign(now)
                    if notifier is not None:
                        notifier.tell(*_progress(message))
                        if options.cancel is not None and options.cancel.cancelled:
                            await checkpoint()  # by the callback itself, in this very task
        finally:
            self.clocks.stop(clock)
            if notifier is not None:
                await notifier.aclose()

    def _too_long_a_wait(self, seconds: float, timeouts: Timeouts) -> McpError:
        return CallTimeout(
            "the stream of this request ended before the answer, and the server asks to wait "
            f"{seconds:g} s before the rest is fetched: longer than is left of the total timeout "
            f"of {timeouts.total:g} s; it may have run",
            clock="total",
            server=self.server,
        )

    def _read(self, answer: Response | ErrorResponse) -> Reading:
        if type(answer) is ErrorResponse:
            raise ServerError(
                f"the server answered with an error: {safe_text(answer.message)} "
                f"(code {answer.code})",
                code=answer.code,
                data=answer.data,
                http_status=answer.status,
                retry_after=answer.retry_after,
                server=self.server,
                retryable=answer.status == 429,
            )
        try:
            return self.era.read(answer.result)  # type: ignore[union-attr]
        except Malformed as error:
            raise ProtocolViolation(
                str(error),
                result=answer.result,  # type: ignore[union-attr]
                server=self.server,
            ) from None

    def _timeout(self, method: str, timeouts: Timeouts, clock: str) -> McpError:
        seconds = timeouts.total if clock == "total" else timeouts.idle
        junk = self._stats.junk_lines
        noise = (
            f"; {junk} frames from the server were not JSON-RPC messages, the last began "
            f"{self._stats.last_junk!r}"
            if junk
            else ""
        )
        return CallTimeout(
            f"no {'answer' if clock == 'total' else 'sign of life'} within {seconds:g} s "
            f"({clock} clock, {method}); it may have run{noise}",
            clock=clock,
            server=self.server,
        )

    def _give_up(self, id: Id, token: CancelToken | None = None) -> None:
        """Tell the server that the request is abandoned, unless closing the exchange does."""
        if self.transport.multiplexed or not self.era.closing_cancels:
            reason = None if token is None else token.reason
            params = {"requestId": id, "reason": reason or _GAVE_UP}
            notice = encode_notification(CANCELLED, params)
            self.transport.send_soon(notice, _NO_HEADERS)

    async def listen(
        self, method: str, fields: Mapping[str, Any], until: float
    ) -> tuple[Id, Exchange]:
        """Send a request that is answered by notifications, and at the end by a response.

        Raises ``ConnectError`` or ``TimeoutError``. Close the exchange with ``leave``.
        """
        id = next(self._ids)
        text = encode_request(id, method, self.era.params(fields, None, None, self._log_level))
        self._stats.streams += 1
        _log.debug("%s > %s id=%s", self.server, method, id)
        headers = self.era.headers(method, fields) if self.transport.has_headers else _NO_HEADERS
        return id, await self.transport.exchange(id, text, headers, until)

    async def leave(self, id: Id, exchange: Exchange, *, answered: bool) -> None:
        """Close what ``listen`` opened, and tell the server where closing does not."""
        if not answered:
            self._give_up(id)
        await exchange.aclose()

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        headers = self.era.headers(method, params or {})
        await self.transport.send(encode_notification(method, params), headers)


def _progress(notice: Notification) -> tuple[float, float | None, str | None]:
    total, text = notice.params.get("total"), notice.params.get("message")
    return (
        notice.params["progress"],
        total if type(total) in (int, float) else None,
        text if type(text) is str else None,
    )


def _pause(error: ServerError, tries: int) -> float | None:
    """Seconds to wait before asking a busy server again; None if it should not be asked."""
    if error.http_status not in _BUSY or tries >= _TRIES:
        return None
    import random

    backoff = _PAUSE * 2**tries * (0.5 + random.random())  # noqa: S311 - spreads, hides nothing
    return float(max(backoff, error.retry_after or 0.0))
