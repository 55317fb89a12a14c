"""A tool as a line of typed text: ``search(query: str, limit: int = 10) -> {...}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..catalog.tool import Tool
from ..protocol import json_pointer
from ..runtime.safe_text import safe_text

__all__ = ["signature_parts", "type_text"]

_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "null",
    "object": "{...}",
    "array": "[...]",
}


def signature_parts(tool: Tool) -> tuple[tuple[str, str], ...]:
    """The tool's name, and its parameters and result, in one line that is safe to show; each with
    the style of a terminal."""
    schema = tool.input_schema
    properties = schema.get("properties")
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parts = []
    for name, its in properties.items() if isinstance(properties, Mapping) else ():
        text = f"{safe_text(name, 60)}: {type_text(its, schema)}"
        if isinstance(its, Mapping) and "default" in its:
            text += f" = {_shown(its['default'])}"
        elif name not in required:
            text += " = ..."
        parts.append(text)
    output = tool.output_schema
    result = "" if output is None else f" -> {type_text(output, output)}"
    name = safe_text(tool.qualified_name, 200)
    return (name, "bold cyan"), (f"({', '.join(parts)}){result}", "")


def type_text(schema: Any, root: Any, depth: int = 0) -> str:
    """What a schema allows, in a few words."""
    if not isinstance(schema, Mapping) or depth > 3:
        return "any"
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        try:
            target = json_pointer.resolve(root, json_pointer.parse(reference[1:]))
        except (LookupError, ValueError, TypeError):
            return "any"
        return type_text(target, root, depth + 1)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        more = ["..."] if len(values) > 8 else []
        return "|".join([*map(_shown, values[:8]), *more])
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            texts = dict.fromkeys(type_text(one, root, depth + 1) for one in options[:8])
            return "|".join(texts)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return "|".join(_kind(kind, schema, root, depth) for kind in kinds[:8]) or "any"
    return _kind(kinds, schema, root, depth)


def _kind(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> str:
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"[{type_text(schema['items'], root, depth + 1)}]"
    properties = schema.get("properties")
    if kind == "object" and depth == 0 and isinstance(properties, Mapping) and properties:
        names = [safe_text(name, 40) for name in list(properties)[:8]]
        return "{" + ", ".join([*names, *(["..."] if len(properties) > 8 else [])]) + "}"
    return _SIMPLE.get(kind, "any") if isinstance(kind, str) else "any"


def _shown(value: Any) -> str:
    return safe_text(json.dumps(value, ensure_ascii=False), 40)
