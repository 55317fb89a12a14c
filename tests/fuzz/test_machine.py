"""What a server does and what its host does, in any order, never breaks the laws of a call.

A model beside the session knows what the server offers, what was approved, remembered and pinned,
and what the server ran. After each call it is compared with what happened:

- a call runs at most once, with the arguments that were approved, and only after an approval of the
  definition that the server had announced by then: of this call, or one that is remembered
  for the same definition and the same context,
- a call that was not sent did not run, and one that has a result did,
- the hook sees the drift from the pinned definition exactly where there is some, and the hints of
  an untrusted server never,
- the audit has every call once, with the outcome its caller saw.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.from_thread
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mcp_client import Allow, Deny, McpError, NotSent, Pins, Session, ToolCall, connect
from mcp_client.approval import Decisions
from mcp_client.testing import JsonRpcError
from mcp_client.transports.memory import MemoryTransport
from tests.support.properties import examples

NAMES = st.sampled_from(["read", "read", "write", "send"])
VALUES = st.sampled_from([1, 2])
CONTEXTS = st.sampled_from([None, None, "ana"])
ANSWERS = st.sampled_from(
    ["yes", "session", "session", "always", "edit", "no", "raise", "wrong", "none", "change"]
)


class Server:
    """Tools with a version each; what was called, as which version."""

    def __init__(self) -> None:
        self._number = itertools.count(1)
        self.versions: dict[str, int] = {"read": 0, "write": 0}
        self.announced = dict(self.versions)
        self.ran: list[tuple[str, int, int]] = []
        """The tool, its argument, and its version as last announced when it was called."""
        self.reply = "result"
        self.broken = False
        self.send: Callable[[Any], None] | None = None

    def definition(self, name: str) -> dict[str, Any]:
        version = self.versions[name]
        return {
            "name": name,
            "description": f"version {version}",
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "annotations": {"readOnlyHint": True, "idempotentHint": True},
        }

    def define(self, name: str) -> None:
        """Another definition than any before."""
        self.versions[name] = next(self._number)

    def announce(self) -> None:
        self.announced = dict(self.versions)
        if self.send is not None:
            self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.send = send
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "modelled", "version": "1"},
                }
            case "tools/list":
                bad = [{"name": 7}, {"name": "bad", "inputSchema": 3}] if self.broken else []
                return {"tools": [*bad, *map(self.definition, self.versions)]}
            case "tools/call":
                name = message["params"]["name"]
                announced = self.announced.get(name, 0)
                self.ran.append((name, message["params"]["arguments"]["n"], announced))
                if name not in self.versions:
                    raise JsonRpcError(-32602, f"unknown tool: {name}")
                match self.reply:
                    case "error":
                        raise JsonRpcError(-32000, "no")
                    case "nonsense":
                        return {"content": 5}
                    case "failed":
                        return {"content": [], "isError": True}
                return {"content": [{"type": "text", "text": "done"}]}
        return NotImplemented


class Known(MemoryTransport):
    """A server that can be distinguished later, so that decisions are stored for always."""

    stable_identity = "the modelled server"


@dataclass
class Asked:
    call: ToolCall
    version: int
    answer: str


class Calls(RuleBasedStateMachine):
    backend = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="machine-"))
        self.server = Server()
        self.asked: list[Asked] = []
        self.answer = "yes"
        self.remembered: set[tuple[str, int, Any]] = set()
        self.pinned: dict[str, int] = {}
        self.listed = False
        self.audit: list[Mapping[str, Any]] = []
        self.portal_of = anyio.from_thread.start_blocking_portal(self.backend)
        self.portal = self.portal_of.__enter__()
        self.session: Session | None = None

    @initialize(with_pins=st.booleans())
    def open(self, with_pins: bool) -> None:
        self.portal.call(self._open, with_pins)

    async def _open(self, with_pins: bool) -> None:
        self.with_pins = with_pins
        self.answers = Decisions(self.directory / "decisions.json")
        self.session = await connect(
            Known(self.server),
            name="modelled",
            approval=self.approve,
            state=self.answers,
            pins=Pins(self.directory / "mcp.lock") if with_pins else None,
            audit=self._record,
        )
        self.server.announced = dict(self.server.versions)

    def _record(self, record: Mapping[str, Any]) -> None:
        self.audit.append(record)

    async def approve(self, call: ToolCall) -> Any:
        version = int((call.tool.description or "").rpartition(" ")[2])
        assert not call.hints.read_only, "it is not trusted"
        assert not call.hints.idempotent
        if self.listed and self.with_pins:
            differs = self.pinned.get(call.tool.name) != version
            assert (call.drift is not None) == differs, (self.pinned, call.tool.name, version)
            assert not differs or call.findings
        self.asked.append(Asked(call, version, self.answer))
        match self.answer:
            case "yes":
                return Allow()
            case "session" | "always" as scope:
                return Allow(remember=scope)
            case "edit":
                return Allow(arguments={"n": call.arguments["n"] + 10})
            case "no":
                return Deny("no")
            case "raise":
                raise ValueError("a fault of the hook's own")
            case "wrong":
                return True
            case "change":  # the server changes its mind while a person thinks
                if call.tool.name in self.server.versions:
                    self.server.define(call.tool.name)
                    self.server.announce()
                self.answer = "yes"
                return Allow()
        return None

    # ------------------------------------------------------------ what a server does

    @rule(name=NAMES, announces=st.booleans())
    def define(self, name: str, announces: bool) -> None:
        self.server.define(name)
        if announces:
            self.portal.call(self.server.announce)

    @rule(name=NAMES, announces=st.booleans())
    def withdraw(self, name: str, announces: bool) -> None:
        if len(self.server.versions) > 1:
            self.server.versions.pop(name, None)
            if announces:
                self.portal.call(self.server.announce)

    @rule(reply=st.sampled_from(["result", "error", "nonsense", "failed"]), broken=st.booleans())
    def behave(self, reply: str, broken: bool) -> None:
        self.server.reply, self.server.broken = reply, broken

    # -------------------------------------------------------------- what a host does

    @rule(refresh=st.booleans())
    def list_tools(self, refresh: bool) -> None:
        tools = self.portal.call(self._list, refresh)
        self._was_listed()
        assert {tool.name for tool in tools} <= {"read", "write", "send"}
        if refresh:
            self.server.announced = dict(self.server.versions)

    async def _list(self, refresh: bool) -> list[Any]:
        assert self.session is not None
        return list(await self.session.list_tools(refresh=refresh))

    @rule()
    def revoke(self) -> None:
        self.answers.revoke_all()
        if self.session is not None:
            self.session.decisions.revoke_all()
        self.remembered.clear()

    @rule()
    def accept(self) -> None:
        tools = self.portal.call(self._list, True)
        self._was_listed()
        self.server.announced = dict(self.server.versions)
        if self.with_pins:
            Pins(self.directory / "mcp.lock").accept("modelled", tools)
        self.pinned = dict(self.server.versions)

    @rule(name=NAMES, value=VALUES, context=CONTEXTS, response=ANSWERS)
    def call(self, name: str, value: int, context: Any, response: str) -> None:
        self._make(name, value, context, response)

    @precondition(lambda self: self.remembered)
    @rule(which=st.integers(0, 9), value=VALUES, response=ANSWERS, redefined=st.booleans())
    def call_again(self, which: int, value: int, response: str, redefined: bool) -> None:
        """A remembered tool, which may have been defined again: drawn freely, this is too rare."""
        known = sorted(self.remembered, key=str)
        name, _, context = known[which % len(known)]
        if redefined and name in self.server.versions:
            self.define(name, announces=True)
        self._make(name, value, context, response)

    def _make(self, name: str, value: int, context: Any, response: str) -> None:
        self.answer, self.asked = response, []
        self._was_listed()
        ran_before = len(self.server.ran)
        records = len(self.audit)
        outcome, error = self.portal.call(self._call, name, value, context)
        ran = self.server.ran[ran_before:]
        assert len(ran) <= 1
        if error is None:
            assert len(ran) == 1
        if isinstance(error, NotSent):
            assert not ran, error
        if ran:
            self._judge(ran[0], name, value, context)
        if self.asked and self.asked[-1].answer in ("no", "raise", "wrong", "none"):
            assert not ran
        written = [each for each in self.audit[records:] if each["event"] != "revoked"]
        assert [record["event"] for record in written] == ["opened", "closed"]
        assert written[0]["call"] == written[1]["call"]
        assert written[1]["outcome"] == outcome

    def _judge(self, ran: tuple[str, int, int], name: str, value: int, context: Any) -> None:
        assert ran[0] == name
        if not self.asked:
            known = {v for n, v, c in self.remembered if (n, c) == (name, context)}
            assert known, "it was not asked about, and not remembered"
            assert max(known) >= ran[2], "what is remembered is for another definition"
            assert ran[1] == value
            return
        last = self.asked[-1]
        assert ran[1] == last.call.arguments["n"] + (10 if last.answer == "edit" else 0)
        assert last.version >= ran[2], "another definition was announced before it was sent"
        if last.answer in ("session", "always"):
            self.remembered.add((name, last.version, context))
        if last.answer == "always":
            self.pinned[name] = last.version

    async def _call(self, name: str, value: int, context: Any) -> tuple[str, McpError | None]:
        assert self.session is not None
        try:
            result = await self.session.call_tool(name, {"n": value}, context=context, timeout=20)
        except McpError as error:
            return type(error).__name__, error
        return ("tool_error" if result.is_error else "ok"), None

    def _was_listed(self) -> None:
        """The first list is what is pinned."""
        if not self.listed:
            self.listed = True
            self.pinned = dict(self.server.versions)

    @invariant()
    def a_server_is_still_there(self) -> None:
        if self.session is not None:
            assert self.session.generation == 1

    def teardown(self) -> None:
        if self.session is not None:
            self.portal.call(self.session.aclose)
        self.portal_of.__exit__(None, None, None)
        shutil.rmtree(self.directory)


class CallsOnTrio(Calls):
    backend = "trio"


def _steps(number: int) -> settings:
    return settings(
        examples(number), stateful_step_count=25, suppress_health_check=list(HealthCheck)
    )


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Calls, CallsOnTrio], ids=["asyncio", "trio"])
def test_no_order_of_what_server_and_host_do_breaks_the_laws_of_a_call(machine: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=_steps(200))
