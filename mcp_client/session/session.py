"""The session with one server: its description, its tools, and calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import anyio

from ..catalog.call_values import ToolResult
from ..catalog.read_requests import ReadRequests
from ..catalog.subscriptions import Subscriptions
from ..catalog.tool import Tool, ToolList
from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions, ReadOptions, check_read_options
from ..connection.connection import Connection, RestartPolicy
from ..connection.rpc import REPEATABLE
from ..errors import McpError
from ..handlers.dispatcher import Dispatcher
from ..handlers.input_rounds import InputRequiredLoop
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext, Stats
from ..transports.base import Transport
from ..validation.worker_pool import WorkerPool
from .call import Caller
from .library import FactsOfSession, LibraryOfSession
from .server_messages import ServerLog, ServerMessages
from .session_options import ForScripts, Setup

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..approval.script import Script
    from ..audit.entry import AuditEntry
    from ..catalog.library import Library
    from ..catalog.tool_index import ToolSearch
    from ..catalog.watch import ToolChanges
    from ..extensions.apps import App
    from ..extensions.skills import Skills
    from ..extensions.tasks import Task
    from ..extensions.ui_resource import UiResource
    from ..runtime.storage import Storage
    from ..runtime.watch import Watch
    from .started_tasks import Handover

__all__ = ["Session"]


class Session(FactsOfSession, LibraryOfSession):
    """A connection to one server, returned by ``connect``.

    Its methods may be called from several tasks at once, and any task may close it. If the server's
    process dies, the calls under way raise ``ConnectionLost``. The next use starts the server again
    (2026-07-28 ``basic/transports/stdio``), at most ``Limits.restarts`` times a minute.
    """

    def __init__(
        self,
        transport: Transport,
        setup: Setup,
        restarts: RestartPolicy | None = None,
        why_left_out: Callable[[str], str | None] | None = None,
    ) -> None:
        self._secrets = setup.secrets
        self.name: str = setup.name
        """The host's name for the server."""
        self._context = SessionContext(
            setup.name, setup.timeouts, setup.limits, secrets=setup.secrets, policy=setup.policy
        )
        self.stats: Stats = self._context.stats
        """Counts of what happened on this session's connections."""
        self._setup = setup
        self._timeouts = setup.timeouts
        self._limits = setup.limits
        self._origin = os.urandom(4).hex()
        self._started: Handover | None = None
        """The tasks of this session; None before there is one."""
        self._dispatcher = Dispatcher(setup.handlers, self._context, setup.memory, setup.audit)
        self._logs = ServerLog(setup.handlers, self._context)
        self._messages = ServerMessages(self._context, self._dispatcher, self._logs, setup.handlers)
        self._connection = Connection(
            transport,
            self._context,
            self._messages,
            client=setup.client,
            pin=setup.revision,
            restarts=restarts,
        )
        self._workers = WorkerPool()
        self._rounds = InputRequiredLoop(self._dispatcher, setup.limits)
        self._reads = ReadRequests(self._context, self._connection, self._rounds.run)
        self._subscriptions = Subscriptions(self.name, self._timeouts, self._limits)
        self._catalog = Catalog(
            self._reads,
            self._subscriptions.tools,
            setup.trusted,
            setup.pins,
            why_left_out=why_left_out,
            bind=None if setup.bind is None else setup.bind.on,
        )
        self._caller = Caller(
            self._connection,
            self._catalog,
            self._rounds,
            setup=setup,
            workers=self._workers,
            origin=self._origin,
            tasks=lambda: self._handover.tasks,
        )

    def __repr__(self) -> str:
        connection = self._connection
        state = "closed" if connection.closed else "open" if connection.latest else "not open"
        return f"<Session {self.name!r}, {state}>"

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._connection.closed

    @property
    def decisions(self) -> Decisions:
        """The decisions remembered until the session ends, to list and revoke.

        Permanent decisions are in the store of ``connect(state=...)``.
        """
        return self._setup.memory.session

    # ------------------------------------------------------------------- tools

    async def list_tools(self, *, refresh: bool = False) -> ToolList:
        """Return all tools that the server offers, from the cache while it is fresh.

        The cache is fresh within the server's ``ttlMs``, or while a declared ``listChanged`` can be
        received. Otherwise, and with ``refresh=True``, all pages are requested. ``.rejected`` lists
        the omitted tools and the reasons; ``.findings`` lists what a person should check. If the
        list cannot be fetched again, the old list is returned with a finding; ``refresh=True``
        raises instead. Raises ``ProtocolViolation`` rather than return a part of the list.
        """
        await self._connection.ensure_connected()
        return await self._catalog.all(refresh=refresh)

    async def get_tool(self, name: str) -> Tool:
        """Return the tool ``name``. Raises ``UnknownTool``, which lists the existing names."""
        await self._connection.ensure_connected()
        return await self._catalog.find(name)

    async def search_tools(self, query: str, *, limit: int = 8) -> list[Tool]:
        """Return the tools that match a query in plain words best, the best match first.

        The ranking is BM25 over names, titles, descriptions and parameter names.
        """
        return await self._search.search(query, limit)

    @cached_property
    def _search(self) -> ToolSearch:
        from ..catalog.tool_index import ToolSearch

        return ToolSearch(self.list_tools)

    def tool_changes(self) -> Watch[ToolChanges]:
        """Watch for tools that are added, removed or changed from now on.

        The watch compares with the list fetched last, or fetches one. It is an async iterator of
        ``ToolChanges`` and a context manager.
        """
        from ..catalog.watch import ListWatch, tools_compared

        _ = self._connection.rpc  # raises if the session is not open
        return ListWatch(self._catalog, self._connection.ensure_connected, tools_compared)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a tool, if the approval hook allows it, and return its result.

        If the server creates a task for the call (2026-07-28 extension tasks), this waits for its
        end.

        Args:
            name: The name of the tool.
            arguments: The arguments: a JSON object.
            **options: The fields of ``CallOptions``: ``timeout`` (seconds, or ``Timeouts``, which
                cannot exceed the session's), ``on_progress(progress, total, message)``, ``meta``,
                ``validation``, ``cancel`` (a ``CancelToken``), ``context`` (hashable, identifies
                the caller), ``tag`` (JSON, identifies the call), ``retry``, and
                ``idempotency_key``. Hooks see ``context`` and ``tag``; the server does not. With
                ``idempotency_key`` and a ``state``, a repeated call returns the stored result, also
                after a crash: see ``mcp_client.session.journal``.

        Returns:
            The result. ``is_error`` is true for a failure that the tool reports.

        Raises:
            NotSent: Nothing was sent: ``UnknownTool``, ``InvalidArguments``, ``InvalidSchema``,
                ``CallDenied``, ``CallPending``, ``CallWithdrawn``, ``StateError``, ``ConnectError``
                or ``AuthError``.
            OutcomeUnknown: The call may have run: ``CallTimeout``, ``CallCancelled``,
                ``ConnectionLost``, or ``Unanswered`` if a handler did not supply the input that the
                server requested.
            ServerError: The server responded with an error.
            BrokenPromise: The response is unusable: ``ProtocolViolation`` or ``InvalidResult``.
            ConfigError: An option is wrong.
        """
        call = self._caller.begin(name, arguments, options)
        result: ToolResult = await self._caller.run(call)
        return result

    # ------------------------------------------------------------- views of tools

    @property
    def _is_local(self) -> bool:
        return self._connection.transport.is_local

    async def read_ui(self, tool: Tool, *, timeout: float | Timeouts | None = None) -> UiResource:
        """Read the view of a tool (MCP Apps): its document, and the rights to show it with.

        Raises ``InvalidArguments`` for a tool of another server or without a view, and
        ``ProtocolViolation`` for an invalid view: see ``mcp_client.extensions.apps``.
        """
        from ..extensions.apps import read_ui

        return await read_ui(tool, self, timeout)

    def app(self, tool: Tool, *, context: Hashable = None) -> App:
        """Return the interface for a tool's view: it calls tools and reads resources.

        Each call passes the hook. ``context`` is the view's user, as in ``call_tool``. Raises
        ``ConfigError`` for a tool without a view, and ``InvalidArguments`` for one of another
        server.
        """
        from ..extensions.apps import App

        return App(tool, self, context)

    def _call_as_app(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        """Make a call for a view."""
        return self._caller.run(self._caller.begin(name, arguments, options, "app"))

    def _call_as_code(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions, script: Script
    ) -> Coroutine[Any, Any, ToolResult]:
        """Make a call for a model's script."""
        return self._caller.run(self._caller.begin(name, arguments, options, "code", script))

    @property
    def _for_scripts(self) -> ForScripts:
        setup, call = self._setup, self._call_as_code
        of_calls = setup.audit, setup.state is not None, setup.paused, call, setup.memory.end_run
        return ForScripts(setup.limits, setup.timeouts, *of_calls)

    # ------------------------------------------------------------------- tasks

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Call a tool as ``call_tool`` does, but return as soon as the server has created a task.

        The server decides whether it creates one (2026-07-28 extension tasks). In 2025-11-25, the
        client requests one if the tool's ``task_support`` allows it. A call that completes at once
        is a finished task. Closing the session does not cancel the task: ``task.cancel()`` does.

        Args:
            name: The name of the tool.
            arguments: The arguments: a JSON object.
            ttl: Seconds after its creation for which the server should store the task (2025-11-25);
                by default as long as the call may take. Servers of other revisions choose the time
                themselves.
            **options: As for ``call_tool``; ``cancel`` and ``retry`` apply to the start.
        """
        return await self._handover.start(name, arguments, ttl, options)

    def resume_task(self, saved: Mapping[str, Any] | str) -> Task:
        """Return the task that was saved with ``task.to_json()``, as a dict or JSON text.

        Approval is not requested again. The session that first observes the end closes the audit
        record. Raises ``ConfigError`` for a changed task, one of another server or authorization,
        and one of a process that does not share this state.
        """
        return self._handover.resume(saved)

    @property
    def _handover(self) -> Handover:
        if self._started is None:
            from .started_tasks import Handover

            self._started = Handover(
                self._connection,
                self._catalog,
                self._caller,
                self._dispatcher,
                setup=self._setup,
                context=self._context,
            )
        return self._started

    @cached_property
    def _library(self) -> Library:
        from ..catalog.library import Library

        return Library(self._reads, self._subscriptions, self._origin)

    def _new_read(
        self,
        kind: Literal["resource", "prompt"],
        name: str,
        arguments: Mapping[str, str] | None,
        options: ReadOptions,
    ) -> AuditEntry | None:
        check_read_options(options)
        context = options.get("context")
        audit, rpc = self._setup.audit, self._connection.latest
        if audit is None or rpc is None:
            return None
        id, revision = self._caller._new_id(), rpc.era.revision
        return audit.entry_of(kind, id, name, arguments, context, revision)

    @property
    def _paused_in(self) -> Storage | None:
        return self._setup.paused

    async def _record_not_made(
        self, name: str, arguments: Any, error: McpError, options: CallOptions
    ) -> None:
        """Record a model's call that cannot be made."""
        audit = self._setup.audit
        if audit is not None:
            id, context = self._caller._new_id(), options.get("context")
            await audit.entry(id, name, arguments, context, tag=options.get("tag")).failed(error)

    @cached_property
    def _skills(self) -> Skills:
        from ..extensions.skills import Skills

        setup = self._setup
        return Skills(
            self._reads,
            self._subscriptions,
            setup.gate,
            audit=setup.audit,
            pins=setup.pins,
            origin=self._origin,
            identity=setup.memory.identity,
        )

    # ------------------------------------------------------- requests and messages of the server

    async def set_log_level(self, level: str) -> None:
        """Request the server's log notices of ``level`` and above, and drop those below it.

        The levels are "debug", "info", "notice", "warning", "error", "critical", "alert" and
        "emergency". Notices go to ``Handlers(log=)`` and to the logger
        ``mcp_client.server.<name>``. In the stateless era, the level is part of each later request
        (``server/utilities/logging``).
        """
        await self._messages.set_log_level(self._connection.ensure_connected, level)

    async def roots_changed(self) -> None:
        """Notify the server that the response of ``Handlers(roots=)`` has changed.

        Only servers of the handshake era are notified (2025-11-25 ``client/roots``).
        """
        rpc = await self._connection.ensure_connected()
        roots = self._setup.client.capabilities.get("roots")
        if rpc.era.server_may_ask and isinstance(roots, dict) and roots.get("listChanged"):
            await rpc.notify("notifications/roots/list_changed")

    async def wait_for_elicitation(self, elicitation_id: str) -> None:
        """Wait until the server reports that a visit to a URL is complete.

        A server need not report it (2025-11-25 ``client/elicitation``), so let the person continue
        without it. Raises ``CallTimeout`` after ``Timeouts.approval`` seconds, and ``ConfigError``
        for an id that the server did not send in this session.
        """
        await self._dispatcher.wait_for_elicitation(elicitation_id)

    # -------------------------------------------------------------- its health

    async def ping(self, *, timeout: float | Timeouts | None = None) -> None:
        """Check that the server responds: ``ping``, or ``server/discover`` in the stateless era."""
        rpc = await self._connection.ensure_connected()
        await rpc.request(rpc.sign_of_life, {}, self._timeouts.for_call(timeout), REPEATABLE)

    async def aclose(self) -> None:
        """End the connection and the server's process, from any task, any number of times.

        The calls under way end, and their audit records are written before this returns.
        """
        if not self._connection.closed:
            self._connection.check_loop()
        self._connection.closed = True
        self._setup.gate.close()
        self._setup.memory.end()
        if self._connection.latest is not None:
            self._subscriptions.close()
        if self._started is not None:
            await self._started.tasks.aclose()
        async with AsyncExitStack() as last:
            if self._setup.audit is not None:
                last.push_async_callback(self._setup.audit.flush)
                if not self._setup.gate.asks_this_task:  # a hook would wait for itself
                    last.push_async_callback(self._setup.audit.closed)
            last.push_async_callback(self._workers.aclose)
            last.push_async_callback(self._logs.aclose, self._timeouts.close)
            last.push_async_callback(self._messages.aclose, self._timeouts.close)
            last.push_async_callback(self._connection.aclose)
            await self._dispatcher.aclose()

    # ----------------------------------------------------- as one session of a ``Host``

    def _fresh_tools(self) -> ToolList | None:
        """Return the result of ``list_tools`` if it needs no wait, else None."""
        rpc, tools = self._connection.latest, self._catalog.known
        if tools is None or rpc is None or not self._connection.is_current(rpc):
            return None
        if not self._catalog.fresh:
            return None
        self._subscriptions.tools.use()
        return tools

    # -------------------------------------------------------------- connecting

    async def _open(self) -> Session:
        self._dispatcher.start(current())
        self._logs.start()
        self._messages.start(self._subscriptions)
        try:
            await self._connection.open()
            await self._messages.ask_for_logs(self._connection.rpc)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self
