"""What an era does to a request and makes of a result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.capabilities import (
    HANDSHAKE,
    STATELESS,
    ClientDeclaration,
    Implementation,
    ServerFacts,
    is_known,
)
from mcp_client.protocol.era import (
    Complete,
    Era,
    HandshakeEra,
    InputRequired,
    Malformed,
    StatelessEra,
)
from mcp_client.protocol.jsonrpc import Id, Json, Notification

PREFIX = "io.modelcontextprotocol/"
CLIENT = ClientDeclaration(Implementation("tester", "1", "Tester é"), {"elicitation": {}})
NO_FACTS = ServerFacts(None, {}, None)
OWN = {
    PREFIX + "protocolVersion": STATELESS[0],
    PREFIX + "clientInfo": {"name": "tester", "version": "1", "title": "Tester é"},
    PREFIX + "clientCapabilities": {"elicitation": {}},
}
HANDSHAKEN = HandshakeEra(HANDSHAKE[0], NO_FACTS)
STANDALONE = StatelessEra(STATELESS[0], NO_FACTS, CLIENT)
BOTH = pytest.mark.parametrize("era", [HANDSHAKEN, STANDALONE], ids=["handshake", "stateless"])


def stamped(
    era: Era, fields: dict[str, Any], meta: dict[str, Any] | None = None, token: Id | None = None
) -> dict[str, Any]:
    params: dict[str, Any] = json.loads(era.params(fields, meta, token))
    return params


# ----------------------------------------------------------------- stamping


@pytest.mark.parametrize("fields", [{}, {"cursor": ""}, {"name": "t", "arguments": {"a": [1]}}])
def test_the_stateless_era_stamps_every_request(fields: dict[str, Any]) -> None:
    assert stamped(STANDALONE, fields) == {**fields, "_meta": OWN}


def test_the_handshake_era_stamps_nothing_unasked() -> None:
    assert stamped(HANDSHAKEN, {"cursor": "x"}) == {"cursor": "x"}
    assert stamped(HANDSHAKEN, {}) == {}


@BOTH
@pytest.mark.parametrize("token", [1, 0, "t"])
def test_a_progress_token_goes_into_meta(era: Era, token: Id) -> None:
    assert stamped(era, {"a": 1}, None, token)["_meta"]["progressToken"] == token


@BOTH
def test_the_callers_own_meta_is_left(era: Era) -> None:
    meta = {"com.example/trace": {"id": "é"}, "traceparent": "00-1"}
    sent = stamped(era, {"a": 1}, meta, 7)["_meta"]
    assert sent["com.example/trace"] == {"id": "é"}
    assert sent["traceparent"] == "00-1"
    assert sent["progressToken"] == 7


@BOTH
def test_the_token_we_give_wins_over_the_callers(era: Era) -> None:
    text = era.params({}, {"progressToken": "mine", "x": 1}, 7)
    assert json.loads(text)["_meta"]["progressToken"] == 7
    assert text.count("progressToken") == 1


@BOTH
def test_a_token_of_the_callers_is_not_sent_without_ours(era: Era) -> None:
    sent = stamped(era, {"a": 1}, {"progressToken": 7, "x": 1})["_meta"]
    assert sent["x"] == 1
    assert "progressToken" not in sent
    assert "progressToken" not in era.params({}, {"progressToken": 7}, None)


@given(
    st.dictionaries(st.sampled_from([*OWN, "progressToken", "x", "y/z"]), st.integers() | st.text())
)
def test_reserved_keys_of_the_caller_never_reach_a_stateless_server(meta: dict[str, Any]) -> None:
    text = STANDALONE.params({}, meta, 3)
    sent = json.loads(text)["_meta"]
    assert sent == {**meta, **OWN, "progressToken": 3}
    assert all(text.count(json.dumps(key)) == 1 for key in OWN)


def test_the_callers_meta_is_not_changed() -> None:
    meta = {"progressToken": "mine", PREFIX + "clientInfo": {}}
    for era in (HANDSHAKEN, STANDALONE):
        era.params({}, meta, 1)
    assert meta == {"progressToken": "mine", PREFIX + "clientInfo": {}}


@BOTH
def test_frozen_arguments_are_spliced_in_as_they_are(era: Era) -> None:
    assert '"arguments":{"b" : 1}' in era.params({"arguments": Json('{"b" : 1}')}, {"x": 1}, 1)


# ------------------------------------------------------------------ reading


@BOTH
@pytest.mark.parametrize("result", [{}, {"tools": []}, {"resultType": "complete", "x": 1}])
def test_a_result_is_complete_also_without_a_result_type(era: Era, result: dict[str, Any]) -> None:
    assert era.read(result) == Complete(result)


@BOTH
@pytest.mark.parametrize("result", [None, [], "x", 7, True])
def test_a_result_that_is_not_an_object_is_malformed(era: Era, result: object) -> None:
    with pytest.raises(Malformed, match="not a JSON object"):
        era.read(result)


@pytest.mark.parametrize("kind", ["task", "", 7, "COMPLETE", ["complete"], "x" * 5_000])
def test_an_unknown_result_type_breaks_the_promise_of_the_stateless_era(kind: object) -> None:
    with pytest.raises(Malformed, match="resultType is") as caught:
        STANDALONE.read({"resultType": kind, "content": []})
    assert len(str(caught.value)) < 120


def test_the_handshake_era_knows_no_result_type() -> None:
    result = {"resultType": "input_required", "content": []}
    assert HANDSHAKEN.read(result) == Complete(result)


@pytest.mark.parametrize(
    ("members", "questions", "state"),
    [
        ({"requestState": "s"}, {}, "s"),
        ({"requestState": ""}, {}, ""),
        ({"inputRequests": {"a": {}}}, {"a": {}}, None),
        ({"inputRequests": {"a": {}}, "requestState": "s"}, {"a": {}}, "s"),
        ({"inputRequests": None, "requestState": "s"}, {}, "s"),
    ],
)
def test_input_required_carries_its_questions_and_its_state(
    members: dict[str, Any], questions: dict[str, Any], state: str | None
) -> None:
    result = {"resultType": "input_required", **members}
    assert STANDALONE.read(result) == InputRequired(questions, state, result)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, "without"),
        ({"inputRequests": None, "requestState": None}, "without"),
        ({"inputRequests": []}, "not an object"),
        ({"inputRequests": "x", "requestState": "s"}, "not an object"),
        ({"requestState": 7}, "not a string"),
        ({"inputRequests": {"a": {}}, "requestState": {}}, "not a string"),
    ],
)
def test_input_required_that_breaks_its_rules_is_malformed(
    members: dict[str, Any], expected: str
) -> None:
    with pytest.raises(Malformed, match=expected):
        STANDALONE.read({"resultType": "input_required", **members})


# ------------------------------------------------------------------- owners


@BOTH
@pytest.mark.parametrize(
    ("notice", "owner"),
    [
        (Notification("notifications/progress", {"progressToken": 7}), 7),
        (Notification("notifications/progress", {"progressToken": "7"}), 7),
        (Notification("notifications/progress", {"progressToken": "07"}), "07"),
        (Notification("notifications/progress", {"progressToken": True}), None),
        (Notification("notifications/progress", {"progressToken": 7.0}), 7),
        (Notification("notifications/progress", {"progressToken": 7.5}), None),
        (Notification("notifications/progress", {"progressToken": [7]}), None),
        (Notification("notifications/progress", {}), None),
        (Notification("notifications/message", {"progressToken": 7}), None),
        (Notification("notifications/tools/list_changed", {}), None),
    ],
)
def test_progress_belongs_to_the_request_whose_token_it_has(
    era: Era, notice: Notification, owner: Id | None
) -> None:
    assert era.owner(notice) == owner


@pytest.mark.parametrize(
    ("meta", "owner"), [({PREFIX + "subscriptionId": 4}, 4), ({}, None), ([4], None), (None, None)]
)
def test_a_notice_of_a_subscription_belongs_to_it_in_the_stateless_era_only(
    meta: Any, owner: Id | None
) -> None:
    notice = Notification("notifications/tools/list_changed", {"_meta": meta})
    assert STANDALONE.owner(notice) == owner
    assert HANDSHAKEN.owner(notice) is None


def test_a_subscription_id_of_a_wrong_type_names_no_one() -> None:
    meta = {PREFIX + "subscriptionId": {"a": 1}}
    assert STANDALONE.owner(Notification("notifications/progress", {"_meta": meta})) is None


# ------------------------------------------------------------ who the server is


@pytest.mark.parametrize(
    "result",
    [
        {"_meta": {PREFIX + "serverInfo": {"name": "s", "version": "2"}}},
        {"serverInfo": {"name": "s", "version": "2"}},
        {"_meta": {}, "serverInfo": {"name": "s", "version": "2"}},
        {"_meta": 7, "serverInfo": {"name": "s", "version": "2"}},
        {
            "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "2"}},
            "serverInfo": {"name": "other", "version": "0"},
        },
    ],
)
def test_a_stateless_server_introduces_itself_in_meta_or_in_the_body(
    result: dict[str, Any],
) -> None:
    era = StatelessEra.from_discover(STATELESS[0], result, CLIENT)
    assert era.server.info == Implementation("s", "2")


def test_a_handshake_server_introduces_itself_in_the_body() -> None:
    result = {"serverInfo": {"name": "s", "version": "2"}, "instructions": "be kind"}
    era = HandshakeEra.from_initialize(HANDSHAKE[1], result)
    assert (era.revision, era.server.info) == (HANDSHAKE[1], Implementation("s", "2"))
    assert era.server.instructions == "be kind"


def test_the_two_eras_differ_in_what_the_specification_changed() -> None:
    assert (STANDALONE.closing_cancels, STANDALONE.server_may_ask) == (True, False)
    assert (HANDSHAKEN.closing_cancels, HANDSHAKEN.server_may_ask) == (False, True)


def test_the_known_revisions_are_the_published_ones() -> None:
    assert all(is_known(revision) for revision in (*HANDSHAKE, *STATELESS))
    assert not any(is_known(odd) for odd in ("", "draft", "2026-07-29"))
    assert sorted((*HANDSHAKE, *STATELESS), reverse=True) == [*STATELESS, *HANDSHAKE]
