"""Check the value of ``state=``."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ConfigError
from .state import FileState, State

__all__ = ["state_of"]

_URLS = ("postgresql://", "postgres://")


def state_of(state: Any, option: str = "state") -> State | None:
    """Return the state of a value: a ``State``, a directory's path, a database's URL, or None."""
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
