"""A FastAPI app with many users: each talks to the model, and approves the calls made for them.

``uvicorn agent_with_users:app`` in this folder. ``user_of`` and ``ask_model`` are where your login
and your model go; here anybody is who they say, and a script stands in for the model.
"""

import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException

from mcp_client import Allow, ApprovalQueue, Deny, Host, StdioServer, ToolCall
from mcp_client.adapters import openai_chat

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parent / "servers" / "weather.py")])
queues: defaultdict[str, ApprovalQueue] = defaultdict(ApprovalQueue)  # one for each user


async def approve(call: ToolCall) -> Allow | Deny:
    return await queues[str(call.context)](call)


async def ask_model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": messages[-1]["content"]}
    function = {"name": "weather__set_alarm", "arguments": '{"location": "Oslo"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def user_of(authorization: Annotated[str, Header()]) -> str:
    return authorization.removeprefix("Bearer ")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with host:
        yield


host, app = Host({"weather": WEATHER}, approval=approve), FastAPI(lifespan=lifespan)
User = Annotated[str, Depends(user_of)]


@app.post("/chat")
async def chat(question: str, user: User) -> str:
    kit = openai_chat.toolset(await host.list_tools())
    messages: list[Any] = [{"role": "user", "content": question}]
    while messages[-1]["role"] != "assistant":
        messages.append(await ask_model(messages, kit.tools))
        messages += await kit.run(host, messages[-1], context=user)
    return str(messages[-1]["content"])


@app.get("/pending")
async def pending(user: User) -> list[Any]:
    calls = [(one.id, one.request) for one in queues[user].pending]
    return [{"id": id, "arguments": c.arguments} for id, c in calls if isinstance(c, ToolCall)]


@app.post("/decide")
async def decide(id: str, allow: bool, user: User) -> None:
    try:
        queues[user].decide(id, Allow() if allow else Deny("the user said no"), by=user)
    except LookupError:
        raise HTTPException(404, "not pending, or not yours") from None
