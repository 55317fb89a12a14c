"""Rounds in which ours, the official client and the floor take turns, and the table at the end.

What is measured is the client's process alone, user and system. Every figure is the median of its
rounds, and the ratio, of ours to the official client unless the row says otherwise, the median of
the ratios within each round. In a round each row is run by ours, the official client and the floor
one after another, each in a process of its own and all against the same server, so that whatever
else the machine does meets all three alike. Client and server share one core where the system
allows it: there the ratios are steady, while absolute figures move from machine to machine.
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
_OFFICIAL = "mcp==2.3.0"
_CONTENDERS = ("ours", "official", "floor")
_LONGEST = 120.0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    shown: str
    unit: str
    target: float | None
    """The most that ours may take of what the official client takes."""
    tools: int = 0
    most: float | None = None
    """The most that ours may take, in the unit."""
    against: str = "official"
    """Or "floor", where the official client cannot do the work."""


Command = Callable[[Row, str], Sequence[str]]
"""From a row and a contender to the script in ``clients/`` and its arguments."""

_FACTORS = {"us": 1e6, "ms": 1e3, "KiB": 1 / 1024}


def options(prog: str, rows: Sequence[Row]) -> argparse.Namespace:
    """What the command line says: ``rows`` are those to run, ``official`` is an interpreter."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--official", metavar="PYTHON", help=f"an interpreter with {_OFFICIAL}")
    parser.add_argument("--rounds", type=int, default=5)
    names = [row.name for row in rows]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW")
    chosen = parser.parse_args()
    chosen.rows = [row for row in rows if row.name in chosen.rows]
    chosen.official = chosen.official or _installed()
    return chosen


def run(chosen: argparse.Namespace, warm: Row, command: Command, core: str) -> None:
    """Measure and print. ``warm`` is a row run once for nothing, so that byte code is written."""
    pythons = {"ours": sys.executable, "official": chosen.official, "floor": sys.executable}
    taken = _measure(chosen.rows, warm, pythons, command, chosen.rounds)
    print(
        f"CPU time of the client process, Python {platform.python_version()}, "
        f"official mcp {_version(chosen.official)}, {core}, {chosen.rounds} rounds, medians\n"
    )
    print(_table(chosen.rows, taken))


def pin() -> str:
    """Keep this process, and so all it starts, on one core. What was done, in words."""
    if sys.platform != "linux":
        return "not pinned"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return "client and server on one core"


def environment() -> dict[str, str]:
    """No ``PYTHON...`` variable of the calling environment, no proxy, and byte code kept for all.

    Where byte code is not written, ours would be compiled at every start and the official client,
    compiled when it was installed, would not.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PYTHON") and not key.lower().endswith("_proxy")
    }
    cache = str(_ROOT / ".interop" / "bench-pycache")
    return {**kept, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": cache}


def _installed() -> str:
    """The interpreter of our own environment with the official SDK, made if it is not there."""
    home = _ROOT / ".interop" / f"bench-{_OFFICIAL.replace('==', '-')}"
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        print(f"installing {_OFFICIAL} once", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", _OFFICIAL], check=True)
        done.touch()
    return str(python)


def _version(python: str) -> str:
    script = "from importlib.metadata import version; print(version('mcp'))"
    found = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True)
    return found.stdout.strip()


Taken = dict[tuple[str, str], list[float]]


def _measure(
    rows: Sequence[Row], warm: Row, pythons: Mapping[str, str], command: Command, rounds: int
) -> Taken:
    taken: Taken = {(row.name, who): [] for row in rows for who in pythons}
    for who, python in pythons.items():
        _figure(warm, who, python, command)
    for number in range(rounds):
        for row in rows:
            print(f"round {number + 1}: {row.shown}", file=sys.stderr)
            for who, python in pythons.items():
                if who == "official" and row.against != who:
                    continue
                taken[row.name, who].append(_figure(row, who, python, command))
    return taken


def _figure(row: Row, who: str, python: str, command: Command) -> float:
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
    return figures["figure"]


def _table(rows: Sequence[Row], taken: Taken) -> str:
    lines: list[tuple[str, ...]] = [("work", "floor", "ours", "official", "ratio", "target", "")]
    for row in rows:
        factor = _FACTORS[row.unit]
        median = {
            who: statistics.median(taken[row.name, who] or [math.nan]) * factor
            for who in _CONTENDERS
        }
        pairs = zip(taken[row.name, "ours"], taken[row.name, row.against], strict=True)
        ratio = statistics.median([ours / other for ours, other in pairs])
        lines.append(
            (
                row.shown,
                *(f"{_short(median[who])} {row.unit}" for who in ("floor", *_CONTENDERS[:2])),
                f"{ratio:.3f}",
                *_verdict(row, median["ours"], ratio),
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


def _short(figure: float) -> str:
    if math.isnan(figure):
        return "-"
    return f"{figure:.0f}" if figure >= 10 else f"{figure:.2f}"


def _verdict(row: Row, ours: float, ratio: float) -> tuple[str, str]:
    if row.most is not None:
        return f"<= {row.most:.0f} {row.unit}", "ok" if ours <= row.most else "MISSED"
    if row.target is not None:
        return f"<= {row.target}", "ok" if ratio <= row.target else "MISSED"
    return "none", ""
