"""Asking the person at the terminal whether a skill may be loaded."""

from __future__ import annotations

import sys

from ..runtime.console import Console
from ..runtime.console_layout import Page, prose
from .decision import Allow, Answer, Deny, Remember
from .skill_request import SkillRequest
from .wording import skill_facts

__all__ = ["decided_skill", "skill_question"]

_TRIES = 3
_SHOWN = 12


async def decided_skill(console: Console, request: SkillRequest, no: str, left: str) -> Answer:
    """``no`` and ``left`` are the reasons for a no, and for a question that was closed."""
    _show(console, request, whole=False)
    tries = _TRIES
    while tries:
        keys = "y/N/v" if request.dynamic else "y/N/s/a/v"
        answer = await console.ask(f"Load it? [{keys}] ")
        if answer is None:
            return Deny(left, source="person")
        match " ".join(answer.lower().split()):
            case "" | "n" | "no":
                return Deny(no, source="person")
            case "y" | "yes":
                return Allow(source="person")
            case "s" | "a" as word if not request.dynamic:
                scope = Remember("session" if word == "s" else "always")
                return Allow(remember=scope, source="person")
            case "v":
                _show(console, request, whole=True)
            case _:
                tries -= 1
                console.say("That is not one of the answers." if tries else "That counts as no.")
    return Deny(no, source="person")


def _show(console: Console, request: SkillRequest, *, whole: bool) -> None:
    page = console.page()
    skill_question(page, request, whole=whole)
    page.say("y  yes, this once          n  no          v  view all", indent=2)
    if not request.dynamic:
        page.say("s  yes to these very files until the session ends", indent=2)
        page.say(
            "a  the same, and for later sessions too where connect(answers=) keeps it", indent=2
        )
    console.show(page)


def skill_question(page: Page, request: SkillRequest, *, whole: bool) -> None:
    """The question as it is asked; ``whole``: with every file, and nothing left out."""
    most = sys.maxsize
    page.say()
    page.say("May this skill be loaded? Its text will be instructions for the model.")
    page.quote("Server", prose(request.server, most if whole else 200), most if whole else 3)
    page.quote("Skill", prose(request.name, 200), 3)
    page.quote("URI", prose(request.uri, most if whole else 400), most if whole else 4)
    page.quote("It says", prose(request.description, most), most if whole else 8)
    for label, text in skill_facts(request):
        page.quote(label, prose(text, most if whole else 400), most if whole else 4)
    for file in request.files[: most if whole else _SHOWN]:
        page.quote("", prose(f"{file.size:,} bytes  {file.path}", most if whole else 200), 3)
    left = 0 if whole else len(request.files) - _SHOWN
    if left > 0:
        page.say(f"and {left:,} more files: v shows them", indent=2)
    for finding in request.findings:
        page.quote("Note", prose(finding.text, most if whole else 600), most if whole else 8)
    if request.digest is not None and whole:
        page.fact("Digest", request.digest)
