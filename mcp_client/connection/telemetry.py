"""Traces and metrics, if the host uses OpenTelemetry.

*Traces* are client spans whose context is sent to the server. A tool call has one span from the
first step to the last, named ``tools/call`` and its tool, with its outcome, including a refusal.
Below it are a span for the approval and one for each request: a call may take several (rounds, a
busy server, ``Retry``). Any other request has one span, including those that open a session, whose
``_meta`` carries no trace context.

2026-07-28 ``basic/index`` (trace context): ``traceparent``, ``tracestate`` and ``baggage`` are
added to ``_meta``, in every revision; for a tool call, those of its own span. The spans follow the
semantic conventions for MCP: named after the method and its tool or prompt, with the revision and
the error, and never a header. Arguments and results are on the span of a call only with
``Audit(trace_content=True)``, as ``gen_ai.tool.call.arguments`` and ``gen_ai.tool.call.result``:
JSON texts that show what a record of the audit would. Baggage is sent to the server, as with any
request of a host that uses it, so the operator of the server can read it.

*Metrics* are two histograms that the semantic conventions for MCP define, in seconds.
``mcp.client.operation.duration`` covers each request, from before it is sent to its response,
without the time that approval takes. ``mcp.client.session.duration`` covers each session that was
open. Their attributes are the revision, the kind of transport, and for a request its method, its
tool or prompt, and its error. A server must not control the number of time series. Of its error
codes, only those that JSON-RPC reserves are recorded, all others are ``_OTHER``. Of its tools, only
those that are called are recorded.

A host that uses OpenTelemetry has imported it (extra ``otel``). Until then nothing of it is
imported here, and a request costs one look-up.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from time import perf_counter
from typing import Any, Protocol, TypeVar

from ..errors import ServerError
from ..protocol.capabilities import TOOLS_CALL
from ..protocol.era import Complete, ParsedResult
from ..protocol.jsonrpc import Id
from ..runtime.safe_text import safe_text
from ..transports.base import Transport

__all__ = [
    "CallSpan",
    "Content",
    "Span",
    "call_span",
    "error_type",
    "note_error",
    "operation",
    "session_ended",
    "span",
]

_log = logging.getLogger("mcp_client")
_KEYS = ("traceparent", "tracestate", "baggage")
_TRACE = frozenset({"traceparent", "tracestate"})
_MAX_NAME_CHARS = 128
Verdict = TypeVar("Verdict", bound="_Verdict")


class _Verdict(Protocol):
    @property
    def request(self) -> Any: ...


class Content(Protocol):
    """The parts of a call that a span may show."""

    def arguments(self, call: Any, /) -> str:
        """Return the arguments as JSON text."""

    def result(self, result: Any, /) -> str:
        """Return the result as JSON text."""


class Result(Protocol):
    """A result that can be an error."""

    @property
    def is_error(self) -> bool:
        """Whether the tool reported an error."""


class Span:
    """One request under way; this class has no span and is used if tracing fails."""

    def __init__(self, measured: dict[str, Any] | None) -> None:
        """``measured``: the attributes of its duration; None without metrics."""
        self._measured = measured

    def meta(self, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the caller's own ``_meta``, which takes precedence, with the trace context."""
        return own

    def sent(self, id: Id) -> None:
        """Note on the span the id that the request is sent with."""

    def failed(self, error: BaseException) -> None:
        """Note an error that no exception carries out of the span."""
        if self._measured is not None:
            note_error(self._measured, error)

    def done(self, parsed: ParsedResult) -> ParsedResult:
        """Note the server's response; ``parsed`` is returned."""
        if self._measured is not None and _is_tool_error(parsed):
            self._measured["error.type"] = "tool_error"
        return parsed


class CallSpan:
    """One tool call under way; this class does nothing and is used if tracing fails."""

    async def approval(self, call: Any, deciding: Awaitable[Verdict]) -> Verdict:
        """Wait for the decision on ``call``, in a span of its own below this one."""
        return await deciding

    def done(self, result: Result | None) -> None:
        """Note the result of the tool on the span."""


@contextmanager
def span(
    method: str, fields: Mapping[str, Any], revision: str, transport: Transport
) -> Iterator[Span]:
    """Open the span of one request, around all of its waiting, if OpenTelemetry is imported."""
    trace: Any = sys.modules["opentelemetry.trace"]
    call = trace.get_current_span() if method == TOOLS_CALL else None
    name, attributes = _names(method, fields.get("name"))
    kind, known = trace.SpanKind.CLIENT, {"mcp.protocol.version": revision, **transport.network}
    attributes |= known
    if call is not None:
        name, kind = f"request {method}", trace.SpanKind.INTERNAL
        call.set_attributes(known)
    of_span = attributes if call is None else known
    with _current(trace, name, kind, of_span) as started, _measured(attributes) as measured:
        if started is None:
            yield Span(measured)
        else:
            yield _TracedRequest(trace, started, call, measured)


