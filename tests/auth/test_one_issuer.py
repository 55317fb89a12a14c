"""Mix-up: a hostile server that names the login page of an honest one gets nothing for it."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.auth import Deviations, DeviceLogin
from mcp_client.auth.code_flow import Login, LoginRequest, authorize
from mcp_client.auth.code_request import LoginOptions
from mcp_client.auth.one_issuer import may_revoke, within
from mcp_client.auth.registration import RegisteredClient
from mcp_client.auth.steps import Fetched
from mcp_client.errors import AuthError
from tests.auth.flows import ISSUER, SERVER, World, metadata
from tests.support.authorization import Document, guarded
from tests.support.http_server import Reply, Request

pytestmark = pytest.mark.one_backend

ROOT = "/.well-known/oauth-authorization-server"
RESOURCE = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
HONEST, EVIL = "https://honest.example", "https://evil.example"
GRANTED = {"access_token": "at", "token_type": "Bearer", "expires_in": 60}
CODE = {"device_code": "d3v1ce", "user_code": "WDJB-MJHT", "expires_in": 600}


PROMISED: dict[str, Any] = {"authorization_response_iss_parameter_supported": True}


def silent(document: Document) -> Document:
    """An honest server that knows nothing of ``iss``, as most do not."""
    return {name: each for name, each in document.items() if name not in {*PROMISED, "iss"}}


def named(issuer: str, place: Any = None, **changes: Any) -> World:
    """A world whose MCP server names ``issuer``, which publishes this, at ``place``."""
    pages: dict[str, Any] = {
        RESOURCE: {"resource": SERVER, "authorization_servers": [issuer]},
        place or f"{issuer}{ROOT}": metadata(issuer, **changes),
    }
    for each in (*changes.values(), f"{issuer}/token", f"{issuer}/register"):
        if isinstance(each, str) and each.startswith("https://"):
            kind = each.rpartition("/")[2]
            pages[each] = {
                "register": {"client_id": "registered"},
                "device": {**CODE, "verification_uri": f"{each.rpartition('/')[0]}/activate"},
                "par": {"request_uri": "urn:x:1"},
            }.get(kind, GRANTED)
    return World(pages)


def logged_in(
    world: World, client: RegisteredClient | None = None, last: Any = None, **options: Any
) -> Login:
    request = LoginRequest(SERVER, "example", last=last, now=world.now)
    login = world.run(authorize(request, client or RegisteredClient(), LoginOptions(**options)))
    assert isinstance(login, Login)
    return login


def refused(world: World, **options: Any) -> str:
    """Return why there was no login; check that no one was asked and nothing was posted."""
    with pytest.raises(AuthError) as caught:
        logged_in(world, **options)
    assert (world.consents, world.displayed) == ([], [])
    assert not [step.url for step in world.fetched if step.method != "GET"]
    return str(caught.value)


# ------------------------------------------------------------------------------- the browser

MIXED = {"authorization_endpoint": f"{HONEST}/authorize", "token_endpoint": f"{EVIL}/token"}


@pytest.mark.parametrize(
    ("issuer", "changes"),
    [
        (EVIL, MIXED),
        (EVIL, {**MIXED, "token_endpoint": "https://third.example/token"}),
        (EVIL, {**MIXED, "authorization_endpoint": f"{HONEST}:8443/authorize"}),
        # what anybody may have below a platform's name
        ("https://evil.platform.example", {"authorization_endpoint": "https://platform.example/a"}),
        (
            "https://evil.platform.example",
            {"authorization_endpoint": "https://honest.platform.example/authorize"},
        ),
        (EVIL, {"authorization_endpoint": "https://notevil.example/authorize"}),
        ("https://127.0.0.1", {"authorization_endpoint": "https://1.127.0.0.1/authorize"}),
    ],
)
def test_a_login_page_whose_owner_did_not_name_the_token_endpoint_is_not_opened(
    issuer: str, changes: Any
) -> None:
    text = refused(named(issuer, **changes))
    for part in (issuer, changes["authorization_endpoint"], f"OAuth(issuer='{issuer}')"):
        assert part in text


@pytest.mark.parametrize(
    ("issuer", "changes"),
    [
        # Google, Dropbox, PayPal: the login page's owner publishes the metadata
        (
            "https://accounts.google.com",
            {
                "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
                "token_endpoint": "https://oauth2.googleapis.com/token",
            },
        ),
        # Cognito: code and login page have one origin, which is not the issuer's
        (
            "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x",
            {
                "authorization_endpoint": "https://x.auth.amazoncognito.com/oauth2/authorize",
                "token_endpoint": "https://x.auth.amazoncognito.com/oauth2/token",
                "registration_endpoint": None,
            },
        ),
        # a login page below the issuer's name
        (
            "https://corp.example",
            {
                "authorization_endpoint": "https://login.corp.example/authorize",
                "token_endpoint": "https://api.corp-tokens.example/token",
            },
        ),
        (
            "https://corp.example",
            {
                "authorization_endpoint": "HTTPS://CORP.example:443/authorize",
                "token_endpoint": "https://api.corp-tokens.example/token",
            },
        ),
        ("https://login.microsoftonline.com/tenant/v2.0", {}),
    ],
)
def test_a_provider_that_uses_two_hosts_is_logged_in_at_without_a_word(
    issuer: str, changes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    place = None if issuer.count("/") == 2 else f"{issuer}/.well-known/openid-configuration"
    world = named(issuer, place=place, **changes)
    client = RegisteredClient("given", "given")
    with caplog.at_level(logging.INFO):
        assert logged_in(world, client).token.access_token == "at"
    assert not caplog.records
    assert len(world.consents) == 1


@pytest.mark.parametrize("slash", ["", "/"])
def test_an_issuer_that_the_host_named_may_use_any_origin(slash: str) -> None:
    issuer = "https://api.figma.example"
    world = named(issuer, authorization_endpoint="https://www.figma.example/oauth")
    assert logged_in(world, issuer=issuer + slash).token.access_token == "at"
    assert issuer in refused(
        named(issuer, authorization_endpoint="https://www.figma.example/oauth"), issuer=HONEST
    )


def test_the_issuer_of_the_last_login_is_not_one_that_the_host_named() -> None:
    world = named(EVIL)
    last = logged_in(world, RegisteredClient(client_id="given")).source
    grant = OAuth(client_id="given")._grant
    request = LoginRequest(SERVER, "example", last=last)
    with pytest.raises(AuthError, match="cannot be used"):
        named(EVIL, **MIXED).run(grant.obtain(request))
    trusting = OAuth(client_id="given", issuer=EVIL)._grant
    assert named(EVIL, **MIXED).run(trusting.obtain(request)).token.access_token == "at"


@pytest.mark.parametrize("options", [{}, {"deviations": Deviations(require_iss=True)}])
def test_iss_serves_as_well_and_no_code_is_sent_without_it(options: Any) -> None:
    promised: dict[str, Any] = {} if options else PROMISED
    for iss in ({}, {"iss": HONEST}):
        world = named(EVIL, **MIXED, **promised)
        world.redirect |= iss
        with pytest.raises(AuthError, match="not used"):
            logged_in(world, **options)
        assert f"{EVIL}/token" not in world.urls
    world = named(EVIL, **MIXED, **promised)
    world.redirect |= {"iss": EVIL}
    assert logged_in(world, **options).token.access_token == "at"


@pytest.mark.parametrize("token", [EVIL, HONEST])
def test_a_request_is_not_pushed_to_another_server_than_the_login_pages(token: str) -> None:
    """The author of a pushed request can have the honest server's redirect contain any ``iss``."""
    changes: dict[str, Any] = {
        "authorization_endpoint": f"{HONEST}/authorize",
        "token_endpoint": f"{token}/token",
        "pushed_authorization_request_endpoint": f"{EVIL}/par",
        "require_pushed_authorization_requests": True,
        **PROMISED,
    }
    assert f"{EVIL}/par" in refused(named(EVIL, **changes))
    changes["authorization_endpoint"] = f"{EVIL}/authorize"  # its own, and on one origin
    world = named(EVIL, **changes)
    world.redirect |= {"iss": EVIL}
    assert logged_in(world).token.access_token == "at"


