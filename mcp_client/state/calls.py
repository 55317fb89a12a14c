"""The journal: calls that are made with ``call_tool(..., idempotency_key=...)``, by their keys.

A call is recorded before it is sent, and when it is over. So the same key again, in any process
that has the state, returns the result of the first call instead of making another one. The outcome
of a call that a crash interrupted is not forgotten, but listed by ``unsettled``::

    for call in state.calls.unsettled():
        print(call.key, call.server, call.tool, call.sent_at)
    state.calls.settle("order-17/3", result)      # a person decides the outcome

A row has one of these states, and changes in this order:

- claimed: a caller has it and has sent nothing yet. If that caller is gone, the key is free.
- sent: it may have run. If that caller is gone, the row is unsettled: it stays until a person
  settles it, or a call that may be repeated takes it over.
- settled: a caller with the key gets its result, or the server's error, for ``keep``
  seconds. After that the key is unused again. A result of more than 32 MiB is not
  stored: a caller with the key gets ``ResultNotStored``. Of an error of that size, its code and the
  beginning of its message are stored.

A row has the caller, the tool, the time, and the result. Of the arguments it has only a digest
under a key of the state, with the server's name, the tool, ``meta`` and ``context``, by which the
same key for another call is noticed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..catalog.call_values import ToolResult, context_from_json
from ..errors import ConfigError, InvalidArguments, NotPending, NotSent
from ..protocol.canonical_json import canonical, digest_with
from ..runtime.safe_text import safe_text
from .lease import Lease

if TYPE_CHECKING:
    from ..runtime.storage import Object, Storage

__all__ = ["KEEP_CLAIM", "MAX_RESULT_BYTES", "Calls", "Claim", "Row", "UnsettledCall", "calls_in"]

MAX_RESULT_BYTES = 32 * 1024 * 1024
"""The largest result that is stored, as JSON text: the default of ``Limits.message_bytes``."""
_KEEP_SECONDS = 7 * 86_400.0
_ROWS = "calls"
_CLAIMED, _SENT, _SETTLED = "claimed", "sent", "settled"
KEEP_CLAIM = 30 * 86_400.0
"""Seconds after which a claim is forgotten if nothing was sent, and a response whose calls wait."""
_SWEEP_SECONDS = 5.0


class Claim(Enum):
    """The outcome for a caller that comes with a key."""

    MINE = 1
    """The caller may make the call."""
    SETTLED = 2
    BUSY = 3
    """Another caller is at it."""
    LOST = 4
    """The call was sent, its caller is gone, and it is not known whether it ran."""


@dataclass(frozen=True, slots=True)
class UnsettledCall:
    """A sent call that may have run or not."""

    key: str
    """The ``idempotency_key`` of the call."""
    server: str
    """The name the host gave the server."""
    tool: str
    context: Hashable
    """The ``call_tool(context=...)`` of the call; None if that cannot be stored."""
    sent_at: float
    """Seconds since 1970, by the clock of the machine that sent it."""
    process: str
    """The process that sent it: machine, namespace, number and start."""


class Row(NamedTuple):
    """A call in the journal."""

    digest: str
    """The digest of everything that identifies the call."""
    server: str
    tool: str
    context: Any
    mark: str
    """The random name of the claim; empty if no one has it."""
    lease: str
    process: str
    state: str
    """One of "claimed", "sent" and "settled"."""
    claimed_at: float
    due: float | None = None
    """When it is removed: 0 for a call that was sent, None for one that stays."""
    sent_at: float | None = None
    settled_at: float | None = None
    outcome: Object | None = None

    @classmethod
    def from_json(cls, row: Object) -> Row:
        """Parse a row. Raises ``TypeError`` or ``ValueError`` if it is not one."""
        found = cls(**row)
        if found.state not in (_CLAIMED, _SENT, _SETTLED):
            raise ValueError("its state is not known")
        return found

    def to_json(self) -> Object:
        """Return the members that it has."""
        members = zip(self._fields, self, strict=True)
        return {name: value for name, value in members if value is not None or name == "context"}


class Calls:
    """The journal of a state.

    Each method may be called from any thread, and those of a state with files or a database wait
    for it. Each raises ``ConfigError`` or ``StateError`` if the state cannot be used.
    """

    def __init__(self, storage: Storage, *, keep: float = _KEEP_SECONDS) -> None:
        self.storage = storage
        self._keep = keep
        self._lease = Lease(storage)
        self._secret: bytes | None = None
        self._swept = 0.0

    def close(self) -> None:
        """Stop retrying what could not be written: for who closes the storage."""
        self._lease.close()

    def __repr__(self) -> str:
        return f"<the calls of {self.storage!r}>"

    def unsettled(self) -> tuple[UnsettledCall, ...]:
        """Return the calls whose outcome is not known, the one sent first at the beginning.

        Calls that are under way are not among them.
        """
        rows = self.storage.due(_ROWS, 0, 1)
        with self.parsing():
            rows_by_key = {key: Row.from_json(row) for key, row in rows.items()}
            lost = {key: row for key, row in rows_by_key.items() if self._is_lost(row)}
            found = [self._unsettled(key, row) for key, row in lost.items()]
        return tuple(sorted(found, key=lambda one: one.sent_at))

    def settle(self, key: str, result: ToolResult | Mapping[str, Any] | None = None) -> None:
        """Record the outcome of an unsettled call, permanently.

        Callers with the key get ``result`` from now on: a ``ToolResult`` or the result as the
        protocol has it (``{"content": [...], "isError": false}``). Without a result it is only
        known that the call is dealt with: it is not listed any more, and it is never sent again.
        Callers with the key get ``OutcomeUnknown``.

        Raises ``NotPending``, a ``LookupError``, if the key has no unsettled call, and
        ``ConfigError`` for what is not a result.
        """
        if not isinstance(key, str):
            raise ConfigError(f"settle({key!r}): give the key of a call, a str")
        outcome = {"by_person": True} if result is None else {"result": _checked_result(result)}
        stored = self.storage.get(_ROWS, key)
        with self.parsing():
            row = None if stored is None else Row.from_json(stored)
            mark = row.mark if row is not None and self._is_lost(row) else None

        def settle(found: Row | None) -> Row:
            if found is None or found.state != _SENT or found.mark != mark:
                why = "is not unsettled: it is under way, was settled, or was never sent"
                raise NotPending(f"the call with the key {safe_text(key, 100)!r} {why}", ids=(key,))
            return self._settled(found, outcome, is_permanent=result is None)

        self._change(key, settle)

    # ------------------------------------------------------------- for one call

    def digest(self, *texts: str) -> str:
        """Return a digest that identifies a call, and reveals nothing of its arguments."""
        if self._secret is None:
            self._secret = self.storage.secret(_ROWS)
        return digest_with(self._secret, json.dumps(texts))

    def take(self, key: str, about: Object, mark: str, *, repeats: bool) -> tuple[Claim, Row]:
        """Claim the call ``about``, under a random ``mark``: what was found, and the row.

        ``repeats``: a call that may have run is taken over, too. Raises ``InvalidArguments`` if the
        key was used for another call.
        """
        self._lease.enter(mark)
        claim = Claim.BUSY
        try:
            abandoned: str | None = None
            while True:
                claim, row = self._try(key, about, mark, repeats=repeats, abandoned=abandoned)
                if claim is not Claim.BUSY or row.mark == abandoned:
                    break
                with self.parsing():
                    if not self._is_free(row):
                        break
                abandoned = row.mark
        finally:
            if claim is not Claim.MINE:
                self._lease.leave(mark)
        if claim is Claim.MINE and time.monotonic() - self._swept > _SWEEP_SECONDS:
            self._swept = time.monotonic()
            self.storage.sweep(_ROWS, time.time())
        return claim, row

    def _try(
        self, key: str, about: Object, mark: str, *, repeats: bool, abandoned: str | None
    ) -> tuple[Claim, Row]:
        """Try to claim ``key``. ``abandoned`` is the mark of a claim whose holder has ended."""
        claim = Claim.BUSY
        lease = self._lease
        owner: dict[str, Any] = {"mark": mark, "lease": lease.id, "process": lease.process}

        def take(found: Row | None) -> Row:
            nonlocal claim
            now = time.time()
            due = now + KEEP_CLAIM
            fresh = Row(**about, **owner, state=_CLAIMED, claimed_at=now, due=due)
            claim = Claim.MINE
            if found is None:
                return fresh
            if found.state == _SETTLED and found.due is not None and found.due <= now:
                return fresh
            if found.digest != fresh.digest:
                raise InvalidArguments(
                    f"the idempotency_key {safe_text(key, 100)!r} was used for another call: the "
                    "server, tool, script, arguments, meta or context differ. Give each call its "
                    "own key"
                )
            if found.state == _SETTLED:
                claim = Claim.SETTLED
            elif found.lease and found.mark != abandoned:
                claim = Claim.BUSY
            elif found.state == _CLAIMED:
                return fresh
            elif repeats:
                return found._replace(**owner)
            else:
                claim = Claim.LOST
            return found

        row = self._change(key, take)
        assert row is not None
        return claim, row

    def is_same(self, key: str, row: Row) -> bool:
        """Whether another caller has made no progress since ``row`` was found."""
        found = self.storage.get(_ROWS, key)
        if found is None:
            return False
        with self.parsing():
            now = Row.from_json(found)
            is_same = (now.mark, now.state) == (row.mark, row.state)
            return is_same and not self._is_free(row)

    def was_sent(self, key: str) -> bool:
        """Whether a call under ``key`` was sent: it may have run."""
        found = self.storage.get(_ROWS, key)
        with self.parsing():
            return found is not None and Row.from_json(found).state != _CLAIMED

    def sending(self, key: str, mark: str) -> None:
        """Write down that the call is sent now.

        Raises ``NotSent`` if another process has taken it over, because this one was taken for
        gone.
        """

        def sent(found: Row | None) -> Row:
            if found is None or found.mark != mark or found.state == _SETTLED:
                raise NotSent(
                    "another process has taken over the call with this idempotency_key, because "
                    "this process did not renew its lease. Repeat the call to get its result",
                    retryable=True,
                    follows=True,
                )
            if found.state == _SENT:
                return found
            return found._replace(state=_SENT, sent_at=time.time(), due=0)

        self._change(key, sent)

    def end(
        self,
        key: str,
        mark: str,
        outcome: Object | None,
        *,
        may_have_run: bool,
        also: Callable[[Any], None] | None = None,
    ) -> None:
        """Record the outcome of the call.

        Args:
            key: The key of the call.
            mark: The mark of the claim.
            outcome: The result or the error; None if there is none.
            may_have_run: Whether the call may have run. If not, and without an outcome, the key is
                free.
            also: In a database, a function that writes in the same transaction.
        """

        def end(found: Row | None) -> Row | None:
            if found is None or found.mark != mark or found.state == _SETTLED:
                return found
            if outcome is not None:
                return self._settled(found, outcome)
            is_unsettled = may_have_run and found.state == _SENT
            return found._replace(mark="", lease="") if is_unsettled else None

        self._change(key, end, also)
        self._lease.leave(mark)

    def end_later(self, key: str, mark: str, outcome: Object | None, *, may_have_run: bool) -> None:
        """``end``, without waiting for it: as soon as the state takes it."""
        self._lease.later(partial(self.end, key, mark, outcome, may_have_run=may_have_run))

    # ------------------------------------------------------------------ rows

    def _settled(self, row: Row, outcome: Object, *, is_permanent: bool = False) -> Row:
        now = time.time()
        due = None if is_permanent else now + self._keep
        return row._replace(state=_SETTLED, settled_at=now, outcome=outcome, due=due)

    def _is_free(self, row: Row) -> bool:
        return self._lease.has_expired(row.mark, row.lease, row.process)

    def _is_lost(self, row: Row) -> bool:
        return row.state == _SENT and self._is_free(row)

    def _unsettled(self, key: str, row: Row) -> UnsettledCall:
        context, sent_at = context_from_json(row.context), row.sent_at
        if sent_at is None:
            raise ValueError("it has no time")
        return UnsettledCall(key, row.server, row.tool, context, sent_at, row.process)

    def _change(
        self,
        key: str,
        function: Callable[[Row | None], Row | None],
        also: Callable[[Any], None] | None = None,
    ) -> Row | None:
        changed: Row | None = None

        def change(found: Object | None) -> Object | None:
            nonlocal changed
            with self.parsing():
                row = None if found is None else Row.from_json(found)
                changed = function(row)
                if changed is row:
                    return found
                return None if changed is None else changed.to_json()

        if also is None:
            self.storage.change(_ROWS, key, change)
        else:
            self.storage._change(_ROWS, key, change, also)
        return changed

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Raise ``ConfigError`` for what a row that is not a call's leads to."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"a call cannot be read ({type(error).__name__})"
            raise self.storage.unusable(_ROWS, why) from None


def calls_in(storage: Any) -> Calls:
    """Return the journal of a ``State`` or another storage.

    There is one for each, because it knows the calls of this process that are under way.
    """
    found: Calls | None = getattr(storage, "calls", None)
    return vars(storage).setdefault("calls", Calls(storage)) if found is None else found


def _checked_result(result: Any) -> Object:
    """Return a result that a person gives, as the protocol has it."""
    raw = result.raw if isinstance(result, ToolResult) else result
    try:
        text = canonical(raw)
        made: Object = json.loads(text)
        if made == {} or type(made) is not dict:
            raise ValueError("it is not an object with content")
        ToolResult.from_wire(made, "", "")
    except ValueError as error:
        raise ConfigError(f"settle(): not a valid tool result: {error}") from None
    if len(text.encode("utf-8", "surrogatepass")) > MAX_RESULT_BYTES:
        raise ConfigError(f"settle(): the result has more than {MAX_RESULT_BYTES} bytes")
    return made
