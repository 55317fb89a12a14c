"""Establish a connection: start the server, agree on a revision, restart it where that is needed.

``protocol.negotiation`` decides what to ask, and this module sends it. The one decision made here
is how long to wait for the answer to a probe. A server that ignores ``server/discover`` should cost
one second, but a server that takes ten seconds to start must not be mistaken for one. So the second
is counted from the moment the server has read the probe, which the transport can see. Where the
revision is fixed there is nothing else to try, and the answer has all the time that connecting has.

That a server wants ``initialize`` first is remembered for the life of the process, so that the
second is spent once per server (2026-07-28 ``basic/versioning``).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

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
from ..protocol.negotiation import (
    Answered,
    AnsweredWithError,
    Ask,
    CheckLateAnswer,
    Failed,
    Outcome,
    Restart,
    Silent,
    Step,
    Tell,
    negotiate,
)
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import SessionContext
from ..transports.base import Exchange, Transport, TransportContext
from .rpc import RpcConnection
from .tracing import span

__all__ = ["ConnectionAttempt"]

_PROBE_SECONDS = 1.0
"""For the answer to a probe that the server has read."""
_PROBE_SECONDS_BLIND = 3.0
"""The same, where the transport cannot see whether the server has read it."""
_POLL_SECONDS = 0.05
_PROBE_SHARE = 0.5
"""The part of the connect clock a probe may take where silence is slowness."""
_MAX_REMEMBERED = 256

_wants_initialize: dict[Hashable, None] = {}


class ConnectionAttempt:
    """One attempt to reach a server. ``run`` once; what it returns is open."""

    def __init__(
        self,
        transport: Transport,
        context: SessionContext,
        *,
        client: ClientDeclaration,
        pin: str | None,
        ids: itertools.count[int],
        unasked: Callable[[Transport, Request | Notification], None],
        ended: Callable[[Transport, McpError], None],
        doubted: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._client = client
        self._pin = pin
        self._context = context
        self._timeouts = context.timeouts
        self._stats = context.stats
        self._ids = ids
        self._unasked = unasked
        self._ended = ended
        self._doubted = doubted
        self._watch = PausableClock(current().now)
        self._now = self._watch.now
        self._silent: Exchange | None = None
        self._probe_failed = False

    async def run(self) -> RpcConnection:
        """Raises ``ConnectError``, and then nothing is left running."""
        self._deadline = self._now() + self._timeouts.connect
        try:
            await self._open()
            era = await self._negotiate()
        except BaseException as error:
            await self._transport.aclose()
            if isinstance(error, McpError):
                error.server = self._context.server
            raise
        if self._silent is not None:
            await self._silent.aclose()
        self._transport.agree(era)
        await self._transport.ready()
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
                if step.probe and isinstance(outcome, Silent | Failed):
                    self._probe_failed = True
                return outcome
            case Tell(method=method, era=era):
                self._transport.agree(era)
                await self._transport.send(encode_notification(method), era.headers(method, {}))
                return None
            case CheckLateAnswer():
                return await self._recall()
            case Restart():
                self._probe_failed = True
                return await self._restart()

    async def _open(self) -> None:
        transport = self._transport
        link = TransportContext(
            self._context.server,
            partial(self._unasked, transport),
            self._context.limits,
            self._timeouts,
            self._stats,
            self._watch,
            lambda error: self._ended(transport, error),
            self._doubted,
            self._context.secrets,
            self._context.policy,
        )
        await transport.open(link)

    async def _restart(self) -> Outcome | None:
        await self._transport.aclose()
        self._silent = None
        self._stats.restarts += not self._transport.is_remote
        self._transport = self._transport.clone()
        try:
            await self._open()
        except ConnectError as error:
            return Failed(error)
        return None

    async def _ask(self, step: Ask) -> Outcome:
        if "opentelemetry.trace" not in sys.modules:
            return await self._ask_any_way(step)
        with span(step.method, {}, step.revision, self._transport) as traced:
            outcome = await self._ask_any_way(step)
            match outcome:
                case AnsweredWithError(code=code, message=message):
                    traced.failed(ServerError(message, code=code, server=self._context.server))
                case Failed(error=error):
                    traced.failed(error)
                case Silent():
                    traced.failed(TimeoutError())
        return outcome

    async def _ask_any_way(self, step: Ask) -> Outcome:
        outcome = await self._ask_here(step)
        if not step.probe and isinstance(outcome, Failed | AnsweredWithError):
            other = self._transport.fallback()
            if other is not None:
                return await self._ask_otherwise(step, other, outcome)
        return outcome

    async def _ask_otherwise(self, step: Ask, other: Transport, refused: Outcome) -> Outcome:
        """Ask again by the other way to carry messages, if the server has it."""
        before, self._transport = self._transport, other
        try:
            with self._watch.scope(self._deadline) as scope:
                await self._open()
            if scope.cancelled_caught:
                raise TimeoutError
        except (ConnectError, TimeoutError) as error:
            await other.aclose()
            self._transport = before
            if isinstance(error, AuthError) and error.http_status != 403:
                if isinstance(refused, Failed):
                    error.args = (f"{error.args[0]} (before that, {refused.error.args[0]})",)
                raise error
            if isinstance(refused, Failed):
                why = str(error) or "it does not answer"
                said = f"{refused.error.message} (nor is it HTTP+SSE: {why})"
                return Failed(type(refused.error)(said, **vars(refused.error)))
            return refused
        await before.aclose()
        return await self._ask_here(step)

    async def _ask_here(self, step: Ask) -> Outcome:
        id = next(self._ids)
        self._stats.requests += 1
        text = encode_request(id, step.method, step.params)
        try:
            exchange = await self._transport.exchange(id, text, step.headers, self._deadline)
        except TimeoutError:
            raise self._too_slow(step.method) from None
        except ConnectError as error:
            return self._failed(error)
        outcome: Outcome = Silent()
        try:
            if not step.probe:
                outcome = await self._await(exchange)
            elif self._pin is None:
                outcome = await self._await_probe(exchange)
            else:
                outcome = await self._outcome(exchange, self._deadline)
        except TimeoutError:
            raise self._too_slow(step.method) from None
        except ConnectError as error:
            outcome = self._failed(error)
        finally:
            if step.probe and isinstance(outcome, Silent):
                self._silent = exchange
            else:
                await exchange.aclose()
        return outcome

    def _failed(self, error: ConnectError) -> Failed:
        if not self._transport.maybe_unknown_method(error):
            raise error
        return Failed(error)

    async def _await(self, exchange: Exchange) -> Outcome:
        try:
            return await self._outcome(exchange, self._deadline)
        except TimeoutError:
            raise self._too_slow("initialize") from None

    async def _await_probe(self, exchange: Exchange) -> Outcome:
        give_up = None
        if self._transport.always_responds:
            now = self._now()
            give_up = now + (self._deadline - now) * _PROBE_SHARE
        while True:
            now = self._now()
            if give_up is None:
                unread = self._transport.unread()
                if not unread:
                    give_up = now + (_PROBE_SECONDS if unread == 0 else _PROBE_SECONDS_BLIND)
            until = min(self._deadline, now + _POLL_SECONDS if give_up is None else give_up)
            try:
                return await self._outcome(exchange, until)
            except TimeoutError:
                now = self._now()
                if now >= self._deadline:
                    raise self._too_slow("server/discover") from None
                if give_up is not None and now >= give_up:
                    return Silent()

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
                return Failed(ConnectError(f"the server's answer cannot be used: {error.reason}"))
            if type(message) is Response:
                return Answered(message.result)
            if type(message) is ErrorResponse:
                return AnsweredWithError(message.code, message.message, message.data)

    def _too_slow(self, method: str) -> ConnectError:
        seconds = self._timeouts.connect
        unread = self._transport.unread()
        why = "it has not read what it was sent" if unread else f"it does not answer {method}"
        junk = self._stats.junk_lines
        try_it = "open it" if self._transport.is_remote else "run it by hand"
        advice = Advice(
            f"give it longer with Timeouts(connect=...), or {try_it} and see",
            "connect_timeout",
            try_it,
        )
        if junk:
            advice = Advice(
                f"it wrote {junk} lines that are not JSON-RPC messages, the last began "
                f"{self._stats.last_junk!r}: is it an MCP server?"
            )
        return ConnectError(
            f"no agreement with the server within {seconds:g} s: {why}",
            advice=advice,
            retryable=True,
        )


def _not_sent(error: ConnectionLost, transport: Transport) -> ConnectError:
    """What a lost connection raises before a session is open: nothing was called."""
    if transport.is_remote:
        return ConnectError(error.why, advice=transport.exit_advice())
    code = error.exit_code
    how = "closed its output" if code is None else f"exited with code {code}"
    if code is not None and code < 0:
        how = f"was ended by signal {-code}"
    return ConnectError(
        f"the server {how} before it had introduced itself",
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
