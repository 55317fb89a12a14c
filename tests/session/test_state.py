"""One state keeps everything of a session or a host that is not given by an option of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    AuditLog,
    CallDenied,
    CallPending,
    ConfigError,
    Deny,
    FileState,
    Host,
    HttpServer,
    OAuth,
    Pins,
    ToolCall,
    connect,
    sync,
)
from mcp_client.approval import Decisions
from mcp_client.auth import MemoryTokens
from mcp_client.state import MemoryState, State
from mcp_client.transports.memory import MemoryTransport

pytestmark = pytest.mark.one_backend


class Server:
    """One tool, which can be described otherwise, and what was run."""

    def __init__(self, description: str = "It reads.") -> None:
        self.description = description
        self.ran: list[Any] = []
        self.asked = 0

    def __call__(self, message: dict[str, Any]) -> Any:
        self.asked += 1
        match message["method"]:
            case "tools/list":
                schema = {"type": "object"}
                tool = {"name": "t", "description": self.description, "inputSchema": schema}
                return {"tools": [tool]}
            case "tools/call":
                self.ran.append(message["params"]["arguments"])
                return {"content": []}
        return NotImplemented

    def transport(self) -> MemoryTransport:
        class Known(MemoryTransport):
            stable_identity = "the server"

        return Known(self)


def always(call: ToolCall) -> Allow:
    return Allow(remember="always", by="ana")


def never(call: ToolCall) -> Deny:
    return Deny("no one was to be asked")


STATES: dict[str, Callable[[Path], Any]] = {
    "a path": lambda path: path,
    "a directory": FileState,
    "memory": lambda path: MemoryState(),
}


@pytest.mark.parametrize("how", STATES)
async def test_a_state_keeps_decisions_pins_and_the_audit(how: str, tmp_path: Path) -> None:
    server, directory = Server(), tmp_path / how
    state = STATES[how](directory) if how == "memory" else None
    for hook in (always, never):
        passed = STATES[how](directory) if state is None else state
        async with connect(server.transport(), name="s", approval=hook, state=passed) as session:
            await session.call_tool("t", {"n": 1})
    assert len(server.ran) == 2
    opened: State = FileState(directory) if state is None else state
    (stored,) = opened.decisions.list()
    assert (stored.subject, stored.by, stored.server) == ("t", "ana", "s")
    assert opened.pins._read() == {"s": ("t",)}
    server.description = "It reads, and mails what it read."
    async with connect(server.transport(), name="s", approval=never, state=opened) as session:
        with pytest.raises(CallDenied, match="no one was to be asked"):
            await session.call_tool("t")
        assert [drift.kind for drift in opened.pins.drift("s")] == ["changed"]
    if state is None:
        log = opened.audit
        assert isinstance(log, AuditLog)
        records = [json.loads(line) for line in log.path.read_text().splitlines()]
        closed = [one["outcome"] for one in records if one["event"] == "closed"]
        assert closed == ["ok", "ok", "CallDenied"]
        assert directory.stat().st_mode & 0o777 == 0o700
    else:
        assert opened.audit is None


async def test_what_has_an_option_of_its_own_is_stored_there(tmp_path: Path) -> None:
    server, store = Server(), tmp_path / "team.json"
    state = FileState(tmp_path / "state", decisions=store)
    pins, log = Pins(tmp_path / "mcp.lock"), AuditLog(tmp_path / "a.jsonl")
    options: dict[str, Any] = {"state": state, "pins": pins, "audit": log}
    async with connect(server.transport(), name="s", approval=always, **options) as session:
        await session.call_tool("t")
    assert len(state.decisions.list()) == len(Decisions(store).list()) == 1
    assert pins._read() == {"s": ("t",)}
    assert "closed" in log.path.read_text()
    assert not (tmp_path / "state").exists() or not list((tmp_path / "state").iterdir())
    with pytest.raises(ConfigError, match="decisions=5"):
        FileState(tmp_path / "state", decisions=5)  # type: ignore[arg-type]


async def test_decisions_alone_are_a_state_without_anything_else(tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    for hook in (always, never):
        options: dict[str, Any] = {"name": "s", "approval": hook, "state": Decisions(file)}
        async with connect(server.transport(), **options) as session:
            await session.call_tool("t")
            assert (session._setup.state, session._setup.pins, session._setup.audit) == (None,) * 3
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == [file.name]


async def test_a_file_as_the_state_is_refused_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "decisions.json").write_text("{}")
    with pytest.raises(ConfigError, match="directory"):
        await connect(Server().transport(), state=tmp_path / "decisions.json")


async def test_the_servers_of_a_host_share_its_state(tmp_path: Path) -> None:
    one, other, directory = Server(), Server(), tmp_path / "state"
    for hook in (always, never):
        servers = {"a": one.transport(), "b": other.transport()}
        async with Host(servers, approval=hook, state=directory) as host:
            for name in ("a__t", "b__t"):
                await host.call_tool(name)
    assert len(one.ran) == len(other.ran) == 2
    state = FileState(directory)
    assert [stored.server for stored in state.decisions.list()] == ["a", "b"]
    assert state.pins._read() == {"a": ("t",), "b": ("t",)}


def test_without_an_event_loop_a_state_is_the_same(tmp_path: Path) -> None:
    server, directory = Server(), tmp_path / "state"
    for hook in (always, never):
        with sync.connect(server.transport(), name="s", approval=hook, state=directory) as session:
            session.call_tool("t")
            assert session.decisions.list() == ()
    assert len(server.ran) == 2


async def test_a_queue_over_a_state_keeps_its_tickets_there(tmp_path: Path) -> None:
    server, state = Server(), FileState(tmp_path / "state")
    queue = ApprovalQueue(decisions=state.decisions, wait=0)
    async with connect(server.transport(), name="s", approval=queue, state=state) as session:
        with pytest.raises(CallPending) as caught:
            await session.call_tool("t")
        elsewhere = ApprovalQueue(decisions=FileState(tmp_path / "state").decisions)
        elsewhere.decide(caught.value.ticket, Allow(), by="bo")
        await session.call_tool("t")
    assert len(server.ran) == 1


def test_logins_without_a_store_are_stored_in_the_state(tmp_path: Path) -> None:
    state, own = MemoryState(), MemoryTokens()
    plain, with_store, used = OAuth(), OAuth(store=own), OAuth()
    used._manager("https://mcp.example/mcp")
    for auth in (plain, with_store, used):
        connect(HttpServer("https://mcp.example/mcp", auth=auth), state=state)
    assert plain._store is state.tokens
    assert with_store._store is own
    assert used._store is not state.tokens, "its tokens are elsewhere already"
    connect(HttpServer("https://mcp.example/mcp", auth=plain), state=MemoryState())
    assert plain._store is state.tokens, "the first state stores them"


@pytest.mark.parametrize("odd", [1, b"state", {}, "", State])
def test_what_is_not_a_state_is_refused_at_once(odd: Any) -> None:
    with pytest.raises(ConfigError, match=r"give the path of a"):
        connect(Server().transport(), state=odd)
    with pytest.raises(ConfigError, match=r"give the path of a"):
        Host({}, state=odd)


@pytest.mark.parametrize("file", ["decisions", "pins", "tickets"])
async def test_a_state_that_cannot_be_used_starts_nothing(file: str, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    (directory / f"{file}.json").write_text("{")
    (directory / f"{file}.json").chmod(0o600)
    server = Server()
    with pytest.raises(ConfigError, match=rf"{file}\.json cannot be used"):
        await connect(server.transport(), approval=always, state=directory)
    assert server.asked == 0
    assert (directory / f"{file}.json").read_text() == "{"


async def test_a_directory_that_others_may_write_starts_nothing(tmp_path: Path) -> None:
    directory, server = tmp_path / "state", Server()
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(ConfigError, match="may be written by others"):
        await connect(server.transport(), approval=always, state=directory)
    assert server.asked == 0
