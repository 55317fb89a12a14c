"""The log lines a server sends: to the host's handler, and to the logger of that server.

2025-11-25 and 2026-07-28 ``server/utilities/logging``. The logger is ``mcp_client.server.<name>``
with the name the host gave; "notice" is between info and warning, and what is worse than critical
is logged as critical. Texts pass ``safe_text``; of more than ``Limits.log_lines`` within a second
the rest is dropped and counted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.jsonrpc import dump
from ..protocol.notifications import LOG_LEVELS
from ..runtime.callbacks import CallbackQueue
from ..runtime.event_loop import current
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..runtime.stats import Stats

if TYPE_CHECKING:
    from .handlers import LogHandler

__all__ = ["ServerLog"]

_PYTHONS = dict(zip(LOG_LEVELS, (10, 20, 25, 30, 40, 50, 50, 50), strict=True))
_LONGEST = 2_000


class ServerLog:
    """Takes the log notices of one session."""

    def __init__(
        self, handler: LogHandler | None, server: str, limits: Limits, stats: Stats
    ) -> None:
        self._handler = handler
        self._server = server
        self._limits = limits
        self._stats = stats
        self._logger = logging.getLogger(f"mcp_client.server.{server}")
        self._teller: CallbackQueue | None = None
        self._second, self._lines = -math.inf, 0
        self.least: str | None = None
        """The least level wanted; what is below it is dropped, for not every server heeds it."""

    def start(self) -> None:
        """Called in the event loop the session is to live in."""
        backend = current()
        self._now = backend.now
        if self._handler is not None:
            most = self._limits.notices
            self._teller = CallbackQueue(
                self._handler, "the log handler", self._server, backend, most, self._stats
            )

    def take(self, params: Mapping[str, Any]) -> None:
        level, logger, data = params.get("level"), params.get("logger"), params.get("data")
        if (
            not isinstance(level, str)
            or level not in _PYTHONS
            or not isinstance(logger, str | None)
        ):
            self._stats.dropped_notices += 1
            return
        if self.least is not None and LOG_LEVELS.index(level) < LOG_LEVELS.index(self.least):
            return
        if not self._logger.isEnabledFor(_PYTHONS[level]) and self._teller is None:
            return
        if self._too_many():
            self._stats.dropped_notices += 1
            return
        from .handlers import LogMessage

        message = LogMessage(self._server, level, logger, data, _line(data))
        named = "" if logger is None else safe_text(logger, 80) + ": "
        self._logger.log(_PYTHONS[level], "%s%s", named, message.text)
        if self._teller is not None:
            self._teller.tell(message)

    async def aclose(self, within: float) -> None:
        if self._teller is not None:
            await self._teller.aclose(within)

    def _too_many(self) -> bool:
        now = self._now()
        if now - self._second >= 1.0:
            self._second, self._lines = now, 0
        self._lines += 1
        return self._lines > self._limits.log_lines


def _line(data: Any) -> str:
    if isinstance(data, str):
        return safe_text(data, _LONGEST)
    try:
        return safe_text(dump(data), _LONGEST)
    except (ValueError, RecursionError):
        return f"[{type(data).__name__}]"
