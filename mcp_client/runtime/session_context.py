"""What every part of one session has to know, in one value."""

from __future__ import annotations

from dataclasses import field

from .frozen import frozen_dataclass
from .known_secrets import KnownSecrets
from .limits import Limits, Timeouts
from .stats import Stats

__all__ = ["SessionContext"]


@frozen_dataclass
class SessionContext:
    """Made once by ``connect`` and handed to whatever belongs to the session."""

    server: str
    """What the host calls the server."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The session's defaults; a call may have its own."""
    limits: Limits = field(default_factory=Limits)
    stats: Stats = field(default_factory=Stats)
    """Counts what happens on all connections of the session."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """What the server was given to keep secret."""
