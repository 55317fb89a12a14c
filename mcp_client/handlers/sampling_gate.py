"""Whether a server may use the host's model: the gate of ``Handlers(sampling_approval=...)``."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from ..approval.gate import Answer, Gate, allow_all
from ..approval.memory import ApprovalMemory
from ..approval.sampling_request import SamplingRequest
from ..errors import McpError

if TYPE_CHECKING:
    from ..audit import Audit
    from .handlers import Handlers

__all__ = ["SamplingGate"]

_log = logging.getLogger("mcp_client")


class SamplingGate:
    """Decides the uses of the host's model by the server of one session."""

    def __init__(
        self, handlers: Handlers, seconds: float, memory: ApprovalMemory, audit: Audit | None
    ) -> None:
        """``memory`` and ``audit`` are the session's. Without a hook, the handler decides."""
        hook = handlers.sampling_approval
        fallback = allow_all if hook is None else _ask_on_terminal
        self._gate = Gate(hook, seconds, fallback, memory)
        self._memory = memory
        self._audit = audit

    async def approve(self, request: SamplingRequest) -> None:
        """Raises ``RequestRefused``, which tells the server no reason."""
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
        self._gate.close()


async def _ask_on_terminal(request: SamplingRequest) -> Answer:
    from ..approval.terminal import ask_on_terminal

    return await ask_on_terminal(request)
