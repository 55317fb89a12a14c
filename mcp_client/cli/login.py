"""``login`` and ``logout``, and the login that later commands use.

Tokens are stored in ``FileTokens()``: ``mcp-client/tokens.json`` in the user's data directory,
which only its owner can read. Commands use the stored login for its URL, unless ``--header`` is
given. Only ``login`` begins a new login.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from ..approval.decision import deny_all
from ..approval.managed_policy import ManagedPolicy
from ..auth import FileTokens, OAuth
from ..errors import AuthError, McpError, NotFound
from ..runtime.limits import Timeouts
from ..session.connect import connect
from ..transports.http import HttpServer
from .exits import DONE, UsageError
from .output import note, print_document

__all__ = ["login", "logout", "with_login"]


async def with_login(server: HttpServer) -> HttpServer:
    """Return the server with the login that is stored for its URL, if there is one."""
    store = FileTokens()
    try:
        if not await _is_stored(store, server.url):
            return server
    except McpError as error:
        note(error)
        return server

    def expired(url: str) -> NoReturn:
        raise AuthError("the login has expired; run 'mcp-client login' with the same URL")

    return HttpServer(server.url, auth=OAuth(store=store, on_url=expired))


async def login(options: argparse.Namespace) -> int:
    """Log in at a server: open the browser, or show its address for another browser."""
    store = FileTokens()
    auth = OAuth(
        client_name="mcp-client", store=store, headless=options.headless, issuer=options.issuer
    )
    server = HttpServer(_url(options), auth=auth)
    timeouts = Timeouts() if options.timeout is None else Timeouts(connect=options.timeout)
    policy = ManagedPolicy.system()
    async with connect(server, approval=deny_all, timeouts=timeouts, policy=policy) as session:
        if "tools" in session.capabilities:
            await session.list_tools()  # some servers require the login only then
    is_stored = await _is_stored(store, server.url)
    text = f"logged in; the tokens are in {store.path}" if is_stored else "no login is needed"
    print_document(options, {"loggedIn": is_stored}, text)
    return DONE


async def logout(options: argparse.Namespace) -> int:
    """Revoke the tokens, if the authorization server offers that, and delete them."""
    store, url = FileTokens(), _url(options)
    if not await _is_stored(store, url):
        raise NotFound("no login is stored for this URL")
    revoked = await OAuth(store=store).logout(url)
    text = "logged out" if revoked else "logged out; the server did not confirm it"
    print_document(options, {"loggedOut": True, "revoked": revoked}, text)
    return DONE


async def _is_stored(store: FileTokens, url: str) -> bool:
    source = await store.recall(url)
    return source is not None and await store.load(source.key) is not None


def _url(options: argparse.Namespace) -> str:
    if "://" not in options.url:
        raise UsageError(f"{options.command}: give the server's URL")
    return str(options.url)
