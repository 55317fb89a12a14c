"""Send one request and receive its response: ids, timeouts, progress, cancellation.

An ``RpcConnection`` is a transport with an agreed era. It runs in the caller's task and stores only
a counter between requests. A request's id is also its progress token, so that a progress
notification finds its request without a table.

A timeout may expire (see ``deadlines``, and ``runtime.pausable_clock`` for the time of a person's
login), or the caller may be cancelled. Then the server is notified as its era and transport
require, and a late response is dropped. Progress that does not increase is dropped (2026-07-28
``basic/patterns/progress``). An async progress callback runs in a task of its own, a plain function
in place.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint

from ..errors import (
    CallTimeout,
    ConnectError,
    McpError,
    MissingCapability,
    ProtocolViolation,
    ServerError,
)
from ..protocol.capabilities import MISSING_CAPABILITY, missing_capabilities
from ..protocol.era import CANCELLED, Era, Malformed, ParsedResult
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
from ..runtime.backoff import doubled, spread
from ..runtime.callbacks import ProgressNotifier
from ..runtime.limits import Timeouts, seconds_text
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from ..runtime.session_context import KnownSecrets, SessionContext
from ..transports.base import AnnouncedSilence, Exchange, Transport
from .call_options import CancelToken, OnProgress
from .deadlines import RequestDeadline, RequestDeadlines

if TYPE_CHECKING:
    from .telemetry import Span

__all__ = ["REPEATABLE", "RequestOptions", "RpcConnection", "Traffic", "server_error"]

"""A function called with ``progress``, ``total`` and ``message`` of each notification.

An async function may be slow: notifications wait, the oldest are dropped beyond ``Limits.notices``,
and the call waits for it at most one second at the end. A plain function is called in the event
loop and must not block.
"""


_log = logging.getLogger("mcp_client")
_NO_HEADERS: Mapping[str, str] = {}
_BUSY = frozenset({429, 503})
_MAX_TRIES = 4
_BACKOFF_SECONDS = 0.25
_LATE_PROGRESS_SECONDS = 1.0
"""Seconds for a slow callback to receive the remaining progress after the response."""
_GAVE_UP = "the client gave up waiting"


class Traffic:
    """The bytes sent and received for one call, in all its requests."""

    __slots__ = ("_last", "answers", "received", "sent")

    def __init__(self) -> None:
        self._last = 0
        self.sent: int = 0
        """Bytes of the messages sent, or passed on to be sent."""
        self.received: int = 0
        """Bytes of the responses."""
        self.answers: int = 0

    def send(self, text: str) -> None:
        """Count a message that is sent."""
        self._last = len(text) if text.isascii() else len(text.encode())
        self.sent += self._last

    def take_back(self) -> None:
        """Note that none of the last message was sent."""
        self.sent -= self._last
        self._last = 0


@dataclass(slots=True, eq=False, repr=False)
class RequestOptions:
    """The options of one request. All requests of a call with several rounds use the same."""

    meta: Mapping[str, Any] | None = None
    """The caller's own ``_meta``."""
    progress: bool = False
    """Whether progress is requested; it restarts the idle timeout."""
    on_progress: OnProgress | None = None
    mirrors: Sequence[HeaderParam] = ()
    """The arguments of the tool that are repeated in HTTP headers."""
    repeatable: bool = False
    """Whether to repeat the request if the server is busy (HTTP 429 and 503).

    It is sent again after a pause, within the timeouts.
    """
    traffic: Traffic | None = None
    """The counter of bytes."""
    cancel: CancelToken | None = None
    """The token with the reason for giving up the request."""
    cancel_requests: int = 0
    """``cancel_requests()`` as it was when the call began."""
    ids: list[Id] | None = None
    """The list to which the ids of its requests are added."""
    holds: bool = False
    """Whether the request must not be sent after a login of a person: see ``Transport.hold``."""
    withdraws: bool = True
    """Whether the server gets a notification when the request is given up."""


_DEFAULT = RequestOptions()
REPEATABLE = RequestOptions(repeatable=True)


