"""Where the command keeps its own files."""

from __future__ import annotations

import os
from pathlib import Path

from .exits import UsageError

__all__ = ["state_file"]


def state_file(name: str) -> Path:
    """A file of the user's state folder (``$XDG_STATE_HOME/mcp-client``), which is made."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    folder = (Path(base) if os.path.isabs(base) else Path.home() / ".local/state") / "mcp-client"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}") from None
    return folder / name
