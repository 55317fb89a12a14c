"""One request out, one answer back: ids, clocks, progress, cancelling.

An ``RpcConnection`` is a transport on which an era has been agreed. It runs in the caller's task
and keeps nothing between requests but a counter. A request's id is also its progress token, which
is how a progress notification finds its request without a table.

When a clock runs out (see ``clock``, and ``stopwatch`` for when a person logs in), or the caller is
cancelled, the server is told in the way its era and transport want, and an answer that still comes
is dropped. Progress has to grow or is dropped (2026-07-28 ``basic/patterns/progress``); a callback
for it that waits is told in a task of its own, and one that does not in place.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import anyio

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
from ..runtime.limits import Limits, Timeouts
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from ..runtime.stats import Stats
from ..transports.base import Exchange, Transport
from .cancellation import Call
from .deadlines import RequestDeadlines
from .tracing import Span, span

__all__ = ["OnProgress", "RpcConnection", "Traffic"]

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


class _Asked(NamedTuple):
    """One request as its sender wants it: what ``Wire.request`` was given."""

    method: str
    fields: Mapping[str, Any]
    timeouts: Timeouts
    progress: bool
    on_progress: OnProgress | None
    mirrors: Sequence[HeaderParam]
    cancelling: Call[Any] | None
    traffic: Traffic | None


class RpcConnection:
    def __init__(
        self,
        transport: Transport,
        era: Era,
        server: str,
        stats: Stats,
        ids: itertools.count[int],
        limits: Limits,
        watch: PausableClock,
    ) -> None:
        self.transport = transport
        self.era = era
        self.server = server
        self._stats = stats
        self._ids = ids
        self._limits = limits
        self.generation = 0
        """Which connection of its session this is, from 1."""
        self.now = watch.now
        self.clocks = RequestDeadlines(self.now)
        """Those of the requests under way."""

    @property
    def mirrors(self) -> bool:
        """Whether arguments of calls are repeated in headers."""
        return self.era.mirrors and self.transport.has_headers

    async def request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        on_progress: OnProgress | None = None,
        mirrors: Sequence[HeaderParam] = (),
        repeatable: bool = False,
        cancelling: Call[Any] | None = None,
        traffic: Traffic | None = None,
    ) -> Reading:
        """Send a request and read its answer.

        ``mirrors`` are the marks of the tool that is called. ``repeatable``: it may be sent again
        if the server says that it is busy (HTTP 429 and 503), after a pause, within the clocks.
        ``cancelling`` is told that it was sent, and knows why it is given up.
        ``traffic`` is where bytes are counted.

        Raises ``ConnectError`` where nothing was sent; ``CallTimeout`` or ``ConnectionLost`` where
        it is not known what the server did; ``ServerError`` or ``ProtocolViolation`` where it
        answered.
        """
        asked = _Asked(
            method, fields, timeouts, progress, on_progress, mirrors, cancelling, traffic
        )
        began, tries = self.now(), 0
        while True:
            try:
                with span(method, fields, self.era.revision) as traced:
                    return traced.done(await self._request(asked, traced.meta(meta), traced))
            except ServerError as error:
                tries += 1
                pause = _pause(error, tries) if repeatable else None
                until = began + min(timeouts.idle, timeouts.total)
                if pause is None or self.now() + pause >= until:
                    raise
            await anyio.sleep(pause)

    async def _request(
        self, asked: _Asked, meta: Mapping[str, Any] | None, traced: Span
    ) -> Reading:
        method, fields, timeouts, progress, on_progress, mirrors, cancelling, traffic = asked
        headers = (
            self.era.headers(method, fields, mirrors) if self.transport.has_headers else _NO_HEADERS
        )
        id = next(self._ids)
        traced.sent(id)
        text = encode_request(
            id, method, self.era.params(fields, meta, id if progress or on_progress else None)
        )
        self._stats.requests += 1
        if cancelling is not None:
            cancelling.sent = True
        if traffic is not None:
            traffic.sent += len(text) if text.isascii() else len(text.encode())
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s > %s id=%s (%d characters)", self.server, method, id, len(text))
        started = self.now()
        try:
            exchange = await self.transport.exchange(
                id, text, headers, started + min(timeouts.idle, timeouts.total)
            )
        except McpError:
            raise
        except TimeoutError:
            self._give_up(id)  # some of it may have left, and the rest follows in its turn
            spent = "total" if self.now() - started >= timeouts.total else "idle"
            raise self._timeout(method, timeouts, spent) from None
        except BaseException:
            self._give_up(id, cancelling)
            raise
        try:
            answer = await self._answer(exchange, method, timeouts, started, on_progress)
        except BaseException as error:
            if isinstance(error, CallTimeout) or not isinstance(error, McpError):
                self._give_up(id, cancelling)
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
        on_progress: OnProgress | None,
    ) -> Response | ErrorResponse:
        clock = self.clocks.start(timeouts, started)
        hearer = None
        if on_progress is not None:
            hearer = ProgressNotifier(on_progress, self.server, self._limits.notices, self._stats)
        reached, now = float("-inf"), started
        try:
            while True:
                try:
                    message = await exchange.receive(clock.until(now))
                except TimeoutError:
                    now = self.now()
                    if clock.until(now) > now:
                        continue
                    raise self._timeout(method, timeouts, clock.ran_out(now)) from None
                except InvalidFrame as error:
                    raise ProtocolViolation(
                        f"the server's answer cannot be used: {error.reason}; it may have run",
                        result=error.raw,
                        server=self.server,
                    ) from None
                if type(message) is not Notification:
                    if hearer is not None:
                        await hearer.aclose(_LAST_WORDS)
                    return message  # type: ignore[return-value]
                progress = message.params.get("progress")
                if type(progress) in (int, float) and progress > reached:  # type: ignore[operator]
                    reached, now = progress, self.now()  # type: ignore[assignment]
                    clock.sign(now)
                    if hearer is not None:
                        hearer.tell(*_progress(message))
        finally:
            self.clocks.stop(clock)
            if hearer is not None:
                await hearer.aclose()

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
            f"; {junk} frames from the server were no JSON-RPC message, the last began "
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

    def _give_up(self, id: Id, cancelling: Call[Any] | None = None) -> None:
        """Tell the server that nobody waits any more, where closing the exchange does not."""
        if self.transport.multiplexed or not self.era.closing_cancels:
            reason = None if cancelling is None else cancelling.reason
            params = {"requestId": id, "reason": reason or _GAVE_UP}
            notice = encode_notification(CANCELLED, params)
            self.transport.send_soon(notice, _NO_HEADERS)

    async def listen(
        self, method: str, fields: Mapping[str, Any], until: float
    ) -> tuple[Id, Exchange]:
        """Send a request that is answered by notices, and in the end by an answer.

        Raises ``ConnectError`` or ``TimeoutError``. Whoever has it closes it with ``leave``.
        """
        id = next(self._ids)
        text = encode_request(id, method, self.era.params(fields, None, None))
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
    """Seconds to wait before asking a busy server again; None where that is no use."""
    if error.http_status not in _BUSY or tries >= _TRIES:
        return None
    import random

    backoff = _PAUSE * 2**tries * (0.5 + random.random())  # noqa: S311 - spreads, hides nothing
    return float(max(backoff, error.retry_after or 0.0))
