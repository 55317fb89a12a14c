"""A policy, the host's own or ``Rules``, decides before memory and again after an edit."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from mcp_client import Allow, CallDenied, Deny, MemoryServer, ToolCall, connect
from mcp_client.approval import one_at_a_time

pytestmark = pytest.mark.one_backend


class Server:
    """One tool, and the arguments of every call that arrived."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.ran.append(message["params"]["arguments"])
                return {"content": []}
        return NotImplemented


class NoSecrets:
    """A host's own policy: not a subclass of anything, and not callable."""

    def __init__(self, ask: Any, forbidden: str = "/secret") -> None:
        self.ask = ask
        self.forbidden = forbidden

    def decide(self, call: ToolCall) -> Any:
        if call.arguments.get("path") == self.forbidden:
            return Deny("not this path", source="rule")
        return None


async def test_arguments_edited_by_the_approver_are_decided_by_the_policy_again() -> None:
    server = Server()
    policy = NoSecrets(lambda call: Allow({"path": "/secret"}))
    async with connect(MemoryServer(server), approval=policy) as session:
        with pytest.raises(CallDenied, match="not this path") as caught:
            await session.call_tool("write", {"path": "/public"})
        policy.ask = None
    assert caught.value.source == "rule"
    assert server.ran == []


async def test_a_denial_by_the_policy_takes_precedence_over_a_remembered_approval() -> None:
    server = Server()
    policy = NoSecrets(lambda call: Allow(remember="session"), forbidden="/none")
    async with connect(MemoryServer(server), approval=policy) as session:
        await session.call_tool("write", {"path": "/secret"})
        policy.forbidden = "/secret"
        with pytest.raises(CallDenied, match="not this path"):
            await session.call_tool("write", {"path": "/secret"})
        await session.call_tool("write", {"path": "/public"})
    assert server.ran == [{"path": "/secret"}, {"path": "/public"}]


@pytest.mark.parametrize("decision", [True, "allow", Allow, {}])
async def test_a_policy_that_answers_anything_but_allow_deny_or_none_is_a_denial(
    decision: Any,
) -> None:
    class Wrong(NoSecrets):
        def decide(self, call: ToolCall) -> Any:
            return decision if call.arguments == {"path": "/secret"} else None

    for path in ("/secret", "/public"):
        server = Server()
        policy = Wrong(lambda call: Allow({"path": "/secret"}))
        async with connect(MemoryServer(server), approval=policy) as session:
            with pytest.raises(CallDenied, match="neither Allow nor Deny"):
                await session.call_tool("write", {"path": path})
        assert server.ran == []


async def test_a_policy_that_raises_is_a_denial() -> None:
    class Broken(NoSecrets):
        def decide(self, call: ToolCall) -> Any:
            raise KeyError("path")

    server = Server()
    async with connect(MemoryServer(server), approval=Broken(None)) as session:
        with pytest.raises(CallDenied, match="the policy made no decision"):
            await session.call_tool("write")
    assert server.ran == []


async def async_hook(call: ToolCall) -> Allow:
    raise NotImplementedError


@pytest.mark.parametrize(
    "spec", [None, lambda call: Allow(), async_hook], ids=["free", "function", "async function"]
)
@pytest.mark.parametrize("kind", [Mock, MagicMock, AsyncMock])
@pytest.mark.parametrize("wrapped", [lambda hook: hook, one_at_a_time], ids=["plain", "in turn"])
async def test_a_mock_is_a_hook_and_is_called(kind: Any, wrapped: Any, spec: Any) -> None:
    """Although a mock has every attribute, those of a policy and of an audit log among them."""
    server, hook, audit = Server(), kind(spec=spec, return_value=Allow()), kind()
    async with connect(MemoryServer(server), approval=wrapped(hook), audit=audit) as session:
        await session.call_tool("write", {"path": "/public"})
    assert server.ran == [{"path": "/public"}]
    assert hook.call_args.args[0].arguments == {"path": "/public"}
    assert [call.args[0]["event"] for call in audit.call_args_list] == ["opened", "closed"]


async def test_a_policy_that_can_be_called_is_a_policy() -> None:
    class Callable(NoSecrets):
        def __call__(self, call: ToolCall) -> Any:
            raise AssertionError("it was called")

    server = Server()
    async with connect(MemoryServer(server), approval=Callable(lambda call: Allow())) as session:
        await session.call_tool("write", {"path": "/public"})
    assert server.ran == [{"path": "/public"}]
