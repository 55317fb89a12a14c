"""``start_tool`` and ``resume_task``: tasks that are returned instead of awaited.

The call that became a task was approved once and has one audit entry. The session that observes the
end closes the entry: the session that made the call (``StartedCall``), or one that resumed the
task, perhaps in another process (``ResumedCall``). Both validate the result by the definition that
was approved. If several sessions observe the end, the first of them closes the entry
(``TaskLedger``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..catalog.call_context import context_to_json, is_storable
from ..catalog.result import ToolResult
from ..catalog.tool import Tool
from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions
from ..connection.connection import Connection
from ..errors import ConfigError, InvalidSchema, McpError
from ..extensions.tasks import Task, TaskCalls
from ..handlers.dispatcher import Dispatcher
from ..protocol.canonical_json import plain
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext
from .call import Caller
from .call_state import StartedCall
from .saved_task import PROCESS_LEDGER, SavedTask, StateLedger, authorization_of
from .session_options import Setup
from .tool_validation import ToolValidation

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry

__all__ = ["Handover", "ResumedCall"]


class Handover:
    """Starts calls whose tasks outlive them, and resumes tasks that were started elsewhere."""

    def __init__(
        self,
        connection: Connection,
        tools: Catalog,
        caller: Caller,
        dispatcher: Dispatcher,
        *,
        setup: Setup,
        context: SessionContext,
    ) -> None:
        self._connection = connection
        self._tools = tools
        self._caller = caller
        self.tasks: TaskCalls = TaskCalls(connection, dispatcher, context)
        self._server = setup.name
        self._audit = setup.audit
        self._ledger = PROCESS_LEDGER if setup.state is None else StateLedger(setup.state)
        self._held: WeakValueDictionary[str, Task] = WeakValueDictionary()
        """Tasks by ``SavedTask.digest``: one that is taken up again is the same."""

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        ttl: float | None,
        options: CallOptions,
    ) -> Task:
        """Make a call, and return the task that the server creates for it.

        Args:
            name: The name of the tool.
            arguments: The arguments.
            ttl: Seconds for which the server should store the task.
            options: The options of ``call_tool``.
        """
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float)):
            raise ConfigError(f"ttl={ttl!r}: give seconds, such as 3600")
        if ttl is not None and not 0 < ttl <= _MAX_TTL_SECONDS:
            raise ConfigError(f"ttl={ttl!r}: give seconds, more than 0 and at most a year")
        call = self._caller.begin(name, arguments, options)
        call.ttl = ttl
        if call.keyed is not None:
            raise ConfigError(
                "start_tool() has no option idempotency_key: a task outlives its call. "
                "Store task.to_json(), or use call_tool()"
            )
        await self._ledger.prepare()
        transport, salt = self._connection.transport, os.urandom(16)
        authorization = await authorization_of(transport, salt)
        outcome = await self._caller.run(call, hands_over=True)
        run, tool, spec = call.run, call.attempt.plan.tool, call.spec
        saved = SavedTask.of(
            transport,
            authorization,
            salt,
            id="" if run is None else run.state.id,
            tool=tool.name,
            definition=tool.fingerprint,
            call=call.id,
            context=context_to_json(spec.context) if is_storable(spec.context) else None,
            tag=plain(spec.tag),
            name=self._server,
            revision=self._connection.rpc.era.revision,
        )
        if call.entry is not None:
            call.entry.is_first = partial(self._ledger.close, saved.digest)
        task = Task(
            self.tasks,
            run,
            outcome if isinstance(outcome, StartedCall) else None,
            tool=tool.name,
            timeouts=spec.timeouts,
            on_progress=spec.on_progress,
            saved=lambda: saved.to_json(self._ledger.key()),
            outcome=outcome if isinstance(outcome, ToolResult) else None,
        )
        self._held[saved.digest] = task
        return task

    def resume(self, task_json: Mapping[str, Any] | str) -> Task:
        """Return the task that another session saved; the same object if this session has it."""
        saved = SavedTask.read(task_json, self._ledger.key())
        revision = self._connection.rpc.era.revision
        saved.check_server(self._server, self._connection.transport, revision)
        held = self._held.get(saved.digest)
        if held is not None:
            return held
        if not saved.id:
            raise ConfigError(
                f"the tool {saved.tool!r} completed at once, so there is no task to resume. A "
                "saved task does not contain the result: store that of task.result()",
                server=self._server,
                tool=saved.tool,
            )
        tasks, audit = self.tasks, self._audit
        entry = None
        if audit is not None:
            from ..audit.entry import AuditEntry
            from ..audit.entry_members import About

            about = About(saved.call, "call", saved.tool, None, saved.context, saved.tag)
            entry = AuditEntry.resumed(audit, about, saved.process)
            entry.is_first = partial(self._ledger.close, saved.digest)
        ending = ResumedCall(
            saved,
            entry,
            server=self._server,
            admit=lambda: saved.check_authorization(self._server, self._connection.transport),
            find=self._tools.find,
            read=self._caller.read,
            validation=self._caller.validation,
        )
        copy = json.loads(task_json) if isinstance(task_json, str) else dict(task_json)
        task = self._held[saved.digest] = Task(
            tasks,
            tasks.resumed(saved.id),
            ending,
            tool=saved.tool,
            timeouts=tasks.context.timeouts,
            saved=lambda: dict(copy),
        )
        return task


_CHECK_SECONDS = Timeouts().validation
_MAX_TTL_SECONDS = 366 * 86_400
_NOT_LISTED = "the server no longer lists the tool as it was approved"


class ResumedCall(StartedCall):
    """The last steps of a call whose task another session or process started."""

    def __init__(
        self,
        saved: SavedTask,
        entry: AuditEntry | None,
        *,
        server: str,
        admit: Callable[[], Awaitable[None]],
        find: Callable[[str], Awaitable[Tool]],
        read: Callable[[dict[str, Any], str], ToolResult],
        validation: ToolValidation,
    ) -> None:
        """``find`` gives the tool as it is now; ``read`` a result from the wire."""
        super().__init__(entry, self._read_and_checked, self._failed)
        self._saved = saved
        self._server = server
        self._admit = admit
        self._find = find
        self._read = read
        self._validation = validation
        self._admitted = False

    async def admit(self) -> None:
        """Check that this session may have the task."""
        if not self._admitted:
            await self._admit()
            self._admitted = True

    async def _failed(self, error: BaseException) -> None:
        if self.entry is not None:
            await self.entry.failed(error)

    async def _read_and_checked(self, raw: dict[str, Any]) -> ToolResult:
        result = self._read(raw, self._saved.tool)
        if result.is_error or self._validation.results == "off":
            return result
        try:
            tool = await self._find(self._saved.tool)
        except McpError:
            tool = None
        if tool is None or tool.fingerprint != self._saved.definition:
            return self._validation.unchecked(result, self._validation.results, _NOT_LISTED)
        try:
            plan = tool._plan or self._validation.plan(tool)
            await self._validation.prepare_results(plan, _CHECK_SECONDS)
        except InvalidSchema:  # that error would state that nothing was sent
            return self._validation.unchecked(result, self._validation.results, _NOT_LISTED)
        return await self._validation.checked(
            plan, result, self._validation.results, _CHECK_SECONDS
        )
