"""A FastAPI app with many users, who approve their own calls; a script stands for the model."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, Header, HTTPException, Request

from mcp_client import Allow, ApprovalQueue, Deny, Host, StdioServer, ToolCall
from mcp_client.adapters import openai_chat

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parent / "servers" / "weather.py")])
queue = ApprovalQueue()  # for several workers: decisions=state.decisions, of a FileState("state/")
host = Host({"weather": WEATHER}, approval=queue)  # and state=state, which has the audit, too


def user_of(authorization: Annotated[str, Header()]) -> str:
    return authorization.removeprefix("Bearer ")


async def ask_model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": messages[-1]["content"]}
    function = {"name": "weather__set_alarm", "arguments": '{"location": "Oslo"}'}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with host:
        yield


app = FastAPI(lifespan=lifespan)
User = Annotated[str, Depends(user_of)]


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
    chat.cancel()  # and its questions are withdrawn


@app.get("/pending")
def pending(user: User) -> list[Any]:
    calls = {one.id: one.request for one in queue.pending_for(user)}
    return [{"id": id, "arguments": c.arguments} for id, c in calls.items() if type(c) is ToolCall]


@app.post("/decide")
def decide(id: str, allow: bool, user: User) -> None:
    if id not in [one.id for one in queue.pending_for(user)]:
        raise HTTPException(404, "not pending, or not yours")
    queue.decide(id, Allow() if allow else Deny("the user said no"), by=user)
