"""Check that the endpoints of one authorization server belong together: the defence against mix-up.

An MCP server names its authorization server, so a hostile MCP server can name a hostile one. The
hostile one publishes the login page of an honest server and a token endpoint of its own (RFC 9700
section 4.4). A person logs in at the honest page. Code and PKCE verifier would then go to the
hostile token endpoint, which redeems them at the honest server.

*The rule.* A secret may go from the endpoint that issues it to another endpoint in three cases:

- Both have the same origin, or the first one is on a subdomain of the second one's host.
- The first one has that relation to the issuer, and the issuer's own origin published the metadata
  in a well-known document at its root. The owner of the login page then named the other endpoint
  itself. Example: Google's login page is on the issuer's origin, its token endpoint on another.
  A well-known document below the issuer's path counts for endpoints below that path only.
- The host named the issuer: ``OAuth(issuer=...)``.

The rule applies to the code (login page, token endpoint), the device code, the secret of a
dynamically registered client, and tokens that are revoked. For the code alone, ``iss`` is an
alternative (RFC 9207). If the server promises it or the host requires it, the redirect of an honest
server is refused before the code is sent. The device flow has no redirect, and so no ``iss``.

*Why a subdomain, and not the same site.* The owner of ``example.com`` decides who has
``login.example.com``. The reverse is false: many platforms give ``name.platform.example`` to every
customer. Two names with a common parent prove nothing without a list of public suffixes.

*Why the root.* A user of an honest site may be able to publish files below a path, such as the raw
files of a repository. One of them could be ``<path>/.well-known/openid-configuration``, and name
the site's own login page, which is not below that path. For the same reason, a document does not
count if a redirect led to it at another origin.

*What only* ``iss`` *detects*: a hostile login page that redirects the browser to an honest one.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from ..errors import Advice, AuthError
from ..transports.http_client import origin_of, shown
from .discovery import ServerMetadata, same_issuer

__all__ = ["check_browser", "check_device", "check_registration", "may_revoke", "within"]

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.~-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.~-]*)*")


def within(url: str, owner: str) -> bool:
    """Whether the owner of the host in ``owner`` also controls the host in ``url``.

    True for the same origin, and for a subdomain with the same scheme and port.
    """
    inner, outer = origin_of(url), origin_of(owner)
    if inner == outer:
        return True
    (_, host, _), (_, parent, _) = inner, outer
    same = (inner[0], inner[2]) == (outer[0], outer[2])
    return same and "." in parent and not _is_address(parent) and host.endswith(f".{parent}")


def check_browser(server: ServerMetadata, named: str | None, *, iss: bool) -> None:
    """Raise ``AuthError`` if the code of a browser login could go to another server.

    ``named`` is the issuer that the host gave. ``iss``: a redirect without it is refused.
    """
    page, pushed = server.authorization_endpoint or "", server.pushed_endpoint
    if server.requires_pushed and pushed and not _may_share(server, page, pushed, named):
        # The server that receives the request can change its redirect URI, and add any ``iss``.
        raise _mixed(server, "login page", page, "the request for it", pushed)
    if not iss and not _may_share(server, page, server.token_endpoint, named):
        raise _mixed(server, "login page", page, "the code of a login", server.token_endpoint)


def check_device(server: ServerMetadata, named: str | None) -> None:
    """Raise ``AuthError`` if the device code could go to another server.

    The device flow has no ``iss`` that would show it.
    """
    device = server.device_endpoint or ""
    if not _may_share(server, device, server.token_endpoint, named):
        raise _mixed(
            server, "device authorization", device, "its device code", server.token_endpoint
        )


def check_registration(server: ServerMetadata, named: str | None) -> None:
    """Raise ``AuthError`` if the secret of a new client could go to another server."""
    place = server.registration_endpoint or ""
    if not _may_share(server, place, server.token_endpoint, named):
        what = "the secret of a client"
        raise _mixed(server, "client registration", place, what, server.token_endpoint)


def may_revoke(server: ServerMetadata, token_endpoint: str) -> bool:
    """Whether tokens that came from ``token_endpoint`` may be sent to the revocation endpoint."""
    return _may_share(server, token_endpoint, server.revocation_endpoint or "", None)


def _may_share(server: ServerMetadata, source: str, target: str, named: str | None) -> bool:
    if within(source, target):
        return True
    if within(source, server.issuer) if server.at_root else _is_below(source, server):
        return True
    return named is not None and same_issuer(named, server.issuer)


def _is_below(url: str, server: ServerMetadata) -> bool:
    """Whether ``url`` is below the path of the issuer, which published its metadata there."""
    if not server.at_path or origin_of(url) != origin_of(server.issuer):
        return False
    above, path = f"{urlsplit(server.issuer).path.rstrip('/')}/", urlsplit(url).path
    # Browsers and servers resolve "..", "%2e%2e" and "..;", which lead to another place.
    return path.startswith(above) and _PLAIN_PATH.fullmatch(path[len(above) :]) is not None


def _mixed(server: ServerMetadata, what: str, source: str, secret: str, target: str) -> AuthError:
    name = shown(server.issuer)
    return AuthError(
        f"the authorization server {name} cannot be used: its {what} is at {shown(source)}, and "
        f"{secret} would go to another origin, {shown(target)}. A hostile server could obtain a "
        "login at another server this way, so nothing was sent there",
        advice=Advice(
            f"if you know that both belong to this server, give OAuth(issuer={name!r})", "issuer"
        ),
    )


def _is_address(host: Any) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
