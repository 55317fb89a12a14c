"""The root of a schema for arguments: always an object, without alternatives.

OpenAI and Anthropic refuse ``anyOf``, ``oneOf`` and ``allOf`` at the root, and OpenAI ``enum`` and
``not`` as well. What these say is merged into the members as far as that can be written there, and
described where it cannot.
"""

from __future__ import annotations

import json
from typing import Any

from .schema_merging import both, either, types_of
from .schema_notes import Effect, Notes

__all__ = ["described", "object_root"]

_LONGEST = 400
_LONGEST_ROOT = 2_000


def object_root(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """``schema``, inlined, in a form whose root is that of an object and nothing else."""
    out = dict(schema)
    lost: list[str] = []
    while "allOf" in out:
        parts = out.pop("allOf")
        notes.add("'allOf' is merged into the members", ())
        for part in parts:
            if "object" in (types_of(part) or ("object",)):
                out = both(out, {**part, "type": "object"}, lost)
    for keyword in ("anyOf", "oneOf"):
        if keyword in out:
            options = out.pop(keyword)
            notes.add(f"'{keyword}' becomes members of its own", (), Effect.ACCEPTS_MORE)
            united = either([_plain_root(option) for option in options])
            out = described(both(out, united, lost), {keyword: options}, _LONGEST_ROOT)
    for keyword in ("not", "enum", "const"):
        if keyword in out:
            notes.add(f"'{keyword}' is moved to the description", (), Effect.ACCEPTS_MORE)
            out = described(out, {keyword: out.pop(keyword)})
    for keyword in dict.fromkeys(lost):
        notes.add(f"'{keyword}' is not kept where schemas are merged", (), Effect.ACCEPTS_MORE)
    if lost:
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            out.pop(keyword, None)
    if out.get("type") != "object":
        if "type" in out:
            notes.add("'type' is set to 'object'", ())
            out["type"] = "object"
        out = {"type": "object", **out}
    return out


def _plain_root(option: dict[str, Any]) -> dict[str, Any]:
    """An alternative whose own alternatives are merged, too."""
    lost: list[str] = []
    out = dict(option)
    for part in out.pop("allOf", ()):
        out = both(out, part, lost)
    for keyword in ("anyOf", "oneOf"):
        if keyword in out:
            out = both(out, either(out.pop(keyword)), lost)
    return out


def described(
    schema: dict[str, Any], keywords: dict[str, Any], limit: int = _LONGEST
) -> dict[str, Any]:
    """``schema`` with ``keywords`` as a part of its description."""
    parts = []
    for keyword, value in keywords.items():
        text = json.dumps(value, ensure_ascii=False)
        parts.append(f"{keyword}: {text if len(text) <= limit else text[:limit] + '…'}")
    said, added = schema.get("description"), f"({'; '.join(parts)})"
    return {**schema, "description": f"{said} {added}" if said else added}