# ----------------------------------------------------------- who published the metadata

BELOW = "https://git.example/evil/repository/raw/main"
TO_EVIL = {
    "authorization_endpoint": "https://git.example/oauth/authorize",
    "token_endpoint": f"{EVIL}/token",
}


def test_a_document_below_a_path_does_not_speak_for_its_origin() -> None:
    """Anybody may have a file there, as in a repository that is shown raw."""
    place = f"{BELOW}/.well-known/openid-configuration"
    assert EVIL in refused(named(BELOW, place=place, **TO_EVIL))
    inserted = f"https://git.example{ROOT}/evil/repository/raw/main"
    world = named(BELOW, place=inserted, **TO_EVIL)
    assert logged_in(world, RegisteredClient(client_id="x")).token.access_token == "at"


@pytest.mark.parametrize(
    ("page", "counts"),
    [
        ("/realms/x/protocol/auth", True),
        ("/realms/x/auth.do", True),
        ("/realms/y/protocol/auth", False),
        ("/realms/xy/auth", False),
        ("/realms/x", False),
        ("/realms/x/", False),
        ("/realms/x/../y/auth", False),
        ("/realms/x/%2e%2E/y/auth", False),
        ("/realms/x/..;/y/auth", False),
        ("/realms/x//auth", False),
        ("/realms/x/.hidden", False),
    ],
)
def test_a_document_below_a_path_speaks_for_what_is_below_it(page: str, counts: bool) -> None:
    """Keycloak names its token endpoint at an internal host, if it is configured to."""
    issuer = "https://login.corp.example/realms/x"
    world = named(
        issuer,
        f"{issuer}/.well-known/openid-configuration",
        authorization_endpoint=f"https://login.corp.example{page}",
        token_endpoint="https://keycloak.internal.example/token",
    )
    if counts:
        assert logged_in(world, RegisteredClient(client_id="x")).token.access_token == "at"
    else:
        assert "keycloak.internal.example" in refused(world)


