"""Sets of Unicode characters, as ranges of code points, and those that have a property.

General categories are those of this Python's ``unicodedata``. Scripts are not known: Python has no
table of them. It imports nothing but the standard library.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from functools import lru_cache
from typing import TypeAlias

__all__ = ["ANY", "Ranges", "complement", "is_property", "merged", "of_property"]

Ranges: TypeAlias = list[tuple[int, int]]
"""Sorted, and none touches the next."""
ANY: Ranges = [(0, sys.maxunicode)]
_FIRST_PLANES = range(0x34000)
"""The planes in which characters are assigned one by one."""
_TAGS = range(0xE0000, 0xE1000)
_PRIVATE = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_LONG_NAMES = {
    "Letter": "L",
    "Cased_Letter": "LC",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Mark": "M",
    "Combining_Mark": "M",
    "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Punctuation": "P",
    "punct": "P",
    "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe",
    "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po",
    "Symbol": "S",
    "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk",
    "Other_Symbol": "So",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp",
    "Other": "C",
    "Control": "Cc",
    "cntrl": "Cc",
    "Format": "Cf",
    "Surrogate": "Cs",
    "Private_Use": "Co",
    "Unassigned": "Cn",
}
_CATEGORIES = frozenset(_LONG_NAMES.values())
_FIXED: dict[str, Ranges] = {
    "Any": ANY,
    "ASCII": [(0, 127)],
    "ASCII_Hex_Digit": [(48, 57), (65, 70), (97, 102)],
}
_FIXED["AHex"] = _FIXED["ASCII_Hex_Digit"]


def is_property(name: str) -> bool:
    """Whether ``of_property`` knows ``name``."""
    return _category(name) is not None or name in _FIXED or name == "Assigned"


def of_property(name: str) -> Ranges:
    r"""Return the characters of a property as ``\p{...}`` names it: "L", "Lu", "gc=Letter", "Any".

    The first use takes some 20 milliseconds.
    """
    if name in _FIXED:
        return _FIXED[name]
    if name == "Assigned":
        return complement(_by_category()["Cn"])
    category = _category(name)
    assert category is not None
    wanted = ("Lu", "Ll", "Lt") if category == "LC" else (category,)
    found = _by_category().items()
    return merged([each for key, ranges in found if key.startswith(wanted) for each in ranges])


def _category(name: str) -> str | None:
    head, equals, value = name.rpartition("=")
    if equals and head not in ("gc", "General_Category"):
        return None
    value = _LONG_NAMES.get(value, value)
    return value if value in _CATEGORIES else None


@lru_cache(maxsize=1)
def _by_category() -> dict[str, Ranges]:
    found: dict[str, Ranges] = {"Cn": [], "Co": list(_PRIVATE)}
    for points in (_FIRST_PLANES, _TAGS):
        start = points.start
        for category, group in itertools.groupby(map(unicodedata.category, map(chr, points))):
            end = start + sum(1 for _ in group)
            found.setdefault(category, []).append((start, end - 1))
            start = end
    unassigned = [(_FIRST_PLANES.stop, _TAGS.start - 1), (_TAGS.stop, _PRIVATE[0][0] - 1)]
    unassigned += [(0xFFFFE, 0xFFFFF), (0x10FFFE, 0x10FFFF)]
    found["Cn"] = merged([*found["Cn"], *unassigned])
    return found


def merged(ranges: Ranges) -> Ranges:
    """Return the characters of ``ranges``, which may overlap, in any order."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def complement(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    found, start = [], 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, sys.maxunicode)] if start <= sys.maxunicode else found
