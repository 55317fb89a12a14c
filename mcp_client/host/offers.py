"""The tools, resources, prompts and skills of all servers of a host, requested side by side.

The tools are followed as they change. Scripts of a model (code mode) call them through
``ScriptsOfHost``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ..catalog.call_values import ToolResult
from ..catalog.finding import Finding, Listed, Rejected
from ..catalog.tool import Tool, ToolList, not_a_name
from ..catalog.watch import ToolChanges, tools_compared
from ..connection.call_options import CallOptions, ReadOptions
from ..errors import ConfigError, McpError, UnknownTool
from ..extensions.extension import SKILLS
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.safe_text import one_line, safe_text
from ..runtime.watch import Watch
from ..session.session import Session
from ..session.session_options import ForScripts
from .directory import Directory, Entry, why_unavailable
from .naming import Names
from .options import SharedOptions
from .status import StatusEvents, wait_for_most

if TYPE_CHECKING:
    from ..approval.script import Script
    from ..catalog.library import PromptResult, ResourceResult
    from ..extensions.skill import Skill, SkillEntry
    from ..protocol.offers import Prompt, Resource
    from ..runtime.storage import Storage
    from .server import HostedServer

__all__ = ["HostToolWatch", "HostTools", "LibraryOfHost", "ScriptsOfHost"]
T = TypeVar("T")


class HostTools:
    """The tools of all servers of a host."""

    def __init__(
        self, servers: Mapping[str, HostedServer], names: Names, events: StatusEvents
    ) -> None:
        """``servers`` changes as servers are added and removed."""
        self.events = events
        self.directory: Directory = Directory(names)
        self.entries: dict[str, Entry] = self.directory.entries
        """The tools that can be called, by qualified name."""
        self._servers = servers
        self._watches = 0

    @property
    def listed(self) -> ToolList:
        """The tools as last listed; the same object while nothing changed."""
        return self.directory.listing(self._servers.values(), self.events.version)

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of the servers whose tools are listed, as a model may be shown them."""
        found = {
            server.name: server.listing.instructions
            for server in self._servers.values()
            if server.offers_tools
        }
        return {name: text for name, text in found.items() if text is not None}

    def pinned(self, name: str) -> Tool | None:
        """Return a tool that is listed from the lock file, because its server was not started."""
        entry = self.entries.get(name) if isinstance(name, str) else None
        return None if entry is None or not entry.server.is_pinned else entry.tool

    async def entry(self, name: str) -> Entry:
        """Return the tool ``name``, after listing servers whose lists may be out of date.

        Raises ``UnknownTool``.
        """
        if not isinstance(name, str):
            raise not_a_name(name, "qualified_name")
        entry = self.entries.get(name)
        if entry is None:
            await self.refresh()
            entry = self.entries.get(name)
        if entry is None:
            raise self.directory.unknown(name, list(self._servers.values()))
        return entry

    async def failed(self, name: str, entry: Entry, error: McpError) -> None:
        """Note an error of a call. Raises ``UnknownTool`` in terms of the host."""
        if isinstance(error, UnknownTool):
            raise await self.unknown_tool(name, error) from None
        entry.server.note(error)

    async def unknown_tool(self, name: str, error: UnknownTool) -> UnknownTool:
        """``error`` of a session, in terms of the host: the tool is not there any more."""
        await self.refresh()
        if name in self.entries:
            return error
        unknown = self.directory.unknown(name, list(self._servers.values()))
        unknown.follows = error.follows
        return unknown

    # ------------------------------------------------------------------- listing

    async def refresh(self, *, every: bool = False) -> None:
        """Fetch, side by side, the lists of connected servers that may be out of date.

        With ``every``, fetch all lists.
        """
        asked = []
        for server in self._servers.values():
            session = server.session
            if session is None or session.closed or server.state not in ("connected", "connecting"):
                continue
            fresh = None if every else session._fresh_tools()
            if fresh is not None:
                server.listing.take(fresh)
            else:
                server.listing.fetch(refresh=every)
                asked.append(server)
        if asked:
            await self.settled(asked)
        await self.take_lists()

    async def settled(
        self, servers: Sequence[HostedServer], required: frozenset[str] = frozenset()
    ) -> None:
        """Wait until ``servers`` are connected and listed, or have failed, or are slow."""

        def is_required(server: HostedServer) -> bool:
            return server.name in required

        await wait_for_most(
            self.events,
            current().now,
            lambda: [server for server in servers if server.busy or server.is_asking],
            lambda server: server.waited_for_since,
            is_required,
        )

    async def list_pinned(self, servers: Iterable[HostedServer]) -> None:
        """List the tools of lazy servers as the lock file has them."""
        for server in list(servers):
            await server.list_pinned()
        await self.take_lists()

    async def take_lists(self) -> None:
        """Name the tools of lists that are new, in the order of the servers."""
        for server in list(self._servers.values()):
            await self._take(server)

    async def _take(self, server: HostedServer) -> bool:
        changed = await self.directory.take(server)
        if changed:
            self.events.changed()
        return changed

    # ------------------------------------------------------------------- changes

    @property
    def is_watched(self) -> bool:
        """Whether changes of the tools are waited for."""
        return self._watches > 0

    def watch(self) -> None:
        """Count one more watch of the tools."""
        self._watches += 1
        for server in self._servers.values():
            server.listing.watch(True)

    def unwatch(self) -> None:
        """Count one watch less."""
        self._watches -= 1
        if not self._watches:
            for server in self._servers.values():
                server.listing.watch(False)

    async def follow_changes(self) -> float | None:
        """Fetch the lists of servers that have reported a change.

        Returns the seconds after which a server may be asked again that reports changes without
        end; None without one.
        """
        pauses = {server: server.listing.due_in for server in list(self._servers.values())}
        due = [server for server, pause in pauses.items() if pause == 0]
        for server in due:
            server.listing.fetch_changed()
        if due:
            await self.settled(due)
        await self.take_lists()
        again = [server.listing.due_in for server in self._servers.values()]
        return min((pause for pause in again if pause is not None), default=None)


