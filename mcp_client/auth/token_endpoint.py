"""Requests to a token endpoint, and to the endpoints that authenticate clients as it does.

```python
response = yield from token_request(endpoint, {"grant_type": "...", ...}, authentication)
```

Every grant uses this. Almost everything sent here is secret, and a server may repeat it: an error
shows the OAuth code and the server's text, with what was sent masked.

RFC 6749 sections 2.3, 3.2 and 5; RFC 7523 section 2.2; RFC 9449 sections 5 and 8.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import quote_plus, urlencode

from ..errors import AuthError
from ..protocol.headers import retry_after_seconds
from ..runtime.masking import mask
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .discovery import ServerMetadata, server_metadata
from .one_issuer import may_revoke
from .registration import RegisteredClient
from .signing import Prover
from .steps import Accepted, Fetch, Fetched, Flow, InStore, Remember, Unreachable, words_of
from .tokens import Registration, Source, Token, deviating_type, lifetime_of

__all__ = [
    "UNKNOWN_CLIENT",
    "Authenticate",
    "ClientAuthentication",
    "Refresh",
    "accepted_deviations",
    "auth_method",
    "client_authentication",
    "first_token_request",
    "post_form",
    "refresh",
    "refusal",
    "revoke",
    "token_request",
]

UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client"})
"""The error codes for a client that the authorization server does not know, or no longer."""
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_BASIC, _POST = "client_secret_basic", "client_secret_post"
_WHAT = "the token endpoint"
_ERROR_CODE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,80}")
_SECRET_FIELDS = frozenset(
    {
        *("assertion", "client_assertion", "client_secret", "code", "code_verifier"),
        *("device_code", "refresh_token", "subject_token", "token"),
    }
)
_TEMPORARY = frozenset({407, 408, 425, 429, *range(500, 600)})
_TEMPORARY_CODES = frozenset({"temporarily_unavailable", "server_error", "slow_down"})
_RESOURCE_REFUSED = frozenset({"invalid_request", "invalid_resource", "invalid_target"})
_RESOURCE_HINTS = ("invalid_target", "aadsts9010010", "aadsts901002", "'resource'")
"""The words about the parameter ``resource`` in errors of servers that do not know RFC 8707."""


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """A client's authentication. ``method`` is one of RFC 7591's names."""

    client_id: str
    method: str = "none"
    secret: str | None = field(default=None, repr=False)
    sign: Callable[[], str] | None = field(default=None, repr=False)
    """Makes an assertion for "private_key_jwt"; each request needs a new one."""
    other_method: str | None = None
    """The method to try if ``method`` is refused: the server supports both, and it is not known
    which of them this client is registered for."""

    @classmethod
    def of(
        cls, registration: Registration, supported: Iterable[str] | None = None
    ) -> ClientAuthentication:
        """Authentication by the method that ``auth_method`` chooses."""
        offered = list(supported or ())
        method, other = auth_method(registration, supported), None
        if (
            registration.token_endpoint_auth_method is None
            and method == _BASIC
            and _POST in offered
        ):
            other = _POST
        return cls(registration.client_id, method, registration.client_secret, other_method=other)

    def apply_to(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and the headers of one request."""
        fields, headers = dict(form), {}
        match self.method:
            case "client_secret_basic":
                headers["authorization"] = "Basic " + self._basic()
                # The official SDK's authorization server requires it besides the header.
                fields["client_id"] = self.client_id
            case "client_secret_post":
                fields |= {"client_id": self.client_id, "client_secret": self.secret or ""}
            case "private_key_jwt" if self.sign is not None:
                fields |= {"client_assertion_type": JWT_BEARER, "client_assertion": self.sign()}
            case "none":
                # A workload may have no client id: its assertion identifies it.
                fields |= {"client_id": self.client_id} if self.client_id else {}
            case other:
                raise AuthError(f"unsupported client authentication {safe_text(other, 60)!r}")
        return fields, headers

    def _basic(self) -> str:
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.secret or '')}"
        return base64.b64encode(pair.encode()).decode()


Authenticate: TypeAlias = Callable[
    [Source, ServerMetadata, Callable[[], float]], Flow[ClientAuthentication]
]
Refresh: TypeAlias = "Callable[[Token, Source, Callable[[], float], Prover | None], Flow[Token]]"


def auth_method(registration: Registration, supported: Iterable[str] | None = None) -> str:
    """Return how a client with ``registration`` authenticates at the token endpoint.

    The registration's own method comes first, then ``token_endpoint_auth_methods_supported``. If
    the server names none, it is "client_secret_basic" (RFC 8414 section 2).
    """
    if registration.client_secret is None:
        return "none"
    agreed = registration.token_endpoint_auth_method
    if agreed in ("client_secret_basic", "client_secret_post", "none"):
        return agreed
    offered = ["client_secret_basic"] if supported is None else list(supported)
    for method in ("client_secret_basic", "client_secret_post", "none"):
        if method in offered:
            return method
    names = ", ".join(safe_text(name, 40) for name in offered[:8]) or "nothing"
    raise AuthError(
        f"the authorization server accepts {names} from clients; with a client secret it must "
        "accept client_secret_basic or client_secret_post"
    )


