"""What a flow asks for is fetched from where it may be, within bounds, and from nowhere else."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.auth import safe_fetch
from mcp_client.auth.safe_fetch import FetchPolicy, SafeFetcher, kind_of, refused_url
from mcp_client.auth.steps import Fetch, Fetched, Unreachable
from tests.support.http_server import Reply, Request, Served, serving
from tests.support.properties import examples

PUBLIC = "https://mcp.example.com/mcp"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Names:
    """A lookup that answers from a table, in turn where there are several answers."""

    def __init__(self, **answers: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.answers = {
            name.replace("__", "-").replace("_", "."): list(found)
            for name, found in answers.items()
        }
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        found: Any = self.answers.get(host, [])
        if found and not isinstance(found[0], str):
            return list(found.pop(0))
        return list(found)


def get(url: str, **headers: str) -> Fetch:
    return Fetch("GET", url, "the metadata", headers)


def post(url: str) -> Fetch:
    return Fetch("POST", url, "the token", {"Content-Type": "text/plain"}, b"code=secret")


def refusal(outcome: Fetched | Unreachable) -> str:
    assert isinstance(outcome, Unreachable), outcome
    return outcome.reason


async def hello(request: Request, reply: Reply) -> None:
    await reply.json({"at": request.path, "host": request.headers["host"]})


def port_of(served: Served) -> int:
    return int(served.url.split(":")[2].split("/")[0])


# ------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", "public"),
        ("2606:4700:4700::1111", "public"),
        ("64:ff9b::808:808", "public"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("172.32.0.1", "public"),
        ("192.168.0.1", "private"),
        ("fd12:3456::1", "private"),
        ("fec0::1", "private"),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "private"),
        ("169.254.1.1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("169.254.169.254", "cloud metadata"),
        ("::ffff:169.254.169.254", "cloud metadata"),
        ("fd00:ec2::254", "cloud metadata"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.100.100.200", "cloud metadata"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("198.18.0.1", "benchmarking"),
        ("255.255.255.255", "reserved"),
        ("2001:db8::1", "reserved"),
        ("64:ff9b:1::1", "local NAT64"),
        ("localhost", "unreadable"),
        ("127.1", "unreadable"),
        ("", "unreadable"),
    ],
)
def test_an_address_is_of_the_kind_of_its_network(address: str, kind: str) -> None:
    assert kind_of(address) == kind


@examples(200)
@given(st.integers(0x10000, 2**32 - 1))
def test_an_address_in_another_form_is_of_the_same_kind(number: int) -> None:
    kind = kind_of(str(IPv4Address(number)))
    forms = {
        "mapped": 0xFFFF << 32 | number,
        "compatible": number,
        "6to4": 0x2002 << 112 | number << 80,
        "NAT64": 0x64FF9B << 96 | number,
        "Teredo": 0x20010000 << 96 | (number ^ 0xFFFFFFFF),
    }
    assert {name: kind_of(str(IPv6Address(form))) for name, form in forms.items()} == dict.fromkeys(
        forms, kind
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://as.example.com/", "plain http"),
        ("http://10.0.0.1/", "plain http"),
        ("http://2130706433/", "plain http"),
        ("ftp://as.example.com/", "not https"),
        ("file:///etc/passwd", "not https"),
        ("javascript:alert(1)", "not https"),
        ("data:text/html,hello", "not https"),
        ("//as.example.com/", "not https"),
        ("/relative", "not https"),
        ("", "not https"),
        ("https://", "no host"),
        ("https:///path", "no host"),
        ("https://as.example.com:99999/", "not a URL"),
        ("https://[::1/", "not a URL"),
        ("https://as.example.com@10.0.0.1/", "a user name"),
        ("https://u:p@as.example.com/", "a user name"),
        ("https://as.example.com/a b", "characters"),
        ("https://as.example.com/\r\nHost: x", "characters"),
        ("https://as.example.com\\@10.0.0.1/", "characters"),
        ("https://as.example.com/`id`", "characters"),
        ("\thttps://as.example.com/", "characters"),
        ("https://\u0430s.example.com/", "characters"),
        ("https://as.example.com/" + "x" * 20_000, "longer than 16384"),
    ],
    ids=lambda value: value[:40],
)
def test_a_url_is_refused_by_its_text(url: str, why: str) -> None:
    reason = refused_url(url)
    assert reason is not None
    assert why in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    "url",
    [
        "https://as.example.com",
        "HTTPS://as.example.com:8443/a?b=c#d",
        "http://localhost:3000/",
        "http://127.0.0.1/",
        "http://[::1]:80/",
    ],
)
def test_a_url_to_be_asked_is_not_refused(url: str) -> None:
    assert refused_url(url) is None


@examples(300)
@given(st.text(max_size=30), st.sampled_from(["", "https://", "http://", "https://a", "http://["]))
def test_any_text_as_a_url_is_either_refused_or_well_formed(text: str, head: str) -> None:
    if refused_url(head + text) is None:
        assert (head + text).lower().startswith(("https://", "http://"))
        assert "@" not in (head + text).split("/")[2]


# ------------------------------------------------------------------------------- fetching


async def test_a_server_on_this_machine_may_have_its_fetcher_there() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.json({"a": 1}, 404, {"X-Some": "1", "x-some": "2"})

    async with serving(handler, "/doc") as served:
        outcome = await SafeFetcher(served.url).fetch(get(served.url))
    assert isinstance(outcome, Fetched)
    assert (outcome.status, outcome.body, outcome.url) == (404, b'{"a": 1}', served.url)
    assert outcome.headers["content-type"] == "application/json"
    assert outcome.headers["x-some"] == "1, 2"
    assert served.requests[0].headers["accept"] == "application/json"


async def test_a_post_is_sent_as_it_is() -> None:
    async with serving(hello) as served:
        outcome = await SafeFetcher(served.url).fetch(post(served.url))
    assert isinstance(outcome, Fetched)
    assert (served.requests[0].method, served.requests[0].body) == ("POST", b"code=secret")
    assert served.requests[0].headers["content-type"] == "text/plain"


async def test_each_request_has_a_connection_of_its_own() -> None:
    async with serving(hello) as served:
        fetcher = SafeFetcher(served.url)
        for _ in range(3):
            assert isinstance(await fetcher.fetch(get(served.url)), Fetched)
    assert served.connections == 3


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.7.7", "link-local"),
        ("169.254.169.254", "cloud metadata"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("0.0.0.0", "unspecified"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("2002:a00:1::1", "private"),
    ],
)
async def test_a_public_server_leads_to_no_inner_address(address: str, kind: str) -> None:
    names = Names(as_example_com=["93.184.216.34", address])
    outcome = await SafeFetcher(PUBLIC, resolve=names).fetch(get("https://as.example.com/"))
    assert f"as.example.com, which is {address}, is a" in refusal(outcome)
    assert f" {kind} address" in refusal(outcome)
    literal = f"[{address}]" if ":" in address else address
    outcome = await SafeFetcher(PUBLIC, resolve=names).fetch(get(f"https://{literal}/"))
    assert f" {kind} address" in refusal(outcome)


async def test_a_public_server_leads_nowhere_on_this_machine() -> None:
    async with serving(hello) as served:
        fetcher = SafeFetcher(PUBLIC)
        for host in ("127.0.0.1", "localhost"):
            outcome = await fetcher.fetch(get(f"http://{host}:{port_of(served)}/"))
            assert "loopback address" in refusal(outcome)
        for host in ("127.1", "0x7f000001", "2130706433", "127。0。0。1"):
            outcome = await fetcher.fetch(get(f"https://{host}:{port_of(served)}/"))
            assert "loopback address" in refusal(outcome)
    assert served.connections == 0


async def test_a_server_may_be_written_in_its_own_alphabet() -> None:
    names = Names(xn____r8jz45g_jp=["10.0.0.1"])
    reason = refusal(await SafeFetcher(PUBLIC, resolve=names).fetch(get("https://例え.jp/x")))
    assert "xn--r8jz45g.jp, which is 10.0.0.1," in reason


async def test_a_server_on_this_machine_leads_to_no_other_inner_address() -> None:
    fetcher = SafeFetcher("http://127.0.0.1/mcp", resolve=Names(as_corp=["10.0.0.1"]))
    assert "private" in refusal(await fetcher.fetch(get("https://as.corp/")))
    assert "link-local" in refusal(await fetcher.fetch(get("https://169.254.0.1/")))
    assert "metadata" in refusal(await fetcher.fetch(get("https://169.254.169.254/")))


async def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    names = Names(as_localhost=[["127.0.0.1"], ["10.0.0.1"]])
    async with serving(hello) as served:
        url = f"http://as.localhost:{port_of(served)}/x"
        fetcher = SafeFetcher(served.url, resolve=names)
        outcome = await fetcher.fetch(get(url))
        assert isinstance(outcome, Fetched)
        assert served.requests[0].headers["host"] == f"as.localhost:{port_of(served)}"
        assert outcome.url == url
        assert names.asked == ["as.localhost"]
        assert "private" in refusal(await fetcher.fetch(get(url)))


async def test_a_name_of_this_machine_that_is_looked_up_elsewhere_is_refused() -> None:
    names = Names(localhost=["93.184.216.34"])
    outcome = await SafeFetcher("http://127.0.0.1/mcp", resolve=names).fetch(
        get("http://localhost/")
    )
    assert "not this machine" in refusal(outcome)


async def test_tls_is_for_the_name_and_not_for_its_address() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    hellos: list[bytes] = []

    async def connection(stream: Any) -> None:
        async with stream:
            hellos.append(await stream.receive())

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        fetcher = SafeFetcher(
            "http://127.0.0.1/mcp", resolve=Names(as_example_com=["127.0.0.1"]), seconds=20
        )
        outcome = await fetcher.fetch(get(f"https://as.example.com:{port}/"))
        tasks.cancel_scope.cancel()
    assert "cannot fetch the metadata" in refusal(outcome)
    assert b"as.example.com" in hellos[0]


@pytest.mark.parametrize("name", ["as.example.com", "evil.example.com"])
async def test_a_certificate_is_checked_for_the_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = contexts("as.example.com", tmp_path)
    monkeypatch.setattr(safe_fetch, "tls_context", lambda certificates: client)
    heads: list[bytes] = []

    async def connection(stream: Any) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):  # it may hang up at any time
            async with stream:
                heads.append(await stream.receive())
                await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = plain.extra(SocketAttribute.local_port)
    # The client need not end the connection politely: it has all it wants.
    listener = TLSListener(plain, server, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        names = Names(as_example_com=["127.0.0.1"], evil_example_com=["127.0.0.1"])
        fetcher = SafeFetcher("http://127.0.0.1/mcp", resolve=names)
        outcome = await fetcher.fetch(get(f"https://{name}:{port}/x"))
        tasks.cancel_scope.cancel()
    if name == "as.example.com":
        assert isinstance(outcome, Fetched)
        assert f"\r\nHost: as.example.com:{port}\r\n".encode() in heads[0]
    else:
        assert "Hostname mismatch" in refusal(outcome)
        assert not heads


def contexts(name: str, place: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for ``name``, and a client's that trusts it alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (place / "both.pem").write_bytes(secret + pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(place / "both.pem")
    return server, ssl.create_default_context(cadata=pem.decode())


@pytest.mark.parametrize("addresses", [["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
async def test_the_first_address_that_takes_a_connection_is_asked(addresses: list[str]) -> None:
    names = Names(as_localhost=addresses)
    async with serving(hello) as served:
        outcome = await SafeFetcher(served.url, resolve=names).fetch(
            get(f"http://as.localhost:{port_of(served)}/")
        )
    assert isinstance(outcome, Fetched)


async def test_a_name_without_an_address_is_reported_to_have_none() -> None:
    async def fails(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    for resolve in (Names(), fails):
        outcome = await SafeFetcher(PUBLIC, resolve=resolve).fetch(get("https://gone.example.com/"))
        assert "'gone.example.com' cannot be resolved" in refusal(outcome)


async def test_where_nothing_listens_the_reason_has_the_place_and_no_query() -> None:
    async with serving(hello, "/doc?key=hidden") as served:
        pass
    reason = refusal(await SafeFetcher(served.url).fetch(get(served.url)))
    assert f"cannot fetch the metadata from http://127.0.0.1:{port_of(served)}/doc?...:" in reason
    assert "hidden" not in reason


# ------------------------------------------------------------------- a server inside a network


def answered(address: str) -> httpx.Response:
    class Stream:
        def get_extra_info(self, info: str) -> Any:
            return (address, 443) if info == "server_addr" else None

    return httpx.Response(401, extensions={"network_stream": Stream()})


@pytest.mark.parametrize(
    ("connected", "looked_up", "allowed"),
    [
        ("127.0.0.1", ["127.0.0.1"], True),
        ("127.0.0.1", ["93.184.216.34"], False),  # a proxy was connected to
        ("127.0.0.1", [], False),
        ("10.0.0.1", ["10.0.0.1"], False),
        ("93.184.216.34", ["93.184.216.34"], False),
        (None, ["127.0.0.1"], False),
    ],
)
async def test_a_named_server_is_where_its_own_response_came_from(
    connected: str | None, looked_up: list[str], allowed: bool
) -> None:
    async with serving(hello) as served:
        fetcher = SafeFetcher("https://mcp.corp/mcp", resolve=Names(mcp_corp=looked_up))
        fetcher.server_answered(answered(connected) if connected else httpx.Response(401))
        for _ in range(2):
            outcome = await fetcher.fetch(get(f"http://127.0.0.1:{port_of(served)}/"))
            assert isinstance(outcome, Fetched) is allowed


@pytest.mark.parametrize(
    ("looked_up", "allowed"),
    [
        (["127.0.0.1"], True),
        (["127.0.0.1", "127.0.0.2"], True),
        (["127.0.0.1", "93.184.216.34"], False),
        (["10.0.0.1"], False),
        ([], False),
    ],
)
async def test_a_named_server_that_has_not_answered_yet_is_where_its_name_is(
    looked_up: list[str], allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(hello) as served:
        fetcher = SafeFetcher("https://mcp.corp/mcp", resolve=Names(mcp_corp=looked_up))
        step = get(f"http://127.0.0.1:{port_of(served)}/")
        assert isinstance(await fetcher.fetch(step), Fetched) is allowed
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
        assert isinstance(await fetcher.fetch(step), Unreachable)
        monkeypatch.delenv("https_proxy")
        fetcher.server_answered(answered("93.184.216.34"))
        assert isinstance(await fetcher.fetch(step), Unreachable)


async def test_a_real_response_states_the_address_of_its_server() -> None:
    async with serving(hello) as served, httpx.AsyncClient(trust_env=False, timeout=None) as client:
        fetcher = SafeFetcher(
            f"http://mcp.corp:{port_of(served)}/mcp", resolve=Names(mcp_corp=["127.0.0.1"])
        )
        async with client.stream("GET", served.url) as response:
            fetcher.server_answered(response)
        assert isinstance(await fetcher.fetch(get(served.url)), Fetched)


async def test_an_origin_which_the_host_named_may_be_inside() -> None:
    async with serving(hello) as served, serving(hello) as other:
        fetcher = SafeFetcher(PUBLIC, policy=FetchPolicy((served.url,)))
        assert isinstance(await fetcher.fetch(get(served.url)), Fetched)
        assert "loopback" in refusal(await fetcher.fetch(get(other.url)))
    fetcher = SafeFetcher(PUBLIC, policy=FetchPolicy(("https://169.254.169.254/",)))
    assert "metadata address" in refusal(await fetcher.fetch(get("https://169.254.169.254/")))


# ------------------------------------------------------------------------------- redirects


def redirecting(place: str, status: int = 302) -> Any:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/there":
            await hello(request, reply)
        else:
            await reply.send(status, headers={"Location": place} if place else {})

    return handler


async def test_a_redirect_within_bounds_is_followed() -> None:
    async with serving(redirecting("/there")) as served:
        outcome = await SafeFetcher(served.url).fetch(get(served.url))
    assert isinstance(outcome, Fetched)
    assert outcome.url == served.url.replace("/mcp", "/there")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("https://10.0.0.1/", "private address"),
        ("https://169.254.169.254/latest/meta-data", "cloud metadata address"),
        ("//[::ffff:10.0.0.1]/", "plain http"),
        ("http://192.168.0.1/admin", "plain http"),
        ("file:///etc/passwd", "not https"),
        ("https://inside.example.com/", "private address"),
        ("https://a@as.example.com/", "user name"),
        ("", "without a location"),
        ("/again", "more than 3 times"),
    ],
)
async def test_a_redirect_is_judged_like_the_url_before_it(place: str, why: str) -> None:
    async with serving(redirecting(place)) as served:
        fetcher = SafeFetcher(served.url, resolve=Names(inside_example_com=["10.9.9.9"]))
        reason = refusal(await fetcher.fetch(get(served.url)))
    assert why in reason
    assert len(served.requests) == (4 if place == "/again" else 1)


async def test_a_redirect_to_this_machine_is_refused_for_a_public_server() -> None:
    async def mock(request: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"Location": "http://127.0.0.1:8080/admin"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(mock)) as client:
        fetcher = SafeFetcher(PUBLIC, client, resolve=Names())
        assert "from https to http" in refusal(await fetcher.fetch(get("https://as.example.com")))


@pytest.mark.parametrize("status", [307, 308])
async def test_a_post_is_sent_again_within_its_origin_only(status: int) -> None:
    async with serving(redirecting("/there", status)) as served:
        assert isinstance(await SafeFetcher(served.url).fetch(post(served.url)), Fetched)
    assert [request.body for request in served.requests] == [b"code=secret"] * 2
    async with serving(hello) as other, serving(redirecting(other.url, status)) as served:
        reason = refusal(await SafeFetcher(served.url).fetch(post(served.url)))
        assert "another origin" in reason
        assert not other.requests


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_never_becomes_a_get(status: int) -> None:
    async with serving(redirecting("/there", status)) as served:
        reason = refusal(await SafeFetcher(served.url).fetch(post(served.url)))
    assert "redirect" in reason
    assert len(served.requests) == 1


@pytest.mark.parametrize("name", ["Authorization", "DPoP"])
async def test_a_get_with_credentials_stays_with_its_origin(name: str) -> None:
    async with serving(hello) as other, serving(redirecting(other.url)) as served:
        fetcher = SafeFetcher(served.url)
        assert isinstance(await fetcher.fetch(get(served.url)), Fetched)
        reason = refusal(await fetcher.fetch(get(served.url, **{name: "secret-1"})))
    assert "another origin" in reason
    assert "secret-1" not in reason
    assert len(other.requests) == 1


# ---------------------------------------------------------------------------------- bounds

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [MIB, MIB + 1])
async def test_a_document_may_have_one_mebibyte(size: int) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(200, b" " * size)

    async with serving(handler) as served:
        outcome = await SafeFetcher(served.url).fetch(get(served.url))
    if size == MIB:
        assert isinstance(outcome, Fetched)
    else:
        assert "longer than 1048576 bytes" in refusal(outcome)


async def test_a_document_is_counted_when_it_is_unpacked() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(200, gzip.compress(b" " * 50 * MIB), {"Content-Encoding": "gzip"})

    async with serving(handler) as served:
        reason = refusal(await SafeFetcher(served.url).fetch(get(served.url)))
    assert "longer than 1048576 bytes" in reason


async def test_a_document_without_end_is_left() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.stream({"Content-Type": "application/json"})
        while True:
            await reply.chunk(b" " * 65536)

    async with serving(handler) as served:
        reason = refusal(await SafeFetcher(served.url).fetch(get(served.url)))
    assert "longer than" in reason


@pytest.mark.parametrize("begins", [True, False])
async def test_a_document_that_does_not_come_is_not_waited_for(begins: bool) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if begins:
            await reply.stream({"Content-Type": "application/json"})
            await reply.chunk(b"{")
        await reply.hold()

    async with serving(handler) as served:
        outcome = await SafeFetcher(served.url, seconds=0.5).fetch(get(served.url))
    assert "no response in" in refusal(outcome)


async def test_a_document_that_comes_in_drops_is_not_waited_for() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.stream({"Content-Type": "application/json"})
        while True:
            await reply.chunk(b" ")
            await anyio.sleep(0.01)

    async with serving(handler) as served:
        outcome = await SafeFetcher(served.url, seconds=0.5).fetch(get(served.url))
    assert "no response in" in refusal(outcome)


async def test_a_lookup_that_does_not_come_is_not_waited_for() -> None:
    async def never(host: str, port: int) -> list[str]:
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await SafeFetcher(PUBLIC, resolve=never, seconds=0.2).fetch(get("https://a.example/"))
    assert isinstance(outcome, Unreachable)


@pytest.mark.parametrize("coding", ["br", "gzip"])
async def test_a_document_packed_in_no_known_way_is_refused(coding: str) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(200, b"not packed", {"Content-Encoding": coding})

    async with serving(handler) as served:
        reason = refusal(await SafeFetcher(served.url).fetch(get(served.url)))
    assert "content encoding" in reason or "decompressed" in reason


async def test_a_reply_that_is_not_http_is_a_reason() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.raw(b"SSH-2.0-hello\r\n\r\n")
        reply.hang_up()

    async with serving(handler) as served:
        assert "cannot fetch" in refusal(await SafeFetcher(served.url).fetch(get(served.url)))


# ------------------------------------------------------------------ other ways to connect


async def test_a_clients_own_headers_and_credentials_stay_with_the_mcp_server() -> None:
    async with (
        serving(hello) as served,
        httpx.AsyncClient(
            headers={"X-Key": "k"}, auth=("u", "p"), cookies={"c": "1"}, params={"q": "1"}
        ) as client,
    ):
        outcome = await SafeFetcher(served.url, client).fetch(get(served.url))
        assert isinstance(outcome, Fetched)
        assert not client.is_closed
    request = served.requests[0]
    assert request.path == "/mcp"
    assert not {"x-key", "authorization", "cookie"} & set(request.headers)


async def test_a_clients_own_way_is_judged_by_text_and_by_what_is_known() -> None:
    seen: list[str] = []

    async def mock(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(200, stream=httpx.ByteStream(b"{}"))

    names = Names(inside_example_com=["10.0.0.1"])
    async with httpx.AsyncClient(transport=httpx.MockTransport(mock)) as client:
        fetcher = SafeFetcher(PUBLIC, client, resolve=names)
        assert "private" in refusal(await fetcher.fetch(get("https://10.0.0.1/")))
        assert "private" in refusal(await fetcher.fetch(get("https://inside.example.com/")))
        assert isinstance(await fetcher.fetch(get("https://unknown.example.com/")), Fetched)
    assert seen == ["unknown.example.com"]


async def test_a_proxy_of_the_environment_is_given_names_and_no_inner_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def proxy(request: Request, reply: Reply) -> None:
        await reply.send(502)

    async with serving(proxy) as served:
        for name in ("https_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port_of(served)}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "direct.example.com")
        fetcher = SafeFetcher(PUBLIC, resolve=Names(direct_example_com=["10.0.0.1"]))
        for url in ("https://10.0.0.1/", "https://[::1]/", "https://direct.example.com/"):
            assert "address" in refusal(await fetcher.fetch(get(url)))
        assert not served.requests
        assert "502" in refusal(await fetcher.fetch(get("https://as.example.com/x")))
        assert [request.path for request in served.requests] == ["as.example.com:443"]


async def test_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(hello) as served:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert isinstance(await SafeFetcher(served.url).fetch(get(served.url)), Fetched)
