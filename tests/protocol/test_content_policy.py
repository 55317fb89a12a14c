"""The content security policy of views: exactly the page's, and no domain breaks out of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.uris import allow_of, host_of, policy_of, usable_domain
from tests.support.properties import examples

NO_CSP = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
EMPTY_CSP = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self'; media-src 'self' data:; "
    "frame-src 'none'; object-src 'none'; base-uri 'self'"
)


def test_a_view_that_declares_no_domains_gets_the_restrictive_policy() -> None:
    assert policy_of(None).header == NO_CSP
    assert policy_of(None).left_out == ()


def test_an_empty_declaration_gets_the_policy_with_every_list_empty() -> None:
    assert policy_of({}).header == EMPTY_CSP
    assert policy_of({"connectDomains": None, "frameDomains": []}).header == EMPTY_CSP


def test_each_list_goes_into_its_directives() -> None:
    policy = policy_of(
        {
            "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
            "resourceDomains": ["https://*.cdn.example.com"],
            "frameDomains": ["https://player.example.com"],
            "baseUriDomains": ["https://base.example.com"],
        }
    )
    assert policy.header == (
        "default-src 'none'; "
        "script-src 'self' 'unsafe-inline' https://*.cdn.example.com; "
        "style-src 'self' 'unsafe-inline' https://*.cdn.example.com; "
        "connect-src 'self' https://api.example.com wss://live.example.com:8443; "
        "img-src 'self' data: https://*.cdn.example.com; "
        "font-src 'self' https://*.cdn.example.com; "
        "media-src 'self' data: https://*.cdn.example.com; "
        "frame-src https://player.example.com; "
        "object-src 'none'; "
        "base-uri https://base.example.com"
    )
    assert policy.left_out == ()
    assert policy.domains == (
        "https://api.example.com",
        "wss://live.example.com:8443",
        "https://*.cdn.example.com",
        "https://player.example.com",
        "https://base.example.com",
    )


@pytest.mark.parametrize(
    "domain",
    [
        "https://example.com",
        "HTTPS://Example.COM",
        "https://example.com/",
        "https://*.example.com",
        "wss://example.com:65535",
        "https://xn--bcher-kva.example",
        "https://192.0.2.7",
        "https://intranet",
        "http://localhost:3000",
        "http://app.localhost",
        "http://127.0.0.1:8080",
        "ws://127.0.0.1",
    ],
)
def test_an_origin_can_be_used(domain: str) -> None:
    assert usable_domain(domain, local=True) is None


@pytest.mark.parametrize(
    "domain",
    [
        *("http://localhost", "https://localhost:8443", "http://app.localhost", "WSS://LOCALHOST"),
        *("http://127.0.0.1:3000", "https://127.0.0.1", "ws://127.9.9.9", "https://0.0.0.0:1"),
        "https://*.app.localhost",
    ],
)
def test_this_machine_is_for_views_of_its_own_servers_only(domain: str) -> None:
    for name in ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"):
        policy = policy_of({name: [domain, "https://a.example"]})
        assert policy.domains == ("https://a.example",)
        (finding,) = policy.left_out
        assert "this machine, and the server is not on it" in finding
    if "0.0.0.0" not in domain:
        assert usable_domain(domain, local=True) is None


@pytest.mark.parametrize(
    "domain",
    [
        "*",
        "https:",
        "https://",
        "https://*",
        "https://*.com",
        "https://*.*.example.com",
        "https://a*.example.com",
        "https://*.192.0.2.7",
        "http://*.localhost",
        "http://example.com",
        "ws://example.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://10.0.0.1",
        "ftp://example.com",
        "javascript:alert(1)",
        "data:",
        "blob:",
        "'self'",
        "'unsafe-eval'",
        "'none'",
        "example.com",
        "//example.com",
        "https://example.com; script-src *",
        "https://example.com;script-src",
        "https://example.com https://other.example",
        "https://example.com,https://other.example",
        "https://example.com\n",
        "https://example.com\r\nSet-Cookie: a=b",
        "https://example.com\t",
        "https://example.com\x00",
        " https://example.com",
        "https://example.com/path",
        "https://example.com/..",
        "https://example.com//",
        "https://example.com?query",
        "https://example.com#fragment",
        "https://user@example.com",
        "https://user:pass@example.com",
        "https://example.com\\@other.example",
        "https://example.com%2eother.example",
        "https://example.com:",
        "https://example.com:0",
        "https://example.com:65536",
        "https://example.com:*",
        "https://example..com",
        "https://.example.com",
        "https://example.com.",
        "https://-example.com",
        "https://exa_mple.com",
        "https://bücher.example",
        "https://ex\u00adample.com",
        "https://\uff12.example.com",
        "https://2130706433",
        "https://0x7f000001",
        "https://127.1",
        "https://0177.0.0.1",
        "https://[::1]",
        "http://[::1]:3000",
        "https://" + "a." * 127 + "example",
        "https://" + "a" * 64 + ".example",
        "",
        None,
        5,
        ["https://example.com"],
    ],
)
def test_anything_else_is_left_out_and_named(domain: Any) -> None:
    assert usable_domain(domain, local=True) is not None
    for name in ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"):
        policy = policy_of({name: [domain]}, local=True)
        assert policy.header == EMPTY_CSP
        assert policy.domains == ()
        (finding,) = policy.left_out
        assert finding.startswith(f"{name}: ")
        assert finding.isprintable()


def test_what_is_left_out_costs_no_other_domain() -> None:
    policy = policy_of({"connectDomains": ["https://a.example", "*", "https://b.example"]})
    assert "connect-src 'self' https://a.example https://b.example;" in policy.header
    assert len(policy.left_out) == 1


def test_a_domain_that_is_named_twice_counts_once() -> None:
    named = ["https://A.example", "https://a.example", "https://a.example/"]
    policy = policy_of({"connectDomains": named, "resourceDomains": named})
    assert policy.domains == ("https://a.example",)
    assert policy.header.count("https://a.example") == 6


@pytest.mark.parametrize("declared", [5, "https://a.example", ["https://a.example"], True])
def test_a_declaration_that_is_not_an_object_gets_the_restrictive_policy(declared: Any) -> None:
    policy = policy_of(declared)
    assert policy.header == NO_CSP
    assert len(policy.left_out) == 1


@pytest.mark.parametrize("listed", ["https://a.example", {"0": "https://a.example"}, 5, True])
def test_a_list_that_is_not_an_array_is_left_out(listed: Any) -> None:
    policy = policy_of({"connectDomains": listed})
    assert policy.header == EMPTY_CSP
    assert policy.left_out == ("connectDomains left out: it is not an array",)


def test_the_number_of_domains_and_of_findings_is_limited() -> None:
    many = [f"https://h{number}.example" for number in range(10_000)]
    policy = policy_of({"connectDomains": many})
    assert len(policy.domains) == 64
    assert len(policy.left_out) == 17
    assert policy.left_out[-1] == "9920 more were left out"


@given(
    st.lists(
        st.one_of(
            st.text(),
            st.text(alphabet="htps:/w.*;' \"\n,a1-@\\[]%"),
            st.builds("https://{}".format, st.text(alphabet="ab.*-:1/;' \n\t")),
        )
    )
)
@examples(500)
def test_no_text_of_a_server_changes_the_form_of_the_policy(domains: list[str]) -> None:
    policy = policy_of({"connectDomains": domains, "resourceDomains": domains})
    assert policy.header.isascii()
    assert policy.header.isprintable()
    directives = [directive.split(" ") for directive in policy.header.split("; ")]
    expected = [directive.split(" ") for directive in EMPTY_CSP.split("; ")]
    assert [name for name, *_ in directives] == [name for name, *_ in expected]
    for (_, *sources), (_, *always) in zip(directives, expected, strict=True):
        assert sources[: len(always)] == always
        for source in sources[len(always) :]:
            assert re.fullmatch(r"(https?|wss?)://(\*\.)?[a-z0-9.-]+(:[0-9]+)?", source)


@pytest.mark.parametrize(
    ("declared", "allow"),
    [
        (None, ""),
        ({}, ""),
        ({"camera": {}}, "camera"),
        ({"clipboardWrite": {}, "microphone": {}}, "microphone; clipboard-write"),
        (
            {"clipboardWrite": {}, "geolocation": {}, "microphone": {}, "camera": {}},
            "camera; microphone; geolocation; clipboard-write",
        ),
        ({"camera": None, "microphone": False}, ""),
    ],
)
def test_permissions_become_the_allow_attribute_in_the_order_of_the_page(
    declared: Any, allow: str
) -> None:
    assert allow_of(declared) == (allow, ())


@pytest.mark.parametrize(
    "declared",
    [
        {"camera": True},
        {"camera": "*"},
        {"camera": []},
        {"fullscreen": {}},
        {"clipboard-write": {}},
        {"camera *; microphone": {}},
        ["camera"],
        "camera",
    ],
)
def test_a_permission_that_the_page_does_not_know_is_left_out_and_named(declared: Any) -> None:
    allow, findings = allow_of(declared)
    assert allow == ""
    assert len(findings) == 1


@pytest.mark.parametrize(
    ("domain", "host"),
    [
        ("a904794854a047f6.claudemcpcontent.com", "a904794854a047f6.claudemcpcontent.com"),
        ("https://www-example-com.oaiusercontent.com", "www-example-com.oaiusercontent.com"),
        ("Example.com", "example.com"),
        ("http://example.com", None),
        ("example.com/path", None),
        ("example.com:443", None),
        ("*.example.com", None),
        ("example.com; a", None),
        ("", None),
        (5, None),
    ],
)
def test_a_dedicated_origin_is_the_name_of_a_host(domain: Any, host: str | None) -> None:
    assert host_of(domain) == host
