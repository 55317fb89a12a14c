"""Messages that a server sends on its own, and their receivers, on any connection of a session."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..catalog.subscriptions import Subscriptions
from ..connection.rpc import RpcConnection
from ..errors import ConfigError, McpError
from ..handlers.dispatcher import Dispatcher
from ..handlers.server_log import ServerLog
from ..protocol.era import CANCELLED, COMPLETED, LOG_LEVELS, LOGGED, PROGRESS
from ..protocol.jsonrpc import Notification, Request, encode_response, own_id
from ..runtime.callbacks import CallbackQueue
from ..runtime.event_loop import current
from ..runtime.session_context import SessionContext
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..handlers.handlers import Handlers

__all__ = ["ServerMessages"]

_log = logging.getLogger("mcp_client")


class ServerMessages:
    """Routes a server's requests to the dispatcher, and notifications to their receivers."""

    def __init__(
        self,
        context: SessionContext,
        dispatcher: Dispatcher,
        logs: ServerLog,
        handlers: Handlers | None,
    ) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._logs = logs
        self._handler = None if handlers is None else handlers.notification
        self._queue: CallbackQueue | None = None
        self._rpc: RpcConnection | None = None
        self._subscriptions: Subscriptions | None = None

    def start(self, subscriptions: Subscriptions) -> None:
        """Prepare for the first connection."""
        self._subscriptions = subscriptions
        if self._handler is not None:
            self._queue = CallbackQueue(
                self._handler,
                "the notification handler",
                self._context.server,
                backend=current(),
                most=self._context.limits.notices,
                stats=self._context.stats,
            )

    async def aclose(self, within: float) -> None:
        """Call the handler with what is queued, within so many seconds, and not after that."""
        if self._queue is not None:
            await self._queue.aclose(within)

    def connected(self, rpc: RpcConnection) -> None:
        """Note a new connection."""
        assert self._subscriptions is not None
        self._rpc = rpc
        if self._queue is not None:
            rpc.on_notification = self._pass_on
        if not rpc.era.server_may_ask:
            rpc.ask_for_logs(self._logs.request_level)
        if rpc.generation > 1:
            self._dispatcher.cancel_all_but(rpc.transport)
            self._dispatcher.run_in_background(lambda: self.ask_for_logs(rpc))
        self._subscriptions.connected(rpc)

    def lost(self) -> None:
        """Note that the connection has ended, or may have."""
        if self._subscriptions is not None:
            self._subscriptions.lost()

    def missed(self, transport: Transport) -> None:
        """Note that notifications may have been lost on the connection of ``transport``."""
        current = None if self._rpc is None else self._rpc.transport
        if self._subscriptions is not None and transport is current:
            self._subscriptions.missed()

    def receive(self, transport: Transport, message: Request | Notification) -> None:
        """Route a message that belongs to no request of the client."""
        if isinstance(message, Notification):
            self._receive_notification(transport, message)
            return
        era = transport.era
        if era is not None and not era.server_may_ask:
            self._context.stats.refused_questions += 1
            _log.warning(
                "%s: dropped a request from the server: the revision does not allow any",
                self._context.server,
            )
        elif message.method == "ping":
            transport.send_soon(encode_response(message.id, {}), {})
        else:
            self._dispatcher.on_request(transport, message, era, self._pause_clocks)

    def _receive_notification(self, transport: Transport, notice: Notification) -> None:
        method = notice.method
        if method == LOGGED:
            self._logs.handle(notice.params)
        elif method == CANCELLED:
            self._dispatcher.on_cancelled(transport, notice.params)
        elif method == COMPLETED:
            self._dispatcher.on_elicitation_complete(notice.params)
        elif method == PROGRESS:
            token = own_id(notice.params.get("progressToken"))
            if token in self._dispatcher.task_progress:
                self._dispatcher.task_progress[token](notice.params)
        elif self._subscriptions is not None:
            self._subscriptions.on_notification(notice)
        if self._queue is not None:
            self._pass_on(notice)

    def _pass_on(self, notice: Notification) -> None:
        """Pass a notification to the host's handler, unless another handler takes it."""
        method = notice.method
        if (
            self._queue is None
            or method == PROGRESS
            or (method == LOGGED and self._logs.has_handler)
        ):
            return
        from ..handlers.handlers import ServerNotification

        params = self._context.secrets.json(notice.params)
        self._queue.notify(ServerNotification(self._context.server, method, params))

    def _pause_clocks(self) -> Callable[[], None]:
        return (lambda: None) if self._rpc is None else self._rpc.clocks.pause()

    # ------------------------------------------------------------- which log notices

    async def set_log_level(self, live: Callable[[], Awaitable[RpcConnection]], level: str) -> None:
        """Do ``Session.set_log_level`` on the connection that ``live`` returns."""
        if level not in LOG_LEVELS:
            raise ConfigError(f"log level {level!r}: give one of {', '.join(LOG_LEVELS)}")
        rpc = await live()
        if _sets_log_level(rpc):
            await rpc.request("logging/setLevel", {"level": level}, self._context.timeouts)
        self._logs.set_min_level(level)
        rpc.ask_for_logs(level)

    async def ask_for_logs(self, rpc: RpcConnection) -> None:
        """Request log notices from a server of the handshake era, if the host set a level."""
        level = self._logs.min_level
        if level is None or not _sets_log_level(rpc):
            return
        timeouts = self._context.timeouts.for_connecting()
        try:
            await rpc.request("logging/setLevel", {"level": level}, timeouts)
        except McpError as error:
            _log.warning("%s: cannot set the log level: %s", self._context.server, error)


def _sets_log_level(rpc: RpcConnection) -> bool:
    return rpc.era.server_may_ask and "logging" in rpc.era.server.capabilities
