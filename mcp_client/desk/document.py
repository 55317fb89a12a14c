"""The page around the calls."""

from __future__ import annotations

from typing import NamedTuple

from .markup import Html, Part, element, joined

__all__ = ["Window", "document", "message", "page_of"]

_TITLE = "Calls that wait for approval"


class Window(NamedTuple):
    """Which of the pending calls stand on a page, the oldest being the first."""

    skip: int
    most: int
    all: int


def document(body: Part, *, nonce: str | None = None, above: str | None = None) -> Html:
    """A whole document. ``nonce`` is for its script, without which it has none; ``above`` leads
    from its address to the page's, for its style, without which it has none."""
    script = None
    if nonce is not None:
        script = element("script", src="static/desk.js", nonce=nonce, defer=True)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", _TITLE),
        element("link", rel="icon", href="data:,"),
        None
        if above is None
        else element("link", rel="stylesheet", href=f"{above}static/desk.css"),
        script,
    )
    inner = body if nonce is not None else element("main", body, class_="alone")
    page = element("html", head, element("body", inner), lang="en")
    return joined([Html("<!doctype html>\n"), page])


def message(text: str) -> Html:
    return joined([element("h1", "Not done"), element("p", text)])


def page_of(person: str, cards: Html, window: Window, decided: Html, token: str) -> Html:
    """What ``person`` sees: the calls, the bar to decide several at once, and what was decided."""
    return joined(
        [
            element("a", "Skip to the calls", href="#calls", class_="skip"),
            _header(person),
            element(
                "main",
                _bar(token),
                element("p", class_="error", id="batch-error", role="alert", hidden=True),
                element(
                    "section",
                    cards,
                    id="calls",
                    aria_label="Pending calls",
                    tabindex="-1",
                    data_skip=str(window.skip),
                    data_most=str(window.most),
                ),
                _others(window),
                element("p", "Nothing waits for you.", id="empty", hidden=window.all > 0),
            ),
            element(
                "aside",
                element("h2", "Decided lately", id="decided-title"),
                element("div", decided, id="decided"),
                aria_labelledby="decided-title",
            ),
            element("p", "", id="said", role="status", class_="spoken"),
        ]
    )


def _others(window: Window) -> Html:
    """What waits and does not stand on this page."""
    first, last = window.skip + 1, min(window.skip + window.most, window.all)
    some = f"These are {first:,} to {last:,} of" if last >= first else "None stands here of"
    return element(
        "p",
        element("span", f"{some} {window.all:,} calls that wait.", id="others-count"),
        " Others come here as these are decided; to filter and to select are for this page. ",
        element("a", "The first", href="./", id="others-first", hidden=window.skip == 0),
        " ",
        element(
            "a",
            "The next",
            href=f"./?skip={window.skip + window.most}",
            id="others-next",
            hidden=window.all <= window.skip + window.most,
        ),
        id="others",
        class_="cut",
        hidden=window.all <= window.most and window.skip == 0,
    )


def _header(person: str) -> Html:
    return element(
        "header",
        element("h1", "Approvals"),
        element(
            "p",
            element("span", "Not live: needs JavaScript", id="live", data_state="off"),
            element("span", "You are ", element("bdi", person), class_="person"),
            class_="who",
        ),
        class_="top",
    )


def _bar(token: str) -> Html:
    """Several calls at once."""
    return element(
        "form",
        element("input", type="hidden", name="token", value=token),
        element("button", "Nothing", type="submit", disabled=True, hidden=True),
        element(
            "div",
            element("label", "Filter", for_="filter"),
            element(
                "input",
                type="search",
                id="filter",
                placeholder="name",
                autocomplete="off",
            ),
            class_="field filter",
        ),
        element(
            "div",
            element(
                "label",
                element("input", type="checkbox", id="every", class_="tick"),
                element("span", "Select all"),
                class_="select",
            ),
            element("output", "", id="count", class_="hint"),
            class_="choice",
        ),
        element(
            "div",
            element("label", "Reason for selected", for_="batch-reason"),
            element(
                "input",
                type="text",
                id="batch-reason",
                name="reason",
                maxlength="500",
                autocomplete="off",
            ),
            class_="field",
        ),
        element(
            "div",
            element(
                "button",
                "Allow selected",
                type="submit",
                name="answer",
                value="allow",
                class_="allow",
            ),
            element(
                "button", "Deny selected", type="submit", name="answer", value="deny", class_="deny"
            ),
            class_="buttons",
        ),
        id="batch",
        method="post",
        action="decide",
    )
