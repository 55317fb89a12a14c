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

from ..catalog.call_context import context_from_json, is_storable
from ..catalog.drift import Drift
from ..catalog.finding import Finding
from ..catalog.skill_file import SkillFile, digest_of
from ..catalog.tool import Tool
from ..errors import ConfigError, NotPending
from ..protocol.canonical_json import plain
from ..runtime.atomic_file import OwnFile, Stamp
from .decision import Allow, Answer, Deny, Remember
from .one_call import is_known
from .skill_request import SkillRequest
from .tool_call import ToolCall

__all__ = ["FileTickets", "Ticket", "TicketStore", "not_pending"]

_VERSION = 1
_REMEDY = "put back an older one, or delete it: calls that wait are asked about again"


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that is asked about, and its answer once there is one. Times are seconds since the
    beginning of 1970, UTC."""

    id: str
    call: ToolCall | SkillRequest
    asked_at: float
    expires_at: float
    """When it ends, decided or not."""
    answer: Answer | None = None

    @property
    def has_expired(self) -> bool:
        return time.time() >= self.expires_at

    def holds_for(self, call: ToolCall | SkillRequest) -> bool:
        """Whether the answer is one to ``call``, which has the same key."""
        if not all(is_known(one, self.call.findings) for one in call.findings):
            return False
        if isinstance(call, SkillRequest) or isinstance(self.call, SkillRequest):
            return type(call) is type(self.call)
        return self.call.trusted is call.trusted

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON, for a store. Raises ``ConfigError`` for a context that cannot
        be stored."""
        call = self.call
        if not is_storable(call.context):
            raise ConfigError(
                "a ticket is for calls whose context is text, a number, a boolean or a tuple of "
                f"them, and this one's is a {type(call.context).__name__}"
            )
        return {
            "id": self.id,
            "key": call.key,
            "asked_at": self.asked_at,
            "expires_at": self.expires_at,
            "call": _call_to_json(call),
            "answer": None if self.answer is None else _answer_to_json(self.answer),
        }

    @classmethod
    def from_json(cls, value: Any) -> Ticket:
        """Raises ``ValueError`` for anything that ``to_json`` did not make."""
        try:
            call = _call_from_json(value["call"])
            answer = value["answer"]
            if call.key != value["key"]:
                raise ValueError("its key is not that of its call")
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


def _call_to_json(call: ToolCall | SkillRequest) -> dict[str, Any]:
    if isinstance(call, SkillRequest):
        return {
            "id": call.id,
            "server": call.server,
            "skill": call.uri,
            "name": call.name,
            "description": call.description,
            "files": [[one.uri, one.digest, one.size, one.path] for one in call.files],
            "ignored": list(call.ignored),
            "findings": [one.to_json() for one in call.findings],
            "context": call.context,
            "identity": call._identity,
        }
    drift = call.drift
    return {
        "id": call.id,
        "server": call.server,
        "trusted": call.trusted,
        "definition": call.tool.raw,
        "arguments": call.arguments_json,
        "meta": call.meta_json,
        "findings": [one.to_json() for one in call.findings],
        "context": call.context,
        "origin": call.origin,
        "identity": None if call._identity is None else call._identity(),
        "drift": None if drift is None else {"kind": drift.kind, "pinned": drift.pinned},
    }


def _call_from_json(value: Any) -> ToolCall | SkillRequest:
    if "skill" in value:
        return _skill_from_json(value)
    definition, server = value["definition"], _text(value["server"])
    tool = Tool(_text(definition["name"]), server, value["trusted"] is True, definition)
    meta, drift, identity = value["meta"], value["drift"], _optional(value.get("identity"))
    for text in (value["arguments"], "{}" if meta is None else meta):
        if type(json.loads(text)) is not dict:
            raise ValueError("its arguments are not a JSON object")
    return ToolCall(
        id=_text(value["id"]),
        server=server,
        tool=tool,
        arguments_json=value["arguments"],
        meta_json=meta,
        hints=tool.hints,
        findings=tuple(map(Finding.from_json, value["findings"])),
        generation=0,
        context=context_from_json(value["context"]),
        origin="app" if value.get("origin") == "app" else "host",
        drift=None if drift is None else Drift.of(tool, drift["kind"], drift["pinned"]),
        _identity=lambda: identity,
    )


def _skill_from_json(value: Any) -> SkillRequest:
    files = tuple(
        SkillFile(_text(uri), _text(digest), int(size), _text(path))
        for uri, digest, size, path in value["files"]
    )
    return SkillRequest(
        id=_text(value["id"]),
        server=_text(value["server"]),
        name=_text(value["name"]),
        description=_text(value["description"]),
        uri=_text(value["skill"]),
        files=files,
        size=sum(file.size for file in files) if files else None,
        ignored=tuple(map(_text, value["ignored"])),
        digest=digest_of(files) if files else None,
        findings=tuple(map(Finding.from_json, value["findings"])),
        context=context_from_json(value["context"]),
        _identity=_optional(value.get("identity")),
    )


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
