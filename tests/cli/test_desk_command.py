"""``desk`` serves until it is stopped, and is found by other commands meanwhile."""

from __future__ import annotations

import json
from argparse import Namespace
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_client.cli import session
from mcp_client.cli.decide import _known_to_commands, desk


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


async def test_the_page_is_served_until_the_command_is_asked_to_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[str] = []

    @asynccontextmanager
    async def serve(queue: Any) -> Any:
        served.append("begun")
        yield SimpleNamespace(url="http://desk")
        served.append("ended")

    monkeypatch.setattr("mcp_client.desk.serve.serve_desk", serve)
    options = Namespace(state=str(home / "own"), json=False)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(desk, options)
            await anyio.wait_all_tasks_blocked()
            found: Any = session._state_of_running_desk()
            assert found.path == home / "own"
            assert served == ["begun"]
            scope.cancel()
    assert session._state_of_running_desk() is None
    out, err = capsys.readouterr()
    assert out == "http://desk\n"
    assert err == "the address lets in once; Ctrl-C ends the page\n"


def test_of_two_desks_the_first_is_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert session._state_of_running_desk() is None
    with _known_to_commands(home / "a much longer name"):
        pass
    with _known_to_commands(home / "one"), _known_to_commands(home / "two"):
        found: Any = session._state_of_running_desk()
        assert found.path == home / "one"
    reported = "another desk runs: calls of --approve web go there; use --state DIR\n"
    assert capsys.readouterr().err == reported
    file = home / "mcp-client" / "desk.json"
    assert json.loads(file.read_text()) == {"state": str(home / "one")}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"state": 3}', '{"state": "env:NOT"}'])
def test_what_no_desk_wrote_names_no_desk(content: str, home: Path) -> None:
    with _known_to_commands(home):
        file = home / "mcp-client" / "desk.json"
        file.write_text(content)
        assert session._state_of_running_desk() is None


def test_a_file_that_others_can_read_names_no_desk(home: Path) -> None:
    with _known_to_commands(home):
        assert session._state_of_running_desk() is not None
        (home / "mcp-client" / "desk.json").chmod(0o644)
        assert session._state_of_running_desk() is None
