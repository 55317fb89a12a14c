"""Tokens and client registrations.

Everything here is a value and does no I/O. Secrets do not appear in reprs.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, TypeVar

from ..errors import AuthError
from ..protocol.headers import scopes_of
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object

__all__ = ["Key", "Registration", "Source", "Token", "deviating_type", "lifetime_of"]

EARLY_SECONDS = 60.0
"""Seconds before its expiry from which a token counts as stale."""
_MAX_LIFETIME_SECONDS = 10 * 365 * 86_400.0
SENDABLE = re.compile(r"[\x21-\x7e]+")
_MAX_CLAIMS_CHARS = 16 * 1024
_TYPES = {"bearer": "Bearer", "dpop": "DPoP"}
_KEY_BOUND = frozenset({"dpop", "hmac", "hok", "mac", "mtls", "pop", "signature", "signed"})
"""Words of a ``token_type`` that may be used only with proof of possession of a key."""
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")
Value = TypeVar("Value")


class Stored:
    """A dataclass that is stored as a JSON object, with a member for each field."""

    __slots__ = ()

    def to_wire(self) -> dict[str, Any]:
        """Return all fields as JSON, secrets included."""
        this: Any = self
        return {each.name: _written(getattr(self, each.name)) for each in fields(this)}

    @classmethod
    def from_wire(cls, wire: Any) -> Self:
        """Raise ``ValueError``, without a value in its text, if ``wire`` has not these fields."""
        this: Any = cls
        what = cls.__name__.lower()
        if not isinstance(wire, dict):
            raise ValueError(f"a {what} is not an object")
        found: dict[str, Any] = {}
        for each in fields(this):
            kind, value = str(each.type), wire.get(each.name)
            if value is None and each.default is MISSING:
                raise ValueError(f"a {what} has no {each.name}")
            if value is not None:
                try:
                    found[each.name] = _READ[kind.removesuffix(" | None")](value)
                except (TypeError, ValueError, OverflowError):
                    raise ValueError(f"the {each.name} of a {what} is not a {kind}") from None
        return cls(**found)


def _written(value: Any) -> Any:
    if isinstance(value, Stored):
        return value.to_wire()
    return sorted(value) if isinstance(value, frozenset) else value


def _only(kind: type[Value]) -> Callable[[Any], Value]:
    def read(value: Any) -> Value:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def _time(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) not in (list, tuple) or not all([type(each) is str for each in value]):
        raise TypeError
    return tuple(value)


@dataclass(frozen=True, slots=True)
class Token(Stored):
    """An access token, its expiry, and the refresh token (RFC 6749 section 5.1).

    ``access_token`` is what a server is shown, ``refresh_token`` what another one is got for. Both
    are secrets and not in the repr.
    """

    access_token: str = field(repr=False)
    token_type: str = "Bearer"  # noqa: S105 - the scheme's name
    """The scheme of the ``Authorization`` header: "Bearer" or "DPoP"."""
    expires_at: float | None = None
    """The expiry as Unix time in seconds; None if the server did not state it."""
    lifetime: float | None = None
    """Seconds from issue to expiry."""
    refresh_token: str | None = field(default=None, repr=False)
    scope: frozenset[str] = frozenset()
    """The scopes granted: those the server named, or else those that were requested."""
    dpop_key: str | None = field(default=None, repr=False)
    """The private key the token is bound to, as ``dpop.Prover.text`` has it; None for Bearer."""

    @classmethod
    def from_response(
        cls,
        payload: Mapping[str, Any],
        now: float,
        asked: Iterable[str] = (),
        *,
        previous: Token | None = None,
        dpop_key: str | None = None,
    ) -> Token:
        """Parse a successful response of a token endpoint.

        Args:
            payload: The JSON object of the response.
            now: The Unix time in seconds.
            asked: The scopes that were requested; the token has them if the response names none.
            previous: The token that was refreshed. Members that the response leaves out are taken
                from it.
            dpop_key: The private key that the token is bound to, if any.

        Raises:
            AuthError: If the response is not a usable token.
        """
        access = _sendable(payload, "access_token")
        if access is None:
            raise _unusable("it has no access_token")
        asked = frozenset(asked) or (previous.scope if previous else frozenset())
        scope = payload.get("scope")
        refresh = _sendable(payload, "refresh_token")
        if refresh is None and previous is not None:
            refresh = previous.refresh_token
        kind = _token_type(payload, previous, dpop_key)
        if kind == "DPoP" and dpop_key is None:
            raise _unusable("it is a DPoP token, although no proof was sent")
        lifetime = lifetime_of(payload)
        return cls(
            access_token=access,
            token_type=kind,
            expires_at=None if lifetime is None else now + lifetime,
            lifetime=lifetime,
            refresh_token=refresh,
            scope=scopes_of(scope) if isinstance(scope, str) else asked,
            dpop_key=dpop_key if kind == "DPoP" else None,
        )

    @property
    def subject(self) -> str:
        """The person whose token it is, if it is a JSON Web Token that names one; else empty.

        This is not verified. Use it only to find out whether two tokens are one person's.
        """
        parts = self.access_token.split(".")
        if len(parts) != 3 or len(parts[1]) > _MAX_CLAIMS_CHARS:
            return ""
        try:
            claims = read_json_object(
                base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
            )
        except ValueError:
            return ""
        subject = claims.get("sub")
        return subject if isinstance(subject, str) else ""

    def fresh(self, now: float, early: float = EARLY_SECONDS) -> bool:
        """Whether the token is valid for at least ``early`` more seconds, as far as is known.

        For a token with a lifetime of minutes, ``early`` is at most a quarter of the lifetime.
        """
        if self.expires_at is None:
            return True
        if self.lifetime is not None:
            early = min(early, self.lifetime / 4)
        return now + early < self.expires_at

    @property
    def authorization(self) -> str:
        """The value of the ``Authorization`` header."""
        return f"{self.token_type} {self.access_token}"


def _sendable(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not SENDABLE.fullmatch(value):
        raise _unusable(f"its {name} is malformed")
    return value


def _unusable(why: str) -> AuthError:
    # A response did come, and a refresh token may be spent: the same request would not succeed.
    return AuthError(f"invalid response of the token endpoint: {why}", http_status=200)


def deviating_type(payload: Mapping[str, Any]) -> bool:
    """Whether the ``token_type`` of a response is neither Bearer nor DPoP.

    MCP fixes the use of a token as ``Authorization: Bearer``, so "user", "bot" and a missing one
    leave no doubt. ``Token.from_response`` refuses types that are bound to a key, and "N_A", which
    means that the token is not an access token (RFC 8693 section 2.2.1).
    """
    return _written_type(payload) not in _TYPES


def _written_type(payload: Mapping[str, Any]) -> str:
    token_type = payload.get("token_type")
    return "" if token_type is None else str(token_type).strip().lower()


def _token_type(payload: Mapping[str, Any], previous: Token | None, dpop_key: str | None) -> str:
    written = _written_type(payload)
    if kind := _TYPES.get(written):
        return kind
    if not written and previous is not None:
        return previous.token_type
    # If a proof of possession was sent, nothing shows whether the token is bound to its key.
    if dpop_key is not None or written == "n_a" or _KEY_BOUND & {*_NOT_A_WORD.split(written)}:
        quoted = repr(safe_text(written, 40)) if written else "missing"
        raise _unusable(f"its token_type is {quoted}, not Bearer or DPoP")
    return "Bearer"


def lifetime_of(payload: Mapping[str, Any]) -> float | None:
    """Return ``expires_in``, in seconds; None if it is absent or not a number.

    Some servers send the number as text. A negative number counts as 0.
    """
    seconds = payload.get("expires_in")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, str)):
        return None
    try:
        length = float(seconds)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(length) else min(max(length, 0.0), _MAX_LIFETIME_SECONDS)


@dataclass(frozen=True, slots=True)
class Registration(Stored):
    """Our client at one authorization server; its secret is never sent to another."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    token_endpoint_auth_method: str | None = None
    """The method in the registration response; None if it names none."""
    secret_expires_at: float | None = None
    """Unix time in seconds; None if the secret does not expire."""
    redirect_uris: tuple[str, ...] = ()
    issuer: str = ""
    """The authorization server it belongs to, byte for byte."""
    scopes: frozenset[str] | None = None
    """The scopes that the client may request, with those that were requested; None if the server
    did not state them."""
    doubtful: bool = False
    """Whether a login with it ended without a redirect, so that the server may have forgotten it.
    It still serves to refresh the tokens it got."""

    def usable(self, now: float) -> bool:
        """Whether another login may use it at the Unix time ``now``."""
        return not self.doubtful and (
            self.secret_expires_at is None or now < self.secret_expires_at
        )

    def may_request(self, scopes: frozenset[str]) -> bool:
        """Whether a login with it can lead to ``scopes``, as far as is known."""
        return self.scopes is None or scopes <= self.scopes


@dataclass(frozen=True, slots=True)
class Key(Stored):
    """A token's identity: its issuer, its resource, and the client it was issued to."""

    issuer: str
    resource: str
    client: str
    """The client id."""


@dataclass(frozen=True, slots=True)
class Source(Stored):
    """A source of an MCP server's tokens: enough to refresh one without discovery."""

    key: Key
    token_endpoint: str
    auth_method: str = "none"
    """The client's authentication method at that endpoint."""
    refused_scopes: frozenset[str] = frozenset()
    """Scopes that a login added by itself and the server refused: they are not added again."""
    without_resource: bool = False
    """Whether the server refuses ``resource`` in a refresh, so that it is left out."""


_READ: dict[str, Callable[[Any], Any]] = {
    "str": _only(str),
    "bool": _only(bool),
    "float": _time,
    "frozenset[str]": lambda value: frozenset(_texts(value)),
    "tuple[str, ...]": _texts,
    "Key": Key.from_wire,
}
"""The parser of a field of each type."""
