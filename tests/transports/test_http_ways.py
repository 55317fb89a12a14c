"""Which requests go through our own pool and which through httpx, and that both ways are alike."""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import (
    CallTimeout,
    ConfigError,
    ConnectError,
    Host,
    HttpServer,
    Limits,
    NotSent,
    ServerError,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.auth import BearerToken
from mcp_client.auth.safe_fetch import SafeFetcher
from mcp_client.auth.steps import Fetch, Unreachable
from mcp_client.errors import ConnectionLost
from mcp_client.transports.http_stock import proxy_for
from tests.support.authorization import guarded
from tests.support.certificates import Authority
from tests.support.http_apps import Stateless
from tests.support.http_server import Line, Reply, Request, listening, serving

QUICK = Timeouts(connect=20, idle=20, total=30)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
both = pytest.mark.usefixtures("http_way")


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, approval=allow_all, **{"timeouts": QUICK, **options})


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No proxy but those that a test names."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Host names that are looked up here, and their addresses."""
    known: dict[str, str] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **options: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        return real(known.get(text, host), *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


# ------------------------------------------------------------------- which way


class Signed(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-Signed"] = "1"
        yield request


class Prefixed(BearerToken):
    """Uses what only httpx's own request has."""

    async def async_auth_flow(self, request: httpx.Request) -> Any:
        request.headers.update({"X-More": request.url.host})
        yield request


async def _logged(server: HttpServer, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether httpx logs the requests of a session, as it does with those it sends."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "httpx"):
        async with _connect(server) as session:
            assert (await session.call_tool("echo", {})).text == "{}"
    return any(record.name == "httpx" for record in caplog.records)


async def test_what_the_pool_can_do_goes_through_it(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Stateless()) as server:
        for options in (
            {},
            {"headers": {"X-Key": "1"}},
            {"headers": lambda: {"X-Key": "1"}},
            {"auth": lambda: "token"},
            {"auth": BearerToken("token")},
            {"auth": Signed()},
            {"auth": Prefixed("token")},
        ):
            assert not await _logged(HttpServer(server.url, **options), caplog), options
        sent = {name for request in server.requests for name in request.headers}
        assert {"authorization", "x-signed", "x-more"} <= sent
        assert not await _logged(
            HttpServer(server.url.replace("127.0.0.1", "ada:pa55@127.0.0.1")), caplog
        )
        assert server.requests[-1].headers["authorization"] == "Basic YWRhOnBhNTU="


async def test_what_only_httpx_can_do_goes_through_httpx(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Stateless()) as server, httpx.AsyncClient(auth=Signed()) as client:
        assert await _logged(HttpServer(server.url, client=client), caplog)
        assert server.requests[-1].headers["x-signed"] == "1"
        assert await _logged(HttpServer(server.url, via_httpx=True), caplog)
        named = server.url.replace("127.0.0.1", "ada:pa55@127.0.0.1")
        assert await _logged(HttpServer(named, via_httpx=True), caplog)
        assert server.requests[-1].headers["authorization"] == "Basic YWRhOnBhNTU="
        assert "pa55" not in caplog.text


class Exchanging(httpx.Auth):
    """Gets its token at its endpoint, by a request of its flow, once the server refuses."""

    requires_request_body = requires_response_body = True

    def __init__(self, url: str) -> None:
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        response = yield request
        if response.status_code == 401:
            token = yield httpx.Request("POST", self._url, content=request.content)
            request.headers["Authorization"] = f"Bearer {token.text}"
            yield request


@both
async def test_an_auth_may_ask_another_server_for_its_token() -> None:
    app = Stateless()

    async def guard(request: Request, reply: Reply) -> None:
        if request.headers.get("authorization") == "Bearer secret":
            await app(request, reply)
        else:
            await reply.send(401, b"who?")

    async def issue(request: Request, reply: Reply) -> None:
        await reply.send(200, b"secret")

    async with serving(guard) as server, serving(issue) as issuer:
        auth = Exchanging(issuer.url)
        async with _connect(HttpServer(server.url, auth=auth)) as session:
            assert (await session.call_tool("echo", {})).text == "{}"
        assert b"tools/call" in b"".join(request.body for request in issuer.requests)


async def test_without_h11_everything_goes_through_httpx(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Stateless()) as server:
        assert not await _logged(HttpServer(server.url), caplog)
        monkeypatch.setitem(sys.modules, "h11", None)
        assert await _logged(HttpServer(server.url), caplog)


async def test_a_login_goes_through_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    from mcp_client import OAuth

    async with guarded() as world:
        auth = OAuth(on_url=world.agree)
        with caplog.at_level(logging.INFO, "httpx"):
            async with _connect(HttpServer(world.url, auth=auth)) as session:
                await session.list_tools()
    logged = [record.getMessage() for record in caplog.records if record.name == "httpx"]
    assert logged  # metadata and tokens, which are fetched with other rules
    assert not [line for line in logged if "POST " + world.url + " " in line]


async def test_the_repr_states_that_httpx_is_wanted() -> None:
    assert "via_httpx=True" in repr(HttpServer("https://example.com", via_httpx=True))


# ---------------------------------------------------------------------- cookies


@both
async def test_cookies_of_the_server_are_sent_back_to_it() -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if "cookie" not in request.headers:
            await reply.json(
                {
                    "jsonrpc": "2.0",
                    "id": request.message["id"],
                    "result": {
                        "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {}},
                        "resultType": "complete",
                    },
                },
                headers={"Set-Cookie": "node=7; Path=/"},
            )
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        for _ in range(3):
            assert (await session.call_tool("echo", {})).text == "{}"
        assert [request.headers.get("cookie") for request in server.saying("tools/call")] == [
            "node=7"
        ] * 3


# ------------------------------------------------------------- names and proxies


@both
async def test_an_international_name_travels_in_ascii(
    environment: pytest.MonkeyPatch, names: dict[str, str]
) -> None:
    names["xn--bcher-kva.example"] = "127.0.0.1"
    async with serving(Stateless(), path="/mcp/ü?q=é") as server:
        port = server.url.split(":")[2].split("/")[0]
        async with _connect(f"http://Bücher.example:{port}/mcp/ü?q=é") as session:
            assert (await session.call_tool("echo", {})).text == "{}"
    assert server.requests[-1].headers["host"] == f"xn--bcher-kva.example:{port}"
    assert server.requests[-1].path == "/mcp/%C3%BC?q=%C3%A9"


@both
@pytest.mark.needs("IPv6")
async def test_an_ipv6_literal_is_a_url_like_any_other() -> None:
    seen: list[bytes] = []

    async def converse(line: Line) -> None:
        while True:
            seen.append(await line.request())
            await line.send(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")

    async with listening(converse, host="::1") as server:
        with pytest.raises(ConnectError) as caught:
            await _connect(f"http://[::1]:{server.port}/mcp")
    assert caught.value.http_status == 401
    assert f"host: [::1]:{server.port}".encode() in seen[0].lower()


PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("no_proxy", "url", "proxied"),
    [
        ("", "http://10.1.2.3/mcp", True),
        ("10.0.0.0/8", "http://10.1.2.3/mcp", False),
        ("192.168.0.0/16, 10.0.0.0/8", "http://10.1.2.3/mcp", False),
        ("10.0.0.0/16", "http://10.1.2.3/mcp", True),
        ("10.1.2.3", "http://10.1.2.3:8000/mcp", False),
        ("fd00::/8", "http://[fd00::1]/mcp", False),
        ("[fd00::1]", "http://[fd00::1]/mcp", False),
        ("fd00::/8", "http://[fe00::1]/mcp", True),
        ("10.0.0.0/8", "http://example.com/mcp", True),
        ("example.com", "http://www.example.com/mcp", False),
        (".example.com", "http://www.example.com/mcp", False),
        ("example.com", "http://notexample.com/mcp", True),
        ("*", "http://example.com/mcp", False),
        ("junk/99, ,::/x", "http://10.1.2.3/mcp", True),
        ("", "http://localhost:1/mcp", False),
        ("", "http://127.8.9.1/mcp", False),
        ("", "http://[::1]/mcp", False),
        ("", "https://example.com/mcp", False),
    ],
)
def test_a_proxy_is_used_unless_no_proxy_names_the_host(
    environment: pytest.MonkeyPatch, no_proxy: str, url: str, proxied: bool
) -> None:
    environment.setenv("HTTP_PROXY", "proxy.example:3128")
    environment.setenv("NO_PROXY", no_proxy)
    assert proxy_for(url) == (PROXY if proxied else None)


async def test_a_proxy_of_the_environment_carries_what_it_is_for(
    environment: pytest.MonkeyPatch, names: dict[str, str]
) -> None:
    async with serving(Stateless()) as proxy, serving(Stateless()) as server:
        port = server.url.split(":")[2].split("/")[0]
        names["mcp.example"] = "127.0.0.1"
        environment.setenv("HTTP_PROXY", proxy.url.removesuffix("/mcp"))
        async with _connect(f"http://mcp.example:{port}/mcp") as session:
            await session.call_tool("echo", {})
        assert not server.requests
        assert proxy.requests[0].path == f"http://mcp.example:{port}/mcp"
        environment.setenv("NO_PROXY", "mcp.example")
        async with _connect(f"http://mcp.example:{port}/mcp") as session:
            await session.call_tool("echo", {})
        assert server.requests


@pytest.mark.parametrize(
    ("variable", "proxy", "url", "expected"),
    [
        ("HTTP_PROXY", "http://me:s3cret@127.0.0.1:1", "http://mcp.example/mcp", "reached"),
        ("HTTPS_PROXY", "http://me:s3cret@127.0.0.1:1", "https://mcp.example/mcp", "reached"),
        ("all_proxy", "me:s3cret@127.0.0.1:1", "https://mcp.example/mcp", "reached"),
        ("http_proxy", "http://me:s3cret@no.invalid:1", "http://mcp.example/mcp", "resolved"),
        ("ALL_PROXY", "http://me:s3cret@no.invalid:1", "https://mcp.example/mcp", "resolved"),
    ],
)
async def test_a_dead_proxy_is_named_with_its_variable_and_without_its_password(
    environment: pytest.MonkeyPatch, variable: str, proxy: str, url: str, expected: str
) -> None:
    environment.setenv(variable, proxy)
    with pytest.raises(ConnectError) as caught:
        async with _connect(HttpServer(url)):
            raise AssertionError("it was entered")
    text = str(caught.value)
    place = f"http://{proxy.partition('@')[2]}"
    assert f"the proxy {place}, which the environment variable {variable} names, " in text
    assert f"cannot be {expected}" in text
    assert "NO_PROXY" in text
    assert "s3cret" not in text
    assert "is the server running" not in text


async def test_a_dead_proxy_is_named_where_a_login_needs_it(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("HTTPS_PROXY", "http://me:s3cret@127.0.0.1:1")
    fetcher = SafeFetcher("https://mcp.example/mcp")
    found = await fetcher.fetch(Fetch("GET", "https://auth.example/x", "the metadata"))
    assert isinstance(found, Unreachable)
    assert (
        "the proxy http://127.0.0.1:1, which the environment variable HTTPS_PROXY" in found.reason
    )
    assert "s3cret" not in found.reason


@pytest.fixture
def certificates(environment: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory for what the variables of TLS name; none is set."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"):
        environment.delenv(name, raising=False)
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "junk.pem").write_text("no certificate")
    return tmp_path


@pytest.mark.parametrize(
    ("variable", "file", "expected"),
    [
        ("SSL_CERT_FILE", "missing.pem", "cannot be read: No such file"),
        ("SSL_CERT_FILE", "empty.pem", "has no certificate"),
        ("SSL_CERT_FILE", "junk.pem", "has no certificate"),
        ("SSL_CERT_FILE", ".", "cannot be read"),
        ("SSL_CERT_DIR", "missing", "is not a directory"),
        ("SSL_CERT_DIR", "empty.pem", "is not a directory"),
        ("SSLKEYLOGFILE", "missing/keys", "cannot be written: No such file"),
        ("SSLKEYLOGFILE", ".", "cannot be written"),
    ],
)
@pytest.mark.parametrize("face", ["session", "httpx", "host"])
async def test_what_a_variable_of_tls_names_and_cannot_be_used_is_named(
    environment: pytest.MonkeyPatch,
    certificates: Path,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    file: str,
    expected: str,
    face: str,
) -> None:
    path = str(certificates / file)
    environment.setenv(variable, path)
    environment.setattr("mcp_client.transports.http_stock._contexts", {})
    server = HttpServer("https://mcp.example/mcp", via_httpx=face == "httpx")
    if face == "host":
        async with Host({"one": server}) as host:
            error: Any = host.status()["one"].error
        assert "Traceback" not in caplog.text
    else:
        with pytest.raises(ConfigError) as caught:
            async with _connect(server):
                raise AssertionError("it was entered")
        error = caught.value
    text = str(error)
    assert f"the environment variable {variable} names {path!r}, which {expected}" in text
    assert f"change {variable}, or unset it" in text


async def test_a_proxy_that_cannot_be_used_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ALL_PROXY", "gopher://me:s3cret@proxy.example:70")
    with pytest.raises(ConfigError, match=r"gopher://proxy\.example:70.* ALL_PROXY") as caught:
        await _connect("http://mcp.example/mcp")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://proxy.example:port",
        "http://[::1",
        "http://",
        "http://me:s3cret\n@proxy.example:1",
        "http://me:s3/cret@proxy.example:3128",
        "http://me:12/s3cret@proxy.example:3128",
        "http://me:12#s3cret@proxy.example:3128",
        "me:12?s3cret@proxy.example:3128",
    ],
)
async def test_a_proxy_whose_url_is_not_valid_is_reported_with_its_variable_alone(
    environment: pytest.MonkeyPatch, proxy: str
) -> None:
    environment.setenv("https_proxy", proxy)
    with pytest.raises(ConfigError, match="variable https_proxy names a proxy whose URL") as caught:
        await _connect("https://mcp.example/mcp")
    found = await SafeFetcher("https://mcp.example/mcp").fetch(
        Fetch("GET", "https://auth.example/x", "the metadata")
    )
    assert isinstance(found, Unreachable)
    for text in (str(caught.value), found.reason):
        assert "https_proxy" in text
        assert "s3" not in text
        assert "cret" not in text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 407 X\r\ncontent-length: 0\r\n\r\n", "the proxy's user and password"),
        (b"HTTP/1.1 502 X\r\ncontent-length: 5\r\n\r\nsquid", "squid"),
        (b"", "check the proxy"),
        (b"SSH-2.0 junk\r\n\r\n", "check the proxy"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_does_not_pass_a_request_on_is_named(
    environment: pytest.MonkeyPatch, scheme: str, answer: bytes, expected: str
) -> None:
    async def converse(line: Line) -> None:
        await line.request()
        await line.send(answer)

    async with listening(converse) as proxy:
        environment.setenv("ALL_PROXY", f"http://me:s3cret@127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectError) as caught:
            await _connect(f"{scheme}://mcp.example/mcp")
    text = str(caught.value)
    assert f"the proxy http://127.0.0.1:{proxy.port}, which the environment variable" in text
    assert (expected if scheme == "http" else "check the proxy") in text
    assert "s3cret" not in text
    assert "speaks TLS" not in text


# -------------------------------------------------------------------------- TLS


@asynccontextmanager
async def _trusting(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext
) -> AsyncIterator[Any]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with serving(Stateless(), tls=context) as server:
        yield server


@both
async def test_a_connection_whose_other_end_is_gone_is_noticed_by_the_system(
    environment: pytest.MonkeyPatch,
) -> None:
    options: list[tuple[Any, ...]] = []
    real = socket.socket.setsockopt

    def noting(self: socket.socket, *option: Any) -> None:
        options.append(option)
        real(self, *option)

    environment.setattr(socket.socket, "setsockopt", noting, raising=False)
    async with serving(Stateless()) as server, _connect(server.url) as session:
        await session.call_tool("echo", {})
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
    assert (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60) in options


@both
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_one_tls_connection_serves_many_calls(
    version: ssl.TLSVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context()
    context.minimum_version = context.maximum_version = version
    context.num_tickets = 4
    async with _trusting(authority, monkeypatch, context) as server:
        async with _connect(server.url) as session:
            for number in range(20):
                reported = {"n": number, "text": "x" * (number * 10_000)}
                assert (await session.call_tool("echo", reported)).text == str(reported)
        assert server.connections == 1


WRONG: dict[str, tuple[Callable[[Authority], ssl.SSLContext], str]] = {
    "expired": (lambda ca: ca.server_context(days=-1), "not valid now"),
    "not yet valid": (lambda ca: ca.server_context(begins=5), "not valid now"),
    "another address": (lambda ca: ca.server_context(address="127.0.0.9"), "not for '127.0.0.1'"),
    "no address": (lambda ca: ca.server_context(address=None), "not for '127.0.0.1'"),
    "unknown authority": (lambda ca: ca.another().server_context(), "not trusted here"),
    "signed by itself": (lambda ca: ca.another().own_context(), "not trusted here"),
    "for clients only": (lambda ca: ca.server_context(for_clients=True), "cannot be verified"),
    "signed by no authority": (lambda ca: ca.leaf_as_authority().server_context(), "certificate"),
}


@both
@pytest.mark.parametrize("how", WRONG)
async def test_a_certificate_that_is_wrong_is_refused_and_nothing_is_sent(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, reported = WRONG[how]
    authority = Authority(tmp_path)
    async with _trusting(authority, monkeypatch, make(authority)) as server:
        with pytest.raises(ConnectError, match=reported) as caught:
            await _connect(server.url)
    assert not caught.value.retryable
    assert not server.requests


# ------------------------------------------------------------------------- time


@both
async def test_headers_that_drip_are_waited_for_as_long_as_the_call_may_take() -> None:
    async def drip(arguments: Any, request: Request, reply: Reply) -> None:
        reply.hang_up()
        await reply.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            await reply.raw(b"x")
            await anyio.sleep(0.01)

    async with serving(Stateless(drip=drip)) as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("drip", timeout=0.5)
        assert (await session.call_tool("echo", {})).text == "{}"
    assert len(server.saying("tools/call")) == 2


async def test_a_refusal_while_the_arguments_are_being_sent_is_received() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nbig!"
    async with (
        serving(Stateless(), deaf_above=1_000_000, deaf_reply=refusal) as server,
        _connect(server.url) as session,
    ):
        with pytest.raises(ServerError, match="HTTP 413: big!"):
            await session.call_tool("echo", {"data": "x" * 20_000_000})
        assert (await session.call_tool("echo", {})).text == "{}"


# ------------------------------------------------------------------------- soak


class Cutting:
    """Cuts connections at random: before a request is read, before and while it is answered, and
    after that. Counts what it ran."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.app = Stateless()
        self.ran: Counter[int] = Counter()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.rpc_method != "tools/call":
            await self.app(request, reply)
            return
        cut = self.random.random()
        if cut < 0.02:
            reply.hang_up()
            return
        number = request.message["params"]["arguments"]["n"]
        self.ran[number] += 1
        if cut < 0.04:
            reply.hang_up()
        elif cut < 0.06:
            reply.hang_up()
            await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Le")
        elif cut < 0.08:
            reply.hang_up()
            await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        else:
            self.app.sse = cut < 0.5
            await self.app(request, reply)
            if cut < 0.12:
                reply.hang_up()


async def soak(calls: int, seed: int) -> None:
    """Calls from sixteen tasks, while their connections are cut. By name, in any number:
    ``python -m tests.transports.test_http_ways 100000``."""
    server_side, outcomes = Cutting(seed), dict[int, str]()
    async with serving(server_side) as server:
        async with _connect(server.url) as session:
            await session.call_tool("echo", {"n": -1})
            before = len(os.listdir("/proc/self/fd"))
            numbers = iter(range(calls))

            async def work() -> None:
                for number in numbers:
                    try:
                        result = await session.call_tool("echo", {"n": number})
                    except NotSent:
                        outcomes[number] = "not sent"
                    except ConnectionLost:
                        outcomes[number] = "unknown"
                    else:
                        assert result.text == str({"n": number})
                        outcomes[number] = "answered"

            async with anyio.create_task_group() as tasks:
                for _ in range(16):
                    tasks.start_soon(work)
            after = len(os.listdir("/proc/self/fd"))
        await anyio.wait_all_tasks_blocked()
    assert len(outcomes) == calls
    for number, outcome in outcomes.items():
        ran = server_side.ran[number]
        assert ran <= 1, f"call {number} ran {ran} times"
        assert outcome != "answered" or ran == 1
        assert outcome != "not sent" or ran == 0
    assert Counter(outcomes.values())["answered"] > calls * 0.8
    assert after <= before + 2 * 16, (before, after)


@pytest.mark.slow
async def test_no_call_is_lost_or_sent_twice_while_connections_are_cut() -> None:
    await soak(2_000, seed=7)


if __name__ == "__main__":
    anyio.run(soak, int(sys.argv[1]), 7)


class Imitated:
    """A server that a user's own test makes of ``httpx.MockTransport``."""

    def __init__(self, revision: str, *, sse: bool, packed: bool) -> None:
        self.revision, self.sse, self.packed = revision, sse, packed
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self._respond))

    def _respond(self, request: httpx.Request) -> httpx.Response:
        if request.method != "POST":
            return httpx.Response(405 if request.method == "GET" else 200)
        asked = json.loads(request.content)
        if "id" not in asked:
            return httpx.Response(202)
        result = self._result(asked["method"])
        reply = {"jsonrpc": "2.0", "id": asked["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "no such method"}
            return httpx.Response(404, json=reply)
        reply["result"] = result
        if not self.sse:
            return httpx.Response(200, json=reply, headers={"Mcp-Session-Id": "7"})
        headers = {"Content-Type": "text/event-stream"}
        content = f"event: message\ndata: {json.dumps(reply)}\n\n".encode()
        if self.packed:
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content)
        return httpx.Response(200, content=content, headers=headers)

    def _result(self, method: str) -> dict[str, Any] | None:
        offers = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        is_stateless = self.revision == "2026-07-28"
        results: dict[str, dict[str, Any]] = {
            "server/discover" if is_stateless else "initialize": {
                **({"supportedVersions": [self.revision]} if is_stateless else {}),
                **({} if is_stateless else {"protocolVersion": self.revision}),
                **offers,
            },
            "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        found = results.get(method)
        return None if found is None else {"resultType": "complete", **found}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("sse", "packed"), [(False, False), (True, False), (True, True)], ids=["json", "sse", "gzip"]
)
async def test_a_test_may_make_a_server_of_a_mock_transport(
    revision: str, sse: bool, packed: bool
) -> None:
    server = Imitated(revision, sse=sse, packed=packed)
    async with (
        server.client,
        _connect(HttpServer("http://mcp.example/mcp", client=server.client)) as session,
    ):
        assert session.protocol_version == revision
        assert (await session.call_tool("greet")).text == "hello"


async def test_a_hook_of_ones_own_client_may_read_the_response() -> None:
    seen: list[str] = []

    async def read(response: httpx.Response) -> None:
        await response.aread()
        seen.append(response.text)

    async with (
        serving(Stateless()) as server,
        httpx.AsyncClient(event_hooks={"response": [read]}) as client,
        _connect(HttpServer(server.url, client=client)) as session,
    ):
        assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
    assert any("echo" in text for text in seen)


async def test_the_cap_on_a_message_holds_for_a_response_that_was_read_before() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"padding": " " * 300})

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        server = HttpServer("http://mcp.example/mcp", client=client)
        with pytest.raises(ConnectError, match="longer than 300 bytes"):
            await _connect(server, limits=Limits(message_bytes=300))
