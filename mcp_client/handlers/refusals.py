"""Why a server's question is not answered, and the codes that say so.

2025-11-25 ``client/elicitation``, ``client/sampling`` and ``client/roots``, error handling.
"""

from __future__ import annotations

__all__ = [
    "INVALID_PARAMS",
    "METHOD_NOT_FOUND",
    "REJECTED",
    "InvalidHandlerAnswer",
    "RequestRefused",
]

METHOD_NOT_FOUND, INVALID_PARAMS, REJECTED = -32601, -32602, -1


class RequestRefused(Exception):
    """The question is not answered; the text may be told to the server."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidHandlerAnswer(Exception):
    """A handler's answer that cannot be sent. The text is the host's, not the server's."""
