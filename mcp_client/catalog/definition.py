"""A tool's definition: its hints, audience, view and task support, and the findings about it.

2025-11-25 ``server/tools`` (``annotations``, ``execution``) and 2026-01-26 ``apps`` (``_meta.ui``).
A member that breaks those pages is a finding, and is interpreted in the most restrictive way.
Clients MUST consider annotations untrusted unless they come from trusted servers. The defaults are
those of ``ToolAnnotations`` in the schema, the worst case.

Findings are hints, not proof. They name what has been used in attacks before:

- characters that a model reads and a person does not see
- escape sequences that a terminal obeys
- text that tries to instruct the model
- names that resemble other names

A tool without findings may be hostile, and one with findings harmless. Nothing is rejected for a
finding. Every sentence is safe to show: what it quotes went through ``safe_text``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import invisible, is_invisible, safe_text, with_plain_emoji
from ..validation.schema_shape import add_schema_texts
from ..validation.usable_schema import UsableSchema
from .finding import Finding, FindingKind

__all__ = [
    "HINTS",
    "UI_KEYS",
    "WORST",
    "HintSource",
    "Hints",
    "LookAlikes",
    "TaskSupport",
    "ToolUi",
    "definition_findings",
    "hint_findings",
    "hints_from",
    "name_findings",
    "ordinary_name",
    "schema_findings",
    "task_support_of",
    "text_findings",
    "trait_findings",
    "ui_of",
]

HintSource: TypeAlias = Literal["server", "assumed", "contradiction"]

_WIRE = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
HINTS = tuple(_WIRE.values())
UI_KEYS = ("ui", "ui/resourceUri")
"""The members of ``_meta`` that the extension for apps reads; the second is deprecated there."""
TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool of 2025-11-25 is called as a task."""

_SUPPORT = ("forbidden", "optional", "required")
_AUDIENCES = frozenset({"model", "app"})
_SCHEME = "ui://"
_MAX_URI_CHARS = 2_048


@frozen_dataclass
class Hints:
    """The hints of a tool, for policies and people.

    Only ``true`` or ``false`` from a trusted server counts; a missing hint is the worst case.
    ``said`` names the hints that the server set; the others are assumed. ``contradicted`` names
    hints that do not count, because they contradict each other.
    """

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    said: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()

    @property
    def source(self) -> dict[str, HintSource]:
        """The source of each value: "server", "assumed" or "contradiction".

        "server" is a hint of a trusted server. "assumed" is the worst case without such a hint.
        "contradiction" is the worst case because the hints contradict each other.
        """
        return {
            hint: "server"
            if hint in self.said
            else "contradiction"
            if hint in self.contradicted
            else "assumed"
            for hint in _WIRE
        }


WORST = Hints()
"""The worst case, assumed without a hint of a trusted server."""


def hints_from(annotations: Any, trusted: bool) -> Hints:
    """Return the server's hints if the host trusts it, else the worst case.

    Only JSON ``true`` and ``false`` are hints. If a tool is declared both read-only and
    destructive, none of its hints counts.
    """
    declared = _declared(annotations) if trusted else {}
    if not declared:
        return WORST
    if _contradicts(declared):
        return replace(WORST, contradicted=frozenset(declared))
    return Hints(
        read_only=declared.get("read_only", False),
        destructive=declared.get("destructive", not declared.get("read_only")),
        idempotent=declared.get("idempotent", False),
        open_world=declared.get("open_world", True),
        said=frozenset(declared),
    )


def hint_findings(annotations: Any, trusted: bool) -> list[Finding]:
    """Return the findings about annotations that count.

    An untrusted server's annotations must not change the handling of a call, in either direction.
    """
    if annotations is None or not trusted:
        return []
    if type(annotations) is not dict:
        text = "its annotations are not a JSON object and do not count"
        return [Finding("invalid_hints", text, "annotations")]
    found = [
        Finding("invalid_hints", f"its {hint} is neither true nor false and does not count", hint)
        for hint in HINTS
        if annotations.get(hint) is not None and type(annotations[hint]) is not bool
    ]
    if _contradicts(_declared(annotations)):
        text = "its annotations declare it both read-only and destructive: none of them counts"
        found.append(Finding("invalid_hints", text))
    return found


