"""The programs of ``examples/coming_from`` beside the real frameworks: one call is made, and one is
refused. ``frameworks.py`` runs the frameworks' own tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop import peers

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.one_backend]

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "langchain_tools",
    "autogen_tools",
    "llama_index_tools",
    "dspy_tools",
    "smolagents_tools",
    "strands_tools",
)


def run(program: str) -> str:
    """What a program prints."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [str(peers.frameworks()), f"examples/{program}.py"]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_a_session_over_a_websocket_calls_a_tool() -> None:
    assert run("hosting/over_websocket") == "Good morning.\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_framework_makes_one_call_and_is_refused_one(program: str) -> None:
    reported = run(f"coming_from/{program}")
    assert "Oslo: 22.5 " in reported
    assert "refused: The call was not approved: the siren stays silent" in reported
    assert "nothing was sent" in reported
    assert "alarm sounded" not in reported
