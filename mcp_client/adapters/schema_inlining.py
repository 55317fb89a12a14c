"""A tool's schema as one tree of JSON Schema 2020-12: references inlined, nothing malformed in it.

The first of three steps to the schema that a model sees (``schema_merging`` and ``schema_subset``
are the others). Every step has one invariant: the result accepts every value that the original
accepts. A keyword is therefore removed only if the schema then accepts more. If it would accept
less (inside ``not`` and ``if``, beside ``oneOf`` and ``unevaluatedProperties``), the whole
construct is removed.

Older dialects are written in the newest one: lists of ``items`` become ``prefixItems``, a boolean
``exclusiveMinimum`` becomes a number. References are followed within the schema only. One that
leads back to a schema around it is cut: its place accepts any value, or any of the same type.

Every change is noted (``Notes``). Members whose names a provider refuses are renamed
everywhere. Keywords for names by pattern would then match other members, and are removed.
A provider may refuse patterns that are not portable; these are moved to the description.

Servers are hostile: a schema of a kilobyte can refer to itself in a way that would fill the memory
when inlined. Depth and number of subschemas are limited, and what exceeds them is cut as well.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from ..protocol.json_paths import parse, resolve, walk
from ..runtime.safe_text import safe_text
from ..validation.keyword_shapes import SHAPES, TYPES
from .portable import is_portable, legal_members
from .schema_merging import (
    ANNOTATIONS,
    NAMED,
    ONE,
    SEVERAL,
    Effect,
    Notes,
    Path,
    described,
    types_of,
)

__all__ = ["EMPTY_ITEMS", "clean_data", "clean_text", "inline"]

EMPTY_ITEMS = "an empty 'items' is added"

_RESOLVED = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$ref"),
        *("$vocabulary", "additionalItems", "definitions", "id"),
    }
)
"""Keywords without a use once references are inlined."""
_DATA = ("const", "default", "enum", "examples")
_NOT_TAKEN = ("dependencies", "contentSchema")
_COUNT = re.compile("m(in|ax)[A-Z]")
_MEANINGFUL = SHAPES.keys() - ANNOTATIONS - {"format", "contentEncoding", "contentMediaType"}
_MEANINGFUL |= {"$dynamicRef", "$recursiveRef"}
"""Keywords without which a schema accepts more."""
_OLD_FLAGS = ("required", "exclusiveMinimum", "exclusiveMaximum")
"""Booleans in drafts 3 and 4."""
_OLD_DIALECTS = ("draft-03", "draft-04", "draft-06", "draft-07")
_MAX_LEVELS = 40
_MAX_SCHEMAS = 3_000
_MAX_TEXT_CHARS = 20_000
_HUGE = 10.0**300
_CUT = "a part that is nested too deep or too large is cut"


def inline(
    schema: Any,
    legal: re.Pattern[str] | None = None,
    *,
    portable: bool = False,
    complete: bool = False,
) -> tuple[dict[str, Any], dict[str, str], Notes]:
    """Return ``schema`` without references, the members' new names with their own, and the changes.

    ``{}`` accepts everything, ``{"not": {}}`` nothing. ``legal`` is the pattern for names of
    members; None for any. With ``portable`` other patterns are moved to the descriptions, and with
    ``complete`` every array has ``items``.
    """
    inliner = _Inliner(schema, {}, portable, complete)
    found = inliner.schema(schema, _Place((), (), schema))
    names = {} if legal is None else legal_members(inliner.mentioned, legal)
    if names:
        inliner = _Inliner(schema, names, portable, complete)
        found = inliner.schema(schema, _Place((), (), schema))
        for old, new in names.items():
            inliner.notes.add(f"the member '{old}' is shown as '{new}'", ())
    return found, {new: old for old, new in names.items()}, inliner.notes


def clean_text(text: str) -> str:
    """Return ``text`` as a request can carry it: UTF-8 cannot encode a lone surrogate."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > _MAX_TEXT_CHARS:
        left = len(text) - _MAX_TEXT_CHARS
        text = f"{text[:_MAX_TEXT_CHARS]} [{left} more characters are left out]"
    return text


def clean_data(value: Any, depth: int = 0) -> Any:
    """Copy a JSON value. Raises ``ValueError`` if a request cannot carry it."""
    if type(value) is dict:
        if depth > _MAX_LEVELS:
            raise ValueError("too deep")
        return {clean_text(key): clean_data(item, depth + 1) for key, item in value.items()}
    if type(value) is list:
        if depth > _MAX_LEVELS:
            raise ValueError("too deep")
        return [clean_data(item, depth + 1) for item in value]
    if type(value) is str:
        return clean_text(value)
    if type(value) is float and not math.isfinite(value):
        raise ValueError("not finite")
    if type(value) is int and abs(value) > _HUGE:
        raise ValueError("too large")
    return value


