"""The page around the requests."""

from __future__ import annotations

from collections.abc import Sequence

from ..approval.queue import PendingApproval
from .inbox import Proof, View, filters, inbox
from .markup import Html, Part, element, filled, joined

__all__ = ["document", "list_of", "message", "page_of"]


def document(body: Part, *, nonce: str | None = None, above: str | None = None) -> Html:
    """Return a whole document.

    ``nonce`` is for its script, without which it has none; ``above`` leads from its address to the
    page's, for its style, without which it has none.
    """
    style = above is not None and element("link", rel="stylesheet", href=f"{above}static/desk.css")
    script = nonce and element("script", src="static/desk.js", nonce=nonce, defer=True)
    inner = body if nonce is not None else element("main", body, class_="alone")
    return filled("document.html", style=style or None, script=script, body=inner)


def message(text: str, links: Sequence[tuple[str, str]] = (), *, back: str | None = None) -> Html:
    """Return a message why something was not done, and links; ``back`` leads to the list."""
    places = [element("li", element("a", name, href=address)) for address, name in links]
    return joined(
        [
            element("h1", "Not done"),
            element("p", text),
            element("ul", *places) if places else None,
            back and element("p", element("a", "Back to the list", href=back)),
        ]
    )


def list_of(
    pending: Sequence[PendingApproval], view: View, open: str | None, *, context: bool, proof: Proof
) -> Html:
    """Return the list and its filters, as a script puts them in place of the old ones, too."""
    return filled(
        "list.html",
        filters=filters(pending, view, context=context),
        rows=inbox(pending, view, open, context=context, proof=proof),
        skip=str(view.skip),
    )


def page_of(
    person: str,
    token: str,
    *,
    notice: str | None,
    query: str,
    logins: Html,
    list: Html,
    card: Html | None,
    count: int,
    decided: Html,
) -> Html:
    """Return the page: logins to make, requests, the open one, and the recent decisions."""
    return filled(
        "page.html",
        person=person,
        token=token,
        action=f"decide?{query}" if query else "decide",
        notice=element("p", notice, class_="notice", role="status") if notice else None,
        logins=logins,
        list=list,
        card=card,
        count=str(count),
        decided=decided,
    )
