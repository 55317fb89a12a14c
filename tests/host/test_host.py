"""Many servers as one set of tools, with servers in memory."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import pydoc
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_client import (
    Allow,
    CancelToken,
    ConfigError,
    ConnectError,
    Deny,
    Host,
    McpError,
    Pins,
    ServerConfig,
    Session,
    StdioServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.audit import verify_audit
from mcp_client.errors import AuthError, CallWithdrawn, ConnectionLost, UnknownTool
from mcp_client.host.options import HostOptions
from mcp_client.host.server import HostedServer
from mcp_client.testing import JsonRpcError
from tests.support.starting import scripted
from tests.support.timing import Clock
from tests.support.toolbox import Toolbox, names, until

QUICK = Timeouts(connect=5, idle=5, total=5, close=0.2)


def host_of(servers: dict[str, Any], **options: Any) -> Host:
    options.setdefault("approval", allow_all)
    options.setdefault("timeouts", QUICK)
    sources = {n: s.server if isinstance(s, Toolbox) else s for n, s in servers.items()}
    return Host(sources, **options)


class TestTools:
    async def test_the_tools_of_all_servers_are_one_list_in_the_servers_order(self) -> None:
        servers = {"one": Toolbox("search", "read"), "two": Toolbox("search")}
        async with host_of(servers) as host:
            tools = await host.list_tools()
            assert names(tools) == ["one__search", "one__read", "two__search"]
            assert [(tool.server, tool.name) for tool in tools][2] == ("two", "search")
            assert tools.findings == () and tools.rejected == ()

    async def test_a_call_is_sent_to_the_server_whose_tool_it_is(self) -> None:
        one, two = Toolbox("search"), Toolbox("search")
        async with host_of({"one": one, "two": two}) as host:
            result = await host.call_tool("two__search", {"q": 1}, timeout=5)
            assert result.text == "search"
            assert (one.calls, two.calls) == ([], [("search", {"q": 1})])

    async def test_a_tool_is_called_without_being_listed_before(self) -> None:
        async with host_of({"one": Toolbox("search")}) as host:
            assert (await host.call_tool("one__search")).text == "search"
            assert (await host.get_tool("one__search")).qualified_name == "one__search"

    async def test_the_name_on_a_sessions_own_list_is_the_servers(self) -> None:
        async with host_of({"one": Toolbox("search")}) as host:
            tool = (await host.sessions["one"].list_tools())[0]
            assert tool.qualified_name == tool.name == "search"

    async def test_an_unknown_tool_is_answered_with_what_is_close(self) -> None:
        async with host_of({"one": Toolbox("search_web"), "two": Toolbox("delete")}) as host:
            for wrong in ("one__serch_web", "search_web", "ONE__SEARCH_WEB", "search"):
                with pytest.raises(UnknownTool, match=r"close to it: one__search_web\Z"):
                    await host.call_tool(wrong)
            with pytest.raises(UnknownTool, match="there are: one__search_web, two__delete"):
                await host.call_tool("x")

    async def test_an_unknown_name_may_be_any_text(self) -> None:
        async with host_of({"one": Toolbox("search")}) as host:
            for wrong in ("", "x" * 100_000, "\ud800", "\0", "one__"):
                with pytest.raises(UnknownTool):
                    await host.call_tool(wrong)
            with pytest.raises(UnknownTool, match="NoneType"):
                await host.call_tool(None)  # type: ignore[arg-type]

    async def test_a_tool_that_has_gone_is_unknown_by_its_qualified_name(self) -> None:
        one = Toolbox("search", "read")
        async with host_of({"one": one}) as host:
            await host.list_tools()
            one.offer("read")
            with pytest.raises(UnknownTool, match="no server has a tool 'one__search'"):
                await host.call_tool("one__search")

    async def test_tools_that_their_server_spoils_are_rejected_by_server(self) -> None:
        one = Toolbox()
        other = {"name": "twice", "title": "Other", "inputSchema": {"type": "object"}}
        one.offer("twice", other, "fine")
        async with host_of({"one": one, "two": Toolbox("fine")}) as host:
            tools = await host.list_tools()
            assert names(tools) == ["one__fine", "two__fine"]
            assert {(one.server, one.name) for one in tools.rejected} == {("one", "twice")}
            with pytest.raises(UnknownTool, match="2 tools have this name"):
                await host.call_tool("one__twice")

    async def test_a_naming_function_that_fails_costs_that_tool_only(self) -> None:
        def naming(server: str, tool: str) -> str:
            return {"a": "first", "b": "first", "c": "third"}[tool]

        async with host_of({"one": Toolbox("a", "b", "c", "d")}, naming=naming) as host:
            tools = await host.list_tools()
            assert names(tools) == ["first", "third"]
            assert [one.name for one in tools.rejected] == ["b", "d"]

    async def test_bare_names_are_assigned_in_the_order_of_the_servers(self) -> None:
        one, two = Toolbox("search"), Toolbox("search")
        slow = one.slow = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def let_go() -> None:
                while "tools/list" not in two.asked:
                    await anyio.sleep(0.001)
                await anyio.wait_all_tasks_blocked()
                slow.set()

            tasks.start_soon(let_go)
            async with host_of({"one": one, "two": two}, naming="bare") as host:
                assert names(await host.list_tools()) == ["search", "two__search"]

    async def test_a_freed_bare_name_goes_to_no_other_server(self) -> None:
        one, two = Toolbox("search"), Toolbox("search")
        async with host_of({"one": one, "two": two}, naming="bare") as host:
            await host.remove("one")
            assert names(await host.list_tools()) == ["two__search"]
            await host.add("three", Toolbox("search").server)
            assert names(await host.list_tools()) == ["two__search", "three__search"]
            await host.add("one", one.server)
            assert "search" in names(await host.list_tools())

    async def test_a_host_waits_for_slow_servers_as_long_as_it_is_set_to(
        self, clock: Clock
    ) -> None:
        slow, quick = Toolbox("a"), Toolbox("b")
        slow.slow = anyio.Event()

        async def let_four_seconds_pass() -> None:
            while "tools/list" not in quick.asked:
                await anyio.lowlevel.checkpoint()
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            clock.jump(4)

        timeouts = Timeouts(gather=3, close=0.2)
        clock.stop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(let_four_seconds_pass)
            async with host_of({"one": slow, "two": quick}, timeouts=timeouts) as host:
                tools = await host.list_tools()
                clock.resume()
                assert (names(tools), tools.findings[0].kind) == (["two__b"], "missing_server")
                slow.slow.set()

    async def test_tools_are_found_by_words(self) -> None:
        async with host_of({"one": Toolbox("get_weather"), "two": Toolbox("send_mail")}) as host:
            assert names(await host.search_tools("weather"))[0] == "one__get_weather"
            assert names(await host.search_tools("mail", limit=1)) == ["two__send_mail"]
            session = host.sessions["two"]
            assert names(await session.search_tools("mail or weather")) == ["send_mail"]
            await host.remove("two")
            assert names(await host.search_tools("mail")) == []

    async def test_other_tasks_run_while_thousands_of_tools_are_read_for_a_search(self) -> None:
        box = Toolbox(*(f"tool_{number}" for number in range(3_000)))
        async with host_of({"one": box}) as host, anyio.create_task_group() as tasks:
            await host.list_tools()
            turns = 0

            async def other_work() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await anyio.lowlevel.checkpoint()

            tasks.start_soon(other_work)
            assert len(await host.search_tools("tool", limit=10)) == 10
            assert turns > 15
            tasks.cancel_scope.cancel()


class TestFilters:
    async def test_a_tool_that_is_left_out_cannot_be_called_through_any_door(self) -> None:
        box = Toolbox("search", "delete")
        config = ServerConfig(box.server, exclude=["del*"])
        async with host_of({"one": config}) as host:
            tools = await host.list_tools()
            assert names(tools) == ["one__search"]
            assert [one.name for one in tools.rejected] == ["delete"]
            for call in (host.call_tool("one__delete"), host.get_tool("one__delete")):
                with pytest.raises(UnknownTool, match=r"exclude='del\*'"):
                    await call
            session = host.sessions["one"]
            with pytest.raises(UnknownTool, match=r"exclude='del\*'"):
                await session.call_tool("delete")
            assert names(await session.list_tools()) == ["search"]
            assert box.calls == []

    async def test_a_tool_that_is_added_later_is_filtered_too(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": ServerConfig(box.server, include=["search*"])}) as host:
            box.offer("search", "search_more", "delete")
            assert names(await host.list_tools()) == ["one__search", "one__search_more"]
            with pytest.raises(UnknownTool, match="include="):
                await host.call_tool("one__delete")


class TestStatus:
    @pytest.mark.parametrize(
        "copied",
        [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
        ids=["copy", "deepcopy", "pickle"],
    )
    async def test_is_data_that_can_be_copied(self, copied: Callable[[Any], Any]) -> None:
        servers = {"good": Toolbox("search"), "bad": StdioServer("/does/not/exist")}
        async with host_of(servers) as host:
            status = host.status()
            again = copied(status)
            assert [one.state for one in again.values()] == ["connected", "failed"]
            assert again["good"] == status["good"]
            assert dataclasses.asdict(again["good"]) == dataclasses.asdict(status["good"])
            assert str(again["bad"].error) == str(status["bad"].error)
            displayed = json.loads(json.dumps({name: one.to_json() for name, one in again.items()}))
            assert displayed["good"] == json.loads(json.dumps(dataclasses.asdict(status["good"])))
            assert "/does/not/exist" in displayed["bad"]["error"]
            session = await host.session("good")
            assert session is host.sessions["good"]
            for data in (session.server_info, session.capabilities, session.server_response):
                assert copied(data) == data
            found = dataclasses.asdict(session.server_info)  # type: ignore[arg-type]
            assert json.loads(json.dumps(found))["name"] == found["name"]
            with pytest.raises(TypeError, match="cannot be changed"):
                session.capabilities["tools"] = {}  # type: ignore[index]


class TestBadServers:
    async def test_one_that_cannot_be_started_costs_only_its_own_tools(self) -> None:
        servers = {"good": Toolbox("search"), "bad": StdioServer("/does/not/exist")}
        async with host_of(servers) as host:
            tools = await host.list_tools()
            assert names(tools) == ["good__search"]
            assert len(tools.findings) == 1
            assert "server 'bad' is missing" in str(tools.findings[0])
            assert "/does/not/exist" in str(tools.findings[0])
            status = host.status()["bad"]
            assert status.state == "failed"
            assert isinstance(status.error, ConnectError)
            assert status.retry_in is not None and status.retry_in < 60
            assert list(host.sessions) == ["good"]

    async def test_one_that_is_needed_and_cannot_be_started_raises(self) -> None:
        good = Toolbox("search")
        servers = {"good": good, "bad": StdioServer("/does/not/exist")}
        with pytest.raises(ConnectError, match="/does/not/exist"):
            async with host_of(servers, required=["bad"]):
                pytest.fail("it was entered")
        assert not any(wire.alive for wire in good.wires)

    async def test_one_that_fails_at_first_is_tried_again(self) -> None:
        box = Toolbox("search")
        box.refuse_to_open = JsonRpcError(-32000, "not yet")
        async with host_of({"one": box}) as host:
            assert host.status()["one"].state == "failed"
            box.refuse_to_open = None
            await until(host, "one", "connected")
            assert names(await host.list_tools()) == ["one__search"]

    async def test_one_that_dies_during_a_call_is_started_again(self) -> None:
        box, other = Toolbox("die", "search"), Toolbox("search")
        async with host_of({"one": box, "two": other}) as host:
            with pytest.raises(ConnectionLost):
                await host.call_tool("one__die")
            assert (await host.call_tool("two__search")).text == "search"
            assert (await host.call_tool("one__search")).text == "search"
            assert box.starts == 2
            assert host.status()["one"].state == "connected"

    async def test_one_that_dies_while_nothing_is_called_is_started_again(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": box}) as host, host.status_changes() as changes:
            session = host.sessions["one"]
            box.end()
            seen = []
            async for status in changes:
                seen.append(status.state)
                if status.state == "connected":
                    break
            assert seen == ["connecting", "connected"]
            assert host.sessions["one"] is session

    async def test_a_known_tool_of_a_server_that_is_down_raises_connect_error(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": box}) as host:
            box.refuse_to_open = JsonRpcError(-32000, "no more")
            box.end()
            await until(host, "one", "failed")
            with pytest.raises(ConnectError, match=r"no more.*tried again in") as caught:
                await host.call_tool("one__search")
            assert caught.value.retryable and caught.value.retry_after is not None
            tools = await host.list_tools()
            assert len(tools) == 1 and "no more" in str(tools.findings[0])

    async def test_a_crash_loop_is_slowed_down_and_disturbs_no_other(self) -> None:
        box, other = Toolbox("search"), Toolbox("search")
        async with host_of({"one": box, "two": other}) as host:
            for _ in range(20):
                box.end()
                with suppress(ConnectError):
                    await host.call_tool("one__search")
                assert (await host.call_tool("two__search")).text == "search"
            assert 2 <= box.starts <= 4
            assert host.status()["one"].state == "failed"

    async def test_one_whose_list_fails_is_connected_and_missing(self) -> None:
        box = Toolbox("search")
        box.refuse_to_list = JsonRpcError(-32000, "no list today")
        async with host_of({"one": box, "two": Toolbox("search")}) as host:
            tools = await host.list_tools()
            assert names(tools) == ["two__search"]
            assert "no list today" in str(tools.findings[0])
            assert host.status()["one"].state == "connected"
            box.refuse_to_list = None
            assert len(await host.list_tools()) == 2

    async def test_one_that_wants_a_login_is_distinguished_and_left_alone(self) -> None:
        box = Toolbox("search")
        box_server = box.server

        async def refuse(context: Any) -> None:
            raise AuthError("log in first", http_status=401)

        box_server.open = refuse  # type: ignore[method-assign]
        async with host_of({"one": box_server, "two": Toolbox("search")}) as host:
            status = host.status()["one"]
            assert status.state == "needs_login" and status.retry_in is None
            assert "needs a login" in str((await host.list_tools()).findings[0])
            with pytest.raises(AuthError, match=r"reconnect\('one'\)"):
                await host.session("one")
            await host.reconnect("one")
            assert host.status()["one"].state == "connected"
            assert (await host.call_tool("one__search")).text == "search"


class TestLazyServers:
    async def test_one_starts_at_its_first_use(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": ServerConfig(box.server, lazy=True)}) as host:
            assert host.status()["one"].state == "idle"
            tools = await host.list_tools()
            assert len(tools) == 0 and "lazy" in str(tools.findings[0])
            assert box.starts == 0
            session = await host.session("one")
            assert session is host.sessions["one"]
            assert names(await host.list_tools()) == ["one__search"]

    async def test_one_that_is_added_or_removed_is_a_change_of_status(self) -> None:
        box = Toolbox("search")
        async with host_of({}) as host, host.status_changes() as changes:
            await host.add("one", ServerConfig(box.server, lazy=True))
            await host.remove("one")
            with anyio.fail_after(60):
                reported = [await anext(changes), await anext(changes)]
        assert [(one.name, one.state) for one in reported] == [("one", "idle"), ("one", "closed")]
        assert box.starts == 0

    async def test_a_tool_that_is_known_from_the_pins_starts_it(self, tmp_path: Any) -> None:
        box, pins = Toolbox("search"), tmp_path / "mcp.lock"
        async with host_of({"one": box}, pins=pins) as host:
            await host.list_tools()
        async with host_of({"one": ServerConfig(box.server, lazy=True)}, pins=pins) as host:
            assert host.status()["one"].state == "idle"
            assert (await host.call_tool("one__search")).text == "search"

    async def test_many_first_uses_start_it_once(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": ServerConfig(box.server, lazy=True)}) as host:
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(host.session, "one")
            assert box.starts == 1

    async def test_a_caller_that_is_cancelled_does_not_stop_the_start(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": ServerConfig(box.server, lazy=True)}) as host:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await host.session("one")
            assert (await host.session("one")).name == "one"
            assert box.starts == 1

    async def test_a_caller_that_is_cancelled_while_it_reconnects_makes_no_failed_server(
        self,
    ) -> None:
        async with host_of({"one": scripted()}) as host:
            transport = host.sessions["one"]._connection.transport
            async with anyio.create_task_group() as tasks:

                async def lose() -> None:
                    with pytest.raises(ConnectionLost):
                        await host.call_tool("one__close-output")

                tasks.start_soon(lose)
                with anyio.fail_after(60):
                    while transport.alive:
                        await anyio.sleep(0.005)
                with anyio.move_on_after(0.02) as scope:  # a process takes longer to start
                    await host.call_tool("one__echo")
                assert scope.cancelled_caught
                assert host.status()["one"].state == "connecting"
                assert (await host.call_tool("one__echo")).text == "{}"
                assert host.status()["one"].state == "connected"

    async def test_a_note_on_the_error_that_brought_it_down_is_not_of_the_next_one(self) -> None:
        box = Toolbox("search")
        box.refuse_to_open = JsonRpcError(-32000, "not today")
        async with host_of({"one": box}) as host:
            error = host.status()["one"].error
            assert error is not None
            error.add_note("the audit record of this call could not be closed")
            with pytest.raises(ConnectError, match="not today") as caught:
                await host.session("one")
            assert not hasattr(caught.value, "__notes__")

    async def test_one_that_is_disabled_is_never_started(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": ServerConfig(box.server, enabled=False)}) as host:
            assert host.status()["one"].state == "disabled"
            assert (await host.list_tools()).findings == ()
            with pytest.raises(ConnectError, match="disabled"):
                await host.session("one")
            assert box.asked == []


class TestStartGate:
    async def test_a_server_waits_to_be_allowed_and_entering_does_not(self) -> None:
        box, allowed = Toolbox("search"), anyio.Event()

        async def gate() -> None:
            await allowed.wait()

        host = host_of({"one": box, "two": Toolbox("search")})
        host._servers["one"].gate = gate
        async with host:
            assert host.status()["one"].state == "idle"
            tools = await host.list_tools()
            assert names(tools) == ["two__search"]
            assert "waits to be allowed" in str(tools.findings[0])
            assert box.asked == []
            allowed.set()
            assert (await host.session("one")).name == "one"

    async def test_a_denial_is_in_the_status_and_asked_again_for_the_session(self) -> None:
        box, answers = Toolbox("search"), [ConfigError("not confirmed"), None]

        async def gate() -> None:
            response = answers.pop(0)
            if response is not None:
                raise response

        host = host_of({"one": box})
        host._servers["one"].gate = gate
        async with host:
            while host.status()["one"].error is None:
                await anyio.lowlevel.checkpoint()
            assert host.status()["one"].state == "idle"
            assert "not confirmed" in str((await host.list_tools()).findings[0])
            await host.session("one")
            assert host.status()["one"].state == "connected"

    async def test_an_approval_that_comes_at_once_is_waited_for(self) -> None:
        async def gate() -> None:
            await anyio.lowlevel.checkpoint()

        host = host_of({"one": Toolbox("search")})
        host._servers["one"].gate = gate
        async with host:
            assert names(await host.list_tools()) == ["one__search"]

    async def test_a_required_server_waits_for_its_response(self) -> None:
        async def gate() -> None:
            raise ConfigError("not confirmed")

        host = host_of({"one": Toolbox("search")}, required=["one"])
        host._servers["one"].gate = gate
        with pytest.raises(ConnectError, match="not confirmed"):
            await host

    async def test_no_one_who_answers_is_a_denial(self) -> None:
        host = host_of(
            {"one": Toolbox()}, required=["one"], timeouts=Timeouts(approval=0.01, close=0.1)
        )
        host._servers["one"].gate = anyio.sleep_forever
        with pytest.raises(ConnectError, match=r"Timeouts\(approval"):
            await host

    async def test_a_gate_that_raises_is_a_denial(self) -> None:
        async def gate() -> None:
            raise RuntimeError

        host = host_of({"one": Toolbox()})
        host._servers["one"].gate = gate
        async with host:
            with pytest.raises(ConnectError, match="RuntimeError"):
                await host.session("one")

    async def test_closing_does_not_wait_for_a_response(self) -> None:
        host = host_of({"one": Toolbox()})
        host._servers["one"].gate = anyio.sleep_forever
        async with host:
            pass
        assert host.status()["one"].state == "closed"


class TestOptions:
    async def test_one_hook_receives_the_server_and_the_context_of_each_call(self) -> None:
        asked: list[ToolCall] = []

        async def approve(call: ToolCall) -> Allow | Deny:
            asked.append(call)
            return Allow()

        async with host_of({"one": Toolbox("a"), "two": Toolbox("a")}, approval=approve) as host:
            await host.call_tool("one__a", context="ana")
            await host.call_tool("two__a", context=("bo", 1))
        assert [(call.server, call.context) for call in asked] == [
            ("one", "ana"),
            ("two", ("bo", 1)),
        ]

    async def test_a_config_overrides_what_the_host_sets(self) -> None:
        config = ServerConfig(Toolbox("a").server, approval=allow_all, trusted=True)
        denied = pytest.raises(McpError, match="not approved")
        servers = {"one": config, "two": Toolbox("a")}
        async with host_of(servers, approval=lambda call: Deny("no")) as host:
            await host.call_tool("one__a")
            with denied:
                await host.call_tool("two__a")
            tools = await host.list_tools()
            assert [tool.trusted for tool in tools] == [True, False]

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"nothing": 1}, ConfigError),
            ({"revision": "2025-06-99"}, ConfigError),
            ({"naming": "x"}, ConfigError),
            ({"required": "one"}, ConfigError),
            ({"required": ["two"]}, ConfigError),
            ({"validation": "x"}, ConfigError),
            ({"pins": 3}, ConfigError),
        ],
    )
    async def test_a_wrong_option_is_refused_at_once(self, options: Any, error: Any) -> None:
        with pytest.raises(error):
            host_of({"one": Toolbox()}, **options)

    async def test_a_wrong_server_is_refused_by_its_name(self) -> None:
        with pytest.raises(ConfigError, match="one"):
            host_of({"one": object()})
        with pytest.raises(ConfigError, match="mapping"):
            Host([Toolbox().server])  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="name of a server"):
            host_of({"": Toolbox()})

    async def test_every_call_is_in_one_audit_log_once(self, tmp_path: Any) -> None:
        log = tmp_path / "calls.jsonl"
        async with host_of({"one": Toolbox("a"), "two": Toolbox("a")}, audit=log) as host:
            await host.call_tool("one__a", context="ana")
            await host.call_tool("two__a")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        opened = [line for line in lines if line["event"] == "opened"]
        assert [(line["server"], line["tool"], line["context"]) for line in opened] == [
            ("one", "a", "ana"),
            ("two", "a", None),
        ]
        assert [line["event"] for line in lines].count("closed") == 2

    async def test_a_call_that_reaches_no_session_is_recorded_too(self, tmp_path: Any) -> None:
        log = tmp_path / "calls.jsonl"
        down = ServerConfig(StdioServer("/does/not/exist"), lazy=True)
        pins = Pins(tmp_path / "mcp.lock")
        async with host_of({"one": Toolbox("a"), "down": Toolbox("b")}, pins=pins) as host:
            await host.list_tools()
        async with host_of({"one": Toolbox("a"), "down": down}, pins=pins, audit=log) as host:
            with pytest.raises(UnknownTool):
                await host.call_tool("one__x", {"a": 1}, context="ana")
            with pytest.raises(ConnectError):
                await host.call_tool("down__b")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        closed = [line for line in lines if line["event"] == "closed"]
        assert [(line["server"], line["tool"], line["outcome"]) for line in closed] == [
            ("", "one__x", "UnknownTool"),
            ("down", "down__b", "ConnectError"),
        ]
        assert [line["delivery"] for line in closed] == ["not_sent", "not_sent"]
        verify_audit(log)

    async def test_a_call_is_withdrawn_while_its_server_is_started(self, tmp_path: Any) -> None:
        pins = Pins(tmp_path / "mcp.lock")
        async with host_of({"one": Toolbox("a")}, pins=pins) as host:
            await host.list_tools()
        box = Toolbox("a")
        box.hang_on_open = True
        config = ServerConfig(box.server, lazy=True)
        async with host_of({"one": config}, pins=pins) as host:
            token = CancelToken()
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    with pytest.raises(CallWithdrawn, match="changed my mind"):
                        await host.call_tool("one__a", cancel=token)

                tasks.start_soon(call)
                while "initialize" not in box.asked:
                    await anyio.sleep(0.001)
                token.cancel("I changed my mind")

    async def test_a_call_with_a_token_that_is_cancelled_is_withdrawn_whatever_it_names(
        self,
    ) -> None:
        box, lazy = Toolbox("a"), Toolbox("b")
        config = ServerConfig(lazy.server, lazy=True)
        async with host_of({"one": box, "two": config}) as host:
            token = CancelToken()
            token.cancel("I changed my mind")
            for call in (host.call_tool, host.start_tool):
                for name in ("one__a", "one__x", "two__b"):
                    with pytest.raises(CallWithdrawn, match="changed my mind"):
                        await call(name, cancel=token)
            assert lazy.asked == []

    def test_help_names_every_option(self) -> None:
        text = pydoc.render_doc(Host, renderer=pydoc.TextDoc())
        options = {*inspect.signature(connect).parameters, *HostOptions.__annotations__}
        for name in options - {"server", "name", "revision", "bind"}:
            assert f"``{name}``" in text, name
            assert name in HostOptions.__annotations__, name

    async def test_its_repr_has_the_number_of_its_servers_and_no_address(self) -> None:
        made = Host({"one": Toolbox().server, "two": ServerConfig("https://u:pw@x.example?key=k")})
        assert repr(made) == "<Host, 2 servers, not open>"
        async with host_of({"one": Toolbox()}) as host:
            assert repr(host) == "<Host, 1 servers, open>"
        assert repr(host) == "<Host, 1 servers, closed>"


class TestChanges:
    async def test_servers_come_and_go_while_it_runs(self) -> None:
        async with host_of({"one": Toolbox("a")}) as host:
            status = await host.add("two", Toolbox("b").server)
            assert (status.state, status.tools) == ("connected", 1)
            assert names(await host.list_tools()) == ["one__a", "two__b"]
            await host.remove("one")
            assert names(await host.list_tools()) == ["two__b"]
            with pytest.raises(UnknownTool):
                await host.call_tool("one__a")
            with pytest.raises(ConfigError, match="name is in use"):
                await host.add("two", Toolbox().server)
            with pytest.raises(ConfigError, match="unknown server 'one'"):
                await host.remove("one")

    async def test_tool_changes_are_reported_over_all_servers(self) -> None:
        one = Toolbox("a")
        async with host_of({"one": one}) as host, host.tool_changes() as changes:
            one.offer("a", "b")
            change = await anext(changes)
            assert (names(change.added), names(change.removed)) == (["one__b"], [])
            await host.add("two", Toolbox("c").server)
            assert names((await anext(changes)).added) == ["two__c"]
            await host.remove("one")
            change = await anext(changes)
            assert names(change.removed) == ["one__a", "one__b"]
            assert names(change.now) == ["two__c"]

    async def test_a_changed_definition_is_reported(self) -> None:
        one = Toolbox("a", "b")
        async with host_of({"one": one}) as host, host.tool_changes() as changes:
            one.offer({"name": "a", "inputSchema": {"type": "object"}, "title": "A"}, "b")
            assert names((await anext(changes)).changed) == ["one__a"]

    async def test_the_tools_of_a_server_that_is_down_are_removed_and_come_back(self) -> None:
        one = Toolbox("a")
        async with (
            host_of({"one": one}, keep_listed=0) as host,
            host.tool_changes() as changes,
        ):
            one.refuse_to_open = JsonRpcError(-32000, "no")
            one.end()
            assert names((await anext(changes)).removed) == ["one__a"]
            one.refuse_to_open = None
            assert names((await anext(changes)).added) == ["one__a"]

    async def test_streams_end_when_the_host_is_closed(self) -> None:
        host = await host_of({"one": Toolbox("a")})
        ended = []

        async def read(stream: Any, name: str) -> None:
            async for _ in stream:
                pass
            ended.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, host.tool_changes(), "tools")
            tasks.start_soon(read, host.status_changes(), "status")
            await anyio.wait_all_tasks_blocked()
            await host.aclose()
        assert sorted(ended) == ["status", "tools"]

    async def test_a_server_that_cries_wolf_is_asked_less_and_less(self) -> None:
        one = Toolbox("a")
        async with host_of({"one": one}) as host, host.tool_changes() as changes:
            with anyio.move_on_after(0.5):
                async with anyio.create_task_group() as tasks:

                    async def cry() -> None:
                        while True:
                            one.notify()
                            await anyio.sleep(0.001)

                    tasks.start_soon(cry)
                    await anext(changes)
            assert one.asked.count("tools/list") < 12


class TestEverythingElse:
    async def test_resources_and_prompts_state_whose_they_are(self) -> None:
        async with host_of({"one": Toolbox(), "two": Toolbox()}) as host:
            resources = await host.list_resources()
            assert [(r.server, r.uri) for r in resources] == [
                ("one", "note://one"),
                ("two", "note://one"),
            ]
            assert [p.server for p in await host.list_prompts()] == ["one", "two"]
            read = await host.read_resource("note://one", server="two")
            assert "a note" in read.text
            prompt = await host.get_prompt("greet", server="one")
            assert len(prompt.messages) == 1
            with pytest.raises(ConfigError, match="unknown server 'three'"):
                await host.read_resource("note://one", server="three")

    async def test_reconnecting_ends_the_calls_under_way(self) -> None:
        box = Toolbox("hang", "search")
        async with host_of({"one": box}) as host:
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    with pytest.raises(ConnectionLost):
                        await host.call_tool("one__hang")

                tasks.start_soon(call)
                while not box.calls:
                    await anyio.sleep(0.001)
                session = await host.reconnect("one")
            assert session.generation == 2
            assert (await host.call_tool("one__search")).text == "search"

    async def test_any_task_may_close_it_and_closing_twice_is_fine(self) -> None:
        box = Toolbox("hang")
        host = await host_of({"one": box})
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(McpError):
                    await host.call_tool("one__hang")

            tasks.start_soon(call)
            while not box.calls:
                await anyio.sleep(0.001)
            tasks.start_soon(host.aclose)
            tasks.start_soon(host.aclose)
        await host.aclose()
        assert {status.state for status in host.status().values()} == {"closed"}
        with pytest.raises(ConnectError, match="closed"):
            await host.list_tools()
        with pytest.raises(ConnectError):
            await host.call_tool("one__hang")

    async def test_it_is_entered_once(self) -> None:
        host = host_of({"one": Toolbox()})
        with pytest.raises(ConfigError, match="not open"):
            await host.list_tools()
        async with host:
            with pytest.raises(ConfigError, match="once"):
                await host

    async def test_nothing_is_started_when_a_closed_host_is_entered(self) -> None:
        box, lazy = Toolbox("search"), Toolbox("search")
        servers = {"one": box.server, "two": ServerConfig(lazy.server, lazy=True)}
        host = host_of(servers, required=["two"])
        await host.aclose()
        for _ in range(2):
            with pytest.raises(ConnectError, match="closed before it was opened"):
                async with host:
                    raise AssertionError("it was entered")
        assert box.asked == lazy.asked == []
        with pytest.raises(ConnectError, match="closed"):
            await host.add("three", box.server)

    async def test_nothing_is_started_when_it_is_closed_while_its_pins_are_read(
        self, tmp_path: Path
    ) -> None:
        box = Toolbox("search")
        is_being_read, go_on = threading.Event(), threading.Event()

        class SlowPins(Pins):
            def _read(self) -> Any:
                is_being_read.set()
                assert go_on.wait(10)
                return super()._read()

        host = host_of({"one": box}, pins=SlowPins(tmp_path / "mcp.lock"))
        async with anyio.create_task_group() as tasks:

            async def close() -> None:
                await anyio.to_thread.run_sync(is_being_read.wait, 10)
                await host.aclose()
                go_on.set()

            tasks.start_soon(close)
            with pytest.raises(ConnectError, match="closed while it was being opened"):
                await host
        assert box.asked == []
        assert host.status()["one"].state == "closed"

    async def test_a_session_that_opens_just_as_the_host_is_closed_is_closed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[Session] = []
        is_open = anyio.Event()
        open_session = HostedServer._open_session

        async def while_it_is_closed(server: HostedServer) -> Session:
            session = await open_session(server)
            is_open.set()
            with anyio.CancelScope(shield=True):
                while not server.closed:
                    await checkpoint()
            opened.append(session)
            return session

        monkeypatch.setattr(HostedServer, "_open_session", while_it_is_closed)

        async def use(host: Host) -> None:
            with pytest.raises(ConnectError):
                await host.session("one")

        with anyio.fail_after(60):
            async with (
                host_of({"one": ServerConfig(Toolbox("search").server, lazy=True)}) as host,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(use, host)
                await is_open.wait()
                tasks.start_soon(host.aclose)
        assert [session.closed for session in opened] == [True]

    async def test_a_session_that_its_user_closed_is_made_again(self) -> None:
        box = Toolbox("search")
        async with host_of({"one": box}) as host:
            await host.sessions["one"].aclose()
            assert host.status()["one"].state == "closed"
            assert (await host.call_tool("one__search")).text == "search"

    async def test_processes_are_started_again_and_none_is_left(self, tmp_path: Any) -> None:
        starts = tmp_path / "starts"
        server = scripted("--starts", str(starts), "--era", "stateless")
        async with host_of({"one": server, "two": scripted()}) as host:
            with pytest.raises(ConnectionLost):
                await host.call_tool("one__kill")
            assert (await host.call_tool("one__echo", {"a": 1})).text == '{"a": 1}'
            assert (await host.call_tool("two__echo", {"b": 1})).text == '{"b": 1}'
        assert len(starts.read_text().splitlines()) == 2


async def test_what_to_do_about_several_missing_servers_is_reported_once() -> None:
    dying = {
        name: StdioServer(sys.executable, ["-c", f"raise SystemExit({code})"])
        for name, code in (("one", 3), ("two", 4))
    }
    async with Host(dying) as host:
        with pytest.raises(UnknownTool) as raised:
            await host.call_tool("one__x")
    assert str(raised.value).count("run it by hand to see why") == 1
    assert "code 3" in str(raised.value)
    assert "code 4" in str(raised.value)
