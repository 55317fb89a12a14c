"""Servers as ``connect`` takes them: which are started, what confines them, and ``Recording``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, field, replace
from typing import TYPE_CHECKING, Any

from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names
from .stdio import StdioServer

if TYPE_CHECKING:
    from ..sandbox.sandbox import Sandbox

__all__ = ["Recording", "confined", "is_started", "recorded_by"]


@with_option_names()
@frozen_dataclass
class Recording:
    """A server whose session is written to a file: ``connect(Recording(server, "session.jsonl"))``.

    The file has all messages of the session, without secrets, so that ``ReplayServer(path)`` can
    play the server: see ``mcp_client.transports.recording``. An existing file is replaced when the
    session opens. Raises ``ConfigError`` if ``path`` is not a path.
    """

    server: Any = field(repr=False)
    """Whatever ``connect`` takes."""
    path: str | os.PathLike[str]
    """The file. Give each server of a host its own."""
    _: KW_ONLY
    redaction: Callable[[Any], Any] | Any = None
    """The secrets that the file leaves out, as ``Audit(redaction=...)`` takes them."""

    def __post_init__(self) -> None:
        from ..runtime.directory import checked_path  # which loads pathlib

        path = checked_path(self.path, f"Recording({self.path!r})")
        object.__setattr__(self, "path", path)


def recorded_by(server: Any) -> Any:
    """Return the server itself, if it is in a ``Recording``."""
    return recorded_by(server.server) if isinstance(server, Recording) else server


def is_started(server: object) -> bool:
    """Whether ``connect`` starts the server."""
    server = recorded_by(server)
    is_words = isinstance(server, Sequence) and not isinstance(server, str | bytes)
    return isinstance(server, StdioServer) or (is_words and bool(server))


def confined(server: Any, sandbox: Sandbox | bool | None) -> Any:
    """Return the server in ``sandbox``, if it is started and does not choose one itself."""
    if sandbox is None or not is_started(server):
        return server
    if isinstance(server, Recording):
        return replace(server, server=confined(server.server, sandbox))
    if not isinstance(server, StdioServer):
        server = StdioServer(server[0], tuple(server[1:]))
    return server if server.sandbox is not None else replace(server, sandbox=sandbox)
