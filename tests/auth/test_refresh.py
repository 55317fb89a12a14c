"""A refresh token is spent once, although others try: tasks, processes, and the dead."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError, HttpServer, McpError, OAuth, connect
from mcp_client.auth.single_flight import SharedTask, refresh_once
from mcp_client.auth.store import FileTokens, MemoryTokens, TokenStore
from mcp_client.auth.tokens import Key, Token
from mcp_client.errors import AuthError, StateError
from mcp_client.runtime.event_loop import current
from mcp_client.runtime.pausable_clock import PausableClock
from mcp_client.state import PostgresState
from tests.support.authorization import World, guarded
from tests.support.http_server import Reply, Request
from tests.support.timing import Clock, quickly

pytestmark = pytest.mark.usefixtures("http_way")

KEY = Key("https://as.example", "https://mcp.example/mcp", "the-client")
FIRST = Token("at-1", refresh_token="rt-1", expires_at=0.0)


class Endpoint:
    """Rotates: a client with a refresh token that was spent loses the grant."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.valid = "rt-1"
        self.error: Exception | None = None
        self.at_work = anyio.Event()
        self.resume = anyio.Event()
        self.resume.set()

    async def __call__(self, stale: Token) -> Token:
        assert stale.refresh_token is not None
        self.asked.append(stale.refresh_token)
        self.at_work.set()
        await self.resume.wait()
        if self.error is not None:
            raise self.error
        if stale.refresh_token != self.valid:
            self.valid = "none any more"
            raise AuthError("spent twice", oauth_error="invalid_grant")
        number = int(self.valid.removeprefix("rt-")) + 1
        self.valid = f"rt-{number}"
        return Token(f"at-{number}", refresh_token=self.valid)


@pytest.fixture(params=["memory", "file", "database"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TokenStore]:
    if request.param == "database":
        state = PostgresState(request.getfixturevalue("database"), key=STATE_KEY)
        yield state.tokens
        state.close()
    elif request.param == "memory":
        yield MemoryTokens()
    else:
        yield FileTokens(tmp_path / "own" / "tokens.json")


async def no_one_is_refreshing(store: TokenStore) -> bool:
    mark = await store.claim(KEY, 0)
    return mark is not None


async def test_twenty_tasks_refresh_once_and_all_have_the_new_token(store: TokenStore) -> None:
    await store.save(KEY, FIRST)
    endpoint, got = Endpoint(), []

    async def task() -> None:
        got.append(await refresh_once(store, KEY, FIRST, endpoint))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(task)
    assert endpoint.asked == ["rt-1"]
    assert {token.access_token for token in got} == {"at-2"}
    assert await store.load(KEY) == got[0]
    assert await no_one_is_refreshing(store)


async def test_a_token_that_another_process_refreshed_is_used_without_a_request(
    store: TokenStore,
) -> None:
    newer = Token("at-9", refresh_token="rt-9")
    await store.save(KEY, newer)
    endpoint = Endpoint()
    assert await refresh_once(store, KEY, FIRST, endpoint) == newer
    assert endpoint.asked == []


async def test_a_newer_token_that_is_stale_too_is_refreshed_and_not_the_older(
    store: TokenStore,
) -> None:
    endpoint = Endpoint()
    endpoint.valid = "rt-5"
    await store.save(KEY, Token("at-5", refresh_token="rt-5", expires_at=1.0))
    assert (await refresh_once(store, KEY, FIRST, endpoint)).access_token == "at-6"
    assert endpoint.asked == ["rt-5"]


async def test_a_token_the_store_never_had_is_refreshed_and_stored(store: TokenStore) -> None:
    token = await refresh_once(store, KEY, FIRST, Endpoint())
    assert await store.load(KEY) == token


async def test_nothing_is_locked_while_the_server_is_asked(store: TokenStore) -> None:
    await store.save(KEY, FIRST)
    endpoint = Endpoint()
    endpoint.resume = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refresh_once, store, KEY, FIRST, endpoint)
        await endpoint.at_work.wait()
        other = Key("https://other.example", KEY.resource, KEY.client)
        await store.save(other, Token("at-other"))
        assert await store.load(other) == Token("at-other")
        assert await store.claim(other, 60) is not None
        assert await store.claim(KEY, 60) is None
        endpoint.resume.set()


async def test_a_refresh_that_fails_leaves_the_token_and_no_mark(store: TokenStore) -> None:
    await store.save(KEY, FIRST)
    endpoint = Endpoint()
    endpoint.error = AuthError("busy", retryable=True)
    with pytest.raises(AuthError, match="busy"):
        await refresh_once(store, KEY, FIRST, endpoint)
    assert await store.load(KEY) == FIRST
    assert await no_one_is_refreshing(store)


