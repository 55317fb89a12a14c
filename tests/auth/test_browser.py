"""A person is brought before a login, and one answer comes back; nothing else is taken for it."""

from __future__ import annotations

import errno
import json
import logging
import os
import shlex
import subprocess
import sys
import urllib.request
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pexpect  # type: ignore[import-untyped]
import pytest
from anyio.abc import SocketAttribute
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError
from mcp_client.auth import browser, redirect
from mcp_client.auth.browser import Browser, shown_host
from mcp_client.auth.redirect import RedirectPage, listens_at, read_redirect, response_to
from mcp_client.auth.steps import Consent, Listen
from mcp_client.errors import AuthError
from tests.support.properties import examples
from tests.support.timing import Clock

URI = "http://127.0.0.1:5000/callback"
STATE = "st-4711"
PAGE = "https://as.example.com/authorize?client_id=c&state=st-4711"


def head(
    target: str = f"/callback?code=c1&state={STATE}", *lines: str, method: str = "GET"
) -> bytes:
    return "\r\n".join(
        [f"{method} {target} HTTP/1.1", *(lines or ["Host: 127.0.0.1:5000"])]
    ).encode()


def consent(uri: str, url: str = PAGE) -> Consent:
    return Consent(url, uri, STATE, "files")


async def fetched(url: str, method: str = "GET", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=None, verify=False) as client:
        return await client.request(method, url, headers=headers)


# --------------------------------------------------------------------- what is an answer


def test_a_redirect_with_the_state_of_this_login_is_accepted() -> None:
    response = response_to(
        head(f"/callback?code=a%2Bb&state={STATE}&iss=https%3A%2F%2Fas"), URI, STATE
    )
    assert response.status == 200
    assert response.params == {"code": "a+b", "state": STATE, "iss": "https://as"}


def test_an_error_redirect_of_the_authorization_server_ends_the_login() -> None:
    response = response_to(head(f"/callback?error=access_denied&state={STATE}"), URI, STATE)
    assert response.params == {"error": "access_denied", "state": STATE}
    assert "not logged in" in response.text


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (head("/favicon.ico"), 404),
        (head("/"), 404),
        (head(f"/callback/?code=c&state={STATE}"), 404),
        (head(f"//callback?code=c&state={STATE}"), 404),
        (head(f"http://127.0.0.1:5000/callback?code=c&state={STATE}"), 404),
        (head(method="POST"), 405),
        (head(method="HEAD"), 405),
        (head(method="OPTIONS"), 405),
        (head("/callback"), 400),
        (head("/callback?code=c"), 400),
        (head("/callback?code=c&state="), 400),
        (head("/callback?code=c&state=other"), 400),
        (head(f"/callback?code=c&state={STATE}x"), 400),
        (head(f"/callback?code=c&state={STATE}&state={STATE}"), 400),
        (head(f"/callback?code=c&code=d&state={STATE}"), 400),
        (head(f"/callback?state={STATE}"), 400),
        (head(f"/callback?code=c&error=e&state={STATE}"), 400),
        (head(f"/callback?code=%ff&state={STATE}"), 400),
        (head("/callback?" + "a=1&" * 100 + f"code=c&state={STATE}"), 400),
        (head(f"/callback?code=c&state={STATE}", "Host: evil.example.com:5000"), 421),
        (head(f"/callback?code=c&state={STATE}", "Host: localhost:5000"), 421),
        (head(f"/callback?code=c&state={STATE}", "Host: 127.0.0.1"), 421),
        (head(f"/callback?code=c&state={STATE}", "Host: 127.0.0.1:5001"), 421),
        (head(f"/callback?code=c&state={STATE}", "Accept: */*"), 421),
        (
            head(f"/callback?code=c&state={STATE}", "Host: 127.0.0.1:5000", "host: 127.0.0.1:5000"),
            421,
        ),
        (b"GET /callback", 400),
        (b"SSH-2.0-x", 400),
        (b"", 400),
    ],
)
def test_any_other_request_is_refused_and_does_not_end_the_login(
    request_head: bytes, status: int
) -> None:
    response = response_to(request_head, URI, STATE)
    assert (response.status, response.params) == (status, None)


