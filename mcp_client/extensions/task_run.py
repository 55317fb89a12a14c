"""Wait for a task: poll until it ends, answer its questions, cancel it if the caller gives up.

The interval between polls is the newest that the server asked for, at least 50 ms; a second if it
does not state one. A question (``input_required``) is answered under the rules and limits of any
question (``handlers.dispatcher``): each key once, however many polls repeat it. The ``total``
timeout bounds the whole, and is paused while a handler is called.

Polls are reads. If a connection is lost, its poll is sent again on the next one. Responses that did
not arrive are sent again if the server still waits for them. A server that no longer knows the task
leaves its outcome unknown.

Once a task exists, the server is notified of a cancellation with ``tasks/cancel`` and never with
``notifications/cancelled``.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from ..connection.call_options import stop_if_cancelled
from ..connection.connection import Connection
from ..connection.rpc import RequestOptions, RpcConnection, server_error
from ..errors import (
    CallCancelled,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    McpError,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..handlers.dispatcher import Dispatcher
from ..protocol.era import InputRequired, Malformed
from ..protocol.jsonrpc import ErrorResponse
from ..runtime.callbacks import ProgressNotifier
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts, seconds_text
from ..runtime.session_context import SessionContext
from .task_state import (
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    TaskState,
    hide_id,
    note_status,
    read_task,
)

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall

__all__ = ["TaskRun", "TotalClock"]

_log = logging.getLogger("mcp_client")
_UNKNOWN = -32602
_REFUSALS = frozenset({_UNKNOWN, -32600, -32601, -32021})
"""Errors that the same poll would meet again."""
_MAX_FAILURES = 5
"""The number of polls in a row that the server may refuse with an error."""
_MIN_RETRY_SECONDS = 1.0
"""The minimum seconds between two polls if the first failed."""
_LAST_NOTICES_SECONDS = 1.0
_ROUNDING_SECONDS = 1e-6
"""A rest of a timeout that is only the rounding of its clock."""
_CANCEL_SECONDS = 5.0
"""Seconds that a server has to acknowledge ``tasks/cancel``."""


class TotalClock:
    """Seconds of the total timeout that a call has used, on whichever connection."""

    def __init__(
        self, rpc: RpcConnection, spent: float = 0.0, most_paused: float = math.inf
    ) -> None:
        """Start the clock of a call.

        ``most_paused`` bounds the seconds that do not count because a question of the server, sent
        as a request, waits for its response.
        """
        self._rpc = rpc
        self._since = rpc.now() - spent
        self._paused = rpc.clocks.paused
        self._most = most_paused

    @property
    def spent(self) -> float:
        """Seconds until now, without those that do not count."""
        paused = min(self._rpc.clocks.paused - self._paused, self._most)
        return self._rpc.now() - self._since - paused

    def pause(self, seconds: float) -> None:
        """Do not count so many seconds, which a person took."""
        self._since += seconds

    def on(self, rpc: RpcConnection) -> RpcConnection:
        """Continue by the clock of ``rpc``, which is paused while a person logs in there."""
        if rpc is not self._rpc:
            spent = self.spent
            self._most -= min(self._rpc.clocks.paused - self._paused, self._most)
            self._rpc, self._since = rpc, rpc.now() - spent
            self._paused = rpc.clocks.paused
        return rpc


class TaskRun:
    """A wait for one task of the server: one at a time."""

    def __init__(
        self,
        connection: Connection,
        dispatcher: Dispatcher,
        context: SessionContext,
        state: TaskState,
        *,
        call: ToolCall | None = None,
    ) -> None:
        """``call`` made the task, as far as that is known here."""
        self.state: TaskState = state
        self.call = call
        self.cancel_asked: str | None = None
        """The reason why ``tasks/cancel`` was sent, if it was."""
        self.is_unknown: bool = False
        """Whether the server no longer knows the task."""
        self._connection = connection
        self._dispatcher = dispatcher
        self._context = context
        self._answered: set[str] = set()
        """The keys of the questions that were put to handlers."""
        self._unsent: dict[str, Any] = {}
        """The responses that the server has not acknowledged."""
        self._rounds = 0
        self._failures = 0
        self._now = current().now
        is_new = call is not None and state.status == WORKING
        self._due = self._now() + state.interval if is_new else -math.inf
        """The time of the next poll, on the loop's clock."""
        self._reported: tuple[str, str | None] | None = None
        self._steps = 0
        self._notifier: ProgressNotifier | None = None

    @property
    def over(self) -> bool:
        """Whether the server has nothing left to cancel."""
        return self.is_unknown or self.state.ended

    async def wait(self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock) -> Any:
        """Return the result of the call, as the server sends it.

        Raises ``ServerError`` if the task failed. Raises ``OutcomeUnknown`` if it was cancelled or
        is no longer known, ``CallTimeout`` and ``ConnectionLost`` among them. Raises
        ``ProtocolViolation`` for a response that breaks the specification, and ``Unanswered``. No
        error has the task's id.
        """
        polls = replace(
            options, repeatable=True, progress=False, on_progress=None, mirrors=(), withdraws=False
        )
        notifier = None
        if options.on_progress is not None:
            limit, stats = self._context.limits.notices, self._context.stats
            notifier = ProgressNotifier(options.on_progress, self._context.server, limit, stats)
        self._notifier = notifier
        try:
            while True:
                self._report()
                if self.state.is_whole and self.state.ended:
                    if notifier is not None:
                        await notifier.aclose(_LAST_NOTICES_SECONDS)
                    return self._outcome()
                if self.state.is_whole and self.state.status == INPUT_REQUIRED:
                    await self._respond(timeouts, polls, clock)
                await self._pause(timeouts, clock)
                await self._poll(timeouts, polls, clock)
        except McpError as error:
            raise hide_id(error, self.state.id) from _without(error.__cause__, self.state.id)
        finally:
            self._notifier = None
            if notifier is not None:
                await notifier.aclose()

    async def refresh(self, timeouts: Timeouts) -> None:
        """Ask once how the task is doing."""
        rpc = await self._connection.ensure_connected()
        await self._poll(
            timeouts, RequestOptions(repeatable=True, withdraws=False), TotalClock(rpc)
        )

    def _report(self) -> None:
        """Report each new message of the server as a step of progress."""
        notifier, report = self._notifier, (self.state.status, self.state.message)
        if notifier is None or self.state.message is None or report == self._reported:
            return
        self._reported = report
        self._steps += 1
        notifier.notify(self._steps, None, self.state.message)

    # ---------------------------------------------------------------------- its end

    def _outcome(self) -> dict[str, Any]:
        state = self.state
        if state.status == COMPLETED:
            assert state.result is not None
            return state.result
        server = self._context.server
        if state.status == FAILED:
            assert state.error is not None
            message, data = state.error.get("message"), state.error.get("data")
            reason = message if type(message) is str else "it gives no reason"
            response = ErrorResponse(None, state.error["code"], reason, data)
            raise server_error(response, server, self._connection.rpc.era)
        if self.cancel_asked is not None:
            raise CallCancelled(
                f"the task was cancelled: {self.cancel_asked}; it may have run in part",
                reason=self.cancel_asked,
                server=server,
            )
        reason = f": {state.message}" if state.message else ""
        raise OutcomeUnknown(
            f"the server cancelled the task by itself{reason}; it may have run in part",
            server=server,
        )

    # ----------------------------------------------------------------------- polls

    async def _pause(self, timeouts: Timeouts, clock: TotalClock) -> None:
        left = self._left(timeouts, clock)
        await anyio.sleep(max(0.0, min(self._due - self._now(), left)))

    def _left(self, timeouts: Timeouts, clock: TotalClock) -> float:
        """Return the rest of the total timeout in seconds, if any is left.

        Raises ``CallTimeout``.
        """
        left = timeouts.total - clock.spent
        if left <= _ROUNDING_SECONDS:
            which, seconds = timeouts.expired("total")
            raise CallTimeout(
                f"the task did not end within {seconds_text(seconds)} ({which} timeout); its "
                f"status was {self.state.status}, and it may have run",
                clock=which,
                server=self._context.server,
            )
        return left

    async def _poll(self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock) -> None:
        self._left(timeouts, clock)
        try:
            rpc = clock.on(await self._connection.ensure_connected())
            fields = await self._request(rpc, "tasks/get", {}, timeouts.after(clock.spent), options)
        except ServerError as error:
            self._refused(error)
            return
        except (ConnectionLost, ConnectError) as error:
            self._lost(error)
            return
        try:
            self.state = self._read(fields)
            note_status(fields, self._context)
        except Malformed as error:
            raise ProtocolViolation(
                str(error), result=fields, server=self._context.server
            ) from None
        self._failures = 0
        self._due = self._now() + self.state.interval

    def _read(self, fields: dict[str, Any]) -> TaskState:
        """Parse the response to a poll. Raises ``Malformed``."""
        return read_task(fields, self.state.id)

    async def _request(
        self,
        rpc: RpcConnection,
        method: str,
        fields: dict[str, Any],
        timeouts: Timeouts,
        options: RequestOptions,
    ) -> dict[str, Any]:
        fields = {"taskId": self.state.id, **fields}
        parsed = await rpc.request(method, fields, timeouts, options)
        if isinstance(parsed, InputRequired):
            raise ProtocolViolation(
                f"the server answered {method}, which the specification does not allow",
                result=parsed.result,
                server=self._context.server,
            )
        return parsed.result

    def _failed(self) -> None:
        self._failures += 1
        self._due = self._now() + max(self.state.interval, _MIN_RETRY_SECONDS)

    def _refused(self, error: ServerError) -> None:
        """Count an error in response to a poll. Raises, unless another poll may succeed."""
        self._failed()
        if error.code not in _REFUSALS and self._failures < _MAX_FAILURES:
            _log.debug(
                "%s: the server refused a poll of a task: code %s", self._context.server, error.code
            )
            return
        if error.code == _UNKNOWN:
            self.is_unknown = True
            ttl = self.state.ttl
            for_how_long = "" if ttl is None else f" (it stores tasks for {seconds_text(ttl)})"
            text = f"the server no longer knows the task{for_how_long}; it may have run"
        else:
            text = (
                "the server does not report the outcome of the task; it may have run: "
                f"{error.message}"
            )
        raise OutcomeUnknown(text, server=self._context.server) from error

    def _lost(self, error: ConnectionLost | ConnectError) -> None:
        """Count a failed connection. Raises, unless there will be another."""
        self._failed()
        passing = isinstance(error, ConnectionLost) or error.retryable or error.http_status == 404
        if passing and not self._connection.closed:
            _log.debug("%s: a poll of a task got no response", self._context.server)
            return
        if isinstance(error, ConnectionLost):
            raise error
        raise ConnectionLost(
            f"cannot request the outcome of the task: {error.message}; it may have run",
            why=error.message,
            exit_code=error.exit_code,
            stderr_tail=error.stderr_tail,
            http_status=error.http_status,
            server=self._context.server,
        ) from error

    # ------------------------------------------------------------------- questions

    async def _respond(
        self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock
    ) -> None:
        """Answer the questions of the server that are new."""
        open = self.state.questions
        new = {key: asked for key, asked in open.items() if key not in self._answered}
        if new:
            await self._ask(new, options, clock)
        self._unsent = {key: response for key, response in self._unsent.items() if key in open}
        if not self._unsent:
            return
        self._left(timeouts, clock)
        try:
            rpc = clock.on(await self._connection.ensure_connected())
            fields = {"inputResponses": self._unsent}
            await self._request(rpc, "tasks/update", fields, timeouts.after(clock.spent), options)
        except ServerError as error:
            # The next poll shows whether there still is a task that waits for them.
            _log.debug(
                "%s: the server refused the responses for a task: code %s",
                self._context.server,
                error.code,
            )
        except (ConnectionLost, ConnectError) as error:
            self._lost(error)
        else:
            self._unsent = {}

    async def _ask(self, new: dict[str, Any], options: RequestOptions, clock: TotalClock) -> None:
        self._rounds += 1
        most = self._context.limits.rounds
        round = InputRequired(new, None, {"inputRequests": new})
        if self._rounds >= most:
            raise ProtocolViolation(
                f"the server requested input {most} times, the limit (Limits.rounds)",
                result=round.result,
                server=self._context.server,
            )
        rpc, before = self._connection.rpc, clock.spent
        answers = await self._dispatcher.respond_to_round(rpc.era, round, self.call)
        clock.pause(clock.spent - before)
        await stop_if_cancelled(options.cancel, options.cancel_requests)
        self._answered.update(new)
        self._unsent.update(answers["inputResponses"])

    # -------------------------------------------------------------------- giving up

    async def cancel(self, rpc: RpcConnection, timeouts: Timeouts | None = None) -> None:
        """Ask the server to cancel the task. A task that ends first is not changed.

        Raises what a request may raise, but not for a task that the server does not know.
        """
        limits = timeouts or Timeouts(idle=_CANCEL_SECONDS, total=_CANCEL_SECONDS)
        try:
            await self._request(rpc, "tasks/cancel", {}, limits, RequestOptions(withdraws=False))
        except McpError as error:
            if not (isinstance(error, ServerError) and error.code == _UNKNOWN):
                raise hide_id(error, self.state.id) from _without(error.__cause__, self.state.id)


def _without(cause: BaseException | None, id: str) -> BaseException | None:
    return hide_id(cause, id) if isinstance(cause, McpError) else cause
