"""Our identity at an authorization server, which no one else learns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_client import ConfigError
from mcp_client.auth.discovery import DiscoveredServer, ServerMetadata
from mcp_client.auth.registration import (
    ClientIdentity,
    RegisteredClient,
    identify,
    known_client,
    register_again,
)
from mcp_client.auth.steps import Listen
from mcp_client.auth.tokens import Registration
from mcp_client.errors import AuthError
from tests.auth.flows import ISSUER, REDIRECT, SERVER, World

DOCUMENT = "https://app.example/client.json"
NOW = 1_000.0


def discovered(**server: Any) -> DiscoveredServer:
    fields = {"registration_endpoint": f"{ISSUER}/register", "auth_methods": ("none",), **server}
    return DiscoveredServer(SERVER, ServerMetadata(ISSUER, f"{ISSUER}/token", **fields))


def identified(
    world: World, where: DiscoveredServer, client: RegisteredClient, *scopes: str
) -> ClientIdentity:
    known = world.run(known_client(where, client, NOW, frozenset(scopes)))
    identity = world.run(identify(where, client, known, frozenset(scopes)))
    assert isinstance(identity, ClientIdentity)
    return identity


def test_given_credentials_come_first() -> None:
    world = World()
    client = RegisteredClient(client_id="given", client_secret="s3cret", metadata_url=DOCUMENT)
    known = identified(world, discovered(supports_client_documents=True), client)
    assert (known.registration.client_id, known.registration.client_secret) == ("given", "s3cret")
    assert world.urls == []


def test_then_the_client_metadata_url_where_the_server_supports_it() -> None:
    client = RegisteredClient(metadata_url=DOCUMENT)
    known = identified(World(), discovered(supports_client_documents=True), client)
    assert known.registration.client_id == DOCUMENT
    known = identified(World(), discovered(supports_client_documents=False), client)
    assert known.registration.client_id == "registered"


def test_then_a_client_that_is_stored_and_else_a_new_one() -> None:
    world = World()
    first = identified(world, discovered(), RegisteredClient())
    assert (first.registration.client_id, first.kept) == ("registered", False)
    world.pages[f"{ISSUER}/register"] = {"client_id": "another"}
    again = identified(world, discovered(), RegisteredClient())
    assert (again.registration.client_id, again.kept) == ("registered", True)
    assert world.urls == [f"{ISSUER}/register"]


def test_a_registration_states_what_kind_of_client_it_is_for() -> None:
    world = World()
    identified(world, discovered(), RegisteredClient(name="a host"))
    assert json.loads(world.fetched[0].body or b"") == {
        "client_name": "a host",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }


def test_a_redirect_to_a_web_page_makes_it_a_web_client() -> None:
    world = World()
    world.redirect_uri = "https://app.example/callback"
    identified(world, discovered(), RegisteredClient(redirect_uri=world.redirect_uri))
    assert json.loads(world.fetched[0].body or b"")["application_type"] == "web"


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        (None, "none"),
        (("client_secret_post", "none"), "none"),
        (("client_secret_post",), "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("private_key_jwt",), "none"),
    ],
)
def test_a_registration_asks_for_a_method_the_server_has(
    offered: tuple[str, ...] | None, wanted: str
) -> None:
    world = World()
    identified(world, discovered(auth_methods=offered), RegisteredClient())
    assert json.loads(world.fetched[0].body or b"")["token_endpoint_auth_method"] == wanted


def test_what_the_server_states_is_stored_under_its_own_name() -> None:
    response = {
        "client_id": "c",
        "client_secret": "s",
        "client_secret_expires_at": 2000,
        "token_endpoint_auth_method": "client_secret_post",
    }
    world = World({f"{ISSUER}/register": response})
    registration = identified(world, discovered(), RegisteredClient()).registration
    assert world.stored == {ISSUER: registration}
    assert registration.issuer == ISSUER
    assert registration.secret_expires_at == 2000
    assert registration.token_endpoint_auth_method == "client_secret_post"
    assert registration.redirect_uris == (REDIRECT,)


def test_a_secret_that_never_expires_is_written_as_0() -> None:
    response = {"client_id": "c", "client_secret": "s", "client_secret_expires_at": 0}
    world = World({f"{ISSUER}/register": response})
    assert (
        identified(world, discovered(), RegisteredClient()).registration.secret_expires_at is None
    )


def test_a_stored_client_that_may_not_request_a_scope_is_replaced_by_one_that_asks_for_it() -> None:
    world = World({f"{ISSUER}/register": {"client_id": "first", "scope": "read"}})
    first = identified(world, discovered(), RegisteredClient(), "read")
    assert identified(world, discovered(), RegisteredClient(), "read").registration == (
        first.registration
    )
    world.pages[f"{ISSUER}/register"] = {"client_id": "second", "scope": "read"}
    second = identified(world, discovered(), RegisteredClient(), "read", "write")
    assert second.registration.client_id == "second"
    # The server did not grant it, and would not the next time: one more client would not help.
    assert identified(world, discovered(), RegisteredClient(), "read", "write").kept
    assert len(world.fetched) == 2


def test_a_client_of_a_server_that_names_no_scopes_may_request_every_scope() -> None:
    world = World()
    identified(world, discovered(), RegisteredClient(), "read")
    assert identified(world, discovered(), RegisteredClient(), "write").kept


OUTDATED = [
    Registration("old", redirect_uris=(REDIRECT,), issuer="https://other.example"),
    Registration("old", "s", None, NOW - 1, (REDIRECT,), ISSUER),
    Registration("old", redirect_uris=("http://127.0.0.1:9/callback",), issuer=ISSUER),
]


@pytest.mark.parametrize("stored", OUTDATED, ids=["another issuer", "expired", "another port"])
def test_a_stored_client_that_does_not_fit_is_not_used(stored: Registration) -> None:
    world = World()
    world.stored[ISSUER] = stored
    assert (
        identified(world, discovered(), RegisteredClient()).registration.client_id == "registered"
    )


def test_the_redirect_goes_to_the_port_that_is_registered_if_it_can() -> None:
    stored = Registration("old", redirect_uris=(REDIRECT,), issuer=ISSUER)
    assert next(identify(discovered(), RegisteredClient(), stored)) == Listen((REDIRECT,))


def test_credentials_of_one_server_are_not_sent_to_another() -> None:
    world = World()
    client = RegisteredClient(
        client_id="given", client_secret="s3cret", issuer="https://first.example"
    )
    with pytest.raises(AuthError, match=r"belongs to .* https://first.example") as caught:
        identified(world, discovered(), client)
    assert world.urls == []
    assert "s3cret" not in str(caught.value)


def test_a_server_without_registration_is_an_error_that_names_the_option() -> None:
    with pytest.raises(AuthError, match="client_id=") as caught:
        identified(World(), discovered(registration_endpoint=None), RegisteredClient())
    assert "client_metadata_url" not in str(caught.value)
    where = discovered(registration_endpoint=None, supports_client_documents=True)
    with pytest.raises(AuthError, match="client_metadata_url="):
        identified(World(), where, RegisteredClient())


REFUSALS = [
    ({"error": "invalid_redirect_uri"}, "redirect_uri="),
    ({"error": "invalid_client_metadata", "error_description": "no \x1b[1m"}, r"no \\u\{1b\}"),
    (403, "HTTP 403"),
    (b"<html>", "HTTP 200"),
    ({"client_name": "no id"}, "without a client_id"),
    ("refused to ask", "refused to ask"),
]


@pytest.mark.parametrize(("page", "why"), REFUSALS)
def test_a_registration_that_fails_is_reported_with_its_reason(page: Any, why: str) -> None:
    world = World({f"{ISSUER}/register": page})
    with pytest.raises(AuthError, match=why):
        identified(world, discovered(), RegisteredClient())
    assert world.stored == {}


def test_a_forgotten_client_makes_room_for_a_new_one() -> None:
    world = World()
    world.stored[ISSUER] = old = Registration("old", redirect_uris=(REDIRECT,), issuer=ISSUER)
    known = world.run(
        register_again(discovered(), RegisteredClient(), ClientIdentity(old, REDIRECT, kept=True))
    )
    assert known.registration.client_id == "registered"
    assert world.stored[ISSUER].client_id == "registered"


def test_a_forgotten_client_is_not_stored_even_if_there_will_be_no_other() -> None:
    world = World({f"{ISSUER}/register": 403})
    world.stored[ISSUER] = old = Registration("old", redirect_uris=(REDIRECT,), issuer=ISSUER)
    with pytest.raises(AuthError, match="HTTP 403"):
        world.run(
            register_again(
                discovered(), RegisteredClient(), ClientIdentity(old, REDIRECT, kept=True)
            )
        )
    assert world.stored == {}


@pytest.mark.parametrize(
    "options",
    [
        {"client_secret": "s"},
        {"metadata_url": "http://app.example/client.json"},
        {"metadata_url": "https://app.example"},
        {"metadata_url": "https://app.example/"},
        {"metadata_url": "https://app.example/c#x"},
        {"redirect_uri": "http://app.example/callback"},
        {"redirect_uri": "myapp:/callback"},
    ],
)
def test_invalid_client_options_are_refused_when_they_are_given(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        RegisteredClient(**options)


def test_no_secret_is_in_a_repr() -> None:
    client = RegisteredClient(client_id="given", client_secret="s3cret")
    known = identified(World(), discovered(), client)
    assert "s3cret" not in repr(client) + repr(known)
