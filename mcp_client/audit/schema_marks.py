"""Find the parts of a tool's arguments that its input schema marks as secret.

A part is marked by ``writeOnly: true`` or by the format ``password``. A schema that cannot be
followed to its end (a reference that leads nowhere or out of the schema, too many subschemas for
one value) marks the value: a secret shown cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..protocol.json_paths import parse, resolve

__all__ = ["applicable", "items", "marked", "members"]

_MAX_SCHEMAS = 64
"""Subschemas followed for one value."""


def marked(schema: Any) -> bool:
    """Whether anything in a schema may be a mark. Linear in the schema."""
    rest = [schema]
    while rest:
        part = rest.pop()
        if type(part) is dict:
            if part.get("writeOnly") is True or part.get("format") == "password":
                return True
            rest += part.values()
        elif type(part) is list:
            rest += part
    return False


def applicable(root: Any, schemas: Iterable[Any]) -> tuple[tuple[Any, ...], bool]:
    """Return the schemas that hold for one place, references followed, and whether one marks it."""
    found: dict[int, Any] = {}
    rest = list(schemas)
    while rest:
        schema = rest.pop()
        if type(schema) is not dict or id(schema) in found:
            continue
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            return (), True
        if len(found) >= _MAX_SCHEMAS:
            return (), True
        found[id(schema)] = schema
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if word in schema:
                target = _resolve(root, schema[word])
                if target is None:
                    return (), True
                rest.append(target)
        rest += _in_place_applicators(schema)
    return tuple(found.values()), False


def _in_place_applicators(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield schemas inside ``schema`` that apply to the same value."""
    for word in ("allOf", "anyOf", "oneOf"):
        if type(schema.get(word)) is list:
            yield from schema[word]
    for word in ("if", "then", "else"):
        yield schema.get(word)
    for word in ("dependentSchemas", "dependencies"):
        if type(schema.get(word)) is dict:
            yield from schema[word].values()


def members(schemas: tuple[Any, ...], key: Any) -> Iterator[Any]:
    """Yield the schemas of a member."""
    for schema in schemas:
        properties = schema.get("properties")
        if type(properties) is dict and key in properties:
            yield properties[key]
        else:
            yield schema.get("additionalProperties")
            yield schema.get("unevaluatedProperties")
        if type(schema.get("patternProperties")) is dict:
            yield from schema["patternProperties"].values()


def items(schemas: tuple[Any, ...], index: int) -> Iterator[Any]:
    """Yield the schemas of an item."""
    for schema in schemas:
        for word in ("prefixItems", "items"):
            if type(schema.get(word)) is list and index < len(schema[word]):
                yield schema[word][index]
        for word in ("items", "additionalItems", "contains", "unevaluatedItems"):
            yield schema.get(word)


def _resolve(root: Any, reference: Any) -> Any:
    """Return the target of a reference within the schema; None if there is none."""
    if type(reference) is not str or not reference.startswith("#"):
        return None
    if reference != "#" and not reference.startswith("#/"):
        return None
    from urllib.parse import unquote

    try:
        part = resolve(root, parse(unquote(reference[1:])))
    except (LookupError, ValueError):
        return None
    return part if type(part) is dict or type(part) is bool else None
