"""Durations as metrics, if the host uses OpenTelemetry metrics.

The semantic conventions for MCP define two histograms, in seconds.
``mcp.client.operation.duration`` covers each request, from before it is sent to its response,
without the time that approval takes. ``mcp.client.session.duration`` covers each session that was
open. Their attributes are the revision, the kind of transport, and for a request its method, its
tool or prompt, and its error.

A server must not control the number of time series. Of its error codes, only those that JSON-RPC
reserves are recorded, all others are ``_OTHER``. Of its tools, only those that are called are
recorded.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from time import perf_counter
from typing import Any

from ..errors import ServerError

__all__ = ["error_type", "note_error", "operation", "session_ended"]

_log = logging.getLogger("mcp_client")
_OPERATION = "mcp.client.operation.duration"
_SESSION = "mcp.client.session.duration"
_DESCRIPTIONS = {
    _OPERATION: "The duration of an MCP request, from when it is sent to its answer.",
    _SESSION: "The duration of an MCP session.",
}
_BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_RESERVED = range(-32_768, -31_999)


@contextmanager
def operation(attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Record the duration of the body. Attributes added to ``attributes`` in the body count."""
    began = perf_counter()
    try:
        yield attributes
    except BaseException as error:
        note_error(attributes, error)
        raise
    finally:
        _record(_OPERATION, perf_counter() - began, attributes)


def note_error(attributes: dict[str, Any], error: BaseException) -> None:
    """Add the error to the attributes of an operation."""
    attributes["error.type"] = kind = error_type(error)
    if isinstance(error, ServerError) and error.code is not None:
        reserved = error.code in _RESERVED
        attributes["error.type"] = kind if reserved else "_OTHER"
        attributes["rpc.response.status_code"] = kind if reserved else "_OTHER"


def session_ended(seconds: float, attributes: Mapping[str, Any]) -> None:
    """Record how long a session was open."""
    _record(_SESSION, seconds, attributes)


def _record(name: str, seconds: float, attributes: Mapping[str, Any]) -> None:
    try:
        provider = sys.modules["opentelemetry.metrics"].get_meter_provider()
        _histogram(provider, name).record(seconds, attributes)
    except Exception:  # noqa: BLE001 - a fault in telemetry is not the request's
        _log.warning("cannot record the duration of an operation", exc_info=True)


@lru_cache(maxsize=4)
def _histogram(provider: Any, name: str) -> Any:
    return provider.get_meter("mcp_client").create_histogram(
        name,
        unit="s",
        description=_DESCRIPTIONS[name],
        explicit_bucket_boundaries_advisory=_BOUNDARIES,
    )


def error_type(error: BaseException) -> str:
    """Return the JSON-RPC code of an error as a str, or the class of another.

    A cancellation is "cancelled".
    """
    if isinstance(error, ServerError) and error.code is not None:
        return str(error.code)
    return type(error).__name__ if isinstance(error, Exception) else "cancelled"
