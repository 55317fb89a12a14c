"""The lists of the page: pending requests, recent decisions, and logins on another device.

Pending requests have a row each, by server and tool, first those with findings. The server makes
the list also if a script shows it, so that both have the same order, the same filters and the same
bounds. ``document`` is the page around the lists.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlencode, urlsplit

from ..approval.decision import CHOICES, Allow, Answer, Deny, Remember
from ..approval.queue import DecidedApproval, PendingApproval
from ..approval.request import ApprovalRequest
from ..protocol.uris import host_warnings
from ..runtime.safe_text import safe_text
from .http import whole_number
from .markup import Html, Part, element, filled, joined
from .subject import (
    NAME_OF,
    age_of,
    gist,
    is_destructive,
    name_of,
    section_of,
    time_of,
    title_of,
    whose,
)

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin

__all__ = [
    "MAX_ROWS",
    "Proof",
    "View",
    "decided_list",
    "document",
    "filters",
    "in_order",
    "inbox",
    "list_of",
    "login_list",
    "mark_of",
    "message",
]

Proof: TypeAlias = Callable[[PendingApproval], "str | None"]
"""A function that returns a proof that a row showed all of a request, if it can."""
MAX_ROWS = 200
"""The number of rows on one page."""
_WHY = (", with notes", ", destructive", ", without notes")
"""The words that distinguish groups of one tool, by their rank."""
_WHOSE = (
    "The host then acts with the account that logs in there. Log in only if this is your login."
)
_MAX_OPTIONS = 200
"""The number of options in one filter."""
_MAX_SEARCHED_CHARS = 100_000
"""The characters of a call's arguments that are searched."""


class View(NamedTuple):
    """A choice of the pending requests. An empty text means all."""

    server: str = ""
    tool: str = ""
    person: str = ""
    words: str = ""
    skip: int = 0

    def query(self, *, skip: int = 0) -> str:
        """Return the choice as the query of an address."""
        fields = {"server": self.server, "tool": self.tool, "person": self.person, "q": self.words}
        return urlencode({name: each for name, each in {**fields, "skip": skip}.items() if each})

    @classmethod
    def of(cls, query: dict[str, list[str]]) -> View:
        """Return the choice in an address. Raises ``Refused``."""
        server, tool, person, words = (
            query.get(name, [""])[-1] for name in ("server", "tool", "person", "q")
        )
        return cls(server, tool, person, words, whole_number(query, "skip"))

    @property
    def is_filter(self) -> bool:
        """Whether it leaves any request out."""
        return self[:4] != ("", "", "", "")

    def admits(self, request: ApprovalRequest, context: bool) -> bool:
        """Whether the view admits it; ``context``: whether people see whose request it is."""
        words = self.words.strip().lower()
        return (
            (not self.server or _shown(request.server) == self.server)
            and (not self.tool or _shown(section_of(request)) == self.tool)
            and (not self.person or (context and _shown(whose(request)) == self.person))
            and (not words or words in _searched(request, context))
        )


def in_order(pending: Iterable[PendingApproval]) -> list[PendingApproval]:
    """Return requests that need attention first, then by server and tool, then the oldest."""
    return sorted(pending, key=lambda one: (*_group(one), one.asked_at))


def filters(pending: Sequence[PendingApproval], view: View, *, context: bool) -> Html:
    """Return the form that chooses which requests are listed."""
    requests = [one.request for one in pending]
    chosen: list[tuple[str, str, Callable[[ApprovalRequest], str], str]] = [
        ("server", "Server", lambda one: one.server, view.server),
        ("tool", "Tool", section_of, view.tool),
    ]
    if context:
        chosen.append(("person", "Person", whose, view.person))
    selects = []
    for name, label, of, now in chosen:
        values = sorted(({_shown(of(one)) for one in requests} | {now}) - {""})
        if now or len(values) > 1:  # with one there is nothing to choose
            selects.append(_select(name, label, values, now))
    return filled("filters.html", words=view.words, selects=joined(selects))


