"""A queue of calls that wait for a decision from anywhere: a web page, a chat, a ticket.

```python
queue = ApprovalQueue()
connect(server, approval=queue)                       # any number of sessions may share it

for pending in queue.pending_for("ana"):              # in another task, thread or event loop
    queue.decide(pending.id, Allow(remember="call"), by="ana")
```

The queue is an approval hook. Each call is pending until it is decided, its caller is gone, session
or queue are closed, or ``Timeouts(approval=...)`` expires. A call is decided once: a second
decision raises ``NotPending``, a ``LookupError``. The same applies to skills, starts of servers
(``confirm=queue``) and uses of the host's model (``sampling_approval=queue``).

An approval remains valid if the server was restarted in the meantime. The call is sent on the new
connection if the definition of the tool and the arguments are the same.

If a call cannot stay open for so long, or its process may end, give the queue a store:

```python
queue = ApprovalQueue(decisions="decisions.json", wait=0)
try:
    result = await session.call_tool("deploy", {"to": "production"}, context="ana")
except CallPending as error:
    tell(error.ticket)                # and later, anywhere: queue.decide(ticket, Allow(), by="bo")
```

The same request (the same ``ApprovalRequest.key``) is sent once after its ticket was granted, from
any process that has the store. ``wait`` is the number of seconds a call waits before
``CallPending``; by default it is ``Timeouts(approval=...)``. The ticket of a call that raised
``CallPending`` exists for ``keep`` seconds; that of a waiting caller ends with the wait. A grant is
used up when the call passes the queue, even if the call then fails.

``Toolset.run`` raises one ``CallPending`` for all waiting calls of a model's response. The results
of the others are never in the exception. They are stored in the ``state`` of the session or host,
or beside this queue's decisions: for a file, in a second file with the suffix ``.paused``. Do not
run the response again: ``kit.resume(session, error.paused)`` continues it, in any such process.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import finalize

import anyio

from ..catalog.call_values import same_context
from ..connection.call_options import CancelToken
from ..errors import CallPending, ConfigError, McpError, NotPending, StateError
from ..runtime.callbacks import in_thread
from ..runtime.event_loop import LoopEvent, current
from ..runtime.limits import Limits
from ..runtime.option_names import with_option_names
from ..runtime.watch import Notifier, Watch
from .decision import Allow, Answer, Deny
from .queue_parts import (
    ANY,
    EndedRequests,
    PendingChanges,
    ShownLogins,
    check_edited,
    ids_of,
    signed,
)
from .request import ApprovalRequest
from .tickets import Ticket, caller, new_ticket_id

if TYPE_CHECKING:
    from ..auth.steps import DeviceLogin
    from ..runtime.storage import Storage
    from .decisions import Decisions
    from .tickets import Tickets

__all__ = ["ApprovalQueue", "DecidedApproval", "PendingApproval"]

_MAX_DECIDED = 100
_MAX_DECIDED_CHARS = 1_000_000
"""The limit on stored arguments of decided calls, in characters."""
_POLL_SECONDS = 1.0
"""Seconds after which a store is looked at again: other processes may change it."""
_OUTAGE_SECONDS = 30.0
"""How long a database may be away from a call that waits for a decision in it."""
_SLOW_LOOK_SECONDS = 5.0
"""The same for a store that reports changes: a notification may be lost."""
_KEEP_SECONDS = 7 * 86_400.0
_CLEANUP_SECONDS = 5.0
_WITHDRAWN = Deny("the request was withdrawn without a decision", source="gate")


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A request that waits for a decision. Times are seconds since the beginning of 1970, UTC."""

    id: str
    """A random id, used for no other call; ``request.id`` is the one in the audit."""
    request: ApprovalRequest
    """The request to decide."""
    asked_at: float
    """The time of the request."""
    expires_at: float | None
    """The time at which an undecided request is refused; None without a limit."""


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """A recently decided request. The audit records whether a call was then sent and ran."""

    id: str
    request: ApprovalRequest
    asked_at: float
    decided_at: float
    answer: Answer
    """The decision; ``answer.by`` is the person."""


class _Waiting:
    """A pending call, and the way to notify the task that waits for the decision."""

    __slots__ = ("_answered", "_deadline", "_now", "_run_soon", "answer", "pending")

    def __init__(self, call: ApprovalRequest) -> None:
        backend = current()
        self._run_soon = backend.run_soon
        self._answered = LoopEvent()
        self.answer: Answer | None = None
        now, left = time.time(), anyio.current_effective_deadline() - backend.now()
        expires_at = now + left if left < inf else None
        self._now, self._deadline = backend.now, backend.now() + left
        self.pending = PendingApproval(new_ticket_id(), call, now, expires_at)

    @property
    def is_expired(self) -> bool:
        return self._now() >= self._deadline

    def wake(self) -> None:
        self._run_soon(self._answered.set)

    async def wait(self) -> Answer:
        await self._answered.wait()
        assert self.answer is not None
        return self.answer


