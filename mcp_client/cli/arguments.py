"""``key=value`` words to the arguments of a tool, by the types of its schema.

- ``key=value``: text, or what the schema wants: a number, ``true``, a JSON array or object. Text
  stays text wherever the schema allows text. An array takes JSON, or the key repeated.
- ``key:=json``: exactly this JSON.
- ``@file`` and ``-``: a JSON object of a file or of standard input, whose members later words
  replace. ``key=@file`` is the text ``@file``: nothing is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..protocol import json_pointer
from ..runtime.safe_text import close_names, near, safe_text
from ..runtime.strict_json import read_json
from .exits import UsageError

__all__ = ["arguments_of", "check_names"]

_MOST_BYTES = 64 * 1024 * 1024
_DEEPEST = 128
_LONGEST_NUMBER = 400
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def arguments_of(
    words: Iterable[str], schema: Mapping[str, Any], read_stdin: Callable[[], str]
) -> dict[str, Any]:
    """The arguments that ``words`` say. Raises ``UsageError``, which names the word."""
    arguments: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for word in words:
        if word == "-":
            arguments.update(_object(read_stdin(), "standard input"))
            repeated.clear()
            continue
        if word.startswith("@"):
            arguments.update(_object(_text_of(word[1:]), word[1:]))
            repeated.clear()
            continue
        key, sign, value = _parts(word)
        its = _property(schema, key)
        if sign == ":=":
            arguments[key] = _json(value, word)
            repeated.pop(key, None)
        elif key in repeated and "array" in _kinds(its, schema):
            repeated[key].append(_item(its, schema, value, word))
            arguments[key] = list(repeated[key])
        else:
            arguments[key] = _coerced(its, schema, value, word)
            if "array" in _kinds(its, schema):
                found = arguments[key]
                repeated[key] = list(found) if isinstance(found, list) else [found]
    return arguments


def check_names(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """What looks like a slip in the names of arguments; None where nothing does.

    Raises ``UsageError`` where the schema allows no argument of that name, and where one that is
    required is missing beside it.
    """
    properties = schema.get("properties")
    names = list(properties) if isinstance(properties, Mapping) else []
    required = schema.get("required")
    missing = set(map(str, required if isinstance(required, list) else ())) - set(arguments)
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
            f"{safe_text(word, 80)!r} is not an argument: write key=value, key:=JSON, @file or -"
        )
    return match[1], match[2], word[match.end() :]


def _text_of(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"@{path}: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"@{path}: larger than {_MOST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"@{path}: not UTF-8") from None


def _object(text: str, where: str) -> dict[str, Any]:
    value = _json(text, where)
    if not isinstance(value, dict):
        raise UsageError(f"{where}: a JSON object of arguments is wanted")
    return value


def _json(text: str, where: str) -> Any:
    try:
        return read_json(text, max_depth=_DEEPEST)
    except ValueError as error:
        raise UsageError(f"{safe_text(where, 80)}: {error}") from None


def _property(schema: Mapping[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    found = properties.get(key) if isinstance(properties, Mapping) else None
    return found if found is not None else schema.get("additionalProperties")


def _kinds(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The types a schema allows, as far as that is plain; empty where anything goes."""
    if not isinstance(schema, Mapping) or depth > 8:
        return set()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        try:
            target = json_pointer.resolve(root, json_pointer.parse(reference[1:]))
        except (LookupError, ValueError, TypeError):
            return set()
        return _kinds(target, root, depth + 1)
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if isinstance(kind, str)}
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return set(map(_kind_of, values))
    found: set[str] = set()
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key) or () if isinstance(schema.get(key), list) else ():
            found |= _kinds(part, root, depth + 1)
    return found


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _coerced(schema: Any, root: Mapping[str, Any], value: str, word: str) -> Any:
    kinds = _kinds(schema, root)
    if not kinds or "string" in kinds:
        return value
    if "null" in kinds and value == "null":
        return None
    if "boolean" in kinds and value in ("true", "false"):
        return value == "true"
    if kinds & {"integer", "number"} and _NUMBER.fullmatch(value):
        number = _number(value, whole="integer" in kinds)
        if isinstance(number, int) or (number is not None and "number" in kinds):
            return number
    if "array" in kinds and value.startswith("["):
        found = _json(value, word)
        if isinstance(found, list):
            return found
    if "object" in kinds and value.startswith("{"):
        return _json(value, word)
    if "array" in kinds:
        return [_item(schema, root, value, word)]
    wanted = " or ".join(sorted(kinds))
    raise UsageError(
        f"{safe_text(word, 80)!r}: the tool wants {wanted} here; write key:=JSON to say it exactly"
    )


def _number(value: str, *, whole: bool) -> int | float | None:
    """None for what is larger than numbers are; 5.0 is 5 where a whole number is wanted."""
    if len(value) > _LONGEST_NUMBER:
        return None
    try:
        return int(value)
    except ValueError:
        number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if whole and number.is_integer() else number


def _item(schema: Any, root: Mapping[str, Any], value: str, word: str) -> Any:
    items = schema.get("items") if isinstance(schema, Mapping) else None
    return _coerced(items, root, value, word)
