"""Which way a process is run."""

from __future__ import annotations

import sys

import pytest

from mcp_client.processes.loop_process import LoopProcess
from mcp_client.processes.new_process import new_process
from mcp_client.processes.process import StderrTail
from mcp_client.processes.thread_process import ThreadProcess
from mcp_client.runtime.event_loop import current


@pytest.mark.parametrize("way", ["threads", ""])
async def test_threads_run_a_process_where_the_loop_cannot_or_shall_not(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_CLIENT_STDIO", way)
    process = new_process(current(), StderrTail(4_096, None), lambda data: None, lambda: None)
    by_threads = way == "threads" or sys.platform == "win32"
    assert type(process) is (ThreadProcess if by_threads else LoopProcess)
