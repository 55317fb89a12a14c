"""Tokens inside httpx.Auth: against real servers, from the first 401 to a call that succeeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import ConfigError, HttpServer, OAuth, Timeouts, allow_all, connect
from mcp_client.auth import MemoryTokens, Token
from mcp_client.auth.browser import OnUrl
from mcp_client.auth.token_manager import RequestContext, TokenManager
from mcp_client.auth.tokens import Key, Source
from mcp_client.errors import AuthError
from mcp_client.transports.http import HttpTransport
from tests.auth.driving import (
    AGAIN,
    ECHOED,
    OneManager,
    Person,
    call,
    grants,
    names,
    no_one,
    session_of,
)
from tests.support.authorization import World, guarded
from tests.support.http_apps import Handshake, Legacy, LibraryApp, Stateless
from tests.support.http_server import Reply, Request
from tests.support.library import Stateless as Library
from tests.support.timing import Clock

pytestmark = pytest.mark.usefixtures("http_way")

# ----------------------------------------------------------------------- the login


async def test_a_person_logs_in_once_and_every_request_carries_the_token() -> None:
    async with guarded() as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED
        (token,) = world.tokens
        mcp = [request for request in world.server.requests if request.path == "/mcp"]
        assert [r.headers.get("authorization") for r in mcp[:1]] == [None]
        assert {r.headers.get("authorization") for r in mcp[1:]} == {f"Bearer {token}"}
        assert len(world.consents) == 1


async def test_a_login_comes_before_a_session_of_the_handshake_era() -> None:
    async with guarded(Handshake()) as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED
        assert len(world.consents) == 1


async def test_over_http_and_sse_the_posts_carry_the_token_too() -> None:
    posted: list[str | None] = []

    async def messages(request: Request, reply: Reply) -> None:
        posted.append(request.headers.get("authorization"))
        await world.app(request, reply)

    async with guarded(Legacy(), pages={"/messages": messages}) as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED
        assert len(world.consents) == 1
        assert set(posted) == {f"Bearer {token}" for token in world.tokens}


async def test_a_second_run_needs_no_person_and_no_discovery() -> None:
    store = MemoryTokens()
    async with guarded() as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        before = len(world.authorization.requests)
        assert await call(world, OAuth(store=store, on_url=no_one)) == ECHOED
        assert len(world.authorization.requests) == before
        assert len(names(world)) == 2  # none, and the one token


async def test_a_login_for_one_server_is_not_used_at_another() -> None:
    auth = OAuth(on_url=(person := Person(no_one)))
    async with guarded() as first, guarded() as second:
        person.mind = first.agree
        await call(first, auth)
        person.mind = second.agree
        await call(second, auth)
        assert set(names(second)) == {"", *(f"Bearer {token}" for token in second.tokens)}


@pytest.mark.parametrize("app", [Stateless, Handshake, Legacy])
async def test_timeouts_are_paused_while_a_person_logs_in(app: Callable[[], Any]) -> None:
    times: list[float] = []
    deadlines: list[float] = []

    class Watched(OAuth):
        def _context(self, request: httpx.Request) -> tuple[RequestContext, TokenManager]:
            context, manager = super()._context(request)
            self.watch = context.clock
            return context, manager

    async def slowly(url: str) -> str:
        times.append(auth.watch.now())
        await anyio.sleep(0.05)
        times.append(auth.watch.now())
        deadlines.extend(scope.deadline for scope in auth.watch._scopes)
        return await world.agree(url)

    async def only_get(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await world._guarded(request, reply)
        else:
            await world.app(request, reply)

    pages = {"/mcp": only_get, "/messages": only_get} if app is Legacy else {}
    auth = Watched(on_url=slowly)
    async with guarded(app(), pages=pages) as world:
        assert await call(world, auth) == ECHOED
        assert times[0] == times[1]
        # Over HTTP and SSE there are two: for the stream, and for all of the opening.
        assert deadlines == [math.inf] * (2 if app is Legacy else 1)
        assert auth.watch.now() < anyio.current_time()


async def test_a_refusal_of_the_person_is_an_auth_error_and_nothing_was_sent() -> None:
    def refused(response: dict[str, Any]) -> dict[str, Any]:
        return {"error": "access_denied", "state": response["state"], "iss": response["iss"]}

    async with guarded(redirect=refused) as world:
        with pytest.raises(AuthError, match="access_denied") as caught:
            await call(world, OAuth(on_url=world.agree))
        assert caught.value.oauth_error == "access_denied"
        assert world.forms("/token") == []


async def test_a_login_ends_when_all_its_callers_are_cancelled() -> None:
    asked, left = anyio.Event(), anyio.Event()

    async def forever(url: str) -> str:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    auth = OAuth(on_url=(person := Person(forever)))
    async with guarded() as world:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, world, auth)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await left.wait()
        person.mind = world.agree
        assert await call(world, auth) == ECHOED


async def test_a_person_who_does_not_come_back_ends_the_login() -> None:
    auth = OAuth(on_url=lambda url: None)
    async with guarded() as world:
        with pytest.raises(AuthError, match="was not finished within"):
            async with session_of(world, auth, timeouts=Timeouts(approval=0.2)):
                pass


# --------------------------------------------------------------------- the refresh


async def test_an_expired_token_is_refreshed_before_it_is_sent() -> None:
    async with guarded(lifetime=0) as world:
        auth = OAuth(on_url=world.agree)
        await call(world, auth)
        assert len(world.consents) == 1
        assert set(grants(world)[1:]) == {"refresh_token"}
        refused = [grant for grant in world.tokens.values() if grant.revoked]
        assert refused == []


async def test_a_refused_token_is_refreshed_before_a_login_is_started() -> None:
    async with guarded() as world:
        auth = OAuth(on_url=world.agree)
        async with session_of(world, auth) as session:
            world.revoke()
            result = await session.call_tool("echo", {"text": "again"})
        assert result.text == AGAIN
        assert len(world.consents) == 1
        assert grants(world) == ["authorization_code", "refresh_token"]


@pytest.mark.parametrize("lost", ["refused", "refused too late"])
async def test_a_grant_that_is_over_needs_a_new_login(lost: str) -> None:
    async with guarded(lifetime=0 if lost == "refused" else 3600) as world:
        auth = OAuth(on_url=world.agree)
        async with session_of(world, auth) as session:
            world.refresh_tokens.clear()
            world.revoke()
            assert (await session.call_tool("echo", {"text": "again"})).text == AGAIN
        assert len(world.consents) == 2


async def test_a_token_without_a_refresh_token_is_used_while_it_is_good() -> None:
    async with guarded(refreshes=False, lifetime=40) as world:
        auth = OAuth(on_url=world.agree)
        await call(world, auth)
        await call(world, auth)
        assert len(world.consents) == 1


async def test_a_valid_token_is_used_while_the_authorization_server_is_down() -> None:
    async def down(request: Request, reply: Reply) -> None:
        await reply.send(503)

    def at(seconds: float, person: OnUrl) -> OAuth:
        auth = OAuth(store=store, on_url=person)
        auth._now = lambda: seconds
        return auth

    pages: dict[str, Any] = {}
    store = MemoryTokens()
    async with guarded(lifetime=3600, pages=pages) as world:
        await call(world, at(0, world.agree))
        pages["/token"] = down
        assert await call(world, at(3590, no_one)) == ECHOED
        with pytest.raises(AuthError, match="HTTP status 503") as caught:
            await call(world, at(3601, no_one))
        assert caught.value.retryable


async def test_the_token_of_a_refresh_is_stored_when_all_its_callers_are_cancelled() -> None:
    asked, go = anyio.Event(), anyio.Event()
    pages: dict[str, Any] = {}

    async def slow(request: Request, reply: Reply) -> None:
        asked.set()
        await go.wait()
        del pages["/token"]
        await world.answer(request, reply)

    async with guarded(pages=pages) as world:
        auth = OAuth(on_url=(person := Person(world.agree)))
        await call(world, auth)
        person.mind = no_one
        world.revoke()
        pages["/token"] = slow
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, world, auth)
            await asked.wait()
            tasks.cancel_scope.cancel()
        go.set()
        assert await call(world, auth) == ECHOED
        assert grants(world) == ["authorization_code", "refresh_token"]


# ------------------------------------------------------------------ many at once


async def all_at_once(world: World, auth: httpx.Auth, many: int) -> list[int]:
    """Requests sent at the same time, and their statuses."""
    statuses: list[int] = []
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async def one(client: httpx.AsyncClient) -> None:
        statuses.append((await client.post(world.url, json=message)).status_code)

    async with (
        httpx.AsyncClient(auth=auth, trust_env=False, timeout=30) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(many):
            tasks.start_soon(one, client)
    return statuses


async def test_requests_at_the_same_time_share_one_login_and_one_refresh() -> None:
    async with guarded() as world:
        auth = OAuth(on_url=world.agree)
        assert 401 not in await all_at_once(world, auth, 10)
        assert len(world.consents) == 1
        assert grants(world) == ["authorization_code"]
        world.revoke()
        assert 401 not in await all_at_once(world, auth, 10)
        assert grants(world) == ["authorization_code", "refresh_token"]


async def test_a_failed_login_raises_for_every_request_that_waits() -> None:
    asked: list[str] = []
    errors: list[AuthError] = []
    everybody = anyio.Event()

    async def refuse(url: str) -> str:
        asked.append(url)
        await everybody.wait()
        raise AuthError("no")

    auth = OAuth(on_url=refuse)
    async with (
        guarded() as world,
        httpx.AsyncClient(auth=auth, trust_env=False, timeout=None) as client,
    ):

        async def one() -> None:
            try:
                await client.post(world.url, json={})
            except AuthError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(one)
            while len(world.server.requests) < 3 or not asked:
                await anyio.sleep(0.01)
            everybody.set()
    assert [str(error) for error in errors] == ["no"] * 3
    assert len({id(error) for error in errors}) == 3, "each has an error of its own"


async def test_a_late_refusal_of_the_old_token_does_not_discard_the_new_one() -> None:
    held, logged_in = anyio.Event(), anyio.Event()

    async def late(request: Request, reply: Reply) -> None:
        if request.path == "/mcp?late" and "authorization" not in request.headers:
            held.set()
            await logged_in.wait()
        if "authorization" in request.headers:
            await reply.json({})
        else:
            await reply.send(401, headers={"WWW-Authenticate": "Bearer"})

    async def one(path: str) -> None:
        assert (await client.post(world.url + path, json={})).status_code == 200

    async with guarded(pages={"/mcp": late}) as world:
        auth = OneManager(world.url, on_url=world.agree)
        async with (
            httpx.AsyncClient(auth=auth, trust_env=False, timeout=None) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(one, "?late")
            await held.wait()
            await one("")
            logged_in.set()
        assert len(world.consents) == 1


async def test_an_ended_token_is_replaced_for_every_request_that_used_it() -> None:
    held, late, refused = anyio.Event(), anyio.Event(), anyio.Event()

    async def app(request: Request, reply: Reply) -> None:
        if request.path == "/mcp?late" and not late.is_set():
            held.set()
            await late.wait()
            await reply.send(401, headers={"WWW-Authenticate": "Bearer"})
            refused.set()
        elif "authorization" in request.headers:
            await reply.json({})
        else:
            await reply.send(401, headers={"WWW-Authenticate": "Bearer"})

    async def slowly(url: str) -> str:
        late.set()
        await refused.wait()
        while auth.waiting() < 2:
            await anyio.sleep(0.01)
        return await world.agree(url)

    async def one(path: str) -> None:
        assert (await client.post(world.url + path, json={})).status_code == 200

    async with guarded(refreshes=False, pages={"/mcp": app}) as world:
        auth = OneManager(world.url, on_url=(person := Person(world.agree)))
        times = [0.0]
        auth._now = lambda: times[0]
        async with (
            httpx.AsyncClient(auth=auth, trust_env=False, timeout=30) as client,
            anyio.create_task_group() as tasks,
        ):
            await one("")
            tasks.start_soon(one, "?late")
            await held.wait()
            times[0] = 3601.0
            person.mind = slowly
            await one("")
        assert len(world.consents) == 2


async def test_a_store_that_raises_is_an_auth_error_and_nothing_was_sent() -> None:
    class Broken(MemoryTokens):
        async def recall(self, server: str) -> Source | None:
            raise LookupError("c0de")

    async with guarded() as world:
        with pytest.raises(AuthError, match="the token store raised LookupError") as caught:
            await call(world, OAuth(store=Broken(), on_url=no_one))
        assert world.server.requests == []
        assert "c0de" not in str(caught.value)


async def test_a_login_that_a_store_ends_with_any_exception_is_an_auth_error() -> None:
    class Broken(MemoryTokens):
        async def save(self, key: Key, token: Token) -> None:
            raise LookupError("c0de")

    async with guarded() as world:
        with pytest.raises(AuthError, match="the login failed: LookupError") as caught:
            await call(world, OAuth(store=Broken(), on_url=world.agree))
        assert "c0de" not in str(caught.value)


def test_a_blocking_client_is_refused_as_one_that_cannot_be_used() -> None:
    with (
        httpx.Client(auth=OAuth(), trust_env=False, verify=False) as client,
        pytest.raises(ConfigError, match=r"OAuth works with httpx\.AsyncClient"),
    ):
        client.get("http://127.0.0.1:9/mcp")


async def test_a_login_is_not_lost_when_the_store_cannot_take_it() -> None:
    class Full(MemoryTokens):
        async def save(self, key: Key, token: Token) -> None:
            raise ConfigError("the disk is full")

    async with guarded() as world:
        auth = OAuth(store=Full(), on_url=world.agree)
        assert await call(world, auth) == ECHOED
        assert await call(world, auth) == ECHOED
        assert len(world.consents) == 1


async def test_private_lists_are_requested_again_after_a_login() -> None:
    async with guarded(scope="read", needs={"echo": "write"}) as world:
        server = HttpServer(world.url, auth=OAuth(on_url=world.agree))
        transport = HttpTransport(server)

        async def credentials() -> Hashable:
            assert transport.credentials is not None
            return await transport.credentials.current()

        async with connect(transport, approval=allow_all) as session:
            between = await credentials()
            assert await credentials() == between
            await session.call_tool("echo", {"text": "hello"})
            assert await credentials() != between


async def test_a_stream_begins_one_login_for_which_no_one_waits_and_no_more(clock: Clock) -> None:
    library = Library()
    asked: list[str] = []
    is_there = True

    async def person(url: str) -> str:
        asked.append(url)
        if not is_there:
            raise RuntimeError("no one is there")
        return await world.agree(url)

    async def until(true: Callable[[], bool], seconds: float) -> None:
        """Let some time pass, and then wait; the test as a whole has a bound."""
        for _ in range(5):
            if not true():
                clock.jump(seconds)
                await anyio.sleep(0.05)
        while not true():
            await anyio.sleep(0.05)

    async with guarded(LibraryApp(library)) as world:
        auth = OAuth(on_url=person)
        async with (
            connect(HttpServer(world.url, auth=auth), approval=allow_all) as session,
            session.subscribe_resource("book:emma") as updates,
        ):
            is_there = False
            await auth.logout(world.url)
            world.tokens.clear()
            library.end_streams()
            await until(lambda: len(asked) == 2 and not library.streams, 1)
            for _ in range(2):
                clock.jump(70)
                await anyio.sleep(0.1)
            assert len(asked) == 2
            is_there = True
            await session.read_resource("book:emma")
            assert len(asked) == 3
            await until(lambda: bool(library.streams), 61)
            library.updated("book:emma")
            assert (await anext(updates)).uri == "book:emma"
            assert len(asked) == 3


# --------------------------------------------------- a gateway that knows few methods


@pytest.mark.parametrize("status", [401, 403])
async def test_a_gateway_that_refuses_the_probe_costs_one_login(status: int) -> None:
    app = Handshake()

    async def gateway(request: Request, reply: Reply) -> None:
        if request.rpc_method == "server/discover":
            await reply.send(status)
        else:
            await app(request, reply)

    async with guarded(gateway) as world:
        auth = OAuth(on_url=world.agree)
        for _ in range(2):  # the second session begins with the token of the first
            assert await call(world, auth) == ECHOED
        assert len(world.consents) == 1
