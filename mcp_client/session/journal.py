"""A call with an ``idempotency_key``, from its claim in the journal until it is settled.

    claim the key -> make the call, as any other: open the audit entry, ask approval, ...
    -> store that it is sent -> send it -> store its outcome -> return the result

No call that may have run is repeated. The entry under the key decides:

- none: the call is made
- claimed or sent by another caller that is still active: wait for its end
- claimed by a caller that is gone, which has sent nothing: the call is made
- sent by a caller that is gone: ``OutcomeUnknown``. The call is made if the tool only reads or is
  idempotent, as a trusted server declares, or if ``Retry(safe=True)`` permits it
- settled: the outcome is returned, and validated as any result is

A call is settled when the server responded. The response is a result, including that of a failed
tool; one that breaks a schema or the specification; or a JSON-RPC error. Errors that state that
nothing was run and that a retry may succeed do not settle it. If nothing reached the server, the
key is free again: the call was refused, cancelled in time or could not be sent. Everything else
leaves the call unsettled, because it may have run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from ..catalog.call_values import ToolResult, context_text, is_storable
from ..catalog.finding import Finding
from ..connection.connection import Connection
from ..errors import (
    BrokenPromise,
    CallTimeout,
    ConfigError,
    InvalidArguments,
    InvalidSchema,
    McpError,
    MissingCapability,
    NotSent,
    OutcomeUnknown,
    ProtocolViolation,
    ResultNotStored,
    ServerError,
    StateError,
    UnknownTool,
    UrlElicitationRequired,
)
from ..protocol.canonical_json import object_of
from ..runtime.backoff import doubled
from ..runtime.callbacks import in_thread
from ..runtime.limits import seconds_text
from ..state.calls import MAX_RESULT_BYTES, Calls, Claim, Row, calls_in
from .call_state import Attempts, CallState, InForce, KeyObserver, Outcome
from .tool_validation import ToolValidation

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..runtime.session_context import KnownSecrets
    from ..runtime.storage import Object
    from ..state import State

__all__ = ["JournalRow", "KeyedCall", "journal", "may_have_run", "note_use"]

T = TypeVar("T")
_FIRST_LOOK_SECONDS, _MAX_LOOK_SECONDS = 0.005, 0.5
"""The shortest and longest pause between two checks of another caller's call."""
_WRITE_SECONDS = 15.0
journal: ContextVar[Calls | None] = ContextVar("mcp_client.journal", default=None)
"""Return the journal for the keys of this package's own calls, if it is not the state's."""
_NOT_RUN = UrlElicitationRequired, MissingCapability
"""Error codes which state that nothing was run."""
_OF_SERVER_ERROR = "code", "data", "server_message", "http_status", "body_excerpt"
_LARGE = frozenset({"data", "result"})
"""The members of an error that are not stored if it is too large."""
_CUT_CHARS = 500


class Maker(Protocol):
    """The maker of a session's calls: a ``call.Caller``."""

    validation: ToolValidation

    @property
    def _server(self) -> str: ...
    @property
    def _connection(self) -> Connection: ...
    @property
    def _secrets(self) -> KnownSecrets: ...
    async def _resolve(self, name: str) -> InForce: ...
    def read(self, raw: dict[str, Any], tool: str) -> ToolResult:
        """Return the parsed result of a tool."""


