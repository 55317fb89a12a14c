"""Servers that mislead a login: each is refused with its reason, and gets nothing for it.

Real servers on this machine, from ``connect`` on. ``world.agree`` is a person who agrees to
everything: what stops the login is never her.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.errors import AuthError
from tests.support.authorization import Document, World, guarded
from tests.support.http_server import Handler, Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"
MIB = 1024 * 1024


async def refused(world: World, **options: Any) -> str:
    """Why no session came of it, after it was seen that no token did."""
    auth = OAuth(**{"on_url": world.agree, **options})
    with pytest.raises(AuthError) as caught:
        await connect(HttpServer(world.url, auth=auth), approval=allow_all)
    text = str(caught.value)
    assert text.isprintable()
    for secret in ("code_verifier", "access-", "refresh-", *world.codes):
        assert secret not in text
    return text


def but(**changes: Any) -> Callable[[Document], Document]:
    """A document with some fields changed; None takes one out."""

    def changed(document: Document) -> Document:
        document |= changes
        return {name: value for name, value in document.items() if value is not None}

    return changed


def instead(value: Any) -> Callable[[Document], Any]:
    return lambda document: value


def to(url: str, status: int = 302) -> Handler:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(status, headers={"Location": url})

    return handler


async def endless(request: Request, reply: Reply) -> None:
    await reply.stream({"Content-Type": "application/json"})
    while True:
        await reply.chunk(b" " * 65536)


async def bomb(request: Request, reply: Reply) -> None:
    packed = gzip.compress(b" " * 30 * MIB)
    await reply.send(200, packed, {"Content-Encoding": "gzip"})


def challenging(place: str) -> Callable[[str], str]:
    return lambda challenge: f'Bearer resource_metadata="{place}"'


def twice(document: Document) -> bytes:
    """The same name twice: who reads the first one sees another server than who reads the last."""
    text = json.dumps(document)
    return text.replace("{", '{"authorization_servers": ["https://a.example"], ', 1).encode()


LOOK_AT: dict[str, tuple[dict[str, Any], str]] = {
    # the MCP server's challenge
    "a challenge that names a file": (
        {"challenge": challenging("file:///etc/passwd")},
        "not https",
    ),
    "a challenge that names a cloud's metadata service": (
        {"challenge": challenging("http://169.254.169.254/latest/meta-data")},
        "plain http",
    ),
    "a challenge that names an address inside the network": (
        {"challenge": challenging("https://10.0.0.1/metadata")},
        "10.0.0.1 is a private address",
    ),
    "a challenge that names an inner address in the clothes of IPv6": (
        {"challenge": challenging("https://[::ffff:192.168.0.1]/metadata")},
        "private address",
    ),
    "a challenge that names an inner address as a number": (
        {"challenge": challenging("https://0/metadata")},
        "unspecified address",
    ),
    "a challenge with a user name in its URL": (
        {"challenge": challenging("https://as.example.com@10.0.0.1/")},
        "user name",
    ),
    # the protected-resource metadata
    "resource metadata that redirect into the network": (
        {"pages": {PRM: to("https://192.168.0.1/")}},
        "192.168.0.1 is a private address",
    ),
    "resource metadata that redirect to a file": (
        {"pages": {PRM: to("file:///etc/shadow")}},
        "redirects: 'file:///etc/shadow' is not https",
    ),
    "resource metadata that redirect without end": (
        {"pages": {PRM: to(PRM)}},
        "redirects more than 3 times",
    ),
    "resource metadata without end": ({"pages": {PRM: endless}}, "longer than 1048576 bytes"),
    "resource metadata that unpack to thirty mebibytes": (
        {"pages": {PRM: bomb}},
        "longer than 1048576 bytes",
    ),
    "resource metadata that are huge": (
        {"resource_metadata": instead(b'{"a": "' + b"x" * 2 * MIB + b'"}')},
        "longer than 1048576 bytes",
    ),
    "resource metadata nested without end": (
        {"resource_metadata": instead(b'{"a":' * 50_000)},
        "nor at the well-known URLs",
    ),
    "resource metadata that contradict themselves": (
        {"resource_metadata": twice},
        "nor at the well-known URLs",
    ),
    "resource metadata of another server": (
        {"resource_metadata": but(resource="https://bank.example.com/mcp")},
        "for another resource, 'https://bank.example.com/mcp'",
    ),
    "resource metadata of a server that begins the same": (
        {"resource_metadata": lambda d: {**d, "resource": d["resource"][:-1]}},
        "for another resource",
    ),
    "an authorization server that is a script": (
        {"resource_metadata": but(authorization_servers=["javascript:alert(1)"])},
        "not https",
    ),
    "an authorization server without TLS": (
        {"resource_metadata": but(authorization_servers=["http://as.example.com"])},
        "plain http",
    ),
    "an authorization server inside the network": (
        {"resource_metadata": but(authorization_servers=["https://172.16.0.1"])},
        "172.16.0.1 is a private address",
    ),
    "an authorization server behind carrier-grade NAT": (
        {"resource_metadata": but(authorization_servers=["https://100.64.0.1"])},
        "carrier-grade NAT address",
    ),
    # the authorization server's metadata
    "an authorization server that claims to be another": (
        {"server_metadata": but(issuer="https://honest.example.com")},
        "for another issuer, 'https://honest.example.com'",
    ),
    "an issuer that differs in two slashes": (
        {"server_metadata": lambda d: {**d, "issuer": d["issuer"] + "//"}},
        "for another issuer",
    ),
    "server metadata without end": ({"pages": {ASM: endless}}, "longer than 1048576 bytes"),
    "server metadata that redirect to a cloud's metadata service": (
        {"pages": {ASM: to("https://169.254.169.254/")}},
        "cloud metadata address",
    ),
    "a page that is a script": (
        {"server_metadata": but(authorization_endpoint="javascript:alert(document.cookie)")},
        "not https",
    ),
    "a page that is a file": (
        {"server_metadata": but(authorization_endpoint="file:///bin/sh")},
        "not https",
    ),
    "a page that is another program's": (
        {"server_metadata": but(authorization_endpoint="ms-msdt:/id PCWDiagnostic")},
        "unusable authorization_endpoint",
    ),
    "a page with a command for a shell": (
        {"server_metadata": but(authorization_endpoint='https://as.example.com/"; rm -rf ~; "')},
        "characters that are not allowed in a URL",
    ),
    "a page with a command in backticks": (
        {"server_metadata": but(authorization_endpoint="https://as.example.com/`id`")},
        "characters that are not allowed in a URL",
    ),
    "a page that is an option for a browser": (
        {"server_metadata": but(authorization_endpoint="--gpu-launcher=sh")},
        "not https",
    ),
    "a page with escape sequences": (
        {"server_metadata": but(authorization_endpoint="https://as.example.com/\x1b]0;hi\x07")},
        "characters that are not allowed in a URL",
    ),
    "a page with letters of another alphabet in its name": (
        {"server_metadata": but(authorization_endpoint="https://\u0430s.example.com/authorize")},
        "characters that are not allowed in a URL",
    ),
    "a page without TLS": (
        {"server_metadata": but(authorization_endpoint="http://as.example.com/authorize")},
        "plain http",
    ),
    "a token endpoint without TLS": (
        {"server_metadata": but(token_endpoint="http://as.example.com/token")},
        "plain http",
    ),
    "a token endpoint inside the network": (
        {"server_metadata": but(token_endpoint="https://10.1.2.3/token")},
        "10.1.2.3 is a private address",
    ),
    "a registration endpoint that is a cloud's metadata service": (
        {"server_metadata": but(registration_endpoint="https://169.254.169.254/register")},
        "cloud metadata address",
    ),
    "a server that does not declare PKCE": (
        {"server_metadata": but(code_challenge_methods_supported=None)},
        "S256",
    ),
    "a server that supports PKCE in name only": (
        {"server_metadata": but(code_challenge_methods_supported=["plain"])},
        "S256",
    ),
    # the responses
    "a redirect of another login": ({"redirect": but(state="another")}, "another login"),
    "a redirect that lost its state": ({"redirect": but(state=None)}, "another login"),
    "a redirect from another authorization server": (
        {"redirect": but(iss="https://honest.example.com")},
        "honest.example.com",
    ),
    "a redirect that does not name its issuer, of a server that promised to": (
        {"redirect": but(iss=None)},
        "has no iss",
    ),
    "a token endpoint that is a page of another server": (
        {"pages": {"/token": to("https://as.example.com/token", 307)}},
        "another origin",
    ),
    "a token that is huge": ({"token": instead(b" " * 2 * MIB)}, "longer than 1048576 bytes"),
    "a token that is none": ({"token": but(access_token=None)}, "no access_token"),
    "a token with a line of its own": (
        {"token": but(access_token="a\r\nX-Evil: 1")},
        "its access_token is malformed",
    ),
    "a token of a kind unknown": ({"token": but(token_type="mac")}, "its token_type is 'mac'"),
    "an error that draws on the terminal": (
        {
            "token": instead(
                {"status": 400, "error": "\x1b[2J", "error_description": "\x1b]0;x\x07"}
            )
        },
        "HTTP status 400",
    ),
}


@pytest.mark.parametrize("what", LOOK_AT)
async def test_hostile_metadata_is_refused_with_its_reason(what: str) -> None:
    options, reason = LOOK_AT[what]
    async with guarded(**options) as world:
        assert reason in await refused(world)
        assert not any("authorization" in each.headers for each in world.server.requests)


def test_there_are_more_than_twenty_kinds_of_hostile_metadata() -> None:
    assert len(LOOK_AT) > 20


# ----------------------------------------------------------------------- answers of DNS


class Names:
    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self._others: Any = anyio.getaddrinfo

    async def __call__(self, host: str, port: int, **rest: Any) -> list[Any]:
        if host != "as.localhost":
            return list(await self._others(host, port, **rest))
        return [(None, None, None, None, (self._answers.pop(0), port))]


@pytest.mark.both_backends
@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        (["10.0.0.1"], []),
        (["169.254.169.254"], []),
        (["127.0.0.1", "10.0.0.1"], [ASM]),
        (["127.0.0.1", "127.0.0.1", "192.168.0.1"], [ASM, "/register", "/authorize"]),
    ],
)
async def test_a_response_of_dns_that_changes_is_judged_each_time(
    answers: list[str], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(document: Document) -> Document:
        """The same server, by a name."""
        text = json.dumps(document).replace(world.issuer, "http://as.localhost:" + port)
        return dict(json.loads(text))

    monkeypatch.setattr(anyio, "getaddrinfo", Names(*answers, *answers[-1:] * 9))
    async with guarded(server_metadata=named, redirect=named) as world:
        port = world.issuer.rpartition(":")[2]
        world.options.resource_metadata = named

        async def agree(url: str) -> str:
            return await world.agree(url.replace("as.localhost", "127.0.0.1"))

        assert f"as.localhost, which is {answers[-1]}, is a" in await refused(world, on_url=agree)
    assert [each.path.partition("?")[0] for each in world.authorization.requests] == asked
    assert not world.forms("/token")


# ------------------------------------------------------------------------- forged answers


@pytest.mark.both_backends
async def test_forged_responses_before_the_right_one_change_nothing() -> None:
    statuses: list[int] = []

    async def on_url(url: str) -> None:
        right = await world.agree(url)
        uri, _, query = right.partition("?")
        async with httpx.AsyncClient(trust_env=False, timeout=None) as anybody:
            for method, address, headers in (
                ("GET", f"{uri}?code=forged&state=guessed", {}),
                ("GET", f"{uri}?error=access_denied", {}),
                ("GET", f"{uri}?{query}&code=another", {}),
                ("POST", right, {}),
                ("GET", right, {"Host": "evil.example.com"}),
                ("GET", right.replace("/callback", "/"), {}),
                ("GET", right, {}),
            ):
                reply = await anybody.request(method, address, headers=headers)
                statuses.append(reply.status_code)

    async with guarded() as world:
        auth = OAuth(on_url=on_url)
        async with connect(HttpServer(world.url, auth=auth), approval=allow_all) as session:
            assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
    assert statuses == [400, 400, 400, 405, 421, 404, 200]
    assert len(world.forms("/token")) == 1


# --------------------------------------------------------------------------- several servers


async def test_a_code_of_an_honest_server_is_not_brought_to_another() -> None:
    """A mix-up: the person logs in at the honest server, and the other one waits for the code."""
    async with guarded() as honest:

        def mixed(document: Document) -> Document:
            return {**document, "authorization_endpoint": f"{honest.issuer}/authorize"}

        def known_to_both(document: Document) -> Document:
            honest.clients[document["client_id"]] = document
            return document

        async with guarded(server_metadata=mixed, registration=known_to_both) as evil:
            assert honest.issuer in await refused(evil)
            assert len(honest.consents) == 1
            assert len(honest.codes) == 1
            assert not evil.forms("/token")


async def test_a_clients_secret_is_not_shown_to_another_server() -> None:
    async with guarded() as world:
        passed = {
            "client_id": "ours",
            "client_secret": "of-ours",
            "issuer": "https://as.example.com",
        }
        assert "belongs to the authorization server https://as.example.com" in await refused(
            world, **passed
        )
        assert not world.consents
        for request in world.authorization.requests:
            assert b"of-ours" not in request.body


@pytest.mark.parametrize("path", ["/register", "/token"])
async def test_what_is_posted_follows_no_redirect_to_another_server(path: str) -> None:
    async def there(request: Request, reply: Reply) -> None:
        await reply.json({"access_token": "x", "token_type": "Bearer", "client_id": "c"})

    async with serving(there) as other:
        for status in (302, 307, 308):
            async with guarded(pages={path: to(other.url, status)}) as world:
                reason = await refused(world)
                assert "another origin" in reason or "redirect" in reason
    assert not other.requests


async def test_refresh_tokens_stay_with_the_server_that_gave_them() -> None:
    """In the middle of a session the MCP server names another authorization server."""
    async with guarded() as honest, guarded() as evil:
        auth = OAuth(on_url=honest.agree)
        session = await connect(HttpServer(honest.url, auth=auth), approval=allow_all)
        first = {*honest.refresh_tokens, *honest.clients}
        assert len(first) == 2
        honest.options.resource_metadata = but(authorization_servers=[evil.issuer])
        honest.revoke()
        honest.refresh_tokens.clear()
        with pytest.raises(AuthError):
            await session.call_tool("echo", {})
        await session.aclose()
        for request in evil.authorization.requests:
            assert not any(each.encode() in request.body for each in first)


# ------------------------------------------------------------------------------ no end of it


async def test_a_server_that_refuses_the_token_it_granted_is_given_up() -> None:
    async with guarded(token=lambda document: {**document, "access_token": "unknown"}) as world:
        await refused(world)
        assert len(world.consents) == 1


async def test_a_server_that_always_asks_for_more_scopes_is_given_up() -> None:
    async def more(request: Request, reply: Reply) -> None:
        wanted.append(f"scope-{len(wanted)}")
        reported = f'Bearer error="insufficient_scope", scope="{wanted[-1]}"'
        await reply.send(403, headers={"WWW-Authenticate": reported})

    wanted: list[str] = []
    async with guarded(more) as world:
        await refused(world)
        assert 1 <= len(world.consents) <= 4
