"""A list that is private is used only under the authorization it was fetched with."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import HttpServer, allow_all, connect
from mcp_client.auth import BearerToken
from mcp_client.errors import AuthError
from tests.support.http_apps import Handshake, Stateless, answer
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]


class Signed(httpx.Auth):
    """An auth of a host's own."""

    def __init__(self, user: Callable[[], str]) -> None:
        self._user = user

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-Signed-By"] = self._user()
        yield request


class Fetching(httpx.Auth):
    """Asks for a token before the request, as many do."""

    def __init__(self, user: Callable[[], str]) -> None:
        self._user = user

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        yield httpx.Request("GET", request.url, headers={"X-Token-For": self._user()})
        request.headers["Authorization"] = f"Bearer {self._user()}"
        yield request


def _later(user: Callable[[], str]) -> Any:
    async def token() -> str:
        await anyio.lowlevel.checkpoint()
        return user()

    return token


WAYS: dict[str, Callable[[str, Callable[[], str]], HttpServer]] = {
    "auth=function": lambda url, user: HttpServer(url, auth=user),
    "auth=async function": lambda url, user: HttpServer(url, auth=_later(user)),
    "auth=function of headers": lambda url, user: HttpServer(url, auth=lambda: {"X-Key": user()}),
    "headers=function": lambda url, user: HttpServer(url, headers=lambda: {"X-User": user()}),
    "BearerToken(function)": lambda url, user: HttpServer(url, auth=BearerToken(user)),
    "httpx.Auth": lambda url, user: HttpServer(url, auth=Signed(user)),
    "httpx.Auth that fetches": lambda url, user: HttpServer(url, auth=Fetching(user)),
    "client with auth": lambda url, user: HttpServer(
        url, client=httpx.AsyncClient(auth=Signed(user))
    ),
}
SIGNS = ("authorization", "x-key", "x-user", "x-signed-by", "cookie")


class Private:
    """Lists a tool named after who is asking, for an hour and for that one alone."""

    def __init__(self, app: Stateless | Handshake, **headers: str) -> None:
        self.app = app
        self.fetched = 0
        self.headers = headers

    async def __call__(self, request: Request, reply: Reply) -> None:
        if "x-token-for" in request.headers:
            await reply.send(200)
        elif request.rpc_method == "tools/list":
            self.fetched += 1
            signs = [request.headers[sign] for sign in SIGNS if sign in request.headers]
            name = "of-" + "-".join(signs).removeprefix("Bearer ").replace("=", "-")
            tool = {"name": name, "inputSchema": {"type": "object"}}
            hour = {"ttlMs": 3_600_000, "cacheScope": "private", "resultType": "complete"}
            result = {"tools": [tool], **hour}
            await reply.json(answer(request, result), headers=self.headers)
        else:
            await self.app(request, reply)


async def _names(session: Any) -> list[str]:
    return [tool.name for tool in await session.list_tools()]


@pytest.mark.parametrize("era", [Stateless, Handshake])
@pytest.mark.parametrize("way", WAYS)
async def test_a_private_list_is_not_shown_to_the_next_user(way: str, era: Any) -> None:
    user = ["ana"]
    private = Private(era())
    async with serving(private) as server:
        wanted = WAYS[way](server.url, lambda: user[0])
        async with connect(wanted, approval=allow_all) as session:
            assert await _names(session) == ["of-ana"]
            user[0] = "bob"
            assert await _names(session) == ["of-bob"]
            user[0] = "ana"
            with pytest.raises(Exception, match="no tool 'of-bob'"):
                await session.call_tool("of-bob", {})
        if wanted.client is not None:
            await wanted.client.aclose()


UNKNOWN = ("httpx.Auth", "httpx.Auth that fetches", "client with auth")
"""What they send is known only once it is sent."""


@pytest.mark.parametrize("way", WAYS)
async def test_a_private_list_is_stored_for_the_same_user_if_that_is_known(way: str) -> None:
    private = Private(Stateless())
    async with serving(private) as server:
        wanted = WAYS[way](server.url, lambda: "ana")
        async with connect(wanted, approval=allow_all) as session:
            for _ in range(3):
                assert await _names(session) == ["of-ana"]
        if wanted.client is not None:
            await wanted.client.aclose()
    assert private.fetched == (3 if way in UNKNOWN else 1)


@pytest.mark.both_backends
@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_two_tasks_that_share_a_session_each_see_their_own_list(era: Any) -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    private = Private(era())
    seen: dict[str, list[str]] = {}
    async with (
        serving(private) as server,
        connect(HttpServer(server.url, auth=user.get), approval=allow_all) as session,
    ):

        async def list_as(name: str) -> None:
            user.set(name)
            for _ in range(3):
                seen[name] = await _names(session)
                assert seen[name] == [f"of-{name}"]

        async with anyio.create_task_group() as tasks:
            for name in ("ana", "bob", "eve"):
                tasks.start_soon(list_as, name)
    assert len(seen) == 3


async def test_cookies_of_the_host_count_and_those_of_a_load_balancer_do_not() -> None:
    private = Private(Stateless(), **{"Set-Cookie": "lb=1; Path=/"})
    async with httpx.AsyncClient() as client, serving(private) as server:
        client.cookies.set("user", "ana")
        wanted = HttpServer(server.url, client=client)
        async with connect(wanted, approval=allow_all) as session:
            assert await _names(session) == ["of-user-ana"]
            assert client.cookies["lb"] == "1"
            await session.list_tools()
            assert private.fetched == 1
            client.cookies.set("user", "bob")
            (name,) = await _names(session)
            assert "user-bob" in name


async def test_a_function_that_fails_returns_no_list() -> None:
    tokens = iter(["ana"] * 2)
    async with (
        serving(Private(Stateless())) as server,
        connect(HttpServer(server.url, auth=lambda: next(tokens)), approval=allow_all) as session,
    ):
        assert await _names(session) == ["of-ana"]
        with pytest.raises(AuthError, match="StopIteration"):
            await session.list_tools()


async def test_what_is_stored_of_a_token_does_not_reveal_it() -> None:
    async with serving(Private(Stateless())) as server:
        wanted = HttpServer(server.url, auth=lambda: "at-SECRET")
        async with connect(wanted, approval=allow_all) as session:
            await session.list_tools()
            fetched_as: Any = session._catalog._freshness.fetched_as
            assert b"at-SECRET" not in fetched_as
            assert len(fetched_as) == 16
