"""An agent on Restate: its call waits a day for a person, its workers are killed, it buys tea once.

npx @restatedev/restate-server &
pip install . restate-sdk hypercorn && python examples/hosting/durable_agent_restate.py
"""

import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx

from mcp_client import Allow, ApprovalQueue, CallPending, FileState, Host, McpError, Retry

try:
    import restate
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install restate-sdk hypercorn")

DIRECTORY = Path(os.environ.setdefault("AGENT_DIRECTORY", tempfile.mkdtemp()))  # workers, too
SOLD, SECONDS = DIRECTORY / "sold.txt", os.environ.get("PAYMENT_SECONDS", "60")
SHOP = [sys.executable, str(Path(__file__).parents[1] / "servers" / "shop.py"), str(SOLD), SECONDS]
RESTATE = os.environ.get("RESTATE", "http://127.0.0.1:8080")
RESTATE_ADMIN = os.environ.get("RESTATE_ADMIN", "http://127.0.0.1:9070")
ADDRESS = os.environ.get("ADDRESS", "127.0.0.1:9080")  # of the worker
AGENT = f"agent/{DIRECTORY.name}"
state = FileState(DIRECTORY / "state")
queue = ApprovalQueue(decisions=state.decisions, wait=0)
host = Host({"shop": SHOP}, approval=queue, state=state)
agent = restate.Workflow("agent")
web = httpx.Client(timeout=60, transport=httpx.HTTPTransport(retries=7))


async def call_tool(agent_id: str, name: str, arguments: Any, id: str) -> dict[str, Any]:
    try:
        key = f"{agent_id}/{id}"
        result = await host.call_tool(name, arguments, context=agent_id, idempotency_key=key)
        return {"content": result.text}
    except CallPending as error:
        return {"ticket": error.ticket}
    except McpError as error:
        if Retry().permits(error):
            raise  # Restate calls this function again
        return {"content": f"{type(error).__name__}: {error.message}"}


async def ask_model(messages: list[Any]) -> dict[str, Any]:  # a script acts as the model
    if len(messages) == 1:
        return {"call": ("shop__buy", {"item": "tea"}, "call_1")}
    return {"content": messages[-1]["content"]}


async def outcome(ctx: restate.WorkflowContext, call: Any) -> str:
    for _ in range(24):
        step = partial(call_tool, ctx.key(), *call)
        done = await ctx.run_typed("call_tool", step, restate.RunOptions(type_hint=dict))
        if "content" in done:
            return str(done["content"])
        print("it waits", flush=True)
        decided, hour = ctx.promise(done["ticket"]).value(), ctx.sleep(timedelta(hours=1))
        await restate.select(decided=decided, hour=hour)  # it looks then, should a message be lost
    return "not approved within a day"


@agent.main()
async def run(ctx: restate.WorkflowContext, task: str) -> str:
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        step = partial(ask_model, messages)
        message = await ctx.run_typed("ask_model", step, restate.RunOptions(type_hint=dict))
        if "content" in message:
            return str(message["content"])
        messages += [message, {"role": "tool", "content": await outcome(ctx, message["call"])}]


@agent.handler()
async def decided(ctx: restate.WorkflowSharedContext, ticket: str) -> None:
    await ctx.promise(ticket).resolve(True)


async def work() -> None:
    config = Config.from_mapping(bind=[ADDRESS], errorlog=None)
    async with host:
        await serve(restate.app([agent]), config)


def worker() -> subprocess.Popen[str]:
    words = [sys.executable, __file__, "work"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603


def start() -> None:
    web.get(f"http://{ADDRESS}")  # once the worker listens
    deployment = {"uri": f"http://{ADDRESS}", "force": True}
    web.post(f"{RESTATE_ADMIN}/deployments", json=deployment).raise_for_status()
    web.post(f"{RESTATE}/{AGENT}/run/send", json="Buy tea.").raise_for_status()


def desk() -> None:
    (pending,) = queue.pending
    queue.decide(pending.id, Allow(), by="ana")
    url = f"{RESTATE}/agent/{pending.request.context}/decided/send"
    web.post(url, json=pending.id).raise_for_status()


def main() -> None:
    SOLD.touch()
    first = worker()
    start()
    assert first.stdout is not None
    assert first.stdout.readline() == "it waits\n"
    first.kill()
    desk()  # hours later
    second = worker()
    while not SOLD.read_text() and second.poll() is None:
        time.sleep(0.01)
    second.kill()  # while the payment is under way
    third = worker()
    print(web.get(f"{RESTATE}/restate/workflow/{AGENT}/attach").json())
    third.kill()
    assert SOLD.read_text() == "tea\n"
    for call in state.calls.unsettled():
        state.calls.settle(call.key)  # by a person, who has looked
        print("settled:", call.key)


if __name__ == "__main__":
    anyio.run(work) if "work" in sys.argv else main()
