"""The tools of a host for OpenAI's Agents SDK (``openai-agents``), here with a scripted model."""

import sys
from typing import Any

import anyio

from mcp_client import Host, StdioServer, allow_all
from mcp_client.adapters import openai_responses

try:
    from agents import (
        Agent,
        FunctionTool,
        Model,
        ModelResponse,
        Runner,
        Usage,
        set_tracing_disabled,
    )
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install openai-agents")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
LOOK = {"type": "function_call", "call_id": "1", "name": "weather__get_weather"}
TEXT = {"type": "output_text", "text": "Partly cloudy.", "annotations": []}
SCRIPT = [
    ResponseFunctionToolCall(**LOOK, arguments='{"location": "Oslo"}'),
    ResponseOutputMessage(
        id="2", type="message", role="assistant", status="completed", content=[TEXT]
    ),
]


def tools_of(kit: openai_responses.Toolset, host: Host) -> list[FunctionTool]:
    async def call(context: ToolContext[Any], arguments: str) -> Any:
        name, id = context.tool_name, context.tool_call_id
        item = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
        (response,) = await kit.run(host, [item], context=context.context)
        print(response["output"])
        return response["output"]

    return [
        FunctionTool(each["name"], each.get("description", ""), each["parameters"], call,
                     strict_json_schema=each["strict"]) for each in kit.tools
    ]  # fmt: skip


class Script(Model):
    async def get_response(self, *arguments: Any, **more: Any) -> ModelResponse:
        return ModelResponse([SCRIPT.pop(0)], Usage(), None)

    def stream_response(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    set_tracing_disabled(True)
    async with Host({"weather": WEATHER}, approval=allow_all) as host:
        kit = openai_responses.toolset(await host.list_tools())
        agent = Agent("clerk", tools=[*tools_of(kit, host)], model=Script())
        print((await Runner.run(agent, "How is Oslo?", context="ana")).final_output)


anyio.run(main)
