"""JSON objects in one SQLite file, for kinds with many objects: a change costs always the same.

``json_file`` writes all objects again at each change.

Committed changes are on the disk. While the file is open there are two others next to it (``-wal``
and ``-shm``). With a log that is written ahead, a change waits for the disk once or twice and not
ten times. So its directory has to be on a disk of this machine. It is for its owner alone, as the
file is: SQLite believes a log that another user has placed there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from ..errors import ConfigError, StateError
from .atomic_file import access_problem, own_directory
from .safe_text import safe_text
from .storage import Change, Object, Storage
from .strict_json import read_row

__all__ = ["SqliteFile"]

_VERSION = 1
_BUSY_SECONDS = 10.0
_PAUSE_SECONDS = 0.005
_TABLES = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL, due REAL, value TEXT NOT NULL
);
CREATE UNIQUE INDEX by_key ON objects (kind, key);
CREATE INDEX by_due ON objects (kind, due, key) WHERE due IS NOT NULL;
CREATE TABLE changes (kind TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""
_DUE = "kind = ? AND due >= ? AND due < ? ORDER BY due, key LIMIT ?"
_BROKEN = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR
_BUSY = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED
_of_parents: list[sqlite3.Connection] = []
"""Connections that a forked process has inherited: closing one would end its parent's locks."""
T = TypeVar("T")


