"""Parse and show the arguments of a tool: ``key=value`` words, and a line of types.

Words become arguments by the types of the tool's schema:

- ``key=value``: text, or what the schema requires: a number, ``true``, a JSON array or object. Text
  stays text if the schema allows text, or this text if it has an ``enum``. An array takes
  JSON, or the key repeated. If the schema names no type, a JSON array or object is one.
- ``key:=json``: exactly this JSON.
- ``{...}``, ``@file`` and ``-``: a JSON object as it is written, in a file or on standard input,
  whose members later words replace. ``key=@file`` is the text ``@file``: no file is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog.tool import Tool
from ..protocol import json_paths as json_pointer
from ..runtime.safe_text import close_names, near, safe_text
from ..runtime.strict_json import read_json
from ..validation.keyword_shapes import TYPES
from .exits import UsageError

__all__ = [
    "MAX_TYPE_PARTS",
    "arguments_of",
    "check_names",
    "missing_names",
    "properties_of",
    "referred",
    "signature_parts",
    "type_text",
]

_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_JSON_DEPTH = 128
_MAX_NUMBER_CHARS = 400
_MAX_SCHEMA_DEPTH = 8
_MAX_TYPE_DEPTH = 3
_MAX_OPTIONS = 64
"""Things that one schema allows, and places that its members are looked for in."""
MAX_TYPE_PARTS = 8
_OWN_WORDS = ("type", "enum", "const", "anyOf", "oneOf", "properties", "items")
_TYPE_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "null",
    "object": "{...}",
    "array": "[...]",
}
_KINDS = {name: kind for kind, name in _TYPE_NAMES.items()}
"""The types that slips such as "int" mean."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def arguments_of(
    words: Iterable[str], schema: Mapping[str, Any], read_stdin: Callable[[], str]
) -> dict[str, Any]:
    """Return the arguments in ``words``. Raises ``UsageError``, which names the word."""
    arguments: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for word in words:
        if word == "-" or word.startswith(("@", "{")):
            arguments.update(_whole(word, read_stdin))
            repeated.clear()
            continue
        key, sign, value = _parts(word)
        its = _property(schema, key)
        options = _options(its, schema)
        takes_list = any(option.is_named("array") for option in options)
        if sign == ":=":
            arguments[key] = _json(value, word)
            repeated.pop(key, None)
        elif key in repeated and takes_list:
            repeated[key].append(_item(options, schema, value, word, len(repeated[key])))
            arguments[key] = list(repeated[key])
        else:
            arguments[key] = _coerced(options, schema, value, word)
            if takes_list:
                found = arguments[key]
                is_list = isinstance(found, list)
                repeated[key] = list(found) if is_list else [_first(options, schema, value, word)]
    return arguments


def _whole(word: str, read_stdin: Callable[[], str]) -> dict[str, Any]:
    if word == "-":
        return _object(read_stdin(), "standard input")
    if word.startswith("{"):
        return _object(word, word)
    return _object(_text_of(word[1:]), word[1:])


def missing_names(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the required arguments that are not there."""
    required = schema.get("required")
    names = map(str, required if isinstance(required, list) else ())
    return [name for name in names if name not in arguments]


def check_names(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Return a warning about names of arguments that look like a mistake, or None.

    Raises ``UsageError`` if the schema allows no argument of that name, or if a required one is
    missing at the same time.
    """
    names = list(properties_of(schema))
    missing = missing_names(arguments, schema)
    patterns = bool(schema.get("patternProperties"))
    for name in arguments:
        if name in names or patterns:
            continue
        text = f"the tool has no argument {safe_text(name, 60)!r}{near(name, names)}"
        close = close_names(name, names)
        if schema.get("additionalProperties") is False or (close and close[0] in missing):
            raise UsageError(text)
        if close:
            return text
    return None


def _parts(word: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:]*(?::(?!=)[^=:]*)*)(:=|=)", word, re.DOTALL)
    if match is None or not match[1]:
        raise UsageError(
            f"{safe_text(word, 80)!r} is not an argument: write key=value, key:=JSON, @file, - or "
            "a JSON object in quotes"
        )
    return match[1], match[2], word[match.end() :]


