"""Run a script once: each call that it makes passes the gate, as any other call does.

The calls that a script makes before it waits are sent side by side. It receives their results one
at a time, in the order in which they end. ``RunLog`` stores them in that order. So a run that waits
for a person can continue in another process. The script runs from its start and receives the logged
results in the same order. Nothing is sent before it has come to where it was. Its calls until then
have to be the logged ones; otherwise the run does not continue. No state of the interpreter is
stored. It could not be distinguished from a forged one, and would bring limits of its own.

A call is made once at most: it has the idempotency key ``<run>/<number>`` if the target has a
journal of calls, and a logged call is not made again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.lowlevel import RunVar

from ..approval.script import Script
from ..catalog.call_values import ModelArguments, is_storable
from ..connection.call_options import CallOptions, cancelled_by
from ..errors import (
    CallDenied,
    CallPending,
    CallTimeout,
    ConfigError,
    InvalidArguments,
    InvalidSchema,
    McpError,
    UnknownTool,
)
from ..protocol.canonical_json import canonical, sha256
from ..runtime.background import plain_task_group
from ..runtime.daemon_thread import limiter_of, run_in_thread
from ..runtime.event_loop import current
from ..runtime.limits import seconds_text
from ..runtime.pausable_clock import PausableClock, script_clock
from ..runtime.version import __version__
from ..session.journal import journal, note_use
from .bindings import EXCEPTIONS, Bindings
from .interpreter import (
    CLOSED,
    AskedCall,
    Failure,
    Interpreter,
    Returned,
    Settled,
    Stop,
    Turn,
    interpreter_version,
    sendable,
)

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..host.host import Host
    from ..session.session import Session
    from ..session.session_options import ForScripts

__all__ = ["PausedRun", "Received", "RunLog", "ScriptResult", "run_script"]

_log = logging.getLogger("mcp_client")
_THREADS = 64
_CLOSE_SECONDS = 5.0
_MAX_ERROR_CHARS = 4_000
_MAX_HELD_CHARS = 8_000_000
_SENT_NOTHING = (
    "this attempt sent nothing. What the script called before the pause stays done: tell the model "
    "so before it writes another one"
)
_FAILED_HERE = "The call failed in the program that runs the tools. It may have run."
T = TypeVar("T")
_SENT = "Calls that it had sent before: {}. What they did stays done: do not simply run it again."
_NONE_SENT = "Nothing was sent by it."
_NONE_NOW = "This attempt sent nothing, but an earlier one may have: do not simply run it again."
_UNSENT = "CallDenied", "InvalidArguments"
_NOT_AWAITED = "Calls that it did not wait for and that were not made: {}. Use await."
_CUT_OFF = (
    "Calls that it did not wait for and that were cancelled: {}. They may have run. Use await."
)
_TOO_LONG = (
    "it needed more than {} (Timeouts.script), without the time that people needed to decide".format
)
_NO_OUTPUT = "The script ended without output: print the values that you need."
_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.scripts")


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a script."""

    id: str
    """The run's."""
    output: str
    """The script's output."""
    value: Any
    """The script's last expression, as plain JSON; None if it is too long."""
    error: str | None
    """The traceback of the exception that ended it."""
    stop: Stop | None
    """The end that the script could not catch, such as a limit."""
    calls: int
    """The number of its calls."""
    text: str
    """The whole result, for a model."""

    @property
    def is_error(self) -> bool:
        """Whether it did not come to its end."""
        return self.error is not None or self.stop is not None


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A run that waits for people to decide."""

    waiting: tuple[CallPending, ...]
    run_log: RunLog
    """The value that ``run_script`` needs to continue."""
    output: str
    """The text that it has printed."""
    sent: tuple[str, ...]
    """The tools whose calls may have reached a server, one for each call, in order."""


async def run_script(
    target: Session | Host,
    tools: Bindings,
    code: str,
    *,
    options: CallOptions,
    explain: Callable[[McpError], str],
    run_log: RunLog | None = None,
) -> ScriptResult | PausedRun:
    """Run ``code`` until it ends, or until nothing but approvals can make it go on.

    ``options`` are those of each call. An ``idempotency_key`` is for the run: if the same script is
    run again with it, no call is repeated that the journal has. ``explain`` returns what a model
    may know of an error. ``run_log`` is the log of the run to continue.

    Raises ``ConfigError`` if the interpreter is not installed or ``run_log`` is the log of another
    script, ``InvalidArguments`` if the key was used for another script, and what ends a run that
    no script can know of, such as ``CallCancelled`` by a token.
    """
    own = options.copy()
    key = own.pop("idempotency_key", None)
    code = code.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()
    is_resumed = run_log is not None
    if run_log is None:
        # Another script is another run, also if a provider's ids begin again.
        id = uuid.uuid4().hex if key is None else sha256(canonical([key, code]))[:32]
        run_log = RunLog.of(id, code)
    run_log.check(code)
    run = _Run(target, tools, code, run_log, options=own, explain=explain)
    whose = options.get("context"), options.get("tag")
    audit = run.target.audit
    record = None if audit is None else audit.run(Script(run_log.id, code), *whose)
    if record is not None:
        await record.open(resumed=is_resumed)
    try:
        if key is not None and not is_resumed and run.is_keyed:
            run.follows = await note_use(run.target.paused, key, "run_code", code, whose[0])
        async with cancelled_by(
            options.get("cancel"), lambda it: it._error("", "run_code", sent=True)
        ):
            found = await run.run()
    except BaseException as error:
        run.target.end_run(run_log.id)
        if record is not None:
            record.counts["calls"] = run.calls
            await record.failed(error)
        raise
    if isinstance(found, ScriptResult):
        run.target.end_run(run_log.id)
    if record is not None:
        record.counts["calls"] = run.calls
        await _close(record, found)
    return found


async def _close(record: AuditEntry, found: ScriptResult | PausedRun) -> None:
    if isinstance(found, PausedRun):
        await record.over("paused")
        return
    record.counts["output_chars"] = len(found.text)
    if found.stop is not None:
        await record.over(found.stop.kind)
    elif found.error is not None:
        kind = found.error.rstrip().rpartition("\n")[2].partition(":")[0]
        await record.over("script_error", error=kind)
    else:
        await record.over()


class _Run:
    def __init__(
        self,
        target: Session | Host,
        tools: Bindings,
        code: str,
        run_log: RunLog,
        *,
        options: CallOptions,
        explain: Callable[[McpError], str],
    ) -> None:
        self.target: ForScripts = target._for_scripts
        self._code, self._run_log = code, run_log
        self._options, self._explain = options, explain
        self._seconds = self.target.timeouts.script
        self._interpreter = Interpreter(
            code, tools, limits=self.target.limits, seconds=self._seconds, seed=run_log.id
        )
        has_journal = self.target.has_journal or journal.get() is not None
        self.is_keyed = has_journal and is_storable(options.get("context"))
        self.follows = False  # whether an earlier attempt may have sent calls
        self._asked: dict[int, AskedCall] = {}
        """The calls that the script made, by their numbers."""
        self._started = 0
        """The number of calls that were started, or are noted."""
        self._reported = 0
        """The number of noted results that the script has received."""
        self._running = 0
        self._live: set[int] = set()
        """The numbers of those that were not only noted."""
        self._arrived: deque[tuple[int, Settled]] = deque()
        self._settled_by_now = {response.number: response.settled for response in run_log.answers}
        self._waiting: dict[int, CallPending] = {}
        self._change = anyio.Event()

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return max(self._started, self._reported)

    async def run(self) -> ScriptResult | PausedRun:
        clock = PausableClock(current().now)
        token = script_clock.set(clock)
        try:
            with clock.scope(clock.now() + self._seconds):
                turn = await self._turns()
                return self._paused() if turn is None else self._result(turn)
            return self._result(Turn(stop=Stop("script", _TOO_LONG(seconds_text(self._seconds)))))
        finally:
            script_clock.reset(token)
            clock.rest()
            await self._close()

    async def _turns(self) -> Turn | None:
        """Return the last turn; None if every call that the script waits for waits for a person."""
        async with plain_task_group() as group:
            turn = await self._in_thread(self._interpreter.start)
            while turn.waits_for:
                self._asked.update({call.number: call for call in turn.calls})
                settled = self._noted() or await self._next(group)
                if settled is None:
                    return None
                turn = await self._in_thread(partial(self._interpreter.resume, *settled))
            self._asked.update({call.number: call for call in turn.calls})
            group.cancel_scope.cancel()  # calls that the script does not wait for
        return turn

    # ------------------------------------------------------------------ the calls

    def _noted(self) -> tuple[int, Settled] | None:
        """Return the next noted result."""
        if self._reported == len(self._run_log.answers):
            return None
        response = self._run_log.answers[self._reported]
        self._reported += 1
        response.check(self._asked.get(response.number))
        return response.number, response.settled

    async def _next(self, group: anyio.abc.TaskGroup) -> tuple[int, Settled] | None:
        """Return the outcome of the next call to end; None if all wait for a person."""
        for number in range(self._started + 1, len(self._asked) + 1):
            if number not in self._settled_by_now:
                self._running += 1
                self._live.add(number)
                group.start_soon(self._make, self._asked[number])
        self._started = len(self._asked)
        while not self._arrived and self._running:
            self._change = anyio.Event()
            await self._change.wait()
        if not self._arrived:
            return None
        number, settled = self._arrived.popleft()
        self._run_log.note(self._asked[number], settled)
        self._reported += 1
        return number, settled

    async def _make(self, call: AskedCall) -> None:
        try:
            settled = self._settled_by_now[call.number] = await self._settled(call)
            self._arrived.append((call.number, settled))
        except CallPending as pending:
            self._waiting[call.number] = pending
        finally:
            self._running -= 1
            self._change.set()

    async def _settled(self, call: AskedCall) -> Settled:
        """Make one call. Raises ``CallPending`` only."""
        tool, run = call.tool, self._run_log.id
        script = Script(run, self._code, call.number - 1, call.line)
        options = self._options.copy()
        if self.is_keyed:
            options["idempotency_key"] = f"{run}/{call.number}"
        try:
            if call.problem is not None:
                raise call.problem
            arguments = ModelArguments(call.arguments)
            result = await self.target.call(tool.qualified_name, arguments, options, script)
        except CallPending:
            raise
        except McpError as error:
            return Failure(_kind(error), self._explain(error))
        except Exception as error:  # noqa: BLE001 - the script gets an exception, and continues
            _log.error("a call of a script failed", exc_info=error)
            return Failure("CallFailed", _FAILED_HERE)
        if result.is_error:
            return Failure("ToolFailed", sendable(result.text[:_MAX_ERROR_CHARS]))
        has_structure = result.structured_content is not None or "structuredContent" in result.raw
        return Returned(sendable(result.structured_content if has_structure else result.text))

    # -------------------------------------------------------------------- its end

    @property
    def _sent(self) -> list[int]:
        """The calls that may have reached a server."""
        settled = self._settled_by_now.items()
        sent = [n for n, one in settled if getattr(one, "kind", None) not in _UNSENT]
        return sorted([*sent, *self._cut_off])

    @property
    def _cut_off(self) -> set[int]:
        """The calls that were under way when it ended."""
        return self._live - self._waiting.keys() - self._settled_by_now.keys()

    def _paused(self) -> PausedRun:
        waiting = tuple(self._waiting[n] for n in sorted(self._waiting))
        sent = tuple(self._asked[n].tool.qualified_name for n in self._sent)
        return PausedRun(waiting, self._run_log, self._interpreter.output, sent)

    def _result(self, turn: Turn) -> ScriptResult:
        output = self._interpreter.output
        parts = [output.rstrip("\n"), turn.text, (turn.error or "").rstrip("\n")]
        if turn.stop is not None:
            parts.append(f"The script was ended: {turn.stop.text}.")
        if turn.error is not None or turn.stop is not None:
            sent = len(self._sent)
            parts.append(_SENT.format(sent) if sent else _NONE_NOW if self.follows else _NONE_SENT)
        else:
            unmade = len(self._asked) - self.calls
            parts.append(_NOT_AWAITED.format(unmade) if unmade else "")
            parts.append(_CUT_OFF.format(len(self._cut_off)) if self._cut_off else "")
        text = "\n".join(filter(None, parts)) or _NO_OUTPUT
        ended = turn.error, turn.stop, self.calls
        return ScriptResult(self._run_log.id, output, turn.value, *ended, text)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Call ``function()`` in a thread. It continues if this is cancelled, until ``_close``."""
        return await run_in_thread(
            function, abandon_on_cancel=True, limiter=limiter_of(_threads, _THREADS)
        )

    async def _close(self) -> None:
        self._interpreter.kill(CLOSED)
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await run_in_thread(self._interpreter.close, abandon_on_cancel=True)


