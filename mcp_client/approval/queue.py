"""Calls that wait for a yes or no, for anyone to give: a web page, a chat, a ticket.

```python
queue = ApprovalQueue()
connect(server, approval=queue)                       # any number of sessions may share it

for pending in queue.pending_for("ana"):              # in another task, thread or event loop
    queue.decide(pending.id, Allow(remember="call"), by="ana")
```

The queue is an approval hook. Each call that it is asked about is pending until somebody decides
it, its caller goes, the session is closed, or ``Timeouts(approval=...)`` runs out; then it is gone.
A call is decided once: whoever comes second gets ``NotPending``, a ``LookupError``.

With ``Allow(remember="call")`` a yes also holds where the server was restarted while somebody
thought: the call goes out on the new connection if the definition of the tool and the arguments
are the same.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.lowlevel import checkpoint

from ..catalog.call_context import same_context
from ..catalog.tool import ToolCall
from ..errors import ConfigError, InvalidArguments, NotPending
from ..protocol.canonical_json import NotJson
from ..runtime.event_loop import LoopEvent, current, in_event_loop
from .decision import Allow, Answer, Deny, Remember

__all__ = ["ApprovalQueue", "DecidedApproval", "PendingApproval", "PendingChanges"]

_KEPT = 100
_KEPT_CHARS = 1_000_000
"""Of the arguments of decided calls, which are kept for people to look at."""


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that waits to be decided. Times are seconds since the beginning of 1970, UTC."""

    id: str
    """Random, and used for no other call; ``call.id`` is the one in the audit."""
    call: ToolCall
    asked_at: float
    expires_at: float | None
    """When it will be refused if nobody decides; None where nothing limits that."""


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """A call that was decided lately. Whether it was then sent and ran is in the audit."""

    id: str
    call: ToolCall
    asked_at: float
    decided_at: float
    answer: Answer
    """With ``answer.by``, who decided."""


class _Question:
    """A pending call, and how to tell the task that waits for the answer."""

    __slots__ = ("_answered", "_run_soon", "answer", "pending")

    def __init__(self, call: ToolCall) -> None:
        backend = current()
        self._run_soon = backend.run_soon
        self._answered = LoopEvent()
        self.answer: Answer | None = None
        now, left = time.time(), anyio.current_effective_deadline() - backend.now()
        expires_at = now + left if left < float("inf") else None
        self.pending = PendingApproval(secrets.token_urlsafe(16), call, now, expires_at)

    def wake(self) -> None:
        self._run_soon(self._answered.set)

    async def wait(self) -> Answer:
        await self._answered.wait()
        assert self.answer is not None
        return self.answer


