"""Tickets: requests that wait for a decision longer than their caller or its process.

A serverless agent cannot keep a call open during a person's decision. With
``ApprovalQueue(decisions=..., wait=0)`` the call raises ``CallPending`` with the id of a ticket.
``ApprovalQueue.decide`` decides the ticket in any process that has the store. The same request
(with the same ``ApprovalRequest.key``) is then sent or refused, once. After that the ticket is
deleted.

A caller that waits has a ticket, too, so that any process can decide it. That ticket is deleted as
soon as no one waits for it: the caller was cancelled, ran out of time, or its process has ended.
Only a request that raised ``CallPending`` leaves a ticket behind.

A ticket contains the arguments of calls, so that people can see them. A file of tickets is readable
by its owner only, like every file of decisions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, fields, replace
from functools import partial
from typing import Any

from ..errors import ConfigError, NotPending
from ..processes.process_id import is_alive, process_id
from ..protocol.canonical_json import plain
from ..runtime.callbacks import in_thread
from ..runtime.frozen import frozen_dataclass
from ..runtime.storage import Object, Storage
from .decision import Allow, Answer, Deny, Remember
from .queue_parts import ANY, EndedRequests
from .request import ApprovalRequest, as_json, is_known, optional_text, text

__all__ = ["Ticket", "Tickets", "caller", "new_ticket_id"]

_ROWS = "tickets"
_SWEEP_SECONDS = 60.0


@frozen_dataclass
class Ticket:
    """A pending request, and its decision once there is one.

    Times are seconds since the beginning of 1970, UTC.
    """

    id: str
    request: ApprovalRequest
    asked_at: float
    expires_at: float
    """The end of the ticket, decided or not."""
    answer: Answer | None = None
    decided_at: float | None = None
    callers: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The waiting callers: a mark of each, its process, and the time until which it waits."""
    is_kept: bool = False
    """Whether the ticket exists until ``expires_at``, even if no one waits."""

    @property
    def holds(self) -> bool:
        """Whether the ticket can still be decided, or its decision used."""
        now = time.time()
        return now < self.expires_at and (self.is_kept or bool(self.waiting(now)))

    def waiting(self, now: float) -> dict[str, tuple[str, float]]:
        """The callers that still wait, as far as known."""
        return {
            mark: (process, until)
            for mark, (process, until) in self.callers.items()
            if now < until and is_alive(process)
        }

    def holds_for(self, request: ApprovalRequest) -> bool:
        """Return whether the decision covers ``request``, which has the same key."""
        return (
            self.request.kind == request.kind
            and self.request.trusted is request.trusted
            and all(is_known(one, self.request.findings) for one in request.findings)
        )

    def to_json(self) -> Object:
        """Return the ticket as a dict. Raises ``ConfigError`` for an unstorable context."""
        return {
            "id": self.id,
            "request": self.request.to_json(),
            "asked_at": self.asked_at,
            "expires_at": self.expires_at,
            "answer": None if self.answer is None else _decision_to_json(self.answer),
            "decided_at": self.decided_at,
            "callers": {mark: list(caller) for mark, caller in self.callers.items()},
            "is_kept": self.is_kept,
        }

    @classmethod
    def from_json(cls, value: Any) -> Ticket:
        """Parse the result of ``to_json``. Raises ``ValueError`` for anything else."""
        try:
            decision, decided_at = value["answer"], value["decided_at"]
            return cls(
                id=text(value["id"]),
                request=ApprovalRequest.from_json(value["request"]),
                asked_at=float(value["asked_at"]),
                expires_at=float(value["expires_at"]),
                answer=None if decision is None else _decision_from_json(decision),
                decided_at=None if decided_at is None else float(decided_at),
                callers={
                    mark: (text(process), float(until))
                    for mark, (process, until) in value["callers"].items()
                },
                is_kept=value["is_kept"] is True,
            )
        except (LookupError, TypeError, AttributeError, ConfigError) as error:
            raise ValueError(f"an entry is not a ticket ({type(error).__name__})") from None


