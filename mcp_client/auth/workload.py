"""A program its platform vouches for: ``HttpServer(url, auth=WorkloadIdentity(...))``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .flow import Login, LoginRequest
from .httpx_auth import Authorization
from .service import JWT_BEARER, Assertion, Machine, Unattended, obtain, place_of, supplied
from .steps import Flow
from .tokens import TokenStore

if TYPE_CHECKING:
    import httpx

__all__ = ["WorkloadIdentity", "workload_identity"]

_WHAT = "WorkloadIdentity(assertion=...)"


class WorkloadIdentity(Authorization):
    """The platform's JWT about this workload (Kubernetes, SPIFFE, a cloud) for tokens.

    ``assertion`` is that JWT, or a function, sync or async, that reads it anew each time a token is
    needed: platforms replace theirs every hour or so. It is sent as it is, once for each token.
    ``client_id`` is what the authorization server knows the workload by, if it has it registered.

    Whoever has it can be this workload where it is good. Give ``issuer``, the authorization server
    it is meant for: without it it goes to the first one that the MCP server names, and from then
    on to that one only. ``scopes``, ``store`` and ``client`` are as for ``OAuth``.

    RFC 7523 section 2.1; SEP-1933. Raises ``ConfigError`` here, and ``AuthError`` in the request
    that needed the token.
    """

    def __init__(
        self,
        client_id: str | None = None,
        *,
        assertion: Assertion,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        store: TokenStore | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        machine = Machine.of(client_id or "", issuer=issuer, scopes=scopes)
        if not callable(assertion) and (not isinstance(assertion, str) or not assertion):
            raise ConfigError(f"{_WHAT}: give the JWT, or a function that returns it")
        grant = Unattended(machine, lambda want: workload_identity(want, machine, assertion))
        super().__init__(grant, store, client)


def workload_identity(want: LoginRequest, machine: Machine, assertion: Assertion) -> Flow[Login]:
    """The platform's JWT about this workload for a token. Raises ``AuthError``."""
    place = yield from place_of(want, machine)
    text = yield from supplied(assertion, _WHAT)
    form = {"grant_type": JWT_BEARER, "assertion": text}
    return (yield from obtain(want, place, machine, form))
