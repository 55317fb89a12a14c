"""The requests for a code: with a browser here, or to type it on another device.

*A browser here.* The request is the URL of a login page, and a redirect completes it. ``code_flow``
documents the checks. RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9126, RFC 9207.

*Another device.* RFC 8628, for programs that cannot open a browser: over SSH, in a container, on a
server. The code and the address are shown, and the token endpoint is polled for the token, never
more often than it allows. Both come from a server that may be hostile. The address is https, or
http to this machine, and neither has a character that draws on a terminal. The person should see
which site they log in to, so the address that contains the code is not shown alone. The issuer is
shown with it, and a warning if the address is on another site. A hostile server can show the code
of a login that it started itself at an honest one; no check detects that. ``one_issuer`` has
checked that the device code is sent only to the server that issued it.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import AuthError, ConfigError
from ..runtime.masking import mask, secrets_sent
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from ..transports.http_client import origin_of, shown
from .discovery import DiscoveredServer, ServerMetadata
from .one_issuer import within
from .registration import DEVICE_CODE, ClientIdentity, scope_field
from .safe_fetch import refused_url
from .signing import Prover, base64_sha256
from .steps import DeviceLogin, Fetch, Fetched, Flow, ShowCode, Unreachable, Wait
from .token_endpoint import ClientAuthentication, post_form, refusal, token_request
from .tokens import SENDABLE

__all__ = [
    "AuthorizationRequest",
    "Deviations",
    "DeviceRequest",
    "LoginOptions",
    "device_token",
    "is_forgotten",
]

_OWN = frozenset(
    {
        *("client_id", "code_challenge", "code_challenge_method", "dpop_jkt", "redirect_uri"),
        *("request", "request_uri", "resource", "response_type", "scope", "state"),
    }
)
"""Parameters that decide what is granted to whom: neither host nor server may add them."""
_NOT_ABOUT_THE_CLIENT = frozenset({403, 404, 405, 406, 407, 408, 425, 429})
_PUSHED = "the pushed authorization request endpoint"


@with_option_names()
@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """A list of ways in which an authorization server deviates from the specification.

    All are off by default: ``OAuth(deviations=Deviations(send_resource=False))``.
    """

    authorize_params: Mapping[str, str] = field(default_factory=dict)
    """Parameters to add to the authorization request (Google: ``{"access_type": "offline"}``)."""
    send_resource: bool = True
    """Whether requests have the parameter ``resource`` (Entra: False)."""
    require_iss: bool = False
    """Whether a redirect that does not name its issuer (RFC 9207) is refused."""
    allow_http_hosts: Collection[str] = ()
    """The hosts to which plain http is allowed, such as ``["nas.local"]``."""
    insecure_allow_missing_pkce: bool = False
    """Whether a server that does not announce PKCE is accepted."""

    def __post_init__(self) -> None:
        taken = sorted(_OWN & self.authorize_params.keys())
        if taken:
            raise ConfigError(
                f"Deviations(authorize_params=...): {', '.join(taken)} cannot be set here; give "
                "scopes as OAuth(scopes=[...])"
            )
        pairs = self.authorize_params.items()
        if not all(isinstance(each, str) for pair in pairs for each in pair):
            raise ConfigError("Deviations(authorize_params=...): give names and values as strings")
        hosts = self.allow_http_hosts
        if isinstance(hosts, str):
            raise ConfigError(
                f"Deviations(allow_http_hosts=...): give a list of strings, such as [{hosts!r}]"
            )
        object.__setattr__(self, "allow_http_hosts", frozenset(map(str.lower, hosts)))
        object.__setattr__(self, "authorize_params", dict(self.authorize_params))


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """A host's choices for logins. See ``OAuth`` for each."""

    scopes: frozenset[str] | None = None
    """The scopes to request; None requests those that the server names."""
    deviations: Deviations = field(default_factory=Deviations)
    issuer: str | None = None
    """The authorization server that the host itself named, whose metadata are trusted."""
    device: bool | Literal["auto"] = False
    """Whether a person logs in on another device; "auto": if the server offers that."""

    def resource_field(self, resource: str) -> dict[str, str]:
        """Return the parameter ``resource`` of a request, or nothing if it is turned off."""
        return {"resource": resource} if self.deviations.send_resource else {}


