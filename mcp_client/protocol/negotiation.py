"""Agree on a revision: the conversation that opens a connection, as one state machine.

``negotiate`` is a plain generator. It yields a ``Step`` to take, receives its ``Outcome``, and
returns the era. It does no I/O, so tests feed it tables.

A response is classified first (``_Meaning``), and a table maps its meaning to the next step.

``server/discover`` is asked first (2026-07-28 ``basic/versioning``, compatibility matrix)::

    a DiscoverResult with our revision       agreed
    -32022 or a list with another of ours    ask again, with that one
    ... with handshake revisions only        initialize with the newest of them
    -32020, -32021                           give up: only the stateless era has these errors
    429, or 503 with Retry-After             wait, then initialize: a rate may allow few requests
    401, 403 to a request with credentials   initialize: gateways refuse methods so that they do not
                                             know, and the login may be right
    401, 403 without credentials             the server asks for a login
    a redirect to another origin, no server  give up
    anything else, silence included          initialize

``initialize`` offers the newest handshake revision, and accepts any of the four in the response
(``basic/lifecycle`` of those revisions). After a refusal, the first possible move of
``_AFTER_INITIALIZE`` is made, from the left::

    it lists the revisions that it supports  offer the newest of them
    400, 422, -32602: perhaps the revision   offer 2025-06-18, or the newest of the probe's list
    404, 405                                 HTTP+SSE at the same address, later if it is busy
    429, or 503 with Retry-After             wait, then the same again
    any other refusal, the end, silence      use a late response to the probe; ask for it again if
                                             there was no proper response; start the server again,
                                             which may exit or hang because of the probe

Four requests are sent at most, besides those that a busy server refused.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from enum import Enum, auto
from typing import Any, TypeAlias

from ..errors import Advice, ConnectError, McpError, NegotiationError
from .capabilities import HANDSHAKE, MISSING_CAPABILITY, STATELESS, ClientDeclaration
from .era import Era, HandshakeEra, StatelessEra, discover_params, initialize_params
from .headers import PROTOCOL_VERSION, request_headers
from .opening import (
    Accept,
    Answered,
    AnsweredWithError,
    Ask,
    CheckLateAnswer,
    Failed,
    Notify,
    OtherWay,
    Outcome,
    Refusal,
    Restart,
    Silent,
    Step,
    Wait,
    accepted_revision,
    choose,
    listed_in,
    may_be_the_method,
    refused_probe,
    supported_by,
)

__all__ = ["Answered", "AnsweredWithError", "Ask", "CheckLateAnswer", "Failed", "Outcome"]
__all__ += ["Notify", "Restart", "Silent", "Step", "is_busy", "negotiate", "passes"]

MAX_REQUESTS = 4
MAX_WAITS = 3
"""Requests that a busy server may refuse, besides."""
_UNSUPPORTED_VERSION = -32022
_INVALID_PARAMS = -32602
_STATELESS_CODES = (-32020, MISSING_CAPABILITY, _UNSUPPORTED_VERSION)
_OF_REVISIONS = re.compile(r"(protocol|mcp).{0,20}version|revision|version.{0,40}support", re.I)
"""Words of a server that refuses the revision."""
_OLDER_REVISION = "initialize with the newest revision is refused, not answered with an older one"
_UNKNOWN_METHOD = "server/discover is refused as if the login or a gateway failed"
_NO_RESPONSE = "server/discover is not answered, as a method is that the server does not know"

Talk: TypeAlias = Generator[Step, Outcome | None, Era]
_Found: TypeAlias = Generator[Step, Outcome | None, Era | None]


def negotiate(
    client: ClientDeclaration, pin: str | None = None, *, skip_probe: bool = False
) -> Talk:
    """Hold the whole conversation.

    Args:
        client: The declaration of this program.
        pin: The only revision to speak, or the era whose newest is wanted; None tries all.
        skip_probe: Whether to begin with ``initialize``, because of an earlier response.

    Returns:
        The era that was agreed on.

    Raises:
        NegotiationError: There is no common revision, or the server does not state its revisions.
        ConnectError: The connection failed, or the server refused in its transport's terms.
    """
    talk = _Conversation(client, pin).run(skip_probe)
    outcome: Outcome | None = None
    asked = 0
    while True:
        try:
            step = talk.send(outcome)
        except StopIteration as done:
            era: Era = done.value
            return era
        asked += isinstance(step, Ask) - isinstance(step, Wait)
        if asked > MAX_REQUESTS:
            raise NegotiationError(f"no revision was agreed after {MAX_REQUESTS} requests")
        outcome = yield step


# --------------------------------------------------------------- what an answer means


class _Meaning(Enum):
    """The meaning of a response that is not an agreement."""

    LISTS = auto()
    """The response lists handshake revisions that the server supports."""
    REVISION = auto()
    """The server may refuse the revision."""
    STATELESS = auto()
    """An error that only the stateless era has."""
    ELSEWHERE = auto()
    """Nothing is served here by this transport."""
    REFUSED = auto()
    """Any other refusal."""
    BUSY = auto()
    """The same request may succeed later."""
    LOCKED = auto()
    """The server wants to know who asks, or does not allow it."""
    FAULT = auto()
    """A gateway or the server has a fault."""
    ENDED = auto()
    """The connection ended, the response is unusable, or there is none."""


_BY_STATUS = {
    **dict.fromkeys((400, 422), _Meaning.REVISION),
    **dict.fromkeys((404, 405), _Meaning.ELSEWHERE),
    **dict.fromkeys((401, 403, 407), _Meaning.LOCKED),
    **dict.fromkeys((408, 425, 502, 503, 504), _Meaning.FAULT),
}


def _meaning(outcome: Refusal, offered: str = "") -> _Meaning:
    """``offered``: the revision of the ``initialize`` that was refused."""
    if isinstance(outcome, Silent):
        return _Meaning.ENDED
    status, after, message = _terms(outcome)
    if status == 429 or (status == 503 and after is not None):
        return _Meaning.BUSY
    if _listed(outcome, offered):
        return _Meaning.LISTS
    if isinstance(outcome, AnsweredWithError):
        if outcome.code in _STATELESS_CODES:
            return _Meaning.STATELESS
        if outcome.code == _INVALID_PARAMS:
            return _Meaning.REVISION
    elif status is None:
        return _Meaning.ENDED
    known = _BY_STATUS.get(status or 0)
    if known is not None:
        return known
    return _Meaning.REVISION if _OF_REVISIONS.search(message) else _Meaning.REFUSED


def _listed(outcome: Refusal, offered: str) -> tuple[str, ...]:
    """The revisions that the server names when it refuses the one that was offered."""
    if isinstance(outcome, Silent) or not offered:
        return ()
    data = outcome.data if isinstance(outcome, AnsweredWithError) else None
    return listed_in(data, _terms(outcome)[2], offered)


def _terms(outcome: AnsweredWithError | Failed) -> tuple[int | None, float | None, str]:
    """The HTTP status, the seconds to wait, and the server's words."""
    if isinstance(outcome, AnsweredWithError):
        return outcome.status, outcome.retry_after, outcome.message[:500]
    fields = vars(outcome.error)
    return fields.get("http_status"), fields.get("retry_after"), fields.get("body_excerpt", "")


