"""Logging in on another device, with the device flow of oidc-provider (npm)."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx
import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import ApprovalQueue, OAuth
from mcp_client.auth import DeviceLogin, FileTokens, code_request
from mcp_client.errors import AuthError
from tests.auth.driving import no_one
from tests.interop import http_peers
from tests.interop.logins import guarded, stored_login, use

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_NAMED = r'<input[^>]*name="([^"]+)" value="([^"]*)"'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider names no interval."""
    monkeypatch.setattr(code_request, "_INTERVAL_SECONDS", 1.0)


async def on_the_phone(url: str, code: str, *, abort: bool = False) -> None:
    """What a person does with another browser."""
    async with httpx.AsyncClient(trust_env=False, timeout=200, follow_redirects=True) as phone:
        page = await phone.get(url)
        while form := re.search(r'<form[^>]*action="([^"]*)"', page.text):
            data = {"user_code": code} | dict(re.findall(_NAMED, page.text))
            if "prompt" in data:
                data |= {"login": "ana", "password": "correct horse"}
            elif abort and "confirm" in data:
                await phone.post(urljoin(url, form[1]), data=data | {"abort": "yes"})
                return
            page = await phone.post(urljoin(url, form[1]), data=data)
        assert "Success" in page.text, page.text


async def agree(login: DeviceLogin, *, abort: bool = False) -> None:
    await on_the_phone(login.url, login.code, abort=abort)


async def test_a_login_a_refresh_and_a_logout(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.oidc_provider()) as server:
        await use(server.url, OAuth(store=FileTokens(path), device=True, on_device=agree))
        store, source, first = await stored_login(path, server.url)
        assert first.refresh_token is not None
        auth = OAuth(store=store, device=True, on_device=no_one)  # type: ignore[arg-type]
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, auth)
        second = await store.load(source.key)
        assert second is not None
        assert second.access_token != first.access_token
        assert await auth.logout(server.url)


@pytest.mark.parametrize("requires", ["nothing", "nonces"])
async def test_the_token_is_bound_to_a_key_where_the_server_wants_that(
    requires: str, tmp_path: Path
) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.oidc_provider(requires), dpop=True) as server:
        await use(server.url, OAuth(store=FileTokens(path), device=True, on_device=agree))
        assert (await stored_login(path, server.url))[2].token_type == "DPoP"


async def test_a_person_may_refuse() -> None:
    refuse = partial(agree, abort=True)
    async with guarded(http_peers.oidc_provider()) as server:
        with pytest.raises(AuthError, match="was refused there") as caught:
            await use(server.url, OAuth(device=True, on_device=refuse))
    assert caught.value.oauth_error == "access_denied"


@pytest.mark.parametrize("abort", [False, True])
async def test_a_login_is_in_the_queue_until_it_has_ended(abort: bool) -> None:
    queue = ApprovalQueue()

    async def on_the_page(login: DeviceLogin) -> Any:
        end = await queue.show_login(login)
        assert queue.logins == (login,)
        await agree(login, abort=abort)
        return end

    async with guarded(http_peers.oidc_provider()) as server:
        with pytest.raises(AuthError) if abort else nullcontext():
            await use(server.url, OAuth(device=True, on_device=on_the_page))
        assert queue.logins == ()
        with anyio.move_on_after(3) as scope:
            await use(server.url, OAuth(device=True, on_device=queue.show_login))
    assert scope.cancelled_caught
    assert queue.logins == ()


async def test_a_login_that_no_one_finishes_ends_with_the_callers_patience() -> None:
    async def look_away(login: DeviceLogin) -> None:
        pass

    async with guarded(http_peers.oidc_provider()) as server:
        with anyio.move_on_after(3) as scope:
            await use(server.url, OAuth(device=True, on_device=look_away))
    assert scope.cancelled_caught


# ------------------------------------------------------------------------- at a terminal


def shell(home: Path, *words: str) -> Any:
    """The command at a terminal of a machine that a user reached by SSH."""
    env: Any = {"HOME": str(home), "SSH_CONNECTION": "a 1 b 2", "TERM": "dumb", "PATH": "/usr/bin"}
    env["XDG_DATA_HOME"] = str(home / "data")
    argv = ["-m", "mcp_client", *words]
    options: Any = {"env": env, "encoding": "utf-8", "timeout": 200}
    # Ctrl-C reaches it, also where these tests run in the background of a shell.
    obeys = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return pexpect.spawn(sys.executable, argv, preexec_fn=obeys, **options)


async def displayed(screen: Any) -> tuple[str, str]:
    """The address and the code on the screen."""

    def read() -> tuple[str, str]:
        screen.expect(r"by opening +(\S+)\s+with code +(\S+)")
        return screen.match[1], screen.match[2]

    return await anyio.to_thread.run_sync(read)


async def ended(screen: Any) -> tuple[int, str]:
    text = await anyio.to_thread.run_sync(lambda: screen.read())
    screen.close()
    return screen.exitstatus, text


@pytest.mark.one_backend  # it runs in another process
async def test_a_code_is_shown_at_the_terminal_and_the_login_is_stored(tmp_path: Path) -> None:
    async with guarded(http_peers.oidc_provider()) as server:
        screen = shell(tmp_path, "login", server.url)
        await on_the_phone(*await displayed(screen))
        code, text = await ended(screen)
        assert (code, "logged in" in text) == (0, True), text
        code, text = await ended(shell(tmp_path, "tools", server.url))
        assert (code, "echo" in text) == (0, True), text


@pytest.mark.one_backend
async def test_it_can_be_given_up_at_the_terminal(tmp_path: Path) -> None:
    async with guarded(http_peers.oidc_provider()) as server:
        screen = shell(tmp_path, "login", server.url)
        url, code = await displayed(screen)
        screen.sendintr()
        assert (await ended(screen))[0] == 130
        # The code that was given up leads to nothing here.
        await on_the_phone(url, code)
        assert (await ended(shell(tmp_path, "tools", server.url)))[0] == 6


@pytest.mark.one_backend
async def test_it_can_be_refused_on_the_other_device(tmp_path: Path) -> None:
    async with guarded(http_peers.oidc_provider()) as server:
        screen = shell(tmp_path, "login", server.url)
        await on_the_phone(*await displayed(screen), abort=True)
        code_of_exit, text = await ended(screen)
        assert (code_of_exit, "was refused there" in text) == (6, True), text
