"""The approval hook that asks the person at the terminal."""

from __future__ import annotations

import json
from typing import Any

from ..catalog.tool import ToolCall
from ..protocol.canonical_json import NotJson
from ..runtime.console import Console, nobody_there, open_console
from ..runtime.safe_text import safe_text
from .call_summary import everything, question
from .editor import EditorFailed, arguments_of, draft_of, edited, editor
from .gate import Allow, Answer, Deny, Remember

__all__ = ["ask_on_terminal"]

_TRIES = 3
_NO = "the person at the terminal said no"
_LEFT = "the person at the terminal closed the question"


async def ask_on_terminal(call: ToolCall) -> Answer:
    """Ask the person at the terminal; without a terminal, refuse and say what to do.

    The question goes to standard error and the answer comes from standard input. Shown are server,
    tool, hints with where each comes from, the caller's ``_meta``, the arguments and the findings,
    bounded and made safe to look at. The answers, each ended by Enter:

    - ``y`` yes to this call, ``n`` or nothing: no.
    - ``s`` yes to this tool until the session ends, ``a`` always; ``s these``, ``a these`` only
      with exactly these arguments. See ``Remember``.
    - ``e`` opens the arguments in $VISUAL or $EDITOR; what comes back is asked about anew.
    - ``v`` shows all of it and asks again.

    Anything else is asked again, the third time it is no. Ctrl-C and Ctrl-D mean no to this call
    and the program goes on. A question whose time runs out, or whose call is cancelled, is
    withdrawn. One question is open at a time. See ``terminal.console`` for the terminal's part.
    """
    reason = nobody_there()
    if reason is not None:
        return Deny(
            f"{reason}; pass approval= to connect(): a function that decides, "
            "or mcp_client.allow_all if every call may run",
            source="gate",
        )
    async with open_console() as console:
        return await _decided(console, call)


async def _decided(console: Console, call: ToolCall) -> Answer:
    shown = call
    _show(console, shown)
    tries = _TRIES
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
                return Allow(remember=_remembered(words, call), source="person")
            case "e" if editor() is not None:
                changed = await _edited(console, call, shown)
                if changed is None:
                    return Deny(_LEFT, source="person")
                shown = changed
                _show(console, shown)
            case "v":
                page = console.page()
                everything(page, shown)
                console.show(page)
                _show(console, shown)
            case _:
                tries -= 1
                console.say("That is none of the answers." if tries else "So it is no.")
    return Deny(_NO, source="person")


def _yes(shown: ToolCall) -> Allow:
    if shown.edited:
        return Allow(json.loads(shown.arguments_json), source="person")
    return Allow(remember="call", source="person")


def _remembered(words: str, call: ToolCall) -> Remember:
    key, _, these = words.partition(" ")
    where: dict[str, Any] = {"": {"equals": json.loads(call.arguments_json)}}
    return Remember("session" if key == "s" else "always", where=where if these else None)


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
