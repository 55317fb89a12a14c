"""The official SDK, imported on use, and our errors as its own."""

from __future__ import annotations

import importlib
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

__all__ = ["INVALID_PARAMS", "INVALID_REQUEST", "official", "official_error", "official_error_of"]

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
