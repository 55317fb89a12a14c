"""Rounds in which ours, the official client and the floor take turns, and the table at the end.

What is measured is the client's process alone, user and system. Every figure is the median of its
rounds, and the ratio, of ours to another, the median of the ratios within each round. In a round
each row is run by all contenders one after another, each in a process of its own and all against
the same server, so that whatever else the machine does meets all alike. Client and server share one
core where the system allows it: there the ratios are steady, while absolute figures move from
machine to machine.

FastMCP is measured with ``--table`` only, for the rows of its short form (``Row.short``). A row
that is ``alone`` compares ours with ours: ``clients/own.py`` measures both. ``SETTINGS`` are those
of the clients, in all rows but for what a row adds (``Row.setting``).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_ROOT = HERE.parent.parent
_OFFICIAL, _FASTMCP = "mcp==2.3.0", "fastmcp==4.1.2"
_CONTENDERS = ("ours", "official", "fastmcp", "floor")
_LONGEST = 120.0
SETTINGS = {
    "ours": "`connect(server, approval=allow_all)`: limits, timeouts and validation on, no audit",
    "official": "`mcp.Client(server)`",
    "FastMCP": "`fastmcp.Client(transport)`, Streamable HTTP",
    "floor": "bare asyncio pipes and json; over HTTP `httpx.AsyncClient().post`",
}
"""How each client is made. What is not stated is the default."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    label: str
    unit: str
    target: float | None = None
    """The most that ours may take of what the official client takes; of a row that is alone, of its
    base."""
    to_floor: float | None = None
    """The most that ours may take of what the floor takes."""
    tools: int = 0
    most: float | None = None
    """The most that ours may take, in the unit."""
    against: str = "official"
    """Or "floor", where the official client cannot do the work, or "base" for a row of ours alone.
    """
    setting: str = ""
    """The setting of this row that the other rows do not have; empty if there is none."""
    in_table: bool = True
    short: str = ""
    """What it is called in the short table; empty where it is not in it."""

    @property
    def alone(self) -> bool:
        return self.against == "base"

    @property
    def contenders(self) -> tuple[str, ...]:
        if self.alone:
            return ("ours",)
        left_out = {"official"} if self.against == "floor" else set()
        left_out |= set() if self.short else {"fastmcp"}
        return tuple(who for who in _CONTENDERS if who not in left_out)


Command = Callable[[Row, str], Sequence[str]]
"""From a row and a contender to the script in ``clients/`` and its arguments."""
Taken = dict[tuple[str, str], list[float]]
"""By the names of a row and a contender, the figures of all rounds; beside the contenders, "base",
and "ours passed" and so on for seconds that passed."""

_FACTORS = {"us": 1e6, "ms": 1e3, "KiB": 1 / 1024, "a second": 1.0}