def inbox(
    pending: Sequence[PendingApproval], view: View, open: str | None, *, context: bool, proof: Proof
) -> Html:
    """Return the rows of those that ``view`` admits of all that are ``pending``, in order."""
    listed = [one for one in pending if view.admits(one.request, context)]
    here = listed[view.skip : view.skip + MAX_ROWS]
    parts: list[Part] = []
    kinds = Counter(key[1:] for key, _ in groupby(here, _group))
    for number, (key, some) in enumerate(groupby(here, _group)):
        group, id = list(some), None
        if len(group) > 1:
            id = f"group-{number}"
            why = _WHY[key[0]] if kinds[key[1:]] > 1 else ""
            parts.append(_heading(key, len(group), why, id))
        differ = _differing([one.request for one in group])
        rows = (
            _row(one, view, one.id == open, context, proof(one), differ, is_alone=id is None)
            for one in group
        )
        parts.append(element("ul", *rows, class_="rows", aria_labelledby=id))
    if not here:
        parts.append(_empty(bool(pending), bool(listed), view))
    if len(listed) > len(here):
        parts.append(_others(view, len(here), len(listed)))
    return joined(parts)


def _group(one: PendingApproval) -> tuple[int, str, str]:
    request = one.request
    rank = 0 if request.findings else 1 if is_destructive(request) else 2
    return rank, request.server, section_of(request)


def _heading(key: tuple[int, str, str], count: int, why: str, id: str) -> Html:
    _, server, section = key
    where = [] if server == section else [" on ", element("bdi", server)]
    name = element("bdi", section, class_="tool")
    number = element("span", f"({count:,})", class_="number")
    return element("h2", name, *where, " ", number, why, class_="group", id=id)


def _differing(requests: Sequence[Any]) -> frozenset[str]:
    """Return the names of arguments that are not the same in all of these calls."""
    if len(requests) < 2 or requests[0].kind != "call":
        return frozenset()
    every = [one.arguments for one in requests]
    names = {name for one in every for name in one}
    there = {name for name in names if all(name in one for one in every)}
    same = {name for name in there if all(one[name] == every[0][name] for one in every)}
    return frozenset(names - same)


def _row(
    one: PendingApproval,
    view: View,
    is_open: bool,
    context: bool,
    proof: str | None,
    differ: frozenset[str],
    *,
    is_alone: bool,
) -> Html:
    """Return a row; ``is_alone`` is whether no heading above it shows the tool and the server."""
    request, query = one.request, view.query(skip=view.skip)
    words, kind = NAME_OF[request.kind]
    title = joined([words, element("bdi", name_of(request), class_="tool")])
    is_named = is_alone or section_of(request) != name_of(request)
    is_placed = kind != "server" and is_alone
    marks: list[Part] = []
    if request.findings:
        count = len(request.findings)
        marks.append(element("span", "1 note" if count == 1 else f"{count:,} notes", class_="mark"))
    if is_destructive(request):
        marks.append(element("span", "destructive", class_="mark grave"))
    opened = proof and element("input", type="hidden", name="opened", value=proof, form="batch")
    return filled(
        "row.html",
        id=one.id,
        kind="row",
        proof=opened,
        address=f"?{query}&open={one.id}#open" if query else f"?open={one.id}#open",
        current=Html(' aria-current="true"') if is_open else None,
        title=element("span", title, class_="name") if is_named else None,
        server=element("bdi", request.server, class_="server") if is_placed else None,
        gist=gist(request, differ) or ("no arguments" if request.kind == "call" else None),
        marks=joined(marks),
        whose=element("bdi", whose(request), class_="whose") if context else None,
        age=age_of(one.asked_at),
    )


def _empty(is_pending: bool, is_listed: bool, view: View) -> Html:
    every = element("a", "Show all that waits", href="./")
    if is_listed:
        return element("p", "This page of the list is empty. ", every, class_="empty")
    if is_pending and view.is_filter:
        return element("p", "No pending request matches this filter. ", every, class_="empty")
    hint = element("span", "New requests appear here.", class_="hint")
    return element("p", "Nothing waits for you. ", hint, class_="empty")


def _others(view: View, here: int, listed: int) -> Html:
    first, last = view.skip + 1, view.skip + here
    links = [
        element("a", text, href=f"./?{query}" if query else "./", id=id)
        for text, query, id, there in (
            ("The first", view.query(), "others-first", view.skip > 0),
            ("The next", view.query(skip=last), "others-next", last < listed),
        )
        if there
    ]
    where = f"These are {first:,} to {last:,} of {listed:,} requests that wait. "
    return element("p", where, links[0], " " if links[1:] else None, *links[1:], class_="others")


