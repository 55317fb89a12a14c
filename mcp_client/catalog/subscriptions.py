"""What a server tells us unasked, in either era: every subscription of one session.

The lists (tools, prompts, resources with their templates) have one subscription each. A resource
that is watched has one for as long as somebody does. In the stateless era that is a stream of its
own, see ``listening``; in the handshake era it is asked for with ``resources/subscribe`` and ended
with ``resources/unsubscribe`` (2025-11-25 ``server/resources``, subscriptions), and asked for anew
on each new connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..connection.rpc import RpcConnection
from ..errors import ConfigError, McpError
from ..protocol.jsonrpc import Notification
from ..protocol.notifications import RESOURCE_UPDATED, TOOLS, Topic, updates_of
from ..runtime.limits import Limits, Timeouts
from .subscription import ListSubscription, Subscription

if TYPE_CHECKING:
    from ..protocol.resources import ResourceUpdate

__all__ = ["ResourceSubscription", "Subscriptions"]

_log = logging.getLogger("mcp_client")


class Subscriptions:
    """``session`` makes one, and tells it of each connection."""

    def __init__(self, server: str, timeouts: Timeouts, limits: Limits) -> None:
        self._server = server
        self._timeouts = timeouts
        self._limits = limits
        self._wire: RpcConnection | None = None
        self._lists: list[ListSubscription] = []
        self._watched: dict[str, ResourceSubscription] = {}
        self._closed = False
        self.tools = self.add(TOOLS)

    def add(self, topic: Topic) -> ListSubscription:
        """Hear of changes of a kind of list from now on."""
        added = ListSubscription(self._server, topic, self._timeouts.connect)
        added.closed = self._closed
        self._lists.append(added)
        if self._wire is not None:
            added.connected(self._wire)
        return added

    def connected(self, wire: RpcConnection) -> None:
        """A connection stands. What was listed on the one before it is not to be relied on."""
        self._wire = wire
        for subscription in self._lists:
            if wire.generation > 1:
                subscription.changed()
            subscription.connected(wire)
        for watched in self._watched.values():
            watched.connected(wire)

    def close(self) -> None:
        self._closed = True
        for subscription in (*self._lists, *self._watched.values()):
            subscription.close()

    def hear(self, notice: Notification) -> None:
        """A notice that came on no stream of ours, as they do in the handshake era."""
        for subscription in self._lists:
            if notice.method == subscription.topic.notice:
                subscription.heard(notice)
        if notice.method == RESOURCE_UPDATED:
            uri = notice.params.get("uri")
            for watched in self._watched.values():
                if type(uri) is str and watched.covers(uri):
                    watched.heard(notice)

    def of(self, uri: str) -> ResourceSubscription:
        """The subscription to one resource; all who watch it share it.

        Raises ``ConfigError`` where there are as many as there may be.
        """
        self._watched = {key: one for key, one in self._watched.items() if one.in_use}
        found = self._watched.get(uri)
        if found is not None:
            return found
        if sum(one.is_watched for one in self._watched.values()) >= self._limits.watched:
            raise ConfigError(
                f"{self._limits.watched} resources are subscribed to already (Limits.watched)",
                server=self._server,
            )
        found = ResourceSubscription(self._server, uri, self._timeouts)
        found.closed = self._closed
        if self._wire is not None:
            found.connected(self._wire)
        self._watched[uri] = found
        return found


class ResourceSubscription(Subscription):
    """The changes of one resource, in either era."""

    def __init__(self, server: str, uri: str, timeouts: Timeouts) -> None:
        super().__init__(server, updates_of(uri), timeouts.connect)
        self.uri = uri
        self.stood = False
        """Whether the server ever agreed."""
        self._clocks = timeouts.for_call(timeouts.connect)
        self._held = False
        self.listeners: set[Callable[[ResourceUpdate], None]] = set()
        """Told of every update."""

    @property
    def is_watched(self) -> bool:
        return self._watchers > 0

    @property
    def in_use(self) -> bool:
        """Whether somebody watches, or it is being ended."""
        return self._watchers > 0 or self._job is not None

    @property
    def refused(self) -> bool:
        """Whether the server will not be asked again by itself."""
        return self.fault is not None and not (self._available and self.stood)

    def try_again(self) -> None:
        """Somebody who was told of a refusal asks once more."""
        self.fault = None
        self._available = True
        self._start()

    def covers(self, uri: str) -> bool:
        """Whether ``uri`` is what was subscribed to, or a part of it."""
        if not uri.startswith(self.uri):
            return False
        rest = uri[len(self.uri) :]
        return not rest or self.uri.endswith("/") or rest[0] in "/#?"

    def heard(self, notice: Notification) -> None:
        uri = notice.params.get("uri")
        self._tell(uri if type(uri) is str else self.uri)

    def opened(self, again: bool) -> None:
        self.stood = True
        if again:
            self._tell(self.uri, certain=False)

    def _tell(self, uri: str, *, certain: bool = True) -> None:
        from ..protocol.resources import ResourceUpdate, usable_uri

        update = ResourceUpdate(self.uri if usable_uri(uri) else uri, certain=certain)
        for listener in tuple(self.listeners):
            listener(update)
        self.signal.notify()

    def _may_listen(self, wire: RpcConnection) -> bool:
        return True  # who declares nothing may tell all the same: it is asked, and says

    def connected(self, wire: RpcConnection) -> None:
        self._held = False
        super().connected(wire)

    # ------------------------------------------------------------ by request

    def _start(self) -> None:
        wire = self._wire
        if wire is None or wire.era.listens:
            super()._start()
        elif not self.closed and self._job is None and self._wanted != self._held:
            self._tried = False
            self._job = self._backend.spawn(lambda: self._agree_on_it(wire))

    def _stop(self) -> None:
        wire = self._wire
        if wire is None or wire.era.listens or self.closed or not wire.transport.alive:
            super()._stop()
        else:
            self._start()

    @property
    def _wanted(self) -> bool:
        return self._watchers > 0 and self._available

    async def _agree_on_it(self, wire: RpcConnection) -> None:
        """Subscribe or unsubscribe, until what the server does is what is wanted."""
        while wire is self._wire and wire.transport.alive and self._wanted != self._held:
            wanted = self._wanted
            try:
                await self._ask(wire, wanted)
            except McpError as error:
                self._missed(error, wanted)
            if wire is not self._wire:
                return
            self._held = wanted and self.fault is None
            self._tried = True
            if self._held:
                self._stands()
        if wire is self._wire:
            self._job = None
            self.signal.notify()

    def _ask(self, wire: RpcConnection, wanted: bool) -> Awaitable[Any]:
        method = "resources/subscribe" if wanted else "resources/unsubscribe"
        if wanted:
            self.fault = None
        else:
            self._acknowledged = False
        return wire.request(method, {"uri": self.uri}, self._clocks)

    def _missed(self, error: McpError, wanted: bool) -> None:
        if wanted:
            self.fault, self._available = error, False
        else:
            _log.debug("%s: a subscription could not be ended: %s", self._server, error)