def options(prog: str, rows: Sequence[Row]) -> argparse.Namespace:
    """The command line: ``rows`` are those to run, ``pythons`` the interpreters."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--official", metavar="PYTHON", help=f"an interpreter with {_OFFICIAL}")
    parser.add_argument("--fastmcp", metavar="PYTHON", help=f"an interpreter with {_FASTMCP}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="Markdown, with FastMCP and targets")
    parser.add_argument(
        "--rows", nargs="+", choices=[row.name for row in rows], default=[], metavar="ROW"
    )
    chosen = parser.parse_args()
    if chosen.rows:
        chosen.rows = [row for row in rows if row.name in chosen.rows]
    else:
        chosen.rows = [row for row in rows if (row.in_table if chosen.table else not row.alone)]
    chosen.pythons = {
        "ours": sys.executable,
        "official": chosen.official or _installed(_OFFICIAL),
        "floor": sys.executable,
    }
    if chosen.table:
        chosen.pythons["fastmcp"] = chosen.fastmcp or _installed(_FASTMCP)
    return chosen


def run(chosen: argparse.Namespace, warm: Row, command: Command, core: str) -> None:
    """Measure and print. ``warm`` is a row run once for nothing, so that byte code is written."""
    taken = _measure(chosen.rows, warm, chosen.pythons, command, chosen.rounds)
    versions = [f"official mcp {_version(chosen.pythons['official'], 'mcp')}"]
    if chosen.table:
        versions.append(f"FastMCP {_version(chosen.pythons['fastmcp'], 'fastmcp')}")
    print(
        f"CPU time of the client process, Python {platform.python_version()}, "
        f"{', '.join(versions)}, {core}, {chosen.rounds} rounds, medians\n"
    )
    if chosen.table:
        from tests.bench.table import printed

        print(printed(chosen.rows, taken))
    else:
        print(_table(chosen.rows, taken))


def pin() -> str:
    """Keep this process, and so all it starts, on one core. What was done, in words."""
    if sys.platform != "linux":
        return "not pinned"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return "client and server on one core"


def environment() -> dict[str, str]:
    """No ``PYTHON...`` variable of the calling environment, no proxy, and byte code stored for all.

    Where byte code is not written, ours would be compiled at every start and the official client,
    compiled when it was installed, would not.
    """
    remaining = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYTHON") and not key.lower().endswith("_proxy")
    }
    cache = str(_ROOT / ".interop" / "bench-pycache")
    return {**remaining, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": cache}


def _installed(requirement: str) -> str:
    """The interpreter of our own environment with a package, made if it is not there."""
    home = _ROOT / ".interop" / f"bench-{requirement.replace('==', '-')}"
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        print(f"installing {requirement} once", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        done.touch()
    return str(python)


def _version(python: str, package: str) -> str:
    script = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def _measure(
    rows: Sequence[Row], warm: Row, pythons: Mapping[str, str], command: Command, rounds: int
) -> Taken:
    taken: Taken = {}
    for who, python in pythons.items():
        _figures(warm, who, python, command)
    for number in range(rounds):
        for row in rows:
            print(f"round {number + 1}: {row.label}", file=sys.stderr)
            for who in row.contenders:
                if who not in pythons:
                    continue
                figures = _figures(row, who, pythons[who], command)
                for name, figure in figures.items():
                    key = {"figure": who, "passed": f"{who} passed"}.get(name, name)
                    taken.setdefault((row.name, key), []).append(figure)
    return taken


def _figures(row: Row, who: str, python: str, command: Command) -> dict[str, float]:
    script, *arguments = command(row, who)
    ran = subprocess.run(
        [python, str(HERE / "clients" / script), *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        timeout=_LONGEST,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"{who} failed at {row.name!r} with code {ran.returncode}; see above")
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


def middle(taken: Taken, row: Row, who: str) -> float:
    """The median of a contender's figures, in the row's unit; NaN where it has none."""
    return statistics.median(taken.get((row.name, who)) or [math.nan]) * _FACTORS[row.unit]


def ratio(taken: Taken, row: Row, other: str) -> float:
    """The median of the ratios of ours to another's; NaN where one of them has no figure."""
    ours, theirs = (taken.get((row.name, who), []) for who in ("ours", other))
    pairs = zip(ours, theirs, strict=False)
    return statistics.median([one / another for one, another in pairs] or [math.nan])


def _table(rows: Sequence[Row], taken: Taken) -> str:
    lines: list[tuple[str, ...]] = [("work", "floor", "ours", "official", "ratio", "target", "")]
    for row in rows:
        to_other = ratio(taken, row, row.against)
        figures = (middle(taken, row, who) for who in ("floor", "ours", "official"))
        lines.append(
            (
                row.label,
                *(f"{short(figure)} {row.unit}" for figure in figures),
                f"{to_other:.3f}",
                *_verdict(row, middle(taken, row, "ours"), to_other),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def short(figure: float) -> str:
    if math.isnan(figure):
        return "-"
    return f"{figure:.0f}" if figure >= 10 else f"{figure:.2f}"


def _verdict(row: Row, ours: float, to_other: float) -> tuple[str, str]:
    if row.most is not None:
        return f"<= {row.most:.0f} {row.unit}", "ok" if ours <= row.most else "MISSED"
    target = row.to_floor if row.against == "floor" else row.target
    if target is not None:
        return f"<= {target}", "ok" if to_other <= target else "MISSED"
    return "none", ""
