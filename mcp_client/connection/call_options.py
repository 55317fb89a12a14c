"""The options of a tool call and of a read: one list for every interface.

``Session``, ``Host``, ``App``, ``Toolset.run`` and ``mcp_client.sync`` accept these names and check
them here, so that a wrong value is the same error everywhere.

By default no call is repeated: ``error.retryable`` states whether that would be safe. With
``connect(retry=Retry())`` or ``call_tool(retry=Retry())`` a failed attempt is repeated if nothing
reached the server and another attempt may succeed. It is also repeated if the tool may have run,
but a trusted server declares it read-only or idempotent.

A call is cancelled from elsewhere by a ``CancelToken``: ``call_tool(..., cancel=token)``, and
``token.cancel(reason)``. Such a call runs in a cancel scope of its own, which the token cancels.
Cancelling the caller's task or scope needs no token and works as for any coroutine. In both cases
the server is notified as its era and transport require, with the reason if there is a field for it
(2025-11-25 ``basic/utilities/cancellation``; 2026-07-28 ``basic/patterns/cancellation``). A late
response is dropped.

An approval hook or a handler may swallow a cancellation and return normally. So the last step
before each ``tools/call`` is written is ``stop_if_cancelled``, which no callback can follow.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypedDict

import anyio
from anyio.lowlevel import checkpoint

from ..errors import (
    CallCancelled,
    CallPending,
    CallTimeout,
    CallWithdrawn,
    ConfigError,
    ConnectionLost,
    McpError,
    NotSent,
    ServerError,
    UrlElicitationRequired,
)
from ..protocol.canonical_json import NotJson, canonical_of, frozen, object_of, plain
from ..protocol.metadata import check_meta
from ..runtime.backoff import doubled, spread
from ..runtime.event_loop import Backend, being_cancelled, cancel_requests, current
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Timeouts
from ..runtime.option_names import check_names, with_option_names
from ..transports.base import is_passing
from ..validation.strictness import Strictness, check_strictness

__all__ = [
    "MAX_KEY_CHARS",
    "CallOptions",
    "CallProgress",
    "CallSteps",
    "CancelToken",
    "OnProgress",
    "ReadOptions",
    "Retry",
    "cancelled_by",
    "check_call_options",
    "check_context",
    "check_key",
    "check_read_options",
    "frozen_tag",
    "stop_if_cancelled",
    "takes",
]

MAX_KEY_CHARS = 500
"""The maximum length of an ``idempotency_key``, in characters."""
_MAX_TAG_CHARS = 4_000
_TIMEOUTS = Timeouts()

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""A function called with ``progress``, ``total`` and ``message`` of each notification.

An async function may be slow: notifications wait, the oldest are dropped beyond ``Limits.notices``,
and the call waits for it at most one second at the end. A plain function is called in the event
loop and must not block.
"""


@frozen_dataclass
class CallProgress:
    """One step of a call that ``Toolset.run`` makes, for its ``on_progress``."""

    id: str
    """The model's id of the call; empty if the provider gives none."""
    name: str
    """The qualified name of the tool; "run_code" for a script, whose calls take these steps."""
    step: Literal["asked", "sent", "running", "done", "pending"]
    """The step of the call.

    Its approval is decided, it is sent, the server reports progress, it has ended, or it ends
    without an outcome because it waits for approval (``CallPending``).
    """
    progress: float | None = None
    """The progress that the server reports; None for the other steps."""
    total: float | None = None
    """The value of ``progress`` at the end, if the server reports it."""
    message: str | None = None
    """The server's text about the progress: untrusted."""
    is_error: bool = False
    """Whether the call was refused or failed, once it is done."""


class CallSteps:
    """An ``on_progress`` that also receives the steps of its call."""

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """The server reports progress."""

    def step(self, step: Literal["asked", "sent"]) -> None:
        """Note that the call reached this step."""


OnCallProgress: TypeAlias = Callable[[CallProgress], Awaitable[None] | None]


class ReadOptions(TypedDict, total=False):
    """The options of reading a resource and of requesting a prompt: each as in ``CallOptions``."""

    timeout: float | Timeouts | None
    meta: Mapping[str, Any] | None
    context: Hashable


class CallOptions(TypedDict, total=False):
    """The options of a tool call, the same on every interface.

    The default of each is None, which uses the session's own option.

    - ``timeout``: Seconds that limit the call from when it is sent; it cannot exceed the session's
      timeouts. A ``Timeouts`` sets them one by one, and ``approval`` if it is shorter.
    - ``on_progress``: A function of ``progress``, ``total`` and ``message``. It may be async; a
      plain function is called in the event loop and must not block. In ``Toolset.run`` it may take
      one ``CallProgress`` instead, which names the call and its step.
    - ``meta``: Members for the request's ``_meta`` beside the protocol's own.
    - ``validation``: For this call, as ``connect(validation=...)``.
    - ``cancel``: A token whose ``cancel(reason)`` cancels the call from any task or thread.
    - ``context``: The host's identifier of the caller: any hashable value. The approval hook gets
      it as ``call.context``; it is never sent.
    - ``tag``: The host's identifier of the call, such as the chat and the turn: any JSON value, or
      a tuple of them, of at most 4,000 characters. The approval hook gets it as ``call.tag``, and
      the audit records it. It is not among the facts that a person sees, no approval is bound to
      it, and it is never sent.
    - ``retry``: For this call, as ``connect(retry=...)``.
    - ``idempotency_key``: The caller's own name for this one call, at most 500 characters. It needs
      a ``state``. The same call with the same key, even in another process and after a crash,
      returns the stored result and is not made twice: see ``mcp_client.session.journal``.
    """

    timeout: float | Timeouts | None
    on_progress: OnProgress | OnCallProgress | None
    meta: Mapping[str, Any] | None
    validation: Strictness | None
    cancel: CancelToken | None
    context: Hashable
    tag: Any
    retry: Retry | None
    idempotency_key: str | None