@examples(300)
@given(st.binary(max_size=200), st.booleans())
def test_bytes_without_the_state_never_end_the_login(data: bytes, shaped: bool) -> None:
    if shaped:
        data = b"GET /callback?" + data.replace(b" ", b"") + b" HTTP/1.1\r\nHost: 127.0.0.1:5000"
    response = response_to(data, URI, "0123456789abcdef")
    assert response.params is None
    assert response.status in (400, 404, 405, 421)


@examples(200)
@given(st.text(max_size=80))
def test_any_text_as_a_query_is_read_or_refused(query: str) -> None:
    found = read_redirect(query, STATE)
    assert isinstance(found, str) or found["state"] == STATE


# ------------------------------------------------------------------- the page on this machine


async def answered(redirects: RedirectPage, *asks: Callable[[], Awaitable[Any]]) -> Any:
    found: list[Any] = []

    async def wait() -> None:
        found.append(await redirects.wait(STATE))

    async with aclosing(redirects), anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        for ask in asks:
            await ask()
    return found[0]


async def test_the_redirect_page_keeps_waiting_after_invalid_requests() -> None:
    redirects = await RedirectPage.listen()
    assert redirects.uri.startswith("http://127.0.0.1:")
    statuses: list[int] = []

    def ask(rest: str, method: str = "GET", **headers: str) -> Callable[[], Awaitable[None]]:
        async def asked() -> None:
            url = redirects.uri.replace("/callback", rest)
            statuses.append((await fetched(url, method, **headers)).status_code)

        return asked

    params = await answered(
        redirects,
        ask("/favicon.ico"),
        ask("/callback?code=forged&state=guessed"),
        ask(f"/callback?code=rebound&state={STATE}", Host="evil.example.com"),
        ask(f"/callback?code=posted&state={STATE}", "POST"),
        ask(f"/callback?code=right&state={STATE}"),
    )
    assert params["code"] == "right"
    assert statuses == [404, 400, 421, 405, 200]
    with pytest.raises(httpx.ConnectError):
        await fetched(f"{redirects.uri}?code=again&state={STATE}")


async def test_the_redirect_page_has_no_script_no_secret_and_is_not_cached() -> None:
    redirects = await RedirectPage.listen()
    pages: list[httpx.Response] = []

    async def ask() -> None:
        query = f"?code=%3Cscript%3Ealert%281%29%3C%2Fscript%3E&state={STATE}&hello=sailor"
        pages.append(await fetched(redirects.uri + query))

    assert (await answered(redirects, ask))["code"] == "<script>alert(1)</script>"
    page = pages[0]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["content-type"].startswith("text/html")
    for sent in ("script", "sailor", STATE):
        assert sent not in page.text
    assert "close this window" in page.text


async def test_a_silent_connection_does_not_block_the_redirect() -> None:
    redirects = await RedirectPage.listen()
    port = int(redirects.uri.split(":")[2].split("/")[0])

    async def ask() -> None:
        async with (
            await anyio.connect_tcp("127.0.0.1", port),
            await anyio.connect_tcp("127.0.0.1", port) as slow,
        ):
            await slow.send(b"GET /callback")
            assert (await fetched(f"{redirects.uri}?code=c&state={STATE}")).status_code == 200

    assert (await answered(redirects, ask))["code"] == "c"


class Connection:
    """A browser that ends as it is configured to."""

    def __init__(self, request: bytes, end: Exception | None = None) -> None:
        self._request = request + b"\r\n\r\n"
        self._end = end

    async def receive(self) -> bytes:
        return self._request

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        if self._end is not None:
            raise self._end

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


class Connections:
    def __init__(self, *connections: Connection) -> None:
        self._connections = connections

    async def serve(self, handler: Callable[[Any], Awaitable[None]]) -> None:
        for connection in self._connections:
            await handler(connection)
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    "end", [OSError(107, "not connected"), anyio.BrokenResourceError(), anyio.EndOfStream()]
)
async def test_a_connection_that_closes_in_the_middle_does_not_end_the_login(
    end: Exception,
) -> None:
    connections: Any = Connections(Connection(head("/favicon.ico"), end), Connection(head(), end))
    assert (await RedirectPage(URI, [connections]).wait(STATE))["code"] == "c1"


