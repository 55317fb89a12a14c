"""Traces, where the host has OpenTelemetry in use: a client span a request, told to the server.

2026-07-28 ``basic/index`` (trace context): ``traceparent``, ``tracestate`` and ``baggage`` go into
``_meta``, in every revision. The spans follow the semantic conventions for MCP: named after the
method and its tool or prompt, with the revision and what went wrong, and never an argument, a
result or a header. Each request has its own: a call that takes rounds, or is sent again to a server
that was busy, has one for each.

Baggage goes to the server too, as it does with any request of a host that uses it: what is in it
is told to whoever runs the server.

Who uses OpenTelemetry has imported it (extra ``otel``). Until then nothing of it is imported here,
and a request costs one look-up.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from ..errors import ServerError
from ..protocol.era import Complete, Reading
from ..protocol.jsonrpc import Id

__all__ = ["NO_SPAN", "Span", "span"]

_log = logging.getLogger("mcp_client")
_KEYS = ("traceparent", "tracestate", "baggage")
_TRACE = frozenset({"traceparent", "tracestate"})


class Span:
    """One request under way: ``NO_SPAN`` where nobody traces."""

    def meta(self, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The caller's own ``_meta``, which wins, with the trace context beside it."""
        return own

    def sent(self, id: Id) -> None:
        """The request goes out under this id."""

    def done(self, reading: Reading) -> Reading:
        """The server has answered."""
        return reading


NO_SPAN = Span()
_NOTHING = nullcontext(NO_SPAN)


def span(method: str, fields: Mapping[str, Any], revision: str) -> AbstractContextManager[Span]:
    """The span of one request, around all of its waiting."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return _NOTHING
    return _spanned(trace, method, fields, revision)


@contextmanager
def _spanned(trace: Any, method: str, fields: Mapping[str, Any], revision: str) -> Iterator[Span]:
    started = None
    try:
        started = _started(trace, method, fields, revision)
    except Exception:  # noqa: BLE001 - a fault in tracing is not the request's
        _log.warning("no span could be started", exc_info=True)
    if started is None:
        yield NO_SPAN
        return
    try:
        with trace.use_span(started, record_exception=False, set_status_on_exception=False):
            yield _Traced(trace, started)
    except BaseException as error:
        _failed(trace, started, _kind(error))
        if isinstance(error, ServerError) and error.code is not None:
            started.set_attribute("rpc.response.status_code", str(error.code))
        raise
    finally:
        started.end()


def _started(trace: Any, method: str, fields: Mapping[str, Any], revision: str) -> Any:
    attributes: dict[str, Any] = {"mcp.method.name": method, "mcp.protocol.version": revision}
    name = fields.get("name")
    target = name if type(name) is str else ""
    if target and method == "prompts/get":
        attributes["gen_ai.prompt.name"] = target
    elif target and method.startswith("tools/"):
        attributes["gen_ai.tool.name"] = target
        attributes["gen_ai.operation.name"] = "execute_tool"
    return trace.get_tracer("mcp_client").start_span(
        f"{method} {target}".strip(), kind=trace.SpanKind.CLIENT, attributes=attributes
    )


class _Traced(Span):
    def __init__(self, trace: Any, started: Any) -> None:
        self._trace = trace
        self._started = started

    def meta(self, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        carrier: dict[str, str] = {}
        try:
            import_module("opentelemetry.propagate").inject(carrier)
        except Exception:  # noqa: BLE001 - a fault in tracing is not the request's
            _log.warning("the trace context could not be told", exc_info=True)
        given = set(own or ())
        if given & _TRACE:  # half of one trace with half of another is neither
            given |= _TRACE
        added = {key: carrier[key] for key in _KEYS if key in carrier and key not in given}
        return {**(own or {}), **added} if added else own

    def sent(self, id: Id) -> None:
        self._started.set_attribute("jsonrpc.request.id", str(id))

    def done(self, reading: Reading) -> Reading:
        if isinstance(reading, Complete) and reading.result.get("isError") is True:
            _failed(self._trace, self._started, "tool_error")
        return reading


def _failed(trace: Any, started: Any, kind: str) -> None:
    started.set_attribute("error.type", kind)
    started.set_status(trace.Status(trace.StatusCode.ERROR))


def _kind(error: BaseException) -> str:
    if isinstance(error, ServerError) and error.code is not None:
        return str(error.code)
    return type(error).__name__ if isinstance(error, Exception) else "cancelled"
