"""What is granted: its options, and what is refused."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import pytest

from mcp_client import ConfigError, ConnectError, Sandbox, StdioServer, connect
from mcp_client.sandbox import bubblewrap
from mcp_client.sandbox.sandbox import Grants, sandbox_of
from mcp_client.transports.stdio import StdioTransport

pytestmark = pytest.mark.one_backend


def test_paths_are_absolute_text_and_each_occurs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    notes = str(tmp_path / "notes")
    assert Sandbox(read=["notes", "~/notes", tmp_path / "notes"]).read == (notes,)
    assert Sandbox(write=("notes/../notes",)).write == (notes,)


def test_true_is_a_sandbox_that_grants_nothing() -> None:
    assert sandbox_of(True) == Sandbox()
    assert sandbox_of(False) is sandbox_of(None) is None
    assert StdioServer("x", sandbox=True).sandbox == Sandbox()
    assert StdioServer("x", sandbox=False).sandbox is False
    assert StdioServer("x").sandbox is None


@pytest.mark.parametrize("passed", ["yes", 1, 0, {}, [], {"network": "all"}, Sandbox])
def test_anything_else_is_an_error(passed: object) -> None:
    with pytest.raises(ConfigError, match="give True, False or a Sandbox"):
        StdioServer("x", sandbox=passed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read": "/usr"}, "give a list"),
        ({"read": Path("/usr")}, "give a list"),
        ({"write": b"/usr"}, "give a list"),
        ({"write": 7}, "give a list"),
        ({"read": [7]}, "give the path"),
        ({"read": [""]}, "give the path"),
        ({"read": ["a\0b"]}, "give the path"),
        ({"read": ["/no/such/folder"]}, "does not exist"),
        ({"write": ["/no/such/*"]}, "glob"),
        ({"read": ["/usr/[ab]in"]}, "glob"),
        ({"read": ["/"]}, "cannot be granted"),
        ({"write": ["/proc/../dev"]}, "cannot be granted"),
        ({"network": "some"}, "'none', 'loopback', 'all'"),
        ({"network": True}, "'none', 'loopback', 'all'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sandbox(**options)  # type: ignore[arg-type]


def test_a_name_with_characters_of_a_glob_can_be_granted_where_it_exists(tmp_path: Path) -> None:
    (tmp_path / "[draft]").mkdir()
    assert Sandbox(read=[tmp_path / "[draft]"]).read == (str(tmp_path / "[draft]"),)


def test_it_is_a_value(tmp_path: Path) -> None:
    one = Sandbox(read=[tmp_path], network="all")
    assert one == Sandbox(read=(str(tmp_path),), network="all")
    assert hash(one) == hash(copy.deepcopy(one))
    assert pickle.loads(pickle.dumps(one)) == one


def test_another_sandbox_makes_another_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to("a")
    passed = [None, True, Sandbox(network="all"), Sandbox(read=[tmp_path / "link"])]
    transports = [StdioTransport(StdioServer("x", sandbox=each)) for each in passed]
    assert len({each.stable_identity for each in transports}) == len(passed)
    assert len({each.identity for each in transports}) == len(passed)
    without = StdioTransport(StdioServer("x", sandbox=False))
    assert without.stable_identity == transports[0].stable_identity
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    other = StdioTransport(StdioServer("x", sandbox=Sandbox(read=[tmp_path / "link"])))
    assert other.stable_identity != transports[-1].stable_identity


async def test_without_bubblewrap_nothing_is_started_and_the_error_states_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bubblewrap, "PLACES", (str(tmp_path / "bwrap"),))
    server = StdioServer("/bin/sh", ["-c", f"echo > {tmp_path}/started"], sandbox=True)
    with pytest.raises(ConnectError, match=r"install bubblewrap .*, or run the server in a"):
        await connect(server)
    assert not (tmp_path / "started").exists()


async def test_a_bubblewrap_that_cannot_work_is_reported_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = tmp_path / "bwrap"
    fails.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n")
    fails.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "PLACES", (str(fails),))
    server = StdioServer("/bin/sh", ["-c", f"echo > {tmp_path}/started"], sandbox=True)
    with pytest.raises(ConnectError, match=r"uid map: Permission denied.*it needs namespaces"):
        await connect(server)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_a_system_without_bubblewrap_is_an_error(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = Grants.of(Sandbox(), ["/bin/sh"], {}, None)
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(ConfigError, match="has no sandbox for servers"):
        bubblewrap.confine(Sandbox(), grants, ["/bin/sh"], {}, None)