# -------------------------------------------------------------------- what follows


class _Move(Enum):
    """A move after ``initialize`` was refused. Each is made once, except ``WAIT``."""

    LISTED = auto()
    OLDER = auto()
    OTHER_WAY = auto()
    WAIT = auto()
    LATE = auto()
    PROBE = auto()
    RESTART = auto()


_LAST_MOVES = (_Move.LATE, _Move.PROBE, _Move.RESTART)
_AFTER_INITIALIZE: dict[_Meaning, tuple[_Move, ...]] = {
    _Meaning.LISTS: (_Move.LISTED, _Move.OTHER_WAY, *_LAST_MOVES),
    _Meaning.REVISION: (_Move.OLDER, _Move.OTHER_WAY, *_LAST_MOVES),
    _Meaning.STATELESS: _LAST_MOVES,
    _Meaning.ELSEWHERE: (_Move.OTHER_WAY, *_LAST_MOVES),
    _Meaning.REFUSED: _LAST_MOVES,
    _Meaning.BUSY: (_Move.WAIT,),
    _Meaning.LOCKED: (),
    _Meaning.FAULT: (),
    _Meaning.ENDED: (_Move.LATE, _Move.RESTART),
}
_WITH_PIN = (_Move.OTHER_WAY, _Move.WAIT)
"""The moves that are left if the revision is fixed."""
_POSSIBLE = {None: tuple(_Move), "handshake": (_Move.LISTED, _Move.OLDER, *_WITH_PIN)}
"""The moves that are left if no revision is fixed, or only the era."""


