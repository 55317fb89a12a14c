"""Show a model little of 500 tools and of a result of 5 MB (OpenAI's Chat Completions).

Without OPENAI_API_KEY, a script acts as the model.
"""

import json
import os
import re
from typing import Any

import anyio

from mcp_client import Host, Rule, Rules
from mcp_client.adapters import openai_chat
from mcp_client.testing import FakeServer

MODEL = os.environ.get("OPENAI_MODEL", "gpt-6-sol")
NAMES = [*(f"count_{number}" for number in range(499)), "read_log"]
LOG = "all is well\n" * 300_000 + "reactor 4: pressure is high\n" + "all is well\n" * 120_000
QUESTION = {"role": "user", "content": "Did anything happen on Monday?"}


def read_log(day: str) -> Any:
    """Read the log of a day."""
    return LOG


async def ask_model(**request: Any) -> dict[str, Any]:
    if os.environ.get("OPENAI_API_KEY"):
        from openai import AsyncOpenAI

        response = await AsyncOpenAI().chat.completions.create(model=MODEL, **request)
        return dict(response.choices[0].message.model_dump(exclude_none=True))
    step, last = len(request["messages"]), request["messages"][-1]["content"]
    if step == 1:
        return called("search_tools", query="read the log")
    if step == 3:
        return called("call_tool", name="plant__read_log", arguments={"day": "Monday"})
    if step == 5 and (found := re.search(r'handle="(\w+)"', last)):
        return called("read_result", handle=found[1], find="high")
    return {"role": "assistant", "content": "The pressure in reactor 4 was high."}


def called(tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call]}


async def main() -> None:
    rules = Rules([Rule("allow", tool="read_log")])
    server = FakeServer(dict.fromkeys(NAMES, read_log))
    async with Host({"plant": server}, approval=rules) as host:
        tools = await host.list_tools()
        kit = openai_chat.toolset(tools, search="auto", large_results="keep")
        messages: list[Any] = [QUESTION]
        while messages[-1]["role"] != "assistant":
            messages.append(await ask_model(messages=messages, tools=kit.tools))
            messages += await kit.run(host, messages[-1], max_chars=2_000)
        everything = [openai_chat.toolset(tools).tools, QUESTION, LOG]
        print(f"before: {len(json.dumps(everything)):,} characters")
        print(f"now:    {len(json.dumps([kit.tools, messages])):,} characters")
        print(messages[-1]["content"])


anyio.run(main)
