"""Tests that need an optional program are skipped, counted and explained in few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import programs
from tests.programs import NEEDS, Need, closing_lines, missing, need, unlisted

ROOT = Path(__file__).parent.parent
SKIPPED, FAILED = pytest.skip.Exception, pytest.fail.Exception


def report(reason: str, test: str = "tests/test_x.py::test_y") -> Any:
    return SimpleNamespace(nodeid=test, longrepr=("test_x.py", 7, f"Skipped: {reason}"))


@pytest.mark.parametrize(
    ("in_ci", "system", "is_program", "outcome"),
    [
        (False, "linux", True, SKIPPED),
        (True, "linux", True, FAILED),
        (True, "linux", False, SKIPPED),
        (True, "darwin", True, SKIPPED),
        (True, "win32", True, SKIPPED),
    ],
)
def test_a_missing_program_skips_a_test_and_fails_it_in_ci_on_linux(
    in_ci: bool, system: str, is_program: bool, outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NEEDS, "tool", Need("install tool", lambda: False, is_program))
    monkeypatch.setattr(programs, "IN_CI", in_ci)
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(outcome, match=r"^needs tool: install tool$"):
        need("tool")
    with pytest.raises(outcome, match=r"^needs tool: install tool \(its plugin\)$"):
        missing("tool", "its plugin")


def test_a_program_that_is_there_but_does_not_work_has_a_reason_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "IN_CI", False)
    broken = Need("install tool", lambda: False, unusable=lambda: "allow user namespaces")
    monkeypatch.setitem(NEEDS, "tool", broken)
    with pytest.raises(SKIPPED, match=r"^needs tool: allow user namespaces$"):
        need("tool")


def test_nothing_is_reported_of_a_program_that_is_there_or_of_a_run_without_skips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NEEDS, "tool", Need("install tool", lambda: True))
    need("tool")
    assert closing_lines([]) == []


def test_the_end_of_a_run_has_one_line_for_each_missing_program_and_never_more_than_ten() -> None:
    parts = [report(f"needs tool 0: install 0 (part {n})") for n in range(40)]
    others = [report(f"needs tool {n}: install {n}") for n in range(1, 30) for _ in range(40 - n)]
    lines = closing_lines([*parts, *others])
    assert len(lines) == 10
    assert lines[0].startswith(f"{40 + len(others)} skipped")
    assert lines[1].split(maxsplit=1) == ["40", "tool 0: install 0"]
    assert lines[-1].split(maxsplit=1)[1] == "22 other things"
    assert sum(int(line.split()[0]) for line in lines[1:]) == 40 + len(others)


def test_a_reason_is_listed_if_it_is_that_of_a_need() -> None:
    listed = [report(f"needs {name}: x") for name in NEEDS]
    assert unlisted(listed) == []
    odd = [report("not today", "a::b"), report("needs the moon: wait", "c::d")]
    assert unlisted([*listed, *odd]) == ["a::b: not today", "c::d: needs the moon: wait"]


@pytest.mark.slow
def test_a_run_that_lists_its_reasons_fails_for_another_one(tmp_path: Path) -> None:
    file = tmp_path / "test_both.py"
    file.write_text(
        "import pytest\n"
        "@pytest.mark.needs('git')\n"
        "def test_git(): ...\n"
        "def test_unlisted():\n"
        "    pytest.skip('not today')\n"
    )
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", str(file)]
    words += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", "-n", "1"]
    env = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env.pop("CI", None)

    def run(code: int, **more: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=env | more, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    displayed = run(0)
    assert "1  git: sudo apt-get install git" in displayed
    assert "SKIPPED" not in displayed
    assert "not today (tests/programs.py does not list it)" in run(
        1, MCP_CLIENT_TESTS_SKIPS_ARE_LISTED="1"
    )
    assert "needs git" in run(1, CI="1")
