"""Whether the host trusts what a server says of its tools."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ConfigError
from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from .tool import Tool

__all__ = ["Trust", "trust_of", "trusts"]

_log = logging.getLogger("mcp_client")

Trust: TypeAlias = bool | Callable[["Tool"], bool]
"""The host's word that annotations may be believed: of a server, or tool by tool."""


def trust_of(value: Any) -> Trust:
    """What ``connect(trusted=...)`` was given. Raises ``ConfigError`` for anything else."""
    if inspect.iscoroutinefunction(value) or not (isinstance(value, bool) or callable(value)):
        raise ConfigError(
            f"trusted={value!r}: give True, False, or a function (not async) from a Tool to one"
        )
    trust: Trust = value
    return trust


def trusts(trust: Trust, tool: Tool) -> bool:
    """Whether the host trusts what its server says of ``tool``.

    A function is shown the tool as an untrusted one. Whatever it answers but True means no, and so
    does an exception.
    """
    if isinstance(trust, bool):
        return trust
    try:
        answer: Any = trust(tool)
    except Exception as error:  # noqa: BLE001 - if the host's function fails, the answer is no
        kind = type(error).__name__
    else:
        if isinstance(answer, bool):
            return answer
        kind = type(answer).__name__
        if inspect.iscoroutine(answer):
            answer.close()
    name = safe_text(tool.name, 128)
    _log.warning("%s/%s is not trusted: trusted=... gave %s, no bool", tool.server, name, kind)
    return False
