"""``desk``: the approval page for the calls of other programs and commands, until Ctrl-C.

They wait in the state of ``--state``, else in the user's state folder. While a desk runs, the calls
of ``--approve web`` go there by themselves: the file ``desk.json`` in the user's state folder says
where, and is locked as long as that desk lives.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..errors import ConfigError
from ..runtime.atomic_file import access_problem, lock, unlock
from ..runtime.folder import CLOSED_IN_CHILDREN, NO_WAIT
from .exits import UsageError
from .output import note, print_answer

if TYPE_CHECKING:
    from ..state import FileState

__all__ = ["desk", "state_of_running_desk"]

_MAX_BYTES = 10_000


async def desk(options: argparse.Namespace) -> int:
    """Serve the page for the requests that wait in a state.

    Those of ``--approve web``, and of programs with ``ApprovalQueue(decisions=...)`` of that state.
    """
    from ..approval.queue import ApprovalQueue
    from ..desk.serve import serve_desk
    from .session import state_of

    state = state_of(options)
    async with serve_desk(ApprovalQueue(decisions=state.decisions)) as page:
        with _known_to_commands(state.path):
            print_answer(options, {"url": page.url}, page.url)
            sys.stdout.flush()
            note("the address lets in once; Ctrl-C ends the page")
            await anyio.sleep_forever()
    return 0


def state_of_running_desk() -> FileState | None:
    """Where the desk that runs looks for calls; None where there is none."""
    from ..state import FileState
    from .session import state_file

    try:
        file = os.open(state_file("desk.json"), os.O_RDONLY | NO_WAIT)
    except (OSError, UsageError):  # no desk has run, or the home is read-only
        return None
    with open(file, "rb") as stream:
        if access_problem(os.fstat(file), private=True) is not None:
            return None
        if lock(file, 0.0, shared=True):  # the desk that wrote it has ended
            unlock(file)
            return None
        try:
            return FileState(json.loads(stream.read(_MAX_BYTES))["state"])
        except (OSError, ValueError, KeyError, TypeError, ConfigError):
            return None


@contextmanager
def _known_to_commands(path: Path) -> Iterator[None]:
    """Let commands find the file of this desk, unless another desk runs."""
    from .session import state_file

    file = os.open(state_file("desk.json"), os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN, 0o600)
    with open(file, "r+b") as stream:
        if lock(file, 0.0):
            stream.truncate()
            stream.write(json.dumps({"state": str(path)}).encode())
            stream.flush()
        else:
            note("another desk runs: calls of --approve web go there; here with --state FOLDER")
        yield
