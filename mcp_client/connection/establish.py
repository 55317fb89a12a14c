"""Establish a connection: start the server, agree on a revision, restart it if needed.

``protocol.negotiation`` decides what to send, and this module sends it. The only decision made here
is how long to wait for a response. A server that ignores ``server/discover`` should cost one
second, but a server that takes ten seconds to start must not be mistaken for one. So the second is
counted from the moment the server has read the probe, which the transport can observe. If the
revision is fixed, there is no alternative, and the response has the complete connect timeout.

A server may hang because of the probe. If it has read the probe and is silent after a third of the
connect timeout, it is started again and gets ``initialize`` first. Nothing is started once the
connect timeout has expired: the error is raised at once, and the process is ended in the
background.

That a server needs ``initialize`` first is remembered for the life of the process, so that the
second is spent once per server (2026-07-28 ``basic/versioning``).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import anyio

from ..errors import Advice, AuthError, ConnectError, ConnectionLost, McpError, ServerError
from ..protocol.capabilities import ClientDeclaration
from ..protocol.era import Era
from ..protocol.jsonrpc import (
    ErrorResponse,
    InvalidFrame,
    Notification,
    Request,
    Response,
    encode_notification,
    encode_request,
)
from ..protocol.negotiation import is_busy, negotiate, passes
from ..protocol.opening import (
    Accept,
    Answered,
    AnsweredWithError,
    Ask,
    CheckLateAnswer,
    Failed,
    Notify,
    OtherWay,
    Outcome,
    Restart,
    Silent,
    Step,
    Wait,
)
from ..runtime.backoff import doubled, spread
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import SessionContext
from ..transports.base import Exchange, Transport, TransportContext
from .rpc import RpcConnection

__all__ = ["ConnectionAttempt", "Listeners"]

_PROBE_SECONDS = 1.0
"""Seconds to wait for a response after the server has read the probe."""
_PROBE_SECONDS_BLIND = 3.0
"""The same, where the transport cannot see whether the server has read it."""
_POLL_SECONDS = 0.05
_PROBE_SHARE = 0.5
"""The part of the connect timeout a probe may take where silence is slowness."""
_MUTE_SHARE = 1 / 3
"""The part of the connect timeout after which a server that is mute is restarted."""
_MUTE_SHARE_BLIND = 1 / 2
_BUSY_SECONDS = 0.25
"""The pause before a busy server is asked again, unless it names one. It is doubled each time."""
_MAX_REMEMBERED = 256

_wants_initialize: dict[Hashable, None] = {}


class Listeners(NamedTuple):
    """The callbacks for a transport's events: see ``TransportContext``."""

    unasked: Callable[[Transport, Request | Notification], None]
    ended: Callable[[Transport, McpError], None]
    doubted: Callable[[], None]
    missed: Callable[[Transport], None]