async def test_a_refresh_that_is_under_way_is_not_lost_when_its_caller_is_cancelled(
    store: TokenStore,
) -> None:
    await store.save(KEY, FIRST)
    endpoint = Endpoint()
    endpoint.resume = anyio.Event()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancels() -> None:
                await endpoint.at_work.wait()
                scope.cancel()
                endpoint.resume.set()

            tasks.start_soon(cancels)
            await refresh_once(store, KEY, FIRST, endpoint)
    assert scope.cancelled_caught
    stored = await store.load(KEY)
    assert stored is not None
    assert (stored.access_token, stored.refresh_token) == ("at-2", "rt-2")
    assert await no_one_is_refreshing(store)


async def test_a_refresh_without_a_response_ends_soon_after_its_caller(
    store: TokenStore, clock: Clock
) -> None:
    await store.save(KEY, FIRST)
    endpoint = Endpoint()
    endpoint.resume = anyio.Event()
    async with quickly(clock), anyio.create_task_group() as tasks:
        tasks.start_soon(refresh_once, store, KEY, FIRST, endpoint)
        await endpoint.at_work.wait()
        tasks.cancel_scope.cancel()
    assert await store.load(KEY) == FIRST
    assert await no_one_is_refreshing(store)


async def test_an_exception_of_a_refresh_is_raised_unchanged(store: TokenStore) -> None:
    endpoint = Endpoint()
    endpoint.error = LookupError("of the host's own store")
    with pytest.raises(LookupError, match="of the host's own store"):
        await refresh_once(store, KEY, FIRST, endpoint)
    assert await no_one_is_refreshing(store)


