"""The subject of a request in a few words, and several requests decided at once.

A row, a card and the record of a request share these words.

A request is allowed together with others only if this person saw what it does: its row showed all
arguments and it has no findings; or it was opened. The row and the card carry a proof of that,
which the form sends. A browser sends the proof of a row only if the row was wide enough. Whether
the server is trusted plays no part. A decision for more than ten needs a confirmation, with a
summary by tool. That question carries a proof of exactly these requests and this decision. Both are
checked here, so they apply with the page's script and without it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard

from ..approval.queue import PendingApproval
from ..approval.request import ApprovalRequest
from ..catalog.call_values import is_storable
from ..runtime.console_layout import runs_backwards
from .http import Refused
from .markup import Html, Part, element, filled, joined

__all__ = [
    "MANY",
    "NAME_OF",
    "Signer",
    "age_of",
    "arguments_order",
    "check_several",
    "gist",
    "is_destructive",
    "name_of",
    "proof_of_opening",
    "proof_of_row",
    "question",
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
MANY = 10
"""Requests that are decided together without a further question."""
_MAX_LINES = 20
"""The number of lines of the summary, and of links to what has to be opened."""


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


def _in_full(request: Any) -> bool:
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


class Signer:
    """A signer of texts that only a holder of the secret can make.

    The first part of what is signed is a label that names its use, so that a text signed for one
    use never serves another, whatever a person's name is.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, label: str, *parts: str) -> str:
        """Return the signature of ``parts`` for the use ``label``."""
        text = json.dumps((label, *parts))
        return hmac.new(self._secret, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def is_one_of(self, given: Sequence[str], label: str, *parts: str) -> bool:
        """Whether one of the texts in ``given`` is the signature of ``parts`` for ``label``."""
        wanted = self.sign(label, *parts).encode()
        return any(hmac.compare_digest(one.encode("utf-8", "replace"), wanted) for one in given)


def proof_of_opening(signer: Signer, person: str, id: str) -> str:
    """Return the proof that this person opened a request."""
    return signer.sign("opened", person, id)


def proof_of_row(signer: Signer, person: str, pending: PendingApproval) -> str | None:
    """Return the proof that a row shows a request in full; None if it cannot."""
    return signer.sign("row", person, pending.id) if _in_full(pending.request) else None


def check_several(
    signer: Signer, person: str, form: dict[str, list[str]], pending: Sequence[PendingApproval]
) -> None:
    """Raise ``Refused`` for what a person has to open first."""
    if form.get("answer") != ["allow"] or (len(pending) == 1 and "several" not in form):
        return
    opened = form.get("opened", [])
    unopened = [
        one
        for one in pending
        if not signer.is_one_of(opened, "opened", person, one.id)
        and not (_in_full(one.request) and signer.is_one_of(opened, "row", person, one.id))
    ]
    if unopened:
        count = len(unopened)
        some = "One of them has" if count == 1 else f"{count:,} of them have"
        raise Refused(
            422,
            f"Nothing was decided. {some} notes, or arguments that the list does not show in full"
            ": open each, or leave it out.",
            links=[
                (f"./?open={one.id}#open", joined(title_of(one.request)))
                for one in unopened[:_MAX_LINES]
            ],
            unopened=[one.id for one in unopened],
        )


def question(
    signer: Signer, person: str, form: dict[str, list[str]], pending: Sequence[PendingApproval]
) -> Html | None:
    """Return the question before so many are decided; None if it is not needed, or was answered."""
    if len(pending) <= MANY:
        return None
    choice = form["answer"][-1]
    parts = ("several", person, choice, *sorted(one.id for one in pending))
    if signer.is_one_of(form.get("confirmed", []), *parts):
        return None
    tools = Counter(joined(title_of(one.request)) for one in pending)
    lines = [element("li", title, f": {count:,}") for title, count in tools.most_common(_MAX_LINES)]
    left = len(tools) - len(lines)
    lines += [element("li", f"and {left:,} others")] if left > 0 else []
    sent = [
        (name, value)
        for name in ("token", "reason", "ids", "opened")
        for value in form.get(name, [])
    ]
    sent += [("confirmed", signer.sign(*parts))]
    return filled(
        "question.html",
        verb="Allow" if choice == "allow" else "Deny",
        answer=choice,
        count=f"{len(pending):,}",
        lines=joined(lines),
        fields=joined(element("input", type="hidden", name=n, value=v) for n, v in sent),
    )