def _select(name: str, label: str, values: Sequence[str], now: str) -> Html:
    options = [element("option", "All", value="")]
    for number, one in enumerate(values):
        if number < _MAX_OPTIONS or one == now:
            options.append(element("option", one[:80], value=one, selected=one == now))
    id = f"filter-{name}"
    control = element("select", *options, name=name, id=id)
    return element("div", element("label", label, for_=id), control, class_="field")


def _shown(text: str) -> str:
    """Return the text as the page shows it, with invisible characters spelled out."""
    return safe_text(text, len(text))


def _searched(request: ApprovalRequest, context: bool) -> str:
    arguments = request.arguments_json[:_MAX_SEARCHED_CHARS] if request.kind == "call" else ""
    whom = whose(request) if context else ""
    parts = (request.kind, request.server, name_of(request), request.subject, whom, arguments)
    return " ".join(parts).lower()


def decided_list(decided: Sequence[DecidedApproval]) -> Html:
    """Return the newest first."""
    if not decided:
        return element("p", "Nothing yet.", class_="hint")
    return element("ol", *(_decided(one) for one in reversed(decided)), class_="decided")


def _decided(one: DecidedApproval) -> Html:
    decision = one.answer
    allowed = isinstance(decision, Allow)
    parts: list[Part] = [
        element("strong", "Allowed" if allowed else "Denied", class_="yes" if allowed else "no"),
        " ",
        element("a", *title_of(one.request), href=f"decided/{one.id}"),
        " by ",
        element("bdi", decision.by or "somebody"),
        ", ",
        age_of(one.decided_at),
    ]
    if isinstance(decision, Allow):
        if decision.arguments is not None:
            parts.append(", with other arguments")
        remember = Remember.of(decision.remember)
        labels = [one.label for one in CHOICES.values() if one.remember == remember]
        if remember is not None and remember.scope != "call":
            parts += [", remembered: ", labels[0] if labels else remember.scope]
    about = gist(one.request)
    if about:
        parts.append(element("span", element("bdi", about), class_="gist"))
    if decision.reason and not _is_without_reason(decision):
        parts.append(element("q", element("bdi", decision.reason[:500])))
    return element("li", *parts)


def _is_without_reason(decision: Answer) -> bool:
    """Whether the reason is only a default text, which is not quoted as a person's words."""
    bare = isinstance(decision, Deny) and Deny(
        source=decision.source, by=decision.by, rule=decision.rule
    )
    return decision == bare


def login_list(logins: Sequence[DeviceLogin]) -> Html:
    """Return the list of logins that wait for a person."""
    return joined(map(_login, logins))


def mark_of(logins: Sequence[DeviceLogin]) -> str:
    """Another text for other logins."""
    parts = [repr((one.server, one.url, one.code, one.expires_at, one.issuer)) for one in logins]
    return hashlib.sha256("".join(parts).encode("utf-8", "replace")).hexdigest() if parts else ""


def _login(login: DeviceLogin) -> Html:
    where: Html | str = login.url
    if login.url.startswith("https://"):
        where = element("a", login.url, href=login.url, rel="noreferrer noopener", target="_blank")
    asked_by = (", asked by ", element("bdi", login.issuer)) if login.issuer else ()
    what = (
        " with code ",
        element("code", login.code),
        " for server ",
        element("bdi", login.server),
    )
    until = (", until ", time_of(login.expires_at), ".")
    notice = element("p", "Log in at ", where, *what, *asked_by, *until)
    about = [*host_warnings(urlsplit(login.url).hostname or "")]
    about += [] if login.warning is None else [login.warning]
    warnings = (element("p", one, class_="cut") for one in about)
    hint = element("p", _WHOSE, class_="hint")
    return element("article", notice, *warnings, hint, class_="login")


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
    ways = element("ul", *places) if places else None
    way_back = back and element("p", element("a", "Back to the list", href=back))
    return joined([element("h1", "Not done"), element("p", text), ways, way_back])


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
