"""CPU time per call over stdio: ours, the official SDK and the floor, side by side.

    python -m tests.bench.stdio [--official PYTHON] [--rounds 5] [--rows echo cold]

``--official`` is the interpreter of an environment that has the official ``mcp``; without it, one
is made once in ``.interop/``. ``--rows``: echo, together, cold, big, import, list, sleep, record.
Nothing is asserted but that the work was done: the table is for reading.

What is measured is the client's process alone, user and system. Every figure is the median of its
rounds. In a round each row is run by ours, the official client and the floor one after another,
each in a process of its own and all against ``server.py``, so that whatever else the machine does
meets all three alike. Client and server share one core where the system allows it: there the
ratios are steady, while absolute figures move from machine to machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_OFFICIAL = "mcp==2.3.0"
_CONTENDERS = ("ours", "official", "floor")
_LONGEST = 120.0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    shown: str
    unit: str
    target: float
    """The most that ours may take of what the official client takes."""
    tools: int = 0


ROWS = (
    Row("echo", "echo after echo", "us", 0.25),
    Row("together", "echo, 32 in flight", "us", 0.15),
    Row("cold", "fresh process to first result", "ms", 0.2),
    Row("big", "8 MiB text", "ms", 0.12),
    Row("import", "import of the package", "ms", 0.15),
    Row("list", "list 10,000 tools, pages of 100", "ms", 0.3, tools=10_000),
    Row("sleep", "1,000 sleeping calls at once", "ms", 0.2),
    Row("record", "20-field structured result, validated", "us", 0.55),
)
_FACTORS = {"us": 1e6, "ms": 1e3}


def main() -> None:
    options = _options()
    rows = [row for row in ROWS if row.name in options.rows]
    official = options.official or _installed()
    core = _pin()
    pythons = {"ours": sys.executable, "official": official, "floor": sys.executable}
    taken = _measure(rows, pythons, options.rounds)
    print(
        f"CPU time of the client process, Python {platform.python_version()}, "
        f"official mcp {_version(official)}, {core}, {options.rounds} rounds, medians\n"
    )
    print(_table(rows, taken))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stdio")
    parser.add_argument("--official", metavar="PYTHON", help=f"an interpreter with {_OFFICIAL}")
    parser.add_argument("--rounds", type=int, default=5)
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW")
    return parser.parse_args()


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


def _pin() -> str:
    """Keep this process, and so all it starts, on one core. What was done, in words."""
    if sys.platform != "linux":
        return "not pinned"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return "client and server on one core"


Taken = dict[tuple[str, str], list[float]]


def _measure(rows: Sequence[Row], pythons: dict[str, str], rounds: int) -> Taken:
    taken: Taken = {(row.name, who): [] for row in rows for who in pythons}
    for who, python in pythons.items():  # once for nothing, so that all byte code is written
        _figure(ROWS[0], who, python)
    for number in range(rounds):
        for row in rows:
            print(f"round {number + 1}: {row.shown}", file=sys.stderr)
            for who, python in pythons.items():
                taken[row.name, who].append(_figure(row, who, python))
    return taken


def _figure(row: Row, who: str, python: str) -> float:
    server = [sys.executable, "-I", str(_HERE / "server.py"), "--tools", str(row.tools)]
    ran = subprocess.run(
        [python, str(_HERE / "clients" / f"{who}.py"), row.name, *server],
        env=_environment(),
        stdout=subprocess.PIPE,
        timeout=_LONGEST,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"{who} failed at {row.name!r} with code {ran.returncode}; see above")
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures["cpu"]


def _environment() -> dict[str, str]:
    """No ``PYTHON...`` variable of whoever starts this, and byte code kept for every contender.

    Where byte code is not written, ours would be compiled at every start and the official client,
    compiled when it was installed, would not.
    """
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    cache = str(_ROOT / ".interop" / "bench-pycache")
    return {**ours, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": cache}


def _table(rows: Sequence[Row], taken: Taken) -> str:
    lines: list[tuple[str, ...]] = [
        ("work", "floor", "ours", "official", "ours/official", "target", "")
    ]
    for row in rows:
        factor = _FACTORS[row.unit]
        median = {who: statistics.median(taken[row.name, who]) for who in _CONTENDERS}
        ratio = median["ours"] / median["official"]
        lines.append(
            (
                row.shown,
                *(f"{median[who] * factor:.0f} {row.unit}" for who in ("floor", *_CONTENDERS[:2])),
                f"{ratio:.3f}",
                f"<= {row.target}",
                "ok" if ratio <= row.target else "MISSED",
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


if __name__ == "__main__":
    main()
