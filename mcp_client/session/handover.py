"""``start_tool`` and ``resume_task``: tasks that are handed over, instead of waited for."""

from __future__ import annotations

import os
from weakref import WeakValueDictionary

from ..catalog.tools import Catalog
from ..connection.connection import Connection
from ..extensions.tasks import Task, TaskCalls
from ..handlers.dispatcher import Dispatcher
from ..runtime.session_context import SessionContext
from .call import Caller
from .call_state import CallState
from .not_recorded import NotRecorded
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
        self._held: WeakValueDictionary[tuple[str, str], Task] = WeakValueDictionary()
        """Tasks by id and salt: one that is taken up again is the same, and is recorded once."""

    async def start(self, call: CallState) -> Task:
        """Make a call, and hand over the task that the server makes of it."""
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
            result=result.raw if run is None else None,
            tool=tool.name,
            definition=tool.fingerprint,
            has_output=tool._definition.get("outputSchema") is not None,
            call=call.id,
            name=self._server,
            revision=self._connection.agreed().era.revision,
        )
        task = Task(
            self.tasks,
            run,
            call.ending,
            tool=tool.name,
            timeouts=call.timeouts,
            on_progress=call.on_progress,
            saved=saved.text,
            outcome=result if run is None else None,
        )
        self._held[saved.id, saved.salt] = task
        return task

    def resume(self, text: str) -> Task:
        """The task that another session has saved as ``text``; one that this session has already
        is the same object."""
        saved = SavedTask.read(text)
        revision = self._connection.agreed().era.revision
        saved.check_server(self._server, self._connection.transport, revision)
        held = self._held.get((saved.id, saved.salt))
        if held is not None and held.tool == saved.tool:
            return held
        tasks, audit, done = self.tasks, self._audit, saved.result
        ending = ResumedCall(
            saved,
            NotRecorded()
            if audit is None
            else audit.resumed(saved.call, saved.tool, saved.process),
            server=self._server,
            admit=lambda: saved.check_authorization(self._server, self._connection.transport),
            find=self._tools.find,
            read=self._caller.read,
            validation=self._caller.validation,
        )
        task = self._held[saved.id, saved.salt] = Task(
            tasks,
            tasks.resumed(saved.id) if done is None else None,
            ending,
            tool=saved.tool,
            timeouts=tasks.context.timeouts,
            saved=lambda: text,
            outcome=None if done is None else self._caller.read(done, saved.tool),
        )
        return task
