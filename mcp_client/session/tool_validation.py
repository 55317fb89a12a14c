"""Validate arguments and results against the schemas of their tool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..catalog.call_values import ModelArguments, ToolResult
from ..catalog.definition import Hints
from ..catalog.finding import Finding, FindingKind
from ..catalog.tool import Tool
from ..errors import Advice, InvalidResult, InvalidSchema
from ..protocol.canonical_json import sha256
from ..protocol.json_paths import escape, parse, resolve
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..validation.checker import Checker, Problem, checker_of
from ..validation.engine import short
from ..validation.schema_shape import survey_schema
from ..validation.strictness import Strictness, Validation
from ..validation.usable_schema import UsableSchema
from ..validation.worker_pool import WorkerPool

__all__ = ["ToolPlan", "ToolValidation", "arguments_finding", "caller_message", "log_problem"]

_log = logging.getLogger("mcp_client")
_WHOLE_RESULT = Advice("the complete result is in .result", "result")
_MAX_ABOUT_CHARS = 200
_MISSING = Problem("", "structuredContent", "none")


class _Unchecked:
    """Takes the place of the checker of arguments that are not to be checked."""

    is_known_valid: Callable[[Any], bool] = staticmethod(lambda value: True)


class _NotRead:
    """Takes the place of the checker of an output schema that was not looked at yet."""

    is_sound = False


class _Unjudged:
    """Takes the place of the checker of a schema that cannot be used."""

    is_known_valid: Callable[[Any], bool] = staticmethod(lambda value: False)
    is_sound = True

    def __init__(self, why: str) -> None:
        self.problem: Problem = Problem("", "", "", undecided=why, is_of_schema=True)


_UNCHECKED, _NOT_READ = _Unchecked(), _NotRead()


class ToolPlan:
    """The facts about one tool that each of its calls needs, computed once."""

    __slots__ = ("callers", "findings", "hints", "input", "output", "task_support", "tool")

    def __init__(self, tool: Tool, input: Checker | _Unchecked | _Unjudged) -> None:
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
        self.input: Checker | _Unchecked | _Unjudged = input
        """Checks arguments."""
        self.output: Checker | _NotRead | _Unjudged | None = _NOT_READ
        """Checks structured content; None where the tool has no output schema."""


class ToolValidation:
    """The validation of one session. ``seconds`` limits one check that uses a worker process."""

    def __init__(self, validation: Validation, limits: Limits, workers: WorkerPool) -> None:
        self._arguments = validation.arguments
        self.results: Strictness = validation.results
        """The default for calls without their own option."""
        self._limits = limits
        self._workers = workers

    def plan(self, tool: Tool) -> ToolPlan:
        """Return the plan of ``tool``, from its cache. Raises ``InvalidSchema`` above a limit."""
        if self._arguments == "off":
            plan = ToolPlan(tool, _UNCHECKED)
        else:
            schema = tool._definition["inputSchema"]
            plan = ToolPlan(tool, self._checker(schema, tool._usable_input))
        object.__setattr__(tool, "_plan", plan)
        return plan

    def _checker(self, schema: Any, usable: UsableSchema) -> Checker | _Unjudged:
        try:
            return checker_of(schema, usable, self._limits)
        except InvalidSchema as error:
            if survey_schema(schema, self._limits).over_limit:
                raise
            return _Unjudged(str(error))

    def refuses(self, arguments: object, edited: bool, problem: Problem) -> bool:
        """Return whether arguments with ``problem`` are refused.

        A check that could not be finished does not refuse, except in "strict" mode after a timeout.

        Args:
            arguments: The caller's arguments.
            edited: Whether an approver edited the arguments.
            problem: The problem that was found.
        """
        if problem.is_of_schema:
            return False
        if self._arguments is None:
            return not problem.undecided and isinstance(arguments, ModelArguments) and not edited
        return self._arguments == "strict"

    async def arguments_problem(
        self, plan: ToolPlan, arguments: dict[str, Any], seconds: float
    ) -> Problem | None:
        """Return the problem of the arguments, or None.

        Args:
            plan: The plan of the tool.
            arguments: The arguments to check.
            seconds: The limit for the check.
        """
        return await self._problem(plan.input, plan.tool._usable_input.patterns, arguments, seconds)

    async def _problem(
        self, checker: object, patterns: Mapping[str, str], value: Any, seconds: float
    ) -> Problem | None:
        if isinstance(checker, _Unjudged):
            return checker.problem
        if not isinstance(checker, Checker) or checker.is_known_valid(value):
            return None
        try:
            problem = await checker.problem(value, self._workers, seconds)
        except InvalidSchema as error:
            return _Unjudged(str(error)).problem
        return _as_written(problem, patterns) if problem and patterns else problem

    async def prepare_results(self, plan: ToolPlan, seconds: float) -> None:
        """Check before the call whether results can be validated.

        Raises ``InvalidSchema`` for a schema above a limit.
        """
        if isinstance(plan.output, _NotRead):
            usable = plan.tool._usable_output
            if usable is None:
                plan.output = None
            elif usable.is_broken:
                plan.output = _Unjudged(f"the schema cannot be used: {'; '.join(usable.skipped)}")
            else:
                plan.output = self._checker(plan.tool._definition["outputSchema"], usable)
        if isinstance(plan.output, Checker):
            try:
                await plan.output.prepare(self._workers, seconds)
            except InvalidSchema as error:
                plan.output = _Unjudged(str(error))

    async def checked(
        self, plan: ToolPlan, result: ToolResult, strictness: Strictness, seconds: float
    ) -> ToolResult:
        """Return ``result``, with a finding if it is invalid or could not be checked.

        Args:
            plan: The plan of the tool.
            result: The result to check.
            strictness: "strict", "warn" or "off".
            seconds: The limit for the check.

        Raises:
            InvalidResult: The result is invalid, and ``strictness`` is "strict".
        """
        problem = await self.result_problem(plan, result.raw, seconds)
        usable = plan.tool._usable_output
        if problem is None:
            if usable is None or not usable.skipped:
                return result
            text = f"its result could not be checked completely: {'; '.join(usable.skipped)}"
            return replace(result, findings=(Finding("unchecked_result", text),))
        text = problem.of("its result", "its output schema")
        if strictness == "strict" and not problem.undecided:
            raise InvalidResult(
                f"the tool ran, but {text}", advice=_WHOLE_RESULT, path=problem.path, result=result
            )
        log_problem("result", result.server, result.tool, problem)
        kind: FindingKind = "unchecked_result" if problem.undecided else "broken_result"
        return replace(result, findings=(Finding(kind, text, problem.path),))

    def unchecked(self, result: ToolResult, strictness: Strictness, why: str) -> ToolResult:
        """Return ``result`` as ``checked`` does, for a tool without a schema to check it.

        Args:
            result: The result.
            strictness: "strict", "warn" or "off".
            why: The reason why there is no schema.
        """
        text = f"its result cannot be checked, because {why}"
        if strictness == "strict":
            raise InvalidResult(f"the tool ran, but {text}", advice=_WHOLE_RESULT, result=result)
        finding = Finding("unchecked_result", text)
        return replace(result, findings=(*result.findings, finding))

    async def result_problem(
        self, plan: ToolPlan, result: dict[str, Any], seconds: float
    ) -> Problem | None:
        """Return the problem of the structured content of ``result``, or None.

        Args:
            plan: The plan of the tool.
            result: The complete result.
            seconds: The limit for the check.
        """
        checker, usable = plan.output, plan.tool._usable_output
        if isinstance(checker, Checker) and "structuredContent" not in result:
            return _MISSING
        patterns = {} if usable is None else usable.patterns
        return await self._problem(checker, patterns, result.get("structuredContent"), seconds)


def _as_written(problem: Problem, patterns: Mapping[str, str]) -> Problem:
    """``problem`` with the patterns of the schema as its author wrote them."""
    expected = problem.expected
    for text, source in patterns.items():
        expected = expected.replace(safe_text(short(text)), safe_text(short(source)))
    others = tuple([_as_written(one, patterns) for one in problem.others])
    return replace(problem, expected=expected, others=others)


def caller_message(problem: Problem, tool: Tool, text: str) -> str:
    """Return ``text`` without the arguments that the host sets, for the caller of the tool.

    Args:
        problem: The problem of the arguments.
        tool: The tool.
        text: The text about the problem.
    """
    if not tool.bound or problem.undecided:
        return text
    others = tuple([_without_bound(one, tool.bound) for one in problem.others])
    unbound = replace(_without_bound(problem, tool.bound), others=others)
    return unbound.of("the arguments", "the tool's input schema")


def _without_bound(problem: Problem, bound: Sequence[str]) -> Problem:
    step = problem.path.split("/", 2)[1:2]
    if step and not any(step[0] == escape(name) for name in bound):
        return problem
    is_reported = not step and not any(name in problem.expected for name in bound)
    expected = problem.expected if is_reported else "something else"
    return replace(problem, expected=expected, came="an argument that the host sets, among others")


def arguments_finding(problem: Problem, text: str, arguments: dict[str, Any]) -> Finding:
    """Return the finding about invalid ``arguments``.

    Its ``about`` has each place, and the type of the value there with the names of its members.
    Another value of that type does not need another decision.

    Args:
        problem: The problem of the arguments.
        text: The text about the problem.
        arguments: The arguments.
    """
    if problem.undecided:
        return Finding("unchecked_arguments", text, note=problem.is_of_schema)
    about = "; ".join(_about(one.path, arguments) for one in (problem, *problem.others))
    if problem.more:
        about += f"; {problem.more}"
    short = safe_text(about, _MAX_ABOUT_CHARS)
    return Finding(
        "broken_arguments", text, short if short == about else f"{short} {sha256(about)}"
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
    """Log the problem of arguments or a result, without its values.

    Args:
        what: "arguments" or "result".
        server: The name of the server.
        tool: The name of the tool.
        problem: The problem.
    """
    if problem.is_of_schema:
        return  # which is a finding of each call
    # The caller of the tool may read the server's text about the arguments.
    level = logging.WARNING if what == "result" else logging.DEBUG
    # The places and not the values, which may be secrets: logs travel further than findings.
    _log.log(
        level, "%s/%s: the %s is not valid for the schema at %s", server, tool, what, problem.places
    )
