"""The proof that runs under every test can fail: each way round the gate is caught by it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, MemoryServer, Session, Timeouts, allow_all, connect, transports
from mcp_client.approval.decision import Verdict
from mcp_client.approval.gate import Gate
from mcp_client.protocol.jsonrpc import Json
from mcp_client.session.call import Approved, Caller
from mcp_client.transports import Transport
from mcp_client.transports.recording import RecordingTransport
from tests.support.ledger import TRANSPORTS, Ledger


class Server:
    """Two tools; with ``busy``, it has to be asked that many times more."""

    def __init__(self, busy: int = 0) -> None:
        self.calls: list[dict[str, Any]] = []
        self.busy = busy

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                hints = {"idempotentHint": True}
                return {
                    "tools": [
                        {"name": name, "inputSchema": {}, "annotations": hints} for name in "ab"
                    ]
                }
            case "tools/call":
                self.calls.append(message["params"])
                return {"content": []}
        return NotImplemented


async def test_a_call_that_was_allowed_is_counted_and_nothing_is_wrong(ledger: Ledger) -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("a", {"n": 1})
        await session.call_tool("a", {"n": 1})
    assert ledger.written == len(server.calls) == 2
    assert ledger.wrong == []


async def straight(session: Session) -> None:
    wire = await session._connection.ensure_connected()
    fields = {"name": "a", "arguments": Json('{"n":1}')}
    await wire.request("tools/call", fields, Timeouts())


async def after_one_that_was_allowed(session: Session) -> None:
    await session.call_tool("a", {"n": 1})
    await straight(session)


async def by_hand(session: Session) -> None:
    wire = await session._connection.ensure_connected()
    text = '{"id":99,"method":"tools/call","params":{"name":"a","arguments":{"n":1}}}'
    await wire.transport.send(text, {})


@pytest.mark.parametrize("way", [straight, after_one_that_was_allowed, by_hand])
async def test_a_way_round_the_gate_is_seen(
    way: Callable[[Session], Awaitable[None]], ledger: Ledger
) -> None:
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        await way(session)
    assert ledger.wrong == ['memory/a {"n":1}: this call was not allowed']
    ledger.wrong.clear()


@pytest.mark.parametrize(
    "other",
    [
        lambda call: replace(call, arguments_json='{"n":2}'),
        lambda call: replace(call, tool=replace(call.tool, name="b")),
    ],
    ids=["other arguments", "another tool"],
)
async def test_sending_another_call_than_was_allowed_is_seen(
    other: Callable[[Any], Any], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Caller._send

    async def sends_another(caller: Caller, order: Any, call: Approved, wire: Any) -> Any:
        return await send(caller, order, other(call), wire)

    monkeypatch.setattr(Caller, "_send", sends_another)
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        await session.call_tool("a", {"n": 1})
    assert len(ledger.wrong) == 1
    ledger.wrong.clear()


async def test_sending_an_allowed_call_twice_is_seen(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Caller._send

    async def sends_twice(caller: Caller, *rest: Any) -> Any:
        await send(caller, *rest)
        return await send(caller, *rest)

    monkeypatch.setattr(Caller, "_send", sends_twice)
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        await session.call_tool("a")
    assert len(ledger.wrong) == 1
    ledger.wrong.clear()


async def test_a_gate_that_is_not_asked_is_seen(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unasked(gate: Gate, call: Any, *rest: Any) -> Verdict[Any]:
        return Verdict(call, "nobody", None)

    monkeypatch.setattr(Gate, "decide", unasked)
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        await session.call_tool("a")
    assert len(ledger.wrong) == 1
    ledger.wrong.clear()


async def test_edited_arguments_are_what_was_allowed(ledger: Ledger) -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=lambda call: Allow({"n": 2})) as session:
        await session.call_tool("a", {"n": 1})
    assert [call["arguments"] for call in server.calls] == [{"n": 2}]
    assert ledger.written == 1


async def test_a_call_made_while_another_is_asked_about_needs_its_own_allow(ledger: Ledger) -> None:
    server = Server()

    async def approve(call: Any) -> Allow:
        await other.call_tool("b")
        return Allow()

    async with (
        connect(MemoryServer(server), approval=allow_all) as other,
        connect(MemoryServer(server), approval=approve) as session,
    ):
        await session.call_tool("a")
    assert [call["name"] for call in server.calls] == ["b", "a"]
    assert ledger.written == 2


def test_every_transport_of_the_package_is_listened_to() -> None:
    for module in pkgutil.iter_modules(transports.__path__):
        importlib.import_module(f"{transports.__name__}.{module.name}")
    ours = {kind for kind in _below(Transport) if kind.__module__.startswith("mcp_client.")}
    # What is recorded is sent by the transport inside.
    others = ours - set(TRANSPORTS) - {RecordingTransport}
    assert ours - others == {*TRANSPORTS, RecordingTransport}
    for kind in others:
        assert issubclass(kind, TRANSPORTS)
        assert not {"exchange", "send", "send_soon"} & vars(kind).keys()


def _below(kind: type) -> set[type]:
    found = {kind}.union(*map(_below, kind.__subclasses__()))
    return {each for each in found if not inspect.isabstract(each)}


def test_only_tests_that_have_no_gate_to_ask_are_let_go_below_it() -> None:
    marked = {
        str(path.relative_to(Path(__file__).parent)): len(
            re.findall(r"pytest\.mark\.below_the_gate", path.read_text())
        )
        for path in Path(__file__).parent.rglob("test_*.py")
        if path.name != Path(__file__).name
    }
    assert {name: count for name, count in marked.items() if count} == {
        "transports/test_contract.py": 1
    }
