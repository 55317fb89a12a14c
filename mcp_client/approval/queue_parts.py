"""The parts of an ``ApprovalQueue``: its changes, its logins, ended requests, arguments to check.

``one_at_a_time`` is a queue in front of a hook.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from anyio.lowlevel import checkpoint

from ..catalog.call_values import is_storable, same_context
from ..errors import ConfigError, InvalidArguments, NotPending
from ..protocol.canonical_json import NotJson, canonical_of, frozen, plain
from ..runtime.background import CrossLoopLock
from ..runtime.callbacks import in_thread, invoke_hook
from ..runtime.safe_text import safe_text
from ..runtime.watch import Notifier, Watch
from .decision import (
    Allow,
    Answer,
    ApprovalHook,
    Deny,
    Remember,
    check_person,
    not_a_decision,
    not_arguments,
    policy_of,
)
from .question import remembered_meanwhile
from .request import ApprovalRequest

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin

__all__ = ["ANY", "EndedRequests", "OneAtATime", "PendingChanges", "ShownLogins"]
__all__ += ["check_edited", "ids_of", "one_at_a_time", "signed"]

_MAX_LOGINS = 50

ANY: Hashable = object()
"""The default of ``context``, which matches every context: None is that of calls without one."""


def ids_of(ids: Any) -> tuple[str, ...]:
    """Return the ids as a tuple. Raises ``ConfigError``."""
    try:
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
    except TypeError:
        wanted = (ids,)
    if not all(isinstance(id, str) for id in wanted):
        raise ConfigError("decide(): give the id of a pending call, or several: PendingApproval.id")
    return wanted


def signed(answer: Any, by: Any) -> Answer:
    """Return a copy of ``answer`` with the person ``by``; the original may be changed afterwards.

    Raises ``ConfigError`` and ``InvalidArguments``.
    """
    if type(answer) not in (Allow, Deny):
        raise ConfigError(f"decide() was given {not_a_decision(answer)}")
    changed: dict[str, Any] = {}
    if type(answer) is Allow:
        changed["remember"] = Remember.of(answer.remember) or Remember("call")
        changed["arguments"] = None if answer.arguments is None else _copied(answer.arguments)
    if by is not None:
        changed["by"] = check_person(by)
        changed["source"] = "person" if answer.source == "hook" else answer.source
    result: Answer = replace(answer, **changed)
    return result


def _copied(arguments: Any) -> Any:
    try:
        copy = plain(arguments)
        canonical_of(copy)
    except NotJson as error:
        raise InvalidArguments(
            f"decide(): the edited arguments are not JSON: {error}", path=error.path
        ) from None
    if type(copy) is not dict:
        raise ConfigError(f"decide() was given {not_arguments(arguments)}")
    return frozen(copy)


def check_edited(wanted: tuple[str, ...], pending: Iterable[_Pending]) -> None:
    """Raise ``ConfigError`` if edited arguments cannot be for ``wanted``: several, or no call."""
    if len(wanted) > 1:
        raise ConfigError("decide(): edited arguments are for one call, not for several")
    for one in pending:
        if one.id in wanted and one.request.kind != "call":
            raise ConfigError(
                f"decide(): a {one.request.kind} has no arguments: give Allow() or Deny(reason)"
            )


_MOST = 1_000
"""Requests that are remembered; the oldest are forgotten."""
_UNKNOWN = "it was decided, or its caller no longer waits"
_WHY = {
    "decided": "it was decided",
    "withdrawn": "it was withdrawn",
    "expired": "no one decided it in time",
    "gone": "its caller no longer waits",
}


class _Pending(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def request(self) -> ApprovalRequest: ...
    @property
    def expires_at(self) -> float | None: ...


class EndedRequests:
    """The ends of one queue's requests. Any thread may use it: each step is atomic."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[str, str | None, Hashable]] = {}
        self._expire_at: dict[str, tuple[float, Hashable]] = {}

    def note(self, one: _Pending, reason: str, by: str | None = None) -> None:
        """Store how a request ended; the first reason counts.

        Args:
            one: The request.
            reason: "decided", "withdrawn", "expired", or "gone" (its caller).
            by: The person who decided.
        """
        self._ends.setdefault(one.id, (reason, by, _stored(one.request.context)))
        _trim(self._ends)

    def saw(self, pending: Iterable[_Pending]) -> None:
        """Store when requests in a store expire, because they are deleted there."""
        for one in pending:
            if one.expires_at is not None:
                self._expire_at[one.id] = one.expires_at, _stored(one.request.context)
        _trim(self._expire_at)

    def error(
        self, missing: tuple[str, ...], wanted: int, context: Hashable, decided: int = 0
    ) -> NotPending:
        """Return the error for requests that are not pending.

        Args:
            missing: The ids that are not pending.
            wanted: The number of requests to decide.
            context: The context of the caller: the ends of other requests are not reported.
            decided: The number of requests that were decided.
        """
        reason, by, its = self._ends.get(missing[0], ("", None, None))
        if not reason:
            until, its = self._expire_at.get(missing[0], (math.inf, None))
            reason = "expired" if until <= time.time() else ""
        if context is not ANY and not same_context(its, _stored(context)):
            reason, by = "", None
        why = _WHY.get(reason, _UNKNOWN) + (f" by {safe_text(by, 200)}" if by else "")
        text = f"the request is not pending: {why}"
        if wanted > 1:
            several = f"{len(missing)} of the {wanted} requests are not pending"
            then = f"the other {decided} are decided" if decided else "so none is decided"
            text = f"{several} (of the first: {why}), {then}"
        return NotPending(text, ids=missing, reason=reason, by=by)


