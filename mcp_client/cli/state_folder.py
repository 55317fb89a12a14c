"""Where the command keeps its own files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .exits import UsageError

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..state import FileState

__all__ = ["decisions_of", "state_file", "state_of"]


def state_file(name: str) -> Path:
    """A file of the user's state folder (``$XDG_STATE_HOME/mcp-client``), which is made."""
    folder = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}") from None
    return folder / name


def state_of(options: argparse.Namespace) -> FileState:
    """That of ``--state``, else the user's state folder."""
    from ..state import FileState

    return FileState(options.state or _folder())


def decisions_of(options: argparse.Namespace) -> Decisions:
    """Where there can be no state folder, they are kept until the command ends."""
    from ..approval.decisions import Decisions

    folder = _folder()
    nearest = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if options.state is None and not nearest.is_dir():
        return Decisions()
    return state_of(options).decisions


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local/state") / "mcp-client"
