"""The host's trust in the annotations of a server."""

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
    """Return the checked option ``connect(trusted=...)``. Raises ``ConfigError`` if invalid."""
    if inspect.iscoroutinefunction(value) or not (isinstance(value, bool) or callable(value)):
        raise ConfigError(
            f"trusted={value!r}: give True, False, or a function (not async) from a Tool to one"
        )
    trust: Trust = value
    return trust


def trusts(trust: Trust, tool: Tool) -> bool:
    """Return whether the host trusts the annotations of ``tool``.

    A function gets the tool as an untrusted one. Only its return value True grants trust; an
    exception does not.
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
    text = "%s/%s is not trusted: trusted=... returned %s, not a bool"
    _log.warning(text, tool.server, name, kind)
    return False
