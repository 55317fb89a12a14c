"""Agreeing on a revision, as a conversation written once.

``negotiate`` is a plain generator: it yields what is to be done (a ``Step``), is sent the result
(an ``Outcome``), and returns the era. It does no I/O, so tests feed it tables.

The rules, from 2026-07-28 ``basic/versioning`` and ``basic/transports/stdio`` and from
``basic/lifecycle`` of the older revisions:

- ``server/discover`` is asked first. A ``DiscoverResult``, or one of the error codes that only the
  stateless era has, means a stateless server, for good. -32022 lists
  the versions the server supports; one of them is asked for once more, even if it is the one asked
  for before. If all it lists are handshake revisions, ``initialize`` is used.
- Anything else (any other error, an empty result, no answer) means the handshake era.
- ``initialize`` offers the newest handshake revision and accepts any of the four in the answer.
  A server may refuse with -32602 and say what it supports; then that is offered.
- Some servers exit on the probe, or refuse ``initialize`` after it. So if ``initialize`` fails
  after a probe, the server is restarted and gets ``initialize`` first.
- A server may just be slow: if ``initialize`` fails after a probe without an answer, that answer
  may have come meanwhile (``CheckLateAnswer``), and is used.

At most four requests are sent in any case.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..errors import Advice, ConnectError, McpError, NegotiationError
from .capabilities import MISSING_CAPABILITY, ClientDeclaration, missing_capabilities
from .era import Era, HandshakeEra, StatelessEra, discover_params, initialize_params
from .headers import PROTOCOL_VERSION, request_headers
from .versions import HANDSHAKE, LATEST_HANDSHAKE, LATEST_STATELESS, STATELESS

__all__ = [
    "Answered",
    "AnsweredWithError",
    "Ask",
    "CheckLateAnswer",
    "Failed",
    "Outcome",
    "Restart",
    "Silent",
    "Step",
]
__all__ += ["Tell", "negotiate"]

_UNSUPPORTED_VERSION = -32022
_STATELESS_CODES = (-32020, MISSING_CAPABILITY, _UNSUPPORTED_VERSION)
_NO_HEADERS: Mapping[str, str] = {}


class Ask(NamedTuple):
    """Send a request and wait. ``probe``: give up early once the server must have read it."""

    method: str
    params: str
    revision: str
    probe: bool = False
    headers: Mapping[str, str] = _NO_HEADERS
    """The headers to send with it over HTTP."""


class Tell(NamedTuple):
    """Agreed: send this notification in that era. It has no outcome: send None."""

    method: str
    era: Era


class Restart:
    """Restart the server and drop what it was asked before. Send None or ``Failed``."""


class CheckLateAnswer:
    """Look whether the probe has been answered meanwhile. Send ``Answered`` or ``Silent``."""


Step: TypeAlias = Ask | Tell | Restart | CheckLateAnswer


class Answered(NamedTuple):
    """The server answered with a result."""

    result: Any


class AnsweredWithError(NamedTuple):
    """The server answered with an error."""

    code: int
    message: str
    data: Any = None


class Silent:
    """No answer within the time limit of that step."""


class Failed(NamedTuple):
    """The connection ended, or the answer could not be read: ``error`` says how."""

    error: McpError


Outcome: TypeAlias = Answered | AnsweredWithError | Silent | Failed
Talk: TypeAlias = Generator[Step, Outcome | None, Era]
_Try: TypeAlias = Generator[Step, Outcome | None, "Era | McpError"]

MAX_REQUESTS = 4


def negotiate(
    client: ClientDeclaration, pin: str | None = None, *, skip_probe: bool = False
) -> Talk:
    """The whole conversation. ``pin`` fixes the revision; ``skip_probe`` trusts an older answer.

    Raises ``NegotiationError``, or the error of the last ``Failed``.
    """
    talk = _negotiate(client, pin, skip_probe)
    outcome: Outcome | None = None
    asked = 0
    while True:
        try:
            step = talk.send(outcome)
        except StopIteration as done:
            era: Era = done.value
            return era
        asked += isinstance(step, Ask)
        if asked > MAX_REQUESTS:
            raise NegotiationError(f"no agreement after {MAX_REQUESTS} requests")
        outcome = yield step


def _negotiate(client: ClientDeclaration, pin: str | None, skip_probe: bool) -> Talk:
    if pin in HANDSHAKE:
        return _agreed((yield from _initialize(client, (pin,), pin)))
    if skip_probe and pin is None:
        found: Era | McpError = yield from _initialize(client, HANDSHAKE, None)
        if isinstance(found, Era):
            return found
        # What is remembered about the server is out of date.
        yield from _restart()
    probed = yield from _probe(client, pin or LATEST_STATELESS)
    if isinstance(probed, Era):
        return probed
    if pin is not None:
        raise NegotiationError(
            f"the server does not speak {pin}, the revision that was asked for",
            advice=Advice("drop revision= to let older revisions be tried", "revision"),
        )
    return (yield from _initialize_after_probe(client, probed))


def _agreed(found: Era | McpError) -> Era:
    if isinstance(found, McpError):
        raise found
    return found


def _probe(
    client: ClientDeclaration, wanted: str
) -> Generator[Step, Outcome | None, Era | tuple[str, ...]]:
    """The stateless era, or the handshake revisions worth offering."""
    for _ in range(2):
        method = "server/discover"
        headers = {PROTOCOL_VERSION: wanted, **dict(request_headers(method))}
        outcome = yield Ask(method, discover_params(wanted, client), wanted, True, headers)
        match outcome:
            case Answered(result):
                found = _discovered(client, wanted, result)
                return HANDSHAKE if found is None else found
            case AnsweredWithError(code=code) if code == _UNSUPPORTED_VERSION:
                chosen = _choose(_supported(outcome.data), wanted, outcome.message)
                if isinstance(chosen, tuple):
                    return chosen
                wanted = chosen
            case AnsweredWithError(code=code) if code in _STATELESS_CODES:
                needs = ""
                if code == MISSING_CAPABILITY:
                    needs = (
                        f"; it needs the client to declare {missing_capabilities(outcome.data)[1]}"
                    )
                raise NegotiationError(
                    f"the server refuses server/discover: {outcome.message}{needs} (code {code})"
                )
            case _:
                return HANDSHAKE
    raise NegotiationError(f"the server lists {wanted} among its versions but refuses it")


def _discovered(
    client: ClientDeclaration, wanted: str, result: Any
) -> Era | tuple[str, ...] | None:
    """What a result of the probe means; None where it is not a ``DiscoverResult``."""
    versions = result.get("supportedVersions") if isinstance(result, dict) else None
    if not isinstance(versions, list):
        return None
    chosen = _choose(versions, wanted, "")
    if isinstance(chosen, tuple):
        return chosen
    return StatelessEra.from_discover(chosen, result, client)


def _choose(versions: list[Any], wanted: str, said: str) -> str | tuple[str, ...]:
    """The stateless revision to speak, or else the handshake revisions in common."""
    for revision in (wanted, *STATELESS):
        if revision in versions:
            return revision
    common = tuple(revision for revision in HANDSHAKE if revision in versions)
    if common:
        return common
    listed = ", ".join(str(version)[:20] for version in versions[:8]) or "none"
    raise NegotiationError(
        f"no revision in common: the server lists {listed}; we speak "
        f"{', '.join((*STATELESS, *HANDSHAKE))}" + (f" ({said[:200]})" if said else "")
    )


def _supported(data: Any) -> list[Any]:
    versions = data.get("supported") if isinstance(data, dict) else None
    return versions if isinstance(versions, list) else []


def _initialize_after_probe(client: ClientDeclaration, offers: tuple[str, ...]) -> Talk:
    found = yield from _initialize(client, offers, None)
    if isinstance(found, Era):
        return found
    late = yield CheckLateAnswer()
    if isinstance(late, Answered):
        discovered = _discovered(client, LATEST_STATELESS, late.result)
        if isinstance(discovered, Era):
            return discovered
    yield from _restart()
    return _agreed((yield from _initialize(client, offers, None)))


def _restart() -> Generator[Step, Outcome | None, None]:
    outcome = yield Restart()
    if isinstance(outcome, Failed):
        raise outcome.error


def _initialize(client: ClientDeclaration, offers: tuple[str, ...], pin: str | None) -> _Try:
    """The era; or an error, returned because a restart of the server may help."""
    offer = offers[0]
    outcome = yield Ask("initialize", initialize_params(offer, client), offer)
    named = _supported(outcome.data) if isinstance(outcome, AnsweredWithError) else []
    other = next((version for version in HANDSHAKE if version in named and not pin), None)
    if other is not None and other != offer:
        offer = other
        outcome = yield Ask("initialize", initialize_params(offer, client), offer)
    match outcome:
        case Answered(result):
            era = HandshakeEra.from_initialize(_accepted(result, pin), result)
            yield Tell("notifications/initialized", era)
            return era
        case AnsweredWithError(code=code, message=said):
            return NegotiationError(
                f"the server refuses initialize with {offer}: {said[:200]} (code {code})"
            )
        case Failed(error):
            return error
        case _:
            return ConnectError("the server does not answer initialize", retryable=True)


def _accepted(result: Any, pin: str | None) -> str:
    revision = result.get("protocolVersion") if isinstance(result, dict) else None
    if not isinstance(revision, str):
        raise NegotiationError("the server's answer to initialize has no protocolVersion")
    if revision not in HANDSHAKE:
        raise NegotiationError(
            f"the server asks for {revision[:40]!r}, which is not supported; supported: "
            f"{', '.join(HANDSHAKE)} by handshake (offered: {pin or LATEST_HANDSHAKE})"
        )
    if pin and revision != pin:
        raise NegotiationError(
            f"the server answered {revision} although {pin} was asked for",
            advice=Advice("drop revision= to accept it", "revision"),
        )
    return revision
