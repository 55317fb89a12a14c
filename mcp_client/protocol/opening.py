"""The steps and outcomes of ``negotiation``, and how revisions are chosen from a server's list."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ..errors import Advice, AuthError, McpError, NegotiationError
from .capabilities import (
    HANDSHAKE,
    LATEST_HANDSHAKE,
    MISSING_CAPABILITY,
    STATELESS,
    missing_capabilities,
)
from .era import Era

__all__ = [
    "Accept",
    "Answered",
    "AnsweredWithError",
    "Ask",
    "CheckLateAnswer",
    "Failed",
    "Notify",
    "OtherWay",
    "Outcome",
    "Refusal",
    "Restart",
    "Silent",
    "Step",
    "Wait",
    "accepted_revision",
    "choose",
    "listed_in",
    "may_be_the_method",
    "refused_probe",
    "supported_by",
]

_NO_HEADERS: Mapping[str, str] = {}
_REVISION = re.compile(r"(?<![\w./-])20\d\d-\d\d-\d\d(?![\w/-])")
"""A revision in a text, and not in the address of a page."""


# ---------------------------------------------------------------------- what is done


class Ask(NamedTuple):
    """Send a request and wait. ``probe``: give up early once the server must have read it."""

    method: str
    params: str
    revision: str
    probe: bool = False
    headers: Mapping[str, str] = _NO_HEADERS
    """The headers to send with it over HTTP."""
    replaces: bool = False
    """Whether the server is restarted if it stays silent, so that not all the time may be used."""


class Notify(NamedTuple):
    """Agreed: send this notification in that era. It has no outcome: send None."""

    method: str
    era: Era


class Wait(NamedTuple):
    """Wait before the next request, because the server is busy.

    Send None, or ``Failed`` if there is not enough time.
    """

    outcome: AnsweredWithError | Failed
    """The refusal."""
    tries: int
    """The number of this wait, from 1."""


class Accept(NamedTuple):
    """Report a deviation of the server that is accepted. It has no outcome: send None."""

    deviation: str


class Restart:
    """Restart the server and drop what it was asked before. Send None or ``Failed``."""


class OtherWay(NamedTuple):
    """Continue on the server's other transport, if it has one.

    Send None; or the refusal, as far as it is known now, if the server has no other transport; or
    the refusal of the other transport, if that is busy.
    """

    refused: AnsweredWithError | Failed
    """The response on the current transport."""


class CheckLateAnswer:
    """Check whether a response to the probe has arrived. Send ``Answered`` or ``Silent``."""


Step: TypeAlias = Ask | Notify | Accept | Wait | Restart | OtherWay | CheckLateAnswer


# ------------------------------------------------------------------- what came of it


class Answered(NamedTuple):
    """A result of the server."""

    result: Any


class AnsweredWithError(NamedTuple):
    """An error response of the server."""

    code: int
    message: str
    data: Any = None
    status: int | None = None
    """The HTTP status that it came with, unless that is 200."""
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again."""


class Silent:
    """The outcome of a step without a response within its time limit."""


class Failed(NamedTuple):
    """A failure: the connection ended, the response was unusable, or the transport refused.

    ``error`` is the reason.
    """

    error: McpError
    with_credentials: bool = False
    """Whether the request had credentials."""
    may_pass: bool = True
    """Whether a new connection, or process, may fare better."""


Outcome: TypeAlias = Answered | AnsweredWithError | Silent | Failed
Refusal: TypeAlias = AnsweredWithError | Failed | Silent


def may_be_the_method(outcome: Failed) -> bool:
    """Return whether 401 or 403 may be the refusal of the method, and not of who asks."""
    error = outcome.error
    if not isinstance(error, AuthError) or error.http_status not in (401, 403):
        return False
    challenge = error.challenge or ""
    if outcome.with_credentials:
        return "use_dpop_nonce" not in challenge
    return error.http_status == 403 and not challenge


# ----------------------------------------------------------------------- revisions


def refused_probe(outcome: AnsweredWithError) -> NegotiationError:
    """Return the error for a refusal of ``server/discover`` that only the stateless era has."""
    needs = ""
    if outcome.code == MISSING_CAPABILITY:
        needs = f"; it needs the client to declare {missing_capabilities(outcome.data)[1]}"
    return NegotiationError(
        f"the server refuses server/discover: {outcome.message}{needs} (code {outcome.code})"
    )


def choose(versions: list[Any], wanted: str, message: str) -> str | tuple[str, ...]:
    """Return the stateless revision to speak, or else the handshake revisions in common."""
    for revision in (wanted, *STATELESS):
        if revision in versions:
            return revision
    common = tuple(revision for revision in HANDSHAKE if revision in versions)
    if common:
        return common
    listed = ", ".join(str(version)[:20] for version in versions[:8]) or "none"
    raise NegotiationError(
        f"no revision in common: the server lists {listed}; supported: "
        f"{', '.join((*STATELESS, *HANDSHAKE))}" + (f" ({message[:200]})" if message else "")
    )


def supported_by(data: Any) -> list[Any]:
    """Return the revisions that the data of an error lists."""
    versions = data.get("supported") if isinstance(data, dict) else None
    return versions if isinstance(versions, list) else []


def listed_in(data: Any, message: str, offered: str) -> tuple[str, ...]:
    """Return the handshake revisions that a refusal of ``offered`` names besides, newest first."""
    versions: Any = supported_by(data)
    if not versions:
        text = message if data is None else f"{message} {json.dumps(data)[:2000]}"
        versions = _REVISION.findall(text)
    return tuple(each for each in HANDSHAKE if each in versions and each != offered)


def accepted_revision(result: Any, pin: str | None) -> str:
    """Return the revision of a response to ``initialize``. Raises ``NegotiationError``."""
    offered = pin if pin in HANDSHAKE else LATEST_HANDSHAKE
    revision = result.get("protocolVersion") if isinstance(result, dict) else None
    if not isinstance(revision, str):
        raise NegotiationError("the server's response to initialize has no protocolVersion")
    if revision not in HANDSHAKE:
        raise NegotiationError(
            f"the server chose {revision[:40]!r}, which is not supported; supported: "
            f"{', '.join(HANDSHAKE)} by handshake (offered: {offered})"
        )
    if pin in HANDSHAKE and revision != pin:
        raise NegotiationError(
            f"the server chose revision {revision}, and {pin} is required",
            advice=Advice("drop revision= to accept it", "revision"),
        )
    return revision
