"""One server, agreed on a revision: what it is, what it offers, and how to call it."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import anyio

from ..approval.decisions import Decisions
from ..catalog.reading import ReadRequests
from ..catalog.result import ToolResult
from ..catalog.subscriptions import Subscriptions
from ..catalog.tool import Tool, ToolList
from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions, ReadOptions, check_read_options
from ..connection.connection import Connection
from ..connection.rpc import REPEATABLE
from ..errors import McpError
from ..handlers.dispatcher import Dispatcher
from ..handlers.input_rounds import InputRequiredLoop
from ..handlers.server_log import ServerLog
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext, Stats
from ..runtime.storage import Storage
from ..transports.base import Transport
from ..validation.worker_pool import WorkerPool
from .call import Caller
from .facts import FactsOfSession
from .library import LibraryOfSession
from .server_messages import ServerMessages
from .session_options import Setup

if TYPE_CHECKING:
    from ..approval.script import Script
    from ..audit.entry import AuditEntry
    from ..catalog.library import Library
    from ..catalog.tool_index import ToolSearch
    from ..catalog.watch import ToolChanges
    from ..extensions.apps import App
    from ..extensions.skills import Skills
    from ..extensions.tasks import Task
    from ..extensions.ui_resource import UiResource
    from ..runtime.watch import Watch
    from .task_handles import Handover

__all__ = ["Session"]


class Session(FactsOfSession, LibraryOfSession):
    """A connection to one server. Made by ``connect``.

    Its methods may be called from any number of tasks at once, and any task may close it. If the
    server's process dies, the calls under way raise ``ConnectionLost``, and the next use starts
    the server again (2026-07-28 ``basic/transports/stdio``), at most ``Limits.restarts`` times a
    minute.
    """

    def __init__(
        self,
        transport: Transport,
        setup: Setup,
        why_left_out: Callable[[str], str | None] | None = None,
    ) -> None:
        self._secrets = setup.secrets
        self.name: str = setup.name
        """What the host calls the server."""
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
            client=setup.client,
            pin=setup.revision,
            unasked=self._messages.receive,
            connected=self._messages.connected,
            lost=self._messages.lost,
            missed=self._messages.missed,
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
    def decisions(self) -> Decisions:
        """What is remembered until the session ends, to be listed and revoked.

        What is remembered always is in the store that ``connect(state=...)`` was given.
        """
        return self._setup.memory.session

    # ------------------------------------------------------------------- tools

    async def list_tools(self, *, refresh: bool = False) -> ToolList:
        """Every tool the server offers, all pages, from the cache while it is fresh.

        It is fresh within the server's ``ttlMs``, or while the server has declared ``listChanged``
        and a way to be told stands; otherwise, and with ``refresh=True``, the server is asked.
        What was left out, and why, is in ``.rejected``; what a person should look at in
        ``.findings``. Raises ``ProtocolViolation`` rather than return a part of the list. A list
        that cannot be fetched again is returned as it was last, and its first finding says so;
        with ``refresh=True``, that raises.
        """
        await self._connection.ensure_connected()
        return await self._catalog.tools(refresh=refresh)

    async def get_tool(self, name: str) -> Tool:
        """The tool ``name``. Raises ``UnknownTool``, which lists the names there are."""
        await self._connection.ensure_connected()
        return await self._catalog.find(name)

    async def search_tools(self, query: str, *, limit: int = 8) -> list[Tool]:
        """The tools that fit a query in plain words best, the best first: BM25 over names, titles,
        descriptions and names of parameters. For a model that should not be given thousands."""
        return await self._search.search(query, limit)

    @cached_property
    def _search(self) -> ToolSearch:
        from ..catalog.tool_index import ToolSearch

        return ToolSearch(self.list_tools)

    def tool_changes(self) -> Watch[ToolChanges]:
        """What is added, removed and changed from now on, compared with the list fetched last, or
        with one that is fetched now where there is none.

        An async iterator of ``ToolChanges``, and a context manager to let go of it; see there.
        """
        from ..catalog.watch import ListWatch, tools_compared

        _ = self._connection.rpc  # raises where the session is not open
        return ListWatch(self._catalog, self._connection.ensure_connected, tools_compared)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> ToolResult:
        """Call a tool, if the approval hook allows it, and return its result.

        ``timeout`` in seconds bounds the call from when it is sent, and lifts no clock that was set
        for the session; a ``Timeouts`` sets the clocks one by one, ``approval`` if it is shorter.
        ``on_progress(progress, total, message)`` may be async; a plain function is called in the
        event loop and must not block. ``meta`` goes into the request's ``_meta`` beside the
        protocol's own members. ``validation`` says for this call what ``connect(validation=...)``
        says for all. ``cancel`` is a token whose ``cancel(reason)`` cancels the call from any task
        or thread. ``context`` is the host's own word on whose call it is, a hashable value, and
        ``tag`` on which call it is, JSON. The approval hook finds both in the call, and neither is
        sent. ``retry`` says for this call what ``connect(retry=...)`` says for all.

        ``idempotency_key`` is the caller's own name for this one call, which needs a ``state``: the
        same call with the same key, also in another process and after a crash, gives its result
        and is not made twice. Where it is not known whether it ran, that raises ``OutcomeUnknown``:
        see ``mcp_client.session.journal``.

        Where the server makes a task of the call, that is waited for; ``start_tool`` does not.

        A failure the tool reports is a result with ``is_error``. All errors are ``McpError``, and
        ``mcp_client.errors`` says what each asks for. Where nothing was sent, a ``NotSent``:
        ``UnknownTool``, ``InvalidArguments``, ``InvalidSchema``, ``CallDenied``, ``CallPending``
        (it waits for approval), ``CallWithdrawn``, ``StateError`` or ``ConnectError``
        (``AuthError`` where a login is needed). Where it may have run, an ``OutcomeUnknown``:
        ``CallTimeout``, ``CallCancelled``, ``ConnectionLost``, or ``Unanswered`` where it asked
        back and our handler had no answer. Where the server answered: ``ServerError``,
        ``ProtocolViolation`` or ``InvalidResult``. ``ConfigError`` for a wrong option.
        """
        return await self._caller.run(self._caller.begin(name, arguments, options))

    # ------------------------------------------------------------- views of tools

    @property
    def _is_local(self) -> bool:
        return self._connection.transport.is_local

    async def read_ui(self, tool: Tool, *, timeout: float | Timeouts | None = None) -> UiResource:
        """The view of a tool (MCP Apps): its document, and the rights to show it with.

        Reads ``tool.ui.uri``. Raises ``InvalidArguments`` for a tool without a view or of another
        server, and ``ProtocolViolation`` where what the server sends is not a view: see
        ``mcp_client.extensions.apps``.
        """
        from ..extensions.apps import read_ui

        return await read_ui(tool, self, timeout)

    def app(self, tool: Tool, *, context: Hashable = None) -> App:
        """What the view of a tool may do with this server: call tools through the approval hook,
        and read resources. ``context`` is whose view it is, as in ``call_tool``.

        Raises ``ConfigError`` for a tool without a view, and ``InvalidArguments`` for one of
        another server.
        """
        from ..extensions.apps import App

        return App(tool, self, context)

    def _call_as_app(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        """A call that a view makes."""
        return self._caller.run(self._caller.begin(name, arguments, options, "app"))

    def _call_as_code(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions, script: Script
    ) -> Coroutine[Any, Any, ToolResult]:
        """A call that a script of a model makes."""
        return self._caller.run(self._caller.begin(name, arguments, options, "code", script))

    def _end_run(self, script: str) -> None:
        """A run of a script is over."""
        self._setup.memory.end_run(script)

    def _run_record(self, script: Script, context: Hashable, tag: Any = None) -> AuditEntry | None:
        """The record of a script's run, where there is an audit."""
        audit = self._setup.audit
        return None if audit is None else audit.run(script, context, tag)

    # ------------------------------------------------------------------- tasks

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Call a tool as ``call_tool`` does, but return as soon as the server has made a task of
        the call (2026-07-28, extension tasks); a tool that completes at once is a finished task.

        The server decides whether it does; in 2025-11-25 it is asked to where the tool's
        ``task_support`` allows that, and ``ttl`` is for how many seconds after its creation the
        server is asked to keep the task, by default as long as the call may take; servers of other
        revisions decide that themselves. ``cancel`` and ``retry`` are about the start. Closing
        the session does not cancel the task: ``task.cancel()`` does.
        """
        return await self._handover.start(name, arguments, ttl, options)

    def resume_task(self, saved: Mapping[str, Any] | str) -> Task:
        """The task that ``task.to_json()`` was called of, or the JSON text of that.

        Approval is not asked again, and the audit record of the call is closed once, where its end
        is seen first. Raises ``ConfigError`` for what was changed, or saved by a process that does
        not share this one's state, and for a task of another server; waiting for one of another
        authorization raises it, too.
        """
        return self._handover.resume(saved)

    @property
    def _handover(self) -> Handover:
        if self._started is None:
            from .task_handles import Handover

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
    def _has_journal(self) -> bool:
        return self._setup.state is not None

    @property
    def _paused_in(self) -> Storage | None:
        return self._setup.paused

    async def _record_not_made(
        self, name: str, arguments: Any, error: McpError, options: CallOptions
    ) -> None:
        """Record a call that a model asked for and that cannot be made."""
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

    # ------------------------------------------------------- what the server asks and says

    async def set_log_level(self, level: str) -> None:
        """Ask for the server's log notices from ``level`` on: "debug", "info", "notice",
        "warning", "error", "critical", "alert" or "emergency". They go to ``Handlers(log=)`` and
        to the logger ``mcp_client.server.<name>``.

        Sends ``logging/setLevel`` to a server that declares logging; in the stateless era, the
        level goes with every request from here on, and nothing is sent now
        (``server/utilities/logging``, deprecated there). Lines below it are dropped either way.
        """
        await self._messages.set_log_level(self._connection.ensure_connected, level)

    async def roots_changed(self) -> None:
        """Tell the server that ``Handlers(roots=)`` would answer otherwise now.

        Only servers of the handshake era hear of it (2025-11-25 ``client/roots``); in the
        stateless era a server asks whenever it wants to know, and nothing is sent.
        """
        rpc = await self._connection.ensure_connected()
        roots = self._setup.client.capabilities.get("roots")
        if rpc.era.server_may_ask and isinstance(roots, dict) and roots.get("listChanged"):
            await rpc.notify("notifications/roots/list_changed")

    async def wait_for_elicitation(self, elicitation_id: str) -> None:
        """Wait until the server says that a visit to a URL is done: those that this session's
        server asked for by that id, in a question or in ``UrlElicitationRequired``.

        A server need not say so (2025-11-25 ``client/elicitation``): leave the person a way to go
        on without. Raises ``CallTimeout`` after ``Timeouts.approval`` seconds, and ``ConfigError``
        for an id the server never gave.
        """
        await self._dispatcher.wait_for_elicitation(elicitation_id)

    # -------------------------------------------------------------- its health

    async def ping(self, *, timeout: float | Timeouts | None = None) -> None:
        """Ask the server for a sign of life.

        The stateless era has no ping; there ``server/discover`` is asked instead.
        """
        rpc = await self._connection.ensure_connected()
        await rpc.request(rpc.sign_of_life, {}, self._timeouts.for_call(timeout), REPEATABLE)

    async def aclose(self) -> None:
        """End the connection and the server's process. From any task, any number of times.

        The calls under way end, and their audit records are written before this returns.
        """
        if not self._connection.closed:
            self._connection.check_loop()
        self._connection.closed = True
        self._setup.gate.close()
        self.decisions.revoke_all()
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
        """What ``list_tools`` would return without waiting; None where it would have to wait."""
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
