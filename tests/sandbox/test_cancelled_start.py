"""A start that is cancelled while its sandbox is prepared leaves no descriptor and no directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcp_client import ConnectError, Sandbox
from mcp_client.sandbox import confined_group
from mcp_client.sandbox.bubblewrap import Launch, confine
from mcp_client.sandbox.confined_group import confined

from .confined import ENV, needs_bubblewrap

pytestmark = needs_bubblewrap

ARGV = ["/bin/sh", "-c", "exit"]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """All that was prepared."""
    made: list[Launch] = []

    def noted(*args: Any) -> Any:
        launch, confinement = confine(*args)
        made.append(launch)
        return launch, confinement

    monkeypatch.setattr(confined_group, "confine", noted)
    return made


def nothing_is_left(launch: Launch) -> bool:
    directory = launch.directory or ""
    return not os.path.exists(directory) and not any(map(_is_open, launch.pass_fds))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


async def test_one_that_is_cancelled_after_all_was_prepared(
    launches: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = anyio.CancelScope()

    async def run_and_be_cancelled(function: Callable[[], Any], **_: Any) -> Any:
        function()
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        raise AssertionError("it was cancelled")

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_and_be_cancelled)
    with scope:
        await confined(Sandbox(), None, ARGV, ENV, None, 30)
    (launch,) = launches
    assert launch.pass_fds
    assert nothing_is_left(launch)


async def test_one_that_has_no_time_left_before_all_is_prepared(
    launches: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Callable[[], Any]] = []

    async def run_later(function: Callable[[], Any], **_: Any) -> Any:
        later.append(function)
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_later)
    with pytest.raises(ConnectError, match="cannot start the server within 0 s"):
        await confined(Sandbox(), None, ARGV, ENV, None, 0)
    later[0]()
    assert nothing_is_left(launches[0])
