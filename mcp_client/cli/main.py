"""The command line of ``mcp-client``: what is run, and how it ends (see ``exits``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Nothing is raised but ``SystemExit`` after ``--help``."""
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:  # without loading what commands need
        from .._version import __version__

        print(f"mcp-client {__version__}")
        return 0
    if words[:1] == ["_complete"]:  # by the scripts of 'completion', at each Tab
        from .completion import complete_words

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
    from .exits import Interrupted, error_document, exit_code
    from .output import note_error, print_json

    error = error or Interrupted("interrupted")
    known = error
    if not isinstance(known, McpError):
        known = McpError(f"unexpected {type(error).__name__}: {error}")
    try:
        if as_json:
            print_json(error_document(error))
            sys.stdout.flush()
        note_error(known)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return exit_code(known)


def _run(words: list[str]) -> int:
    from .parser import parsed

    options = parsed(words)
    if "://" not in getattr(options, "target", "://"):  # programs will be started
        from ..runtime.orphan_guard import guard_orphans

        guard_orphans()
    import anyio

    from .output import log_to_stderr
    from .session import find_terminal
    from .signals import until_ended

    find_terminal(options)
    log_to_stderr()
    command = getattr(import_module(f".{options.module}", __package__), options.command)
    code: int = anyio.run(until_ended, partial(command, options))
    return code
