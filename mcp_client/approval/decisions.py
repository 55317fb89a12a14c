"""The store of decisions: remembered approvals, confirmed starts, and tickets.

```python
connect(server, name="files", state="state/")       # or state=Decisions("decisions.json")
```

An approval with ``remember="session"`` is stored by the session (``session.decisions``), one with
``remember="always"`` in the store of ``connect`` or ``Host``. It covers later requests

- of the same kind, for the same object: a tool, a skill, a server of a config file,
- of the same server, by the host's name for it and by its command or address (never by what the
  server reports about itself),
- with the same fingerprint (a tool's definition, a skill's files, everything that is shown of a
  start) and the same trust,
- with an equal ``context``, the host's identifier of the caller,
- of the same ``origin``: an approval for the host's own calls does not cover those of a view, and
  the reverse,
- with arguments that match ``where``, or with exactly the same arguments and ``_meta`` if the
  approval is for these only,
- without findings that were absent at the time of the approval; drift from the ``pins`` is one.

If a fingerprint or the trust changes, approval is requested again, and the new decision replaces
the old one. A denial is never remembered. If one process revokes a decision, the other processes do
not use it from their next request on. The file is readable by its owner only (0600): see
``runtime.json_file``. Arguments, a command line, and a URL's path and query may contain a secret.
They are stored only as a digest keyed with the store's own key. Tickets are the exception, because
people have to see the pending requests: see ``tickets``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..catalog.call_values import context_text, is_storable, same_context
from ..errors import ConfigError
from ..protocol.canonical_json import digest_with, keyed, plain, sha256
from ..runtime.safe_text import safe_text
from ..runtime.storage import MemoryStorage, Object, Storage
from .request import KINDS, ApprovalRequest, RequestKind
from .stored_decision import Decision

if TYPE_CHECKING:
    from pathlib import Path

    from .decision import Remember
    from .tickets import Ticket, Tickets

__all__ = ["Decision", "Decisions"]

_ROWS = "decisions"
_KEY = "decisions"
_REMEDY = "restore a backup, or delete it to be asked again"
_PAUSED_REMEDY = "restore a backup, or delete it if no response has to be resumed"
_PLACE_CHARS = 24
_MIN_ID_CHARS = 4
"""Characters of an id that are enough if no other id begins so."""
_MAX_KNOWN = 1_000


class _Index:
    """The decisions of one process, indexed by what they cover."""

    def __init__(self, stored: Iterable[Decision] = ()) -> None:
        self.all: dict[str, Decision] = {}
        self._places: dict[Hashable, dict[str, Decision]] = {}
        self._with_exact: set[Hashable] = set()
        for one in stored:
            self.add(one)

    def add(self, one: Decision) -> None:
        place = one.kind, one.server, one.topic
        self.all[one.id] = one
        self._places.setdefault((place, one.exact), {})[one.id] = one
        if one.exact is not None:
            self._with_exact.add(place)

    def at(self, request: ApprovalRequest, topic: str, key: bytes) -> Sequence[Decision]:
        place = request.kind, request.server, topic
        found = [*self._places.get((place, None), {}).values()]
        if place in self._with_exact and request._exactly is not None:
            found += self._places.get((place, keyed(request._exactly, key)), {}).values()
        return found


def _covers(one: Decision, request: ApprovalRequest, same: tuple[Hashable, ...]) -> bool:
    return (
        (one.identity, one.fingerprint, one.trusted, one.origin) == same
        and (one.script is None or (one.script, one.code) == _run_of(request))
        and same_context(one.context, request.context)
        and all(finding.known_as in one.findings for finding in request.findings)
        and not one.has_expired
        and (
            one._constraints is None
            or one._constraints.hold(getattr(request, "arguments", None)) is True
        )
    )


def _run_of(request: ApprovalRequest) -> tuple[str | None, str | None]:
    """Return the run that makes the call, and the digest of its script."""
    script = request.script
    return (None, None) if script is None else (script.id, script.digest)


class Decisions:
    """A store of decisions: a file, a ``State``, or by default this object while it exists.

    Any number of sessions, hosts and queues may share one. Methods raise ``ConfigError`` if the
    file cannot be used: it has another format, or other users may read or write it.
    """

    def __init__(self, where: str | os.PathLike[str] | Storage | None = None) -> None:
        self.path: Path | None = None
        """The file, or None."""
        self._own: _Index | None = None
        """The decisions that only this object stores: these may have a context of any type."""
        self._key: bytes | None = None
        if where is None:
            self._state: Storage = MemoryStorage()
            self._own, self._key = _Index(), os.urandom(32)
        elif isinstance(where, Storage):
            self._state = where
        else:
            from ..runtime.json_file import JsonFile

            file = JsonFile(where, "decisions", (_ROWS, "tickets", "keys"), _REMEDY)
            self._state, self.path = file, file.path
        self.is_empty: bool = self._own is not None
        """Whether no decisions are stored, as far as is known without a query of the state."""
        self._last: tuple[Hashable, dict[tuple[str, ...], Sequence[Decision]]] | None = None
        """A stamp of the state, and by their places what was read when it had that."""
        self._lock = threading.Lock()
        self.observers: WeakSet[Any] = WeakSet()
        """Their ``revoked`` is called with each decision that is forgotten."""

    @classmethod
    def of(cls, decisions: Any) -> Decisions:
        """Return what ``decisions=`` takes: a path, or ``Decisions(...)``, as ``Decisions``."""
        if isinstance(decisions, Decisions):
            return decisions
        if isinstance(decisions, str | os.PathLike):
            return cls(decisions)
        raise ConfigError(f"decisions={decisions!r}: give the path of a file, or Decisions(...)")

    def __repr__(self) -> str:
        return f"<Decisions, {self.path or self._state!r}>"

    @property
    def waits(self) -> bool:
        """Whether the methods read files or use the network, so that event loops need a thread."""
        return self._state.waits

    @cached_property
    def tickets(self) -> Tickets:
        """The requests that may wait longer than their callers: see ``ApprovalQueue``."""
        from .tickets import Tickets

        return Tickets(self._state)

    @cached_property
    def paused(self) -> Storage:
        """The store for model responses whose calls wait for approval.

        With a file, it is a second file, which is not read at every request.
        """
        if self.path is None:
            return self._state
        from ..runtime.sqlite_file import SqliteFile

        file = self.path.absolute().with_name(f"{self.path.name}.paused")
        kinds = "paused", "calls", "callers", "keys"
        return SqliteFile(file, "paused responses", kinds, _PAUSED_REMEDY)

    def list(
        self, kind: RequestKind | None = None, server: str | None = None
    ) -> tuple[Decision, ...]:
        """Return the current decisions, the newest last; filtered by kind or server if set."""
        _check_filter(kind, server)
        stored = [one for one in self._stored() if not one.has_expired]
        stored += map(_of_ticket, self.tickets.decided())
        stored.sort(key=lambda one: one.decided_at)
        return tuple(
            one for one in stored if kind in (None, one.kind) and server in (None, one.server)
        )

    def revoke(self, id: str, *, by: str | None = None) -> bool:
        """Delete the decision with this ``Decision.id``; return False if it does not exist.

        The next such request needs approval again; a running server continues.

        Args:
            id: The id, or its first characters: at least four.
            by: The person who revokes it, for the record.

        Raises:
            ConfigError: Several ids begin with ``id``.
        """
        if not isinstance(id, str):
            raise ConfigError(f"revoke({id!r}): give the id of a decision, or use revoke_all()")
        stored = self.list()
        found = [one for one in stored if one.id == id]
        if not found and len(id) >= _MIN_ID_CHARS:
            found = [one for one in stored if one.id.startswith(id)]
        if len(found) > 1:
            raise ConfigError(
                f"revoke({id!r}): {len(found)} ids begin with this: give more characters of the id"
            )
        return self._forget(found, by) > 0

    def revoke_all(
        self, kind: RequestKind | None = None, server: str | None = None, *, by: str | None = None
    ) -> int:
        """Delete the decisions that ``list(kind, server)`` returns, and return their number.

        Args:
            kind: The kind of request; None for all kinds.
            server: The name of a server; None for all servers.
            by: The person who revokes them, for the record.
        """
        return self._forget(self.list(kind, server), by)

    def find(self, request: ApprovalRequest, identity: str) -> Decision | None:
        """Return the decision that covers ``request`` to the server of this ``identity``."""
        if self.is_empty:
            return None
        stored, key = request._stored_as(), self._known_key()
        if stored.fingerprint is None or key is None:
            return None
        at = self._at if self._own is None else self._own.at
        found = at(request, stored.topic, key)
        if not found:
            return None
        same = keyed(identity, key), stored.bound(key), request.trusted, request.origin
        return next((one for one in found if _covers(one, request, same)), None)

    def add(
        self, request: ApprovalRequest, remember: Remember, identity: str, by: str | None = None
    ) -> None:
        """Store an approval, in place of an older one for the same request.

        Args:
            request: The approved request.
            remember: How far the approval reaches.
            identity: The ``stable_identity`` of the server.
            by: The person who decided.
        """
        stored, now = request._stored_as(), time.time()
        script, code = _run_of(request) if remember.scope == "script" else (None, None)
        if self._own is None or self._key is None:
            self._key = self._state.secret(_KEY)
        key = self._key
        made = Decision.about(
            request,
            id="",
            scope="session" if remember.scope == "call" else remember.scope,
            script=script,
            code=code,
            where=remember.where,
            exact=keyed(request._exactly, key) if remember.exact and request._exactly else None,
            by=None if by is None else safe_text(by, 200),
            decided_at=now,
            expires_at=None if remember.seconds is None else now + remember.seconds,
            fingerprint=stored.bound(key),
            identity=keyed(identity, key),
            topic=stored.topic,
        )
        question = [made.kind, made.server, made.identity, made.topic, made.exact, made.origin]
        question += [] if made.script is None else [made.script, made.code]
        where = None if made.where is None else plain(made.where)
        whose = context_text(made.context)
        id = digest_with(key, json.dumps([*question, where, whose], sort_keys=True))
        self._put(replace(made, id=id[:_PLACE_CHARS] + _place_of(made)))

    def check(self) -> None:
        """Raise ``ConfigError`` if the store cannot be used."""
        # A database may contain very many decisions.
        self._state.known_secret(_KEY) if self._state.is_remote else self.list()

    def _forget(self, unwanted: Iterable[Decision], by: str | None) -> int:
        unwanted = tuple(unwanted)
        self._drop({one.id for one in unwanted})
        for observer in list(self.observers) if unwanted else ():
            observer.revoked(unwanted, by)
        return len(unwanted)

    # ------------------------------------------------------------------ the state
    # A row holds the decisions on one question of one context, and its key is a digest of these: so
    # a request reads only what may be about it, however many others there are.

    def _known_key(self) -> bytes | None:
        """Return the key of the digests; None if nothing was ever stored."""
        if self._key is None:
            self._key = self._state.known_secret(_KEY)
        return self._key

    def _at(self, request: ApprovalRequest, topic: str, key: bytes) -> Sequence[Decision]:
        """Return the current decisions that may cover this request."""
        if not is_storable(request.context):
            return ()
        exactly = None if request._exactly is None else keyed(request._exactly, key)
        what = request.kind, request.server, topic, _whose(request.context)
        places = _place(*what, None), _place(*what, exactly)
        if self._state.is_remote:  # to ask for a stamp first takes as long
            return self._read_all(self._state.several(_ROWS, places))
        last, stamp = self._last, self._state.stamp(_ROWS)
        if last is None or stamp is None or last[0] != stamp or len(last[1]) > _MAX_KNOWN:
            last = self._last = stamp, {}
        found = last[1].get(places)
        if found is None:
            found = last[1][places] = self._read_all(self._state.several(_ROWS, places))
        return found

    def _stored(self) -> Sequence[Decision]:
        with self._lock:
            own = None if self._own is None else [*self._own.all.values()]
        return self._read_all(self._state.list(_ROWS)) if own is None else own

    def _put(self, made: Decision) -> None:
        if self._own is not None:
            with self._lock:
                self._own.add(made)
                self.is_empty = False
            return
        self._change(made.id[_PLACE_CHARS:], lambda stored: {**stored, made.id: made})
        self._state.sweep(_ROWS, time.time())

    def _drop(self, ids: set[str]) -> None:
        own_ids = {id for id in ids if len(id) == 2 * _PLACE_CHARS}
        for id in ids - own_ids:
            self.tickets.withdraw(id)
        if self._own is not None:
            with self._lock:
                left = [one for one in self._own.all.values() if one.id not in ids]
                self._own, self.is_empty = _Index(left), not left
        else:
            for place in {id[_PLACE_CHARS:] for id in own_ids}:
                self._change(
                    place, lambda stored: {id: one for id, one in stored.items() if id not in ids}
                )

    def _change(
        self, place: str, function: Callable[[dict[str, Decision]], dict[str, Decision]]
    ) -> None:
        def changed(row: Object | None) -> Object | None:
            found = [] if row is None else self._read_all({place: row})
            stored = function({one.id: one for one in found if not one.has_expired})
            return _row(stored.values()) if stored else None

        self._state.change(_ROWS, place, changed)

    def _read_all(self, rows: Mapping[str, Object]) -> Sequence[Decision]:
        try:
            found = [
                (place, Decision.from_json({**one, "id": id}))
                for place, row in rows.items()
                for id, one in row["decisions"].items()
            ]
            if not all(place == _place_of(one) == one.id[_PLACE_CHARS:] for place, one in found):
                raise ValueError("a decision is stored under a wrong key")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{error}" if type(error) is ValueError else "a row is not a list of decisions"
            raise self._state.unusable(_ROWS, why) from None
        return [one for _, one in found]


def _place_of(one: Decision) -> str:
    return _place(one.kind, one.server, one.topic, _whose(one.context), one.exact)


def _whose(context: Hashable) -> str:
    return "" if context is None or not is_storable(context) else context_text(context)


@lru_cache(maxsize=1_000)
def _place(kind: str, server: str, topic: str, whose: str, exact: str | None) -> str:
    """The key of the row for this question."""
    return sha256(json.dumps([kind, server, topic, whose, exact]))[-_PLACE_CHARS:]


def _row(stored: Iterable[Decision]) -> Object:
    made: Object = {"decisions": {}}
    for one in stored:
        made["decisions"][one.id] = one.to_json()
        del made["decisions"][one.id]["id"]
    ends = [one.expires_at for one in stored]
    if None not in ends:  # then the state removes it
        made["due"] = max(end for end in ends if end is not None)
    return made


def _check_filter(kind: object, server: object) -> None:
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind={kind!r}: give one of {', '.join(KINDS)}")
    if server is not None and not isinstance(server, str):
        raise ConfigError(f"server={server!r}: give the name of a server")


def _of_ticket(ticket: Ticket) -> Decision:
    from .decision import Allow

    decision = ticket.answer
    return Decision.about(
        ticket.request,
        id=ticket.id,
        scope="once",
        allowed=type(decision) is Allow,
        by=None if decision is None else decision.by,
        decided_at=ticket.asked_at if ticket.decided_at is None else ticket.decided_at,
        expires_at=ticket.expires_at,
        fingerprint=ticket.request.fingerprint,
    )
