"""What a newcomer reads when no connection comes about: the cause, and the way out."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute

from mcp_client import (
    ConfigError,
    ConnectError,
    HttpServer,
    ServerError,
    StdioServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.auth import BearerToken
from mcp_client.errors import AuthError
from tests.support.certificates import self_signed
from tests.support.http_apps import Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=20, idle=20, total=30)


async def _failure(server: Any, kind: type[Exception] = ConnectError) -> Any:
    with anyio.fail_after(30), pytest.raises(kind) as caught:
        async with connect(server, approval=allow_all, timeouts=QUICK):
            raise AssertionError("connected")
    return caught.value


# ------------------------------------------------------------------------- TLS


async def test_a_certificate_of_ones_own_is_named_and_how_to_trust_it(tmp_path: Path) -> None:
    file, context = self_signed(tmp_path)
    async with serving(Stateless(), tls=context) as server:
        error = await _failure(server.url)
        assert "certificate is not trusted here (self-signed certificate)" in error.message
        assert "SSL_CERT_FILE" in error.message and "cafile" in error.message
        assert not error.retryable
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=file)) as client:
            trusted = HttpServer(server.url, client=client)
            async with connect(trusted, approval=allow_all) as session:
                assert (await session.call_tool("echo", {})).text == "{}"


@pytest.mark.parametrize(
    ("days", "address", "expected"),
    [(-1, "127.0.0.1", "not valid now"), (30, "127.0.0.9", "not for '127.0.0.1'")],
)
async def test_another_fault_of_a_certificate_is_named_too(
    days: int, address: str, expected: str, tmp_path: Path
) -> None:
    file, context = self_signed(tmp_path, days=days, address=address)
    async with (
        serving(Stateless(), tls=context) as server,
        httpx.AsyncClient(verify=ssl.create_default_context(cafile=file)) as client,
    ):
        error = await _failure(HttpServer(server.url, client=client))
    assert expected in error.message


async def test_https_spoken_to_a_server_without_tls_leads_to_http_as_advice() -> None:
    async def refuse(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        error = await _failure(f"https://127.0.0.1:{port}/mcp")
        tasks.cancel_scope.cancel()
    assert "does not speak TLS" in error.message and "http://" in error.message
    assert not error.retryable


async def test_http_spoken_to_a_server_with_tls_leads_to_https_as_advice(tmp_path: Path) -> None:
    _, context = self_signed(tmp_path)
    async with serving(Stateless(), tls=context) as server:
        error = await _failure(server.url.replace("https:", "http:"))
    assert "https://" in error.message


async def test_a_tls_alert_in_response_to_http_leads_to_https_as_advice() -> None:
    async def alert(request: Request, reply: Reply) -> None:
        await reply.raw(b"\x15\x03\x01\x00\x02\x02\x46")
        reply.hang_up()

    async with serving(alert) as server:
        error = await _failure(server.url)
    assert "use https://" in error.message


async def test_a_server_that_asks_for_tls_in_words_leads_to_https_as_advice() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(400, b"Client sent an HTTP request to an HTTPS server.\n")

    async with serving(handler) as server:
        error = await _failure(server.url)
    assert "use https://" in error.message


# ------------------------------------------------------------------- addresses


async def test_a_host_name_that_does_not_exist_is_named() -> None:
    error = await _failure("https://no-such-host.invalid/mcp")
    assert "host name 'no-such-host.invalid' cannot be resolved" in error.message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:8000/mcp", "give http://localhost:8000/mcp"),
        ("127.0.0.1:8000", "give http://127.0.0.1:8000"),
        ("example.com/mcp", "give https://example.com/mcp"),
        ("python server.py", "StdioServer('python', ['server.py'])"),
        ("npx -y 'a b'", "StdioServer('npx', ['-y', 'a b'])"),
        ("ftp://example.com", "ftp://, which is not supported"),
    ],
)
def test_what_is_not_a_url_states_what_it_may_be(url: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)
    assert expected in str(caught.value)


# --------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("status", "expected"),
    [(500, "Its own log may have the reason"), (404, "may not be the URL of the MCP endpoint")],
)
async def test_a_page_for_people_is_read_by_its_status(status: int, expected: str) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        page = b"<html><head><title>Oops</title></head></html>"
        await reply.send(status, page, {"Content-Type": "text/html"})

    async with serving(handler) as server:
        error = await _failure(server.url)
    assert "an HTML page titled 'Oops'" in error.message and expected in error.message
    assert "login" not in error.message


async def test_a_server_error_in_mid_session_does_not_speak_of_logging_in() -> None:
    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(500, b"<html><title>Internal</title>", {"Content-Type": "text/html"})

    async with (
        serving(Stateless(fail=fail)) as server,
        connect(server.url, approval=allow_all) as session,
    ):
        with pytest.raises(ServerError) as caught:
            await session.call_tool("fail")
    assert "login" not in caught.value.message and "log may have the reason" in caught.value.message


@pytest.mark.parametrize("passed", [False, True])
async def test_a_401_explains_how_to_log_in_or_that_what_was_given_was_refused(
    passed: bool,
) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(401, b"", {"WWW-Authenticate": "Bearer"})

    async with serving(handler) as server:
        token = BearerToken("at-1") if passed else None
        error = await _failure(HttpServer(server.url, auth=token), AuthError)
    if passed:
        assert "was not accepted" in error.message and "OAuth" not in error.message
    else:
        assert "auth=OAuth()" in error.message and "auth=BearerToken('...')" in error.message


# ----------------------------------------------------------------------- stdio


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (StdioServer("python server.py"), "StdioServer('python', ['server.py'])"),
        (StdioServer("npx -y", ["secret"]), "StdioServer('npx', ['-y', ...])"),
        (["python server.py"], "StdioServer('python', ['server.py'])"),
        (StdioServer("no-such-command"), "not on PATH"),
        (StdioServer("./no-such-file"), "not an executable file"),
    ],
)
async def test_a_command_that_cannot_be_run_gives_the_reason(server: Any, expected: str) -> None:
    error = await _failure(server)
    assert expected in error.message


async def test_a_path_with_a_space_in_it_is_a_command(tmp_path: Path) -> None:
    script = tmp_path / "my server"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o700)
    error = await _failure(StdioServer(str(script)))
    assert error.exit_code == 7


@pytest.mark.parametrize(
    "line",
    ["import os; os.environ['WEATHER_API_KEY']", "import sys; sys.exit('set WEATHER_API_KEY')"],
)
async def test_a_variable_that_is_set_here_and_not_passed_on_is_named(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "s3cret-value")
    error = await _failure(StdioServer(sys.executable, ["-c", line]))
    assert "env={'WEATHER_API_KEY': os.environ['WEATHER_API_KEY']}" in error.message
    assert "s3cret-value" not in str(error)


async def test_a_variable_that_is_passed_on_or_not_set_here_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "s3cret-value")
    line = "import sys; sys.exit('WEATHER_API_KEY and OTHER_API_KEY are missing')"
    env = {"WEATHER_API_KEY": "s3cret-value"}
    error = await _failure(StdioServer(sys.executable, ["-c", line], env=env))
    assert "not passed on" not in error.message
