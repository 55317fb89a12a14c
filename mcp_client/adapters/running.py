"""The calls of a response: made on a session or a host, each with its outcome."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from anyio.lowlevel import checkpoint

from ..approval.constraints import glob
from ..catalog.call_values import NotAnObject, ToolResult
from ..connection.call_options import (
    MAX_KEY_CHARS,
    CallOptions,
    CallProgress,
    CallSteps,
    check_call_options,
    check_key,
    takes,
)
from ..errors import (
    CallDenied,
    CallPending,
    ConfigError,
    InvalidArguments,
    McpError,
    StateError,
    UnknownTool,
)
from ..protocol.canonical_json import sha256
from ..runtime.background import side_by_side
from ..runtime.callbacks import ProgressNotifier
from ..runtime.event_loop import in_event_loop
from ..runtime.limits import Limits
from ..runtime.portal import Blocking
from ..runtime.safe_text import safe_text
from ..runtime.session_context import Stats
from ..session.journal import may_have_run
from ..state import State
from .calls import FAILED_HERE, Answer, ModelCall, ScriptOutput, after_earlier
from .model_tools import ModelTools

__all__ = ["MAX_CHARS", "BlockingTarget", "CallTarget", "MaxChars", "Outcome", "Runner"]
__all__ += ["char_limits", "check_run_options", "check_target", "done_on", "keys_of", "outcome_of"]
__all__ += ["with_progress"]

_log = logging.getLogger("mcp_client")
MAX_CHARS = 100_000
MaxChars: TypeAlias = int | Mapping[str, int] | Callable[[str], int]
"""The maximum length of one response, in characters.

A number; or numbers by globs of qualified names, of which the first match counts, with
``MAX_CHARS`` for other tools; or a function of the qualified name. ``MAX_CHARS`` also applies if
the function raises or returns no number.
"""

Outcome: TypeAlias = ToolResult | ScriptOutput | McpError | None
"""The outcome of a call; None if it was not made, as for one with a ``problem``."""
_LIMITS = Limits()
_PROGRESS_SECONDS = 1.0
"""Seconds that an async ``on_progress`` has for pending notifications, once its call is done."""


class CallTarget(Protocol):
    """The target of the calls: a ``Session`` or a ``Host``."""

    async def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult:
        """Call a tool, as ``Session`` and ``Host`` do."""
        raise NotImplementedError


class BlockingTarget(Protocol):
    """A ``Session`` or ``Host`` of ``mcp_client.sync``."""

    def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult:
        """Call a tool, as ``Session`` and ``Host`` do."""
        raise NotImplementedError


class Responder(Protocol):
    """The parts of a ``Toolset`` that find the calls of a response and write the responses."""

    _model_tools: ModelTools

    @property
    def _provider(self) -> str: ...
    def _calls(self, response: Any, most: int, /) -> Iterable[ModelCall]: ...
    def _answer(
        self, call: ModelCall, outcome: Outcome, max_chars: int, context: Hashable, /
    ) -> Answer: ...
    def _answers(
        self, pairs: Iterable[tuple[ModelCall, Outcome]], max_chars: MaxChars, context: Hashable, /
    ) -> Iterable[Answer]: ...
    def _messages(self, answers: Sequence[Answer], /) -> list[dict[str, Any]]: ...


def done_on(target: Any, what: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return ``work(target)`` to be awaited; with a target of ``mcp_client.sync`` its result.

    Raises ``ConfigError`` if that would block an event loop; ``what`` was called.
    """
    is_blocking = isinstance(target, Blocking)
    if not is_blocking or not callable(target.call_tool):  # which raises unless it is open
        return work(target)
    if in_event_loop():
        raise ConfigError(
            f"{what}() was given a session or host of mcp_client.sync, which blocks the event "
            "loop: make the calls of kit.calls(response), then use kit.results(...), or give "
            "it a session or host of mcp_client"
        )
    return target._wait_for(work)


