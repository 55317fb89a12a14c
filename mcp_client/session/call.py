"""The life of one call, top to bottom: see ``Caller._attempt``.

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
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NewType

import anyio

from ..approval.decision import Allow
from ..approval.remembered import write_down
from ..approval.tool_call import ToolCall, new_call
from ..catalog.call_context import CallOrigin
from ..catalog.result import ToolResult
from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions, check_call_options, frozen_tag
from ..connection.cancellation import CancelToken, stop_if_cancelled
from ..connection.connection import Connection
from ..connection.rpc import RequestOptions, Traffic
from ..connection.tracing import call_span
from ..errors import (
    CallDenied,
    InvalidArguments,
    McpError,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..handlers.input_rounds import InputRequest, InputRequiredLoop
from ..protocol.canonical_json import object_of
from ..protocol.era import Complete, InputRequired, Reading
from ..protocol.jsonrpc import Json
from ..runtime.event_loop import cancel_requests, current
from ..transports.base import PersonAsked
from ..validation.worker_pool import WorkerPool
from .call_state import CallState, InForce, changes, is_task, not_fetched, not_for, was_out_of_date
from .session_options import Setup
from .tool_validation import ToolValidation, arguments_finding, log_problem, told_to_caller

if TYPE_CHECKING:
    from ..approval.script import Script
    from ..extensions.tasks import TaskCalls
    from .started_call import StartedCall

__all__ = ["Approved", "Caller"]

_MAX_LOGINS = 3
"""Times that somebody may be asked to log in for one call."""
Approved = NewType("Approved", ToolCall)
"""A call that the gate said yes to, not yet used."""


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
        tasks: Callable[[], TaskCalls],
    ) -> None:
        """``origin`` is a prefix that makes the ids of this session's calls unique; ``tasks`` gives
        the tasks of its server."""
        self._server = setup.name
        self._connection = connection
        self._tools = tools
        self._rounds = rounds
        self._gate = setup.gate
        self._pins = setup.pins
        self._identity = setup.memory.identity
        self._audit = setup.audit
        self._secrets, self._content = setup.secrets, setup.content
        self._binding = setup.bind
        self._state = setup.state
        self._retry = setup.retry
        self._timeouts = setup.timeouts
        self._address = lambda: connection.transport.address
        self.validation: ToolValidation = ToolValidation(setup.validation, setup.limits, workers)
        self._origin, self._numbers = origin, itertools.count(1)
        self._tasks = tasks
        self._backend = current()

    def begin(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        options: CallOptions,
        origin: CallOrigin = "host",
        script: Script | None = None,
    ) -> CallState:
        """A call with these options, else the session's, for ``run``. Raises ``ConfigError``."""
        validation = self.validation.results
        call = CallState(name, arguments, origin, script, self._timeouts, validation, self._retry)
        if options:
            call.timeouts = check_call_options(options, self._timeouts)
            for option, value in options.items():
                if value is not None and option != "timeout":
                    setattr(call, option, value if option != "tag" else frozen_tag(value))
            if call.idempotency_key is not None:
                from .journal import KeyedCall

                call.keyed = KeyedCall.of(self, call, call.idempotency_key, self._state)
                call.traffic = Traffic()
        if self._audit is not None:
            call.id = self._new_id()
            about = call.context, origin, script, call.tag
            call.entry = self._audit.entry(call.id, name, arguments, *about)
            call.traffic = call.entry.traffic
        return call

    def run(self, call: CallState) -> Coroutine[Any, Any, ToolResult]:
        """Make a call: one attempt, or more where ``Retry`` permits them."""
        if call.cancel is not None:
            return self._run_until_cancelled(call, call.cancel)  # type: ignore[return-value]
        return self._run(call)  # type: ignore[return-value]  # None: if it hands over

    async def _run_until_cancelled(self, call: CallState, token: CancelToken) -> ToolResult | None:
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

    def _run(self, call: CallState) -> Coroutine[Any, Any, ToolResult | None]:
        traced = "opentelemetry.trace" in sys.modules
        attempts = self._traced if traced else self._attempts
        return attempts(call) if call.keyed is None else call.keyed.run(attempts)

    async def _traced(self, call: CallState) -> ToolResult | None:
        with call_span(call.name, self._content) as call.span:
            result = await self._attempts(call)
            call.span.done(result)
            return result

    async def _attempts(self, call: CallState) -> ToolResult | None:
        while True:
            try:
                return await self._attempt(call)
            except McpError as error:
                pause = self._pause_before_next(call, error)
                if pause is None:
                    raise
            await anyio.sleep(pause)
            call.id, call.findings = self._new_id(), ()
            call.entry = call.entry and call.entry.again(call.id)
            call.traffic = call.entry.traffic if call.entry else call.traffic and Traffic()

    async def _attempt(self, call: CallState) -> ToolResult | None:
        """The steps of a call, in order. If one raises, the next ones do not happen.
        None if a task is handed over: the last steps follow its end."""
        now: InForce | None = None
        if call.entry is not None:
            call.entry.begin()
        try:
            now = await self._resolve(call.name)
            if call.cancel_requests is None:
                call.cancel_requests = self._backend.current_task().cancelling()
            frozen = await self._freeze(call, now)
            if call.entry is not None:
                await call.entry.open(frozen)
            approved = await self._approve(call, frozen)
            if call.keyed is not None:
                await call.keyed.sending()
            if self._may_have_changed(now):
                now, approved = await self._approve_changed(call, now, approved)
            while True:
                try:
                    raw = await self._send(call, approved, now)
                    break
                except PersonAsked:  # to log in, and then the definition was another one
                    if call.logins > _MAX_LOGINS:
                        raise
                now, approved = await self._approve_changed(call, now, approved)
            if raw is None:  # a task is handed over
                call.ending = self._ending(call, approved, now)
                if call.entry is not None:
                    call.entry.hand_over()
                return None
            result = await self._checked(call, approved, raw)
        except BaseException as error:
            await self._failed(call, now, error)
            raise
        if call.keyed is not None:
            return await call.keyed.settle(result)
        return result if call.entry is None else await call.entry.done(result)

    async def _resolve(self, name: str, *, current: bool = False) -> InForce:
        """The definition of the tool, and the connection on which it is in force.

        ``current``: as the server lists it now, where the list may be out of date.
        """
        connection, tools = self._connection, self._tools
        while True:
            rpc, version = connection.usable or await connection.ensure_connected(), tools.version
            try:
                find = tools.find_current if current else tools.find
                tool = (None if current else tools.usable(name)) or await find(name)
            except OutcomeUnknown as error:
                raise not_fetched(error) from error
            if tools.version == version or connection.is_current(rpc):  # else lost while it waited
                return InForce(tool, rpc, tools.version, tools.can_expire and tools.fresh)

    def _may_have_changed(self, then: InForce) -> bool:
        tools = self._tools
        return (
            tools.version != then.version
            or tools.outdated  # told right behind the list that ``then`` is from
            or not self._connection.is_current(then.rpc)
            or (then.fresh and not tools.fresh)
        )

    async def _freeze(self, call: CallState, now: InForce) -> ToolCall:
        """The call as a value that cannot change, with what is wrong with its arguments."""
        tool, era = now.tool, now.rpc.era
        if call.entry is not None:
            call.entry.found(tool, era.revision)
        plan = call.plan = tool._plan or self.validation.plan(tool)
        if not plan.callers[call.origin]:
            raise not_for(tool)
        call.as_task = era.has_tasks and is_task(plan, era, call.hands_over)
        call.id = call.id or self._new_id()
        if call.frozen is None:
            call.frozen = object_of("arguments", {} if call.arguments is None else call.arguments)
        arguments, text = call.frozen
        if self._binding is not None:
            arguments, text = await self._binding.complete(call, tool, arguments, self._gate)
        drift, findings = None, plan.findings
        if self._pins is not None:
            drift = await self._pins._drift_of(tool)
            if drift is not None:
                findings = (*drift.findings(self._pins.name), *findings)
        frozen = new_call(
            id=call.id,
            server=tool.server,
            tool=tool,
            arguments_json=text,
            meta_json=None if call.meta is None else object_of("meta", call.meta)[1],
            hints=plan.hints,
            findings=(*call.findings, *findings) if call.findings else findings,
            generation=now.rpc.generation,
            context=call.context,
            tag=call.tag,
            origin=call.origin,
            script=call.script,
            _address=self._address,
            drift=drift,
            _identity=self._identity,
        )
        if plan.input.is_known_valid(arguments):
            return frozen
        return await self._with_problem(call, frozen, arguments)

    async def _with_problem(
        self, call: CallState, frozen: ToolCall, arguments: dict[str, Any]
    ) -> ToolCall:
        """The call with what is wrong with its arguments among its findings."""
        seconds = call.timeouts.validation
        problem = await self.validation.arguments_problem(call.plan, arguments, seconds)
        if problem is None:
            return frozen
        text = problem.of("the arguments", "the tool's input schema")
        finding = arguments_finding(problem, text, arguments)
        if call.entry is not None:
            call.entry.breaks(finding, problem.path)
        if self.validation.refuses(call.arguments, frozen.edited, problem):
            raise InvalidArguments(told_to_caller(problem, frozen.tool, text), path=problem.path)
        log_problem("argument object", frozen.server, frozen.tool.name, problem)
        return replace(frozen, findings=(*frozen.findings, finding))

    async def _check_edit(self, call: CallState, edited: ToolCall, answer: Allow) -> ToolCall:
        """The approver's call with what is wrong with its arguments among its findings."""
        try:
            if self._binding is not None:
                edited = self._binding.kept(call, edited)
            arguments = json.loads(edited.arguments_json)
            if not call.plan.input.is_known_valid(arguments):
                edited = await self._with_problem(call, edited, arguments)
        except InvalidArguments:
            if call.entry is not None:
                call.entry.decided(edited, answer.source, answer.reason, answer.by)
            raise
        if call.entry is not None:
            call.entry.edited(edited)
        return edited

    async def _approve(self, call: CallState, frozen: ToolCall) -> Approved:
        plan = call.plan
        if call.validation != "off" and not (plan.output is None or plan.output.is_sound):
            await self.validation.prepare_results(plan, call.timeouts.validation)
        if self._pins is not None:
            self._pins._check_policy(frozen.tool, frozen.drift)
        if call.entry is not None:
            call.entry.asking()
        call.step("asked")
        check, seconds = partial(self._check_edit, call), call.timeouts.approval
        deciding = self._gate.decide(frozen, call.once, check, seconds)
        verdict = await (deciding if call.span is None else call.span.approval(frozen, deciding))
        approved = verdict.request
        if call.entry is not None:
            about = verdict.source, verdict.reason, verdict.by, verdict.expires_at, verdict.scope
            call.entry.decided(approved, *about)
        if call.retry is not None:  # from here on, the gate recalls this yes for the same call
            call.once.keep(frozen, approved, verdict.by)
        if self._pins is not None and verdict.for_good and frozen.drift is not None:
            await write_down(
                f"{frozen.server}: the definition", self._pins._accept_tool, frozen.tool
            )
        return Approved(approved)

    async def _approve_changed(
        self, call: CallState, then: InForce, approved: Approved
    ) -> tuple[InForce, Approved]:
        """What is in force now, and its approval: the one given, or another where it changed."""
        for asked_again in (False, True):
            now = await self._resolve(call.name, current=True)
            call.findings = changes(then, now)
            if not call.findings:
                return now, approved
            if asked_again:
                break
            frozen = await self._freeze(call, now)
            if call.entry is not None:
                call.entry.changed(frozen)
            approved = await self._approve(call, frozen)
            if not self._may_have_changed(now):
                return now, approved
            then = now
        reason = f"{call.findings[0]} again"
        raise CallDenied(f"not approved: {reason}; call again", reason=reason)

    async def _send(
        self, call: CallState, approved: Approved, now: InForce
    ) -> dict[str, Any] | None:
        plan, token, rpc = call.plan, call.cancel, now.rpc
        if rpc.mirrors and plan.mirrors is None:
            plan.mirrors = approved.tool._header_params
        before = call.cancel_requests or 0
        options = RequestOptions(
            meta=None if approved.meta_json is None else json.loads(approved.meta_json),
            progress=True,
            on_progress=call.on_progress,
            mirrors=(rpc.mirrors and plan.mirrors) or (),
            repeatable=approved.hints.idempotent and call.retry is None,
            traffic=call.traffic,
            cancel=token,
            cancel_requests=before,
            holds=True,
        )
        method, arguments = "tools/call", Json(approved.arguments_json)
        fields: dict[str, Any] = {"name": approved.tool.name, "arguments": arguments}
        timeouts = call.timeouts.after(call.seconds) if call.seconds else call.timeouts
        if call.as_task:
            from ..extensions.handshake_task import asking, creation

            fields["task"], options.ids = asking(timeouts), []
        if (
            (token is not None and token.cancelled)
            or self._backend.current_task().cancelling() > before
            or self._backend.in_cancelled_scope()
        ):
            await stop_if_cancelled(token, before)
        if call.entry is not None:
            call.entry.sending()
        call.step("sent")
        calls, started = self._rounds.calls, rpc.clock.time()
        calls[approved.id] = approved
        try:
            try:
                reading = await rpc.request(method, fields, timeouts, options)
            except PersonAsked:
                send_again = partial(rpc.request, method, fields, timeouts, options)
                reading = await self._after_login(call, now, send_again)
            options.holds = False  # what follows belongs to a call that has begun
            if call.as_task:
                reading = creation(reading.result)
            if type(reading) is Complete:
                return reading.result
            asked = InputRequest(method, fields, timeouts, options, started)
            if isinstance(reading, InputRequired):
                reading = await self._rounds.answer(reading, rpc, asked, approved)
            if isinstance(reading, Complete):
                return reading.result
            call.run = self._tasks().begin(reading.result, approved, options.ids or [])
            return None if call.hands_over else await self._tasks().wait(call.run, asked, rpc)
        except ServerError as error:
            raise await self._rounds.explained(error, rpc.era, approved) from None
        finally:
            del calls[approved.id]
            if call.retry is not None:
                call.seconds += rpc.now() - started

    async def _after_login(
        self, call: CallState, now: InForce, send: Callable[[], Awaitable[Reading]]
    ) -> Reading:
        """Somebody logged in before the call could be sent. Raises ``PersonAsked`` where its
        definition is no longer the same, and after too many logins."""
        while True:
            call.logins += 1
            self._tools.mark_outdated()
            is_same = not changes(now, await self._resolve(call.name, current=True))
            if not is_same or call.logins > _MAX_LOGINS:
                raise PersonAsked(
                    "the server asked for one login after another; the call was not sent"
                )
            try:
                return await send()
            except PersonAsked:
                continue

    async def _checked(self, call: CallState, approved: Approved, raw: Any) -> ToolResult:
        """The result, checked against the definition that was in force when it was sent."""
        result, plan, strictness = self.read(raw, approved.tool.name), call.plan, call.validation
        if result.is_error or strictness == "off" or plan.output is None:
            return result
        return await self.validation.checked(plan, result, strictness, call.timeouts.validation)

    def read(self, raw: dict[str, Any], tool: str) -> ToolResult:
        if raw.get("isError"):  # what a server was given to keep secret is often in these
            raw = self._secrets.json(raw)
        try:
            return ToolResult.from_wire(raw, self._server, tool, self._origin)
        except ValueError as error:
            raise ProtocolViolation(f"invalid tool result: {error}", result=raw) from None

    def _ending(self, call: CallState, approved: Approved, now: InForce) -> StartedCall:
        """The steps that follow the end of a task."""
        from .started_call import StartedCall

        checked, failed = partial(self._checked, call, approved), partial(self._failed, call, now)
        return StartedCall(call.entry, checked, failed)

    # ---------------------------------------------------------------- failures

    async def _failed(self, call: CallState, now: InForce | None, error: BaseException) -> None:
        """Complete ``error`` with what is known of the call, and close its entry."""
        if isinstance(error, McpError):
            self._secrets.hide(error)
            error.server = error.server or self._server
            if now is not None:
                call.failed(error, now.tool)
        if call.entry is not None:
            token = call.cancel
            cancelled = self._cancelled(call, token) if token and token.cancelled else None
            await call.entry.failed(error, cancelled)

    def _cancelled(self, call: CallState, token: CancelToken) -> McpError:
        sent = call.traffic is not None and call.traffic.sent > 0
        return token._error(self._server, call.name, sent or call.may_have_run)

    def _pause_before_next(self, call: CallState, error: McpError) -> float | None:
        """Seconds until the next attempt; None if this was the last."""
        retry = call.retry
        if (
            not call.is_repetition
            and call.run is None
            and was_out_of_date(error, self._connection, self._tools)
        ):
            # All steps again: the approval was for that connection and that definition, unless the
            # approver said yes to this call for as long as it stays the same.
            call.is_repetition = True
            call.frozen = call.frozen if retry or call.keyed else None
            return 0.0
        return None if retry is None else call.next_attempt(error, retry)

    def _new_id(self) -> str:
        return f"{self._origin}-{next(self._numbers)}"
