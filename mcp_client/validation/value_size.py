"""The size of a JSON value, counted up to a limit.

It runs in this process and in the worker, and imports only the standard library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Size", "has_at_most", "size_of"]


class Size(NamedTuple):
    """The size of a value."""

    values: int
    """Itself and all values in it."""
    chars: int
    """The characters of its texts and names, and the digits of its numbers beyond a few."""
    longest_text: int


def has_at_most(value: Any, most: int) -> bool:
    """Whether there are at most ``most`` values in ``value``, itself included; stops when not."""
    waiting = [value]
    count = 1
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            count += len(one)
            if count > most:
                return False
            waiting += [item for item in one.values() if type(item) is dict or type(item) is list]
        elif type(one) is list:
            count += len(one)
            if count > most:
                return False
            waiting += [item for item in one if type(item) is dict or type(item) is list]
    return count <= most


def size_of(value: Any, most: int) -> Size | None:
    """The size of ``value``; None where there are more than ``most`` values in it."""
    values, chars, longest = 0, 0, 0
    waiting = [[value]]
    while waiting:
        one: Any = waiting.pop()
        values += len(one)
        if values > most:
            return None
        if type(one) is dict:
            for name in one:
                chars += len(name)
            one = one.values()
        for item in one:
            kind = type(item)
            if kind is str:
                size = len(item)
                chars += size
                if size > longest:
                    longest = size
            elif kind is dict or kind is list:
                waiting.append(item)
            elif kind is int:
                chars += item.bit_length() >> 2
    return Size(values, chars, longest)
