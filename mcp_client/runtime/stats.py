"""Counts of what happened on a connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stats"]


@dataclass(slots=True)
class Stats:
    """Counts of what happened on a connection, mostly of faults that did not end it."""

    requests: int = 0
    """Requests sent, of any method except those that open a stream (``streams``)."""
    streams: int = 0
    """Streams of notifications that were opened."""
    junk_lines: int = 0
    """Frames that were not a JSON-RPC message."""
    late_answers: int = 0
    """Responses to requests that had been cancelled or timed out."""
    stray_answers: int = 0
    """Responses with an id that no request of ours has."""
    dropped_notices: int = 0
    """Notifications dropped because too many were queued."""
    refused_questions: int = 0
    """Requests of the server that were answered with an error."""
    unsent: int = 0
    """Responses and notifications of ours that were dropped because the server does not read."""
    restarts: int = 0
    """Times the server was started again."""
    last_junk: str = ""
    """The beginning of the last frame that was not a message, made safe to show."""
