"""One request out, one answer back: ids, clocks, progress, cancelling.

A ``Wire`` is a transport on which an era has been agreed. It runs in the caller's task and keeps
nothing between requests but a counter. A request's id is also its progress token, which is how a
progress notification finds its request without a table.

Clocks (2026-07-28 ``basic/patterns/cancellation``, timeouts): ``idle`` starts anew with each sign
of progress, ``total`` never does. When one runs out, or the caller is cancelled, the server is
told in the way its era and transport want, and an answer that still comes is dropped.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from .bounds import Timeouts
from .display import safe_text
from .errors import CallTimeout, McpError, ProtocolViolation, ServerError
from .protocol.era import Era, Malformed, Reading
from .protocol.headers import Mirror
from .protocol.jsonrpc import Answer, Failure, Id, Notice, Unusable, encode_notice, encode_request
from .tracing import Span, span
from .transports.base import Exchange, Stats, Transport

__all__ = ["OnProgress", "Wire"]

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Called with ``progress``, ``total`` and ``message`` of each progress notification."""

_log = logging.getLogger("mcp_client")
_NO_HEADERS: Mapping[str, str] = {}
_BUSY = frozenset({429, 503})
_TRIES = 4
_PAUSE = 0.25


class Wire:
    def __init__(
        self, transport: Transport, era: Era, server: str, stats: Stats, ids: itertools.count[int]
    ) -> None:
        self.transport = transport
        self.era = era
        self._server = server
        self._stats = stats
        self._ids = ids
        self.generation = 0
        """Which connection of its session this is, from 1."""
        self.now = _clock()

    @property
    def mirrors(self) -> bool:
        """Whether arguments of calls are repeated in headers."""
        return self.era.mirrors and self.transport.headed

    async def request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        on_progress: OnProgress | None = None,
        mirrors: Sequence[Mirror] = (),
        repeatable: bool = False,
    ) -> Reading:
        """Send a request and read its answer.

        ``mirrors`` are the marks of the tool that is called. ``repeatable``: it may be sent again
        if the server says that it is busy (HTTP 429 and 503), after a pause, within the clocks.

        Raises ``ConnectError`` where nothing was sent; ``CallTimeout`` or ``ConnectionLost`` where
        it is not known what the server did; ``ServerError`` or ``ProtocolViolation`` where it
        answered.
        """
        until = self.now() + min(timeouts.idle, timeouts.total)
        tries = 0
        while True:
            try:
                with span(method, fields, self.era.revision) as traced:
                    own = traced.meta(meta)
                    return traced.done(
                        await self._request(
                            method, fields, timeouts, own, progress, on_progress, mirrors, traced
                        )
                    )
            except ServerError as error:
                tries += 1
                pause = _pause(error, tries) if repeatable else None
                if pause is None or self.now() + pause >= until:
                    raise
            await anyio.sleep(pause)

    async def _request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        meta: Mapping[str, Any] | None,
        progress: bool,
        on_progress: OnProgress | None,
        mirrors: Sequence[Mirror],
        traced: Span,
    ) -> Reading:
        headers = (
            self.era.headers(method, fields, mirrors) if self.transport.headed else _NO_HEADERS
        )
        id = next(self._ids)
        traced.sent(id)
        text = encode_request(
            id, method, self.era.params(fields, meta, id if progress or on_progress else None)
        )
        self._stats.requests += 1
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s > %s id=%s (%d characters)", self._server, method, id, len(text))
        started = self.now()
        try:
            exchange = await self.transport.exchange(
                id, text, headers, started + min(timeouts.idle, timeouts.total)
            )
        except McpError:
            raise
        except TimeoutError:
            self._give_up(id)  # some of it may have left, and the rest follows in its turn
            raise self._timeout(method, timeouts, started) from None
        except BaseException:
            self._give_up(id)
            raise
        try:
            answer = await self._answer(exchange, method, id, timeouts, started, on_progress)
        except BaseException as error:
            if isinstance(error, CallTimeout) or not isinstance(error, McpError):
                self._give_up(id)
            raise
        finally:
            await exchange.aclose()
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s < answer to %s id=%s", self._server, method, id)
        return self._read(answer)

    async def _answer(
        self,
        exchange: Exchange,
        method: str,
        id: Id,
        timeouts: Timeouts,
        started: float,
        on_progress: OnProgress | None,
    ) -> Answer | Failure:
        latest = started + timeouts.total
        until = min(latest, started + timeouts.idle)
        reached = float("-inf")
        while True:
            try:
                message = await exchange.receive(until)
            except TimeoutError:
                raise self._timeout(method, timeouts, started) from None
            except Unusable as error:
                raise ProtocolViolation(
                    f"the server's answer cannot be used: {error.reason}; it may have run",
                    result=error.raw,
                    server=self._server,
                ) from None
            if type(message) is not Notice:
                return message  # type: ignore[return-value]
            progress = message.params.get("progress")
            if type(progress) in (int, float) and progress > reached:  # type: ignore[operator]
                reached = progress  # type: ignore[assignment]
                until = min(latest, self.now() + timeouts.idle)
                if on_progress is not None:
                    with anyio.move_on_after(latest - self.now()):
                        await self._tell(on_progress, message)

    async def _tell(self, on_progress: OnProgress, notice: Notice) -> None:
        total, text = notice.params.get("total"), notice.params.get("message")
        try:
            told = on_progress(
                notice.params["progress"],
                total if type(total) in (int, float) else None,
                text if type(text) is str else None,
            )
            if told is not None:
                await told
        except Exception:  # noqa: BLE001 - a callback's fault is not the call's
            _log.warning("%s: on_progress raised; the call goes on", self._server, exc_info=True)

    def _read(self, answer: Answer | Failure) -> Reading:
        if type(answer) is Failure:
            raise ServerError(
                f"the server answered with an error: {safe_text(answer.message)} "
                f"(code {answer.code})",
                code=answer.code,
                data=answer.data,
                http_status=answer.status,
                retry_after=answer.retry_after,
                server=self._server,
                retryable=answer.status == 429,
            )
        try:
            return self.era.read(answer.result)  # type: ignore[union-attr]
        except Malformed as error:
            raise ProtocolViolation(
                str(error),
                result=answer.result,  # type: ignore[union-attr]
                server=self._server,
            ) from None

    def _timeout(self, method: str, timeouts: Timeouts, started: float) -> McpError:
        clock = "total" if self.now() - started >= timeouts.total else "idle"
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
            server=self._server,
        )

    def _give_up(self, id: Id) -> None:
        """Tell the server that nobody waits any more, where closing the exchange does not."""
        if self.transport.shared or not self.era.closing_cancels:
            params = {"requestId": id, "reason": "the client gave up waiting"}
            notice = encode_notice("notifications/cancelled", params)
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
        _log.debug("%s > %s id=%s", self._server, method, id)
        headers = self.era.headers(method, fields) if self.transport.headed else _NO_HEADERS
        return id, await self.transport.exchange(id, text, headers, until)

    async def leave(self, id: Id, exchange: Exchange, *, answered: bool) -> None:
        """Close what ``listen`` opened, and tell the server where closing does not."""
        if not answered:
            self._give_up(id)
        await exchange.aclose()

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        headers = self.era.headers(method, params or {})
        await self.transport.send(encode_notice(method, params), headers)


def _pause(error: ServerError, tries: int) -> float | None:
    """Seconds to wait before asking a busy server again; None where that is no use."""
    if error.http_status not in _BUSY or tries >= _TRIES:
        return None
    backoff = _PAUSE * 2**tries * (0.5 + random.random())  # noqa: S311 - spreads, hides nothing
    return float(max(backoff, error.retry_after or 0.0))


def _clock() -> Callable[[], float]:
    from .backend import current

    return current().now
