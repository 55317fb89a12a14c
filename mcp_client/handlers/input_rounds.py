"""Requests that a server may answer with questions: sent again with the answers, round by round.

2026-07-28 ``basic/patterns/mrtr``: the request is sent again with a new id, the answers asked for,
and ``requestState`` exactly as it came. Nothing of a round goes into any other request. A round
without questions is sent again at once. ``Limits.rounds`` bounds the number of rounds, the
``total`` clock their time; that clock is paused while a handler is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..connection.cancellation import stop_if_cancelled
from ..connection.rpc import CallOptions, RpcConnection
from ..errors import CallTimeout, ConnectError, ConnectionLost, ProtocolViolation, ServerError
from ..protocol.era import Complete
from ..runtime.limits import Limits, Timeouts
from .dispatcher import URL_REQUIRED, Dispatcher

if TYPE_CHECKING:
    from ..catalog.tool import ToolCall

__all__ = ["InputRequiredLoop"]


class InputRequiredLoop:
    """Sends the requests of one session that a server may answer with questions."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self._dispatcher = dispatcher
        self._calls = dispatcher.calls
        self._limits = limits

    async def run(
        self,
        wire: RpcConnection,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: CallOptions,
        call: ToolCall | None = None,
    ) -> dict[str, Any]:
        """The request's result. Every round is sent with the same ``options``.

        ``call`` is the tool call that the request makes, which handlers find in their requests.
        """
        members, clocks, started, paused = fields, timeouts, wire.now(), 0.0
        if call is not None:
            self._calls[call.id] = call
        try:
            for number in range(self._limits.rounds):
                try:
                    reading = await wire.request(method, members, clocks, options)
                except ConnectError as error:
                    if not number:
                        raise
                    raise _lost(error) from error  # this round was not sent, but those before were
                except ServerError as error:
                    if error.code == URL_REQUIRED:
                        raise await self._dispatcher.url_elicitation_required(
                            wire.era, error, call
                        ) from None
                    raise
                if isinstance(reading, Complete):
                    return reading.result
                asked_at = wire.now()
                answers = await self._dispatcher.answer_round(wire.era, reading, call)
                paused += wire.now() - asked_at
                await stop_if_cancelled(options.cancel, options.cancel_requests)
                members = {**fields, **answers}
                spent = wire.now() - started - paused
                if spent >= timeouts.total:
                    raise CallTimeout(
                        f"the server asked back for longer than {timeouts.total:g} s (total "
                        "clock); it may have run",
                        clock="total",
                    )
                clocks = timeouts.after(spent)
            raise ProtocolViolation(
                f"the server asked back {self._limits.rounds} times (Limits.rounds), the most that "
                "is answered",
                result=reading.result,
                server=wire.server,
            )
        finally:
            if call is not None:
                self._calls.pop(call.id, None)


def _lost(error: ConnectError) -> ConnectionLost:
    return ConnectionLost(
        f"the server asked back, and our answer did not reach it: {error.message}; it may have run",
        exit_code=error.exit_code,
        stderr_tail=error.stderr_tail,
        http_status=error.http_status,
        server=error.server,
    )
