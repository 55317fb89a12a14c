"""The log notifications of a server: passed to the host's handler, and to a logger of their own.

2025-11-25 and 2026-07-28 ``server/utilities/logging``. The logger is ``mcp_client.server.<name>``
with the host's name for the server. "notice" is between info and warning. Levels above critical are
logged as critical, and a level that the specification does not define as info. Texts pass
``safe_text``, and the server's secrets are masked in them. Lines above ``Limits.log_lines`` within
a second are dropped and counted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.era import LOG_LEVELS
from ..protocol.jsonrpc import dump
from ..runtime.callbacks import CallbackQueue
from ..runtime.event_loop import current
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext

if TYPE_CHECKING:
    from .handlers import Handlers

__all__ = ["ServerLog"]

_LEVELS = dict(zip(LOG_LEVELS, (10, 20, 25, 30, 40, 50, 50, 50), strict=True))
_DEFAULT_LEVEL = "info"
_MAX_TEXT_CHARS = 2_000
_MAX_LEVEL_CHARS = 40


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
        from .handlers import LogMessage

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
