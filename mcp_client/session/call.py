"""The life of one call, top to bottom.

    resolve the definition in force and the connection -> freeze the call and check its arguments ->
    ask approval -> send, wait, answer what the server asks -> check the result -> hand it over

This is the only module that sends ``tools/call``, in ``_send``, which takes nothing but a call that
the gate has approved.

What was approved must still be in force when it is sent. While somebody thinks about a call, the
server may announce another definition, the list may expire or be fetched again, or the connection
may be replaced. Then the definition is resolved again: if it is the same the call goes on, if it
is another approval is asked again, once, with the differences among the findings. A new connection
counts as a difference, unless the approver said yes to this call for as long as it stays the same
(``Allow(remember="call")``).
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NewType

import anyio

from ..approval.one_call import RECONNECTED
from ..catalog.result import ToolResult
from ..catalog.tool import ToolCall
from ..catalog.tools import Catalog
from ..connection.cancellation import CancelToken, stop_if_cancelled
from ..connection.connection import Connection, session_ended
from ..connection.rpc import CallOptions, RpcConnection, Traffic
from ..connection.tracing import call_span
from ..errors import (
    CallDenied,
    ConfigError,
    ConnectError,
    InvalidArguments,
    InvalidResult,
    McpError,
    NotSent,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..handlers.input_rounds import InputRequiredLoop
from ..protocol.canonical_json import NotJson, json_object
from ..protocol.headers import HEADER_MISMATCH
from ..protocol.jsonrpc import Json
from ..protocol.metadata import check_meta
from ..runtime.event_loop import cancel_requests, current
from ..validation.checker import Problem
from ..validation.worker_pool import WorkerPool
from .call_state import CallRequest, CallState, InForce, NotRecorded
from .retry import Retry
from .setup import Setup
from .tool_validation import ToolValidation, strictness_of

__all__ = ["Approved", "Caller"]

Approved = NewType("Approved", ToolCall)
"""A call that the gate said yes to, not yet used."""

_log = logging.getLogger("mcp_client")


_NOT_RECORDED = NotRecorded()


def _check_context(context: object) -> None:
    try:
        hash(context)
    except TypeError:
        raise ConfigError(
            f"context= is a {type(context).__name__} that has no hash: give a hashable value, such "
            "as a text or a tuple of texts"
        ) from None


class Caller:
    """Makes the calls of one session."""

    def __init__(
        self,
        connection: Connection,
        tools: Catalog,
        rounds: InputRequiredLoop,
        *,
        setup: Setup,
        workers: WorkerPool,
        origin: str,
    ) -> None:
        """``origin`` is a prefix that makes the ids of this session's calls unique."""
        self._server = setup.name
        self._connection = connection
        self._tools = tools
        self._rounds = rounds
        self._gate = setup.gate
        self._pins = setup.pins
        self._audit = setup.audit
        self._retry = setup.retry
        self._validation = ToolValidation(
            setup.argument_validation, setup.validation, setup.limits, workers
        )
        self._origin = origin
        self._numbers = itertools.count(1)
        self._backend = current()

    async def run(self, request: CallRequest) -> ToolResult:
        token, name = request.cancel, request.name
        if request.validation is not None:
            strictness_of("validation", request.validation)
        if token is not None and not isinstance(token, CancelToken):
            raise ConfigError(f"cancel={token!r}: give a CancelToken")
        if isinstance(request.meta, Mapping):
            check_meta(request.meta)
        if request.context is not None:
            _check_context(request.context)
        if request.retry is not None and not isinstance(request.retry, Retry):
            raise ConfigError(f"retry={request.retry!r}: give Retry(attempts=...)")
        call = CallState(
            request,
            _NOT_RECORDED,
            request.validation or self._validation.results,
            request.retry or self._retry,
        )
        if self._audit is not None:
            call.id = self._new_id()
            call.entry = self._audit.entry(
                call.id, name, request.arguments, context=request.context
            )
            call.traffic = call.entry.traffic
        run = self._run(call) if token is None else self._run_until_cancelled(call, token)
        if "opentelemetry.trace" not in sys.modules:
            return await run
        with call_span(name) as call.span:
            result = await run
            call.span.done(result.is_error)
            return result

    async def _run_until_cancelled(self, call: CallState, token: CancelToken) -> ToolResult:
        call.cancel_requests = cancel_requests()
        if call.traffic is None:
            call.traffic = Traffic()
        if not token.cancelled:
            with anyio.CancelScope() as scope:
                forget = token._watch(scope, self._backend)
                try:
                    return await self._run(call)
                finally:
                    forget()
            # Cancelling the task takes precedence over cancelling the call.
            await stop_if_cancelled(None, call.cancel_requests)
        raise self._cancelled(call, token)

    def _cancelled(self, call: CallState, token: CancelToken) -> McpError:
        sent = call.traffic is not None and call.traffic.sent > 0
        return token._error(self._server, call.request.name, sent or call.may_have_run)

    async def _run(self, call: CallState) -> ToolResult:
        retry = call.retry
        if retry is None:
            return await self._run_once(call)
        attempts = 1
        while True:
            try:
                return await self._run_once(call)
            except McpError as error:
                error.attempts = attempts
                if attempts == retry.attempts or not retry.permits(error):
                    raise
                pause = retry.pause(error, attempts)
                if call.seconds + pause >= call.request.timeouts.total:
                    raise
                call.may_have_run |= not isinstance(error, NotSent)
            await anyio.sleep(pause)
            call.seconds += pause
            attempts += 1
            self._begin_again(call)

    async def _run_once(self, call: CallState) -> ToolResult:
        """Attempt the call, and a second time where the server refused to run it because what we
        knew of it was out of date."""
        try:
            return await self._recorded(call)
        except (ConnectError, ServerError) as error:
            if not await self._was_out_of_date(error):
                raise
        # All steps again: the approval was for that connection and that definition, unless the
        # approver said yes to this call for as long as it stays the same.
        self._begin_again(call)
        if call.retry is None:
            call.frozen = None
        return await self._recorded(call)

    def _begin_again(self, call: CallState) -> None:
        call.id, call.findings = self._new_id(), ()
        call.entry = call.entry.again(call.id)
        call.traffic = call.entry.traffic or (call.traffic and Traffic())

    async def _was_out_of_date(self, error: McpError) -> bool:
        """The server had ended our session, so that a new one will be opened (2025-11-25
        ``basic/transports``, session management); or it missed headers that a newer definition of
        the tool asks for, which is fetched (2026-07-28 ``basic/transports/streamable-http``)."""
        if isinstance(error, ServerError):
            if error.code != HEADER_MISMATCH or not self._connection.agreed().mirrors:
                return False
            await self._tools.tools(refresh=True)
            return True
        return isinstance(error, ConnectError) and session_ended(error)

    async def _recorded(self, call: CallState) -> ToolResult:
        try:
            result = await self._attempt(call)
        except BaseException as error:
            token, cancelled = call.request.cancel, None
            if token is not None and token.cancelled:
                cancelled = self._cancelled(call, token)
            await call.entry.failed(error, cancelled)
            raise
        return result if self._audit is None else await call.entry.done(result)

    async def _attempt(self, call: CallState) -> ToolResult:
        now = await self._resolve(call.request.name)
        if call.cancel_requests is None:
            call.cancel_requests = self._backend.current_task().cancelling()
        try:
            frozen = await self._freeze(call, now)
            await call.entry.open(frozen)
            approved = await self._approve(call, frozen)
            if self._may_have_changed(now):
                now, approved = await self._approve_changed(call, now, approved)
            result = await self._send(call, approved, now.wire)
            return await self._check(call, approved, result)
        except McpError as error:
            error.server = error.server or self._server
            error.tool = error.tool or now.tool.name
            if isinstance(error, OutcomeUnknown):
                # Repeating what may have run is safe only on a trusted server's word that it is.
                hints = now.tool.hints
                error.retryable = hints.read_only or hints.idempotent
            raise

    # -------------------------------------------------------------- before it

    async def _resolve(self, name: str, *, current: bool = False) -> InForce:
        """The definition of the tool, and the connection on which it is in force.

        ``current``: as the server lists it now, where the list may be out of date.
        """
        connection, tools = self._connection, self._tools
        while True:
            wire = await connection.live()
            tool = await (tools.find_current(name) if current else tools.find(name))
            if wire is connection.wire:  # and was not replaced while the list was fetched
                break
        return InForce(tool, wire, tools.version, tools.fresh)

    def _may_have_changed(self, then: InForce) -> bool:
        tools = self._tools
        return (
            tools.version != then.version
            or not self._connection.stands(then.wire)
            or (then.fresh and not tools.fresh)
        )

    async def _approve_changed(
        self, call: CallState, then: InForce, approved: Approved
    ) -> tuple[InForce, Approved]:
        """What is in force now, and its approval: the one given, or another where it changed."""
        for asked_again in (False, True):
            now = await self._resolve(call.request.name, current=True)
            call.findings = _changes(then, now)
            if not call.findings:
                return now, approved
            if asked_again:
                break
            frozen = await self._freeze(call, now)
            call.entry.changed(frozen)
            approved = await self._approve(call, frozen)
            if not self._may_have_changed(now):
                return now, approved
            then = now
        reason = f"{call.findings[0]} again"
        raise CallDenied(f"not approved: {reason}; call again", reason=reason)

    async def _freeze(self, call: CallState, now: InForce) -> ToolCall:
        request, tool = call.request, now.tool
        call.entry.found(tool, now.wire.era.revision)
        call.id = call.id or self._new_id()
        if call.frozen is None:
            call.frozen = _object(
                "arguments", {} if request.arguments is None else request.arguments
            )
        arguments, text = call.frozen
        drift, findings = None, tool.findings
        if self._pins is not None:
            drift = self._pins.drift_of(tool)
            if drift is not None:
                findings = (*drift.findings(self._pins.name), *findings)
        frozen = ToolCall(
            id=call.id,
            server=tool.server,
            tool=tool,
            arguments_json=text,
            meta_json=None if request.meta is None else _object("meta", request.meta)[1],
            hints=tool.hints,
            findings=(*call.findings, *findings) if call.findings else findings,
            generation=now.wire.generation,
            context=request.context,
            drift=drift,
        )
        if self._validation.arguments_fit(tool, arguments):
            return frozen
        return await self._with_problem(call, frozen, arguments)

    async def _with_problem(
        self, call: CallState, frozen: ToolCall, arguments: dict[str, Any]
    ) -> ToolCall:
        """The call with what is wrong with its arguments among its findings."""
        seconds = call.request.timeouts.validation
        problem = await self._validation.arguments_problem(frozen.tool, arguments, seconds)
        if problem is None:
            return frozen
        finding = problem.of("the arguments", "the tool's input schema")
        call.entry.breaks(finding, problem.path)
        if self._validation.arguments == "strict":
            raise InvalidArguments(finding, path=problem.path)
        _log_problem("argument object", frozen, problem)
        return replace(frozen, findings=(*frozen.findings, finding))

    async def _approve(self, call: CallState, frozen: ToolCall) -> Approved:
        if call.validation != "off":
            await self._validation.prepare_results(frozen.tool, call.request.timeouts.validation)
        if self._pins is not None:
            self._pins.refuse(frozen)
        call.entry.asking()
        if call.span is None:
            verdict = await self._gate.approve(frozen, call.once)
        else:
            with call.span.approval():
                verdict = await self._gate.approve(frozen, call.once)
        approved = verdict.call
        call.entry.decided(approved, verdict.source, verdict.reason, verdict.by, verdict.expires)
        if approved.edited:
            arguments = _loads(approved.arguments_json)
            if not self._validation.arguments_fit(approved.tool, arguments):
                approved = await self._with_problem(call, approved, arguments)
            self._gate.refuse(approved)
        if call.retry is not None:  # from here on, the gate recalls this yes for the same call
            call.once.keep(frozen, approved, verdict.by)
        if verdict.for_good and self._pins is not None and self._pins.has_drifted(frozen.tool):
            await anyio.to_thread.run_sync(self._pins.approved, frozen.tool)
        return Approved(approved)

    def _new_id(self) -> str:
        return f"{self._origin}-{next(self._numbers)}"

    # ----------------------------------------------------------------- it

    async def _send(
        self, call: CallState, approved: Approved, wire: RpcConnection
    ) -> dict[str, Any]:
        request = call.request
        options = CallOptions(
            meta=None if approved.meta_json is None else _loads(approved.meta_json),
            progress=True,
            on_progress=request.on_progress,
            mirrors=approved.tool.mirrors if wire.mirrors else (),
            repeatable=approved.hints.idempotent and call.retry is None,
            traffic=call.traffic,
            cancel=request.cancel,
            cancel_requests=call.cancel_requests or 0,
        )
        fields = {"name": approved.tool.name, "arguments": Json(approved.arguments_json)}
        token, before = request.cancel, call.cancel_requests or 0
        if (
            (token is not None and token.cancelled)
            or self._backend.current_task().cancelling() > before
            or anyio.current_effective_deadline() == -math.inf
        ):
            await stop_if_cancelled(token, before)
        call.entry.sending()
        return await self._rounds.run(
            wire, "tools/call", fields, request.timeouts, options, approved
        )

    # --------------------------------------------------------------- after it

    async def _check(self, call: CallState, approved: Approved, raw: dict[str, Any]) -> ToolResult:
        tool = approved.tool
        try:
            result = ToolResult.from_wire(raw, approved.server, tool.name, self._origin)
        except ValueError as error:
            raise ProtocolViolation(f"invalid tool result: {error}", result=raw) from None
        if result.is_error or call.validation == "off":
            return result
        seconds = call.request.timeouts.validation
        problem = await self._validation.result_problem(tool, raw, seconds)
        if problem is None:
            return result
        finding = problem.of("its result", "its output schema")
        if call.validation == "strict":
            raise InvalidResult(
                f"the tool ran, but {finding}; the whole result is in .result",
                path=problem.path,
                result=result,
            )
        _log_problem("result", approved, problem)
        return replace(result, findings=(finding,))


