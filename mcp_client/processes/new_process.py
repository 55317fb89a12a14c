"""Choose the way a process is run: see ``process``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..runtime.event_loop import Backend

if TYPE_CHECKING:  # they load subprocess: the bench's row "import"
    from .process import Process, ProcessTree, StderrTail

__all__ = ["new_process"]


def new_process(
    backend: Backend,
    stderr: StderrTail,
    output: Callable[[bytes], None],
    over: Callable[[], None],
    tree: ProcessTree | None = None,
    name: str = "",
) -> Process:
    """Return a process that is not started yet, of the way that this system needs.

    ``tree`` starts and ends it if it is given, instead of the system's own.
    """
    if sys.platform == "win32" or os.environ.get("MCP_CLIENT_STDIO") == "threads":
        from .thread_process import ThreadProcess

        return ThreadProcess(backend, stderr, output, over, tree=tree, name=name)
    from .loop_process import LoopProcess

    return LoopProcess(backend, stderr, output, over, tree=tree, name=name)
