"""A form that a server asks a person to fill in: read from its restricted schema, and checked.

2025-06-18, 2025-11-25 and 2026-07-28 ``client/elicitation``: a flat object of strings, numbers,
booleans and, since 2025-11-25, enums with titles and multiple choice. Nested objects, ``anyOf``,
references and properties without a type are not allowed in a form: a person could not be shown
what is asked. Answers are checked here before they are sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

__all__ = ["Choice", "Form", "FormField", "NotAForm", "Wrong", "form_of"]

Kind: TypeAlias = Literal["string", "number", "integer", "boolean", "choice", "choices"]
_MAX_FIELDS = 200
_MAX_CHOICES = 10_000
_COMBINING = (
    "anyOf",
    "allOf",
    "not",
    "$ref",
    "$dynamicRef",
    "if",
    "properties",
    "patternProperties",
)


class NotAForm(ValueError):
    """The requested schema is not of the restricted kind; the text says where and why."""


class Wrong(ValueError):
    """An answer that the form does not allow; the text names the field, and not the value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value that may be chosen, and how to show it."""

    value: str
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. Its texts come from the server: show them with ``safe_text``."""

    name: str
    kind: Kind
    """"string", "number", "integer", "boolean", "choice" (one of ``choices``) or "choices" (a list
    of them)."""
    required: bool
    title: str | None = None
    description: str | None = None
    choices: tuple[Choice, ...] = ()
    format: str | None = None
    """Of a string: "email", "uri", "date" or "date-time"."""
    least: float | None = None
    """The smallest number, the shortest string in characters, the fewest choices."""
    most: float | None = None
    """The largest number, the longest string in characters, the most choices."""
    default: Any = None
    """The value to fill in beforehand; None without one that the field allows."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The property's schema as it came."""

    def problem(self, value: Any) -> str | None:
        """Why ``value`` cannot be sent; None where it can."""
        return _CHECKS[self.kind](self, value)


@dataclass(frozen=True, slots=True)
class Form:
    fields: tuple[FormField, ...]

    @property
    def defaults(self) -> dict[str, Any]:
        """The values that are filled in beforehand."""
        return {f.name: f.default for f in self.fields if f.default is not None}

    def checked(self, content: Mapping[str, Any], *, fill: bool = True) -> dict[str, Any]:
        """What to send for ``content``: checked, and with ``fill`` completed by the defaults.

        Raises ``Wrong``.
        """
        known = {f.name: f for f in self.fields}
        for name, value in content.items():
            if name not in known:
                raise Wrong(f"the form has no field {str(name)[:80]!r}")
            problem = known[name].problem(value)
            if problem is not None:
                raise Wrong(f"field {name[:80]!r}: {problem}")
        sent = {**self.defaults, **content} if fill else dict(content)
        missing = [f.name for f in self.fields if f.required and f.name not in sent]
        if missing:
            raise Wrong(f"field {missing[0][:80]!r} is required and has no value")
        return {name: list(v) if isinstance(v, tuple) else v for name, v in sent.items()}


def form_of(schema: object, *, titled: bool = True) -> Form:
    """The form that ``schema`` describes. Raises ``NotAForm``.

    ``titled``: whether the revision has ``oneOf`` with titles, and multiple choice.
    """
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise NotAForm("requestedSchema is not the schema of an object")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or len(properties) > _MAX_FIELDS:
        raise NotAForm(f"its properties are not an object of at most {_MAX_FIELDS} fields")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise NotAForm("its 'required' is not a list of names")
    if unknown := set(required) - set(properties):
        raise NotAForm(f"it requires {min(unknown)[:80]!r}, which is not one of its properties")
    if found := next(
        (word for word in _COMBINING if word in schema and word != "properties"), None
    ):
        raise NotAForm(f"it has {found!r}, which forms must not have")
    asked = frozenset(required)
    return Form(tuple(_field(name, p, name in asked, titled) for name, p in properties.items()))