def _changes(then: InForce, now: InForce) -> tuple[str, ...]:
    """What is not the same any more, as findings; none where the approval still holds."""
    meanwhile = "while approval was asked for"
    found: list[str] = []
    if now.tool != then.tool:
        from ..catalog.pins import differences  # only now: few calls need it

        found += differences(then.tool, now.tool)
        old, new = then.tool.hints, now.tool.hints
        found += [
            f"{hint} was {getattr(old, hint)} and is now {getattr(new, hint)}"
            for hint in ("read_only", "destructive", "idempotent", "open_world")
            if getattr(old, hint) is not getattr(new, hint)
        ]
    if found or now.tool.trusted is not then.tool.trusted:
        return (f"the definition of the tool changed {meanwhile}", *found)
    if now.wire is not then.wire:
        return (RECONNECTED,)
    return ()


def _object(what: str, value: Any) -> tuple[dict[str, Any], str]:
    """``value`` as a plain JSON object, and its canonical text."""
    if not isinstance(value, Mapping):
        advice = "give json.loads(...) of it" if isinstance(value, str | bytes) else "give a dict"
        raise InvalidArguments(
            f"{what} is a {type(value).__name__}: {advice}, which becomes a JSON object"
        )
    try:
        return json_object(value)
    except NotJson as error:
        raise InvalidArguments(f"{what} cannot be sent as JSON: {error}", path=error.path) from None


def _log_problem(what: str, call: ToolCall, problem: Problem) -> None:
    # The place and not the value, which may be a secret: logs travel further than findings.
    place = problem.path or "the root"
    _log.warning("%s/%s: the %s breaks the schema at %s", call.server, call.tool.name, what, place)


def _loads(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
