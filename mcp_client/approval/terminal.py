"""The approval hook that asks the person at the terminal."""

from __future__ import annotations

import json
import sys

from ..protocol.canonical_json import NotJson
from ..runtime.console import Console, open_console, why_no_terminal
from ..runtime.console_layout import SHORT, WHOLE, Page, Row, prose
from ..runtime.safe_text import safe_text
from .decision import Allow, Answer, Deny, Remember
from .editor import EditorFailed, arguments_of, draft_of, edited, editor
from .questions import in_thread, remembered_meanwhile
from .skill_request import SkillRequest
from .terminal_skill import decided_skill
from .tool_call import ToolCall
from .wording import HINTS, ORIGINS, SOURCES

__all__ = ["ask_on_terminal", "everything", "question"]

_TRIES = 3
_NO = "the person at the terminal said no"
_LEFT = "the person at the terminal closed the question"
_LINES_BESIDE = 22
"""That a question takes besides the arguments: what a screen has left is theirs."""
_MOST_NOTES = 12
_PART = 2_000
"""Lines of a call in full that are shown at once."""


async def ask_on_terminal(call: ToolCall | SkillRequest) -> Answer:
    """Ask the person at the terminal; without a terminal, refuse and say what to do.

    The question goes to standard error and the answer comes from standard input. Shown are server,
    tool, hints with where each comes from, the caller's ``_meta``, the arguments and the findings,
    bounded and made safe to look at. The answers, each ended by Enter:

    - ``y`` yes to this call, ``n`` or nothing: no.
    - ``s`` yes to this tool until the session ends, ``a`` always; ``s these``, ``a these`` only
      with exactly these arguments. See ``Remember``.
    - ``e`` opens the arguments in $VISUAL or $EDITOR; what comes back is asked about again.
    - ``v`` shows the call in full and asks again; above 2,000 lines, each ``v`` shows a part.

    For a skill that is to be loaded, its name, description, URI, files and findings are shown, and
    ``s`` and ``a`` are for exactly these files.

    After any other answer the question is asked again; the third time it means no. Ctrl-C and
    Ctrl-D mean no to this call, and the program continues. A question is withdrawn when its time
    runs out or its call is cancelled. One dialogue is open at a time, also with questions of
    servers and logins. See ``runtime.console`` for the terminal's part.
    """
    reason = why_no_terminal()
    if reason is not None:
        return Deny(
            f"{reason}; pass approval= to connect(): a function that decides, or "
            "mcp_client.allow_all if every call may run; to a policy, Rules(..., ask=function)",
            source="gate",
        )
    async with open_console() as console:
        answer = await remembered_meanwhile(call) if console.waited else None
        if answer is None and isinstance(call, SkillRequest):
            return await decided_skill(console, call, _NO, _LEFT)
        return answer or await _decided(console, call)  # type: ignore[arg-type]  # a call, then


async def _decided(console: Console, call: ToolCall) -> Answer:
    shown = call
    _show(console, shown)
    tries = _TRIES
    view = Page(0)
    while tries:
        answer = await console.ask(_prompt(shown))
        if answer is None:
            return Deny(_LEFT, source="person")
        match _words(answer):
            case "" | "n" | "no":
                return Deny(_NO, source="person")
            case "y" | "yes":
                return _yes(shown)
            case "s" | "a" | "s these" | "a these" as words if not shown.edited:
                return Allow(remember=_remembered(words), source="person")
            case "e" if editor() is not None:
                changed = await _edited(console, call, shown)
                if changed is None:
                    return Deny(_LEFT, source="person")
                shown, view = changed, Page(0)
                _show(console, shown)
            case "v":
                if not view.lines or view.columns != console.page().columns:
                    view = console.page()
                    await in_thread(everything, view, shown)
                part = view.part(_PART)
                if view.lines:
                    part.say(
                        f"Not all of it is shown: v goes on, {len(view.lines):,} lines.", indent=2
                    )
                console.show(part)
                _show(console, shown)
            case _:
                tries -= 1
                console.say("That is not one of the answers." if tries else "That counts as no.")
    return Deny(_NO, source="person")


def _yes(shown: ToolCall) -> Allow:
    if shown.edited:
        return Allow(json.loads(shown.arguments_json), source="person")
    return Allow(remember="call", source="person")


def _remembered(words: str) -> Remember:
    key, _, these = words.partition(" ")
    return Remember("session" if key == "s" else "always", exact=bool(these))


