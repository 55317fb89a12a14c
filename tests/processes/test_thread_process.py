"""The thread that writes to a process's input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import anyio
import pytest

from mcp_client.processes.thread_process import _Writer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the size of pipes differs")


async def test_a_line_behind_one_that_broke_the_pipe_was_never_written() -> None:
    reader, writing = os.pipe()
    later = list[Callable[[], Any]]()  # the event loop has not run them yet
    writer = _Writer(os.fdopen(writing, "wb", 0), later.append, lambda: None)
    first = writer.put(b"x" * 300_000)
    thread = Thread(target=writer.run, daemon=True)
    thread.start()
    with anyio.fail_after(60):
        while not first.begun:
            await anyio.sleep(0.001)
    os.read(reader, 1)  # so some of it has been written
    second = writer.put(b"y")
    os.close(reader)
    thread.join(60)
    assert not thread.is_alive()
    assert (writer.withdraw(first), writer.withdraw(second)) == (False, True)
