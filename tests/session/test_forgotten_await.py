"""A forgotten ``await`` is reported by type checkers, as it is for any coroutine function."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mcp_client
from tests.interop import peers

CODE = """
from mcp_client import Session


async def forgets(session: Session) -> None:
    session.call_tool("delete_everything")


async def reads_it_off(session: Session) -> str:
    return session.call_tool("delete_everything").text


async def remembers(session: Session) -> str:
    return (await session.call_tool("delete_everything")).text
"""


def mypy() -> list[str]:
    pytest.importorskip("mypy")
    return [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull]


@pytest.mark.slow
@pytest.mark.parametrize(
    "checker", [mypy, pytest.param(peers.pyright, marks=pytest.mark.interop, id="pyright")]
)
def test_a_forgotten_await_is_reported(checker: Callable[[], list[str]], tmp_path: Path) -> None:
    file = tmp_path / "forgets.py"
    file.write_text(CODE)
    (tmp_path / "pyrightconfig.json").write_text('{"reportUnusedCoroutine": "error"}')
    source = str(Path(mcp_client.__file__).parent.parent)
    env = {**os.environ, "MYPYPATH": source, "PYTHONPATH": source}
    done = subprocess.run(
        [*checker(), str(file)], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    lines = [
        line.split("forgets.py:")[1] for line in done.stdout.splitlines() if "forgets.py:" in line
    ]
    assert {int(line.split(":")[0]) for line in lines} == {6, 10}, done.stdout
