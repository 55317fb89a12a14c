"""What the tests of ``httpx_auth`` share: sessions, people, and what a server was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from mcp_client import HttpServer, OAuth, Session, allow_all, connect
from mcp_client.auth.browser import OnUrl
from mcp_client.auth.token_manager import RequestContext, TokenManager
from tests.support.authorization import World

__all__ = [
    "AGAIN",
    "ECHOED",
    "OneManager",
    "Person",
    "call",
    "grants",
    "names",
    "no_one",
    "session_of",
]

ECHOED, AGAIN = str({"text": "hello"}), str({"text": "again"})


@asynccontextmanager
async def session_of(world: World, auth: httpx.Auth, **options: Any) -> AsyncIterator[Session]:
    server = HttpServer(world.url, auth=auth)
    async with connect(server, approval=allow_all, **options) as session:
        yield session


async def call(world: World, auth: httpx.Auth) -> str:
    async with session_of(world, auth) as session:
        return (await session.call_tool("echo", {"text": "hello"})).text


async def no_one(url: str) -> str:
    raise AssertionError("a person was asked")


class Person:
    """An ``on_url`` whose behaviour can be changed."""

    def __init__(self, mind: OnUrl) -> None:
        self.mind = mind

    def __call__(self, url: str) -> Any:
        return self.mind(url)


def grants(world: World) -> list[str]:
    return [form["grant_type"] for form in world.forms("/token")]


def names(world: World) -> list[str]:
    """The access tokens the MCP server was shown, in order, each once."""
    displayed = [request.headers.get("authorization", "") for request in world.server.requests]
    return list(dict.fromkeys(displayed))


class OneManager(OAuth):
    """For requests whose URLs differ only to distinguish them."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self._url = url

    def _context(self, request: httpx.Request) -> tuple[RequestContext, TokenManager]:
        return super()._context(httpx.Request("POST", self._url))

    def waiting(self) -> int:
        """How many requests wait for the refresh or login under way."""
        (manager,) = self._managers.values()
        return 0 if manager.task is None else manager.task.waiting
