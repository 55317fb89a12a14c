"""The approval hook that asks the person at the terminal about every kind of request.

The person may change the arguments of a call in an editor of their own, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from ..processes.commands import split_words
from ..protocol.canonical_json import NotJson
from ..runtime.callbacks import in_thread
from ..runtime.console import TRIES, Console, open_console, terminal, why_no_terminal
from ..runtime.console_layout import SHORT, WHOLE, Page, Row, prose
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object
from .decision import CHOICES, Allow, Answer, Deny
from .question import current_question, remembered_meanwhile
from .request import ApprovalRequest, Choice, Fact

__all__ = ["EditorFailed", "arguments_of", "ask_on_terminal", "draft_of", "editor", "everything"]
__all__ += ["question"]

_NO = "the person at the terminal denied it"
_LEFT = "the person at the terminal closed the question"
_LINES_BESIDE = 22
_BEGINNING_CHARS = 180
"""The characters of a question besides the arguments, which get the rest of the screen."""
_MAX_COMMAND_LINES = 3
"""The lines of a command that are repeated beside the question."""
_MAX_LINES = 200
"""Lines of a question that are shown at once."""
_END_SECONDS = 5.0
"""Seconds that an editor has to end once its question is withdrawn."""
_MAX_FILE_BYTES = 10_000_000
_MAX_VIEW_LINES = 2_000
"""Lines of a request in full that are shown at once."""
_KEYS: dict[str, Choice] = {
    "y": "once",
    "s": "session",
    "r": "script",
    "h": "hour",
    "a": "always",
    "x": "exact",
}
_OPTIONS = {
    "start": "confirm= to Host.from_config()",
    "sampling": "sampling_approval= to Handlers()",
}


async def ask_on_terminal(request: ApprovalRequest) -> Answer:
    """Ask the person at the terminal; without a terminal, refuse and state what to do.

    It decides tool calls, skills, starts of servers and uses of the host's model. The question is
    written to standard error and the response is read from standard input. The request's ``facts``
    are shown, shortened and made safe to display; those of a start are complete. The possible
    responses, each followed by Enter:

    - ``y`` allows this once; ``n`` or an empty line denies.
    - ``r`` allows until the script that makes the call ends, ``s`` until the session ends, ``h``
      for one hour, ``a`` always, ``x`` always for exactly these arguments: those that are among the
      request's ``choices``. The screen shows what each covers.
    - ``e`` opens the arguments of a call in $VISUAL or $EDITOR, and asks again about the result.
    - ``v`` shows everything and asks again; above 2,000 lines, each ``v`` shows a part.

    After any other response the question is asked again; the third time counts as a denial. Ctrl-C
    and Ctrl-D deny this request, and the program continues. A question is withdrawn when its time
    runs out or its call is cancelled. One dialogue is open at a time, including questions of
    servers and logins. See ``runtime.console`` for the terminal's part.
    """
    reason = why_no_terminal()
    if reason is not None:
        question = current_question.get()
        policy: Any = None if question is None else question.gate.policy
        if policy is not None and policy.ask is None and getattr(policy, "unmatched", None):
            denial: Deny = policy.unmatched(request)
            return denial
        option = _OPTIONS.get(request.kind, "approval= to connect()")
        return Deny(
            f"{reason}; pass {option}: a function that decides, or mcp_client.allow_all if "
            "everything may run",
            source="gate",
        )
    async with open_console() as console:
        decision = await remembered_meanwhile(request) if console.waited else None
        return decision or await _decided(console, request)


async def _decided(console: Console, request: ApprovalRequest) -> Answer:
    shown, tries, view = request, TRIES, Page(0)
    there = await _show(console, shown)
    while there and tries:
        word = await console.word(_prompt(shown))
        if word is None:
            break
        if word in _keys(shown):
            return _yes(shown, _KEYS[word])
        if word in ("", "n"):
            return Deny(_NO, source="person")
        if word == "e" and _can_edit(request) and _can_edit(shown):
            changed = await _edited(console, request, shown)
            if changed is None:
                break
            shown, view = changed, Page(0)
            there = await _show(console, shown)
        elif word == "v":
            view = await _view(console, shown, view)
            there = await _show(console, shown)
        else:
            tries -= 1
            console.say("That is not one of the choices." if tries else "That counts as no.")
    return Deny(_NO if there and not tries else _LEFT, source="person")


def _yes(request: ApprovalRequest, choice: Choice) -> Allow:
    if request.edited:
        return Allow(json.loads(request.arguments_json), source="person")
    return Allow(remember=CHOICES[choice].remember, source="person")


def _can_edit(request: ApprovalRequest) -> bool:
    return request.can_edit and editor() is not None


async def _show(console: Console, request: ApprovalRequest) -> bool:
    """The question; False where the person left it. A long one is shown part by part."""
    page = console.page()
    question(page, request, console.height)
    while len(page.lines) > _MAX_LINES:
        part = page.part(_MAX_LINES)
        part.say(f"Not all of it is shown yet: {len(page.lines):,} more lines.", indent=2)
        console.show(part)
        if await console.word("Show the rest? [Y/n] ") not in ("", "y"):
            return False
    console.show(page)
    return True


async def _view(console: Console, request: ApprovalRequest, view: Page) -> Page:
    """Show the next part of the request in full; ``view`` is what was left of it."""
    if not view.lines or view.columns != console.page().columns:
        view = console.page()
        await in_thread(everything, view, request)
    part = view.part(_MAX_VIEW_LINES)
    if view.lines:
        part.say(f"Not all of it is shown: v goes on, {len(view.lines):,} lines.", indent=2)
    console.show(part)
    return view


def _prompt(request: ApprovalRequest) -> str:
    yes, *further = _keys(request)
    keys = [yes, "N", *further, *("e" if _can_edit(request) else ""), "v"]
    return f"{request.prompt} [{'/'.join(keys)}] "


async def _edited(
    console: Console, call: ApprovalRequest, request: ApprovalRequest
) -> ApprovalRequest | None:
    """The call with the arguments as edited; as it was, where they cannot be used.

    None where the person left.
    """
    draft = draft_of(request.arguments_json)
    while True:
        try:
            with console.lent():
                draft = await _in_editor(editor() or [], draft)
            changed: ApprovalRequest = call.with_arguments(arguments_of(draft))
            return call if changed.arguments_json == call.arguments_json else changed
        except (NotJson, EditorFailed) as error:
            console.say(f"Rejected: {safe_text(error, 400)}")
        again = await console.word("Edit it again? [y/N] ")
        if again != "y":
            return None if again is None else request


# --------------------------------------------------------------------- what is shown


class _Room(NamedTuple):
    """The amount of facts of one kind that a question shows."""

    text: int
    """Characters of one."""
    lines: int
    facts: int = sys.maxsize
    last: bool = False
    """Whether the last of them are shown, where there are more; else the first."""


_ALL = _Room(sys.maxsize, sys.maxsize)
_ROOM = {
    "title": _Room(300, 4),
    "description": _Room(600, 6),
    "finding": _Room(600, 8, 12),
    "changes": _Room(4_000, 20),
    "script": _Room(8_000, 16),  # beside the line that calls, which is a fact
    "file": _Room(200, 3, 12),
    "tools": _Room(400, 4),
    "system_prompt": _Room(4_000, 12),
    "message": _Room(4_000, 12, 6, last=True),  # they are what the model is to answer
}
_LINES_BEFORE_CALL = 5
_SCRIPT_LINE_CHARS = 200
_ELSE = _Room(400, 4)
_ON_REQUEST = ("fingerprint", "request")
"""The facts that repeat others, or that are rarely needed."""
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_OWN_KINDS = (*_HINTS, "origin", "script_calls", "scope", "max_tokens")
"""Facts whose whole text is ours."""
_LAST = ("title", "description")
"""The facts at the end of a request in full, so that no description can hide them."""


def question(page: Page, request: ApprovalRequest, height: int = 24) -> None:
    """Write the question to ``page``: the facts that fit on a screen, and what was omitted.

    For a start, the complete command or URL comes first and is repeated beside the question.

    Args:
        page: The page to write to.
        request: The request to decide.
        height: The lines of the screen.
    """
    page.say()
    page.say(request.asks)
    facts = [fact for fact in request._question_facts() if fact.kind not in _ON_REQUEST]
    is_first = facts[-1].kind == "subject"
    above = len(page.lines)
    if is_first:
        _group(page, facts[-1:], _ALL, 0)
    is_long = len(page.lines) - above > max(_MAX_COMMAND_LINES, height // 8)
    for kind, some in groupby(facts[:-1] if is_first else facts, lambda fact: fact.kind):
        room = _ALL if request.kind == "start" else _ROOM.get(kind, _ELSE)
        _group(page, list(some), room, max(10, height - _LINES_BESIDE))
    if page.folded:
        page.say("Not all of it is shown: v shows the rest.", indent=2)
    _answers(page, request)
    if is_first and is_long:
        page.quote("It begins", prose(facts[-1].text, _BEGINNING_CHARS), 4)
    elif is_first:
        _group(page, facts[-1:], _ALL, 0)


def everything(page: Page, request: ApprovalRequest) -> None:
    """Return all facts, in full."""
    page.say()
    for fact in sorted(request.facts(), key=lambda fact: fact.kind in _LAST):
        _fact(page, fact, _ALL, 0)


def _answers(page: Page, request: ApprovalRequest) -> None:
    page.say("y  yes, this once          n  no          v  view all", indent=2)
    if _can_edit(request):
        page.say("e  edit the arguments first", indent=2)
    _, *further = _keys(request)
    for key in further:
        page.say(f"{key}  {CHOICES[_KEYS[key]].label}", indent=2)
    if further:
        widest = "a" if "a" in further else further[0]
        covered = request.coverage(CHOICES[_KEYS[widest]].remember)
        page.quote(f"{widest} covers", prose(covered, 1_000), 8)


def _keys(request: ApprovalRequest) -> list[str]:
    return [key for key, name in _KEYS.items() if name in request.choices()]


def _group(page: Page, facts: Sequence[Fact], room: _Room, height: int) -> None:
    """Facts of one kind."""
    left = len(facts) - room.facts
    more = f"{left:,} {'earlier' if room.last else 'more'}"
    if left > 0 and room.last:
        page.quote("", [Row(more, ours=True)], 1)
    for fact in facts[-room.facts :] if room.last else facts[: room.facts]:
        _fact(page, fact, room, height)
    if left > 0 and not room.last:
        page.quote("", [Row(more, ours=True)], 1)


def _fact(page: Page, fact: Fact, room: _Room, height: int) -> None:
    whole = room is _ALL
    if fact.is_json:
        lines = room.lines if whole else height if fact.kind == "arguments" else 6
        page.quote_json(fact.label, fact.text, WHOLE if whole else SHORT, lines)
    elif fact.kind in _OWN_KINDS:
        page.fact(fact.label, fact.text)
    elif fact.kind == "script" and not whole:
        page.quote(fact.label, _around_the_call(fact.text), room.lines)
    else:
        page.quote(fact.label, prose(fact.text, room.text), room.lines)


def _around_the_call(listing: str) -> Iterator[Row]:
    """The lines around the one that calls, which alone begins with a mark: see ``Script``."""
    lines = listing.split("\n")
    called = next((at for at, line in enumerate(lines) if line.startswith(">")), 0)
    start = max(0, called - _LINES_BEFORE_CALL)
    if start:
        yield Row(f"{start:,} lines above", ours=True)
    for line in lines[start:]:
        yield from prose(line, _SCRIPT_LINE_CHARS)


# ---------------------------------------------------------------------- the editor


class EditorFailed(Exception):
    """The edited text cannot be used as arguments; the message is safe to show."""


def editor() -> list[str] | None:
    """Return the command of $VISUAL or $EDITOR, split into words; None if neither is set."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return split_words(command) or None
    except ValueError:  # an open quotation mark
        return None


