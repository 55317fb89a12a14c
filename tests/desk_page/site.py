"""A queue with calls, its page mounted in a web application, and people with a browser of sorts."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import anyio
import httpx
import uvicorn
from anyio.abc import SocketStream, TaskGroup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Mount, Route

from mcp_client import ApprovalQueue, ApprovalRequest, Finding
from mcp_client.approval import SamplingRequest, StartRequest
from mcp_client.approval.decision import Answer
from mcp_client.approval.start_request import STARTS
from mcp_client.desk import ApprovalPage


def start_of(**members: Any) -> StartRequest:
    return StartRequest(
        **{
            "server": "sky",
            "command": "npx",
            "args": ("-y", "sky-server", "a b"),
            "env_names": ("TOKEN", "MODE"),
            "cwd": "/srv/project",
            "url": None,
            "header_names": (),
            "findings": (STARTS, Finding("runs_code", "npx downloads and runs code")),
            "variables": {"TOKEN": ("env.TOKEN",)},
            "fingerprint": "sha256:0",
            "path": Path("/srv/project/.mcp.json"),
            "scope": "project",
            "env": {"MODE": "fast"},
            **members,
        }
    )


def sampling_of(*texts: str, **params: Any) -> SamplingRequest:
    messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]
    return SamplingRequest.of({"messages": messages, "maxTokens": 1_000, **params}, "poet")


PEOPLE = {"ana-session": "Ana", "bo-session": "Bo"}


async def authorize(scope: Any) -> str | None:
    return PEOPLE.get(Request(scope).cookies.get("session", ""))


class Site:
    """``ask`` puts requests into the queue; ``answers`` is what became of them, by subject."""

    def __init__(self, queue: ApprovalQueue, tasks: TaskGroup, base: str) -> None:
        self.queue = queue
        self.base = base
        self.answers: dict[str, Answer] = {}
        self._tasks = tasks

    async def ask(self, *requests: ApprovalRequest) -> list[str]:
        """The ids under which they are pending, in order."""
        ids = []
        for request in requests:
            known = {one.id for one in self.queue.pending}
            self._tasks.start_soon(self._one, request)
            with self.queue.changes() as changes:
                async for pending in changes:
                    new = [one.id for one in pending if one.id not in known]
                    if new:
                        ids += new
                        break
        return ids

    async def _one(self, request: ApprovalRequest) -> None:
        self.answers[request.subject] = await self.queue(request)

    def person(self, session: str | None = "ana-session") -> Person:
        return Person(self.base, session)


class Person:
    """Whoever has this session's cookie."""

    def __init__(self, base: str, session: str | None) -> None:
        cookies = None if session is None else {"session": session}
        # Without TLS: loading certificates takes longer than all the rest.
        self.client = httpx.AsyncClient(
            timeout=60, base_url=base, cookies=cookies, trust_env=False, verify=False
        )

    async def __aenter__(self) -> Person:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    async def get(self, path: str = "", **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=_named(headers))

    async def token(self) -> str:
        found = re.search(r'name="token" value="([0-9a-f]+)"', (await self.get()).text)
        assert found
        return found[1]

    async def decide(
        self,
        *ids: str,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> httpx.Response:
        form: dict[str, Any] = {"answer": "allow", **fields, "ids": list(ids)}
        form["token"] = await self.token() if token is None else token
        wanted = {"Accept": "application/json", **(headers or {})}
        return await self.client.post("decide", data=form, headers=wanted)

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[Events]:
        """The events, over a connection of its own: generators of httpx cannot be left half-way."""
        url = self.client.base_url
        cookie = self.client.cookies.get("session")
        async with await anyio.connect_tcp(url.host, url.port or 80) as stream:
            request = f"GET {url.path}changes HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n"
            await stream.send(
                f"{request}Cookie: session={cookie}\r\nConnection: close\r\n\r\n".encode()
            )
            yield Events(stream)


class Events:
    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._text = ""

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not (found := re.search(r"^data: (.*)\n\n", self._text, re.MULTILINE)):
            try:
                self._text += (await self._stream.receive()).decode()
            except anyio.EndOfStream:
                raise StopAsyncIteration from None
        self._text = self._text[found.end() :]
        event: dict[str, Any] = json.loads(found[1])
        return event


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def _login(request: Request) -> PlainTextResponse:
    response = PlainTextResponse("Welcome.")
    response.set_cookie("session", request.path_params["session"])
    return response


async def _frame(request: Request) -> HTMLResponse:
    return HTMLResponse("<title>Win a prize</title><iframe src='/approvals/'></iframe>")


@asynccontextmanager
async def a_site(
    queue: ApprovalQueue | None = None, kind: type[ApprovalPage] = ApprovalPage, **options: Any
) -> AsyncIterator[Site]:
    queue = ApprovalQueue() if queue is None else queue
    page = kind(queue, **{"authorize": authorize, **options})

    app: Any = Starlette(
        routes=[
            Route("/login/{session}", _login),
            Route("/frame", _frame),
            Mount("/approvals", page),
        ]
    )
    async with served(app) as address, anyio.create_task_group() as callers:
        yield Site(queue, callers, f"{address}/approvals/")
        callers.cancel_scope.cancel()


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """``app`` under uvicorn, in a thread: it knows no trio."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join)


class Seen(HTMLParser):
    """A page as a browser has it: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def tags(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
