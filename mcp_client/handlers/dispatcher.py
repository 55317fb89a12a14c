"""The dispatcher of a server's requests: it calls the handlers and sends their responses.

*Handshake era.* A server may send a request at any time. Each is handled by a background task of
the session, at most ``Limits.questions`` at once; requests above a limit are refused and counted.
The server may withdraw a request (``notifications/cancelled``): its handler is cancelled and
nothing is sent. The timeouts of the calls under way are paused meanwhile, see
``connection.deadlines``.

*Stateless era.* The response to a call may request input (2026-07-28 ``basic/patterns/mrtr``). All
requests of a round are parsed and checked before the first handler is called. Then the handlers are
called in the listed order, in the caller's task: cancelling the call cancels its handler.

A handler has ``Timeouts.approval`` seconds for one request. If it raises, takes longer or returns a
value that cannot be sent, that is logged. The server then gets an error without a reason (handshake
era), or the call raises ``Unanswered`` with the reason (stateless era). Several requests may be
open at once, so a handler may be called again before it has returned.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from ..approval.remembered import ApprovalMemory
from ..connection.connection import Turns
from ..errors import (
    CallDenied,
    CallTimeout,
    ConfigError,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    ServerError,
    Unanswered,
    UrlElicitationRequired,
)
from ..protocol.capabilities import declared_in
from ..protocol.era import Era, InputRequired
from ..protocol.jsonrpc import Id, Request, encode_error_response, encode_response, whole
from ..protocol.metadata import RELATED_TASK, related_task
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.callbacks import invoke_callback
from ..runtime.event_loop import Backend, LoopEvent, being_cancelled, cancel_requests
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext
from ..transports.base import Transport
from .question_checks import LIMIT_EXCEEDED, QuestionLimits, SamplingGate

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall
    from ..audit.record import SessionAudit
    from .handlers import Handlers, SamplingRequest
    from .wire_format import HandlerRequest, RequestRefused

__all__ = ["URL_REQUIRED", "Dispatcher"]

T = TypeVar("T")
_log = logging.getLogger("mcp_client")
URL_REQUIRED = -32042
_INTERNAL_ERROR = -32603
_MAX_ELICITATIONS = 256
"""URL elicitations whose completion can be waited for; the oldest is forgotten beyond that."""
_QUESTION = "the response to the server's request"
_CHECK_SECONDS = 0.5
"""Seconds between two checks whether the server that asked is still there."""


class Dispatcher:
    """The dispatcher of the requests of one session's server.

    ``wire_format`` and ``handlers`` are imported with the first request: few servers send any.
    """

    def __init__(
        self,
        handlers: Handlers | None,
        context: SessionContext,
        memory: ApprovalMemory,
        audit: SessionAudit | None = None,
    ) -> None:
        """``memory`` and ``audit`` are those of the session; ``memory`` has its decisions."""
        self._memory, self._audit = memory, audit
        self._handlers, self._server = handlers, context.server
        self._timeouts, self._limits, self._stats = context.timeouts, context.limits, context.stats
        self._capabilities = {} if handlers is None else handlers.capabilities
        self._backend: Backend | None = None
        self._tasks: BackgroundTasks | None = None
        self._open: dict[tuple[Transport, Id], BackgroundTask] = {}
        self._in_callers: set[anyio.CancelScope] = set()
        self.calls: dict[str, ToolCall] = {}
        """The tool calls under way by their id, maintained by ``InputRequiredLoop``."""
        self.of_task: dict[str, ToolCall] = {}
        """The tool calls that became awaited tasks, by the id that requests for input name."""
        self.task_progress: dict[Id, Callable[[Mapping[str, Any]], None]] = {}
        """The receivers of the progress of tasks, by the token of the request that made each."""
        self.turns: Turns = Turns(context.limits.in_flight)
        """The turns of the session's calls."""
        self._question_limits = QuestionLimits(context.limits, self.calls)
        self._watching = self._closed = False
        self._completions: dict[str, LoopEvent] = {}
        self._logged: set[tuple[str, type]] = set()

    def start(self, backend: Backend) -> None:
        """Start in the event loop of the session, which runs on ``backend``."""
        self._backend = backend
        self._tasks = BackgroundTasks(backend, self._server)

    async def aclose(self) -> None:
        """Cancel every handler. Calls that wait for one raise ``ConnectionLost``."""
        self._closed = True
        if "_sampling_gate" in vars(self):
            self._sampling_gate.close()
        for scope in list(self._in_callers):
            scope.cancel()
        if self._tasks is not None:
            await self._tasks.aclose(self._timeouts.close)

    def run_in_background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a function in the background of the session, outside any task."""
        assert self._tasks is not None
        self._tasks.start(work)

    # -------------------------------------------------------------------- handshake era

    def on_request(
        self,
        transport: Transport,
        request: Request,
        era: Era | None,
        pause: Callable[[], Callable[[], None]],
    ) -> None:
        """Respond to a server's request, sooner or later.

        ``pause`` pauses the timeouts of the calls under way, and returns a function that resumes
        them. The reader of the transport calls this, which on stdio is a loop callback. So it must
        not raise: the server would wait forever, and with its timeouts paused so would every call.
        """
        if self._closed:
            return
        from .wire_format import RequestRefused

        try:
            self._start_responding(transport, request, era, pause)
        except RequestRefused as refused:
            self._refuse(transport, request, refused)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("%s: cannot handle a request of the server", self._server)
            self._refuse(transport, request, RequestRefused(_INTERNAL_ERROR, "the client failed"))

    def _start_responding(
        self,
        transport: Transport,
        request: Request,
        era: Era | None,
        pause: Callable[[], Callable[[], None]],
    ) -> None:
        from .wire_format import RequestRefused

        assert self._tasks is not None
        key = transport, request.id
        if len(self._open) >= self._limits.questions or key in self._open:
            raise RequestRefused(LIMIT_EXCEEDED, "too many requests at once")
        task = related_task(request.params)
        call = self.of_task.get(task) if task is not None else None
        about = call or self._question_limits.only_call
        parsed = self._parse(request.method, request.params, era, about)
        self._count([parsed], call)
        if not self._watching:
            self._tasks.start(self._watch_connections)
            self._watching = True
        resume = pause()

        async def respond() -> None:
            try:
                text = await self._response(request.id, parsed, era, task)
            finally:
                self._open.pop(key, None)
                resume()
            if responding.cancel_called:
                return  # the handler swallowed the cancellation: its response is dropped
            try:
                await transport.send(text, {})
            except McpError as error:
                _log.debug("%s: cannot send a response: %s", self._server, error)

        try:
            responding = self._open[key] = self._tasks.start(respond)
        except BaseException:
            resume()
            raise

    def cancel_all_but(self, transport: Transport) -> None:
        """Cancel the handlers that were called for any other connection."""
        for (origin, _), task in list(self._open.items()):
            if origin is not transport:
                task.cancel()

    async def _watch_connections(self) -> None:
        """Cancel the handlers whose server has gone, as long as any handler runs."""
        try:
            while self._open:
                await anyio.sleep(_CHECK_SECONDS)
                for (origin, _), task in list(self._open.items()):
                    if not origin.alive:
                        task.cancel()
        finally:
            self._watching = False

    def on_cancelled(self, transport: Transport, params: Mapping[str, Any]) -> None:
        """Cancel a request that the server withdrew (``basic/utilities/cancellation``)."""
        id = whole(params.get("requestId"))
        if type(id) is int or type(id) is str:
            task = self._open.get((transport, id))
            if task is not None:
                reason = safe_text(params.get("reason") or "", 200)
                _log.debug("%s: the server withdrew its request: %s", self._server, reason)
                task.cancel()

    def _refuse(self, transport: Transport, request: Request, refused: RequestRefused) -> None:
        self._stats.refused_questions += 1
        first = self._stats.refused_questions == 1
        _log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s: a request (%s) was refused: %s",
            self._server,
            safe_text(request.method, 80),
            refused,
        )
        transport.send_soon(encode_error_response(request.id, refused.code, str(refused)), {})

    async def _response(
        self, id: Id, request: HandlerRequest, era: Era | None, task: str | None
    ) -> str:
        from .wire_format import InvalidHandlerAnswer, RequestRefused

        try:
            result = await self._ask(request, era)
            if task is not None:
                result["_meta"] = {**(result.get("_meta") or {}), RELATED_TASK: {"taskId": task}}
            return encode_response(id, result)
        except RequestRefused as refused:
            self._stats.refused_questions += 1
            return encode_error_response(id, refused.code, str(refused))
        except InvalidHandlerAnswer as error:
            self._stats.refused_questions += 1
            _log.warning("%s: a request for input gets no response: %s", self._server, error)
            return encode_error_response(id, _INTERNAL_ERROR, "the client has no response to this")

    # -------------------------------------------------------------------- stateless era

    async def respond_to_round(
        self, era: Era, round: InputRequired, call: ToolCall | None = None
    ) -> dict[str, Any]:
        """Return the members to add to the next request of ``call``, the one under way.

        Raises ``ProtocolViolation``, ``Unanswered``, or ``ConnectionLost`` if the session is
        closed.
        """
        state = {} if round.state is None else {"requestState": round.state}
        if not round.questions:
            return state
        responses = await self.until_closed(lambda: self._responses(era, round, call), _QUESTION)
        return {"inputResponses": responses, **state}

    async def _responses(
        self, era: Era, round: InputRequired, call: ToolCall | None
    ) -> dict[str, Any]:
        from .wire_format import InvalidHandlerAnswer, RequestRefused

        if len(round.questions) > self._limits.questions:
            raise self._violation(
                f"the server sent {len(round.questions)} requests for input at once, and at most "
                f"{self._limits.questions} are accepted (Limits.questions)",
                round,
            )
        requests = {
            key: self._parse_of_round(question, era, round, call)
            for key, question in round.questions.items()
        }
        responses = {}
        try:
            self._count(list(requests.values()), call)
            for key, request in requests.items():
                responses[key] = await self._ask(request, era)
        except (RequestRefused, InvalidHandlerAnswer) as error:
            kinds = ", ".join(sorted({type(one).__name__ for one in requests.values()}))
            self._stats.refused_questions += 1
            _log.warning("%s: cannot respond to %s: %s", self._server, kinds, error)
            cause = error.__cause__
            why = f": {cause.reason}" if isinstance(cause, CallDenied) else ""
            raise Unanswered(
                f"the server requested input ({kinds}) and got none: {error}{why}",
                result=round.result,
                server=self._server,
            ) from cause
        return responses

    def _parse_of_round(
        self, question: object, era: Era, round: InputRequired, call: ToolCall | None
    ) -> HandlerRequest:
        from .wire_format import METHOD_NOT_FOUND, RequestRefused

        if not isinstance(question, dict):
            raise self._violation("one of the server's requests for input is not an object", round)
        try:
            params = question.get("params")
            params = {} if params is None else params
            return self._parse(question.get("method"), params, era, call)
        except RequestRefused as refused:
            self._stats.refused_questions += 1
            method = safe_text(question.get("method"), 80)
            what = (
                f"{method}, which this client did not declare"
                if refused.code == METHOD_NOT_FOUND
                else f"{method} and breaks the rules for it: {refused}"
            )
            raise self._violation(f"the server requests {what}", round) from None

    def _violation(self, message: str, round: InputRequired) -> ProtocolViolation:
        return ProtocolViolation(message, result=round.result, server=self._server)

    async def until_closed(self, work: Callable[[], Awaitable[T]], before: str) -> T:
        """Do ``work`` in the caller's task, until the session is closed.

        Then it raises ``ConnectionLost``, which states that this was ``before`` something.
        """
        with anyio.CancelScope() as scope:
            self._in_callers.add(scope)
            try:
                result = await work()
                if not self._closed:
                    return result
            finally:
                self._in_callers.discard(scope)
        raise ConnectionLost(
            f"the session was closed before {before}; it may have run",
            why="the session was closed",
            server=self._server,
        )

    # --------------------------------------------------------------- URL elicitation errors

    async def url_elicitation_required(
        self, era: Era, error: ServerError, call: ToolCall | None = None
    ) -> ServerError:
        """Return the exception for an error that requires a person to visit URLs first.

        Each URL is passed to the handler, which opens it after consent (2025-11-25
        ``client/elicitation``). The request is not repeated: only the host can know when the person
        has finished.
        """
        declared = declared_in(era.revision, self._capabilities)
        if not era.server_may_ask or "url" not in declared.get("elicitation", {}):
            return error
        return await self.until_closed(lambda: self._ask_for_urls(era, error, call), _QUESTION)

    async def _ask_for_urls(
        self, era: Era, error: ServerError, call: ToolCall | None
    ) -> ServerError:
        from .wire_format import InvalidHandlerAnswer, RequestRefused, parse_required_urls

        try:
            requests = parse_required_urls(error.data, self._server)
            self._count(requests, call)
        except RequestRefused as refused:
            _log.warning("%s: cannot use error -32042: %s", self._server, refused)
            return error
        requests = tuple(dataclasses.replace(request, call=call) for request in requests)
        consents = 0
        for request in requests:
            self._expect_completion(request)
            try:
                consents += (await self._ask(request, era))["action"] == "accept"
            except (RequestRefused, InvalidHandlerAnswer) as reason:
                _log.warning("%s: consent to open a URL was refused: %s", self._server, reason)
        hosts = ", ".join(sorted({request.host or "" for request in requests}))
        agreed = consents == len(requests)
        advice = "call again once that is done" if agreed else "not everything was agreed to"
        return UrlElicitationRequired(
            f"the server wants a person to visit {hosts} first; {advice} (code {error.code})",
            elicitations=requests,
            code=error.code,
            data=error.data,
            server_message=error.server_message,
            http_status=error.http_status,
            server=self._server,
            retryable=agreed,
        )

    def _expect_completion(self, request: HandlerRequest) -> None:
        id = getattr(request, "elicitation_id", None)
        if id is not None:
            if len(self._completions) >= _MAX_ELICITATIONS:
                del self._completions[next(iter(self._completions))]
            self._completions.setdefault(id, LoopEvent())

    def on_elicitation_complete(self, params: Mapping[str, Any]) -> None:
        """Note that a visit is complete. An unknown id is ignored."""
        completion = self._completions.get(str(params.get("elicitationId")))
        if completion is not None:
            completion.set()

    async def wait_for_elicitation(self, elicitation_id: str) -> None:
        """Wait until the server reports that the visit is complete.

        Raises ``CallTimeout`` after ``Timeouts.approval``, and ``ConfigError`` for an id that the
        server did not send.
        """
        is_id = isinstance(elicitation_id, str)
        found = self._completions.get(elicitation_id) if is_id else None
        if found is None:
            raise ConfigError(
                f"the server did not request the elicitation {safe_text(elicitation_id, 80)!r}",
                server=self._server,
            )
        with anyio.move_on_after(self._timeouts.approval):
            await found.wait()
            return
        raise CallTimeout(
            "the server did not report that the elicitation was completed",
            clock="total",
            server=self._server,
        )

    # ----------------------------------------------------------------- calling the handlers

    def _parse(
        self, method: object, params: object, era: Era | None, call: ToolCall | None
    ) -> HandlerRequest:
        from .wire_format import parse_request

        declared = {} if era is None else declared_in(era.revision, self._capabilities)
        titled = era is not None and era.full_forms
        request = parse_request(method, params, self._server, declared, titled)
        self._expect_completion(request)
        return request if call is None else dataclasses.replace(request, call=call)

    def _count(self, requests: Sequence[HandlerRequest], call: ToolCall | None = None) -> None:
        """Raise ``RequestRefused`` if there are too many requests.

        A fixed list of roots has no handler and costs nothing, so that requests for it do not
        count.
        """
        assert self._backend is not None
        handlers = self._handlers
        fixed = handlers is not None and not callable(handlers.roots)
        number = sum(not (fixed and one.handler == "roots") for one in requests)
        self._question_limits.count(number, self._backend.now, call)

    async def _ask(self, request: HandlerRequest, era: Era | None) -> dict[str, Any]:
        """The result to send. Raises ``RequestRefused`` or ``InvalidHandlerAnswer``."""
        from .wire_format import InvalidHandlerAnswer, RequestRefused, encode_result

        before = cancel_requests()
        with self.turns.lent(), anyio.move_on_after(self._timeouts.approval):
            try:
                if request.handler == "sampling":
                    await self._sampling_gate.approve(cast("SamplingRequest", request))
                returned = await self._call_handler(request)
                return encode_result(request, returned, era is not None and era.full_forms)
            except (RequestRefused, InvalidHandlerAnswer):
                raise
            except BaseException as error:
                # If nothing cancelled this task, a cancellation is the handler's own failure.
                cancelled = isinstance(error, anyio.get_cancelled_exc_class())
                if being_cancelled(before) or not (cancelled or isinstance(error, Exception)):
                    raise
                self._log_failure(f"the handler of {type(request).__name__}", error)
                raise InvalidHandlerAnswer(f"its handler raised {type(error).__name__}") from error
        limit = f"{self._timeouts.approval:g} s, Timeouts(approval=...)"
        raise InvalidHandlerAnswer(f"its handler did not respond within {limit}")

    async def _call_handler(self, request: HandlerRequest) -> Any:
        handler = getattr(self._handlers, request.handler)
        return await invoke_callback(handler, request) if callable(handler) else handler

    @cached_property
    def _sampling_gate(self) -> SamplingGate:
        assert self._handlers is not None
        return SamplingGate(self._handlers, self._timeouts.approval, self._memory, self._audit)

    def _log_failure(self, what: str, error: BaseException) -> None:
        """Log an exception of the host's code: the first of its kind with its traceback."""
        first = (what, type(error)) not in self._logged
        self._logged.add((what, type(error)))
        _log.warning(
            "%s: %s raised %s", self._server, what, type(error).__name__,
            exc_info=error if first else None,
        )  # fmt: skip
