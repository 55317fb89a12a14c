"""The hook for ``Host.from_config(confirm=...)`` that asks the person at the terminal."""

from __future__ import annotations

from ..approval.decision import Allow
from ..approval.start_request import StartRequest
from ..approval.terminal import ask_on_terminal
from ..errors import StartDenied

__all__ = ["confirm_on_terminal"]


async def confirm_on_terminal(request: StartRequest) -> bool:
    """``ask_on_terminal``, as a yes or no."""
    answer = await ask_on_terminal(request)
    if isinstance(answer, Allow):
        return True
    if answer.source != "gate":
        return False
    raise StartDenied(
        f"the server was not started: {answer.reason}",
        server=request.server,
        reason=answer.reason,
        source="gate",
    )
