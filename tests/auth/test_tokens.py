"""A token is the server's response, parsed strictly, and none of it is shown."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.auth.tokens import Key, Registration, Source, Token, deviating_type
from mcp_client.errors import AuthError
from tests.support.properties import examples

NOW = 1_800_000_000.0
ANSWERED = ("access_token", "token_type", "expires_in", "refresh_token", "scope")
GRANTED = {"access_token": "at-SECRET", "token_type": "Bearer", "expires_in": 3600}


def token(now: float = NOW, **changes: Any) -> Token:
    payload = {name: value for name, value in {**GRANTED, **changes}.items() if value is not None}
    return Token.from_response(payload, now, ["asked"])


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


@pytest.mark.parametrize(
    ("access", "subject"),
    [
        (jwt(sub="ana", iss="x"), "ana"),
        (jwt(sub="ana\u20ac"), "ana\u20ac"),
        (jwt(iss="x"), ""),
        (jwt(sub=7), ""),
        ("opaque", ""),
        ("a.b.c", ""),
        ("a.W10.c", ""),
        (f"a.{'A' * 20_000}.c", ""),
    ],
)
def test_whose_a_token_is_is_known_if_the_token_names_it(access: str, subject: str) -> None:
    assert token(access_token=access).subject == subject


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (3600, NOW + 3600),
        ("3600", NOW + 3600),
        (0.5, NOW + 0.5),
        (0, NOW),
        (-5, NOW),
        (None, None),
        (True, None),
        ("soon", None),
        (math.nan, None),
        ([], None),
        (10**400, None),
        (math.inf, NOW + 10 * 365 * 86_400),
    ],
)
def test_an_expiry_becomes_a_time_and_an_invalid_one_is_ignored(
    passed: Any, expected: float | None
) -> None:
    assert token(expires_in=passed).expires_at == expected


def test_a_token_is_fresh_until_a_minute_before_it_expires() -> None:
    made = token()
    assert made.fresh(NOW + 3539)
    assert not made.fresh(NOW + 3540)
    assert made.fresh(NOW + 3599, early=0)
    assert not made.fresh(NOW + 3600, early=0)
    assert token(expires_in=None).fresh(NOW + 10**9)


def test_a_token_that_lives_shortly_is_fresh_for_most_of_its_life() -> None:
    made = token(expires_in=20)
    assert made.fresh(NOW + 14)
    assert not made.fresh(NOW + 15)
    assert not token(expires_in=0).fresh(NOW)


def test_an_expiry_is_absolute_and_survives_being_written_down() -> None:
    made = token()
    stored = Token.from_wire(json.loads(json.dumps(made.to_wire())))
    assert stored == made
    assert not stored.fresh(NOW + 3600)


def test_the_scope_is_what_was_granted_or_else_what_was_asked_for() -> None:
    assert token(scope="b a").scope == {"a", "b"}
    assert token(scope="").scope == frozenset()
    assert token().scope == {"asked"}
    assert token(scope=["a"]).scope == {"asked"}


def test_a_refresh_keeps_what_its_response_leaves_out() -> None:
    first = token(refresh_token="rt-1", scope="a b")
    second = Token.from_response({**GRANTED, "access_token": "at-2"}, NOW, previous=first)
    assert (second.refresh_token, second.scope) == ("rt-1", frozenset("ab"))
    rotated = Token.from_response(
        {**GRANTED, "access_token": "at-3", "refresh_token": "rt-2", "scope": "a"},
        NOW,
        previous=second,
    )
    assert (rotated.refresh_token, rotated.scope) == ("rt-2", frozenset("a"))


@pytest.mark.parametrize(
    ("written", "deviates"),
    [
        ("bearer", False),
        ("BEARER", False),
        (" Bearer ", False),
        ("user", True),
        ("bot", True),
        ("BearerToken", True),
        ("macaroon", True),
        ("", True),
        (None, True),
        (7, True),
    ],
)
def test_any_type_that_is_bound_to_no_key_is_sent_as_bearer(written: Any, deviates: bool) -> None:
    assert token(token_type=written).authorization == "Bearer at-SECRET"
    assert deviating_type({"token_type": written}) is deviates
    without = {name: value for name, value in GRANTED.items() if name != "token_type"}
    assert Token.from_response(without, NOW).authorization == "Bearer at-SECRET"


def test_a_refresh_without_a_type_keeps_the_type_and_nothing_is_guessed_beside_a_proof() -> None:
    bound = Token.from_response({**GRANTED, "token_type": "DPoP"}, NOW, dpop_key="{}")
    silent = {**GRANTED, "token_type": None}
    again = Token.from_response(silent, NOW, previous=bound, dpop_key="{}")
    assert (again.token_type, again.dpop_key) == ("DPoP", "{}")
    for odd in (silent, {**GRANTED, "token_type": "user"}):
        with pytest.raises(AuthError, match="not Bearer or DPoP"):
            Token.from_response(odd, NOW, dpop_key="{}")


def test_a_dpop_token_is_stored_with_its_key_and_a_bearer_token_without() -> None:
    response = {**GRANTED, "token_type": "dpop"}
    bound = Token.from_response(response, NOW, dpop_key="{}")
    assert (bound.authorization, bound.dpop_key) == ("DPoP at-SECRET", "{}")
    assert Token.from_response(GRANTED, NOW, dpop_key="{}").dpop_key is None
    with pytest.raises(AuthError, match="no proof was sent"):
        Token.from_response(response, NOW)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"access_token": None}, "no access_token"),
        ({"access_token": ""}, "no access_token"),
        ({"access_token": 17}, "access_token is malformed"),
        ({"access_token": "at SECRET"}, "access_token is malformed"),
        ({"access_token": "at-SECRET\r\nX-Evil: 1"}, "access_token is malformed"),
        ({"access_token": "at-SECRET\n"}, "access_token is malformed"),
        ({"access_token": "at-SECRÉT"}, "access_token is malformed"),
        ({"refresh_token": {"a": 1}}, "refresh_token is malformed"),
        ({"token_type": "mac"}, "token_type is 'mac'"),
        ({"token_type": " Hmac "}, "token_type is 'hmac'"),
        ({"token_type": "PoP"}, "token_type is 'pop'"),
        ({"token_type": "urn:x:jwt-pop"}, "not Bearer or DPoP"),
        ({"token_type": ["DPoP"]}, "not Bearer or DPoP"),
        ({"token_type": "dpop"}, "DPoP token, although no proof was sent"),
        ({"token_type": "N_A"}, "not Bearer or DPoP"),
    ],
)
def test_an_unusable_token_is_refused_without_showing_it(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AuthError, match=reason) as caught:
        token(**change)
    assert "SECR" not in str(caught.value)


def test_no_secret_is_in_a_repr() -> None:
    made = token(refresh_token="rt-SECRET")
    bound = Token.from_wire({**made.to_wire(), "dpop_key": "key-SECRET"})
    client = Registration("the-client", "cs-SECRET", issuer="https://as.example")
    for value in (made, bound, client):
        assert "SECRET" not in repr(value)
        assert "SECRET" not in str(value)
    assert "the-client" in repr(client)


def test_a_registration_is_usable_until_its_secret_expires() -> None:
    assert Registration("c").usable(NOW)
    assert Registration("c", "s", secret_expires_at=NOW + 1).usable(NOW)
    assert not Registration("c", "s", secret_expires_at=NOW).usable(NOW)


texts = st.text(max_size=20)
tokens = st.builds(
    Token,
    st.text("abc-._~", min_size=1, max_size=9),
    st.sampled_from(["Bearer", "DPoP"]),
    st.none() | st.floats(0, 1e12),
    st.none() | st.floats(0, 1e9),
    st.none() | texts,
    st.frozensets(st.text("abc:", min_size=1, max_size=5), max_size=3),
    st.none() | texts,
)
keys = st.builds(Key, texts, texts, texts)
registrations = st.builds(
    Registration,
    texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | st.floats(0, 1e12),
    st.lists(texts, max_size=3).map(tuple),
    texts,
)
sources = st.builds(Source, keys, texts, texts)


@given(tokens, st.lists(registrations, max_size=3), sources)
@examples(60)
def test_whatever_is_written_down_is_read_again_as_it_was(
    token: Token, clients: list[Registration], source: Source
) -> None:
    as_json = json.loads(json.dumps([token.to_wire(), source.to_wire()]))
    assert [Token.from_wire(as_json[0]), Source.from_wire(as_json[1])] == [token, source]
    for client in clients:
        assert Registration.from_wire(json.loads(json.dumps(client.to_wire()))) == client


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("SECRT", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(ANSWERED, json_values),
    )
)
@examples(80)
def test_any_response_makes_a_token_or_one_error(payload: dict[str, Any]) -> None:
    try:
        made = Token.from_response(payload, NOW)
    except AuthError as error:
        assert "SECRT" not in str(error)  # noqa: PT017
    else:
        assert Token.from_wire(made.to_wire()) == made


@pytest.mark.parametrize(
    "changes",
    [
        {"expires_at": "SECRT"},
        {"expires_at": True},
        {"expires_at": math.inf},
        {"scope": "SECRT"},
        {"scope": ["read", 1]},
        {"access_token": b"SECRT"},
        {"refresh_token": 7},
    ],
)
def test_a_field_of_another_type_is_refused(changes: dict[str, Any]) -> None:
    whole = Token("at", refresh_token="rt", expires_at=1.0, scope=frozenset({"read"}))
    assert Token.from_wire(whole.to_wire()) == whole
    with pytest.raises(ValueError, match=next(iter(changes))) as caught:
        Token.from_wire({**whole.to_wire(), **changes})
    assert "SECRT" not in str(caught.value)


@given(
    st.sampled_from([Token, Registration, Source]),
    json_values
    | st.fixed_dictionaries(
        {},
        optional={
            "access_token": json_values,
            "issuer": json_values,
            "resource": texts,
            "client": texts,
            "client_id": json_values,
            "redirect_uris": json_values,
            "token_endpoint": json_values,
        },
    ),
)
@examples(80)
def test_a_broken_entry_is_one_error_that_shows_no_value(
    kind: type[Token | Registration | Source], value: Any
) -> None:
    try:
        kind.from_wire(value)
    except ValueError as error:
        assert "SECRT" not in str(error)  # noqa: PT017