class ApprovalQueue:
    """Give it to ``connect(approval=...)``; every other method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._questions: dict[str, _Question] = {}
        self._pending: tuple[PendingApproval, ...] | None = ()
        self._decided: deque[DecidedApproval] = deque()
        self._decided_chars = 0
        self._watchers: set[Callable[[], object]] = set()

    def __repr__(self) -> str:
        return f"<ApprovalQueue, {len(self._questions)} pending>"

    async def __call__(self, call: ToolCall) -> Answer:
        """Wait until ``call`` is decided. This is what a session calls."""
        question = _Question(call)
        id = question.pending.id
        with self._lock:
            self._questions[id] = question
            watchers = self._changed()
        _call_all(watchers)
        try:
            return await question.wait()
        finally:
            with self._lock:
                watchers = self._changed() if self._questions.pop(id, None) else ()
            _call_all(watchers)

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """What waits to be decided, the oldest first."""
        with self._lock:
            return self._all_pending()

    def pending_for(self, context: Hashable) -> tuple[PendingApproval, ...]:
        """What waits to be decided of the calls with this ``call_tool(context=...)``."""
        return tuple(one for one in self.pending if same_context(one.call.context, context))

    @property
    def decided(self) -> tuple[DecidedApproval, ...]:
        """What was decided lately, the newest last: a hundred calls, or fewer that are large."""
        with self._lock:
            return tuple(self._decided)

    def decide(self, ids: str | Iterable[str], answer: Answer, *, by: str | None = None) -> None:
        """Give ``answer`` to one pending call, or to several at once.

        ``by`` is the name of who decides, for the record (``decision.by``). Raises ``NotPending``,
        a ``LookupError``, where one of them is not pending (any more): then none is decided.
        Raises ``ConfigError`` for an answer that could not be used, and ``InvalidArguments`` for
        edited arguments that are not JSON; the call remains pending.
        """
        wanted = _ids(ids)
        answer = _signed(answer, by)
        if isinstance(answer, Allow) and answer.arguments is not None and len(wanted) > 1:
            raise ConfigError("decide(): an answer with arguments is for one call, not for several")
        now = time.time()
        with self._lock:
            missing = tuple(id for id in wanted if id not in self._questions)
            if missing:
                raise _not_pending(missing, len(wanted))
            given = [(self._questions[id], _frozen(answer, self._questions[id])) for id in wanted]
            for question, own in given:
                question.answer = own
                del self._questions[question.pending.id]
                self._remember(question.pending, own, now)
            watchers = self._changed() if given else ()
        for question, _ in given:
            question.wake()
        _call_all(watchers)

    def changes(self) -> PendingChanges:
        """``pending``, each time it is another: see ``PendingChanges``."""
        return PendingChanges(self)

    # ------------------------------------------------------------------ under the lock

    def _all_pending(self) -> tuple[PendingApproval, ...]:
        if self._pending is None:
            self._pending = tuple(question.pending for question in self._questions.values())
        return self._pending

    def _changed(self) -> Iterable[Callable[[], object]]:
        """Whom to tell, once the lock is released."""
        self._pending = None
        watchers, self._watchers = self._watchers, set()
        return watchers

    def _remember(self, pending: PendingApproval, answer: Answer, now: float) -> None:
        kept = self._decided
        kept.append(DecidedApproval(pending.id, pending.call, pending.asked_at, now, answer))
        self._decided_chars += len(pending.call.arguments_json)
        while len(kept) > _KEPT or (self._decided_chars > _KEPT_CHARS and len(kept) > 1):
            self._decided_chars -= len(kept.popleft().call.arguments_json)


class PendingChanges:
    """What is pending, each time it is another than this iterator gave last.

    The first is what is pending now, as soon as that is something. For ``async for`` in any event
    loop, and for ``for`` in a thread. A reader that is slow misses what lies between, never the
    last state. It holds nothing that has to be released; ``close`` ends it, from any task or
    thread, as ``with`` and ``async with`` do.
    """

    def __init__(self, queue: ApprovalQueue) -> None:
        self._queue = queue
        self._last: tuple[PendingApproval, ...] = ()
        self._closed = False
        self._wakes: set[Callable[[], object]] = set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[PendingApproval, ...]:
        await checkpoint()
        backend = current()
        while True:
            event = LoopEvent()
            wake = _soon(backend.run_soon, event)
            found = self._look(wake)
            if found is not None:
                return found
            if self._closed:
                raise StopAsyncIteration
            try:
                await event.wait()
            finally:
                self._forget(wake)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[PendingApproval, ...]:
        while True:
            event = threading.Event()
            found = self._look(event.set)
            if found is not None:
                return found
            try:
                if self._closed:
                    raise StopIteration
                if in_event_loop():
                    raise ConfigError("'for' would block this event loop: use 'async for'")
                event.wait()
            finally:
                self._forget(event.set)

    def close(self) -> None:
        """Whoever waits for the next state gets the end of the iteration, as every later ``next``
        does."""
        with self._queue._lock:
            self._closed = True
            wakes = tuple(self._wakes)
        _call_all(wakes)

    async def aclose(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _look(self, wake: Callable[[], object]) -> tuple[PendingApproval, ...] | None:
        """The next state; if there is none yet, ``wake`` is called when there may be one."""
        queue = self._queue
        with queue._lock:
            now = queue._all_pending()
            if self._closed:
                return None
            if now != self._last:
                self._last = now
                return now
            self._wakes.add(wake)
            queue._watchers.add(wake)
            return None

    def _forget(self, wake: Callable[[], object]) -> None:
        with self._queue._lock:
            self._wakes.discard(wake)
            self._queue._watchers.discard(wake)


def _soon(run_soon: Callable[[Callable[[], None]], None], event: LoopEvent) -> Callable[[], object]:
    return lambda: run_soon(event.set)


def _call_all(watchers: Iterable[Callable[[], object]]) -> None:
    for watcher in watchers:
        watcher()


def _ids(ids: Any) -> tuple[str, ...]:
    try:
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
    except TypeError:
        wanted = (ids,)
    if not all(isinstance(id, str) for id in wanted):
        raise ConfigError("decide(): give the id of a pending call, or several: PendingApproval.id")
    return wanted


def _signed(answer: Any, by: Any) -> Answer:
    """``answer`` as it can be used, by the person ``by``. Raises ``ConfigError``."""
    if type(answer) not in (Allow, Deny):
        raise ConfigError(f"decide(): {type(answer).__name__} is neither Allow(...) nor Deny(...)")
    if by is not None and (not isinstance(by, str) or not by):
        raise ConfigError(f"decide(by={by!r}): give the name of who decides")
    if type(answer) is Allow:
        answer = replace(answer, remember=Remember.of(answer.remember))
    if by is None:
        signed: Answer = answer
    else:
        source = "person" if answer.source == "hook" else answer.source
        signed = replace(answer, by=by, source=source)
    return signed


def _frozen(answer: Answer, question: _Question) -> Answer:
    """``answer`` with a copy of its arguments, which the decider may change afterwards."""
    if type(answer) is not Allow or answer.arguments is None:
        return answer
    try:
        edited = question.pending.call.with_arguments(answer.arguments)
        return replace(answer, arguments=edited.arguments)
    except NotJson as error:
        raise InvalidArguments(
            f"decide(): the edited arguments are not JSON: {error}", path=error.path
        ) from None


def _not_pending(missing: tuple[str, ...], wanted: int) -> NotPending:
    what = "is not pending: it was decided, or its caller has gone"
    if wanted == 1:
        return NotPending(f"the call {what}", ids=missing)
    several = f"{len(missing)} of the {wanted} calls are not pending"
    return NotPending(f"{several}, so none is decided", ids=missing)
