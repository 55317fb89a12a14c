"""The checks of a server's request before a handler gets it: the limits, and the gate.

The gate is that of ``Handlers(sampling_approval=...)``, for uses of the host's model. 2025-11-25
``client/elicitation`` and ``client/sampling`` require rate limits. There are two:
``Limits.questions_per_minute`` for the session, and ``Limits.questions_per_call``, which also
limits a tool that keeps using a model.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..approval.decision import Answer, allow_all
from ..approval.gate import Gate
from ..errors import McpError
from ..runtime.limits import Limits, RateLimit

if TYPE_CHECKING:
    from ..approval.remembered import ApprovalMemory
    from ..approval.sampling_request import SamplingRequest
    from ..approval.tool_call import ToolCall
    from ..audit.record import SessionAudit
    from .handlers import Handlers

__all__ = ["LIMIT_EXCEEDED", "QuestionLimits", "SamplingGate"]

_log = logging.getLogger("mcp_client")
LIMIT_EXCEEDED = -32000


class QuestionLimits:
    """The counters of one session's requests; ``calls`` has the tool calls under way by id."""

    def __init__(self, limits: Limits, calls: Mapping[str, ToolCall]) -> None:
        self._limits = limits
        self._calls = calls
        self._counts: dict[str, int] = {}
        self._rate = RateLimit(limits.questions_per_minute)

    @property
    def only_call(self) -> ToolCall | None:
        """Return the call that a request of the handshake era belongs to, or None.

        The request does not name its call, which is known only if exactly one is under way.
        """
        return next(iter(self._calls.values())) if len(self._calls) == 1 else None

    def count(self, number: int, now: Callable[[], float], call: ToolCall | None = None) -> None:
        """Count ``number`` requests for ``call``, or for any call that is under way.

        Raises ``RequestRefused`` if there are too many in the last minute, or for that call. A
        request that may belong to several calls is refused only if all of them have too many.
        """
        from .wire_format import RequestRefused

        limits, rate, time = self._limits, self._rate, now()
        if not rate.allows(time, number):
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {limits.questions_per_minute} requests within a minute "
                "(Limits.questions_per_minute)",
            )
        counts = {id: self._counts.get(id, 0) for id in self._calls}
        about = list(counts) if call is None else [call.id] if call.id in counts else []
        most = limits.questions_per_call
        if about and all(counts[id] + number > most for id in about):
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {most} requests during one call (Limits.questions_per_call)",
            )
        rate.count(time, number)
        for id in about:
            counts[id] += number
        self._counts = counts


class SamplingGate:
    """The gate for uses of the host's model by the server of one session."""

    def __init__(
        self, handlers: Handlers, seconds: float, memory: ApprovalMemory, audit: SessionAudit | None
    ) -> None:
        """``memory`` and ``audit`` are the session's. Without a hook, the handler decides."""
        hook = handlers.sampling_approval
        self._gate = Gate(allow_all if hook is None else hook, seconds, _ask_on_terminal, memory)
        self._memory = memory
        self._audit = audit

    async def approve(self, request: SamplingRequest) -> None:
        """Raise ``RequestRefused`` unless the use is approved; the server gets no reason."""
        from .wire_format import REJECTED, RequestRefused

        try:
            identified = dataclasses.replace(request, _identity=self._memory.identity)
            if self._audit is None:
                await self._gate.decide(identified)
            else:
                await self._audit.decide(self._gate, identified)
        except McpError as error:
            _log.warning("%s", error)
            raise RequestRefused(REJECTED, "User rejected sampling request") from error

    def close(self) -> None:
        """Refuse the waiting requests, and every later one."""
        self._gate.close()


async def _ask_on_terminal(request: SamplingRequest) -> Answer:
    from ..approval.terminal import ask_on_terminal

    return await ask_on_terminal(request)
