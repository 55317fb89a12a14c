"""``doctor``: what a server does when it is started, asked and closed, and what is wrong with it.

Only tools of ``--allow`` that need no arguments are called. A ``Report`` has all that was seen; the
verdict is its worst part::

    unreachable, needs login    it could not be asked at all
    breaks promises             it deviates from the specification or from its own declaration
    slow, old                   it works
    healthy
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio

from ..approval.queue import ApprovalQueue
from ..catalog.finding import Finding
from ..catalog.tool import Tool
from ..errors import (
    BrokenPromise,
    ConfigError,
    ConnectError,
    InvalidSchema,
    McpError,
    NegotiationError,
    OutcomeUnknown,
    ends_of,
)
from ..protocol.capabilities import HANDSHAKE, STATELESS, TOOLS_CALL
from ..protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from ..runtime.limits import Limits
from ..runtime.safe_text import one_line, safe_text
from ..session.connect import connect, transport_of
from ..session.session import Session
from ..transports.base import Received, Transport
from ..transports.recording import Recorder, RecordingTransport
from ..transports.servers import confined
from ..validation.checker import checker_of
from ..validation.usable_schema import UsableSchema
from ..validation.worker_pool import WorkerPool
from .exits import DONE, LOGIN_NEEDED, SERVER_ERROR, UsageError, exit_code, in_shell
from .output import print_json, print_parts, print_text
from .session import (
    approval_queue,
    chosen_target,
    is_allowed,
    logged_in,
    options_of,
    sandbox_of,
    started_from,
)
from .target import Configured

__all__ = ["Problem", "Report", "Step", "doctor", "show_report"]

_MAX_LISTED = 12
"""Problems of one kind that are listed one by one."""


@dataclass(slots=True)
class Step:
    """Something that was asked, and how it went."""

    what: str
    at: float
    """Seconds since the beginning."""
    seconds: float | None = None
    """The seconds until the response; None if there was none."""
    outcome: str = "no response"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, and what a person may do about it."""

    kind: str
    """"unreachable", "needs login", "breaks promises", "slow" or "old"."""
    what: str
    advice: str


@dataclass(slots=True)
class Report:
    """A report of all that was seen of a server, and what is wrong with it."""

    server: str
    revision: str | None = None
    info: str = ""
    steps: list[Step] = field(default_factory=list)
    promises: dict[str, str] = field(default_factory=dict)
    """The declarations of the server, and whether each is true."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    confinement: tuple[str, ...] | None = None
    """The capabilities of a started server in its sandbox, or a note that it has no sandbox."""
    findings: list[Finding] = field(default_factory=list)
    """The findings that a person should look at: texts that could mislead a model, and the like."""
    code: int = DONE

    @property
    def verdict(self) -> str:
        """The verdict: the worst of what was found."""
        order = ("needs login", "unreachable", "breaks promises", "slow", "old")
        kinds = {problem.kind for problem in self.problems}
        return next((kind for kind in order if kind in kinds), "healthy")

    def found(self, kind: str, what: str, advice: str) -> None:
        """Add a finding of ``kind`` with the advice for it."""
        self.problems.append(Problem(kind, what, advice))


def show_report(report: Report) -> None:
    """Print the report for people."""
    speaks = f", speaks {report.revision}" if report.revision else ""
    called = f" ({report.info})" if report.info else ""
    style = {"healthy": "bold green", "old": "bold yellow", "slow": "bold yellow"}
    verdict = (report.verdict, style.get(report.verdict, "bold red"))
    print_parts((f"{report.server}: ", "bold"), verdict, (f"{speaks}{called}", ""))
    for problem in report.problems:
        kind = (f"[{problem.kind}]", style.get(problem.kind, "bold red"))
        print_parts(("\n", ""), kind, (f" {safe_text(problem.what, 2_000)}", ""))
        if problem.advice:
            print_text(f"    {safe_text(problem.advice, 1_000)}")
    _show_list("What it can do here", [safe_text(one, 2_000) for one in report.confinement or ()])
    _show_list("What it declares", [f"{name}: {state}" for name, state in report.promises.items()])
    calls = any(step.what == TOOLS_CALL for step in report.steps)
    uncalled = "" if calls else "; no tool was called"
    print_text(f"\nWhat happened (seconds since the beginning{uncalled}):")
    for step in report.steps:
        took = "" if step.seconds is None else f" after {step.seconds:.2f} s"
        print_text(f"    {step.at:6.2f}  {step.what}: {step.outcome}{took}")
    notes = [safe_text(note, 400) for note in (*report.notes, *map(str, report.findings))]
    more = [f"and {len(notes) - _MAX_LISTED} more"] if len(notes) > _MAX_LISTED else []
    _show_list("Look at these", notes[:_MAX_LISTED] + more)


def _show_list(title: str, lines: list[str]) -> None:
    if lines:
        print_text("\n    ".join([f"\n{title}:", *lines]))


_SLOW_SECONDS = 2.0
"""Longer than a person expects to wait."""
_NOT_CONFINED = ("whatever you can: it is not confined (--sandbox)",)
_REPORT_IT = "Report it to the server's author."
_ALL_SCHEMAS_SECONDS = 30.0
_ONE_SCHEMA_SECONDS = 5.0


class _Timeline(Recorder):
    """A recorder of the time at which each request was sent and answered, instead of a file."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._began = time.monotonic()
        self._asked: dict[int, Step] = {}

    def _now(self) -> float:
        return time.monotonic() - self._began

    def open(self, server: str, secrets: object = None) -> None:
        self._report.steps.append(Step("start", self._now(), outcome="began"))

    def close(self) -> None:
        self._report.steps.append(Step("close", self._now(), outcome="closed"))

    def request(self, text: str) -> int:
        number = len(self._asked)
        self._asked[number] = step = Step(str(json.loads(text)["method"]), self._now())
        self._report.steps.append(step)
        return number

    def received(self, number: int, method: str, message: Received) -> None:
        match message:
            case Response():
                self._answered(number, "answered")
            case ErrorResponse(code=code, message=text):
                self._answered(number, f"error {code}: {safe_text(text, 100)}")

    def failed(self, number: int, error: McpError) -> None:
        self._answered(number, f"failed: {safe_text(one_line(in_shell(error).message), 200)}")

    def unasked(self, message: Request | Notification) -> None:
        if isinstance(message, Request):
            what = f"{safe_text(message.method, 60)} (asked by the server)"
            self._report.steps.append(Step(what, self._now(), 0.0, ""))

    def sent(self, text: str) -> None: ...

    def _answered(self, number: int, outcome: str) -> None:
        step = self._asked[number]
        step.seconds, step.outcome = self._now() - step.at, outcome


