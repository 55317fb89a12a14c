"""The elicitation handler that asks the person at the terminal.

Every text of the server is shown quoted and without links; see ``runtime.console_layout``.
"""

from __future__ import annotations

import json
import logging
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, TypeAlias

from ..protocol.elicitation import FormField
from ..protocol.uris import NotOpenable
from ..runtime.console import Console, open_console, why_no_terminal
from ..runtime.console_layout import Page, Row, prose
from ..runtime.daemon_thread import run_in_thread
from ..runtime.safe_text import safe_text
from .handlers import Accept, Cancel, Decline, ElicitRequest

__all__ = ["elicit_on_terminal", "typed_value"]

Outcome: TypeAlias = Accept | Decline | Cancel

_MAX_CHOICES = 30
_SECRET = re.compile(
    r"pass ?(word|wd|phrase|code)|secret|token|credential|api ?key|private ?key|access ?key|"
    r"\bpin\b|\botp\b|\b2fa\b|one time|cvv|cvc|(credit|debit) ?card|card ?number|iban|seed ?phrase"
)
_log = logging.getLogger("mcp_client")


class DialogClosed(Exception):
    """The person closed the dialog."""


class Declined(Exception):
    """The person declined."""


async def elicit_on_terminal(request: ElicitRequest) -> Outcome:
    """Ask the person at the terminal for a server: ``Handlers(elicitation=...)``.

    The dialog names the server. A form is filled in field by field. Each value is checked, and
    requested again with the reason if it is not valid; all values are shown before they are sent. A
    URL is shown completely, with its host and anything suspicious in it. It is opened in a browser
    (``webbrowser``) only after consent, and never fetched. "n" declines. Ctrl-C, Ctrl-D and a
    request that the server withdraws cancel, and so does a missing terminal. 2025-11-25 and
    2026-07-28 ``client/elicitation``.
    """
    reason = why_no_terminal()
    if reason is not None:
        _log.warning("%s: a request for input was cancelled: %s", request.server, reason)
        return Cancel()
    async with open_console() as console:
        try:
            return await (_url if request.mode == "url" else _form)(console, request)
        except DialogClosed:
            return Cancel()
        except Declined:
            return Decline()


# ----------------------------------------------------------------------------------- a URL


async def _url(console: Console, request: ElicitRequest) -> Outcome:
    import webbrowser

    url = request.url or ""
    try:
        host, warnings = request.host or "", request.warnings
    except NotOpenable as error:
        console.say(f"{safe_text(request.server, 80)} wants a page opened, but {error}.")
        return Cancel()
    page = _first_page(console, request, "A server asks you to open a page in your browser.")
    page.quote("The URL", [Row(url)], 400)
    page.quote("leads to", [Row(host)], 20)
    if host.count(".") > 1:
        page.fact("", "Its end says whose it is, not its beginning.")
    for warning in warnings:
        page.quote("WARNING", prose(warning, 400), 4)
    page.say(
        "Nothing was opened or looked at yet. What you do there, this program does not see.", 2
    )
    console.show(page)
    await _confirm(console, "Open it? [y/N] ")
    try:
        with console.lent():  # the browser may be one that runs in this terminal
            opened = await run_in_thread(webbrowser.open, url, abandon_on_cancel=True)
    except Exception:  # noqa: BLE001 - whatever was raised, no page was opened
        opened = False
    if not opened:
        console.say("No browser could be started: open the URL yourself.")
        await _confirm(console, "Did you? [y/N] ")
    return Accept()


async def _confirm(console: Console, prompt: str) -> None:
    agrees = await console.agrees(prompt)
    if not agrees:
        raise DialogClosed if agrees is None else Declined


# ---------------------------------------------------------------------------------- a form


async def _form(console: Console, request: ElicitRequest) -> Outcome:
    fields = request.fields
    page = _first_page(console, request, _title(len(fields)))
    for number, field in enumerate(fields[:_MAX_CHOICES], 1):
        page.quote(f"Field {number}", [Row(_without_links(field.title or field.name))], 2)
    if len(fields) > _MAX_CHOICES:
        page.fact("", f"and {len(fields) - _MAX_CHOICES:,} more")
    if any(_asks_for_secret(text) for text in _texts(request)):
        page.say("WARNING: this looks like a request for a secret. Servers must not ask for", 2)
        page.say("passwords, keys or card numbers in a form: what you type goes to the server.", 2)
    page.say("Answer with n to decline, with Ctrl-C to put it off.", 2)
    console.show(page)
    await _confirm(console, "Fill it in? [y/N] " if fields else "Agree? [y/N] ")
    content: dict[str, Any] = {}
    for number, field in enumerate(fields, 1):
        await _fill(console, request, field, f"{number}/{len(fields)}", content)
    if fields:
        await _review(console, request, content)
    return Accept(content, fill=False)


