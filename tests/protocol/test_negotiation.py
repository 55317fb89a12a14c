"""Agreeing on a revision, played from tables: what is asked, and what comes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.errors import AuthError, ConnectError, McpError, NegotiationError
from mcp_client.protocol.capabilities import (
    ERAS,
    HANDSHAKE,
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
    ClientDeclaration,
    Implementation,
)
from mcp_client.protocol.era import Era, HandshakeEra, StatelessEra
from mcp_client.protocol.negotiation import MAX_REQUESTS, MAX_WAITS, negotiate
from mcp_client.protocol.opening import (
    Accept,
    Answered,
    AnsweredWithError,
    Ask,
    CheckLateAnswer,
    Failed,
    Notify,
    OtherWay,
    Outcome,
    Restart,
    Silent,
    Step,
    Wait,
)

CLIENT = ClientDeclaration(Implementation("tester", "1"), {"roots": {}})
DIED = Failed(ConnectError("it died"))
UNKNOWN_METHOD = AnsweredWithError(-32601, "method not found")
S = LATEST_STATELESS
NEW, MIDDLE, OLD, OLDEST = HANDSHAKE

Log: TypeAlias = list[str]


def discovered(*versions: str) -> Answered:
    return Answered({"supportedVersions": list(versions), "capabilities": {"tools": {}}})


def accepted(revision: str) -> Answered:
    return Answered({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s"}})


def http(
    status: int, reported: str = "no", *, key: bool = False, after: float | None = None
) -> Failed:
    kind = AuthError if status in (401, 403) else ConnectError
    error = kind(reported, http_status=status, body_excerpt=reported, retry_after=after)
    return Failed(error, with_credentials=key)


def unsupported(*versions: Any) -> AnsweredWithError:
    return AnsweredWithError(-32022, "unsupported", {"supported": list(versions)})


@dataclass
class Played:
    log: Log = field(default_factory=list)
    """``probe:<revision>``, ``initialize:<revision>``, ``tell``, ``restart``, ``recall``,
    ``wait``, ``other``."""
    accepted: Log = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    era: Era | None = None
    error: McpError | None = None


def play(
    outcomes: list[Outcome],
    *,
    pin: str | None = None,
    skip_probe: bool = False,
    restart: Outcome | None = None,
    recall: Outcome | None = None,
    has_other: bool = False,
    wait: Outcome | None = None,
) -> Played:
    """Answer each ``Ask`` with the next of ``outcomes``; the last is repeated for ever."""
    played, answers, last = Played(), iter(outcomes), outcomes[-1]
    talk = negotiate(CLIENT, pin, skip_probe=skip_probe)
    step: Step
    sent: Outcome | None = None
    while True:
        try:
            step = talk.send(sent)
        except StopIteration as done:
            played.era = done.value
            return played
        except McpError as error:
            played.error = error
            return played
        match step:
            case Ask():
                assert step.probe is (step.method == "server/discover")
                played.asks.append(step)
                what = "probe" if step.probe else step.method
                played.log.append(f"{what}:{step.revision}")
                sent = next(answers, last)
            case Notify(method=method):
                assert method == "notifications/initialized"
                played.log.append("tell")
                sent = None
            case Restart():
                played.log.append("restart")
                sent = restart
            case Accept(deviation=deviation):
                played.accepted.append(deviation)
            case Wait():
                played.log.append("wait")
                sent = wait
            case OtherWay(refused=refused):
                played.log.append("other")
                sent = None if has_other else refused
            case CheckLateAnswer():
                played.log.append("recall")
                sent = recall or Silent()


P, I0 = f"probe:{S}", f"initialize:{NEW}"

AGREED: list[tuple[str, list[Outcome], str, Log]] = [
    ("a DiscoverResult is a stateless server", [discovered(S)], S, [P]),
    ("its versions may hold others", [discovered("2099-01-01", NEW, S)], S, [P]),
    ("-32022 naming ours is asked again", [unsupported(S), discovered(S)], S, [P, P]),
    (
        "-32022 naming only handshake revisions means initialize",
        [unsupported(MIDDLE, OLDEST), accepted(MIDDLE)],
        MIDDLE,
        [P, f"initialize:{MIDDLE}", "tell"],
    ),
    (
        "a DiscoverResult of handshake revisions means initialize with the newest of them",
        [discovered(OLDEST, OLD), accepted(OLD)],
        OLD,
        [P, f"initialize:{OLD}", "tell"],
    ),
    ("an unknown method means handshake", [UNKNOWN_METHOD, accepted(NEW)], NEW, [P, I0, "tell"]),
    ("error code 0 likewise", [AnsweredWithError(0, "eh"), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("-32602 likewise", [AnsweredWithError(-32602, "eh"), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("-32000 likewise", [AnsweredWithError(-32000, "eh"), accepted(OLD)], OLD, [P, I0, "tell"]),
    ("an empty result likewise", [Answered({}), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("a result that is not an object", [Answered([1]), accepted(NEW)], NEW, [P, I0, "tell"]),
    (
        "versions that are not a list",
        [Answered({"supportedVersions": S}), accepted(NEW)],
        NEW,
        [P, I0, "tell"],
    ),
    ("silence likewise", [Silent(), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("a death of the probe is tried at once", [DIED, accepted(NEW)], NEW, [P, I0, "tell"]),
    (
        "-32602 that names what is supported is offered that",
        [
            UNKNOWN_METHOD,
            AnsweredWithError(-32602, "no", {"supported": [OLDEST, OLD]}),
            accepted(OLD),
        ],
        OLD,
        [P, I0, f"initialize:{OLD}", "tell"],
    ),
    (
        "a server that dies of the probe is started again",
        [Silent(), DIED, accepted(NEW)],
        NEW,
        [P, I0, "recall", "restart", I0, "tell"],
    ),
    (
        "a server that refuses initialize after the probe is started again",
        [UNKNOWN_METHOD, AnsweredWithError(-32600, "too late"), accepted(NEW)],
        NEW,
        [P, I0, "recall", "restart", I0, "tell"],
    ),
    (
        "a server silent on initialize after the probe is started again",
        [Silent(), Silent(), accepted(OLDEST)],
        OLDEST,
        [P, I0, "recall", "restart", I0, "tell"],
    ),
]
I1 = f"initialize:{MIDDLE}"
BUSY, LOCKED = http(429, after=1.0), http(401, key=True)
AGREED += [
    ("400 to the newest: an older one", [UNKNOWN_METHOD, http(400), accepted(MIDDLE)], MIDDLE,
     [P, I0, I1, "tell"]),
    ("-32602 without a list: likewise",
     [UNKNOWN_METHOD, AnsweredWithError(-32602, "no"), accepted(MIDDLE)], MIDDLE,
     [P, I0, I1, "tell"]),
    ("a list in words", [UNKNOWN_METHOD, http(500, "only 2024-11-05"), accepted(OLDEST)], OLDEST,
     [P, I0, f"initialize:{OLDEST}", "tell"]),
    ("429 to the probe is not followed by another", [BUSY, accepted(NEW)], NEW,
     [P, "wait", I0, "tell"]),
    ("429 to initialize", [UNKNOWN_METHOD, BUSY, BUSY, accepted(NEW)], NEW,
     [P, I0, "wait", I0, "wait", I0, "tell"]),
    ("429 to the probe of a stateless server", [BUSY, UNKNOWN_METHOD, discovered(S)], S,
     [P, "wait", I0, "recall", P]),
    ("401 with credentials", [LOCKED, accepted(NEW)], NEW, [P, I0, "tell"]),
    ("403 without a challenge", [http(403), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("502", [http(502), accepted(NEW)], NEW, [P, I0, "tell"]),
    ("502 of a stateless server", [http(502), UNKNOWN_METHOD, discovered(S)], S,
     [P, I0, "recall", P]),
]  # fmt: skip
for revision in HANDSHAKE:
    outcomes: list[Outcome] = [UNKNOWN_METHOD, accepted(revision)]
    AGREED.append((f"initialize takes {revision}", outcomes, revision, [P, I0, "tell"]))


@pytest.mark.parametrize(
    ("outcomes", "revision", "log"), [row[1:] for row in AGREED], ids=[row[0] for row in AGREED]
)
def test_a_server_is_agreed_with(outcomes: list[Outcome], revision: str, log: Log) -> None:
    played = play(outcomes)
    assert played.error is None
    assert played.era is not None
    assert played.era.revision == revision
    assert isinstance(played.era, HandshakeEra if revision in HANDSHAKE else StatelessEra)
    assert played.log == log


def test_a_late_response_to_the_probe_counts_where_initialize_failed() -> None:
    played = play([Silent(), AnsweredWithError(-32601, "no such method")], recall=discovered(S))
    assert isinstance(played.era, StatelessEra)
    assert played.log == [P, I0, "recall"]


@pytest.mark.parametrize("late", [Answered({}), discovered(NEW), Silent()])
def test_a_late_response_that_is_not_a_stateless_one_changes_nothing(late: Outcome) -> None:
    played = play([Silent(), DIED, accepted(NEW)], recall=late)
    assert isinstance(played.era, HandshakeEra)
    assert played.log == [P, I0, "recall", "restart", I0, "tell"]


FAILED: list[tuple[str, list[Outcome], str, Log]] = [
    ("-32020", [AnsweredWithError(-32020, "header")], "refuses server/discover: header", [P]),
    ("-32021", [AnsweredWithError(-32021, "capability")], "refuses server/discover", [P]),
    ("-32022 with versions unknown to us", [unsupported("2099-01-01")], "lists 2099-01-01", [P]),
    ("-32022 with none", [AnsweredWithError(-32022, "no")], "the server lists none", [P]),
    (
        "-32022 with data that is not an object",
        [AnsweredWithError(-32022, "no", [S])],
        "lists none",
        [P],
    ),
    ("-32022 with odd versions", [unsupported(7, None, {"a": 1})], "lists 7, None", [P]),
    ("-32022 naming ours twice", [unsupported(S)], "but refuses it", [P, P]),
    ("a DiscoverResult of no known version", [discovered("2099-01-01")], "in common", [P]),
    ("a DiscoverResult of no version", [discovered()], "lists none", [P]),
    (
        "initialize answered with an unknown revision",
        [UNKNOWN_METHOD, accepted("2020-01-01")],
        "chose '2020-01-01'",
        [P, I0],
    ),
    (
        "initialize answered with a stateless revision",
        [UNKNOWN_METHOD, accepted(S)],
        "which is not supported",
        [P, I0],
    ),
    (
        "initialize answered with no revision",
        [UNKNOWN_METHOD, Answered({"capabilities": {}})],
        "has no protocolVersion",
        [P, I0],
    ),
    ("initialize answered with null", [UNKNOWN_METHOD, Answered(None)], "has no", [P, I0]),
    (
        "initialize refused twice",
        [UNKNOWN_METHOD, AnsweredWithError(-32603, "broken")],
        f"refuses initialize with {NEW}: broken (code -32603)",
        [P, I0, "recall", "restart", I0],
    ),
    ("death everywhere", [DIED], "it died", [P, I0, "recall", "restart", I0]),
    (
        "silence everywhere",
        [Silent()],
        "does not answer initialize",
        [P, I0, "recall", "restart", I0],
    ),
]


FAILED += [
    ("400 to both", [UNKNOWN_METHOD, http(400)], "revision=", [P, I0, I1, "other", "recall"]),
    ("401 without credentials", [http(401)], "no", [P]),
    ("401 to both", [LOCKED], "no", [P, I0]),
    ("401 of a stateless server", [LOCKED, UNKNOWN_METHOD, LOCKED], "no", [P, I0, "recall", P]),
    ("502 to initialize", [UNKNOWN_METHOD, http(502)], "no", [P, I0]),
    ("busy for ever", [BUSY], "no", [P, "wait", I0, "wait", I0, "wait", I0]),
]


def test_the_other_way_is_gone_where_nothing_is_served_by_this_one() -> None:
    played = play([UNKNOWN_METHOD, http(404), accepted(OLDEST)], has_other=True)
    assert played.log == [P, I0, "other", I0, "tell"]


def test_a_wait_that_takes_too_long_ends_with_the_refusal() -> None:
    played = play([BUSY, accepted(NEW)], wait=BUSY)
    assert played.error is BUSY.error
    assert played.log == [P, "wait"]


def test_what_is_accepted_is_reported_once_it_was_in_order() -> None:
    assert len(play([LOCKED, http(400), accepted(OLD)]).accepted) == 2
    assert play([LOCKED, http(400)]).accepted == []
    assert play([UNKNOWN_METHOD, accepted(OLD)]).accepted == []


@pytest.mark.parametrize(
    ("outcomes", "expected", "log"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED]
)
def test_a_server_cannot_be_agreed_with(outcomes: list[Outcome], expected: str, log: Log) -> None:
    played = play(outcomes)
    assert isinstance(played.error, ConnectError)
    assert expected in str(played.error)
    assert played.log == log


def test_a_fifth_question_is_not_asked() -> None:
    other = AnsweredWithError(-32602, "no", {"supported": [OLD]})
    played = play([unsupported(S), UNKNOWN_METHOD, other, AnsweredWithError(-32600, "no")])
    assert isinstance(played.error, NegotiationError)
    assert "no revision was agreed after 4 requests" in str(played.error)
    assert played.log == [P, P, I0, f"initialize:{OLD}", "recall", "restart"]


def test_a_restart_that_fails_ends_it_with_its_own_error() -> None:
    gone = Failed(ConnectError("it cannot be started"))
    assert play([Silent(), DIED], restart=gone).error is gone.error


# ----------------------------------------------------------------- revision=


@pytest.mark.parametrize("pin", HANDSHAKE)
def test_a_handshake_pin_asks_initialize_with_it_and_nothing_else(pin: str) -> None:
    played = play([accepted(pin)], pin=pin)
    assert played.era is not None
    assert played.era.revision == pin
    assert played.log == [f"initialize:{pin}", "tell"]


def test_a_handshake_pin_refuses_another_revision() -> None:
    played = play([accepted(OLD)], pin=NEW)
    assert isinstance(played.error, NegotiationError)
    assert "drop revision=" in str(played.error)
    assert "tell" not in played.log


def test_a_handshake_pin_does_not_try_what_the_server_names_instead() -> None:
    played = play([AnsweredWithError(-32602, "no", {"supported": [OLD]})], pin=NEW)
    assert isinstance(played.error, NegotiationError)
    assert played.log == [I0]


def test_a_stateless_pin_takes_a_stateless_server() -> None:
    played = play([discovered(S, NEW)], pin=S)
    assert played.era is not None
    assert played.era.revision == S


@pytest.mark.parametrize(
    "outcome", [UNKNOWN_METHOD, Silent(), DIED, unsupported(NEW), discovered(NEW)]
)
def test_a_stateless_pin_never_falls_back(outcome: Outcome) -> None:
    played = play([outcome], pin=S)
    assert isinstance(played.error, NegotiationError)
    assert "drop revision=" in str(played.error)
    assert played.log == [P]


@pytest.mark.parametrize("skip_probe", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "revision", "log"),
    [
        *(([accepted(revision)], revision, [I0, "tell"]) for revision in HANDSHAKE),
        ([http(400), accepted(OLD)], OLD, [I0, f"initialize:{MIDDLE}", "tell"]),
        ([AnsweredWithError(-32602, "no", {"supported": [OLD]}), accepted(OLD)], OLD,
         [I0, f"initialize:{OLD}", "tell"]),
        ([http(429), accepted(NEW)], NEW, [I0, "wait", I0, "tell"]),
    ],
)  # fmt: skip
def test_the_handshake_era_is_agreed_on_without_a_probe(
    outcomes: list[Outcome], revision: str, log: Log, skip_probe: bool
) -> None:
    played = play(outcomes, pin="handshake", skip_probe=skip_probe)
    assert played.era is not None
    assert played.era.revision == revision
    assert played.log == log


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (UNKNOWN_METHOD, "refuses initialize"),
        (unsupported(S), "drop revision="),
        (AnsweredWithError(-32020, "header"), "drop revision="),
        (Silent(), "does not answer initialize"),
        (DIED, "it died"),
        (accepted(S), "not supported"),
    ],
)
def test_only_the_handshake_era_is_tried_where_it_alone_is_wanted(
    outcome: Outcome, expected: str
) -> None:
    played = play([outcome], pin="handshake", skip_probe=True, recall=discovered(S))
    assert expected in str(played.error)
    assert played.log == [I0]


def test_the_stateless_era_is_agreed_on_where_it_is_wanted() -> None:
    played = play([unsupported(S), discovered(S, NEW)], pin="stateless", skip_probe=True)
    assert played.era is not None
    assert played.era.revision == S
    assert played.log == [P, P]


@pytest.mark.parametrize(
    "outcome", [UNKNOWN_METHOD, Silent(), DIED, unsupported(NEW), discovered(NEW), http(401)]
)
def test_only_the_stateless_era_is_tried_where_it_alone_is_wanted(outcome: Outcome) -> None:
    played = play([outcome], pin="stateless")
    assert isinstance(played.error, ConnectError)
    assert isinstance(outcome, Failed) or "the required revision (stateless)" in str(played.error)
    assert played.log == [P]


# -------------------------------------------------------- a remembered answer


def test_a_server_remembered_to_want_initialize_receives_it_first() -> None:
    played = play([accepted(OLDEST)], skip_probe=True)
    assert played.era is not None
    assert played.log == [I0, "tell"]


def test_what_was_remembered_may_have_changed() -> None:
    played = play([UNKNOWN_METHOD, discovered(S)], skip_probe=True)
    assert isinstance(played.era, StatelessEra)
    assert played.log == [I0, "restart", P]


def test_a_pin_goes_before_memory() -> None:
    assert play([discovered(S)], pin=S, skip_probe=True).log == [P]


# ---------------------------------------------------------------- what is sent


def test_the_probe_names_who_asks_and_in_which_revision() -> None:
    (ask,) = play([discovered(S)]).asks
    meta = json.loads(ask.params)["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == S
    assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "tester", "version": "1"}
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}


def test_initialize_names_who_asks_and_which_revision_is_offered() -> None:
    _, ask = play([UNKNOWN_METHOD, accepted(OLD)]).asks
    assert json.loads(ask.params) == {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "tester", "version": "1"},
    }


# ----------------------------------------------------------- whatever happens

any_versions = st.lists(
    st.sampled_from([*HANDSHAKE, S, "2099-01-01"]) | st.none() | st.integers(), max_size=4
)
any_outcome: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Silent()),
    st.just(DIED),
    st.builds(
        http,
        st.sampled_from([400, 401, 403, 404, 429, 500, 502, 503]),
        st.sampled_from(["no", "version", OLD]),
        key=st.booleans(),
        after=st.none() | st.just(1.0),
    ),
    st.builds(
        Answered,
        st.none()
        | st.builds(lambda v: {"supportedVersions": v}, any_versions | st.text())
        | st.builds(
            lambda v: {"protocolVersion": v}, st.sampled_from([*HANDSHAKE, S, "x"]) | st.none()
        ),
    ),
    st.builds(
        AnsweredWithError,
        st.sampled_from([-32022, -32021, -32020, -32602, -32601, -32600, 0]),
        st.text(max_size=5),
        st.none() | st.text() | st.builds(lambda v: {"supported": v}, any_versions),
    ),
)
pins = st.sampled_from([None, None, S, *HANDSHAKE, *ERAS])


@given(
    st.lists(any_outcome, min_size=1, max_size=8),
    pins,
    st.booleans(),
    st.sampled_from([None, DIED]),
    any_outcome,
)
def test_any_outcomes_end_in_an_era_or_an_error_within_four_asks(
    outcomes: list[Outcome],
    pin: str | None,
    skip_probe: bool,
    restart: Outcome | None,
    recall: Outcome,
) -> None:
    played = play(outcomes, pin=pin, skip_probe=skip_probe, restart=restart, recall=recall)
    assert played.log.count("wait") <= MAX_WAITS
    assert len(played.asks) - played.log.count("wait") <= MAX_REQUESTS == 4
    assert (played.era is None) is not (played.error is None)
    wanted = ERAS.get(pin or "", [pin])
    assert played.era is None or pin is None or played.era.revision in wanted


@given(
    st.sampled_from([-32020, -32021, -32022]),
    st.none() | st.lists(st.sampled_from([S, "2099-01-01", None]), max_size=3),
    st.lists(any_outcome, min_size=1, max_size=6),
)
def test_a_recognised_stateless_error_without_handshake_versions_never_falls_back(
    code: int, versions: list[Any] | None, then: list[Outcome]
) -> None:
    first = AnsweredWithError(code, "no", None if versions is None else {"supported": versions})
    played = play([first, *then])
    # Whatever a second probe brings is another answer, judged by itself.
    if len([line for line in played.log if line == P]) == 1:
        assert not any(line.startswith("initialize") for line in played.log)
        assert isinstance(played.error, NegotiationError)
