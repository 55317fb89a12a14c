"""Event streams as the HTML standard has them, through httpx-sse, within bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.transports.http_response import Event, EventStream, TooLong
from tests.support.timing import grows_linearly

pytestmark = pytest.mark.one_backend


class Piecewise:
    """A stream of events that comes in pieces."""

    def __init__(self, *pieces: bytes, cap: int = 1_000) -> None:
        self._pieces = iter([piece for piece in pieces if piece])
        self.stream = EventStream(self._read, cap)

    async def _read(self) -> bytes:
        return next(self._pieces, b"")

    async def all(self) -> list[Event]:
        events = []
        try:
            while (event := await self.stream.next()) is not None:
                events.append(event)
        finally:
            await self.stream.aclose()
        return events


def _parsed(*pieces: bytes, cap: int = 1_000) -> list[Event]:
    return anyio.run(Piecewise(*pieces, cap=cap).all)


# After web-platform-tests, eventsource/format-*. An event with empty data is not a message in MCP.
WHATWG: dict[str, tuple[bytes, list[tuple[str, bytes]]]] = {
    "bom": (b"\xef\xbb\xbfdata:1\n\n\xef\xbb\xbfdata:2\n\ndata:3\n\n", [("", b"1"), ("", b"3")]),
    "two boms": (b"\xef\xbb\xbf" * 2 + b"data:1\n\ndata:2\n\ndata:3\n\n", [("", b"2"), ("", b"3")]),
    "comments": (
        b"data:1\r:\0\n:\r\ndata:2\n:" + b"x" * 500 + b"\rdata:3\n:data:fail\r:" + b"x" * 300
        + b"\ndata:4\n\n",
        [("", b"1\n2\n3\n4")],
    ),
    "no final empty line": (b"retry:1000\ndata:test1\n\nid:test\ndata:test2", [("", b"test1")]),
    "data without a value": (b"data:\n\ndata\ndata\n\ndata:test\n\n", [("", b"test")]),
    "an empty event name": (b"event: \ndata:data\n\n", [("", b"data")]),
    "an event name": (b"event:test\ndata:x\n\ndata:x\n\n", [("test", b"x"), ("", b"x")]),
    "an event name without data": (b"event:test\n\ndata:x\n\n", [("", b"x")]),
    "the last event name": (b"event:a\nevent:b\ndata:x\n\n", [("b", b"x")]),
    "field parsing": (
        (b"data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\r"
        b"data:\r\n data:32\ndata:4\n\n"),
        [("", b"\0\n 2\n1\n3\n\n4")],
    ),
    "a leading space": (b"data:\ttest\rdata: \ndata:test\n\n", [("", b"\ttest\n\ntest")]),
    "two leading spaces": (b"data:  a\n\n", [("", b" a")]),
    "all newlines": (b"data:test\r\ndata\ndata:test\r\n\r", [("", b"test\n\ntest")]),
    "carriage returns alone": (b"data:a\rdata:b\r\rdata:c\r\r", [("", b"a\nb"), ("", b"c")]),
    "line feed and carriage return": (b"data:a\n\rdata:b\n\r", [("", b"a"), ("", b"b")]),
    "a null": (b"data:\0\n\n\n\n", [("", b"\0")]),
    "unknown fields": (b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacomment\n\n",
                       [("", b"test\n")]),
    "utf-8": ("data:ok…\n\n".encode(), [("", "ok…".encode())]),
    "not utf-8": (b"data:\xff\xfe\n\n", [("", b"\xff\xfe")]),
    "no line ends elsewhere": (
        "data:a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode(),
        [("", "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg".encode())],
    ),
    "a colon in the value": (b"data:a:b\ndata::c\n\n", [("", b"a:b\n:c")]),
    "many blank lines": (b"\n\n\ndata:a\n\n\n\ndata:b\n\n", [("", b"a"), ("", b"b")]),
    "comments between": (b": hi\n\n:\n\ndata: a\n\n", [("", b"a")]),
    "nothing": (b"", []),
    "only a bom": (b"\xef\xbb\xbf", []),
    "a name in capitals": (b"DATA:a\nEvent:b\ndata:c\n\n", [("", b"c")]),
    "an event name that is not ascii": ("event:é\ndata:a\n\n".encode(), [("é", b"a")]),
}  # fmt: skip


@pytest.mark.parametrize("case", WHATWG)
def test_events_are_parsed_as_the_standard_specifies(case: str) -> None:
    stream, reported = WHATWG[case]
    events = [(kind or "message", data) for kind, data in reported]
    assert _parsed(stream) == events
    assert _parsed(*(stream[at : at + 1] for at in range(len(stream)))) == events


@pytest.mark.parametrize(
    ("stream", "last_id", "retry"),
    [
        (b"id: 7\nretry: 250\ndata: \n\n", "7", 0.25),
        (b"id: 7\ndata: a\n\ndata: b\n\n", "7", None),
        (b"id: 7\ndata: a\n\nid\ndata: b\n\n", None, None),
        (b"id: 7\ndata: a\n\nid: a\0b\ndata: b\n\n", "7", None),
        (b"id: 7\ndata: half", None, None),
        (b"id:  7\n\n", " 7", None),
        ("id: …\n\n".encode(), "…", None),
        (b"retry: 3000\n\n", None, 3.0),
        (b"retry:5\nretry: +7\n\n", None, 0.005),
        ("retry: \u0665\u0666\n\n".encode(), None, None),
        (b"retry: 1_000\n\n", None, None),
        (b"retry: -5\n\n", None, None),
        (b"retry:  5\n\n", None, None),
        (b"retry: 5 \n\n", None, None),
        (b"retry: 1000x\n\n", None, None),
        (b"retry: soon\n\n", None, None),
        (b"retry:\n\n", None, None),
        (b"retry: 99999999999\n\n", None, None),
    ],
)
async def test_where_to_resume_and_when_is_what_the_standard_specifies(
    stream: bytes, last_id: str | None, retry: float | None
) -> None:
    for pieces in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        source = Piecewise(*pieces)
        await source.all()
        assert (source.stream.last_id, source.stream.retry) == (last_id, retry)


async def test_an_event_without_data_is_not_counted() -> None:
    source = Piecewise(b"id: 1\n\n: ping\n\ndata:\n\ndata: a\n\n: ping\n\n")
    assert await source.all() == [("message", b"a")]
    assert source.stream.count == 1


@given(st.binary(max_size=60), st.lists(st.integers(0, 80), max_size=5))
def test_how_a_stream_is_cut_does_not_change_its_events(noise: bytes, cuts: list[int]) -> None:
    stream = b"data: a\r\n" + noise + b"\r\n\ndata: b\r\n\r\n"
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert _parsed(*pieces) == _parsed(stream)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 2_000,
        b": " + b"x" * 2_000,
        b"data: xxxxxxxx\n" * 200,
        b"data: a\n\ndata: " + b"x" * 2_000 + b"\n\ndata: b\n\n",
        b"\n" * 5_000 + b"event: " + b"x" * 2_000 + b"\n\n",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 900, 10_000])
def test_an_event_beyond_the_cap_is_refused(stream: bytes, size: int) -> None:
    with pytest.raises(TooLong):
        _parsed(*(stream[at : at + size] for at in range(0, len(stream), size)))


@pytest.mark.parametrize("size", [1, 7, 90, 10_000])
def test_comments_and_small_events_never_reach_the_cap(size: int) -> None:
    stream = b": keep-alive\nid: 1\ndata: x\n\n" * 300
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert _parsed(*pieces, cap=100) == [("message", b"x")] * 300


def test_comments_alone_never_reach_the_cap() -> None:
    assert _parsed(*([b": keep-alive\n"] * 300), b"data: x\n\n", cap=100) == [("message", b"x")]


async def test_a_stream_that_was_never_read_can_be_closed() -> None:
    await Piecewise(b"data: a\n\n").stream.aclose()


@pytest.mark.slow
def test_parsing_costs_time_linear_in_the_size() -> None:
    def parsing(size: int) -> Callable[[], Any]:
        pieces = [b"data: ", *([b"x" * 1_024] * (size // 1_024)), b"\n\n"]
        return lambda: len(_parsed(*pieces, cap=2**30)[0].data) == size or pytest.fail("cut")

    assert grows_linearly(parsing, 2**17, 64)
