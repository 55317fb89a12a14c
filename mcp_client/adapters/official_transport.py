"""Transports of the official SDK, carrying the messages of our sessions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..transports.stream import StreamServer
from .official_errors import official

__all__ = ["server"]


def server(
    transport: Callable[[], AbstractAsyncContextManager[Any]],
    *,
    name: str | None = None,
    identity: str | None = None,
) -> StreamServer:
    """Return a server behind a transport of the official SDK, for ``connect``.

    Args:
        transport: A function that returns the SDK's context manager, such as
            ``lambda: stdio_client(parameters)``. Each connection calls it again.
        name: What errors call the transport; by default the name of the SDK's function.
        identity: As for ``StreamServer``.
    """
    official("types")
    return StreamServer(lambda: _Carried(transport()), name=name, identity=identity)


class _Carried:
    """The context manager of a transport of the SDK, whose streams carry plain JSON objects."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self._manager = manager
        self.gen = getattr(manager, "gen", None)
        """The generator that the SDK wrote, after which the transport is named."""

    async def __aenter__(self) -> tuple[_Receiving, _Sending]:
        streams = await self._manager.__aenter__()
        return _Receiving(streams[0]), _Sending(streams[1])

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._manager.__aexit__(*raised)


class _Receiving:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def receive(self) -> Any:
        """Return the next message; an exception that the SDK passes on is counted as invalid."""
        item = await self._stream.receive()
        if isinstance(item, Exception):
            return item
        return item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)


class _Sending:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._message = official("shared.message").SessionMessage
        types = official("types")
        self._parse = importlib.import_module("pydantic").TypeAdapter(types.JSONRPCMessage)

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        await self._stream.send(self._message(self._parse.validate_python(message)))
