"""The official SDK, imported on use: its errors, transports, and callbacks as ``Handlers``."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
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
from ..handlers.handlers import (
    ElicitRequest,
    Handlers,
    LogMessage,
    RootsRequest,
    SamplingRequest,
    ServerNotification,
)
from ..handlers.wire_format import RequestRefused
from ..protocol.canonical_json import plain
from ..transports.stream import StreamServer

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "handlers",
    "official",
    "official_error",
    "official_error_of",
    "server",
]

_log = logging.getLogger("mcp_client")

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
        shared = official("shared.message")
        self._message, self._metadata = shared.SessionMessage, shared.ClientMessageMetadata
        self.takes_headers = hasattr(self._metadata, "headers")
        """Whether the SDK's HTTP transport leaves the headers of the era to the session: 2.x."""
        self._parse = _parser(official("types").JSONRPCMessage)

    async def send(self, message: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Send a message."""
        metadata = self._metadata(headers=dict(headers)) if headers else None
        await self._stream.send(self._message(self._parse(message), metadata))


def handlers(
    *,
    sampling_callback: Callable[..., Awaitable[Any]] | None = None,
    elicitation_callback: Callable[..., Awaitable[Any]] | None = None,
    list_roots_callback: Callable[..., Awaitable[Any]] | None = None,
    logging_callback: Callable[..., Awaitable[None]] | None = None,
    message_handler: Callable[..., Awaitable[None]] | None = None,
    sampling_capabilities: Any = None,
) -> Handlers:
    """Return ``Handlers`` for ``connect``, made of the callbacks that ``mcp.ClientSession`` takes.

    The context that three of them get has no session: ``context.session`` is None.

    Args:
        sampling_callback: Called with a context and ``CreateMessageRequestParams``.
        elicitation_callback: Called with a context and ``ElicitRequestParams``.
        list_roots_callback: Called with a context.
        logging_callback: Called with ``LoggingMessageNotificationParams``.
        message_handler: Called with each ``ServerNotification`` that the SDK knows, log lines
            included.
        sampling_capabilities: A ``SamplingCapability``; with ``tools``, the callback handles them.

    Raises:
        ConfigError: The package ``mcp`` is not installed.
    """
    types = official("types")

    async def sample(request: SamplingRequest) -> Any:
        assert sampling_callback is not None
        params = types.CreateMessageRequestParams.model_validate(plain(request.raw))
        return _wire(await sampling_callback(_context(), params))

    async def elicit(request: ElicitRequest) -> Any:
        assert elicitation_callback is not None
        params = _parser(types.ElicitRequestParams)(plain(request.raw))
        return _wire(await elicitation_callback(_context(), params))

    async def roots(request: RootsRequest) -> Any:
        assert list_roots_callback is not None
        return _wire(await list_roots_callback(_context()))["roots"]

    async def pass_on(method: str, params: Any) -> None:
        if message_handler is None:
            return
        try:
            notice = _parser(types.ServerNotification)({"method": method, "params": params})
        except ValueError:
            _log.debug("the SDK does not know the notification %s", method[:80])
            return
        await message_handler(notice)

    async def log(line: LogMessage) -> None:
        params = {"level": line.level, "logger": line.logger, "data": line.data}
        if logging_callback is not None:
            await logging_callback(types.LoggingMessageNotificationParams.model_validate(params))
        await pass_on("notifications/message", params)

    async def notify(notice: ServerNotification) -> None:
        await pass_on(notice.method, plain(notice.params))

    return Handlers(
        sampling=None if sampling_callback is None else sample,
        elicitation=None if elicitation_callback is None else elicit,
        roots=None if list_roots_callback is None else roots,
        log=None if logging_callback is None else log,
        notification=None if message_handler is None else notify,
        sampling_tools=getattr(sampling_capabilities, "tools", None) is not None,
    )


def _wire(result: Any) -> Any:
    """Return what a callback gave as plain JSON. Raises the error that it gave in its place."""
    if isinstance(result, official("types").ErrorData):
        raise RequestRefused(result.code, result.message)
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _parser(kind: Any) -> Callable[[Any], Any]:
    parse: Callable[[Any], Any]
    parse = importlib.import_module("pydantic").TypeAdapter(kind).validate_python
    return parse


def _context() -> Any:
    """Return the context of a request, in either generation."""
    session = official("client.session")
    if hasattr(session, "ClientRequestContext"):
        return session.ClientRequestContext(session=None, request_id=0)
    kind = official("shared.context").RequestContext
    fields = {"request_id": 0, "meta": None, "session": None, "lifespan_context": None}
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in fields.items() if name in known})
