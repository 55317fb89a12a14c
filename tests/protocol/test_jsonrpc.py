"""Bytes to messages and back: whatever comes, it is messages or one ``InvalidFrame``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.jsonrpc import (
    ErrorResponse,
    Id,
    InvalidFrame,
    Json,
    Message,
    Notification,
    Request,
    Response,
    encode_error_response,
    encode_fields,
    encode_notification,
    encode_request,
    encode_response,
    owner_of_fragment,
    parse,
)

DEPTH = 128

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)
ids: st.SearchStrategy[Id] = st.integers(-(2**62), 2**62) | st.text()


def one(frame: bytes | str) -> Message | InvalidFrame:
    frame = frame.encode() if isinstance(frame, str) else frame
    (message,) = parse(frame, DEPTH)
    if isinstance(message, Response | ErrorResponse):
        assert message.size == len(frame)
        return message._replace(size=0)
    return message


def refused(frame: bytes | str, depth: int = DEPTH) -> InvalidFrame:
    frame = frame.encode() if isinstance(frame, str) else frame
    with pytest.raises(InvalidFrame) as caught:
        parse(frame, depth)
    return caught.value


# ---------------------------------------------------------------- any bytes


def messages_or_unusable(frame: bytes) -> None:
    try:
        messages = parse(frame, DEPTH)
    except InvalidFrame:
        return
    assert messages
    for message in messages:
        assert isinstance(message, Response | ErrorResponse | Request | Notification | InvalidFrame)


@given(st.binary())
def test_any_bytes_give_messages_or_one_unusable(frame: bytes) -> None:
    messages_or_unusable(frame)


@given(json_values)
def test_any_json_gives_messages_or_one_unusable(value: Any) -> None:
    messages_or_unusable(json.dumps(value).encode())


envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": json_values,
        "id": json_values,
        "method": json_values,
        "params": json_values,
        "result": json_values,
        "error": json_values | st.fixed_dictionaries({"code": json_values, "message": json_values}),
    },
)


@given(envelopes | st.lists(envelopes, max_size=4), st.integers(0, 400))
def test_any_envelope_whole_or_cut_off_gives_messages_or_one_unusable(value: Any, cut: int) -> None:
    frame = json.dumps(value).encode()
    messages_or_unusable(frame)
    messages_or_unusable(frame[:cut])


# ----------------------------------------------------------- good envelopes


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{}}', Response(1, {})),
        ('{"id":1,"result":null}', Response(1, None)),
        ('{"jsonrpc":"2.0","id":"a","result":{"x":[1]}}', Response("a", {"x": [1]})),
        (
            '{"id":1,"error":{"code":-32601,"message":"no","data":[1]}}',
            ErrorResponse(1, -32601, "no", [1]),
        ),
        ('{"error":{"code":-32700,"message":"what?"}}', ErrorResponse(None, -32700, "what?", None)),
        ('{"id":null,"error":{"code":-32700}}', ErrorResponse(None, -32700, "", None)),
        ('{"id":1,"error":{"code":0,"message":7}}', ErrorResponse(1, 0, "", None)),
        ('{"id":3,"method":"ping"}', Request(3, "ping", {})),
        ('{"id":"q","method":"ping","params":null}', Request("q", "ping", {})),
        ('{"method":"n","params":{"a":1}}', Notification("n", {"a": 1})),
        ('{"id":1,"result":1,"id":2}', Response(2, 1)),
    ],
)
def test_an_envelope_is_read(frame: str, message: Message) -> None:
    assert one(frame) == message
    assert type(one(frame)) is type(message)


ACCEPTED: list[tuple[str, Message, int]] = [
    ('{"id":7.0,"result":{}}', Response(7, {}), 0),
    ('{"id":7e0,"method":"ping"}', Request(7, "ping", {}), 0),
    ('{"id":1,"error":{"code":1.0}}', ErrorResponse(1, 1, "", None), 0),
    ('{"id":1,"result":{},"error":null}', Response(1, {}), 1),
    ('{"id":1,"result":null,"error":null}', Response(1, None), 1),
    ('{"id":1,"result":null,"error":{"code":1}}', ErrorResponse(1, 1, "", None), 1),
    ('{"method":null,"params":null,"id":1,"result":{},"error":null}', Response(1, {}), 2),
    ('{"method":"m","id":1,"result":null,"error":null}', Request(1, "m", {}), 2),
    ('{"method":"m","id":null}', Notification("m", {}), 1),
    ('\ufeff{"id":1,"result":{}}', Response(1, {}), 1),
    ('\ufeff\ufeff \r\n{"id":1,"result":{}}', Response(1, {}), 1),
]


@pytest.mark.parametrize(("frame", "message", "deviations"), ACCEPTED)
def test_a_deviation_without_doubt_about_its_meaning_is_accepted_and_reported(
    frame: str, message: Message, deviations: int
) -> None:
    reported: list[str] = []
    (found,) = parse(frame.encode(), DEPTH, reported.append)
    found = found._replace(size=0) if isinstance(found, Response | ErrorResponse) else found
    assert (found, type(found)) == (message, type(message))
    assert len(reported) == deviations


# ------------------------------------------------------ malformed envelopes

BOTH = "it has both result and error, or an error that is not an object"
NEITHER = "it has neither method, result nor error"
BAD_REQUEST = "its method is not a string or its params are not an object"
NO_MESSAGE = "it is JSON but not a JSON-RPC message"
NOT_JSON = "it is not JSON"
BAD_ID = "not a string or an integer"

MALFORMED: list[tuple[str, str, Id | None]] = [
    ("null", NO_MESSAGE, None),
    ("7", NO_MESSAGE, None),
    ('"text"', NO_MESSAGE, None),
    ("[]", NO_MESSAGE, None),
    ("{}", BAD_ID, None),
    ('{"jsonrpc":"2.0"}', BAD_ID, None),
    ('{"id":1}', NEITHER, 1),
    ('{"id":"a"}', NEITHER, "a"),
    ('{"result":{}}', BAD_ID, None),
    ('{"id":null,"result":{}}', BAD_ID, None),
    ('{"id":true,"result":{}}', "its id is True", None),
    ('{"id":7.5,"result":{}}', "its id is 7.5", None),
    ('{"id":1e999,"result":{}}', "its id is inf", None),
    ('{"id":[1],"result":{}}', "its id is [1]", None),
    ('{"id":{"a":1},"error":{"code":1}}', BAD_ID, None),
    ('{"id":1,"result":{},"error":{"code":1,"message":""}}', BOTH, 1),
    ('{"id":1,"error":null}', BOTH, 1),
    ('{"id":"1","result":{},"error":{"code":1,"message":""}}', BOTH, 1),
    ('{"id":1.0,"error":"no"}', BOTH, 1),
    ('{"id":1,"error":"no"}', BOTH, 1),
    ('{"id":1,"error":{}}', "its error code is None", 1),
    ('{"id":1,"error":{"code":"x"}}', "its error code is 'x'", 1),
    ('{"id":1,"error":{"code":true}}', "its error code is True", 1),
    ('{"method":7}', BAD_REQUEST, None),
    ('{"method":null,"id":1}', BAD_REQUEST, None),
    ('{"method":"m","params":[1]}', BAD_REQUEST, None),
    ('{"method":"m","params":"p","id":4}', BAD_REQUEST, None),
    ('{"method":[],"id":"a","error":{"code":1}}', BAD_REQUEST, "a"),
    ('{"method":null,"id":true,"result":{}}', "its id is True", None),
    ('{"method":7,"id":1,"result":{}}', BAD_REQUEST, 1),
    ('{"id":9007199254740993.0,"result":{}}', "its id is 9007199254740992.0", None),
    ('{"method":"m","id":1.5}', "its id is 1.5", None),
    ('{"method":"m","id":false}', "its id is False", None),
    ("", NOT_JSON, None),
    ("hello", NOT_JSON, None),
    ("{'id':1}", NOT_JSON, None),
    ('{"id":5,"result":', NOT_JSON, 5),
    ('{"jsonrpc":"2.0","id":5,"result":{"a":"cut o', NOT_JSON, 5),
    ('{"id":5,"result":{"n":NaN}}', "it is not JSON: its member /result/n is NaN", 5),
    ('{"id":5,"result":{"a/b":[1,Infinity]}}', "member /result/a~1b/1 is Infinity", 5),
    ('{"id":5,"result":{"n":NaN}', NOT_JSON, 5),
    ('{"id":5,"result":{"n":-Infinity}}', NOT_JSON, 5),
    ('{"id":5,"result":{}} {"id":6,"result":{}}', NOT_JSON, 5),
    ('{"result":{"a":nope},"jsonrpc":"2.0","id":5}', NOT_JSON, 5),
    ('{"result":{"a":nope},"id":5,"jsonrpc":"2.0"}', NOT_JSON, 5),
    ('{"id":5,"result":' + "9" * 5000 + "}", NOT_JSON, 5),
    ('{"id":5,"method":"sampling/createMessage","params":nope}', NOT_JSON, None),
    ('{"jsonrpc":"2.0","id":5, "method":"ping","params":nope}', NOT_JSON, None),
    ('{"id":"5","result":nope}', NOT_JSON, None),
    ('{"id":1234567890123456789,"result":nope}', NOT_JSON, None),
]


@pytest.mark.parametrize(("frame", "reason", "owner"), MALFORMED)
def test_a_malformed_envelope_names_its_reason_and_the_request_it_answers(
    frame: str, reason: str, owner: Id | None
) -> None:
    error = refused(frame)
    assert reason in error.reason
    assert error.owner == owner
    assert type(error.owner) is type(owner)


def test_bytes_that_are_not_utf8_name_the_request_they_answer() -> None:
    error = refused(b'{"id":9,"result":{"text":"\xff\xfe"}}')
    assert (error.reason, error.owner) == ("it is not UTF-8", 9)


def test_a_long_id_is_shortened_in_the_reason() -> None:
    assert len(refused(json.dumps({"id": ["x" * 10_000], "result": 1})).reason) < 100


def test_what_was_parsed_of_a_malformed_envelope_is_stored() -> None:
    assert refused('{"id":1,"error":"no"}').raw == {"id": 1, "error": "no"}


@pytest.mark.parametrize(
    ("fragment", "owner"),
    [
        (b'{"id":12,"result":{"content":[', 12),
        (b' { "jsonrpc" : "2.0" , "id" : 12 , "result"', 12),
        (b'{"result":{"a":NaN},"id":12}', 12),
        (b'{"result":{"a":NaN},"id":12,"jsonrpc":"2.0"}  ', 12),
        (b'{"result":{"content":[{"a":1,"id":12}', None),
        (b'{"method":"roots/list","params":{"a":NaN},"id":12}', None),
        (b'{"id":12', None),
        (b'{"x":{"id":12,', None),
        (b'{"id":-1,"result":', None),
        (b'{"id":"12","result":', None),
        (b'{"id":12,"method":"roots/list","params":{', None),
        (b"", None),
    ],
)
def test_the_owner_of_a_fragment_is_known_only_if_it_is_first_or_last(
    fragment: bytes, owner: int | None
) -> None:
    assert owner_of_fragment(fragment) == owner


@pytest.mark.parametrize(
    ("head", "owner"),
    [
        (b'{"result":{"text":"', 12),
        (b'{"jsonrpc":"2.0","result":{"text":"', 12),
        (b'{"id":3,"result":{"text":"', 3),
        (b'{"jsonrpc":"2.0","method":"roots/list","params":{"text":"', None),
    ],
)
def test_the_owner_of_a_long_frame_is_known_by_its_tail_unless_it_is_a_question(
    head: bytes, owner: int | None
) -> None:
    assert owner_of_fragment(head, b'..."}]},"id":12}') == owner


# -------------------------------------------------------------------- depth


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    """An answer that is ``levels`` deep, the envelope included."""
    inner = levels - 1
    return '{"id":1,"result":' + opening * inner + "0" * (opening == "[") + closing * inner + "}"


@pytest.mark.parametrize("levels", [1, 2, 127, 128])
def test_a_frame_within_the_depth_is_read(levels: int) -> None:
    assert isinstance(one(nested(levels)), Response)


@pytest.mark.parametrize("levels", [129, 130, 1_000, 200_000])
def test_a_frame_beyond_the_depth_is_refused_and_names_its_request(levels: int) -> None:
    error = refused(nested(levels))
    assert (error.reason, error.owner) == ("nested deeper than 128 levels", 1)


def objects_nested(levels: int) -> str:
    return '{"id":1,"result":' + '{"a":' * (levels - 1) + "0" + "}" * levels


@pytest.mark.parametrize(("levels", "fits"), [(127, True), (128, True), (129, False)])
def test_the_depth_of_a_large_frame_is_measured_as_exactly(levels: int, fits: bool) -> None:
    frame = nested(levels).replace("0", json.dumps("x" * 70_000))
    if fits:
        assert isinstance(one(frame), Response)
    else:
        assert "deeper" in refused(frame).reason


def alternating(levels: int) -> str:
    """Arrays in objects in arrays."""
    inner = levels - 1
    opening = ('{"a":', "[") * inner
    closing = ("}", "]") * inner
    return (
        '{"id":1,"result":' + "".join(opening[:inner]) + "0" + "".join(closing[:inner][::-1]) + "}"
    )


@pytest.mark.parametrize(("levels", "fits"), [(127, True), (128, True), (129, False), (240, False)])
def test_arrays_in_objects_in_arrays_count_each(levels: int, fits: bool) -> None:
    if fits:
        assert isinstance(one(alternating(levels)), Response)
    else:
        assert "deeper" in refused(alternating(levels)).reason


@pytest.mark.parametrize(("levels", "fits"), [(127, True), (128, True), (129, False)])
def test_objects_count_as_arrays_do(levels: int, fits: bool) -> None:
    if fits:
        assert isinstance(one(objects_nested(levels)), Response)
    else:
        assert "deeper" in refused(objects_nested(levels)).reason


@pytest.mark.parametrize(
    "text", ["[" * 500, "{[" * 300, '\\"' * 20 + "[" * 500, "]}" * 300, "\\\\"]
)
def test_brackets_inside_strings_do_not_count_as_depth(text: str) -> None:
    body = json.dumps({"id": 1, "result": {"text": text, "wide": [[0]] * 200}})
    assert isinstance(one(body), Response)


@pytest.mark.slow
def test_width_is_not_depth() -> None:
    assert isinstance(one(json.dumps({"id": 1, "result": [[{}] * 3] * 5_000})), Response)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ('{"id":1,"result":' + "[" * 127, NOT_JSON),
        ('{"id":1,"result":' + "[" * 128, "deeper"),
        ('{"id":1,"result":"' + "[" * 500, NOT_JSON),
        ('{"id":1,"result":"' + "[" * 500 + "\\", NOT_JSON),
        ("]" * 500, NOT_JSON),
        ("[" * 100_000, "deeper"),
    ],
)
def test_a_frame_that_is_cut_off_is_refused_for_what_it_is(frame: str, reason: str) -> None:
    assert reason in refused(frame).reason


@given(st.lists(st.sampled_from("[{"), min_size=1, max_size=40), st.integers(1, 40))
def test_the_depth_bound_is_exact_whatever_it_is(kinds: list[str], bound: int) -> None:
    opening = "".join("[" if kind == "[" else '{"a":' for kind in kinds)
    closing = "".join("]" if kind == "[" else "}" for kind in reversed(kinds))
    frame = f"[{opening}0{closing}]".encode()
    try:
        parse(frame, bound)
    except InvalidFrame as error:
        deeper = "deeper" in error.reason
    else:
        deeper = False
    assert deeper is (len(kinds) + 1 > bound)


# ------------------------------------------------------------------ batches


def test_a_batch_gives_its_messages_in_order_and_a_bad_one_spoils_only_itself() -> None:
    frame = b'[{"id":1,"result":1},{"id":2},7,[{"id":3,"result":3}],{"method":"n"}]'
    first, second, third, fourth, fifth = parse(frame, DEPTH)
    assert first == Response(1, 1, len(frame))
    assert isinstance(second, InvalidFrame)
    assert second.owner == 2
    assert isinstance(third, InvalidFrame)
    assert isinstance(fourth, InvalidFrame)
    assert fifth == Notification("n", {})


# ----------------------------------------------------------------- encoding


@given(ids, st.sampled_from(["ping", "tools/call"]), objects)
def test_a_request_round_trips(id: Id, method: str, params: dict[str, Any]) -> None:
    assert one(encode_request(id, method, encode_fields(params))) == Request(id, method, params)


@given(objects)
def test_a_notice_round_trips(params: dict[str, Any]) -> None:
    assert one(encode_notification("notifications/x", params)) == Notification(
        "notifications/x", params
    )


@given(ids, objects)
def test_a_response_round_trips(id: Id, result: dict[str, Any]) -> None:
    assert one(encode_response(id, result)) == Response(id, result)


@given(ids, st.integers(-40_000, 40_000), st.text())
def test_a_failure_round_trips(id: Id, code: int, message: str) -> None:
    assert one(encode_error_response(id, code, message)) == ErrorResponse(id, code, message, None)


@given(objects, objects)
def test_json_members_are_left_as_they_are(fields: dict[str, Any], spliced: dict[str, Any]) -> None:
    text = encode_fields({**fields, "spliced": Json(json.dumps(spliced))})
    assert json.loads(text) == {**fields, "spliced": spliced}


def test_a_json_member_keeps_its_very_text() -> None:
    assert encode_fields({"a": Json('{"b" :  1.0}'), "c": "d"}) == '{"a":{"b" :  1.0},"c":"d"}'


def test_a_member_without_a_value_json_has_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_fields({"a": float("nan")})


@pytest.mark.parametrize("lone", ["\ud800", "é\udfff", "\ud83d x"])
def test_a_lone_surrogate_that_a_server_sent_goes_back_escaped(lone: str) -> None:
    params = encode_fields({"name": lone})
    for text in (
        encode_request(1, "tools/call", params),
        encode_notification("n", {"name": lone}),
        encode_response(lone, {}),
        encode_error_response(lone, 1, "no"),
    ):
        assert lone in json.dumps(json.loads(text.encode()), ensure_ascii=False)


def test_no_encoded_message_has_a_line_feed() -> None:
    for text in (
        encode_request("a\nb", "m", encode_fields({"k\n": "v\n"})),
        encode_notification("m", {"k": "\r\n"}),
        encode_response("\n", {"a": "\n"}),
        encode_error_response("\n", 1, "\n"),
    ):
        assert "\n" not in text
