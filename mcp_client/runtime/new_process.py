"""Which way a process is run: see ``process``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .event_loop import Backend
from .process import Process, StderrTail

__all__ = ["new_process"]


def new_process(
    backend: Backend,
    stderr: StderrTail,
    output: Callable[[bytes], None],
    over: Callable[[], None],
) -> Process:
    """A process that is not started yet, of the way that this system needs."""
    if sys.platform == "win32" or os.environ.get("MCP_CLIENT_STDIO") == "threads":
        from .thread_process import ThreadProcess

        return ThreadProcess(backend, stderr, output, over)
    from .loop_process import LoopProcess

    return LoopProcess(backend, stderr, output, over)
