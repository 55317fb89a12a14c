"""Arguments and results against the schemas of their tool, as strictly as the host wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..catalog.call_context import ModelArguments
from ..catalog.finding import Finding, FindingKind
from ..catalog.result import ToolResult
from ..catalog.tool import Tool
from ..catalog.tool_traits import Hints
from ..errors import Advice, InvalidResult, InvalidSchema
from ..protocol.canonical_json import sha256
from ..protocol.headers import HeaderParam
from ..protocol.json_pointer import escape, parse, resolve
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..validation.checker import Checker, Problem, checker_for
from ..validation.strictness import Strictness
from ..validation.worker_pool import WorkerPool

__all__ = [
    "ToolPlan",
    "ToolValidation",
    "arguments_finding",
    "log_problem",
    "told_to_caller",
]

_log = logging.getLogger("mcp_client")
_WHOLE_RESULT = Advice("the whole result is in .result", "result")
_MAX_ABOUT_CHARS = 200
_MISSING = Problem("", "structuredContent", "none")


class _Unchecked:
    """Takes the place of the checker of arguments that are not to be checked."""

    is_known_valid: Callable[[Any], bool] = staticmethod(lambda value: True)


class _NotRead:
    """Takes the place of the checker of an output schema that was not looked at yet."""

    is_sound = False


_UNCHECKED, _NOT_READ = _Unchecked(), _NotRead()


class ToolPlan:
    """What each call of one tool needs to know of it, found out once."""

    __slots__ = (
        "callers",
        "findings",
        "hints",
        "input",
        "mirrors",
        "output",
        "task_support",
        "tool",
    )

    def __init__(self, tool: Tool, input: Checker | _Unchecked) -> None:
        self.tool: Tool = tool
        self.hints: Hints = tool.hints
        self.findings: tuple[Finding, ...] = tool.findings
        for_models = tool.is_for_models
        self.callers: dict[str, bool] = {
            "host": for_models,
            "code": for_models,
            "app": tool.is_for_apps,
        }
        """Who may call it, of the host, which speaks for a model too, and views."""
        self.task_support = tool.task_support
        self.input: Checker | _Unchecked = input
        """Checks arguments."""
        self.output: Checker | _NotRead | None = _NOT_READ
        """Checks structured content; None where the tool has no output schema."""
        self.mirrors: Sequence[HeaderParam] | None = None
        """The arguments that HTTP headers repeat; None before that is needed."""


class ToolValidation:
    """What one session checks. ``seconds`` bound one check that takes a worker process."""

    def __init__(
        self, arguments: Strictness | None, results: Strictness, limits: Limits, workers: WorkerPool
    ) -> None:
        self._arguments = arguments
        self.results = results
        """For calls that do not say otherwise."""
        self._limits = limits
        self._workers = workers

    def plan(self, tool: Tool) -> ToolPlan:
        """The plan of ``tool``, which keeps it. Raises ``InvalidSchema``."""
        off = self._arguments == "off"
        schema = tool._definition["inputSchema"]
        plan = ToolPlan(tool, _UNCHECKED if off else checker_for(schema, self._limits))
        object.__setattr__(tool, "_plan", plan)
        return plan

    def refuses(self, given: object, edited: bool) -> bool:
        """Whether arguments that break the schema are refused: those of the caller, as ``given``,
        or an approver's edit."""
        if self._arguments is None:
            return isinstance(given, ModelArguments) and not edited
        return self._arguments == "strict"

    async def arguments_problem(
        self, plan: ToolPlan, arguments: dict[str, Any], seconds: float
    ) -> Problem | None:
        checker = plan.input
        if not isinstance(checker, Checker):
            return None
        return await checker.problem(arguments, self._workers, seconds)

    async def prepare_results(self, plan: ToolPlan, seconds: float) -> None:
        """Raises ``InvalidSchema`` if results could not be checked: before the call."""
        if isinstance(plan.output, _NotRead):
            schema = plan.tool._definition.get("outputSchema")
            plan.output = None if schema is None else checker_for(schema, self._limits)
        if plan.output is not None:
            await plan.output.prepare(self._workers, seconds)

    async def checked(
        self, plan: ToolPlan, result: ToolResult, strictness: Strictness, seconds: float
    ) -> ToolResult:
        """``result``, with a finding where it breaks the output schema; raises ``InvalidResult``
        for that where it is to be ``strict``."""
        problem = await self.result_problem(plan, result.raw, seconds)
        if problem is None:
            return result
        text = problem.of("its result", "its output schema")
        if strictness == "strict":
            raise InvalidResult(
                f"the tool ran, but {text}",
                advice=_WHOLE_RESULT,
                path=problem.path,
                result=result,
            )
        log_problem("result", result.server, result.tool, problem)
        kind: FindingKind = "unchecked_result" if problem.undecided else "broken_result"
        return replace(result, findings=(Finding(kind, text, problem.path),))

    def unchecked(self, result: ToolResult, strictness: Strictness, why: str) -> ToolResult:
        """``result``, of which there is no schema any more to check it, as ``checked`` gives it."""
        text = f"its result cannot be checked, because {why}"
        if strictness == "strict":
            raise InvalidResult(f"the tool ran, but {text}", advice=_WHOLE_RESULT, result=result)
        finding = Finding("unchecked_result", text)
        return replace(result, findings=(*result.findings, finding))

    async def result_problem(
        self, plan: ToolPlan, result: dict[str, Any], seconds: float
    ) -> Problem | None:
        """What is wrong with the structured content of ``result``, the server's whole answer."""
        checker = plan.output
        if not isinstance(checker, Checker):
            return None
        if "structuredContent" not in result:
            return _MISSING
        content = result["structuredContent"]
        if checker.is_known_valid(content):
            return None
        try:
            return await checker.problem(content, self._workers, seconds)
        except InvalidSchema as error:
            # The tool ran: this error would say that nothing was sent.
            return Problem("", "", "", str(error))


