"""URI templates (RFC 6570): their variables, and their expansion with values.

All four levels, each operator of section 2.2: ``{x}``, ``{+x}``, ``{#x}``, ``{.x}``, ``{/x}``,
``{;x}``, ``{?x}`` and ``{&x}``, several names in one expression, ``{x:3}`` and ``{x*}``. Characters
that a URI must not have are percent-encoded in a literal; braces that do not match, invalid names
and modifiers, and the operators the RFC reserves raise ``BadTemplate``. The template is read once,
the result is checked once, and its length is limited.

One thing is stricter than the RFC: a value must not make ``.`` or ``..`` a segment of the path,
except in ``{+x}`` and ``{#x}``. Correctly encoded, it would still lead elsewhere when the URI is
resolved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["BadTemplate", "expand", "variables"]

_PARTS = re.compile(r"\{([^{}]*)\}|([^{}]+)|([{}])")
_VARCHAR = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_NAME = re.compile(rf"({_VARCHAR}+(?:\.{_VARCHAR}+)*)(\*|:[1-9][0-9]{{0,3}})?")
_TO_ENCODE = re.compile(r"[^A-Za-z0-9._~-]")
_TO_ENCODE_OR_TRIPLET = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]")
_DOT_SEGMENT = re.compile(r"(?<![^/])\.\.?(?![^/])")


class BadTemplate(ValueError):
    """The text is not a URI template; the message is the reason."""


class _Operator(NamedTuple):
    first: str
    between: str
    named: bool
    if_empty: str
    reserved: bool


_OPERATORS = {
    "": _Operator("", ",", False, "", False),
    "+": _Operator("", ",", False, "", True),
    "#": _Operator("#", ",", False, "", True),
    ".": _Operator(".", ".", False, "", False),
    "/": _Operator("/", "/", False, "", False),
    ";": _Operator(";", ";", True, "", False),
    "?": _Operator("?", "&", True, "=", False),
    "&": _Operator("&", "&", True, "=", False),
}


class _Variable(NamedTuple):
    name: str
    explode: bool
    prefix: int | None


def variables(template: str) -> tuple[str, ...]:
    """The names in the template, each once, in order. Raises ``BadTemplate``."""
    found: dict[str, None] = {}
    for _, expression in _parsed(template):
        if expression is not None:
            found.update((variable.name, None) for variable in expression[1])
    return tuple(found)


def expand(template: str, values: Mapping[str, Any], *, longest: int) -> str:
    """The template with its expressions replaced. What is missing or None is left out.

    Raises ``ValueError``: ``BadTemplate``, a value that cannot be one, or a result that has more
    than ``longest`` characters.
    """
    done: list[str] = []
    size, spans = 0, []
    for literal, expression in _parsed(template):
        if expression is None:
            pieces: Iterator[str] = iter((_encoded(literal, True),))
        else:
            pieces = _expanded(*expression, values)
        began = size
        for piece in pieces:
            done.append(piece)
            size += len(piece)
            if size > longest:
                raise ValueError(f"the URI would have more than {longest} characters")
        if expression is not None and not expression[0].reserved:
            spans.append((began, size))
    uri = "".join(done)
    _check_path(uri, spans)
    return uri


def _parsed(template: str) -> Iterator[tuple[str, tuple[_Operator, list[_Variable]] | None]]:
    for match in _PARTS.finditer(template):
        inside, literal, brace = match.groups()
        if brace:
            raise BadTemplate(f"the {brace} at {match.start()} has no counterpart")
        if literal is not None:
            if not literal.isprintable():
                raise BadTemplate("it has invisible characters")
            yield literal, None
        else:
            yield "", _expression(inside)


def _expression(inside: str) -> tuple[_Operator, list[_Variable]]:
    operator = _OPERATORS.get(inside[:1])
    names = inside if operator is None else inside[1:]
    found = []
    for name in names.split(","):
        match = _NAME.fullmatch(name)
        if match is None:
            raise BadTemplate(f"{('{' + inside[:40] + '}')!r} is not an expression of RFC 6570")
        modifier = match[2] or ""
        prefix = int(modifier[1:]) if modifier.startswith(":") else None
        found.append(_Variable(match[1], modifier == "*", prefix))
    return operator or _OPERATORS[""], found


def _expanded(
    operator: _Operator, names: list[_Variable], values: Mapping[str, Any]
) -> Iterator[str]:
    before = operator.first
    for variable in names:
        value = values.get(variable.name)
        if value is None or (isinstance(value, list | tuple | Mapping) and not value):
            continue
        for text in _items(operator, variable, value):
            yield before
            yield text
            before = operator.between


def _items(operator: _Operator, variable: _Variable, value: Any) -> Iterator[str]:
    """The expansion of one variable: one text, or one for each item where it is exploded."""
    name, pairs = variable.name, isinstance(value, Mapping)
    if not pairs and not isinstance(value, list | tuple):
        text = _text(name, value)[: variable.prefix]
        yield _with_name(operator, name, _encoded(text, operator.reserved))
        return
    if variable.prefix is not None:
        raise ValueError(f"{name!r} is cut to {variable.prefix} characters: give one string")

    def ready(item: Any) -> str:
        return _encoded(_text(name, item), operator.reserved)

    if not variable.explode:
        items = [x for pair in value.items() for x in pair] if pairs else value
        yield _with_name(operator, name, ",".join(map(ready, items)))
    elif pairs:
        for key, item in value.items():
            text = ready(item)
            yield f"{ready(key)}{'=' if text or not operator.named else operator.if_empty}{text}"
    else:
        for item in value:
            yield _with_name(operator, name, ready(item))


def _with_name(operator: _Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(
            f"{name!r} has a {type(value).__name__}: give strings, numbers, or a list or mapping "
            "of them"
        )
    return str(value)


def _encoded(text: str, reserved: bool) -> str:
    """``reserved``: whether reserved characters and percent-encoded triplets stay as they are."""
    try:
        return (_TO_ENCODE_OR_TRIPLET if reserved else _TO_ENCODE).sub(_percent, text)
    except UnicodeEncodeError:
        raise ValueError("a URI cannot have a lone surrogate") from None


def _percent(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 3:
        return found
    return "".join(f"%{byte:02X}" for byte in found.encode())


def _check_path(uri: str, spans: list[tuple[int, int]]) -> None:
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    at = 0
    for segment in _DOT_SEGMENT.finditer(path):
        while at < len(spans) and spans[at][1] <= segment.start():
            at += 1
        if at < len(spans) and spans[at][0] < segment.end():
            raise ValueError(
                f"a value makes {segment[0]!r} a segment of the path, which changes the path"
            )
