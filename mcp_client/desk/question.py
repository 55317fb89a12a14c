"""One call as a person sees it on the page, and what was decided about others.

A card takes bounded room, whatever is in the call; what is left out is said, and "Show all of it"
leads to all of it, in parts that are bounded, too.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from datetime import UTC, datetime

from ..approval.decision import Allow, Remember
from ..approval.pending import DecidedApproval, PendingApproval
from ..approval.skill_request import SkillRequest
from ..approval.tool_call import ToolCall
from ..approval.wording import HINTS, ORIGINS, SOURCES, choices, coverage, skill_facts
from ..catalog.call_context import is_storable
from ..catalog.drift import Drift
from ..catalog.fingerprint import fingerprinted
from ..catalog.tool import Tool
from ..runtime.console_layout import SHORT, WHOLE, Fold
from .lines import CARD, PART, PROSE, block, json_lines, prose_lines
from .markup import Html, Part, element, joined

__all__ = ["card", "decided_list", "part", "whole"]

_FOLDS = (*WHOLE, Fold(text=2_000, members=100, depth=6), *SHORT)
_PROSE = 700
_FINDINGS = 30
_DIFF_LINES = 400
_DIFF_LINE = 2_000
"""Characters of one of them; where two long texts differ is said above them."""
_COMPARED = 4_000
"""Lines that are compared, from the first that differs: the time may grow with their square."""
_AROUND = 2
_FILES = 20


def card(pending: PendingApproval, token: str, *, context: bool = False) -> Html:
    """The call with everything it takes to decide it. ``token`` is for its form; ``context`` is
    whether the call's context is shown."""
    call, id = pending.call, pending.id
    if isinstance(call, SkillRequest):
        return _skill_card(pending, call, token, context)
    arguments, folded = _arguments(call)
    return element(
        "article",
        _head(pending),
        _warnings(call, _FINDINGS),
        _origin(call),
        _context(call) if context else None,
        arguments,
        _hints(call),
        _said(call),
        element(
            "p",
            element(
                "a",
                "Show all of it" if folded else "Everything about this call",
                href=f"call/{id}",
                target="_blank",
                rel="noopener",
            ),
            class_="all",
        ),
        _form(pending, token),
        class_="call",
        id=f"call-{id}",
        data_id=id,
        data_text=f"{call.server} {call.tool.name} {call.tool.title or ''}"[:500],
        aria_labelledby=f"title-{id}",
    )


def whole(pending: PendingApproval, *, context: bool = False) -> Html:
    """The call in full, to be read: nothing is left out, but long texts go on at ``part``. The
    arguments come before what the server says, so that no description can put them off."""
    call = pending.call
    skill = isinstance(call, SkillRequest)
    return joined(
        [
            element("h1", *_title(call)),
            _warnings(call, len(call.findings)),
            None if isinstance(call, SkillRequest) else _hints(call),
            None if isinstance(call, SkillRequest) else _origin(call),
            _context(call) if context else None,
            _facts(("URI", call.uri), *skill_facts(call))
            if isinstance(call, SkillRequest)
            else None,
            *(_text(pending.id, name, 0, call) for name in _texts(call)),
            _facts(
                ("Digest of its files", call.digest or "none: its content is dynamic")
                if isinstance(call, SkillRequest)
                else ("Definition", call.tool.fingerprint),
                ("This load" if skill else "This call", call.key),
                ("Its id", call.id),
            ),
        ]
    )


def part(pending: PendingApproval, name: str, start: int) -> Html | None:
    """One text of the call, from line ``start``; None if it has no such text."""
    call = pending.call
    if name not in _texts(call):
        return None
    return joined([element("h1", *_title(call)), _text(pending.id, name, start, call)])


def decided_list(decided: list[DecidedApproval]) -> Html:
    """What was decided lately, the newest first."""
    if not decided:
        return element("p", "Nothing yet.", class_="hint")
    return element("ol", *(_decided(one) for one in reversed(decided)), class_="decided")


# --------------------------------------------------------------------------- parts