class ConnectionAttempt:
    """One attempt to reach a server. Call ``run`` once; its result is open."""

    def __init__(
        self,
        transport: Transport,
        context: SessionContext,
        *,
        client: ClientDeclaration,
        pin: str | None,
        ids: itertools.count[int],
        listeners: Listeners,
    ) -> None:
        self._transport = transport
        self._client = client
        self._pin = pin
        self._context = context
        self._timeouts = context.timeouts
        self._stats = context.stats
        self._ids = ids
        self._listeners = listeners
        self._watch = PausableClock(current().now)
        self._now = self._watch.now
        self._silent: Exchange | None = None
        self._probe_failed = False
        self._restarted = False
        self._first_output = ""
        """See ``_output``: that of the process that was replaced."""

    async def run(self) -> RpcConnection:
        """Return an open connection.

        Raises ``ConnectError``; then nothing remains running except processes that are being ended.
        """
        self._began = self._now()
        self._deadline = self._began + self._timeouts.connect
        try:
            await self._open()
            era = await self._negotiate()
            if self._silent is not None:
                await self._silent.aclose()
            self._transport.agree(era)
            await self._transport.ready()
        except _OutOfTime as late:
            error = self._too_slow(late.method)
            await self._transport.abandon()
            raise error from None
        except BaseException as error:
            await self._transport.aclose()
            if isinstance(error, McpError):
                error.server = self._context.server
            raise
        return RpcConnection(self._transport, era, self._context, ids=self._ids, clock=self._watch)

    async def _negotiate(self) -> Era:
        identity = self._transport.identity
        skip_probe = identity is not None and identity in _wants_initialize
        talk = negotiate(self._client, self._pin, skip_probe=skip_probe)
        outcome: Outcome | None = None
        while True:
            try:
                step = talk.send(outcome)
            except StopIteration as done:
                era: Era = done.value
                _remember(identity, era.server_may_ask and (skip_probe or self._probe_failed))
                return era
            outcome = await self._take(step)

    async def _take(self, step: Step) -> Outcome | None:
        match step:
            case Ask():
                outcome = await self._ask(step)
                if step.probe and _wants_no_probe(outcome):
                    self._probe_failed = True
                return outcome
            case Notify(method=method, era=era):
                self._transport.agree(era)
                await self._transport.send(encode_notification(method), era.headers(method, {}))
                return None
            case Accept(deviation=deviation):
                self._stats.accept(self._context.server, deviation)
                return None
            case Wait():
                return await self._wait(step)
            case CheckLateAnswer():
                return await self._recall()
            case OtherWay(refused=refused):
                return await self._go_the_other_way(refused)
            case Restart():
                self._probe_failed = True
                return await self._restart()

    async def _open(self) -> None:
        transport = self._transport
        link = TransportContext(
            self._context.server,
            partial(self._listeners.unasked, transport),
            self._context.limits,
            self._timeouts,
            self._stats,
            self._watch,
            partial(self._listeners.ended, transport),
            self._listeners.doubted,
            partial(self._listeners.missed, transport),
            self._context.secrets,
            self._context.policy,
        )
        await transport.open(link)

    async def _restart(self) -> Outcome | None:
        self._check_time("initialize")
        self._restarted, self._first_output = True, self._first_output or self._output()
        await self._transport.abandon(wait=True)
        self._silent = None
        self._stats.restarts += not self._transport.is_remote
        self._transport = self._transport.clone()
        self._check_time("initialize")
        try:
            await self._open()
        except ConnectError as error:
            return Failed(error)
        return None

    async def _wait(self, step: Wait) -> Outcome | None:
        """Wait as long as a busy server asks, if there is time for another request then."""
        refused = step.outcome
        fields = refused if isinstance(refused, AnsweredWithError) else refused.error
        asked: float | None = getattr(fields, "retry_after", None)
        pause = max(spread(doubled(_BUSY_SECONDS, step.tries - 1)), asked or 0.0)
        if self._now() + pause >= self._deadline:
            return refused
        await anyio.sleep(pause)
        return None

    def _check_time(self, method: str) -> None:
        if self._now() >= self._deadline:
            raise _OutOfTime(method)

    async def _ask(self, step: Ask) -> Outcome:
        if "opentelemetry.trace" not in sys.modules:
            return await self._ask_in_time(step)
        from .telemetry import span  # only for a host that traces

        with span(step.method, {}, step.revision, self._transport) as traced:
            outcome = await self._ask_in_time(step)
            match outcome:
                case AnsweredWithError(code=code, message=message):
                    traced.failed(ServerError(message, code=code, server=self._context.server))
                case Failed(error=error):
                    traced.failed(error)
                case Silent():
                    traced.failed(TimeoutError())
        return outcome

    async def _go_the_other_way(self, refused: AnsweredWithError | Failed) -> Outcome | None:
        """Use the server's other transport. Returns the refusal if there is none, or it is busy.

        Raises ``AuthError`` if a login is needed there.
        """
        other = self._transport.fallback()
        if other is None:
            return refused
        before, self._transport = self._transport, other
        try:
            with self._watch.scope(self._deadline) as scope:
                await self._open()
            if scope.cancelled_caught:
                raise TimeoutError
        except (ConnectError, TimeoutError) as error:
            await other.aclose()
            self._transport = before
            if isinstance(error, AuthError) and error.http_status != 403:  # the server exists
                if isinstance(refused, Failed):
                    error.args = (f"{error.args[0]} (before that, {refused.error.args[0]})",)
                raise
            if isinstance(error, ConnectError) and is_busy(Failed(error)):
                return Failed(error)
            if isinstance(refused, Failed):
                why = str(error) or "it does not answer"
                text = f"{refused.error.message} (nor is it HTTP+SSE: {why})"
                return refused._replace(
                    error=type(refused.error)(text, **{**vars(refused.error), "advice": None})
                )
            return refused
        await before.aclose()
        return None

    async def _ask_in_time(self, step: Ask) -> Outcome:
        id = next(self._ids)
        self._stats.requests += 1
        text = encode_request(id, step.method, step.params)
        try:
            exchange = await self._transport.exchange(id, text, step.headers, self._deadline)
            outcome: Outcome | None = None
            try:
                outcome = await self._await(step, exchange)
            finally:
                if step.probe and isinstance(outcome, Silent):
                    self._silent = exchange
                else:
                    await exchange.aclose()
        except TimeoutError:
            raise _OutOfTime(step.method) from None
        except ConnectError as error:
            if not self._transport.maybe_unknown_method(error):
                raise
            return Failed(error, self._transport.sends_credentials)
        return outcome

    async def _await(self, step: Ask, exchange: Exchange) -> Outcome:
        """Wait for the response. Raises ``TimeoutError`` at the deadline."""
        if step.probe and self._pin is None:
            may_be_slow, share = self._transport.always_responds, 0.0
        elif step.replaces and not self._transport.is_remote:
            may_be_slow = False
            share = _MUTE_SHARE_BLIND if self._transport.unread() is None else _MUTE_SHARE
        else:
            return await self._outcome(exchange, self._deadline)
        give_up = None
        if may_be_slow:
            now = self._now()
            give_up = now + (self._deadline - now) * _PROBE_SHARE
        earliest = self._began + self._timeouts.connect * share
        while True:
            now = self._now()
            if give_up is None:
                unread = self._transport.unread()
                # A server that is to be replaced has read the probe: it does not start slowly.
                if not unread or step.replaces:
                    give_up = now + (_PROBE_SECONDS_BLIND if unread is None else _PROBE_SECONDS)
                    give_up = max(give_up, earliest)
            until = min(self._deadline, now + _POLL_SECONDS if give_up is None else give_up)
            try:
                return await self._outcome(exchange, until)
            except TimeoutError:
                now = self._now()
                if now >= self._deadline:
                    raise
                if give_up is None or now < give_up:
                    continue
                if step.replaces and self._answers_others():
                    give_up = math.inf  # the server does not hang: starting it again would not help
                    continue
                return Silent()

    def _answers_others(self) -> bool:
        """Whether the server sends responses, although none is to a request of ours."""
        output = self._transport.unmatched_output()
        return output is not None and output.may_be_responses

    async def _recall(self) -> Outcome:
        exchange = self._silent
        if exchange is None:
            return Silent()
        try:
            return await self._outcome(exchange, self._now())
        except TimeoutError:
            return Silent()

    async def _outcome(self, exchange: Exchange, until: float) -> Outcome:
        while True:
            try:
                message: Any = await exchange.receive(until)
            except ConnectionLost as error:
                return Failed(_not_sent(error, self._transport))
            except InvalidFrame as error:
                unusable = ConnectError(f"the server's response cannot be used: {error.reason}")
                return Failed(unusable, may_pass=not self._transport.is_remote)
            if type(message) is Response:
                return Answered(message.result)
            if type(message) is ErrorResponse:
                status = message.status or (200 if self._transport.is_remote else None)
                return AnsweredWithError(
                    message.code, message.message, message.data, status, message.retry_after
                )

    def _output(self) -> str:
        """A text about the output of the server that is not a response, or empty."""
        output = self._transport.unmatched_output()
        if output is None:
            return ""
        lines = (
            "1 line that is not a response"
            if output.lines == 1
            else (f"{output.lines} lines that are not responses")
        )
        ending = "" if output.ended else ", and which no line feed ends"
        return f"; it sent {lines} to our requests, the first: {output.first!r}{ending}"

    def _too_slow(self, method: str) -> ConnectError:
        seconds = self._timeouts.connect
        output = self._first_output or self._output()
        unread = self._transport.unread() and not self._restarted
        why = "it has not read its input" if unread else f"it does not answer {method}"
        try_it = "open it" if self._transport.is_remote else "run it by hand"
        advice = Advice(
            f"allow more time with Timeouts(connect=...), or {try_it} to check",
            "connect_timeout",
            try_it,
        )
        if output:
            advice = Advice("is it an MCP server?")
        return ConnectError(
            f"no agreement with the server within {seconds:g} s: {why}{output}",
            advice=advice,
            server=self._context.server,
            retryable=True,
        )


