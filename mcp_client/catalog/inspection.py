"""Findings: what a person should look at before trusting a tool.

Findings are hints, not proof. They name what has been used in attacks before:

- characters that a model reads and a person does not see
- escape sequences that a terminal obeys
- text that tries to instruct the model
- names that resemble other names

A tool without findings may be hostile, and one with findings harmless. Nothing is rejected for a
finding.

Every sentence is safe to show: what it quotes went through ``safe_text``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..runtime.safe_text import is_invisible, safe_text, with_plain_emoji
from ..validation.schema_shape import add_schema_texts
from ..validation.usable_schema import UsableSchema
from .finding import Finding, FindingKind

__all__ = [
    "LookAlikes",
    "definition_findings",
    "name_findings",
    "ordinary_name",
    "schema_findings",
    "text_findings",
]

MAX_TEXT_CHARS = 8_000
"""The length of a text in characters, above which a note reports it."""
MAX_TEXTS_CHARS = 40_000
"""Characters of all texts of one tool, likewise."""
ordinary_name: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}").fullmatch
"""Return whether a name follows the rules of 2026-07-28 ``server/tools`` for tool names."""
_KINDS = (
    (range(0xE0000, 0xE0080), "tag characters"),
    (range(0x202A, 0x202F), "bidirectional controls"),
    (range(0x2066, 0x206A), "bidirectional controls"),
    (range(0x200E, 0x2010), "bidirectional controls"),
    (range(0x061C, 0x061D), "bidirectional controls"),
    (range(0x200B, 0x200E), "zero-width characters"),
    (range(0x2060, 0x2065), "zero-width characters"),
    (range(0xFEFF, 0xFF00), "zero-width characters"),
    (range(0xFE00, 0xFE10), "variation selectors"),
    (range(0xE0100, 0xE01F0), "variation selectors"),
    (range(0x0080, 0x00A0), "control characters"),
    (range(0x0020), "control characters"),
    (range(0x007F, 0x0080), "control characters"),
)
_ESCAPES = re.compile(r"\x1b|\x9b")
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_SEEN = frozenset("\n\t\r\x1b\x9b")
_MAX_INSPECTED_CHARS = 100_000
"""Characters of one tool's texts that are inspected. If there are more, that is a finding."""
_SUSPECT = re.compile(r"[^\n\t\r -~]")


def definition_findings(
    definition: Mapping[str, Any], name: str, looks_like: str | None
) -> list[Finding]:
    """Return the findings about the definition of one tool, in bounded time.

    ``looks_like`` is the name of another tool of the list that this one can be mistaken for.
    """
    texts: list[str] = []
    found: list[Finding] = []
    for member in ("inputSchema", "outputSchema"):
        schema = definition.get(member)
        if schema is not None:
            add_schema_texts(schema, texts)
    texts += [text for text in map(definition.get, ("title", "description")) if type(text) is str]
    found += text_findings(texts)
    found += name_findings(name)
    if looks_like is not None:
        other = safe_text(looks_like, 128)
        found.append(Finding("look_alike", f"its name can be taken for that of '{other}'", other))
    return found


def name_findings(name: str) -> list[Finding]:
    """Return the findings about a usable name."""
    if ordinary_name(name):
        return []
    if len(name) > 128:
        text = f"its name has {len(name)} characters; a tool's name should have at most 128"
    else:
        odd = safe_text("".join(dict.fromkeys(c for c in name if not ordinary_name(c))), 40)
        text = f"its name has characters that a tool's name should not have: {odd!r}"
    return [Finding("odd_name", text)]


def text_findings(texts: Sequence[str]) -> list[Finding]:
    """Return the findings about the texts of one tool: title, descriptions, names of parameters."""
    whole = "\n".join(texts)
    length = len(whole)
    whole = whole[:_MAX_INSPECTED_CHARS]
    plain = whole.replace("\n", "").isprintable() if whole.isascii() else not _SUSPECT.search(whole)
    found = [] if plain else _controls(whole, texts)
    if length > _MAX_INSPECTED_CHARS:
        text = f"its texts have {length} characters: not all of them were inspected"
        found.append(Finding("long_text", text, "not inspected"))
    elif length > MAX_TEXT_CHARS:
        longest = max(map(len, texts))
        if longest > MAX_TEXT_CHARS:
            text = f"one of its texts has {longest} characters"
            found.append(Finding("long_text", text, note=True))
        elif length > MAX_TEXTS_CHARS:
            text = f"its texts have {length} characters in all"
            found.append(Finding("long_text", text, "in all", note=True))
    return found + _orders(texts)