def _declared(annotations: Any) -> dict[str, bool]:
    if type(annotations) is not dict:
        return {}
    return {
        hint: annotations[name]
        for hint, name in _WIRE.items()
        if type(annotations.get(name)) is bool
    }


def _contradicts(declared: dict[str, bool]) -> bool:
    return bool(declared.get("read_only") and declared.get("destructive"))


# ------------------------------------------------------------------ view and task


@frozen_dataclass
class ToolUi:
    """The view of a tool (MCP Apps): its URI, and who may call the tool."""

    uri: str | None
    """The ``ui://`` resource to show with the tool's results; None where it names none."""
    visibility: frozenset[str] = _AUDIENCES
    """The permitted callers of the tool: "model", "app", both, or none."""


def ui_of(definition: Mapping[str, Any]) -> ToolUi | None:
    """Return the view of a tool; None if its ``_meta`` has no valid one."""
    meta = definition.get("_meta")
    if type(meta) is not dict:
        return None
    flat, ui = meta.get(UI_KEYS[1]), meta.get(UI_KEYS[0])
    if type(ui) is not dict:
        return ToolUi(_usable(flat)) if flat is not None else None
    uri = ui.get("resourceUri")
    return ToolUi(_usable(flat if uri is None else uri), _audiences(ui))


def task_support_of(definition: Mapping[str, Any]) -> TaskSupport:
    """Return ``execution.taskSupport``; "forbidden" if it is absent or unknown."""
    execution = definition.get("execution")
    support = execution.get("taskSupport") if type(execution) is dict else None
    if support == "required":
        return "required"
    return "optional" if support == "optional" else "forbidden"


def trait_findings(definition: Mapping[str, Any]) -> list[Finding]:
    """Return the findings about these members."""
    found: list[Finding] = []
    meta = definition.get("_meta")
    if type(meta) is dict:
        found += _ui_findings(meta)
    execution = definition.get("execution")
    if execution is not None:
        support = execution.get("taskSupport") if type(execution) is dict else ""
        if support is not None and support not in _SUPPORT:
            text = "its execution.taskSupport is unknown: it is not called as a task"
            found.append(Finding("invalid_metadata", text, "execution.taskSupport"))
    return found


def _ui_findings(meta: Mapping[str, Any]) -> list[Finding]:
    found: list[Finding] = []

    def add(text: str, about: str) -> None:
        found.append(Finding("invalid_metadata", text, about))

    ui, flat = meta.get(UI_KEYS[0]), meta.get(UI_KEYS[1])
    uri = None
    if type(ui) is dict:
        uri = ui.get("resourceUri")
        if not _audiences(ui):
            text = "its _meta.ui.visibility names neither model nor app: nothing may call it"
            add(text, "_meta.ui.visibility")
        elif not _is_known(ui.get("visibility")):
            add("its _meta.ui.visibility names others than model and app", "_meta.ui.visibility")
    elif ui is not None:
        add("its _meta.ui is not a JSON object and does not count", "_meta.ui")
    if flat is not None and uri is not None and flat != uri:
        text = "its _meta names two views: _meta.ui counts, and the deprecated key does not"
        add(text, UI_KEYS[1])
    chosen = flat if uri is None else uri
    if chosen is not None and _usable(chosen) is None:
        quoted = f": {safe_text(chosen, 80)!r}" if type(chosen) is str else ""
        add(f"its view is not a ui:// resource and is not shown{quoted}", "_meta.ui.resourceUri")
    return found


def _audiences(ui: Mapping[str, Any]) -> frozenset[str]:
    visibility = ui.get("visibility")
    if visibility is None:
        return _AUDIENCES
    if type(visibility) is not list:
        return frozenset()
    return frozenset(name for name in visibility if name in ("model", "app"))


def _is_known(visibility: object) -> bool:
    return visibility is None or (
        type(visibility) is list and all(name in ("model", "app") for name in visibility)
    )


def _usable(uri: object) -> str | None:
    """Return ``uri`` if it can be the URI of a view."""
    if type(uri) is not str or not uri.startswith(_SCHEME) or len(uri) > _MAX_URI_CHARS:
        return None
    if uri == _SCHEME or any(char.isspace() for char in uri) or invisible(uri):
        return None
    return uri


# ---------------------------------------------------------------- texts and names

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
