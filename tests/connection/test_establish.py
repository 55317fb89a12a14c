"""What a connection that is not made says, and what is remembered of one that was."""

from __future__ import annotations

import sys

import pytest

from mcp_client import ConnectError, StdioServer, connect
from mcp_client.connection import establish


def test_only_so_many_servers_are_remembered_to_want_initialize() -> None:
    for number in range(300):
        establish._remember(number, True)
    establish._remember(299, False)
    establish._remember(None, True)
    assert list(establish._wants_initialize) == list(range(44, 299))


async def test_a_process_that_is_killed_before_it_answers_is_told_by_its_signal() -> None:
    code = "import os; input(); os.kill(os.getpid(), 9)"
    with pytest.raises(ConnectError, match="was ended by signal 9 before") as caught:
        await connect(StdioServer(sys.executable, ["-S", "-c", code]))
    assert caught.value.exit_code == -9
