"""The watches of a server's lists and resources.

A watch ends when its session is closed. It sleeps until it is notified of a change or of a lost
connection. Then, if it is awaited, it replaces the connection, and possibly missed notifications
count as a change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..errors import McpError
from ..protocol.offers import ResourceUpdate
from ..runtime.watch import Notifier, Watch
from .finding import Listed
from .paged_list import PagedCache
from .subscriptions import ResourceSubscription, Subscriptions
from .tool import Tool

__all__ = [
    "ListChanges",
    "ListWatch",
    "ResourceWatch",
    "ToolChanges",
    "compared_by",
    "tools_compared",
]

T = TypeVar("T")
C = TypeVar("C", bound="ListChanges[Any]")


@dataclass(frozen=True, slots=True)
class ListChanges(Generic[T]):
    """The changes of a server's list."""

    added: tuple[T, ...]
    removed: tuple[T, ...]
    changed: tuple[T, ...]
    """The changed entries as they are now; ``before`` has them as they were."""
    before: Listed[T]
    now: Listed[T]
    """The complete list, as it is now."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class ToolChanges(ListChanges[Tool]):
    """The changes of a server's tools."""

    @property
    def tools(self) -> Listed[Tool]:
        """The complete list, as it is now."""
        return self.now


class ListWatch(Watch[C]):
    """An iterator over the changes of one of a server's lists.

    Several changes in a row may be returned as one. If the list cannot be fetched, it raises as
    ``list_tools`` does, and the next ``anext`` tries again. If the server does not declare change
    notifications, the changes are those that other uses of the session discover.
    """

    def __init__(
        self,
        listing: PagedCache[Any],
        live: Callable[[], Awaitable[object]],
        compared: Callable[[Listed[Any], Listed[Any]], C],
    ) -> None:
        """Prepare the watch; ``live`` replaces a lost connection."""
        super().__init__(listing.subscription.notifier)
        self._subscription = listing.subscription
        self._listing = listing
        self._live = live
        self._compared = compared
        self._before: Listed[Any] | None = listing.known
        self._is_watching = False
        if self._before is None:
            listing.when_fetched(self._compare_with)  # by any task
            self._subscription.spawn(self._fetch_in_time)

    @property
    def _is_over(self) -> bool:
        return self._closed or self._subscription.closed

    async def _begin(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._subscription.watch()
        await self._subscription.settled()
        if self._before is None:
            await self._fetch_first()

    async def _fetch_in_time(self) -> None:
        """Fetch what changes are compared with, where the first step does not come at once."""
        if not self._is_watching and not self._is_over:
            with suppress(McpError):  # the first step tries again, and raises
                await self._fetch_first()

    async def _fetch_first(self) -> None:
        await self._live()
        self._compare_with(await self._listing.latest())

    def _compare_with(self, first: Listed[Any]) -> None:
        if self._before is None:
            self._before = first

    def _end(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._subscription.unwatch()

    async def _take(self) -> C | None:
        if self._subscription.is_lost:
            await self._subscription.replace_lost(self._live)
        before, listing = self._before, self._listing
        assert before is not None
        # A server may announce changes without end: it is asked less and less often.
        self._look_again_after = (listing.due_in or None) if listing.outdated else None
        if self._look_again_after is not None:
            return None
        now = self._before = await listing.latest()
        changes = None if now is before else self._compared(before, now)
        return changes or None


def tools_compared(before: Listed[Tool], now: Listed[Tool]) -> ToolChanges:
    """Return the changes between two lists of tools; tools are equal if their fingerprints are."""
    return ToolChanges(
        *_differences(
            before,
            now,
            lambda tool: tool._qualified_name or tool.name,
            lambda was, tool: was is tool or was.fingerprint == tool.fingerprint,
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
    before: Listed[T], now: Listed[T], key: Callable[[T], str], same: Callable[[T, T], bool]
) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
    """Return the added, removed and changed entries."""
    was = {key(entry): entry for entry in before}
    is_ = {key(entry): entry for entry in now}
    return (
        tuple(entry for name, entry in is_.items() if name not in was),
        tuple(entry for name, entry in was.items() if name not in is_),
        tuple(e for name, e in is_.items() if name in was and not same(was[name], e)),
    )


def _raw(entry: Any) -> Any:
    return entry.raw


class ResourceWatch(Watch[ResourceUpdate]):
    """An iterator over the changes of one resource: ``ResourceUpdate`` objects.

    Entering it, or the first ``anext``, subscribes; it raises ``ServerError`` if the server
    refuses, or the reason why no request is possible. Several pending updates of one URI are
    returned as one; those of more parts of a resource than ``Limits.watched``, as one for all of
    it. An update does not contain the change: read the resource.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        uri: str,
        max_waiting: int,
        live: Callable[[], Awaitable[object]],
    ) -> None:
        """Let ``max_waiting`` updates wait; ``live`` replaces a lost connection."""
        super().__init__(Notifier())
        self._subscriptions = subscriptions
        self._subscription: ResourceSubscription | None = None
        self._is_watching = False
        self._uri = uri
        self._max_waiting = max_waiting
        self._live = live
        self._waiting: dict[str, ResourceUpdate] = {}

    @property
    def _is_over(self) -> bool:
        return self._closed or (self._subscription is not None and self._subscription.closed)

    async def _begin(self) -> None:
        if self._subscription is None or not self._is_watching:
            await self._live()
            self._subscription = self._subscriptions.subscription_to(self._uri)
            self._notifier = self._subscription.notifier
            self._is_watching = True
            self._subscription.add_listener(self._add)
            self._subscription.watch()
        elif self._subscription.refused:
            self._subscription.try_again()
        await self._subscription.settled()
        self._raise_refusal(self._subscription)

    def _end(self) -> None:
        subscription = self._subscription
        if self._is_watching and subscription is not None:
            self._is_watching = False
            subscription.remove_listener(self._add)
            subscription.unwatch()

    def _add(self, update: ResourceUpdate) -> None:
        waiting = self._waiting
        known = waiting.get(update.uri)
        if known is not None:
            if update.certain and not known.certain:
                waiting[update.uri] = update
            return
        if len(waiting) >= self._max_waiting:
            waiting.clear()
            update = ResourceUpdate(self._uri)
        waiting[update.uri] = update

    async def _take(self) -> ResourceUpdate | None:
        subscription = self._subscription
        assert subscription is not None
        if not self._waiting:
            if subscription.is_lost:
                await subscription.replace_lost(self._live)
            await subscription.settled()
            self._raise_refusal(subscription)
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def _raise_refusal(self, subscription: ResourceSubscription) -> None:
        if subscription.refused and not self._is_over:
            self._has_begun = False  # the next time it is asked again
            assert subscription.fault is not None
            raise subscription.fault.with_traceback(None)
