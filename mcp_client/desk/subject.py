"""The subject of a request, in the few words that a row, a card and the record of it share."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TypeGuard

from ..approval.request import ApprovalRequest
from ..catalog.call_context import is_storable
from ..runtime.console_layout import runs_backwards
from .markup import Html, Part, element

__all__ = [
    "NAME_OF",
    "age_of",
    "arguments_order",
    "gist",
    "in_full",
    "is_destructive",
    "name_of",
    "section_of",
    "time_of",
    "title_of",
    "whose",
]

NAME_OF = {
    "call": ("", "subject"),
    "skill": ("Skill ", "name"),
    "start": ("Start of ", "server"),
    "sampling": ("Model for ", "server"),
}
"""The words before the name of a request, and the fact, and attribute, that is its name."""
_SECTIONS = {"skill": "Skills", "start": "Starts", "sampling": "Uses of the model"}
_GIST = {"skill": "subject", "start": "subject", "sampling": "message"}
"""The fact that describes a request best that is not a call."""
_MAX_GIST_CHARS = 400
_SIGNS = re.compile(
    r'["\\{}\[\],]|: |[^\S ]|  |^[\s\d+-]|\s$|^$|^(?:true|false|null)$', re.IGNORECASE
)
"""The pattern of texts that are quoted, so that they pass for no other value and no argument."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def name_of(request: ApprovalRequest) -> str:
    """Return the name of the request's subject."""
    return str(getattr(request, NAME_OF[request.kind][1]))


def title_of(request: ApprovalRequest) -> list[Part]:
    """Return the title of the request."""
    words, kind = NAME_OF[request.kind]
    where = [] if kind == "server" else [" on ", element("bdi", request.server, class_="server")]
    return [words, element("bdi", name_of(request), class_="tool"), *where]


def section_of(request: ApprovalRequest) -> str:
    """Return the name of the tool, or what kind of request it is."""
    return _SECTIONS.get(request.kind) or name_of(request)


def whose(request: ApprovalRequest) -> str:
    """Return the person on whose behalf it is made, as the host states it; else an empty text."""
    if request.context is None:
        return ""
    known = is_storable(request.context)
    return str(request.context) if known else f"a {type(request.context).__name__}"


def is_destructive(request: ApprovalRequest) -> bool:
    """Whether a call is known to be destructive.

    A trusted server declares it, or declares only that the call changes something, or contradicts
    itself. An assumption about every tool of an untrusted server does not distinguish them.
    """
    hints = request.hints
    known = {"destructive", "read_only"} & (hints.said | hints.contradicted)
    return request.kind == "call" and hints.destructive and bool(known)


def in_full(request: Any) -> bool:
    """Whether the line of a row shows all that a person has to know.

    There are no findings, and the arguments are shown whole, if the row is wide enough for them.
    """
    if request.findings or request.kind != "call" or request.meta_json is not None:
        return False
    line = gist(request)
    return not line.endswith("…") and not runs_backwards(line)


def arguments_order(request: Any) -> dict[str, str]:
    """Return the names of a call's arguments in the order of the tool's schema, with titles.

    A title is empty if the server declares none.
    """
    schema = request.tool._listed_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    titles = {
        name: one.get("title") if isinstance(one, Mapping) else None
        for name, one in properties.items()
    }
    return {name: title if isinstance(title, str) else "" for name, title in titles.items()}


def gist(request: Any, first: Collection[str] = ()) -> str:
    """Return the words that distinguish it from others of its kind, on one line.

    Of a call these are all arguments: those named in ``first`` before the others, then those that
    must be given and are text. The line ends in "…" if more is there than a row takes.
    """
    if request.kind != "call":
        texts = [fact.text for fact in request.facts() if fact.kind == _GIST[request.kind]]
        return _cut(" ".join((texts[-1] if texts else "")[: _MAX_GIST_CHARS + 1].split()))
    arguments = request.arguments
    names = [name for name in arguments_order(request) if name in arguments]
    names += [name for name in arguments if name not in names]
    required = request.tool._listed_schema.get("required")
    needed = set(filter(_is_text, required)) if isinstance(required, list) else set()
    names.sort(key=lambda one: (one not in first, not _is_text(arguments[one]), one not in needed))
    line = ""
    for name in names:
        line += f"{', ' if line else ''}{_word(name)}: {_word(arguments[name])}"
        if len(line) > _MAX_GIST_CHARS:
            break
    return _cut(line)


def time_of(seconds: float) -> Html:
    """Return a moment. A script shows how far it is away in place of it."""
    when = datetime.fromtimestamp(seconds, UTC)
    return element("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def age_of(seconds: float) -> Html:
    """Return its age."""
    when = datetime.fromtimestamp(seconds, UTC)
    age = max(0, int(time.time() - seconds))
    ago = next((f"{age // size}{unit} ago" for size, unit in _UNITS if age >= size), "now")
    return element(
        "time", ago, datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}", title=f"{when:%Y-%m-%d %H:%M:%S} UTC"
    )


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _word(value: Any) -> str:
    """Return a value as JSON, but a text without its quotation marks if that is plain.

    A value that is longer than a row is not searched to its end.
    """
    if _is_text(value):
        value = value[: _MAX_GIST_CHARS + 1]
        return value if not _SIGNS.search(value) else json.dumps(value, ensure_ascii=False)
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=dict).iterencode(value):
        text += piece[: _MAX_GIST_CHARS + 1]
        if len(text) > _MAX_GIST_CHARS:
            break
    return text


def _cut(text: str) -> str:
    return f"{text[:_MAX_GIST_CHARS]}…" if len(text) > _MAX_GIST_CHARS else text