def _title(count: int) -> str:
    if not count:
        return "A server asks for your consent."
    return f"A server asks for information, in {count} field{'s' if count > 1 else ''}."


async def _fill(
    console: Console,
    request: ElicitRequest,
    field: FormField,
    position: str,
    content: dict[str, Any],
) -> None:
    """Ask for one field until its value is valid, and put it into ``content``, or leave it out."""
    _show_field(console, field, position)
    while True:
        line = await _line(console, f"{position}> ")
        if line == "!v":
            _show_field(console, field, position, whole=True)
            continue
        try:
            value = typed_value(field, line)
        except ValueError as error:
            console.say(f"Rejected: {error}")
            continue
        if value is None:
            content.pop(field.name, None)
        else:
            content[field.name] = value
        return


def _show_field(console: Console, field: FormField, position: str, whole: bool = False) -> None:
    page = console.page()
    page.say()
    page.quote(f"Field {position}", [Row(_without_links(field.name))], 3)
    if field.title:
        page.quote("Its title", prose(_without_links(field.title), 300), 3)
    if field.description:
        page.quote("It says", prose(_without_links(field.description), 2_000), 12)
    page.fact("Wanted", _expected(field))
    most = 2_000 if whole else _MAX_CHOICES
    page.quote("Choices", _choices(field), most)
    if page.folded:
        page.say("!v shows the rest.", indent=2)
    if field.default is not None:
        page.quote("Default", [_value(field, field.default)], 6)
    if _asks_for_secret(f"{field.name} {field.title} {field.description}"):
        page.say("WARNING: it looks like a secret, and it goes to the server.", indent=2)
    page.say(_keys(field), indent=2)
    console.show(page)


def _expected(field: FormField) -> str:
    what = {
        "string": f"a text ({field.format})" if field.format in _FORMATS else "a text",
        "number": "a number",
        "integer": "a whole number",
        "boolean": "yes or no",
        "choice": "the number of one choice",
        "choices": "the numbers of choices, with commas between",
        "texts": "texts, with commas between, or as a JSON list",
    }[field.kind]
    unit = {"string": " characters", "choices": " of them", "texts": " of them"}.get(field.kind, "")
    least = "" if field.least is None else f", at least {field.least:g}{unit}"
    most = "" if field.most is None else f", at most {field.most:g}{unit}"
    return f"{what}{least}{most}; {'required' if field.required else 'may be left out'}"


_FORMATS = ("email", "uri", "date", "date-time")


def _keys(field: FormField) -> str:
    keys = []
    if field.default is not None:
        keys.append("Enter takes the default")
    elif not field.required:
        keys.append("Enter leaves it out")
    if field.default is not None and not field.required:
        keys.append("!- leaves it out")
    if field.kind in ("string", "choices", "texts"):
        keys.append("!e is empty")
    return "; ".join([*keys, "!n declines the whole"]) + "."


def _choices(field: FormField) -> Iterator[Row]:
    for number, choice in enumerate(field.choices, 1):
        title = f"{choice.title[:200]} = " if choice.title != choice.value else ""
        yield Row(_without_links(f"{number}  {title}{choice.value[:300]}"))


async def _review(console: Console, request: ElicitRequest, content: dict[str, Any]) -> None:
    fields = request.fields
    while True:
        page = _first_page(console, request, "This is what will be sent:")
        for number, field in enumerate(fields, 1):
            value = content.get(field.name)
            row = Row("left out", ours=True) if value is None else _value(field, value)
            page.quote(f"Field {number}", [Row(_without_links(field.name)[:200]), row], 40)
        page.say("y sends it, n declines; the number of a field changes it.", indent=2)
        console.show(page)
        while True:
            line = await console.word("Send it? [y/N/number] ")
            if line is None:
                raise DialogClosed
            if line == "y":
                return
            if line in ("", "n"):
                raise Declined
            if line.isdecimal() and line.isascii() and 0 < int(line[:4]) <= len(fields):
                break
            console.say("Answer y, n or the number of a field.")
        number = int(line)
        await _fill(console, request, fields[number - 1], f"{number}/{len(fields)}", content)


# ------------------------------------------------------------------------------ what is shown


def _value(field: FormField, value: Any) -> Row:
    text = shown_value(field, value)
    typed = not field.choices and value != field.default
    return Row(text if typed else _without_links(text))


