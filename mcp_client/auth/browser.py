"""Have a person log in: open the authorization URL in a browser, and receive the redirect.

The URL was composed from what a server published. It is checked before it is opened or shown. It
must be https, or http to this machine or to a host that the host program allowed. It must have no
character that a shell, a terminal or a desktop could interpret. It is opened with the standard
library's ``webbrowser``, or passed to a function of the host program. It is never fetched here.

The redirect reaches a page on this machine (``redirect.py``), or comes from the host's function or
from the terminal. A person can always paste the address at which the browser ended into the
terminal: a started browser does not always show a window (X forwarding, WSL, a container).
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio

from ..errors import Advice, AuthError, ConfigError, McpError
from ..runtime.console import open_console, why_no_terminal, write_notice
from ..runtime.daemon_thread import NoThread, in_daemon_thread, start_thread
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .redirect import RedirectPage, listens_at, read_redirect
from .safe_fetch import refused_url
from .steps import Consent, DeviceLogin, Listen, Redirected

__all__ = ["Browser", "OnDevice", "OnUrl", "has_browser", "shown_host"]

_log = logging.getLogger("mcp_client")
_LOGIN_SECONDS = 300.0
_MAX_PASTED = 3
_POLL_SECONDS = 0.05
_TEXT_BROWSERS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that would take the terminal away from the program that runs in it."""

OnUrl: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
"""A function that is called with the authorization URL, async or sync. It returns the address at
which the browser ended, or None if the redirect reaches the redirect URI by itself."""
EndOfLogin: TypeAlias = Callable[[], object]
OnDevice: TypeAlias = Callable[[DeviceLogin], "Awaitable[EndOfLogin | None] | EndOfLogin | None"]
"""A function that shows a person where to log in, and with which code. Async or sync; the login
begins when it returns. A function that it returns is called when the login has ended, successfully
or not."""


@dataclass
class Browser:
    """Carries out ``Listen``, ``Consent`` and ``ShowCode``, one login after the other."""

    on_url: OnUrl | None = None
    """Called instead of opening a browser."""
    headless: bool = False
    """Whether the URL is only printed. The address is then read from the terminal, unless the
    redirect comes first."""
    redirect_uri: str | None = None
    """The host's choice; None for a page on a free port of 127.0.0.1."""
    seconds: float = _LOGIN_SECONDS
    """The time limit for a login, in seconds."""
    http_hosts: Collection[str] = ()
    on_device: OnDevice | None = None
    """Called with the code for a login on another device, instead of showing it at the terminal."""
    _page: RedirectPage | None = field(default=None, init=False)
    _until: float = field(default=math.inf, init=False)
    _end_of_code: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.redirect_uri is not None:
            _check_redirect_uri(self.redirect_uri)

    async def listen(self, step: Listen) -> str:
        """Listen at the redirect URI of the login, and return that URI.

        Raises ``AuthError`` if that is not possible.
        """
        await self.aclose()
        if self.redirect_uri is not None:
            if listens_at(self.redirect_uri):
                try:
                    self._page = await RedirectPage.listen(self.redirect_uri)
                except OSError as error:
                    if self.on_url is None:
                        raise AuthError(
                            f"cannot listen at {shown(self.redirect_uri)} for the redirect of the "
                            f"login: {error.strerror}. Leave redirect_uri out to use a free port"
                        ) from None
            return self.redirect_uri
        for uri in step.preferred:
            if listens_at(uri):
                with suppress(OSError):
                    self._page = await RedirectPage.listen(uri)
                    return uri
        self._page = await RedirectPage.listen()
        return self._page.uri

    async def consent(self, step: Consent) -> Redirected:
        """Have the person open the step's URL, and wait for the redirect.

        Raises ``AuthError`` if the URL must not be opened, or there is neither a browser nor a
        terminal. It is also raised if the redirect belongs to another login, or after ``seconds``.
        """
        attempt = _Attempt(step, self._page)
        try:
            if (reason := refused_url(step.url, self.http_hosts)) is not None:
                _log.warning("%s: suspicious login page: %s", step.server, reason)
                raise AuthError(
                    f"the authorization server's page was not opened: {reason}", server=step.server
                )
            with anyio.move_on_after(self.seconds):
                await attempt.wait(self._present)
        finally:
            await self.aclose()
        if attempt.params is None:
            raise _not_finished(step.url, self.seconds, step.server)
        return Redirected(attempt.params)

    async def show_code(self, login: DeviceLogin) -> None:
        """Show a person where to log in. Raises ``AuthError`` if that is not possible."""
        await self.aclose()  # no redirect will come
        _log.info("%s: a login is needed at %s", login.server, shown_host(login.url))
        self._until = anyio.current_time() + self.seconds
        with anyio.move_on_after(self.seconds) as scope:
            await self._show(login)
        if scope.cancelled_caught:
            raise _not_finished(login.url, self.seconds, login.server)

    async def _show(self, login: DeviceLogin) -> None:
        if self.on_device is not None:
            self._end_of_code = await _call_host(self.on_device, login, "on_device", login.server)
            return
        if (reason := why_no_terminal()) is not None:
            raise AuthError(
                f"a login at {shown_host(login.url)} is needed, and {reason} to show its code at",
                advice=Advice(
                    "give OAuth(on_device=...), a function that shows it to a person", "program"
                ),
                server=login.server,
            )
        await write_notice(_code_to_type(login))

    async def wait(self, login: DeviceLogin, seconds: float) -> None:
        """Wait for the person who was shown ``login``.

        Raises ``AuthError`` if a login may not take that long.
        """
        if anyio.current_time() + seconds > self._until:
            raise _not_finished(login.url, self.seconds, login.server)
        await anyio.sleep(seconds)

    def hide_code(self) -> None:
        """Notify the function that showed the code that the login has ended."""
        end, self._end_of_code = self._end_of_code, None
        if not callable(end):
            return
        try:
            end()
        except Exception:  # noqa: BLE001 - it cannot undo how the login ended
            _log.warning(
                "what on_device() returned, to be called at the end, raised", exc_info=True
            )

    async def aclose(self) -> None:
        """Stop listening."""
        page, self._page = self._page, None
        if page is not None:
            await page.aclose()

    async def _present(self, attempt: _Attempt) -> None:
        """Show the URL to the person.

        Returns when only the redirect page can still end the login.
        """
        step = attempt.step
        _log.info("%s: a login is needed at %s", step.server, shown_host(step.url))
        if self.on_url is not None:
            await _ask_host(self.on_url, attempt)
        else:
            opened = not self.headless and await _opened(step.url)
            if not opened or why_no_terminal() is None:
                await _ask_at_terminal(attempt, opened=opened)
        if attempt.params is None and not attempt.listens:
            raise AuthError(
                f"nothing here receives the redirect to {shown(step.redirect_uri)}",
                advice=Advice(
                    "give a redirect_uri on this machine, or an on_url= that returns the address "
                    "at which the browser ended",
                    "program",
                ),
                server=step.server,
            )


