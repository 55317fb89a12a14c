"""What may be believed of a tool's annotations.

2026-07-28 ``server/tools``: clients MUST consider annotations untrusted unless they come from
trusted servers. The defaults are those of ``ToolAnnotations`` in the schema, the worst case.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import ConfigError
from ..runtime.safe_text import safe_text
from .tool import HINTS, Hints, Tool

__all__ = ["Trust", "hint_findings", "hints_of", "trust_of", "trusts"]

Trust: TypeAlias = bool | Callable[[Tool], bool]
"""The host's word that annotations may be believed: of a whole server, or tool by tool."""

_log = logging.getLogger("mcp_client")
_WIRE = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_WORST = Hints()


def trust_of(value: Any) -> Trust:
    """What ``connect(trusted=...)`` was given. Raises ``ConfigError`` for what is no trust."""
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
    except Exception as error:  # noqa: BLE001 - the host's function; what befalls it means no
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


def hints_of(tool: Tool) -> Hints:
    """The hints of ``tool``: the server's word where the host trusts it, else the worst case.

    Only JSON ``true`` and ``false`` are hints. A tool that is said to be read-only and destructive
    contradicts itself: nothing it says of itself counts.
    """
    hints: Hints | None = tool._memo.get("hints")
    if hints is None:
        hints = tool._memo["hints"] = _judged(_said(tool))
    return hints


def _judged(said: dict[str, bool]) -> Hints:
    if _contradicts(said):
        return replace(_WORST, contradicted=frozenset(said))
    if not said:
        return _WORST
    return Hints(
        read_only=said.get("read_only", False),
        destructive=said.get("destructive", not said.get("read_only")),
        idempotent=said.get("idempotent", False),
        open_world=said.get("open_world", True),
        said=frozenset(said),
    )


def hint_findings(tool: Tool) -> list[str]:
    """What is wrong with annotations that count, in sentences.

    An untrusted server's annotations must not change what happens to a call, in either direction.
    """
    annotations = tool._definition.get("annotations")
    if annotations is None or not tool.trusted:
        return []
    if type(annotations) is not dict:
        return ["its annotations are no JSON object and do not count"]
    found = [
        f"its {hint} is neither true nor false and does not count"
        for hint in HINTS
        if hint in annotations and type(annotations[hint]) is not bool
    ]
    if _contradicts(_said(tool)):
        found.append(
            "its annotations say that it only reads and that it destroys: none of them counts"
        )
    return found


def _said(tool: Tool) -> dict[str, bool]:
    annotations = tool._definition.get("annotations") if tool.trusted else None
    if type(annotations) is not dict:
        return {}
    return {
        hint: annotations[name]
        for hint, name in _WIRE.items()
        if type(annotations.get(name)) is bool
    }


def _contradicts(said: dict[str, bool]) -> bool:
    return bool(said.get("read_only") and said.get("destructive"))