def _field(name: str, schema: object, required: bool, titled: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise NotAForm(f"property {name[:80]!r} has no schema")
    if found := next((word for word in _COMBINING if word in schema), None):
        raise NotAForm(f"property {name[:80]!r} has {found!r}, which forms must not have")
    kind, choices = _kind(name, schema, titled)
    least, most = (schema.get(word) for word in _BOUNDS.get(kind, ("", "")))
    form_field = FormField(
        name,
        kind,
        required,
        _text(schema.get("title")),
        _text(schema.get("description")),
        choices,
        _text(schema.get("format")) if kind == "string" else None,
        least if _is_number(least) else None,
        most if _is_number(most) else None,
        None,
        schema,
    )
    default = schema.get("default")
    if default is None or form_field.problem(default) is not None:
        return form_field  # a default that the field does not allow is not shown
    return replace(form_field, default=default)


_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


def _kind(name: str, schema: Mapping[str, Any], titled: bool) -> tuple[Kind, tuple[Choice, ...]]:
    match schema.get("type"):
        case "string" if "enum" in schema:
            return "choice", _named(name, schema["enum"], schema.get("enumNames"))
        case "string" if "oneOf" in schema and titled:
            return "choice", _titled(name, schema["oneOf"])
        case "array" if titled:
            items = schema.get("items")
            if isinstance(items, Mapping) and "anyOf" in items:
                return "choices", _titled(name, items["anyOf"])
            if isinstance(items, Mapping) and items.get("type") == "string" and "enum" in items:
                return "choices", _named(name, items["enum"], None)
        case "string" | "number" | "integer" | "boolean" as plain if "oneOf" not in schema:
            return plain, ()
    raise NotAForm(f"property {name[:80]!r} is of a kind that forms must not have")


def _named(name: str, values: object, titles: object) -> tuple[Choice, ...]:
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_CHOICES:
        raise NotAForm(f"the enum of {name[:80]!r} is not a list of 1 to {_MAX_CHOICES} strings")
    if not isinstance(titles, list) or len(titles) != len(values):
        titles = values
    if not all(isinstance(word, str) for word in (*values, *titles)):
        raise NotAForm(f"the enum of {name[:80]!r} has values that are not strings")
    return tuple(map(Choice, values, titles))


def _titled(name: str, options: object) -> tuple[Choice, ...]:
    if not isinstance(options, list) or not 0 < len(options) <= _MAX_CHOICES:
        raise NotAForm(f"{name[:80]!r} is not a choice of 1 to {_MAX_CHOICES} values")
    found = []
    for option in options:
        value = option.get("const") if isinstance(option, Mapping) else None
        if not isinstance(value, str):
            raise NotAForm(f"{name[:80]!r} has a choice without a 'const' string")
        found.append(Choice(value, _text(option.get("title")) or value))
    return tuple(found)


# ------------------------------------------------------------------------------ checking


def _string(field: FormField, value: Any) -> str | None:
    if not isinstance(value, str):
        return "it is not a string"
    if field.least is not None and len(value) < field.least:
        return f"it is shorter than {field.least:g} characters"
    if field.most is not None and len(value) > field.most:
        return f"it is longer than {field.most:g} characters"
    has_format = _FORMATS.get(field.format or "")
    return (
        None
        if has_format is None or has_format(value)
        else f"it is not in the format {field.format}"
    )


def _number(field: FormField, value: Any) -> str | None:
    if not _is_number(value):
        return "it is not a number"
    if field.kind == "integer" and isinstance(value, float) and not value.is_integer():
        return "it is not a whole number"
    if field.least is not None and value < field.least:
        return f"it is below {field.least:g}"
    return f"it is above {field.most:g}" if field.most is not None and value > field.most else None


def _boolean(field: FormField, value: Any) -> str | None:
    return None if isinstance(value, bool) else "it is neither true nor false"


def _choice(field: FormField, value: Any) -> str | None:
    if isinstance(value, str) and any(choice.value == value for choice in field.choices):
        return None
    return "it is not one of the choices"


def _choices(field: FormField, value: Any) -> str | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return "it is not a list"
    if field.least is not None and len(value) < field.least:
        return f"fewer than {field.least:g} are chosen"
    if field.most is not None and len(value) > field.most:
        return f"more than {field.most:g} are chosen"
    allowed = {choice.value for choice in field.choices}
    fits = all(isinstance(item, str) and item in allowed for item in value)
    return None if fits else "one of them is not one of the choices"


_CHECKS = {
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
}


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_email(value: str) -> bool:
    local, at, domain = value.rpartition("@")
    return bool(at and local and domain) and not re.search(r"\s", value) and domain[0] != "."


def _is_uri(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+", value) is not None


def _is_date(value: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII) is None:
        return False
    import datetime  # only now: few forms have a date

    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_date_time(value: str) -> bool:
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
        r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
        value,
        re.ASCII,
    )
    return found is not None and _is_date(found[1])


_FORMATS = {"email": _is_email, "uri": _is_uri, "date": _is_date, "date-time": _is_date_time}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
