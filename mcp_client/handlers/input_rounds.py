"""Requests that a server may answer with questions: sent again with the answers, round by round.

2026-07-28 ``basic/patterns/mrtr``: the request is sent again with a new id, the answers asked for,
and ``requestState`` exactly as it came. Nothing of a round goes into any other request. A round
without questions is sent again at once. ``Limits.rounds`` bounds the number of rounds, the
``total`` clock their time; that clock is paused while a handler is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..connection.cancellation import stop_if_cancelled
from ..connection.rpc import RequestOptions, RpcConnection
from ..errors import CallTimeout, ConnectError, ConnectionLost, ProtocolViolation, ServerError
from ..protocol.era import Complete, Era, ExtensionResult, InputRequired
from ..runtime.limits import Limits, Timeouts, seconds_text
from ..runtime.pausable_clock import asking
from .dispatcher import URL_REQUIRED, Dispatcher

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall

__all__ = ["InputRequest", "InputRequiredLoop"]


@dataclass(slots=True, eq=False, repr=False)
class InputRequest:
    """A request that the server answered with questions, as it was sent at first."""

    method: str
    fields: Mapping[str, Any]
    timeouts: Timeouts
    options: RequestOptions
    started: float
    """When, on the connection's clock."""
    paused: float = 0.0
    """Seconds that handlers took meanwhile."""


class InputRequiredLoop:
    """Answers the questions that a server has about the requests of one session."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self.calls: dict[str, ToolCall] = dispatcher.calls
        """The tool calls under way, by their id: handlers find theirs in their requests. The
        code that starts a call enters it here."""
        self._dispatcher = dispatcher
        self._limits = limits

    async def run(
        self,
        rpc: RpcConnection,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions,
    ) -> dict[str, Any]:
        """Send a request that is not a call. Returns its result."""
        started = rpc.now()
        try:
            reading = await rpc.request(method, fields, timeouts, options)
            if isinstance(reading, InputRequired):
                asked = InputRequest(method, fields, timeouts, options, started)
                reading = await self.answer(reading, rpc, asked)
            return reading.result
        except ServerError as error:
            raise await self.explained(error, rpc.era) from None

    async def answer(
        self,
        reading: InputRequired,
        rpc: RpcConnection,
        request: InputRequest,
        call: ToolCall | None = None,
    ) -> Complete | ExtensionResult:
        """Send ``request`` again with answers, until it has a result. Returns that.

        Every round is sent with the same options. ``call`` is the tool call that the request makes.
        """
        method, fields, timeouts = request.method, request.fields, request.timeouts
        options = request.options
        for _ in range(1, self._limits.rounds):
            asked_at = rpc.now()
            with asking():
                answers = await self._dispatcher.answer_round(rpc.era, reading, call)
            request.paused += rpc.now() - asked_at
            await stop_if_cancelled(options.cancel, options.cancel_requests)
            spent = rpc.now() - request.started - request.paused
            if spent >= timeouts.total:
                clock, seconds = timeouts.expired("total")
                raise CallTimeout(
                    f"the server asked back for longer than {seconds_text(seconds)} ({clock} "
                    "clock); it may have run",
                    clock=clock,
                )
            members, left = {**fields, **answers}, timeouts.after(spent)
            try:
                again = await rpc.request(method, members, left, options)
            except ConnectError as error:
                raise _lost(error) from error  # this round was not sent, but those before were
            if not isinstance(again, InputRequired):
                return again
            reading = again
        raise ProtocolViolation(
            f"the server asked back {self._limits.rounds} times (Limits.rounds), the most that is "
            "answered",
            result=reading.result,
            server=rpc.server,
        )

    async def explained(
        self, error: ServerError, era: Era, call: ToolCall | None = None
    ) -> ServerError:
        """What to raise for ``error``: where it wants URLs to be visited, that is asked about."""
        if error.code != URL_REQUIRED:
            return error
        return await self._dispatcher.url_elicitation_required(era, error, call)


def _lost(error: ConnectError) -> ConnectionLost:
    return ConnectionLost(
        f"the server asked back, and our answer did not reach it: {error.message}; it may have run",
        why=error.message,
        exit_code=error.exit_code,
        stderr_tail=error.stderr_tail,
        http_status=error.http_status,
        server=error.server,
    )
