"""Requests that are the same but for what a record leaves out.

``[redacted]`` in a record stands for any value, or for any text within a string. Which of them
were equal is told by numbers in the order of their first appearance, and nothing else is: a digest,
keyed or not, would let whoever has the file try every PIN there is. So a replay takes the first
value that it is given for each number to be the one that was meant, and then that value alone.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["LEFT_OUT", "SecretNumbers", "captured", "matchable", "text_of"]

LEFT_OUT = "[redacted]"


def matchable(shown: Any, value: Any) -> Any:
    """``shown``, which is ``value`` without secrets, so that ``captured`` matches it with
    ``value``: where their shapes differ, all is left out."""
    if isinstance(shown, dict) and isinstance(value, dict) and shown.keys() == value.keys():
        return {key: matchable(item, value[key]) for key, item in shown.items()}
    if isinstance(shown, list) and isinstance(value, list) and len(shown) == len(value):
        return [matchable(*pair) for pair in zip(shown, value, strict=True)]
    return LEFT_OUT if captured(shown, value) is None else shown


def captured(shown: Any, value: Any) -> list[str] | None:
    """What stands in ``value`` where ``shown`` leaves something out, each as a text; None where
    the two differ elsewhere."""
    if shown == LEFT_OUT:
        return [text_of(value)]
    if type(shown) is not type(value):
        return None
    if isinstance(shown, str):
        return _captured_in_text(shown, value)
    if isinstance(shown, dict):
        if shown.keys() != value.keys():
            return None
        pairs = [(item, value[key]) for key, item in shown.items()]
    elif isinstance(shown, list):
        if len(shown) != len(value):
            return None
        pairs = list(zip(shown, value, strict=True))
    else:
        return [] if shown == value else None
    found: list[str] = []
    for pair in pairs:
        inner = captured(*pair)
        if inner is None:
            return None
        found += inner
    return found


def text_of(value: Any) -> str:
    """The same for values that are equal as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _captured_in_text(shown: str, text: str) -> list[str] | None:
    first, *rest = shown.split(LEFT_OUT)
    if not rest:
        return [] if shown == text else None
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last):
        return None
    at, end, found = len(first), len(text) - len(last), list[str]()
    for part in middle:  # the leftmost place of each is right if any is
        start = text.find(part, at + 1, end) if part else at + 1
        if not 0 <= start <= end:
            return None
        found.append(text[at:start])
        at = start + len(part)
    return [*found, text[at:end]] if at < end else None


class SecretNumbers:
    """Which value each number of a record stands for: in the record, or in a replay of it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._values: dict[int, str] = {}

    def of(self, values: list[str]) -> list[int]:
        """The numbers of ``values``; a new value gets the next number."""
        return [self._numbers.setdefault(value, len(self._numbers) + 1) for value in values]

    def fits(self, numbers: list[int], values: list[str]) -> bool:
        """Whether ``values`` may be those that ``numbers`` stand for."""
        if len(numbers) != len(values):
            return False
        pairs = dict[int, str](self._values)
        known = dict(self._numbers)
        for number, value in zip(numbers, values, strict=True):
            if value in (LEFT_OUT, f'"{LEFT_OUT}"'):  # as a replayed result said it
                continue
            if pairs.setdefault(number, value) != value:
                return False
            if known.setdefault(value, number) != number:
                return False
        return True

    def bind(self, numbers: list[int], values: list[str]) -> None:
        """``numbers`` stand for ``values`` from now on."""
        for number, value in zip(numbers, values, strict=True):
            if value not in (LEFT_OUT, f'"{LEFT_OUT}"'):
                self._values[number] = value
                self._numbers[value] = number
