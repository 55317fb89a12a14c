"""What a definition says of how a tool may be used: by whom, with what view, and as a task.

2026-01-26 ``apps`` (``_meta.ui``) and 2025-11-25 ``server/tools`` (``execution``). A member that is
not what those pages say is a finding, and is read in the way that permits least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import invisible, safe_text
from .finding import Finding
from .fingerprint import UI_KEYS

__all__ = ["TaskSupport", "ToolUi", "task_support_of", "trait_findings", "ui_of"]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool of 2025-11-25 is called as a task."""

_SUPPORT = ("forbidden", "optional", "required")
_AUDIENCES = frozenset({"model", "app"})
_SCHEME = "ui://"
_LONGEST_URI = 2_048
_MOST_AUDIENCES = 32


@frozen_dataclass
class ToolUi:
    """What a tool says of its view (MCP Apps): which one it has, and who may call it."""

    uri: str | None
    """The ``ui://`` resource to show with the tool's results; None where it names none."""
    visibility: frozenset[str] = _AUDIENCES
    """Who may call the tool: "model", "app", both, or with an empty set neither."""


def ui_of(definition: Mapping[str, Any]) -> ToolUi | None:
    """The view of a tool; None where its ``_meta`` says nothing of one that can be read."""
    meta = definition.get("_meta")
    if type(meta) is not dict:
        return None
    flat, ui = meta.get(UI_KEYS[1]), meta.get(UI_KEYS[0])
    if type(ui) is not dict:
        return ToolUi(_usable(flat)) if flat is not None else None
    uri = ui.get("resourceUri")
    return ToolUi(_usable(flat if uri is None else uri), _audiences(ui))


def task_support_of(definition: Mapping[str, Any]) -> TaskSupport:
    """``execution.taskSupport``; "forbidden" where it is absent or unknown."""
    execution = definition.get("execution")
    support = execution.get("taskSupport") if type(execution) is dict else None
    if support == "required":
        return "required"
    return "optional" if support == "optional" else "forbidden"


def trait_findings(definition: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with these members."""
    found: list[Finding] = []
    meta = definition.get("_meta")
    if type(meta) is dict:
        found += _ui_findings(meta)
    execution = definition.get("execution")
    if execution is not None:
        support = execution.get("taskSupport", "forbidden") if type(execution) is dict else None
        if support not in _SUPPORT:
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
    return frozenset(name for name in visibility[:_MOST_AUDIENCES] if name in ("model", "app"))


def _is_known(visibility: object) -> bool:
    return visibility is None or (
        type(visibility) is list and all(name in ("model", "app") for name in visibility)
    )


def _usable(uri: object) -> str | None:
    """``uri``, if it can be one of a view."""
    if type(uri) is not str or not uri.startswith(_SCHEME) or len(uri) > _LONGEST_URI:
        return None
    if uri == _SCHEME or any(char.isspace() for char in uri) or invisible(uri):
        return None
    return uri