async def test_a_head_that_is_too_long_is_not_read() -> None:
    redirects = await RedirectPage.listen()

    def ask(code: str, **headers: str) -> Callable[[], Awaitable[None]]:
        async def asked() -> None:
            with suppress(httpx.TransportError):
                await fetched(f"{redirects.uri}?code={code}&state={STATE}", **headers)

        return asked

    params = await answered(redirects, ask("long", padding="x" * 40_000), ask("short"))
    assert params["code"] == "short"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_chosen_redirect_uri_is_listened_at(host: str) -> None:
    uri = f"http://{host}:{await free_port()}/oauth/back"
    redirects = await RedirectPage.listen(uri)

    async def ask() -> None:
        assert (await fetched(f"{uri}?code=c&state={STATE}")).status_code == 200

    assert (await answered(redirects, ask))["code"] == "c"


async def test_a_machine_without_ipv6_listens_at_its_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listen = redirect._listener

    async def without_ipv6(host: str, port: int) -> Any:
        if host == "::1":
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        return await listen(host, port)

    monkeypatch.setattr(redirect, "_listener", without_ipv6)
    page = await RedirectPage.listen(f"http://localhost:{await free_port()}/callback")

    async def ask() -> None:
        url = page.uri.replace("localhost", "127.0.0.1")
        host = urlsplit(page.uri).netloc
        await fetched(f"{url}?code=c&state={STATE}", host=host)

    assert (await answered(page, ask))["code"] == "c"


async def test_a_request_beside_the_redirect_does_not_change_the_response() -> None:
    late: Any = Connection(head("/favicon.ico"))

    class First(Connection):
        async def send(self, data: bytes) -> None:
            await page._serve(late, STATE)

    connections: Any = Connections(First(head()))
    page = RedirectPage(URI, [connections])
    assert (await page.wait(STATE))["code"] == "c1"


@pytest.mark.parametrize("uri", ["http://[::1/callback", "https://localhost/", "http://as.example"])
def test_what_is_not_http_to_this_machine_is_not_listened_at(uri: str) -> None:
    assert not listens_at(uri)


@pytest.mark.needs("IPv6")
async def test_no_other_program_may_listen_at_the_redirect_port() -> None:
    async with await anyio.create_tcp_listener(local_host="::1") as other:
        uri = f"http://localhost:{other.extra(SocketAttribute.local_port)}/callback"
        with pytest.raises(OSError, match="in use"):
            await RedirectPage.listen(uri)


async def free_port() -> int:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        return int(listener.extra(SocketAttribute.local_port))


# ------------------------------------------------------------------------------ the browser


class Fake:
    """A browser that goes where it is sent, and is redirected at once."""

    def __init__(self, redirect: str | None = None, opens: bool = True, name: str = "fake") -> None:
        self.name = name
        self.urls: list[str] = []
        self._redirect = redirect
        self._opens = opens

    def open(self, url: str) -> bool:
        self.urls.append(url)
        if self._redirect is not None:
            # To our own listener, on a free port of this machine.
            with urllib.request.urlopen(self._redirect) as page:
                page.read()
        return self._opens


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], Fake]:
    def installed(fake: Fake) -> Fake:
        monkeypatch.setattr(webbrowser, "get", lambda: fake)
        monkeypatch.setattr(browser, "why_no_terminal", lambda: "no terminal to ask at")
        return fake

    return installed


