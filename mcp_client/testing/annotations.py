"""JSON Schemas of functions, made from their annotations as the official Python SDK makes them.

A parameter without an annotation is a string, one with a default is optional, and titles are made
of names. Dataclasses, ``TypedDict``, enums and models of pydantic are definitions of their own. The
return annotation gives the schema of the result: an object for a dataclass, a ``TypedDict`` or
``dict[str, ...]``, else an object whose member ``result`` has the value. A return annotation
without a schema gives none.

pydantic is not needed. The ``Field`` of an annotation is read where there is one.
"""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import datetime
import enum
import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import GenericAlias, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import ConfigError
from ..protocol.metadata import Metadata

__all__ = ["Parameter", "as_json", "input_schema", "loaded_arguments", "output_schema"]

Json: TypeAlias = dict[str, Any]

_PLAIN: dict[Any, tuple[Json, tuple[type, ...], Callable[[Any], Any]]] = {
    str: ({"type": "string"}, (str,), str),
    int: ({"type": "integer"}, (int,), int),
    float: ({"type": "number"}, (float, int), float),
    bool: ({"type": "boolean"}, (bool,), bool),
    type(None): ({"type": "null"}, (type(None),), lambda value: None),
    bytes: ({"type": "string", "format": "binary"}, (str,), str.encode),
    uuid.UUID: ({"type": "string", "format": "uuid"}, (str,), uuid.UUID),
    Path: ({"type": "string", "format": "path"}, (str,), Path),
    **{
        kind: ({"type": "string", "format": name}, (str,), kind.fromisoformat)
        for kind, name in (
            (datetime.datetime, "date-time"),
            (datetime.date, "date"),
            (datetime.time, "time"),
        )
    },
}
"""Types that are one JSON value: the schema, the types of the value, and how it is loaded."""
_PLAIN[None] = _PLAIN[type(None)]
_FACETS = {
    "title": "title",
    "description": "description",
    "examples": "examples",
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "min_length": "min{}",
    "max_length": "max{}",
}
"""The attributes of an object in ``Annotated``, and the keyword for each."""
_LENGTHS = {"array": "Items", "object": "Properties"}
_TEXTS = ("title", "description", "examples")
_NONE = type(None)
_WRAPPED = (str, int, float, bool, bytes, _NONE)
"""Classes that are returned as the member ``result``."""
_UNIONS = (Union, UnionType)
_ANY = (Any, object, inspect.Parameter.empty)
_REQUIRED, _HIDDEN = object(), object()
"""Markers in place of a default."""
_HELP = (
    "Annotate it with str, int, float, bool, None, Literal, an Enum, a dataclass, a TypedDict, a "
    "date or time, or with lists, sets, tuples, dicts and unions of these"
)
Parameter: TypeAlias = tuple[str, Any, Any]
"""A parameter: its name, its annotation and its default."""


class _NoSchema(Exception):
    """An annotation has no schema; its text names the annotation."""


def input_schema(function: Callable[..., Any], tool: str) -> tuple[Json, list[Parameter]]:
    """Return the schema of a function's arguments, and its parameters.

    Raises ``ConfigError`` for a parameter without a schema.
    """
    schemas, fields, parameters = _Schemas(), {}, []
    where = f"FakeServer: tool {tool!r}"
    for parameter in _signature(function, where).parameters.values():
        name, hint = parameter.name, parameter.annotation
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"{where}: {parameter} has no schema. Name each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY or name.startswith("_"):
            why = "is positional only" if not name.startswith("_") else "begins with '_'"
            raise ConfigError(f"{where}: parameter {name!r} {why}. Arguments are given by name")
        facets, default = _unpacked(parameter.default)
        listed_default = _HIDDEN if any(each.default_factory for each in facets) else default
        try:
            fields[name] = schemas.field(name, hint, listed_default, facets), default is _REQUIRED
        except _NoSchema as error:
            raise ConfigError(f"{where}: parameter {name!r}: {error}. {_HELP}") from None
        parameters.append((name, hint, default))
    return schemas.whole(_object(_name(function, tool) + "Arguments", fields)), parameters