def _skill_card(pending: PendingApproval, skill: SkillRequest, token: str, context: bool) -> Html:
    id = pending.id
    link = element("a", "Show all of it", href=f"call/{id}", target="_blank", rel="noopener")
    return element(
        "article",
        _head(pending),
        _warnings(skill, _FINDINGS),
        _context(skill) if context else None,
        _facts(*skill_facts(skill)),
        element("div", _quote("It says", skill.description), class_="said"),
        _skill_files(skill),
        element("p", link, class_="all"),
        _form(pending, token),
        class_="call",
        id=f"call-{id}",
        data_id=id,
        data_text=f"{skill.server} {skill.name} {skill.uri}"[:500],
        aria_labelledby=f"title-{id}",
    )


def _skill_files(skill: SkillRequest) -> Html | None:
    if not skill.files:
        return None
    left = len(skill.files) - _FILES
    more = element("p", f"{left:,} more files", class_="hint") if left > 0 else None
    listed = prose_lines("\n".join(_file_lines(skill, _FILES)))
    return _section("Files", block(listed, "Files", PROSE).html, more)


def _file_lines(skill: SkillRequest, most: int | None) -> Iterator[str]:
    return (f"{file.size:,} bytes  {file.path}" for file in skill.files[:most])


def _texts(call: ToolCall | SkillRequest) -> dict[str, tuple[str, str, bool]]:
    """What may be long: by a short name its label, the text, and whether that is JSON."""
    if isinstance(call, SkillRequest):
        files = "\n".join(_file_lines(call, None))
        found = {
            "description": ("It says", call.description, False),
            "files": ("Files", files, False),
        }
    else:
        tool = call.tool
        found = {
            "arguments": ("Arguments", call.arguments_json, True),
            "meta": ("The caller's _meta", call.meta_json or "", True),
            "title": ("Its title", tool.title or "", False),
            "description": ("It says", tool.description or "", False),
            "schema": ("Input schema", json.dumps(tool.input_schema), True),
        }
    return {name: one for name, one in found.items() if one[1]}


def _text(id: str, name: str, start: int, call: ToolCall | SkillRequest) -> Html:
    label, text, is_json = _texts(call)[name]
    if text == "{}" and name == "arguments":
        return _section(label, element("p", "None.", class_="hint"))
    shown = block(json_lines(text) if is_json else prose_lines(text), label, PART, start)
    if shown.start == 0 and shown.left <= 0:
        return _section(label, shown.html)
    where = f"Lines {shown.start + 1:,} to {shown.end:,} of {shown.lines:,}. "
    links = [
        element("a", text, href=f"{id}?part={name}&from={line}")
        for text, line, there in (
            ("From the first line", 0, shown.start > 0),
            (f"On from line {shown.end + 1:,}", shown.end, shown.left > 0),
        )
        if there
    ]
    remark = element("p", where, links[0], " " if links[1:] else None, *links[1:], class_="cut")
    return _section(label, remark, shown.html, remark)


def _title(call: ToolCall | SkillRequest) -> list[Part]:
    is_skill = isinstance(call, SkillRequest)
    name = call.name if isinstance(call, SkillRequest) else call.tool.name
    return [
        "Skill " if is_skill else None,
        element("bdi", name, class_="tool"),
        " on ",
        element("bdi", call.server, class_="server"),
    ]


def _head(pending: PendingApproval) -> Html:
    id = pending.id
    tick = element(
        "input", type="checkbox", name="ids", value=id, form="batch", class_="tick", id=f"tick-{id}"
    )
    times: list[Part] = ["Asked ", _time(pending.asked_at)]
    if pending.expires_at is not None:
        times += [", refused ", _time(pending.expires_at), " if it is not decided"]
    return element(
        "header",
        element("label", tick, element("span", "Select"), class_="select", for_=f"tick-{id}"),
        element("h2", *_title(pending.call), id=f"title-{id}", tabindex="-1"),
        element("p", *times, class_="hint times"),
    )


