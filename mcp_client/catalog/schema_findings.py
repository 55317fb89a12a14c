"""Findings about the schemas of a tool: what of them cannot be judged, and so is not."""

from __future__ import annotations

from ..validation.usable_schema import UsableSchema
from .finding import Finding, FindingKind

__all__ = ["schema_findings"]

_MAX_SHOWN = 4
_KINDS: dict[str, tuple[FindingKind, str]] = {
    "inputSchema": ("unchecked_arguments", "the server checks its own arguments"),
    "outputSchema": ("unchecked_result", "results are not checked against it"),
}


def schema_findings(member: str, usable: UsableSchema) -> list[Finding]:
    """Return what is to be known of one schema, which is ``member`` of a tool's definition.

    All are notes: the server could as well have sent a schema that says less.
    """
    found: list[Finding] = []
    kind, instead = _KINDS[member]
    if usable.unknown_dialect:
        text = f"its {member} is in a dialect that cannot be checked: '{usable.unknown_dialect}'"
        found.append(Finding("unknown_dialect", text, member, note=True))
    if usable.mixed:
        text = (
            f"its {member} names 2020-12 and is written as in an older dialect, by which it is "
            f"checked: {_listed(usable.mixed)}"
        )
        found.append(Finding("unknown_dialect", text, f"{member} mixed", note=True))
    if usable.skipped:
        if member == "outputSchema" and not usable.is_broken:
            instead = "the rest is checked"
        text = f"part of its {member} cannot be checked, and {instead}: {_listed(usable.skipped)}"
        found.append(Finding(kind, text, member, note=True))
    return found


def _listed(texts: tuple[str, ...]) -> str:
    more = len(texts) - _MAX_SHOWN
    return "; ".join([*texts[:_MAX_SHOWN], *([f"{more} more"] if more > 0 else [])])
