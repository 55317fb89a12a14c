"""Messages that a server sends on its own, and their receivers, on any connection of a session.

*Log notifications* are passed to the host's handler, and to a logger of their own (2025-11-25 and
2026-07-28 ``server/utilities/logging``). The logger is ``mcp_client.server.<name>`` with the host's
name for the server. "notice" is between info and warning. Levels above critical are logged as
critical, and a level that the specification does not define as info. Texts pass ``safe_text``, and
the server's secrets are masked in them. Lines above ``Limits.log_lines`` within a second are
dropped and counted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.subscriptions import Subscriptions
from ..connection.rpc import RpcConnection
from ..errors import ConfigError, McpError
from ..handlers.dispatcher import Dispatcher
from ..protocol.era import CANCELLED, COMPLETED, LOG_LEVELS, LOGGED, PROGRESS
from ..protocol.jsonrpc import Notification, Request, dump, encode_response, own_id
from ..runtime.callbacks import CallbackQueue
from ..runtime.event_loop import current
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..handlers.handlers import Handlers

__all__ = ["ServerLog", "ServerMessages"]

_log = logging.getLogger("mcp_client")
_LEVELS = dict(zip(LOG_LEVELS, (10, 20, 25, 30, 40, 50, 50, 50), strict=True))
_DEFAULT_LEVEL = "info"
_MAX_TEXT_CHARS = 2_000
_MAX_LEVEL_CHARS = 40


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


# ------------------------------------------------------------------ log notifications


class ServerLog:
    """The receiver of the log notifications of one session's server."""

    def __init__(self, handlers: Handlers | None, context: SessionContext) -> None:
        self._handler = None if handlers is None else handlers.log
        self._min_level = None if handlers is None else handlers.log_level
        self._server = context.server
        self._limits = context.limits
        self._stats = context.stats
        self._secrets = context.secrets
        self._logger = logging.getLogger(f"mcp_client.server.{context.server}")
        self._queue: CallbackQueue | None = None
        self._second, self._lines = -math.inf, 0

    @property
    def has_handler(self) -> bool:
        """Whether the host has a handler for log notifications."""
        return self._handler is not None

    @property
    def min_level(self) -> str | None:
        """The lowest level, if the host set one. Lines below it are dropped by the client, too."""
        return self._min_level

    @property
    def request_level(self) -> str | None:
        """The level for each request of the stateless era."""
        return self._min_level or (None if self._handler is None else "info")

    def set_min_level(self, level: str) -> None:
        """Set the lowest level."""
        self._min_level = level

    def start(self) -> None:
        """Start in the current event loop."""
        backend = current()
        self._now = backend.now
        if self._handler is not None:
            self._queue = CallbackQueue(
                self._handler,
                "the log handler",
                self._server,
                backend=backend,
                most=self._limits.notices,
                stats=self._stats,
            )

    def handle(self, params: Mapping[str, Any]) -> None:
        """Handle one notification. Malformed ones are dropped and counted."""
        level, logger, data = params.get("level"), params.get("logger"), params.get("data")
        if not isinstance(level, str) or not isinstance(logger, str | None):
            self._stats.dropped_notices += 1
            return
        # "warn" or "trace" is shown as it is, at info.
        counts_as = level if level in _LEVELS else _DEFAULT_LEVEL
        if counts_as != level:
            level = safe_text(level, _MAX_LEVEL_CHARS)
            self._stats.accept(self._server, "a log notification has a level of its own")
        lowest, number = self._min_level, _LEVELS[counts_as]
        if lowest is not None and LOG_LEVELS.index(counts_as) < LOG_LEVELS.index(lowest):
            return
        if not self._logger.isEnabledFor(number) and self._queue is None:
            return
        if self._too_many():
            self._stats.dropped_notices += 1
            return
        from ..handlers.handlers import LogMessage

        logger, data = self._secrets.json(logger), self._secrets.json(data)

        message = LogMessage(self._server, level, logger, data, _line(data))
        prefix = "" if counts_as == level else f"[{level}] "
        prefix += "" if logger is None else safe_text(logger, 80) + ": "
        self._logger.log(number, "%s%s", prefix, message.text)
        if self._queue is not None:
            self._queue.notify(message)

    async def aclose(self, within: float) -> None:
        """Wait for the handler, at most ``within`` seconds."""
        if self._queue is not None:
            await self._queue.aclose(within)

    def _too_many(self) -> bool:
        now = self._now()
        if now - self._second >= 1.0:
            self._second, self._lines = now, 0
        self._lines += 1
        return self._lines > self._limits.log_lines


def _line(data: Any) -> str:
    if isinstance(data, str):
        return safe_text(data, _MAX_TEXT_CHARS)
    try:
        return safe_text(dump(data), _MAX_TEXT_CHARS)
    except (ValueError, RecursionError):
        return f"[{type(data).__name__}]"
