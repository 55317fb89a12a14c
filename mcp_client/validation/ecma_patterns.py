r"""Translate regular expressions of ECMA-262, which JSON Schema uses, for Python's ``re``.

The two languages share most of their syntax and differ in detail: the meaning of ``$``, ``\d``,
``\w``, ``\b`` and ``.``, ``\p{...}``, ``\u{...}``, ``\cA``, ``[^]``, ``(?<name>...)``, ``\k<name>``
and back-references to groups that did not participate. ``translate`` parses a pattern as ECMA-262
with the flag ``u`` does, but as leniently as without, and writes an equivalent for ``re``. Syntax
that only Python and Rust have, and that has no other meaning in ECMA-262, does not change: ``\A``,
``\Z``, ``(?P<name>...)``, ``(?i)``.

``Untranslatable`` is raised for constructs that ``re`` lacks, such as the scripts of Unicode. No
pattern is compiled here: it is parsed again by ``re`` itself, in linear time.

ECMA-262 "RegExp (Regular Expression) Objects"; JSON Schema 2020-12 core, section 6.4.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

from .code_points import ANY, Ranges, complement, is_property, merged, of_property

__all__ = ["Untranslatable", "check_syntax", "translate"]

_MAX_DEPTH = 100
_DIGITS: Ranges = [(48, 57)]
_WORDS: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
_SPACES: Ranges = [
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
]
_LINE_ENDS: Ranges = [(10, 10), (13, 13), (0x2028, 0x2029)]
_CLASSES = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_WORD = "[0-9A-Z_a-z]"
_BOUNDARIES = {
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
    "A": r"\A",
    "Z": r"\Z",
    "z": r"\Z",
}
_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(?:(,)(\d*))?\}|\{(,)(\d+)\}")
_GROUP_NAME = re.compile(r"<([^<>\s]{1,200})>")
_HEX = {"x": re.compile(r"[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}")}
_CODE_POINT = re.compile(r"\{0*([0-9A-Fa-f]{1,6})\}")
_PROPERTY = re.compile(r"\{\^?(?:[A-Za-z_]+=)?[A-Za-z0-9_]{1,60}\}|[LMNPSZC]")
_PLAIN = re.compile(r"[A-Za-z0-9_ ,:;=@%!'\"<>]+(?![*+?{])")
"""Literals that are the same in both languages, without one that is repeated."""
_PLAIN_SET = re.compile(r"\[\^?(?:a-[fz]|A-[FZ]|0-9|[A-Za-z0-9_ ,:;=@%!'\"<>.+*?$()/])+\]")
_SPECIAL = frozenset("\\.^$*+?{}[]|()-&~#/ ")
_WARNED_OF = re.compile(r"--|&&|\|\||~~|\[\^?\[")
"""The sequences in a set of characters for which ``re`` warns."""
_SMALL_RANGE = 16
"""The size of ranges beyond ASCII that are written as single characters.

