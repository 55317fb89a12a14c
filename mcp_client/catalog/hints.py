"""What a tool's annotations say it does, and what of that counts.

2026-07-28 ``server/tools``: clients MUST consider annotations untrusted unless they come from
trusted servers. The defaults are those of ``ToolAnnotations`` in the schema, the worst case.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass
from .finding import Finding

__all__ = ["HINTS", "WORST", "HintSource", "Hints", "hint_findings", "hints_from"]

HintSource: TypeAlias = Literal["server", "assumed", "contradiction"]

_WIRE = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
HINTS = tuple(_WIRE.values())


@frozen_dataclass
class Hints:
    """What a tool is said to do, as policies and people may rely on it.

    Only ``true`` or ``false`` from a trusted server counts; what is missing is the worst case.
    ``said`` names the hints that the server gave; the others are assumed. ``contradicted`` names
    those it gave and that do not count, because they contradict each other.
    """

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    said: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()

    @property
    def source(self) -> dict[str, HintSource]:
        """Where each value comes from: "server" is a hint of a server that the host trusts;
        "assumed", the worst case without such a hint; "contradiction", the worst case because
        the hints contradict each other."""
        return {
            hint: "server"
            if hint in self.said
            else "contradiction"
            if hint in self.contradicted
            else "assumed"
            for hint in _WIRE
        }


WORST = Hints()
"""What is assumed where no word of a trusted server says otherwise."""


def hints_from(annotations: Any, trusted: bool) -> Hints:
    """The server's word where the host trusts it, else the worst case.

    Only JSON ``true`` and ``false`` are hints. If a tool is said to be both read-only and
    destructive, none of its hints counts.
    """
    said = _said(annotations) if trusted else {}
    if not said:
        return WORST
    if _contradicts(said):
        return replace(WORST, contradicted=frozenset(said))
    return Hints(
        read_only=said.get("read_only", False),
        destructive=said.get("destructive", not said.get("read_only")),
        idempotent=said.get("idempotent", False),
        open_world=said.get("open_world", True),
        said=frozenset(said),
    )


def hint_findings(annotations: Any, trusted: bool) -> list[Finding]:
    """What is wrong with annotations that count.

    An untrusted server's annotations must not change what happens to a call, in either direction.
    """
    if annotations is None or not trusted:
        return []
    if type(annotations) is not dict:
        text = "its annotations are not a JSON object and do not count"
        return [Finding("invalid_hints", text, "annotations")]
    found = [
        Finding("invalid_hints", f"its {hint} is neither true nor false and does not count", hint)
        for hint in HINTS
        if hint in annotations and type(annotations[hint]) is not bool
    ]
    if _contradicts(_said(annotations)):
        text = (
            "its annotations say that it is read-only and that it is destructive: none of them "
            "counts"
        )
        found.append(Finding("invalid_hints", text))
    return found


def _said(annotations: Any) -> dict[str, bool]:
    if type(annotations) is not dict:
        return {}
    return {
        hint: annotations[name]
        for hint, name in _WIRE.items()
        if type(annotations.get(name)) is bool
    }


def _contradicts(said: dict[str, bool]) -> bool:
    return bool(said.get("read_only") and said.get("destructive"))
