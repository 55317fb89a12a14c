"""The notes on how a schema was changed for a model, and the keywords that all steps share.

Every change is noted with its place and its effect on the set of accepted values (``Notes``). A
keyword that the provider refuses is added to the description, where the model reads it.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, TypeAlias

from ..protocol.json_pointer import pointer
from ..runtime.safe_text import safe_text

__all__ = [
    "ANNOTATIONS",
    "NAMED",
    "ONE",
    "SEVERAL",
    "Effect",
    "Notes",
    "Path",
    "described",
    "types_of",
]

Path: TypeAlias = tuple[str, ...]
"""Steps from the root of the schema: keywords, names of properties, and indices."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
ONE = frozenset(
    {
        *("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames"),
        *("then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"dependentSchemas", "patternProperties", "properties"})
_MAX_PATHS = 4
_MAX_PATH_CHARS = 120
_MAX_DESCRIBED_CHARS = 400


class Effect(Enum):
    """The effect of a change on the set of accepted values."""

    NONE = ""
    ACCEPTS_MORE = "; the model's schema accepts more than the tool's"
    REFUSES_MORE = "; the model's schema refuses more than the tool's"


class Notes:
    """The changes to one schema. ``widened`` counts those after which more is accepted."""

    __slots__ = ("_found", "_places", "widened")

    def __init__(self) -> None:
        self._found: dict[tuple[str, Effect], list[Path]] = {}
        self._places: set[Path] = set()
        self.widened: int = 0

    def add(self, what: str, path: Path, effect: Effect = Effect.NONE) -> None:
        """Add ``what``, a clause such as "'pattern' is moved to the description"."""
        if effect is Effect.ACCEPTS_MORE:
            self.widened += 1
        self._places.add(path)
        self._found.setdefault((what, effect), []).append(path)

    def compare(self, before: dict[str, Any], after: dict[str, Any], path: Path) -> None:
        """See that there is a note where ``before`` became ``after``; schemas in it have theirs."""
        if path not in self._places and _without_schemas(before) != _without_schemas(after):
            self.add("it is written another way", path)

    def not_merged(self, keywords: list[str], path: Path) -> None:
        """Note that ``keywords`` were lost when schemas were merged."""
        for keyword in dict.fromkeys(keywords):
            what = f"'{keyword}' is lost where schemas are merged"
            self.add(what, path, Effect.ACCEPTS_MORE)

    def sentences(self) -> tuple[str, ...]:
        """One for each kind of change, with the places where it was made; safe to show."""
        return tuple(
            f"{safe_text(what, 400)}{_where(paths)}{effect.value}"
            for (what, effect), paths in self._found.items()
        )


def _without_schemas(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` without ``required``, its subschemas reduced to names or numbers."""
    found = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    for keyword in schema.keys() & (ONE | SEVERAL | NAMED):
        inner = schema[keyword]
        if keyword in ONE:
            found[keyword] = type(inner) is bool and inner
        else:
            found[keyword] = list(inner) if type(inner) is dict else len(inner)
    return found


def _where(paths: list[Path]) -> str:
    unique = list(dict.fromkeys(paths))
    if unique == [()]:
        return ""
    places_text = ", ".join(
        safe_text(pointer(path), _MAX_PATH_CHARS) or "the root" for path in unique[:_MAX_PATHS]
    )
    left = len(unique) - _MAX_PATHS
    return f" at {places_text} and {left} more places" if left > 0 else f" at {places_text}"


def types_of(schema: dict[str, Any]) -> tuple[str, ...]:
    """The types that ``schema`` names; empty where it names none."""
    found = schema.get("type")
    return () if found is None else (found,) if type(found) is str else tuple(found)


def described(
    schema: dict[str, Any], keywords: dict[str, Any], limit: int = _MAX_DESCRIBED_CHARS
) -> dict[str, Any]:
    """Return ``schema`` with ``keywords`` as a part of its description."""
    parts = []
    for keyword, value in keywords.items():
        text = json.dumps(value, ensure_ascii=False)
        parts.append(f"{keyword}: {text if len(text) <= limit else text[:limit] + '…'}")
    description, added = schema.get("description"), f"({'; '.join(parts)})"
    return {**schema, "description": f"{description} {added}" if description else added}