class _OutOfTime(Exception):
    """The connect timeout expired while ``method`` was asked."""

    def __init__(self, method: str) -> None:
        self.method = method


def _wants_no_probe(outcome: Outcome) -> bool:
    """Whether the next connection had better begin with ``initialize``."""
    if isinstance(outcome, Failed):
        return not passes(outcome)
    return isinstance(outcome, Silent)


def _not_sent(error: ConnectionLost, transport: Transport) -> ConnectError:
    """Return the error for a connection lost before the session is open: nothing was called."""
    if transport.is_remote or transport.only_its_word:
        return ConnectError(error.why, advice=transport.exit_advice())
    code = error.exit_code
    how = "closed its output" if code is None else f"exited with code {code}"
    if code is not None and code < 0:
        how = f"was ended by signal {-code}"
    return ConnectError(
        f"the server {how} before the session was open",
        advice=transport.exit_advice() or Advice("run it by hand to see why"),
        exit_code=code,
        stderr_tail=error.stderr_tail,
    )


def _remember(identity: Hashable | None, wants_initialize: bool) -> None:
    if identity is None:
        return
    _wants_initialize.pop(identity, None)
    if wants_initialize:
        _wants_initialize[identity] = None
        if len(_wants_initialize) > _MAX_REMEMBERED:
            del _wants_initialize[next(iter(_wants_initialize))]