def _controls(whole: str, texts: Sequence[str]) -> list[Finding]:
    found = []
    if _ESCAPES.search(whole):
        text = "its text has terminal escape sequences, which draw instead of being read"
        found.append(Finding("escape_sequences", text))
    times = Counter(with_plain_emoji(whole))
    hidden = {c: _kind(c) for c in times if c not in _SEEN and is_invisible(c)}
    counts: dict[str, int] = {}
    for char, kind in hidden.items():
        counts[kind] = counts.get(kind, 0) + times[char]
    places: dict[str, str] = {}
    for text in texts:
        for char in hidden.keys() & with_plain_emoji(text):
            places.setdefault(hidden[char], text)
        if len(places) == len(counts):
            break
    for kind, count in counts.items():
        spelled = _smuggled(whole) if kind == "tag characters" else ""
        place = f"in '{safe_text(places[kind], 80)}'"
        message = f"its text has {count} {kind}, which a model reads and a person does not see, "
        found.append(Finding("hidden_text", f"{message}{place}{spelled}", f"{kind} {place}"))
    return found


def _smuggled(whole: str) -> str:
    """Return the text that tag characters spell: each encodes an ASCII character."""
    tags = _TAGS.findall(whole)
    spelled = "".join(chr(ord(char) - 0xE0000) for char in tags[:200])
    return f"; they spell '{safe_text(spelled, 120)}'" if spelled else ""


def _kind(char: str) -> str:
    point = ord(char)
    return next((kind for points, kind in _KINDS if point in points), "invisible characters")


def _orders(texts: Sequence[str]) -> list[Finding]:
    from .orders import order_in  # its many patterns are compiled for the first text

    left = _MAX_INSPECTED_CHARS
    for text in texts:
        if left <= 0:
            break
        order = order_in(text[:left])
        left -= len(text)
        if order is not None:
            quoted = safe_text(order, 100)
            text = f"its text seems to instruct the model: '{quoted}'"
            return [Finding("orders_to_model", text, quoted)]
    return []


# ------------------------------------------------------------------ look-alikes

_TWINS: Mapping[int, Any] = str.maketrans(
    # Cyrillic, Greek and others, each above the Latin letter that it looks like.
    "аеорсухіјѕһԁԛԝвкмнтгпЅІЈАВЕКМНОРСТХУαενορτυικγχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡʟօս０１Iℓ|10",  # noqa: RUF001
    "aeopcyxijshdqwbkmhtrnSIJABEKMHOPCTXYaevoptuikyxABEZHIKMNOPTYXiagLouolllllo",
)


_ASCII_LOOKS = bytes(
    ord(chr(code).translate(_TWINS).translate(_TWINS).lower().replace("-", "_"))
    for code in range(128)
) + bytes(range(128, 256))
_MAX_COMPARED_CHARS = 256
"""Characters of a name that are compared."""


def _look(name: str) -> bytes:
    """Return bytes that are equal for names that look alike."""
    name = name[:_MAX_COMPARED_CHARS]
    if not name.isascii():
        name = unicodedata.normalize("NFKD", name)
        name = "".join(c for c in name if not unicodedata.combining(c) and not is_invisible(c))
        name = name.translate(_TWINS).translate(_TWINS).lower()
    return name.encode("utf-8", "surrogatepass").translate(_ASCII_LOOKS)


class LookAlikes:
    """Finds names in a list that a person can take for one another.

    They differ only by case, by a hyphen for an underscore, or by letters that look the same.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, str] = {}
        self.found: dict[str, str] = {}
        """Another added name that each name can be taken for."""

    def add(self, names: Sequence[str]) -> None:
        """Add the names of a list."""
        for name in names:
            other = self._first.setdefault(_look(name), name)
            if other != name:
                self.found[name] = other
                self.found.setdefault(other, name)


# ---------------------------------------------------------------- its schemas


_MAX_UNCHECKED = 4
_UNCHECKED: dict[str, tuple[FindingKind, str]] = {
    "inputSchema": ("unchecked_arguments", "the server checks its own arguments"),
    "outputSchema": ("unchecked_result", "results are not checked against it"),
}


def schema_findings(member: str, usable: UsableSchema) -> list[Finding]:
    """Return the notes about one schema, which is ``member`` of a tool's definition.

    All are notes: the server could also have sent a schema with fewer constraints.
    """
    found: list[Finding] = []
    kind, instead = _UNCHECKED[member]
    if usable.unknown_dialect:
        text = f"its {member} is in a dialect that cannot be checked: '{usable.unknown_dialect}'"
        found.append(Finding("unknown_dialect", text, member, note=True))
    if usable.mixed:
        text = (
            f"its {member} names 2020-12 and is written as in an older dialect, by which it is "
            f"checked: {_listed(usable.mixed)}"
        )
        found.append(Finding("unknown_dialect", text, f"{member} mixed", note=True))
    if usable.skipped:
        if member == "outputSchema" and not usable.is_broken:
            instead = "the rest is checked"
        text = f"part of its {member} cannot be checked, and {instead}: {_listed(usable.skipped)}"
        found.append(Finding(kind, text, member, note=True))
    return found


def _listed(texts: tuple[str, ...]) -> str:
    more = len(texts) - _MAX_UNCHECKED
    return "; ".join([*texts[:_MAX_UNCHECKED], *([f"{more} more"] if more > 0 else [])])
