"""The tools of a host for the tool runner of Anthropic's package, which makes the loop itself."""

import sys
from typing import Any

import anyio

from mcp_client import Host, StdioServer, allow_all
from mcp_client.adapters import anthropic

try:
    import httpx2
    from anthropic import AsyncAnthropic, beta_async_tool
    from anthropic.lib.tools import ToolError
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install anthropic httpx2")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
CALL = {
    "type": "tool_use",
    "id": "1",
    "name": "weather__get_weather",
    "input": {"location": "Oslo"},
}
SCRIPT = [([CALL], "tool_use"), ([{"type": "text", "text": "Partly cloudy."}], "end_turn")]


def tools_of(kit: anthropic.Toolset, host: Host) -> list[Any]:
    def tool(name: str, input_schema: dict[str, Any], description: str = "") -> Any:
        async def call(**arguments: Any) -> Any:
            use = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
            (message,) = await kit.run(host, [use])
            (result,) = message["content"]
            if result.get("is_error"):
                raise ToolError(result["content"])
            return result["content"]

        return beta_async_tool(call, name=name, description=description, input_schema=input_schema)

    return [tool(**each) for each in kit.tools]


def script(request: httpx2.Request) -> httpx2.Response:
    content, reason = SCRIPT.pop(0)
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
               "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    return httpx2.Response(200, json=message)


async def main() -> None:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(script))  # in place of the service
    client = AsyncAnthropic(api_key="none", http_client=http)
    question: Any = {"role": "user", "content": "How is Oslo?"}
    async with Host({"weather": WEATHER}, approval=allow_all) as host, client:
        tools = tools_of(anthropic.toolset(await host.list_tools()), host)
        run = client.beta.messages.tool_runner
        async for message in run(model="m", max_tokens=99, tools=tools, messages=[question]):
            print(message.content)


anyio.run(main)