def test_a_document_that_a_redirect_led_to_does_not_speak_for_the_origin() -> None:
    issuer = "https://git.example"

    class Redirecting(World):
        def _page(self, url: str) -> Any:
            found = super()._page(url)
            if url == f"{issuer}{ROOT}" and isinstance(found, Fetched):
                return Fetched(200, body=found.body, url=f"{EVIL}/anything")
            return found

    world = named(issuer, **TO_EVIL)
    assert logged_in(world, RegisteredClient(client_id="x")).token.access_token == "at"
    assert EVIL in refused(Redirecting(named(issuer, **TO_EVIL).pages))


# ------------------------------------------------------------------------- another device


def device(issuer: str, at: str, token: str) -> World:
    return named(
        issuer,
        device_authorization_endpoint=f"{at}/device",
        token_endpoint=f"{token}/token",
    )


@pytest.mark.parametrize("options", [{}, {"deviations": Deviations(require_iss=True)}])
@pytest.mark.parametrize("way", [True, "auto"])
def test_a_device_code_goes_only_where_its_own_server_states(way: Any, options: Any) -> None:
    text = refused(device(EVIL, HONEST, EVIL), device=way, **options)
    assert HONEST in text
    assert EVIL in text
    assert logged_in(device(EVIL, HONEST, EVIL), device=way, issuer=EVIL, **options).token
    google = ("https://accounts.google.com", "https://oauth2.googleapis.com")
    for issuer, at, token in (
        (google[0], google[1], google[1]),
        (google[0], google[0], google[1]),
        (ISSUER, ISSUER, ISSUER),
    ):
        world = device(issuer, at, token)
        assert logged_in(world, device=way, **options).token.access_token == "at"
        assert world.displayed[0].issuer == issuer


