"""JSON Schemas as Python's types: what tools take and give, for stubs and for scripts.

Schemas come from servers. None of their text becomes code: names are made of its letters and
digits, and literals are quoted. The text is at most as long as a multiple of the schemas.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..protocol import json_paths as json_pointer
from ..runtime.python_source import ANY, Names, PythonType, quoted, union

__all__ = ["TYPING", "WORDS", "SchemaTypes"]

TYPING = ("Any", "Literal", "NotRequired", "TypedDict", "Union")
"""The names of the module ``typing`` that types use."""
WORDS = frozenset((*TYPING, "None", "bool", "dict", "float", "int", "list", "object", "str"))
"""Names that types are written with, and that no type of a schema has."""
_MAX_TYPES = 1_000
_MAX_OPTIONS = 50
_MAX_LEVELS = 24
_MAX_REFERRED_CHARS = 240
"""The maximum length of a nameless type that references lead to, in characters.

It is written at each reference to it, and within another one that is written so, too.
"""
_MAX_KEY_CHARS = 64
"""Characters of a member's name that the name of its type is made from, at most."""
_SIMPLE: dict[Any, PythonType] = {
    "string": PythonType("str"),
    "integer": PythonType("int"),
    "number": PythonType("float"),
    "boolean": PythonType("bool"),
    "null": PythonType("None"),
}
_Path: TypeAlias = tuple[str, ...]


