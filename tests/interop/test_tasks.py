"""Tasks of 2026-07-28 on a real server: FastMCP with ``fastmcp-tasks``.

It wants five seconds between two polls, which are made to pass quickly.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError, Handlers, Session, Timeouts, allow_all, connect
from mcp_client.audit import verify_audit
from mcp_client.errors import CallCancelled, MissingCapability
from mcp_client.extensions import ClientInfo
from mcp_client.handlers import Accept
from tests.interop import http_peers, peers
from tests.support.tasking import TASKS
from tests.support.timing import Clock, quickly

pytestmark = pytest.mark.interop
PATIENT = Timeouts(connect=300, idle=600, total=3_000)
"""For a clock that goes ten times as fast."""
YES = Handlers(elicitation=lambda request: Accept({"value": "Ada"}))


@asynccontextmanager
async def connected(peer: str, **options: Any) -> AsyncIterator[Session]:
    options = {"approval": allow_all, "timeouts": PATIENT, "name": "tasks", **options}
    if peer == "stdio":
        async with connect(peers.tasks(), **options) as session:
            yield session
    else:
        async with http_peers.tasks() as url, connect(url, **options) as session:
            yield session


async def test_calls_wait_through_tasks(clock: Clock) -> None:
    async with connected("stdio") as session, quickly(clock):
        assert TASKS in session.extensions
        assert (await session.call_tool("slow")).structured_content == {"result": "done"}
        assert (await session.call_tool("must")).text == "as a task"
        failed = await session.call_tool("fails")
        assert failed.is_error and "no luck" in failed.text


@pytest.mark.parametrize("peer", ["stdio", "http"])
async def test_a_task_may_ask(peer: str, clock: Clock) -> None:
    async with connected(peer, handlers=YES) as session, quickly(clock):
        assert "Ada" in (await session.call_tool("ask")).text


@pytest.mark.parametrize("peer", ["stdio", "http"])
async def test_a_task_is_returned_cancelled_and_forgotten(peer: str, clock: Clock) -> None:
    async with connected(peer) as session, quickly(clock):
        task = await session.start_tool("slow", {"seconds": 1_000})
        assert task.status == "working" and task.id
        await task.cancel()
        assert task.status == "cancelled"
        with pytest.raises(CallCancelled):
            await task.result()
        forged = {**task.to_json(), "id": "no-such-task"}
        with pytest.raises(ConfigError, match="not a saved task"):
            session.resume_task(forged)


async def test_a_tool_that_requires_tasks_reports_it_to_a_client_that_declares_none() -> None:
    async with connected("stdio", client_info=ClientInfo("tests", "1", extensions=None)) as session:
        with pytest.raises(MissingCapability, match=r"extensions=\[Extension\(") as caught:
            await session.call_tool("must")
        assert caught.value.required == {"extensions": {TASKS: {}}}
        assert (await session.call_tool("slow")).text == "done"


RESUME = """
import sys
import anyio
from mcp_client import ConfigError, connect, deny_all

async def main() -> None:
    url, saved, log = sys.argv[1:]
    async with connect(url, name="tasks", approval=deny_all, audit=log) as session:
        try:
            session.resume_task(open(saved).read())
        except ConfigError as error:
            print("one state in both" in str(error))

anyio.run(main)
"""


async def test_a_task_is_not_resumed_in_another_process_without_a_state_of_both(
    tmp_path: Path,
) -> None:
    log, saved = tmp_path / "audit.jsonl", tmp_path / "task.json"
    async with http_peers.tasks() as url:
        async with connect(url, name="tasks", approval=allow_all, audit=log) as session:
            task = await session.start_tool("slow", {"seconds": 0.5})
            saved.write_text(json.dumps(task.to_json()))
        assert len(verify_audit(log).open_calls) == 1
        words = [sys.executable, "-c", RESUME, url, str(saved), str(log)]
        root = str(Path(__file__).parents[2])
        with anyio.fail_after(250):
            done = await anyio.run_process(words, env={**os.environ, "PYTHONPATH": root})
    assert done.stdout.decode().split() == ["True"]
    assert len(verify_audit(log).open_calls) == 1
