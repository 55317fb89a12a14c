"""The tasks of one session: ``call_tool`` waits for them, ``start_tool`` returns them.

A server may answer a call with a task (``io.modelcontextprotocol/tasks``, 2026-07-28): it continues
without the request, and its result is requested later. In 2025-11-25 the client asks for that with
the call, and must if the tool requires it. ``call_tool`` waits for it (see ``task_run`` and
``handshake_task``). ``start_tool`` returns a ``Task``, which outlives the session and the process:
``task.to_json()`` is for ``session.resume_task`` in another one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from ..catalog.call_values import ToolResult
from ..connection.call_options import OnProgress
from ..connection.connection import Connection
from ..connection.rpc import RequestOptions, RpcConnection, Traffic
from ..errors import (
    CallTimeout,
    ConnectError,
    ConnectionLost,
    McpError,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
    Unanswered,
)
from ..handlers.dispatcher import Dispatcher
from ..handlers.input_rounds import InputRequest
from ..protocol.era import Malformed
from ..protocol.jsonrpc import Id
from ..protocol.metadata import shown
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import cancel_requests, current, in_event_loop
from ..runtime.limits import Timeouts, seconds_text
from ..runtime.session_context import SessionContext
from .handshake_task import HandshakeTaskRun, read_creation
from .task_run import TaskRun, TotalClock
from .task_state import WORKING, TaskState, note_status, read_task

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall

__all__ = ["CallEnd", "Task", "TaskCalls"]

_log = logging.getLogger("mcp_client")
_ENDED = "the task ended"
_CANCEL_PAUSES = (1.0, 10.0, 60.0)
"""The seconds after which a server that did not read its input is asked again."""
T = TypeVar("T")


class TaskCalls:
    """The tasks of one session's server. ``calls`` has the tool calls under way, by their id."""

    def __init__(
        self, connection: Connection, dispatcher: Dispatcher, context: SessionContext
    ) -> None:
        self.context = context
        self.connection = connection
        self._dispatcher = dispatcher
        self._waiting: set[TaskRun] = set()
        """The tasks that ``call_tool`` waits for."""
        self._cancels = BackgroundTasks(current(), context.server)

    def begin(self, created: dict[str, Any], call: ToolCall, ids: list[Id]) -> TaskRun:
        """Return the task that the response to ``call`` creates.

        ``ids`` are those of its requests, which are its progress tokens. Raises
        ``ProtocolViolation``.
        """
        era = self.connection.rpc.era
        try:
            run = self.run((read_creation if era.has_tasks else read_task)(created), call)
        except Malformed as error:
            raise ProtocolViolation(
                f"invalid task: {error}", result=created, server=self.context.server
            ) from None
        note_status(created.get("task", created) if era.has_tasks else created, self.context)
        if isinstance(run, HandshakeTaskRun):
            run.token = ids[-1]
            era.task_tokens.add(run.token)
            self._dispatcher.task_progress[run.token] = run.note_progress
        return run

    def resumed(self, id: str) -> TaskRun:
        """Return the wait for a task; only its id is known yet."""
        return self.run(TaskState(id, WORKING))

    def run(self, state: TaskState, call: ToolCall | None = None) -> TaskRun:
        """Return the wait for a task, under the rules of the session's revision."""
        kind = HandshakeTaskRun if self.connection.rpc.era.has_tasks else TaskRun
        return kind(self.connection, self._dispatcher, self.context, state, call=call)

    async def wait(self, run: TaskRun, call: InputRequest, rpc: RpcConnection) -> dict[str, Any]:
        """Return the result of the call. Anything that ends the wait earlier cancels the task."""
        spent = rpc.now() - call.started - call.paused
        clock = TotalClock(rpc, spent, self.context.timeouts.approval)
        self._waiting.add(run)
        try:
            return await self._until_closed(run, call.timeouts, call.options, clock)
        except BaseException:
            # A coroutine that is closed when its loop has ended cannot send anything.
            if not run.over and run in self._waiting and in_event_loop():
                self._cancel_soon(run)
            raise
        finally:
            self._waiting.discard(run)

    async def result(
        self, run: TaskRun, timeouts: Timeouts, options: RequestOptions
    ) -> dict[str, Any]:
        """Return the result of a returned task, which continues if the wait ends earlier."""
        calls, call = self._dispatcher.calls, run.call
        if call is not None:
            calls[call.id] = call
        try:
            clock = TotalClock(self.connection.rpc, most_paused=self.context.timeouts.approval)
            return await self._until_closed(run, timeouts, options, clock)
        finally:
            if call is not None:
                calls.pop(call.id, None)

    async def _until_closed(
        self, run: TaskRun, timeouts: Timeouts, options: RequestOptions, clock: TotalClock
    ) -> dict[str, Any]:
        try:
            result: dict[str, Any] = await self._dispatcher.until_closed(
                lambda: run.wait(timeouts, options, clock), _ENDED
            )
            return result
        finally:
            if run.over and isinstance(run, HandshakeTaskRun):
                self.connection.rpc.era.task_tokens.discard(run.token)
                self._dispatcher.task_progress.pop(run.token, None)

    async def aclose(self) -> None:
        """Cancel the tasks that ``call_tool`` waits for, within ``Timeouts.close``."""
        waiting, self._waiting = self._waiting, set()
        for run in waiting:
            self._cancel_soon(run)
        with anyio.move_on_after(self.context.timeouts.close, shield=True):
            await self._cancels.none_left()
        await self._cancels.aclose(self.context.timeouts.close)

    def _cancel_soon(self, run: TaskRun) -> None:
        """Send ``tasks/cancel`` without waiting for it: the caller has gone.

        A server that has gone, too, is not started again for that. One that reads nothing now is
        asked again.
        """
        rpc = self.connection.latest
        if rpc is None or not rpc.transport.alive:
            return

        async def cancel() -> None:
            for pause in (*_CANCEL_PAUSES, None):
                try:
                    await run.cancel(rpc)
                    return
                except McpError as error:
                    _log.debug("%s: cannot cancel a task: %s", self.context.server, error)
                    was_sent = not (isinstance(error, ConnectError) and error.retryable)
                if was_sent or pause is None or not rpc.transport.alive:
                    return
                await anyio.sleep(pause)

        run.cancel_asked = "its caller gave up"
        self._cancels.start(cancel)


