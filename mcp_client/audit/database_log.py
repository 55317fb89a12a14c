"""The audit in a database: one chain of lines for each process that writes it.

The lines are those of a file (see ``hash_chain``), and ``export`` makes files of them. A process
begins a chain with its first record, and adds to it alone, so that processes do not wait for each
other. The row of a chain has the number and the hash of its last line: whatever is appended is
appended to that line, or not at all, in one statement. So a process notices where its last line is
gone, as with a file, and a write of which the outcome was unknown is not written a second time.

The first line of a chain says which process writes it, on which machine, and names the last lines
of the chains that were begun before it (``after``). So chains protect each other: of a chain that a
later one names, neither the whole nor its end can be removed unseen. The oldest chains may be
deleted whole, as the oldest files of a log may (``earlier``).

What cannot be seen in the database alone: a cut at the end of a chain that no later chain names,
where its row was changed to match and its process was not there to notice. Note
``Verified.last_hash`` elsewhere, as for a file. Without a key, everybody who can write the tables
can write all of it again.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import AuditError, ConfigError, StateError
from ..runtime.atomic_file import own_folder
from .group_commit import GroupCommit
from .hash_chain import (
    MAX_LINE_BYTES,
    NOTHING,
    Check,
    Position,
    Verified,
    key_of,
    now,
    seal,
    unseal,
)
from .sinks import Record, Sink, in_own_thread

__all__ = ["DatabaseLog"]

_log = logging.getLogger("mcp_client")
_FORMAT = 1
_PATIENCE = 30.0
"""Seconds to wait for threads of this process that are writing."""
_GROUP_CHARS = 1024 * 1024
_MAX_RECORD_BYTES = MAX_LINE_BYTES // 2
_MAX_NAMED = 32
"""Chains that the first line of another names."""
_MAX_DOUBTS = 1_000
_MAX_KNOWN = 10_000
_PAGE_LINES = 1_000
_NAMED = ("number", "chain", "last_line", "last_hash")
_RETRY_SECONDS = 0.5, 5.0
"""Between attempts to write what is kept: the first pause, and the longest."""

# With the quoted names of the tables put in.
_APPEND = """
with head as (
    update {chains} set line = %s, hash = %s where chain = %s and line = %s and hash = %s
    returning chain
)
insert into {lines} (chain, line, text)
select head.chain, new.line, new.text
from head, unnest(%s::bigint[], %s::text[]) as new (line, text)
"""
_HEAD = "select line, hash from {chains} where chain = %s"
_HEADS = "select number, chain, line, hash from {chains} order by number"
_LAST_HEADS = f"{_HEADS} desc limit {_MAX_NAMED}"
_BEGIN = "insert into {chains} (chain, line, hash) values (%s, 1, '') returning number"
_FIRST_HASH = "update {chains} set hash = %s where chain = %s"
_FIRST_LINE = "insert into {lines} (chain, line, text) values (%s, 1, %s)"
_NEXT_NAME = "select chain from {lines} where chain > %s order by chain limit 1"
_OF_CHAIN = "select line, text from {lines} where chain = %s"
_PAGE = f"{_OF_CHAIN} order by line limit {_PAGE_LINES}"
_NEXT_PAGE = f"{_OF_CHAIN} and line > %s order by line limit {_PAGE_LINES}"


class Database(Protocol):
    """What the log needs of a state."""

    @property
    def key(self) -> bytes | None: ...
    def _connection(self) -> AbstractContextManager[Any]:
        """A connection in autocommit mode. Raises ``StateError`` and ``ConfigError`` for the
        database's own errors."""

    def _table(self, name: str) -> str: ...


class _Doubt(NamedTuple):
    """A write that failed, and may have been done nevertheless."""

    last: Position
    records: Sequence[Mapping[str, Any]]


class _Chain(NamedTuple):
    """A row of the table of chains."""

    number: int
    name: str
    line: int
    hash: str