async def test_an_ended_grant_costs_one_request_for_all_that_wait(
    store: TokenStore,
) -> None:
    await store.save(KEY, FIRST)
    endpoint = Endpoint()
    endpoint.error = AuthError("it was revoked", oauth_error="invalid_grant")
    endpoint.resume = anyio.Event()
    reported: list[str | None] = []

    async def task(store: Any) -> None:
        with pytest.raises(AuthError) as caught:
            await refresh_once(store, KEY, FIRST, endpoint)
        reported.append(caught.value.oauth_error)

    waiters = [Claims(store) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(task, store)
        await endpoint.at_work.wait()
        for waiter in waiters:
            tasks.start_soon(task, waiter)
        for waiter in waiters:
            await waiter.refused.wait()
        endpoint.resume.set()
    assert reported == ["invalid_grant"] * 4
    assert endpoint.asked == ["rt-1"]
    assert await store.load(KEY) is None


class Claims(TokenStore):
    """A store that reports when it was found that another process is refreshing."""

    def __init__(self, store: TokenStore) -> None:
        super().__init__(store._state)
        self.refused = anyio.Event()

    async def claim(self, key: Key, seconds: float) -> str | None:
        mark = await super().claim(key, seconds)
        if mark is None:
            self.refused.set()
        return mark


async def test_waiting_for_another_processes_refresh_is_bounded(store: TokenStore) -> None:
    class Busy(Claims):
        async def claim(self, key: Key, seconds: float) -> str | None:
            return None

    endpoint = Endpoint()
    with pytest.raises(AuthError, match="another process is refreshing this token") as caught:
        await refresh_once(Busy(store), KEY, FIRST, endpoint, claim=0.01)
    assert caught.value.retryable
    assert endpoint.asked == []


@pytest.mark.parametrize("error", [ConfigError("the disk is full"), StateError("it is down")])
async def test_a_token_that_cannot_be_stored_is_still_used(
    error: McpError, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(MemoryTokens):
        async def save(self, key: Key, token: Token) -> None:
            raise error

        async def release(self, key: Key, mark: str) -> None:
            raise error

    token = await refresh_once(Full(), KEY, FIRST, Endpoint())
    assert token.access_token == "at-2"
    assert f"could not be stored; it is lost at exit: {error}" in caplog.text
    assert "rt-" not in caplog.text


# ------------------------------------------------------------------ several processes

DIES = """
import os, signal, sys, anyio
from mcp_client.auth.store import FileTokens
from mcp_client.auth.tokens import Key
async def main(path, *key):
    assert await FileTokens(path).claim(Key(*key), 1.0)
    os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.slow
async def test_the_mark_of_a_process_that_died_runs_out(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    store = FileTokens(path)
    await store.save(KEY, FIRST)
    words = [sys.executable, "-c", DIES, str(path), KEY.issuer, KEY.resource, KEY.client]
    done = await anyio.run_process(words, check=False)
    assert done.returncode == -9, done.stderr.decode()
    endpoint = Endpoint()
    assert (await refresh_once(store, KEY, FIRST, endpoint)).access_token == "at-2"
    assert endpoint.asked == ["rt-1"]


STATE_KEY = b"0123456789abcdef"


def store_at(address: str) -> TokenStore:
    """In a database, or a file."""
    if address.startswith("postgresql:"):
        return PostgresState(address, key=STATE_KEY).tokens
    return FileTokens(address)


async def test_machines_whose_clocks_differ_do_not_refresh_at_once(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, other = PostgresState(database), PostgresState(database)
    mark = await state.tokens.claim(KEY, 45)
    assert mark is not None
    monkeypatch.setattr(TokenStore, "_clock", staticmethod(lambda: time.time() + 3_600))
    assert await other.tokens.claim(KEY, 45) is None
    await other.tokens.release(KEY, mark)
    assert await other.tokens.claim(KEY, 45) is not None
    state.close()
    other.close()


CALLS = """
import sys, anyio
from mcp_client import HttpServer, OAuth, Timeouts, connect
from tests.auth.test_refresh import store_at
from tests.support.timing import Clock, quickly
async def no_one(url):
    raise SystemExit("a person was asked")
async def main(url, path):
    auth = OAuth(on_url=no_one, store=store_at(path))
    patient = Timeouts(connect=50, idle=50)
    async with connect(HttpServer(url, auth=auth), timeouts=patient) as session:
        print(*[tool.name for tool in await session.list_tools()])
anyio.run(main, *sys.argv[1:])
"""


class Gate:
    """Lets requests through to the guarded server when ``many`` of them have come."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.world: World
        self.shut = False
        self._come = 0
        self._all_here = anyio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if self.shut and not self._all_here.is_set():
            self._come += 1
            if self._come == self.many:
                self._all_here.set()
            await self._all_here.wait()
        await self.world._guarded(request, reply)


@asynccontextmanager
async def logged_in(address: str, gate: Gate) -> AsyncIterator[World]:
    """A world in which a person logged in once, and the access token is worth nothing now."""
    async with guarded(pages={"/mcp": gate}) as world:
        gate.world = world
        auth = OAuth(on_url=world.agree, store=store_at(address))
        async with connect(HttpServer(world.url, auth=auth)) as session:
            await session.list_tools()
        world.revoke()
        yield world


@pytest.mark.one_backend  # the processes run on asyncio
@pytest.mark.parametrize(
    ("where", "many"), [("file", 2), pytest.param("database", 8, marks=pytest.mark.slow)]
)
async def test_processes_that_refresh_at_once_spend_the_refresh_token_once(
    where: str, many: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = str(tmp_path / "own" / "tokens.json")
    if where == "database":
        address = request.getfixturevalue("database")
    gate = Gate(many)
    async with logged_in(address, gate) as world:
        gate.shut = True
        reported: list[bytes] = []

        async def run() -> None:
            words = [sys.executable, "-c", CALLS, world.url, address]
            done = await anyio.run_process(words, stderr=PIPE, check=False)
            assert done.returncode == 0, done.stderr.decode()[-2000:]
            reported.append(done.stdout)

        async with anyio.create_task_group() as tasks:
            for _ in range(many):
                tasks.start_soon(run)
        assert len(reported) == many
        assert len(set(reported)) == 1
        grants = [form["grant_type"] for form in world.forms("/token")]
        assert grants == ["authorization_code", "refresh_token"]
        assert len(world.consents) == 1
        source = await store_at(address).recall(world.url)
        assert source is not None
        stored = await store_at(address).load(source.key)
        assert stored is not None
        assert stored.access_token in world.tokens
        assert stored.refresh_token in world.refresh_tokens


async def test_who_waits_for_a_login_spends_no_time_while_a_person_is_asked() -> None:
    joined, asked, answered = anyio.Event(), anyio.Event(), anyio.Event()

    async def work(task: SharedTask) -> None:
        await joined.wait()
        with task.paused():
            asked.set()
            await answered.wait()

    early, late = [PausableClock(current().now) for _ in range(2)]
    login = SharedTask("s")
    login.start(work)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.join, early)
        await anyio.wait_all_tasks_blocked()
        assert not early.is_paused
        joined.set()
        await asked.wait()
        tasks.start_soon(login.join, late)
        await anyio.wait_all_tasks_blocked()
        assert (early.is_paused, late.is_paused) == (True, True)
        answered.set()
    assert (early.is_paused, late.is_paused) == (False, False)
