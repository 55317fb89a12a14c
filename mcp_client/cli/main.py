"""The command line of ``mcp-client``: what is run, and how it ends (see ``exits``)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main"]

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Nothing is raised but ``SystemExit`` after ``--help``."""
    words = list(sys.argv[1:] if words is None else words)
    was_closed = _fill_closed_streams()
    may_be_options = words[: words.index("--")] if "--" in words else words
    as_json = not {"--json", "--each"}.isdisjoint(may_be_options)
    try:
        if was_closed:
            raise OSError(errno.EBADF, "it is closed; nothing was done")
        try:
            return _done(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as ``head`` does
        _write_nowhere()
        return 0
    except KeyboardInterrupt:
        return _ended(None, as_json)
    except Exception as error:  # noqa: BLE001 - no traceback for people at a shell
        return _ended(error, as_json)


def _done(words: list[str]) -> int:
    if words == ["--version"]:  # without loading what commands need
        from ..runtime.version import __version__

        print(f"mcp-client {__version__}")
        return 0
    if words[:1] == ["_complete"]:  # by the scripts of 'completion', at each Tab
        from .completion import complete_words

        return complete_words(words[1:])
    return _run(words)


def _fill_closed_streams() -> bool:
    """Standard streams that are closed lead nowhere, so that no file or socket takes their number.

    Whether standard output was one of them.
    """
    was_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115
    return was_closed


def _write_nowhere() -> None:
    """Discard the output that is not yet written to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _ended(error: Exception | None, as_json: bool) -> int:
    """Report why the command failed, also as JSON if that was requested."""
    from ..errors import McpError
    from .exits import Interrupted, OutputError, error_document, exit_code
    from .output import note_error, print_json

    known = error or Interrupted("interrupted")
    if isinstance(known, OSError) and known.errno in _CANNOT_WRITE and known.filename is None:
        _write_nowhere()
        known = OutputError(f"standard output cannot be written: {known.strerror}")
    try:
        if as_json:
            print_json(error_document(known))
        sys.stdout.flush()
    except OSError:
        _write_nowhere()
    if not isinstance(known, McpError):
        known = McpError(f"unexpected {type(error).__name__}: {error}")
    note_error(known)
    return exit_code(known)


def _run(words: list[str]) -> int:
    from .parser import parsed

    options = parsed(words)
    if "://" in getattr(options, "target", "://"):
        return _run_command(options)
    from ..processes.orphan_guard import guard_orphans  # programs will be started

    with guard_orphans():
        return _run_command(options)


def _run_command(options: Namespace) -> int:
    import anyio

    from .output import log_to_stderr
    from .signals import find_terminal, until_ended

    find_terminal(options)
    log_to_stderr()
    command = getattr(import_module(f".{options.module}", __package__), options.command)
    code: int = anyio.run(until_ended, partial(command, options))
    return code
