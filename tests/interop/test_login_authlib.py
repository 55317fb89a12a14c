"""Logging in at Authlib (PyPI), with and without a person."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.auth import (
    ClientCredentials,
    Deviations,
    EnterpriseAuthorization,
    FileTokens,
    IdentityProvider,
    WorkloadIdentity,
)
from mcp_client.auth.signing import PrivateKey
from mcp_client.errors import AuthError
from tests.auth.driving import ECHOED, no_one
from tests.interop import http_peers
from tests.interop.logins import agree, guarded, register, stored_login, use

pytestmark = [pytest.mark.interop, pytest.mark.slow]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def trust(issuer: str, **statement: Any) -> dict[str, Any]:
    """Have the server at ``issuer`` trust another issuer; returns its own keys."""
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        keys: dict[str, Any] = (await client.post(f"{issuer}/trust", json=statement)).json()
        return keys


def public(key: PrivateKey) -> dict[str, Any]:
    return {"keys": [key.public_jwk()]}


class Counting:
    """A person who agrees, and counts how often she was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, url: str) -> str:
        self.asked += 1
        return await agree(url)


# ------------------------------------------------------------------- with a person


async def test_a_login_a_refresh_with_rotation_and_a_logout(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.authlib()) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        store, source, first = await stored_login(path, server.url)
        assert source.key.resource == server.url
        assert first.scope == {"weather"}
        auth = OAuth(store=store, on_url=no_one)
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, auth)
        _, _, second = await stored_login(path, server.url)
        assert second.refresh_token not in (None, first.refresh_token)
        assert await auth.logout(server.url)
        assert await store.load(source.key) is None
        # The server took the revocation: neither token can be used any more.
        await store.save(source.key, second)
        ana = Counting()
        await use(server.url, OAuth(store=store, on_url=ana))
        assert ana.asked == 1


async def test_a_refused_refresh_leads_to_a_login(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.authlib()) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        store, source, first = await stored_login(path, server.url)
        thief = OAuth(store=FileTokens(path), on_url=no_one)
        thief._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, thief)
        await store.save(source.key, first)  # its refresh token has been used
        ana = Counting()
        late = OAuth(store=store, on_url=ana)
        late._now = thief._now
        await use(server.url, late)
        assert ana.asked == 1


async def test_a_tool_that_needs_another_scope_leads_to_a_login_for_both() -> None:
    ana = Counting()
    async with guarded(http_peers.authlib()) as server:
        server.needs["echo"] = "weather.write"
        auth = OAuth(on_url=ana)
        async with connect(HttpServer(server.url, auth=auth), approval=allow_all) as session:
            await session.list_tools()
            assert ana.asked == 1
            assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED
        assert ana.asked == 2


async def test_an_error_without_the_iss_that_is_promised_is_not_shown() -> None:
    # That is what an application does that follows Authlib's documentation.
    async with guarded(http_peers.authlib()) as server:
        with pytest.raises(AuthError, match=r"no iss.* the error in it is not shown") as caught:
            await use(server.url, OAuth(scopes=["other"], on_url=agree))
        assert caught.value.oauth_error is None


async def test_a_server_that_forgot_the_client_is_registered_with_again(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.authlib()) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        text = path.read_text()
        _, source, _ = await stored_login(path, server.url)
        path.write_text(text.replace(source.key.client, "forgotten"))
        ana = Counting()
        auth = OAuth(store=FileTokens(path), on_url=ana)
        auth._now = lambda: time.time() + 1e6
        await use(server.url, auth)
        assert ana.asked == 1


async def test_a_resource_that_is_left_out_is_refused_with_the_name_of_the_error() -> None:
    async with guarded(http_peers.authlib()) as server:
        with pytest.raises(AuthError, match="invalid_target"):
            await use(server.url, OAuth(deviations=Deviations(send_resource=False), on_url=agree))


# ---------------------------------------------------------------- without a person


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_service_gets_tokens_for_its_secret(method: str) -> None:
    async with guarded(http_peers.authlib()) as server:
        client = await register(
            server.issuer,
            grant_types=["client_credentials"],
            token_endpoint_auth_method=method,
            scope="weather",
        )
        auth = ClientCredentials(client["client_id"], client_secret=client["client_secret"])
        await use(server.url, auth)
        wrong = ClientCredentials(client["client_id"], client_secret="wrong")
        with pytest.raises(AuthError, match="invalid_client"):
            await use(server.url, wrong)


