"""The observations of ``doctor`` about a server, and how they are printed for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..catalog.finding import Finding
from ..protocol.capabilities import TOOLS_CALL
from ..runtime.safe_text import safe_text
from .exits import DONE
from .output import print_parts, print_text

__all__ = ["MAX_LISTED", "Problem", "Report", "Step", "show_report"]

MAX_LISTED = 12
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
    if report.confinement is not None:
        print_text("\nWhat it can do here:")
        for sentence in report.confinement:
            print_text(f"    {safe_text(sentence, 2_000)}")
    if report.promises:
        print_text("\nWhat it declares:")
        for name, state in report.promises.items():
            print_text(f"    {name}: {state}")
    calls = any(step.what == TOOLS_CALL for step in report.steps)
    print_text(
        "\nWhat happened (seconds since the beginning"
        + ("):" if calls else "; no tool was called):")
    )
    for step in report.steps:
        took = "" if step.seconds is None else f" after {step.seconds:.2f} s"
        print_text(f"    {step.at:6.2f}  {step.what}: {step.outcome}{took}")
    notes = [*report.notes, *map(str, report.findings)]
    if notes:
        print_text("\nLook at these:")
        for note in notes[:MAX_LISTED]:
            print_text(f"    {safe_text(note, 400)}")
        if len(notes) > MAX_LISTED:
            print_text(f"    and {len(notes) - MAX_LISTED} more")
