"""Whether all that was promised held: what the callers saw, the audit, and the servers' records."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mcp_client.audit import verify_audit

from .measure import KINDS, Samples
from .world import World

__all__ = ["Report", "judge", "judge_use"]

NOT_SENT = {
    "NotSent",
    "UnknownTool",
    "InvalidArguments",
    "InvalidSchema",
    "CallDenied",
    "CallPending",
    "StateError",
    "CallWithdrawn",
    "ConnectError",
    "NegotiationError",
}
ENOUGH = 100
"""Seconds of samples. In a shorter run, some servers that are down at one end make the line."""
LEVEL = {
    "memory_kib": (8_192.0, 0.08),
    "descriptors": (20.0, 0.25),
    "tasks": (16.0, 0.25),
    "threads": (3.0, 0.10),
    "processes": (5.0, 0.25),
}
"""What the fitted line may grow by: so much, or that part of where it starts. A server that is down
at the one end and not at the other has descriptors, tasks and a process; what leaks a little with
each call or connection is more than this after some thousand."""


@dataclass
class Report:
    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def write(self, text: str) -> None:
        self.lines.append(text)

    def check(self, what: str, bad: list[str]) -> None:
        self.write(f"  {'no  ' if bad else 'yes '} {what}")
        if bad:
            self.wrong.append(f"{what}: {len(bad)} times not, as {bad[:5]}")


class Seen(NamedTuple):
    key: str
    server: str
    act: str
    outcome: str
    began: float
    ended: float

    @classmethod
    def read(cls, line: str) -> Seen:
        key, server, act, outcome, began, ended = line.split()
        return cls(key, server, act, outcome, float(began), float(ended))


def judge(
    directory: Path, world: World, audit: Path, full: list[tuple[float, float]], report: Report
) -> None:
    """``full`` is when the disk was."""
    seen = [Seen.read(line) for line in (directory / "seen").read_text().splitlines()]
    allowed = Counter((directory / "approved").read_text().split())
    verify_audit(audit)
    opened: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    outcomes: dict[str, str] = {}
    calls: dict[str, str] = {}
    with audit.open() as lines:
        for line in lines:
            record = json.loads(line)
            if record["event"] == "opened":
                calls[record["call"]] = record["context"]
                opened[record["context"]] += 1
            elif record["event"] == "closed":
                key = calls[record["call"]]
                closed[key] += 1
                outcomes[key] = record["outcome"]
    ran = {name: Counter(world.ran(name)) for name in world.ours}
    did_run = {key for keys in ran.values() for key in keys}
    _judge_audit(report, seen, _Written(opened, closed, outcomes), full, did_run)
    _judge_servers(report, seen, allowed, ran)


class _Written(NamedTuple):
    opened: Counter[str]
    closed: Counter[str]
    outcomes: dict[str, str]


def _judge_audit(
    report: Report,
    seen: list[Seen],
    audit: _Written,
    full: list[tuple[float, float]],
    did_run: set[str],
) -> None:
    keys = Counter(call.key for call in seen)
    report.check("every call settled exactly once", [key for key in keys if keys[key] != 1])
    lost, unwritten = [], 0
    for call in seen:
        if audit.opened[call.key] == audit.closed[call.key] == 1:
            continue
        # While the disk is full, a call that is not sent cannot be written down either.
        disk = any(call.began <= until and since <= call.ended for since, until in full)
        not_sent = call.outcome in {*NOT_SENT, "cancelled"} and call.key not in did_run
        if disk and not_sent and not audit.opened[call.key]:
            unwritten += 1
        else:
            lost.append(f"{call.key} ({call.outcome})")
    report.check(
        "every call is in the audit exactly once "
        f"(but {unwritten} that were not sent while the disk was full)",
        lost,
    )
    unknown = sorted(set(audit.opened) - set(keys))
    report.check("the audit has no call that was not made", unknown)
    differ = [
        f"{key} {server} {act}: seen {outcome}, written {audit.outcomes[key]}"
        for key, server, act, outcome, *_ in seen
        if key in audit.outcomes and not _same(outcome, audit.outcomes[key])
    ]
    report.check("its outcome is what the caller saw", differ)


def _same(seen: str, written: str) -> bool:
    return written == seen or (seen == "cancelled" and written in ("CancelledError", "Cancelled"))


def _judge_servers(
    report: Report, seen: list[Seen], allowed: Counter[str], ran: dict[str, Counter[str]]
) -> None:
    twice = [f"{key} at {name}" for name, keys in ran.items() for key in keys if keys[key] > 1]
    report.check("no call ran twice, by the servers' own records", twice)
    unapproved = [f"{key} at {name}" for name, keys in ran.items() for key in keys - allowed]
    report.check("no call ran that was not approved", unapproved)
    contrary: list[str] = []
    for key, server, act, outcome, *_ in seen:
        if server not in ran:
            continue
        did_run = ran[server][key] > 0
        if did_run and outcome in NOT_SENT:
            contrary.append(f"{key} {server} {act} ran, and its caller saw {outcome}")
        if not did_run and outcome in ("ok", "tool_error"):
            contrary.append(f"{key} {server} {act} did not run, and its caller saw {outcome}")
    report.check("what was 'not sent' did not run, and what succeeded did", contrary)


def judge_use(samples: Samples, report: Report) -> None:
    judged = len(samples.taken) >= ENOUGH
    short = "" if judged else f" (not judged: fewer than {ENOUGH})"
    report.write(f"Use, by the line through the samples of the last two thirds{short}:")
    for kind in KINDS:
        line = samples.line(kind)
        least, part = LEVEL[kind]
        report.write(
            f"  {kind:12} starts at {line.start:9.0f}, grows by {line.growth:+8.1f}, "
            f"between {line.least:.0f} and {line.most:.0f}"
        )
        if judged and line.growth > max(least, part * line.start):
            report.wrong.append(f"{kind} grow by {line.growth:.1f} from {line.start:.0f}")
    report.write(f"  longest stop of the event loop: {samples.longest_stop * 1000:.0f} ms of CPU")
