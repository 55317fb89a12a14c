"""A Strands agent with the tools of a session, behind an approval hook."""

import json
import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.adapters import official

try:
    from strands import Agent
    from strands.models import Model
    from strands.tools.mcp import MCPAgentTool
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install strands-agents")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
SCRIPT: list[Any] = [("get_weather", {"location": "Oslo"})]
SCRIPT += [("set_alarm", {"location": "Oslo", "loud": True}), "Cloudy, and no alarm."]


class Script(Model):
    """A script in place of a model."""

    async def stream(self, *args: Any, **options: Any) -> Any:
        turn = SCRIPT.pop(0)
        start, delta = {}, {"text": turn}
        if isinstance(turn, tuple):
            start = {"toolUse": {"name": turn[0], "toolUseId": turn[0]}}
            delta = {"toolUse": {"input": json.dumps(turn[1])}}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if start else "end_turn"}}

    get_config = update_config = structured_output = None  # not used here


class Client:
    """The one method of Strands' ``MCPClient`` that its tools call."""

    def __init__(self, ours: Any) -> None:
        self.ours = ours

    async def call_tool_async(self, tool_use_id: str, name: str, arguments: Any, **_: Any) -> Any:
        result = await self.ours.call_tool(name, arguments)
        content = [{"text": block.text} for block in result.content if block.type == "text"]
        status = "error" if result.isError else "success"
        return {"toolUseId": tool_use_id, "status": status, "content": content}


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


async def main() -> None:
    async with connect(WEATHER, trusted=True, approval=approve) as session:
        ours = official.client_session(session)
        tools = [MCPAgentTool(tool, Client(ours)) for tool in (await ours.list_tools()).tools]
        agent = Agent(model=Script(), tools=tools, callback_handler=None)
        print(f"ai: {await agent.invoke_async('Watch Oslo.')}")
        for block in (block for message in agent.messages for block in message["content"]):
            if "toolResult" in block:
                print(f"tool: {block['toolResult']['content'][0]['text']}")


anyio.run(main)