def _time(seconds: float) -> Html:
    when = datetime.fromtimestamp(seconds, UTC)
    return element("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def _warnings(call: ToolCall | SkillRequest, most: int) -> Html | None:
    drift = None if isinstance(call, SkillRequest) else call.drift
    if not call.findings and drift is None:
        return None
    left = len(call.findings) - most
    return element(
        "section",
        element("h3", "Look at this first"),
        element("ul", *(element("li", finding.text) for finding in call.findings[:most])),
        element("p", f"{left:,} more: show all of it", class_="cut") if left > 0 else None,
        None if isinstance(call, SkillRequest) or drift is None else _drift(call.tool, drift),
        class_="findings",
    )


def _drift(tool: Tool, drift: Drift) -> Html | None:
    """The pinned definition and the one in force, line by line."""
    if drift.pinned is None:
        return None
    old, new = (_definition_lines(each) for each in (drift.pinned, fingerprinted(tool._definition)))
    same = (number for number, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    start = max(0, next(same, min(len(old), len(new))) - _AROUND)
    end = start + _COMPARED
    lines = list(difflib.unified_diff(old[start:end], new[start:end], lineterm="", n=_AROUND))[3:]
    shown: list[Html] = []
    for line in lines[:_DIFF_LINES]:
        shown.append(_diff_line(line))
        if sum(map(len, shown)) > CARD.markup:
            break
    if len(lines) > len(shown):
        shown.append(element("span", f"{len(lines) - len(shown):,} more lines", class_="l note"))
    if max(len(old), len(new)) > end:
        left = max(len(old), len(new)) - end
        note = f"{left:,} lines further down are not compared: look at the whole call"
        shown.append(element("span", note, class_="l note"))
    return element(
        "details",
        element("summary", "What changed since the tool was reviewed"),
        element(
            "pre",
            *shown,
            class_="block diff",
            tabindex="0",
            role="group",
            aria_label="What changed since the tool was reviewed",
        ),
        open=True,
    )


def _definition_lines(definition: dict[str, object]) -> list[str]:
    text = json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\\n\n").split("\n")


def _diff_line(line: str) -> Html:
    kind = {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")
    mark = {"added": "Now: ", "removed": "Was: "}.get(kind)
    spoken = None if mark is None else element("span", mark, class_="spoken")
    left = len(line) - _DIFF_LINE
    if left > 0:
        line = f"{line[:_DIFF_LINE]}… ({left:,} more characters)"
    shown = element("span", "…" if kind == "place" else line or " ")
    return element("span", spoken, shown, class_=f"l {kind}")


def _said(call: ToolCall) -> Html | None:
    quotes = [
        _quote(label, text)
        for label, text in (("Its title", call.tool.title), ("It says", call.tool.description))
        if text
    ]
    return element("div", *quotes, class_="said") if quotes else None


def _quote(label: str, text: str) -> Html:
    shown = block(prose_lines(text[:_PROSE]), label, PROSE)
    left = [f"{shown.left:,} more lines"] if shown.left > 0 else []
    left += [f"{len(text) - _PROSE:,} more characters"] if len(text) > _PROSE else []
    return element(
        "div",
        element("h3", label),
        shown.html,
        element("p", " and ".join(left), class_="hint") if left else None,
        class_="quote",
    )


def _hints(call: ToolCall) -> Html:
    sources = call.hints.source
    facts = []
    for name, label in HINTS:
        value = getattr(call.hints, name)
        risky = value is (name in ("destructive", "open_world"))
        facts.append(
            element(
                "div",
                element("dt", label),
                element(
                    "dd",
                    element("strong", "yes" if value else "no"),
                    element("span", SOURCES[sources[name]], class_="source"),
                ),
                class_="risky" if risky else "calm",
            )
        )
    return element("dl", *facts, class_="hints")


def _origin(call: ToolCall) -> Html | None:
    return _facts(("Called by", ORIGINS[call.origin])) if call.origin in ORIGINS else None


def _context(call: ToolCall | SkillRequest) -> Html | None:
    if call.context is None:
        return None
    known = is_storable(call.context)
    shown = str(call.context) if known else f"a {type(call.context).__name__}"
    return _facts(("On behalf of", shown))


def _facts(*facts: tuple[str, str]) -> Html:
    rows = (
        element("div", element("dt", name), element("dd", element("bdi", value)))
        for name, value in facts
    )
    return element("dl", *rows, class_="facts")


def _arguments(call: ToolCall) -> tuple[Html, bool]:
    """On a card, folded as little as its room allows; and whether anything is left out."""
    text = call.arguments_json
    if text == "{}":
        return _section("Arguments", element("p", "None.", class_="hint")), False
    for fold in _FOLDS:
        shown = block(json_lines(text, fold), "Arguments", CARD)
        if shown.left == 0:
            break
    folded = fold is not WHOLE[0] or shown.left > 0
    cut, more = None, None
    if folded:
        size = f"{len(text):,} characters in all."
        cut = element("p", f"Not all of it is shown here: {size}", class_="cut")
    if shown.left > 0:
        more = element("p", f"{shown.left:,} more lines", class_="cut")
    return _section("Arguments", cut, shown.html, more), folded


def _section(title: str, *children: Part) -> Html:
    return element("section", element("h3", title), *children)


# ----------------------------------------------------------------------- the answer


def _form(pending: PendingApproval, token: str) -> Html:
    id = pending.id
    has_arguments = not isinstance(pending.call, SkillRequest)
    return element(
        "form",
        element("input", type="hidden", name="token", value=token),
        element("input", type="hidden", name="ids", value=id),
        # Enter in a field presses the first button of a form: this one, which does nothing.
        element("button", "Nothing", type="submit", disabled=True, hidden=True),
        _editor(id) if has_arguments else None,
        element("p", id=f"error-{id}", class_="error", role="alert", hidden=True),
        element("div", _reason(id), _remember(pending), class_="fields"),
        element(
            "p", coverage(pending.call, Remember("call")), id=f"covers-{id}", class_="hint covers"
        ),
        element(
            "div",
            element("button", "Allow", type="submit", name="answer", value="allow", class_="allow"),
            element("button", "Deny", type="submit", name="answer", value="deny", class_="deny"),
            element(
                "button",
                "Edit",
                type="button",
                class_="edit-button",
                aria_expanded="false",
                aria_controls=f"arguments-{id}",
                hidden=True,
            )
            if has_arguments
            else None,
            class_="buttons",
        ),
        method="post",
        action="decide",
        class_="answer",
    )


def _editor(id: str) -> Html:
    """The script shows it, and fetches what stands in it."""
    area = element(
        "textarea",
        id=f"arguments-{id}",
        name="arguments",
        rows="6",
        spellcheck="false",
        autocomplete="off",
        disabled=True,
        data_draft=f"draft/{id}",
        aria_describedby=f"error-{id}",
    )
    label = element("label", "Arguments to send instead (JSON)", for_=f"arguments-{id}")
    return element("div", label, area, class_="edit", hidden=True)


def _reason(id: str) -> Html:
    field = element(
        "input", type="text", id=f"reason-{id}", name="reason", maxlength="500", autocomplete="off"
    )
    return element("div", element("label", "Reason", for_=f"reason-{id}"), field, class_="field")


def _remember(pending: PendingApproval) -> Html:
    id = pending.id
    choice = element(
        "select",
        *(_option(pending.call, name) for name in choices(pending.call)),
        id=f"remember-{id}",
        name="remember",
        aria_describedby=f"covers-{id}",
    )
    label = element("label", "Remember", for_=f"remember-{id}")
    return element("div", label, choice, class_="field")


def _option(call: ToolCall | SkillRequest, name: str) -> Html:
    label, remember = choices(call)[name]
    return element("option", label, value=name, data_covers=coverage(call, remember))


def _decided(one: DecidedApproval) -> Html:
    answer, call = one.answer, one.call
    allowed = isinstance(answer, Allow)
    parts: list[Part] = [
        element("strong", "Allowed" if allowed else "Denied", class_="yes" if allowed else "no"),
        " ",
        *_title(call),
        " by ",
        element("bdi", answer.by or "somebody"),
        ", ",
        _time(one.decided_at),
    ]
    if isinstance(answer, Allow):
        if answer.arguments is not None:
            parts.append(", with other arguments")
        remember = Remember.of(answer.remember)
        labels = [label for label, known in choices(call).values() if known == remember]
        if remember is not None and remember.scope != "call":
            parts += [", remembered: ", labels[0] if labels else remember.scope]
    if answer.reason:
        parts.append(element("q", element("bdi", answer.reason[:500])))
    return element("li", *parts)