async def test_the_url_is_opened_and_the_redirect_is_the_response(
    install: Callable[[Fake], Fake], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    person = Browser()
    uri = await person.listen(Listen())
    fake = install(Fake(f"{uri}?code=very-secret&state={STATE}"))
    outcome = await person.consent(consent(uri))
    assert outcome.params["code"] == "very-secret"
    assert fake.urls == [PAGE]
    assert "as.example.com" in caplog.text
    for secret in ("very-secret", STATE):
        assert secret not in caplog.text + repr(outcome) + repr(consent(uri))


async def test_without_browser_or_terminal_the_error_names_the_option(
    install: Callable[[Fake], Fake],
) -> None:
    for fake in (Fake(opens=False), Fake(name="/usr/bin/lynx")):
        install(fake)
        person = Browser()
        uri = await person.listen(Listen())
        with pytest.raises(AuthError, match=r"on_url"):
            await person.consent(consent(uri))
        with pytest.raises(httpx.ConnectError):
            await fetched(uri)
    assert fake.urls == []


async def test_a_browser_that_cannot_be_started_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_browser() -> Any:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", no_browser)
    monkeypatch.setattr(browser, "why_no_terminal", lambda: "no terminal to ask at")
    person = Browser()
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match=r"a browser cannot be opened, and no terminal"):
        await person.consent(consent(uri))


async def test_headless_login_without_a_terminal_is_an_error_that_names_the_cause(
    install: Callable[[Fake], Fake],
) -> None:
    fake = install(Fake())
    person = Browser(headless=True)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match=r"on_url"):
        await person.consent(consent(uri))
    assert fake.urls == []


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://as.example.com/",
        "vscode://extension",
        "http://as.example.com/authorize",
        "http://192.168.0.1/authorize",
        "--version",
        "-https://as.example.com/",
        "https://as.example.com/ --flag",
        'https://as.example.com/";id;"',
        "https://as.example.com/'$(id)'",
        "https://as.example.com/`id`",
        "https://as.example.com/a|id",
        "https://as.example.com/\\..\\x",
        "https://as.example.com/\n",
        "https://as.example.com/\x1b[2J",
        "https://as.example.com/\u202egpj",
        "https://p\u0430ypal.example.com/",
        "https://user:pass@as.example.com/",
        "https://",
    ],
)
async def test_a_url_that_may_not_be_opened_is_not(
    url: str, install: Callable[[Fake], Fake]
) -> None:
    fake = install(Fake())
    seen: list[str] = []
    for person in (Browser(), Browser(on_url=seen.append), Browser(headless=True)):
        uri = await person.listen(Listen())
        with pytest.raises(AuthError, match="was not opened") as caught:
            await person.consent(consent(uri, url))
        assert str(caught.value).isprintable()
    assert fake.urls == seen == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://as.example.com/x", "as.example.com"),
        ("https://as.example.com:8443/x", "as.example.com:8443"),
        (
            "https://xn--ypal-43d9g.com/x",
            "xn--ypal-43d9g.com (an international name, which may look like another one)",
        ),
    ],
)
def test_the_host_is_shown_as_it_is(url: str, host: str) -> None:
    assert shown_host(url) == host


# ---------------------------------------------------------------------- the host's function


@pytest.mark.parametrize("form", ["sync", "async", "awaitable"])
async def test_a_function_may_return_where_the_browser_ended(form: str) -> None:
    seen: list[str] = []

    def address(url: str) -> str:
        seen.append(url)
        return f"{uri}?code=c&state={STATE}&iss=i#"

    async def later(url: str) -> str:
        await anyio.lowlevel.checkpoint()
        return address(url)

    on_url: Any = {"sync": address, "async": later, "awaitable": lambda url: later(url)}[form]
    person = Browser(on_url=on_url)
    uri = await person.listen(Listen())
    outcome = await person.consent(consent(uri))
    assert outcome.params == {"code": "c", "state": STATE, "iss": "i"}
    assert seen == [PAGE]


