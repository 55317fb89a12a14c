"""Logins on another device, as a person sees them on the page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..protocol.consent_url import host_warnings
from .markup import Html, element, joined
from .subject import time_of

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin

__all__ = ["login_list", "mark_of"]

_WHOSE = (
    "The host then acts with the account that logs in there. Log in only if this is your login."
)


def login_list(logins: Sequence[DeviceLogin]) -> Html:
    return joined(map(_login, logins))


def mark_of(logins: Sequence[DeviceLogin]) -> str:
    """Another text for other logins."""
    parts = [repr((one.server, one.url, one.code, one.expires_at, one.issuer)) for one in logins]
    return hashlib.sha256("".join(parts).encode("utf-8", "replace")).hexdigest() if parts else ""


def _login(login: DeviceLogin) -> Html:
    where: Html | str = login.url
    if login.url.startswith("https://"):
        where = element("a", login.url, href=login.url, rel="noreferrer noopener", target="_blank")
    asked_by = (", asked by ", element("bdi", login.issuer)) if login.issuer else ()
    told = element(
        "p",
        "Log in at ",
        where,
        " with code ",
        element("code", login.code),
        " for server ",
        element("bdi", login.server),
        *asked_by,
        ", until ",
        time_of(login.expires_at),
        ".",
    )
    about = [*host_warnings(urlsplit(login.url).hostname or "")]
    about += [] if login.warning is None else [login.warning]
    warnings = (element("p", one, class_="cut") for one in about)
    return element("article", told, *warnings, element("p", _WHOSE, class_="hint"), class_="login")
