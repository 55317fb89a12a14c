"""The life of one call, top to bottom.

    open the audit entry -> find the definition in force -> freeze the call -> ask approval ->
    send, wait, answer what it asks back -> check the result against the definition that was in
    force -> close the audit entry -> hand over

This is the only module that sends ``tools/call``, and ``_send`` its only place; it takes nothing
but a call the gate has approved.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType, TypeAlias

import anyio

from ..approval.gate import Gate
from ..approval.remembered import OneCallApproval
from ..catalog.result import ToolResult
from ..catalog.tool import Tool, ToolCall
from ..connection.cancellation import CancelToken, stop_if_cancelled
from ..connection.connection import Connection
from ..connection.rpc import CallOptions, OnProgress, RpcConnection, Traffic
from ..errors import (
    ConfigError,
    ConnectError,
    InvalidArguments,
    InvalidResult,
    InvalidSchema,
    McpError,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..handlers.input_rounds import InputRequiredLoop
from ..protocol.canonical_json import NotJson, canonical_of, plain
from ..protocol.jsonrpc import Json
from ..protocol.metadata import check_meta
from ..runtime.event_loop import cancel_requests, current
from ..runtime.limits import Limits, Timeouts
from ..validation.checker import Checker, Problem
from ..validation.worker_pool import WorkerPool
from .tool_validation import input_checker, output_checker

if TYPE_CHECKING:
    from ..audit import Audit, Entry
    from ..catalog.pins import Pins

__all__ = ["Approved", "Caller", "Strictness", "strictness_of"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
Approved = NewType("Approved", ToolCall)
"""A call that the gate said yes to, not yet used."""

_log = logging.getLogger("mcp_client")


class CallRequest(NamedTuple):
    """One call as the caller wants it, and what goes along with it on its way."""

    name: str
    arguments: Mapping[str, Any] | None
    timeouts: Timeouts
    on_progress: OnProgress | None
    meta: Mapping[str, Any] | None
    strictness: Strictness
    context: Hashable
    cancel: CancelToken | None
    cancel_requests: int
    """Those to cancel the caller's task that were open when the call began."""
    traffic: Traffic | None
    entry: Entry | None
    once: OneCallApproval


