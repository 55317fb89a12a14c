"""The client program itself: it reports an unknown scenario, and exits with 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).parent / "conformance_client.py"


def _run(scenario: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        env={**os.environ, "MCP_CONFORMANCE_SCENARIO": scenario},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_an_unknown_scenario_is_refused_with_a_sentence() -> None:
    done = _run("no-such-scenario", "http://localhost:1/mcp")
    assert done.returncode == 2
    assert "'no-such-scenario'" in done.stderr
    assert "tools_call" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_url_is_refused_with_a_sentence() -> None:
    done = _run("initialize")
    assert done.returncode == 2
    assert "URL" in done.stderr


def test_a_server_that_cannot_be_reached_ends_it_with_a_sentence() -> None:
    done = _run("initialize", "http://localhost:1/mcp")
    assert done.returncode in (1, 2)
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