``known_cost`` supports single characters there, and not ranges.
"""

_Atom: TypeAlias = "int | Ranges"


class Untranslatable(Exception):
    """The pattern cannot be written for ``re``; the text is the reason."""

    is_of_syntax = True
    """Whether it is not of ECMA-262; else ``re`` has nothing that means the same."""


class _Inexpressible(Untranslatable):
    is_of_syntax = False


def translate(source: str, *, whole: bool = True) -> str:
    """Return ``source`` as a pattern for ``re``. Raises ``Untranslatable``.

    Without ``whole``, each property of Unicode is written as one character: to find out whether a
    pattern can be translated, without the tables that take milliseconds to make.
    """
    found = _translated(source, whole)
    if isinstance(found, Untranslatable):
        raise found
    return found


@lru_cache(maxsize=4096)
def _translated(source: str, whole: bool) -> str | Untranslatable:
    try:
        text = _Translator(source, whole).pattern()
        if whole and (short := _translated(source, False)) != text:
            return short if isinstance(short, Untranslatable) else text  # too long to parse again
        if "{" in text or "(?" in text:
            check_syntax(text)
        return text
    except Untranslatable as error:
        if not error.is_of_syntax or _WARNED_OF.search(source):
            return error
        try:
            check_syntax(source)  # what ECMA-262 does not know may be Python's own
        except Untranslatable:
            return error
        return source


def check_syntax(text: str) -> None:
    """Raise ``Untranslatable`` for a pattern that ``re`` would not compile."""
    try:
        _check_look_behinds(import_module("re._parser").parse(text))
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise Untranslatable(str(error)) from None
    except (ImportError, AttributeError):
        pass  # not a documented module: then it is found out when it is compiled


def _check_look_behinds(tree: Any) -> None:
    waiting = [tree]
    while waiting:
        for operator, argument in waiting.pop():
            if str(operator) in ("ASSERT", "ASSERT_NOT") and argument[0] < 0:
                low, high = argument[1].getwidth()
                if low != high:
                    raise Untranslatable("a look-behind without a fixed width")
            waiting += _inner(argument)


def _inner(argument: Any) -> list[Any]:
    """The patterns within an argument of a node."""
    if hasattr(argument, "getwidth"):
        return [argument]
    if isinstance(argument, (tuple, list)):
        return [tree for item in argument for tree in _inner(item)]
    return []


class _Translator:
    """A recursive descent over one pattern."""

    def __init__(self, source: str, whole: bool) -> None:
        self._source = source
        self._whole = whole
        self._at = 0
        self._depth = 0
        self._closed: set[int] = set()
        """The groups that have ended."""
        self._groups = 0
        self._repeated: set[int] = set()
        """The groups within a repetition: ECMA-262 resets them each time, Python does not."""
        self._referred: set[int] = set()
        self._named, self._total = _groups_of(source)

    def pattern(self) -> str:
        flags = ""
        if self._source.startswith("(?i)"):  # which Python and Rust have
            flags, self._at = "(?i)", 4
        text = flags + self._alternatives()
        if self._at < len(self._source):
            raise Untranslatable("an unmatched ')'")
        if self._referred & self._repeated:
            raise _Inexpressible("a reference to a group that is repeated")
        return text

    def _alternatives(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Inexpressible("too many nested groups")
        branches = [""]
        while self._at < len(self._source) and self._source[self._at] != ")":
            if self._source[self._at] == "|":
                self._at += 1
                branches.append("")
            elif plain := _PLAIN.match(self._source, self._at):
                self._at = plain.end()
                branches[-1] += plain[0]
            else:
                branches[-1] += self._term()
        self._depth -= 1
        return "|".join(branches)

    def _term(self) -> str:
        before = self._groups
        text, may_repeat = self._atom()
        quantifier = _QUANTIFIER.match(self._source, self._at)
        if quantifier is None:
            return text
        if not may_repeat:
            raise Untranslatable("a quantifier without anything to repeat")
        self._at = quantifier.end()
        low, comma, high, no_low, only_high = quantifier.groups()
        if (low or no_low) and quantifier[0] not in ("{1}", "{0,1}", "{0}"):
            text_of = f"{{{low or '0'}{comma or no_low or ''}{high or only_high or ''}}}"
        else:
            text_of = quantifier[0]
        if quantifier[0] not in ("?", "{1}", "{0,1}", "{0}"):
            self._repeated |= set(range(before + 2, self._groups + 1))
            if not text.startswith("(") or text.startswith("(?"):
                self._repeated |= set(range(before + 1, self._groups + 1))
        if self._source[self._at : self._at + 1] in ("?", "+"):
            text_of += self._source[self._at]  # lazy, or possessive as Python has it
            self._at += 1
        return text + text_of

    def _atom(self) -> tuple[str, bool]:
        """Return the atom at the position, and whether it may be repeated."""
        char = self._source[self._at]
        self._at += 1
        match char:
            case "^":
                return "^", False
            case "$":
                return r"\Z", False
            case ".":
                return _class(_LINE_ENDS, negated=True), True
            case "(":
                return self._group()
            case "[":
                plain = _PLAIN_SET.match(self._source, self._at - 1)
                if plain is None:
                    return self._set(), True
                self._at = plain.end()
                return plain[0], True
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise Untranslatable("a quantifier without anything to repeat")
            case "{" if _QUANTIFIER.match(self._source, self._at - 1):
                raise Untranslatable("a quantifier without anything to repeat")
        return _literal(ord(char)), True

    # ------------------------------------------------------------------ groups

    def _group(self) -> tuple[str, bool]:
        source, at = self._source, self._at
        number, opening = 0, "("
        if source.startswith(("?:", "?=", "?!", "?>"), at):
            opening, self._at = f"({source[at : at + 2]}", at + 2
        elif source.startswith(("?<=", "?<!"), at):
            opening, self._at = f"({source[at : at + 3]}", at + 3
        elif source.startswith("?i:", at):
            opening, self._at = "(?i:", at + 3
        elif source.startswith("?P=", at):
            end = source.find(")", at)
            if end < 0:
                raise Untranslatable("an unterminated group")
            self._at = end + 1
            return self._reference(self._number(source[at + 3 : end])), True
        else:
            if source.startswith("?", at):
                name = _GROUP_NAME.match(source, at + 1 + source.startswith("?P", at))
                if name is None:
                    raise Untranslatable("an unknown kind of group")
                self._at = name.end()
            self._groups += 1
            number = self._groups
        inner = self._alternatives()
        if self._at >= len(source):
            raise Untranslatable("an unterminated group")
        self._at += 1
        if number:
            self._closed.add(number)
        return f"{opening}{inner})", not opening.startswith(("(?=", "(?!", "(?<"))

    def _number(self, name: str) -> int:
        if name not in self._named:
            raise Untranslatable("a reference to a group that does not exist")
        return self._named[name]

    def _reference(self, number: int) -> str:
        """Return a pattern for a back-reference; empty if the group did not participate."""
        if number not in self._closed:
            return "(?:)"  # it has not ended yet, and so took no part
        self._referred.add(number)
        return f"(?:(?({number})\\{number}))"

    # ----------------------------------------------------------------- escapes

    def _escape(self) -> tuple[str, bool]:
        source, at = self._source, self._at
        char = source[at : at + 1]
        if char in _BOUNDARIES and char:
            self._at += 1
            return _BOUNDARIES[char], False
        if char == "k" and self._named:
            name = _GROUP_NAME.match(source, at + 1)
            if name is None:
                raise Untranslatable("'\\k' without a name")
            self._at = name.end()
            return self._reference(self._number(name[1])), True
        if char in "123456789" and char:
            digits = re.compile(r"\d{1,3}").match(source, at)
            assert digits is not None
            if int(digits[0]) > self._total:
                raise Untranslatable("a reference to a group that does not exist")
            self._at = digits.end()
            return self._reference(int(digits[0])), True
        found = self._escaped()
        if isinstance(found, int):
            return _literal(found), True
        if char in ("S", "D", "W"):
            return _class(_CLASSES[char.lower()], negated=True), True
        return _class(found), True

    def _escaped(self) -> _Atom:
        """Return the character, or the characters, of an escape, in a set or outside."""
        source, at = self._source, self._at
        char = source[at : at + 1]
        self._at += 1
        if not char:
            raise Untranslatable("a '\\' at the end")
        if char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return complement(ranges) if char.isupper() else ranges
        if char in "pP":
            return self._property(negated=char == "P")
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not source[at + 1 : at + 2].isdigit():
            return 0
        if char == "c":
            letter = source[at + 1 : at + 2]
            if not (letter.isascii() and letter.isalpha()):
                raise Untranslatable("'\\c' without a letter")
            self._at += 1
            return ord(letter) % 32
        if char == "u":
            point = _CODE_POINT.match(source, at + 1)
            if point is not None and int(point[1], 16) <= 0x10FFFF:
                self._at = point.end()
                return int(point[1], 16)
        if char in _HEX:
            digits = _HEX[char].match(source, at + 1)
            if digits is not None:
                self._at = digits.end()
                return self._with_low_surrogate(int(digits[0], 16))
        if char.isdigit() or (char.isascii() and char.isalpha() and char not in "xuk"):
            raise Untranslatable(f"an unknown escape '\\{char}'")
        return ord(char)

    def _with_low_surrogate(self, high: int) -> int:
        """Return the character of two escapes, as in UTF-16; else the first alone."""
        source, at = self._source, self._at
        if 0xD800 <= high < 0xDC00 and source.startswith("\\u", at):
            digits = _HEX["u"].match(source, at + 2)
            low = int(digits[0], 16) if digits else 0
            if digits and 0xDC00 <= low < 0xE000:
                self._at = digits.end()
                return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        return high

    def _property(self, negated: bool) -> Ranges:
        found = _PROPERTY.match(self._source, self._at)
        if found is None:
            raise _Inexpressible("'\\p' without a property")
        self._at = found.end()
        name = found[0].strip("{}")
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if not is_property(name):
            raise _Inexpressible(f"the property '{name}' of Unicode")
        ranges = of_property(name) if self._whole else [(0x100, 0x100)]
        return complement(ranges) if negated else ranges

    # -------------------------------------------------------------------- sets

    def _set(self) -> str:
        source = self._source
        negated = source.startswith("^", self._at)
        self._at += negated
        found: Ranges = []
        while source[self._at : self._at + 1] != "]":
            low = self._member()
            if source.startswith("-", self._at) and source[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._member()
                if isinstance(low, int) and isinstance(high, int):
                    if low > high:
                        raise Untranslatable("a range that is out of order")
                    found.append((low, high))
                    continue
                # Beside a class such as "\w" the "-" is itself.
                found += [(45, 45), *_ranges(high)]
            found += _ranges(low)
        self._at += 1
        if not found:
            return _class(ANY) if negated else "(?!)"
        return _class(merged(found), negated)

    def _member(self) -> _Atom:
        char = self._source[self._at : self._at + 1]
        self._at += 1
        if not char:
            raise Untranslatable("an unterminated character set")
        if char != "\\":
            if char == "[" and self._source.startswith(":", self._at):
                raise _Inexpressible("a class of POSIX")
            return ord(char)
        if self._source.startswith("b", self._at):
            self._at += 1
            return 8
        return self._escaped()


def _groups_of(source: str) -> tuple[dict[str, int], int]:
    """The numbers of the groups of ``source`` that have names, and how many groups there are."""
    named: dict[str, int] = {}
    count, at, in_set = 0, 0, False
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char == "(":
            name = None
            if source.startswith(("?<", "?P<"), at + 1):
                name = _GROUP_NAME.match(source, at + 2 + source.startswith("?P", at + 1))
            if name is not None and not source.startswith(("?<=", "?<!"), at + 1):
                if name[1] in named:
                    raise Untranslatable("two groups with the same name")
                count += 1
                named[name[1]] = count
            elif not source.startswith("?", at + 1):
                count += 1
        at += 1
    return named, count


def _ranges(atom: _Atom) -> Ranges:
    return [(atom, atom)] if isinstance(atom, int) else atom


def _literal(point: int) -> str:
    char = chr(point)
    return "\\" + char if char in _SPECIAL else char


def _class(ranges: Ranges, negated: bool = False) -> str:
    inner = ""
    for low, high in ranges:
        if high - low < 2 or (low > 127 and high - low < _SMALL_RANGE):
            inner += "".join([_literal(point) for point in range(low, high + 1)])
        else:
            inner += f"{_literal(low)}-{_literal(high)}"
    return f"[{'^' if negated else ''}{inner}]"
