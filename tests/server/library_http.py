"""The library over HTTP: a stream for each that listens, and in the handshake era a GET stream."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import anyio

from .http_server import Reply, Request
from .library import Library

__all__ = ["LibraryApp"]


class LibraryApp:
    def __init__(self, library: Library) -> None:
        self.library = library

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await self._stream(reply, None)
        elif request.method == "DELETE":
            await reply.send(200)
        elif request.says == "subscriptions/listen":
            await self._stream(reply, request)
        else:
            said = self.library.reply(request.message, lambda message: None)
            if said is None:
                await reply.send(202)
            else:
                unknown = said.get("error", {}).get("code") == -32601
                head = {"Mcp-Session-Id": "one"} if request.says == "initialize" else {}
                await reply.json(said, 404 if unknown else 200, head)

    async def _stream(self, reply: Reply, request: Request | None) -> None:
        """Send what is said until the client goes away."""
        sender, receiver = anyio.create_memory_object_stream[Any](math.inf)
        await reply.stream()
        async with sender, receiver, anyio.create_task_group() as tasks:
            if request is None:
                self.library.say = sender.send_nowait
            else:
                self.library.answer(request.message, sender.send_nowait)

            async def send() -> None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has gone
                    async for message in receiver:
                        await reply.event(message)

            async def hang_on() -> None:
                try:
                    await reply.hold()
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    tasks.cancel_scope.cancel()

            tasks.start_soon(send)
            tasks.start_soon(hang_on)
        if request is None:
            self.library.say = lambda message: None
        else:
            self.library.streams.pop(request.message["id"], None)
        reply.hang_up()
