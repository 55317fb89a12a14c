"""Many servers as one set of tools.

Each server is opened, listed and restarted on its own (``server``); their tools have one name each
(``naming``) under which they are looked up (``directory``). A call goes to the session of its
server, and so through its gate. Nothing here takes a task for a call, and nothing polls.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import anyio

from ..catalog.call_values import ToolResult
from ..catalog.tool import Tool, ToolList
from ..catalog.watch import ToolChanges
from ..config.server_config import ServerConfig, ServerLike
from ..connection.call_options import CallOptions, CancelToken, cancelled_by, check_call_options
from ..errors import ConfigError, ConnectError, McpError, UnknownTool
from ..runtime.background import BackgroundTasks
from ..runtime.daemon_thread import run_in_thread
from ..runtime.event_loop import LoopEvent, current
from ..runtime.safe_text import safe_text
from ..runtime.storage import Storage
from ..runtime.watch import Watch
from ..session.session import Session
from .directory import Entry
from .naming import Names, naming_of
from .offers import HostTools, HostToolWatch, LibraryOfHost, ScriptsOfHost
from .options import HostOptions, SharedOptions, names_of
from .server import HostedServer
from .status import ServerStatus, StatusEvents, StatusWatch

if TYPE_CHECKING:
    from ..approval.decision import ApprovalHook, Policy
    from ..catalog.tool_index import ToolSearch
    from ..config.fields import ConfigProblem
    from ..config.programs import Scope
    from ..extensions.tasks import Task
    from .from_config import ConfigSource, FileWatch, Reloaded

__all__ = ["Host"]

_USE = "use 'async with Host(...) as host', or 'host = await Host(...)'"
T = TypeVar("T")


class Host(LibraryOfHost, ScriptsOfHost):
    """Many servers as one set of tools: ``async with Host({"weather": server, ...}) as host``.

    Its methods may be called from any number of tasks at once, and any task may close it.
    """

    def __init__(self, servers: Mapping[str, ServerLike], **options: Unpack[HostOptions]) -> None:
        """Create a host of ``servers``. It is opened by ``async with``, or by ``await``.

        Args:
            servers: The servers by their names in this host, each any value that ``connect`` takes
                or a ``ServerConfig``.
            options: Those of ``connect``, for all servers: ``approval``, ``state``, ``trusted``,
                ``audit``, ``pins``, ``validation``, ``handlers``, ``timeouts``, ``limits``,
                ``retry``, ``bind``, ``revision``, ``policy``, ``client_info``. ``naming`` defines
                the names of tools: see ``mcp_client.host.naming``. ``required`` names the servers
                without which entering raises. ``keep_listed`` is the seconds for which tools of a
                server that is down stay listed, 0 for none. ``sandbox`` confines servers that
                choose none.

        Entering opens all servers side by side, but not lazy ones. A server that fails costs only
        its own tools, and is tried again. A slow one is waited for, up to ten seconds after the
        others (``Timeouts.gather``). Raises ``ConfigError``; entering, ``ConnectError`` for a
        required server.
        """
        if not isinstance(servers, Mapping):
            raise ConfigError(f"Host({type(servers).__name__}): give a mapping of names to servers")
        naming, required = options.pop("naming", "prefix"), options.pop("required", ())
        self._options = SharedOptions(options)
        self._limits = self._options.limits
        self._events = StatusEvents(self._options.timeouts.gather)
        self._servers: dict[str, HostedServer] = {}
        self._names = Names(naming_of(naming), authority=self._authority)
        self._tools = HostTools(self._servers, self._names, self._events)
        self._entries = self._tools.entries
        self._opened = self._closed = False
        self._closing: LoopEvent | None = None
        self._source: ConfigSource | None = None
        self._file_watch: FileWatch | None = None
        self.problems: tuple[ConfigProblem, ...] = ()
        """The problems in the config file of ``from_config``; its other servers are here."""
        for name, server in servers.items():
            self._servers[name] = self._made(name, server)
        self._required = self._checked_required(required)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._opened else "not open"
        return f"<Host, {len(self._servers)} servers, {state}>"

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        confirm: ApprovalHook | Policy | None = None,
        scope: Scope | None = None,
        inputs: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
        watch: bool = False,
        **options: Unpack[HostOptions],
    ) -> Host:
        """Return a host of the servers in a config file, each started only once that is allowed.

        Args:
            path: The config file.
            confirm: Takes what ``approval`` takes, and decides about each ``StartRequest``.
            scope: "user" if a file at another place is a person's own, too.
            inputs: The values of ``${input:ID}``.
            only: The names of the servers to use; all by default.
            watch: Whether the host calls ``reload``, some seconds after the file was written.
            options: The options of ``Host``. The ``policy`` is always that of this machine.

        Raises ``ConfigError`` if no server can be used. ``Allow(remember="always")`` is stored in
        ``state`` until the file's entry of the server changes. Without ``confirm`` and such an
        approval, only the servers of a person's own settings are started. Until there is a decision
        the server is "idle", and ``await host.session(name)`` waits for it. ``problems`` has what
        is wrong in the file.
        """
        from .from_config import host_from_config

        return host_from_config(
            cls, path, confirm, scope=scope, inputs=inputs, only=only, watch=watch, options=options
        )

    async def reload(self) -> Reloaded:
        """Load the config file of ``from_config`` again, and apply its changes.

        Servers that are gone from the file are closed. New ones are started, and changed ones
        restarted, as when the host was entered, with the same questions. All others go on, calls
        under way included. A server whose entry is now unusable goes on, too, and is in
        ``problems``. The values of variables are not compared.

        Returns the names that were ``added``, ``removed``, ``changed`` and ``unchanged``. Raises
        ``ConfigError``, without a change, if the file cannot be loaded, or this host has none.
        """
        self._check_open()
        if self._source is None:
            raise ConfigError("cannot reload: the host has no config file. Use Host.from_config")
        return await self._source.reload(self)

    # ------------------------------------------------------------------- opening

    def __await__(self) -> Generator[Any, Any, Host]:
        return self._open().__await__()

    async def __aenter__(self) -> Host:
        return await self._open()

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _open(self) -> Host:
        if self._opened:
            raise ConfigError("a Host can be entered or awaited once. Create another Host")
        self._stop_if_closed()
        self._backend = current()
        self._opened = True
        try:
            for server in self._servers.values():
                server.open(self._backend)
            if self._options.pins is not None:
                pinned = await run_in_thread(self._options.pins._read)
                for name in self._servers.keys() & pinned.keys():
                    self._tools.directory.know(self._servers[name], pinned[name])
                await self._tools.list_pinned(self._servers.values())
            self._stop_if_closed()
            started = [
                server
                for server in self._servers.values()
                if not server.config.lazy or server.name in self._required
            ]
            for server in started:
                server.start()
            await self._tools.settled(started, self._required)
            for name in self._required:
                server = self._server(name)
                if server.session is None:
                    raise server.refusal(final=True)
            await self._tools.take_lists()
            self._stop_if_closed()
            if self._source is not None and self._source.watch:
                self._file_watch = self._source.watched(self.reload, self._backend)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    def _stop_if_closed(self) -> None:
        if self._closed:
            opening = "while it was being opened" if self._opened else "before it was opened"
            raise ConnectError(f"the host was closed {opening}. Create another Host")

    def _made(self, name: object, server: ServerLike) -> HostedServer:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"the name of a server is {name!r}: give a non-empty str")
        config = server if isinstance(server, ServerConfig) else ServerConfig(server)
        return HostedServer(name, config, self._options, self._events)

    def _checked_required(self, required: Iterable[str]) -> frozenset[str]:
        names = names_of("required", required)
        for name in names:
            if self._server(name).state == "disabled":
                raise ConfigError(
                    f"the server {name!r} cannot be both required and disabled", server=name
                )
        return names

    def _authority(self, server: str) -> str | None:
        return self._servers[server].authority if server in self._servers else None

    # -------------------------------------------------------------------- closing

    async def aclose(self) -> None:
        """End all servers, within bounded time. From any task, any number of times."""
        if self._closing is not None:
            await self._closing.wait()
            return
        self._closing = LoopEvent()
        self._closed = self._events.closing = True
        self._events.notifier.notify()
        try:
            if self._file_watch is not None:
                await self._file_watch.aclose()
            if self._opened:
                await self._close_all(list(self._servers.values()))
        finally:
            self._events.closed = True
            self._events.changed()
            self._closing.set()

    async def _close_all(self, servers: list[HostedServer]) -> None:
        # Tasks of their own, because the caller's may be cancelled while they end the processes.
        closing = BackgroundTasks(self._backend, "host")
        for server in servers:
            closing.start(server.aclose)
        longest = max((server.closes_within for server in servers), default=0.0)
        with anyio.move_on_after(longest, shield=True):
            await closing.none_left()

    # -------------------------------------------------------------------- servers

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of the servers that are connected, by name, at this moment."""
        found = {name: server.live_session for name, server in self._servers.items()}
        return MappingProxyType({name: one for name, one in found.items() if one is not None})

    def status(self) -> Mapping[str, ServerStatus]:
        """Return how each server is doing at this moment, by name, as a dict of its own."""
        return {name: one.status() for name, one in self._servers.items()}

    def status_changes(self) -> Watch[ServerStatus]:
        """Watch the changes of the servers' status from now on.

        Returns an async iterator of ``ServerStatus``, which is also a context manager that ends it.
        """
        return StatusWatch(self._events)

    async def session(self, name: str) -> Session:
        """Return the session of a server, connected if it was not. Raises ``ConnectError``."""
        self._check_open()
        return await self._server(name).usable(ask_again=True)

    async def add(self, name: str, server: ServerLike) -> ServerStatus:
        """Add a server, connect it unless it is lazy, and return its status.

        One that fails is tried again as when entering. Raises ``ConfigError`` if the name is in use
        or an option is wrong.
        """
        self._check_open()
        added = self._made(name, server)
        if name in self._servers:
            raise ConfigError(
                f"cannot add the server {safe_text(name, 60)!r}: its name is in use", server=name
            )
        await self._replace([], [added])
        return added.status()

    async def remove(self, name: str) -> None:
        """End a server and forget its tools. Their names go to no other tool."""
        self._check_open()
        await self._replace([self._server(name)], [])

    async def _replace(self, ended: list[HostedServer], added: list[HostedServer]) -> None:
        """End servers and forget their tools; then open others, and wait for those.

        It does not wait for lazy ones, as when entering.
        """
        for server in ended:
            del self._servers[server.name]
            self._tools.directory.forget(server)
        for server in added:
            self._servers[server.name] = server
            server.open(self._backend)
        self._events.changed()
        started = [server for server in added if not server.config.lazy]
        try:
            if ended:
                await self._close_all(ended)
        finally:  # the old ones are gone, even if the caller is cancelled
            for server in added:
                self._events.publish(server.status())
                server.listing.watch(self._tools.is_watched)
            for server in started:
                server.start()
        await self._tools.list_pinned(added)
        if started:
            await self._tools.settled(started)
            await self._tools.take_lists()

    async def reconnect(self, name: str) -> Session:
        """Connect a server again at once: after a login, or one that has failed.

        Calls that are under way raise ``ConnectionLost``. Raises ``ConnectError``.
        """
        self._check_open()
        return await self._server(name).reconnect()

    # ---------------------------------------------------------------------- tools

    async def list_tools(self, *, refresh: bool = False) -> ToolList:
        """Return the tools of all servers, by ``qualified_name``, as ``Session.list_tools`` does.

        A server that is not connected costs only its own tools: ``.findings`` names the missing
        servers, with the reasons. Lazy servers are not started for it.
        """
        self._check_open()
        await self._tools.refresh(every=refresh)
        return self._tools.listed

    async def get_tool(self, name: str) -> Tool:
        """Return the tool of that qualified name.

        Raises ``UnknownTool``, which has similar names.
        """
        self._check_open()
        if (pinned := self._tools.pinned(name)) is not None:
            return pinned
        entry, session = await self._find(name)
        try:
            tool = await session.get_tool(entry.tool_name)
        except UnknownTool as error:
            raise await self._tools.unknown_tool(name, error) from None
        if entry.tool is not None and entry.source is tool:
            return entry.tool
        return replace(tool, _qualified_name=name)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call the tool of that qualified name, as ``Session.call_tool`` does.

        A lazy server is started; a difference from the lock file is reported to the approver.

        Args:
            name: The qualified name of the tool.
            arguments: The arguments, as a JSON object.
            options: The options of ``Session.call_tool``.

        Raises:
            UnknownTool: No server has the tool. The message lists similar names.
            ConnectError: The tool's server is down; ``retryable`` if the host connects again.
            McpError: Any other error of ``Session.call_tool``.
        """
        entry = self._entry(name)
        session = None if entry is None else entry.server.session
        if entry is None or session is None or session.closed:
            entry, session = await self._find_or_record(name, arguments, options)
        server = entry.server
        try:
            result = await session.call_tool(entry.tool_name, arguments, **options)
        except McpError as error:
            await self._tools.failed(name, entry, error)
            raise
        if server.state != "connected":
            server.works()
        return result

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Call the tool of that qualified name and return once its server has made a task of it.

        A saved task is resumed by ``host.session(task.server)``.

        Args:
            name: The qualified name of the tool.
            arguments: The arguments, as a JSON object.
            ttl: The seconds for which the server should store the task.
            options: The options of ``Session.start_tool``.
        """
        entry, session = await self._find_or_record(name, arguments, options)
        try:
            return await session.start_tool(entry.tool_name, arguments, ttl=ttl, **options)
        except McpError as error:
            await self._tools.failed(name, entry, error)
            raise

    async def search_tools(self, query: str, *, limit: int = 8) -> list[Tool]:
        """Return the tools that fit a query in plain words best, the best first.

        The search uses BM25 over names, titles, descriptions and names of parameters. It is for a
        model that should not be given thousands of tools.
        """
        return await self._search.search(query, limit)

    @cached_property
    def _search(self) -> ToolSearch:
        from ..catalog.tool_index import ToolSearch

        return ToolSearch(self.list_tools)

    def tool_changes(self) -> Watch[ToolChanges]:
        """Watch the tools of all servers: what is added, removed and changed from now on.

        Returns an async iterator of ``ToolChanges``, which is also a context manager that ends it.
        Tools of a server that is down are removed, and added again when it is back.
        """
        self._check_open()
        return HostToolWatch(self._tools)

    # -------------------------------------------------------------------- private

    def _check_open(self, *, follows: bool = False) -> None:
        if self._closed:
            raise ConnectError("the host is closed", follows=follows)
        if not self._opened:
            raise ConfigError(f"the host is not open yet: {_USE}")

    def _server(self, name: str) -> HostedServer:
        server = self._servers.get(name) if isinstance(name, str) else None
        if server is not None:
            return server
        names = ", ".join(safe_text(one, 60) for one in list(self._servers)[:20]) or "none"
        raise ConfigError(f"unknown server {safe_text(name, 60)!r}; the servers are: {names}")

    def _entry(self, name: object) -> Entry | None:
        return self._entries.get(name) if isinstance(name, str) else None

    async def _find(self, name: str) -> tuple[Entry, Session]:
        entry = await self._tools.entry(name)
        return entry, await entry.server.usable()

    @property
    def _paused_in(self) -> Storage | None:
        return self._options.paused_in(server.config for server in self._servers.values())

    async def _record_not_made(
        self, name: str, arguments: Any, error: McpError, options: CallOptions
    ) -> None:
        """Record a call that a model asked for and that cannot be made."""
        entry = self._entry(name)
        if entry is not None:
            error.server, name = entry.server.name, entry.tool_name
        await self._options.record(name, arguments, options, error)

    async def _find_or_record(
        self, name: str, arguments: Any, options: CallOptions
    ) -> tuple[Entry, Session]:
        """Return the entry and the session of a call. Raises what prevents the call.

        Such an error is recorded here, because no session records it in the audit.
        """
        follows = options.get("idempotency_key") is not None  # the journal was not looked at
        self._check_open(follows=follows)
        check_call_options(options)

        def cancelled(token: CancelToken) -> McpError:
            known = self._entry(name)
            server = "" if known is None else known.server.name
            return token._error(server, safe_text(name, 128), False)

        try:
            async with cancelled_by(options.get("cancel"), cancelled):
                return await self._find(name)
        except McpError as error:
            error.follows = follows
            await self._options.record(name, arguments, options, error)
            raise