class SqliteFile(Storage):
    """A storage for objects of the given ``kinds`` in a file.

    ``what`` is its name in errors, ``remedy`` their advice if it cannot be used.
    """

    def __init__(self, path: Path, what: str, kinds: Sequence[str], remedy: str) -> None:
        self.path = path
        self._what = what
        self._kinds = frozenset(kinds)
        self._remedy = remedy
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<the {self._what} {self.path}>"

    def __del__(self) -> None:
        if self._db is not None and self._pid == os.getpid():
            self._db.close()

    def get(self, kind: str, key: str) -> Object | None:
        """Return the object, or None."""
        return self._read_with(None, lambda db: self._read(kind, _value_of(db, kind, key)))

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        """Return the objects with these keys, as far as they exist."""
        found = {key: self.get(kind, key) for key in keys}
        return {key: each for key, each in found.items() if each is not None}

    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""
        sql = "SELECT key, value FROM objects WHERE kind = ?"
        values = [self._known(kind)]
        return self._read_with({}, lambda db: self._objects(kind, db.execute(sql, values)))

    def due(
        self, kind: str, low: float, high: float, limit: int | None = None
    ) -> dict[str, Object]:
        """Return the objects that are due from ``low`` to below ``high``, the first ones first."""
        values = [self._known(kind), low, high, -1 if limit is None else limit]
        sql = f"SELECT key, value FROM objects WHERE {_DUE}"  # noqa: S608 - a constant
        return self._read_with({}, lambda db: self._objects(kind, db.execute(sql, values)))

    def stamp(self, kind: str) -> Hashable:
        """Return a value that changes when an object of this kind changes."""
        sql = "SELECT count FROM changes WHERE kind = ?"
        found = self._read_with(None, lambda db: db.execute(sql, [self._known(kind)]).fetchone())
        return None if found is None else (self._file, found[0])

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it."""
        with self._writing(kind) as db:
            before = _value_of(db, kind, key)
            changed = function(self._read(kind, before))
            after = None if changed is None else json.dumps(changed, allow_nan=False)
            if after != before:
                values = [kind, _bytes(key)]
                if after is None:
                    db.execute("DELETE FROM objects WHERE kind = ? AND key = ?", values)
                else:
                    due = changed.get("due") if changed is not None else None
                    db.execute(
                        "INSERT INTO objects (kind, key, due, value) VALUES (?, ?, ?, ?) ON "
                        "CONFLICT DO UPDATE SET due = excluded.due, value = excluded.value",
                        [*values, due if type(due) in (int, float) else None, after],
                    )
        return self._read(kind, after)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Remove the objects with these keys."""
        sql = "DELETE FROM objects WHERE kind = ? AND key = ?"
        with self._writing(kind) as db:
            db.executemany(sql, [[kind, _bytes(key)] for key in keys])

    def sweep(self, kind: str, before: float, limit: int = 100) -> int:
        """Remove objects that are due before ``before``, and return their number."""
        chosen = f"SELECT number FROM objects WHERE {_DUE}"  # noqa: S608 - a constant
        with self._writing(kind) as db:
            sql = f"DELETE FROM objects WHERE number IN ({chosen})"  # noqa: S608 - a constant
            return db.execute(sql, [kind, 1, before, limit]).rowcount

    def unusable(self, kind: str, why: str) -> ConfigError:
        """Return the error for an object of this kind that cannot be used."""
        return ConfigError(
            f"the {self._what} {safe_text(self.path, 300)} cannot be used: {why}; {self._remedy}"
        )

    # ------------------------------------------------------------------ its use

    def _known(self, kind: str) -> str:
        if kind not in self._kinds:
            raise ValueError(f"{self!r} stores no {kind}")
        return kind

    def _read_with(self, otherwise: T, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._used(make=False) as db:
            return otherwise if db is None else read(db)

    def _read(self, kind: str, text: str | None) -> Object | None:
        """Return the object of a row. Raises ``ConfigError`` if ``text`` is not one."""
        if text is None:
            return None
        try:
            found = read_row(text)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, dict):
            raise self.unusable(kind, "a row is not a JSON object")
        return found

    def _objects(self, kind: str, rows: Iterable[tuple[bytes, str]]) -> dict[str, Object]:
        found = {bytes(key).decode("utf-8", "surrogatepass"): value for key, value in rows}
        return {key: self._read(kind, value) or {} for key, value in found.items()}

    @contextmanager
    def _writing(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Open one transaction, and count the change in it."""
        self._known(kind)
        with self._used(make=True) as db:
            assert db is not None
            db.execute("BEGIN IMMEDIATE")
            try:
                before = db.total_changes
                yield db
                if db.total_changes == before:
                    db.execute("ROLLBACK")
                    return
                db.execute(
                    "INSERT INTO changes VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
                    [kind],
                )
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _used(self, *, make: bool) -> Iterator[sqlite3.Connection | None]:
        """The open file; None if there is not one and it is not to be made."""
        if self._pid != os.getpid():
            if self._db is not None:
                _of_parents.append(self._db)
            self._db, self._turn, self._pid = None, threading.Lock(), os.getpid()
        if not self._turn.acquire(timeout=_BUSY_SECONDS):
            raise self._failed("other threads have been using it for too long", busy=True)
        try:
            yield self._opened(make)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            code = None if code is None else code & 0xFF  # without what only extends it
            if code in _BUSY:
                raise self._failed(
                    "another process has been writing it for too long", busy=True
                ) from None
            if code in _BROKEN:
                raise self.unusable("", f"SQLite reports: {safe_text(error, 200)}") from None
            raise self._failed(f"SQLite reports: {safe_text(error, 200)}") from None
        except OSError as error:
            raise self._failed(str(error.strerror)) from None
        finally:
            self._turn.release()

    def _failed(self, why: str, *, busy: bool = False) -> StateError:
        text = f"the {self._what} {safe_text(self.path, 300)} cannot be used now: {why}"
        return StateError(text, busy=busy)

    def _opened(self, make: bool) -> sqlite3.Connection | None:
        file = self._found()
        if file is None and make:
            own_directory(self.path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            try:
                os.close(os.open(self.path, flags, 0o600))
            except FileExistsError:  # by another process, just now
                pass
            file = self._found()
        if self._db is not None and file != self._file:
            self._db.close()
            self._db = None
        if file is not None and self._db is None:
            self._db, self._file = self._connected(), file
        return self._db

    def _found(self) -> tuple[int, int] | None:
        """Return the identity of the file with the name; None if there is none.

        The file is not opened for that: closing it would end the locks of SQLite in this process.
        """
        try:
            stat = os.lstat(self.path)
        except FileNotFoundError:
            return None
        problem = access_problem(stat, private=True)
        if not S_ISREG(stat.st_mode):
            problem = "it is not a regular file, and links are not followed"
        if problem is not None:
            raise self.unusable("", problem)
        return stat.st_dev, stat.st_ino

    def _connected(self) -> sqlite3.Connection:
        own_directory(self.path.parent)
        db = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if self._version(db) == 0:
                db.execute("BEGIN IMMEDIATE")
                if self._version(db) == 0:  # else another process has made them, just now
                    if db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                        raise self.unusable("", "it is not a database of this package")
                    for statement in filter(str.strip, _TABLES.split(";")):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("COMMIT")
            if self._version(db) != _VERSION:
                raise self.unusable("", f"its version is not {_VERSION}")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")
            self._write_ahead(db)
        except BaseException:
            db.close()
            raise
        return db

    def _write_ahead(self, db: sqlite3.Connection) -> None:
        """Set once for the file. SQLite does not wait for others that open it at the same time."""
        until = time.monotonic() + _BUSY_SECONDS
        while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _version(self, db: sqlite3.Connection) -> int:
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        return found


def _value_of(db: sqlite3.Connection, kind: str, key: str) -> str | None:
    sql = "SELECT value FROM objects WHERE kind = ? AND key = ?"
    found = db.execute(sql, [kind, _bytes(key)]).fetchone()
    return None if found is None else found[0]


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
