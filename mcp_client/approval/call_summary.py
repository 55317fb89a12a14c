"""What a person is shown of a call before they say yes or no."""

from __future__ import annotations

import json

from ..catalog.tool import ToolCall
from ..runtime.console_layout import SHORT, WHOLE, Page, Row, prose

__all__ = ["everything", "question"]

_HINTS = (
    ("read_only", "Read-only"),
    ("destructive", "Destructive"),
    ("idempotent", "Repeatable"),
    ("open_world", "Reaches out"),
)
_SOURCES = {
    "server": "the server's word, which you trust",
    "assumed": "assumed, nobody trusted says",
    "contradiction": "assumed, the server contradicts itself",
}
_LINES_BESIDE = 22
"""That a question takes besides the arguments: what a screen has left is theirs."""
_MOST_NOTES = 12


def question(page: Page, call: ToolCall, height: int) -> None:
    """The question as it is asked: what fits on a screen, and what was left out."""
    page.say()
    page.say("May this tool run?")
    _who(page, call, 300, 4)
    _hints(page, call)
    if call.meta_json is not None:
        page.quote_json("Call's _meta", call.meta_json, SHORT, 6)
    most = max(10, height - _LINES_BESIDE)
    page.quote_json(_arguments(call), call.arguments_json, SHORT, most)
    _notes(page, call, 600, 8)
    if page.folded:
        page.say("Not all of it is shown: v shows the rest.", indent=2)


def everything(page: Page, call: ToolCall) -> None:
    """All there is to see, up to what would flood the screen."""
    page.say()
    _who(page, call, 20_000, 400)
    schema = json.dumps(call.tool.input_schema)
    page.quote_json("Input schema", schema, WHOLE, 400)
    page.fact("Fingerprint", call.tool.fingerprint)
    if call.meta_json is not None:
        page.quote_json("Call's _meta", call.meta_json, WHOLE, 400)
    page.quote_json(_arguments(call), call.arguments_json, WHOLE, 2_000)
    page.fact("", f"{len(call.arguments_json):,} characters as JSON; the call is {call.digest}")
    _notes(page, call, 20_000, 400)


def _who(page: Page, call: ToolCall, text: int, lines: int) -> None:
    page.quote("Server", prose(call.server, 200), 3)
    page.quote("Tool", prose(call.tool.name, 200), 3)
    if call.tool.title:
        page.quote("Its title", prose(call.tool.title, text), lines)
    if call.tool.description:
        page.quote("It says", prose(call.tool.description, text), lines)


def _hints(page: Page, call: ToolCall) -> None:
    sources = call.hints.source
    for name, label in _HINTS:
        value = "yes" if getattr(call.hints, name) else "no"
        page.fact(label, f"{value} ({_SOURCES[sources[name]]})")


def _arguments(call: ToolCall) -> str:
    return "Your edit" if call.edited else "Arguments"


def _notes(page: Page, call: ToolCall, text: int, lines: int) -> None:
    label = "Before edit" if call.edited else "Note"
    for finding in call.findings[:_MOST_NOTES]:
        page.quote(label, prose(finding, text), lines)
    left = len(call.findings) - _MOST_NOTES
    if left > 0:
        page.quote("", [Row(f"{left:,} more notes", ours=True)], 1)
