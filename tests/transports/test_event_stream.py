from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.transports.event_stream import Event, EventParser, TooLong


def _parsed(*pieces: bytes, cap: int = 1_000) -> list[Event]:
    parser = EventParser(cap)
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [("message", b"a")]),
        (b"data:a\r\n\r\n", [("message", b"a")]),
        (b"data: a\r\r", [("message", b"a")]),
        (b"data: a\ndata: b\n\n", [("message", b"a\nb")]),
        (b"data:  a\n\n", [("message", b" a")]),
        (b"event: ping\ndata: a\n\ndata: b\n\n", [("ping", b"a"), ("message", b"b")]),
        (b": comment\n\n:\n\ndata: a\n\n", [("message", b"a")]),
        (b"id: 1\nretry: 500\ndata:\n\n", []),
        (b"id: 1\ndata\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [("message", b"a")]),
        (b"data: a\n", []),
        (b"data: a\r\n\r\n\ndata: b\r\n\r\n", [("message", b"a"), ("message", b"b")]),
        (b"unknown: x\ndata: a\n\n", [("message", b"a")]),
    ],
)
def test_events_are_read_as_the_standard_says(
    stream: bytes, events: list[tuple[str, bytes]]
) -> None:
    assert _parsed(stream) == events
    assert _parsed(*(stream[at : at + 1] for at in range(len(stream)))) == events


@given(st.binary(max_size=60), st.lists(st.integers(0, 80), max_size=5))
def test_how_a_stream_is_cut_does_not_change_what_it_says(noise: bytes, cuts: list[int]) -> None:
    stream = b"data: a\r\n" + noise + b"\r\n\ndata: b\r\n\r\n"
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert _parsed(*pieces) == _parsed(stream)


def test_an_event_without_data_still_says_where_to_resume_and_when() -> None:
    parser = EventParser(1_000)
    assert parser.feed(b"id: 7\nretry: 250\ndata: \n\n") == []
    assert (parser.last_id, parser.retry) == ("7", 0.25)
    parser.feed(b"retry: soon\nid: a\0b\n\n")
    assert (parser.last_id, parser.retry) == ("7", 0.25)


def test_an_id_counts_once_its_event_is_complete() -> None:
    parser = EventParser(1_000)
    parser.feed(b"id: 7\ndata: half")
    assert parser.last_id is None


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 2_000, b": " + b"x" * 2_000, b"data: xxxxxxxx\n" * 200]
)
def test_an_event_beyond_the_cap_is_refused(stream: bytes) -> None:
    with pytest.raises(TooLong):
        _parsed(stream)


def test_comments_and_small_events_never_reach_the_cap() -> None:
    parser = EventParser(100)
    for _ in range(1_000):
        parser.feed(b": keep-alive\n")
        assert parser.feed(b"id: 1\ndata: x\n\n") == [("message", b"x")]


def test_parsing_costs_time_linear_in_the_size() -> None:
    def seconds(size: int) -> float:
        best = 10.0
        for _ in range(3):
            parser, piece = EventParser(2**30), b"x" * 1_024
            parser.feed(b"data: ")
            begun = time.process_time()
            for _ in range(size // 1_024):
                parser.feed(piece)
            assert len(parser.feed(b"\n\n")[0].data) == size
            best = min(best, time.process_time() - begun)
        return best

    small, large = seconds(2**20), seconds(2**23)
    assert large < 4 * 8 * small