class CallEnd(Protocol):
    """A protocol: the steps after the end of a returned task, as for any call."""

    @property
    def traffic(self) -> Traffic | None:
        """The counter of the bytes of polls."""

    async def result(self, raw: dict[str, Any], /) -> ToolResult:
        """Return the result, checked, and the audit record closed. Raises as ``call_tool``."""

    def failed(self, error: BaseException, /) -> Awaitable[None]:
        """Complete the error with what is known of the call, and close its record."""

    async def admit(self) -> None:
        """Raise ``ConfigError`` if the session has another authorization than the task."""


class Task:
    """A call that the server continues by itself: from ``start_tool``, or ``resume_task``.

    Its id, and so ``to_json()``, may be all that is needed to get the result. Protect both like a
    password.
    """

    def __init__(
        self,
        tasks: TaskCalls,
        run: TaskRun | None,
        end: CallEnd | None,
        *,
        tool: str,
        timeouts: Timeouts,
        on_progress: OnProgress | None = None,
        saved: Callable[[], dict[str, Any]],
        outcome: ToolResult | None = None,
    ) -> None:
        """Create a task. ``run`` is None if the tool completed at once, with ``outcome``."""
        self.server: str = tasks.context.server
        """The host's name for the server."""
        self.tool = tool
        """The name of the tool that was called."""
        self._tasks = tasks
        self._run = run
        self._end = end
        self._timeouts = timeouts
        self._on_progress = on_progress
        self._saved = saved
        self._turn = anyio.Lock()
        self._outcome: ToolResult | McpError | None = outcome

    def __repr__(self) -> str:
        return f"<Task of {self.server}/{shown(self.tool, 64)}: {self.status}>"

    @property
    def id(self) -> str:
        """The server's id of the task; empty if the tool completed at once. A secret."""
        return "" if self._run is None else self._run.state.id

    @property
    def status(self) -> str:
        """The last reported status: "working", "completed", ...

        It is "working", "input_required", "completed", "failed" or "cancelled". A result in which
        the tool reports an error is "completed".
        """
        return "completed" if self._run is None else self._run.state.status

    @property
    def status_message(self) -> str | None:
        """The server's message about the status: untrusted text."""
        return None if self._run is None else self._run.state.message

    async def result(
        self, *, timeout: float | Timeouts | None = None, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Wait until the task has ended, answer the server's questions, and return the result.

        This waits as long as the call may take (``timeout`` of ``start_tool``, or its default),
        from now; options as for ``call_tool``. Raises what ``call_tool`` raises: ``ServerError`` if
        the task failed, ``OutcomeUnknown`` if it was cancelled or the server no longer knows it.
        Only the end of the task ends it: after a ``CallTimeout``, a ``ConnectionLost`` or a
        cancellation it may be waited for again, or resumed. Once it has ended, each call returns
        the same result.
        """
        timeouts = self._timeouts.for_call(timeout)
        await self._begin_waiting(timeouts)
        try:
            if self._outcome is None:
                await self._settle(timeouts, on_progress or self._on_progress)
            outcome = self._outcome
        finally:
            self._turn.release()
        if isinstance(outcome, McpError):
            raise outcome.with_traceback(None)
        assert outcome is not None
        return outcome

    async def cancel(self) -> None:
        """Ask the server to cancel the task, which it need not do.

        Returns once the server has confirmed the request; ``result()`` reports the outcome.
        """
        run = self._run
        if run is None or run.over:
            return
        await self._call_end().admit()
        timeouts = self._timeouts
        try:
            await run.cancel(await self._tasks.connection.ensure_connected(), timeouts)
        except McpError as error:
            self._completed(error)
            raise
        run.cancel_asked = run.cancel_asked or "the host cancelled it"
        await self._look(run)

    async def _refresh(self) -> None:
        """Ask the server for the status, unless it has ended. Raises if no status tells of it."""
        run = self._run
        if run is None:
            return
        if self._outcome is None:
            await self._call_end().admit()
            await self._look(run)
        if isinstance(self._outcome, McpError) and not run.state.ended:
            raise self._outcome.with_traceback(None)

    async def _look(self, run: TaskRun) -> None:
        """Ask once how the task is doing, and fetch the result if it has ended."""
        if self._turn.locked():
            return  # those who wait for the result will see the end
        async with self._turn:
            if self._outcome is None and not run.over:
                await self._ended(lambda: run.refresh(self._timeouts))
            if self._outcome is None and run.over:
                await self._settle(self._timeouts, None)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict, of which ``resume_task`` makes this task again.

        The other session needs the same server and authorization, in this process, or in another
        one that has the same state. The dict has the task's id, the digest of the tool's definition
        as approved, the server's identity, and the call's ``context`` and ``tag``. It has no
        credential, no argument and no result. Nothing in it can be changed: it is under a MAC. Of a
        tool that completed at once store the result instead.
        """
        return self._saved()

    async def _begin_waiting(self, timeouts: Timeouts) -> None:
        """Wait until no other task waits for the result: one polls, and gets it for all."""
        with anyio.move_on_after(timeouts.total):
            await self._turn.acquire()
            return
        seconds = seconds_text(timeouts.total)
        raise CallTimeout(
            f"the task did not end within {seconds} (total timeout); it may have run",
            clock="total",
            server=self.server,
            tool=self.tool,
        )

    def _call_end(self) -> CallEnd:
        assert self._end is not None  # if there is a task to be waited for
        return self._end

    async def _settle(self, timeouts: Timeouts, on_progress: OnProgress | None) -> None:
        """Wait for the end and note it. Raises if the wait ends before the task."""
        run = self._run
        assert run is not None
        await self._call_end().admit()
        options = RequestOptions(
            on_progress=on_progress,
            traffic=self._call_end().traffic,
            cancel_requests=cancel_requests(),
        )
        raw = await self._ended(lambda: self._tasks.result(run, timeouts, options))
        if raw is not None:
            try:
                self._outcome = await self._call_end().result(raw)
            except McpError as error:
                self._outcome = self._completed(error)

    async def _ended(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of ``work``; None if the task has ended in an error, which is noted."""
        run = self._run
        assert run is not None
        try:
            return await work()
        except McpError as error:
            self._completed(error)
            is_end = isinstance(error, ServerError | OutcomeUnknown)
            is_wait = isinstance(error, CallTimeout | ConnectionLost | Unanswered)
            if not run.over or not is_end or is_wait:
                raise
            await self._call_end().failed(error)
            self._outcome = error
            return None

    def _completed(self, error: McpError) -> McpError:
        """Name the server and the tool in ``error``, and hide the session's secrets in it."""
        self._tasks.context.secrets.hide(error)
        error.server, error.tool = error.server or self.server, error.tool or self.tool
        return error
