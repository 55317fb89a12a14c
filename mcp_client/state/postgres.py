"""A state in a PostgreSQL database, which any number of processes and machines share.

What is secret in it is encrypted under a key that the host gives. An object is replaced by
``{"sealed": <base64>}``: a nonce and the AES-256-GCM of its JSON. That also authenticates its kind
and its key, so a row that is moved to another key cannot be decrypted.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ..errors import ConfigError
from ..runtime.option_names import with_option_names
from ..runtime.storage import Change, Object
from ..runtime.strict_json import read_row
from .state import State, check_kind, checked_keep

if TYPE_CHECKING:
    from ..audit.database_log import DatabaseLog
    from .database import Connection, Connections, Listener

__all__ = ["PostgresState", "Seal"]

_SEALED = frozenset({"tokens", "clients"})
_UNTOLD = frozenset({"calls", "callers", "paused"})
"""Kinds whose changes notify no process: there are many, and PostgreSQL lets transactions that
notify end only one after another."""
_MAX_CONNECTIONS = 10

# A change is counted in a row that no other connection uses, as a rule, so that changes made at
# once do not wait for one another. It is counted by a random number: the sum is then another one,
# too, after a database was put back to an earlier time.
_COUNTED = """
insert into {change} as known (kind, place, number)
select %s, pg_backend_pid() %% 64, 1 + floor(random() * 1000000)::bigint {condition}
on conflict (kind, place) do update set number = known.number + excluded.number
"""
_IF_REMOVED = "where exists (select from gone)"
_REMOVED = """
with gone as (
  delete from {object} where kind = %s and key in (
    select key from {object} where {which}
  ) returning 1
), counted as ({counted_if_gone})
select count(*), case when count(*) > 0 and %s then pg_notify(%s, %s)::text end from gone
"""
_FAR = 1e300
"""Later than any time."""
_STATEMENTS = {
    "several": "select key, body from {object} where kind = %s and key = any(%s)",
    "list": "select key, body from {object} where kind = %s",
    "count": "select count(*) from {object} where kind = %s",
    "due": "select key, body from {object} where kind = %s and due >= %s and due < %s "
    "order by due, key limit %s",
    "now": "select extract(epoch from clock_timestamp())::float8",
    "stamp": "select coalesce(sum(number), 0)::text from {change} where kind = %s",
    "begin": "begin isolation level read committed; select pg_advisory_xact_lock(%s); "
    "select body from {object} where kind = %s and key = %s for update",
    "put": "insert into {object} (kind, key, body, due) values (%s, %s, %s, %s) "
    "on conflict (kind, key) do update set body = excluded.body, due = excluded.due; {counted}",
    "delete": "delete from {object} where kind = %s and key = %s; {counted}",
    "notify": "; select pg_notify(%s, %s)",
    "commit": "; commit",
    "remove": _REMOVED.replace("{which}", "kind = %s and key = any(%s) order by key for update"),
    "sweep": _REMOVED.replace(
        "{which}",
        "kind = %s and due >= 1 and due < %s order by due limit %s for update skip locked",
    ),
}


@with_option_names()
class PostgresState(State):
    """A state in tables of a PostgreSQL database, version 12 or later.

    It needs the extra ``postgres``. A database that cannot be reached, or does not respond for 20
    seconds, is a ``StateError``; the next use connects again. If the connection ends while a change
    is being committed, that change may have been made. Every method may be called from any thread
    and waits for the database.

    Args:
        dsn: A URL or text as libpq takes it. Missing parts come from ``PGHOST``, ``PGPASSWORD``,
            ``~/.pgpass`` and the like. Its password is shown nowhere.
        schema: The schema. It and its tables are made on first use, by a role that may make them.
        pool: The maximum number of connections of this process, without the one that listens.
        key: At least 16 bytes, the same in every process. With it tokens are encrypted, which needs
            the package ``cryptography``, and the audit is signed.
        keep: The seconds for which results of calls with an ``idempotency_key`` are stored.

    Raises:
        ConfigError: If an argument is wrong.

    Example:
        >>> state = PostgresState("postgresql://agent@db.example/agents")
    """

    is_remote = reports_changes = True

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "mcp_client",
        pool: int = _MAX_CONNECTIONS,
        key: bytes | None = None,
        keep: float = State.keep,
    ) -> None:
        if type(pool) is not int or pool < 1:
            raise ConfigError(f"PostgresState(pool={pool!r}): give a number of connections above 0")
        database = _database()
        self._quoted: str = database.quoted(schema)
        self._schema = schema
        self._seal: Seal = Seal(key, _SEALED)
        self.keep: float = checked_keep(keep)
        self.key = key
        """The given key. The audit is signed with it."""
        self._connections: Connections = database.Connections(dsn, pool)
        self._lock_number: Callable[..., int] = database.lock_number
        self._make_ready: Callable[[Connection, str], None] = database.ready
        self._is_ready = False
        self._channel = f"mcp_client {self._lock_number(schema)}"
        self._listener: Listener = database.Listener(self._connections, self._channel)
        names = {name: self._table(name) for name in ("object", "change")}
        for name, condition in (("counted", ""), ("counted_if_gone", _IF_REMOVED)):
            names[name] = _COUNTED.format(**names, condition=condition)
        self._statements = {name: text.format(**names) for name, text in _STATEMENTS.items()}
        finalize(self, _close, self._connections, self._listener)

    def __repr__(self) -> str:
        return f"PostgresState({self._connections!r}, schema={self._schema!r})"

    @property
    def place(self) -> Hashable:
        """A value that is equal for two storages of one file, directory or database."""
        return repr(self._connections), self._schema

    def close(self) -> None:
        """Close its connections, and end its threads; a later use opens others.

        What the journal of calls could not write so far is tried again, for 10 s at most.
        """
        if "calls" in self.__dict__:
            self.calls.close()
        if "audit" in self.__dict__:
            self.audit.close()
        _close(self._connections, self._listener)

    # ------------------------------------------------------------------ the protocol

    def get(self, kind: str, key: str) -> Object | None:
        """Return the object, or None."""
        return self.several(kind, [key]).get(key)

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        """Return the objects with these keys, as far as they exist."""
        wanted = [_bytes(key) for key in keys]
        return self._found("several", kind, wanted) if wanted else {}

    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""
        return self._found("list", kind)

    def count(self, kind: str) -> int:
        """Return the number of objects of a kind."""
        return int(self._rows("count", check_kind(kind))[0][0])

    def due(
        self, kind: str, low: float, high: float, limit: int | None = None
    ) -> dict[str, Object]:
        """Return the objects that are due from ``low`` to below ``high``, the first ones first.

        Args:
            kind: The kind of the objects.
            low: The lowest value of ``"due"``.
            high: The end of the range, itself excluded.
            limit: The maximum number of objects; None for all.

        Returns:
            The objects by their keys.
        """
        return self._found("due", kind, low, high, limit)

    def stamp(self, kind: str) -> Hashable:
        """Return a value that changes when an object of this kind changes."""
        return self._rows("stamp", check_kind(kind))[0][0]  # type: ignore[no-any-return]

    def now(self) -> float:
        """Return the seconds since 1970 by one clock for all machines."""
        return self._rows("now")[0][0]  # type: ignore[no-any-return]

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it.

        Args:
            kind: The kind of the object.
            key: The key of the object.
            function: Gets the object, or None; returns the new one, or None to remove it. It may be
                called more than once, and must not use a storage. If it raises, nothing is changed.

        Returns:
            The new object, which is stored permanently.
        """
        return self._change(kind, key, function)

    def _change(
        self, kind: str, key: str, function: Change, also: Callable[[Any], object] | None = None
    ) -> Object | None:
        place = check_kind(kind), _bytes(key)
        with self._connection() as connection:
            number = self._lock_number(self._schema, kind, key)
            rows = connection.execute(self._statements["begin"].encode(), (number, *place))
            while rows.nextset():
                pass
            row = rows.fetchone()
            found = None if row is None else self._read(kind, key, row[0])
            before = None if found is None else _text(found)
            changed = function(found)
            after = None if changed is None else _text(changed)
            if also is not None:
                also(connection)
            if after == before:
                connection.commit()
            elif changed is None:
                self._commit(connection, "delete", *place, kind)
            else:
                body = _text(self._seal.sealed(kind, key, changed))
                self._commit(connection, "put", *place, body, _due(changed), kind)
        return None if after is None else json.loads(after)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Remove the objects with these keys."""
        wanted = [_bytes(key) for key in keys]
        if wanted:
            self._rows("remove", check_kind(kind), kind, wanted, kind, *self._notice(kind))

    def sweep(self, kind: str, before: float, limit: int = 100) -> int:
        """Remove objects whose ``"due"`` is from 1 to below ``before``.

        Args:
            kind: The kind of the objects.
            before: The end of the range, itself excluded.
            limit: The maximum number of objects.

        Returns:
            The number of objects that were removed.
        """
        values = (kind, before, limit, kind, *self._notice(kind))
        return int(self._rows("sweep", check_kind(kind), *values)[0][0])

    def watch(self, kind: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify``, from any thread, after objects of this kind were changed."""
        return self._listener.watch(check_kind(kind), notify)

    @cached_property
    def audit(self) -> DatabaseLog:
        """The record of every call, for ``connect(audit=...)``: one chain for each process."""
        from ..audit.database_log import DatabaseLog

        return DatabaseLog(self)

    # ------------------------------------------------------------------ the database

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode to a database that has the tables.

        An error of psycopg inside is raised as ``StateError`` or ``ConfigError``.
        """
        try:
            with self._connections.lent() as connection:
                if not self._is_ready:
                    self._make_ready(connection, self._schema)
                    self._is_ready = True
                yield connection
        except ConfigError:
            self._is_ready = False
            raise

    def _table(self, name: str) -> str:
        """Return the name of a table for statements that have parameters."""
        return f"{self._quoted}.{name}"

    def _rows(self, statement: str, *values: Any) -> Sequence[Any]:
        with self._connection() as connection:
            return connection.execute(self._statements[statement].encode(), values).fetchall()

    def _found(self, statement: str, kind: str, *values: Any) -> dict[str, Object]:
        found = {}
        for name, body in self._rows(statement, check_kind(kind), *values):
            key = bytes(name).decode("utf-8", "surrogatepass")
            found[key] = self._read(kind, key, body)
        return found

    def _read(self, kind: str, key: str, body: str) -> Object:
        try:
            found = read_row(body)
            if type(found) is not dict:
                raise ValueError("a row is not a JSON object")
            return self._seal.opened(kind, key, found)
        except ValueError as error:
            raise self.unusable(kind, str(error)) from None

    def _commit(self, connection: Connection, statement: str, *values: Any) -> None:
        statements, notice = self._statements, self._notice(kind := values[0])
        text = statements[statement]
        if notice[0]:
            text, values = text + statements["notify"], (*values, self._channel, kind)
        connection.execute((text + statements["commit"]).encode(), values)

    def _notice(self, kind: str) -> tuple[bool, str, str]:
        return kind not in _UNTOLD, self._channel, kind


def _database() -> Any:
    """Return the module for the database, which needs psycopg."""
    try:
        import psycopg
    except ImportError:
        raise ConfigError(
            "PostgresState needs the package psycopg: install mcp-client-host[postgres]"
        ) from None
    assert psycopg
    from . import database

    return database


def _close(connections: Connections, listener: Listener) -> None:
    listener.close()
    connections.close()


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _text(found: Object) -> str:
    return json.dumps(found, allow_nan=False)


def _due(found: Object) -> float | None:
    due: Any = found.get("due")
    return float(max(-_FAR, min(due, _FAR))) if type(due) in (int, float) else None


_LABEL = b"mcp_client tokens"
_NONCE_BYTES = 12


class Seal:
    """A seal that encrypts objects of some ``kinds``.

    Without a ``key``, it only recognizes them.
    """

    def __init__(self, key: bytes | None, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self._cipher = None if key is None else _cipher(key)

    def sealed(self, kind: str, key: str, found: Object) -> Object:
        """Return the stored form of ``found``."""
        if self._cipher is None or kind not in self._kinds:
            return found
        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(found, allow_nan=False).encode()
        secret = self._cipher.encrypt(nonce, text, _place(kind, key))
        return {"sealed": base64.b64encode(nonce + secret).decode()}

    def opened(self, kind: str, key: str, stored: Object) -> Object:
        """Return the object that was stored. Raises ``ValueError``, with a sentence for people."""
        if kind not in self._kinds:
            return stored
        text = stored.get("sealed")
        if self._cipher is None:
            if text is not None:
                raise ValueError("they are encrypted: give PostgresState(key=...)")
            return stored
        try:
            secret = base64.b64decode(text or "", validate=True)
            nonce, secret = secret[:_NONCE_BYTES], secret[_NONCE_BYTES:]
            found: Object = json.loads(self._cipher.decrypt(nonce, secret, _place(kind, key)))
        except Exception:  # noqa: BLE001 - cryptography's own errors, imported with it
            found = {}
        if not found:
            raise ValueError(
                "they were not encrypted with this key= and under this name: give the key they "
                "were written with, or delete these rows and log in again"
            )
        return found


def _place(kind: str, key: str) -> bytes:
    return f"{kind}\0{key}".encode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> Any:
    if not isinstance(key, bytes) or len(key) < 16:
        raise ConfigError("PostgresState(key=...): give at least 16 bytes, such as os.urandom(32)")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError(
            "PostgresState(key=...) needs the package cryptography: install mcp-client-host[auth]"
        ) from None
    import hmac

    # Not the key itself, which may sign the audit, too.
    return AESGCM(hmac.digest(key, _LABEL, "sha256"))
