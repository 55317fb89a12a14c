"""What a request is about, in the few words that a row, a card and the record of it share."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..approval.request import ApprovalRequest
from ..catalog.call_context import is_storable
from .markup import Html, Part, element

__all__ = [
    "NAME_OF",
    "age_of",
    "arguments_order",
    "gist",
    "is_destructive",
    "name_of",
    "needs_a_look",
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
"""The fact that says most about what is not a call."""
_MAX_GIST_CHARS = 160
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def name_of(request: ApprovalRequest) -> str:
    return str(getattr(request, NAME_OF[request.kind][1]))


def title_of(request: ApprovalRequest) -> list[Part]:
    words, kind = NAME_OF[request.kind]
    where = [] if kind == "server" else [" on ", element("bdi", request.server, class_="server")]
    return [words, element("bdi", name_of(request), class_="tool"), *where]


def section_of(request: ApprovalRequest) -> str:
    """The name of the tool, or what kind of request it is."""
    return _SECTIONS.get(request.kind) or name_of(request)


def whose(request: ApprovalRequest) -> str:
    """On whose behalf it is made, as the host says; empty where it does not."""
    if request.context is None:
        return ""
    known = is_storable(request.context)
    return str(request.context) if known else f"a {type(request.context).__name__}"


def is_destructive(request: ApprovalRequest) -> bool:
    """Whether a call is known to be so: a server that is trusted says it, or that it changes
    something and nothing else, or contradicts itself. What is assumed of every tool of a server
    that is not trusted does not tell one from another."""
    hints = request.hints
    known = {"destructive", "read_only"} & (hints.said | hints.contradicted)
    return request.kind == "call" and hints.destructive and bool(known)


def needs_a_look(request: ApprovalRequest) -> bool:
    """Whether it is allowed together with others only after it was opened."""
    return bool(request.findings) or is_destructive(request)


def arguments_order(request: Any) -> dict[str, str]:
    """The names of a call's arguments in the order of the tool's schema, each with its title,
    which is empty where the server gives none."""
    schema = request.tool._listed_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    titles = {
        name: one.get("title") if isinstance(one, Mapping) else None
        for name, one in properties.items()
    }
    return {name: title if isinstance(title, str) else "" for name, title in titles.items()}


def gist(request: Any) -> str:
    """What tells it from others of its kind: of a call the first argument that must be given and is
    text, else the first text, else the first. One line."""
    if request.kind != "call":
        said = [fact.text for fact in request.facts() if fact.kind == _GIST[request.kind]]
        return _line(said[-1] if said else "")
    given = request.arguments
    if not given:
        return ""
    names = [name for name in arguments_order(request) if name in given]
    names += [name for name in given if name not in names]
    required = request.tool._listed_schema.get("required")
    needed = set(filter(_is_text, required)) if isinstance(required, list) else set()
    name = min(names, key=lambda name: (not _is_text(given[name]), name not in needed))
    value = given[name]
    shown = value if _is_text(value) else _compact(value)
    return _line(f"{name}: {shown}")


def time_of(seconds: float) -> Html:
    """A moment. A script shows how far it is away in place of it."""
    when = datetime.fromtimestamp(seconds, UTC)
    return element("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def age_of(seconds: float) -> Html:
    """How long ago it was."""
    when = datetime.fromtimestamp(seconds, UTC)
    age = max(0, int(time.time() - seconds))
    ago = next((f"{age // size}{unit} ago" for size, unit in _UNITS if age >= size), "now")
    return element(
        "time",
        ago,
        datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}",
        title=f"{when:%Y-%m-%d %H:%M:%S} UTC",
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _compact(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{len(value):,} members"
    if isinstance(value, list | tuple):
        return f"{len(value):,} items"
    return json.dumps(value)


def _line(text: str) -> str:
    short = text[:_MAX_GIST_CHARS]
    return " ".join(short.split()) + ("…" if len(text) > _MAX_GIST_CHARS else "")