class HostToolWatch(Watch[ToolChanges]):
    """A watch of ``ToolChanges`` over all servers; tools have their qualified names.

    Entered, or waited for, it has every server report its changes, if it can. Several changes in a
    row may come as one. It ends when the host is closed.
    """

    def __init__(self, tools: HostTools) -> None:
        super().__init__(tools.events.notifier)
        self._tools = tools
        self._before = tools.listed
        self._is_watching = False

    @property
    def _is_over(self) -> bool:
        return self._closed or self._tools.events.closing

    async def _begin(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._tools.watch()

    def _end(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._tools.unwatch()

    async def _take(self) -> ToolChanges | None:
        if self._is_over:
            return None
        self._look_again_after = await self._tools.follow_changes()
        now = self._tools.listed
        before, self._before = self._before, now
        changes = None if now is before else tools_compared(before, now)
        return changes or None


class ScriptsOfHost(ABC):
    """The part of ``Host`` that scripts use."""

    _tools: HostTools
    _options: SharedOptions

    @property
    @abstractmethod
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of the connected servers, by name."""

    @abstractmethod
    async def _find_or_record(
        self, name: str, arguments: Any, options: CallOptions
    ) -> tuple[Entry, Session]: ...

    @property
    @abstractmethod
    def _paused_in(self) -> Storage | None: ...

    @property
    def _model_instructions(self) -> dict[str, str]:
        return self._tools.instructions

    @property
    def _for_scripts(self) -> ForScripts:
        options = self._options
        audit = options.audit_of("")  # of no one server
        of_calls = audit, options.has_state, self._paused_in, self._call_as_code, self._end_run
        return ForScripts(options.limits, options.timeouts, *of_calls)

    def _end_run(self, script: str) -> None:
        for session in self.sessions.values():
            session._for_scripts.end_run(script)

    async def _call_as_code(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions, script: Script
    ) -> ToolResult:
        """Return a call that a script of a model makes, of the tool of that qualified name."""
        entry, session = await self._find_or_record(name, arguments, options)
        try:
            return await session._call_as_code(entry.tool_name, arguments, options, script)
        except McpError as error:
            await self._tools.failed(name, entry, error)
            raise


class LibraryOfHost(ABC):
    """The part of ``Host`` that reads."""

    _servers: dict[str, HostedServer]
    _events: StatusEvents

    @abstractmethod
    def _check_open(self) -> None: ...

    @abstractmethod
    async def session(self, name: str) -> Session:
        """Return the session of a server, which is connected if it was not."""

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """Return the resources of all connected servers; each has its ``.server``."""
        return await self._gathered("resources", lambda one: one.list_resources(refresh=refresh))

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """Return the prompts of all connected servers; each has its ``.server``."""
        return await self._gathered("prompts", lambda one: one.list_prompts(refresh=refresh))

    async def read_resource(
        self, uri: str, *, server: str, **options: Unpack[ReadOptions]
    ) -> ResourceResult:
        """Return the contents of a resource of that server, as ``Session.read_resource``.

        Args:
            uri: The URI of the resource.
            server: The name of its server.
            options: The options of ``Session.read_resource``.
        """
        session = await self.session(server)
        return await session.read_resource(uri, **options)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        server: str,
        **options: Unpack[ReadOptions],
    ) -> PromptResult:
        """Return the messages of a prompt of that server, as ``Session.get_prompt``.

        Args:
            name: The name of the prompt.
            arguments: Its arguments, by name.
            server: The name of its server.
            options: The options of ``Session.get_prompt``.
        """
        session = await self.session(server)
        return await session.get_prompt(name, arguments, **options)

    async def list_skills(self, *, refresh: bool = False) -> Listed[SkillEntry]:
        """Return the skills of all connected servers; each has its ``.server``.

        Skills with one name are among the findings: server and URI identify a skill, and never the
        name.
        """
        from ..extensions.skills import with_same_names

        found = await self._gathered(SKILLS, lambda one: one.list_skills(refresh=refresh))
        return with_same_names(found)

    async def load_skill(
        self,
        skill: str | SkillEntry,
        *,
        server: str | None = None,
        timeout: float | Timeouts | None = None,
        context: Hashable = None,
    ) -> Skill:
        """Load a skill, as ``Session.load_skill`` does.

        Args:
            skill: An entry of ``list_skills``, or the URI of a SKILL.md.
            server: The name of the server. It is required with a URI.
            timeout: Seconds, or ``Timeouts``; by default those of the session.
            context: A hashable value that identifies the caller to approval hooks.
        """
        server = getattr(skill, "server", None) if server is None else server
        if server is None:
            raise ConfigError("load_skill(uri): give the name of its server, server='...'")
        session = await self.session(server)
        return await session.load_skill(skill, timeout=timeout, context=context)

    async def _gathered(
        self, feature: str, ask: Callable[[Session], Awaitable[Listed[T]]]
    ) -> Listed[T]:
        self._check_open()
        return await _gather(list(self._servers.values()), self._events, feature, ask)


async def _gather(
    servers: Sequence[HostedServer],
    events: StatusEvents,
    feature: str,
    ask: Callable[[Session], Awaitable[Listed[T]]],
) -> Listed[T]:
    """Return the lists of the connected servers that declare ``feature``.

    ``feature`` is a capability or an extension. The order is that of ``servers``. The findings name
    the missing servers with the reasons.
    """
    found: dict[str, Listed[T]] = {}
    failed: dict[str, str] = {}
    asked: set[str] = set()
    backend = current()
    tasks = BackgroundTasks(backend, "host")

    async def one(server: HostedServer, session: Session) -> None:
        try:
            found[server.name] = await ask(session)
        except McpError as error:
            server.note(error)
            failed[server.name] = safe_text(one_line(error.message), 500)
        finally:
            asked.discard(server.name)
            events.notifier.notify()

    for server in servers:
        session = server.session
        if session is not None and server.is_connected and _has(session, feature):
            asked.add(server.name)
            tasks.start(partial(one, server, session))
    began = backend.now()
    try:
        await wait_for_most(events, backend.now, lambda: asked, lambda name: began)
    finally:
        failed.update(dict.fromkeys(asked, "it does not respond"))
        await tasks.aclose(1.0)
    return _joined(servers, found, failed)


def _has(session: Session, feature: str) -> bool:
    return feature in session.capabilities or feature in session.extensions


def _joined(
    servers: Sequence[HostedServer], found: dict[str, Listed[T]], failed: dict[str, str]
) -> Listed[T]:
    entries: list[T] = []
    rejected: list[Rejected] = []
    findings: list[Finding] = []
    for server in servers:
        name = safe_text(server.name, 60)
        why = failed.get(server.name)
        if why is None and not server.is_connected:
            why = why_unavailable(server)
        if why is not None:
            text = f"server '{name}' is missing: {why}"
            findings.append(Finding("missing_server", text, server.name))
        listed = found.get(server.name)
        if listed is not None:
            entries += listed
            rejected += [replace(one, server=server.name) for one in listed.rejected]
            findings += [one.at(f"server '{name}'") for one in listed.findings]
    return Listed(entries, rejected, findings)
