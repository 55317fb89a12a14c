"""Which file a command is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcp_client.processes.commands import find_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test_windows has its rules")


def program(directory: Path, name: str = "uvx") -> str:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("entries", ["", ".", "bin", "./bin", ":", "..:."])
def test_no_program_of_the_working_directory_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str
) -> None:
    for directory in (tmp_path / "project", tmp_path / "project" / "bin", tmp_path):
        program(directory)
    project = str(tmp_path / "project")
    monkeypatch.chdir(project)
    system = program(tmp_path / "system")
    for path in (entries, f"{entries}:/nowhere", f"/nowhere:{entries}"):
        assert find_executable("uvx", project, {"PATH": path}) is None
    path = f"{entries}{os.pathsep}{tmp_path / 'system'}"
    assert find_executable("uvx", project, {"PATH": path}) == system


def test_a_path_is_relative_to_the_directory_the_program_runs_in(tmp_path: Path) -> None:
    found = program(tmp_path / "bin")
    assert find_executable("bin/uvx", str(tmp_path), {"PATH": ""}) == found
    assert find_executable(found, None, {}) == found
