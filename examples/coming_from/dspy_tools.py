"""A DSPy program whose tools are those of ``dspy.Tool.from_mcp_tool``, behind an approval hook."""

import sys

import anyio

from mcp_client import Allow, Deny, StdioServer, ToolCall, connect
from mcp_client.adapters import official

try:
    import dspy
    from dspy.utils import DummyLM
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install dspy mcp")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])


def step(tool: str, **arguments: str) -> dict[str, object]:
    """The output of a script in place of a model."""
    return {"next_thought": "", "next_tool_name": tool, "next_tool_args": arguments}


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the siren stays silent")


async def main() -> None:
    async with connect(WEATHER, trusted=True, approval=approve) as session:
        ours = official.client_session(session)
        tools = [dspy.Tool.from_mcp_tool(ours, tool) for tool in (await ours.list_tools()).tools]
        script = [step("get_weather", location="Oslo"), step("set_alarm", location="Oslo")]
        script += [step("finish"), {"reasoning": "", "answer": "Cloudy, and no alarm."}]
        with dspy.context(lm=DummyLM(script)):
            found = await dspy.ReAct("question -> answer", tools=tools).acall(question="Oslo?")
        for key, value in found.trajectory.items():
            if key.startswith("observation"):
                print(f"tool: {str(value).strip().splitlines()[-1]}")
        print(f"ai: {found.answer}")


anyio.run(main)