async def test_a_function_may_leave_the_response_to_the_redirect() -> None:
    async def on_url(url: str) -> None:
        tasks.start_soon(fetched, f"{uri}?code=c&state={STATE}")

    person = Browser(on_url=on_url)
    uri = await person.listen(Listen())
    async with anyio.create_task_group() as tasks:
        assert (await person.consent(consent(uri))).params["code"] == "c"


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ("{uri}?code=c&state=other", "another login"),
        ("{uri}?code=c", "another login"),
        ("{uri}?code=c&code=d&state=" + STATE, "repeated"),
        ("http://evil.example.com/callback?code=c&state=" + STATE, "does not begin with"),
        ("{uri}x?code=c&state=" + STATE, "does not begin with"),
        ("", "does not begin with"),
        (7, "not a string"),
    ],
)
async def test_what_a_function_returns_is_checked(returned: Any, why: str) -> None:
    def on_url(url: str) -> Any:
        return returned.replace("{uri}", uri) if isinstance(returned, str) else returned

    person = Browser(on_url=on_url)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match=why) as caught:
        await person.consent(consent(uri))
    assert "code=c" not in str(caught.value)


async def test_an_error_of_the_function_is_an_error_of_the_login() -> None:
    def on_url(url: str) -> str:
        raise KeyError("secret")

    person = Browser(on_url=on_url)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match="on_url raised KeyError") as caught:
        await person.consent(consent(uri))
    assert "secret" not in str(caught.value)


async def test_an_error_of_ours_that_the_function_raises_is_raised_as_it_is() -> None:
    given_up = AuthError("the person denied")

    def on_url(url: str) -> str:
        raise given_up

    person = Browser(on_url=on_url)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError) as caught:
        await person.consent(consent(uri))
    assert caught.value is given_up


async def test_a_login_that_is_not_finished_ends_after_its_timeout() -> None:
    person = Browser(on_url=lambda url: None, seconds=0.1)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match=r"the login at as\.example\.com") as caught:
        await person.consent(consent(uri))
    assert caught.value.retryable
    with pytest.raises(httpx.ConnectError):
        await fetched(uri)


async def test_a_login_can_be_cancelled() -> None:
    person = Browser(on_url=lambda url: None)
    uri = await person.listen(Listen())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(person.consent, consent(uri))
        while True:
            assert (await fetched(uri)).status_code == 400
            tasks.cancel_scope.cancel()
            break
    with pytest.raises(httpx.ConnectError):
        await fetched(uri)


# ------------------------------------------------------------------------- at the terminal


class Terminal:
    """One at which a person types ``lines``, and then ends the input."""

    def __init__(self, *lines: str | Exception) -> None:
        self.lines = list(lines)

    async def ask(self, prompt: str) -> str | None:
        await anyio.lowlevel.checkpoint()
        line = self.lines.pop(0) if self.lines else None
        if isinstance(line, Exception):
            raise line
        return line