@with_option_names()
class ApprovalQueue:
    """An approval hook for ``connect(approval=...)``, decided from anywhere.

    Other methods may be called from any thread. With a store, ``pending``, ``decide``, ``withdraw``
    and ``for`` over ``changes`` use it, so call them in a thread from an event loop.
    """

    def __init__(
        self,
        *,
        decisions: Decisions | str | os.PathLike[str] | None = None,
        wait: float | None = None,
        keep: float = _KEEP_SECONDS,
        limits: Limits | None = None,
    ) -> None:
        """Create a queue. Raises ``ConfigError`` for a wrong option.

        Args:
            decisions: A path or ``Decisions``, such as ``FileState(...).decisions``, to share.
            wait: Seconds a call waits before it raises ``CallPending``; needs ``decisions``.
            keep: Seconds for which the ticket of such a call exists.
            limits: Limits, of which only ``pending`` is used.
        """
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigError(f"ApprovalQueue(limits={limits!r}): give Limits(pending=...)")
        self._most = (limits or Limits()).pending
        store = None
        if decisions is not None:
            from .decisions import Decisions

            store = Decisions.of(decisions)
        self._store = None if store is None else store.tickets
        self._paused = None if store is None else store.paused
        self._store_text = f"{decisions}" if store is None else repr(store)
        if wait is not None and (type(wait) not in (int, float) or not wait >= 0):
            raise ConfigError(f"ApprovalQueue(wait={wait!r}): give seconds, 0 or more")
        if type(keep) not in (int, float) or not 0 < keep < inf:
            raise ConfigError(f"ApprovalQueue(keep={keep!r}): give seconds above 0")
        if wait is not None and self._store is None:
            raise ConfigError(
                "ApprovalQueue(wait=...) needs decisions=, the store of calls without a waiting "
                "caller: give the path of a file, or Decisions(...)"
            )
        self._wait = inf if wait is None else wait
        self._keep = keep
        self._notifier = Notifier()
        self._hears = False
        self._logins = ShownLogins(self._notifier.notify)
        self._closing = CancelToken()
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._pending: tuple[PendingApproval, ...] | None = ()
        self._decided: deque[DecidedApproval] = deque()
        self._decided_chars = 0
        self._ended = EndedRequests()

    def __repr__(self) -> str:
        where = f"{len(self._waiting)} pending" if self._store is None else self._store_text
        return f"<ApprovalQueue, {where}>"

    async def __call__(self, request: ApprovalRequest) -> Answer:
        """Wait until ``request`` is decided. This is what a gate calls."""
        if not self._closing.cancelled:
            with anyio.CancelScope() as scope:
                forget = self._closing._watch(scope, current())
                try:
                    store = self._store
                    return await (self._ask_store(store, request) if store else self._ask(request))
                finally:
                    forget()
        return Deny(str(self._closing.reason), source="gate")

    async def _ask(self, request: ApprovalRequest) -> Answer:
        asked = _Waiting(request)
        id = asked.pending.id
        with self._lock:
            if len(self._waiting) >= self._most:
                return self._full()
            self._waiting[id] = asked
            self._pending = None
        self._notifier.notify()
        try:
            return await asked.wait()
        finally:
            with self._lock:
                was_pending = self._waiting.pop(id, None) is not None
                self._pending = None
            if was_pending:
                self._ended.note(asked.pending, "expired" if asked.is_expired else "gone")
                self._notifier.notify()

    def _full(self) -> Deny:
        return Deny(f"{self._most:,} calls that wait already must be decided first", "gate")

    @property
    def waits(self) -> bool:
        """Whether ``pending`` and ``decide`` read and write a store."""
        return self._store is not None

    @property
    def paused(self) -> Storage | None:
        """The store for model responses whose calls wait, for a session without a state."""
        return self._paused

    def secret(self, name: str) -> bytes | None:
        """Return a secret for all processes that share the decisions, else None."""
        return None if self._store is None else self._store.secret(name)

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """Return the requests that wait for a decision, the oldest first."""
        if self._store is not None:
            found = tuple(map(_pending_of, self._store.pending()))
            self._ended.saw(found)
            return found
        with self._lock:
            if self._pending is None:
                self._pending = tuple(one.pending for one in self._waiting.values())
            return self._pending

    def pending_for(self, context: Hashable) -> tuple[PendingApproval, ...]:
        """Return the waiting requests of calls with this ``call_tool(context=...)``."""
        return tuple(one for one in self.pending if same_context(one.request.context, context))

    @property
    def decided(self) -> tuple[DecidedApproval, ...]:
        """Return the last requests that this object decided, at most a hundred, the newest last."""
        with self._lock:
            return tuple(self._decided)

    @property
    def logins(self) -> tuple[DeviceLogin, ...]:
        """Return the logins on another device that this process asks for, the oldest first."""
        return self._logins.now

    async def show_login(self, login: DeviceLogin) -> Callable[[], None]:
        """Show a login until it ends or its code expires: ``OAuth(on_device=queue.show_login)``.

        It is in ``logins`` and on the page. Returns a function that ends it. The host acts with the
        account of the person who logs in: see ``ApprovalPage(visible=...)``. Raises ``ConfigError``
        if too many are shown.
        """
        return self._logins.show(login)

    def decide(
        self,
        ids: str | Iterable[str],
        answer: Answer,
        *,
        by: str | None = None,
        context: Hashable = ANY,
    ) -> None:
        """Decide one pending call, or several at once.

        Args:
            ids: The id of a pending call, or several.
            answer: ``Allow(...)`` or ``Deny(...)``.
            by: The name of the person who decides, for the record (``decision.by``): at most 200
                characters.
            context: If set, only calls with this ``call_tool(context=...)`` are pending. Set it if
                a user may decide only the calls on their behalf.

        Raises:
            NotPending: One of them is not pending; then none is decided. Also a ``LookupError``.
            ConfigError: The decision cannot be used; the call remains pending.
            InvalidArguments: The edited arguments are not JSON; the call remains pending.
        """
        wanted = ids_of(ids)
        answer = signed(answer, by)
        if isinstance(answer, Allow) and answer.arguments is not None:
            check_edited(wanted, self.pending)
        if not wanted:
            return
        if context is not ANY:
            own_ids = {one.id for one in self.pending_for(context)}
            if missing := tuple(id for id in wanted if id not in own_ids):
                raise self._gone(missing, len(wanted), context)
        if self._store is None:
            self._apply(wanted, answer)
        else:
            tickets = self._store.decide(wanted, answer, self._ended)
            with self._lock:
                for ticket in tickets:
                    self._remember(_pending_of(ticket), answer)
        self._notifier.notify()

    def withdraw(self, id: str) -> None:
        """End a request undecided; its caller gets ``CallDenied``. May raise ``NotPending``."""
        (wanted,) = ids_of(id)
        if self._store is None:
            self._apply((wanted,), _WITHDRAWN, is_decision=False)
        else:
            found = [one for one in self._store.pending() if one.id == wanted]
            if not found or not self._store.withdraw(wanted):
                raise self._gone((wanted,), 1)
            self._ended.note(found[0], "withdrawn")
        self._notifier.notify()

    def _gone(self, ids: tuple[str, ...], wanted: int, context: Hashable = ANY) -> NotPending:
        if self._store is None:
            return self._ended.error(ids, wanted, context)
        return self._store.not_pending(ids, wanted, self._ended, context=context)

    def close(self, reason: str = "the approval queue was closed") -> None:
        """Deny the requests that wait in this process, and every later one, for ``reason``.

        Call it when the program stops, from a task, a thread or a signal handler. Tickets without a
        waiting caller stay in the store. Raises ``ConfigError`` if ``reason`` is empty or not a
        str.
        """
        if not isinstance(reason, str) or not reason:
            raise ConfigError(f"ApprovalQueue.close({reason!r}): give the reason as a text")
        self._closing.cancel(reason)

    def changes(self, *, context: Hashable = ANY) -> Watch[tuple[PendingApproval, ...]]:
        """Iterate over ``pending``, yielding it whenever it changes; first as soon as a call waits.

        With a ``context``, iterate over ``pending_for(context)``. Use ``async for`` in any event
        loop, or ``for`` in a thread; ``close`` ends it. A slow reader misses states in between,
        never the last one.
        """
        look = lambda: self.pending if context is ANY else self.pending_for(context)  # noqa: E731
        return PendingChanges(look, self._notifier, self._listen())

    def _page_changes(self) -> Watch[Any]:
        """Return ``changes``, including those of ``logins``."""
        look = lambda: (self.pending, self.logins)  # noqa: E731
        return PendingChanges(look, self._notifier, self._listen())

    def _listen(self) -> float | None:
        """Watch for changes of other processes, and return the seconds until the next look."""
        store = self._store
        if store is None:
            return None
        with self._lock:
            if not self._hears and store.reports_changes:
                self._hears = True
                finalize(self, store.watch(self._notifier.notify))
        return _SLOW_LOOK_SECONDS if self._hears else _POLL_SECONDS

    def _apply(self, wanted: tuple[str, ...], answer: Answer, *, is_decision: bool = True) -> None:
        with self._lock:
            missing = tuple(id for id in wanted if id not in self._waiting)
            if missing:
                raise self._gone(missing, len(wanted))
            waiting = [self._waiting.pop(id) for id in wanted]
            self._pending = None
            for one in waiting:
                one.answer = answer
                if is_decision:
                    self._remember(one.pending, answer)
                else:
                    self._ended.note(one.pending, "withdrawn")
        for one in waiting:
            one.wake()

    def _remember(self, pending: PendingApproval, answer: Answer) -> None:
        self._ended.note(pending, "decided", answer.by)
        decided = self._decided
        decided.append(
            DecidedApproval(pending.id, pending.request, pending.asked_at, time.time(), answer)
        )
        self._decided_chars += pending.request._weight
        while len(decided) > _MAX_DECIDED or (
            self._decided_chars > _MAX_DECIDED_CHARS and len(decided) > 1
        ):
            self._decided_chars -= decided.popleft().request._weight

    # ----------------------------------------------------------------- with a store

    async def _ask_store(self, tickets: Tickets, request: ApprovalRequest) -> Answer:
        mark = new_ticket_id()
        try:
            return await self._wait_for_ticket(tickets, request, mark)
        except CallPending:
            raise
        except BaseException:
            # No one waits for it: an approval must not cover the next caller of the same request.
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True), suppress(McpError):
                await in_thread(tickets.leave, request, mark)
            raise
        finally:
            self._notifier.notify()

    async def _wait_for_ticket(
        self, tickets: Tickets, request: ApprovalRequest, mark: str
    ) -> Answer:
        clock, pause = current().now, self._listen() or _POLL_SECONDS
        left, until = anyio.current_effective_deadline() - clock(), clock() + self._wait
        found: Ticket | None = None
        is_claimed = False
        while True:
            noted = self._notifier.count
            if is_claimed:
                found = await self._looked(tickets, request)
                if found is None or mark not in found.callers:
                    return _WITHDRAWN
            else:
                ticket = self._ticket(request, mark, left)
                self._ended.saw((ticket,))
                found, is_claimed = await in_thread(tickets.claim, ticket, self._most), True
                if found is None:
                    return self._full()
                if found.id == ticket.id:
                    self._notifier.notify()  # it wakes this one, too
            if found.answer is not None:
                answer = await in_thread(tickets.use, found, mark)
                if answer is not None and found.holds_for(request):
                    return answer
                # Another caller used it, or it is for the same request with fewer findings.
                is_claimed = False
                continue
            if clock() >= until:
                await in_thread(tickets.leave, request, mark, time.time() + self._keep)
                raise CallPending(
                    f"the call waits for approval, ticket {found.id}: repeat the same call once "
                    "it was allowed",
                    ticket=found.id,
                    retryable=True,
                )
            await self._notifier.wait(max(0.0, min(pause, until - clock())), noted=noted)

    async def _looked(self, tickets: Tickets, request: ApprovalRequest) -> Ticket | None:
        """The ticket of a call that waits. A database that is lost for a moment ends no wait."""
        until = current().now() + _OUTAGE_SECONDS
        while True:
            try:
                return await in_thread(tickets.look, request)
            except StateError:
                if current().now() >= until:
                    raise
            await anyio.sleep(_POLL_SECONDS)

    def _ticket(self, request: ApprovalRequest, mark: str, left: float) -> Ticket:
        """Return a ticket; ``left`` is the maximum number of seconds its caller waits."""
        now = time.time()
        if self._wait == 0:
            return Ticket(new_ticket_id(), request, now, now + self._keep, is_kept=True)
        is_left_behind = self._wait <= left
        waits = min(self._wait, left, self._keep)
        expires_at = now + (self._keep if is_left_behind else waits)
        callers = {mark: caller(now + waits + _CLEANUP_SECONDS)}
        return Ticket(new_ticket_id(), request, now, expires_at, callers=callers)


def _pending_of(ticket: Ticket) -> PendingApproval:
    return PendingApproval(ticket.id, ticket.request, ticket.asked_at, ticket.expires_at)
