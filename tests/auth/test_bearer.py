"""A token that another program manages is sent as it is, requested again, and never shown."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from mcp_client import ConfigError, HttpServer, allow_all, connect
from mcp_client.auth import BearerToken
from mcp_client.errors import AuthError
from tests.support.http_apps import Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

ECHOED = str({"text": "hello"})


class Guard:
    """Takes the tokens in ``good``, and stores what it received."""

    def __init__(self, *good: str) -> None:
        self.good = list(good)
        self.received: list[str] = []
        self.app = Stateless()

    async def __call__(self, request: Request, reply: Reply) -> None:
        token = request.headers.get("authorization", "")
        self.received.append(token)
        if token.removeprefix("Bearer ") in self.good:
            await self.app(request, reply)
        else:
            await reply.send(401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


async def echo(url: str, auth: httpx.Auth) -> str:
    async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
        return (await session.call_tool("echo", {"text": "hello"})).text


async def test_a_token_goes_with_every_request() -> None:
    guard = Guard("at-SECRET")
    async with serving(guard) as server:
        assert await echo(server.url, BearerToken("at-SECRET")) == ECHOED
    assert len(guard.received) > 1
    assert set(guard.received) == {"Bearer at-SECRET"}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_is_asked_before_each_request(kind: str) -> None:
    guard, count = Guard(), 0

    def sync() -> str:
        nonlocal count
        count += 1
        guard.good.append(f"at-{count}")
        return f"at-{count}"

    async def asynchronous() -> str:
        return sync()

    async with serving(guard) as server:
        auth = BearerToken(sync if kind == "sync" else asynchronous)
        assert await echo(server.url, auth) == ECHOED
    assert guard.received == [f"Bearer at-{number}" for number in range(1, count + 1)]
    assert count > 1


async def test_a_refused_token_is_renewed_once_and_the_request_sent_again() -> None:
    guard, passed = Guard("new"), iter(["old"])
    async with serving(guard) as server:
        assert await echo(server.url, BearerToken(lambda: next(passed, "new"))) == ECHOED
    assert guard.received[:2] == ["Bearer old", "Bearer new"]
    assert guard.received.count("Bearer old") == 1


@pytest.mark.parametrize("token", ["bad", lambda: "bad"])
async def test_a_refused_token_is_sent_once_in_each_way_to_open_a_connection(token: Any) -> None:
    guard = Guard()
    async with serving(guard) as server:
        with pytest.raises(AuthError) as caught:
            await echo(server.url, BearerToken(token))
    assert guard.received == ["Bearer bad"] * 2  # server/discover, and initialize for a gateway
    assert caught.value.http_status == 401


async def test_a_token_that_is_new_each_time_and_never_good_is_given_up() -> None:
    guard, count = Guard(), iter(range(1000))
    async with serving(guard) as server:
        with pytest.raises(AuthError):
            await echo(server.url, BearerToken(lambda: f"bad-{next(count)}"))
    assert guard.received == [f"Bearer bad-{number}" for number in range(4)]  # two for each way


@pytest.mark.parametrize(
    "token", ["", "Bearer at-SECRET", "at-SECRET\r\nX-Evil: 1", "at-SECRET ", "SECRÉT", None, 7]
)
async def test_an_invalid_token_is_refused_without_showing_it(token: Any) -> None:
    with pytest.raises(ConfigError, match="give the token alone") as caught:
        BearerToken(token)
    assert "SECR" not in str(caught.value)
    guard = Guard()
    async with serving(guard) as server:
        with pytest.raises((ConfigError, AuthError)) as refused:
            await echo(server.url, BearerToken(lambda: token))
    assert "SECR" not in str(refused.value)
    assert guard.received == []


async def test_a_function_that_raises_is_named_and_nothing_is_sent() -> None:
    def broken() -> str:
        raise LookupError("SECRET")

    guard = Guard()
    async with serving(guard) as server:
        with pytest.raises(AuthError, match=r"BearerToken.* raised LookupError") as caught:
            await echo(server.url, BearerToken(broken))
    assert "SECRET" not in str(caught.value)
    assert guard.received == []


async def test_the_token_is_in_no_repr_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    auth = BearerToken("at-SECRET")
    assert "SECRET" not in f"{auth!r} {auth} {HttpServer('https://mcp.example', auth=auth)!r}"
    async with serving(Guard("at-SECRET")) as server:
        await echo(server.url, auth)
    assert "SECRET" not in caplog.text


def test_a_synchronous_client_is_refused_with_a_reason() -> None:
    with httpx.Client(trust_env=False) as client, pytest.raises(ConfigError, match="AsyncClient"):
        client.get("http://127.0.0.1:9/", auth=BearerToken("at"))