def sit_at(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def console() -> AsyncIterator[Any]:
        yield terminal

    monkeypatch.setattr(browser, "open_console", console)
    monkeypatch.setattr(browser, "why_no_terminal", lambda: None)


@pytest.mark.parametrize("opened", [True, False])
async def test_a_line_that_is_not_the_redirect_is_asked_for_again(
    opened: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda: Fake(opens=opened))
    person = Browser()
    uri = await person.listen(Listen())
    terminal = Terminal("", "what?", f" {uri}?code=pasted&state={STATE} ")
    sit_at(terminal, monkeypatch)
    assert (await person.consent(consent(uri))).params["code"] == "pasted"
    output = capsys.readouterr().err
    assert ("in the browser that was opened" in output) is opened
    assert ("If no response arrives, paste the address" in output) is opened
    assert ("Then paste the address" in output) is not opened
    refusals = 1 if opened else 2  # where a browser was opened, an empty line is not an answer
    assert output.count("That is not the redirect of this login: it does not begin") == refusals


@pytest.mark.parametrize(
    ("lines", "left"), [(["what?"] * 4, 1), (["what?"], 0)], ids=["three lines", "end of input"]
)
async def test_a_login_is_given_up_at_the_terminal(
    lines: list[str], left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(*lines)
    sit_at(terminal, monkeypatch)
    person = Browser(headless=True)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match="cancelled at the terminal"):
        await person.consent(consent(uri))
    assert len(terminal.lines) == left


async def test_a_terminal_that_is_closed_ends_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    sit_at(Terminal(OSError(5, "the terminal of SECRET is gone")), monkeypatch)
    person = Browser(headless=True)
    uri = await person.listen(Listen())
    with pytest.raises(AuthError, match="the login cannot be shown: OSError") as caught:
        await person.consent(consent(uri))
    assert "SECRET" not in str(caught.value)


# ------------------------------------------------------------------------- the redirect URI


async def test_a_redirect_uri_of_an_earlier_registration_is_used_again() -> None:
    port, person = await free_port(), Browser()
    uri = f"http://127.0.0.1:{port}/callback"
    assert (await person.listen(Listen(("https://elsewhere.example.com/", uri)))) == uri
    other = Browser()
    assert (await other.listen(Listen((uri,)))) != uri
    await other.aclose()
    await person.aclose()


async def test_a_chosen_redirect_uri_that_is_taken_is_an_error() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        uri = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/callback"
        with pytest.raises(AuthError, match="Leave redirect_uri out"):
            await Browser(redirect_uri=uri).listen(Listen())
        # Whoever listens there may be the host itself, whose function has the answer.
        person = Browser(redirect_uri=uri, on_url=lambda url: f"{uri}?code=c&state={STATE}")
        assert (await person.listen(Listen())) == uri
        assert (await person.consent(consent(uri))).params["code"] == "c"


async def test_a_redirect_uri_on_another_host_needs_a_function_that_returns_the_redirect(
    install: Callable[[Fake], Fake],
) -> None:
    install(Fake())
    uri = "https://app.example.com/back"
    for person in (Browser(redirect_uri=uri), Browser(redirect_uri=uri, on_url=lambda url: None)):
        assert (await person.listen(Listen())) == uri
        with pytest.raises(AuthError, match="nothing here receives the redirect"):
            await person.consent(consent(uri))
    person = Browser(redirect_uri=uri, on_url=lambda url: f"{uri}?code=c&state={STATE}")
    await person.listen(Listen())
    assert (await person.consent(consent(uri))).params["code"] == "c"


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example.com/back",
        "http://127.0.0.1/callback",
        "https://app.example.com/back#here",
        "myapp://back",
        "not a url",
        "",
    ],
)
def test_an_invalid_redirect_uri_is_refused_when_it_is_given(uri: str) -> None:
    with pytest.raises(ConfigError, match="redirect_uri"):
        Browser(redirect_uri=uri)


async def test_many_idle_connections_do_not_delay_the_redirect(clock: Clock) -> None:
    clock.stop()  # an idle connection may stay open for ten seconds
    page = await RedirectPage.listen()
    parts = urlsplit(page.uri)
    found: list[Any] = []

    async def wait() -> None:
        found.append(await page.wait(STATE))

    async with aclosing(page), AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        for _ in range(200):
            idle = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
            await stack.enter_async_context(idle)
        await fetched(f"{page.uri}?code=real&state={STATE}")
    assert found[0]["code"] == "real"


# -------------------------------------------------------------------------- real processes