def _show(console: Console, call: ToolCall) -> None:
    page = console.page()
    question(page, call, console.height)
    page.say("y  yes, this once          n  no          v  view all", indent=2)
    if editor() is not None:
        page.say("e  edit the arguments first", indent=2)
    if not call.edited:
        page.say("s  yes to this tool until the session ends, whatever the arguments", indent=2)
        page.say(
            "a  the same, and for later sessions too where connect(answers=) keeps it", indent=2
        )
        page.say("s these, a these  the same, for exactly these arguments only", indent=2)
    console.show(page)


def _prompt(call: ToolCall) -> str:
    keys = ["y", "N", *(() if call.edited else "sa"), *("e" if editor() is not None else ""), "v"]
    return f"Run it? [{'/'.join(keys)}] "


async def _edited(console: Console, call: ToolCall, shown: ToolCall) -> ToolCall | None:
    """The call with the arguments as edited; as it was, where they cannot be used.

    None where the person left.
    """
    draft = draft_of(shown.arguments_json)
    while True:
        try:
            with console.lent():
                draft = await edited(editor() or [], draft)
            changed = call.with_arguments(arguments_of(draft))
            return call if changed.arguments_json == call.arguments_json else changed
        except (NotJson, EditorFailed) as error:
            console.say(f"Not taken: {safe_text(error, 400)}")
        again = await console.ask("Edit it again? [y/N] ")
        if again is None:
            return None
        if _words(again) not in ("y", "yes"):
            return shown


def _words(answer: str) -> str:
    return " ".join(answer.lower().split())


# --------------------------------------------------------------------- what is shown


def question(page: Page, call: ToolCall, height: int) -> None:
    """The question as it is asked: what fits on a screen, and what was left out."""
    page.say()
    page.say("May this tool run?")
    page.quote("Server", prose(call.server, 200), 3)
    page.quote("Tool", prose(call.tool.name, 200), 3)
    _origin(page, call)
    _what_it_says(page, call, 300, 4)
    _hints(page, call)
    if call.meta_json is not None:
        page.quote_json("Call's _meta", call.meta_json, SHORT, 6)
    most = max(10, height - _LINES_BESIDE)
    page.quote_json(_arguments(call), call.arguments_json, SHORT, most)
    _notes(page, call, 600, 8)
    if page.folded:
        page.say("Not all of it is shown: v shows the rest.", indent=2)


def everything(page: Page, call: ToolCall) -> None:
    """The call in full. The arguments come first, so that no description can put them off."""
    page.say()
    page.quote("Server", prose(call.server, sys.maxsize), sys.maxsize)
    page.quote("Tool", prose(call.tool.name, sys.maxsize), sys.maxsize)
    _origin(page, call)
    page.quote_json(_arguments(call), call.arguments_json, WHOLE, sys.maxsize)
    page.fact("", f"{len(call.arguments_json):,} characters as JSON; the call is {call.digest}")
    if call.meta_json is not None:
        page.quote_json("Call's _meta", call.meta_json, WHOLE, sys.maxsize)
    _notes(page, call, sys.maxsize, sys.maxsize, sys.maxsize)
    _what_it_says(page, call, sys.maxsize, sys.maxsize)
    page.quote_json("Input schema", json.dumps(call.tool.input_schema), WHOLE, sys.maxsize)
    page.fact("Fingerprint", call.tool.fingerprint)


def _origin(page: Page, call: ToolCall) -> None:
    if call.origin in ORIGINS:
        page.fact("Called by", ORIGINS[call.origin])


def _what_it_says(page: Page, call: ToolCall, text: int, lines: int) -> None:
    if call.tool.title:
        page.quote("Its title", prose(call.tool.title, text), lines)
    if call.tool.description:
        page.quote("It says", prose(call.tool.description, text), lines)


def _hints(page: Page, call: ToolCall) -> None:
    sources = call.hints.source
    for name, label in HINTS:
        value = "yes" if getattr(call.hints, name) else "no"
        page.fact(label, f"{value} ({SOURCES[sources[name]]})")


def _arguments(call: ToolCall) -> str:
    return "Your edit" if call.edited else "Arguments"


def _notes(page: Page, call: ToolCall, text: int, lines: int, notes: int = _MOST_NOTES) -> None:
    label = "Before edit" if call.edited else "Note"
    for finding in call.findings[:notes]:
        page.quote(label, prose(finding.text, text), lines)
    left = len(call.findings) - notes
    if left > 0:
        page.quote("", [Row(f"{left:,} more notes", ours=True)], 1)