def output_schema(function: Callable[..., Any], tool: str) -> tuple[Json | None, bool]:
    """Return the schema of a function's result, and whether the result is its member ``result``.

    The schema is None if the return annotation gives none.
    """
    hint = _signature(function, f"FakeServer: tool {tool!r}").return_annotation
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    schemas, name = _Schemas(), _name(function, tool)
    if _has_content(bare):
        return None, False
    try:
        if get_origin(bare) is dict and isinstance(bare, GenericAlias) and get_args(bare)[0] is str:
            return schemas.whole({**schemas.of(bare), "title": name + "DictOutput"}), False
        if isinstance(bare, type) and bare not in _WRAPPED:
            schema = schemas.returned(bare)
            return None if schema is None else schemas.whole(schema), False
        fields = {"result": (schemas.field("result", hint, _REQUIRED), True)}
        return schemas.whole(_object(name + "Output", fields)), True
    except _NoSchema:
        return None, False


def loaded_arguments(parameters: list[Parameter], arguments: Json) -> Json:
    """Return the arguments of a call as the function takes them; others are left out.

    Raises ``TypeError`` or ``ValueError`` if one is missing or of another type.
    """
    for name, _, default in parameters:
        if name not in arguments and default is _REQUIRED:
            raise ValueError(f"argument {name!r} is missing")
    return {
        name: loaded(hint, arguments[name]) if name in arguments else default
        for name, hint, default in parameters
    }


