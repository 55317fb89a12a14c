"""Parse how a person logs in at a server of a config file."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..runtime.urls import is_loopback
from .fields import Fields
from .programs import UNUSED
from .values import Expanded

__all__ = ["read_login"]

_LOGIN = {
    "clientId": "client_id",
    "client_id": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "client_secret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "scopes": "scopes",
    "redirectUri": "redirect_uri",
    "callbackPort": "callback_port",
    "enabled": "enabled",
    **dict.fromkeys(
        """
        audiences authorizationUrl authServerMetadataUrl issuer registrationUrl tokenParamName
        tokenUrl
        """.split(),  # noqa: SIM905 - a list of words is read as words
        UNUSED,
    ),
}


def read_login(outer: Fields, scopes: tuple[str, ...] | None) -> dict[str, Expanded] | None:
    """Return the arguments of ``OAuth``, with the scopes in one text; None without a login."""
    fields = outer.inside("oauth", _LOGIN, outer.parsed.program.title)
    given = fields.raw("scopes")
    if isinstance(given, str):
        scopes = tuple(given.split())
    elif given is not None:
        scopes = fields.names("scopes")
    uri = fields.text("redirect_uri")
    port = fields.raw("callback_port")
    if port is not None and not (type(port) is int and 0 < port < 65_536):
        fields.wrong("callback_port", "is not the number of a port")
    if port:
        address = f"http://localhost:{port}/callback"
        uri = Expanded(address, address)
    elif uri is not None and not _is_here(uri.value):
        fields.wrong(
            "redirect_uri",
            "does not lead to this machine, so another would get the login: write "
            "http://127.0.0.1:PORT/PATH",
        )
    login = {
        "client_id": fields.text("client_id") or outer.text("client_id"),
        "redirect_uri": uri,
        "scopes": None if scopes is None else Expanded(" ".join(scopes), " ".join(scopes)),
        "client_secret": fields.secret("client_secret"),
    }
    if fields.flag("enabled") is False:
        return None
    return {name: each for name, each in login.items() if each is not None}


def _is_here(redirect: str) -> bool:
    try:
        parts = urlsplit(redirect)
        return parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        return False