class _Conversation:
    """One conversation, and what is known of the server by now."""

    def __init__(self, client: ClientDeclaration, pin: str | None) -> None:
        self._client = client
        self._pin = pin
        self._possible = _POSSIBLE.get(pin, _WITH_PIN)
        self._offers: tuple[str, ...] = HANDSHAKE
        """The handshake revisions worth offering."""
        self._offered: list[str] = []
        self._offer = ""
        self._probes = 0
        self._is_probe_open = False
        """Whether the probe was sent without a proper response."""
        self._made: set[_Move] = set()
        self._waits = 0
        self._deviations: list[str] = []
        """The server's deviations, which are accepted if it responds to ``initialize``."""

    def run(self, skip_probe: bool) -> Talk:
        if self._pin in HANDSHAKE:
            self._offers = (self._pin,)
        elif self._pin != "handshake" and not (skip_probe and self._pin is None):
            found = yield from self._probe()
            if found is not None:
                return found
        self._offer = self._offers[0]
        while True:
            outcome = yield from self._initialize()
            if isinstance(outcome, Era):
                return outcome
            found = yield from self._after(outcome)
            if found is not None:
                return found

    # ------------------------------------------------------------------- server/discover

    def _probe(self) -> _Found:
        """The stateless era; None if ``initialize`` is next."""
        wanted = self._pin if self._pin in STATELESS else STATELESS[0]
        method = "server/discover"
        self._is_probe_open = False
        for _ in range(2):
            outcome: Any = None
            while outcome is None:
                self._probes += 1
                headers = {PROTOCOL_VERSION: wanted, **dict(request_headers(method))}
                params = discover_params(wanted, self._client)
                outcome = yield Ask(method, params, wanted, True, headers)
                if isinstance(outcome, AnsweredWithError | Failed) and is_busy(outcome):
                    yield from self._wait(outcome)
                    if self._pin is None:
                        self._is_probe_open = True
                        return None
                    outcome = None
            chosen = self._judge_probe(outcome, wanted)
            if not isinstance(chosen, str):
                return chosen
            wanted = chosen
        raise NegotiationError(f"the server lists {wanted} among its versions but refuses it")

    def _judge_probe(self, outcome: Outcome, wanted: str) -> Era | str | None:
        """The stateless era, a revision to ask for, or None if ``initialize`` is next."""
        match outcome:
            case Answered(result):
                found = _discovered(self._client, wanted, result)
                if isinstance(found, Era):
                    return found
                self._offers = found or HANDSHAKE
            case AnsweredWithError(code=code) if code == _UNSUPPORTED_VERSION:
                chosen = choose(supported_by(outcome.data), wanted, outcome.message)
                if isinstance(chosen, str):
                    return chosen
                self._offers = chosen
            case AnsweredWithError(code=code) if code in _STATELESS_CODES:
                raise refused_probe(outcome)
            case AnsweredWithError() | Failed():
                self._judge_refused_probe(outcome)
            case Silent():
                self._deviations.append(_NO_RESPONSE)
        if self._pin is not None:
            why = f": {outcome.error.args[0]}" if isinstance(outcome, Failed) else ""
            raise NegotiationError(
                f"the server does not support the required revision ({self._pin}){why}",
                advice=Advice("drop revision= to let older revisions be tried", "revision"),
            )
        return None

    def _judge_refused_probe(self, outcome: AnsweredWithError | Failed) -> None:
        """Note whether the refusal is about the method; raise an error about every request."""
        meaning = _meaning(outcome)
        self._is_probe_open = meaning in (_Meaning.LOCKED, _Meaning.FAULT)
        if not self._is_probe_open or isinstance(outcome, AnsweredWithError):
            return
        # A gateway may refuse the method as if it were the credentials, or a fault.
        is_of_all = meaning is _Meaning.LOCKED and not may_be_the_method(outcome)
        if is_of_all or self._pin is not None or self._probes > 1:
            raise outcome.error
        self._deviations.append(_UNKNOWN_METHOD)

    # ------------------------------------------------------------------------ initialize

    def _initialize(self) -> Generator[Step, Outcome | None, Era | Refusal]:
        offer = self._offer
        self._offered.append(offer)
        may_be_replaced = self._probes > 0 and _Move.RESTART not in self._made
        params = initialize_params(offer, self._client)
        outcome: Any = yield Ask("initialize", params, offer, replaces=may_be_replaced)
        if not isinstance(outcome, Answered):
            return outcome  # type: ignore[no-any-return]
        result = outcome.result
        era = HandshakeEra.from_initialize(accepted_revision(result, self._pin), result)
        for deviation in self._deviations:
            yield Accept(deviation)
        yield Notify("notifications/initialized", era)
        return era

    def _after(self, outcome: Refusal) -> _Found:
        """Make the first move that is possible. Raises the error if there is none."""
        for move in _AFTER_INITIALIZE[_meaning(outcome, self._offer)]:
            if move in self._made or move not in self._possible:
                continue
            self._made.add(move)
            found = yield from self._make(move, outcome)
            if isinstance(found, Era):
                return found
            if found is None:
                return None  # initialize again
            outcome = found
        raise self._error(outcome)

    def _make(
        self, move: _Move, outcome: Refusal
    ) -> Generator[Step, Outcome | None, Era | Refusal | None]:
        """Return the era, None if ``initialize`` is next, or the response if the move failed."""
        match move:
            case _Move.LISTED | _Move.OLDER:
                return self._other_offer(move, outcome)
            case _Move.WAIT:
                self._made.discard(move)
                assert not isinstance(outcome, Silent)
                yield from self._wait(outcome)
                return None
            case _Move.OTHER_WAY:
                return (yield from self._other_way(outcome))
            case _Move.LATE if self._probes:
                late = yield CheckLateAnswer()
                if isinstance(late, Answered):
                    found = _discovered(self._client, STATELESS[0], late.result)
                    if isinstance(found, Era):
                        return found
            case _Move.PROBE if self._is_probe_open:
                return (yield from self._probe()) or outcome
            case _Move.RESTART if not self._probes:
                # What is remembered about the server is out of date.
                yield from _restart()
                self._made.discard(move)
                found = yield from self._probe()
                self._offer = self._offers[0]
                return found
            case _Move.RESTART if _restart_helps(outcome):
                yield from _restart()
                if not _blames_revision(outcome, self._offer):
                    self._offer = self._offers[0]
                return None
        return outcome

    def _other_offer(self, move: _Move, outcome: Refusal) -> Refusal | None:
        others = _listed(outcome, self._offer)
        if move is _Move.OLDER:
            others = tuple(each for each in self._offers if each < self._offer)
        if not others:
            return outcome
        self._offer = others[0]
        self._deviations.append(_OLDER_REVISION)
        return None

    def _other_way(self, outcome: Refusal) -> Generator[Step, Outcome | None, Refusal | None]:
        if isinstance(outcome, Silent) or _terms(outcome)[0] is None:
            return outcome
        other = yield OtherWay(outcome)
        while isinstance(other, Failed) and is_busy(other):
            yield from self._wait(other)
            other = yield OtherWay(outcome)
        if other is None:
            self._offer = self._offers[0]
            return None
        assert not isinstance(other, Answered)
        return other

    def _wait(self, outcome: AnsweredWithError | Failed) -> Generator[Step, Outcome | None, None]:
        self._waits += 1
        if self._waits > MAX_WAITS or (yield Wait(outcome, self._waits)) is not None:
            raise self._error(outcome)

    def _error(self, outcome: Refusal) -> McpError:
        """The error to raise, if nothing more can be done after ``outcome``."""
        offered = " and ".join(dict.fromkeys(self._offered))
        advice = None
        if self._pin not in (*HANDSHAKE, *STATELESS) and len(set(self._offered)) > 1:
            name = f"if the server speaks another revision, name it: revision={HANDSHAKE[-1]!r}"
            advice = Advice(name, "revision")
        elif self._pin == "handshake" and _meaning(outcome) is _Meaning.STATELESS:
            advice = Advice("drop revision= to let the stateless era be tried", "revision")
        match outcome:
            case AnsweredWithError(code=code, message=message):
                busy = is_busy(outcome)
                kind = ConnectError if busy else NegotiationError
                what = f"initialize with {offered}" if offered else "server/discover"
                return kind(
                    f"the server refuses {what}: {message[:200]} (code {code})",
                    advice=advice,
                    http_status=None if outcome.status == 200 else outcome.status,
                    retry_after=_terms(outcome)[1],
                    retryable=busy,
                )
            case Failed(error):
                if advice is not None:
                    error.args = (f"{error.args[0]} (initialize with {offered})", *error.args[1:])
                    error.advice = error.advice or advice
                return error
            case _:
                return ConnectError("the server does not answer initialize", retryable=True)


