"""The hook for ``Host.from_config(confirm=...)`` that asks the person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from ..errors import StartDenied
from ..runtime.console import Console, open_console, why_no_terminal
from ..runtime.console_layout import Page, Row
from .start_request import StartRequest

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
    if request.command is not None:
        page.say("May this program be started? It runs on this machine with all of your rights.")
    else:
        page.say("May this server be connected to?")
    page.quote("Server", _whole(request.server), sys.maxsize)
    page.quote("From", _whole(str(request.path)), sys.maxsize)
    if request.scope == "project":
        page.fact("", "a file that may have come with a project, not your own settings")
    _values(page, "Variables", request.env_names, request.env)
    if request.env_file is not None:
        page.quote("some from", _whole(request.env_file), sys.maxsize)
    _values(page, "Headers", request.header_names, request.headers)
    for name, places in request.variables.items():
        page.quote("Puts in", _whole(f"{name} -> {', '.join(places)}"), sys.maxsize)
    for warning in request.warnings:
        page.quote("Warning", _whole(warning), sys.maxsize)
    if request.command is not None:
        page.quote("In folder", _whole(request.cwd or ""), sys.maxsize)
        page.quote("Command", _whole(request.command), sys.maxsize)
        for number, word in enumerate(request.args, 1):
            page.quote(f"Argument {number}", _whole(word), sys.maxsize)
    if request.url is not None:
        page.quote("URL", _whole(request.url), sys.maxsize)


def _values(page: Page, label: str, names: Iterable[str], values: Mapping[str, str]) -> None:
    unknown = ", ".join(name for name in names if name not in values)
    if unknown:
        page.quote(label, _whole(unknown), sys.maxsize)
    for name, value in values.items():
        page.quote(label, _whole(f"{name}={value}"), sys.maxsize)


def _whole(text: str) -> list[Row]:
    return [Row(text)]  # one row, so that a line feed in it is shown as one
