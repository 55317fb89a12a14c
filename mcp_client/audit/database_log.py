"""The audit in a database: one chain of lines for each process that writes it.

The lines are those of a file (see ``hash_chain``), and ``export`` makes files of them. A process
begins a chain with its first record, and adds to it alone, so that processes do not wait for each
other. The row of a chain has the number and the hash of its last line. A record is appended to that
line, or not at all, in one statement. So a process notices if its last line is gone, as with a
file, and a write with an unknown outcome is not written a second time.

The first line of a chain has the process that writes it and its machine, and names the last lines
of the chains that were begun before it (``after``). So chains protect each other: of a chain that a
later one names, neither the whole nor its end can be removed unseen. The oldest chains may be
deleted whole, as the oldest files of a log may (``earlier``).

The database alone does not show a cut at the end of a chain that no later chain names, if its row
was changed to match and its process was not there to notice. Note ``Verified.last_hash`` in another
place, as for a file. Without a key, everybody who can write the tables can write all of it again.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import AuditError, StateError
from ..runtime.daemon_thread import NoThread, start_thread
from .database_chains import (
    APPEND,
    BEGIN,
    FIRST_HASH,
    FIRST_LINE,
    HEAD,
    LAST_HEADS,
    Chains,
    Database,
    export,
    verify,
)
from .hash_chain import MAX_LINE_BYTES, NOTHING, NewRecord, Position, Verified, now, seal
from .opened_file import Turn
from .sinks import Joined, Record, Sink, in_own_thread

__all__ = ["DatabaseLog"]

_log = logging.getLogger("mcp_client")
_FORMAT = 1
_PATIENCE = 20.0
"""Seconds to wait for threads of this process that are writing."""
_MAX_RECORD_BYTES = MAX_LINE_BYTES // 2
_MAX_DOUBTS = 1_000
_MAX_KNOWN = 10_000
_RETRY_SECONDS = 0.5, 5.0
"""The first and the longest pause in seconds between attempts to write queued records."""


class _Elsewhere(Exception):
    """The records cannot be appended in this transaction."""


class _Doubt(NamedTuple):
    """A write that failed, and may have been done nevertheless."""

    last: Position
    records: Sequence[NewRecord]


class DatabaseLog:
    """The audit of a ``PostgresState``: give it as ``audit=``, or let ``state=`` do that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._chains = Chains(database)
        self._process = 0
        self._name, self._number = "", 0
        self._last = Position(0, 1, NOTHING)
        self._doubts: list[_Doubt] = []
        self._known: deque[NewRecord] = deque(maxlen=_MAX_KNOWN)
        """The records that were written although their writer got an error."""
        self._unwritten: deque[NewRecord] = deque()
        self._losses: list[str] = []
        self._retrying: threading.Thread | None = None
        self._closed = threading.Event()
        self._turn = Turn(_PATIENCE, self._busy)

    def __repr__(self) -> str:
        return f"{self._database!r}.audit"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._database, "audit")

    @property
    def key(self) -> bytes | None:
        """The secret bytes that lines are signed with, or None."""
        return self._database.key

    def append(self, *records: NewRecord) -> None:
        """Add a line for each of ``records``, all of them or none, after queued ones.

        Blocks. Raises ``StateError`` if the database cannot be reached, and ``AuditError`` for a
        record that is too long.
        """
        with self._turn.taken():
            self._write(records)

    def append_in(self, change: Joined, *records: NewRecord) -> None:
        """Append in the transaction of ``change``, or after it if that is not possible."""
        try:
            with self._turn.taken():
                self._append_in(change, records)
        except _Elsewhere:
            change(None)
            self.append(*records)

    def keep(self, records: Iterable[NewRecord]) -> None:
        """Write ``records`` as soon as that is possible, and before any others."""
        self._unwritten.extend(records)
        thread = self._retrying
        if self._unwritten and (thread is None or not thread.is_alive()):
            self._closed.clear()
            with suppress(NoThread):  # the next record takes them along
                self._retrying = start_thread(self._retry, "mcp_client audit")

    @property
    def has_unwritten(self) -> bool:
        """Whether records are queued."""
        return bool(self._unwritten)

    def take_losses(self) -> list[str]:
        """Return the losses since the last time: a sentence for each missing last line."""
        losses, self._losses = self._losses, []
        return losses

    def close(self) -> None:
        """End the thread that tries to write queued records."""
        self._closed.set()

    def _as_sink(self) -> Sink:
        return _DatabaseSink(self)

    def _retry(self) -> None:
        pause, longest = _RETRY_SECONDS
        while self._unwritten and not self._closed.wait(pause):
            pause = min(2 * pause, longest)
            try:
                self.append()
            except Exception as error:  # noqa: BLE001 - the next call reports it
                _log.debug("the audit of %r cannot be written: %s", self._database, error)
            if not self._unwritten:
                self._retrying = (
                    None  # records that are queued from here on have a thread of their own
                )

    def _busy(self) -> StateError:
        return StateError(
            f"{self!r} cannot be written: other processes have been writing for {_PATIENCE:g} s",
            busy=True,
        )

    # ------------------------------------------------------------------ writing

    def _write(self, new: Sequence[NewRecord]) -> None:
        """Called by one thread at a time."""
        with self._database._connection() as connection:
            self._begin_where_needed(connection)
            number = len(self._unwritten)
            records = [*list(self._unwritten)[:number], *new]
            while not self._appended(connection, records):
                loss = self._loss(connection)
                if loss is not None:
                    self._begin(connection, loss)
                    self._losses.append(self._report(loss))
        self._doubts.clear()
        for _ in range(number):
            self._unwritten.popleft()

    def _append_in(self, change: Callable[[Any], object], records: Sequence[NewRecord]) -> None:
        if self._process != os.getpid() or self._unwritten:
            raise _Elsewhere
        before = self._last

        def append(connection: Any) -> None:
            if not self._appended(connection, records):
                raise _Elsewhere

        try:
            change(append)
        except BaseException:
            if self._last is not before:  # the transaction may have ended well nevertheless
                self._doubt(self._last, records)
                self._last = before
            raise
        self._doubts.clear()

    def _doubt(self, last: Position, records: Sequence[NewRecord]) -> None:
        self._doubts = [*self._doubts[1 - _MAX_DOUBTS :], _Doubt(last, records)]

    def _appended(self, connection: Any, records: Sequence[NewRecord]) -> bool:
        """Append. Returns False if the last line of the chain is not the known one."""
        new = self._not_known(records)
        lines, last = [], self._last
        for record in new:
            line, last = seal(record, last, self.key)
            if len(line) > _MAX_RECORD_BYTES:
                reason = f"a record of more than {_MAX_RECORD_BYTES} bytes"
                raise AuditError(
                    f"{self!r} cannot be written: {reason}", path=repr(self), reason=reason
                )
            lines.append(line.decode("ascii"))
        if not lines:
            return True
        before = self._last
        numbers = list(range(before.line + 1, last.line + 1))
        values = last.line, last.hash, self._name, before.line, before.hash, numbers, lines
        try:
            count = self._chains.run(connection, APPEND, *values).rowcount
        except BaseException:
            self._doubt(last, new)
            raise
        if count != len(lines):
            return False
        self._last = last
        return True

    def _not_known(self, records: Sequence[NewRecord]) -> list[NewRecord]:
        """Return those that are not written yet."""
        if not self._known:
            return list(records)
        known, new = list(self._known), []
        for record in records:
            if record in known:
                known.remove(record)
            else:
                new.append(record)
        return new

    def _loss(self, connection: Any) -> dict[str, Any] | None:
        """Return the record about the loss of the last line, for the next chain.

        It is None if the last line is one that was written although its writer got an error.
        """
        row = self._chains.run(connection, HEAD, self._name).fetchone()
        for doubt in self._doubts if row is not None else ():
            if (doubt.last.line, doubt.last.hash) == tuple(row):
                self._last, self._doubts = doubt.last, []
                self._known.extend(doubt.records)
                return None
        last = self._last
        found = {} if row is None else {"found_line": row[0], "found_hash": row[1]}
        about = {"number": self._number, "chain": self._name}
        return {**about, "last_line": last.line, "last_hash": last.hash, **found}

    def _report(self, loss: Mapping[str, Any]) -> str:
        how = "changed or cut" if "found_line" in loss else "deleted"
        text = (
            f"{self!r}: the chain {loss['chain']} was {how} by others while this process wrote it; "
            f"line {loss['last_line']} was its last. Another chain continues it"
        )
        _log.error("%s", text)
        return text

    def _begin_where_needed(self, connection: Any) -> None:
        if self._process != os.getpid():
            if self._process:  # the parent of this one, which writes what it has queued
                self._unwritten.clear()
                self._known.clear()
            self._begin(connection, None)
            self._process = os.getpid()

    def _begin(self, connection: Any, loss: Mapping[str, Any] | None) -> None:
        """Begin a chain. One whose beginning fails is not used: the next attempt begins another."""
        name = secrets.token_hex(8)
        with connection.transaction():
            connection.execute("set transaction isolation level read committed")
            named = self._chains.run(connection, LAST_HEADS).fetchall()
            number = self._chains.run(connection, BEGIN, name).fetchone()[0]
            first = {
                "time": now(),
                "event": "begun",
                "process": os.getpid(),
                "format": _FORMAT,
                "host": socket.gethostname(),
                "chain": name,
                "number": number,
                "after": named,
                **({} if loss is None else {"lost": loss}),
            }
            line, last = seal(first, Position(0, 1, NOTHING), self.key)
            self._chains.run(connection, FIRST_HASH, last.hash, name)
            self._chains.run(connection, FIRST_LINE, name, line.decode("ascii"))
        self._name, self._number, self._last, self._doubts = name, number, last, []

    # ------------------------------------------------------------------ queries

    def verify(self, key: bytes | None = None, noted: str | None = None) -> Verified:
        """Verify it, as ``verify_audit(state)`` does."""
        return verify(self._chains, repr(self), self.key if key is None else key, noted)

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield all lines as (chain, line, text), of one moment, from the oldest chain on."""
        with self._chains.snapshot() as connection:
            for chain in self._chains.all(connection):
                for number, line in self._chains.read(connection, chain.name):
                    yield chain.name, number, line

    def export(self, directory: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write each chain into a file in ``directory``, and return the files.

        ``verify_audit`` verifies them. The directory is made for its owner alone. Raises
        ``ConfigError`` if a file is there.
        """
        return export(self._chains, directory)


class _DatabaseSink(Sink):
    def __init__(self, log: DatabaseLog) -> None:
        super().__init__(repr(log), log.key)
        self._log = log
        self.storage = log._database

    @property
    def has_pending(self) -> bool:
        return self._log.has_unwritten

    def keep(self, records: Iterable[Record]) -> None:
        self._log.keep(map(self._text, records))

    def losses(self) -> Sequence[str]:
        return self._log.take_losses()

    async def _write(self, records: list[str], shield: bool) -> None:
        await in_own_thread(self._log.append, *records, shield=shield)

    async def _write_within(self, change: Joined, records: list[str], shield: bool) -> None:
        await in_own_thread(self._log.append_in, change, *records, shield=shield)
