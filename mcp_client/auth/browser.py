"""Having a person agree: the authorization URL goes to a browser, and the answer comes back.

The URL was put together from what a server said. It is judged before anybody sees it: https, or
http to this machine, and no character that a shell, a terminal or a desktop could take for
something else. It is opened by the standard library's ``webbrowser``, or handed to a function of
the host's, and its host is shown. It is never fetched here.

The answer comes to a page on this machine (``redirect.py``), from the host's function, or, where
there is no browser beside us, from the terminal, where the person pastes the address at which the
browser ended.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio

from ..errors import AuthError, ConfigError, McpError
from ..runtime.console import open_console, person_is_there
from ..runtime.safe_text import safe_text
from .redirect import Redirects, listens_at, read_redirect
from .steps import Consent, Listen, Listening, Redirected
from .url_policy import refused_url

__all__ = ["Browser", "OnUrl", "shown_host"]

_log = logging.getLogger("mcp_client")
_SECONDS = 300.0
_TRIES = 3
_LOOK = 0.05
_ON_THE_TERMINAL = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that would take the terminal from the program that runs in it."""

OnUrl: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
"""Is given the authorization URL. Returns the address the browser was redirected to in the end, or
None where that comes to the redirect URI by itself. Async or sync."""


class Browser:
    """Carries out ``Listen`` and ``Consent``, one login after the other.

    ``on_url`` is called instead of opening a browser. ``headless``: the URL is printed, and the
    answer is read from the terminal, unless it comes by itself. ``redirect_uri`` is one that the
    host chose; otherwise it is a page on a free port of 127.0.0.1. A login may take ``seconds``.
    """

    def __init__(
        self,
        *,
        on_url: OnUrl | None = None,
        headless: bool = False,
        redirect_uri: str | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self._on_url = on_url
        self._headless = headless
        self._uri = redirect_uri
        self._seconds = seconds
        self._redirects: Redirects | None = None
        if redirect_uri is not None:
            _check_redirect_uri(redirect_uri)

    async def listen(self, step: Listen) -> Listening:
        """Be where the redirect will go to. Raises ``AuthError`` where that place is taken."""
        await self.aclose()
        if self._uri is not None:
            if listens_at(self._uri):
                try:
                    self._redirects = await Redirects.listen(self._uri)
                except OSError as error:
                    if self._on_url is None:
                        raise AuthError(
                            f"nobody can listen at {self._uri}, where the answer to the login is "
                            f"to come: {error.strerror}; leave redirect_uri out for a free port"
                        ) from None
            return Listening(self._uri)
        for uri in step.preferred:
            if listens_at(uri):
                with suppress(OSError):
                    self._redirects = await Redirects.listen(uri)
                    return Listening(uri)
        self._redirects = await Redirects.listen()
        return Listening(self._redirects.uri)

    async def consent(self, step: Consent) -> Redirected:
        """Have the person open the step's URL, and wait for the redirect.

        Raises ``AuthError`` where the URL may not be opened, there is nobody to open it, the
        answer belongs to another login, or ``seconds`` are over.
        """
        waiting = _Waiting(step, self._redirects)
        try:
            if (reason := refused_url(step.url)) is not None:
                raise AuthError(
                    f"the authorization server's page was not opened: {reason}", server=step.server
                )
            with anyio.move_on_after(self._seconds):
                await waiting.until_answered(self._ask)
        finally:
            await self.aclose()
        if waiting.params is None:
            raise AuthError(
                f"nobody finished the login at {shown_host(step.url)} within {self._seconds:g} s",
                server=step.server,
                retryable=True,
            )
        return Redirected(waiting.params)

    async def aclose(self) -> None:
        """Listen no longer."""
        redirects, self._redirects = self._redirects, None
        if redirects is not None:
            await redirects.aclose()

    async def _ask(self, waiting: _Waiting) -> None:
        """Bring the URL before the person. Returns where the answer comes by itself."""
        step = waiting.step
        _log.info("%s: a login is wanted at %s", step.server, shown_host(step.url))
        if self._on_url is not None:
            await _ask_host(self._on_url, waiting)
        elif self._headless:
            await _ask_terminal(waiting)
        else:
            invited = person_is_there()
            if invited:
                print(_invitation(step), file=sys.stderr, flush=True)
            if not await _opened(step.url):
                await _ask_terminal(waiting, invited=invited)
        if waiting.params is None and not waiting.listens:
            raise AuthError(
                f"nobody here receives the redirect to {step.redirect_uri}: give a redirect_uri on "
                "this machine, or an on_url= that returns the address at which the browser ended",
                server=step.server,
            )


class _Waiting:
    """One login under way: whoever has the answer first ends it."""

    def __init__(self, step: Consent, redirects: Redirects | None) -> None:
        self.step = step
        self.params: Mapping[str, str] | None = None
        self.listens = redirects is not None
        self._redirects = redirects
        self._failure: McpError | None = None

    async def until_answered(self, ask: Callable[[_Waiting], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as tasks:

            async def listening() -> None:
                if self._redirects is not None:
                    self.params = await self._redirects.wait(self.step.state)
                    tasks.cancel_scope.cancel()

            async def asking() -> None:
                try:
                    await ask(self)
                except McpError as error:
                    self._failure = error
                except Exception as error:  # noqa: BLE001 - a terminal that went away
                    self._failure = AuthError(f"nobody could be asked: {type(error).__name__}")
                if self.params is not None or self._failure is not None:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(listening)
            tasks.start_soon(asking)
        if self.params is None and self._failure is not None:
            raise self._failure

    def take(self, address: str) -> str | None:
        """Take the address a browser ended at. Returns why it is not the answer."""
        base, _, query = address.strip().partition("?")
        if base != self.step.redirect_uri.partition("?")[0]:
            return f"it does not begin with {self.step.redirect_uri}"
        found = read_redirect(query.partition("#")[0], self.step.state)
        if isinstance(found, str):
            return found
        self.params = found
        return None


def shown_host(url: str) -> str:
    """The host of ``url`` to be looked at by a person, with a warning where it may deceive."""
    host = safe_text(urlsplit(url).netloc, 120)
    if any(label.startswith("xn--") for label in host.lower().split(".")):
        return f"{host} (an international name, which may look like another one)"
    return host


def _check_redirect_uri(uri: str) -> None:
    parts = urlsplit(uri)
    if refused_url(uri) is not None or "#" in uri or (parts.scheme == "http" and not parts.port):
        raise ConfigError(
            f"redirect_uri={safe_text(uri, 100)!r}: give http://127.0.0.1:PORT/PATH, or an https "
            "URL without a fragment"
        )


# ------------------------------------------------------------------- three ways to ask


async def _ask_host(on_url: OnUrl, waiting: _Waiting) -> None:
    step = waiting.step
    try:
        address = await _result_of(on_url, step.url)
    except McpError:
        raise
    except Exception as error:
        raise AuthError(
            f"the function given as on_url raised {type(error).__name__}", server=step.server
        ) from error
    if address is None:
        return
    reason = waiting.take(address) if isinstance(address, str) else "it is no text"
    if reason is not None:
        raise AuthError(
            f"what the function given as on_url returned is not the answer to this login: {reason}",
            server=step.server,
        )


async def _result_of(on_url: OnUrl, url: str) -> Any:
    if inspect.iscoroutinefunction(on_url):
        return await on_url(url)
    # In a list, because trio refuses threads that return a bare coroutine.
    (result,) = await anyio.to_thread.run_sync(lambda: [on_url(url)], abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result


async def _opened(url: str) -> bool:
    """Whether a browser was told to open ``url``.

    In a thread of its own, which the program need not wait for at its end: some browsers hold it
    until they are closed.
    """
    opened: list[bool] = []

    def tell() -> None:
        import webbrowser

        try:
            browser = webbrowser.get()
            name = str(getattr(browser, "name", "")).rpartition("/")[2]
            opened.append(name not in _ON_THE_TERMINAL and browser.open(url))
        except Exception:  # noqa: BLE001 - webbrowser.Error, or a browser that cannot be started
            opened.append(False)

    threading.Thread(target=tell, name="mcp-client browser", daemon=True).start()
    while not opened:  # noqa: ASYNC110 - the thread knows no event loop
        await anyio.sleep(_LOOK)
    return opened[0]


async def _ask_terminal(waiting: _Waiting, *, invited: bool = False) -> None:
    step = waiting.step
    if not person_is_there():
        raise AuthError(
            f"a login at {shown_host(step.url)} is needed, and there is neither a browser to open "
            "nor a terminal to ask at; give OAuth(on_url=...), a function that brings the URL "
            "before a person",
            server=step.server,
        )
    async with open_console() as console:  # an approval may be asked there at the same time
        if not invited:
            print(_invitation(step), file=sys.stderr)
        console.say("  Then paste the address at which the browser ended. It begins with")
        print(f"  {step.redirect_uri}?", file=sys.stderr, flush=True)
        for _ in range(_TRIES):
            line = await console.ask("  > ")
            if not line:
                break
            reason = waiting.take(line)
            if reason is None:
                return
            console.say(f"  That is not the answer to this login: {reason}.")
    raise AuthError("the address of the redirect was not given", server=step.server)


def _invitation(step: Consent) -> str:
    return (
        f"\n  Log in for   {safe_text(step.server, 80)}\n"
        f"  at           {shown_host(step.url)}\n"
        f"  by opening   {step.url}"
    )
