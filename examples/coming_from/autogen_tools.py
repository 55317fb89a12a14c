"""An AutoGen agent whose tools are those of ``mcp_server_tools``, behind an approval hook."""

import json
import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, ToolCall, connect
from mcp_client.adapters import official

try:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient
    from autogen_ext.tools.mcp import StdioServerParams, mcp_server_tools
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install autogen-agentchat 'autogen-ext[mcp]'")

COMMAND = [sys.executable, "examples/servers/weather.py"]


def calls(name: str) -> CreateResult:
    """The output of a script in place of a model."""
    call = FunctionCall(id=name, name=name, arguments=json.dumps({"location": "Oslo"}))
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


async def main() -> None:
    passed = StdioServerParams(command=COMMAND[0], args=COMMAND[1:])  # not used: there is a session
    async with connect(COMMAND, trusted=True, approval=approve) as ours:
        tools = await mcp_server_tools(passed, session=official.client_session(ours))
        info: Any = {"vision": False, "function_calling": True, "json_output": False}
        info |= {"family": "unknown", "structured_output": False}
        script = [calls("get_weather"), calls("set_alarm"), "Cloudy, and no alarm."]
        model = ReplayChatCompletionClient(script, model_info=info)
        agent = AssistantAgent("watch", model, tools=tools, max_tool_iterations=3)
        messages = (await agent.run(task="Watch Oslo.")).messages
        for message in messages:
            if message.type == "ToolCallExecutionEvent":
                print(f"tool: {message.to_text()}")
        print(f"ai: {messages[-1].to_text()}")


anyio.run(main)
