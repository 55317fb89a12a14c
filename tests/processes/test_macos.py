"""What can be tested of macOS on another system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcp_client.processes.process import bytes_unread
from mcp_client.runtime.atomic_file import wait_for_disk

fcntl = pytest.importorskip("fcntl")
pytestmark = pytest.mark.one_backend
_FULL = 51


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", _FULL, raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports it")
def test_what_a_pipe_holds_is_known_at_the_end_that_is_written_to() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"12345")
        assert bytes_unread(writer) == 5
        os.read(reader, 2)
        assert bytes_unread(writer) == 3
    finally:
        os.close(reader)
        os.close(writer)


def test_what_a_pipe_holds_is_unknown_where_a_system_counts_the_other_direction(
    macos: None,
) -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"12345")
        assert bytes_unread(writer) is None
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("supported", [True, False])
def test_waiting_for_the_disk_empties_its_own_memory_too_or_else_what_fsync_can(
    supported: bool, macos: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def control(file: int, command: int) -> int:
        calls.append(command)
        if not supported:
            raise OSError(45, "Operation not supported")
        return 0

    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda file: calls.append("fsync"))
    with open(tmp_path / "f", "wb") as stream:
        wait_for_disk(stream.fileno())
    assert calls == ([_FULL] if supported else [_FULL, "fsync"])