def token_request(
    endpoint: str,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    *,
    dpop: Prover | None = None,
    what: str = _WHAT,
) -> Flow[dict[str, Any]]:
    """Request a token from ``endpoint``.

    Args:
        endpoint: The URL of the token endpoint.
        form: The form fields of the grant.
        authentication: The authentication of the client.
        dpop: Proves possession of a key. If the server asks for its nonce in the proof, the request
            is sent again.
        what: The endpoint, as an error names it.

    Returns:
        The JSON object of the response, which has a token.

    Raises:
        AuthError: If the response has no token. ``oauth_error`` is the code the server gave;
            ``retryable`` is true if the same request may succeed later.
    """
    response, secrets = yield from post_form(endpoint, form, authentication, dpop=dpop, what=what)
    payload = response.json
    if payload is not None and _has_token(response, payload):
        return payload
    raise refusal(f"{what} {shown(endpoint)}", response, secrets)


def first_token_request(
    endpoint: str,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    *,
    dpop: Prover | None = None,
    what: str = _WHAT,
) -> Flow[tuple[dict[str, Any], ClientAuthentication]]:
    """Send ``token_request`` for a client that may have to authenticate by another method.

    Returns the authentication that succeeded, too. A server authenticates the client before it
    uses the grant (RFC 6749 section 3.2.1), so that the grant is not spent by the first request.
    """
    other = authentication.other_method
    try:
        payload = yield from token_request(endpoint, form, authentication, dpop=dpop, what=what)
    except AuthError as error:
        if other is None or error.oauth_error != "invalid_client":
            raise
    else:
        return payload, authentication
    authentication = replace(authentication, method=other, other_method=None)
    payload = yield from token_request(endpoint, form, authentication, dpop=dpop, what=what)
    return payload, authentication


def post_form(
    endpoint: str,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    *,
    dpop: Prover | None = None,
    what: str,
) -> Flow[tuple[Fetched, list[str]]]:
    """Post ``form`` as an authenticated client.

    Args:
        endpoint: The URL.
        form: The form fields, without those that authenticate the client.
        authentication: The authentication of the client.
        dpop: Proves possession of a key, as for ``token_request``.
        what: The endpoint, as an error names it.

    Returns:
        The response, and the secrets that were sent.

    Raises:
        AuthError: If no response came.
    """
    may_repeat = dpop is not None
    while True:
        fields, headers = authentication.apply_to(form)
        headers |= {
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        if dpop is not None:
            headers["dpop"] = dpop.proof("POST", endpoint)
        secrets = [authentication.secret or "", headers.get("authorization", "").split(" ")[-1]]
        secrets += [headers.get("dpop", "")]
        secrets += [each[name] for each in (form, fields) for name in _SECRET_FIELDS & each.keys()]
        body = urlencode(fields).encode()
        response: Fetched | Unreachable = yield Fetch("POST", endpoint, what, headers, body)
        if isinstance(response, Unreachable):
            reason = safe_text(mask(response.reason, secrets), 300)
            raise AuthError(
                f"{what} {shown(endpoint)} cannot be used: {reason}",
                retryable=not response.answered,
            )
        new_nonce = dpop is not None and dpop.accept_nonce(endpoint, response.headers)
        payload = response.json
        if may_repeat and new_nonce and payload and payload.get("error") == "use_dpop_nonce":
            may_repeat = False
            continue
        return response, secrets


def _has_token(response: Fetched, payload: Mapping[str, Any]) -> bool:
    return response.is_success and "access_token" in payload and not payload.get("error")


def accepted_deviations(step: Fetch, response: Fetched) -> Iterator[str]:
    """Yield what a token endpoint does otherwise than the specification, and is accepted."""
    payload = response.json if step.what == _WHAT else None
    if payload is None or not _has_token(response, payload):
        return
    if response.status != 200:
        yield "its token endpoint reports success with another status than 200"
    if deviating_type(payload):
        yield "its token_type is not Bearer; the token is used as a bearer token, as MCP requires"
    if lifetime_of(payload) == 0:
        yield "its tokens expire when they are issued"


def refusal(
    place: str, response: Fetched, secrets: list[str], *, needed: str = "access_token"
) -> AuthError:
    """Return the error for a response without success, which should have the member ``needed``."""
    payload, status = response.json, response.status
    code = payload.get("error") if payload else None
    if isinstance(code, str) and _ERROR_CODE.fullmatch(code) and mask(code, secrets) == code:
        message = f"{place} refused with {code}"
    else:
        code = None
        why = "something that is not a JSON object" if payload is None else f"no {needed}"
        message = (
            f"{place} responded with {why if response.is_success else f'HTTP status {status}'}"
        )
    words = words_of(response, secrets, code=code)
    message += f": {words}" if words else ""
    if any(hint in f"{code}{words}".lower() for hint in _RESOURCE_HINTS):
        message += (
            "; if it does not know the parameter resource, give Deviations(send_resource=False)"
        )
    return AuthError(
        message,
        oauth_error=code,
        http_status=status,
        retry_after=retry_after_seconds(response.headers.get("retry-after")),
        retryable=status in _TEMPORARY or code in _TEMPORARY_CODES,
    )


# ------------------------------------------------------------- refreshing and revoking


def refresh(
    client: RegisteredClient,
    token: Token,
    source: Source,
    now: Callable[[], float],
    prover: Prover | None = None,
    *,
    send_resource: bool = True,
) -> Flow[Token]:
    """Return the token that replaces ``token``.

    Args:
        client: The host's client.
        token: The token to replace, which must have a refresh token.
        source: The source of the token.
        now: Returns the Unix time in seconds.
        prover: Proves possession of the key of the token, if it is bound to one.
        send_resource: Whether the request has the parameter ``resource``.

    Raises:
        AuthError: If the token was not refreshed; ``retryable`` is false if it never can be.
    """
    authentication = yield from client_authentication(source, client)
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token or ""}
    if send_resource and not source.without_resource:
        form["resource"] = source.key.resource
    try:
        payload = yield from _refreshed(source, form, authentication, prover)
    except AuthError as error:
        if error.oauth_error in UNKNOWN_CLIENT and source.key.client != client.client_id:
            key = source.key
            yield InStore(lambda store: store.delete_registration(key.issuer, key.client))
        if error.http_status == 500:
            # Some servers respond so to a refresh token that they no longer know. It may as well be
            # a moment's trouble, in which the login must not be lost.
            error.args = (f"{error.message}; if this lasts, OAuth.logout(url) leads to a login",)
        raise
    bound = None if prover is None else prover.text
    return Token.from_response(payload, now(), previous=token, dpop_key=bound)


