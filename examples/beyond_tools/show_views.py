"""Show the view of a tool in a host that renders HTML, and answer what the view asks.

A web host serves ``view.html`` with the header ``Content-Security-Policy: {view.csp}`` into a
sandboxed iframe of another origin, and passes the messages that the view posts to ``app.handle``.
"""

import sys
from pathlib import Path
from typing import Any

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.extensions import Apps, ClientInfo

CLOCK = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "clock.py")])


def approve(call: ToolCall) -> Allow | Deny:
    print(f"{call.tool.name} is called by the {call.origin}")
    return Allow()


def posted(id: int, method: str, **params: Any) -> dict[str, Any]:
    """A message as the view posts it."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def main() -> None:
    me = ClientInfo("my-app", "1.0", extensions=[Apps()])
    async with connect(CLOCK, name="clock", approval=approve, client_info=me) as session:
        tool = await session.get_tool("show_clock")
        view = await session.read_ui(tool)
        print(view.html)
        print([rule for rule in view.csp.split("; ") if rule.startswith("connect")], view.allow)
        print(*view.findings)
        print((await session.call_tool("show_clock")).text)

        app = session.app(tool)
        print((await app.handle(posted(1, "tools/call", name="tick")) or {})["result"]["content"])
        print((await app.handle(posted(2, "tools/list")) or {})["error"])
        app.close()  # when the view is gone


anyio.run(main)
