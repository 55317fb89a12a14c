"""What a server is called where the host gave no name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.processes.commands import name_of_command
from mcp_client.transports.http_options import name_of_url
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
        (["uv", "run", "server.py"], "server"),
        (["uv", "run", "weather/server.py"], "weather"),
        (["uv", "--directory", "/srv/ana/weather", "run", "server.py"], "weather"),
        (["uv", "run", "--with", "mcp", "python", "-u", "weather.py"], "weather"),
        (["uv", "tool", "run", "mcp-server-time"], "mcp-server-time"),
        (["uvx", "--from", "git+https://example.com/x", "mcp-server-x"], "mcp-server-x"),
        (["python3.12", "-m", "weather.server"], "weather"),
        (["python", "-X", "dev", "/srv/docs/main.py"], "docs"),
        (["node", "/srv/docs/dist/index.js", "/secret"], "docs"),
        (["npx", "tsx", "weather.ts"], "weather"),
        (["npx", "-y", "@playwright/mcp@latest"], "playwright"),
        (["npx", "-y", "mcp-remote@1.2", "https://user:key@example.com"], "mcp-remote"),
        (["pnpm", "dlx", "my-server"], "my-server"),
        (["bun", "run", "src/index.ts"], "index"),
        (["deno", "run", "-A", "weather.ts"], "weather"),
        (
            ["docker", "run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/github-mcp:1.2"],
            "github-mcp",
        ),
        (["env", "KEY=value", "node", "weather.js"], "weather"),
        (["java", "-cp", "x", "-jar", "weather.jar"], "weather"),
        (["sh", "-c", "echo secret"], "sh"),
        (["cmd", "/c", "npx", "-y", "@scope/weather@1", "secret"], "weather"),
        (["docker", "run", "-i", "--rm", "mcp/fetch", "secret"], "fetch"),
        (["docker", "run", "-u", "1000", "-e", "KEY=secret", "mcp/fetch:2"], "fetch"),
        (["npx", "--registry", "https://u:secret@example.com", "docs-server"], "docs-server"),
        (["C:\\tools\\weather.exe"], "weather"),
        (["node"], "node"),
        (["uv", "run"], "uv"),
        (["python", "-m"], "python"),
        (["python", "…"], "python"),
        (["/"], "server"),
    ],
)
def test_a_server_is_called_after_what_is_run_and_not_what_runs_it(
    words: list[str], name: str
) -> None:
    assert StdioTransport(StdioServer(words[0], words[1:])).name == name


@pytest.mark.parametrize("cwd", ["/srv/weather", "/srv/weather/src", "weather"])
def test_a_server_that_is_called_as_many_are_is_called_after_its_directory(cwd: str) -> None:
    assert name_of_command("uv", ["run", "server.py"], cwd) == "weather"


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_any_command_has_a_readable_name(words: list[str]) -> None:
    name = name_of_command(words[0], words[1:])
    assert 0 < len(name) <= 60


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://docs.example.com/mcp", "docs.example.com"),
        ("https://docs.example.com", "docs.example.com"),
        ("https://docs.example.com:443/sse", "docs.example.com"),
        ("http://localhost:8000/mcp", "localhost:8000"),
        ("https://example.com/docs/mcp", "example.com/docs"),
        ("https://example.com/team-one/docs", "example.com/team-one/docs"),
        ("http://[::1]:8000/mcp", "::1:8000"),
        ("nonsense", "server"),
        ("http://[", "server"),
        ("http://example.com:x/", "server"),
    ],
)
def test_a_server_with_a_url_is_called_after_it(url: str, name: str) -> None:
    assert name_of_url(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/api/s/Zm9vYmFyc2VjcmV0/mcp",
        "https://example.com/mcp?key=Zm9vYmFyc2VjcmV0",
        "https://user:Zm9vYmFyc2VjcmV0@example.com/mcp",
    ],
)
def test_what_may_be_a_secret_is_not_in_a_name(url: str) -> None:
    assert "Zm9v" not in name_of_url(url)
    assert name_of_url(url).startswith("example.com")


def test_two_urls_of_one_host_are_distinguished() -> None:
    urls = ["/mcp", "/docs/mcp", "/mcp?project=a", "/mcp?project=b", "/t/123/mcp", "/t/456/mcp"]
    assert len({name_of_url(f"https://example.com{url}") for url in urls}) == len(urls)
