"""Async iterators over changes, which a session hands out.

``async with session.tool_changes() as changes:`` receives every change from the first line of the
block to its end; ``async for changes in session.tool_changes():`` from its first step to
``aclose``. A watch ends when its session is closed. While one is waited for, a lost connection is
replaced, and what may have been missed meanwhile counts as a change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ..errors import McpError
from ..protocol.resources import ResourceUpdate
from ..runtime.backoff import doubled
from .listed import Listed
from .paged_list import PagedCache
from .subscriptions import ResourceSubscription, Subscriptions
from .tool import Tool

__all__ = [
    "ListChanges",
    "ListWatch",
    "ResourceWatch",
    "ToolChanges",
    "ToolWatch",
    "Watch",
    "compared_by",
]

_LOOK = 1.0
"""Seconds after which a watch looks again, whether or not a notification came."""
T = TypeVar("T")
U = TypeVar("U")
C = TypeVar("C", bound="ListChanges[Any]")


class Watch(ABC, Generic[U]):
    """What all watches have in common."""

    def __init__(self) -> None:
        self._watching = False
        self._closed = False

    async def __aenter__(self) -> Self:
        try:
            await self._watch()
        except BaseException:
            self._release()  # __aexit__ is not called for what was not entered
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> U:
        try:
            await self._watch()
            while not self._over:
                found = await self._step()
                if found:
                    return found
        except McpError:
            if not self._over:
                raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop watching. A task that waits for the next change gets ``StopAsyncIteration``."""
        self._closed = True
        self._release()

    @property
    @abstractmethod
    def _over(self) -> bool: ...

    @abstractmethod
    async def _watch(self) -> None: ...

    @abstractmethod
    async def _step(self) -> U | None:
        """The next change; or None, after waiting until there may be one."""

    @abstractmethod
    def _release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ListChanges(Generic[T]):
    """How a server's list differs from what it was."""

    added: tuple[T, ...]
    removed: tuple[T, ...]
    changed: tuple[T, ...]
    """As they are now; ``before`` has them as they were."""
    before: Listed[T]
    now: Listed[T]
    """The complete list, as it is now."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class ToolChanges(ListChanges[Tool]):
    """How a server's tools differ from what they were."""

    @property
    def tools(self) -> Listed[Tool]:
        """The complete list, as it is now."""
        return self.now


class ListWatch(Watch[C]):
    """The changes of one of a server's lists, one after another.

    Several changes in a row may come as one. A list that cannot be fetched raises as
    ``list_tools`` does, and the next ``anext`` tries again. Where the server does not declare that
    it tells of changes, the changes are those that other uses of the session come upon.
    """

    def __init__(
        self,
        listing: PagedCache[Any],
        live: Callable[[], Awaitable[object]],
        compared: Callable[[Listed[Any], Listed[Any]], C],
    ) -> None:
        """``live`` replaces a lost connection."""
        super().__init__()
        self._subscription = listing.subscription
        self._listing = listing
        self._live = live
        self._compared = compared
        self._before: Listed[Any] | None = listing.known
        self._unchanged = 0

    async def _latest(self) -> Listed[Any]:
        await self._live()
        latest: Listed[Any] = await self._listing.latest()
        return latest

    def _release(self) -> None:
        if self._watching:
            self._watching = False
            self._subscription.unwatch()
        self._subscription.signal.notify()

    @property
    def _over(self) -> bool:
        return self._closed or self._subscription.closed

    async def _watch(self) -> None:
        if self._closed:
            return
        if not self._watching:
            self._watching = True
            self._subscription.watch()
        if self._before is None:
            await self._subscription.settled()
            self._before = await self._latest()
        elif not self._unchanged:
            await self._subscription.settled()

    async def _step(self) -> C | None:
        outdated = self._listing.outdated
        now = await self._latest()
        assert self._before is not None
        changes = self._compared(self._before, now) if now is not self._before else None
        self._before = now
        if changes:
            self._unchanged = 0
            return changes
        if self._listing.outdated:
            # A server that announces changes without end, and changes nothing, is asked less often.
            self._unchanged += 1
            if self._unchanged > 1:
                await self._subscription.pause(doubled(0.05, self._unchanged, 5.0))
            return None
        if not outdated:
            self._unchanged = 0
        if not self._over:
            await self._subscription.signal.wait(_LOOK)
        return None


