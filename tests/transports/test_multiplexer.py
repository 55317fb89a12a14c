"""A shared line, fed by hand."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.errors import ConnectionLost
from mcp_client.protocol.jsonrpc import Notification, Request, Response
from mcp_client.runtime.event_loop import current
from mcp_client.runtime.limits import Limits, Timeouts
from mcp_client.runtime.session_context import Stats
from mcp_client.transports.base import TransportContext
from mcp_client.transports.multiplexer import LineExchange, Multiplexer
from tests.support.properties import examples
from tests.support.timing import grows_linearly

_bounded = examples(150)


class _Still:
    """A loop in which nothing ever happens."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"feeding must not touch the loop: {name}")


def _line(
    limits: Limits | None = None,
) -> tuple[Multiplexer, LineExchange, list[Request | Notification]]:
    unasked: list[Request | Notification] = []
    link = TransportContext("s", unasked.append, limits or Limits(), Timeouts(), Stats())
    channel = Multiplexer(_Still(), link, lambda: lambda notice: notice.params.get("of"))
    return channel, channel.exchange(1), unasked


STREAM = b"""hello
{"jsonrpc":"2.0","method":"a"}\r
\xef\xbb\xbf{"jsonrpc":"2.0","method":"b","params":{"of":1}}

[{"jsonrpc":"2.0","method":"c"},7,{"jsonrpc":"2.0","id":"q","method":"ping"}]
{"jsonrpc":"2.0","id":9,"result":{}}
{"jsonrpc":"2.0","method":"too long","params":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
{"jsonrpc":"2.0","id":1,"result":{"\xc3\xa4":1}}
{"jsonrpc":"2.0","id":1,"result":"again"}
"""


def _outcome(pieces: list[bytes]) -> tuple[Any, ...]:
    channel, exchange, unasked = _line(Limits(message_bytes=80))
    for piece in pieces:
        channel.feed(piece)
    stats = channel.stats
    counts = stats.junk_lines, stats.late_answers, stats.stray_answers
    return list(exchange._inbox), unasked, counts


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
@_bounded
def test_any_split_of_a_stream_gives_the_same_messages(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    whole = _outcome([STREAM])
    assert _outcome(pieces) == whole
    assert whole[2] == (3, 1, 1)
    assert len(whole[0]) == 2 and len(whole[1]) == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_response_that_comes_after_the_end_changes_nothing(anyio_backend: str) -> None:
    channel, exchange, _ = _line()
    channel.end(lambda: ConnectionLost("the session was closed"))
    channel.feed(
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Connection closed"}}\n'
    )
    with pytest.raises(ConnectionLost):
        await exchange.receive(0.0)
    assert channel.stats.late_answers == 1


@given(st.lists(st.binary(max_size=60), max_size=20))
@_bounded
def test_no_bytes_at_all_raise_or_are_stored_forever(pieces: list[bytes]) -> None:
    channel, _, _ = _line(Limits(message_bytes=50))
    for piece in pieces:
        channel.feed(piece)
    assert channel._held <= 50 + 60


_scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_json = _scalar | st.lists(_scalar, max_size=2)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "result", "error", "x"]), _json))
@_bounded
def test_no_envelope_at_all_raises(message: dict[str, Any]) -> None:
    channel, _, _ = _line()
    channel.feed(json.dumps(message).encode() + b"\n")


def test_unread_notifications_are_capped() -> None:
    channel, exchange, _ = _line(Limits(notices=10))
    channel.feed(b'{"jsonrpc":"2.0","method":"b","params":{"of":1}}\n' * 25)
    assert len(exchange._inbox) == 10
    assert channel.stats.dropped_notices == 15


def test_a_frame_that_is_too_long_and_not_a_response_fails_no_request() -> None:
    channel, exchange, _ = _line(Limits(message_bytes=2000))
    for head in ('"jsonrpc":"2.0",', '"id":1,', '"jsonrpc":"2.0","id":"q",', ""):
        channel.feed(f'{{{head}"method":"m","params":"{"x" * 5000}","id":1}}\n'.encode())
    assert exchange._failure is None
    assert channel.stats.junk_lines == 4


def test_a_long_line_costs_what_it_is_long() -> None:
    def feeding(size: int) -> Callable[[], Any]:
        channel, exchange, _ = _line()
        data = b'{"jsonrpc":"2.0","id":1,"result":{"t":"' + b"x" * size + b'"}}\n'

        def feed() -> None:
            for at in range(0, len(data), 4096):
                channel.feed(data[at : at + 4096])
            assert len(exchange._inbox) == 1

        return feed

    assert grows_linearly(feeding, 128 << 10, 64)


def test_a_long_line_is_freed_before_its_values_are_made() -> None:
    size = 4 << 20
    channel, exchange, _ = _line()
    channel.feed(b'{"jsonrpc":"2.0","id":1,"result":{"t":"')
    tracemalloc.start()
    try:
        for _ in range(size >> 16):
            channel.feed(b"x" * (1 << 16))
        channel.feed(b'"}}\n')
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(response := exchange._inbox[0], Response)
    assert len(response.result["t"]) == size
    assert most < 2.5 * size, "the line, its text and the value were in memory at once"


async def test_the_timer_is_gone_when_the_line_is_over() -> None:
    link = TransportContext("s", lambda message: None, Limits(), Timeouts(), Stats())
    channel = Multiplexer(current(), link, lambda: lambda notice: None)
    channel.timer.set(current().now() + 100)
    channel.end(lambda: AssertionError("no request waits"))  # type: ignore[arg-type, return-value]
    assert channel.timer.at == math.inf