class Tickets:
    """The tickets of a state, by the key of their requests.

    Each method is atomic across processes. A ticket that is no longer valid counts as deleted.
    """

    def __init__(self, state: Storage) -> None:
        self._state = state
        self._last: tuple[Any, tuple[Ticket, ...]] | None = None
        self._sweep_at = 0.0
        self._known: dict[str, tuple[Object, Ticket]] = {}
        """By key, the rows that were read last, with their tickets."""
        self._lock = threading.Lock()

    @property
    def reports_changes(self) -> bool:
        """Whether ``watch`` reports changes, including those of other processes."""
        return self._state.reports_changes

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify`` after changes: see ``Storage.watch``."""
        return self._state.watch(_ROWS, notify)

    def secret(self, name: str) -> bytes | None:
        """Return a secret of the state; None if the state belongs to this process alone."""
        return self._state.secret(name) if self._state.waits else None

    def claim(self, ticket: Ticket, most: int) -> Ticket | None:
        """Add the callers of ``ticket`` to the ticket of the same request, and return that one.

        Returns ``ticket`` itself if there was none, or None if ``most`` others wait already.
        """
        ticket.to_json()  # it raises if that cannot be stored
        if self._is_full(ticket, most):
            return None

        def put(old: Ticket | None) -> Ticket:
            if old is None:
                return ticket
            if not ticket.callers and (old.is_kept or not ticket.is_kept):
                return old
            callers = {**old.waiting(time.time()), **ticket.callers}
            until = old.expires_at if old.is_kept else max(old.expires_at, ticket.expires_at)
            is_kept = old.is_kept or ticket.is_kept
            return replace(old, callers=callers, is_kept=is_kept, expires_at=until)

        return self._change(ticket.request.key, put)

    def look(self, request: ApprovalRequest) -> Ticket | None:
        """Return the ticket of this request."""
        row = self._state.get(_ROWS, request.key)
        found = None if row is None else self._parsed(row)
        return found if found is not None and found.holds else None

    def use(self, ticket: Ticket, mark: str) -> Answer | None:
        """Use up the decision of ``ticket``, which counts once; return None if it is gone.

        Others who wait for the same request need another decision.
        """
        used: Answer | None = None

        def take(old: Ticket | None) -> Ticket | None:
            nonlocal used
            used = None
            if old is None or old.id != ticket.id or old.answer is None:
                return old
            used, now = old.answer, time.time()
            left = {each: one for each, one in old.waiting(now).items() if each != mark}
            if not left:
                return None
            until = max(until for _, until in left.values())
            again = replace(old, id=new_ticket_id(), asked_at=now, expires_at=until, callers=left)
            return replace(again, answer=None, decided_at=None, is_kept=False)

        self._change(ticket.request.key, take)
        if type(used) is Allow and used.arguments is not None:
            return replace(used, _give_back=partial(in_thread, self._give_back, ticket))
        return used

    def _give_back(self, ticket: Ticket) -> None:
        """Restore the decision of ``ticket``, unless the request was repeated."""
        again = replace(ticket, callers={}, is_kept=True)
        self._change(ticket.request.key, lambda old: old or again)

    def leave(self, request: ApprovalRequest, mark: str, keep_until: float | None = None) -> None:
        """Note that a caller stopped waiting.

        Args:
            request: The request that waited.
            mark: The mark of the caller.
            keep_until: The time until which its ticket exists; None if it ends now.
        """

        def leave(old: Ticket | None) -> Ticket | None:
            if old is None:
                return None
            callers = {each: one for each, one in old.callers.items() if each != mark}
            left = replace(old, callers=callers)
            if keep_until is not None and not old.is_kept:
                left = replace(left, is_kept=True, expires_at=max(left.expires_at, keep_until))
            return left if left.holds else None

        self._change(request.key, leave)

    def decide(
        self, ids: Sequence[str], answer: Answer, ended: EndedRequests | None = None
    ) -> tuple[Ticket, ...]:
        """Decide these tickets.

        Args:
            ids: The ids of the tickets.
            answer: The decision.
            ended: The ends of requests that are known in this process.

        Returns:
            The decided tickets.

        Raises:
            NotPending: One of them does not exist or was decided; then none is decided.
        """
        ended = EndedRequests() if ended is None else ended
        waiting = {one.id: one for one in self.pending()}
        missing = tuple(id for id in ids if id not in waiting)
        if missing:
            raise self.not_pending(missing, len(ids), ended)

        lost = tuple(id for id in ids if not self._decide(waiting[id], answer))
        if lost:  # others decided these, or their callers went, in this very moment
            raise self.not_pending(lost, len(ids), ended, decided=len(ids) - len(lost))
        return tuple(waiting[id] for id in ids)

    def not_pending(
        self,
        missing: tuple[str, ...],
        wanted: int,
        ended: EndedRequests,
        *,
        context: Hashable = ANY,
        decided: int = 0,
    ) -> NotPending:
        """Return the error for tickets that are not pending; any process may have decided them.

        Args:
            missing: The ids that are not pending.
            wanted: The number of tickets to decide.
            ended: The ends of requests that are known in this process.
            context: The context of the caller: the ends of other tickets are not reported.
            decided: The number of tickets that were decided.
        """
        for one in self.decided():
            ended.note(one, "decided", None if one.answer is None else one.answer.by)
        return ended.error(missing, wanted, context, decided)

    def _decide(self, ticket: Ticket, answer: Answer) -> bool:
        done = False

        def decide(old: Ticket | None) -> Ticket | None:
            nonlocal done
            done = old is not None and old.id == ticket.id and old.answer is None
            return replace(old, answer=answer, decided_at=time.time()) if old and done else old

        self._change(ticket.request.key, decide)
        return done

    def withdraw(self, id: str) -> bool:
        """Delete a ticket, decided or not, and return whether it existed."""
        removed = False

        def remove(old: Ticket | None) -> Ticket | None:
            nonlocal removed
            removed = old is not None and old.id == id
            return None if removed else old

        for one in self._all():
            if one.id == id:
                self._change(one.request.key, remove)
        return removed

    def pending(self) -> tuple[Ticket, ...]:
        """Return the tickets that are not decided, the oldest first."""
        return tuple(one for one in self._all() if one.answer is None)

    def decided(self) -> tuple[Ticket, ...]:
        """Return the decided tickets whose requests have not been repeated yet."""
        return tuple(one for one in self._all() if one.answer is not None)

    # ------------------------------------------------------------------ the state

    def _all(self) -> tuple[Ticket, ...]:
        """Return the valid tickets, the oldest first."""
        with self._lock:  # many may wait, and one of them reads for all
            last, stamp = self._last, self._state.stamp(_ROWS)
            if last is None or stamp is None or last[0] != stamp:
                known = self._known
                self._known = {
                    key: known[key] if key in known and known[key][0] == row else self._pair(row)
                    for key, row in self._state.list(_ROWS).items()
                }
                found = [one for _, one in self._known.values()]
                found.sort(key=lambda one: one.asked_at)
                last = self._last = stamp, tuple(found)
        return tuple(one for one in last[1] if one.holds)

    def _is_full(self, ticket: Ticket, most: int) -> bool:
        """Whether ``most`` others wait. What does not hold any more is removed on the way."""
        if self._state.is_remote:  # without reading what is there
            if time.monotonic() >= self._sweep_at:
                self._sweep_at = time.monotonic() + _SWEEP_SECONDS
                self._state.sweep(_ROWS, self._state.now())
            if self._state.count(_ROWS) < most:
                return False
        holding = {one.request.key: one for one in self._all()}
        for key in {one.request.key for _, one in self._known.values()} - holding.keys():
            self._change(key, lambda old: old)
        others = holding.keys() - {ticket.request.key}
        return sum(holding[key].answer is None for key in others) >= most

    def _change(
        self, key: str, function: Callable[[Ticket | None], Ticket | None]
    ) -> Ticket | None:
        """Put what ``function`` makes of the ticket that holds in its place, and return it."""
        made: Ticket | None = None

        def change(found: Object | None) -> Object | None:
            nonlocal made
            ticket = None if found is None else self._parsed(found)
            old = ticket if ticket is not None and ticket.holds else None
            made = function(old)
            if made is None or made is old:
                return None if made is None else found
            return {**made.to_json(), "due": made.expires_at}

        self._state.change(_ROWS, key, change)
        return made

    def _pair(self, row: Object) -> tuple[Object, Ticket]:
        return row, self._parsed(row)

    def _parsed(self, row: Object) -> Ticket:
        try:
            return Ticket.from_json(row)
        except ValueError as error:
            raise self._state.unusable(_ROWS, f"cannot parse a ticket: {error}") from None


def caller(until: float) -> tuple[str, float]:
    """Return this process as a caller that waits until then."""
    return process_id(), until


# --------------------------------------------------------------------------- as JSON


def _decision_to_json(decision: Answer) -> dict[str, Any]:
    members: dict[str, Any] = {
        "allow": type(decision) is Allow,
        "reason": decision.reason,
        "source": decision.source,
        "by": decision.by,
    }
    if isinstance(decision, Allow):
        remember = Remember.of(decision.remember)
        members["arguments"] = None if decision.arguments is None else plain(decision.arguments)
        members["remember"] = remember and {
            each.name: as_json(getattr(remember, each.name)) for each in fields(remember)
        }
    return members


def _decision_from_json(value: Any) -> Answer:
    reason, source, by = value["reason"], text(value["source"]), optional_text(value["by"])
    if value["allow"] is not True:
        return Deny(text(reason), source=source, by=by)
    arguments, remember = value["arguments"], value["remember"]
    if arguments is not None and type(arguments) is not dict:
        raise ValueError("the arguments of a ticket are not a JSON object")
    return Allow(
        arguments,
        None if remember is None else Remember(**remember),
        optional_text(reason),
        source=source,
        by=by,
    )


def new_ticket_id() -> str:
    """Return a random id."""
    import secrets  # only now: a session without tickets needs none of it

    return secrets.token_urlsafe(16)
