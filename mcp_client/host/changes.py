"""The stream of changes of all servers' tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.tool import Tool, ToolList
from ..catalog.watch import ToolChanges, Watch

if TYPE_CHECKING:
    from .host import Host

__all__ = ["HostToolWatch"]

_LOOK = 300.0
"""Seconds that one wait takes at most."""


class HostToolWatch(Watch[ToolChanges]):
    """One ``ToolChanges`` after another, over all servers; tools go by their qualified names.

    Entered, or waited for, it has every server tell of its changes, if it can. Several changes in
    a row may come as one. It ends when the host is closed.
    """

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._before = host._listed()
        self._watching = False

    @property
    def _over(self) -> bool:
        return self._closed or self._host._closed

    async def _watch(self) -> None:
        if not self._closed and not self._watching:
            self._watching = True
            self._host._add_watch(self)

    def _release(self) -> None:
        if self._watching:
            self._watching = False
            self._host._remove_watch(self)
        self._host._events.signal.notify()

    async def _step(self) -> ToolChanges | None:
        pause = await self._follow()
        now = self._host._listed()
        before, self._before = self._before, now
        changes = None if now is before else _compared(before, now)
        if changes:
            return changes
        if not self._over:
            await self._host._events.signal.wait(pause or _LOOK)
        return None

    async def _follow(self) -> float:
        """Fetch the lists that servers say have changed. Returns the seconds after which a server
        may be asked again that announces changes and changes nothing; 0 where there is no such."""
        host = self._host
        outdated = [server for server in host._servers.values() if server.listing.outdated]
        for server in outdated:
            server.listing.fetch()
        if outdated:
            await host._settled(outdated)
        pause = 0.0
        for server in outdated:
            changed = await host._directory.take(server)
            if changed:
                host._events.changed()
            pause = max(pause, server.listing.fetched(changed))
        await host._take_lists()
        return pause


def _compared(before: ToolList, now: ToolList) -> ToolChanges:
    was = {tool.qualified_name: tool for tool in before}
    is_ = {tool.qualified_name: tool for tool in now}
    return ToolChanges(
        tuple(tool for name, tool in is_.items() if name not in was),
        tuple(tool for name, tool in was.items() if name not in is_),
        tuple(t for name, t in is_.items() if name in was and _differs(was[name], t)),
        before,
        now,
    )


def _differs(was: Tool, is_: Tool) -> bool:
    return was is not is_ and was.fingerprint != is_.fingerprint