class _Place(NamedTuple):
    """The place of a schema."""

    path: Path
    around: tuple[int, ...]
    """The ids of the schemas around it."""
    base: Any
    """The schema that its references start from."""

    def below(self, *steps: str) -> _Place:
        return self._replace(path=(*self.path, *steps))


class _Inliner:
    def __init__(self, root: Any, names: dict[str, str], portable: bool, complete: bool) -> None:
        """Prepare for ``names``, the new names of members by their own."""
        self._portable, self._complete = portable, complete
        self.notes = Notes()
        self.mentioned: dict[str, None] = {}
        """The members that the schema describes, by their own names."""
        self._names = names
        self._root = root
        self._left = _MAX_SCHEMAS
        self._ids: dict[str, Any] | None = None
        dialect = root.get("$schema") if type(root) is dict else None
        self._is_old = type(dialect) is str and any(name in dialect for name in _OLD_DIALECTS)

    def schema(self, node: Any, place: _Place) -> dict[str, Any]:
        found, moved = self._read(node, place)
        if self._complete and "items" not in found and "array" in types_of(found):
            self.notes.add(EMPTY_ITEMS, place.path)
            found["items"] = {}
        return described(found, moved) if moved else found

    def _read(self, node: Any, place: _Place) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the schema, and what is moved to its description."""
        if type(node) is bool:
            self.notes.add(f"'{str(node).lower()}' is written as a schema", place.path)
            return ({} if node else {"not": {}}), {}
        if type(node) is not dict:
            self.notes.add("what is not a schema is left out", place.path, Effect.ACCEPTS_MORE)
            return {}, {}
        self._left -= 1
        if self._left < 0 or len(place.around) > _MAX_LEVELS:
            self.notes.add(_CUT, place.path, Effect.ACCEPTS_MORE)
            return {}, {}
        place = place._replace(around=(*place.around, id(node)))
        if type(node.get("$id")) is str and not node["$id"].startswith("#"):
            place = place._replace(base=node)
        notes, path, before = self.notes, place.path, self.notes.widened
        out: dict[str, Any] = {}
        widened = set()
        for keyword, value in node.items():
            if keyword in _RESOLVED:
                if keyword not in ("$ref", "additionalItems"):
                    notes.add(f"'{safe_text(keyword, 60)}' is left out", path)
            else:
                mark = notes.widened
                self._keyword(out, keyword, value, place)
                if notes.widened > mark:
                    widened.add(keyword)
        if type(node.get("items")) is list:
            self._tuple(out, node, place)
        moved = self._unportable(out, path) if self._portable else {}
        if self._names and "patternProperties" in node:
            out.pop("additionalProperties", None)
        if _bounds(out, node):
            notes.add("an exclusive bound is written as a number", path)
        if type(node.get("$ref")) is str:
            out, moved = self._referred(out, moved, node["$ref"], place)
        _not_widened(out, widened, path, notes, before)
        return out, moved

    def _unportable(self, out: dict[str, Any], path: Path) -> dict[str, Any]:
        """Take the patterns out of ``out`` that the provider refuses."""
        moved: dict[str, Any] = {}
        if "pattern" in out and not is_portable(out["pattern"]):
            moved["pattern"] = out.pop("pattern")
        named = out.get("patternProperties", {})
        refused = {name: one for name, one in named.items() if not is_portable(name)}
        if refused:
            moved["patternProperties"] = refused
            out["patternProperties"] = {k: v for k, v in named.items() if k not in refused}
            if not out["patternProperties"]:
                del out["patternProperties"]
            if "additionalProperties" in out:
                moved["additionalProperties"] = out.pop("additionalProperties")
        for keyword in moved:
            if keyword != "additionalProperties":  # which goes along with the patterns
                what = f"'{keyword}' is moved to the description"
                self.notes.add(what, path, Effect.ACCEPTS_MORE)
        return moved

    # --------------------------------------------------------------- one keyword

    def _keyword(self, out: dict[str, Any], keyword: str, value: Any, place: _Place) -> None:
        if self._names and keyword in ("patternProperties", "propertyNames"):
            what = "what speaks of names by pattern is left out"
            self.notes.add(what, place.path, Effect.ACCEPTS_MORE)
        elif keyword == "additionalProperties" and type(value) is bool:
            out[keyword] = value
        elif keyword in ONE and type(value) in (dict, bool):
            out[keyword] = self.schema(value, place.below(keyword))
        elif keyword in SEVERAL and type(value) is list and value:
            out[keyword] = self._several(value, place.below(keyword))
        elif keyword in NAMED and type(value) is dict:
            rename = clean_text if keyword == "patternProperties" else self._name
            out[keyword] = {
                rename(name): self.schema(item, place.below(keyword, name))
                for name, item in value.items()
            }
        elif keyword != "items" or type(value) is not list:  # which ``_tuple`` reads
            self._plain(out, keyword, value, place.path)

    def _several(self, schemas: list[Any], place: _Place) -> list[dict[str, Any]]:
        return [self.schema(one, place.below(str(number))) for number, one in enumerate(schemas)]

    def _tuple(self, out: dict[str, Any], node: dict[str, Any], place: _Place) -> None:
        """Lists of ``items`` with ``additionalItems``, up to 2019-09."""
        self.notes.add("a list of 'items' becomes 'prefixItems'", place.path)
        first, more = node["items"], node.get("additionalItems")
        if first:
            out["prefixItems"] = self._several(first, place.below("items"))
        if type(more) in (dict, bool):
            out["items"] = self.schema(more, place.below("additionalItems"))

    def _plain(self, out: dict[str, Any], keyword: str, value: Any, path: Path) -> None:
        """Convert a keyword that contains no schemas."""
        if keyword == "$schema" or (type(value) is bool and keyword in _OLD_FLAGS):
            if not keyword.startswith("exclusive"):  # which ``_bounds`` reads
                self.notes.add(f"'{keyword}' is left out", path)
            return
        try:
            found = self._clean(keyword, value)
        except ValueError as error:
            # Without a keyword that is malformed or unknown, a schema accepts as much or more.
            effect = Effect.ACCEPTS_MORE if keyword in _MEANINGFUL else Effect.NONE
            what = f"'{safe_text(keyword, 60)}' is left out{error}"
            self.notes.add(what, path, effect)
            return
        if keyword == "required" and not found:
            self.notes.add("an empty 'required' is left out", path)
            return
        out[keyword] = found
        if type(value) is str and len(value) > _MAX_TEXT_CHARS:
            self.notes.add(f"'{keyword}' is shortened", path)
        elif found != value:
            self.notes.add(f"'{keyword}' is written another way", path)

    def _clean(self, keyword: str, value: Any) -> Any:
        """Return a keyword's value for the model. Raises ``ValueError`` for a malformed one."""
        if keyword == "required" and _are_names(value):
            return self._names_in(value)
        if keyword == "dependentRequired" and type(value) is dict:
            if all(map(_are_names, value.values())):
                return {self._name(name): self._names_in(value[name]) for name in value}
        elif keyword in _DATA:
            if (type(value) is list and value) or keyword in ("const", "default"):
                try:
                    return clean_data(value)
                except ValueError as error:
                    raise ValueError(f" ({error})") from None
        elif keyword == "type":
            return _types(value)
        elif keyword not in _NOT_TAKEN and keyword in SHAPES and SHAPES[keyword].check(value):
            if type(value) is str:
                return clean_text(value)
            if type(value) is bool or abs(value) < _HUGE:
                return int(value) if _COUNT.match(keyword) else value
        raise ValueError

    def _names_in(self, names: list[str]) -> list[str]:
        return list(dict.fromkeys(map(self._name, names)))

    def _name(self, name: str) -> str:
        """The name of a member that a model is shown."""
        name = clean_text(name)
        self.mentioned[name] = None
        return self._names.get(name, name)

    # ------------------------------------------------------------------ references

    def _referred(
        self, own: dict[str, Any], moved: dict[str, Any], ref: str, place: _Place
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the target of ``ref`` together with the members beside the reference."""
        if self._is_old:  # up to draft 7 nothing beside a reference counts
            own, moved = {k: v for k, v in own.items() if k in ANNOTATIONS}, {}
        quoted_ref, path = f"'$ref' to '{safe_text(ref, 80)}'", place.path
        try:
            target, base = self._target(ref, place.base)
        except (LookupError, ValueError):
            self.notes.add(f"{quoted_ref} leads nowhere and is left out", path, Effect.ACCEPTS_MORE)
            return own, moved
        if id(target) in place.around:
            self.notes.add(f"{quoted_ref} is recursive and is cut", path, Effect.ACCEPTS_MORE)
            return self._cut(own, target, ref), moved
        self.notes.add(f"{quoted_ref} is inlined", path)
        found, inner = self._read(target, place._replace(base=base))
        if all(keyword in ANNOTATIONS for keyword in own):
            return {**found, **own}, {**inner, **moved}
        found = described(found, inner) if inner else found
        return {**own, "allOf": [found, *own.get("allOf", ())]}, moved

    def _cut(self, own: dict[str, Any], target: Any, ref: str) -> dict[str, Any]:
        found = dict(own)
        with suppress(ValueError, AttributeError):
            found.setdefault("type", _types(target.get("type")))
        name = clean_text(ref.rpartition("/")[2].lstrip("#"))
        as_what = f"of the same form as {name}" if name else "of the same form as the whole"
        description = found.get("description")
        found["description"] = f"{description} ({as_what})" if description else as_what
        return found

    def _target(self, ref: str, base: Any) -> tuple[Any, Any]:
        """Raises ``LookupError`` or ``ValueError`` where ``ref`` leads nowhere."""
        address, _, fragment = ref.partition("#")
        if address:
            if self._ids is None:
                self._ids = _identified(self._root)
            own = base.get("$id") if type(base) is dict else None
            joined = urljoin(own, address) if type(own) is str else address
            base = self._ids[address] if address in self._ids else self._ids[joined]
        if not fragment:
            return base, base
        fragment = unquote(fragment)
        if fragment.startswith("/"):
            return resolve(base, parse(fragment)), base
        for part, _, _, _, _ in walk(base):
            if type(part) is dict and fragment in (part.get("$anchor"), part.get("$dynamicAnchor")):
                return part, base
            if type(part) is dict and f"#{fragment}" in (part.get("$id"), part.get("id")):
                return part, base
        raise LookupError(ref)


def _not_widened(
    out: dict[str, Any], widened: set[str], path: Path, notes: Notes, before: int
) -> None:
    """Remove keywords that accept less if a part of them accepts more, as ``widened`` do.

    ``before`` is the earlier ``notes.widened``.
    """

    def leave_out(*keywords: str, effect: Effect = Effect.ACCEPTS_MORE) -> None:
        for keyword in keywords:
            if out.pop(keyword, None) is not None:
                notes.add(f"'{keyword}' is left out", path, effect)

    leave_out(*[keyword for keyword in ("not", "if") if keyword in widened])
    if "if" not in out:
        leave_out("then", "else", effect=Effect.NONE)
    if "contains" in widened:
        leave_out("maxContains")
    if "oneOf" in widened and "oneOf" in out:
        notes.add("'oneOf' becomes 'anyOf'", path, Effect.ACCEPTS_MORE)
        found = out.pop("oneOf")
        if "anyOf" in out:
            out["allOf"] = [*out.get("allOf", ()), {"anyOf": found}]
        else:
            out["anyOf"] = found
    if notes.widened > before:
        leave_out("unevaluatedProperties", "unevaluatedItems")


def _bounds(out: dict[str, Any], node: dict[str, Any]) -> bool:
    """Convert the boolean exclusive bounds of draft 4. Returns whether there was one."""
    for bound in ("Minimum", "Maximum"):
        if node.get(f"exclusive{bound}") is True and bound.lower() in out:
            out[f"exclusive{bound}"] = out.pop(bound.lower())
    return any(type(node.get(f"exclusive{bound}")) is bool for bound in ("Minimum", "Maximum"))


def _identified(root: dict[str, Any]) -> dict[str, Any]:
    """The schemas within ``root`` by their own addresses."""
    found: dict[str, Any] = {}
    outer = root.get("$id")
    for part, _, _, _, _ in walk(root):
        own = part.get("$id") if type(part) is dict else None
        if type(own) is str and not own.startswith("#"):
            own = own.removesuffix("#")
            found.setdefault(own, part)
            if type(outer) is str:
                found.setdefault(urljoin(outer, own), part)
    return found


def _are_names(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in value)


def _types(value: Any) -> str | list[str]:
    """The value of ``type``, each type once. Raises ``ValueError`` for anything else."""
    names = value if type(value) is list else [value]
    if not names or not all(type(name) is str and name in TYPES for name in names):
        raise ValueError
    unique = list(dict.fromkeys(names))
    if "number" in unique and "integer" in unique:
        unique.remove("integer")
    return unique[0] if len(unique) == 1 else unique
