"""``WWW-Authenticate`` is read whole, and never stops a flow by being odd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.headers import (
    Challenge,
    parse_challenges,
    scopes_of,
    what_is_wanted,
)

CASES = [
    ("Bearer", [("bearer", {})]),
    ('Bearer realm="mcp"', [("bearer", {"realm": "mcp"})]),
    (
        'Bearer error="invalid_token", scope="a b", resource_metadata="https://x/y?z=1,2"',
        [
            (
                "bearer",
                {
                    "error": "invalid_token",
                    "scope": "a b",
                    "resource_metadata": "https://x/y?z=1,2",
                },
            )
        ],
    ),
    (
        'Basic realm="a, Bearer scope=b", Bearer scope="c"',
        [("basic", {"realm": "a, Bearer scope=b"}), ("bearer", {"scope": "c"})],
    ),
    (
        'Negotiate, DPoP algs="ES256", error="use_dpop_nonce"',
        [("negotiate", {}), ("dpop", {"algs": "ES256", "error": "use_dpop_nonce"})],
    ),
    ("Negotiate dG9rZW4=, Bearer scope=x", [("negotiate", {}), ("bearer", {"scope": "x"})]),
    (r'Bearer realm="say \"hi\"", SCOPE = x', [("bearer", {"realm": 'say "hi"', "scope": "x"})]),
    ('Bearer scope="a", scope="b"', [("bearer", {"scope": "a"})]),
    ('Bearer error="x" scope="a"', [("bearer", {"error": "x", "scope": "a"})]),
    (', ,Bearer scope="a",,', [("bearer", {"scope": "a"})]),
    ('Bearer scope="never closed', [("bearer", {})]),
    ('"Bearer" scope="a"', []),
    ("", []),
]


@pytest.mark.parametrize(("header", "expected"), CASES)
def test_a_header_is_parted_into_its_challenges(
    header: str, expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert parse_challenges([header]) == [Challenge(*pair) for pair in expected]


def test_challenges_of_several_headers_come_in_their_order() -> None:
    found = parse_challenges(['Basic realm="a"', "Bearer scope=b"])
    assert [challenge.scheme for challenge in found] == ["basic", "bearer"]


def test_a_scope_is_a_set_without_what_no_scope_can_be() -> None:
    assert scopes_of('a b  a "c" d\\e ü') == {"a", "b"}
    assert scopes_of(None) == scopes_of(["a"]) == frozenset()


def test_what_is_wanted_is_reported_in_words_a_server_cannot_draw_with() -> None:
    found = parse_challenges(['Bearer scope="b a", error="inv\x1b[1malid", DPoP'])
    assert what_is_wanted(found) == "Bearer with scope 'a b' (inv\\u{1b}[1malid) or DPoP"


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for challenge in parse_challenges([text]):
        assert challenge.scheme == challenge.scheme.lower()


TOKEN = st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True)
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
PARAMS = st.dictionaries(TOKEN, VALUE, min_size=1, max_size=4)


@given(st.lists(st.tuples(TOKEN, PARAMS), max_size=4))
def test_what_is_written_is_what_is_read(challenges: list[tuple[str, dict[str, str]]]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = ", ".join(
        f"{scheme} " + ", ".join(f"{name}={quoted(value)}" for name, value in params.items())
        for scheme, params in challenges
    )
    assert parse_challenges([text]) == [Challenge(*pair) for pair in challenges]
