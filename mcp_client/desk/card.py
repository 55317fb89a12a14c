"""The card: one request as a person sees it on the page.

A card shows the request's ``facts`` and nothing else, whatever kind of request it is. It has
bounded room. What is left out is stated, and "Show all of it" leads to all of it, in parts that are
bounded, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..approval.decision import CHOICES, Allow
from ..approval.queue import DecidedApproval, PendingApproval
from ..approval.request import ApprovalRequest, Choice, Fact
from ..approval.tool_call import SOURCES
from ..protocol.canonical_json import plain
from ..runtime.console_layout import SHORT, WHOLE, Fold, runs_backwards
from .markup import (
    CARD,
    PART,
    PROSE,
    Html,
    Line,
    Part,
    block,
    element,
    filled,
    joined,
    json_lines,
    prose_lines,
)
from .subject import NAME_OF, age_of, arguments_order, time_of, title_of, whose

__all__ = ["card", "part", "was", "whole"]

_FOLDS = (*WHOLE, Fold(text=2_000, members=100, depth=6), *SHORT)
_MAX_PROSE_CHARS = 700
_MAX_ROW_CHARS = 300
"""The characters of a fact on the line of its label; a longer one is below the label."""
_MAX_FACTS_OF = {"finding": 30, "message": 6}
"""The number of facts of a kind on a card."""
_MAX_FACTS = 20
_MAX_DIFF_LINE_CHARS = 2_000
"""The characters of one of them; the difference between two long texts is described above them."""
_HINTS = {"read_only": "no", "destructive": "yes", "idempotent": "no", "open_world": "yes"}
"""The risky value of each hint."""
_TEXTS = ("title", "description", "system_prompt", "message")
_FIRST, _LAST = ("finding", "changes"), ("title", "description")
"""The kinds of facts that come first and last, so that no description can push down what
matters."""
_LEADS = ("subject", "arguments")
"""The kinds of facts above everything else on a card: what would run, and with what."""
_ON_REQUEST = ("fingerprint", "request")
_BACKWARDS = "Some letters here run right to left: the order shown may differ from what is sent."
_LINES_BEFORE_CALL = 8
"""The lines of a script above the one that calls."""


class _Group(NamedTuple):
    """Facts of one kind that follow each other."""

    name: str
    """The name of the group in addresses."""
    facts: Sequence[Fact]

    @property
    def kind(self) -> str:
        return self.facts[0].kind

    @property
    def label(self) -> str:
        return self.facts[0].label

    @property
    def text(self) -> str:
        return "\n".join(fact.text for fact in self.facts)


def card(
    pending: PendingApproval,
    token: str,
    *,
    opened: str = "",
    query: str = "",
    context: bool = False,
) -> Html:
    """Return the request with everything it takes to decide it.

    Args:
        pending: The request.
        token: The token of its form.
        opened: The proof for the form of several requests that this card was opened.
        query: The query of the list to which a browser without scripts returns.
        context: Whether the request's context is shown.

    The editor, for a request with arguments, is shown by the script, which fetches its text.
    """
    request, id = pending.request, pending.id
    rendered, folded = _on_card(request)
    expires_at = None
    if pending.expires_at is not None:
        expires_at = joined([", refused ", time_of(pending.expires_at), " if it is not decided"])
    return filled(
        "card.html",
        id=id,
        kind=request.kind,
        title=joined(title_of(request)),
        asked_at=age_of(pending.asked_at),
        expires_at=expires_at,
        context=_context(request) if context else None,
        facts=rendered,
        more="Show all of it" if folded else "Everything about it",
        token=token,
        opened=opened,
        query=f"?{query}" if query else None,
        editor=filled("editor.html", id=id) if request.can_edit else None,
        edit_button=filled("edit_button.html", id=id) if request.can_edit else None,
        choices=joined(_option(request, name) for name in request.choices()),
        covers=request.coverage(CHOICES["once"].remember),
    )


def whole(
    pending: PendingApproval, *, token: str = "", opened: str = "", context: bool = False
) -> Html:
    """Return all facts, and the form: nothing is left out, but long texts continue at ``part``."""
    request = pending.request
    parts = [
        *_all_in_full(pending),
        _rows([Fact("This request", request.key, "key"), Fact("Its id", request.id, "id")]),
    ]
    return _alone(pending, parts, token, opened, context)


def was(decided: DecidedApproval, *, context: bool = False) -> Html:
    """Return all facts of a decided request, with bounds for each of its texts."""
    request, decision = decided.request, decided.answer
    label = "Allowed" if isinstance(decision, Allow) else "Denied"
    by = element("bdi", decision.by or "somebody")
    parts: list[Part] = [
        element("p", element("a", "Back to the list", href="../")),
        element("h1", *title_of(request)),
        element("p", label, " by ", by, ", ", time_of(decided.decided_at), class_="hint"),
    ]
    if isinstance(decision, Allow) and decision.arguments is not None:
        sent = json.dumps(plain(decision.arguments), ensure_ascii=False)
        instead = Fact("Sent instead", sent, "sent", is_json=True)
        parts.append(_json(_Group("sent", [instead]), request)[0])
    if decision.reason:
        parts.append(_rows([Fact("Reason", decision.reason, "reason")]))
    parts += [_context(request) if context else None, _on_card(request)[0]]
    return joined(parts)


def part(
    pending: PendingApproval, name: str, start: int, *, token: str = "", opened: str = ""
) -> Html | None:
    """Return one text of the request, from line ``start``; None if it has no such text."""
    for group in _groups(pending.request):
        if group.name == name:
            rendered = _in_full(pending.id, pending.request, group, start)
            return _alone(pending, [rendered], token, opened, False)
    return None


def _alone(
    pending: PendingApproval, parts: list[Html], token: str, opened: str, context: bool
) -> Html:
    request = pending.request
    return filled(
        "whole.html",
        id=pending.id,
        token=token,
        opened=opened,
        title=element("h1", *title_of(request)),
        context=_context(request) if context else None,
        facts=joined([*parts, _direction(request)]),
    )


# ------------------------------------------------------------------------ the facts


def _groups(request: ApprovalRequest) -> list[_Group]:
    """Return the facts in the order of the page."""
    groups: list[_Group] = []
    ranked = sorted(request.facts(), key=lambda fact: (fact.kind not in _FIRST, fact.kind in _LAST))
    for kind, some in groupby(ranked, lambda fact: fact.kind):
        facts = list(some)
        each = [[fact] for fact in facts] if kind == "message" else [facts]
        groups += (_Group(f"{kind}-{n}" if n else kind, one) for n, one in enumerate(each))
    return groups


def _on_card(request: ApprovalRequest) -> tuple[Html, bool]:
    """Return the facts that fit into their room, and whether anything is left out."""
    parts: list[Part] = []
    folded = False

    def add(inner: Html, is_cut: bool) -> None:
        nonlocal folded
        parts.append(inner)
        folded |= is_cut

    in_title = ("server", NAME_OF[request.kind][1])
    groups = [one for one in _groups(request) if one.kind not in (*in_title, *_ON_REQUEST)]
    warned = [group for group in groups if group.kind in _FIRST]
    lead = [group for group in groups if group.kind in _LEADS]
    if request.kind == "start":  # what would run, before what is to be known of it
        for group in lead:
            add(*_below(group, request))
        groups = [group for group in groups if group not in lead]
    else:
        groups = [*warned, *lead, *(one for one in groups if one not in (*warned, *lead))]
    if warned:
        add(*_warnings(warned))
    parts.append(element("p", request.asks, class_="asks"))
    messages = [group for group in groups if group.kind == "message"]
    earlier = messages[: -_MAX_FACTS_OF["message"]]
    if earlier:
        folded = True
        parts.append(element("p", f"{len(earlier):,} earlier messages", class_="cut"))
        groups = [group for group in groups if group not in earlier]
    for is_row, some in groupby(groups[len(warned) :], _is_row):
        if is_row:
            parts += _beside([fact for group in some for fact in group.facts])
            continue
        for group in some:
            add(*_below(group, request))
    parts += [_direction(request) or ""]
    return joined(parts), folded


def _beside(facts: Sequence[Fact]) -> list[Html]:
    """Return short facts on the lines of their labels."""
    return [
        _hints(list(some)) if is_hint else _rows(list(some))
        for is_hint, some in groupby(facts, lambda fact: fact.kind in _HINTS)
    ]


def _is_row(group: _Group) -> bool:
    """Whether its facts are on the line of their label."""
    fact = group.facts[0]
    is_short = len(group.facts) == 1 and len(fact.text) <= _MAX_ROW_CHARS and "\n" not in fact.text
    return is_short and not fact.is_json and fact.kind not in ("subject", *_TEXTS)


def _below(group: _Group, request: ApprovalRequest) -> tuple[Html, bool]:
    """Return the facts below their label, and whether anything is left out.

    What would be run is shown whole, in up to 4,000 lines.
    """
    if group.facts[0].is_json:
        return _json(group, request)
    if group.kind == "script":
        return _script(group, request)
    is_whole = request.kind == "start"
    most = len(group.facts) if is_whole else _MAX_FACTS_OF.get(group.kind, _MAX_FACTS)
    text = group._replace(facts=group.facts[:most]).text
    limit = _MAX_PROSE_CHARS if group.kind in _LAST else len(text)
    rendered = block(prose_lines(text[:limit]), group.label, PART if is_whole else PROSE)
    left = [f"{rendered.left:,} more lines"] if rendered.left > 0 else []
    left += [f"{len(text) - limit:,} more characters"] if len(text) > limit else []
    left += [f"{len(group.facts) - most:,} more"] if len(group.facts) > most else []
    style = "quote" if group.kind in _TEXTS else None
    heading = element("h3", group.label)
    return element("section", heading, rendered.html, _cut(left), class_=style), bool(left)


def _json(group: _Group, request: ApprovalRequest) -> tuple[Html, bool]:
    """Folded as little as the room of a card allows."""
    label, text = group.label, group.text
    if text == "{}":
        return _section(label, element("p", "None.", class_="hint")), False
    titles = arguments_order(request) if group.kind == "arguments" else {}
    for fold in _FOLDS:
        rendered = block(json_lines(text, fold, titles, with_titles=True), label, CARD)
        if rendered.left == 0:
            break
    folded = fold is not WHOLE[0] or rendered.left > 0
    cut, more = None, None
    if folded:
        size = f"{len(text):,} characters in all."
        cut = element("p", f"Not all of it is shown here: {size}", class_="cut")
    if rendered.left > 0:
        more = element("p", f"{rendered.left:,} more lines", class_="cut")
    if any(titles.values()):
        label = f"{label}, under the server's titles"
    return _section(label, cut, rendered.html, more), folded


def _script(group: _Group, request: Any) -> tuple[Html, bool]:
    """Return the lines around the one that calls, which is marked."""
    lines, called = group.text.split("\n"), request.script.line or 0
    start = max(0, called - 1 - _LINES_BEFORE_CALL) if called <= len(lines) else 0
    marked = (
        Line(line, "l code calls" if number == called else "l code")
        for number, line in enumerate(lines, 1)
    )
    rendered = block(marked, group.label, PROSE, start)
    left = [f"{start:,} lines above"] if start else []
    left += [f"{rendered.left:,} more lines"] if rendered.left > 0 else []
    return _section(group.label, _cut(left), rendered.html), bool(left)


def _warnings(groups: Sequence[_Group]) -> tuple[Html, bool]:
    """Return the findings, and what changed."""
    findings = [fact for group in groups for fact in group.facts if fact.kind == "finding"]
    most = _MAX_FACTS_OF["finding"]
    left = len(findings) - most
    changes = [_changes(group.label, group.text) for group in groups if group.kind == "changes"]
    inner = element(
        "section",
        element("h3", "Look at this first"),
        element("ul", *(element("li", fact.text[:_MAX_PROSE_CHARS]) for fact in findings[:most])),
        element("p", f"{left:,} more: show all of it", class_="cut") if left > 0 else None,
        *(html for html, _ in changes),
        class_="findings",
    )
    cut = left > 0 or any(len(fact.text) > _MAX_PROSE_CHARS for fact in findings)
    return inner, cut or any(cut for _, cut in changes)


def _changes(label: str, text: str) -> tuple[Html, bool]:
    """Return the lines that differ from what was reviewed."""
    lines = text.split("\n")
    remarks = [line for line in lines[-2:] if line.startswith("…")]
    lines = lines[: len(lines) - len(remarks)]
    rendered: list[Html] = []
    for line in lines:
        rendered.append(_diff_line(line))
        if sum(map(len, rendered)) > CARD.markup:
            break
    left = len(lines) - len(rendered)
    remarks += [f"… {left:,} more lines"] if left > 0 else []
    rendered += map(_diff_line, remarks)
    pre = element("pre", *rendered, class_="block diff", role="group", aria_label=label)
    return element("details", element("summary", label), pre, open=True), bool(remarks)


def _diff_line(line: str) -> Html:
    kind = {"+": "added", "-": "removed", "@": "place", "…": "note"}.get(line[:1], "same")
    mark = {"added": "Now: ", "removed": "Was: "}.get(kind)
    spoken = None if mark is None else element("span", mark, class_="spoken")
    left = len(line) - _MAX_DIFF_LINE_CHARS
    if left > 0:
        line = f"{line[:_MAX_DIFF_LINE_CHARS]}… ({left:,} more characters)"
    rendered = element("span", "…" if kind == "place" else line or " ")
    return element("span", spoken, rendered, class_=f"l {kind}")


def _hints(facts: Sequence[Fact]) -> Html:
    """Return the hints: the known ones are prominent, the assumed ones on one line with why."""
    rendered, assumed = [], []
    for fact in facts:
        value, source = fact.value or "", fact.source or "assumed"
        label = element("dt", fact.label)
        if source == "assumed":
            assumed.append(element("div", label, element("dd", value)))
            continue
        words = element("strong", value), element("span", SOURCES[source], class_="source")
        risk = "risky" if value == _HINTS[fact.kind] else "calm"
        rendered.append(element("div", label, element("dd", *words), class_=risk))
    known = element("dl", *rendered, class_="hints") if rendered else None
    if not assumed:
        return joined([known])
    why = SOURCES["assumed"]
    line = element("dl", *assumed, class_="assumed")
    return joined([known, element("div", line, element("p", why, class_="hint"))])


def _rows(facts: Sequence[Fact]) -> Html:
    rows = (
        element("div", element("dt", fact.label), element("dd", element("bdi", fact.text)))
        for fact in facts
    )
    return element("dl", *rows, class_="facts")


def _all_in_full(pending: PendingApproval) -> Iterator[Html]:
    for is_row, some in groupby(_groups(pending.request), _is_row):
        if is_row:
            yield from _beside([fact for group in some for fact in group.facts])
        else:
            yield from (_in_full(pending.id, pending.request, group, 0) for group in some)


def _in_full(id: str, request: ApprovalRequest, group: _Group, start: int) -> Html:
    """Return all of a fact, or the part from line ``start`` that there is room for."""
    label, text = group.label, group.text
    if text == "{}" and group.facts[0].is_json:
        return _section(label, element("p", "None.", class_="hint"))
    titles = arguments_order(request) if group.kind == "arguments" else {}
    is_json = group.facts[0].is_json
    lines = json_lines(text, WHOLE[0], titles) if is_json else prose_lines(text)
    rendered = block(lines, label, PART, start)
    if rendered.start == 0 and rendered.left <= 0:
        return _section(label, rendered.html)
    where = f"Lines {rendered.start + 1:,} to {rendered.end:,} of {rendered.lines:,}. "
    links = [
        element("a", text, href=f"{id}?part={group.name}&from={line}")
        for text, line, there in (
            ("From the first line", 0, rendered.start > 0),
            (f"On from line {rendered.end + 1:,}", rendered.end, rendered.left > 0),
        )
        if there
    ]
    remark = element("p", where, links[0], " " if links[1:] else None, *links[1:], class_="cut")
    return _section(label, remark, rendered.html, remark)


def _direction(request: ApprovalRequest) -> Html | None:
    backwards = any(runs_backwards(fact.text) for fact in request.facts())
    return element("p", _BACKWARDS, class_="hint") if backwards else None


def _cut(left: Sequence[str]) -> Html | None:
    """Return a remark about what is left out; None if nothing is."""
    return element("p", " and ".join(left), class_="cut") if left else None


def _section(title: str, *children: Part) -> Html:
    return element("section", element("h3", title), *children)


def _context(request: ApprovalRequest) -> Html | None:
    rendered = whose(request)
    return _rows([Fact("On behalf of", rendered, "context")]) if rendered else None


def _option(request: ApprovalRequest, name: Choice) -> Html:
    how_far = CHOICES[name]
    covered = request.coverage(how_far.remember)
    return element("option", how_far.label, value=name, data_covers=covered)