async def _in_editor(command: list[str], text: str) -> str:
    """Return ``text`` as the person edited it. Raises ``EditorFailed`` if the editor fails.

    Only the owner can read the file, and it is deleted afterwards. The editor is started directly,
    not through a shell.
    """
    with _file(text) as path:
        await _run([*command, str(path)])
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise EditorFailed(f"the file is larger than {_MAX_FILE_BYTES:,} bytes")
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EditorFailed(f"cannot read the file: {safe_text(error, 200)}") from None


def draft_of(text: str) -> str:
    """Return JSON ``text`` indented, with invisible characters as JSON escapes."""
    draft = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    if not draft.isascii():
        draft = "".join(char if _seen(char) else json.dumps(char)[1:-1] for char in draft)
    return draft + "\n"


def arguments_of(draft: str) -> dict[str, Any]:
    """Return the JSON object in ``draft``. Raises ``EditorFailed``."""
    try:
        return read_json_object(draft, max_depth=None)
    except ValueError as error:
        raise EditorFailed(safe_text(error, 200)) from None


@contextmanager
def _file(text: str) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mcp-") as directory:  # made with mode 0700
        path = Path(directory) / "arguments.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


async def _run(command: list[str]) -> None:
    # The editor draws on standard error, like the question: standard output may be a pipe.
    stdin, screen = (stream.fileno() for stream in terminal())
    try:
        process = await anyio.open_process(command, stdin=stdin, stdout=screen, stderr=screen)
    except OSError as error:
        raise EditorFailed(f"cannot start the editor {command[0]!r}: {error.strerror}") from None
    async with process:
        try:
            code = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                process.terminate()  # not kill: the editor restores the screen
            with anyio.move_on_after(_END_SECONDS, shield=True):
                await process.wait()
            raise
    if code:
        raise EditorFailed(f"the editor ended with status {code}, so nothing was changed")


def _seen(char: str) -> bool:
    return char.isascii() or safe_text(f"x{char}") == f"x{char}"
