"""The command line of ``mcp-client``: what is run, and how it ends (see ``exits``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Nothing is raised but ``SystemExit`` after ``--help``."""
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:  # without loading what commands need
        from .._version import __version__

        print(f"mcp-client {__version__}")
        return 0
    if words[:1] == ["_complete"]:  # by the scripts of 'completion', at each Tab
        from .completing import complete_words

        return complete_words(words[1:])
    as_json = "--json" in words
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has enough, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return _ended(None, as_json)
    except Exception as error:  # noqa: BLE001 - no traceback for people at a shell
        return _ended(error, as_json)


def _ended(error: Exception | None, as_json: bool) -> int:
    """Say why the command failed, as JSON too where that was asked for."""
    from ..errors import McpError
    from .exits import INTERRUPTED, SERVER_ERROR, USAGE, Interrupted, error_document, exit_code
    from .output import note, print_json

    if error is None:
        error = Interrupted("interrupted")
    code, text = SERVER_ERROR, f"unexpected {type(error).__name__}: {error}"
    if isinstance(error, McpError):
        code = INTERRUPTED if isinstance(error, Interrupted) else exit_code(error)
        text = error.message if code == USAGE else str(error)
    try:
        if as_json:
            print_json(error_document(error))
            sys.stdout.flush()
        note(f"mcp-client: {text}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def _run(words: list[str]) -> int:
    from .words import parsed

    options = parsed(words)
    import anyio

    from . import calling, files
    from .completion import completion
    from .desk_command import desk
    from .doctor import doctor
    from .loop import shell
    from .session import find_terminal
    from .signals import end_on_signals, log_to_stderr

    find_terminal(options)
    log_to_stderr()
    apart: dict[str, Any] = {
        "completion": completion,
        "desk": desk,
        "doctor": doctor,
        "shell": shell,
    }
    if options.command in ("login", "logout"):
        from . import login

        apart[options.command] = getattr(login, options.command)
    modules: tuple[Any, ...] = (calling, files)
    command = apart.get(options.command) or next(
        found for one in modules if (found := getattr(one, options.command, None))
    )
    with end_on_signals():
        code: int = anyio.run(_bounded, command, options)
    return code


async def _bounded(command: Any, options: argparse.Namespace) -> int:
    code: int = await command(options)
    return code
