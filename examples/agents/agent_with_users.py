"""A FastAPI app with many users, who approve their own calls. A script acts as the model.

    pip install fastapi
    uvicorn examples.agents.agent_with_users:app --workers 2 --timeout-graceful-shutdown 10
    curl -b user=ana -X POST "http://127.0.0.1:8000/chat?question=Wake+Oslo"

The call waits until ana has decided it: http://127.0.0.1:8000/login?user=ana leads to her page.
SIGTERM denies the calls that wait, so that each open chat ends and the server stops at once.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio

from mcp_client import Allow, ApprovalQueue, Deny, FileState, Host, StdioServer
from mcp_client.adapters import openai_chat
from mcp_client.desk import ApprovalPage

try:
    from fastapi import Cookie, Depends, FastAPI, HTTPException, Request
    from fastapi.responses import RedirectResponse
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install fastapi")

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])
state = FileState(os.environ.get("AGENT_STATE", "state"))  # shared by all workers
queue = ApprovalQueue(decisions=state.decisions)
host = Host({"weather": WEATHER}, approval=queue, state=state)


@contextmanager
def denied_at_sigterm(queue: ApprovalQueue) -> Iterator[None]:
    """Deny what waits before the server, which waits for open requests, ends this lifespan."""

    def stop(number: int, frame: Any) -> None:
        queue.close("the server is stopping")
        if callable(before):
            before(number, frame)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with denied_at_sigterm(queue):
        async with host:
            yield


app = FastAPI(lifespan=lifespan)
page = ApprovalPage(
    queue,
    authorize=lambda scope: Request(scope).cookies.get("user"),
    visible=lambda user, request: request.context == user,
)
app.mount("/approvals", page)


@app.get("/login")  # your app asks for more than a name
def log_in(user: str) -> RedirectResponse:
    response = RedirectResponse("/approvals/")
    response.set_cookie("user", user, httponly=True, samesite="strict")
    return response


def user_of(user: Annotated[str, Cookie()] = "") -> str:
    if not user:
        raise HTTPException(401, "log in at /login?user=...")
    return user


User = Annotated[str, Depends(user_of)]


async def ask_model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": messages[-1]["content"]}
    function = {"name": "weather__set_alarm", "arguments": '{"location": "Oslo"}'}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}


@app.post("/chat")
async def chat(question: str, user: User, request: Request) -> str:
    messages: list[Any] = [{"role": "user", "content": question}]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_when_gone, request, tasks.cancel_scope)
        kit = openai_chat.toolset(await host.list_tools())
        while messages[-1]["role"] != "assistant":
            messages.append(await ask_model(messages, kit.tools))
            messages += await kit.run(host, messages[-1], context=user)
        tasks.cancel_scope.cancel()
    return str(messages[-1].get("content"))


async def cancel_when_gone(request: Request, chat: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    chat.cancel()  # its calls are cancelled, and its questions are withdrawn


@app.get("/pending")
def pending(user: User) -> list[Any]:
    return [{**one.request.to_json(), "id": one.id} for one in queue.pending_for(user)]


@app.post("/decide")
def decide(id: str, allow: bool, user: User) -> None:
    if id not in [one.id for one in queue.pending_for(user)]:
        raise HTTPException(404, "not pending, or not yours")
    queue.decide(id, Allow() if allow else Deny("the user denied"), by=user)


@app.get("/audit")
def audit(user: User) -> list[Any]:
    records = [json.loads(line) for line in (state.path / "audit.jsonl").open()]
    mine = {record["call"] for record in records if record.get("context") == user}
    return [record for record in records if record.get("call") in mine]
