"""The tools of the servers of a host: each list kept up to date, all of them listed side by side,
and followed as they change."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..catalog.tool import ToolList, not_a_name
from ..catalog.watch import ToolChanges, tools_compared
from ..errors import McpError, UnknownTool
from ..runtime.backoff import doubled
from ..runtime.event_loop import LoopEvent, current
from ..runtime.watch import Watch
from ..session.session import Session
from .directory import Directory, Entry
from .naming import Names
from .status import StatusEvents, wait_for_most

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["HostToolWatch", "HostTools", "ServerListing"]

_log = logging.getLogger("mcp_client")
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.05, 5.0


class ServerListing:
    def __init__(self, server: HostedServer, events: StatusEvents) -> None:
        self.tools: ToolList | None = None
        """As listed last, by the session."""
        self.error: McpError | None = None
        """Why the last attempt to list them failed."""
        self.fetching: LoopEvent | None = None
        """Set when the list that is being fetched is there, or failed."""
        self._server = server
        self._events = events
        self._watched = False
        self._subscribed: Session | None = None
        self._unchanged = 0
        self._not_before = 0.0

    @property
    def count(self) -> int | None:
        return None if self.tools is None else len(self.tools)

    def fetch(self, *, refresh: bool = False) -> None:
        """List them, in the background, unless that is being done already."""
        if self.fetching is None:
            self._server.job(lambda: self._fetch(refresh), self._fetching_is)

    def _fetching_is(self, over: LoopEvent | None) -> None:
        self.fetching = over

    async def _fetch(self, refresh: bool) -> None:
        session = self._server.session
        if session is None:
            return
        try:
            if self._watched:
                await session._subscriptions.tools.settled()
            tools = await session.list_tools(refresh=refresh)
        except McpError as error:
            self.error = error
            self._server.note(error)
            self._events.changed()
        except Exception as error:  # noqa: BLE001 - a fault of ours costs this server only
            name = self._server.name
            _log.warning("%s: listing its tools failed", name, exc_info=True)
            self.error = McpError(f"listing failed: {type(error).__name__}", server=name)
            self._events.changed()
        else:
            self.error = None
            self.take(tools)

    def take(self, tools: ToolList) -> None:
        """``tools`` is the list now."""
        before = self.tools
        if tools is before or self._server.closed:
            return
        self.tools = tools
        if before is None or len(before) != len(tools):
            self._events.publish(self._server.status())

    # ------------------------------------------------------------------- changes

    @property
    def due_in(self) -> float | None:
        """Seconds after which they are to be fetched, for the server says that they changed; None
        where it does not. It waits the longer, the more often nothing had changed."""
        server = self._server
        session = server.session
        if session is None or not server.is_connected or not session._catalog.outdated:
            return None
        return max(0.0, self._not_before - server.now())

    def fetched(self, changed: bool) -> None:
        """They were fetched because the server said that they changed: whether they had."""
        self._unchanged = 0 if changed else self._unchanged + 1
        pause = 0.0
        if self._unchanged > 1:
            pause = doubled(_PAUSE_SECONDS, self._unchanged, _MAX_PAUSE_SECONDS)
        self._not_before = self._server.now() + pause

    def watch(self, wanted: bool) -> None:
        """Whether changes are waited for: then the server is asked to tell of them."""
        self._watched = wanted
        self._subscribe(self._server.session)

    def has_session(self, session: Session) -> None:
        session._subscriptions.tools.add_listener(self._may_have_changed)
        self._subscribe(session)

    def close(self) -> None:
        self._watched = False
        self._subscribe(None)

    def _subscribe(self, session: Session | None) -> None:
        wanted = session if self._watched else None
        if wanted is self._subscribed:
            return
        if self._subscribed is not None:
            self._subscribed._subscriptions.tools.unwatch()
        self._subscribed = wanted
        if wanted is not None:
            wanted._subscriptions.tools.watch()

    def _may_have_changed(self, certain: bool) -> None:
        self._events.notifier.notify()


class HostTools:
    def __init__(
        self, servers: Mapping[str, HostedServer], names: Names, events: StatusEvents
    ) -> None:
        """``servers`` changes as servers are added and removed."""
        self.events = events
        self.directory = Directory(names)
        self.entries = self.directory.entries
        """What can be called, by qualified name."""
        self._servers = servers
        self._watches = 0

    @property
    def listed(self) -> ToolList:
        """All tools, as listed last; the same object while nothing changed."""
        return self.directory.listing(self._servers.values(), self.events.version)

    async def entry(self, name: str) -> Entry:
        """What is called ``name``, after listing whatever is not listed or may be out of date.

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

    async def gone(self, name: str, error: UnknownTool) -> UnknownTool:
        """``error`` of a session, in terms of the host: the tool is not there any more."""
        await self.refresh()
        if name in self.entries:
            return error
        return self.directory.unknown(name, list(self._servers.values()))

    # ------------------------------------------------------------------- listing

    async def refresh(self, *, every: bool = False) -> None:
        """Fetch, side by side, the lists of connected servers that may be out of date; or of
        ``every`` one."""
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
            self.events.notifier,
            current().now,
            lambda: [server for server in servers if server.busy or server.is_asking],
            lambda server: server.waited_for_since,
            is_required,
        )

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
        return self._watches > 0

    def watch(self) -> None:
        self._watches += 1
        for server in self._servers.values():
            server.listing.watch(True)

    def unwatch(self) -> None:
        self._watches -= 1
        if not self._watches:
            for server in self._servers.values():
                server.listing.watch(False)

    async def follow_changes(self) -> float | None:
        """Fetch the lists that servers say have changed. Returns the seconds after which one may be
        asked again that announces changes and changes nothing; None without one."""
        pauses = {server: server.listing.due_in for server in list(self._servers.values())}
        due = [server for server, pause in pauses.items() if pause == 0]
        for server in due:
            server.listing.fetch()
        if due:
            await self.settled(due)
        for server in due:
            server.listing.fetched(await self._take(server))
        await self.take_lists()
        again = [server.listing.due_in for server in self._servers.values()]
        return min((pause for pause in again if pause is not None), default=None)


class HostToolWatch(Watch[ToolChanges]):
    """One ``ToolChanges`` after another, over all servers; tools go by their qualified names.

    Entered, or waited for, it has every server tell of its changes, if it can. Several changes in
    a row may come as one. It ends when the host is closed.
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
