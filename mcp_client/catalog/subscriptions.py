"""The subscriptions of one session, in either era.

Each kind of list (tools, prompts, resources with their templates) has one. Each watched resource
has one as long as it is watched. In the stateless era a subscription to a resource is a stream
of its own, see ``subscription``. In the handshake era it is begun with ``resources/subscribe`` and
ended with ``resources/unsubscribe`` (2025-11-25 ``server/resources``, subscriptions), and begun
again on each new connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..connection.rpc import RpcConnection
from ..errors import ConfigError, McpError
from ..protocol.era import RESOURCE_UPDATED, TOOLS, Topic, updates_of
from ..protocol.jsonrpc import Notification
from ..runtime.limits import Limits, Timeouts
from .subscription import ListSubscription, Subscription

if TYPE_CHECKING:
    from ..protocol.offers import ResourceUpdate

__all__ = ["ResourceSubscription", "Subscriptions"]

_log = logging.getLogger("mcp_client")


class Subscriptions:
    """Hands notifications and new connections to the subscriptions of a session."""

    def __init__(self, server: str, timeouts: Timeouts, limits: Limits) -> None:
        self._server = server
        self._timeouts = timeouts
        self._limits = limits
        self._connection: RpcConnection | None = None
        self._lists: list[ListSubscription] = []
        self._watched: dict[str, ResourceSubscription] = {}
        self._closed = False
        self.tools: ListSubscription = self.add(TOOLS)

    def add(self, topic: Topic) -> ListSubscription:
        """Subscribe to the changes of a kind of list."""
        added = ListSubscription(self._server, topic, self._timeouts.connect)
        self._lists.append(added)
        if self._closed:
            added.close()
        if self._connection is not None:
            added.connected(self._connection)
        return added

    def connected(self, connection: RpcConnection) -> None:
        """Subscribe on a new connection. Lists of an earlier one may have changed."""
        self._connection = connection
        for subscription in self._lists:
            if connection.generation > 1:
                subscription.changed()
            subscription.connected(connection)
        for watched in self._watched.values():
            watched.connected(connection)

    def lost(self) -> None:
        """Note that the connection was lost, or may have been.

        The next wait for changes replaces it.
        """
        for subscription in self._all():
            subscription.lost()

    def missed(self) -> None:
        """Note that notifications outside a subscription stream may have been lost."""
        for subscription in self._all():
            subscription.missed()

    def close(self) -> None:
        """Close all subscriptions."""
        self._closed = True
        for subscription in self._all():
            subscription.close()

    def _all(self) -> tuple[Subscription, ...]:
        return (*self._lists, *self._watched.values())

    def on_notification(self, notice: Notification) -> None:
        """Handle a notification outside a subscription stream, as in the handshake era."""
        for subscription in self._lists:
            if notice.method == subscription.topic.notice:
                subscription.on_notification(notice)
        if notice.method == RESOURCE_UPDATED:
            uri = notice.params.get("uri")
            for watched in self._watched.values():
                if type(uri) is str and watched.covers(uri):
                    watched.on_notification(notice)

    def subscription_to(self, uri: str) -> ResourceSubscription:
        """The subscription to one resource, which all its watches share.

        Raises ``ConfigError`` where ``Limits.watched`` resources are watched.
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
        if self._closed:
            found.close()
        if self._connection is not None:
            found.connected(self._connection)
        self._watched[uri] = found
        return found