def loaded(hint: Any, value: Any) -> Any:
    """Return a JSON value as the type that an annotation names.

    Raises ``TypeError`` or ``ValueError`` if it is another.
    """
    args = get_args(hint)
    kind: Any = get_origin(hint) or hint
    if hint in _ANY:
        return value
    if kind in (Annotated, Required, NotRequired):
        return loaded(args[0], value)
    if kind in _UNIONS:
        for arm in args:
            with suppress(TypeError, ValueError):
                return loaded(arm, value)
        raise TypeError(f"expected {_described(hint)}, got {value!r}")
    if kind is Literal:
        for each in args:
            if as_json(each) == value and type(as_json(each)) is type(value):
                return each
        raise ValueError(f"expected {_described(hint)}, got {value!r}")
    if kind in _PLAIN:
        _, kinds, load = _PLAIN[kind]
        _check(hint, value, *kinds)
        return load(value)
    if not isinstance(kind, type):
        return loaded(_behind(hint), value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if issubclass(kind, enum.Enum):
        return kind(value)
    if _has_fields(kind):
        _check(hint, value, dict)
        for name in (name for name, _, default in _fields(kind) if default is _REQUIRED):
            if name not in value:
                raise ValueError(f"{kind.__name__} lacks {name!r}")
        items = {name: loaded(its, value[name]) for name, its, _ in _fields(kind) if name in value}
        return items if _is_typed_dict(kind) else kind(**items)
    if issubclass(kind, abc.Mapping):
        _check(hint, value, dict)
        key, its = args or (Any, Any)
        return {int(name) if key is int else name: loaded(its, one) for name, one in value.items()}
    _check(hint, value, list)
    hints = [*args] if kind is tuple and args[-1:] != (...,) else [*args[:1]] * len(value)
    made = [loaded(its, one) for its, one in zip(hints or [Any] * len(value), value, strict=True)]
    collection: Any = list if inspect.isabstract(kind) else kind
    return collection(made)


def as_json(value: Any) -> Any:
    """Return a value as JSON; a value without a JSON form becomes its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, enum.Enum) else value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, enum.Enum):
        return as_json(value.value)
    if dataclasses.is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(as_json(key)): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple | abc.Set):
        return [as_json(one) for one in value]
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class _Schemas:
    """Schemas that share their definitions."""

    def __init__(self) -> None:
        self._definitions: Json = {}
        self._names: dict[type, str] = {}

    def whole(self, schema: Json) -> Json:
        """Return a schema with the definitions that it refers to."""
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def field(self, name: str, hint: Any, default: Any, facets: Iterable[Any] = ()) -> Json:
        """Return the schema of a member or a parameter."""
        if hint is inspect.Parameter.empty:
            schema: Json = {"title": name, "type": "string"}
        else:
            schema = _with_facets(self.of(hint), facets)
            arms = [arm for arm in schema.get("anyOf", ()) if arm != {"type": "null"}]
            named = arms[0] if len(arms) == 1 else schema
            if "$ref" not in named:
                schema.setdefault("title", name.title().replace("_", " ").strip())
        if default is not _REQUIRED and default is not _HIDDEN:
            schema["default"] = as_json(default)
        return schema

    def of(self, hint: Any) -> Json:
        """Return the schema of an annotation. Raises ``_NoSchema``."""
        args, kind = get_args(hint), get_origin(hint) or hint
        if hint in _ANY:
            return {}
        if kind is Annotated:
            return _with_facets(self.of(args[0]), args[1:])
        if kind in (Required, NotRequired):
            return self.of(args[0])
        if kind in _UNIONS:
            arms = [self.of(arm) for arm in sorted(args, key=lambda arm: arm is _NONE)]
            return {"anyOf": [one for arm in arms for one in arm.get("anyOf", [arm])]}
        if kind is Literal:
            schema = _values(args)
            return {"const": schema.pop("enum")[0], **schema} if len(args) == 1 else schema
        if kind in _PLAIN:
            return dict(_PLAIN[kind][0])
        if not isinstance(kind, type):
            return self.of(_behind(hint))
        if _has_fields(kind) or issubclass(kind, enum.Enum) or hasattr(kind, "model_json_schema"):
            return self._reference(kind)
        if issubclass(kind, abc.Mapping):
            return {"type": "object", "additionalProperties": self.of((*args, Any, Any)[1]) or True}
        if hasattr(kind, "_fields") or not issubclass(kind, abc.Iterable):
            raise _NoSchema(f"{_described(hint)} has no JSON schema")
        if kind is tuple and args and args[-1] is not ...:
            items = [self.of(one) for one in args]
            length = {"minItems": len(items), "maxItems": len(items)}
            return {"type": "array", "prefixItems": items, **length}
        unique = {"uniqueItems": True} if issubclass(kind, abc.Set) else {}
        return {"type": "array", "items": self.of((*args, Any)[0]), **unique}

    def returned(self, kind: type) -> Json | None:
        """Return the schema of a class that is returned; None if it has none."""
        if hasattr(kind, "model_json_schema") or _is_typed_dict(kind):
            return self._definition(kind)
        if issubclass(kind, enum.Enum) or hasattr(kind, "_fields"):
            return None
        fields = [
            (name, hint, getattr(kind, name, _REQUIRED))
            for name, hint in _hints(kind).items()
            if not name.startswith("_")
        ]
        if dataclasses.is_dataclass(kind):
            fields = [
                (name, hint, _REQUIRED if default is _HIDDEN else default)
                for name, hint, default in _fields(kind)
            ]
        return self._of_fields(kind, fields) if fields else None

    def _reference(self, kind: type) -> Json:
        if kind not in self._names:
            name = kind.__name__
            if name in self._definitions:
                name = f"{kind.__module__}__{kind.__qualname__}".replace(".", "__")
            self._names[kind] = name
            self._definitions[name] = {}  # it may refer to itself
            self._definitions[name] = self._definition(kind)
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _definition(self, kind: Any) -> Json:
        if hasattr(kind, "model_json_schema"):
            schema: Json = kind.model_json_schema()
            self._definitions |= schema.pop("$defs", {})
            return self._definitions[kind.__name__] if "$ref" in schema else schema
        if issubclass(kind, enum.Enum):
            schema = {"title": kind.__name__, **_values(kind)}
        else:
            schema = self._of_fields(kind, _fields(kind))
        text = kind.__doc__ or ""
        own = not text.startswith(f"{kind.__name__}(") and text != "An enumeration."
        return {**schema, "description": inspect.cleandoc(text)} if text and own else schema

    def _of_fields(self, kind: type, fields: Iterable[Parameter]) -> Json:
        made = {
            name: (self.field(name, hint, default), default is _REQUIRED)
            for name, hint, default in fields
        }
        return _object(kind.__name__, made)


def _object(title: str, fields: Mapping[str, tuple[Json, bool]]) -> Json:
    required = [name for name, (_, is_required) in fields.items() if is_required]
    properties = {name: schema for name, (schema, _) in fields.items()}
    schema = {"type": "object", "title": title, "properties": properties}
    return {**schema, "required": required} if required else schema


def _values(named: Iterable[Any]) -> Json:
    values = [as_json(each) for each in named]
    kinds = {type(value) for value in values}
    types = [_PLAIN[kind][0]["type"] for kind in kinds if kind in _PLAIN]
    return {"enum": values, **({"type": types[0]} if len(kinds) == len(types) == 1 else {})}


def _with_facets(schema: Json, facets: Iterable[Any]) -> Json:
    """Return a schema with the constraints of the objects in ``Annotated``."""
    for one in (part for each in facets for part in (each, *getattr(each, "metadata", ()))):
        for name, word in _FACETS.items():
            value = getattr(one, name, None)
            if not isinstance(value, str | int | float | list) or isinstance(one, str):
                continue
            arms = schema.get("anyOf", [schema]) if name not in _TEXTS else [schema]
            for arm in (arm for arm in arms if arm != {"type": "null"}):
                arm[word.format(_LENGTHS.get(arm.get("type", ""), "Length"))] = value
    return schema


def _unpacked(default: Any) -> tuple[tuple[Any, ...], Any]:
    """Return a parameter's default, and the ``Field`` that it was given in, if any."""
    if default is inspect.Parameter.empty:
        return (), _REQUIRED
    if not hasattr(default, "is_required") or not hasattr(default, "default_factory"):
        return (), default
    required = default.is_required()
    return (default,), _REQUIRED if required else default.get_default(call_default_factory=True)


def _signature(function: Callable[..., Any], where: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ConfigError(
            f"{where}: cannot evaluate an annotation: {error}. Define the name in the module"
        ) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}. Give a function with annotations") from None


def _name(function: Callable[..., Any], tool: str) -> str:
    return str(getattr(function, "__name__", tool))


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise _NoSchema(f"cannot evaluate the annotations of {kind.__name__}: {error}") from None


def _is_typed_dict(kind: type) -> bool:
    return issubclass(kind, dict) and hasattr(kind, "__total__")


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or _is_typed_dict(kind)


def _fields(kind: Any) -> list[Parameter]:
    """Return the fields of a dataclass, or the keys of a ``TypedDict``."""
    hints = _hints(kind)
    if _is_typed_dict(kind):
        marks = {name: get_origin(hint) for name, hint in hints.items()}
        required = {
            name
            for name, mark in marks.items()
            if mark is Required or (mark is not NotRequired and name in kind.__required_keys__)
        }
        return [
            (name, hint, _REQUIRED if name in required else _HIDDEN) for name, hint in hints.items()
        ]
    found = []
    for each in dataclasses.fields(kind):
        default = _REQUIRED if each.default is dataclasses.MISSING else each.default
        if default is _REQUIRED and each.default_factory is not dataclasses.MISSING:
            default = _HIDDEN
        found += [(each.name, hints[each.name], default)] if each.init else []
    return found


def _has_content(hint: Any) -> bool:
    is_content = isinstance(hint, type) and issubclass(hint, Metadata)
    return is_content or any(_has_content(arg) for arg in get_args(hint))


def _behind(hint: Any) -> Any:
    """Return the type behind a ``NewType`` or a type alias. Raises ``_NoSchema``."""
    behind = getattr(hint, "__supertype__", getattr(hint, "__value__", None))
    if behind is None:
        raise _NoSchema(f"{_described(hint)} has no JSON schema")
    return behind


def _check(hint: Any, value: Any, *kinds: type) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"expected {_described(hint)}, got {value!r}")


def _described(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
