"""What decides for a command: ``--allow``, ``--approve``, ``--no-input``, the person there."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..approval.decision import Answer, Deny
from ..approval.request import ApprovalRequest
from ..approval.rules import Rule, Rules
from ..approval.tool_call import ToolCall
from ..catalog.finding import Finding
from ..errors import ConfigError
from .exits import UsageError

if TYPE_CHECKING:
    from ..approval.queue import ApprovalQueue
    from ..catalog.tool import Tool

__all__ = ["is_allowed", "policy_of"]

_SEPARATORS = "/", "__"


def policy_of(options: argparse.Namespace, queue: ApprovalQueue | None = None) -> Rules:
    """The approval policy: what ``--allow`` names runs, all else is asked about or refused.

    With a ``queue`` that is asked.
    """
    rules = _rules(options)

    async def ask(request: Any) -> Answer:
        if queue is not None:
            return await queue(request)
        why = _why_unasked(options)
        if why is None:
            from ..approval.terminal import ask_on_terminal

            return await ask_on_terminal(request)
        return Deny(f"{why}; {_advice(rules, request)}", source="rule")

    return Rules(rules, ask)


def is_allowed(options: argparse.Namespace, tool: Tool) -> bool:
    """Whether ``--allow`` lets the tool run."""
    return Rules(_rules(options)).decide(ToolCall.example(tool)) is not None


def _rules(options: argparse.Namespace) -> list[Rule]:
    return [_rule(glob, tuple(options.allow_finding)) for glob in options.allow]


def _rule(glob: str, findings: tuple[str, ...]) -> Rule:
    """``TOOL``, ``SERVER/TOOL`` or ``SERVER__TOOL``: server and tool are matched apart, so that no
    tool is called like one of another server."""
    server: str | None = None
    tool = glob
    for separator in _SEPARATORS:
        if separator in glob:
            server, _, tool = glob.partition(separator)
            break
    try:
        return Rule("allow", server=server, tool=tool, findings=findings)
    except ConfigError as error:
        raise UsageError(f"--allow {glob}: {error.message}") from None


def _advice(rules: list[Rule], request: ApprovalRequest) -> str:
    """What lets the request through: another finding that is put up with, or its name."""
    for rule in rules:
        if replace(rule, findings=Finding.KINDS).matches(request):
            found = [one for one in request.findings if one.kind not in rule.findings]
            kinds = dict.fromkeys(one.kind for one in found)
            texts = "; ".join(dict.fromkeys(str(one) for one in found))
            words = " ".join(f"--allow-finding {kind}" for kind in kinds)
            return f"{texts}; allow it all the same with {words}"
    return f"allow it with --allow {_as_glob(request)}"


def _as_glob(request: ApprovalRequest) -> str:
    name = request.subject
    if any(separator in name for separator in _SEPARATORS):
        name = f"{request.server}/{name}"
    for sign in "[*?":  # which stand for other characters in a pattern
        name = name.replace(sign, f"[{sign}]")
    return shlex.quote(name)


def _why_unasked(options: argparse.Namespace) -> str | None:
    """Why a person cannot be asked now; None if one can be."""
    if options.approve == "deny":
        return "--approve deny was given"
    if options.no_input:
        return "--no-input was given"
    if not options.terminal:
        return "no terminal to ask at"
    from ..runtime.console import why_no_terminal

    return why_no_terminal()
