"""What ``doctor`` has found out about a server."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..catalog.finding import Finding
from .exits import DONE

__all__ = ["MOST", "Problem", "Report", "Step"]

MOST = 12
"""Problems of one kind that are listed one by one."""


@dataclass(slots=True)
class Step:
    """Something that was asked, and how it went."""

    what: str
    at: float
    """Seconds since the beginning."""
    seconds: float | None = None
    """Until the answer; None where there was none."""
    outcome: str = "no answer"


@dataclass(frozen=True, slots=True)
class Problem:
    kind: str
    """"unreachable", "needs login", "breaks promises", "slow" or "old"."""
    what: str
    advice: str


@dataclass(slots=True)
class Report:
    server: str
    revision: str | None = None
    info: str = ""
    steps: list[Step] = field(default_factory=list)
    promises: dict[str, str] = field(default_factory=dict)
    """What the server declares, and whether it was so."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What a person should look at: texts that could mislead a model, and the like."""
    code: int = DONE

    @property
    def verdict(self) -> str:
        order = ("needs login", "unreachable", "breaks promises", "slow", "old")
        kinds = {problem.kind for problem in self.problems}
        return next((kind for kind in order if kind in kinds), "healthy")

    def found(self, kind: str, what: str, advice: str) -> None:
        self.problems.append(Problem(kind, what, advice))
