"""The profile for macOS, as text: it has not been tried there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Sandbox
from mcp_client.sandbox import sandbox_exec
from mcp_client.sandbox.engine import Confined

pytestmark = pytest.mark.one_backend


def rules(*made_of: str, listed: tuple[str, ...] = (), **sandbox: Any) -> list[str]:
    confined = Confined(["/bin/x"], {}, "/", Sandbox(**sandbox), made_of, listed)
    return sandbox_exec.profile(confined, "/private/tmp/own").splitlines()


def test_what_is_not_allowed_is_denied_and_nothing_is_granted_by_itself() -> None:
    lines = rules()
    assert lines[1] == "(deny default)"
    assert not any("network" in line for line in lines)
    assert [line for line in lines if "file-write*" in line] == [
        '(allow file-write* (subpath "/private/tmp/own"))'
    ]
    assert not any('(subpath "/")' in line or "/Users" in line for line in lines)


def test_the_inner_of_two_grants_comes_last(tmp_path: Path) -> None:
    (tmp_path / "kept" / "again").mkdir(parents=True)
    place = os.path.realpath(tmp_path)
    lines = rules(read=[tmp_path / "kept"], write=[tmp_path, tmp_path / "kept" / "again"])
    assert [line for line in lines if "file-write*" in line and place in line] == [
        f'(allow file-write* (subpath "{place}"))',
        f'(deny file-write* (subpath "{place}/kept"))',
        f'(allow file-write* (subpath "{place}/kept/again"))',
    ]


def test_a_path_cannot_end_its_text(tmp_path: Path) -> None:
    path = tmp_path / 'a") (allow default) ("\\'
    path.mkdir()
    (line,) = [each for each in rules(write=[path]) if "allow default" in each and "write" in each]
    assert line.endswith(r'/a\") (allow default) (\"\\"))')


@pytest.mark.parametrize(("network", "count"), [("none", 0), ("loopback", 2), ("all", 3)])
def test_the_network_is_as_said(network: Any, count: int) -> None:
    lines = [line for line in rules(network=network) if "network" in line]
    assert len(lines) == count
    assert all("localhost" in line for line in lines) == (network != "all")


def test_home_and_temporary_folder_are_its_own(tmp_path: Path) -> None:
    confined = Confined(["/bin/x", "y"], {"HOME": "/Users/ana", "A": "b"}, "/", Sandbox())
    launch = sandbox_exec.ENGINE.confine(confined)
    assert launch.folder is not None
    assert launch.env == {"HOME": launch.folder, "TMPDIR": launch.folder, "A": "b"}
    assert launch.argv[:2] == [sandbox_exec.PROGRAM, "-p"]
    assert launch.argv[3:] == ["/bin/x", "y"]
    os.rmdir(launch.folder)


def test_where_the_program_is_missing_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_exec, "PROGRAM", "/no/such/program")
    assert "there is no /no/such/program" in (sandbox_exec.ENGINE.lacking(Sandbox()) or "")