class RpcConnection:
    """A transport with an agreed era, and the requests on it."""

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
        self.server: str = context.server
        self.generation = 0
        """Which connection of its session this is, from 1."""
        self.now: Callable[[], float] = clock.now
        """Seconds on the connection's own clock, which is paused while a person logs in."""
        self.clocks: RequestDeadlines = RequestDeadlines(clock.now)
        """The timeouts of the requests under way."""
        self.clock = clock
        self.mirrors: bool = era.mirrors and transport.has_headers
        """Whether arguments of calls are repeated in headers."""
        self.on_notification: Callable[[Notification], None] | None = None
        """Called with the notifications that came on the stream of a subscription."""
        self._context = context
        self._stats = context.stats
        self._ids = ids
        self._log_level: str | None = None

    @property
    def sign_of_life(self) -> str:
        """The method that requests a sign of life: the stateless era has no ping."""
        return "ping" if self.era.server_may_ask else "server/discover"

    def ask_for_logs(self, level: str | None) -> None:
        """Request log messages from ``level`` on with every request, in the stateless era."""
        self._log_level = level

    def request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions = _DEFAULT,
    ) -> Coroutine[Any, Any, ParsedResult]:
        """Send a request and parse its response.

        Raises ``ConnectError`` if nothing was sent, ``CallTimeout`` or ``ConnectionLost`` if the
        effect is unknown, and ``ServerError`` or ``ProtocolViolation`` after a response.
        """
        if options.repeatable or "opentelemetry.trace" in sys.modules:
            return self._repeated(method, fields, timeouts, options)
        return self._request(method, fields, timeouts, options)

    async def _repeated(
        self, method: str, fields: Mapping[str, Any], timeouts: Timeouts, options: RequestOptions
    ) -> ParsedResult:
        """``_request``, traced; and sent again where the server is busy and that does no harm."""
        began, tries = self.clock.time(), 0
        while True:
            try:
                if "opentelemetry.trace" not in sys.modules:
                    return await self._request(method, fields, timeouts, options)
                from .telemetry import span  # only for a host that traces

                with span(method, fields, self.era.revision, self.transport) as traced:
                    return traced.done(
                        await self._request(method, fields, timeouts, options, traced)
                    )
            except ServerError as error:
                tries += 1
                pause = _pause(error, tries) if options.repeatable else None
                until = began + min(timeouts.idle, timeouts.total)
                if pause is None or self.clock.time() + pause >= until:
                    raise
            await anyio.sleep(pause)

    async def _request(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions,
        traced: Span | None = None,
    ) -> ParsedResult:
        id, exchange, started = await self._begin(method, fields, timeouts, options, traced)
        until = started + min(timeouts.idle, timeouts.total)
        deadline = RequestDeadline(timeouts, started)
        self.clocks.add(deadline)
        progress: _Progress | None = None
        try:
            while True:
                try:
                    message = await exchange.receive(until)
                except TimeoutError:
                    now = self.clock.time()
                    until = deadline.until(now)
                    if until > now:
                        continue  # it was paused, or a sign of life came
                    timeout = self._timeout(method, timeouts, deadline.ran_out(now))
                    raise self._not_taken(id, method, options) or timeout from None
                if type(message) is Response or type(message) is ErrorResponse:
                    break
                if type(message) is AnnouncedSilence:
                    self._expect_silence(message.until, deadline, timeouts)
                elif type(message) is Notification:
                    progress = progress or self._progress(options, message)
                    if progress.has_increased(message):
                        deadline.sign(self.clock.time())
                        await progress.report(message, options.cancel)
                until = deadline.until(self.clock.time())
            if progress is not None:
                await progress.aclose(_LATE_PROGRESS_SECONDS)
        except InvalidFrame as error:
            text = f"cannot use the server's response: {self._context.secrets.text(error.reason)}"
            text += "" if method.endswith("/list") else "; it may have run"
            raise ProtocolViolation(text, result=error.raw, server=self.server) from None
        except BaseException as error:
            if isinstance(error, CallTimeout) or not isinstance(error, McpError):
                self._give_up(id, options)
            raise
        finally:
            self.clocks.discard(deadline)
            try:
                if progress is not None:
                    await progress.aclose()
            finally:
                await exchange.aclose()
        if options.traffic is not None:
            options.traffic.received += message.size
            options.traffic.answers += 1
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s < response to %s id=%s", self.server, method, id)
        return self._read(message, method)

    async def _begin(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions,
        traced: Span | None,
    ) -> tuple[Id, Exchange, float]:
        """Send a request. Returns its id, its exchange, and when it began."""
        era, transport = self.era, self.transport
        headers = (
            era.headers(method, fields, options.mirrors) if transport.has_headers else _NO_HEADERS
        )
        id = next(self._ids)
        if options.ids is not None:
            options.ids.append(id)
        meta = options.meta
        if traced is not None:
            traced.sent(id)
            meta = traced.meta(meta)
        token = id if options.progress or options.on_progress else None
        text = encode_request(id, method, era.params(fields, meta, token, self._log_level))
        self._stats.requests += 1
        if options.traffic is not None:
            options.traffic.send(text)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s > %s id=%s (%d characters)", self.server, method, id, len(text))
        if options.holds and transport.may_log_in:
            transport.hold(id)
        started = self.clock.time()
        until = started + min(timeouts.idle, timeouts.total)
        try:
            return id, await transport.exchange(id, text, headers, until), started
        except McpError:
            raise
        except TimeoutError:
            self._give_up(id, options)
            # Some of it may be sent; the rest follows in its turn.
            spent = "total" if self.clock.time() - started >= timeouts.total else "idle"
            raise self._timeout(method, timeouts, spent) from None
        except BaseException:
            self._give_up(id, options)
            raise

    def _progress(self, options: RequestOptions, first: Notification) -> _Progress:
        if type(first.params.get("progressToken")) is str:
            self._stats.accept(
                self.server, "a progress token is text, where the request had a number"
            )
        limit, on_progress = self._context.limits.notices, options.on_progress
        return _Progress(
            on_progress and ProgressNotifier(on_progress, self.server, limit, self._stats),
            self._context.secrets,
        )

    def _expect_silence(self, until: float, deadline: RequestDeadline, timeouts: Timeouts) -> None:
        if not deadline.allows(until):
            raise CallTimeout(
                "the response stream ended early. The server requests a pause of "
                f"{seconds_text(until - self.now())} before the client reconnects, longer than the "
                f"rest of the total timeout of {seconds_text(timeouts.expired('total')[1])}; the "
                "call may have run",
                clock="total",
                server=self.server,
            )
        deadline.sign(until)

    def _read(self, response: Response | ErrorResponse, method: str) -> ParsedResult:
        secrets = self._context.secrets
        if type(response) is ErrorResponse:
            masked_error = response._replace(
                message=secrets.text(response.message), data=secrets.json(response.data)
            )
            raise server_error(masked_error, self.server, self.era)
        try:
            return self.era.read(response.result, method)  # type: ignore[union-attr]
        except Malformed as error:
            raise ProtocolViolation(
                secrets.text(str(error)),
                result=response.result,  # type: ignore[union-attr]
                server=self.server,
            ) from None

    def _not_taken(self, id: Id, method: str, options: RequestOptions) -> ConnectError | None:
        """Return the error for a request that is too late to be sent; None if a part was sent."""
        if not self.transport.withdraw(id):
            return None
        if options.traffic is not None:
            options.traffic.take_back()
        return ConnectError(
            f"the server did not accept the request ({method}) in time: it does not "
            "read its input; nothing was sent",
            server=self.server,
            retryable=True,
        )

    def _timeout(self, method: str, timeouts: Timeouts, clock: str) -> McpError:
        missing = "sign of life" if clock == "idle" else "response"
        clock, seconds = timeouts.expired(clock)
        junk = self._stats.junk_lines
        noise = (
            f"; {junk} frames from the server were not JSON-RPC messages, the last one began "
            f"{self._stats.last_junk!r}"
            if junk
            else ""
        )
        return CallTimeout(
            f"no {missing} within {seconds_text(seconds)} ({clock} timeout, {method}); it may have "
            f"run{noise}",
            clock=clock,
            server=self.server,
        )

    def _give_up(self, id: Id, options: RequestOptions = _DEFAULT) -> None:
        """Notify the server that the request is abandoned, unless closing the exchange does."""
        transport = self.transport
        reason = (None if options.cancel is None else options.cancel.reason) or _GAVE_UP
        _log.debug(
            "%s: stopped waiting for request id=%s: %s", self.server, id, safe_text(reason, 200)
        )
        if id == transport.last_unsent_id or transport.withdraw(id):
            if options.traffic is not None:
                options.traffic.take_back()
            return
        if not options.withdraws:
            return
        if transport.multiplexed or not self.era.closing_cancels:
            params = {"requestId": id, "reason": reason}
            notice = encode_notification(CANCELLED, params)
            transport.send_soon(notice, _NO_HEADERS)

    async def listen(
        self, method: str, fields: Mapping[str, Any], until: float
    ) -> tuple[Id, Exchange]:
        """Send a request whose responses are notifications, with a final response at the end.

        Raises ``ConnectError`` or ``TimeoutError``. Close the exchange with ``leave``.
        """
        id = next(self._ids)
        text = encode_request(id, method, self.era.params(fields, None, None, self._log_level))
        self._stats.streams += 1
        _log.debug("%s > %s id=%s", self.server, method, id)
        headers = self.era.headers(method, fields) if self.transport.has_headers else _NO_HEADERS
        return id, await self.transport.exchange(id, text, headers, until)

    async def leave(self, id: Id, exchange: Exchange, *, answered: bool) -> None:
        """Close the exchange of ``listen``, and notify the server if closing does not."""
        if not answered:
            self._give_up(id)
        await exchange.aclose()

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        headers = self.era.headers(method, params or {})
        await self.transport.send(encode_notification(method, params), headers)


