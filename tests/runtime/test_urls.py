"""Keys in the path of a URL, none of which is shown anywhere; and what counts as this machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    AuditLog,
    Host,
    HttpServer,
    McpError,
    ServerConfig,
    StdioServer,
    allow_all,
    connect,
)
from mcp_client.runtime.masking import secrets_passed, secrets_sent
from mcp_client.runtime.urls import is_loopback, path_keys, without_path_keys
from mcp_client.transports.http_options import name_of_url, shown
from tests.cli.shell import run
from tests.support.http_apps import Handshake, Stateless, failure
from tests.support.http_server import Reply, Request, serving

KEY = "NzE4YjQ0YjYtZmU4Mi00MDk3"

HIDDEN = {
    f"/api/mcp/s/{KEY}/mcp": "/api/mcp/s/***/mcp",
    "/server/550e8400-e29b-41d4-a716-446655440000/mcp": "/server/***/mcp",
    "/s/sk-live-1234567890abcdef": "/s/***",
    "/s/sk_test_4": "/s/***",
    "/s/9f8e7d6c5b4a/sse": "/s/***/sse",
    "/s/AbCdEfGhIjKlMnOp/": "/s/***/",
    "/bot123456:AAEhBOweik9ai2o/mcp": "/***/mcp",
    "/mcp;key=abcd1234": "/***",
    "/token/a1b2/mcp": "/token/***/mcp",
    "/s/NzE4%59jQ0Y%6aYt/mcp": "/s/***/mcp",
    "/4915112345678901/mcp": "/***/mcp",
    f"/{KEY}/{KEY}": "/***/***",
    "/s/qzxwvkjhgfdsapoiuytrewq": "/s/***",
}
PLAIN = [
    *("", "/", "/mcp", "/sse", "/v1/streamable-http", "/api/v2.1/mcp", "/messages"),
    *("/2025-06-18/server-everything", "/gmailServer2/mcp", "/organizations/acme-corp/mcp"),
    *("/k8s-cluster/mcp", "/oauth2/callback", "/token/refresh", "/projects/123456/mcp"),
    *("/modelcontextprotocol/servers", "/.well-known/oauth-protected-resource/mcp", "/a%2Fb"),
]


@pytest.mark.parametrize(("path", "text"), HIDDEN.items())
def test_what_looks_like_a_key_is_hidden_and_is_a_secret_of_each_request(
    path: str, text: str
) -> None:
    assert without_path_keys(path) == text
    url = f"https://example.com{path}"
    assert shown(url) == f"https://example.com{text}"
    assert repr(HttpServer(url)) == f"HttpServer('https://example.com{text}')"
    keys = path_keys(path)
    assert keys <= secrets_sent(url, [])
    assert keys <= secrets_passed({}, ["proxy", url])
    assert not any(key in name_of_url(url) for key in keys)


@pytest.mark.parametrize("path", PLAIN)
def test_what_reads_like_words_is_shown(path: str) -> None:
    assert without_path_keys(path) == path
    assert not path_keys(path)


# ------------------------------------------------------------------ nowhere shown


async def _refusing(request: Request, reply: Reply) -> None:
    await reply.json(failure(request, -32000, f"no access at {request.path}"), 500)


async def _login(request: Request, reply: Reply) -> None:
    await reply.send(401, f"no: {request.path}".encode())


async def _away(request: Request, reply: Reply) -> None:
    await reply.send(302, b"", {"Location": f"http://127.0.0.2{request.path}"})


def _texts(error: BaseException | None) -> str:
    found = []
    while error is not None:
        found += [str(error), repr(error), getattr(error, "message", ""), repr(vars(error))]
        error = error.__cause__
    return "\n".join(found)


@pytest.mark.parametrize("app", [_refusing, _login, _away])
async def test_no_error_and_no_log_line_of_opening_shows_the_key(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for via_httpx in (False, True):
        async with serving(app, path=f"/s/{KEY}/mcp") as served:
            server = HttpServer(served.url, via_httpx=via_httpx)
            with anyio.fail_after(30), pytest.raises(McpError) as caught:
                async with connect(server, approval=allow_all):
                    pass
        assert KEY not in _texts(caught.value)
        with anyio.fail_after(30), pytest.raises(McpError) as caught:  # no one is there any more
            async with connect(server, approval=allow_all):
                pass
        assert KEY not in _texts(caught.value)
    assert KEY not in caplog.text


@pytest.mark.parametrize("kind", [Stateless, Handshake])
async def test_no_repr_status_audit_and_error_of_a_call_shows_the_key(
    kind: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.json(failure(request, -32000, f"cannot serve {request.path}"))

    shown_to_hook: list[str] = []

    async def approve(call: Any) -> Allow:
        shown_to_hook.extend([repr(call), str(call.to_json()), str(call.facts())])
        return Allow()

    async with serving(kind(fail=fail), path=f"/s/{KEY}/mcp") as served:
        audit = AuditLog(tmp_path / "audit.jsonl")
        config = ServerConfig(HttpServer(served.url))
        with anyio.fail_after(60):
            async with Host({"a": config}, approval=approve, audit=audit) as host:
                await host.call_tool("a__echo", {})
                with pytest.raises(McpError) as caught:
                    await host.call_tool("a__fail", {})
                texts = [_texts(caught.value), repr(host), str(host.status()), repr(config)]
    assert "cannot serve /s/***/mcp" in str(caught.value)
    for text in (*texts, *shown_to_hook, caplog.text, (tmp_path / "audit.jsonl").read_text()):
        assert KEY not in text


def test_doctor_and_the_shell_do_not_show_the_key() -> None:
    for command in ("doctor", "tools"):
        done = run(command, f"http://127.0.0.1:9/s/{KEY}/mcp")
        assert done.code
        assert KEY not in done.out + done.err


def test_a_command_with_such_a_url_does_not_show_the_key() -> None:
    server = StdioServer("mcp-remote", [f"https://example.com/s/{KEY}/mcp"])
    assert KEY not in repr(server)


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