def _first_page(console: Console, request: ElicitRequest, title: str) -> Page:
    page = console.page()
    page.say()
    page.say(title)
    page.quote("Server", prose(request.server, 200), 3)
    page.quote("It says", prose(_without_links(request.message), 4_000), 60)
    return page


async def _line(console: Console, prompt: str) -> str:
    line = await console.ask(prompt)
    if line is None:
        raise DialogClosed
    return line.strip()


def _without_links(text: str) -> str:
    """Without anything a terminal would turn into a link: only the URL asked about may be one."""
    return re.sub(r"(?i)\b(www)\.", r"\1[.]", text.replace("://", "[://]"))


def _texts(request: ElicitRequest) -> Iterator[str]:
    yield request.message
    for field in request.fields:
        yield f"{field.name} {field.title} {field.description}"


def _asks_for_secret(text: str) -> bool:
    """Whether ``text`` seems to ask for a secret. A hint: other words evade it easily."""
    plain = unicodedata.normalize("NFKD", text[:20_000])
    plain = re.sub(r"([a-z])([A-Z])", r"\1 \2", plain).lower()
    plain = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Cf"))
    return _SECRET.search(re.sub(r"[\s_.-]+", " ", plain)) is not None


# ------------------------------------------------------------------------- what was typed


def typed_value(field: FormField, line: str) -> Any:
    """Return the checked value of ``line``; None if the field is left out.

    Raises ``ValueError`` with the reason if it is not valid, and ``Declined`` for ``!n``. A text
    that starts with ``!`` is typed with two.
    """
    match line:
        case "!n":
            raise Declined
        case "" if field.default is not None:
            return field.default
        case "" | "!-":
            if field.required:
                raise ValueError("a value is required")
            return None
        case "!e" if field.kind == "string":
            value: Any = ""
        case "!e" if field.kind in ("choices", "texts"):
            value = []
        case _ if line.startswith("!!"):
            value = _parsed(field, line[1:])
        case _ if line.startswith("!"):
            raise ValueError(
                "a line that starts with ! is a command; type !! for a text that starts with !"
            )
        case _:
            value = _parsed(field, line)
    problem = field.problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


def shown_value(field: FormField, value: Any) -> str:
    """Return a value as a text for a person. The result still has to be made safe to show."""
    titles = {choice.value: choice.title for choice in field.choices}
    chosen = value if isinstance(value, list) else [value]
    words = [json.dumps(one, ensure_ascii=False) for one in chosen]
    if field.choices:
        words = [
            word if titles.get(one, one) == one else f"{titles[one]} = {word}"
            for one, word in zip(chosen, words, strict=True)
        ]
    return ", ".join(words) if words else "none of them"


def _parsed(field: FormField, line: str) -> Any:
    match field.kind:
        case "integer":
            if re.fullmatch(r"[+-]?[0-9]{1,400}", line) is None:
                raise ValueError("the value is not a whole number")
            return int(line)
        case "number":
            return _number(line)
        case "boolean":
            return _yes_or_no(line)
        case "choice":
            return _chosen(field, line)
        case "choices":
            chosen = [_chosen(field, word.strip()) for word in line.split(",")]
            return list(dict.fromkeys(chosen))
        case "texts":
            return _list_of_texts(line)
    return line


def _list_of_texts(line: str) -> Any:
    if not line.startswith("["):
        return [text.strip() for text in line.split(",")]
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("the value begins like a JSON list and is not valid JSON") from None


def _number(line: str) -> int | float:
    if re.fullmatch(r"[+-]?[0-9]{1,400}", line):
        return int(line)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", line[:400]) is None:
        raise ValueError("the value is not a number")
    value = float(line)
    if not math.isfinite(value):
        raise ValueError("the value is too large")
    return value


def _yes_or_no(line: str) -> bool:
    match line.lower():
        case "y" | "yes" | "true":
            return True
        case "n" | "no" | "false":
            return False
    raise ValueError("answer yes or no")


def _chosen(field: FormField, word: str) -> str:
    """A choice by its number, which is ours and so unambiguous; else by its value or title."""
    if word.isascii() and word.isdecimal():
        if 0 < int(word[:6]) <= len(field.choices):
            return field.choices[int(word[:6]) - 1].value
        raise ValueError(f"give a number from 1 to {len(field.choices)}")
    named = [c.value for c in field.choices if word == c.value]
    named = named or [c.value for c in field.choices if word == c.title]
    if len(named) != 1:
        raise ValueError("the value is not one of the choices")
    return named[0]
