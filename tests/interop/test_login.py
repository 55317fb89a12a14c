"""A person logs in with a real browser at an authorization server that is not ours.

The browser is Chromium, the servers are the official SDK's: what it publishes, registers, asks and
checks is theirs. Tokens are stored in a file, and each run has a client of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.auth import FileTokens
from tests.interop import chromium, http_peers, peers

pytestmark = pytest.mark.interop

ROOT = Path(__file__).resolve().parents[2]
NEW_YORK = "New York: 22.5 °C"


class Person:
    """Logs in with a browser each time she is asked to, and remembers what she saw."""

    def __init__(self) -> None:
        self.found = peers.chromium()
        self.pages: list[str] = []

    async def __call__(self, url: str) -> None:
        # Not waited for: the answer comes to the redirect URI, and this takes the time it takes.
        await anyio.to_thread.run_sync(self._log_in, url)

    def _log_in(self, url: str) -> None:
        with chromium.browsing(*self.found) as page:
            self.pages.append(chromium.log_in(page, url, "ana", "correct horse"))


@asynccontextmanager
async def a_run(url: str, tokens: Path, person: Any) -> AsyncIterator[Any]:
    """A session as a new process would open it: nothing is known but what the file holds."""
    auth = OAuth(client_name="Login test", store=FileTokens(tokens), on_url=person)
    server = HttpServer(url, auth=auth)
    async with connect(server, approval=allow_all) as session:
        yield session


async def weather(session: Any) -> str:
    result = await session.call_tool("get_weather", {"location": "New York"})
    return str(result.text)


async def seen(url: str) -> dict[str, int]:
    return await _asked("GET", url.replace("/mcp", "/seen"))


async def _asked(method: str, url: str) -> dict[str, int]:
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        counts: dict[str, int] = (await client.request(method, url)).json()
        return counts


async def no_one(url: str) -> None:
    raise AssertionError("a browser was wanted")


async def test_a_login_once_and_then_tokens_until_they_are_gone(tmp_path: Path) -> None:
    person, tokens = Person(), tmp_path / "kept" / "tokens.json"
    async with http_peers.guarded() as url:
        async with a_run(url, tokens, person) as session:
            assert await weather(session) == NEW_YORK
        assert await seen(url) == {"logins": 1, "refreshes": 0, "clients": 1}
        assert len(person.pages) == 1
        assert "close this window" in person.pages[0]

        async with a_run(url, tokens, no_one) as session:
            assert await weather(session) == NEW_YORK
            assert (await seen(url))["refreshes"] == 0
            await _asked("POST", url.replace("/mcp", "/expire"))
            assert await weather(session) == NEW_YORK
        assert await seen(url) == {"logins": 1, "refreshes": 1, "clients": 1}
    assert tokens.stat().st_mode & 0o777 == 0o600
    assert tokens.parent.stat().st_mode & 0o777 == 0o700


async def test_a_token_that_is_over_is_refreshed_before_it_is_used(tmp_path: Path) -> None:
    person, tokens = Person(), tmp_path / "kept" / "tokens.json"
    async with http_peers.guarded() as url:
        async with a_run(url, tokens, person) as session:
            assert await weather(session) == NEW_YORK
        await let_it_be_over(url, FileTokens(tokens))
        async with a_run(url, tokens, no_one) as session:
            # To the server it is good yet: it is we who remember when it ends.
            assert await weather(session) == NEW_YORK
        assert await seen(url) == {"logins": 1, "refreshes": 1, "clients": 1}


async def let_it_be_over(url: str, store: FileTokens) -> None:
    source = await store.recall(url)
    assert source is not None
    token = await store.load(source.key)
    assert token is not None
    await store.save(source.key, replace(token, expires_at=time.time() - 1))


def test_the_example_opens_the_browser_once(tmp_path: Path) -> None:
    env = {
        **os.environ,
        **chromium.as_program(*peers.chromium()),
        "PYTHONPATH": str(ROOT),
        "XDG_DATA_HOME": str(tmp_path),
    }

    def run(url: str, **more: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(ROOT / "examples" / "hosting" / "log_in.py"), url]
        return subprocess.run(
            words,
            env={**env, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    async def runs() -> tuple[list[Any], dict[str, int]]:
        async with http_peers.guarded() as url:
            done = [await anyio.to_thread.run_sync(run, url)]
            env["BROWSER"] = "false"
            done.append(await anyio.to_thread.run_sync(run, url))
            return done, await seen(url)

    done, counts = anyio.run(runs)
    for each in done:
        assert (each.returncode, each.stdout) == (0, f"{NEW_YORK}\n"), each.stderr
    assert counts == {"logins": 1, "refreshes": 0, "clients": 1}
    stored = json.loads((tmp_path / "mcp-client" / "tokens.json").read_text())
    assert stored
