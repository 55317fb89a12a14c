"""One request as a person sees it on the page, and what was decided about others.

A card shows the request's ``facts`` and nothing else, whatever kind of request it is. It takes
bounded room; what is left out is said, and "Show all of it" leads to all of it, in parts that are
bounded, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from ..approval.decision import CHOICES, Allow, Remember
from ..approval.queue import DecidedApproval, PendingApproval
from ..approval.request import ApprovalRequest, Choice, Fact
from ..catalog.call_context import is_storable
from ..runtime.console_layout import SHORT, WHOLE, Fold
from .markup import (
    CARD,
    PART,
    PROSE,
    Html,
    Part,
    block,
    element,
    filled,
    joined,
    json_lines,
    prose_lines,
)

__all__ = ["card", "decided_list", "part", "time_of", "whole"]

_FOLDS = (*WHOLE, Fold(text=2_000, members=100, depth=6), *SHORT)
_MAX_PROSE_CHARS = 700
_MAX_ROW_CHARS = 300
"""Characters of a fact that stands beside its label; what is longer stands below it."""
_MAX_FACTS_OF = {"finding": 30, "message": 6}
"""Facts of a kind that stand on a card."""
_MAX_FACTS = 20
_MAX_DIFF_LINE_CHARS = 2_000
"""Characters of one of them; where two long texts differ is said above them."""
_HINTS = {"read_only": "no", "destructive": "yes", "idempotent": "no", "open_world": "yes"}
"""What is the risk of each."""
_TEXTS = ("title", "description", "system_prompt", "message")
_FIRST, _LAST = ("finding", "changes"), ("title", "description")
"""So no description can put off what matters."""
_ON_REQUEST = ("fingerprint", "request")
_TITLES = {
    "call": ("", "subject"),
    "skill": ("Skill ", "name"),
    "start": ("Start of ", "server"),
    "sampling": ("Model for ", "server"),
}
"""The words before the name of a request, and the fact, and attribute, that is its name."""


class _Group(NamedTuple):
    """Facts of one kind that follow each other."""

    name: str
    """In addresses."""
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


def card(pending: PendingApproval, token: str, *, context: bool = False) -> Html:
    """The request with everything it takes to decide it. ``token`` is for its form; ``context`` is
    whether the request's context is shown. The editor, for what has arguments, is shown by the
    script, which fetches what it holds."""
    request, id = pending.request, pending.id
    shown, folded = _on_card(request)
    name, server = _names(request)
    expires_at = None
    if pending.expires_at is not None:
        expires_at = joined([", refused ", time_of(pending.expires_at), " if it is not decided"])
    return filled(
        "card.html",
        id=id,
        kind=request.kind,
        text=f"{request.kind} {server} {name} {request.subject}"[:500],
        title=joined(_title(request)),
        asked_at=time_of(pending.asked_at),
        expires_at=expires_at,
        context=_context(request) if context else None,
        facts=shown,
        more="Show all of it" if folded else "Everything about it",
        token=token,
        editor=filled("editor.html", id=id) if request.can_edit else None,
        edit_button=filled("edit_button.html", id=id) if request.can_edit else None,
        choices=joined(_option(request, name) for name in request.choices()),
        covers=request.coverage(CHOICES["once"].remember),
    )


def whole(pending: PendingApproval, *, context: bool = False) -> Html:
    """All facts, to be read: nothing is left out, but long texts go on at ``part``."""
    request = pending.request
    groups = _groups(request)
    return joined(
        [
            element("h1", *_title(request)),
            _context(request) if context else None,
            *(_in_full(pending.id, group, 0) for group in groups),
            _rows([Fact("This request", request.key, "key"), Fact("Its id", request.id, "id")]),
        ]
    )


def part(pending: PendingApproval, name: str, start: int) -> Html | None:
    """One text of the request, from line ``start``; None if it has no such text."""
    for group in _groups(pending.request):
        if group.name == name:
            title = element("h1", *_title(pending.request))
            return joined([title, _in_full(pending.id, group, start)])
    return None


def decided_list(decided: list[DecidedApproval]) -> Html:
    """What was decided lately, the newest first."""
    if not decided:
        return element("p", "Nothing yet.", class_="hint")
    return element("ol", *(_decided(one) for one in reversed(decided)), class_="decided")


# ------------------------------------------------------------------------ the facts


def _groups(request: ApprovalRequest) -> list[_Group]:
    """The facts, in the order in which they stand on the page."""
    groups: list[_Group] = []
    ranked = sorted(request.facts(), key=lambda fact: (fact.kind not in _FIRST, fact.kind in _LAST))
    for kind, some in groupby(ranked, lambda fact: fact.kind):
        facts = list(some)
        each = [[fact] for fact in facts] if kind == "message" else [facts]
        groups += (_Group(f"{kind}-{n}" if n else kind, one) for n, one in enumerate(each))
    return groups


def _on_card(request: ApprovalRequest) -> tuple[Html, bool]:
    """The facts with as much of each as its room allows, and whether anything is left out."""
    parts: list[Part] = []
    folded = False
    in_title = ("server", _TITLES[request.kind][1])
    groups = [one for one in _groups(request) if one.kind not in (*in_title, *_ON_REQUEST)]
    warned = [group for group in groups if group.kind in _FIRST]
    if warned:
        inner, cut = _warnings(warned)
        parts.append(inner)
        folded |= cut
    parts.append(element("p", request.asks, class_="asks"))
    said = [group for group in groups if group.kind == "message"]
    earlier = said[: -_MAX_FACTS_OF["message"]]
    if earlier:
        folded = True
        parts.append(element("p", f"{len(earlier):,} earlier messages", class_="cut"))
        groups = [group for group in groups if group not in earlier]
    for is_row, some in groupby(groups[len(warned) :], _is_row):
        if is_row:
            parts += _beside([fact for group in some for fact in group.facts])
            continue
        for group in some:
            inner, cut = _below(group, request.kind == "start")
            parts.append(inner)
            folded |= cut
    return joined(parts), folded


def _beside(facts: Sequence[Fact]) -> list[Html]:
    """Short facts beside their labels."""
    return [
        _hints(list(some)) if is_hint else _rows(list(some))
        for is_hint, some in groupby(facts, lambda fact: fact.kind in _HINTS)
    ]


def _is_row(group: _Group) -> bool:
    """Whether its facts stand beside their label."""
    fact = group.facts[0]
    is_short = len(group.facts) == 1 and len(fact.text) <= _MAX_ROW_CHARS and "\n" not in fact.text
    return is_short and not fact.is_json and fact.kind not in ("subject", *_TEXTS)


def _below(group: _Group, is_whole: bool) -> tuple[Html, bool]:
    """The facts below their label, and whether anything is left out. What would be run is shown
    whole, in up to 4,000 lines."""
    if group.facts[0].is_json:
        return _json(group.label, group.text)
    most = len(group.facts) if is_whole else _MAX_FACTS_OF.get(group.kind, _MAX_FACTS)
    text = group._replace(facts=group.facts[:most]).text
    limit = _MAX_PROSE_CHARS if group.kind in _LAST else len(text)
    shown = block(prose_lines(text[:limit]), group.label, PART if is_whole else PROSE)
    left = [f"{shown.left:,} more lines"] if shown.left > 0 else []
    left += [f"{len(text) - limit:,} more characters"] if len(text) > limit else []
    left += [f"{len(group.facts) - most:,} more"] if len(group.facts) > most else []
    remark = element("p", " and ".join(left), class_="cut") if left else None
    heading = element("h3", group.label)
    inner = element(
        "section", heading, shown.html, remark, class_="quote" if group.kind in _TEXTS else None
    )
    return inner, bool(left)


def _json(label: str, text: str) -> tuple[Html, bool]:
    """Folded as little as the room of a card allows."""
    if text == "{}":
        return _section(label, element("p", "None.", class_="hint")), False
    for fold in _FOLDS:
        shown = block(json_lines(text, fold), label, CARD)
        if shown.left == 0:
            break
    folded = fold is not WHOLE[0] or shown.left > 0
    cut, more = None, None
    if folded:
        size = f"{len(text):,} characters in all."
        cut = element("p", f"Not all of it is shown here: {size}", class_="cut")
    if shown.left > 0:
        more = element("p", f"{shown.left:,} more lines", class_="cut")
    return _section(label, cut, shown.html, more), folded


def _warnings(groups: Sequence[_Group]) -> tuple[Html, bool]:
    """The findings, and what changed."""
    findings = [fact for group in groups for fact in group.facts if fact.kind == "finding"]
    most = _MAX_FACTS_OF["finding"]
    left = len(findings) - most
    changes = [_changes(group.text) for group in groups if group.kind == "changes"]
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


def _changes(text: str) -> tuple[Html, bool]:
    """The lines that differ from what was reviewed."""
    label = "What changed since it was reviewed"
    lines = text.split("\n")
    remarks = [line for line in lines[-2:] if line.startswith("…")]
    lines = lines[: len(lines) - len(remarks)]
    shown: list[Html] = []
    for line in lines:
        shown.append(_diff_line(line))
        if sum(map(len, shown)) > CARD.markup:
            break
    left = len(lines) - len(shown)
    remarks += [f"… {left:,} more lines"] if left > 0 else []
    shown += map(_diff_line, remarks)
    pre = element("pre", *shown, class_="block diff", tabindex="0", role="group", aria_label=label)
    return element("details", element("summary", label), pre, open=True), bool(remarks)


def _diff_line(line: str) -> Html:
    kind = {"+": "added", "-": "removed", "@": "place", "…": "note"}.get(line[:1], "same")
    mark = {"added": "Now: ", "removed": "Was: "}.get(kind)
    spoken = None if mark is None else element("span", mark, class_="spoken")
    left = len(line) - _MAX_DIFF_LINE_CHARS
    if left > 0:
        line = f"{line[:_MAX_DIFF_LINE_CHARS]}… ({left:,} more characters)"
    shown = element("span", "…" if kind == "place" else line or " ")
    return element("span", spoken, shown, class_=f"l {kind}")


def _hints(facts: Sequence[Fact]) -> Html:
    shown = []
    for fact in facts:
        value, _, source = fact.text.partition(" ")
        words = element("strong", value), element("span", source.strip("()"), class_="source")
        risk = "risky" if value == _HINTS[fact.kind] else "calm"
        shown.append(element("div", element("dt", fact.label), element("dd", *words), class_=risk))
    return element("dl", *shown, class_="hints")


def _rows(facts: Sequence[Fact]) -> Html:
    rows = (
        element("div", element("dt", fact.label), element("dd", element("bdi", fact.text)))
        for fact in facts
    )
    return element("dl", *rows, class_="facts")


def _in_full(id: str, group: _Group, start: int) -> Html:
    """All of it, or what there is room for from line ``start``."""
    label, text = group.label, group.text
    if text == "{}" and group.facts[0].is_json:
        return _section(label, element("p", "None.", class_="hint"))
    lines = json_lines(text) if group.facts[0].is_json else prose_lines(text)
    shown = block(lines, label, PART, start)
    if shown.start == 0 and shown.left <= 0:
        return joined(_beside(group.facts)) if _is_row(group) else _section(label, shown.html)
    where = f"Lines {shown.start + 1:,} to {shown.end:,} of {shown.lines:,}. "
    links = [
        element("a", text, href=f"{id}?part={group.name}&from={line}")
        for text, line, there in (
            ("From the first line", 0, shown.start > 0),
            (f"On from line {shown.end + 1:,}", shown.end, shown.left > 0),
        )
        if there
    ]
    remark = element("p", where, links[0], " " if links[1:] else None, *links[1:], class_="cut")
    return _section(label, remark, shown.html, remark)


def _section(title: str, *children: Part) -> Html:
    return element("section", element("h3", title), *children)


# ------------------------------------------------------------------------- whose it is


def _names(request: ApprovalRequest) -> tuple[str, str]:
    """Its name and that of its server."""
    kind = _TITLES[request.kind][1]
    return str(getattr(request, kind)), request.server


def _title(request: ApprovalRequest) -> list[Part]:
    name, server = _names(request)
    words, kind = _TITLES[request.kind]
    where = [] if kind == "server" else [" on ", element("bdi", server, class_="server")]
    return [words, element("bdi", name, class_="tool"), *where]


def time_of(seconds: float) -> Html:
    when = datetime.fromtimestamp(seconds, UTC)
    return element("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def _context(request: ApprovalRequest) -> Html | None:
    if request.context is None:
        return None
    known = is_storable(request.context)
    shown = str(request.context) if known else f"a {type(request.context).__name__}"
    return _rows([Fact("On behalf of", shown, "context")])


# ----------------------------------------------------------------------- the answer


def _option(request: ApprovalRequest, name: Choice) -> Html:
    how_far = CHOICES[name]
    covered = request.coverage(how_far.remember)
    return element("option", how_far.label, value=name, data_covers=covered)


def _decided(one: DecidedApproval) -> Html:
    answer = one.answer
    allowed = isinstance(answer, Allow)
    parts: list[Part] = [
        element("strong", "Allowed" if allowed else "Denied", class_="yes" if allowed else "no"),
        " ",
        *_title(one.request),
        " by ",
        element("bdi", answer.by or "somebody"),
        ", ",
        time_of(one.decided_at),
    ]
    if isinstance(answer, Allow):
        if answer.arguments is not None:
            parts.append(", with other arguments")
        remember = Remember.of(answer.remember)
        labels = [one.label for one in CHOICES.values() if one.remember == remember]
        if remember is not None and remember.scope != "call":
            parts += [", remembered: ", labels[0] if labels else remember.scope]
    if answer.reason:
        parts.append(element("q", element("bdi", answer.reason[:500])))
    return element("li", *parts)
