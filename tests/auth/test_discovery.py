"""From a server's URL to its authorization server, in the specification's order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.auth.discovery import DiscoveredServer, canonical, covers, discover
from mcp_client.auth.steps import Unreachable
from mcp_client.errors import AuthError
from tests.auth.flows import ISSUER, SERVER, World, metadata

WELL_KNOWN = "https://mcp.example/.well-known/oauth-protected-resource"
RESOURCE = {"resource": SERVER, "authorization_servers": [ISSUER]}
METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"


def found(world: World, url: str = SERVER, metadata_url: str | None = None) -> DiscoveredServer:
    place = world.run(discover(url, metadata_url, lambda issuers: issuers[0]))
    assert isinstance(place, DiscoveredServer)
    return place


def test_the_challenge_names_where_the_resource_is_described() -> None:
    world = World({"https://mcp.example/elsewhere": RESOURCE})
    place = found(world, metadata_url="https://mcp.example/elsewhere")
    assert world.urls == ["https://mcp.example/elsewhere", METADATA]
    assert (place.resource, place.server.issuer) == (SERVER, ISSUER)


def test_without_it_the_path_is_asked_before_the_root() -> None:
    world = World({f"{WELL_KNOWN}/mcp": 404, WELL_KNOWN: RESOURCE})
    found(world)
    assert world.urls == [f"{WELL_KNOWN}/mcp", WELL_KNOWN, METADATA]


def test_the_root_is_not_asked_when_the_path_answers() -> None:
    world = World()
    found(world)
    assert world.urls == [f"{WELL_KNOWN}/mcp", METADATA]


def test_a_server_at_the_root_has_one_place_to_ask() -> None:
    root = {**RESOURCE, "resource": "https://mcp.example"}
    world = World({WELL_KNOWN: root})
    assert found(world, "https://mcp.example/").resource == "https://mcp.example"
    assert world.urls == [WELL_KNOWN, METADATA]


@pytest.mark.parametrize(
    ("issuer", "asked"),
    [
        (
            "https://as.example/tenant",
            [
                "https://as.example/.well-known/oauth-authorization-server/tenant",
                "https://as.example/.well-known/openid-configuration/tenant",
                "https://as.example/tenant/.well-known/openid-configuration",
            ],
        ),
        (
            "https://as.example",
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        ),
        (
            "https://as.example/",
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_each_place_of_the_metadata_is_tried_in_order(issuer: str, asked: list[str]) -> None:
    described = {**RESOURCE, "authorization_servers": [issuer]}
    nowhere = dict.fromkeys(asked, 404)
    for number, place in enumerate(asked):
        pages = {**nowhere, f"{WELL_KNOWN}/mcp": described, place: metadata(issuer)}
        world = World(pages)
        assert found(world).server.issuer == issuer
        assert world.urls[1:] == asked[: number + 1]
    world = World({**nowhere, f"{WELL_KNOWN}/mcp": described})
    with pytest.raises(AuthError, match="does not publish metadata"):
        found(world)


def test_a_server_error_at_one_place_of_the_metadata_is_not_the_end() -> None:
    world = World({METADATA: 500, f"{ISSUER}/.well-known/openid-configuration": metadata()})
    assert found(world).server.issuer == ISSUER


def test_a_web_page_in_place_of_metadata_is_ignored() -> None:
    world = World({f"{WELL_KNOWN}/mcp": b"<html>", WELL_KNOWN: RESOURCE, METADATA: metadata()})
    assert found(world).resource == SERVER


UNUSABLE_PLACES: list[tuple[Any, str]] = [
    (429, "HTTP 429"),
    (500, "HTTP 500"),
    (502, "HTTP 502"),
    (503, "HTTP 503"),
    (302, "HTTP 302"),
    ("it took too long", "it took too long"),
    ({}, "no resource"),
    ({"authorization_servers": [ISSUER]}, "no resource"),
    ({**RESOURCE, "resource": None}, "no resource"),
    ({**RESOURCE, "resource": ""}, "no resource"),
    ({**RESOURCE, "resource": 5}, "no resource"),
]


@pytest.mark.parametrize(("page", "why"), UNUSABLE_PLACES)
def test_a_place_without_usable_metadata_is_not_the_end(page: Any, why: str) -> None:
    elsewhere, path = "https://mcp.example/elsewhere", f"{WELL_KNOWN}/mcp"
    for pages, asked in (
        ({elsewhere: page}, [elsewhere, path]),
        ({elsewhere: page, path: page, WELL_KNOWN: RESOURCE}, [elsewhere, path, WELL_KNOWN]),
    ):
        world = World(pages)
        place = found(world, metadata_url=elsewhere)
        assert (place.server.issuer, world.urls) == (ISSUER, [*asked, METADATA])
        assert len(world.accepted) == 1
    # the revision of 2025-03-26 has none, and its proxy answers so where it knows no route
    origin = "https://mcp.example"
    place_of_origin = f"{origin}/.well-known/oauth-authorization-server"
    nowhere = {path: page, WELL_KNOWN: page}
    world = World({**nowhere, place_of_origin: metadata(origin)})
    assert found(world).server.issuer == origin
    assert len(world.accepted) == 1
    for more in ({}, {place_of_origin: 503}, {place_of_origin: metadata("https://evil.example")}):
        with pytest.raises(AuthError, match=why):
            found(World({**nowhere, **more}))


def test_an_address_that_must_not_be_used_is_the_end() -> None:
    class Guarded(World):
        def _page(self, url: str) -> Any:
            return Unreachable("10.0.0.1 is private", refused=True)

    world = Guarded()
    with pytest.raises(AuthError, match=r"10\.0\.0\.1 is private"):
        found(world, metadata_url="https://10.0.0.1/metadata")
    assert world.urls == ["https://10.0.0.1/metadata"]


@pytest.mark.parametrize(
    "named",
    [
        "/.well-known/oauth-protected-resource",
        "//mcp.example/.well-known/oauth-protected-resource",
        ".well-known/oauth-protected-resource",
        "undefined/.well-known/oauth-protected-resource",
        "null",
        "${BASE_URL}/.well-known/oauth-protected-resource",
        "https://{host}/.well-known/oauth-protected-resource",
        "{{ base_url }}/mcp",
        "<base-url>/mcp",
        "'https://mcp.example/elsewhere'",
        "https:///.well-known/oauth-protected-resource",
        "https:/mcp.example/elsewhere",
        "https://",
        "mcp.example:443/elsewhere",
        "https://mcp.example/else where",
        "http://mcp.example/elsewhere",
        "http://mcp.example:80/elsewhere",
    ],
)
def test_what_is_not_a_url_in_a_challenge_counts_as_absent(named: str) -> None:
    world = World({f"{WELL_KNOWN}/mcp": 404, WELL_KNOWN: RESOURCE})
    assert found(world, metadata_url=named).server.issuer == ISSUER
    assert world.urls == [f"{WELL_KNOWN}/mcp", WELL_KNOWN, METADATA]
    assert len(world.accepted) == 1
    assert found(World({f"{WELL_KNOWN}/mcp": 404}), metadata_url=named).server.guessed


@pytest.mark.parametrize("page", [503, "it took too long", {}, {"issuer": None}, {"issuer": 7}])
def test_metadata_of_the_authorization_server_are_looked_for_at_the_next_place(page: Any) -> None:
    second = f"{ISSUER}/.well-known/openid-configuration"
    assert found(World({METADATA: page, second: metadata()})).server.issuer == ISSUER
    evil = metadata("https://evil.example")
    with pytest.raises(AuthError, match="for another issuer"):
        found(World({METADATA: evil, second: metadata()}))


REFUSED_RESOURCES: list[tuple[Any, str]] = [
    ({**RESOURCE, "resource": "https://evil.example/mcp"}, "for another resource"),
    ({**RESOURCE, "resource": "https://mcp.example/other"}, "for another resource"),
    ({**RESOURCE, "resource": "https://mcp.example/mcp#x"}, "for another resource"),
    ({"resource": SERVER}, "does not name an authorization server"),
    (
        {**RESOURCE, "authorization_servers": "https://as.example"},
        "does not name an authorization server",
    ),
    ({**RESOURCE, "authorization_servers": ["http://as.example"]}, "plain http"),
    ({**RESOURCE, "authorization_servers": ["https://as.example?a=b"]}, "query"),
    ({**RESOURCE, "authorization_servers": ["https://u:p@as.example"]}, "user name"),
    ({**RESOURCE, "authorization_servers": ["file:///etc/passwd"]}, "not https"),
]


@pytest.mark.parametrize(("page", "why"), REFUSED_RESOURCES)
def test_a_resource_document_that_cannot_be_used_is_refused(page: Any, why: str) -> None:
    world = World({f"{WELL_KNOWN}/mcp": page})
    with pytest.raises(AuthError, match=why):
        found(world)
    assert world.urls == [f"{WELL_KNOWN}/mcp"]


REFUSED_METADATA = [
    ({"issuer": "https://evil.example"}, "for another issuer"),
    ({"issuer": f"{ISSUER}//"}, "for another issuer"),
    ({"issuer": "https://AS.example"}, "for another issuer"),
    ({"issuer": None}, "for another issuer"),
    ({"token_endpoint": None}, "no token_endpoint"),
    ({"token_endpoint": "http://as.example/token"}, "plain http"),
    ({"token_endpoint": 7}, "not a string"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED_METADATA)
def test_metadata_that_cannot_be_used_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthError, match=why):
        found(World({METADATA: metadata(**changes)}))


UNUSABLE = [
    ("authorization_endpoint", "javascript:alert(1)", "not https"),
    ("authorization_endpoint", "https://as.example/a b", "characters"),
    ("authorization_endpoint", "https://as.example/a#b", "fragment"),
    ("registration_endpoint", "ftp://as.example/r", "not https"),
    ("registration_endpoint", "", "not https"),
    ("registration_endpoint", 7, "not a string"),
    ("revocation_endpoint", "https://user:pass@as.example", "user name"),
]


@pytest.mark.parametrize(("name", "value", "why"), UNUSABLE)
def test_an_optional_endpoint_that_cannot_be_used_counts_as_missing(
    name: str, value: Any, why: str
) -> None:
    server = found(World({METADATA: metadata(**{name: value})})).server
    assert getattr(server, name) is None
    assert why in server.why_missing(name)
    assert "pass" not in server.why_missing(name)


@pytest.mark.parametrize(("named", "expected"), [(ISSUER, f"{ISSUER}/"), (f"{ISSUER}/", ISSUER)])
def test_an_issuer_may_differ_by_the_slash_after_its_host(named: str, expected: str) -> None:
    described = {**RESOURCE, "authorization_servers": [named]}
    server = found(World({f"{WELL_KNOWN}/mcp": described, METADATA: metadata(expected)})).server
    assert (server.issuer, server.named) == (expected, named)
    described = {**RESOURCE, "authorization_servers": [f"{ISSUER}/a"]}
    place = f"{ISSUER}/.well-known/oauth-authorization-server/a"
    with pytest.raises(AuthError, match="for another issuer"):
        found(World({f"{WELL_KNOWN}/mcp": described, place: metadata(f"{ISSUER}/a/")}))


def test_a_url_in_the_challenge_that_is_not_served_falls_back_to_the_well_known_urls() -> None:
    named = "https://mcp.example/.well-known/oauth-protected-resource/other"
    world = World({named: 404, f"{WELL_KNOWN}/mcp": 404, WELL_KNOWN: RESOURCE})
    result = world.run(discover(SERVER, named, lambda issuers: issuers[0]))
    assert result.server.issuer == ISSUER
    assert world.urls[:3] == [named, f"{WELL_KNOWN}/mcp", WELL_KNOWN]
    assert len(world.accepted) == 1
    world = World({named: 404, f"{WELL_KNOWN}/mcp": 404})
    with pytest.raises(AuthError, match="challenge"):
        world.run(discover(SERVER, named, lambda issuers: issuers[0]))


def test_without_resource_metadata_the_scopes_are_those_of_the_authorization_server() -> None:
    place = "https://mcp.example/.well-known/oauth-authorization-server"
    described = metadata("https://mcp.example", scopes_supported=["read", "write"])
    assert found(World({f"{WELL_KNOWN}/mcp": 404, place: described})).scopes == {"read", "write"}
    described = metadata(scopes_supported=["read", "write"])
    assert found(World({METADATA: described})).scopes == frozenset()


def test_without_a_description_the_origin_is_the_authorization_server() -> None:
    origin = "https://mcp.example"
    place = f"{origin}/.well-known/oauth-authorization-server"
    world = World({f"{WELL_KNOWN}/mcp": 404, place: metadata(origin)})
    found_place = found(world)
    assert world.urls == [f"{WELL_KNOWN}/mcp", WELL_KNOWN, place]
    assert (found_place.server.issuer, found_place.resource) == (origin, SERVER)
    assert not found_place.server.guessed


def test_an_assumed_issuer_may_end_with_a_slash() -> None:
    place = "https://mcp.example/.well-known/oauth-authorization-server"
    world = World({f"{WELL_KNOWN}/mcp": 404, place: metadata("https://mcp.example/")})
    assert found(world).server.issuer == "https://mcp.example/"


def test_without_any_metadata_three_default_paths_are_used() -> None:
    server = found(World({f"{WELL_KNOWN}/mcp": 404})).server
    assert server.guessed
    assert server.authorization_endpoint == "https://mcp.example/authorize"
    assert server.token_endpoint == "https://mcp.example/token"
    assert server.registration_endpoint == "https://mcp.example/register"


def test_the_default_paths_are_not_used_after_metadata_was_refused() -> None:
    place = "https://mcp.example/.well-known/oauth-authorization-server"
    with pytest.raises(AuthError, match="for another issuer"):
        found(World({f"{WELL_KNOWN}/mcp": 404, place: metadata("https://evil.example")}))


def test_the_revision_goes_along() -> None:
    world = World()
    world.run(discover(SERVER, None, lambda issuers: issuers[0], "2025-06-18"))
    assert {step.headers.get("mcp-protocol-version") for step in world.fetched} == {"2025-06-18"}


COVERED = [
    ("https://a.example", "https://a.example/mcp", True),
    ("https://a.example/", "https://a.example/mcp", True),
    ("HTTPS://A.example:443/mcp", "https://a.example/mcp", True),
    ("https://a.example/mcp/", "https://a.example/mcp", True),
    ("https://a.example/mcp", "https://a.example/mcp/", True),
    ("https://a.example/mcp", "https://a.example/mcp/v1", True),
    ("https://a.example/mcp?x=1", "https://a.example/mcp?x=1", True),
    ("https://a.example/mcp?x=1", "https://a.example/mcp?x=2", False),
    ("https://a.example/mc", "https://a.example/mcp", False),
    ("https://a.example/mcp/v1", "https://a.example/mcp", False),
    ("https://a.example/MCP", "https://a.example/mcp", False),
    ("https://a.example:8443", "https://a.example/mcp", False),
    ("http://a.example", "https://a.example/mcp", False),
    ("https://a.example.evil.example", "https://a.example/mcp", False),
    ("https://a.example@evil.example", "https://a.example/mcp", False),
    ("https://u@a.example", "https://a.example/mcp", False),
    ("https://a.example#", "https://a.example/mcp", False),
    ("https://[", "https://a.example/mcp", False),
    ("", "https://a.example/mcp", False),
]


@pytest.mark.parametrize(("resource", "url", "expected"), COVERED)
def test_a_resource_covers_what_lies_within_it(resource: str, url: str, expected: bool) -> None:
    assert covers(resource, url) is expected


def test_a_server_that_publishes_no_name_is_called_by_its_url() -> None:
    assert canonical("https://MCP.example/") == "https://mcp.example"
    assert canonical("https://mcp.example/Mcp/#top") == "https://mcp.example/Mcp/"
    assert canonical("https://u:p@mcp.example:8443/mcp?a=B") == "https://mcp.example:8443/mcp?a=B"


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*metadata(), "scopes_supported"]), DOCUMENTS))
def test_for_any_metadata_the_outcome_is_a_place_or_an_auth_error(
    changes: dict[str, Any],
) -> None:
    world = World({METADATA: {**metadata(), **changes}})
    try:
        place = found(world)
    except AuthError:
        return
    assert place.server.issuer == ISSUER
    assert place.server.token_endpoint.startswith("https://")
