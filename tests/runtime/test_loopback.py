"""What counts as this machine, where that decides whether plain http may carry a secret."""

from __future__ import annotations

import pytest

from mcp_client.runtime.loopback import is_loopback


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "app.localhost",
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "[::1]",
        "::1%lo",
        "::ffff:127.0.0.1",
    ],
)
def test_this_machine_is_recognized_by_name_and_by_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost.example.com",
        "mylocalhost",
        "127.0.0.1.example.com",
        "127.1",
        "0x7f000001",
        "2130706433",
        "127.0.0.999",
        "0.0.0.0",
        "::",
        "128.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::127.0.0.1",
    ],
)
def test_no_other_host_counts_as_this_machine(host: str) -> None:
    assert not is_loopback(host)