def _stored(context: Hashable) -> Hashable:
    """Return what is stored of a context: an object of the host must not be kept alive by it."""
    return context if is_storable(context) else hash(context)


def _trim(found: dict[str, Any]) -> None:
    while len(found) > _MOST:
        found.pop(next(iter(found)), None)


class PendingChanges(Watch[Any]):
    """An iterator over the states of a queue: see ``ApprovalQueue.changes()``."""

    def __init__(self, look: Callable[[], Any], notifier: Notifier, seconds: float | None) -> None:
        """Set ``look``, which returns the pending requests, and ``notifier`` for changes."""
        super().__init__(notifier)
        self._look = look
        self._look_again_after = seconds
        self._last: Any = ()

    async def _begin(self) -> None:
        await checkpoint()

    async def _take(self) -> Any:
        waits = self._look_again_after is not None
        return self._new(await in_thread(self._look) if waits else self._look())

    def _take_in_thread(self) -> Any:
        return self._new(self._look())

    def _new(self, now: Any) -> Any:
        if self._closed or now == self._last:
            return None
        self._last = now
        return now


class ShownLogins:
    """A set of shown logins, for any number of threads.

    ``changed`` is called when a login is added or removed before it expires.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._logins: dict[object, DeviceLogin] = {}

    @property
    def now(self) -> tuple[DeviceLogin, ...]:
        """Return the logins that are still possible, the oldest first."""
        with self._lock:
            now = time.time()
            self._logins = {key: one for key, one in self._logins.items() if one.expires_at > now}
            return tuple(self._logins.values())

    def show(self, login: DeviceLogin) -> Callable[[], None]:
        """Show a login, and return a function that ends it. Raises ``ConfigError``."""
        from ..auth.steps import DeviceLogin  # only where there is one

        if not isinstance(login, DeviceLogin):
            raise ConfigError("ApprovalQueue.show_login: give it as OAuth(on_device=...)")
        if len(self.now) >= _MAX_LOGINS:
            raise ConfigError(f"{_MAX_LOGINS} logins are shown already: end one of them first")
        key = object()
        with self._lock:
            self._logins[key] = login
        self._changed()

        def end() -> None:
            with self._lock:
                self._logins.pop(key, None)
            self._changed()

        return end


class OneAtATime:
    """The approval hook that ``one_at_a_time`` returns."""

    def __init__(self, hook: ApprovalHook) -> None:
        self._hook = hook
        self._lock = CrossLoopLock()

    def __repr__(self) -> str:
        return f"one_at_a_time({self._hook!r})"

    async def __call__(self, call: ApprovalRequest) -> Answer:
        """Decide ``request`` when it is its turn."""
        async with self._lock.turn() as waited:
            answer: Any = await remembered_meanwhile(call) if waited else None
            if answer is None:
                answer = await invoke_hook(self._hook, call)
            result: Answer = answer
            return result


def one_at_a_time(hook: ApprovalHook) -> OneAtATime:
    """Return a hook that passes one call at a time to ``hook``, in order, for all sessions.

    Without it, calls made at the same time are decided at the same time. The wait for the turn
    counts towards ``Timeouts(approval=...)``. A call that an approval given in the meantime covers
    (``Allow(remember="session")``) is not passed on. Wrap a hook once and share the result: each
    wrapper has a queue of its own. Raises ``ConfigError`` for anything that is not a hook. For
    rules, wrap the hook they ask: ``Rules(..., ask=one_at_a_time(hook))``.
    """
    policy = policy_of(hook)
    if policy is not None and policy.ask is not hook:
        raise ConfigError(
            "one_at_a_time() takes a hook, not a policy: write Rules(..., ask=one_at_a_time(hook))"
        )
    if not callable(hook):
        raise ConfigError(
            f"one_at_a_time({hook!r}): give a function from ToolCall to Allow or Deny"
        )
    return OneAtATime(hook)
