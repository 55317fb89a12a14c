"""From what a person typed to the value of a form's field."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ..protocol.elicitation import FormField

__all__ = ["InputRejected", "Left", "shown_value", "typed_value"]


class Left(Exception):
    """The person closed the question."""


class InputRejected(Exception):
    """The person said no."""


def typed_value(field: FormField, line: str) -> Any:
    """The value that ``line`` means, judged; None where the field is left out.

    Raises ``ValueError`` with the reason where it does not fit, ``InputRejected`` for ``!n``. A
    text that starts with ``!`` is typed with two.
    """
    match line:
        case "!n":
            raise InputRejected
        case "" if field.default is not None:
            return field.default
        case "" | "!-":
            if field.required:
                raise ValueError("it is required")
            return None
        case "!e" if field.kind == "string":
            value: Any = ""
        case "!e" if field.kind == "choices":
            value = []
        case _ if line.startswith("!!"):
            value = _parsed(field, line[1:])
        case _ if line.startswith("!"):
            raise ValueError("what starts with ! is a command; a text that does takes two of them")
        case _:
            value = _parsed(field, line)
    problem = field.problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


def shown_value(field: FormField, value: Any) -> str:
    """A value as a person reads it, not yet made safe."""
    titles = {choice.value: choice.title for choice in field.choices}
    chosen = value if isinstance(value, list) else [value]
    words = [json.dumps(one, ensure_ascii=False) for one in chosen]
    if field.choices:
        words = [
            word if titles.get(one, one) == one else f"{titles[one]} = {word}"
            for one, word in zip(chosen, words, strict=True)
        ]
    return ", ".join(words) if words else "none of them"


def _parsed(field: FormField, line: str) -> Any:
    match field.kind:
        case "integer":
            if re.fullmatch(r"[+-]?[0-9]{1,400}", line) is None:
                raise ValueError("it is no whole number")
            return int(line)
        case "number":
            return _number(line)
        case "boolean":
            return _yes_or_no(line)
        case "choice":
            return _chosen(field, line)
        case "choices":
            chosen = [_chosen(field, word.strip()) for word in line.split(",")]
            return list(dict.fromkeys(chosen))
    return line


def _number(line: str) -> int | float:
    if re.fullmatch(r"[+-]?[0-9]{1,400}", line):
        return int(line)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", line[:400]) is None:
        raise ValueError("it is no number")
    value = float(line)
    if not math.isfinite(value):
        raise ValueError("it is too large")
    return value


def _yes_or_no(line: str) -> bool:
    match line.lower():
        case "y" | "yes" | "true":
            return True
        case "n" | "no" | "false":
            return False
    raise ValueError("answer yes or no")


def _chosen(field: FormField, word: str) -> str:
    """A choice by its number, which is ours and unambiguous; else by its value or title."""
    if word.isascii() and word.isdecimal():
        if 0 < int(word[:6]) <= len(field.choices):
            return field.choices[int(word[:6]) - 1].value
        raise ValueError(f"give a number from 1 to {len(field.choices)}")
    named = [c.value for c in field.choices if word == c.value]
    named = named or [c.value for c in field.choices if word == c.title]
    if len(named) != 1:
        raise ValueError("it is none of the choices")
    return named[0]