class Caller:
    """Makes the calls of one session."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[Tool]],
        connection: Connection,
        renewed: Callable[[McpError], Awaitable[bool]],
        rounds: InputRequiredLoop,
        workers: WorkerPool,
        gate: Gate,
        results: Strictness,
        arguments: Strictness,
        limits: Limits,
        prefix: str,
        server: str,
        pins: Pins | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._find = find
        self._connection = connection
        self._renewed = renewed
        self._rounds = rounds
        self._gate = gate
        self._results = results
        self._arguments = arguments
        self._limits = limits
        self._workers = workers
        self._prefix = prefix
        self._server = server
        self._pins = pins
        self._audit = audit
        self._numbers = itertools.count(1)

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeouts: Timeouts,
        on_progress: OnProgress | None,
        meta: Mapping[str, Any] | None,
        validation: Strictness | None = None,
        cancel: CancelToken | None = None,
        context: Hashable = None,
    ) -> ToolResult:
        if validation is not None:
            strictness_of("validation", validation)
        if cancel is not None and not isinstance(cancel, CancelToken):
            raise ConfigError(f"cancel={cancel!r}: give a CancelToken")
        if isinstance(meta, Mapping):
            check_meta(meta)
        entry = None if self._audit is None else self._audit.entry(self._new_id(), name, arguments)
        order = CallRequest(
            name,
            arguments,
            timeouts,
            on_progress,
            meta,
            validation or self._results,
            context,
            cancel,
            cancel_requests(),
            entry.traffic if entry is not None else Traffic() if cancel is not None else None,
            entry,
            OneCallApproval(),
        )
        if cancel is None:
            return await self._attempts(order)
        return await self._until_cancelled(order, cancel)

    async def _until_cancelled(self, order: CallRequest, token: CancelToken) -> ToolResult:
        if not token.cancelled:
            with anyio.CancelScope() as scope:
                forget = token._watch(scope, current())
                try:
                    return await self._attempts(order)
                finally:
                    forget()
            # Cancelling the task takes precedence over cancelling the call.
            await stop_if_cancelled(None, order.cancel_requests)
        raise self._cancelled(order, token)

    def _cancelled(self, order: CallRequest, token: CancelToken) -> McpError:
        sent = order.traffic is not None and order.traffic.sent > 0
        return token._error(self._server, order.name, sent)

    async def _attempts(self, order: CallRequest) -> ToolResult:
        entry = order.entry
        run = self._run if entry is None else self._recorded
        try:
            return await run(order)
        except (ConnectError, ServerError) as error:
            if not await self._renewed(error):
                raise
        # The server refused to run it, for what we knew of it was old. Now we know better, and
        # it goes the whole way anew: the approval was for that connection and that definition,
        # unless the approver said yes to this call for as long as it stays the same.
        if entry is not None:
            again = entry.again(self._new_id())
            order = order._replace(entry=again, traffic=again.traffic)
        elif order.traffic is not None:
            order = order._replace(traffic=Traffic())
        return await run(order)

    async def _recorded(self, order: CallRequest) -> ToolResult:
        entry, token = order.entry, order.cancel
        assert entry is not None
        try:
            result = await self._run(order)
        except BaseException as error:
            cancelled = None
            if token is not None and token.cancelled:
                cancelled = self._cancelled(order, token)
            await entry.failed(error, cancelled)
            raise
        return await entry.done(result)

    async def _run(self, order: CallRequest) -> ToolResult:
        wire, tool = await self._in_force(order.name)
        try:
            call = await self._freeze(order, tool, wire)
            approved = await self._approve(order, call)
            raw = await self._send(order, approved, wire)
            return await self._check(order, approved, raw)
        except McpError as error:
            error.server, error.tool = error.server or tool.server, error.tool or tool.name
            if isinstance(error, OutcomeUnknown):
                # Repeating what may have run is safe only on a trusted server's word that it is.
                hints = tool.hints
                error.retryable = hints.read_only or hints.idempotent
            raise

    # -------------------------------------------------------------- before it

    async def _in_force(self, name: str) -> tuple[RpcConnection, Tool]:
        """The tool's definition, and the connection on which it is in force."""
        while True:
            wire = await self._connection.live()
            tool = await self._find(name)
            if self._connection.stands(wire):
                return wire, tool

    async def _freeze(self, order: CallRequest, tool: Tool, wire: RpcConnection) -> ToolCall:
        entry = order.entry
        if entry is not None:
            entry.found(tool, wire.era.revision)
        value, text = _object("arguments", {} if order.arguments is None else order.arguments)
        call = ToolCall(
            id=self._new_id() if entry is None else entry.id,
            server=tool.server,
            tool=tool,
            arguments_json=text,
            meta_json=None if order.meta is None else _object("meta", order.meta)[1],
            hints=tool.hints,
            findings=tool.findings if self._pins is None else self._pins.all_findings(tool),
            generation=wire.generation,
            context=order.context,
        )
        return await self._checked(order, call, value)

    def _new_id(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

    async def _checked(
        self, order: CallRequest, call: ToolCall, arguments: dict[str, Any]
    ) -> ToolCall:
        """The call with what its arguments get wrong among its findings."""
        if self._arguments == "off":
            return call
        checker = input_checker(call.tool, self._limits)
        if checker.is_known_valid(arguments):
            return call
        problem = await checker.problem(arguments, self._workers, order.timeouts.validation)
        if problem is None:
            return call
        finding = problem.of("the arguments", "the tool's input schema")
        if order.entry is not None:
            order.entry.breaks(finding, problem.path)
        if self._arguments == "strict":
            raise InvalidArguments(finding, path=problem.path)
        _log_break("argument object", call, problem)
        return replace(call, findings=(*call.findings, finding))

    async def _approve(self, order: CallRequest, call: ToolCall) -> Approved:
        entry = order.entry
        if entry is not None:
            await entry.open(call)
        if order.strictness != "off":  # an unusable schema is found out before, not after
            checker = output_checker(call.tool, self._limits)
            if checker is not None:
                await checker.prepare(self._workers, order.timeouts.validation)
        if self._pins is not None:
            self._pins.refuse(call)
        if entry is not None:
            entry.asking()
        verdict = await self._gate.approve(call, order.once)
        answered = verdict.call
        if entry is not None:
            entry.decided(answered, verdict.source, verdict.reason)
        if answered.edited:
            arguments = _loads(answered.arguments_json)
            answered = await self._checked(order, answered, arguments)
            self._gate.refuse(answered)
        if self._pins is not None and self._pins.has_drifted(call.tool):
            await anyio.to_thread.run_sync(self._pins.approved, call.tool)
        return Approved(answered)

    # ----------------------------------------------------------------- it

    async def _send(
        self, order: CallRequest, call: Approved, wire: RpcConnection
    ) -> dict[str, Any]:
        if not self._connection.stands(wire) and await self._connection.live() is not wire:
            raise _made_anew()
        options = CallOptions(
            meta=None if call.meta_json is None else _loads(call.meta_json),
            progress=True,
            on_progress=order.on_progress,
            mirrors=call.tool.mirrors if wire.mirrors else (),
            repeatable=call.hints.idempotent,
            traffic=order.traffic,
            cancel=order.cancel,
            cancel_requests=order.cancel_requests,
        )
        fields = {"name": call.tool.name, "arguments": Json(call.arguments_json)}
        await stop_if_cancelled(order.cancel, order.cancel_requests)
        if order.entry is not None:
            order.entry.sending()
        return await self._rounds.run(wire, "tools/call", fields, order.timeouts, options, call)

    # --------------------------------------------------------------- after it

    async def _check(self, order: CallRequest, call: Approved, raw: dict[str, Any]) -> ToolResult:
        try:
            result = ToolResult.from_wire(raw, call.server, call.tool.name, self._prefix)
        except ValueError as error:
            raise ProtocolViolation(f"the tool's result is none: {error}", result=raw) from None
        if result.is_error or order.strictness == "off":
            return result
        checker = output_checker(call.tool, self._limits)
        if checker is None:
            return result
        if "structuredContent" not in raw:
            problem: Problem | None = Problem("", "structuredContent", "none of it")
        elif checker.is_known_valid(result.structured_content):
            return result
        else:
            problem = await self._judged(checker, result, order.timeouts)
        if problem is None:
            return result
        finding = problem.of("its result", "its output schema")
        if order.strictness == "strict":
            raise InvalidResult(
                f"the tool ran, but {finding}; the whole result is in .result",
                path=problem.path,
                result=result,
            )
        _log_break("result", call, problem)
        return replace(result, findings=(finding,))

    async def _judged(
        self, checker: Checker, result: ToolResult, timeouts: Timeouts
    ) -> Problem | None:
        try:
            return await checker.problem(
                result.structured_content, self._workers, timeouts.validation
            )
        except InvalidSchema as error:
            # The tool ran: what was found out too late must not say that nothing was sent.
            return Problem("", "", "", str(error))


def strictness_of(option: str, value: object) -> None:
    """Raises ``ConfigError`` unless ``value`` is one."""
    if value not in ("strict", "warn", "off"):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")


def _made_anew() -> ConnectError:
    return ConnectError(
        "the connection was lost and made anew while approval was asked for, and an approval is "
        "good for one connection only; call again",
        retryable=True,
    )


def _object(what: str, value: Any) -> tuple[dict[str, Any], str]:
    """``value`` as a plain JSON object, and its canonical text."""
    if not isinstance(value, Mapping):
        raise InvalidArguments(
            f"{what} is a {type(value).__name__}: give a dict, which becomes a JSON object"
        )
    try:
        object = plain(value)
        return object, canonical_of(object)
    except NotJson as error:
        raise InvalidArguments(f"{what} cannot be sent as JSON: {error}", path=error.path) from None


def _log_break(what: str, call: ToolCall, problem: Problem) -> None:
    # The place and not the value, which may be a secret: logs travel further than findings.
    place = problem.path or "the root"
    _log.warning("%s/%s: the %s breaks the schema at %s", call.server, call.tool.name, what, place)


def _loads(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
