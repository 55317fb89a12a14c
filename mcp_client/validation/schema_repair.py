"""Remove the parts of a schema that cannot be checked, for ``usable_schema``.

It changes a copy, in one walk, and follows references afterwards. Every change preserves the
invariant of ``usable_schema``; a skipped part is noted with its place and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from ..protocol.json_paths import copy_of, escape, parse, resolve
from ..runtime.safe_text import safe_text
from .ecma_patterns import Untranslatable, translate
from .keyword_shapes import SHAPES, TYPES
from .schema_shape import DIALECTS, DRAFT4, DRAFT7, LATEST, OLD, dialect_of, shown

__all__ = ["Repair"]

_MAX_TEXT_CHARS = 80
_MAX_PATTERN_CHARS = 5_000
"""Characters of all patterns of a schema: translating them takes some tens of milliseconds."""
_MAX_PROPERTIES = 40
"""Properties of Unicode in all patterns: each takes thousands of characters for Python."""
_MAX_PLACE_CHARS = 200
_MAX_NOTES = 100
"""Places that are noted of each kind; more are changed without a note of their own."""
_MAX_BASES = 16
"""Schemas with an address of their own from which references are looked up here."""
_ONE = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"additionalItems", "contentSchema", "unevaluatedItems", "unevaluatedProperties"}
)
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_ANNOTATIONS = frozenset(
    {"title", "description", "$comment", "format", "contentEncoding", "contentMediaType"}
    | {"contentSchema", "readOnly", "writeOnly", "deprecated", "examples", "$defs", "definitions"}
)
"""Keywords without which a schema means the same."""
_ADDED = (
    (),
    ("$id", "const", "contains", "propertyNames"),
    ("if", "then", "else"),
    (
        *("dependentRequired", "dependentSchemas", "minContains", "maxContains"),
        *("unevaluatedItems", "unevaluatedProperties"),
    ),
    ("prefixItems",),
)
"""The keywords that each of ``DIALECTS`` added to the one before: there they mean nothing."""
_OLDER_SHAPES = {**SHAPES, "additionalItems": SHAPES["items"]}
_EXCLUSIVE = ("exclusiveMinimum", "exclusiveMaximum")
_ITEM = re.compile(r"/items/(?=\d)")
"""The way to an item of a tuple of an older draft."""
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_NEUTRAL = {"$recursiveRef": str, "$recursiveAnchor": bool, "$vocabulary": dict}
"""Keywords of 2019-09 with the types of their values; in 2020-12 they limit nothing."""
_MAX_CHAIN = 16
"""References in a row that are followed to see whether they end."""
_META = "https://json-schema.org/draft/"
_REFERENCES = ("$ref", "$dynamicRef")
_BESIDE_REFERENCE = frozenset({"$defs", "definitions", "$id", "id", "$schema"})
_Guard: TypeAlias = "tuple[dict[str, Any], tuple[str, ...]] | None"
"""The outermost construct around a part that accepts less where the part accepts more."""


class _Node(NamedTuple):
    """A schema within the schema."""

    part: dict[str, Any]
    where: str
    """A JSON pointer."""
    dialect: str
    guard: _Guard


class Repair:
    """The usable part of one schema, which is of ``dialect``: a copy is changed."""

    def __init__(self, schema: dict[str, Any], dialect: str, is_named: bool) -> None:
        self.root: dict[str, Any] = copy_of(schema)
        """The part that can be judged; equal to the schema if there was nothing to change."""
        self._is_latest = is_named and dialect == LATEST
        self._oldest = DRAFT7 if dialect == DRAFT4 else dialect
        """The oldest dialect in which a part is written: nothing of draft-04 remains."""
        self.skipped: list[str] = []
        self.is_broken: bool = False
        self.mixed: list[str] = []
        self.slips: list[str] = []
        self.patterns: dict[str, str] = {}
        self._pattern_chars = self._properties = 0
        self._bases: list[Any] = [self.root]
        """The places that references may start from."""
        self._ids: set[str] = set()
        """The ends of their addresses."""
        self._anchors: set[str] = set()
        self._references: list[tuple[_Node, str]] = []
        self._seen: set[int] = set()
        self._waiting = [_Node(self.root, "", dialect, None)]
        self._guards: list[_Guard] = []
        """The constructs that accept less now: they go."""
        self._doubtful: list[_Guard] = []
        """The constructs with a reference to a schema that may now accept more."""
        self._unevaluated: list[dict[str, Any]] = []

    def run(self) -> None:
        """Change the copy. The other attributes are as those of ``UsableSchema``."""
        while self._waiting or self._references:
            self._walk()
            if self._references:
                self._follow(*self._references.pop())
        if self.skipped:
            for guard in (*self._guards, *self._doubtful):
                part, keywords = guard or ({}, ())
                for keyword in keywords:
                    part.pop(keyword, None)
            for part in self._unevaluated:
                part.pop("unevaluatedProperties", None)
                part.pop("unevaluatedItems", None)

    def _walk(self) -> None:
        while self._waiting:
            node = self._waiting.pop()
            if id(node.part) not in self._seen:
                self._seen.add(id(node.part))
                fixed = self._fixed(node)
                if fixed is not None:
                    self._waiting += self._inner(fixed)

    def _skip(self, node: _Node, keyword: str, why: str, *, is_broken: bool = True) -> None:
        node.part.pop(keyword, None)
        if len(self.skipped) < _MAX_NOTES:
            self.skipped.append(f"{_place(node, keyword)} ({why})")
        self.is_broken = self.is_broken or is_broken
        self._guards.append(node.guard)

    # --------------------------------------------------------------- one schema

    def _fixed(self, node: _Node) -> _Node | None:
        """The node with nothing in it that is not of its shape; None if nothing is left of it."""
        part = node.part
        named = part.get("$schema")
        dialect, is_named = dialect_of(part) if "$schema" in part else (node.dialect, False)
        if dialect is None:
            part.clear()
            self._skip(node, "$schema", f"the dialect '{safe_text(named, 60)}' is not known")
            return None
        node = node._replace(dialect=dialect if is_named else node.dialect)
        written = self._written(node)
        if is_named and (written == dialect or part is self.root):
            if named.removesuffix("#") != written:  # type: ignore[union-attr]
                part["$schema"] = written
        else:
            part.pop("$schema", None)
        if written != node.dialect:
            self._modernize(node, written)
        self._identify(node, written)
        shapes = SHAPES if node.dialect == LATEST else _OLDER_SHAPES
        for keyword in list(part) if node.dialect in DIALECTS else ():
            item, shape = part.get(keyword), shapes.get(keyword)
            if shape is None or shape.check(item) or keyword not in part:
                continue
            skipped = len(self.skipped)
            if not self._rewritten(node, keyword, item):
                if keyword in _ANNOTATIONS:
                    del part[keyword]
                else:
                    self._skip(node, keyword, f"it is {shown(item)}, not {shape.expected}")
                    self._skip_dependents(part, keyword, item)
            is_same = written != node.dialect or (keyword in part and part[keyword] == item)
            if len(self.skipped) == skipped < _MAX_NOTES > len(self.slips) and not is_same:
                self.slips.append(_place(node, keyword))
        self._translate(node)
        return node

    def _written(self, node: _Node) -> str:
        """Return the dialect in which a part is written: its own, unless the root's is newer.

        ``jsonschema`` checks all of a schema by the meta-schema of its root.
        """
        both = (node.dialect, self._oldest)
        return max(both, key=DIALECTS.index) if {*both} <= {*DIALECTS} else node.dialect

    def _modernize(self, node: _Node, written: str) -> None:
        """Write what is of an older dialect so that it means the same in a newer one."""
        part = node.part
        for added in _ADDED[DIALECTS.index(node.dialect) + 1 :]:
            for keyword in added:
                part.pop(keyword, None)
        if node.dialect not in OLD:
            return
        if "$ref" in part:
            for keyword in part.keys() - _BESIDE_REFERENCE - {"$ref"}:
                del part[keyword]
        if node.dialect == DRAFT4:
            if type(part.get("id")) is str:
                part["$id"] = part.pop("id")
            for keyword in _EXCLUSIVE:
                if type(part.get(keyword)) is bool:
                    self._exclusive(node, keyword, part[keyword])
        if written not in OLD and type(depends := part.get("dependencies")) is dict:
            names = {name: item for name, item in depends.items() if type(item) is list}
            part["dependentRequired"] = names
            part["dependentSchemas"] = {k: v for k, v in depends.items() if k not in names}

    def _identify(self, node: _Node, written: str) -> None:
        """Note how the schema can be referred to."""
        part = node.part
        for keyword, kind in _NEUTRAL.items():
            if written == LATEST or type(part.get(keyword)) is not kind:
                part.pop(keyword, None)
        for keyword in ("$id", "id", "$anchor", "$dynamicAnchor"):
            name = part.get(keyword)
            if type(name) is not str:
                if keyword != "id" or node.dialect in OLD:
                    part.pop(keyword, None)
            elif keyword in ("$anchor", "$dynamicAnchor"):
                if _ANCHOR.fullmatch(name):
                    self._anchors.add(name)
                else:
                    del part[keyword]
            elif name.startswith("#"):
                self._anchors.add(name[1:])
                if keyword == "$id" and written not in OLD and name[1:]:
                    part["$anchor"] = part.pop("$id")[1:]  # as drafts 6 and 7 write it
            else:
                self._ids.add(name.removesuffix("#").rpartition("/")[2])
                self._bases.append(part)
        for keyword in _REFERENCES:
            if type(part.get(keyword)) is str:
                self._references.append((node, keyword))
                self._doubtful.append(node.guard)
        if "unevaluatedProperties" in part or "unevaluatedItems" in part:
            self._unevaluated.append(part)

    def _skip_dependents(self, part: dict[str, Any], keyword: str, item: Any) -> None:
        """Remove what would accept less without ``keyword``."""
        if keyword in ("properties", "patternProperties") and item is not None:
            part.pop("additionalProperties", None)
        elif keyword == "prefixItems":
            part.pop("items", None)

    def _rewritten(self, node: _Node, keyword: str, item: Any) -> bool:
        """Whether what is not of its shape has one meaning only, and is written so now."""
        part = node.part
        match keyword, item:
            case "items", list():
                return self._tuple(node, item)
            case _, bool() if keyword in _EXCLUSIVE:
                self._exclusive(node, keyword, item)
            case "type", _:
                return self._type(node, item)
            case "required", list():
                names = [name for name in dict.fromkeys(map(_hashable, item)) if name is not None]
                if len(names) < len({*map(_hashable, item)}):
                    self._skip(node, keyword, "not all of it are names")
                part[keyword] = names
            case "required", dict() if not item:
                del part[keyword]
            case _, [] if keyword in _MAPS or keyword == "dependentRequired":
                part[keyword] = {}  # as PHP writes an empty object
            case _, [] if keyword in _ONE:
                part[keyword] = {}
            case _, dict() if keyword in _MAPS:
                for name, member in item.items():
                    if type(member) is not dict and type(member) is not bool:
                        item[name] = True
                        self._member(node, keyword, name, member)
            case _, dict() if keyword in ("dependentRequired", "dependencies"):
                valid = {k: v for k, v in item.items() if SHAPES[keyword].check({k: v})}
                self._skip(node, keyword, "not all of it are names or schemas")
                part[keyword] = valid
            case "allOf", list():
                schemas = [one for one in item if type(one) is dict or type(one) is bool]
                if item:
                    self._skip(node, keyword, "not all of it are schemas")
                part.pop(keyword, None)
                if schemas:
                    part[keyword] = schemas
            case "prefixItems", list() if item:
                part[keyword] = self._all_schemas(node, keyword, item)
            case _:
                return False
        return True

    def _member(self, node: _Node, keyword: str, name: str, member: Any) -> None:
        if member != []:  # as PHP writes an empty object
            whole = node._replace(part={}, where=f"{node.where}/{keyword}")
            self._skip(whole, name, f"it is {shown(member)}, not a schema")

    def _all_schemas(self, node: _Node, keyword: str, items: list[Any]) -> list[Any]:
        found = [one if type(one) is dict or type(one) is bool else True for one in items]
        if any(one is not its for one, its in zip(found, items, strict=True)):
            self._skip(node, keyword, "not all of it are schemas")
        return found

    def _tuple(self, node: _Node, items: list[Any]) -> bool:
        """A list of ``items``, which 2020-12 calls ``prefixItems``."""
        part, is_latest = node.part, self._written(node) == LATEST
        if "prefixItems" in part and is_latest:
            return False
        first = self._all_schemas(node, "items", items)
        if first and not is_latest:
            part["items"] = first
            return True
        part.pop("items", None)
        more = part.pop("additionalItems", None)
        if first:
            part["prefixItems"] = first
        if type(more) is dict or type(more) is bool:
            part["items"] = more
        self._mix(node, "items", "a list of 'items' is of older dialects")
        return True

    def _exclusive(self, node: _Node, keyword: str, flag: bool) -> None:
        """Convert a boolean exclusive bound, as in draft-04."""
        part, bound = node.part, f"{keyword[9:12].lower()}imum"
        del part[keyword]
        if flag and SHAPES[bound].check(part.get(bound)):
            part[keyword] = part.pop(bound)
        self._mix(node, keyword, f"a boolean '{keyword}' is of draft-04")

    def _mix(self, node: _Node, keyword: str, what: str) -> None:
        if self._is_latest and node.dialect == LATEST and len(self.mixed) < _MAX_NOTES:
            self.mixed.append(f"{_place(node, keyword)} ({what})")

    def _type(self, node: _Node, item: Any) -> bool:
        names = item if type(item) is list else [item]
        found = ["null" if name is None and type(item) is list else name for name in names]
        found = [name.lower() if type(name) is str else name for name in found]
        found = list(dict.fromkeys(found)) if all(type(name) is str for name in found) else []
        if not found or not TYPES.issuperset(found):
            return False
        node.part["type"] = found if type(item) is list else found[0]
        return True

    # ----------------------------------------------------------------- patterns

    def _translate(self, node: _Node) -> None:
        part = node.part
        if type(part.get("pattern")) is str:
            text = self._translated(node, "pattern", part["pattern"])
            if text is not None:
                part["pattern"] = text
        named = part.get("patternProperties")
        if type(named) is not dict:
            return
        found: dict[str, Any] = {}
        for pattern, member in named.items():
            whole = node._replace(part={}, where=f"{node.where}/patternProperties")
            text = self._translated(whole, pattern, pattern)
            if text is None:
                part.pop("additionalProperties", None)
            else:
                found[text] = {"allOf": [found[text], member]} if text in found else member
        part["patternProperties"] = found

    def _translated(self, node: _Node, keyword: str, pattern: str) -> str | None:
        chars = self._pattern_chars + len(pattern)
        properties = self._properties + pattern.count("\\p") + pattern.count("\\P")
        try:
            if chars > _MAX_PATTERN_CHARS or properties > _MAX_PROPERTIES:
                raise Untranslatable("too much in the other patterns of the schema")
            self._pattern_chars, self._properties = chars, properties
            text = translate(pattern)
        except Untranslatable as error:
            why = f"the pattern '{safe_text(pattern, 60)}' has {safe_text(error, 80)}"
            self._skip(node, keyword, why, is_broken=False)
            return None
        if text != pattern:
            self.patterns[text] = pattern
        return text

    # --------------------------------------------------------------- what is within

    def _inner(self, node: _Node) -> Iterator[_Node]:
        part, old_reference = node.part, node.dialect in OLD and "$ref" in node.part
        for keyword, item in part.items():
            if old_reference and keyword not in _BESIDE_REFERENCE:
                continue
            guard = node.guard or self._guard(part, keyword)
            where = _below(node.where, keyword)
            if type(item) is list and keyword in (*_SEVERAL, "items", "extends"):
                inner = [(_below(where, str(number)), one) for number, one in enumerate(item)]
            elif type(item) is dict and keyword in (*_MAPS, "dependencies"):
                inner = [(_below(where, name), one) for name, one in item.items()]
            else:
                inner = [(where, item)] if keyword in _ONE or keyword == "extends" else []
            for place, one in inner:
                if type(one) is dict:
                    yield _Node(one, place, node.dialect, guard)

    def _guard(self, part: dict[str, Any], keyword: str) -> _Guard:
        if keyword in ("not", "oneOf", "disallow"):
            return part, (keyword,)
        if keyword == "if":
            return part, ("if", "then", "else")
        if keyword == "contains" and "maxContains" in part:
            return part, ("contains",)
        return None

    # --------------------------------------------------------------- references

    def _follow(self, node: _Node, keyword: str) -> None:
        reference = node.part.get(keyword)
        if type(reference) is not str:
            return
        address, sign, fragment = reference.partition("#")
        meta = dialect_of({"$schema": address})[0] if "json-schema.org" in address else None
        if meta is not None:
            node.part[keyword] = f"{meta}{sign}{fragment}"
            return
        target = self._target(reference, node)
        if target is None and (moved := _ITEM.sub("/prefixItems/", reference)) != reference:
            node.part[keyword], target = moved, self._target(moved, node)
        if target is not None and not (keyword == "$ref" and self._is_endless(node, target)):
            return
        if node.dialect in OLD:  # where nothing beside a reference counts
            for other in node.part.keys() - _BESIDE_REFERENCE - {keyword}:
                del node.part[other]
        where = "nowhere" if target is None else "back to itself"
        self._skip(node, keyword, f"'{safe_text(reference, 60)}' leads {where}")

    def _is_endless(self, node: _Node, target: Any) -> bool:
        """Whether references that lead from one to the next come back to ``node``."""
        for _ in range(_MAX_CHAIN):
            if target is node.part:
                return True
            if type(target) is not dict or type(target.get("$ref")) is not str:
                return False
            target = self._target(target["$ref"], node)
        return False

    def _target(self, reference: str, node: _Node) -> Any:
        """Return the target of a reference; None for none.

        True for a reference that is left to ``jsonschema``.
        """
        address, _, fragment = reference.partition("#")
        if address:
            is_meta = address.startswith(_META)
            return True if is_meta or address.rpartition("/")[2] in self._ids else None
        if fragment and not fragment.startswith("/"):
            return True if fragment in self._anchors else None
        if len(self._bases) > _MAX_BASES:
            return True
        for base in self._bases:
            try:
                steps = parse(unquote(fragment))
                target = resolve(base, steps)
            except (LookupError, ValueError):
                continue
            if type(target) is dict and steps and steps[0] not in SHAPES:
                self._waiting.append(_Node(target, unquote(fragment), node.dialect, None))
            if type(target) is dict or type(target) is bool:
                return target if len(self._bases) == 1 else True
        return None


def _below(where: str, step: str) -> str:
    """The pointer to a part, which is not complete where it would be long."""
    return f"{where}/{escape(step[:_MAX_TEXT_CHARS])}" if len(where) < _MAX_PLACE_CHARS else where


def _place(node: _Node, keyword: str) -> str:
    return safe_text(_below(node.where, keyword), _MAX_TEXT_CHARS)


def _hashable(value: Any) -> str | None:
    return value if type(value) is str else None