def _refreshed(
    source: Source,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    prover: Prover | None,
) -> Flow[dict[str, Any]]:
    """Return the response to ``form``.

    If the server refuses ``resource``, it is left out, once: it is optional there (RFC 8707 section
    2.2), and the token stays bound to the resource of its login.
    """
    endpoint = source.token_endpoint
    try:
        return (yield from token_request(endpoint, form, authentication, dpop=prover))
    except AuthError as error:
        if "resource" not in form or not _may_be_the_resource(error):
            raise
    plain = {name: value for name, value in form.items() if name != "resource"}
    payload = yield from token_request(endpoint, plain, authentication, dpop=prover)
    yield Accepted("its token endpoint refuses the parameter resource in a refresh")
    yield Remember(replace(source, without_resource=True))
    return payload


def _may_be_the_resource(error: AuthError) -> bool:
    if error.oauth_error is None:
        return error.http_status in (400, 422)
    return error.oauth_error in _RESOURCE_REFUSED


def client_authentication(source: Source, client: RegisteredClient) -> Flow[ClientAuthentication]:
    """Return how the client that got a token authenticates.

    Raises ``AuthError`` if its secret is lost.
    """
    issuer, client_id = source.key.issuer, source.key.client
    secret: str | None = None
    if client_id == client.client_id:
        secret = client.client_secret
    elif source.auth_method != "none":
        stored: Registration | None = yield InStore(
            lambda store: store.load_registration(issuer, client_id)
        )
        if stored is None or stored.client_id != client_id:
            raise AuthError(f"the secret of the client registered at {shown(issuer)} is lost")
        secret = stored.client_secret
    return ClientAuthentication(client_id, source.auth_method, secret)


def revoke(
    token: Token,
    source: Source,
    authenticate: Authenticate,
    now: Callable[[], float],
    http_hosts: frozenset[str] = frozenset(),
) -> Flow[bool]:
    """Revoke ``token`` if the authorization server offers that (RFC 7009).

    Args:
        token: The token to revoke.
        source: The source of the token.
        authenticate: Returns the authentication of the client at the server.
        now: Returns the Unix time in seconds.
        http_hosts: The hosts to which plain http is allowed.

    Returns:
        Whether the server confirmed it.

    Raises:
        AuthError: If the server cannot be reached.
    """
    server = yield from server_metadata(source.key.issuer, {}, http_hosts)
    if server is None or server.revocation_endpoint is None:
        return False
    if not may_revoke(server, source.token_endpoint):
        raise AuthError(
            f"the revocation endpoint {shown(server.revocation_endpoint)} is on another origin "
            f"than {shown(source.token_endpoint)}, which issued the token: nothing was sent there"
        )
    authentication = yield from authenticate(source, server, now)
    confirmed = True
    # The refresh token first: revoking it ends the grant, and access tokens with it.
    for hint, value in (
        ("refresh_token", token.refresh_token),
        ("access_token", token.access_token),
    ):
        if value is not None:
            form = {"token": value, "token_type_hint": hint}
            response, _ = yield from post_form(
                server.revocation_endpoint, form, authentication, what="the revocation endpoint"
            )
            confirmed = confirmed and response.is_success
    return confirmed