def _kind(error: McpError) -> str:
    match error:
        case CallDenied():
            return "CallDenied"
        case CallTimeout():
            return "CallTimeout"
        case InvalidArguments() | InvalidSchema() | UnknownTool():
            return "InvalidArguments"
    return "CallFailed"


@dataclass(frozen=True, slots=True)
class Received:
    """A result that the script received of one call."""

    number: int
    digest: str
    """The digest of the call."""
    settled: Settled

    def check(self, call: AskedCall | None) -> None:
        """Raise ``ConfigError`` unless ``call`` is the one that was answered."""
        if call is None or call.digest != self.digest:
            raise ConfigError(
                "the script ran differently than before its pause, or a tool that it had "
                f"called is defined otherwise now; {_SENT_NOTHING}"
            )

    def without_value(self) -> Received:
        """Return the same without the value that the call returned."""
        return self if isinstance(self.settled, Failure) else replace(self, settled=Returned(None))


@dataclass(slots=True)
class RunLog:
    """The log of a script's run up to its present point."""

    id: str
    """The id of the run."""
    code: str
    """A digest of the script."""
    release: str
    """The releases of this package and of the interpreter: another one may run a script
    otherwise."""
    answers: list[Received] = field(default_factory=list)
    chars: int = 0
    """The size of the results, as JSON text."""

    @classmethod
    def of(cls, id: str, code: str) -> RunLog:
        """Return the log of a run that begins."""
        return cls(id, sha256(code), _release())

    @property
    def is_whole(self) -> bool:
        """Whether the results are held. Those of a run that cannot be stored would fill memory."""
        return self.chars <= _MAX_HELD_CHARS

    def note(self, call: AskedCall, settled: Settled) -> None:
        """Note a result that the script receives now."""
        if self.is_whole:
            self.chars += _size(settled)
            if not self.is_whole:
                self.answers = [one.without_value() for one in self.answers]
        received = Received(call.number, call.digest, settled)
        self.answers.append(received if self.is_whole else received.without_value())

    def check(self, code: str) -> None:
        """Raise ``ConfigError`` unless it is a run of this script, by this release."""
        if self.code != sha256(code):
            raise ConfigError(f"this run was paused with another script; {_SENT_NOTHING}")
        if self.release != _release():
            raise ConfigError(
                f"this run was paused by another release ({self.release}) and cannot go on with "
                f"{_release()}; {_SENT_NOTHING}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON; its results are None if they are too large to be stored."""
        answers = [[one.number, one.digest, _written(one.settled)] for one in self.answers]
        members = {"id": self.id, "code": self.code, "release": self.release}
        return {**members, "answers": answers if self.is_whole else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunLog:
        """Raise ``ConfigError`` for anything that ``to_json`` does not give."""
        try:
            answers = [
                Received(int(number), str(digest), _parsed(settled))
                for number, digest, settled in value["answers"]
            ]
            chars = sum(_size(one.settled) for one in answers)
            names = str(value["id"]), str(value["code"]), str(value["release"])
            return cls(*names, answers, chars)
        except (LookupError, TypeError, ValueError):
            raise ConfigError("the stored log of a paused script cannot be read") from None


def _release() -> str:
    return f"mcp-client-host {__version__}, pydantic-monty {interpreter_version()}"


def _size(settled: Settled) -> int:
    value = settled.message if isinstance(settled, Failure) else settled.value
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _written(settled: Settled) -> dict[str, Any]:
    if isinstance(settled, Returned):
        return {"value": settled.value}
    return {"kind": settled.kind, "message": settled.message}


def _parsed(value: Mapping[str, Any]) -> Settled:
    if "value" in value:
        return Returned(value["value"])
    kind, message = value["kind"], value["message"]
    if kind not in EXCEPTIONS or type(message) is not str:
        raise ValueError("it is not an exception of a script")
    return Failure(kind, message)