class _Progress:
    """The progress of one request, once there is any."""

    __slots__ = ("_notifier", "_reached", "_secrets")

    def __init__(self, notifier: ProgressNotifier | None, secrets: KnownSecrets) -> None:
        self._notifier = notifier
        self._secrets = secrets
        self._reached = -math.inf

    def has_increased(self, notice: Notification) -> bool:
        progress: Any = notice.params.get("progress")
        if type(progress) not in (int, float) or progress <= self._reached:
            return False
        self._reached = progress
        return True

    async def report(self, notice: Notification, token: CancelToken | None) -> None:
        if self._notifier is None:
            return
        total, text = notice.params.get("total"), notice.params.get("message")
        text = self._secrets.json(text)
        self._notifier.notify(
            notice.params["progress"],
            total if type(total) in (int, float) else None,
            text if type(text) is str else None,
        )
        if token is not None and token.cancelled:
            await checkpoint()  # by the callback itself, in this very task

    async def aclose(self, within: float = 0.0) -> None:
        if self._notifier is not None:
            await self._notifier.aclose(within)


def server_error(response: ErrorResponse, server: str, era: Era) -> ServerError:
    """Return the exception for an error response of the server."""
    message = safe_text(response.message.strip(), lines=True)
    text = f"the server answered with an error: {message}"
    fields = {
        "code": response.code,
        "server_message": message,
        "data": response.data,
        "http_status": response.status,
        "retry_after": response.retry_after,
        "server": server,
        "retryable": response.status == 429,
    }
    required, advice = missing_capabilities(response.data)
    # In older revisions the server defines the code, which may have another meaning.
    if response.code != MISSING_CAPABILITY or not (required or not era.server_may_ask):
        return ServerError(f"{text} (code {response.code})", **fields)
    text = f"{text.rstrip('.')}; it needs the client to declare {advice} (code {response.code})"
    return MissingCapability(text, required=required, **fields)


def _pause(error: ServerError, tries: int) -> float | None:
    """Seconds to wait before asking a busy server again; None if it should not be asked."""
    if error.http_status not in _BUSY or tries >= _MAX_TRIES:
        return None
    return max(spread(doubled(_BACKOFF_SECONDS, tries)), error.retry_after or 0.0)