class SchemaTypes:
    """The types of some schemas, as far as they are written."""

    def __init__(self, reserved: Iterable[str] = WORDS) -> None:
        """No type has a name that is ``reserved``, and no class a member of such a name."""
        self._reserved = frozenset(reserved)
        self.types: list[str] = []
        """The classes that the types need."""
        self.used: set[str] = set()
        """The names that what is written so far is written with."""
        self._names = Names(self._reserved)
        self.cut: bool = False
        """Whether a type became Any because it was too deep or too long, since this was reset."""
        self._known: dict[int, tuple[PythonType, bool]] = {}
        """The type of what a reference leads to, and whether it was cut."""
        self._roots: list[Any] = []
        """The known schemas, stored so that no other schema gets the ``id`` of one."""
        self._count = 0

    def parameters(
        self, schema: Mapping[str, Any], path: _Path
    ) -> tuple[list[tuple[str, PythonType, bool]], bool]:
        """Return the arguments of an input schema, and whether they are not listed one by one.

        Each argument has its type and whether it is required.
        """
        schema = _resolved(schema)
        properties = schema.get("properties")
        required = _required_of(schema)
        found = [
            (key, self.type_of(value, schema, (*path, key[:_MAX_KEY_CHARS])), key in required)
            for key, value in (properties.items() if isinstance(properties, Mapping) else ())
        ]
        unsaid = ("anyOf", "oneOf", "allOf", "patternProperties")
        return found, not found and any(key in schema for key in unsaid)

    def type_of(self, schema: Any, root: Any, path: _Path, depth: int = 0) -> PythonType:
        """The type of what ``schema`` allows; new types are named by ``path``."""
        if not isinstance(schema, Mapping):
            return ANY
        if depth > _MAX_LEVELS:
            return self._too_much()
        if "$ref" in schema:
            return self._referred(schema["$ref"], root, path, depth)
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literal(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and "properties" not in schema:
                if len(schema[key]) > _MAX_OPTIONS:
                    return self._too_much()
                options = enumerate(schema[key], 1)
                return union(
                    [self.type_of(one, root, (*path, str(n)), depth + 1) for n, one in options]
                )
        whole = schema.get("allOf")
        if isinstance(whole, list) and len(whole) == 1 and "properties" not in schema:
            return self.type_of(whole[0], root, path, depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return union([self._kind(kind, schema, root, path, depth) for kind in kinds[:10]])
        return self._kind(kinds, schema, root, path, depth)

    def _kind(self, kind: Any, schema: Any, root: Any, path: _Path, depth: int) -> PythonType:
        if kind == "object" or (kind is None and isinstance(schema.get("properties"), Mapping)):
            return self._object(schema, root, path, depth)
        if kind == "array":
            items = schema.get("items")
            if "prefixItems" in schema or not isinstance(items, Mapping):
                return PythonType("list", (ANY,))
            return PythonType("list", (self.type_of(items, root, (*path, "Item"), depth + 1),))
        return _SIMPLE.get(kind, ANY) if isinstance(kind, str) else ANY

    def _object(self, schema: Any, root: Any, path: _Path, depth: int) -> PythonType:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            rest = schema.get("additionalProperties")
            values = self.type_of(rest, root, (*path, "Value"), depth + 1)
            return PythonType("dict", (PythonType("str"), values))
        self._count += len(properties)
        if self._count > _MAX_TYPES:
            return PythonType("dict", (PythonType("str"), self._too_much()))
        name = self._names.type(*path)
        self._written_as(name, schema, root, path, depth)
        return PythonType(name)

    def _written_as(self, name: str, schema: Any, root: Any, path: _Path, depth: int) -> None:
        required = _required_of(schema)
        fields: dict[str, PythonType] = {}
        for key, value in schema["properties"].items():
            kind = self.type_of(value, root, (*path, key[:_MAX_KEY_CHARS]), depth + 1)
            fields[key] = kind if key in required else PythonType("NotRequired", (kind,))
        self.used.add("TypedDict")
        if all(map(self._is_field_name, fields)):
            lines = [
                f"    {key}: {kind.lines(4, len(key) + 2, 0, self.used)}"
                for key, kind in fields.items()
            ]
            self.types.append(f"\n\nclass {name}(TypedDict):\n" + "\n".join(lines))
            return
        self.used.update(*(kind.names() for kind in fields.values()))
        lines = [f"        {quoted(key)}: {quoted(str(kind))}," for key, kind in fields.items()]
        body = "\n".join(lines)
        opening = f'\n{name} = TypedDict(\n    "{name}",\n    {{\n'
        self.types.append(f"\n{opening}{body}\n    }},\n)".replace("\n\n\n", "\n\n", 1))

    def _referred(self, ref: Any, root: Any, path: _Path, depth: int) -> PythonType:
        if not isinstance(ref, str) or not ref.startswith("#"):
            return ANY
        try:
            steps = json_pointer.parse(ref[1:])
            target = json_pointer.resolve(root, steps)
        except (KeyError, LookupError, ValueError, TypeError):
            return ANY
        if id(target) not in self._known:
            outside, self.cut = self.cut, False
            self._roots.append(root)
            self._known[id(target)] = ANY, False  # within itself, where it has no name yet
            found = self._of_target(target, root, (path[0], *steps[-1:]), depth + 1)
            self._known[id(target)] = found, self.cut
            self.cut = outside
        found, cut = self._known[id(target)]
        self.cut = self.cut or cut
        return found

    def _of_target(self, target: Any, root: Any, path: _Path, depth: int) -> PythonType:
        """The type of what a reference leads to: short, for there may be many references."""
        if isinstance(target, Mapping) and isinstance(target.get("properties"), Mapping):
            self._count += len(target["properties"])
            if not target["properties"] or self._count > _MAX_TYPES:
                return self._too_much() if target["properties"] else ANY
            found = PythonType(self._names.type(*path))
            self._known[id(target)] = found, False
            self._written_as(found.name, target, root, path, depth)
            return found
        found = self.type_of(target, root, path, depth)
        return found if len(str(found)) <= _MAX_REFERRED_CHARS else self._too_much()

    def _too_much(self) -> PythonType:
        self.cut = True
        return ANY

    def _is_field_name(self, key: str) -> bool:
        return (
            key.isascii()
            and key.isidentifier()
            and not keyword.iskeyword(key)
            and not key.startswith("_")
            and key not in self._reserved
        )


def _required_of(schema: Mapping[str, Any]) -> set[str]:
    required = schema.get("required")
    if not isinstance(required, list):
        return set()
    return {name for name in required if isinstance(name, str)}


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference at the top leads to, once; its own references still hold."""
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/"):
        try:
            target = json_pointer.resolve(schema, json_pointer.parse(ref[1:]))
        except (LookupError, ValueError, TypeError):
            return schema
        if isinstance(target, dict):
            return {**schema, **target}
    return schema


def _literal(values: Sequence[Any]) -> PythonType:
    """Return ``Literal[...]``, or the types of values that it cannot hold or that are too many."""
    kinds = {bool: "boolean", int: "integer", str: "string", float: "number", type(None): "null"}
    if any(type(value) not in kinds for value in values) or not values:
        return ANY
    short = all(not isinstance(value, str) or len(value) <= 60 for value in values)
    if float in map(type, values) or len(values) > 100 or not short:
        return union([_SIMPLE[kinds[type(value)]] for value in values])
    written = [quoted(value) if isinstance(value, str) else repr(value) for value in values]
    return PythonType("Literal", tuple(dict.fromkeys(written)))
