"""Several requests decided at once, with eyes open.

A request is allowed together with others only if this person saw what it does: its row showed all
arguments and it has no findings; or it was opened. The row and the card carry a proof of that,
which the form sends; a browser sends that of a row only if the row was wide enough. Whether the
server is trusted plays no part. A decision for more than ten needs a confirmation, with a summary
by tool. That question carries a proof of exactly these requests and this decision. Both are checked
here, so they apply with the page's script and without it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Sequence

from ..approval.queue import PendingApproval
from .http import Refused
from .markup import Html, element, filled, joined
from .subject import in_full, title_of

__all__ = ["MANY", "Signer", "check_several", "proof_of_opening", "proof_of_row", "question"]

MANY = 10
"""Requests that are decided together without a further question."""
_MAX_LINES = 20
"""The number of lines of the summary, and of links to what has to be opened."""


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
    return signer.sign("row", person, pending.id) if in_full(pending.request) else None


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
        and not (in_full(one.request) and signer.is_one_of(opened, "row", person, one.id))
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
