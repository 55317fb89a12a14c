"""Whether something is a JSON Schema at all, told cheaply where it is an ordinary one.

A server may list ten thousand tools, and the judgement of ``jsonschema`` costs a millisecond each.
``survey`` walks a schema once and knows the shape of every keyword, so that only what looks odd is
judged in full. It never calls a broken schema sound. On its way it gathers the texts a model would
read, for ``findings``.

2026-07-28 ``basic/index`` (JSON Schema usage): 2020-12 unless ``$schema`` says otherwise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

__all__ = ["is_known_dialect", "survey"]

_DEEPEST = 64
_COMMON = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema",
    }
)
_KNOWN = _COMMON | {
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-03/schema",
}
_TYPES = frozenset({"object", "string", "integer", "number", "boolean", "array", "null"})


def is_known_dialect(schema: dict[str, Any]) -> bool:
    """Whether what ``$schema`` names can be judged here; absent means 2020-12."""
    dialect = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    return type(dialect) is str and dialect.rstrip("#") in _KNOWN


def survey(schema: Any, texts: list[str]) -> bool:
    """True: ``schema`` surely is one. False: only a full judgement can tell.

    Adds the names, titles and descriptions in it to ``texts``, all of them only where it is sound.
    """
    dialect = schema.get("$schema") if type(schema) is dict else None
    if dialect is not None and (type(dialect) is not str or dialect.rstrip("#") not in _COMMON):
        return False
    return _schema(schema, texts, 0)


def _schema(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not dict:
        return type(value) is bool
    if depth > _DEEPEST:
        return False
    for keyword, item in value.items():
        if keyword == "type":
            if type(item) is str:
                if item not in _TYPES:
                    return False
            elif not _types(item):
                return False
        elif keyword == "description":
            if type(item) is not str:
                return False
            texts.append(item)
        else:
            check = _SHAPES.get(keyword)
            if check is not None and not check(item, texts, depth):
                return False
    return True


def _types(value: Any) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(type(name) is str and name in _TYPES for name in value)
        and len(set(value)) == len(value)
    )


def _text(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not str:
        return False
    texts.append(value)
    return True


def _plain_text(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is str


def _flag(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is bool


def _any_list(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not list:
        return False
    texts.extend(item for item in value if type(item) is str)
    return True


def _default(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is str:
        texts.append(value)
    return True


def _size(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is int and value >= 0


def _number(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is int or type(value) is float


def _positive(value: Any, texts: list[str], depth: int) -> bool:
    return _number(value, texts, depth) and value > 0


def _names(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not list:
        return False
    for name in value:
        if type(name) is not str:
            return False
    return len(set(value)) == len(value)


def _map(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not dict:
        return False
    for name, item in value.items():
        texts.append(name)
        if not _schema(item, texts, depth + 1):
            return False
    return True


def _pattern_map(value: Any, texts: list[str], depth: int) -> bool:
    return _map(value, texts, depth) and all(map(_compiles, value))


def _names_map(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is dict and all(_names(item, texts, depth) for item in value.values())


def _schemas(value: Any, texts: list[str], depth: int) -> bool:
    if type(value) is not list or not value:
        return False
    return all([_schema(item, texts, depth + 1) for item in value])


def _subschema(value: Any, texts: list[str], depth: int) -> bool:
    return _schema(value, texts, depth + 1)


def _pattern(value: Any, texts: list[str], depth: int) -> bool:
    return type(value) is str and _compiles(value)


def _odd(value: Any, texts: list[str], depth: int) -> bool:
    return False


@functools.lru_cache(maxsize=512)
def _compiles(pattern: str) -> bool:
    if len(pattern) > 500:
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _each(check: Callable[[Any, list[str], int], bool], keywords: str) -> dict[str, Any]:
    return dict.fromkeys(keywords.split(), check)


_SHAPES: dict[str, Callable[[Any, list[str], int], bool]] = {
    **_each(_text, "title $comment"),
    **_each(_plain_text, "format contentEncoding contentMediaType $schema"),
    **_each(_flag, "uniqueItems deprecated readOnly writeOnly"),
    **_each(_any_list, "enum examples"),
    **_each(_default, "default const"),
    **_each(_size, "minLength maxLength minItems maxItems minProperties maxProperties"),
    **_each(_number, "minimum maximum exclusiveMinimum exclusiveMaximum"),
    **_each(_positive, "multipleOf"),
    **_each(_names, "required"),
    **_each(_map, "properties $defs definitions"),
    **_each(_pattern_map, "patternProperties"),
    **_each(_names_map, "dependentRequired"),
    **_each(_schemas, "anyOf allOf oneOf"),
    **_each(_subschema, "additionalProperties items contains not if then else propertyNames"),
    **_each(_subschema, "unevaluatedItems unevaluatedProperties contentSchema"),
    **_each(_pattern, "pattern"),
    # Rare, or different from draft to draft: not worth knowing here.
    **_each(_odd, "$id $anchor $dynamicRef $dynamicAnchor $vocabulary dependencies prefixItems"),
    **_each(_odd, "additionalItems dependentSchemas minContains maxContains $recursiveRef"),
    "$ref": _plain_text,
}
