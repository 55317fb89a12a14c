"""One request to a token endpoint: the client says who it is, and is given a token or told why not.

```python
payload = yield from token_request(endpoint, {"grant_type": "...", ...}, ClientAuthentication(...))
```

Every grant comes through here. What goes in is secret almost whole, and a server may say it back:
of its answer an error shows the OAuth code and a text that repeats nothing we sent.

RFC 6749 sections 2.3, 3.2 and 5; RFC 7523 section 2.2; RFC 9449 sections 5 and 8.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, urlencode

from ..errors import AuthError
from ..protocol.retry_after import retry_after_seconds
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .steps import Fetch, Fetched, Flow, Unreachable
from .strict_json import json_object
from .tokens import Registration

if TYPE_CHECKING:
    from .dpop import Prover

__all__ = ["ClientAuthentication", "auth_method", "token_request"]

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_KNOWN = ("client_secret_basic", "client_secret_post", "none", "private_key_jwt")
_ERROR_CODE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,80}")
_SECRET_FIELDS = frozenset(
    {
        "assertion",
        "client_assertion",
        "client_secret",
        "code",
        "code_verifier",
        "refresh_token",
        "subject_token",
    }
)
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """How a client says who it is. ``method`` is one of RFC 7591's names."""

    client_id: str
    method: str = "none"
    secret: str | None = field(default=None, repr=False)
    sign: Callable[[], str] | None = field(default=None, repr=False)
    """Makes a fresh assertion for "private_key_jwt": one is good for one request."""

    @classmethod
    def of(
        cls, registration: Registration, supported: Iterable[str] | None = None
    ) -> ClientAuthentication:
        """As ``registration`` and the server's metadata want it: see ``auth_method``."""
        method = auth_method(registration, supported)
        return cls(registration.client_id, method, registration.client_secret)

    def applied(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers of one request."""
        fields, headers = dict(form), {}
        match self.method:
            case "client_secret_basic":
                headers["authorization"] = "Basic " + self._basic()
                # The official SDK's authorization server wants it beside the header.
                fields["client_id"] = self.client_id
            case "client_secret_post":
                fields |= {"client_id": self.client_id, "client_secret": self.secret or ""}
            case "private_key_jwt" if self.sign is not None:
                fields |= {"client_assertion_type": JWT_BEARER, "client_assertion": self.sign()}
            case "none":
                # A workload may have no client id: its assertion says who it is.
                fields |= {"client_id": self.client_id} if self.client_id else {}
            case other:
                raise AuthError(f"no client can authenticate by {safe_text(other, 60)!r} here")
        return fields, headers

    def _basic(self) -> str:
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.secret or '')}"
        return base64.b64encode(pair.encode()).decode()


def auth_method(registration: Registration, supported: Iterable[str] | None = None) -> str:
    """How a client with ``registration`` authenticates at the token endpoint.

    What its registration says counts first, then ``token_endpoint_auth_methods_supported``, and
    where the server says nothing, "client_secret_basic" (RFC 8414 section 2).
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
        f"the authorization server takes {names} from clients, and this one has a secret: it needs "
        "client_secret_basic or client_secret_post"
    )


def token_request(
    endpoint: str,
    form: Mapping[str, str],
    authentication: ClientAuthentication,
    *,
    dpop: Prover | None = None,
    what: str = "the token endpoint",
) -> Flow[dict[str, Any]]:
    """Ask ``endpoint`` for a token and return the answer's JSON object, which has one.

    ``dpop`` proves possession of a key with every request; a server that wants its nonce in the
    proof is asked once more. Raises ``AuthError``: ``oauth_error`` is the code the server gave,
    ``retryable`` is true where the same may succeed later.
    """
    again = dpop is not None
    while True:
        fields, headers = authentication.applied(form)
        headers |= {
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        if dpop is not None:
            headers["dpop"] = dpop.proof("POST", endpoint)
        body = urlencode(fields).encode()
        reply: Fetched | Unreachable = yield Fetch("POST", endpoint, what, headers, body)
        if isinstance(reply, Unreachable):
            raise AuthError(
                f"{what} {shown(endpoint)} cannot be used: {safe_text(reply.reason, 300)}",
                retryable=True,
            )
        nonce_came = dpop is not None and dpop.heard(endpoint, reply.headers)
        payload = json_object(reply.body)
        if again and nonce_came and payload and payload.get("error") == "use_dpop_nonce":
            again = False
            continue
        if payload is not None and _granted(reply.status, payload):
            return payload
        secrets = [authentication.secret or "", headers.get("authorization", "").split(" ")[-1]]
        secrets += [each[name] for each in (form, fields) for name in _SECRET_FIELDS & each.keys()]
        raise _refusal(f"{what} {shown(endpoint)}", reply, payload, secrets)


def _granted(status: int, payload: Mapping[str, Any]) -> bool:
    return status == 200 and "access_token" in payload and not payload.get("error")


def _refusal(
    place: str, reply: Fetched, payload: Mapping[str, Any] | None, secrets: list[str]
) -> AuthError:
    status = reply.status
    code = payload.get("error") if payload else None
    if isinstance(code, str) and _ERROR_CODE.fullmatch(code) and not _repeats(code, secrets):
        said = payload.get("error_description") if payload else None
        text = ""
        if isinstance(said, str) and said:
            text = ": its text repeats a secret and is not shown"
            if not _repeats(said, secrets):
                text = f": {safe_text(said, 300)}"
        message = f"{place} refused with {code}{text}"
    else:
        code = None
        why = "no JSON object" if payload is None else "no access_token"
        message = (
            f"{place} answered with HTTP status {status}"
            if status != 200
            else f"{place} answered with {why}"
        )
    return AuthError(
        message,
        oauth_error=code,
        http_status=status,
        retry_after=retry_after_seconds(reply.headers.get("retry-after")),
        retryable=status in _PASSING or code == "temporarily_unavailable",
    )


def _repeats(text: str, secrets: list[str]) -> bool:
    return any(
        form in text for secret in secrets if secret for form in {secret, quote(secret, safe="")}
    )
