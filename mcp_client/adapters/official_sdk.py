"""The official SDK, imported on use: our errors as its own, and its transports as ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..errors import (
    CallTimeout,
    ConfigError,
    ConnectionLost,
    InvalidArguments,
    McpError,
    ServerError,
    UnknownTool,
)
from ..transports.stream import StreamServer

__all__ = ["INVALID_PARAMS", "INVALID_REQUEST", "official", "official_error", "official_error_of"]
__all__ += ["server"]

INVALID_REQUEST, INVALID_PARAMS = -32600, -32602
_CONNECTION_CLOSED, _HTTP_TIMEOUT = -32000, 408


def official(module: str) -> Any:
    """Return a module of the official SDK. Raises ``ConfigError`` if it is not installed."""
    try:
        return importlib.import_module(f"mcp.{module}")
    except ImportError as error:
        raise ConfigError(
            f"mcp_client.adapters.official needs the official SDK ({error}): "
            "pip install 'mcp>=1.24'"
        ) from error


def official_error_of(error: McpError) -> Exception:
    """Return an error of ours as ``mcp.McpError``, or ``mcp.MCPError`` of 2.x."""
    if isinstance(error, ServerError):
        code = INVALID_REQUEST if error.code is None else error.code
        return official_error(code, error.server_message or error.message, error.data)
    code = INVALID_REQUEST
    if isinstance(error, CallTimeout):
        code = getattr(official("types"), "REQUEST_TIMEOUT", _HTTP_TIMEOUT)
    elif isinstance(error, ConnectionLost):
        code = _CONNECTION_CLOSED
    elif isinstance(error, UnknownTool | InvalidArguments):
        code = INVALID_PARAMS
    return official_error(code, error.message, None)


def official_error(code: int, message: str, data: Any = None) -> Exception:
    """Return an ``mcp.McpError`` with this code, message and data."""
    exceptions = official("shared.exceptions")
    error: Exception
    if hasattr(exceptions, "MCPError"):
        error = exceptions.MCPError(code, message, data)
    else:
        body = official("types").ErrorData(code=code, message=message, data=data)
        error = exceptions.McpError(body)
    return error


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
