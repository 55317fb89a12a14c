"""Merge two schemas into one, and note how a schema was changed for a model.

Every change is noted with its place and its effect on the set of accepted values (``Notes``). A
keyword that the provider refuses is added to the description, where the model reads it.

The result of both functions accepts at least the intended values: ``both`` those valid for the two
schemas, ``either`` those valid for any. Constraints that one schema cannot express are omitted, and
their keywords are listed in ``lost``.

``object_root`` does this for the root of a schema for arguments, which is always an object without
alternatives: OpenAI and Anthropic refuse ``anyOf``, ``oneOf`` and ``allOf`` there, and OpenAI
``enum`` and ``not`` as well. Their constraints are merged into the members if possible, and
described otherwise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

from ..protocol.json_paths import pointer
from ..runtime.safe_text import safe_text

__all__ = [
    "ANNOTATIONS",
    "NAMED",
    "ONE",
    "SEVERAL",
    "Effect",
    "Notes",
    "Path",
    "both",
    "described",
    "either",
    "identity_of",
    "is_never",
    "is_of",
    "object_root",
    "type_of_value",
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
_MAX_ROOT_CHARS = 2_000
"""Characters of a keyword's value in a description."""
_LARGER = frozenset(
    {*("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), "uniqueItems"}
)
_SMALLER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_OBJECT = ("properties", "patternProperties", "additionalProperties")
_ARRAY = ("prefixItems", "items")
_GROUPS = (("if", "then", "else"), ("contains", "minContains", "maxContains"))
_ALONE = ("unevaluatedProperties", "unevaluatedItems")


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


def is_never(schema: Any) -> bool:
    """Whether ``schema`` is one that no value fits, as ``false`` is."""
    return schema is False or schema == {"not": {}}


def type_of_value(value: Any) -> str:
    """The narrowest type of a JSON value."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case None:
            return "null"
    return "array" if type(value) is list else "object"


def is_of(kind: str, types: Sequence[str]) -> bool:
    """Whether a value of the type ``kind`` is of one of ``types``."""
    return kind in types or (kind == "integer" and "number" in types)


def both(a: dict[str, Any], b: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return a schema for values valid for ``a`` and ``b``, with the annotations of ``a``."""
    if not a or not b:
        return dict(b or a)
    out = {keyword: value for keyword, value in a.items() if keyword not in _ALONE}
    lost += [keyword for keyword in _ALONE if keyword in a or keyword in b]
    _both_objects(out, a, b, lost)
    _both_arrays(out, a, b, lost)
    for group in _GROUPS:
        if group[0] in b:
            if group[0] in a:
                lost.append(group[0])
            else:
                out |= {keyword: b[keyword] for keyword in group if keyword in b}
    done = {*_OBJECT, *_ARRAY, *_ALONE, *_GROUPS[0], *_GROUPS[1]}
    for keyword, value in b.items():
        if keyword in done:
            continue
        if keyword not in out:
            out[keyword] = value
        elif identity_of(out[keyword]) != identity_of(value):
            _both_of(out, keyword, value, lost)
    return out


def _both_of(out: dict[str, Any], keyword: str, value: Any, lost: list[str]) -> None:
    """Merge one keyword that both schemas have, with values that differ."""
    own = out[keyword]
    if keyword in _LARGER:
        out[keyword] = max(own, value)
    elif keyword in _SMALLER:
        out[keyword] = min(own, value)
    elif keyword == "required":
        out[keyword] = list(dict.fromkeys([*own, *value]))
    elif keyword == "allOf":
        out[keyword] = [*own, *value]
    elif keyword == "type":
        found = _common_types(types_of({"type": own}), types_of({"type": value}))
        if found:
            out[keyword] = found[0] if len(found) == 1 else found
        else:
            lost.append(keyword)
    elif keyword == "enum":
        others = set(map(identity_of, value))
        found = [item for item in own if identity_of(item) in others]
        if found:
            out[keyword] = found
        else:
            lost.append(keyword)
    elif keyword == "description":
        if value not in own:
            out[keyword] = f"{own}\n{value}"
    elif keyword not in ANNOTATIONS:
        lost.append(keyword)


def _both_objects(
    out: dict[str, Any], a: dict[str, Any], b: dict[str, Any], lost: list[str]
) -> None:
    for keyword in ("properties", "patternProperties"):
        if keyword in b:
            merged = dict(a.get(keyword, ()))
            for name, schema in b[keyword].items():
                merged[name] = both(merged[name], schema, lost) if name in merged else schema
            out[keyword] = merged
    if "additionalProperties" in b:
        # Of names that only one of the two declares, the other's is not asked: more is accepted.
        more, own = b["additionalProperties"], a.get("additionalProperties", True)
        if own is True or own == {}:
            out["additionalProperties"] = more
        elif more is not True and more != {} and own is not False:
            out["additionalProperties"] = False if more is False else both(own, more, lost)
    names = [set(side.get("properties", ())) for side in (a, b)]
    closed = [side.get("additionalProperties", True) not in (True, {}) for side in (a, b)]
    if (closed[0] and names[1] - names[0]) or (closed[1] and names[0] - names[1]):
        lost.append("additionalProperties")


def _both_arrays(
    out: dict[str, Any], a: dict[str, Any], b: dict[str, Any], lost: list[str]
) -> None:
    if not any(keyword in b for keyword in _ARRAY):
        return
    if not any(keyword in a for keyword in _ARRAY):
        out |= {keyword: b[keyword] for keyword in _ARRAY if keyword in b}
    elif "prefixItems" not in a and "prefixItems" not in b:
        out["items"] = both(a["items"], b["items"], lost)
    elif any(a.get(keyword) != b.get(keyword) for keyword in _ARRAY):
        lost.append("items")


def _common_types(a: Sequence[str], b: Sequence[str]) -> list[str]:
    found = [name for name in a if name in b]
    for one, other in ((a, b), (b, a)):
        if "integer" in one and "number" in other and "integer" not in found:
            found.append("integer")
    return found


def either(options: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a schema for objects that fit one of ``options``, with the members of all."""
    options = [one for one in options if _may_be_object(one)]
    if not options or any(not one for one in options):
        return {}
    properties = {name: _united(found) for name, found in _members(options).items()}
    properties = {name: found for name, found in properties.items() if found is not None}
    out: dict[str, Any] = {"properties": properties} if properties else {}
    first = options[0].get("required", ())
    always = [set(one.get("required", ())) for one in options]
    required = [name for name in first if all(name in one for one in always)]
    if required:
        out["required"] = required
    if all(_is_closed(one) for one in options):
        out["additionalProperties"] = False
    return out


def _members(options: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return what ``options`` declare of each member; with None if any value is right in one."""
    found: dict[str, list[Any]] = {}
    in_open: Counter[str] = Counter()
    for one in options:
        declared = one.get("properties", {})
        for name, schema in declared.items():
            found.setdefault(name, []).append(schema or None)
        if not _is_closed(one):
            in_open.update(declared.keys())
    all_open = sum(not _is_closed(one) for one in options)
    for name, schemas in found.items():
        if in_open[name] < all_open:
            schemas.append(None)
    return found


def _united(schemas: Sequence[Any]) -> Any:
    """Return a schema for what fits one of ``schemas``; None if no value does."""
    different: dict[tuple[str, Any], Any] = {}
    for one in schemas:
        if one is not None and not is_never(one):
            different.setdefault(identity_of(one), one)
    found = list(different.values())
    if None in schemas:
        description = next((one["description"] for one in found if "description" in one), None)
        return {} if description is None else {"description": description}
    if len(found) < 2:
        return found[0] if found else None
    return {"anyOf": found}


def _is_closed(option: dict[str, Any]) -> bool:
    return option.get("additionalProperties") is False and "patternProperties" not in option


def _may_be_object(option: dict[str, Any]) -> bool:
    types = types_of(option)
    return not is_never(option) and (not types or "object" in types)


def identity_of(value: Any) -> tuple[str, Any]:
    """Return an object that is equal for values that are equal as JSON, and can be hashed."""
    if type(value) in (int, float):
        return "number", value
    text = json.dumps(value, sort_keys=True) if type(value) in (dict, list) else value
    return type(value).__name__, text


def object_root(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """Return ``schema``, inlined, in a form whose root is only an object."""
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
            lost += [alone for alone in _ALONE if out.pop(alone, None) is not None]
            notes.add(f"'{keyword}' becomes members of its own", (), Effect.ACCEPTS_MORE)
            united = either([_plain_root(option) for option in options])
            out = described(both(out, united, lost), {keyword: options}, _MAX_ROOT_CHARS)
    for keyword in ("not", "enum", "const"):
        if keyword in out:
            notes.add(f"'{keyword}' is moved to the description", (), Effect.ACCEPTS_MORE)
            out = described(out, {keyword: out.pop(keyword)})
    notes.not_merged(lost, ())
    if out.get("type") != "object":
        notes.add("'type' is set to 'object'", ())
        out.pop("type", None)
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
