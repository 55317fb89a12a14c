"""A smolagents agent with the tools that ``mcpadapt`` makes, behind an approval hook."""

import sys
from functools import partial
from typing import Any

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, sync
from mcp_client.adapters import official

try:
    from mcpadapt.smolagents_adapter import SmolAgentsAdapter
    from smolagents import ChatMessage, LogLevel, Model, ToolCallingAgent
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install 'mcpadapt[smolagents]'")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
OSLO = {"location": "Oslo"}
SCRIPT: list[Any] = [("get_weather", OSLO), ("set_alarm", {**OSLO, "loud": True})]
SCRIPT += [("final_answer", {"answer": "Cloudy, and no alarm."})]


class Script(Model):
    """A script in place of a model."""

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        name, arguments = SCRIPT.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=name, type="function", function=function)
        return ChatMessage(role="assistant", content="", tool_calls=[call])


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


with sync.connect(WEATHER, trusted=True, approval=approve) as session:
    ours = official.client_session(session)  # its methods work in any thread and event loop

    def call(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return anyio.run(ours.call_tool, name, arguments)

    listed = anyio.run(ours.list_tools).tools
    tools = [SmolAgentsAdapter().adapt(partial(call, tool.name), tool) for tool in listed]
    agent = ToolCallingAgent(tools, Script(), verbosity_level=LogLevel.OFF)
    print(f"ai: {agent.run('Watch Oslo.')}")
    for step in agent.memory.steps[1:]:
        print(f"tool: {step.observations or step.error}")