class DatabaseLog:
    """The audit of a ``PostgresState``: give it as ``audit=``, or let ``state=`` do that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables = {
            "lines": database._table("audit_line"),
            "chains": database._table("audit_chain"),
        }
        self._process = 0
        self._name, self._number = "", 0
        self._last = Position(0, 1, NOTHING)
        self._doubts: list[_Doubt] = []
        self._known: deque[Mapping[str, Any]] = deque(maxlen=_MAX_KNOWN)
        """Records that were written though their writer was told that they were not."""
        self._kept: deque[Mapping[str, Any]] = deque()
        self._losses: list[str] = []
        self._retrying: threading.Thread | None = None
        self._closed = threading.Event()
        self._waiting = GroupCommit(self._write, self._busy, patience=_PATIENCE, most=_GROUP_CHARS)

    def __repr__(self) -> str:
        return f"{self._database!r}.audit"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._database, "audit")

    @property
    def key(self) -> bytes | None:
        """The secret bytes that lines are signed with, or None."""
        return self._database.key

    def append(self, *records: Mapping[str, Any]) -> None:
        """Add a line for each of ``records``, all of them or none, after those that were kept.

        Blocks. Raises ``StateError`` where the database cannot be reached, and ``AuditError`` for a
        record that is too long.
        """
        self._waiting.append(records)

    def keep(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write ``records`` as soon as that is possible, and before any others."""
        self._kept.extend(records)
        if self._kept and (self._retrying is None or not self._retrying.is_alive()):
            self._retrying = threading.Thread(
                target=self._retry, name="mcp_client audit", daemon=True
            )
            self._retrying.start()

    @property
    def has_kept(self) -> bool:
        return bool(self._kept)

    def take_losses(self) -> list[str]:
        """What was found since the last time: a sentence for each time the last line was gone."""
        losses, self._losses = self._losses, []
        return losses

    def close(self) -> None:
        """End the thread that tries to write what is kept."""
        self._closed.set()

    def _as_sink(self) -> Sink:
        return _DatabaseSink(self)

    def _retry(self) -> None:
        pause, longest = _RETRY_SECONDS
        while self._kept and not self._closed.wait(pause):
            pause = min(2 * pause, longest)
            try:
                self.append()
            except Exception as error:  # noqa: BLE001 - the next call tells of it
                _log.debug("the audit of %r cannot be written: %s", self._database, error)

    def _busy(self) -> StateError:
        return StateError(
            f"{self!r} cannot be written: others have been writing for {_PATIENCE:g} s",
            busy=True,
        )

    # ------------------------------------------------------------------ writing

    def _write(self, given: Sequence[Mapping[str, Any]]) -> bool:
        """One thread at a time: see ``GroupCommit``."""
        kept = len(self._kept)
        records = [*list(self._kept)[:kept], *given]
        with self._database._connection() as connection:
            self._begin_where_needed(connection)
            while not self._appended(connection, records):
                loss = self._loss(connection)
                if loss is not None:
                    self._begin(connection, loss)
                    self._losses.append(self._tell(loss))
        for _ in range(kept):
            self._kept.popleft()
        return True

    def _appended(self, connection: Any, records: Sequence[Mapping[str, Any]]) -> bool:
        """False where the last line of the chain is another one than this log knows."""
        new = self._not_known(records)
        lines, last = [], self._last
        for record in new:
            line, last = seal(record, last, self.key)
            if len(line) > _MAX_RECORD_BYTES:
                reason = f"a record of more than {_MAX_RECORD_BYTES} bytes"
                raise AuditError(f"{self!r} cannot be written: {reason}", reason=reason)
            lines.append(line.decode("ascii"))
        if not lines:
            return True
        before = self._last
        numbers = list(range(before.line + 1, last.line + 1))
        values = last.line, last.hash, self._name, before.line, before.hash, numbers, lines
        try:
            count = self._run(connection, _APPEND, *values).rowcount
        except BaseException:
            self._doubts = [*self._doubts[1 - _MAX_DOUBTS :], _Doubt(last, new)]
            raise
        if count != len(lines):
            return False
        self._last = last
        self._doubts.clear()
        return True

    def _not_known(self, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those that are not written yet."""
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
        """What the next chain says of our last line; None where the last line is one that we wrote
        without being told so."""
        row = self._run(connection, _HEAD, self._name).fetchone()
        for doubt in self._doubts if row is not None else ():
            if (doubt.last.line, doubt.last.hash) == tuple(row):
                self._last, self._doubts = doubt.last, []
                self._known.extend(doubt.records)
                return None
        last = self._last
        found = {} if row is None else {"found_line": row[0], "found_hash": row[1]}
        about = {"number": self._number, "chain": self._name}
        return {**about, "last_line": last.line, "last_hash": last.hash, **found}

    def _tell(self, loss: Mapping[str, Any]) -> str:
        how = "changed or cut" if "found_line" in loss else "deleted"
        text = (
            f"{self!r}: the chain {loss['chain']} was {how} by others while this process wrote it; "
            f"line {loss['last_line']} was its last. Another chain continues it"
        )
        _log.error("%s", text)
        return text

    def _begin_where_needed(self, connection: Any) -> None:
        if self._process != os.getpid():  # the first record of this process, or of a fork of it
            self._doubts, self._kept = [], deque()
            self._known.clear()
            self._begin(connection, None)
            self._process = os.getpid()

    def _begin(self, connection: Any, loss: Mapping[str, Any] | None) -> None:
        """Begin a chain. One whose beginning fails is not used: the next attempt begins another."""
        name = secrets.token_hex(8)
        with connection.transaction():
            named = self._run(connection, _LAST_HEADS).fetchall()
            number = self._run(connection, _BEGIN, name).fetchone()[0]
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
            self._run(connection, _FIRST_HASH, last.hash, name)
            self._run(connection, _FIRST_LINE, name, line.decode("ascii"))
        self._name, self._number, self._last, self._doubts = name, number, last, []

    # ------------------------------------------------------------------ reading

    def verify(self, key: bytes | None = None, noted: str | None = None) -> Verified:
        """What ``verify_audit(state)`` does."""
        return _Verification(self, key, noted).run()

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        """All lines as (chain, line, text), of one moment, chain by chain from the oldest on."""
        with self._snapshot() as connection:
            for chain in self._all(connection):
                for number, line in self._read(connection, chain.name):
                    yield chain.name, number, line

    def export(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write each chain into a file of ``folder`` that ``verify_audit`` verifies. Returns them.

        The folder is made for its owner alone. Raises ``ConfigError`` where a file is there.
        """
        path, made = Path(folder), []
        try:
            own_folder(path)
            with self._snapshot() as connection:
                for chain in self._all(connection):
                    file = path / f"{chain.number:06d}-{chain.name}.jsonl"
                    with open(file, "xb", opener=_own_file) as stream:
                        for _, line in self._read(connection, chain.name):
                            stream.write(line + b"\n")
                    made.append(file)
        except OSError as error:
            raise ConfigError(f"the audit cannot be exported to {path}: {error}") from None
        return tuple(made)

    @contextmanager
    def _snapshot(self) -> Iterator[Any]:
        """A connection that sees the tables as they are at the beginning."""
        with self._database._connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            yield connection

    def _run(self, connection: Any, statement: str, *values: Any) -> Any:
        return connection.execute(statement.format_map(self._tables), values)

    def _all(self, connection: Any) -> list[_Chain]:
        return [_Chain(*row) for row in self._run(connection, _HEADS).fetchall()]

    def _names_of_lines(self, connection: Any) -> Iterator[str]:
        """The chains that there are lines of, without looking at each line."""
        name = ""
        while (row := self._run(connection, _NEXT_NAME, name).fetchone()) is not None:
            name = row[0]
            yield name

    def _read(self, connection: Any, chain: str) -> Iterator[tuple[int, bytes]]:
        rows = self._run(connection, _PAGE, chain).fetchall()
        while rows:
            for number, text in rows:
                yield number, text.encode("utf-8", "replace")
            rows = self._run(connection, _NEXT_PAGE, chain, number).fetchall()


class _Verification:
    """One run of ``verify_audit`` over all chains, of one moment."""

    def __init__(self, log: DatabaseLog, key: bytes | None, noted: str | None) -> None:
        self._log = log
        self._key = log.key if key is None else key_of(key)
        self._check = Check(self._key, None)
        self._noted = set() if noted is None else set(filter(None, noted.split(",")))
        self._named: dict[str, dict[int, str]] = {}
        """By chain, the hashes of lines that the first lines of others name."""
        self._numbers: dict[str, int] = {}
        self._gone = 0
        self._heads: list[str] = []

    def run(self) -> Verified:
        log, check = self._log, self._check
        with log._snapshot() as connection:
            chains = log._all(connection)
            known = {chain.name for chain in chains}
            for name in log._names_of_lines(connection):
                if name not in known:
                    raise self._wrong(name, None, "its row in the table of chains is gone")
            for chain in chains:
                self._note_named(connection, chain)
            self._check_gone(chains)
            for chain in chains:
                self._verify(connection, chain)
        if self._noted:
            raise check.wrong(repr(log), None, "a line that was noted is gone: a chain was cut off")
        found = check.done(repr(log))
        return replace(found, earlier=self._gone, last_hash=",".join(self._heads) or NOTHING)

    def _note_named(self, connection: Any, chain: _Chain) -> None:
        """What the first line of a chain says of others. Its own hash is compared later."""
        _, text = next(self._log._read(connection, chain.name), (0, b""))
        with suppress(ValueError):
            record, _ = unseal(text, self._key)
            lost = record.get("lost")
            if lost is not None:
                record["after"].append([lost[name] for name in _NAMED])
            for number, name, line, hash in record["after"]:
                self._numbers[name] = number
                self._named.setdefault(name, {})[line] = hash

    def _check_gone(self, chains: Sequence[_Chain]) -> None:
        """The oldest chains may be gone whole, others not."""
        there = {chain.name for chain in chains}
        oldest = min((chain.number for chain in chains), default=0)
        for name, lines in self._named.items():
            if name not in there:
                if self._numbers[name] > oldest:
                    raise self._wrong(name, None, "all of it is gone, and older chains are not")
                self._gone += max(lines)

    def _verify(self, connection: Any, chain: _Chain) -> None:
        check, named = self._check, self._named.get(chain.name, {})
        is_named = named.get(chain.line) == chain.hash
        place, at = _place(self._log, chain.name), None
        check.begin(place)
        for number, text in self._log._read(connection, chain.name):
            try:
                record, position = unseal(text, self._key)
            except ValueError:
                raise check.changed(place, number, at is not None) from None
            whose = record.get("chain"), record.get("number"), position.line
            if at is None and whose != (chain.name, chain.number, 1):
                raise self._wrong(chain.name, number, "the chain does not begin with it")
            if number != position.line or named.pop(number, position.hash) != position.hash:
                raise self._wrong(chain.name, number, "it was inserted, moved or written again")
            check.line(place, number, record, position, at is not None)
            self._noted.discard(position.hash)
            at = position
        last = max([chain.line, *named])
        if at is None or (at.line, at.hash) != (chain.line, chain.hash) or named:
            reason = f"its end was cut off or changed: line {last} was there"
            raise self._wrong(chain.name, None, reason)
        if not is_named:
            self._heads.append(chain.hash)

    def _wrong(self, chain: str, number: int | None, reason: str) -> AuditError:
        return self._check.wrong(_place(self._log, chain), number, reason)


def _place(log: DatabaseLog, chain: str) -> str:
    return f"{log!r}, chain {chain}"


def _own_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _DatabaseSink(Sink):
    def __init__(self, log: DatabaseLog) -> None:
        super().__init__(repr(log))
        self._log = log
        self.key = log.key

    @property
    def has_pending(self) -> bool:
        return self._log.has_kept

    def keep(self, records: Iterable[Record]) -> None:
        self._log.keep(map(self._finished, records))

    def losses(self) -> Sequence[str]:
        return self._log.take_losses()

    async def _write(self, records: list[Record], shield: bool) -> None:
        await in_own_thread(self._log.append, *records, shield=shield)
