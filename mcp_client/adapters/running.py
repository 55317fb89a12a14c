"""Makes the calls of a response on a session or a host, and keeps the outcome of each."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from ..catalog.result import ToolResult
from ..connection.call_options import (
    MAX_KEY_CHARS,
    CallOptions,
    CallProgress,
    CallSteps,
    check_call_options,
    check_key,
    takes,
)
from ..errors import CallDenied, CallPending, ConfigError, McpError
from ..protocol.canonical_json import sha256
from ..runtime.background import plain_task_group
from ..runtime.callbacks import ProgressNotifier
from ..runtime.event_loop import in_event_loop
from ..runtime.limits import Limits
from ..runtime.portal import Blocking
from ..runtime.session_context import Stats
from ..state import State
from .answers import FAILED_HERE, ScriptOutput
from .model_calls import ModelCall

__all__ = [
    "BlockingTarget",
    "CallTarget",
    "Outcome",
    "check_run_options",
    "check_target",
    "done_on",
    "keys_of",
    "outcome_of",
    "side_by_side",
    "told_of",
]

_log = logging.getLogger("mcp_client")

Outcome: TypeAlias = ToolResult | ScriptOutput | McpError | None
"""What a call led to; None where it was not made, as for one with a ``problem``."""
N = TypeVar("N")
_PROGRESS_SECONDS = 1.0
"""Seconds that an async ``on_progress`` has for what it was not told yet, once its call is done."""


class CallTarget(Protocol):
    """What runs the calls: a ``Session`` or a ``Host``."""

    async def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult:
        """As of a ``Session`` or a ``Host``."""
        raise NotImplementedError


class BlockingTarget(Protocol):
    """A ``Session`` or ``Host`` of ``mcp_client.sync``."""

    def call_tool(self, name: str, arguments: Any = None, /) -> ToolResult:
        """As of a ``Session`` or a ``Host``."""
        raise NotImplementedError


def done_on(target: Any, what: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """``work(target)`` to be awaited; with a target of ``mcp_client.sync`` what it returns. Raises
    ``ConfigError`` where that would block an event loop; ``what`` was called."""
    is_blocking = isinstance(target, Blocking) and callable(  # and open
        cast("BlockingTarget", target).call_tool
    )
    if not is_blocking:
        return work(target)
    if in_event_loop():
        raise ConfigError(
            f"{what}() was given a session or host of mcp_client.sync, which blocks the event "
            "loop: make the calls of kit.calls(response), then use kit.results(...), or give "
            "it a session or host of mcp_client"
        )
    return target._wait_for(work)


async def outcome_of(target: Any, call: ModelCall, options: CallOptions) -> Outcome:
    """What making the call leads to: only cancelling it raises."""
    try:
        result: ToolResult = await target.call_tool(call.name, call.arguments, **options)
        return result
    except McpError as error:
        if isinstance(error, CallDenied) and error.source == "gate":  # the model is told less
            _log.info("a call for a model was refused without a decision: %s", error)
        return error
    except Exception as error:  # noqa: BLE001 - the other calls have answers, and so has this one
        _log.error("a call for a model failed", exc_info=error)
        return McpError(FAILED_HERE)


class _Steps(CallSteps):
    """Tells a function of one ``CallProgress`` which call does what."""

    def __init__(self, call: ModelCall, notifier: ProgressNotifier) -> None:
        self._call, self._notifier = call, notifier

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        call = self._call
        running = CallProgress(call.id, call.name, "running", progress, total, message)
        self._notifier.tell(running)

    def step(self, step: Any, *, is_error: bool = False) -> None:
        call = self._call
        self._notifier.tell(CallProgress(call.id, call.name, step, is_error=is_error))


async def told_of(
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


async def side_by_side(
    make: Callable[[N], Coroutine[Any, Any, None]], numbers: Sequence[N]
) -> None:
    """Run ``make`` for each of ``numbers``, each in its own task."""
    async with plain_task_group() as group:
        for number in numbers:
            group.start_soon(make, number)


def check_run_options(options: CallOptions, target: object = None, prefix: object = None) -> None:
    """Raises what ``check_call_options`` does, and ``ConfigError`` for a wrong prefix of keys, and
    for one where ``target`` has no state."""
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
            "idempotency_prefix= needs a place where calls are kept by their keys: give connect or "
            "Host a state=, such as the path of a folder"
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
    """Raises ``ConfigError`` for a ``target`` that makes no calls."""
    if inspect.isawaitable(target) and not callable(getattr(type(target), "call_tool", None)):
        raise ConfigError(
            f"{what}() was given a {type(target).__name__} that is not open yet: give the session "
            "or host that 'async with' or 'await' gives"
        )
    if not callable(getattr(target, "call_tool", None)):
        raise ConfigError(
            f"{what}() was given a {type(target).__name__} to make the calls: give an open Session "
            "or Host first, then the response"
        )