def check_call_options(options: Mapping[str, Any], session: Timeouts = _TIMEOUTS) -> Timeouts:
    """Return the timeouts of a call with these options in a session with those timeouts.

    Raises ``ConfigError`` or ``InvalidArguments`` for an invalid value, ``TypeError`` for an
    unknown name.
    """
    _check(options, "a call", CallOptions.__annotations__)
    return session.for_call(options.get("timeout"))


def check_read_options(options: Mapping[str, Any]) -> None:
    """Do ``check_call_options`` for the options of a read."""
    _check(options, "a read", ReadOptions.__annotations__)


def _check(options: Mapping[str, Any], what: str, names: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in names:
            check_names(what, options, names)
        if value is not None:
            _CHECKS[name](value)


def _check_timeout(timeout: Any) -> None:
    _TIMEOUTS.for_call(timeout)


def _check_progress(on_progress: object) -> None:
    if not takes(on_progress, 3):
        raise ConfigError(
            f"on_progress={on_progress!r}: give a function of progress, total and message"
        )


def takes(function: Any, count: int) -> bool:
    """Return whether a function accepts so many positional arguments, as far as is known."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say
        pass
    return True


def _check_meta(meta: Any) -> None:
    if isinstance(meta, Mapping):
        check_meta(meta)
    object_of("meta", meta)


def _check_cancel(cancel: object) -> None:
    if not isinstance(cancel, CancelToken):
        raise ConfigError(f"cancel={cancel!r}: give a CancelToken")


def check_context(context: object) -> None:
    """Raise ``ConfigError`` for a ``context`` that cannot be compared with others."""
    try:
        hash(context)
    except TypeError:
        raise ConfigError(
            f"context is a {type(context).__name__}: give a hashable value such as a str or a tuple"
        ) from None


def frozen_tag(tag: Any) -> Any:
    """Return an immutable copy of a ``tag``. Raises ``ConfigError`` unless it is JSON and small."""
    try:
        text = canonical_of(copy := plain(tag))
    except NotJson as error:
        raise ConfigError(
            f"tag is a {type(tag).__name__} that JSON cannot represent ({error}): give a str, a "
            "number, a boolean, or a tuple or dict of them"
        ) from None
    if len(text) > _MAX_TAG_CHARS:
        raise ConfigError(f"tag has {len(text):,} characters as JSON: give at most 4,000")
    return frozen(copy)


def _check_retry(retry: object) -> None:
    if not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: give Retry(attempts=...)")


def check_key(option: str, key: object, most: int = MAX_KEY_CHARS) -> None:
    """Raise ``ConfigError`` unless ``key`` is a str of at most ``most`` characters."""
    if not isinstance(key, str) or not 0 < len(key) <= most:
        described = f"a text of {len(key)} characters" if isinstance(key, str) else repr(key)
        raise ConfigError(f"{option}={described}: give a str of 1 to {most} characters")


_CHECKS: dict[str, Any] = {
    "timeout": _check_timeout,
    "on_progress": _check_progress,
    "meta": _check_meta,
    "validation": lambda validation: check_strictness("validation", validation),
    "cancel": _check_cancel,
    "context": check_context,
    "tag": frozen_tag,
    "retry": _check_retry,
    "idempotency_key": lambda key: check_key("idempotency_key", key),
}


@with_option_names()
@frozen_dataclass
class Retry:
    """The number and the times of attempts at a failed call.

    One approval covers all attempts of the same call: the same definition and arguments. The total
    timeout of the call also covers them, including the pauses.

    - ``attempts``: The maximum number, including the first.
    - ``backoff``: Seconds before the second attempt, doubled for each one that follows, with
      jitter; never less than the server requests (``retry_after``).
    - ``safe``: Whether repeating the call is harmless, although it may have run already. Then HTTP
      500, 503 and other faults of the server permit another attempt, too.
    """

    attempts: int = 3
    backoff: float = 0.5
    safe: bool = False

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ConfigError(f"Retry(attempts={self.attempts!r}): give a whole number above 0")
        if type(self.backoff) not in (int, float) or not 0 <= self.backoff < float("inf"):
            raise ConfigError(f"Retry(backoff={self.backoff!r}): give seconds, 0 or more")
        if type(self.safe) is not bool:
            raise ConfigError(f"Retry(safe={self.safe!r}): give True or False")

    def permits(self, error: BaseException) -> bool:
        """Return whether a call that ended with ``error`` may be attempted again.

        A durable engine uses this for its own retries, too.
        """
        if isinstance(error, NotSent | ServerError):
            # A person has to visit a URL or to decide, which takes longer than seconds.
            waits = isinstance(error, UrlElicitationRequired | CallPending)
            safe = self.safe and isinstance(error, ServerError) and is_passing(error.http_status)
            return (error.retryable or safe) and not waits
        if isinstance(error, CallTimeout | ConnectionLost):
            return error.retryable or self.safe
        return False

    def next_pause(self, error: McpError, attempts: int, left: float) -> float | None:
        """Return the seconds before the next attempt; None without another attempt.

        Args:
            error: The error of the last attempt, which may not permit another.
            attempts: The number of attempts so far.
            left: Seconds left of the total timeout, which the pause must not exceed.
        """
        error.attempts = attempts
        if attempts == self.attempts or not self.permits(error):
            return None
        pause = self.pause(error, attempts)
        return pause if pause < left else None

    def pause(self, error: McpError, attempts: int) -> float:
        """Return the seconds before the next attempt, after ``attempts``."""
        wanted: float | None = getattr(error, "retry_after", None)
        return max(spread(doubled(self.backoff, attempts - 1)), wanted or 0.0)


_MAX_REASON_CHARS = 500


class CancelToken:
    """A token that cancels the calls it was passed to, from any task or thread.

    One token may serve several calls, at once or one after the other; it can be cancelled once.
    """

    __slots__ = ("_reasons", "_stops")

    def __init__(self) -> None:
        # No lock, so that a signal handler may cancel too: each step is one atomic operation of a
        # list or dict, ``cancel`` sets the reason before it looks for calls, and a call enters
        # itself before it looks for a reason.
        self._reasons: list[str] = []
        self._stops: dict[object, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return (
            f"<CancelToken, {f'cancelled: {self.reason}' if self.cancelled else 'not cancelled'}>"
        )

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return bool(self._reasons)

    @property
    def reason(self) -> str | None:
        """The first reason passed to ``cancel``; None before that."""
        return self._reasons[0] if self._reasons else None

    def cancel(self, reason: str = "the caller changed their mind") -> None:
        """Cancel all calls under way with this token, and every later call with it.

        The first 500 characters of ``reason`` are sent to the server. Each call raises
        ``CallWithdrawn`` if nothing was sent, or ``CallCancelled``: then it may have run. A call
        that has ended is not affected, nor is one that ends before it could be interrupted.
        """
        if not self._reasons:
            self._reasons.append(str(reason)[:_MAX_REASON_CHARS])
        for stop in list(self._stops.values()):
            stop()

    def _watch(self, scope: anyio.CancelScope, backend: Backend) -> Callable[[], Any]:
        """Cancel ``scope`` with this token; call what is returned when the scope is left."""
        key = object()
        self._stops[key] = partial(backend.run_soon, scope.cancel)
        if self._reasons:
            scope.cancel()
        return partial(self._stops.pop, key, None)

    def _error(self, server: str, tool: str, sent: bool, follows: bool = False) -> McpError:
        """Return the error for a call that this token cancelled."""
        kind, when = (
            (CallCancelled, f"cancelled: {self.reason}; it may have run")
            if sent
            else (CallWithdrawn, f"cancelled before it was sent: {self.reason}")
        )
        about = {"reason": self.reason or "", "server": server, "tool": tool, "follows": follows}
        return kind(f"the call was {when}", **about)


class cancelled_by:  # noqa: N801 - used as a function
    """Cancel the body if ``token`` is cancelled, and raise ``error(token)`` then.

    The body does not begin if the token is cancelled already. Cancelling the task takes precedence
    over cancelling the token.
    """

    __slots__ = ("_before", "_error", "_forget", "_scope", "_token")

    def __init__(self, token: CancelToken | None, error: Callable[[CancelToken], McpError]) -> None:
        self._token = token
        self._error = error

    async def __aenter__(self) -> None:
        token = self._token
        if token is None:
            return
        self._before = cancel_requests()
        if token.cancelled:
            raise self._error(token) from None
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        self._forget = token._watch(self._scope, current())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        token = self._token
        if token is None:
            return
        self._forget()
        was_swallowed = self._scope.__exit__(kind, error, traceback)
        if was_swallowed and kind is not None:  # on trio, no error counts as swallowed
            await stop_if_cancelled(None, self._before)
            raise self._error(token) from None


async def stop_if_cancelled(token: CancelToken | None, before: int) -> None:
    """Raise the cancellation of the current task, or of the scope that ``token`` cancels.

    ``before`` is ``cancel_requests()`` at the start of the call: a host may call a tool while it
    cleans up in a task that was cancelled earlier. asyncio delivers a cancellation once. If a
    callback suppresses it, only that count shows it.
    """
    if (token is None or not token.cancelled) and not being_cancelled(before):
        return
    await checkpoint()  # raises it if it is still pending, as on trio and in scopes of anyio
    raise anyio.get_cancelled_exc_class()("a callback suppressed the cancellation of the call")