async def doctor(options: argparse.Namespace) -> int:
    """Start a server, ask it for its lists, close it, and report what is wrong with it."""
    if options.record:
        raise UsageError("--record does not go with doctor")
    async with approval_queue(options) as queue:
        transport, name, notes = await _transport(options, queue)
        report = Report(name, notes=notes)
        await _examine(report, transport, options)
    _judge_times(report)
    if options.json:
        found = [finding.to_json() for finding in report.findings]
        print_json({**asdict(report), "findings": found, "verdict": report.verdict})
    else:
        show_report(report)
    return report.code


async def _transport(
    options: argparse.Namespace, queue: ApprovalQueue | None
) -> tuple[Transport, str, list[str]]:
    """Return the server's transport, its name, and the problems of its config file."""
    target: Any = await chosen_target(options)
    name, notes = None, []
    if isinstance(target, Configured):
        filtered = target.config._starts[target.name].config(secrets=False)
        if filtered.include or filtered.exclude:
            raise UsageError(
                f"doctor does not go with {target.name!r}, whose config file leaves out tools: "
                "give its URL or command"
            )
        problems = target.config.problems
        notes = [str(one) for one in problems if target.name in one.key.split(".")]
        name, target = target.name, (await started_from(target, options, queue)).server
    else:
        target = await logged_in(target, options)
    transport = transport_of(confined(target, sandbox_of(options)))
    return transport, name or transport.name, notes


async def _examine(report: Report, transport: Transport, options: argparse.Namespace) -> None:
    watched = RecordingTransport(transport, _Timeline(report))
    try:
        settings = options_of(options)
        async with connect(watched, revision=options.revision, **settings) as session:
            report.revision = session.protocol_version
            if not transport.is_remote:
                held = session.sandbox
                report.confinement = _NOT_CONFINED if held is None else held.sentences
            info = session.server_info
            if info is not None:
                report.info = safe_text(f"{info.name} {info.version or ''}".strip(), 120)
            await _check_promises(report, session, options)
            _check_stats(report, session)
            _check_age(report)
    except McpError as error:
        _explain(report, error, options)


# ------------------------------------------------------------------- what is promised