def is_busy(outcome: AnsweredWithError | Failed) -> bool:
    """Return whether the server asks to be asked later."""
    return _meaning(outcome) is _Meaning.BUSY


def passes(outcome: AnsweredWithError | Failed) -> bool:
    """Return whether the same request may succeed later."""
    return _meaning(outcome) in (_Meaning.BUSY, _Meaning.FAULT)


def _restart_helps(outcome: Refusal) -> bool:
    """Return whether a restarted server may respond differently: not if it is a web server."""
    if isinstance(outcome, Silent):
        return True
    if isinstance(outcome, Failed) and not outcome.may_pass:
        return False
    return _terms(outcome)[0] is None


def _blames_revision(outcome: Refusal, offered: str) -> bool:
    if isinstance(outcome, Silent):
        return False
    return bool(_listed(outcome, offered) or _OF_REVISIONS.search(_terms(outcome)[2]))


def _restart() -> Generator[Step, Outcome | None, None]:
    outcome = yield Restart()
    if isinstance(outcome, Failed):
        raise outcome.error


# ----------------------------------------------------------------------- revisions


def _discovered(
    client: ClientDeclaration, wanted: str, result: Any
) -> Era | tuple[str, ...] | None:
    """Parse a result of the probe; None if it is not a ``DiscoverResult``."""
    versions = result.get("supportedVersions") if isinstance(result, dict) else None
    if not isinstance(versions, list):
        return None
    chosen = choose(versions, wanted, "")
    if isinstance(chosen, tuple):
        return chosen
    return StatelessEra.from_discover(chosen, result, client)
