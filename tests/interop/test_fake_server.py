"""``FakeServer`` makes the schemas that the official SDK makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop import peers

ROOT = Path(__file__).parents[2]


@pytest.mark.interop
@pytest.mark.one_backend
def test_functions_have_the_schemas_that_the_official_sdk_makes_of_them() -> None:
    python = peers.official("2.3.0").command
    script = ROOT / "tests" / "interop" / "signature_checks.py"
    done = subprocess.run(
        [python, str(script)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "compared\n"), done.stderr
