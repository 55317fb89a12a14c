"""One request to a token endpoint: what is sent, and what is made of the answer."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.auth.steps import Fetch, Fetched, Unreachable
from mcp_client.auth.token_endpoint import (
    ClientAuthentication,
    accepted_deviations,
    auth_method,
    first_token_request,
    token_request,
)
from mcp_client.auth.tokens import Registration
from mcp_client.errors import AuthError
from tests.support.properties import examples

ENDPOINT = "https://as.example/token"
FORM = {"grant_type": "refresh_token", "refresh_token": "rt-SECRET", "resource": "https://m/mcp"}
GRANTED = {"access_token": "at", "token_type": "Bearer"}
PUBLIC = ClientAuthentication("the-client")


def response(payload: Any, status: int = 200, **headers: str) -> Fetched:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Fetched(status, {name.replace("_", "-"): headers[name] for name in headers}, body)


def ask(
    *outcomes: Fetched | Unreachable,
    authentication: ClientAuthentication = PUBLIC,
    form: Mapping[str, str] = FORM,
    **options: Any,
) -> tuple[list[Fetch], dict[str, Any]]:
    """Feed the flow its outcomes; return what it asked for and what it returned."""
    flow = token_request(ENDPOINT, form, authentication, **options)
    asked: list[Fetch] = []
    left = list(outcomes)
    try:
        step = next(flow)
        while True:
            assert isinstance(step, Fetch)
            asked.append(step)
            step = flow.send(left.pop(0))
    except StopIteration as stop:
        assert not left
        return asked, stop.value


def form_of(step: Fetch) -> dict[str, str]:
    return dict(parse_qsl((step.body or b"").decode(), strict_parsing=True))


def refused(*outcomes: Fetched | Unreachable, **options: Any) -> AuthError:
    with pytest.raises(AuthError) as caught:
        ask(*outcomes, **options)
    return caught.value


def test_a_public_client_names_itself_in_the_form() -> None:
    [step], payload = ask(response(GRANTED))
    assert (step.method, step.url) == ("POST", ENDPOINT)
    assert step.headers["content-type"] == "application/x-www-form-urlencoded"
    assert "authorization" not in step.headers
    assert form_of(step) == {**FORM, "client_id": "the-client"}
    assert payload == GRANTED


def test_a_secret_goes_in_the_header_or_in_the_form_and_not_in_both() -> None:
    basic = ClientAuthentication("the-client", "client_secret_basic", "cs-SECRET")
    [step], _ = ask(response(GRANTED), authentication=basic)
    expected = base64.b64encode(b"the-client:cs-SECRET").decode()
    assert step.headers["authorization"] == f"Basic {expected}"
    assert form_of(step) == {**FORM, "client_id": "the-client"}

    post = ClientAuthentication("the-client", "client_secret_post", "cs-SECRET")
    [step], _ = ask(response(GRANTED), authentication=post)
    assert "authorization" not in step.headers
    assert form_of(step) == {**FORM, "client_id": "the-client", "client_secret": "cs-SECRET"}


def test_a_method_that_is_not_known_sends_nothing_and_is_named() -> None:
    for method in ("tls_client_auth", "private_key_jwt"):  # the second one without a key
        error = refused(authentication=ClientAuthentication("the-client", method, "cs-SECRET"))
        assert method in str(error)
        assert "SECRET" not in str(error)


def test_each_request_has_an_assertion_of_its_own() -> None:
    made: list[str] = []

    def sign() -> str:
        made.append(f"assertion-{len(made)}")
        return made[-1]

    signed = ClientAuthentication("the-client", "private_key_jwt", sign=sign)
    for number in range(2):
        [step], _ = ask(response(GRANTED), authentication=signed)
        form = form_of(step)
        assert form["client_assertion"] == f"assertion-{number}"
        assert form["client_assertion_type"].endswith(":client-assertion-type:jwt-bearer")
        assert "client_id" not in form


@given(st.text(max_size=12), st.text(max_size=12))
@examples(80)
def test_client_id_and_secret_can_be_read_back_from_a_basic_header(name: str, secret: str) -> None:
    name, secret = (text.encode("utf-8", "ignore").decode() for text in (name, secret))
    basic = ClientAuthentication(name, "client_secret_basic", secret)
    _, headers = basic.apply_to({})
    pair = base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode("ascii")
    assert [unquote_plus(part) for part in pair.split(":")] == [name, secret]


@pytest.mark.parametrize(
    ("secret", "registered", "supported", "expected"),
    [
        (None, None, None, "none"),
        (None, "client_secret_basic", ["client_secret_basic"], "none"),
        ("s", "client_secret_post", ["client_secret_basic"], "client_secret_post"),
        ("s", "client_secret_basic", ["client_secret_post"], "client_secret_basic"),
        ("s", "none", None, "none"),
        ("s", None, None, "client_secret_basic"),
        ("s", None, ["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        ("s", None, ["client_secret_post", "none"], "client_secret_post"),
        ("s", None, ["none"], "none"),
        ("s", "private_key_jwt", ["client_secret_post"], "client_secret_post"),
    ],
)
def test_how_a_client_authenticates_is_what_its_registration_or_the_metadata_states(
    secret: str | None, registered: str | None, supported: list[str] | None, expected: str
) -> None:
    client = Registration("c", secret, registered)
    assert auth_method(client, supported) == expected
    assert ClientAuthentication.of(client, supported).method == expected


BOTH = ["client_secret_basic", "client_secret_post"]


def test_a_client_of_unknown_method_tries_the_other_one_that_the_server_supports() -> None:
    passed = ClientAuthentication.of(Registration("c", "cs-SECRET"), BOTH)
    flow = first_token_request(ENDPOINT, FORM, passed)
    first = next(flow)
    assert isinstance(first, Fetch)
    assert "authorization" in first.headers
    second = flow.send(response({"error": "invalid_client"}, 401))
    assert isinstance(second, Fetch)
    assert "authorization" not in second.headers
    assert form_of(second) == {**FORM, "client_id": "c", "client_secret": "cs-SECRET"}
    with pytest.raises(StopIteration) as done:
        flow.send(response(GRANTED))
    payload, used = done.value.value
    assert (payload, used.method) == (GRANTED, "client_secret_post")


@pytest.mark.parametrize(
    ("client", "supported", "error"),
    [
        (Registration("c", "cs-SECRET"), BOTH, "invalid_grant"),
        (Registration("c", "cs-SECRET"), BOTH[:1], "invalid_client"),
        (Registration("c", "cs-SECRET"), None, "invalid_client"),
        (Registration("c", "cs-SECRET", BOTH[0]), BOTH, "invalid_client"),
        (Registration("c"), BOTH, "invalid_client"),
    ],
)
def test_a_refusal_that_no_other_method_can_cure_is_final(
    client: Registration, supported: list[str] | None, error: str
) -> None:
    flow = first_token_request(ENDPOINT, FORM, ClientAuthentication.of(client, supported))
    next(flow)
    with pytest.raises(AuthError, match=error):
        flow.send(response({"error": error}, 400))


def test_a_server_that_supports_no_method_for_a_secret_is_an_error_that_names_its_methods() -> None:
    with pytest.raises(AuthError, match="accepts tls_client_auth from clients"):
        auth_method(Registration("c", "s"), ["tls_client_auth"])


@pytest.mark.parametrize(
    ("outcome", "code", "retryable", "words"),
    [
        (
            response({"error": "invalid_grant"}, 400),
            "invalid_grant",
            False,
            r"refused with invalid_grant$",
        ),
        (
            response({"error": "invalid_client", "error_description": "who?"}, 401),
            "invalid_client",
            False,
            r"invalid_client: who\?",
        ),
        (response({"error": "slow\ndown"}, 400), None, False, "HTTP status 400"),
        (response({"error": {"a": 1}}, 400), None, False, "HTTP status 400"),
        (response({"error": "bad_verification_code"}), "bad_verification_code", False, "refused"),
        (response({"error": "x", "access_token": "at"}), "x", False, "refused with x"),
        (response(b"<html>", 502), None, True, "HTTP status 502"),
        (response({"error": "temporarily_unavailable"}, 400), "temporarily_unavailable", True, ""),
        # the provider's own words, in whatever form
        (response(["no", {"message": "such code"}], 400), None, False, "400: no, such code$"),
        (response("go away", 403), None, False, "403: go away$"),
        (response({"error": ["a", "b"]}, 400), None, False, "400: a, b$"),
        (response({"errors": [{"title": "t", "detail": "d"}]}, 422), None, False, "422: t, d$"),
        (response({"statusCode": 400, "message": ["m1", "m2"]}, 400), None, False, "400: m1, m2$"),
        (
            response({"error": {"type": "x", "message": "use JSON"}}, 415),
            None,
            False,
            "415: use JSON$",
        ),
        (
            response({"error": "invalid_grant", "hint": "expired"}, 400),
            "invalid_grant",
            False,
            "refused with invalid_grant: expired$",
        ),
        (response(b"Unsupported Media Type", 415), None, False, "415: Unsupported Media Type$"),
        (response(b"<html><title>Busy</title>", 503), None, True, "503: Busy$"),
        (response(b"a\x1b[2Jb\r\nc", 400), None, False, r"400: a.*2Jb c$"),
        (response(GRANTED, 302), None, False, "HTTP status 302"),
        (response(b"access_token=at&token_type=bearer"), None, False, "not a JSON object"),
        (response([GRANTED]), None, False, "not a JSON object"),
        (response({"token_type": "Bearer"}), None, False, "no access_token"),
        (
            Unreachable("refused to fetch: 10.0.0.1 is private"),
            None,
            True,
            r"10\.0\.0\.1 is private",
        ),
    ],
)
def test_a_refusal_gives_the_reason_and_whether_to_try_again(
    outcome: Fetched | Unreachable, code: str | None, retryable: bool, words: str
) -> None:
    error = refused(outcome)
    assert (error.oauth_error, error.retryable) == (code, retryable)
    assert re.search(words, str(error)), str(error)
    assert "https://as.example/token" in str(error)


@pytest.mark.parametrize("status", [200, 201, 202, 203])
def test_any_status_of_success_with_a_token_is_one(status: int) -> None:
    assert ask(response(GRANTED, status))[1] == GRANTED
    for odd in ({"error": "x", **GRANTED}, {"token_type": "Bearer"}):
        assert not refused(response(odd, status)).retryable
    step = Fetch("POST", ENDPOINT, "the token endpoint")
    reported = [*accepted_deviations(step, response({**GRANTED, "token_type": "bot"}, status))]
    assert len(reported) == (1 if status == 200 else 2)
    assert not [*accepted_deviations(step, response(GRANTED))]
    assert not [*accepted_deviations(step, response({"error": "x", **GRANTED}, 201))]
    assert not [*accepted_deviations(replace(step, what="other"), response(GRANTED, 201))]


@pytest.mark.parametrize(
    "body",
    [
        b"access_token=gho_secret1234&scope=&token_type=bearer",
        b'["refresh_token=rt-SECRET", "bad"]',
        b"your client_secret='s3cr3t-of-ours' is wrong",
        b'{"x": 1, "x": 2, "access_token": "gho_secret1234"}',
        b"bad token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
        b'{"message": "0123456789abcdef0123456789abcdef"}',
        b'"rt-SECRET"',
        b'{"access_token_": "gho_secret1234", "detail": "rt-SECRET"}',
        b'{"detail": [{"input": "rt-SECRET", "msg": "no cnQtU0VDUkVU"}]}',
    ],
)
@pytest.mark.parametrize("status", [200, 400])
def test_no_secret_is_in_the_words_of_a_provider(body: bytes, status: int) -> None:
    text = str(refused(response(body, status)))
    for secret in (
        "gho_secret",
        "rt-SECRET",
        "s3cr3t",
        "eyJ",
        "c2lnbmF0",
        "0123456789abc",
        "cnQtU0VDUkVU",
    ):
        assert secret not in text


@pytest.mark.parametrize(
    "body", [b'"gho_secret1234"', b'["gho_secret1234"]', b'{"code": "gho_secret1234", "hint": 1}']
)
def test_what_may_be_a_token_in_another_form_is_not_quoted(body: bytes) -> None:
    assert "gho_secret" not in str(refused(response(body)))
    assert "wrong" in str(refused(response({"error": {"message": "wrong"}})))


def test_a_long_page_of_a_provider_is_cut_and_costs_little() -> None:
    for body in (b"<" * 900_000, b"token=" * 150_000, b"<title" * 150_000, b"[" * 900_000):
        assert len(str(refused(response(body, 500)))) < 500


def test_a_busy_server_names_when_to_retry() -> None:
    error = refused(response({"error": "slow_down"}, 429, retry_after="17"))
    assert (error.http_status, error.retry_after, error.retryable) == (429, 17.0, True)
    assert refused(response({}, 503, retry_after="tomorrow")).retry_after is None


def test_an_error_is_made_safe_to_look_at() -> None:
    text = "\x1b[31mred\u202e" + "x" * 9000
    error = refused(response({"error": "invalid_grant", "error_description": text}, 400))
    assert "\x1b" not in str(error)
    assert "\u202e" not in str(error)
    assert len(str(error)) < 600


SECRETS = {
    "authorization_code": {"code": "c+SECRET/1", "code_verifier": "v+SECRET/2"},
    "refresh_token": {"refresh_token": "r+SECRET/3"},
    "jwt-bearer": {"assertion": "a+SECRET/4"},
    "token-exchange": {"subject_token": "s+SECRET/5"},
    "client_credentials": {"client_secret": "p+SECRET/6"},
}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
@pytest.mark.parametrize("grant", SECRETS)
@pytest.mark.parametrize("where", ["error", "error_description"])
def test_a_secret_that_the_server_repeats_is_not_in_the_error(
    grant: str, method: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    form = {"grant_type": grant, **SECRETS[grant]}
    client = ClientAuthentication("c", method, "k+SECRET/7")
    [step], _ = ask(response(GRANTED), authentication=client, form=form)
    reported = [*SECRETS[grant].values(), *([] if method == "none" else ["k+SECRET/7"])]
    reported += [quote(text, safe="") for text in reported]
    if "authorization" in step.headers:
        reported.append(step.headers["authorization"].removeprefix("Basic "))
    for text in reported:
        echo = {"error": "invalid_request", where: text}
        error = refused(response(echo, 400), authentication=client, form=form)
        assert "SECRET" not in f"{error} {error!r} {error.__dict__} {step!r} {client!r}"
        assert text not in str(error)
    assert "SECRET" not in caplog.text


class Proofs:
    """Stands for a prover: numbers its proofs and keeps the nonces it hears."""

    def __init__(self) -> None:
        self.made = 0
        self.nonce = "none yet"

    def proof(self, method: str, url: str) -> str:
        self.made += 1
        return f"{method} {url} {self.made} {self.nonce}"

    def accept_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        before, self.nonce = self.nonce, headers.get("dpop-nonce", self.nonce)
        return before != self.nonce


WANTED = {"error": "use_dpop_nonce"}


def test_a_server_that_wants_its_nonce_is_asked_again_with_a_new_proof() -> None:
    steps, payload = ask(
        response(WANTED, 400, dpop_nonce="n1"), response(GRANTED, dpop_nonce="n2"), dpop=Proofs()
    )
    first, second = (step.headers["dpop"] for step in steps)
    assert first == f"POST {ENDPOINT} 1 none yet"
    assert second == f"POST {ENDPOINT} 2 n1"
    assert form_of(steps[0]) == form_of(steps[1])
    assert payload == GRANTED


@pytest.mark.parametrize(
    ("outcomes", "dpop"),
    [
        ([response(WANTED, 400, dpop_nonce="n1"), response(WANTED, 400, dpop_nonce="n2")], True),
        ([response(WANTED, 400)], True),
        ([response({"error": "invalid_grant"}, 400, dpop_nonce="n1")], True),
        ([response(WANTED, 400, dpop_nonce="n1")], False),
    ],
)
def test_the_token_endpoint_is_asked_at_most_twice(outcomes: list[Fetched], dpop: bool) -> None:
    error = refused(*outcomes, dpop=Proofs() if dpop else None)
    assert error.oauth_error in ("use_dpop_nonce", "invalid_grant")


@given(
    st.integers(100, 599),
    st.binary(max_size=40)
    | st.dictionaries(
        st.sampled_from(["error", "error_description", "access_token", "x"]),
        st.none() | st.integers() | st.text(max_size=10) | st.just("rt-SECRET"),
    ).map(lambda payload: json.dumps(payload).encode()),
)
@examples(80)
def test_any_response_is_a_payload_with_a_token_or_one_error(status: int, body: bytes) -> None:
    try:
        _, payload = ask(Fetched(status, {}, body))
    except AuthError as error:
        assert "SECRET" not in str(error)  # noqa: PT017
        assert error.http_status == status  # noqa: PT017
    else:
        assert 200 <= status < 300
        assert "access_token" in payload