def _text_of(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"@{path}: {error.strerror or error}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"@{path}: larger than {_MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"@{path}: not UTF-8") from None


def _object(text: str, where: str) -> dict[str, Any]:
    value = _json(text, where)
    if not isinstance(value, dict):
        raise UsageError(f"{where}: a JSON object of arguments is wanted")
    return value


def _json(text: str, where: str) -> Any:
    try:
        return read_json(text, max_depth=_MAX_JSON_DEPTH)
    except ValueError as error:
        raise UsageError(f"{safe_text(where, 80)}: {error}") from None


def _property(schema: Mapping[str, Any], key: str) -> Any:
    found = properties_of(schema).get(key)
    return found if found is not None else schema.get("additionalProperties")


def properties_of(schema: Any) -> dict[str, Any]:
    """Return the members of an object, also those within ``allOf`` and its like, or ``$ref``."""
    found: dict[str, Any] = {}
    waiting, seen = [(schema, 0)], 0
    while waiting and seen < _MAX_OPTIONS:
        part, depth = waiting.pop()
        seen += 1
        if not isinstance(part, Mapping) or depth > _MAX_SCHEMA_DEPTH:
            continue
        properties = part.get("properties")
        found |= {} if not isinstance(properties, Mapping) else {**properties, **found}
        inner = [_referred(part, schema)] if _refers(part) else []
        for key in ("allOf", "anyOf", "oneOf"):
            inner += part[key] if isinstance(part.get(key), list) else []
        waiting += ((each, depth + 1) for each in reversed(inner))
    return found


class _Option(NamedTuple):
    """One of the alternatives that a schema allows, as far as that is plain."""

    kinds: frozenset[str] | None = None
    """The names of types; None if none is named."""
    values: tuple[Any, ...] | None = None
    """The values of an ``enum`` or a ``const``; None if any is allowed."""
    items: tuple[Any, ...] = ()
    """The schemas of the items of an array, the last for all further ones; empty without any."""

    def is_named(self, kind: str) -> bool:
        return self.kinds is not None and kind in self.kinds

    def takes_text(self, text: str) -> bool:
        return self.is_named("string") and (self.values is None or text in self.values)

    def both(self, other: _Option) -> _Option:
        """Return the values that this and ``other`` allow."""
        kinds = other.kinds if self.kinds is None else self.kinds
        if self.kinds is not None and other.kinds is not None:
            kinds = (self.kinds & other.kinds) or self.kinds & {"integer"} or other.kinds
        values = self.values if other.values is None else other.values
        return _Option(kinds, values, self.items or other.items)


_NO_OPTION: tuple[_Option, ...] = ()


def _options(schema: Any, root: Mapping[str, Any], depth: int = 0) -> tuple[_Option, ...]:
    """Return the alternatives of ``schema``: one for each part of an ``anyOf`` or ``oneOf``."""
    if not isinstance(schema, Mapping) or depth > _MAX_SCHEMA_DEPTH:
        return _NO_OPTION if schema is False else (_Option(),)
    kinds = schema.get("type")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    values = tuple(values) if isinstance(values, list) else None
    named = kinds if isinstance(kinds, list) else [kinds]
    names = {_KINDS.get(kind.lower(), kind.lower()) for kind in named if isinstance(kind, str)}
    if not names <= TYPES:  # such as "any", which names none
        names = set()
    if values is not None and not names:
        names = set(map(_kind_of, values))
    found: tuple[_Option, ...] = (_Option(frozenset(names) or None, values, _items_of(schema)),)
    parts = [[_referred(schema, root)]] if _refers(schema) else []
    for key in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(key)
        listed = branches if isinstance(branches, list) else []
        parts += [[part] for part in listed] if key == "allOf" else [listed] if listed else []
    for alternatives in parts:
        others = [one for part in alternatives for one in _options(part, root, depth + 1)]
        found = tuple(one.both(other) for one in found for other in others)[:_MAX_OPTIONS]
    return found


def _items_of(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    first, rest = schema.get("prefixItems"), schema.get("items")
    if isinstance(rest, list):  # as older drafts write it
        first, rest = rest, schema.get("additionalItems")
    if isinstance(first, list):
        return (*first, rest)
    return () if rest is None else (rest,)


def _refers(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#")


def _referred(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Return the target of ``$ref`` within the schema; None if it leads nowhere."""
    try:
        return json_pointer.resolve(root, json_pointer.parse(schema["$ref"][1:]))
    except (LookupError, ValueError, TypeError):
        return None


def referred(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the schema, or the target of its ``$ref`` or its only ``allOf``; None if missing."""
    for _ in range(_MAX_SCHEMA_DEPTH):
        if not isinstance(schema, Mapping):
            return schema
        if _refers(schema):
            schema = _referred(schema, root)
        elif _wraps(schema):
            schema = schema["allOf"][0]
        else:
            return schema
    return None


def _wraps(schema: Mapping[str, Any]) -> bool:
    """Whether it adds only a description to its only ``allOf``."""
    parts = schema.get("allOf")
    return isinstance(parts, list) and len(parts) == 1 and schema.keys().isdisjoint(_OWN_WORDS)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _coerced(options: tuple[_Option, ...], root: Mapping[str, Any], value: str, word: str) -> Any:
    kinds = {kind for option in options for kind in option.kinds or ()}
    if any(option.takes_text(value) for option in options):
        return value
    if "null" in kinds and value == "null":
        return None
    if "boolean" in kinds and value in ("true", "false"):
        return value == "true"
    if kinds & {"integer", "number"} and _NUMBER.fullmatch(value):
        number = _number(value, whole="integer" in kinds)
        if isinstance(number, int) or (number is not None and "number" in kinds):
            return number
    is_free = any(option.kinds is None for option in options)
    for kind, sign, wanted in (("array", "[", list), ("object", "{", dict)):
        if value.startswith(sign) and (kind in kinds or is_free):
            try:
                found = _json(value, word)
            except UsageError:
                if not is_free:
                    raise
            else:
                if isinstance(found, wanted):
                    return found
    if is_free or not options:
        return value
    if "array" in kinds:
        return [_item(options, root, value, word)]
    if "string" in kinds:
        return value  # which is not in the enum: the server reports what is
    words = {"boolean": "true or false"}
    wanted_kinds = " or ".join(words.get(kind, kind) for kind in sorted(kinds))
    raise UsageError(
        f"{safe_text(word, 80)!r}: the tool requires {wanted_kinds} here; write key:=JSON to "
        "give it exactly"
    )


def _number(value: str, *, whole: bool) -> int | float | None:
    """Return the number; None if it is too large, or not whole if ``whole`` is required.

    5.0 is 5 if a whole number is required.
    """
    if len(value) > _MAX_NUMBER_CHARS:
        return None
    try:
        return int(value)
    except ValueError:
        number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if whole and number.is_integer() else number


def _item(
    options: tuple[_Option, ...], root: Mapping[str, Any], value: str, word: str, at: int = 0
) -> Any:
    lists = [option.items or (None,) for option in options if option.is_named("array")]
    schemas = [items[min(at, len(items) - 1)] for items in lists]
    of_items = tuple(each for schema in schemas for each in _options(schema, root))
    return _coerced(of_items, root, value, word)


def _first(options: tuple[_Option, ...], root: Mapping[str, Any], value: str, word: str) -> Any:
    """Return the item that a word becomes if its key is repeated; else the word itself."""
    try:
        return _item(options, root, value, word)
    except UsageError:
        return value


# ------------------------------------------------------------- a tool as a line of types


def signature_parts(tool: Tool) -> tuple[tuple[str, str], ...]:
    """Return the tool's name, parameters and result in one line that is safe to show.

    Each part has the style of a terminal.
    """
    schema = tool.input_schema
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parts = []
    for name, its in properties_of(schema).items():
        text = f"{safe_text(name, 60)}: {type_text(its, schema)}"
        if isinstance(its, Mapping) and "default" in its:
            text += f" = {_default_text(its['default'])}"
        elif name not in required:
            text += " = ..."
        parts.append(text)
    output = tool.output_schema
    result = "" if output is None else f" -> {type_text(output, output)}"
    name = safe_text(tool.qualified_name, 200)
    return (name, "bold cyan"), (f"({', '.join(parts)}){result}", "")


def type_text(schema: Any, root: Any, depth: int = 0) -> str:
    """Return the values that a schema allows, in a few words."""
    if not isinstance(schema, Mapping) or depth > _MAX_TYPE_DEPTH:
        return "any"
    if _refers(schema):
        return type_text(_referred(schema, root), root, depth + 1)
    if isinstance(schema.get("allOf"), list) and schema.keys().isdisjoint(_OWN_WORDS):
        parts = [type_text(one, root, depth + 1) for one in schema["allOf"][:MAX_TYPE_PARTS]]
        return " & ".join(dict.fromkeys(part for part in parts if part != "any")) or "any"
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        more = ["..."] if len(values) > MAX_TYPE_PARTS else []
        return "|".join([*map(_default_text, values[:MAX_TYPE_PARTS]), *more])
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            texts = dict.fromkeys(
                type_text(one, root, depth + 1) for one in options[:MAX_TYPE_PARTS]
            )
            return "|".join(texts)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return (
            "|".join(_type_name(kind, schema, root, depth) for kind in kinds[:MAX_TYPE_PARTS])
            or "any"
        )
    return _type_name(kinds, schema, root, depth)


def _type_name(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> str:
    kind = _KINDS.get(kind.lower(), kind.lower()) if isinstance(kind, str) else kind
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"[{type_text(schema['items'], root, depth + 1)}]"
    properties = schema.get("properties")
    if kind == "object" and depth == 0 and isinstance(properties, Mapping) and properties:
        names = [safe_text(name, 40) for name in list(properties)[:MAX_TYPE_PARTS]]
        return (
            "{" + ", ".join([*names, *(["..."] if len(properties) > MAX_TYPE_PARTS else [])]) + "}"
        )
    return _TYPE_NAMES.get(kind, "any") if isinstance(kind, str) else "any"


def _default_text(value: Any) -> str:
    return safe_text(json.dumps(value, ensure_ascii=False), 40)
