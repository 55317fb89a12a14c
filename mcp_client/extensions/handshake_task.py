"""Tasks of revision 2025-11-25, which the client requests with the call.

2025-11-25 ``basic/utilities/tasks`` (experimental there). They differ from those of the extension
(``task_run``) in three things. ``tasks/get`` returns only the status: the result of the call is
requested with ``tasks/result``, once the task has ended. That request is also made if input is
required, and waits until the task ends. Until then the server sends its questions as requests,
which name the task, as the responses do. And a result in which the tool reports an error is the end
of a task that ``failed``.

A call requests that its task is stored for as long as the call may take. Notifications of the
status need not come and may come before the task is known: they are not used.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..connection.rpc import RequestOptions, RpcConnection
from ..errors import (
    CallTimeout,
    ConnectError,
    ConnectionLost,
    NotSent,
    ProtocolViolation,
    ServerError,
)
from ..protocol.era import Complete, ExtensionResult, Malformed
from ..protocol.jsonrpc import Id
from ..protocol.metadata import RELATED_TASK, related_task
from ..runtime.limits import Timeouts
from ..runtime.safe_text import safe_text
from .task_run import TaskRun, TotalClock
from .task_state import COMPLETED, FAILED, INPUT_REQUIRED, TaskState, is_call_result, read_status

__all__ = ["HandshakeTaskRun", "asking", "creation", "read_creation"]

_log = logging.getLogger("mcp_client")


def asking(timeouts: Timeouts, ttl: float | None = None) -> dict[str, Any]:
    """Return the member ``task`` of a call that is to be made a task.

    ``ttl`` is the number of seconds for which the server should store it; None for as long as the
    call may take.
    """
    seconds = timeouts.total if ttl is None else ttl
    return {} if seconds == math.inf else {"ttl": math.ceil(seconds * 1000)}


def creation(result: dict[str, Any]) -> Complete | ExtensionResult:
    """Return the response to a call that asked for a task: the task, or the result at once.

    Raises ``ProtocolViolation`` if it is neither.
    """
    if "task" in result and "content" not in result:
        return ExtensionResult("task", result)
    if not is_call_result(result):
        raise ProtocolViolation(
            "the response to a call that requested a task is neither a task nor a result; the tool "
            "may have run",
            result=result,
        )
    return Complete(result)


def read_creation(result: Mapping[str, Any]) -> TaskState:
    """Return the task that the response creates. Raises ``Malformed``."""
    task = result.get("task")
    if type(task) is not dict:
        raise Malformed("the task that was created is not a JSON object")
    return read_handshake_task(task)


def read_handshake_task(fields: Mapping[str, Any], expected: str | None = None) -> TaskState:
    """Return the state in a response to ``tasks/get`` about ``expected``. Raises ``Malformed``."""
    return read_status(fields, expected, fields.get("pollInterval"), fields.get("ttl"))


class HandshakeTaskRun(TaskRun):
    """A wait for one task of the server: one at a time."""

    _result: dict[str, Any] | None = None
    token: Id = ""
    """The progress token of the call, which is used until the task ends."""
    _reached: float = -math.inf
    """The progress that was heard last by that token."""
    _last_message: str | None = None

    def _read(self, fields: dict[str, Any]) -> TaskState:
        return replace(read_handshake_task(fields, self.state.id), is_whole=True)

    async def wait(self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock) -> Any:
        """Return the result of the call, as ``TaskRun.wait`` does."""
        of_task, id = self._dispatcher.of_task, self.state.id
        if self.call is not None:
            of_task[id] = self.call
        try:
            return await super().wait(timeouts, options, clock)
        finally:
            of_task.pop(id, None)

    async def _poll(self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock) -> None:
        before = self.state
        await super()._poll(timeouts, options, clock)
        if self.state is not before and self.state.status in (INPUT_REQUIRED, COMPLETED, FAILED):
            self._report()
            await self._fetch(timeouts, options, clock)

    async def _fetch(self, timeouts: Timeouts, options: RequestOptions, clock: TotalClock) -> None:
        """Request the result, and answer the server's questions while it waits.

        If no result comes and the task may continue, the next poll shows its status.
        """
        state = self.state
        # Until it is here, nothing is known of the end.
        self.state: TaskState = replace(state, is_whole=False)
        try:
            rpc = clock.on(await self._connection.ensure_connected())
            left = timeouts.after(clock.spent)
            raw = await self._request(rpc, "tasks/result", {}, left, options)
        except ServerError as error:
            if state.ended:
                raise  # it is what the call would have been answered with
            _log.debug(
                "%s: the server refused to return the result of a task: code %s",
                self._context.server,
                error.code,
            )
        except CallTimeout:
            if state.ended:
                raise
        except (ConnectionLost, ConnectError) as error:
            self._lost(error)
        else:
            self._result = self._own(raw)
            status = state.status
            if not state.ended:
                status = FAILED if raw.get("isError") is True else COMPLETED
            self.state = replace(state, status=status, is_whole=True)

    def _own(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the call, without the id of the task, which is a secret."""
        named = related_task(raw)
        if named is not None and named != self.state.id:
            raise ProtocolViolation(
                "the response to tasks/result is about another task than the requested one",
                result=raw,
                server=self._context.server,
            )
        meta = raw.get("_meta")
        if type(meta) is not dict or RELATED_TASK not in meta:
            return raw
        rest = {key: value for key, value in meta.items() if key != RELATED_TASK}
        return {**raw, "_meta": rest}

    def _outcome(self) -> dict[str, Any]:
        result = self._result
        if result is None:
            return super()._outcome()
        if self.state.status != FAILED:
            if not is_call_result(result):
                raise ProtocolViolation(
                    "the response to tasks/result is not the result of a call",
                    result=result,
                    server=self._context.server,
                )
            return result
        if "content" in result:
            return {**result, "isError": True}
        reason = self.state.message or "the server gives no reason"
        reason = safe_text(reason.strip(), 500, lines=True)
        raise ServerError(
            f"the task failed: {reason}", server_message=reason, server=self._context.server
        )

    def note_progress(self, params: Mapping[str, Any]) -> None:
        """Note progress of the call, after its response has created the task."""
        progress, total, text = map(params.get, ("progress", "total", "message"))
        if type(progress) not in (int, float) or progress <= self._reached:  # type: ignore[operator]
            return
        self._reached = progress  # type: ignore[assignment]
        if self._notifier is not None:
            self._notifier.notify(
                progress,
                total if type(total) in (int, float) else None,
                text if type(text) is str else None,
            )

    def _report(self) -> None:
        # In addition to progress of the call's own, a step would not be one of its numbers.
        if self._reached == -math.inf and self.state.message != self._last_message:
            self._last_message = self.state.message
            super()._report()

    async def cancel(self, rpc: RpcConnection, timeouts: Timeouts | None = None) -> None:
        """Ask the server to cancel the task, if it declares that it can."""
        tasks = rpc.era.server.capabilities.get("tasks")
        if not isinstance(tasks, Mapping) or "cancel" not in tasks:
            raise NotSent(
                "the server does not declare tasks.cancel, so it was not asked to cancel the task",
                server=self._context.server,
            )
        await super().cancel(rpc, timeouts)
