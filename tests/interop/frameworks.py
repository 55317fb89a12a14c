"""Programs on the official SDK run their own tests with it, and over this client: by name.

``python -m tests.interop.frameworks [--quick] [NAME ...]`` unpacks the source distributions, runs
each program's tests twice (``frameworks_plugin``), and prints how many pass, how many sessions were
opened, and the tests that pass with the official client alone. Exits with 1 if there is one that
``KNOWN`` does not have. ``python tests/interop/install.py frameworks`` installs what it needs;
without that, it prints one line and exits with 0, except in CI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.install import COMMAND, FRAMEWORK_SOURCES, PEERS

__all__ = ["PROGRAMS", "compare"]

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
HOME = PEERS / "frameworks"
PARTS = ("frameworks", "framework-sources")
PYTHON = HOME / "bin" / "python"


class Program(NamedTuple):
    """A program, and which of its tests run."""

    source: str
    """Its source distribution, as the registry names and numbers it."""
    left_out: tuple[str, ...] = ()
    """Files of tests that need what is not installed."""
    quick: tuple[str, ...] = ()
    """Files of tests that ``--quick`` runs alone: their servers are started in processes, and not
    waited for by sleeping."""
    known: tuple[str, ...] = ()
    """Tests that pass with the official client alone, for a reason."""


PROGRAMS = {
    "langchain-mcp-adapters": Program(
        FRAMEWORK_SOURCES[0], quick=("tests/test_tools.py", "tests/test_interceptors.py")
    ),
    "mcpadapt": Program(
        FRAMEWORK_SOURCES[1],
        left_out=("tests/test_crewai_adapter.py",),  # CrewAI alone is half a gigabyte
        quick=("tests/test_core.py", "-knot sse and not http and not websocket and not timeout"),
    ),
}


def compare(name: str, directory: Path, quick: bool = False) -> list[str]:
    """Run a program's tests with either client. Return those that pass with the official alone."""
    program = PROGRAMS[name]
    source = _unpacked(program.source, directory)
    chosen = program.quick if quick else tuple(f"--ignore={path}" for path in program.left_out)
    reports = {one: _run(source, one, directory, chosen) for one in ("official", "ours")}
    passed = {
        client: {test for test, outcome in report["outcomes"].items() if outcome == "passed"}
        for client, report in reports.items()
    }
    reported = "; ".join(
        f"{len(passed[client])} with {client} ({report['sessions']} sessions, "
        f"{report['seconds']:.0f} s)"
        for client, report in reports.items()
    )
    print(f"{name}: {reported}", flush=True)
    if not passed["official"] or not reports["ours"]["sessions"]:
        return ["no test passes with the official client, or no session was opened with ours"]
    alone = sorted(passed["official"] - passed["ours"] - {*program.known})
    if alone:  # some of their servers are waited for by sleeping a second
        again = _run(source, "ours", directory, alone)["outcomes"]
        alone = [test for test in alone if again.get(test) != "passed"]
    return alone


def _unpacked(source: str, directory: Path) -> Path:
    file = source.replace("-", "_").replace("==", "-") + ".tar.gz"
    archive = PEERS / "framework-sources" / file
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return directory / archive.name.removesuffix(".tar.gz")


def _run(source: Path, client: str, directory: Path, chosen: Sequence[str]) -> dict[str, Any]:
    programs, report = directory / "programs", directory / f"{source.name}-{client}.json"
    programs.mkdir(exist_ok=True)
    uv = programs / "uv"  # their tests start servers by "uv run python"
    uv.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    uv.chmod(0o755)
    env = {
        **os.environ,
        "PATH": os.pathsep.join((str(programs), str(PYTHON.parent), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
        "FRAMEWORKS_CLIENT": client,
        "FRAMEWORKS_REPORT": str(report),
    }
    words = [str(PYTHON), "-m", "pytest", "-q", "-p", "frameworks_plugin", "-p", "no:cacheprovider"]
    words += chosen
    done = subprocess.run(words, cwd=source, env=env, capture_output=True, text=True, timeout=600)
    if not report.exists():
        raise RuntimeError(f"{source.name} with {client}: {done.stdout[-4000:]}{done.stderr}")
    (directory / f"{source.name}-{client}.log").write_text(done.stdout)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def main(*names: str) -> int:
    """Compare the programs of these names, all without any. Returns the exit code."""
    import tempfile

    if not all((PEERS / part / "complete").exists() for part in PARTS):
        print(f"SKIPPED frameworks: not installed; {COMMAND} {' '.join(PARTS)}", flush=True)
        return 1 if os.environ.get("CI") else 0
    wrong = {}
    with tempfile.TemporaryDirectory() as directory:
        quick = "--quick" in names
        for name in [name for name in names if name != "--quick"] or PROGRAMS:
            wrong[name] = compare(name, Path(directory), quick)
    for name, tests in wrong.items():
        for test in tests:
            print(f"{name}: passes with the official client alone: {test}", flush=True)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
