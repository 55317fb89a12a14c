"""Write Python source out of any texts: names, literals, types, docstrings.

No text given here can become code: names have only ASCII letters, digits and underscores, and the
rest is escaped. The source is formatted as by ``ruff format``.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .safe_text import safe_text

__all__ = ["ANY", "MAX_NAME_CHARS", "Names", "PythonType", "docstring", "quoted", "union"]

_LINE_CHARS = 88
MAX_NAME_CHARS = 36
"""Characters of a name: so that a line with two of them still fits."""
_MAX_BASE_CHARS = MAX_NAME_CHARS - 4
"""The characters of a name without the number that distinguishes it from another."""
_MAX_TEXT_CHARS = 2_000


class Names:
    """Legal, different names for texts that may be anything, and none that is ``reserved``."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)
        self._numbers: dict[str, int] = {}
        """The last number that a name got, of those that must not be equal to another."""

    def variable(self, text: str, most: int = _MAX_BASE_CHARS) -> str:
        """Return a name of a variable, of ``most`` characters besides its number."""
        words = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text))
        return self._free(words.strip("_").lower() or "value", "arg_", most)

    def type(self, *texts: str) -> str:
        """Return a name of all ``texts``, or of the last ones if it would be too long."""
        each = [_words(text) for text in texts]
        names = ["".join(word for words in each[n:] for word in words) for n in range(len(each))]
        names = names or [""]
        short = [name for name in names if name and len(name) <= _MAX_BASE_CHARS]
        free = (name for name in short if name not in self._taken and not name[0].isdigit())
        best = next(free, short[0] if short else _cut(each[-1] if each else []) or names[0])
        return self._free(best or "Value", "T")

    def _free(self, name: str, prefix: str, most: int = _MAX_BASE_CHARS) -> str:
        if name[0].isdigit():
            name = prefix + name
        base = name = name[:most]
        number = self._numbers.get(base, 1)
        while name in self._taken or keyword.iskeyword(name):
            number += 1
            name = base + "_" if number == 2 and base not in self._taken else f"{base}_{number}"
        self._numbers[base] = number
        self._taken.add(name)
        return name


def _words(text: str) -> list[str]:
    return [word[0].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", text) if word]


def _cut(words: Sequence[str]) -> str:
    """Return as many of ``words`` as fit."""
    name = ""
    for word in words:
        if len(name) + len(word) > _MAX_BASE_CHARS:
            break
        name += word
    return name


@dataclass(frozen=True, slots=True)
class PythonType:
    """A type as it is written: a name, or a subscript of one (``Union[int, str]``)."""

    name: str
    parts: tuple[PythonType | str, ...] = ()
    """Types, or the literals of ``Literal``."""

    def __str__(self) -> str:
        parts = [str(part) for part in self.parts]
        if self.name == "Union":
            return " | ".join(parts)
        return f"{self.name}[{', '.join(parts)}]" if parts else self.name

    def names(self) -> set[str]:
        """Return the names that it is written with, in one line."""
        inner = (part.names() for part in self.parts if isinstance(part, PythonType))
        return ({self.name} - {"Union"}).union(*inner)

    def lines(self, indent: int, before: int, after: int, used: set[str] | None = None) -> str:
        """Written out from column ``indent + before``, with ``after`` columns to follow.

        Adds the names that it is written with to ``used``.
        """
        used = set() if used is None else used
        flat = str(self)
        if not self.parts or indent + before + len(flat) + after <= _LINE_CHARS:
            used |= self.names()
            return flat
        used.add(self.name)
        inner = indent + 4
        comma = "," if len(self.parts) > 1 else ""
        written = [
            part.lines(inner, 0, len(comma), used) if isinstance(part, PythonType) else part
            for part in self.parts
        ]
        body = "".join(f"{' ' * inner}{text}{comma}\n" for text in written)
        return f"{self.name}[\n{body}{' ' * indent}]"


ANY = PythonType("Any")


def union(options: Sequence[PythonType]) -> PythonType:
    """Return the union of ``options``, each of them once."""
    flat: dict[str, PythonType] = {}
    for one in options:
        for part in one.parts if one.name == "Union" else (one,):
            assert isinstance(part, PythonType)
            flat.setdefault(str(part), part)
    if not flat or "Any" in flat:
        return ANY
    return (
        next(iter(flat.values())) if len(flat) == 1 else PythonType("Union", tuple(flat.values()))
    )


def quoted(text: str) -> str:
    """Return a string literal that ``ruff format`` leaves as it is, whatever the text."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if " " <= char <= "~" and char not in '"\\':
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def docstring(text: str, indent: int) -> str:
    """Return a docstring that holds ``text``, made safe to show, and nothing but it."""
    safe = safe_text(text.replace("\t", "    "), _MAX_TEXT_CHARS, lines=True)
    lines: list[str] = []
    for line in safe.strip().splitlines():
        lines += textwrap.wrap(line, _LINE_CHARS - indent - 3) or [""]
    lines = [_within_quotes(line) for line in lines] or ["No description."]
    lines[1:] = textwrap.dedent("\n".join(lines[1:])).split("\n") if lines[1:] else []
    margin = " " * indent
    if len(lines) == 1:
        return f'{margin}"""{lines[0]}"""'
    body = "\n".join(f"{margin}{line}".rstrip() for line in lines[1:])
    return f'{margin}"""{lines[0]}\n{body}\n{margin}"""'


def _within_quotes(line: str) -> str:
    return line.rstrip().replace("\\", "\\\\").replace('"', "'")
