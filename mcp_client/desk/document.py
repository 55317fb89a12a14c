"""The page around the requests."""

from __future__ import annotations

from typing import NamedTuple

from .markup import Html, Part, element, filled, joined

__all__ = ["Window", "document", "message", "page_of"]


class Window(NamedTuple):
    """Which of the pending requests stand on a page, the oldest being the first."""

    skip: int
    most: int
    all: int


def document(body: Part, *, nonce: str | None = None, above: str | None = None) -> Html:
    """A whole document. ``nonce`` is for its script, without which it has none; ``above`` leads
    from its address to the page's, for its style, without which it has none."""
    style = above is not None and element("link", rel="stylesheet", href=f"{above}static/desk.css")
    script = nonce and element("script", src="static/desk.js", nonce=nonce, defer=True)
    inner = body if nonce is not None else element("main", body, class_="alone")
    return filled("document.html", style=style or None, script=script, body=inner)


def message(text: str) -> Html:
    return joined([element("h1", "Not done"), element("p", text)])


def page_of(
    person: str, cards: Html, window: Window, decided: Html, token: str, *, logins: Html
) -> Html:
    """What a person sees: logins to make, requests, the bar to decide several at once, and what was
    decided."""
    skip, most, all = window
    first, last = skip + 1, min(skip + most, all)
    some = f"These are {first:,} to {last:,} of" if last >= first else "None stands here of"
    return filled(
        "page.html",
        person=person,
        token=token,
        skip=str(skip),
        most=str(most),
        cards=cards,
        logins=logins,
        here=f"{some} {all:,} requests that wait.",
        next=str(skip + most),
        no_others=_hidden(all <= most and skip == 0),
        is_first=_hidden(skip == 0),
        is_last=_hidden(all <= skip + most),
        not_empty=_hidden(all > 0),
        decided=decided,
    )


def _hidden(is_hidden: bool) -> str:
    return " hidden" if is_hidden else ""
