"""A server in the same process: for tests of your own code, without a network."""

from __future__ import annotations

from typing import Any

import anyio

from mcp_client import MemoryServer, allow_all, connect


def server(message: dict[str, Any]) -> Any:
    """Return the ``result`` of a request; ``NotImplemented`` where there is no such method."""
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": str(message["params"]["arguments"])}]}
    return NotImplemented


async def main() -> None:
    async with connect(MemoryServer(server), approval=allow_all) as session:
        result = await session.call_tool("echo", {"n": 1})
        assert result.text == "{'n': 1}"
        print(result.text)


anyio.run(main)
