"""Decide calls by rules, ask a person about the others, and remember the person's approval."""

import sys
from pathlib import Path

import anyio

from mcp_client import Allow, CallDenied, Rule, Rules, StdioServer, ToolCall, connect
from mcp_client.approval import Remember

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


async def ana(call: ToolCall) -> Allow:
    print(f"Ana is asked: {call.tool.name} {call.arguments_json}")
    return Allow(remember=Remember("session", where={"/loud": {"equals": False}}), source="person")


RULES = Rules(
    [
        Rule(
            "deny",
            tool="set_alarm",
            arguments={"/location": {"glob": "*[Ss]chool*"}},
            reason="schools are called",
        ),
        Rule("allow", server="weather", read_only=True),
    ],
    ask=ana,
)


async def main() -> None:
    print(RULES)
    async with connect(WEATHER, name="weather", approval=RULES, trusted=True) as session:
        print((await session.call_tool("get_weather", {"location": "New York"})).text)
        for place in ("New York", "Boston", "Boston School"):
            try:
                alarm = {"location": place, "loud": False}
                print((await session.call_tool("set_alarm", alarm)).text)
            except CallDenied as error:
                print(f"{error.source}: {error.reason}")
        assert [one.subject for one in session.decisions.list()] == ["set_alarm"]


anyio.run(main)