def _new_secret() -> str:
    return secrets.token_urlsafe(48)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for a code, and what the redirect has to match."""

    discovered: DiscoveredServer
    identity: ClientIdentity
    scopes: frozenset[str]
    options: LoginOptions
    prover: Prover | None = field(default=None, repr=False)
    added: frozenset[str] = frozenset()
    """The scopes that only the login added."""
    refused: frozenset[str] = frozenset()
    """Scopes that were added before and that the server refused."""
    device: bool = False
    """Whether a code is asked for that is typed on another device."""
    state: str = field(default_factory=_new_secret, init=False, repr=False)
    verifier: str = field(default_factory=_new_secret, init=False, repr=False)

    def again(self, identity: ClientIdentity) -> AuthorizationRequest:
        """Return this request made by ``identity``, with a new state and a new verifier."""
        return replace(self, identity=identity)

    def without_added(self) -> AuthorizationRequest:
        """Return this request without the added scopes, which the server refuses."""
        scopes = self.scopes - self.added
        return replace(self, scopes=scopes, added=frozenset(), refused=self.added)

    @property
    def authentication(self) -> ClientAuthentication:
        """The client's authentication at the token endpoint. Raises ``AuthError``."""
        methods = self.discovered.server.auth_methods
        return ClientAuthentication.of(self.identity.registration, methods)

    def url(self) -> Flow[str]:
        """Return the URL for the browser. If the server requires it, push the request itself first.

        Raises ``AuthError`` if the server does not accept the request, or if its endpoint sets
        parameters that only the client may set.
        """
        server, params = self.discovered.server, self._params()
        if not server.requires_pushed:
            return self._with_query(params)
        if server.pushed_endpoint is None:
            raise AuthError(
                f"the authorization server {shown(server.issuer)} requires pushed authorization "
                f"requests and {server.why_missing('pushed_authorization_request_endpoint')}"
            )
        endpoint = server.pushed_endpoint
        response, sent = yield from post_form(
            endpoint, params, self.authentication, dpop=self.prover, what=_PUSHED
        )
        payload = response.json or {}
        request_uri = payload.get("request_uri")
        if not response.is_success or not isinstance(request_uri, str):
            place = f"{_PUSHED} {shown(endpoint)}"
            raise refusal(place, response, sent, needed="request_uri")
        client_id = self.identity.registration.client_id
        return self._with_query({"client_id": client_id, "request_uri": request_uri})

    def _params(self) -> dict[str, str]:
        params = {
            "response_type": "code",
            "client_id": self.identity.registration.client_id,
            "redirect_uri": self.identity.redirect_uri,
            "state": self.state,
            "code_challenge": base64_sha256(self.verifier),
            "code_challenge_method": "S256",
            **self.options.resource_field(self.discovered.resource),
            **scope_field(self.scopes),
        }
        if "offline_access" in self.scopes:
            # OpenID Connect Core section 11: without it servers ignore the scope.
            params["prompt"] = "consent"
        if self.prover is not None:
            params["dpop_jkt"] = self.prover.thumbprint
        return {**params, **self.options.deviations.authorize_params}

    def _with_query(self, params: Mapping[str, str]) -> str:
        server = self.discovered.server
        endpoint = server.authorization_endpoint or ""
        query = urlsplit(endpoint).query
        present = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        if taken := sorted(present & (_OWN | params.keys())):
            raise AuthError(
                f"the authorization_endpoint of {shown(server.issuer)} sets parameters that only "
                f"the client may set: {safe_text(', '.join(taken), 100)}"
            )
        return f"{endpoint}{'&' if query else '?'}{urlencode(params)}"

    def code(self, params: Mapping[str, str]) -> str:
        """Return the code in a redirect for this request. Raises ``AuthError``."""
        server = self.discovered.server
        name, iss, error = shown(server.issuer), params.get("iss"), params.get("error")
        sent = {self.state, params.get("code", ""), *secrets_sent(self.discovered.resource, ())}
        if iss is None and (server.promises_iss or self.options.deviations.require_iss):
            # Shown, the error of another server would be its message to the person.
            what = "used" if error is None else "used, and the error in it is not shown"
            raise AuthError(f"the redirect has no iss, so it may not come from {name}: not {what}")
        if iss is not None and iss not in (server.issuer, server.named):
            other = safe_text(mask(shown(iss), sent), 100)
            raise AuthError(f"the redirect comes from {other!r}, not from {name}: not used")
        if error is None:
            return params["code"]
        error = mask(error, sent)[:80]
        description = mask(params.get("error_description", ""), sent)
        text = f": {safe_text(description, 300)}" if description else ""
        if error == "invalid_target":
            text += "; if it does not know the parameter resource, give Deviations("
            text += "send_resource=False)"
        raise AuthError(
            f"{name} refused the login ({safe_text(error, 80)}){text}", oauth_error=error
        )