async def test_a_client_that_was_registered_by_hand_logs_in_and_refreshes(tmp_path: Path) -> None:
    path, redirect_uri = tmp_path / "own" / "tokens.json", "http://127.0.0.1:4719/callback"
    async with guarded(http_peers.authlib()) as server:
        client = await register(
            server.issuer,
            redirect_uris=[redirect_uri],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="client_secret_post",
            scope="weather",
        )
        passed: dict[str, Any] = {
            "client_id": client["client_id"],
            "client_secret": client["client_secret"],
            "redirect_uri": redirect_uri,
            "store": FileTokens(path),
        }
        await use(server.url, OAuth(on_url=agree, **passed))
        _, source, first = await stored_login(path, server.url)
        assert source.auth_method == "client_secret_post"
        auth = OAuth(on_url=no_one, **passed)
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, auth)
        assert await auth.logout(server.url)


async def test_a_service_gets_tokens_for_its_private_key() -> None:
    key = PrivateKey.generate()
    async with guarded(http_peers.authlib()) as server:
        client = await register(
            server.issuer,
            grant_types=["client_credentials"],
            token_endpoint_auth_method="private_key_jwt",
            jwks=public(key),
            scope="weather",
        )
        await use(server.url, ClientCredentials(client["client_id"], private_key=key.text()))
        other = PrivateKey.generate().text()
        with pytest.raises(AuthError, match="invalid_client"):
            await use(server.url, ClientCredentials(client["client_id"], private_key=other))


async def test_a_workload_gets_tokens_for_the_jwt_of_its_platform() -> None:
    platform, iss = PrivateKey.generate(), "https://platform.example"
    async with guarded(http_peers.authlib()) as server:
        client = await register(
            server.issuer,
            grant_types=[JWT_BEARER],
            token_endpoint_auth_method="none",
            scope="weather",
        )
        await trust(server.issuer, iss=iss, jwks=public(platform), client_id=client["client_id"])
        claims = {"iss": iss, "sub": "pod-7", "aud": server.issuer}

        async def assertion() -> str:
            return platform.sign({**claims, "exp": int(time.time()) + 300}, "ES256", {})

        await use(server.url, WorkloadIdentity(client["client_id"], assertion=assertion))
        await use(server.url, WorkloadIdentity(assertion=assertion))
        late = platform.sign({**claims, "exp": int(time.time()) - 300}, "ES256", {})
        with pytest.raises(AuthError, match="invalid_grant") as caught:
            await use(server.url, WorkloadIdentity(assertion=late))
        assert late not in str(caught.value)


async def test_a_person_is_authorized_by_the_company() -> None:
    company, iss = PrivateKey.generate(), "https://login.example"
    async with http_peers.authlib("id-jag") as idp, guarded(http_peers.authlib("id-jag")) as server:
        ours = await register(
            server.issuer,
            grant_types=[JWT_BEARER],
            token_endpoint_auth_method="client_secret_basic",
            scope="weather",
        )
        at_idp = await register(idp, token_endpoint_auth_method="client_secret_basic")
        await trust(idp, iss=iss, jwks=public(company))
        keys = await trust(idp, iss=server.issuer, client_id=ours["client_id"])
        await trust(server.issuer, iss=idp, jwks=keys)

        def id_token() -> str:
            claims = {"iss": iss, "sub": "ana", "aud": at_idp["client_id"]}
            return company.sign({**claims, "exp": int(time.time()) + 300}, "ES256", {})

        provider = IdentityProvider(
            f"{idp}/token", at_idp["client_id"], id_token, at_idp["client_secret"]
        )
        secret = ours["client_secret"]
        await use(
            server.url,
            EnterpriseAuthorization(provider, ours["client_id"], client_secret=secret),
        )
        # The grant is for one client: another of the same server gets nothing for it.
        other = await register(
            server.issuer,
            grant_types=[JWT_BEARER],
            token_endpoint_auth_method="client_secret_basic",
            scope="weather",
        )
        wrong = EnterpriseAuthorization(
            provider, other["client_id"], client_secret=other["client_secret"]
        )
        with pytest.raises(AuthError, match="does not match 'client_id' claim"):
            await use(server.url, wrong)