def told_to_caller(problem: Problem, tool: Tool, text: str) -> str:
    """``text``, which says what is wrong with arguments, without what the host sets: for who gave
    the others."""
    if not tool.bound or problem.undecided:
        return text
    others = tuple([_without_bound(one, tool.bound) for one in problem.others])
    shown = replace(_without_bound(problem, tool.bound), others=others)
    return shown.of("the arguments", "the tool's input schema")


def _without_bound(problem: Problem, bound: Sequence[str]) -> Problem:
    step = problem.path.split("/", 2)[1:2]
    if step and not any(step[0] == escape(name) for name in bound):
        return problem
    is_told = not step and not any(name in problem.expected for name in bound)
    expected = problem.expected if is_told else "something else"
    return replace(problem, expected=expected, came="what the host sets, among others")


def arguments_finding(problem: Problem, text: str, arguments: dict[str, Any]) -> Finding:
    """What is wrong with ``arguments``. Its ``about`` has each place and the type of what is there,
    with the names of its members: another value of that type need not be asked about again."""
    if problem.undecided:
        return Finding("unchecked_arguments", text)
    about = "; ".join(_about(one.path, arguments) for one in (problem, *problem.others))
    if problem.more:
        about += f"; {problem.more}"
    shown = safe_text(about, _MAX_ABOUT_CHARS)
    return Finding(
        "broken_arguments", text, shown if shown == about else f"{shown} {sha256(about)}"
    )


def _about(path: str, arguments: dict[str, Any]) -> str:
    try:
        value = resolve(arguments, parse(path))
    except (LookupError, ValueError):  # the path was shortened
        return path
    about = f"{path or 'the whole value'}: {_TYPES.get(type(value), 'number')}"
    return f"{about} of {', '.join(sorted(value))}" if type(value) is dict else about


_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    type(None): "null",
}


def log_problem(what: str, server: str, tool: str, problem: Problem) -> None:
    # The places and not the values, which may be secrets: logs travel further than findings.
    _log.warning("%s/%s: the %s breaks the schema at %s", server, tool, what, problem.places)
