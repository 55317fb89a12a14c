"""A LangChain agent whose tools are those of ``load_mcp_tools``, behind an approval hook."""

import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.adapters import official

try:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_mcp_adapters.tools import load_mcp_tools
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install langchain langchain-mcp-adapters")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])


class Script(GenericFakeChatModel):
    """A script in place of a model."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def calls(name: str) -> AIMessage:
    call = {"type": "tool_call", "id": name, "name": name, "args": {"location": "Oslo"}}
    return AIMessage("", tool_calls=[call])


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


async def main() -> None:
    async with connect(WEATHER, trusted=True, approval=approve) as session:
        tools = await load_mcp_tools(official.client_session(session))
        script = [calls("get_weather"), calls("set_alarm"), AIMessage("Cloudy, and no alarm.")]
        agent = create_agent(Script(messages=iter(script)), tools)
        question = {"messages": [{"role": "user", "content": "Watch Oslo."}]}
        for message in (await agent.ainvoke(question))["messages"][1:]:
            print(f"{message.type}: {message.text or message.tool_calls[0]['name']}")


anyio.run(main)
