"""The hook for ``Host.from_config(confirm=...)`` that asks the person at the terminal."""

from __future__ import annotations

import sys

from ..approval.start_request import StartRequest
from ..errors import StartDenied
from ..runtime.console import Console, open_console, why_no_terminal
from ..runtime.console_layout import Page, Row

__all__ = ["confirm_on_terminal"]

_TRIES = 3
_LONG = 200
"""Lines of a question that are shown at once; more are shown part by part, and all of them."""


async def confirm_on_terminal(request: StartRequest) -> bool:
    """Ask the person at the terminal whether a server from a config file may be started.

    Shown, whole and made safe to look at, are its variables and headers, what is put in from
    outside the file, the warnings, the folder, and last the command and every argument.
    The answers, ended by Enter: ``y`` or ``yes``; anything else three times, nothing, ``n``, Ctrl-C
    and Ctrl-D mean no. Without a terminal the answer is no, and the server's status says so.
    """
    reason = why_no_terminal()
    if reason is not None:
        raise StartDenied(
            f"the server was not started: {reason}; give Host.from_config(confirm=...) another "
            "function",
            server=request.server,
            reason=reason,
            source="gate",
        )
    async with open_console() as console:
        return await _answer(console, request)


async def _answer(console: Console, request: StartRequest) -> bool:
    page = console.page()
    question(page, request)
    while len(page.lines) > _LONG:
        part = page.part(_LONG)
        part.say(f"Not all of it is shown yet: {len(page.lines):,} more lines.", indent=2)
        console.show(part)
        again = await console.ask("Show the rest? [Y/n] ")
        if again is None or again.strip().lower() not in ("", "y", "yes"):
            return False
    console.show(page)
    for left in range(_TRIES, 0, -1):
        answer = await console.ask("Start it? [y/N] " if request.command else "Connect? [y/N] ")
        match "" if answer is None else answer.strip().lower():
            case "y" | "yes":
                return True
            case "" | "n" | "no":
                return False
        console.say("Answer y or n." if left > 1 else "That counts as no.")
    return False


def question(page: Page, request: StartRequest) -> None:
    """The command or URL stands last, beside the question, whatever the file has of the rest."""
    page.say()
    page.say(request.asks)
    for fact in request.facts():  # one row each, so that a line feed in it is shown as one
        page.quote(fact.label, [Row(fact.text)], sys.maxsize)
