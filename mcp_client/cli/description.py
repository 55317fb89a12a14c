"""Show a tool in full: its arguments with their fields, and an example of a call."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..catalog.tool import Tool
from ..runtime.safe_text import safe_text
from .tool_arguments import MAX_TYPE_PARTS, properties_of, referred, type_text

__all__ = ["argument_rows", "example_of"]

_MAX_ROWS = 200
_MAX_DEPTH = 5
_MAX_VALUES = 50
_MAX_VALUE_CHARS = 60
_FORMATS = {
    "date": "%Y-%m-%d",
    "date-time": "%Y-%m-%dT%H:%M:%SZ",
    "time": "%H:%M:%SZ",
    "email": "ana@example.com",
    "uri": "https://example.com",
}


def argument_rows(tool: Tool) -> list[tuple[str, str, str, str]]:
    """Return a row for each argument and each field within it.

    A row has the path, the type, whether it is required, and the description with the default and
    the values that are allowed.
    """
    schema = tool.input_schema
    return list(islice(_rows(schema, schema, "", 0), _MAX_ROWS))


def _rows(schema: Any, root: Any, path: str, depth: int) -> Iterator[tuple[str, str, str, str]]:
    for name, its in _properties(schema, root):
        place = f"{path}{name}"
        required = "required" if name in _required(schema) else ""
        yield f"  {place}", type_text(its, root), required, _about(its, root)
        inner, mark = _inner(its, root)
        if inner is not None and depth < _MAX_DEPTH:
            yield from _rows(inner, root, f"{place}{mark}.", depth + 1)


def _properties(schema: Any, root: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arguments, also those that are within ``allOf``."""
    if schema is root:
        yield from properties_of(schema).items()
        return
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    yield from properties.items() if isinstance(properties, Mapping) else ()


def _required(schema: Any) -> Sequence[Any]:
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return required if isinstance(required, list) else ()


def _inner(schema: Any, root: Any, depth: int = 0) -> tuple[Any, str]:
    """Return the object within, and the mark of a list of them; None if there is not one."""
    found = referred(schema, root)
    if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
        return None, ""
    if isinstance(found.get("properties"), Mapping):
        return found, ""
    items = referred(found.get("items"), root)
    if isinstance(items, Mapping) and isinstance(items.get("properties"), Mapping):
        return items, "[]"
    for key in ("anyOf", "oneOf", "allOf"):
        options = found.get(key)
        for option in options[:MAX_TYPE_PARTS] if isinstance(options, list) else ():
            inner, mark = _inner(option, root, depth + 1)
            if inner is not None:
                return inner, mark
    return None, ""


def _about(schema: Any, root: Any) -> str:
    found = referred(schema, root)
    if not isinstance(found, Mapping):
        return ""
    description = schema.get("description") or found.get("description") or ""
    parts = [str(description)] if description else []
    default = schema.get("default", found.get("default"))
    if default is not None:
        parts.append(f"default: {_json(default)}")
    values = found.get("enum")
    if isinstance(values, list) and len(values) > MAX_TYPE_PARTS:  # the type has not shown all
        more = ", ..." if len(values) > _MAX_VALUES else ""
        parts.append(f"one of: {', '.join(map(_json, values[:_MAX_VALUES]))}{more}")
    for key, word in (("minimum", "at least"), ("maximum", "at most")):
        if isinstance(found.get(key), int | float):
            parts.append(f"{word} {found[key]}")
    return "; ".join(parts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_MAX_VALUE_CHARS]


# ------------------------------------------------------------------------ an example


def example_of(tool: Tool, before: Sequence[str]) -> str | None:
    """Return a call of the tool with what it requires, to be pasted into a shell.

    ``before`` are the words before the tool's name. Returns None if a name of the server must not
    be pasted.
    """
    schema = tool.input_schema
    words = [*before, tool.name]
    for name, its in _properties(schema, schema):
        if name not in _required(schema):
            continue
        value = _value(name, its, schema, 0)
        is_word = name[:1] != "-" and name.replace("-", "_").isidentifier()
        if not is_word:
            return None
        words.append(
            f"{name}={value}"
            if isinstance(value, str)
            else f"{name}:={json.dumps(value, ensure_ascii=False)}"
        )
    if tool.name.startswith("-") or not all(map(_can_be_pasted, words)):
        return None
    return shlex.join(words)


def _can_be_pasted(text: str) -> bool:
    return text.isprintable() and safe_text(text, len(text)) == text


def _value(name: str, schema: Any, root: Any, depth: int) -> Any:
    """Return a value of the schema's own, else one that has its type."""
    found = referred(schema, root)
    if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
        return name.upper()
    for key in ("default", "const"):
        if found.get(key) is not None and _is_short(found[key]):
            return found[key]
    for key in ("examples", "enum"):
        values = found.get(key)
        if isinstance(values, list) and values and _is_short(values[0]):
            return values[0]
    for key in ("anyOf", "oneOf", "allOf"):
        options = found.get(key)
        if isinstance(options, list) and options:
            return _value(name, options[0], root, depth + 1)
    return _of_type(name, found, root, depth)


def _of_type(name: str, schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    kinds = schema.get("type")
    kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
    match kind:
        case "integer" | "number":
            least = schema.get("minimum", 1)
            return least if isinstance(least, int | float) else 1
        case "boolean":
            return True
        case "array":
            return [_value(name, schema.get("items"), root, depth + 1)]
        case "object":
            required = _required(schema)
            return {
                each: _value(each, its, root, depth + 1)
                for each, its in _properties(schema, root)
                if each in required
            }
        case "null":
            return None
    form = _FORMATS.get(str(schema.get("format")))
    return name.upper() if form is None else time.strftime(form, time.gmtime())


def _is_short(value: Any) -> bool:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return False
    return len(text) <= _MAX_VALUE_CHARS
