"""Label issues by many calls of a model, and by one script, each call of which is approved, too.
The characters are those that the model reads and writes."""

import json
import time
from typing import Any

import anyio

from mcp_client import Allow, Deny, Session, ToolCall, connect
from mcp_client.adapters import openai_chat
from mcp_client.testing import FakeServer

TEXT = "What happened. " * 40
ISSUES = [{"id": n, "owner": "ana" if n % 4 else None, "text": TEXT} for n in range(40)]
CODE = """
import asyncio
ids = (await tracker.list_issues())["ids"]
issues = await asyncio.gather(*[tracker.get_issue(id=id) for id in ids])
unowned = [issue["id"] for issue in issues if issue["owner"] is None]
await asyncio.gather(*[tracker.label_issue(id=id) for id in unowned])
print("labelled:", unowned)
"""
LOOK = [("get_issue", {"id": n}) for n in range(40)]
LABEL = [("label_issue", {"id": n}) for n in range(0, 40, 4)]
SEARCH, SCRIPT = [("search_tools", {"query": "issues"})], [("run_code", {"code": CODE})]
labelled: list[int] = []


def list_issues() -> dict[str, list[int]]:
    return {"ids": list(range(40))}


def get_issue(id: int) -> dict[str, Any]:
    return ISSUES[id]


def label_issue(id: int) -> None:
    labelled.append(id)


def approve(call: ToolCall) -> Allow | Deny:
    is_owned = call.tool.name == "label_issue" and ISSUES[call.arguments["id"]]["owner"]
    return Deny("it has an owner") if is_owned else Allow()


async def work(session: Session, rounds: list[list[tuple[str, Any]]], code: bool = False) -> None:
    kit = openai_chat.toolset(await session.list_tools(), code=code)
    messages: list[Any] = [{"role": "user", "content": "Label the issues without an owner."}]
    chars, began = 0, time.perf_counter()
    for calls in rounds:
        chars += len(json.dumps([messages, kit.tools]))  # each round, a model reads all of it
        asked = [{"name": name, "arguments": json.dumps(passed)} for name, passed in calls]
        made = [{"id": str(n), "type": "function", "function": f} for n, f in enumerate(asked)]
        messages.append({"role": "assistant", "tool_calls": made})
        messages += await kit.run(session, messages[-1])
        chars += len(json.dumps(made))
    count, seconds = sum(map(len, rounds)), time.perf_counter() - began
    print(f"{len(rounds)} rounds, {count} calls, {chars:,} characters, {seconds:.2f} s")


async def main() -> None:
    tools = {each.__name__: each for each in (list_issues, get_issue, label_issue)}
    async with connect(FakeServer(tools), name="tracker", approval=approve) as session:
        await work(session, [[("list_issues", {})], LOOK, LABEL])
        await work(session, [SEARCH, SCRIPT], code=True)
    assert sorted(labelled) == sorted([*range(0, 40, 4)] * 2)


anyio.run(main)
