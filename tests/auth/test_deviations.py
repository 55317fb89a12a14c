"""Logins at servers that deviate from the specification: what is accepted and reported.

Real servers on this machine, from ``connect`` on. ``Stats.deviations`` is what ``doctor`` prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from mcp_client import OAuth
from mcp_client.auth import ClientCredentials, MemoryTokens, WorkloadIdentity
from mcp_client.errors import AuthError
from tests.auth.driving import ECHOED, grants, names, no_one, session_of
from tests.support.authorization import Document, Grant, World, guarded
from tests.support.http_server import Handler, Reply, Request

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

PRM = "/.well-known/oauth-protected-resource"


def deviating(**changes: Any) -> Callable[[Document], Document]:
    def changed(document: Document) -> Document:
        if "access_token" not in document:
            return document
        document |= changes
        return {name: value for name, value in document.items() if value != "left out"}

    return changed


def answering(status: int, body: bytes = b"", **headers: str) -> Handler:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(status, body, headers)

    return handler


async def deviations(world: World, auth: Any) -> list[str]:
    """What was accepted in a session that called a tool."""
    async with session_of(world, auth) as session:
        assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED
        return sorted(session.stats.deviations)


@pytest.mark.both_backends
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 201}, ["another status than 200"]),
        ({"status": 203, "token_type": "bot"}, ["another status", "token_type"]),
        ({"token_type": "user"}, ["token_type is not Bearer"]),
        ({"token_type": None}, ["token_type is not Bearer"]),
        ({"token_type": ""}, ["token_type is not Bearer"]),
        ({"token_type": "left out"}, ["token_type is not Bearer"]),
        ({"token_type": "BEARER"}, []),
    ],
)
async def test_a_token_of_another_wording_is_used_and_reported_at_login_and_refresh(
    changes: Any, expected: list[str]
) -> None:
    async with guarded(token=deviating(**changes)) as world:
        store = MemoryTokens()
        for auth in (
            OAuth(on_url=world.agree, store=store),
            OAuth(on_url=no_one, store=store),  # refreshes what the first one got
        ):
            found = await deviations(world, auth)
            world.revoke()
            assert len(found) == len(expected)
            for part, sentence in zip(expected, found, strict=True):
                assert part in sentence
        assert {"authorization_code", "refresh_token"} == set(grants(world))
        assert all(each.startswith("Bearer ") for each in names(world) if each)


@pytest.mark.parametrize("lifetime", [0, -1, "0"])
async def test_a_token_that_expires_when_it_is_issued_costs_no_login_for_each_request(
    lifetime: Any,
) -> None:
    async with guarded(lifetime=lifetime, refreshes=False) as world:
        store = MemoryTokens()
        (reported,) = await deviations(world, OAuth(on_url=world.agree, store=store))
        assert "expire when they are issued" in reported
        assert await deviations(world, OAuth(on_url=no_one, store=store)) == []
        assert len(world.consents) == 1
        world.revoke()
        await deviations(world, OAuth(on_url=world.agree, store=store))
        assert len(world.consents) == 2


@pytest.mark.parametrize("kind", ["mac", "PoP", "DPoP"])
async def test_a_token_that_is_bound_to_a_key_we_do_not_have_is_refused(kind: str) -> None:
    async with guarded(token=deviating(token_type=kind)) as world:
        with pytest.raises(AuthError, match=f"(?i){kind}"):
            await deviations(world, OAuth(on_url=world.agree))
        assert [each for each in names(world) if each] == []


@pytest.mark.parametrize("kind", ["credentials", "workload"])
async def test_a_service_is_given_its_token_in_another_wording(kind: str) -> None:
    async def token(request: Request, reply: Reply) -> None:
        document = world._granted(Grant("svc", "", "r"))
        del document["token_type"]
        await reply.json(document, 201)

    auth: Any = ClientCredentials("svc", client_secret="s3cret-of-ours")
    if kind == "workload":
        auth = WorkloadIdentity("svc", assertion="j.w.t")
    async with guarded(
        pages={"/token": token},
        server_metadata=lambda each: {
            **each,
            "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
        },
    ) as world:
        assert len(await deviations(world, auth)) == 2


async def test_every_endpoint_may_answer_with_201() -> None:
    """As frameworks do that answer each POST so."""

    async def created(request: Request, reply: Reply) -> None:
        path = request.path
        if path == "/par":
            asked = world.forms("/par")[-1]
            world.codes["c0de"] = asked
            await reply.json({"request_uri": "urn:x:1"}, 201)
        elif path == "/revoke":
            world.revoked.append("a token")
            await reply.send(201)
        else:
            await reply.json(world._token(request), 201)

    def described(document: Document) -> Document:
        issuer = document["issuer"]
        return {
            **document,
            "pushed_authorization_request_endpoint": f"{issuer}/par",
            "require_pushed_authorization_requests": True,
            "revocation_endpoint": f"{issuer}/revoke",
        }

    async def agree(url: str) -> str:
        asked = world.codes["c0de"]
        query = urlencode({"code": "c0de", "state": asked["state"], "iss": world.issuer})
        return f"{asked['redirect_uri']}?{query}"

    pages = dict.fromkeys(("/par", "/revoke", "/token"), created)
    async with guarded(server_metadata=described, pages=pages) as world:
        auth = OAuth(on_url=agree)
        assert len(await deviations(world, auth)) == 1
        assert await auth.logout(world.url) is True
        assert len(world.revoked) == 2


@pytest.mark.both_backends
@pytest.mark.parametrize("code", ["invalid_target", "invalid_request"])
async def test_a_refresh_goes_on_without_the_resource_and_that_is_remembered(code: str) -> None:
    def without(form: dict[str, str]) -> bool:
        return form["grant_type"] != "refresh_token" or "resource" not in form

    async def token(request: Request, reply: Reply) -> None:
        if without(dict(world.forms("/token")[-1])):
            await reply.json(world._token(request))
        else:
            await reply.json({"error": code}, 400)

    async with guarded(pages={"/token": token}) as world:
        store, reported = MemoryTokens(), []
        for person in (world.agree, no_one, no_one):
            reported.append(await deviations(world, OAuth(on_url=person, store=store)))
            world.revoke()
        assert [len(each) for each in reported] == [0, 1, 0]
        refreshes = [each for each in world.forms("/token") if "refresh_token" in each]
        assert ["resource" in each for each in refreshes][:2] == [True, False]
        assert not any("resource" in each for each in refreshes[1:])
        assert len(world.consents) == 1


@pytest.mark.both_backends
@pytest.mark.parametrize("status", [429, 500, 502, 503, 200])
async def test_a_place_that_a_proxy_does_not_route_is_passed_over(status: int) -> None:
    async def root(request: Request, reply: Reply) -> None:
        await reply.json({"resource": world.url, "authorization_servers": [world.issuer]})

    pages = {f"{PRM}/mcp": answering(status, b"{}"), PRM: root}
    async with guarded(pages=pages) as world:
        (reported,) = await deviations(world, OAuth(on_url=world.agree))
        assert "protected-resource metadata" in reported
    pages = {f"{PRM}/mcp": answering(status, b"{}")}
    async with guarded(pages=pages) as world:
        why = "no resource" if status == 200 else f"HTTP {status}"
        with pytest.raises(AuthError, match=why):
            await deviations(world, OAuth(on_url=world.agree))


@pytest.mark.parametrize(
    "named",
    ["/.well-known/x", "undefined/x", "https://{host}/x", "${URL}/x", "'https://a.example'"],
)
async def test_a_challenge_that_names_no_place_is_read_as_one_without(named: str) -> None:
    async with guarded(challenge=lambda each: f'Bearer resource_metadata="{named}"') as world:
        (reported,) = await deviations(world, OAuth(on_url=world.agree))
        assert "is not a URL, and is ignored" in reported
    unquoted = f"Bearer resource_metadata={named}"
    async with guarded(challenge=lambda each: unquoted) as world:
        assert len(await deviations(world, OAuth(on_url=world.agree))) == 1


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'["no such code"]', "no such code"),
        (400, b'"no such code"', "no such code"),
        (415, b"Unsupported Media Type", "Unsupported Media Type"),
        (400, b'{"error": {"message": "no such code"}}', "no such code"),
        (400, b'{"error": "invalid_grant", "detail": "no such code"}', "no such code"),
    ],
)
async def test_a_provider_is_quoted_and_what_was_sent_is_hidden(
    status: int, body: bytes, expected: str
) -> None:
    async def token(request: Request, reply: Reply) -> None:
        form = world.forms("/token")[-1]
        text = body.decode().replace(expected, f"{expected} {form['code']} {form['code_verifier']}")
        await reply.send(status, text.encode(), {"Content-Type": "text/plain"})

    async with guarded(pages={"/token": token}) as world:
        with pytest.raises(AuthError) as caught:
            await deviations(world, OAuth(on_url=world.agree))
        form = world.forms("/token")[-1]
        assert expected in str(caught.value)
        for secret in (form["code"], form["code_verifier"]):
            assert secret not in str(caught.value)
            assert secret not in json.dumps(repr(caught.value))
