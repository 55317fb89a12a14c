"""Logging in with a browser: ``HttpServer(url, auth=OAuth())``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from ..errors import ConfigError
from ..runtime.option_names import with_option_names
from ..runtime.storage import Storage
from .browser import Browser, OnDevice, OnUrl, has_browser
from .code_flow import Login, LoginRequest, authorize
from .code_request import Deviations, LoginOptions
from .httpx_auth import Authorization
from .registration import RegisteredClient
from .safe_fetch import FetchPolicy
from .steps import Flow
from .store import TokenStore
from .token_endpoint import client_authentication, refresh
from .token_manager import Grant

if TYPE_CHECKING:
    import httpx

__all__ = ["OAuth"]


@with_option_names()
class OAuth(Authorization):
    """A login of a person with a browser, when a server first requires it.

    ``HttpServer(url, auth=OAuth())`` is enough for most servers. The login page is opened in the
    browser of this machine. The address at which the browser ends can also be pasted into the
    terminal. Errors are ``AuthError``, raised by the request that needs the token, with
    ``oauth_error`` if the authorization server sent a code. ``await oauth.logout(url)`` revokes and
    deletes a token.

    With ``device="auto"`` the person logs in on another device (RFC 8628) if no browser can be
    opened here (``headless``, SSH, no display). The authorization server must offer it. The address
    and a code to type there are shown at the terminal, or passed to ``on_device``. During a login
    the clocks of the session are paused; ``Timeouts(approval=...)`` limits the wait. Logins of one
    person at the same authorization server take turns.

    A login is refused before a page is opened if the login page and the token endpoint do not
    belong together: a hostile server could obtain a login at another server this way.
    ``mcp_client.auth.one_issuer`` has the rule. If you trust an authorization server that is
    refused, give its ``issuer``: its metadata are then trusted.

    Args:
        client_name: The name under which the client is registered, and which a person sees.
        scopes: The scopes to request instead of those that the server names.
        client_id: The id of a client that you registered. Needed if the authorization server does
            not register clients automatically.
        client_secret: The secret of that client. Without ``issuer`` it is sent to the first
            authorization server that the MCP server names, and from then on only to that one.
        issuer: The issuer that the client belongs to.
        client_metadata_url: The https URL of the client's metadata document, instead of
            ``client_id``.
        redirect_uri: The URI of a page of your own. By default a free port of this machine is used.
        store: The place of tokens and registrations. By default they are in memory, so each run
            needs a login; ``FileTokens()`` and ``KeyringTokens()`` store them for the next run. A
            store belongs to one person: with many users, create an ``OAuth`` and a store for each.
        on_url: A function, sync or async, that is called with the URL instead of opening a browser.
            It may return the address at which the browser ended.
        headless: Whether no browser is opened and the URL is only printed.
        device: Whether the login is on another device: always, never, or "auto".
        on_device: A function, sync or async, that is called with a ``DeviceLogin`` instead of using
            the terminal. ``ApprovalQueue().show_login`` puts it on the page of approvals. A
            function that it returns is called when the login has ended.
        client: An ``httpx.AsyncClient`` for the requests to the authorization server (proxies,
            certificates).
        deviations: Exceptions for authorization servers that deviate from the specification:
            parameters of their own, no ``resource``, plain http, no PKCE.

    Raises:
        ConfigError: If an argument is wrong.

    Example:
        >>> HttpServer("https://mcp.example.com/mcp", auth=OAuth(store=FileTokens()))

    2026-07-28 ``basic/authorization``.
    """

    def __init__(
        self,
        *,
        client_name: str = "mcp-client",
        scopes: Iterable[str] | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        issuer: str | None = None,
        client_metadata_url: str | None = None,
        redirect_uri: str | None = None,
        store: TokenStore | Storage | None = None,
        on_url: OnUrl | None = None,
        headless: bool = False,
        device: bool | Literal["auto"] = "auto",
        on_device: OnDevice | None = None,
        client: httpx.AsyncClient | None = None,
        deviations: Deviations | None = None,
    ) -> None:
        if isinstance(scopes, str):
            raise ConfigError(f"OAuth(scopes=...): give a list of strings, such as [{scopes!r}]")
        if deviations is not None and not isinstance(deviations, Deviations):
            raise ConfigError(f"OAuth(deviations={deviations!r}): give Deviations(...)")
        if type(headless) is not bool:
            raise ConfigError(f"OAuth(headless={headless!r}): give True or False")
        grant = _login_grant(
            RegisteredClient(
                client_name, client_id, client_secret, issuer, client_metadata_url, redirect_uri
            ),
            LoginOptions(
                None if scopes is None else frozenset(scopes), deviations or Deviations(), issuer
            ),
            partial(Browser, on_url, headless, redirect_uri, on_device=on_device),
            device,
        )
        super().__init__(grant, store, client)


def _login_grant(
    own: RegisteredClient,
    options: LoginOptions,
    browser_for: Callable[..., Browser],
    device: bool | Literal["auto"],
) -> Grant:
    deviations, http_hosts = options.deviations, frozenset(options.deviations.allow_http_hosts)

    def browser(seconds: float) -> Browser:
        return browser_for(seconds=seconds, http_hosts=http_hosts)

    here = browser(1.0)  # raises now what would be wrong later
    if device not in (True, False, "auto"):
        raise ConfigError(f"OAuth(device={device!r}): give True, False or 'auto'")
    for name, function in (("on_url", here.on_url), ("on_device", here.on_device)):
        if function is not None and not callable(function):
            raise ConfigError(f"OAuth({name}={function!r}): give a function")

    def elsewhere() -> bool | Literal["auto"]:
        if device != "auto":
            return device
        if here.on_url is not None and here.on_device is None:
            return False  # the host shows the page where a person sees it
        return "auto" if here.headless or not has_browser() else False

    def obtain(request: LoginRequest) -> Flow[Login]:
        client, last = own, request.last
        if own.client_id is not None and own.issuer is None and last is not None:
            # The host did not state whose credentials these are: they stay with the first issuer.
            client = replace(own, issuer=last.key.issuer)
        return authorize(request, client, replace(options, device=elsewhere()))

    return Grant(
        obtain=obtain,
        authenticate=lambda source, server, now: client_authentication(source, own),
        owns=own.owns,
        refresh=partial(refresh, own, send_resource=deviations.send_resource),
        browser=browser,
        shares_browser=here.on_url is None,
        policy=FetchPolicy(() if own.issuer is None else (own.issuer,), http_hosts),
        secrets=() if own.client_secret is None else (own.client_secret,),
    )