class ToolWatch(ListWatch[ToolChanges]):
    """The changes of a server's tools, one ``ToolChanges`` after another; see ``ListWatch``."""

    def __init__(self, listing: PagedCache[Any], live: Callable[[], Awaitable[object]]) -> None:
        super().__init__(listing, live, _tools_compared)


def _tools_compared(before: Listed[Tool], now: Listed[Tool]) -> ToolChanges:
    return ToolChanges(
        *_differences(
            before,
            now,
            lambda tool: tool.name,
            lambda was, tool: was.fingerprint == tool.fingerprint,
        ),
        before,
        now,
    )


def compared_by(key: Callable[[T], str]) -> Callable[[Listed[T], Listed[T]], ListChanges[T]]:
    """Compares two lists by what came: an entry is the same if all of it is."""

    def compared(before: Listed[T], now: Listed[T]) -> ListChanges[T]:
        parts = _differences(before, now, key, lambda was, is_: _raw(was) == _raw(is_))
        return ListChanges(*parts, before, now)

    return compared


def _differences(
    before: Sequence[T],
    now: Sequence[T],
    key: Callable[[T], str],
    same: Callable[[T, T], bool],
) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
    """What was added, removed and changed."""
    was = {key(entry): entry for entry in before}
    names = {key(entry) for entry in now}
    return (
        tuple(entry for entry in now if key(entry) not in was),
        tuple(entry for name, entry in was.items() if name not in names),
        tuple(e for e in now if key(e) in was and not same(was[key(e)], e)),
    )


def _raw(entry: Any) -> Any:
    return entry.raw


class ResourceWatch(Watch[ResourceUpdate]):
    """The changes of one resource, one ``ResourceUpdate`` after another.

    Entering it, or the first ``anext``, subscribes; it raises ``ServerError`` where the server
    refuses, or the reason why it cannot be asked. Several updates of one URI that were not taken
    yet come as one; those of more parts of a resource than ``Limits.watched``, as one for all of
    it. An update says that something changed, not what: read the resource.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        uri: str,
        most: int,
        live: Callable[[], Awaitable[object]],
    ) -> None:
        """``most``: how many updates may wait; ``live`` replaces a lost connection."""
        super().__init__()
        self._subscriptions = subscriptions
        self._subscription: ResourceSubscription | None = None
        self._uri = uri
        self._most = most
        self._live = live
        self._waiting: dict[str, ResourceUpdate] = {}

    def _release(self) -> None:
        subscription = self._subscription
        if self._watching and subscription is not None:
            self._watching = False
            subscription.remove_listener(self._add)
            subscription.unwatch()
            subscription.signal.notify()

    @property
    def _over(self) -> bool:
        return self._closed or (self._subscription is not None and self._subscription.closed)

    def _add(self, update: ResourceUpdate) -> None:
        waiting = self._waiting
        known = waiting.get(update.uri)
        if known is not None:
            if update.certain and not known.certain:
                waiting[update.uri] = update
            return
        if len(waiting) >= self._most:
            waiting.clear()
            update = ResourceUpdate(self._uri)
        waiting[update.uri] = update

    async def _watch(self) -> None:
        if self._closed:
            return
        if self._subscription is None or not self._watching:
            await self._live()
            self._subscription = self._subscriptions.of(self._uri)
            self._watching = True
            self._subscription.add_listener(self._add)
            self._subscription.watch()
        elif self._subscription.refused:
            self._subscription.try_again()
        await self._subscription.settled()
        self._raise_refusal()

    async def _step(self) -> ResourceUpdate | None:
        subscription = self._subscription
        assert subscription is not None
        if not self._waiting:
            await self._live()
            await subscription.settled()
            self._raise_refusal()
        if self._waiting:
            return self._waiting.pop(next(iter(self._waiting)))
        if not self._over:
            await subscription.signal.wait(_LOOK)
        return None

    def _raise_refusal(self) -> None:
        subscription = self._subscription
        if subscription is not None and subscription.refused and not self._over:
            assert subscription.fault is not None
            raise subscription.fault.with_traceback(None)