class JournalRow:
    """The claim of one caller, under one key of a journal."""

    def __init__(self, calls: Calls, key: str) -> None:
        self._calls = calls
        self._key = key
        self._mark = os.urandom(16).hex()
        self._waits = calls.storage.waits
        self._abandoned = False

    async def take(
        self, about: Object, *, repeats: bool, check: Callable[[str, float], object]
    ) -> tuple[Claim, Row]:
        """Claim the key as ``Calls.take`` does, once no other caller is active.

        Args:
            about: The description of the call, to compare with an earlier one.
            repeats: Whether the call may be repeated after another caller has gone.
            check: A function that may raise. It takes the other caller's state, and the seconds of
                waiting in that state.

        Returns:
            The claim, and the stored entry.
        """
        looks, since, waited = 0, anyio.current_time(), dict[str, float]()
        while True:
            claim, row = await self._try(about, repeats)
            if claim is not Claim.BUSY:
                return claim, row
            is_same = True
            while is_same:
                check(row.state, waited.get(row.state, 0.0))
                await anyio.sleep(doubled(_FIRST_LOOK_SECONDS, looks, _MAX_LOOK_SECONDS))
                before, since = since, anyio.current_time()
                waited[row.state] = waited.get(row.state, 0.0) + since - before
                looks += 1
                is_same = await self.within(self._calls.is_same, self._key, row)

    async def _try(self, about: Object, repeats: bool) -> tuple[Claim, Row]:
        key, mark = self._key, self._mark

        def take() -> tuple[Claim, Row]:
            claim = Claim.MINE  # until it is known: where this fails, the state may have it
            try:
                claim, row = self._calls.take(key, about, mark, repeats=repeats)
            finally:
                if self._abandoned and claim is Claim.MINE:
                    self.end_later(may_have_run=repeats)  # the state may fail now
            return claim, row

        try:
            return await self.within(take)
        except BaseException as error:
            # If cancelled, a thread may still store it; if the state failed, it may have stored it.
            if isinstance(error, StateError) or not isinstance(error, Exception):
                self._abandoned = True
                self.end_later(may_have_run=repeats)
            raise

    async def end(self, outcome: Object | None, *, may_have_run: bool) -> str | None:
        """Store the outcome of the call, or None, even while its caller is being cancelled.

        An outcome that cannot be stored now is stored when the state is available again.
        """
        end = partial(self._calls.end, self._key, self._mark, outcome, may_have_run=may_have_run)
        why, is_stored = "the write takes too long", False
        try:
            with anyio.move_on_after(_WRITE_SECONDS, shield=True):
                try:
                    await self.within(end)
                    is_stored = True
                except McpError as error:
                    why = error.message
        finally:
            if not is_stored:  # or the task is cancelled without a scope, and a thread still writes
                self.end_later(outcome, may_have_run=may_have_run)
        return None if is_stored else f"the outcome of the call is not in the journal yet: {why}"

    def end_later(self, outcome: Object | None = None, *, may_have_run: bool) -> None:
        """Store the outcome in the background."""
        self._calls.end_later(self._key, self._mark, outcome, may_have_run=may_have_run)

    async def within(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, which uses the storage, within a limit of time."""
        return await in_thread(function, *args) if self._waits else function(*args)


async def may_have_run(storage: Any, key: str) -> bool:
    """Whether a call under ``key`` was sent, by the journal in ``storage``."""
    calls = journal.get() or calls_in(storage)
    return await JournalRow(calls, key).within(calls.was_sent, key)


async def note_use(storage: Any, key: str, tool: str, text: str, context: Hashable) -> bool:
    """Store that ``key`` is used for ``text``, such as a script whose calls have their own keys.

    Return whether it was used for that before.

    Args:
        storage: The storage of the journal.
        key: The idempotency key.
        tool: The name of the tool.
        text: The text that the key is used for.
        context: The context of the call.

    Raises:
        InvalidArguments: The key was used for something else.
    """
    calls = journal.get() or calls_in(storage)
    row = JournalRow(calls, key)
    digest = await row.within(calls.digest, tool, text, context_text(context))
    about = {"digest": digest, "server": "", "tool": tool, "context": context}
    claim, _ = await row.take(about, repeats=True, check=lambda state, waited: None)
    if claim is Claim.MINE:
        failure = await row.end({"script": True}, may_have_run=False)
        if failure is not None:
            raise NotSent(failure, retryable=True)
    return claim is not Claim.MINE


class KeyedCall(JournalRow, KeyObserver):
    """One call of one session, and its row in the journal."""

    @classmethod
    def of(cls, caller: Maker, call: CallState, key: str, state: State | None) -> KeyedCall:
        """Return the call under ``key``.

        Args:
            caller: The maker of the session's calls.
            call: The call.
            key: The idempotency key.
            state: The state of the session.

        Raises:
            ConfigError: There is no state, or the context cannot be compared.
        """
        calls = journal.get() or (None if state is None else state.calls)
        if calls is None:
            raise ConfigError(
                "idempotency_key= needs a store for calls and their keys: give state= to connect "
                "or Host, such as the path of a directory"
            )
        return cls(caller, call, key, calls)

    def __init__(self, caller: Maker, call: CallState, key: str, calls: Calls) -> None:
        super().__init__(calls, key)
        self._caller = caller
        self._call = call
        self.follows: bool = True
        self._sent = self._ended = False
        context = call.spec.context
        if self._waits and not is_storable(context):
            raise ConfigError(
                "idempotency_key= needs a context that other processes can compare: a str, a "
                f"number, a boolean or a tuple of them, not a {type(context).__name__}"
            )

    async def run(self, attempts: Attempts) -> Outcome:
        """Make the call, or return its stored outcome."""
        call = self._call
        try:
            settled = await self._claim()
            if settled is not None:
                result = await self._read(settled)
                if call.entry is None:
                    return result
                await self._show_definition(call.entry)
                return await call.entry.done(result, "not_sent")
        except McpError as error:
            self._caller._secrets.hide(error)
            error.follows = not isinstance(error, InvalidArguments)
            error.server = error.server or self._caller._server
            error.tool = error.tool or call.spec.name
            if call.entry is not None:
                await self._show_definition(call.entry)
                await call.entry.failed(error)
            raise
        try:
            return await attempts(call)
        except BaseException as error:
            if self.follows and isinstance(error, McpError):
                error.follows = True
            await self._failed(error)
            raise

    async def sending(self, call: CallState) -> None:
        """Store that the call is sent. Await this after the approval and before anything is sent.

        If this raises, nothing may be sent.
        """
        await self.within(self._calls.sending, self._key, self._mark)
        self._sent = True

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        """Store the result and close the call's audit record.

        Both happen in one transaction if they are in one database. The result is returned even if
        it cannot be stored.
        """
        self._ended, outcome = True, _bounded({"result": result.raw})
        entry, storage, is_written = call.entry, self._calls.storage, False

        def settle(also: Callable[[Any], None] | None) -> None:
            nonlocal is_written
            self._calls.end(self._key, self._mark, outcome, may_have_run=True, also=also)
            is_written = True

        together = entry is not None and entry.is_stored_in(storage)
        if entry is not None and together:
            result = await entry.done(result, within=(storage, settle))
        try:
            failure = None if is_written else await self.end(outcome, may_have_run=True)
        except BaseException as error:  # the task is cancelled without a scope
            if entry is not None and not together:
                await entry.failed(error)
            raise
        if entry is not None and not together:
            result = await entry.done(result)
        if "left_out" in outcome:
            failure = f"the result is not stored in the journal: {_why_left_out(outcome)}"
        if failure is None:
            return result
        return replace(result, findings=(*result.findings, Finding("not_recorded", failure)))

    async def _show_definition(self, entry: AuditEntry) -> None:
        """Add the definition, which marks secret arguments, to the record of a call not made.

        Without a definition, the record omits the arguments.
        """
        try:
            now = await self._caller._resolve(self._call.spec.name)
        except McpError as error:
            entry.not_found(error)
        else:
            entry.found(now.tool, now.rpc.era.revision)

    # -------------------------------------------------------------------- the claim

    async def _claim(self) -> Row | None:
        """Claim the call; or the row of one that is settled."""
        retry, about = self._call.spec.retry, await self._about()
        repeats = retry is not None and retry.safe
        claim, row = await self.take(about, repeats=repeats, check=self._check_patience)
        if claim is Claim.LOST and await self._may_be_repeated():
            claim, row = await self.take(about, repeats=True, check=self._check_patience)
        if claim is Claim.LOST:
            raise OutcomeUnknown(
                "the call with this idempotency_key was sent, and its outcome is not known: it "
                "may have run; record the outcome with state.calls.settle(key)",
                server=self._caller._server,
            )
        self.follows = row.state != "claimed"
        return row if claim is Claim.SETTLED else None

    async def _about(self) -> Object:
        """Return the description of the call for its row."""
        spec, server = self._call.spec, self._caller._server
        arguments = self._call.freeze_arguments()[1]
        meta = "" if spec.meta is None else object_of("meta", spec.meta)[1]
        context = context_text(spec.context)
        texts = server, spec.name, arguments, meta, context, spec.origin
        return {
            "digest": await self.within(self._calls.digest, *texts),
            "server": server,
            "tool": spec.name,
            "context": spec.context if is_storable(spec.context) else None,
        }

    def _check_patience(self, state: str, waited: float) -> None:
        """Raise if another caller's call was awaited too long.

        Before anything of it is sent, the limit allows for the time of a person's decision.
        """
        timeouts = self._call.spec.timeouts
        most = timeouts.total if state == "sent" else timeouts.approval
        if waited >= most:
            raise CallTimeout(
                "another caller's call with this idempotency_key did not end within "
                f"{seconds_text(most)}; repeat the call to get its result",
                clock="total",
                server=self._caller._server,
                retryable=True,  # with this key, nothing is repeated
            )
        if self._caller._connection.closed:
            raise NotSent("the session was closed, and this call was not sent")

    async def _may_be_repeated(self) -> bool:
        try:
            hints = (await self._caller._resolve(self._call.spec.name)).tool.hints
        except UnknownTool:
            return False
        return hints.read_only or hints.idempotent

    # -------------------------------------------------------------------- the end

    async def _failed(self, error: BaseException) -> None:
        """Write down what a call led to that has no result, as far as that is known."""
        if self._ended:
            return
        self._ended = True
        if isinstance(error, GeneratorExit):  # the coroutine is being closed and cannot wait
            self.end_later(may_have_run=self._sent or self.follows)
            return
        # Before that, the server has answered something else, such as tools/list.
        outcome = _outcome_of(error) if self._call.attempt.is_written else None
        failure = await self.end(outcome, may_have_run=self._may_have_run(error))
        if failure is not None:
            error.add_note(failure)

    def _may_have_run(self, error: BaseException) -> bool:
        call = self._call
        if self.follows or call.may_have_run:
            return True
        if isinstance(error, NotSent | ServerError):
            return False  # a response that settles the call has an outcome
        if isinstance(error, McpError) or call.traffic is None:
            return self._sent
        return call.traffic.sent > 0

    # --------------------------------------------------------------- what it led to

    async def _read(self, row: Row) -> ToolResult:
        """Return the result in a settled row, validated as a new one is, or raise its error."""
        spec, caller = self._call.spec, self._caller
        with self._calls.parsing():
            outcome: Any = row.outcome
            error = None if "result" in outcome else _error_of(outcome, caller._server)
            if error is None and type(outcome["result"]) is not dict:
                raise ValueError("the stored result is not an object")
        if error is not None:
            raise error
        result = caller.read(outcome["result"], spec.name)
        if result.is_error or spec.validation == "off":
            return result
        validation, seconds = caller.validation, spec.timeouts.validation
        try:
            tool = (await caller._resolve(spec.name)).tool
            plan = tool._plan or validation.plan(tool)
            await validation.prepare_results(plan, seconds)
        except (UnknownTool, InvalidSchema):
            return validation.unchecked(
                result, spec.validation, "the server no longer lists the tool as it was called"
            )
        return await validation.checked(plan, result, spec.validation, seconds)


def _outcome_of(error: BaseException) -> Object | None:
    """Return the stored form of an error that the server sent; None for other errors."""
    if isinstance(error, ServerError):
        if error.retryable or isinstance(error, _NOT_RUN):
            return None
        members = {name: getattr(error, name) for name in _OF_SERVER_ERROR}
        return _error_outcome({"type": "server", "message": error.args[0], **members})
    if not isinstance(error, BrokenPromise):
        return None
    result = error.result.raw if isinstance(error.result, ToolResult) else error.result
    if isinstance(error.result, ToolResult):  # it is checked again, perhaps less strictly
        return _bounded({"result": result})
    return _error_outcome({"type": "violation", "message": error.args[0], "result": result})


def _error_outcome(error: Object) -> Object:
    """Return the outcome for an error; one that cannot be stored keeps what is short."""
    outcome = _bounded({"error": error})
    if "left_out" not in outcome:
        return outcome
    texts = {name: one[:_CUT_CHARS] for name, one in error.items() if type(one) is str}
    return {"error": {**error, **texts, **dict.fromkeys(_LARGE & error.keys())}}


def _bounded(outcome: Object) -> Object:
    try:
        text = json.dumps(outcome, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:  # 1e999 is JSON, and cannot be written again
        return {"left_out": 0}
    size = len(text.encode("utf-8", "surrogatepass"))
    return outcome if size <= MAX_RESULT_BYTES else {"left_out": size}


def _why_left_out(outcome: Object) -> str:
    size, most = int(outcome["left_out"]), MAX_RESULT_BYTES
    large = f"it has {size:,} bytes, and at most {most:,} are stored"
    return large if size else "it has a number that is too large"


def _error_of(outcome: Object, server: str) -> McpError:
    """Return the error that a settled call without a result leads to."""
    key = "it is never sent again with this idempotency_key"
    if "error" in outcome:
        found = outcome["error"]
        if found["type"] == "violation":
            return ProtocolViolation(str(found["message"]), result=found["result"])
        members = {name: found[name] for name in _OF_SERVER_ERROR}
        return ServerError(str(found["message"]), **members)
    if "left_out" in outcome:
        why = f"the call ran, and its result is not stored: {_why_left_out(outcome)}; {key}"
        return ResultNotStored(why, bytes=int(outcome["left_out"]), server=server)
    why = "a person settled the call without a result"
    if outcome.get("by_person") is not True:
        raise ValueError("the entry has no outcome")
    return OutcomeUnknown(f"{why}; {key}", server=server)