class ResourceSubscription(Subscription):
    """The changes of one resource, in either era."""

    def __init__(self, server: str, uri: str, timeouts: Timeouts) -> None:
        super().__init__(server, updates_of(uri), timeouts.connect)
        self.uri = uri
        self._was_open = False
        self._request_timeouts = timeouts.for_connecting()
        self._subscribed = False
        """Whether it subscribed by request, on the present connection."""
        self._on_update: set[Callable[[ResourceUpdate], None]] = set()

    @property
    def is_watched(self) -> bool:
        """Whether a watch of the resource exists."""
        return self._watchers > 0

    @property
    def in_use(self) -> bool:
        """Whether it is watched, or being ended."""
        return self._watchers > 0 or self._listener is not None

    @property
    def refused(self) -> bool:
        """Whether the server refused, and is not asked again until ``try_again``."""
        return self.fault is not None and not (self.is_available and self._was_open)

    def try_again(self) -> None:
        """Ask again after a refusal."""
        self.fault = None
        self.is_available: bool = True
        self._start()

    def add_listener(self, on_update: Callable[[ResourceUpdate], None]) -> None:
        """Call ``on_update`` with every update."""
        self._on_update.add(on_update)

    def remove_listener(self, on_update: Callable[[ResourceUpdate], None]) -> None:
        """Stop calling ``on_update``."""
        self._on_update.discard(on_update)

    def covers(self, uri: str) -> bool:
        """Whether ``uri`` is what was subscribed to, or a part of it."""
        if not uri.startswith(self.uri):
            return False
        rest = uri[len(self.uri) :]
        return not rest or self.uri.endswith("/") or rest[0] in "/#?"

    def on_notification(self, notice: Notification) -> None:
        """Handle a notification."""
        uri = notice.params.get("uri")
        self._pass_on(uri if type(uri) is str else self.uri)

    def missed(self) -> None:
        """Note that notifications may have been lost."""
        if self._subscribed:
            self._pass_on(self.uri, certain=False)

    def on_open(self, was_lost: bool) -> None:
        """Note that a stream is open."""
        self._was_open = True
        if was_lost:
            self._pass_on(self.uri, certain=False)

    def _pass_on(self, uri: str, *, certain: bool = True) -> None:
        from ..protocol.offers import ResourceUpdate, usable_uri

        update = ResourceUpdate(self.uri if usable_uri(uri) else uri, certain=certain)
        for on_update in tuple(self._on_update):
            on_update(update)
        self.notifier.notify()

    def _may_listen(self, connection: RpcConnection) -> bool:
        return True  # a server that does not declare it may support it: it is asked, and answers

    def connected(self, connection: RpcConnection) -> None:
        """Note a new connection."""
        self._subscribed = False
        super().connected(connection)

    # ------------------------------------------------------------ by request

    def _start(self) -> None:
        connection = self._connection
        if connection is None or connection.era.listens:
            super()._start()
        elif not self.closed and self._listener is None and self._wanted != self._subscribed:
            self._attempted = False
            self._listener = self._backend.spawn(lambda: self._subscribe_or_unsubscribe(connection))

    def _stop(self) -> None:
        connection = self._connection
        is_closed = connection is None or self.closed or not connection.transport.alive
        if connection is None or is_closed or connection.era.listens:
            super()._stop()
        else:
            self._start()

    @property
    def _wanted(self) -> bool:
        return self._watchers > 0 and self.is_available

    async def _subscribe_or_unsubscribe(self, connection: RpcConnection) -> None:
        """Send requests until the server's state is the one wanted, which may change meanwhile."""
        while connection is self._connection and connection.transport.alive:
            wanted = self._wanted
            if wanted == self._subscribed:
                break
            try:
                await self._ask(connection, wanted)
            except McpError as error:
                self._request_failed(error, wanted)
            if connection is not self._connection:
                return
            self._subscribed = wanted and self.fault is None
            self._attempted = True
            if self._subscribed:
                self._mark_open()
        if connection is self._connection:
            self._listener = None
            self.notifier.notify()

    def _ask(self, connection: RpcConnection, wanted: bool) -> Awaitable[Any]:
        method = "resources/subscribe" if wanted else "resources/unsubscribe"
        if wanted:
            self.fault = None
        else:
            self._acknowledged = False
        return connection.request(method, {"uri": self.uri}, self._request_timeouts)

    def _request_failed(self, error: McpError, wanted: bool) -> None:
        if wanted:
            self.fault, self.is_available = error, False
        else:
            _log.debug("%s: unsubscribing failed: %s", self._server, error)
