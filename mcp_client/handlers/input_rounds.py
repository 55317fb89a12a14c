"""Calls for which a server requests input: they are sent again with it, round by round.

2026-07-28 ``basic/patterns/mrtr``: the call is sent again with a new id, the input, and the
unchanged ``requestState``. Nothing of a round is added to any other call. A round without requests
for input is sent again at once. ``Limits.rounds`` limits the number of rounds, the ``total``
timeout their time; that timeout is paused while a handler is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..connection.call_options import stop_if_cancelled
from ..connection.connection import Turns
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
    """A request for which the server requested input, as it was first sent."""

    method: str
    fields: Mapping[str, Any]
    timeouts: Timeouts
    options: RequestOptions
    started: float
    """The time of the request, on the connection's clock."""
    paused: float = 0.0
    """Seconds that handlers took meanwhile."""


class InputRequiredLoop:
    """Supplies the input that a server requests for the calls of one session."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self.calls: dict[str, ToolCall] = dispatcher.calls
        """The tool calls under way, by their id, for the requests of handlers.

        The code that starts a call adds it here.
        """
        self.turns: Turns = dispatcher.turns
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
        """Send a request that is not a call.

        Args:
            rpc: The connection.
            method: The method of the request.
            fields: The parameters.
            timeouts: The timeouts of the request; ``total`` bounds all rounds.
            options: The options of every round.

        Returns:
            The result.

        Raises:
            McpError: As ``supply_input`` and ``RpcConnection.request`` raise it.
        """
        started = rpc.now()
        try:
            parsed = await rpc.request(method, fields, timeouts, options)
            if isinstance(parsed, InputRequired):
                asked = InputRequest(method, fields, timeouts, options, started)
                parsed = await self.supply_input(parsed, rpc, asked)
            return parsed.result
        except ServerError as error:
            raise await self.explained(error, rpc.era) from None

    async def supply_input(
        self,
        parsed: InputRequired,
        rpc: RpcConnection,
        request: InputRequest,
        call: ToolCall | None = None,
    ) -> Complete | ExtensionResult:
        """Send ``request`` again with input until it has a result, and return the result.

        Every round is sent with the same options. ``call`` is the tool call that the request makes.
        """
        method, fields, timeouts = request.method, request.fields, request.timeouts
        options = request.options
        for _ in range(1, self._limits.rounds):
            asked_at = rpc.now()
            with asking():
                responses = await self._dispatcher.respond_to_round(rpc.era, parsed, call)
            request.paused += rpc.now() - asked_at
            await stop_if_cancelled(options.cancel, options.cancel_requests)
            spent = rpc.now() - request.started - request.paused
            if spent >= timeouts.total:
                clock, seconds = timeouts.expired("total")
                raise CallTimeout(
                    f"the server requested input for longer than {seconds_text(seconds)} ({clock} "
                    "timeout); the call may have run",
                    clock=clock,
                )
            members, left = {**fields, **responses}, timeouts.after(spent)
            try:
                again = await rpc.request(method, members, left, options)
            except ConnectError as error:
                raise _lost(error) from error  # this round was not sent, but those before were
            if not isinstance(again, InputRequired):
                return again
            parsed = again
        raise ProtocolViolation(
            f"the server requested input {self._limits.rounds} times, the limit (Limits.rounds)",
            result=parsed.result,
            server=rpc.server,
        )

    async def explained(
        self, error: ServerError, era: Era, call: ToolCall | None = None
    ) -> ServerError:
        """Return the exception for ``error``; the handler gets the URLs that it may require."""
        if error.code != URL_REQUIRED:
            return error
        return await self._dispatcher.url_elicitation_required(era, error, call)


def _lost(error: ConnectError) -> ConnectionLost:
    return ConnectionLost(
        f"cannot send the requested input to the server: {error.message}; the call may have run",
        why=error.message,
        exit_code=error.exit_code,
        stderr_tail=error.stderr_tail,
        http_status=error.http_status,
        server=error.server,
    )
