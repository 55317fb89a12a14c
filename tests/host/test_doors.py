"""No public method of a host sends a call that the approval hook refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest

from mcp_client import CallDenied, ConfigError, Host, NotSent, deny_all
from tests.approval.test_gate import public_methods
from tests.support.toolbox import Toolbox


async def _closed(stream: Any) -> None:
    await stream.aclose()


async def _no_skills(host: Host) -> None:  # one that has some is in extensions/test_skills
    with pytest.raises(NotSent, match="modelcontextprotocol/skills"):
        await host.load_skill("skill://a/SKILL.md", server="one")


async def _no_file(host: Host) -> None:  # one that has a file is in test_reload
    with pytest.raises(ConfigError, match="no config file"):
        await host.reload()


async def _nothing() -> None: ...


DOORS: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "aclose": lambda host: host.aclose(),
    "add": lambda host: host.add("two", Toolbox("a").server),
    "call_tool": lambda host: host.call_tool("one__a", {"b": 1}),
    "from_config": lambda host: _nothing(),  # makes a host, and is tried in test_consent
    "get_prompt": lambda host: host.get_prompt("greet", server="one"),
    "get_tool": lambda host: host.get_tool("one__a"),
    "list_prompts": lambda host: host.list_prompts(),
    "list_resources": lambda host: host.list_resources(),
    "list_skills": lambda host: host.list_skills(),
    "load_skill": lambda host: _no_skills(host),
    "list_tools": lambda host: host.list_tools(refresh=True),
    "read_resource": lambda host: host.read_resource("note://one", server="one"),
    "reconnect": lambda host: host.reconnect("one"),
    "reload": lambda host: _no_file(host),
    "remove": lambda host: host.remove("one"),
    "search_tools": lambda host: host.search_tools("a"),
    "session": lambda host: host.session("one"),
    "start_tool": lambda host: host.start_tool("one__a", {"b": 1}),
    "status": lambda host: _nothing(),
    "status_changes": lambda host: _closed(host.status_changes()),
    "tool_changes": lambda host: _closed(host.tool_changes()),
}
"""Every public method, and a way to use it. A new one must be added here."""


def test_every_public_method_of_a_host_is_known_to_this_test() -> None:
    assert public_methods(Host) == set(DOORS)


@pytest.mark.parametrize("door", sorted(DOORS))
async def test_no_public_method_of_a_host_sends_a_call_that_the_hook_refuses(door: str) -> None:
    box = Toolbox("a")
    async with Host({"one": box.server}, approval=deny_all) as host:
        gated = door in ("call_tool", "start_tool")
        with pytest.raises(CallDenied) if gated else nullcontext():
            await DOORS[door](host)
        with pytest.raises(CallDenied) if host.sessions else nullcontext():
            for session in host.sessions.values():
                await session.call_tool("a")
    assert "tools/list" in box.asked
    assert box.calls == []