class Runner:
    """Makes the calls of a response on one target, or goes on with those that waited."""

    def __init__(self, toolset: Responder, max_chars: MaxChars, options: CallOptions) -> None:
        self._toolset = toolset
        self._target: Any = None
        self._max_chars = max_chars
        self._options = options

    async def run(self, response: Any, prefix: str | None, target: Any) -> list[dict[str, Any]]:
        """Make the calls in ``response`` on ``target``, as ``Toolset.run`` does."""
        self._target = target
        toolset, options = self._toolset, self._options
        char_limits(self._max_chars)
        if target is not None:
            check_target(target)
        if options or prefix is not None:
            check_run_options(options, target, prefix)
        limits: Limits = getattr(target, "_limits", _LIMITS)
        search = toolset._model_tools.search
        while search is not None and search.prepare():
            await checkpoint()
        calls = []
        for call in toolset._calls(response, limits.model_calls):
            calls.append(call)
            if call.answer is not None or call.problem is not None:  # which took milliseconds
                await checkpoint()
        await self._report_not_made(calls)
        outcomes: list[Outcome] = [None] * len(calls)

        async def make(number: int) -> None:
            keyed = options if prefix is None else {**options, "idempotency_key": keys[number]}
            outcomes[number] = await self._outcome_of(calls[number], keyed)

        keys = [None] * len(calls) if prefix is None else keys_of(prefix, calls)
        for number, (key, call) in enumerate(zip(keys, calls, strict=True)):
            is_unmade = call.problem is not None and not call.is_own
            if is_unmade and key is not None and await may_have_run(target._paused_in, key):
                calls[number] = replace(call, problem=after_earlier(call.problem or ""))
        wanted = [n for n, call in enumerate(calls) if call.problem is None and call.answer is None]
        if wanted:  # searches need no target
            check_target(target)
        if len(wanted) == 1:
            await make(wanted[0])
        elif wanted:
            await side_by_side(make, wanted)
        answers: list[Answer] = []
        made, context = zip(calls, outcomes, strict=True), options.get("context")
        for answer in toolset._answers(made, self._max_chars, context):
            answers.append(answer)
            if answer.call.is_own:  # which may have searched megabytes
                await checkpoint()
        if any(isinstance(outcome, CallPending) for outcome in outcomes):
            from .paused import pause

            await pause(target, toolset._provider, answers, outcomes, options, keys)
        return toolset._messages(answers) if answers else []

    async def resume(self, paused: str | None, target: Any) -> list[dict[str, Any]]:
        """Make the calls that waited on ``target``, as ``Toolset.resume`` does."""
        from .paused import Resumption

        self._target = target
        toolset, options = self._toolset, self._options
        limits, context = char_limits(self._max_chars), options.get("context")
        check_run_options(options)
        check_target(self._target, "resume")

        async def make(call: ModelCall, options: CallOptions) -> Answer | CallPending:
            made = await self._outcome_of(call, options)
            if isinstance(made, StateError):  # nothing was sent, and nothing is settled
                raise made
            if isinstance(made, CallPending):
                return made
            return toolset._answer(call, made, limits(call.name), context)

        resumption = Resumption(self._target, toolset._provider, paused, options)
        return toolset._messages(await resumption.run(make))

    async def _outcome_of(self, call: ModelCall, options: CallOptions) -> Outcome:
        code, target = self._toolset._model_tools.code, self._target
        if code is None and call.run_log is not None:
            raise ConfigError("the paused call is a script: resume it with toolset(code=True)")
        if code is None or not call.is_own:
            return await with_progress(call, options, lambda its: outcome_of(target, call, its))
        from .code_mode import run_code

        return await with_progress(
            call, options, lambda its: run_code(target, call, its, code.bindings)
        )

    async def _report_not_made(self, calls: Sequence[ModelCall]) -> None:
        """Report the calls that cannot be made, to the audit and to ``on_progress``."""
        record = getattr(self._target, "_record_not_made", None)
        known, errors = self._toolset._model_tools.tools, dict[int, McpError]()
        for number, call in enumerate(calls):
            if call.problem is not None:
                broken = call.name in known
                error = (InvalidArguments if broken else UnknownTool)(call.problem)
                errors[number] = error
                if record is not None and not call.is_own:
                    arguments = NotAnObject() if broken else call.asked
                    await record(call.name, arguments, error, self._options)

        async def report(number: int) -> None:
            failed = partial(_result_of, errors[number])
            await with_progress(calls[number], self._options, failed)

        if errors and self._options.get("on_progress") is not None:
            await side_by_side(report, list(errors))


async def outcome_of(target: Any, call: ModelCall, options: CallOptions) -> Outcome:
    """Make the call and return its outcome: only a cancellation raises."""
    try:
        result: ToolResult = await target.call_tool(call.name, call.arguments, **options)
        return result
    except McpError as error:
        if isinstance(error, CallDenied) and error.source == "gate":  # the model gets less
            _log.info("a call for a model was refused without a decision: %s", error)
        return error
    except Exception as error:  # noqa: BLE001 - the other calls have answers, and so has this one
        _log.error("a call for a model failed", exc_info=error)
        return McpError(FAILED_HERE)


async def _result_of(outcome: Outcome, options: CallOptions) -> Outcome:
    return outcome


class _Steps(CallSteps):
    """Reports the steps of each call to a function of one ``CallProgress``."""

    def __init__(self, call: ModelCall, notifier: ProgressNotifier) -> None:
        self._call, self._notifier = call, notifier

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        call = self._call
        running = CallProgress(call.id, call.name, "running", progress, total, message)
        self._notifier.notify(running)

    def step(self, step: Any, *, is_error: bool = False) -> None:
        call = self._call
        self._notifier.notify(CallProgress(call.id, call.name, step, is_error=is_error))


