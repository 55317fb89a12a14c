"""The callbacks of the official SDK's ``ClientSession`` as ``Handlers``."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..handlers.handlers import (
    ElicitRequest,
    Handlers,
    LogMessage,
    RootsRequest,
    SamplingRequest,
    ServerNotification,
)
from ..protocol.canonical_json import plain
from .official_sdk import official

__all__ = ["handlers"]

_log = logging.getLogger("mcp_client")


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
    response = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if "code" in response and "message" in response and "action" not in response:
        raise RuntimeError(f"the callback returned an error: {response['message']}")
    return response


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
