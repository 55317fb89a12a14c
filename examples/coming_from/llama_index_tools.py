"""The tools of LlamaIndex's ``McpToolSpec``, behind an approval hook."""

import sys

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.adapters import official

try:
    from llama_index.tools.mcp import McpToolSpec
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install llama-index-tools-mcp")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


async def main() -> None:
    async with connect(WEATHER, trusted=True, approval=approve) as session:
        spec = McpToolSpec(client=official.client_session(session))
        for tool in await spec.to_tool_list_async():
            found = (await tool.acall(location="Oslo")).raw_output
            print(f"{tool.metadata.name}: {found.content[0].text}")


anyio.run(main)
