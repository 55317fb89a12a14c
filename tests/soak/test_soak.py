"""A minute of the soak, as it is run by name for longer."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.peers import postgresql
from tests.soak.measure import Line
from tests.soak.run import soak
from tests.soak.verdict import NOT_SENT, Report

SECONDS = float(os.environ.get("SOAK_SECONDS", "25"))


@pytest.mark.slow
async def test_faults_of_every_kind_at_once_break_no_promise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="mcp_client")
    report = await soak(seed=21, calls=20_000, seconds=SECONDS, directory=tmp_path)
    assert not report.wrong, "\n".join([*report.lines, *report.wrong])


def test_a_line_distinguishes_growth_from_noise() -> None:
    noisy = [(float(x), 100.0 + (7 if x % 2 else -7)) for x in range(40)]
    assert abs(Line.through(noisy).growth) < 2
    growing = [(float(x), y + x / 4) for x, y in noisy]
    assert 8 < Line.through(growing).growth < 12


def test_what_is_not_sent_is_what_the_errors_state() -> None:
    from mcp_client import errors

    found = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.NotSent)
    }
    assert found - {"ToolChanged", "StartDenied", "AuthError"} == NOT_SENT


def test_a_report_states_what_was_not_right() -> None:
    report = Report()
    report.check("nothing ran twice", ["1.1"])
    report.check("nothing was lost", [])
    assert report.lines == ["  no   nothing ran twice", "  yes  nothing was lost"]
    assert report.wrong == ["nothing ran twice: 1 times not, as ['1.1']"]


@pytest.mark.slow
def test_crashes_of_workers_and_of_the_database_repeat_no_call_and_lose_none(
    tmp_path: Path,
) -> None:
    options = ["--calls", "120", "--kill-worker", "0.2", "--kill-database", "2"]
    words = [sys.executable, "-m", "tests.soak.crash", *options, "--directory", str(tmp_path)]
    postgresql()
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
