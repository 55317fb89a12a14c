"""A form that a server asks a person to fill in: parsed from its restricted schema, and checked.

2025-06-18, 2025-11-25 and 2026-07-28 ``client/elicitation``: a flat object of strings, numbers,
booleans and, since 2025-11-25, enums with titles and multiple choice. Servers generate their
schemas, so equivalent schemas are accepted. A type or ``null`` is an optional field. A reference or
an ``allOf`` of one schema is that schema. An array of strings is a list of texts. Nested objects,
other combinations and properties without a type are not allowed in a form, because they cannot be
shown to a person. Responses are validated here before they are sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from .json_paths import parse, resolve

__all__ = ["Choice", "Form", "FormField", "NotAForm", "Wrong", "form_of"]

Kind: TypeAlias = Literal["string", "number", "integer", "boolean", "choice", "choices", "texts"]
_MAX_FIELDS = 200
_MAX_CHOICES = 10_000
_MAX_STEPS = 16
"""References and the like that lead to the schema of one property."""
_COMBINING = (
    *("anyOf", "allOf", "not", "$ref", "$dynamicRef", "if", "properties", "patternProperties"),
)


class NotAForm(ValueError):
    """The requested schema is not of the restricted kind; the text has the place and the reason."""


class Wrong(ValueError):
    """The form does not allow a value; the text names the field, and not the value."""


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
    """The kind of field.

    "string", "number", "integer", "boolean", "choice" (one of ``choices``), "choices" (a list of
    them) or "texts" (a list of any texts).
    """
    required: bool
    title: str | None = None
    description: str | None = None
    choices: tuple[Choice, ...] = ()
    format: str | None = None
    """The format of a string: "email", "uri", "date" or "date-time"."""
    least: float | None = None
    """The smallest number, the shortest string in characters, the fewest choices or texts."""
    most: float | None = None
    """The largest number, the longest string in characters, the most choices or texts."""
    default: Any = None
    """The value to fill in beforehand; None without one that the field allows."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The property's schema as it came."""
    item: FormField | None = None
    """The constraint on each item of "texts"."""
    null_if_left_out: bool = False
    """Whether ``null`` is sent if it is left out: the schema requires the member and permits null.
    """

    def problem(self, value: Any) -> str | None:
        """Return why ``value`` cannot be sent; None if it can."""
        return _CHECKS[self.kind](self, value)


@dataclass(frozen=True, slots=True)
class Form:
    """A form for a person."""

    fields: tuple[FormField, ...]

    @property
    def defaults(self) -> dict[str, Any]:
        """The values that are filled in beforehand."""
        return {f.name: f.default for f in self.fields if f.default is not None}

    def checked(self, content: Mapping[str, Any], *, fill: bool = True) -> dict[str, Any]:
        """Return ``content`` as it will be sent: validated, with ``fill`` completed by defaults.

        Raises ``Wrong``.
        """
        known = {f.name: f for f in self.fields}
        for name, value in content.items():
            if name not in known:
                raise Wrong(f"the form has no field {str(name)[:80]!r}")
            if value is None and known[name].null_if_left_out:
                continue
            problem = known[name].problem(value)
            if problem is not None:
                raise Wrong(f"field {name[:80]!r}: {problem}")
        sent = {**self.defaults, **content} if fill else dict(content)
        for one in self.fields:
            if one.null_if_left_out:
                sent.setdefault(one.name, None)
        missing = [f.name for f in self.fields if f.required and f.name not in sent]
        if missing:
            raise Wrong(f"field {missing[0][:80]!r} is required and has no value")
        return {name: list(v) if isinstance(v, tuple) else v for name, v in sent.items()}


def form_of(schema: object, *, titled: bool = True) -> Form:
    """The form that ``schema`` describes. Raises ``NotAForm``.

    ``titled``: whether the revision has ``oneOf`` with titles, and multiple choice.
    """
    root, (schema, _) = schema, _simplified(schema, schema, "it")
    if not isinstance(schema, Mapping) or schema.get("type") not in (None, "object"):
        raise NotAForm("requestedSchema is not the schema of an object")
    properties, required = schema.get("properties"), schema.get("required")
    properties = {} if properties is None else properties
    required = [] if required is None else required
    if not isinstance(properties, Mapping) or len(properties) > _MAX_FIELDS:
        raise NotAForm(f"its properties are not an object of at most {_MAX_FIELDS} fields")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise NotAForm("its 'required' is not a list of names")
    if unknown := set(required) - set(properties):
        raise NotAForm(f"it requires {min(unknown)[:80]!r}, which is not one of its properties")
    if found := next(
        (word for word in _COMBINING if word in schema and word != "properties"), None
    ):
        raise NotAForm(f"it has {found!r}, which forms do not allow")
    asked = frozenset(required)
    fields = [_field(name, p, name in asked, titled, root) for name, p in properties.items()]
    return Form(tuple(fields))


def _field(name: str, raw: object, required: bool, titled: bool, root: object) -> FormField:
    place = f"property {name[:80]!r}"
    schema, may_be_null = _simplified(raw, root, place)
    if not isinstance(raw, Mapping) or not isinstance(schema, Mapping):
        raise NotAForm(f"property {name[:80]!r} has no schema")
    if found := next((word for word in _COMBINING if word in schema), None):
        raise NotAForm(f"property {name[:80]!r} has {found!r}, which forms do not allow")
    items, _ = _simplified(schema.get("items"), root, place)
    kind, choices = _kind(name, schema, items, titled)
    least, most = (schema.get(word) for word in _BOUNDS.get(kind, ("", "")))
    form_field = FormField(
        name,
        kind,
        required and not may_be_null,
        _text(schema.get("title")),
        _text(schema.get("description")),
        choices,
        _text(schema.get("format")) if kind == "string" else None,
        least if _is_number(least) else None,
        most if _is_number(most) else None,
        None,
        raw,
        _field(name, items, True, titled, root) if kind == "texts" else None,
        required and may_be_null,
    )
    default = schema.get("default")
    if default is None or form_field.problem(default) is not None:
        return form_field  # a default that the field does not allow is not shown
    return replace(form_field, default=default)


