"""What was decided lately, as a person sees it on the page."""

from __future__ import annotations

from collections.abc import Sequence

from ..approval.decision import CHOICES, Allow, Answer, Deny, Remember
from ..approval.queue import DecidedApproval
from .markup import Html, Part, element
from .subject import age_of, gist, title_of

__all__ = ["decided_list"]


def decided_list(decided: Sequence[DecidedApproval]) -> Html:
    """Return the newest first."""
    if not decided:
        return element("p", "Nothing yet.", class_="hint")
    return element("ol", *(_decided(one) for one in reversed(decided)), class_="decided")


def _decided(one: DecidedApproval) -> Html:
    answer = one.answer
    allowed = isinstance(answer, Allow)
    parts: list[Part] = [
        element("strong", "Allowed" if allowed else "Denied", class_="yes" if allowed else "no"),
        " ",
        element("a", *title_of(one.request), href=f"decided/{one.id}"),
        " by ",
        element("bdi", answer.by or "somebody"),
        ", ",
        age_of(one.decided_at),
    ]
    if isinstance(answer, Allow):
        if answer.arguments is not None:
            parts.append(", with other arguments")
        remember = Remember.of(answer.remember)
        labels = [one.label for one in CHOICES.values() if one.remember == remember]
        if remember is not None and remember.scope != "call":
            parts += [", remembered: ", labels[0] if labels else remember.scope]
    about = gist(one.request)
    if about:
        parts.append(element("span", element("bdi", about), class_="gist"))
    if answer.reason and not _is_without_reason(answer):
        parts.append(element("q", element("bdi", answer.reason[:500])))
    return element("li", *parts)


def _is_without_reason(answer: Answer) -> bool:
    """What stands in place of a reason is not quoted as if somebody had written it."""
    bare = isinstance(answer, Deny) and Deny(source=answer.source, by=answer.by, rule=answer.rule)
    return answer == bare
