"""Proofs and assertions are as RFC 9449 and RFC 7523 define, judged by another library."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError
from mcp_client.auth.discovery import ServerMetadata
from mcp_client.auth.grants import ServiceClient
from mcp_client.auth.signing import PrivateKey, Prover
from mcp_client.errors import AuthError
from tests.support.properties import examples

NOW = 1_800_000_000
MCP = "https://mcp.example/mcp"
ENDPOINT = "https://as.example/token"
RSA = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())
KEYS: dict[str, Any] = {
    "ES256": P256,
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "RS256": RSA,
}


def pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    text: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return text.decode()


def read(token: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a proof, checked by the key in its own header."""
    header = jwt.get_unverified_header(token)
    assert "d" not in header["jwk"]
    claims = jwt.decode(
        token, jwt.PyJWK(header["jwk"], "ES256").key, ["ES256"], options={"verify_iat": False}
    )
    return header, claims


def prover(text: str | None = None) -> Prover:
    return Prover(text, clock=lambda: NOW + 0.75)


def hashed(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_a_proof_states_what_it_is_for_and_is_signed_by_the_key_it_shows() -> None:
    header, claims = read(prover().proof("POST", ENDPOINT))
    assert (header["typ"], header["alg"]) == ("dpop+jwt", "ES256")
    assert set(header["jwk"]) == {"kty", "crv", "x", "y"}
    assert len(claims.pop("jti")) >= 16
    assert claims == {"htm": "POST", "htu": ENDPOINT, "iat": NOW}


def test_a_proof_for_the_mcp_server_is_bound_to_the_token() -> None:
    _, claims = read(prover().proof("GET", MCP, "the-token"))
    assert (claims["htm"], claims["ath"]) == ("GET", hashed("the-token"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (MCP, MCP),
        (MCP + "?a=1&b=2", MCP),
        (MCP + "?a=1#here", MCP),
        ("https://mcp.example:8443/", "https://mcp.example:8443/"),
        ("http://localhost:1/a%2Fb;c", "http://localhost:1/a%2Fb;c"),
    ],
)
def test_a_proof_names_the_url_without_query_and_fragment(url: str, expected: str) -> None:
    assert read(prover().proof("POST", url))[1]["htu"] == expected


def test_no_proof_is_made_twice() -> None:
    made = prover()
    proofs = [made.proof("POST", MCP, "t") for _ in range(50)]
    assert len({read(proof)[1]["jti"] for proof in proofs}) == 50


def test_the_thumbprint_is_that_of_rfc_7638() -> None:
    made = prover()
    jwk = read(made.proof("POST", MCP))[0]["jwk"]
    members = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    assert made.thumbprint == hashed(json.dumps(members, separators=(",", ":")))


def test_a_key_that_was_written_down_is_the_same_key_again() -> None:
    first = prover()
    again = prover(first.text)
    assert again.thumbprint == first.thumbprint
    read(again.proof("POST", MCP))
    assert prover().thumbprint != first.thumbprint


def test_each_server_gets_its_own_nonce_and_no_other() -> None:
    made = prover()
    assert made.accept_nonce(ENDPOINT, {"dpop-nonce": "as-1"})
    assert made.accept_nonce(MCP, {"dpop-nonce": "rs-1"}, resource=True)
    assert made.accept_nonce("https://other.example/token", {"dpop-nonce": "other-1"})
    assert read(made.proof("POST", ENDPOINT))[1]["nonce"] == "as-1"
    assert read(made.proof("POST", MCP, "t"))[1]["nonce"] == "rs-1"
    assert "nonce" not in read(made.proof("POST", "https://third.example/token"))[1]


def test_nonces_are_separate_even_where_both_servers_have_one_origin() -> None:
    made = prover()
    made.accept_nonce("https://one.example/token", {"dpop-nonce": "as-1"})
    assert "nonce" not in read(made.proof("POST", "https://one.example/mcp", "t"))[1]
    made.accept_nonce("https://one.example/mcp", {"dpop-nonce": "rs-1"}, resource=True)
    assert read(made.proof("POST", "https://one.example/token"))[1]["nonce"] == "as-1"


def test_the_last_nonce_is_used_until_another_comes() -> None:
    made = prover()
    assert made.accept_nonce(ENDPOINT, {"dpop-nonce": "n1"})
    assert not made.accept_nonce(ENDPOINT, {"dpop-nonce": "n1"})
    assert not made.accept_nonce(ENDPOINT, {})
    assert read(made.proof("POST", ENDPOINT))[1]["nonce"] == "n1"
    assert made.accept_nonce(ENDPOINT, {"dpop-nonce": "n2"})
    assert read(made.proof("POST", ENDPOINT))[1]["nonce"] == "n2"


@pytest.mark.parametrize("nonce", ["", "a b", 'a"b', "a\\b", "a\r\nb", "é", "x" * 1025])
def test_an_invalid_nonce_is_ignored(nonce: str) -> None:
    made = prover()
    assert not made.accept_nonce(ENDPOINT, {"dpop-nonce": nonce})
    assert "nonce" not in read(made.proof("POST", ENDPOINT))[1]


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
@examples(40)
def test_the_proof_contains_the_hash_of_any_token(token: str) -> None:
    assert read(SHARED.proof("POST", MCP, token))[1]["ath"] == hashed(token)


SHARED = Prover()


def test_a_server_that_supports_no_algorithm_of_ours_is_an_error_that_names_them() -> None:
    made = prover()
    made.check(None)
    made.check(["PS256", "ES256"])
    with pytest.raises(AuthError, match="accepts signatures with PS256; this key can sign"):
        made.check(["PS256"])
    with pytest.raises(AuthError, match="accepts signatures with nothing"):
        made.check([])


def test_the_key_of_a_prover_is_in_no_repr() -> None:
    made = prover()
    private = json.loads(made.text)["d"]
    assert private not in f"{made!r} {made} {made._key!r}"


# --------------------------------------------------------------------- assertions


@pytest.mark.parametrize("algorithm", KEYS)
def test_an_assertion_names_the_client_twice_and_the_issuer_it_is_for(algorithm: str) -> None:
    key = PrivateKey.read(pem(KEYS[algorithm]), key_id="the-key")
    server = ServerMetadata("https://as.example", "https://as.example/token")
    made = ServiceClient("the-client", key=key).authentication(server, lambda: NOW + 0.5)
    fields, headers = made.apply_to({"grant_type": "client_credentials"})
    assert headers == {}
    text = fields["client_assertion"]
    assert jwt.get_unverified_header(text) == {"alg": algorithm, "kid": "the-key", "typ": "JWT"}
    claims = jwt.decode(
        text,
        KEYS[algorithm].public_key(),
        [algorithm],
        audience="https://as.example",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert claims["iss"] == claims["sub"] == "the-client"
    assert claims["iat"] == NOW
    assert NOW < claims["exp"] <= NOW + 300
    again, _ = made.apply_to({})
    assert again["client_assertion"] != text
    assert "client_secret" not in fields


@pytest.mark.parametrize(
    ("accepted", "wanted", "chosen"),
    [
        (None, None, "RS256"),
        (["PS384", "PS256"], None, "PS256"),
        (["ES256", "RS512"], None, "RS512"),
        (None, "PS512", "PS512"),
        (["PS512"], "PS512", "PS512"),
    ],
)
def test_the_algorithm_is_one_that_the_key_and_the_server_can(
    accepted: list[str] | None, wanted: str | None, chosen: str
) -> None:
    assert PrivateKey.read(pem(RSA)).algorithm(accepted, wanted) == chosen


@pytest.mark.parametrize("accepted", [["ES256"], ["none"], ["HS256"], [], ["RS256"]])
def test_nothing_is_signed_with_what_the_server_does_not_take(accepted: list[str]) -> None:
    with pytest.raises(AuthError, match="accepts signatures with"):
        PrivateKey.read(pem(RSA)).algorithm(accepted, "PS256")


@pytest.mark.parametrize("wanted", ["none", "HS256", "ES256", "", "rs256"])
def test_an_algorithm_that_does_not_fit_the_key_is_a_config_error(wanted: str) -> None:
    with pytest.raises(ConfigError, match="cannot sign with"):
        PrivateKey.read(pem(RSA)).algorithm(None, wanted)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_key_is_read_from_pem_or_from_a_jwk(algorithm: str) -> None:
    key = PrivateKey.read(pem(KEYS[algorithm]).encode())
    again = PrivateKey.read(key.text())
    assert again.public_jwk() == key.public_jwk()
    assert again.algorithms == key.algorithms
    assert not {"d", "p", "q"} & set(again.public_jwk())


def test_numbers_that_begin_with_zeros_are_written_at_full_length() -> None:
    for number in range(1, 300):  # two of which have a coordinate that is a byte short
        key = PrivateKey.read(pem(ec.derive_private_key(number, ec.SECP256R1())))
        members = json.loads(key.text())
        assert [len(members[name]) for name in ("d", "x", "y")] == [43, 43, 43]
        assert PrivateKey.read(key.text()).public_jwk() == key.public_jwk()


def test_older_forms_of_pem_are_read_too_and_a_jwk_brings_its_name() -> None:
    for key in (P256, RSA):
        PrivateKey.read(pem(key, PrivateFormat.TraditionalOpenSSL))
    named = json.dumps({**json.loads(PrivateKey.read(pem(P256)).text()), "kid": "k1"})
    assert PrivateKey.read(named).key_id == "k1"
    assert PrivateKey.read(named, key_id="k2").key_id == "k2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("SECRET", "cannot be read"),
        ("{", "cannot be read"),
        ('{"kty": "oct", "k": "SECRET"}', "unsupported kind of private key"),
        ('{"kty": "EC", "crv": "P-256", "d": "SECRET"}', "cannot be read"),
        (pem(P256).replace("M", "N"), "cannot be read"),
        (pem(dsa.generate_private_key(1024)), "unsupported kind of private key"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "unsupported kind of private key"),
        (pem(rsa.generate_private_key(65537, 1024)), "has 1024 bits"),
        (
            P256.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
            ).decode(),
            "without a password",
        ),
    ],
    ids=[
        "empty",
        "text",
        "brace",
        "symmetric",
        "half",
        "broken",
        "dsa",
        "koblitz",
        "short",
        "locked",
    ],
)
def test_an_unusable_key_is_refused_without_showing_it(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        PrivateKey.read(text)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_without_the_extra_the_error_names_which_one_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from mcp_client import ConfigError\n"
        "from mcp_client.auth.signing import Prover\n"
        "try: Prover()\n"
        "except ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install mcp-client-host[auth]" in done.stdout


@pytest.mark.slow
def test_nothing_of_the_extra_is_loaded_before_a_key_is_needed() -> None:
    code = (
        "import sys\n"
        "import mcp_client.auth.signing, mcp_client.auth.grants, mcp_client.auth.store\n"
        "print(*sorted({'jwt', 'cryptography', 'keyring'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
