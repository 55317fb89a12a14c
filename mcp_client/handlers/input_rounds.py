"""When the answer is a question: the rounds of one request, until the server is content.

2026-07-28 ``basic/patterns/mrtr``: the request is made again, with a new id, the answers asked for,
and ``requestState`` exactly as it came; nothing of it goes into any other request. A round that
asks nothing is made again at once. ``Limits.rounds`` bounds how often, the ``total`` clock for how
long. While a person thinks about an answer, that clock stands still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..connection.cancellation import stop_if_cancelled
from ..connection.rpc import CallOptions, RpcConnection
from ..errors import CallTimeout, ConnectError, ConnectionLost, ProtocolViolation, ServerError
from ..protocol.era import Complete
from ..runtime.limits import Limits, Timeouts
from .dispatcher import URL_REQUIRED, Dispatcher

__all__ = ["InputRequiredLoop"]


class InputRequiredLoop:
    """Makes requests that a server may answer with questions. ``session`` has one."""

    def __init__(self, answering: Dispatcher, limits: Limits) -> None:
        self._answering = answering
        self._limits = limits

    async def run(
        self,
        wire: RpcConnection,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: CallOptions,
    ) -> dict[str, Any]:
        """The request's result. Every round is made with the same ``options``."""
        asked, clocks, began, thought = fields, timeouts, wire.now(), 0.0
        for number in range(self._limits.rounds):
            try:
                reading = await wire.request(method, asked, clocks, options)
            except ConnectError as error:
                if not number:
                    raise
                raise _lost(error) from error  # this round was not sent, but those before were
            except ServerError as error:
                if error.code == URL_REQUIRED:
                    raise await self._answering.visit_first(wire.era, error) from None
                raise
            if isinstance(reading, Complete):
                return reading.result
            question = wire.now()
            answers = await self._answering.round(wire.era, reading)
            thought += wire.now() - question
            await stop_if_cancelled(options.cancel, options.cancel_requests)
            asked = {**fields, **answers}
            gone = wire.now() - began - thought
            if gone >= timeouts.total:
                raise CallTimeout(
                    f"the server asked back for longer than {timeouts.total:g} s (total clock); "
                    "it may have run",
                    clock="total",
                )
            clocks = timeouts.after(gone)
        raise ProtocolViolation(
            f"the server asked back {self._limits.rounds} times (Limits.rounds) without an end",
            result=reading.result,
            server=wire.server,
        )


def _lost(error: ConnectError) -> ConnectionLost:
    return ConnectionLost(
        f"the server asked back, and our answer did not reach it: {error.message}; it may have run",
        exit_code=error.exit_code,
        stderr_tail=error.stderr_tail,
        http_status=error.http_status,
        server=error.server,
    )
