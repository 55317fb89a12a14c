"""A server of the handshake era in memory whose tools a test changes, and which it may end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio

from mcp_client import Host
from mcp_client.testing import JsonRpcError
from mcp_client.transports.memory import MemoryTransport

__all__ = ["Toolbox", "names", "until"]


class Toolbox:
    """``server`` goes into a ``Host``. Each tool answers with its name and its arguments."""

    def __init__(self, *tools: str, announces: bool = True) -> None:
        """``announces``: whether it declares that it reports changes."""
        self.tools: list[dict[str, Any]] = []
        self.announces = announces
        self.refuse_to_open: BaseException | None = None
        self.hang_on_open = False
        self.refuse_to_list: BaseException | None = None
        self.slow: anyio.Event | None = None
        """While it is set, lists are answered after it."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[str] = []
        """The methods of all requests."""
        self.structured: dict[str, Any] | None = None
        """The structured content of each result."""
        self.wires: list[_Wire] = []
        self.send: Callable[[Any], None] | None = None
        self.offer(*tools)

    @property
    def server(self) -> MemoryTransport:
        return _Wire(self)

    @property
    def starts(self) -> int:
        return self.asked.count("initialize")

    def offer(self, *tools: str | dict[str, Any]) -> None:
        """Offer these tools from now on, and announce the change."""
        self.tools = [
            tool if isinstance(tool, dict) else {"name": tool, "inputSchema": {"type": "object"}}
            for tool in tools
        ]
        self.notify()

    def notify(self) -> None:
        if self.send is not None and self.announces:
            self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def end(self) -> None:
        """Go away, as a process does that dies."""
        for wire in self.wires:
            wire.end()

    async def answer(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        method = message.get("method", "")
        self.asked.append(method)
        self.send = send
        match method:
            case "initialize":
                if self.hang_on_open:
                    await anyio.sleep_forever()
                if self.refuse_to_open is not None:
                    raise self.refuse_to_open
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {
                        "tools": {"listChanged": self.announces},
                        "resources": {},
                        "prompts": {},
                    },
                    "serverInfo": {"name": "toolbox", "version": "1"},
                }
            case "tools/list":
                if self.slow is not None:
                    await self.slow.wait()
                if self.refuse_to_list is not None:
                    raise self.refuse_to_list
                return {"tools": self.tools}
            case "resources/list":
                return {"resources": [{"uri": "note://one", "name": "one"}]}
            case "resources/read":
                return {"contents": [{"uri": message["params"]["uri"], "text": "a note"}]}
            case "prompts/list":
                return {"prompts": [{"name": "greet"}]}
            case "prompts/get":
                content = {"type": "text", "text": "hello"}
                return {"messages": [{"role": "user", "content": content}]}
            case "ping":
                return {}
            case "tools/call":
                return await self.call(**message["params"])
        return NotImplemented

    async def call(self, name: str, arguments: dict[str, Any], **rest: Any) -> Any:
        self.calls.append((name, arguments))
        if name == "die":
            self.end()
        if name == "hang":
            await anyio.sleep_forever()
        if name not in {tool["name"] for tool in self.tools}:
            raise JsonRpcError(-32602, f"unknown tool: {name}")
        result: dict[str, Any] = {"content": [{"type": "text", "text": name}]}
        return (
            result if self.structured is None else {**result, "structuredContent": self.structured}
        )


class _Wire(MemoryTransport):
    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__(toolbox.answer)
        self._toolbox = toolbox
        toolbox.wires.append(self)

    def clone(self) -> MemoryTransport:
        return _Wire(self._toolbox)


def names(tools: Iterable[Any]) -> list[str]:
    return [tool.qualified_name for tool in tools]


async def until(host: Host, name: str, state: str) -> None:
    """Wait until a server is in that state."""
    async with host.status_changes() as changes:
        if host.status()[name].state == state:
            return
        async for status in changes:
            if (status.name, status.state) == (name, state):
                return