@pytest.mark.parametrize(
    ("page", "elsewhere"),
    [
        (f"{ISSUER}/activate", False),
        ("https://login.as.example/activate", False),
        ("https://honest.example/activate", True),
        ("https://notas.example/activate", True),
        ("https://example/activate", True),
    ],
)
def test_a_person_is_informed_of_which_server_asks_and_warned_of_a_page_on_another_site(
    page: str, elsewhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = device(ISSUER, ISSUER, ISSUER)
    world.pages[f"{ISSUER}/device"] = {**CODE, "verification_uri": page}
    with caplog.at_level(logging.INFO):
        logged_in(world, device=True)
    (login,) = world.displayed
    assert login.issuer == ISSUER
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert (login.warning is not None, len(warned)) == (elsewhere, int(elsewhere))
    for text in [login.warning or "", *[record.getMessage() for record in warned]]:
        assert "WDJB" not in text
        assert not elsewhere or ISSUER in text


@pytest.mark.parametrize("seconds", [0, "0", -1, 0.0])
def test_a_code_that_has_expired_already_is_not_shown(seconds: Any) -> None:
    world = device(ISSUER, ISSUER, ISSUER)
    page = {**CODE, "verification_uri": f"{ISSUER}/activate", "expires_in": seconds}
    world.pages[f"{ISSUER}/device"] = page
    with pytest.raises(AuthError, match="already expired") as caught:
        logged_in(world, device=True)
    assert caught.value.oauth_error == "expired_token"
    assert (world.displayed, world.waits) == ([], [])


# ------------------------------------------------------------- secrets of clients, and tokens


def test_the_secret_of_a_client_goes_only_where_its_own_server_states() -> None:
    def world(**response: Any) -> World:
        made = named(EVIL, registration_endpoint=f"{HONEST}/register")
        made.pages[f"{HONEST}/register"] = {"client_id": "registered", **response}
        return made

    secret = {"client_secret": "s3cret"}
    with pytest.raises(AuthError, match=r"client registration is at https://honest\.example"):
        logged_in(mixed := world(**secret))
    assert f"{EVIL}/token" not in mixed.urls
    assert mixed.stored == {}
    trusted = world(**secret)
    assert logged_in(trusted, RegisteredClient(issuer=EVIL), issuer=EVIL).token
    assert logged_in(world()).token.access_token == "at"  # no secret, so none to lose


async def test_tokens_are_revoked_only_where_their_own_server_states() -> None:
    """A hostile issuer names an honest server's endpoints, and its own to revoke tokens at."""
    stolen: list[bytes] = []

    async def revoke(request: Request, reply: Reply) -> None:
        stolen.append(request.body)
        await reply.send(200)

    async with guarded(redirect=silent) as honest:

        def mixed(document: Document) -> Document:
            own = {
                "issuer": document["issuer"],
                "revocation_endpoint": f"{document['issuer']}/revoke",
            }
            return silent({**honest._metadata(), **own})

        async with guarded(server_metadata=mixed, pages={"/revoke": revoke}) as evil:
            evil.tokens = honest.tokens
            auth = OAuth(on_url=honest.agree)
            async with connect(HttpServer(evil.url, auth=auth), approval=allow_all):
                assert honest.refresh_tokens
            assert await auth.logout(evil.url) is False
    assert not stolen


@pytest.mark.parametrize(
    ("token", "revocation", "may"),
    [
        (f"{ISSUER}/token", f"{ISSUER}/revoke", True),
        (f"{ISSUER}/token", "https://other.example/revoke", True),
        ("https://tokens.example/token", "https://tokens.example/revoke", True),
        ("https://tokens.example/token", f"{ISSUER}/revoke", False),
    ],
)
def test_the_revocation_endpoint_belongs_to_the_server_of_the_token(
    token: str, revocation: str, may: bool
) -> None:
    from mcp_client.auth.discovery import ServerMetadata

    server = ServerMetadata(ISSUER, token, revocation_endpoint=revocation, at_root=True)
    assert may_revoke(server, token) is may


@pytest.mark.parametrize(
    ("url", "owner", "expected"),
    [
        ("https://a.example/x", "https://A.example:443", True),
        ("https://b.a.example", "https://a.example", True),
        ("https://a.example", "https://b.a.example", False),
        ("https://b.a.example:8443", "https://a.example", False),
        ("http://b.a.example", "https://a.example", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", False),
        ("http://app.localhost", "http://localhost", False),
        ("https://a.example.", "https://a.example", False),
    ],
)
def test_only_the_same_origin_or_a_subdomain_belongs_to_an_owner(
    url: str, owner: str, expected: bool
) -> None:
    assert within(url, owner) is expected


# ---------------------------------------------------------------------------- on the wire


@pytest.mark.both_backends
@pytest.mark.parametrize("promises", [True, False])
async def test_a_hostile_server_gets_neither_code_nor_verifier_of_an_honest_one(
    promises: bool,
) -> None:
    async with guarded(server_metadata=silent, redirect=silent) as honest:

        def mixed(document: Document) -> Document:
            changed = {**document, "authorization_endpoint": f"{honest.issuer}/authorize"}
            return changed if promises else silent(changed)

        def known_to_both(document: Document) -> Document:
            honest.clients[document["client_id"]] = document
            return document

        async with guarded(server_metadata=mixed, registration=known_to_both) as evil:
            auth = OAuth(on_url=honest.agree)
            with anyio.fail_after(30), pytest.raises(AuthError) as caught:
                await connect(HttpServer(evil.url, auth=auth), approval=allow_all)
            assert honest.issuer in str(caught.value) or "iss" in str(caught.value)
            assert len(honest.consents) == int(promises)
            assert not evil.forms("/token")
            for request in (*evil.authorization.requests, *evil.server.requests):
                assert b"code_verifier" not in request.body


@pytest.mark.both_backends
async def test_a_hostile_server_gets_no_device_code_of_an_honest_one() -> None:
    displayed: list[DeviceLogin] = []

    async def issue(request: Request, reply: Reply) -> None:
        await reply.json({**CODE, "verification_uri": f"{honest.issuer}/activate"})

    async with guarded(pages={"/device": issue}) as honest:

        def mixed(document: Document) -> Document:
            endpoint = f"{honest.issuer}/device"
            return {**document, "device_authorization_endpoint": endpoint}

        async with guarded(server_metadata=mixed) as evil:
            auth = OAuth(
                device=True, on_device=displayed.append, deviations=Deviations(require_iss=True)
            )
            with anyio.fail_after(30), pytest.raises(AuthError, match="device authorization"):
                await connect(HttpServer(evil.url, auth=auth), approval=allow_all)
            assert not displayed
            assert not honest.forms("/device")
            assert not evil.forms("/token")