def _measured(attributes: dict[str, Any]) -> AbstractContextManager[dict[str, Any] | None]:
    if "opentelemetry.metrics" not in sys.modules:
        return nullcontext()
    return operation({**attributes})


@contextmanager
def call_span(tool: str, content: Content | None) -> Iterator[CallSpan]:
    """Open the span of one tool call, around all of its steps, if OpenTelemetry is imported."""
    trace: Any = sys.modules["opentelemetry.trace"]
    name, attributes = _names(TOOLS_CALL, tool)
    with _current(trace, name, trace.SpanKind.CLIENT, attributes) as started:
        yield CallSpan() if started is None else _TracedCall(trace, started, content)


@contextmanager
def _current(trace: Any, name: str, kind: Any, attributes: dict[str, Any]) -> Iterator[Any]:
    """A new span that is the current one inside, with what went wrong there; None on a fault."""
    started = None
    try:
        started = trace.get_tracer("mcp_client").start_span(name, kind=kind, attributes=attributes)
    except Exception:  # noqa: BLE001 - a fault in tracing is not the request's
        _log.warning("cannot start a span", exc_info=True)
    if started is None:
        yield None
        return
    try:
        with trace.use_span(started, record_exception=False, set_status_on_exception=False):
            yield started
    except BaseException as error:
        _failed_with(trace, started, error)
        raise
    finally:
        started.end()


def _names(method: str, target: Any) -> tuple[str, dict[str, Any]]:
    """The name of a span and its first attributes."""
    attributes: dict[str, Any] = {"mcp.method.name": method}
    if type(target) is not str or not target:
        return method, attributes
    target = safe_text(target, _MAX_NAME_CHARS)
    if method == "prompts/get":
        attributes["gen_ai.prompt.name"] = target
    elif method == TOOLS_CALL:
        attributes["gen_ai.tool.name"] = target
        attributes["gen_ai.operation.name"] = "execute_tool"
    else:
        return method, attributes
    return f"{method} {target}", attributes


class _TracedRequest(Span):
    def __init__(
        self, trace: Any, started: Any, call: Any, measured: dict[str, Any] | None
    ) -> None:
        super().__init__(measured)
        self._trace = trace
        self._started = started
        self._call = call

    def meta(self, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        carrier: dict[str, str] = {}
        try:
            span = self._call or self._started
            context = self._trace.set_span_in_context(span)
            import_module("opentelemetry.propagate").inject(carrier, context)
        except Exception:  # noqa: BLE001 - a fault in tracing is not the request's
            _log.warning("cannot send the trace context", exc_info=True)
        own_keys = set(own or ())
        if own_keys & _TRACE:  # half of one trace with half of another is not a trace
            own_keys |= _TRACE
        added = {key: carrier[key] for key in _KEYS if key in carrier and key not in own_keys}
        return {**(own or {}), **added} if added else own

    def sent(self, id: Id) -> None:
        for each in (self._started, self._call):
            if each is not None:
                each.set_attribute("jsonrpc.request.id", str(id))

    def failed(self, error: BaseException) -> None:
        _failed_with(self._trace, self._started, error)
        super().failed(error)

    def done(self, parsed: ParsedResult) -> ParsedResult:
        if _is_tool_error(parsed):
            _failed(self._trace, self._started, "tool_error")
        return super().done(parsed)


class _TracedCall(CallSpan):
    def __init__(self, trace: Any, started: Any, content: Content | None) -> None:
        self._trace = trace
        self._started = started
        self._content = content if started.is_recording() else None

    async def approval(self, call: Any, deciding: Awaitable[Verdict]) -> Verdict:
        if self._content is not None:
            self._show("arguments", self._content.arguments, call)
        with _current(self._trace, "approval", self._trace.SpanKind.INTERNAL, {}):
            verdict = await deciding
        if self._content is not None and verdict.request is not call:
            self._show("arguments", self._content.arguments, verdict.request)
        return verdict

    def done(self, result: Result | None) -> None:
        if result is None:
            return
        if self._content is not None:
            self._show("result", self._content.result, result)
        if result.is_error:
            _failed(self._trace, self._started, "tool_error")

    def _show(self, what: str, show: Callable[[Any], str], value: Any) -> None:
        try:
            self._started.set_attribute(f"gen_ai.tool.call.{what}", show(value))
        except Exception as error:  # noqa: BLE001 - the host's own redaction may raise anything
            _log.warning(
                "cannot record the %s of a call in its span: %s", what, type(error).__name__
            )


def _is_tool_error(parsed: ParsedResult) -> bool:
    return isinstance(parsed, Complete) and parsed.result.get("isError") is True


def _failed_with(trace: Any, started: Any, error: BaseException) -> None:
    _failed(trace, started, error_type(error))
    if isinstance(error, ServerError) and error.code is not None:
        started.set_attribute("rpc.response.status_code", str(error.code))


def _failed(trace: Any, started: Any, kind: str) -> None:
    started.set_attribute("error.type", kind)
    started.set_status(trace.Status(trace.StatusCode.ERROR))


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