def is_forgotten(request: AuthorizationRequest) -> Flow[bool]:
    """Whether the authorization server shows a stored client an error page.

    That page is all that a person would see: a server must not redirect to the URI of a client that
    it does not know (RFC 6749 section 4.1.2.1). This request cannot lead to a grant: state and PKCE
    challenge are thrown away, and ``prompt=none`` asks OpenID servers to show no page.
    """
    server = request.discovered.server
    if server.registration_endpoint is None or server.requires_pushed:
        return False  # it could not be replaced, or the pushed request will show it
    params = {**request.again(request.identity)._params(), "prompt": "none"}
    response: Fetched | Unreachable = yield Fetch(
        "GET", request._with_query(params), "the login page", {"accept": "text/html"}, follow=False
    )
    if isinstance(response, Unreachable):
        return False
    return 400 <= response.status < 500 and response.status not in _NOT_ABOUT_THE_CLIENT


_log = logging.getLogger("mcp_client")
_DEVICE = "the device authorization endpoint"
_INTERVAL_SECONDS = 5.0
_SLOWER_SECONDS = 5.0
"""The seconds that ``slow_down`` adds (RFC 8628 section 3.5)."""
_LONGEST_INTERVAL_SECONDS = 60.0
_EXPIRES_SECONDS = 600.0
"""The lifetime in seconds if the server does not state it, as it must."""
_LONGEST_SECONDS = 3_600.0
_TYPED = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?")
_MAX_FAILURES = 5
"""The number of times in a row that the token endpoint may fail."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request for a device code, and who makes it."""

    issuer: ServerMetadata
    authentication: ClientAuthentication
    resource: Mapping[str, str]
    """The parameter ``resource``, or nothing."""
    scopes: frozenset[str]
    prover: Prover | None
    server: str
    """The name the host gave the MCP server."""
    now: Callable[[], float]
    http_hosts: Collection[str] = ()


