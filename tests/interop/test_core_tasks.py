"""Tasks of 2025-11-25 on real servers: that of the project itself, and one on the official SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcp_client import CancelToken, Handlers, ServerError, StdioServer, allow_all, connect
from mcp_client.errors import CallCancelled
from mcp_client.handlers import ElicitRequest
from tests.interop import http_peers, peers

pytestmark = [pytest.mark.interop, pytest.mark.slow]
RESEARCH = "simulate-research-query"


class Person:
    def __init__(self, **response: str) -> None:
        self.response = response
        self.asked: list[ElicitRequest] = []

    async def __call__(self, request: ElicitRequest) -> Any:
        self.asked.append(request)
        return {"action": "accept", "content": self.response}


@asynccontextmanager
async def everything(transport: str) -> AsyncIterator[StdioServer | str]:
    if transport == "stdio":
        yield peers.everything()
    else:
        async with http_peers.everything("streamableHttp") as url:
            yield url


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_reference_server_researches_asks_back_and_is_cancelled(transport: str) -> None:
    person, steps = Person(interpretation="snake"), list[Any]()
    async with (
        everything(transport) as server,
        connect(
            server,
            name="everything",
            approval=allow_all,
            handlers=Handlers(elicitation=person),
            revision="2025-11-25",
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        assert (await session.get_tool(RESEARCH)).task_support == "required"
        results: dict[str, str] = {}

        async def research(topic: str, **arguments: Any) -> None:
            reported = {"topic": topic, **arguments}
            result = await session.call_tool(
                RESEARCH, reported, on_progress=lambda *step: steps.append(step)
            )
            results[topic] = result.text

        async def give_up() -> None:
            token = CancelToken()
            with pytest.raises(CallCancelled, match="enough"):
                await session.call_tool(
                    RESEARCH,
                    {"topic": "sand"},
                    on_progress=lambda *step: token.cancel("enough"),
                    cancel=token,
                )

        tasks.start_soon(research, "whales")
        tasks.start_soon(give_up)
        started = await session.start_tool(RESEARCH, {"topic": "moons"})
        await started.cancel()
        with pytest.raises(CallCancelled):
            await started.result()
        await research("python", ambiguous=True)
        with anyio.fail_after(30):
            while len(results) < 2:
                await anyio.sleep(0.05)
        assert "whales" in results["whales"]
        assert "python (snake)" in results["python"]
        (asked,) = person.asked
        assert asked.call is not None
        assert asked.call.arguments["topic"] == "python"
        assert any("Gathering" in str(step) for step in steps)
        tool = next(t for t in await session.list_tools() if t.task_support == "forbidden")
        assert tool.findings == ()
        assert session.stats.stray_answers == 0


async def test_the_official_sdk_makes_tasks_that_ask_fail_and_wait() -> None:
    person = Person(name="Ana")
    async with connect(
        peers.core_tasks(), approval=allow_all, handlers=Handlers(elicitation=person)
    ) as session:
        assert (await session.call_tool("greet")).text == "hello Ana"
        assert [request.message for request in person.asked] == ["Who are you?"]
        assert (await session.call_tool("wait")).text == "at once"
        task = await session.start_tool("wait", {"seconds": 0.1})
        assert task.status == "working"
        assert (await task.result()).text == "waited"
        with pytest.raises(ServerError, match="the task failed: no disk"):
            await session.call_tool("fail")