async def _check_promises(report: Report, session: Session, options: argparse.Namespace) -> None:
    declared = session.capabilities
    for name in sorted(declared):
        report.promises[safe_text(name, 40)] = "declared; not tried"
    if "tools" not in declared:
        report.promises["tools"] = "not declared"
    for feature in ("tools", "resources", "prompts"):
        method = f"{feature}/list"
        if feature not in declared:
            continue
        try:
            listed: Any = await getattr(session, f"list_{feature}")()
        except McpError as error:
            _broken_list(report, feature, method, error)
            continue
        report.promises[feature] = f"works: {len(listed)} listed"
        for rejected in listed.rejected[:_MAX_LISTED]:
            report.found(
                "breaks promises",
                f"{rejected.name} of {method} cannot be used: {rejected.reason}",
                f"It is left out; the rest can be used. {_REPORT_IT}",
            )
        left = len(listed.rejected) - _MAX_LISTED
        if left > 0:
            report.found("breaks promises", f"{left} more of {method} cannot be used", "")
        report.findings += getattr(listed, "findings", ())
        if feature == "tools":
            await _check_tools(report, session, listed, options)


def _broken_list(report: Report, feature: str, method: str, error: McpError) -> None:
    why = one_line(in_shell(error).message)
    report.promises[feature] = f"broken: {safe_text(why, 120)}"
    kind, advice = "breaks promises", f"{_REPORT_IT} Other features may work."
    if isinstance(error, OutcomeUnknown):
        kind, advice = "slow", "Allow more time with --timeout; look at what the server waits for."
    report.found(kind, f"it declares {feature}, and {method} fails: {why}", advice)
    report.code = report.code or exit_code(error)


def _check_stats(report: Report, session: Session) -> None:
    stats = session.stats
    probed = _starts_to_negotiate(report) - 1
    if probed > 0 and stats.restarts >= probed:
        report.notes.append("it ended when it was asked for a newer revision, and was restarted")
    for deviation, count in stats.deviations.items():
        times = f" ({count} times)" if count > 1 else ""
        report.notes.append(f"accepted: {safe_text(deviation, 200)}{times}")
    if stats.junk_lines:
        report.found(
            "breaks promises",
            f"it sent {stats.junk_lines} lines that are not messages, such as {stats.last_junk!r}",
            "They were skipped. Over stdio, standard output is for messages only: print logs to "
            "standard error.",
        )
    counts = {
        "responses to requests that were never made": stats.stray_answers,
        "responses that came too late": stats.late_answers,
        "questions that its revision does not allow": stats.refused_questions,
        "restarts, because it ended by itself": stats.restarts - max(probed, 0),
    }
    for what, count in counts.items():
        if count > 0:
            report.found("breaks promises", f"{count} {what}", _REPORT_IT)


def _starts_to_negotiate(report: Report) -> int:
    """Return how often the server was started until a request was answered.

    Some old servers end at the first request of a newer revision, which is not their fault.
    """
    starts = 0
    for step in report.steps:
        if step.outcome == "answered":
            break
        starts += step.what == "start"
    return starts


def _check_age(report: Report) -> None:
    if report.revision in HANDSHAKE[1:]:
        report.found(
            "old",
            f"it speaks {report.revision}; the newest revision is {STATELESS[0]}",
            "It works. A newer version of the server may offer more: look for one.",
        )


def _judge_times(report: Report) -> None:
    if report.verdict == "unreachable":
        return
    for step in report.steps:
        if step.seconds is not None and step.seconds >= _SLOW_SECONDS:
            report.found(
                "slow",
                f"{step.what} took {step.seconds:.1f} s",
                "If it is the first request, the server takes that long to start: install it "
                "instead of having it fetched at each start.",
            )
    if report.code == DONE and report.verdict == "breaks promises":
        report.code = SERVER_ERROR


# ----------------------------------------------------------------------- of each tool


async def _check_tools(
    report: Report, session: Session, tools: Iterable[Tool], options: argparse.Namespace
) -> None:
    """Add what is wrong with the tools to the report."""
    tools = list(tools)
    await _check_schemas(report, tools)
    for tool in tools:
        if is_allowed(options, tool):
            await _check_result(report, session, tool)