SCRIPT = """
import json, sys
import anyio
from mcp_client.errors import AuthError
from mcp_client.auth.browser import Browser
from mcp_client.auth.steps import Consent, Listen

options, url, backend = json.loads(sys.argv[1])

async def main():
    person = Browser(**options)
    uri = (await person.listen(Listen()))
    try:
        answer = await person.consent(Consent(url.replace("URI", uri), uri, "st-4711", "files"))
        print("RESULT", answer.params["code"])
    except AuthError as error:
        print("ERROR", error)

anyio.run(main, backend=backend)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


STUB = """
import sys, urllib.parse, urllib.request
url = sys.argv[1]
uri = urllib.parse.parse_qs(url.partition("?")[2])["redirect_uri"][0]
code = urllib.parse.quote(url)
urllib.request.urlopen(f"{uri}?code={code}&state=st-4711").read()
"""


@pytest.mark.slow
def test_the_browser_is_given_the_url_as_it_is_and_no_shell_sees_it(
    script: Path, tmp_path: Path
) -> None:
    stub, trap = tmp_path / "stub.py", tmp_path / "trap"
    stub.write_text(STUB)
    url = f"https://as.example.com/?a=$(touch${{IFS}}{trap})&b=;touch%20{trap}&redirect_uri=URI"
    url = url.replace("{", "(").replace("}", ")")
    done = subprocess.run(
        [sys.executable, str(script), json.dumps([{}, url, "asyncio"])],
        env={
            **os.environ,
            "BROWSER": f"{shlex.join([sys.executable, str(stub)])} %s",
            "no_proxy": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    opened = done.stdout.removeprefix("RESULT ").strip()
    assert opened.partition("redirect_uri=")[0] == url.partition("redirect_uri=")[0], done.stderr
    assert not trap.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
class TestAtATerminal:
    @pytest.fixture(params=["asyncio", "trio"])
    def screen(self, request: pytest.FixtureRequest, script: Path) -> Any:
        yield from self.started(script, {"headless": True}, request.param)

    @pytest.fixture
    def screen_without_browser(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("BROWSER", "false")
        yield from self.started(script, {}, "asyncio")

    @pytest.fixture
    def screen_with_browser(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A browser that is started and shows no window, as over X forwarding."""
        monkeypatch.setenv("BROWSER", "true")
        yield from self.started(script, {}, "asyncio")

    def started(self, script: Path, options: dict[str, Any], backend: str) -> Iterator[Any]:
        passed = json.dumps([options, PAGE, backend])
        child = pexpect.spawn(
            sys.executable,
            [str(script), passed],
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 500),
        )
        yield child
        child.close(force=True)

    def displayed(self, screen: Any) -> str:
        screen.expect_exact("  > ")
        return str(screen.before)

    def uri(self, displayed: str) -> str:
        return displayed.split("It begins with")[1].split("?")[0].strip()

    @pytest.mark.slow
    def test_the_url_is_printed_and_the_redirect_is_read_back(self, screen: Any) -> None:
        displayed = self.displayed(screen)
        for part in ("files", "as.example.com", PAGE):
            assert part in displayed
        uri = self.uri(displayed)
        screen.sendline(f"{uri}?code=c&state=another")
        assert "another login" in self.displayed(screen)
        screen.sendline(f"{uri}?code=from-the-terminal&state={STATE}")
        screen.expect_exact("RESULT from-the-terminal")

    @pytest.mark.slow
    def test_where_no_browser_opens_the_terminal_is_asked(
        self, screen_without_browser: Any
    ) -> None:
        screen = screen_without_browser
        displayed = self.displayed(screen)
        assert displayed.count(PAGE) == 1
        screen.sendline(f"{self.uri(displayed)}?code=typed&state={STATE}")
        screen.expect_exact("RESULT typed")

    @pytest.mark.slow
    def test_the_address_can_be_pasted_although_a_browser_was_opened(
        self, screen_with_browser: Any
    ) -> None:
        screen = screen_with_browser
        uri = self.uri(self.displayed(screen))
        for wrong in ("", "what?", "no", "still not"):
            screen.sendline(wrong)
            self.displayed(screen)
        screen.sendline(f"{uri}?code=pasted&state={STATE}")
        screen.expect_exact("RESULT pasted")

    @pytest.mark.slow
    def test_the_redirect_ends_the_question_at_the_terminal(self, screen_with_browser: Any) -> None:
        uri = self.uri(self.displayed(screen_with_browser))
        urllib.request.urlopen(f"{uri}?code=by-itself&state={STATE}").read()
        screen_with_browser.expect_exact("RESULT by-itself")

    @pytest.mark.slow
    def test_the_redirect_may_come_by_itself(self, screen: Any) -> None:
        uri = self.uri(self.displayed(screen))
        urllib.request.urlopen(f"{uri}?code=by-itself&state={STATE}").read()
        screen.expect_exact("RESULT by-itself")

    @pytest.mark.slow
    def test_three_wrong_replies_are_enough(self, screen: Any) -> None:
        for _ in range(3):
            self.displayed(screen)
            screen.sendline("what?")
        screen.expect_exact("ERROR")

    @pytest.mark.slow
    def test_the_end_of_input_ends_it(self, screen: Any) -> None:
        self.displayed(screen)
        screen.sendeof()
        screen.expect_exact("ERROR files: the login was cancelled at the terminal")
