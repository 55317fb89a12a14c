"""What may be believed of a tool's annotations.

2026-07-28 ``server/tools``: clients MUST consider annotations untrusted unless they come from
trusted servers. The defaults are those of ``ToolAnnotations`` in the schema, the worst case.
"""

from __future__ import annotations

from .tool import Hints, Tool

__all__ = ["hints_of"]

_WIRE = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_WORST = Hints()


def hints_of(tool: Tool) -> Hints:
    """The hints of ``tool``: the server's word where the host trusts it, else the worst case.

    Only JSON ``true`` and ``false`` are hints. A tool that is said to be read-only and destructive
    contradicts itself, and counts as the worst case.
    """
    annotations = tool.annotations
    if annotations is None:
        return _WORST
    said = {
        hint: annotations[name]
        for hint, name in _WIRE.items()
        if type(annotations.get(name)) is bool
    }
    if said.get("read_only") and said.get("destructive"):
        return _WORST
    if said.get("read_only"):
        return Hints(**{"destructive": False, **said}, said=frozenset(said))
    return Hints(**said, said=frozenset(said))
