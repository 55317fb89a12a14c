"""The traits of a tool's definition: its hints, audience, view and task support.

2025-11-25 ``server/tools`` (``annotations``, ``execution``) and 2026-01-26 ``apps`` (``_meta.ui``).
A member that breaks those pages is a finding, and is interpreted in the most restrictive way.
Clients MUST consider annotations untrusted unless they come from trusted servers; the defaults are
those of ``ToolAnnotations`` in the schema, the worst case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import invisible, safe_text
from .finding import Finding

__all__ = [
    "HINTS",
    "UI_KEYS",
    "WORST",
    "HintSource",
    "Hints",
    "TaskSupport",
    "ToolUi",
    "hint_findings",
    "hints_from",
    "task_support_of",
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
