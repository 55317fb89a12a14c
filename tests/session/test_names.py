"""Two servers under one name: the names by default, and when a second session is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    ConfigError,
    FileState,
    Host,
    HttpServer,
    MemoryServer,
    Pins,
    StdioServer,
    connect,
)
from mcp_client.approval import Decisions
from mcp_client.errors import ConnectError
from mcp_client.state import MemoryState
from tests.support.http_apps import Stateless
from tests.support.http_server import serving
from tests.support.starting import scripted

TWO = r"two servers are named '127\.0\.0\.1.* and store decisions or pins in one place.*name="


def of_project(url: str, name: str) -> HttpServer:
    """One of several servers at one URL, which a header distinguishes."""
    return HttpServer(url, headers={"x-project": name}, identity=["x-project"])


def test_the_name_by_default_is_made_of_the_command_or_the_url_alone() -> None:
    made = [connect(StdioServer("no-such-launcher", [word])) for word in ("one", "two", "one")]
    assert [one._setup.name for one in made] == ["no-such-launcher"] * 3
    made = [connect(of_project("https://docs.example/mcp", name)) for name in ("one", "two")]
    assert [one._setup.name for one in made] == ["docs.example"] * 2


STORES: dict[str, Any] = {
    "a directory": lambda path: {"state": path / "state"},
    "a state of its own for each": lambda path: {"state": FileState(path / "state")},
    "decisions in a file": lambda path: {"state": Decisions(path / "decisions.json")},
    "a lock file": lambda path: {"pins": Pins(path / "mcp.lock")},
}


@pytest.mark.parametrize("store", STORES)
async def test_two_servers_of_one_name_do_not_share_a_store(store: str, tmp_path: Path) -> None:
    made = STORES[store]
    async with serving(Stateless()) as served:
        a, b = (of_project(served.url, name) for name in "ab")
        async with connect(a, **made(tmp_path)):
            with pytest.raises(ConfigError, match=TWO) as caught:
                await connect(b, **made(tmp_path))
            assert "x-project" not in caught.value.message  # its value may be a secret
            passed = caught.value.message.split("'")[1]
            with pytest.raises(ConfigError, match=TWO):  # the other one's name is by default
                await connect(b, name=passed, **made(tmp_path))
            async with (
                connect(a, **made(tmp_path)),
                connect(b, name="b", **made(tmp_path)),
                connect(b, **made(tmp_path / "elsewhere")),
                connect(b),
            ):
                pass
        async with connect(b, **made(tmp_path)) as session:  # now the only one
            assert session.name == passed


async def test_what_is_started_is_distinguished_by_its_command(tmp_path: Path) -> None:
    async with connect(scripted(), state=tmp_path):
        with pytest.raises(ConfigError, match="store decisions or pins in one place"):
            await connect(scripted("--era", "handshake"), state=tmp_path)
        async with connect(scripted(), state=tmp_path):
            pass


async def test_a_session_that_did_not_open_takes_no_name(tmp_path: Path) -> None:
    failed = connect("http://127.0.0.1:9/a", state=tmp_path)
    with pytest.raises(ConnectError):
        await failed
    async with serving(Stateless()) as served:
        await (await connect(served.url, state=tmp_path)).aclose()


async def test_names_that_the_host_gives_are_its_own(tmp_path: Path) -> None:
    """One program for each user, under one name and with one state."""
    state = FileState(tmp_path / "state")
    async with serving(Stateless()) as served:
        servers = [{"crm": f"{served.url}?user={user}"} for user in ("ana", "bo")]
        async with Host(servers[0], state=state) as one, Host(servers[1], state=state) as other:
            assert [*one.sessions, *other.sessions] == ["crm", "crm"]


async def test_servers_that_cannot_be_distinguished_share_their_name() -> None:
    state = MemoryState()
    server = MemoryServer(lambda message: NotImplemented)
    async with connect(server, state=state) as one, connect(server, state=state) as other:
        assert one.name == other.name
