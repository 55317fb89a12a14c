"""``start_tool`` and ``resume_task``: tasks that are handed over, instead of waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions
from ..connection.connection import Connection
from ..errors import ConfigError
from ..extensions.tasks import Task, TaskCalls
from ..handlers.dispatcher import Dispatcher
from ..runtime.session_context import SessionContext
from .call import Caller
from .saved_task import SavedTask, authorization_of
from .setup import Setup
from .started import ResumedCall

__all__ = ["Handover"]


class Handover:
    """Starts calls whose tasks outlive them, and takes up tasks that were started elsewhere."""

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
        self.tasks = TaskCalls(connection, dispatcher, context)
        self._server = setup.name
        self._audit = setup.audit
        self._ledger = setup.tasks
        self._held: WeakValueDictionary[str, Task] = WeakValueDictionary()
        """Tasks by ``SavedTask.digest``: one that is taken up again is the same."""

    async def start(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions
    ) -> Task:
        """Make a call, and hand over the task that the server makes of it."""
        call = self._caller.begin(name, arguments, options)
        await self._ledger.prepare()
        transport, salt = self._connection.transport, os.urandom(16)
        authorization = await authorization_of(transport, salt)
        call.hands_over = True
        result = await self._caller.run(call)
        run, tool = call.run, call.plan.tool
        saved = SavedTask.of(
            transport,
            authorization,
            salt,
            id="" if run is None else run.state.id,
            tool=tool.name,
            definition=tool.fingerprint,
            call=call.id,
            name=self._server,
            revision=self._connection.rpc.era.revision,
        )
        if call.entry is not None:
            call.entry.is_first = partial(self._ledger.close, saved.digest)
        task = Task(
            self.tasks,
            run,
            call.ending,
            tool=tool.name,
            timeouts=call.timeouts,
            on_progress=call.on_progress,
            saved=lambda: saved.to_json(self._ledger.key()),
            outcome=result if run is None else None,
        )
        self._held[saved.digest] = task
        return task

    def resume(self, given: Mapping[str, Any] | str) -> Task:
        """The task that another session has saved; one that this session has is the same object."""
        saved = SavedTask.read(given, self._ledger.key())
        revision = self._connection.rpc.era.revision
        saved.check_server(self._server, self._connection.transport, revision)
        held = self._held.get(saved.digest)
        if held is not None:
            return held
        if not saved.id:
            raise ConfigError(
                f"the tool {saved.tool!r} completed at once: there is no task to resume, and a "
                "saved task does not have the result; keep that of task.result() instead",
                server=self._server,
                tool=saved.tool,
            )
        tasks, audit = self.tasks, self._audit
        entry = None
        if audit is not None:
            from ..audit import CallRecord

            entry = CallRecord.resumed(audit, saved.call, saved.tool, saved.process)
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
        copy = json.loads(given) if isinstance(given, str) else dict(given)
        task = self._held[saved.digest] = Task(
            tasks,
            tasks.resumed(saved.id),
            ending,
            tool=saved.tool,
            timeouts=tasks.context.timeouts,
            saved=lambda: dict(copy),
        )
        return task
