"""A server's process: started without a shell, read until its end, and never left behind.

There are two ways to run one, with one interface (``process``):

- ``loop_process``: the event loop watches the pipes. Linux and macOS.
- ``thread_process``: threads read and write them. Windows, where an event loop cannot watch a pipe;
  and anywhere else if the environment variable ``MCP_CLIENT_STDIO`` is ``threads``: for an event
  loop without ``add_reader``, and for the tests, which run over both.

``process_tree`` is what a system calls a process and all it started: on POSIX a process group, on
Windows a job. The job was tried under Wine and never on Windows: see ``windows_job``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .event_loop import Backend
from .process import Pending, Process, Ring

__all__ = ["Pending", "Process", "Ring", "new_process"]


def new_process(
    backend: Backend,
    stderr: Ring,
    output: Callable[[bytes], None],
    over: Callable[[], None],
) -> Process:
    """A process that is not started yet, of the way that this system needs."""
    if sys.platform == "win32" or os.environ.get("MCP_CLIENT_STDIO") == "threads":
        from .thread_process import ThreadProcess

        return ThreadProcess(backend, stderr, output, over)
    from .loop_process import LoopProcess

    return LoopProcess(backend, stderr, output, over)
