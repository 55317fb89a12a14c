"""Tickets: calls that wait for an answer longer than their caller does, or its process lives.

A serverless agent cannot keep a call open while a person thinks. With ``ApprovalQueue(store=...,
wait=0)`` the call raises ``CallPending`` with the id of a ticket. Once the ticket is decided, by
``ApprovalQueue.decide`` in any process that has the store, the same call (with the same
``ToolCall.key``) goes out, or is refused, once. Then the ticket is gone.

A store is anything with the three methods of ``TicketStore``. ``FileTickets`` is a file: JSON, for
its owner only (0600), because it holds the arguments of calls for people to look at. It is replaced
atomically, and processes that write it take turns.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..errors import ConfigError, NotPending
from ..protocol.canonical_json import plain
from ..runtime.atomic_file import OwnFile, Stamp
from .decision import Allow, Answer, Deny, Remember
from .one_call import is_known
from .request import ApprovalRequest

__all__ = ["FileTickets", "Ticket", "TicketStore", "not_pending"]

_VERSION = 1
_REMEDY = "put back an older one, or delete it: calls that wait are asked about again"


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that is asked about, and its answer once there is one. Times are seconds since the
    beginning of 1970, UTC."""

    id: str
    call: ApprovalRequest
    asked_at: float
    expires_at: float
    """When it ends, decided or not."""
    answer: Answer | None = None

    @property
    def has_expired(self) -> bool:
        return time.time() >= self.expires_at

    def holds_for(self, call: ApprovalRequest) -> bool:
        """Whether the answer is one to ``call``, which has the same key."""
        if not all(is_known(one, self.call.findings) for one in call.findings):
            return False
        return self.call.kind == call.kind and self.call.trusted is call.trusted

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON, for a store. Raises ``ConfigError`` for a context that cannot
        be stored."""
        return {
            "id": self.id,
            "asked_at": self.asked_at,
            "expires_at": self.expires_at,
            "request": self.call.to_json(),
            "answer": None if self.answer is None else _answer_to_json(self.answer),
        }

    @classmethod
    def from_json(cls, value: Any) -> Ticket:
        """Raises ``ValueError`` for anything that ``to_json`` did not make."""
        try:
            call = ApprovalRequest.from_json(value["request"])
            answer = value["answer"]
            return cls(
                id=_text(value["id"]),
                call=call,
                asked_at=float(value["asked_at"]),
                expires_at=float(value["expires_at"]),
                answer=None if answer is None else _answer_from_json(answer),
            )
        except (LookupError, TypeError, AttributeError, ConfigError) as error:
            raise ValueError(f"it is not a ticket ({type(error).__name__})") from None


class TicketStore(Protocol):
    """Where tickets are kept. The methods may be called from any thread; each is atomic, also for
    other processes that use the same store. A ticket that has expired is as one that is not there.
    """

    def claim(self, ticket: Ticket) -> Ticket:
        """The ticket that is there for the same ``call.key``, else ``ticket``, which is added.

        One that is decided is removed: its answer is used up.
        """

    def decide(self, ids: Sequence[str], answer: Answer) -> Sequence[Ticket]:
        """Give ``answer`` to these tickets, and return them. Raises ``NotPending``, and decides
        none, where one is not there or was decided."""

    def pending(self) -> Sequence[Ticket]:
        """The tickets that are not decided, the oldest first."""


class FileTickets:
    """Tickets in a file. Raises ``ConfigError`` where it cannot be used: it has another format, or
    others than its owner may read or write it."""

    def __init__(self, path: str | os.PathLike[str], *, most: int = 1_000) -> None:
        """``most`` tickets may wait at once; further calls are refused."""
        if type(most) is not int or most < 1:
            raise ConfigError(f"FileTickets(most={most!r}): give a whole number above 0")
        self._file = OwnFile(path, "tickets", _REMEDY, private=True)
        self._most = most
        self._lock = threading.Lock()
        self._last: tuple[Stamp | None, tuple[Ticket, ...]] = None, ()

    def __repr__(self) -> str:
        return f"<FileTickets, {self._file.path}>"

    def claim(self, ticket: Ticket) -> Ticket:
        key = ticket.call.key
        with self._lock:
            found = self._find(key)
            if found is not None and found.answer is None:
                return found
            with self._file.locked():
                found = self._find(key)
                if found is None:
                    tickets = self._read()
                    if sum(one.answer is None for one in tickets) >= self._most:
                        raise ConfigError(
                            f"the tickets {self._file.path} have {self._most:,} calls that wait "
                            "already, FileTickets(most=...)"
                        )
                    self._write((*tickets, ticket))
                    return ticket
                if found.answer is not None:
                    self._write(tuple(one for one in self._read() if one.id != found.id))
                return found

    def decide(self, ids: Sequence[str], answer: Answer) -> tuple[Ticket, ...]:
        with self._lock, self._file.locked():
            tickets = self._read()
            waiting = {one.id: one for one in tickets if one.answer is None}
            missing = tuple(id for id in ids if id not in waiting)
            if missing:
                raise not_pending(missing, len(ids))
            decided = {id: replace(waiting[id], answer=answer) for id in ids}
            self._write(tuple(decided.get(one.id, one) for one in tickets))
            return tuple(decided.values())

    def pending(self) -> tuple[Ticket, ...]:
        with self._lock:
            return tuple(one for one in self._read() if one.answer is None)

    def _find(self, key: str) -> Ticket | None:
        return next((one for one in self._read() if one.call.key == key), None)

    def _read(self) -> tuple[Ticket, ...]:
        """The tickets that have not expired."""
        stamp = self._file.stamp()
        if stamp != self._last[0]:
            found = None if stamp is None else self._file.read()
            self._last = (None, ()) if found is None else (found[0], self._parsed(found[1]))
        return tuple(one for one in self._last[1] if not one.has_expired)

    def _parsed(self, text: bytes) -> tuple[Ticket, ...]:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            raise self._file.unusable("it is not JSON") from None
        if type(whole) is not dict or whole.get("version") != _VERSION:
            raise self._file.unusable(f"it is not a file of tickets of version {_VERSION}")
        if type(whole.get("tickets")) is not list:
            raise self._file.unusable("it has no list of tickets")
        try:
            return tuple(map(Ticket.from_json, whole["tickets"]))
        except ValueError as error:
            raise self._file.unusable(f"a ticket in it cannot be read: {error}") from None

    def _write(self, tickets: tuple[Ticket, ...]) -> None:
        whole = {"version": _VERSION, "tickets": [one.to_json() for one in tickets]}
        text = json.dumps(whole, indent=2, ensure_ascii=True) + "\n"
        self._last = self._file.replace(text), tickets


def not_pending(missing: tuple[str, ...], wanted: int) -> NotPending:
    """The error for ``missing`` of ``wanted`` ids that were to be decided."""
    what = "is not pending: it was decided, or its caller has gone"
    if wanted == 1:
        return NotPending(f"the call {what}", ids=missing)
    several = f"{len(missing)} of the {wanted} calls are not pending"
    return NotPending(f"{several}, so none is decided", ids=missing)


# --------------------------------------------------------------------------- as JSON


def _answer_to_json(answer: Answer) -> dict[str, Any]:
    members: dict[str, Any] = {
        "allow": type(answer) is Allow,
        "reason": answer.reason,
        "source": answer.source,
        "by": answer.by,
    }
    if isinstance(answer, Allow):
        remember = Remember.of(answer.remember)
        members["arguments"] = None if answer.arguments is None else plain(answer.arguments)
        members["remember"] = remember and {
            "scope": remember.scope,
            "where": None if remember.where is None else plain(remember.where),
            "exact": remember.exact,
            "seconds": remember.seconds,
        }
    return members


def _answer_from_json(value: Any) -> Answer:
    reason, source, by = value["reason"], _text(value["source"]), _optional(value["by"])
    if value["allow"] is not True:
        return Deny(_text(reason), source=source, by=by)
    arguments, remember = value["arguments"], value["remember"]
    if arguments is not None and type(arguments) is not dict:
        raise ValueError("its arguments are not a JSON object")
    return Allow(
        arguments,
        None if remember is None else Remember(**remember),
        _optional(reason),
        source=source,
        by=by,
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a member that is a text is missing")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)
