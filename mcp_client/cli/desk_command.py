"""``desk``: the approval page for the calls of other programs and commands, until Ctrl-C.

They wait in the state of ``--state``, else in the user's state directory. While a desk runs, the
calls of ``--approve web`` go there by themselves. The file ``desk.json`` in the user's state
directory has its place, and is locked as long as that desk lives.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from ..runtime.atomic_file import lock
from ..runtime.directory import CLOSED_IN_CHILDREN
from .output import note, print_document
from .session import state_file, state_of

__all__ = ["desk"]


async def desk(options: argparse.Namespace) -> int:
    """Serve the page for the requests that wait in a state.

    Those of ``--approve web``, and of programs with ``ApprovalQueue(decisions=...)`` of that state.
    """
    from ..approval.queue import ApprovalQueue
    from ..desk.http import check_extra
    from ..desk.serve import serve_desk

    check_extra("mcp-client desk", "starlette", "uvicorn")
    state = state_of(options)
    async with serve_desk(ApprovalQueue(decisions=state.decisions)) as page:
        with _known_to_commands(getattr(state, "path", options.state)):
            print_document(options, {"url": page.url}, page.url)
            sys.stdout.flush()
            note("the address lets in once; Ctrl-C ends the page")
            await anyio.sleep_forever()
    return 0


@contextmanager
def _known_to_commands(state: Path | str) -> Iterator[None]:
    """Let commands find the file of this desk, unless another desk runs."""
    file = os.open(state_file("desk.json"), os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN, 0o600)
    with open(file, "r+b") as stream:
        if lock(file, 0.0):
            stream.truncate()
            stream.write(json.dumps({"state": str(state)}).encode())
            stream.flush()
        else:
            note("another desk runs: calls of --approve web go there; use --state DIR")
        yield
