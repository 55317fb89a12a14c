"""Servers that are odd about agreeing on a revision."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from mcp_client import ConnectError, Timeouts, allow_all, connect
from mcp_client.errors import NegotiationError
from tests.support.starting import scripted
from tests.support.timing import Clock, quickly


async def _spoken(*options: str, **rest: str) -> str:
    async with connect(scripted(*options), approval=allow_all, **rest) as session:  # type: ignore[arg-type]
        assert (await session.call_tool("echo")).text == "{}"
        return session.protocol_version


async def test_a_server_that_ignores_the_probe_is_waited_for_once(clock: Clock) -> None:
    fresh = str(time.monotonic_ns() % 1000)  # a command line that is not remembered yet
    options = ("--ignore-unknown", "--version", "2025-06-18", "--stderr-flood", fresh)
    clock.stop()
    began = anyio.current_time()
    async with quickly(clock):
        assert await _spoken(*options) == "2025-06-18"
    waited = anyio.current_time()
    assert waited >= began + 1
    assert await _spoken(*options) == "2025-06-18"
    assert anyio.current_time() == waited


async def test_a_fixed_revision_gives_silence_all_the_time_to_connect(clock: Clock) -> None:
    began = anyio.current_time()
    clock.stop()
    async with quickly(clock):
        with pytest.raises(ConnectError, match="does not answer server/discover") as caught:
            await connect(scripted("--ignore-unknown"), revision="2026-07-28")
    assert anyio.current_time() >= began + Timeouts().connect
    assert caught.value.retryable


async def test_a_slow_start_is_not_taken_for_silence() -> None:
    assert await _spoken("--era", "stateless", "--slow-start", "2.5") == "2026-07-28"


async def test_a_server_that_dies_of_the_probe_is_reached_and_remembered(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    options = ("--die-on-probe", "--starts", str(starts))
    assert await _spoken(*options) == "2025-11-25"
    assert len(starts.read_text().splitlines()) == 2
    assert await _spoken(*options) == "2025-11-25"
    assert len(starts.read_text().splitlines()) == 3


async def test_a_server_that_refuses_initialize_after_the_probe_is_started_again(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "starts"
    options = ("--refuse-initialize-after-probe", "--starts", str(starts))
    assert await _spoken(*options) == "2025-11-25"
    assert len(starts.read_text().splitlines()) == 2


@pytest.mark.parametrize("code", [0, -32600, -32601, -32602, -32603])
async def test_any_unrecognised_error_to_the_probe_means_the_handshake(code: int) -> None:
    assert await _spoken("--probe-error", str(code)) == "2025-11-25"


async def test_a_recognised_error_to_the_probe_never_falls_back() -> None:
    with pytest.raises(NegotiationError, match="-32021"):
        await connect(scripted("--probe-error", "-32021"))


@pytest.mark.parametrize(
    "options", [("--probe-lists-only-handshake",), ("--unsupported", "handshake")]
)
async def test_a_probe_that_lists_only_handshake_revisions_leads_to_initialize(
    options: tuple[str, ...],
) -> None:
    # It answers the probe and has no initialize: its error proves that it was asked.
    with pytest.raises(NegotiationError, match="refuses initialize with 2025-11-25"):
        await connect(scripted("--era", "stateless", *options))


async def test_an_unsupported_version_that_is_listed_as_supported_ends_the_talk() -> None:
    with pytest.raises(NegotiationError, match=r"lists 2026-07-28 .* but refuses it"):
        await connect(scripted("--era", "stateless", "--unsupported", "same"))


async def test_an_unsupported_version_with_no_list_names_the_revisions_we_support() -> None:
    with pytest.raises(NegotiationError, match="lists none; supported: 2026-07-28"):
        await connect(scripted("--era", "stateless", "--unsupported", "nothing"))


async def test_a_revision_we_do_not_speak_is_refused_by_name() -> None:
    with pytest.raises(NegotiationError, match="'2031-01-01'"):
        await connect(scripted("--version", "2031-01-01"))


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_pinned_revision_is_what_is_spoken(revision: str) -> None:
    assert await _spoken(revision=revision) == revision


async def test_junk_before_the_first_response_is_counted_and_skipped() -> None:
    async with connect(scripted("--junk-first")) as session:
        assert session.stats.junk_lines == 2
        assert session.protocol_version == "2025-11-25"


async def test_a_server_that_answers_nothing_ends_with_the_connect_clock() -> None:
    server = scripted("--era", "stateless", "--ignore-unknown", "--slow-start", "30")
    with pytest.raises(Exception, match=r"within 0.5 s: it has not read its input"):
        await connect(server, timeouts=Timeouts(connect=0.5, close=0.2))
