"""The life of one call, top to bottom: see ``Caller._attempt``.

    resolve the definition in force and the connection -> freeze the call and check its arguments ->
    ask approval -> send, wait, respond to the server's requests -> check the result -> return it

This is the only module that sends ``tools/call``, in ``_send``, which accepts only a call that the
gate has approved.

The approved definition must still be in force when the call is sent. During a decision, the server
may announce another definition, the list may expire or be fetched again, or the connection may be
replaced. Then the definition is resolved again. If it is the same, the call continues. Otherwise
approval is requested again, once, with the differences among the findings. A new connection counts,
too, unless the call was approved with ``Allow(remember="call")``.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NewType

import anyio

from ..approval.decision import Allow
from ..approval.tool_call import ToolCall
from ..catalog.call_values import CallOrigin, ToolResult
from ..catalog.tools import Catalog
from ..connection.call_options import (
    CallOptions,
    CancelToken,
    cancelled_by,
    check_call_options,
    frozen_tag,
    stop_if_cancelled,
)
from ..connection.connection import Connection
from ..connection.rpc import RequestOptions, Traffic
from ..errors import (
    CallDenied,
    InvalidArguments,
    McpError,
    NotSent,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..handlers.input_rounds import InputRequest, InputRequiredLoop
from ..protocol.canonical_json import object_of
from ..protocol.era import Complete, InputRequired
from ..protocol.jsonrpc import Json
from ..runtime.event_loop import current
from ..transports.base import PersonAsked
from ..validation.worker_pool import WorkerPool
from .call_state import (
    Attempt,
    CallSpec,
    CallState,
    InForce,
    Outcome,
    StartedCall,
    changes,
    is_task,
    not_fetched,
    not_for,
    was_out_of_date,
)
from .observers import Traced, observe, observers_of
from .session_options import Setup
from .tool_validation import ToolValidation, arguments_finding, caller_message, log_problem

if TYPE_CHECKING:
    from ..approval.decision import Verdict
    from ..approval.script import Script
    from ..extensions.task_run import TaskRun
    from ..extensions.tasks import TaskCalls

__all__ = ["Approved", "Caller"]

Approved = NewType("Approved", ToolCall)
"""A call that the gate approved, not yet used."""


class Caller:
    """The maker of one session's calls."""

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
        """Set ``origin``, the prefix of call ids, and ``tasks``, the tasks of the server."""
        self._server = setup.name
        self._connection = connection
        self._tools = tools
        self._rounds = rounds
        self._gate = setup.gate
        self._gate.connection = connection
        self._identity = setup.memory.identity
        self._audit = setup.audit
        self._secrets, self._content = setup.secrets, setup.content
        self._state, self._retry = setup.state, setup.retry
        self._timeouts, self._logins = setup.timeouts, setup.limits.logins
        self._address = lambda: connection.transport.address
        self.validation: ToolValidation = ToolValidation(setup.validation, setup.limits, workers)
        self._observers = observers_of(setup)
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
        """Return a call with these options, or else the session's.

        Args:
            name: The name of the tool.
            arguments: The arguments; None for none.
            options: The options of ``call_tool``.
            origin: The kind of caller.
            script: The script that makes the call.

        Raises:
            ConfigError: An option is wrong.
        """
        arguments, strictness = {} if arguments is None else arguments, self.validation.results
        spec = CallSpec(name, arguments, origin, script, self._timeouts, strictness, self._retry)
        if options:
            own: dict[str, Any] = {name: one for name, one in options.items() if one is not None}
            own["timeouts"] = check_call_options(options, self._timeouts)
            own.pop("timeout", None)
            if "tag" in own:
                own["tag"] = frozen_tag(own["tag"])
            spec = spec._replace(**own)
        call = CallState(spec, Attempt(self._new_id()), self._observers)
        if self._audit or options or spec.retry:
            observe(call, self, self._audit, self._state)
        return call

    def run(self, call: CallState) -> Coroutine[Any, Any, Any]:
        """Make a call: one or more attempts. Returns its result, or its ``StartedCall``."""
        token = call.spec.cancel
        return self._run(call) if token is None else self._run_until_cancelled(call, token)

    async def _run_until_cancelled(self, call: CallState, token: CancelToken) -> Outcome:
        call.traffic = call.traffic or Traffic()
        async with cancelled_by(token, partial(self._cancelled, call)):
            return await self._run(call)

    def _run(self, call: CallState) -> Coroutine[Any, Any, Outcome]:
        traced = "opentelemetry.trace" in sys.modules
        attempts = self._traced if traced else self._attempts
        return attempts(call) if call.keyed is None else call.keyed.run(attempts)

    async def _traced(self, call: CallState) -> Outcome:
        from ..connection.telemetry import call_span  # only for a host that traces

        with call_span(call.spec.name, self._content) as span:
            call.observers = (*call.observers, Traced(span))
            return await self._attempts(call)

    async def _attempts(self, call: CallState) -> Outcome:
        loop = self._backend
        if loop.running_loop() is loop.loop:  # else nothing is sent
            call.cancel_requests = loop.current_task().cancelling()
        while True:
            try:
                return await self._attempt(call)
            except McpError as error:
                outdated = call.may_repeat and was_out_of_date(error, self._connection, self._tools)
                pause = call.next_attempt(error, outdated)
                if pause is None:
                    raise
            await anyio.sleep(pause)
            call.attempt = Attempt(self._new_id())
            call.traffic = call.traffic and Traffic()

    async def _attempt(self, call: CallState) -> Outcome:
        """The steps of a call, in order. If one raises, the next ones do not happen."""
        observers = call.observers
        try:
            for each in observers:
                each.began(call)
            now = await self._resolve(call.spec.name)
            frozen = await self._freeze(call, now)
            for each in observers:
                await each.opening(call, frozen, again=False)
            approved = await self._approve(call, frozen)
            for each in observers:
                await each.sending(call)
            response = await self._send_in_force(call, approved, now)
            if not isinstance(response, dict):
                return self._handed_over(call)  # the last steps follow the end of the task
            result = await self._checked(call, response)
        except BaseException as error:
            await self._failed(call, error)
            raise
        for each in observers:
            result = await each.done(call, result)
        return result

    async def _resolve(self, name: str, *, current: bool = False) -> InForce:
        """The definition of the tool, and the connection on which it is in force.

        ``current``: as the server lists it now, where the list may be out of date.
        """
        connection, tools = self._connection, self._tools
        looks = iter((2, 3) if current else ())
        while True:
            rpc, version = connection.usable or await connection.ensure_connected(), tools.version
            try:
                find = tools.find_current if current else tools.find
                tool = (None if current else tools.usable(name)) or await find(name)
            except (OutcomeUnknown, ProtocolViolation) as error:
                raise not_fetched(error) from error
            if tools.outdated and next(looks, None):  # another change was announced meanwhile
                continue
            if tools.version == version or connection.is_current(
                rpc
            ):  # else the connection was lost while the call waited
                return InForce(tool, rpc, tools.version, tools.fresh)

    def _may_have_changed(self, then: InForce) -> bool:
        tools = self._tools
        return (
            tools.version != then.version
            or tools.is_over  # by a word right behind the list that ``then`` is from, or its time
            or (then.fresh and not tools.fresh)
            or not self._connection.is_current(then.rpc)
        )

    async def _freeze(self, call: CallState, now: InForce) -> ToolCall:
        """Return the call as a value that cannot change, with what is wrong with its arguments."""
        spec, attempt = call.spec, call.attempt
        tool, era = now.tool, now.rpc.era
        attempt.now = now
        for each in call.observers:
            each.found(call, now)
        plan = attempt.plan = tool._plan or self.validation.plan(tool)
        if not plan.callers[spec.origin]:
            raise not_for(tool)
        attempt.as_task = era.has_tasks and is_task(plan, era, call.hands_over)
        arguments, text = call.arguments = call.arguments or object_of("arguments", spec.arguments)
        findings = plan.findings
        frozen = ToolCall(
            id=attempt.id,
            server=tool.server,
            tool=tool,
            arguments_json=text,
            meta_json=None if spec.meta is None else object_of("meta", spec.meta)[1],
            hints=plan.hints,
            findings=(*attempt.findings, *findings) if attempt.findings else findings,
            generation=now.rpc.generation,
            context=spec.context,
            tag=spec.tag,
            origin=spec.origin,
            script=spec.script,
            _address=self._address,
            _identity=self._identity,
        )
        for each in call.observers:
            frozen = await each.freezing(call, frozen)
        if frozen.arguments_json is not text:
            arguments = json.loads(frozen.arguments_json)
        if plan.input.is_known_valid(arguments):
            return frozen
        return await self._with_problem(call, frozen, arguments)

    async def _with_problem(
        self, call: CallState, frozen: ToolCall, arguments: dict[str, Any]
    ) -> ToolCall:
        """Return the call with what is wrong with its arguments among its findings."""
        plan, seconds = call.attempt.plan, call.spec.timeouts.validation
        problem = await self.validation.arguments_problem(plan, arguments, seconds)
        if problem is None:
            return frozen
        text = problem.of("the arguments", "the tool's input schema")
        finding = arguments_finding(problem, text, arguments)
        for each in call.observers:
            each.broken(call, finding, problem.path)
        if self.validation.refuses(call.spec.arguments, frozen.edited, problem):
            raise InvalidArguments(caller_message(problem, frozen.tool, text), path=problem.path)
        log_problem("argument object", frozen.server, frozen.tool.name, problem)
        return replace(frozen, findings=(*frozen.findings, finding))

    async def _check_edit(self, call: CallState, edited: ToolCall, decision: Allow) -> ToolCall:
        """Return the approver's call with what is wrong with its arguments among its findings."""
        try:
            for each in call.observers:
                edited = each.editing(call, edited)
            arguments = json.loads(edited.arguments_json)
            if not call.attempt.plan.input.is_known_valid(arguments):
                edited = await self._with_problem(call, edited, arguments)
        except InvalidArguments:
            for each in call.observers:
                each.edited(call, edited, decision)
            raise
        for each in call.observers:
            each.edited(call, edited, None)
        return edited

    async def _approve(self, call: CallState, frozen: ToolCall) -> Approved:
        plan, timeouts = call.attempt.plan, call.spec.timeouts
        if call.spec.validation != "off" and not (plan.output is None or plan.output.is_sound):
            await self.validation.prepare_results(plan, timeouts.validation)
        check, once, seconds = partial(self._check_edit, call), call.once, timeouts.approval
        deciding: Awaitable[Verdict[ToolCall]] = self._gate.decide(frozen, once, check, seconds)
        for each in call.observers:
            deciding = each.asking(call, frozen, deciding)
        verdict = await deciding
        for each in call.observers:
            await each.decided(call, frozen, verdict)
        return Approved(verdict.request)

    async def _send_in_force(
        self, call: CallState, approved: Approved, now: InForce
    ) -> dict[str, Any] | TaskRun:
        """Send what was approved if it is still in force, else ask about what is now in force."""
        if self._may_have_changed(now):
            now, approved = await self._approve_changed(call, now, approved)
        turns = self._rounds.turns
        while True:
            has_waited = not turns.take()
            if has_waited:
                await self._wait_for_turn(call)
            try:
                if not (has_waited and self._may_have_changed(now)):
                    return await self._send(call, approved, now)
            except PersonAsked:  # to log in, before the call could be sent
                call.attempt.is_written = False
                call.logins += 1
                if call.logins > self._logins:
                    raise PersonAsked(
                        f"the server requested a login {call.logins} times (Limits.logins is "
                        f"{self._logins}); the call was not sent"
                    ) from None
                self._tools.mark_outdated()
            finally:
                turns.give_back()
            now, approved = await self._approve_changed(call, now, approved)

    async def _wait_for_turn(self, call: CallState) -> None:
        """Wait until fewer calls of the server are under way, within the total timeout."""
        total, began = call.spec.timeouts.total, self._backend.now()
        came = await self._rounds.turns.wait(total - call.seconds)
        call.seconds += self._backend.now() - began
        if not came or call.seconds >= total:
            if came:
                self._rounds.turns.give_back()
            raise NotSent(
                f"too many calls of the server were under way for {total:g} s (total timeout); "
                "the call was not sent. Raise Limits(in_flight=...), or call again",
                retryable=True,
            )

    async def _approve_changed(
        self, call: CallState, then: InForce, approved: Approved
    ) -> tuple[InForce, Approved]:
        """Return what is in force now, and its approval: another one if it changed."""
        for asked_again in (False, True):
            now = await self._resolve(call.spec.name, current=True)
            findings = call.attempt.findings = changes(then, now)
            if not findings:
                return now, approved
            if asked_again:
                break
            frozen = await self._freeze(call, now)
            for each in call.observers:
                await each.opening(call, frozen, again=True)
            approved = await self._approve(call, frozen)
            if not self._may_have_changed(now):
                return now, approved
            then = now
        reason = f"{findings[0]} again"
        raise CallDenied(f"not approved: {reason}; call again", reason=reason)

    async def _send(
        self, call: CallState, approved: Approved, now: InForce
    ) -> dict[str, Any] | TaskRun:
        """Send the call and wait; return its result or its task.

        Raises ``PersonAsked`` if a person had to log in first: then the call was not sent.
        """
        spec, attempt, rpc, token = call.spec, call.attempt, now.rpc, call.spec.cancel
        before = call.cancel_requests
        options = RequestOptions(
            meta=None if approved.meta_json is None else json.loads(approved.meta_json),
            progress=True,
            on_progress=spec.on_progress,
            mirrors=approved.tool._header_params if rpc.mirrors else (),
            repeatable=approved.hints.idempotent and spec.retry is None,
            traffic=call.traffic,
            cancel=token,
            cancel_requests=before,
            holds=True,
        )
        method, arguments = "tools/call", Json(approved.arguments_json)
        fields: dict[str, Any] = {"name": approved.tool.name, "arguments": arguments}
        timeouts = spec.timeouts.after(call.seconds) if call.seconds else spec.timeouts
        if attempt.as_task:
            from ..extensions.handshake_task import asking, creation

            fields["task"], options.ids = asking(timeouts, call.ttl), []
            paused = rpc.clocks.paused
        if (
            (token and token.cancelled)
            or self._backend.current_task().cancelling() > before
            or self._backend.effective_deadline() == -math.inf
        ):
            await stop_if_cancelled(token, before)
        for each in call.observers:
            each.writing(call)
        attempt.is_written = True
        started = rpc.clock.time()
        calls = self._rounds.calls
        calls[approved.id] = approved
        try:
            parsed = await rpc.request(method, fields, timeouts, options)
            options.holds = False  # what follows belongs to a call that has begun
            if attempt.as_task:
                parsed = creation(parsed.result)
            if type(parsed) is Complete:
                return parsed.result
            asked = InputRequest(method, fields, timeouts, options, started)
            if attempt.as_task:  # the server may ask before it creates the task
                asked.paused = min(rpc.clocks.paused - paused, timeouts.approval)
            if isinstance(parsed, InputRequired):
                parsed = await self._rounds.supply_input(parsed, rpc, asked, approved)
            if isinstance(parsed, Complete):
                return parsed.result
            run = call.run = self._tasks().begin(parsed.result, approved, options.ids or [])
            return run if call.hands_over else await self._tasks().wait(run, asked, rpc)
        except ServerError as error:
            raise await self._rounds.explained(error, rpc.era, approved) from None
        finally:
            del calls[approved.id]
            if spec.retry is not None:
                call.seconds += rpc.now() - started

    async def _checked(self, call: CallState, raw: dict[str, Any]) -> ToolResult:
        """Return the result, checked against the definition in force when the call was sent."""
        result, plan, spec = self.read(raw, call.spec.name), call.attempt.plan, call.spec
        if result.is_error or spec.validation == "off" or plan.output is None:
            return result
        seconds = spec.timeouts.validation
        return await self.validation.checked(plan, result, spec.validation, seconds)

    def read(self, raw: dict[str, Any], tool: str) -> ToolResult:
        """Return the parsed result of a tool."""
        if raw.get("isError"):  # these texts often contain the server's secrets
            raw = self._secrets.json(raw)
        try:
            return ToolResult.from_wire(raw, self._server, tool, self._origin)
        except ValueError as error:
            raise ProtocolViolation(f"invalid tool result: {error}", result=raw) from None

    def _handed_over(self, call: CallState) -> StartedCall:
        """Return the steps that follow the end of a task."""
        for each in call.observers:
            each.handed_over(call)
        return StartedCall(call.entry, partial(self._checked, call), partial(self._failed, call))

    # ---------------------------------------------------------------- failures

    async def _failed(self, call: CallState, error: BaseException) -> None:
        """Complete ``error`` with what is known of the call."""
        if isinstance(error, McpError):
            self._secrets.hide(error)
            error.server = error.server or self._server
            call.complete(error)
        if call.observers:
            token = call.spec.cancel
            cancelled = self._cancelled(call, token) if token and token.cancelled else None
            for each in call.observers:
                await each.failed(call, error, cancelled)

    def _cancelled(self, call: CallState, token: CancelToken) -> McpError:
        sent = call.may_have_run or bool(call.traffic and call.traffic.sent)
        return token._error(self._server, call.spec.name, sent, call.follows)

    def _new_id(self) -> str:
        return f"{self._origin}-{next(self._numbers)}"
