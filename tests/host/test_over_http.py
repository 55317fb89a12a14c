"""Servers of a host over HTTP, where there is no connection whose end could be noticed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    ConnectError,
    Host,
    McpError,
    OutcomeUnknown,
    ServerConfig,
    Timeouts,
    allow_all,
)
from mcp_client.errors import AuthError
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock, quickly
from tests.support.toolbox import Toolbox, names, until

QUICK = Timeouts(connect=5, idle=5, total=5, close=0.2)


class Switched:
    """``app``, while ``up``; else it hangs up, or answers with the status ``up``."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.up: bool | int = True

    async def __call__(self, request: Request, reply: Reply) -> None:
        if self.up is True:
            await self.app(request, reply)
        elif self.up is False:
            reply.hang_up()
        else:
            await reply.send(self.up)


def host_of(servers: dict[str, Any], **options: Any) -> Host:
    return Host(servers, approval=allow_all, timeouts=QUICK, **options)


@pytest.mark.parametrize("app", [Stateless, Handshake])
async def test_http_and_other_servers_are_one_set_of_tools(app: Any) -> None:
    near = Toolbox("echo").server
    async with serving(app()) as far, host_of({"far": far.url, "near": near}) as host:
        assert names(await host.list_tools()) == ["far__echo", "near__echo"]
        assert (await host.call_tool("far__echo", {"a": 1})).text == "{'a': 1}"


@pytest.mark.parametrize("app", [Stateless, Handshake])
async def test_a_lazy_server_receives_its_first_request_with_the_first_call(
    app: Any, tmp_path: Path
) -> None:
    async with serving(app()) as far:
        async with host_of({"far": far.url}, pins=tmp_path / "mcp.lock") as host:
            await host.list_tools()
        before = len(far.requests)
        lazy = ServerConfig(far.url, lazy=True)
        async with host_of({"far": lazy}, pins=tmp_path / "mcp.lock") as host:
            assert names(await host.list_tools()) == ["far__echo"]
            assert host.status()["far"].state == "idle"
            assert len(far.requests) == before
            assert (await host.call_tool("far__echo", {"a": 1})).text == "{'a': 1}"
            assert host.status()["far"].state == "connected"
            assert len(far.requests) > before


async def test_names_may_begin_with_the_host_of_the_url() -> None:
    async with serving(Stateless()) as served:
        place = served.url.split("/")[2]
        servers = {"far": served.url, "near": Toolbox("echo").server}
        async with host_of(servers, naming="uri") as host:
            assert names(await host.list_tools()) == [f"{place}:echo", "near:echo"]
            assert (await host.call_tool(f"{place}:echo")).text == "{}"


async def test_a_server_that_is_not_there_yet_is_connected_when_it_is() -> None:
    switch = Switched(Stateless())
    switch.up = 503
    async with serving(switch) as served, host_of({"far": served.url}) as host:
        assert host.status()["far"].state == "failed"
        switch.up = True
        await until(host, "far", "connected")
        assert names(await host.list_tools()) == ["far__echo"]


async def test_a_call_that_finds_the_server_gone_is_how_the_host_notices_it() -> None:
    switch = Switched(Stateless())
    async with serving(switch) as served, host_of({"far": served.url}) as host:
        switch.up = False
        with pytest.raises((ConnectError, OutcomeUnknown)):
            await host.call_tool("far__echo")
        await until(host, "far", "failed")
        assert "is down" in str((await host.list_tools()).findings[0])
        switch.up = True
        await until(host, "far", "connected")
        assert (await host.call_tool("far__echo")).text == "{}"


async def test_a_server_whose_port_is_closed_raises_connect_error() -> None:
    async with serving(Stateless()) as served:
        host = await host_of({"far": served.url})
    try:
        with suppress(OutcomeUnknown, ConnectError):  # of the connection that was left open
            await host.call_tool("far__echo")
        with pytest.raises(ConnectError):
            await host.call_tool("far__echo")
    finally:
        await host.aclose()


async def test_a_call_that_succeeds_is_how_the_host_learns_that_the_server_is_back(
    clock: Clock,
) -> None:
    switch = Switched(Stateless())
    async with serving(switch) as served, host_of({"far": served.url}) as host:
        switch.up = 503
        with pytest.raises(McpError):
            await host.call_tool("far__echo")
        async with quickly(clock):
            await until(host, "far", "failed")
        clock.stop()  # so that it is not the host's own next attempt
        switch.up = True
        assert (await host.call_tool("far__echo")).text == "{}"
        assert host.status()["far"].state == "connected"


async def test_a_server_that_limits_the_rate_is_not_down() -> None:
    switch = Switched(Stateless())
    async with serving(switch) as served, host_of({"far": served.url}) as host:
        switch.up = 429
        with pytest.raises(McpError):
            await host.call_tool("far__echo")
        assert host.status()["far"].state == "connected"


async def test_a_login_that_is_needed_is_distinguished_from_a_failure() -> None:
    switch = Switched(Stateless())
    switch.up = 401
    async with serving(switch) as served, host_of({"far": served.url}) as host:
        assert host.status()["far"].state == "needs_login"
        assert host.status()["far"].retry_in is None
        switch.up = True
        await host.reconnect("far")
        assert (await host.call_tool("far__echo")).text == "{}"
        switch.up = 401
        with pytest.raises(AuthError):
            await host.call_tool("far__echo")
        assert host.status()["far"].state == "needs_login"
        switch.up = True
        assert (await host.call_tool("far__echo")).text == "{}"
        assert host.status()["far"].state == "connected"


async def test_a_server_that_never_answers_holds_up_no_other(clock: Clock) -> None:
    async def silent(request: Request, reply: Reply) -> None:
        await reply.hold()

    async with serving(silent) as served:
        slow = ServerConfig(served.url, timeouts=Timeouts(connect=600, close=0.2))
        servers: dict[str, Any] = {"slow": slow, "quick": Toolbox("echo").server}
        async with quickly(clock), Host(servers, approval=allow_all) as host:
            assert host.status()["slow"].state == "connecting"
            tools = await host.list_tools()
            assert names(tools) == ["quick__echo"]
            assert "still being connected" in str(tools.findings[0])
            with anyio.move_on_after(0.1) as scope:
                await host.session("slow")
            assert scope.cancelled_caught
