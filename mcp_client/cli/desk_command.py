"""``desk``: the approval page for the calls of other programs and commands, until Ctrl-C.

They wait in a file of tickets: that of ``--tickets``, else ``tickets.json`` in the user's state
folder. While a desk runs, the calls of ``--approve web`` go there by themselves: the file
``desk.json`` beside it says where, and is locked as long as that desk lives.
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

from ..runtime.atomic_file import access_problem, lock, unlock
from ..runtime.folder import CLOSED_IN_CHILDREN, NO_WAIT
from .exits import UsageError
from .output import note, print_json, print_text

__all__ = ["desk", "tickets_of_running_desk"]

_MOST_BYTES = 10_000


async def desk(options: argparse.Namespace) -> int:
    """Serve the page for the calls that wait in a file of tickets.

    Those of ``--approve web``, and of programs with ``ApprovalQueue(store=FILE)``.
    """
    from ..approval.queue import ApprovalQueue
    from ..desk.serve import serve_desk
    from .state_folder import state_file

    path = _absolute(options.tickets or state_file("tickets.json"))
    async with serve_desk(ApprovalQueue(store=path)) as page:
        with _known_to_commands(path):
            if options.json:
                print_json({"url": page.url})
            else:
                print_text(page.url)
            sys.stdout.flush()
            note("the address lets in once; Ctrl-C ends the page")
            await anyio.sleep_forever()
    return 0


def tickets_of_running_desk() -> Path | None:
    """Where the desk that runs looks for calls; None where there is none."""
    from .state_folder import state_file

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
            return Path(json.loads(stream.read(_MOST_BYTES))["tickets"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))  # for commands in other folders


@contextmanager
def _known_to_commands(path: Path) -> Iterator[None]:
    """Let commands find the file of this desk, unless another desk runs."""
    from .state_folder import state_file

    file = os.open(state_file("desk.json"), os.O_RDWR | os.O_CREAT | CLOSED_IN_CHILDREN, 0o600)
    with open(file, "r+b") as stream:
        if lock(file, 0.0):
            stream.truncate()
            stream.write(json.dumps({"tickets": str(path)}).encode())
            stream.flush()
        else:
            note("another desk runs: calls of --approve web go there; here with --tickets FILE")
        yield
