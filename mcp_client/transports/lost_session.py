"""Recognize that a server has forgotten the session, whatever it sends instead of 404.

The specification has 404 for it (2025-11-25 ``basic/transports``, session management). In the field
it is also 400, 401, 403, 410, 500 or 503 with words about the session, and a JSON-RPC error in HTTP
200. Such a refusal comes before the request runs, so the request may be sent again on a new
session.

A 401 or 403 without such words may be the same: the credentials were good when the session was
opened. ``RefusedAlike`` allows one new session for it. If the same request is refused again there,
it is a refusal.
"""

from __future__ import annotations

import json
import re

from ..errors import AuthError

__all__ = ["RefusedAlike", "names_lost_session", "session_has_ended"]

_ENDED = frozenset({404, 410})
_CODES = frozenset({-32600, -32001})
"""JSON-RPC codes of a server for requests that it did not run."""
_CLEAR = ("insufficient_scope", "use_dpop_nonce")
"""Errors in a challenge that are about the credentials for certain."""
_MAX_CHARS = 2000
_STATES = (
    r"(?:not (?:be )?(?:found|known|valid|active|exist\w*|recogni[sz]ed|available|initiali[sz]ed)"
    r"|un(?:known|recogni[sz]ed|available)|in(?:valid|active)|expired|terminated|closed|missing|lost"
    r"|required|deleted|removed|ended|stale|gone|timed out|time ?out|does(?:n.t| not) exist)"
)
_SESSION = r"\bsession(?: ?ids?)?\b"
_LOST = re.compile(
    rf"{_SESSION}.{{0,60}}?\b{_STATES}\b"
    r"|\b(?:no|not|without|bad|stale|un(?:known|recogni[sz]ed)|in(?:valid|active)|expired|missing"
    rf"|terminated|closed)(?: \w+){{0,3}}? {_SESSION}"
    r"|\b(?:cannot|can.t|could not|couldn.t|unable to|failed to) (?:find|locate)"
    rf"(?: \w+){{0,2}} {_SESSION}"
    r"|\bserver (?:is |was )?not (?:yet )?initiali[sz]ed\b",
    re.IGNORECASE,
)
_OF_MCP = re.compile(r"\bmcp session\b", re.IGNORECASE)
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])")


def names_lost_session(text: str) -> bool:
    """Whether ``text`` states that a session is unknown, missing, expired or inactive."""
    return bool(_LOST.search(_words(text)))


def session_has_ended(status: int, text: str, code: int | None = None) -> bool:
    """Whether a request that named our session was refused because the server has it no longer.

    Args:
        status: The HTTP status.
        text: The words of the refusal.
        code: The code of a JSON-RPC error, if the response is one with a status of success. A tool
            may have sessions of its own, so only few codes count without the name of the header.
    """
    if not 200 <= status < 300:
        return status in _ENDED or names_lost_session(text)
    if code not in _CODES and not _OF_MCP.search(_words(text)):
        return False
    return names_lost_session(text)


def _words(text: str) -> str:
    """``text`` with the words of identifiers apart: SessionNotFound, session_expired."""
    text = text[:_MAX_CHARS].replace("_", " ").replace("-", " ").replace("\n", " ")
    return _JOINT.sub(" ", text)


class RefusedAlike:
    """The requests that were refused with 401 or 403 on a session whose credentials were good.

    One server's, on all sessions with it, one after the other.
    """

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def may_be_session(self, body: bytes) -> bool:
        """Whether a refusal of this request may mean that the session is gone."""
        return _kind(body) not in self._requests

    def note(self, body: bytes, error: AuthError) -> bool:
        """Note a refusal. Returns whether a new session may help."""
        kind = _kind(body)
        challenge = error.challenge or ""
        if kind in self._requests or any(clear in challenge for clear in _CLEAR):
            return False
        self._requests.add(kind)
        return True

    def answered(self, body: bytes) -> None:
        """Forget the refusals of this request, since it was answered."""
        self._requests.discard(_kind(body))


def _kind(body: bytes) -> str:
    """Return the kind of a request: its method, and the name of its subject."""
    message = json.loads(body)
    params = message.get("params") or {}
    return f"{message.get('method')} {params.get('name') or params.get('uri') or ''}"
