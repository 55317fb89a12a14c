"""The stream of changes of all servers' tools."""

from __future__ import annotations

from ..catalog.tool import Tool, ToolList
from ..catalog.watch import ToolChanges
from ..runtime.watch import Watch
from .tools import HostTools

__all__ = ["HostToolWatch"]


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
        self._look_again_after = await self._tools.follow_changes()
        now = self._tools.listed
        before, self._before = self._before, now
        changes = None if now is before else _compared(before, now)
        return changes or None


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