async def with_progress(
    call: ModelCall, options: CallOptions, make: Callable[[CallOptions], Awaitable[Outcome]]
) -> Outcome:
    """Return what ``make`` does with these options, whose ``on_progress`` may take one argument."""
    on_progress = options.get("on_progress")
    if on_progress is None or takes(on_progress, 3):
        return await make(options)
    notifier = ProgressNotifier(on_progress, "a model's call", Limits().notices, Stats())
    steps = _Steps(call, notifier)
    try:
        made = await make({**options, "on_progress": steps})
        if isinstance(made, CallPending):
            steps.step("pending")
        else:
            steps.step("done", is_error=isinstance(made, McpError) or bool(made and made.is_error))
        return made
    finally:
        await notifier.aclose(_PROGRESS_SECONDS)


def check_run_options(options: CallOptions, target: object = None, prefix: object = None) -> None:
    """Raise ``ConfigError`` for a wrong prefix of keys, and for one without a state.

    Also raises the errors of ``check_call_options``.
    """
    one_call: CallOptions = {**options}
    if takes(options.get("on_progress"), 1):
        del one_call["on_progress"]
    check_call_options(one_call)
    if options.get("idempotency_key") is not None:
        raise ConfigError(
            "idempotency_key= is for one call, and a response may have several: give "
            "run(idempotency_prefix=...)"
        )
    if prefix is None:
        return
    check_key("idempotency_prefix", prefix, MAX_KEY_CHARS // 2)
    if not isinstance(getattr(target, "_paused_in", None), State):
        raise ConfigError(
            "idempotency_prefix= needs a store for calls and their keys: give connect or "
            "Host a state=, such as the path of a directory"
        )


def keys_of(prefix: str, calls: Sequence[ModelCall]) -> list[str]:
    """Return the ``idempotency_key`` of each call of a response, each another one.

    A call without an id has its number, which may be the id of another call.
    """
    keys: dict[str, None] = {}
    for number, call in enumerate(calls):
        key = f"{prefix}/{call.id or number}"
        if len(key) > MAX_KEY_CHARS:
            key = f"{prefix}/{sha256(call.id)}"
        while key in keys:
            key = f"{prefix}/{sha256(key)}/{number}"
        keys[key] = None
    return list(keys)


def check_target(target: object, what: str = "run") -> None:
    """Raise ``ConfigError`` for a ``target`` that makes no calls."""
    if inspect.isawaitable(target) and not callable(getattr(type(target), "call_tool", None)):
        raise ConfigError(
            f"{what}() was given a {type(target).__name__} that is not open yet: give the session "
            "or host that 'async with' or 'await' returns"
        )
    if not callable(getattr(target, "call_tool", None)):
        raise ConfigError(
            f"{what}() was given a {type(target).__name__} to make the calls: give an open Session "
            "or Host first, then the response"
        )


def char_limits(max_chars: MaxChars) -> Callable[[str], int]:
    """Return a function of a qualified name. Raises ``ConfigError`` unless it is a ``MaxChars``."""
    limit: Any = max_chars
    if _is_limit(limit):
        return lambda name: limit
    if isinstance(limit, Mapping):
        for pattern, chars in limit.items():
            if not isinstance(pattern, str) or not _is_limit(chars):
                raise ConfigError(
                    f"max_chars={{{pattern!r}: {chars!r}}}: give globs of qualified names, each "
                    "with a whole number above 0"
                )
        globs = [(glob(pattern), chars) for pattern, chars in limit.items()]
        return lambda name: next((chars for matches, chars in globs if matches(name)), MAX_CHARS)
    if callable(limit) and not inspect.iscoroutinefunction(limit):
        return lambda name: _asked(limit, name)
    raise ConfigError(
        f"max_chars={limit!r}: give a whole number above 0, a mapping of globs to such numbers, or "
        "a function of the qualified name"
    )


def _is_limit(chars: object) -> bool:
    return type(chars) is int and chars > 0


def _asked(max_chars: Callable[[str], Any], name: str) -> int:
    try:
        chars = max_chars(name)
    except Exception as error:  # noqa: BLE001 - the call was made: its answer is due
        quoted_name = safe_text(name, 128)
        _log.error("max_chars failed for %s: using %d", quoted_name, MAX_CHARS, exc_info=error)
        return MAX_CHARS
    if _is_limit(chars):
        return int(chars)
    kind = type(chars).__name__
    _log.error("max_chars returned a %s for %s: using %d", kind, safe_text(name, 128), MAX_CHARS)
    return MAX_CHARS
