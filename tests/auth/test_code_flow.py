"""The authorization-code flow as a table: what is asked, what is checked, what is refused."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.auth import Deviations
from mcp_client.auth.code_flow import Login, LoginRequest, authorize, scopes_wanted
from mcp_client.auth.code_request import LoginOptions
from mcp_client.auth.discovery import DiscoveredServer, ServerMetadata
from mcp_client.auth.registration import RegisteredClient
from mcp_client.auth.steps import Fetch, Fetched, Unreachable
from mcp_client.auth.token_endpoint import client_authentication, refresh, revoke
from mcp_client.auth.tokens import Key, Registration, Source, Token
from mcp_client.errors import AuthError
from mcp_client.protocol.headers import Challenge
from tests.auth.flows import ISSUER, REDIRECT, SERVER, World, metadata
from tests.support.properties import examples

METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"
RESOURCE = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
TOKEN = f"{ISSUER}/token"


def now() -> float:
    return 1_000.0


def logged_in(
    world: World,
    client: RegisteredClient | None = None,
    scopes: frozenset[str] | None = None,
    options: LoginOptions | None = None,
    **known: Any,
) -> Login:
    request = LoginRequest(SERVER, "example", now=now, **known)
    options = options or LoginOptions(scopes=scopes)
    login = world.run(authorize(request, client or RegisteredClient(), options))
    assert isinstance(login, Login)
    return login


def test_a_login_ends_in_a_token_and_where_it_came_from() -> None:
    login = logged_in(World())
    assert login.token.access_token == "at"
    assert login.token.expires_at == 1_060.0
    assert login.source == Source(Key(ISSUER, SERVER, "registered"), TOKEN, "none")


def test_the_code_is_bound_to_the_verifier_and_the_resource() -> None:
    world = World()
    logged_in(world)
    asked, form = world.consents[0], world.form(TOKEN)
    assert asked["response_type"] == "code"
    assert asked["client_id"] == form["client_id"] == "registered"
    assert asked["redirect_uri"] == form["redirect_uri"] == REDIRECT
    assert asked["resource"] == form["resource"] == SERVER
    assert asked["code_challenge_method"] == "S256"
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert 43 <= len(form["code_verifier"]) <= 128
    assert form["code"] == "c0de"
    assert form["grant_type"] == "authorization_code"
    assert "scope" not in asked


def test_no_two_logins_share_a_state_or_a_verifier() -> None:
    world = World()
    logged_in(world)
    verifier = world.form(TOKEN)["code_verifier"]
    logged_in(world)
    assert world.consents[0]["state"] != world.consents[1]["state"]
    assert world.form(TOKEN)["code_verifier"] != verifier


def test_the_resource_goes_out_byte_for_byte_as_it_was_published() -> None:
    published = "HTTPS://MCP.example"
    world = World({RESOURCE: {"resource": published, "authorization_servers": [ISSUER]}})
    logged_in(world)
    assert world.consents[0]["resource"] == published
    assert world.form(TOKEN)["resource"] == published


def test_an_authorization_endpoint_keeps_its_own_query() -> None:
    world = World({METADATA: metadata(authorization_endpoint=f"{ISSUER}/authorize?tenant=7")})
    logged_in(world)
    assert world.consents[0]["tenant"] == "7"


# ------------------------------------------------------------------- the redirect

REDIRECTS: list[tuple[dict[str, str], bool, str | None]] = [
    ({"iss": ISSUER}, True, None),
    ({}, False, None),
    ({"iss": ISSUER}, False, None),
    ({}, True, "has no iss"),
    ({"iss": "https://evil.example"}, True, "comes from 'https://evil.example'"),
    ({"iss": "https://evil.example"}, False, "comes from 'https://evil.example'"),
    ({"iss": f"{ISSUER}/"}, True, "comes from"),
    ({"iss": "https://AS.example"}, True, "comes from"),
    ({"iss": "https://as.example:443"}, True, "comes from"),
    ({"iss": ""}, False, "comes from"),
    ({"iss": ISSUER, "state": "another"}, True, "another login"),
    ({"iss": ISSUER, "state": ""}, True, "another login"),
    ({"iss": ISSUER, "state": "ü"}, True, "another login"),
    ({"iss": ISSUER, "code": ""}, True, "neither a code"),
]


@pytest.mark.parametrize(("redirect", "promises_iss", "why"), REDIRECTS)
def test_a_redirect_is_used_only_with_the_state_of_this_login(
    redirect: dict[str, str], promises_iss: bool, why: str | None
) -> None:
    described = metadata(authorization_response_iss_parameter_supported=promises_iss)
    world = World({METADATA: described}, **redirect)
    if why is None:
        assert logged_in(world).token.access_token == "at"
        return
    with pytest.raises(AuthError, match=why):
        logged_in(world)
    assert TOKEN not in world.urls


def test_a_refusal_is_reported_with_its_code() -> None:
    world = World(error="access_denied", error_description="not \x1b[1mtoday")
    with pytest.raises(AuthError, match=r"not \\u\{1b\}\[1mtoday") as caught:
        logged_in(world)
    assert caught.value.oauth_error == "access_denied"
    assert TOKEN not in world.urls


def test_an_error_of_another_server_is_not_shown() -> None:
    world = World(error="access_denied", error_description="call me", iss="https://evil.example")
    with pytest.raises(AuthError, match="comes from") as caught:
        logged_in(world)
    assert caught.value.oauth_error is None
    assert "call me" not in str(caught.value)
    promised = metadata(authorization_response_iss_parameter_supported=True)
    world = World({METADATA: promised}, error="call_me", error_description="call me")
    with pytest.raises(AuthError, match=r"no iss.* the error in it is not shown") as caught:
        logged_in(world)
    assert caught.value.oauth_error is None
    assert "call" not in str(caught.value)


# ------------------------------------------------------------------ the server

UNFIT = [
    ({"code_challenge_methods_supported": None}, "PKCE"),
    ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ({"authorization_endpoint": None}, "no authorization_endpoint"),
    ({"response_types_supported": ["token"]}, "does not support authorization codes"),
    (
        {"authorization_endpoint": f"{ISSUER}/a?redirect_uri=https://evil.example"},
        "only the client may set",
    ),
    ({"authorization_endpoint": f"{ISSUER}/a?state="}, "only the client may set"),
]


@pytest.mark.parametrize(("changes", "why"), UNFIT)
def test_no_page_is_opened_where_the_login_would_not_be_safe(
    changes: dict[str, Any], why: str
) -> None:
    world = World({METADATA: metadata(**changes)})
    with pytest.raises(AuthError, match=why):
        logged_in(world)
    assert world.consents == []


def test_without_pkce_a_host_may_insist_and_we_send_it_nevertheless() -> None:
    world = World({METADATA: metadata(code_challenge_methods_supported=None)})
    logged_in(world, options=LoginOptions(deviations=Deviations(insecure_allow_missing_pkce=True)))
    assert world.consents[0]["code_challenge_method"] == "S256"


def test_of_several_servers_the_one_our_credentials_belong_to_is_chosen() -> None:
    second = "https://second.example"
    described = {"resource": SERVER, "authorization_servers": [ISSUER, second]}
    pages = {
        RESOURCE: described,
        f"{second}/.well-known/oauth-authorization-server": metadata(second),
        f"{second}/token": {"access_token": "at2", "token_type": "Bearer"},
        f"{second}/register": {"client_id": "registered"},
    }
    client = RegisteredClient(client_id="given", issuer=second)
    assert logged_in(World(pages), client).source.key.issuer == second
    last = Source(Key(second, SERVER, "registered"), f"{second}/token")
    assert logged_in(World(pages), last=last).source.key.issuer == second
    assert logged_in(World(pages)).source.key.issuer == ISSUER


def test_given_credentials_are_not_sent_where_they_do_not_belong() -> None:
    world = World()
    client = RegisteredClient(
        client_id="given", client_secret="s3cret", issuer="https://first.example"
    )
    with pytest.raises(AuthError, match="belongs to"):
        logged_in(world, client)
    assert world.consents == []
    assert not [step for step in world.fetched if step.method == "POST"]


def test_a_secret_without_an_issuer_stays_with_the_server_that_has_had_it() -> None:
    world = World()
    client = RegisteredClient(client_id="given", client_secret="s3cret")
    first = "https://first.example"
    last = Source(Key(first, SERVER, "given"), f"{first}/token", "client_secret_basic")
    with pytest.raises(AuthError, match=r"belongs to the authorization server https://first\.exam"):
        logged_in(world, client, last=last)
    assert world.consents == []
    assert not [step for step in world.fetched if step.method == "POST"]
    public = RegisteredClient(client_id="given")
    assert logged_in(World(), public, last=last).source.key.issuer == ISSUER
    again = Source(Key(ISSUER, SERVER, "given"), TOKEN, "client_secret_basic")
    assert logged_in(World(), client, last=again).source.key.issuer == ISSUER


# -------------------------------------------------------------------- the scopes

_NONE: frozenset[str] = frozenset()
SCOPES = [
    ("", _NONE, None, _NONE, _NONE, ""),
    ("a b", {"c"}, None, _NONE, _NONE, "a b"),
    ("", {"c", "d"}, None, _NONE, _NONE, "c d"),
    ("w", {"c"}, None, {"r"}, _NONE, "r w"),
    ("", {"c"}, {"mine"}, _NONE, _NONE, "mine"),
    ("w", {"c"}, {"mine"}, _NONE, _NONE, "mine w"),
    ("a", _NONE, None, _NONE, {"offline_access"}, "a offline_access"),
    ("", _NONE, None, _NONE, {"offline_access"}, ""),
    ("", _NONE, {"mine"}, _NONE, {"offline_access"}, "mine"),
]


@pytest.mark.parametrize(("challenge", "resource", "own", "held", "server", "expected"), SCOPES)
def test_scopes_are_the_challenges_or_the_resources_and_those_we_had(
    challenge: str, resource: Any, own: Any, held: Any, server: Any, expected: str
) -> None:
    params = {"scope": challenge} if challenge else {}
    request = LoginRequest(SERVER, "example", Challenge("bearer", params), frozenset(held))
    discovered = DiscoveredServer(
        SERVER, ServerMetadata(ISSUER, TOKEN, scopes=frozenset(server)), resource
    )
    wanted = scopes_wanted(request, discovered, None if own is None else frozenset(own))
    assert wanted == set(expected.split())


def test_scopes_are_asked_for_and_remembered() -> None:
    world = World()
    challenge = Challenge("bearer", {"scope": "write"})
    login = logged_in(world, challenge=challenge, held=frozenset({"read"}))
    assert world.consents[0]["scope"] == "read write"
    assert login.scopes == login.token.scope == {"read", "write"}


# ------------------------------------------------------------- a forgotten client


def with_stored_client(world: World) -> World:
    world.stored[ISSUER] = Registration("old", redirect_uris=(REDIRECT,), issuer=ISSUER)
    return world


def test_a_client_that_the_server_forgot_is_registered_again_once() -> None:
    granted = {"access_token": "at", "token_type": "Bearer"}
    world = with_stored_client(World({TOKEN: [{"error": "invalid_client"}, granted]}))
    assert logged_in(world).source.key.client == "registered"
    assert [asked["client_id"] for asked in world.consents] == ["old", "registered"]
    world = with_stored_client(World({TOKEN: {"error": "invalid_client"}}))
    with pytest.raises(AuthError) as caught:
        logged_in(world)
    assert caught.value.oauth_error == "invalid_client"
    assert len(world.consents) == 2


LOGIN_PAGE = f"{ISSUER}/authorize"


class Probed(World):
    """A world that has an outcome for the login page itself, whatever its query."""

    def __init__(self, outcome: Fetched | Unreachable, **described: Any) -> None:
        super().__init__({METADATA: metadata(**described)})
        self.outcome = outcome
        self.probes = 0

    def answer(self, step: Any) -> Any:
        if isinstance(step, Fetch) and step.url.partition("?")[0] == LOGIN_PAGE:
            self.probes += 1
            assert "prompt=none" in step.url and not step.follow
            return self.outcome
        return super().answer(step)


@pytest.mark.parametrize(
    ("outcome", "used"),
    [
        (Fetched(400), "registered"),
        (Fetched(499), "registered"),
        (Fetched(399), "old"),
        (Fetched(302), "old"),
        (Fetched(500), "old"),
        (Fetched(429), "old"),
        (Unreachable("no answer"), "old"),
    ],
)
def test_a_stored_client_is_replaced_where_its_login_page_is_an_error(
    outcome: Fetched | Unreachable, used: str
) -> None:
    world = with_stored_client(Probed(outcome))
    assert logged_in(world).source.key.client == used
    assert [asked["client_id"] for asked in world.consents] == [used]


def test_the_login_page_is_not_probed_where_no_other_client_can_be_registered() -> None:
    world = Probed(Fetched(400), registration_endpoint=None)
    with_stored_client(world)
    assert logged_in(world).source.key.client == "old"
    assert world.probes == 0


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_target", "server_error"])
def test_nothing_else_is_tried_again(error: str) -> None:
    world = with_stored_client(World({TOKEN: {"error": error}}))
    with pytest.raises(AuthError) as caught:
        logged_in(world)
    assert caught.value.oauth_error == error
    assert len(world.consents) == 1
    assert world.stored[ISSUER].client_id == "old"


def test_a_client_that_was_registered_just_now_is_not_registered_again() -> None:
    world = World({TOKEN: {"error": "invalid_client"}})
    with pytest.raises(AuthError):
        logged_in(world)
    assert world.urls.count(f"{ISSUER}/register") == 1


# ------------------------------------------------------------------- the refresh

SOURCE = Source(Key(ISSUER, SERVER, "old"), TOKEN, "none")
STALE = Token("at0", refresh_token="rt0", scope=frozenset({"read"}))


def refreshed(
    world: World,
    client: RegisteredClient | None = None,
    source: Source = SOURCE,
    **options: Any,
) -> Token:
    token = world.run(refresh(client or RegisteredClient(), STALE, source, now, **options))
    assert isinstance(token, Token)
    return token


def test_a_refresh_needs_one_request_and_no_discovery() -> None:
    world = with_stored_client(World())
    token = refreshed(world)
    assert world.urls == [TOKEN]
    assert world.form(TOKEN) == {
        "grant_type": "refresh_token",
        "refresh_token": "rt0",
        "resource": SERVER,
        "client_id": "old",
    }
    assert (token.access_token, token.refresh_token) == ("at", "rt0")
    assert token.scope == {"read"}


def test_a_refresh_names_no_resource_if_the_host_sets_it() -> None:
    world = World()
    refreshed(world, send_resource=False)
    assert "resource" not in world.form(TOKEN)


REFUSALS: list[Any] = [
    {"error": "invalid_target"},
    {"error": "invalid_request", "error_description": "unknown parameter"},
    400,
    ["resource"],
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refresh_whose_resource_is_refused_is_sent_once_without_it(refusal: Any) -> None:
    granted = {"access_token": "at", "token_type": "Bearer"}
    refused = Fetched(400, body=b'["resource"]') if isinstance(refusal, list) else refusal
    world = with_stored_client(World({TOKEN: [refused, granted]}))
    assert refreshed(world).access_token == "at"
    with_it, without = (dict(parse_qsl((each.body or b"").decode())) for each in world.fetched)
    assert with_it == {**without, "resource": SERVER}
    assert len(world.accepted) == 1
    (source,) = world.remembered
    assert source == replace(SOURCE, without_resource=True)
    world = with_stored_client(World())  # known from now on, also after another login
    refreshed(world, source=source)
    assert "resource" not in world.form(TOKEN)
    assert (len(world.urls), world.remembered) == (1, [])
    assert logged_in(World(), last=source).source.without_resource
    other = replace(source, key=replace(source.key, issuer="https://other.example"))
    assert not logged_in(World(), last=other).source.without_resource


@pytest.mark.parametrize(
    ("refusal", "requests"),
    [
        ({"error": "invalid_target"}, 2),
        ({"error": "invalid_grant"}, 1),
        ({"error": "invalid_client"}, 1),
        (401, 1),
        (429, 1),
        (503, 1),
        ("no answer", 1),
    ],
)
def test_a_refresh_that_is_refused_for_something_else_is_sent_once(
    refusal: Any, requests: int
) -> None:
    world = with_stored_client(World({TOKEN: refusal}))
    with pytest.raises(AuthError):
        refreshed(world)
    assert world.urls == [TOKEN] * requests
    assert (world.remembered, world.accepted) == ([], [])
    world = with_stored_client(World({TOKEN: {"error": "invalid_target"}}))
    with pytest.raises(AuthError):
        refreshed(world, send_resource=False)
    assert world.urls == [TOKEN]


def test_a_rotated_refresh_token_takes_the_place_of_the_old_one() -> None:
    granted = {"access_token": "at", "token_type": "Bearer", "refresh_token": "rt1"}
    assert refreshed(with_stored_client(World({TOKEN: granted}))).refresh_token == "rt1"


def test_a_refresh_authenticates_as_the_login_did() -> None:
    world = World()
    source = Source(Key(ISSUER, SERVER, "given"), TOKEN, "client_secret_basic")
    refreshed(world, RegisteredClient(client_id="given", client_secret="s"), source)
    pair = base64.b64encode(b"given:s").decode()
    assert world.fetched[0].headers["authorization"] == f"Basic {pair}"


@pytest.mark.parametrize(
    "registration", [None, Registration("another user", issuer=ISSUER)], ids=["none", "another"]
)
def test_a_refresh_without_the_clients_secret_is_not_sent(
    registration: Registration | None,
) -> None:
    world = World()
    if registration is not None:
        world.stored[ISSUER] = registration
    with pytest.raises(AuthError, match="secret") as caught:
        refreshed(world, source=Source(SOURCE.key, TOKEN, "client_secret_basic"))
    assert not caught.value.retryable
    assert world.urls == []


def test_a_refresh_authenticates_with_the_secret_that_was_registered() -> None:
    world = World()
    world.stored[ISSUER] = Registration("old", client_secret="kept", issuer=ISSUER)
    refreshed(world, source=Source(SOURCE.key, TOKEN, "client_secret_post"))
    assert world.form(TOKEN)["client_secret"] == "kept"


@pytest.mark.parametrize("held", [None, "rt0"])
def test_a_revocation_begins_with_the_refresh_token_and_leaves_out_what_there_is_not(
    held: str | None,
) -> None:
    place = f"{ISSUER}/revoke"
    world = World({METADATA: metadata(revocation_endpoint=place), place: {}})
    token = Token("at0", refresh_token=held)
    own = RegisteredClient()
    flow = revoke(token, SOURCE, lambda source, *_: client_authentication(source, own), now)
    assert world.run(flow) is True
    forms = [dict(parse_qsl((step.body or b"").decode())) for step in world.fetched[1:]]
    sent = [(form["token_type_hint"], form["token"]) for form in forms]
    refresh_first = [] if held is None else [("refresh_token", held)]
    assert sent == [*refresh_first, ("access_token", "at0")]


def test_a_public_client_needs_no_registration_to_refresh() -> None:
    world = World()
    assert refreshed(world).access_token == "at"
    assert world.form(TOKEN)["client_id"] == "old"


def test_a_client_that_is_forgotten_at_a_refresh_is_not_stored() -> None:
    world = with_stored_client(World({TOKEN: {"error": "invalid_client"}}))
    with pytest.raises(AuthError):
        refreshed(world)
    assert world.stored == {}


def test_no_secret_is_in_a_repr_or_an_error() -> None:
    world = World({TOKEN: {"error": "invalid_grant", "error_description": "c0de is used"}})
    with pytest.raises(AuthError) as caught:
        logged_in(world)
    assert "c0de" not in str(caught.value)
    login = logged_in(World())
    steps = repr(world.fetched) + repr(login) + repr(STALE)
    verifier = world.form(TOKEN)["code_verifier"]
    for secret in ("c0de", verifier, "'at'", "rt0"):
        assert secret not in steps


# ---------------------------------------------------------------- any response

ODD = st.sampled_from([404, 403, 500, 302, "refused", b"", b"<html>", b"[]", {"error": "no"}])
NAMES = st.sampled_from(
    [SERVER, ISSUER, f"{ISSUER}/", "https://evil.example", "http://x", "", None]
)
RESOURCES = st.fixed_dictionaries(
    {}, optional={"resource": NAMES, "authorization_servers": st.lists(NAMES, max_size=2)}
)
CHANGES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "issuer": NAMES,
        "authorization_endpoint": NAMES,
        "token_endpoint": NAMES,
        "registration_endpoint": NAMES,
        "code_challenge_methods_supported": st.lists(st.sampled_from(["S256", "plain"])),
        "authorization_response_iss_parameter_supported": st.booleans(),
    },
)
TOKENS = st.fixed_dictionaries(
    {}, optional={"access_token": st.sampled_from(["at", "", 7]), "token_type": NAMES}
)
PAGES = st.fixed_dictionaries(
    {},
    optional={
        RESOURCE: ODD | RESOURCES,
        METADATA: ODD | CHANGES.map(lambda changes: metadata(**changes)),
        f"{ISSUER}/register": ODD | st.fixed_dictionaries({}, optional={"client_id": NAMES}),
        TOKEN: ODD | TOKENS,
    },
)
ANSWERS = st.fixed_dictionaries(
    {}, optional={"state": st.just("another"), "iss": NAMES.map(str), "error": st.just("no")}
)


@given(PAGES, ANSWERS, st.booleans())
@examples(150)
def test_for_any_responses_the_flow_ends_in_a_token_or_an_auth_error(
    pages: dict[str, Any], redirect: dict[str, str], known: bool
) -> None:
    world = World(pages, **redirect)
    if known:
        with_stored_client(world)
    try:
        login = logged_in(world)
    except AuthError:
        login = None
    assert len(world.fetched) <= 12
    assert len(world.consents) <= 2
    posted = [step for step in world.fetched if step.url == TOKEN]
    assert len(posted) <= len(world.consents)
    if login is not None:
        assert redirect.get("iss", login.source.key.issuer) == login.source.key.issuer
        assert not {"state", "error"} & redirect.keys()
        assert login.source.key.resource in (SERVER, SERVER.removesuffix("/mcp"))
