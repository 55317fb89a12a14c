"""What a server is called where the host gave no name."""

from __future__ import annotations

import pytest

from mcp_client.transports.stdio import StdioServer, StdioTransport


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "examples/servers/weather.py"], "weather"),
        (["/usr/bin/python3.11", "-u", "weather.py", "--token=abc"], "weather"),
        (["python", "-m", "mcp_server_git"], "mcp_server_git"),
        (["npx", "-y", "@modelcontextprotocol/server-everything"], "server-everything"),
        (["python", "-c", "print('a long program')"], "python"),
        (["/opt/bin/github-mcp-server", "stdio"], "github-mcp-server"),
        (["uvx", "mcp-server-fetch"], "mcp-server-fetch"),
    ],
)
def test_a_server_is_called_after_what_is_run_and_not_what_runs_it(
    words: list[str], name: str
) -> None:
    assert StdioTransport(StdioServer(words[0], words[1:])).name == name