class _Attempt:
    """A login under way. The first redirect that belongs to it ends it."""

    def __init__(self, step: Consent, page: RedirectPage | None) -> None:
        self.step = step
        self.params: Mapping[str, str] | None = None
        self.listens = page is not None
        self._page = page
        self._failure: McpError | None = None

    async def wait(self, present: Callable[[_Attempt], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as tasks:

            async def listen() -> None:
                if self._page is not None:
                    self.params = await self._page.wait(self.step.state)
                    tasks.cancel_scope.cancel()

            async def ask() -> None:
                try:
                    await present(self)
                except McpError as error:
                    self._failure = error
                except Exception as error:  # noqa: BLE001 - a terminal that was closed
                    self._failure = AuthError(f"the login cannot be shown: {type(error).__name__}")
                if self.params is not None or self._failure is not None:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(listen)
            tasks.start_soon(ask)
        if self.params is None and self._failure is not None:
            raise self._failure

    def accept(self, address: str) -> str | None:
        """Accept the address at which a browser ended. Returns why it is not this login's."""
        base, _, query = address.strip().partition("?")
        if base != self.step.redirect_uri.partition("?")[0]:
            return f"it does not begin with {self.step.redirect_uri}"
        found = read_redirect(query.partition("#")[0], self.step.state)
        if isinstance(found, str):
            return found
        self.params = found
        return None


def shown_host(url: str) -> str:
    """Return the host of ``url`` as shown to a person, with a warning if it is ambiguous.

    An international name may look like another one.
    """
    host = safe_text(urlsplit(url).netloc, 120)
    if any(label.startswith("xn--") for label in host.lower().split(".")):
        return f"{host} (an international name, which may look like another one)"
    return host


def _check_redirect_uri(uri: str) -> None:
    parts = urlsplit(uri)
    if refused_url(uri) is not None or "#" in uri or (parts.scheme == "http" and not parts.port):
        raise ConfigError(
            f"redirect_uri={safe_text(shown(uri), 100)!r}: give http://127.0.0.1:PORT/PATH, or an "
            "https URL without a fragment"
        )


def _not_finished(url: str, seconds: float, server: str) -> AuthError:
    return AuthError(
        f"the login at {shown_host(url)} was not finished within {seconds:g} s",
        server=server,
        retryable=True,
    )


# ------------------------------------------------------------- host, browser, terminal


async def _ask_host(on_url: OnUrl, attempt: _Attempt) -> None:
    step = attempt.step
    address = await _call_host(on_url, step.url, "on_url", step.server)
    if address is None:
        return
    reason = attempt.accept(address) if isinstance(address, str) else "it is not a string"
    if reason is not None:
        raise AuthError(
            "the address that the function given as on_url returned is not the redirect of this "
            f"login: {reason}",
            server=step.server,
        )


async def _call_host(
    function: Callable[[Any], Any], argument: Any, option: str, server: str
) -> Any:
    """Return the result of a host's function, async or sync. Raises ``AuthError`` if it raises."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(argument)
        # In a list, because trio refuses threads that return a bare coroutine.
        (result,) = await in_daemon_thread(lambda: [function(argument)])
        return await result if inspect.isawaitable(result) else result
    except McpError:
        raise
    except Exception as error:
        raise AuthError(
            f"the function given as {option} raised {type(error).__name__}", server=server
        ) from error


def has_browser() -> bool:
    """Whether a browser of this machine would show its window to the person at the terminal."""
    if "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ:
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


async def _opened(url: str) -> bool:
    """Open ``url`` in a browser, and return whether that worked.

    The browser runs in a daemon thread, because some browsers block it until they are closed.
    """
    opened: list[bool] = []

    def write_notice() -> None:
        import webbrowser

        try:
            browser = webbrowser.get()
            name = str(getattr(browser, "name", "")).rpartition("/")[2]
            opened.append(name not in _TEXT_BROWSERS and browser.open(url))
        except Exception:  # noqa: BLE001 - webbrowser.Error, or a browser that cannot be started
            opened.append(False)

    try:
        start_thread(write_notice, "mcp_client browser")
    except NoThread:
        return False
    while not opened:  # noqa: ASYNC110 - the thread knows no event loop
        await anyio.sleep(_POLL_SECONDS)
    return opened[0]


async def _ask_at_terminal(attempt: _Attempt, *, opened: bool) -> None:
    """Read the address at which the browser ended, in turn with other dialogues.

    If a browser was ``opened``, the redirect usually comes without that, so a wrong line does not
    end the login.
    """
    step = attempt.step
    if (reason := why_no_terminal()) is not None:
        raise AuthError(
            f"a login at {shown_host(step.url)} is needed, but a browser cannot be opened, and "
            f"{reason}",
            advice=Advice(
                "give OAuth(on_url=...), a function that shows the URL to a person", "terminal"
            ),
            server=step.server,
        )
    async with open_console() as console:
        print(_invitation(step, opened=opened), file=sys.stderr, flush=True)
        tries = 0
        while opened or tries < _MAX_PASTED:
            line = await console.ask("  > ")
            if line is None:
                break
            tries += 1
            if opened and not line.strip():
                continue
            reason = attempt.accept(line)
            if reason is None:
                return
            print(f"  That is not the redirect of this login: {reason}.", file=sys.stderr)
    raise AuthError("the login was cancelled at the terminal", server=step.server)


def _invitation(step: Consent, *, opened: bool) -> str:
    how = "in the browser that was opened, or by opening" if opened else "by opening"
    return (
        f"\n  Log in for   {safe_text(step.server, 80)}\n"
        f"  at           {shown_host(step.url)}\n"
        f"  {how}\n"
        f"  {step.url}\n"
        f"  {'If no response arrives, paste' if opened else 'Then paste'} the address at which the "
        "browser ended. It begins with\n"
        f"  {step.redirect_uri}?"
    )


def _code_to_type(login: DeviceLogin) -> str:
    minutes = max(1, round((login.expires_at - time.time()) / 60))
    asking = f"  asked by     {safe_text(login.issuer, 120)}\n" if login.issuer else ""
    warning = f"  Careful: {safe_text(login.warning, 400)}.\n" if login.warning else ""
    return (
        f"\n  Log in for   {safe_text(login.server, 80)}\n"
        f"{asking}"
        f"  at           {shown_host(login.url)}\n"
        f"  by opening   {login.url}\n"
        f"  with code    {login.code}\n"
        f"{warning}"
        f"  in any browser, within {minutes} min. Ctrl-C cancels.\n"
    )
