"""What ``state=`` takes."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ConfigError
from .state import FileState, State

__all__ = ["state_of"]

_URLS = ("postgresql://", "postgres://")


def state_of(state: Any, option: str = "state") -> State | None:
    """From what ``state=`` takes: a ``State``, the path of a folder, the URL of a database, or
    None."""
    if state is None or isinstance(state, State):
        return state
    if isinstance(state, str) and state.startswith(_URLS):
        from .postgres import PostgresState

        return PostgresState(state)
    if isinstance(state, str | os.PathLike):
        return FileState(state)
    what = f"<{type(state).__name__}>"  # not itself, which may be a URL with a password
    raise ConfigError(
        f"{option}={what}: give the path of a directory, a State, the URL of a database, or "
        "Decisions(...)"
    )
