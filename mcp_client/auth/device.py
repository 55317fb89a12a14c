"""The device flow: a person logs in with a browser on another device, and types a code there.

RFC 8628, for programs that cannot open a browser: over SSH, in a container, on a server. The code
and the address are shown, and the token endpoint is polled for the token, never more often than it
allows.

*What a person is shown* comes from a server that may be hostile. The address is https, or http to
this machine, and neither the address nor the code has a character that draws on a terminal. The
person should see which site they log in to, so the address that contains the code is not shown
alone. The issuer is shown with it, and a warning if the address is on another site. A hostile
server can show the code of a login that it started itself at an honest one; no check detects that.
``one_issuer`` has checked that the device code is sent only to the server that issued it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import AuthError
from ..transports.http_client import origin_of, shown
from .discovery import ServerMetadata
from .one_issuer import within
from .registration import DEVICE_CODE, scope_field
from .safe_fetch import refused_url
from .signing import Prover
from .steps import DeviceLogin, Flow, ShowCode, Wait
from .token_endpoint import ClientAuthentication, post_form, refusal, token_request
from .tokens import SENDABLE

__all__ = ["DeviceRequest", "device_token"]

_log = logging.getLogger("mcp_client")
_WHAT = "the device authorization endpoint"
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
    place, form = f"{_WHAT} {shown(endpoint)}", {**request.resource, **scope_field(request.scopes)}
    while True:
        response, sent = yield from post_form(
            endpoint, form, authentication, dpop=request.prover, what=_WHAT
        )
        payload, other = response.json or {}, authentication.other_method
        if response.is_success and "device_code" in payload:
            break
        if other is None or payload.get("error") != "invalid_client":
            raise refusal(place, response, sent, needed="device_code")
        authentication = replace(authentication, method=other, other_method=None)
    login, device_code = _read(payload, place, request)
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


def _read(
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
