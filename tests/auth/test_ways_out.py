"""Options for servers that deviate from the specification, each named in the error it cures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mcp_client import ConfigError, OAuth
from mcp_client.auth import Deviations
from mcp_client.auth.code_flow import Login, LoginRequest, authorize
from mcp_client.auth.code_request import LoginOptions
from mcp_client.auth.registration import RegisteredClient
from mcp_client.auth.safe_fetch import FetchPolicy, SafeFetcher, refused_url
from mcp_client.auth.steps import Fetch, Fetched, Unreachable
from mcp_client.auth.tokens import Key, Registration, Source, Token
from mcp_client.errors import AuthError
from mcp_client.protocol.headers import Challenge
from tests.auth.flows import ISSUER, REDIRECT, SERVER, World, metadata
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

GOOGLE = {"access_type": "offline", "prompt": "select_account"}
METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"
TOKEN = f"{ISSUER}/token"


def logged_in(
    world: World,
    client: RegisteredClient | None = None,
    *,
    challenge: Challenge | None = None,
    last: Source | None = None,
    **options: Any,
) -> Login:
    request = LoginRequest(SERVER, "example", challenge, last=last, now=lambda: 1_000.0)
    login = world.run(authorize(request, client or RegisteredClient(), LoginOptions(**options)))
    assert isinstance(login, Login)
    return login


# ------------------------------------------------------------------- parameters


def test_further_parameters_go_into_the_authorization_request() -> None:
    world = World()
    logged_in(world, deviations=Deviations(authorize_params=GOOGLE))
    assert world.consents[0]["access_type"] == "offline"
    assert world.consents[0]["prompt"] == "select_account"
    assert "access_type" not in world.form(TOKEN)


@pytest.mark.parametrize(
    "name", ["state", "redirect_uri", "client_id", "code_challenge", "resource", "scope", "request"]
)
def test_parameters_that_decide_who_gets_the_token_cannot_be_given(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Deviations(authorize_params={name: "x"})


def test_a_parameter_that_is_not_a_string_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="authorize_params"):
        Deviations(authorize_params={"max_age": 5})  # type: ignore[dict-item]


def test_the_resource_can_be_left_out() -> None:
    world = World()
    logged_in(world, deviations=Deviations(send_resource=False))
    assert "resource" not in world.consents[0]
    assert "resource" not in world.form(TOKEN)


@pytest.mark.parametrize(
    "page",
    [
        {"error": "invalid_target"},
        {"error": "invalid_request", "error_description": "AADSTS9010010: resource and scope"},
    ],
)
def test_a_server_that_does_not_know_resource_is_reported_with_the_option(page: Any) -> None:
    with pytest.raises(AuthError, match="send_resource=False"):
        logged_in(World({TOKEN: page}))
    with pytest.raises(AuthError, match="send_resource=False"):
        logged_in(World(error="invalid_target"))


# ------------------------------------------------------------------- refresh tokens


def test_a_request_for_a_refresh_token_asks_for_consent() -> None:
    world = World({METADATA: metadata(scopes_supported=["read", "offline_access"])})
    logged_in(world, challenge=Challenge("bearer", {"scope": "read"}))
    assert world.consents[0]["scope"] == "offline_access read"
    assert world.consents[0]["prompt"] == "consent"
    world = World()
    logged_in(world, challenge=Challenge("bearer", {"scope": "read"}))
    assert "prompt" not in world.consents[0]


class Refusing(World):
    """A server that supports ``offline_access`` and refuses it in the redirect."""

    def __init__(self, *refused: str) -> None:
        scopes = ["read", "offline_access"]
        supported = metadata(scopes_supported=scopes, registration_endpoint=None)
        super().__init__({METADATA: supported})
        self.refused = set(refused or ("offline_access",))

    def _redirected(self, step: Any) -> Any:
        asked = self.consents[-1]["scope"].split()
        error = {"error": "invalid_scope"} if self.refused & {*asked} else {}
        self.redirect = {"code": "c0de", **error}
        return super()._redirected(step)


READ = Challenge("bearer", {"scope": "read"})


def test_a_scope_that_we_added_is_left_out_where_it_is_refused_and_from_then_on() -> None:
    world = Refusing()
    client = RegisteredClient(client_id="by-hand")
    login = logged_in(world, client, challenge=READ)
    assert [one["scope"] for one in world.consents] == ["offline_access read", "read"]
    assert world.consents[0]["state"] != world.consents[1]["state"]
    assert "prompt" not in world.consents[1]
    assert login.scopes == {"read"}
    assert login.source.refused_scopes == {"offline_access"}
    stored = Source.from_wire(login.source.to_wire())
    for _ in range(2):  # remembered by the login that leaves it out, too
        world = Refusing()
        stored = logged_in(world, client, challenge=READ, last=stored).source
        assert [one["scope"] for one in world.consents] == ["read"]
    elsewhere = replace(stored, key=replace(stored.key, issuer="https://other.example"))
    world = Refusing()
    logged_in(world, client, challenge=READ, last=elsewhere)
    assert world.consents[0]["scope"] == "offline_access read"


@pytest.mark.parametrize(
    ("challenge", "options"),
    [
        (Challenge("bearer", {"scope": "read offline_access"}), {}),
        (READ, {"scopes": frozenset({"read", "offline_access"})}),
        (READ, {"scopes": frozenset({"openid"})}),
    ],
)
def test_a_scope_that_a_person_asked_for_is_not_left_out(challenge: Any, options: Any) -> None:
    world = Refusing("offline_access", "openid")
    with pytest.raises(AuthError, match="invalid_scope"):
        logged_in(world, RegisteredClient(client_id="by-hand"), challenge=challenge, **options)
    assert len(world.consents) == 1


def test_a_login_that_is_refused_without_the_scope_as_well_is_not_tried_a_third_time() -> None:
    world = Refusing("offline_access", "read")
    with pytest.raises(AuthError, match="invalid_scope"):
        logged_in(world, RegisteredClient(client_id="by-hand"), challenge=READ)
    assert len(world.consents) == 2


# ------------------------------------------------------------------- pushed requests

PUSHED = f"{ISSUER}/par"


def pushing(**changes: Any) -> dict[str, Any]:
    return metadata(
        pushed_authorization_request_endpoint=PUSHED,
        require_pushed_authorization_requests=True,
        **changes,
    )


def test_a_request_is_pushed_where_the_server_requires_it() -> None:
    world = World({METADATA: pushing(), PUSHED: {"request_uri": "urn:x:1", "expires_in": 60}})
    assert logged_in(world).token.access_token == "at"
    assert world.consents == [{"client_id": "registered", "request_uri": "urn:x:1"}]
    pushed = world.form(PUSHED)
    assert pushed["redirect_uri"] == REDIRECT
    assert pushed["code_challenge_method"] == "S256"
    assert pushed["client_id"] == "registered"


def test_a_pushed_request_authenticates_the_client() -> None:
    world = World(
        {
            METADATA: pushing(token_endpoint_auth_methods_supported=["client_secret_basic"]),
            PUSHED: {"request_uri": "urn:x:1"},
        }
    )
    logged_in(world, RegisteredClient(client_id="given", client_secret="s3cret"))
    (step,) = [step for step in world.fetched if step.url == PUSHED]
    assert step.headers["authorization"].startswith("Basic ")


def test_a_request_is_not_pushed_where_that_is_only_offered() -> None:
    world = World({METADATA: metadata(pushed_authorization_request_endpoint=PUSHED)})
    logged_in(world)
    assert PUSHED not in world.urls


@pytest.mark.parametrize(
    ("page", "why"), [({"error": "invalid_request"}, "invalid_request"), ({}, "no request_uri")]
)
def test_a_pushed_request_that_is_refused_opens_no_page(page: Any, why: str) -> None:
    world = World({METADATA: pushing(), PUSHED: page})
    with pytest.raises(AuthError, match=why):
        logged_in(world)
    assert world.consents == []


def test_a_server_that_requires_pushing_without_an_endpoint_is_refused() -> None:
    described = metadata(require_pushed_authorization_requests=True)
    with pytest.raises(AuthError, match="pushed_authorization_request_endpoint"):
        logged_in(World({METADATA: described}))


# ------------------------------------------------------------------- the client


def test_an_empty_registration_endpoint_does_not_matter_to_a_given_client() -> None:
    world = World({METADATA: metadata(registration_endpoint="")})
    assert logged_in(world, RegisteredClient(client_id="given")).token.access_token == "at"
    with pytest.raises(AuthError, match="unusable registration_endpoint"):
        logged_in(World({METADATA: metadata(registration_endpoint="")}))


def test_a_given_issuer_may_be_written_with_or_without_the_slash() -> None:
    client = RegisteredClient(client_id="given", issuer=f"{ISSUER}/")
    assert logged_in(World(), client).source.key.issuer == ISSUER


def test_a_stored_token_for_the_same_resource_and_client_serves_unless_it_was_refused() -> None:
    world = World()
    world.stored[ISSUER] = Registration("old", redirect_uris=(REDIRECT,), issuer=ISSUER)
    world.tokens[Key(ISSUER, SERVER, "old")] = Token("kept", scope=frozenset({"read"}))
    assert logged_in(world).token.access_token == "kept"
    assert world.consents == []
    login = logged_in(world, challenge=Challenge("bearer", {"scope": "write"}))
    assert login.token.access_token == "at"


# ------------------------------------------------------------------- plain http


def test_plain_http_is_allowed_by_name() -> None:
    with_advice = refused_url("http://nas.local/token")
    assert with_advice is not None
    assert "allow_http_hosts=['nas.local']" in with_advice
    assert refused_url("http://nas.local/token", {"nas.local"}) is None
    assert refused_url("http://other.local/token", {"nas.local"}) is not None


async def test_plain_http_to_an_allowed_host_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")

    async def hello(request: Request, reply: Reply) -> None:
        await reply.json({"hello": request.headers["host"]})

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serving(hello) as served:
        step = Fetch("GET", served.url.replace("127.0.0.1", "nas.local"), "the metadata")
        policy = FetchPolicy(http_hosts=frozenset({"nas.local"}))
        allowed = SafeFetcher(served.url, resolve=resolve, policy=policy)
        assert isinstance(await allowed.fetch(step), Fetched)
        refused = await SafeFetcher(served.url, resolve=resolve).fetch(step)
        assert isinstance(refused, Unreachable)
        assert "plain http" in refused.reason
        assert len(served.requests) == 1


async def test_plain_http_to_an_allowed_host_leaves_this_machine() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.7"]

    class Network(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            hello = json.dumps({"hello": request.url.host}).encode()
            return httpx.Response(200, stream=httpx.ByteStream(hello))

    step = Fetch("GET", "http://nas.local/token", "the metadata")
    policy = FetchPolicy(http_hosts=frozenset({"nas.local"}))
    async with httpx.AsyncClient(transport=Network()) as client:
        fetcher = SafeFetcher("https://10.0.0.1/mcp", client, resolve=resolve, policy=policy)
        outcome = await fetcher.fetch(step)
    assert isinstance(outcome, Fetched)
    assert outcome.json == {"hello": "nas.local"}


async def test_a_private_address_that_is_refused_is_reported_with_the_option() -> None:
    step = Fetch("GET", "https://10.0.0.7/token", "the metadata")
    refused = await SafeFetcher("https://mcp.example/mcp").fetch(step)
    assert isinstance(refused, Unreachable)
    assert "issuer='https://10.0.0.7'" in refused.reason


def test_a_list_is_not_a_string() -> None:
    with pytest.raises(ConfigError, match="allow_http_hosts"):
        Deviations(allow_http_hosts="nas.local")
    with pytest.raises(ConfigError, match="scopes"):
        OAuth(scopes="read")
    with pytest.raises(ConfigError, match="deviations="):
        OAuth(deviations={"send_resource": False})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean send_resource"):
        Deviations(send_resouce=False)  # type: ignore[call-arg]
