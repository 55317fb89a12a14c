"""What a server writes that is not a valid response. The session and its other calls go on."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client import CallTimeout, Limits, ServerError, Session, allow_all, connect
from mcp_client.errors import ProtocolViolation
from tests.support.starting import scripted

GOOD = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"good"}]}}'


def _response(result: str) -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"result":{result}}}'


def _session(era: str = "handshake", **rest: Any) -> Any:
    return connect(scripted("--era", era), approval=allow_all, **rest)


async def _goes_on(session: Session) -> None:
    assert (await session.call_tool("echo", {"still": "here"})).text == '{"still": "here"}'
    assert session.generation == 1


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "junk",
    [
        "Listening on port 80",
        "{'not': json}",
        "\xff\xfe\x00 not UTF-8",
        "[]",
        "17",
        "null",
        '"text"',
        "{}",
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","id":null,"result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":[ID],"result":{}}',
        '{"jsonrpc":"2.0","method":7}',
        '{"jsonrpc":"2.0","method":"x","params":[1]}',
        '{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}',
        '{"jsonrpc":"2.0","id":ID,"method":"ping","params":{"cut',
        '{"jsonrpc":"2.0","method":"notifications/message","params":' + "[" * 200 + "]" * 200 + "}",
    ],
)
async def test_junk_is_counted_and_the_call_goes_on(junk: str) -> None:
    async with _session() as session:
        result = await session.call_tool("raw", {"lines": [junk, GOOD]}, timeout=60)
        assert result.text == "good"
        assert session.stats.junk_lines == 1
        assert session.stats.last_junk
        await _goes_on(session)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te', "not JSON"),
        (_response('{"content":[],"n":NaN}'), "not JSON"),
        (_response('{"content":[],"n":-Infinity}'), "not JSON"),
        (_response('{"content":"\xff"}'), "not UTF-8"),
        (_response("[" * 200 + "]" * 200), "deeper than 128"),
        (_response("[" * 100_000), "deeper than 128"),
        ('{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1}}', "both result and error"),
        ('{"jsonrpc":"2.0","id":ID,"error":"no"}', "not an object"),
        ('{"jsonrpc":"2.0","id":ID,"error":{"code":"1"}}', "not an integer"),
        ('{"jsonrpc":"2.0","id":ID}', "neither method, result nor error"),
        (_response("[]"), "not a JSON object"),
        (_response("null"), "not a JSON object"),
        (_response('{"content":{}}'), "content is not an array"),
        (_response('{"content":[],"isError":1}'), "isError"),
    ],
)
async def test_a_response_that_cannot_be_read_fails_its_call_at_once(
    line: str, reason: str
) -> None:
    async with _session() as session:
        with pytest.raises(ProtocolViolation, match=reason) as caught:
            await session.call_tool("raw", {"lines": [line]}, timeout=60)
        assert (caught.value.tool, caught.value.server) == ("raw", session.name)
        await _goes_on(session)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "stranger",
    [
        "ID000",
        "0",
        "-1",
        '"somebody"',
        '"999999"',
        "1" * 4000,
        '"\\ud800"',
        "1",
        '"' + "9" * 50 + '"',
    ],
)
async def test_a_response_that_is_not_ours_is_counted_and_dropped(stranger: str) -> None:
    line = f'{{"jsonrpc":"2.0","id":{stranger},"result":{{"content":[]}}}}'
    async with _session() as session:
        result = await session.call_tool("raw", {"lines": [line, GOOD]}, timeout=60)
        assert result.text == "good"
        assert session.stats.stray_answers + session.stats.late_answers == 1
        await _goes_on(session)


async def test_an_error_without_an_id_is_for_the_only_call_under_way() -> None:
    line = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}'
    async with _session() as session:
        with pytest.raises(ServerError, match="what") as caught:
            await session.call_tool("raw", {"lines": [line]}, timeout=60)
        assert caught.value.code == -32700
        await _goes_on(session)


@pytest.mark.parametrize(
    "shape", ['{{"jsonrpc":"2.0","id":ID,"result":"{}"}}', '{{"result":"{}","id":ID}}']
)
async def test_a_response_that_is_too_long_fails_its_call_and_no_other(shape: str) -> None:
    async with _session(limits=Limits(message_bytes=100_000)) as session:
        line = shape.format("x" * 50_000)
        lines = {"lines": [line.replace("x" * 50_000, "x" * 100_001)]}
        with pytest.raises(ProtocolViolation, match=r"100000 bytes \(Limits.message_bytes\)"):
            await session.call_tool("raw", lines, timeout=60)
        await _goes_on(session)


@pytest.mark.parametrize("key", ["", '"id":"q",'])
async def test_what_is_too_long_and_no_response_fails_no_call(key: str) -> None:
    params = '{"x":"' + "x" * 200_000 + '"}'
    line = f'{{"jsonrpc":"2.0",{key}"method":"notifications/message","params":{params}}}'
    async with _session(limits=Limits(message_bytes=100_000)) as session:
        assert (await session.call_tool("raw", {"lines": [line, GOOD]}, timeout=60)).text == "good"
        assert session.stats.junk_lines == 1


async def test_an_oversized_response_without_a_readable_id_fails_every_pending_call() -> None:
    line = '{"result":"' + "x" * 200_000 + '","id":ID,"more":"' + "x" * 2000 + '"}'
    async with _session(limits=Limits(message_bytes=100_000)) as session:
        with pytest.raises(ProtocolViolation, match="its request is not known"):
            await session.call_tool("raw", {"lines": [line]}, timeout=60)
        await _goes_on(session)


async def test_what_looks_wrong_all_through_ends_with_the_clock_and_reports_it() -> None:
    async with _session() as session:
        with pytest.raises(CallTimeout, match=r"not JSON-RPC messages, .* 'oops'"):
            await session.call_tool("raw", {"lines": ["oops"]}, timeout=1)
        await _goes_on(session)


@pytest.mark.one_backend
@pytest.mark.parametrize("id", ['"\\ud800"', '""', "-5", '"a\\nb"', "1" * 4000])
async def test_a_ping_with_an_odd_id_is_answered(id: str) -> None:
    ping = f'{{"jsonrpc":"2.0","id":{id},"method":"ping"}}'
    async with _session() as session:
        assert (await session.call_tool("raw", {"lines": [ping, GOOD]}, timeout=60)).text == "good"
        assert '"result": {}' in (await session.call_tool("seen")).text


# ---------------------------------------------------------------- the stateless era


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ('{"resultType":"perhaps","content":[]}', "'perhaps'"),
        ('{"resultType":7,"content":[]}', "'7'"),
        ('{"resultType":"input_required"}', "input_required without inputRequests"),
        ('{"resultType":"input_required","inputRequests":[]}', "not an object"),
        ('{"resultType":"input_required","requestState":7}', "not a string"),
        (
            '{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}',
            "elicitation/create, which this client did not declare",
        ),
        ('{"resultType":"input_required","inputRequests":{"a":7}}', "is not an object"),
    ],
)
async def test_a_result_this_revision_does_not_have_is_a_broken_promise(
    result: str, reason: str
) -> None:
    async with _session("stateless") as session:
        with pytest.raises(ProtocolViolation, match=reason) as caught:
            await session.call_tool("raw", {"lines": [_response(result)]}, timeout=60)
        assert caught.value.result is not None
        await _goes_on(session)


async def test_a_server_that_asks_back_forever_is_stopped() -> None:
    async with _session("stateless", limits=Limits(rounds=3)) as session:
        with pytest.raises(ProtocolViolation, match=r"3 times.*Limits\.rounds"):
            await session.call_tool("again", timeout=60)
        await _goes_on(session)


async def test_a_question_in_the_stateless_era_is_dropped_and_counted() -> None:
    ping = '{"jsonrpc":"2.0","id":"q","method":"ping"}'
    async with _session("stateless") as session:
        assert (await session.call_tool("raw", {"lines": [ping, GOOD]}, timeout=60)).text == "good"
        assert session.stats.refused_questions == 1
