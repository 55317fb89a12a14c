"""DPoP from the first challenge to a call that succeeds, against servers that check every proof."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx
import jwt
import pytest

from mcp_client import HttpServer, OAuth, ServerError, allow_all, connect
from mcp_client.auth import ClientCredentials, FileTokens
from mcp_client.errors import AuthError
from tests.support.authorization import World, guarded
from tests.support.http_server import Reply, Request

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

ECHOED = str({"text": "hello"})


def hashed(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


class Strict:
    """Both servers of RFC 9449: what a proof lacks ends up in ``faults``."""

    def __init__(self, *, nonces: bool = False, algorithms: tuple[str, ...] = ("ES256",)) -> None:
        self.world: World
        self.nonces = nonces
        self.algorithms = algorithms
        self.as_nonce, self.rs_nonce = "as-nonce-1", "rs-nonce-1"
        self.faults: list[str] = []
        self.seen: set[str] = set()
        self.bound: dict[str, str] = {}
        """From an access token to the thumbprint of its key."""
        self.refreshed_with: list[str] = []
        self.refused = 0
        self.grants: list[str] = []

    def checked(self, request: Request, url: str, token: str | None) -> dict[str, Any]:
        proof = request.headers.get("dpop", "")
        header = jwt.get_unverified_header(proof)
        claims: dict[str, Any] = jwt.decode(proof, jwt.PyJWK(header["jwk"]).key, ["ES256"])
        right = {
            "typ": header["typ"] == "dpop+jwt",
            "private": "d" not in header["jwk"],
            "htm": claims["htm"] == request.method,
            "htu": claims["htu"] == url,
            "jti": claims["jti"] not in self.seen,
            "ath": claims.get("ath") == (None if token is None else hashed(token)),
        }
        self.seen.add(claims["jti"])
        self.faults += [name for name, fine in right.items() if not fine]
        jwk = {name: header["jwk"][name] for name in ("crv", "kty", "x", "y")}
        claims["jkt"] = hashed(json.dumps(jwk, separators=(",", ":")))
        return claims

    async def token(self, request: Request, reply: Reply) -> None:
        claims = self.checked(request, f"{self.world.issuer}/token", None)
        if self.nonces and claims.get("nonce") != self.as_nonce:
            headers = {"DPoP-Nonce": self.as_nonce, "Content-Type": "application/json"}
            await reply.send(400, b'{"error": "use_dpop_nonce"}', headers)
            return
        form = dict(parse_qsl(request.body.decode()))
        self.grants.append(form["grant_type"])
        if form["grant_type"] == "refresh_token":
            self.refreshed_with.append(claims["jkt"])
        response: dict[str, Any] = {}
        if form["grant_type"] == "client_credentials":
            response = {"access_token": f"machine-{len(self.grants)}", "expires_in": 3600}
        else:
            response = self.world._token(request)
        self.bound[response["access_token"]] = claims["jkt"]
        await reply.json({**response, "token_type": "DPoP"})

    async def mcp(self, request: Request, reply: Reply) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "DPoP" or token not in self.bound:
            await self.refuse(reply, "")
            return
        claims = self.checked(request, self.world.url, token)
        if claims["jkt"] != self.bound[token]:
            self.faults.append("another key")
        if self.nonces and claims.get("nonce") != self.rs_nonce:
            await self.refuse(reply, 'error="use_dpop_nonce", ', {"DPoP-Nonce": self.rs_nonce})
            return
        await self.world.app(request, reply)

    async def refuse(
        self, reply: Reply, error: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.refused += 1
        place = self.world.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        names = " ".join(self.algorithms)
        reported = f'DPoP {error}algs="{names}", resource_metadata="{place}"'
        await reply.send(401, headers={"WWW-Authenticate": reported, **(headers or {})})


@asynccontextmanager
async def strict(**options: Any) -> AsyncIterator[Strict]:
    servers = Strict(**options)

    def metadata(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "dpop_signing_alg_values_supported": list(servers.algorithms)}

    pages = {"/token": servers.token, "/mcp": servers.mcp}
    async with guarded(pages=pages, server_metadata=metadata) as servers.world:
        yield servers
    assert servers.faults == []


async def echo(servers: Strict, auth: httpx.Auth, times: int = 1) -> None:
    server = HttpServer(servers.world.url, auth=auth)
    async with connect(server, approval=allow_all) as session:
        for _ in range(times):
            assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED


async def no_one(url: str) -> str:
    raise AssertionError("a person was asked")


async def test_every_request_carries_a_proof_of_its_own_by_the_key_of_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with strict() as servers:
        await echo(servers, OAuth(on_url=servers.world.agree), times=3)
        assert len(servers.world.consents) == 1
        assert set(servers.bound.values()) == {servers.world.consents[0]["dpop_jkt"]}
        assert len(servers.seen) >= 5
        (token,) = servers.bound
        assert token not in caplog.text


async def test_each_server_s_nonce_is_asked_for_once_and_then_used() -> None:
    async with strict(nonces=True) as servers:
        await echo(servers, OAuth(on_url=servers.world.agree), times=3)
        assert servers.grants == ["authorization_code"]
        assert servers.refused == 2  # no token, and then no nonce
        assert len(servers.world.consents) == 1


@pytest.mark.both_backends
async def test_a_nonce_that_changes_is_followed_without_a_login() -> None:
    async with strict(nonces=True) as servers:
        auth = OAuth(on_url=servers.world.agree)
        server = HttpServer(servers.world.url, auth=auth)
        async with connect(server, approval=allow_all) as session:
            for number in range(2, 5):
                servers.rs_nonce = f"rs-nonce-{number}"
                assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED
        assert servers.grants == ["authorization_code"]
        assert servers.refused == 5


async def test_a_server_that_never_has_enough_nonces_is_given_up() -> None:
    async with strict(nonces=True) as servers:
        counted = iter(range(1000))

        async def endless(request: Request, reply: Reply) -> None:
            scheme, _, _ = request.headers.get("authorization", "").partition(" ")
            error = 'error="use_dpop_nonce", ' if scheme == "DPoP" else ""
            await servers.refuse(reply, error, {"DPoP-Nonce": f"n-{next(counted)}"})

        servers.world.options.pages = {**servers.world.options.pages, "/mcp": endless}
        with pytest.raises((AuthError, ServerError)):
            await echo(servers, OAuth(on_url=servers.world.agree))
        assert servers.grants == ["authorization_code"]
        assert servers.refused == 4  # without a token, and then with it three times


async def test_a_second_run_has_the_key_and_refreshes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with strict(nonces=True) as servers:
        await echo(servers, OAuth(on_url=servers.world.agree, store=FileTokens(path)))
        await echo(servers, OAuth(on_url=no_one, store=FileTokens(path)))
        assert servers.grants == ["authorization_code"]
        (key,) = servers.bound.values()
        servers.bound.clear()
        await echo(servers, OAuth(on_url=no_one, store=FileTokens(path)))
        assert servers.grants == ["authorization_code", "refresh_token"]
        assert servers.refreshed_with == [key]
        assert set(servers.bound.values()) == {key}


async def test_a_service_account_sends_proofs_of_its_key() -> None:
    async with strict(nonces=True) as servers:
        auth = ClientCredentials("the-client", client_secret="cs")
        await echo(servers, auth, times=2)
        assert servers.grants == ["client_credentials"]


@pytest.mark.both_backends
async def test_calls_at_once_have_a_proof_each() -> None:
    async with strict() as servers:
        server = HttpServer(servers.world.url, auth=OAuth(on_url=servers.world.agree))
        async with connect(server, approval=allow_all) as session:

            async def call() -> None:
                assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(call)


async def test_a_server_without_a_common_algorithm_is_refused_before_the_login() -> None:
    async with strict(algorithms=("PS256",)) as servers:
        with pytest.raises(AuthError, match="accepts signatures with PS256"):
            await echo(servers, OAuth(on_url=no_one))