def device_token(request: DeviceRequest) -> Flow[tuple[dict[str, Any], ClientAuthentication]]:
    """Have a person log in on another device.

    Returns the response with the token, and how the client authenticated. Raises ``AuthError``.
    """
    endpoint, authentication = request.issuer.device_endpoint or "", request.authentication
    place, form = (
        f"{_DEVICE} {shown(endpoint)}",
        {**request.resource, **scope_field(request.scopes)},
    )
    while True:
        response, sent = yield from post_form(
            endpoint, form, authentication, dpop=request.prover, what=_DEVICE
        )
        payload, other = response.json or {}, authentication.other_method
        if response.is_success and "device_code" in payload:
            break
        if other is None or payload.get("error") != "invalid_client":
            raise refusal(place, response, sent, needed="device_code")
        authentication = replace(authentication, method=other, other_method=None)
    login, device_code = _device_login(payload, place, request)
    yield ShowCode(login)
    code = {"grant_type": DEVICE_CODE, "device_code": device_code, **request.resource}
    interval = _seconds(payload.get("interval"), _INTERVAL_SECONDS)
    interval = interval if interval > 0 else _INTERVAL_SECONDS
    token = yield from _polled(
        request, login, code, replace(authentication, other_method=None), interval
    )
    return token, authentication


def _polled(
    request: DeviceRequest,
    login: DeviceLogin,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    interval: float,
) -> Flow[dict[str, Any]]:
    endpoint, where, failures = request.issuer.token_endpoint, shown(login.url), 0
    while (now := request.now()) < login.expires_at:
        interval = min(max(interval, 1.0), _LONGEST_INTERVAL_SECONDS)
        yield Wait(login, min(interval, login.expires_at - now))
        try:
            return (yield from token_request(endpoint, form, authentication, dpop=request.prover))
        except AuthError as error:
            code = error.oauth_error
            if code == "access_denied":
                text = f"the login at {where} was refused there"
                raise AuthError(text, oauth_error=code) from None
            if code == "expired_token":
                break
            if code in ("authorization_pending", "slow_down"):
                failures = 0
                interval += _SLOWER_SECONDS if code == "slow_down" else 0
                continue
            failures += 1
            if not error.retryable or failures > _MAX_FAILURES:
                raise
            interval *= 2
    raise AuthError(
        f"the login at {where} was not finished before its code expired",
        oauth_error="expired_token",
        retryable=True,
    )


def _device_login(
    payload: Mapping[str, Any], place: str, request: DeviceRequest
) -> tuple[DeviceLogin, str]:
    """Return the login to show, and the device code.

    Raises ``AuthError`` for a value that must not be shown.
    """
    device_code, code = payload["device_code"], payload.get("user_code")
    # Servers that are older than the RFC send verification_url.
    url = payload.get("verification_uri", payload.get("verification_url"))
    if not isinstance(device_code, str) or not SENDABLE.fullmatch(device_code):
        raise AuthError(f"{place} returned a device_code that cannot be sent")
    if not isinstance(code, str) or not _TYPED.fullmatch(code):
        raise AuthError(f"{place} returned a user_code that cannot be typed: {ascii(code)[:80]}")
    reason = refused_url(url, request.http_hosts)
    if reason is not None:
        raise AuthError(f"{place} returned a verification_uri that cannot be shown: {reason}")
    seconds = min(_seconds(payload.get("expires_in"), _EXPIRES_SECONDS), _LONGEST_SECONDS)
    if seconds <= 0:
        raise AuthError(
            f"{place} returned a code that has already expired", oauth_error="expired_token"
        )
    complete: Any = payload.get("verification_uri_complete")
    if refused_url(complete, request.http_hosts) or origin_of(complete) != origin_of(url):
        complete = None
    issuer, expires_at = shown(request.issuer.issuer), request.now() + seconds
    warning = None
    if not within(url, request.issuer.issuer):
        warning = (
            f"this page is on another site than the authorization server {issuer}: log in only if "
            "you know that both belong together"
        )
        _log.warning("%s: the login at %s: %s", request.server, shown(url), warning)
    login = DeviceLogin(request.server, url, code, complete, expires_at, issuer, warning)
    return login, device_code


def _seconds(value: Any, default: float) -> float:
    """Return the number; ``default`` for anything else. Some servers send it as text."""
    try:
        seconds = default if type(value) is bool else float(value)
    except (TypeError, ValueError):
        return default
    except OverflowError:
        return math.inf
    return default if math.isnan(seconds) else seconds