async def _check_schemas(report: Report, tools: list[Tool]) -> None:
    workers, checked, wrong = WorkerPool(), 0, 0
    try:
        with anyio.move_on_after(_ALL_SCHEMAS_SECONDS):
            for tool in tools:
                for key, usable in (("in", tool._usable_input), ("out", tool._usable_output)):
                    name = f"the {key}putSchema of {tool.name}"
                    schema = tool._definition.get(f"{key}putSchema")
                    problem = usable and await _schema_problem(schema, usable, workers)
                    if problem and (wrong := wrong + 1) <= _MAX_LISTED:
                        report.found("breaks promises", f"{name} {problem[0]}", problem[1])
                    if usable is not None and usable.slips:
                        slips = ", ".join(usable.slips[:_MAX_LISTED])
                        report.notes.append(f"{name} is not quite JSON Schema at {slips}")
                checked += 1
    finally:
        with anyio.CancelScope(shield=True):
            await workers.aclose()
    if wrong > _MAX_LISTED:
        report.found("breaks promises", f"{wrong - _MAX_LISTED} more schemas cannot be used", "")
    left = f"; {len(tools) - checked} not checked in time" if checked < len(tools) else ""
    report.promises["schemas"] = f"{checked} tools checked, {wrong} schemas cannot be used{left}"


async def _schema_problem(
    schema: Any, usable: UsableSchema, workers: WorkerPool
) -> tuple[str, str] | None:
    """Return the problem of a schema, and its consequence."""
    called = f"The tool can be called; what was skipped is not checked. {_REPORT_IT}"
    if usable.is_broken:
        return f"cannot be used whole: {'; '.join(usable.skipped[:_MAX_LISTED])}", called
    try:
        checker = checker_of(schema, usable, Limits())
    except InvalidSchema as error:
        refused = f"Calls of this tool are refused; the others can be used. {_REPORT_IT}"
        return f"cannot be used: {in_shell(error).message}", refused
    try:
        await checker.prepare(workers, _ONE_SCHEMA_SECONDS)
    except InvalidSchema as error:
        return f"cannot be used: {in_shell(error).message}", called
    return None


async def _check_result(report: Report, session: Session, tool: Tool) -> None:
    """Call a tool that needs no arguments."""
    name = safe_text(tool.name, 60)
    if tool.input_schema.get("required"):
        report.promises[f"call of {name}"] = "not tried: it needs arguments"
        return
    try:
        result = await session.call_tool(tool.name, {})
    except BrokenPromise as error:
        report.found(
            "breaks promises",
            f"the result of {tool.name} is not what it promises: {in_shell(error).message}",
            f"The tool ran. {_REPORT_IT}",
        )
        state = "broken"
    except OutcomeUnknown as error:
        text = f"{tool.name} did not respond: {in_shell(error).message}"
        report.found("slow", text, "Allow more time with --timeout.")
        state = "no response"
    except McpError as error:
        state = f"failed: {safe_text(one_line(in_shell(error).message), 120)}"
    else:
        state = "the tool reports an error" if result.is_error else "works"
    report.promises[f"call of {name}"] = state


# --------------------------------------------------------------- why it cannot be asked


def _explain(report: Report, error: McpError, options: argparse.Namespace) -> None:
    report.code = exit_code(error)
    text = str(error.args[0])  # what can be done is stated below
    tail = getattr(error, "stderr_tail", "")
    if tail:
        text += "; its first and last words were: " + " / ".join(ends_of(tail))
    if report.code == LOGIN_NEEDED:
        advice = (
            f"Run 'mcp-client login {options.target}', or put a token into an environment "
            "variable and give it with --header Authorization=env:NAME (as 'Bearer ...')."
        )
        if options.header:
            advice = "It does not accept the credentials of --header: check or renew them."
        report.found("needs login", f"the server refuses the connection: {text}", advice)
        return
    report.found(_kind(error), text, _advice(error, options))


def _kind(error: McpError) -> str:
    if isinstance(error, NegotiationError):
        return "breaks promises"
    here = ConnectError | OutcomeUnknown | ConfigError  # the server was not asked
    return "unreachable" if isinstance(error, here) else "breaks promises"


def _advice(error: McpError, options: argparse.Namespace) -> str:
    if isinstance(error, NegotiationError):
        return (
            "Client and server have no revision in common: use a newer version of the server, or "
            "leave out --revision."
        )
    advice = in_shell(error).advice
    kind = "env" if error.advice is None or isinstance(error, ConfigError) else error.advice.kind
    if advice is not None and kind in ("env", "proxy"):
        return f"{advice.text[:1].upper()}{advice.text[1:]}."
    if getattr(error, "exit_code", None) is not None:
        return f"The program ended by itself. Run it by hand and see why: {options.target}"
    if "://" in options.target:
        return "Check the URL, and whether the server runs and can be reached from here."
    if isinstance(error, ConnectError) and error.no_such_command:
        return "Install the program, or give its full path."
    return "Run it by hand and see what it waits for; allow more time with --timeout S."