def _simplified(schema: Any, root: object, place: str) -> tuple[Any, bool]:
    """Return what ``schema`` means without references and null, and whether null is allowed.

    ``place`` is what an error names.
    """
    may_be_null = False
    for _ in range(_MAX_STEPS):
        if isinstance(schema, Mapping):  # a member that is null counts as missing
            schema = {n: item for n, item in schema.items() if item is not None or n == "const"}
        found = _simplified_once(schema, root, place) if isinstance(schema, Mapping) else None
        if found is None:
            return schema, may_be_null
        schema, is_null = found
        may_be_null = may_be_null or is_null
    raise NotAForm(f"{place} has a '$ref' that is not resolved after {_MAX_STEPS} steps")


def _simplified_once(
    schema: Mapping[str, Any], root: object, place: str
) -> tuple[Any, bool] | None:
    ref = schema.get("$ref")
    if isinstance(ref, str):
        return _merged(_target(ref, root, place), schema, "$ref"), False
    if isinstance(both := schema.get("allOf"), list) and len(both) == 1:
        return _merged(both[0], schema, "allOf"), False
    for word in ("anyOf", "oneOf"):
        options = schema.get(word)
        if not isinstance(options, list):
            continue
        left = [option for option in options if not _is_null(option)]
        is_null = len(left) < len(options)
        if len(left) == 1 and not _is_choice(left[0]) and (is_null or word == "anyOf"):
            return _merged(left[0], schema, word), is_null
        if is_null and left:
            return {**schema, word: left}, True
        if word == "anyOf" and left and all(map(_is_choice, left)):
            return _merged({"oneOf": left}, schema, "anyOf"), False
    kinds, values = schema.get("type"), schema.get("enum")
    if isinstance(kinds, list) and len(left := [kind for kind in kinds if kind != "null"]) == 1:
        return {**schema, "type": left[0]}, len(kinds) > 1
    if isinstance(values, list) and None in values and len(values) > 1:
        rest = {name: item for name, item in schema.items() if name != "enumNames"}
        return {**rest, "enum": [value for value in values if value is not None]}, True
    if isinstance(only := schema.get("const"), str) and kinds in (None, "string"):
        rest = {name: item for name, item in schema.items() if name != "const"}
        return {**rest, "type": "string", "enum": [only]}, False
    if kinds is None and (_are_texts(values) or "oneOf" in schema):
        return {**schema, "type": "string"}, False
    return None


def _target(ref: str, root: object, place: str) -> object:
    """Return the schema that a reference leads to, within ``root`` only."""
    try:
        if ref.startswith("#"):
            return resolve(root, parse(unquote(ref[1:])))
    except (LookupError, ValueError):
        pass
    raise NotAForm(f"{place} has the '$ref' {ref[:80]!r}, which is not in requestedSchema")


def _merged(inner: object, outer: Mapping[str, Any], word: str) -> object:
    """Return ``inner`` with the members beside ``word`` in ``outer``."""
    if not isinstance(inner, Mapping):
        return inner
    return {**inner, **{name: value for name, value in outer.items() if name != word}}


def _is_null(option: object) -> bool:
    return isinstance(option, Mapping) and (
        option.get("type") == "null"
        or ("const" in option and option["const"] is None)
        or option.get("enum") == [None]
    )


def _is_choice(option: object) -> bool:
    return isinstance(option, Mapping) and "const" in option


def _are_texts(values: object) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(value, str) for value in values)
    )


_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
    "texts": ("minItems", "maxItems"),
}


def _kind(
    name: str, schema: Mapping[str, Any], items: Any, titled: bool
) -> tuple[Kind, tuple[Choice, ...]]:
    match schema.get("type"):
        case "string" if "enum" in schema:
            return "choice", _named(name, schema["enum"], schema.get("enumNames"))
        case "string" if "oneOf" in schema and titled:
            return "choice", _titled(name, schema["oneOf"])
        case "array" if titled and isinstance(items, Mapping):
            if "oneOf" in items or "anyOf" in items:
                return "choices", _titled(name, items.get("oneOf", items.get("anyOf")))
            if items.get("type") == "string" and "enum" in items:
                return "choices", _named(name, items["enum"], None)
            if items.get("type") == "string":
                return "texts", ()
        case "string" | "number" | "integer" | "boolean" as plain if "oneOf" not in schema:
            return plain, ()
    raise NotAForm(f"property {name[:80]!r} has a type that forms do not allow")


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


def _texts(field: FormField, value: Any) -> str | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return "it is not a list"
    if field.least is not None and len(value) < field.least:
        return f"it has fewer than {field.least:g} texts"
    if field.most is not None and len(value) > field.most:
        return f"it has more than {field.most:g} texts"
    problems = (None if field.item is None else field.item.problem(item) for item in value)
    found = next((problem for problem in problems if problem is not None), None)
    return None if found is None else f"of one of its texts, {found}"


_CHECKS = {
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
    "texts": _texts,
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
