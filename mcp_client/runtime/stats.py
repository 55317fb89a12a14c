"""Counts of what happened on a connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stats"]


@dataclass(slots=True)
class Stats:
    """Counts of what happened on a connection, mostly of what was survived."""

    requests: int = 0
    """Requests sent, of any method; those that open a stream of notices are in ``streams``."""
    streams: int = 0
    """Streams of notices that were asked for."""
    junk_lines: int = 0
    """Frames that were no JSON-RPC message."""
    late_answers: int = 0
    """Answers to requests that had been given up."""
    stray_answers: int = 0
    """Answers that belong to no request of ours."""
    dropped_notices: int = 0
    """Notifications dropped because too many waited."""
    refused_questions: int = 0
    """Requests from the server that were answered with an error."""
    unsent: int = 0
    """Answers and notifications of ours dropped because the server does not read."""
    restarts: int = 0
    """Times the server was started again."""
    last_junk: str = ""
    """The beginning of the last frame that was no message, made safe to show."""
