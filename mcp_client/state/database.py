"""A PostgreSQL database: its connections, its tables, and the changes that other processes make.

*Connections.* Waits are bounded, and errors translated. Each connection is lent to one thread at a
time. They are psycopg's synchronous ones, used in threads: its asynchronous ones need asyncio, and
a host may run on trio. They need no threads of their own: the thread that needs a connection makes
it. So an unreachable database is reported immediately, and a connection that the server has closed
is noticed before it is used.

``psycopg_pool`` 3.3 does not replace them. Its pool connects in threads of its own: a caller waits
for the whole timeout while the database is down, and always in a forked process. Its pool without
idle connections takes 46 ms for a use that takes 0.1 ms here, because it connects each time.

*Tables.* They are made on first use and have a version. *Changes* are received by ``Listener``, by
PostgreSQL's LISTEN and NOTIFY.
"""

from __future__ import annotations

import hashlib
import logging
import os
import select
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from ..errors import ConfigError, McpError, StateError
from ..runtime.daemon_thread import NoThread, start_thread
from ..runtime.masking import mask
from ..runtime.safe_text import safe_text

__all__ = ["Connection", "Connections", "Listener", "lock_number", "quoted", "ready"]

_log = logging.getLogger("mcp_client")

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 15
"""The time limit after which the server ends a statement, or a transaction without activity."""
LOCK_SECONDS = 10
RESPONSE_SECONDS = 20.0
"""The seconds after which a silent server is given up, more than the limits that it reports
itself."""
_MAX_IDLE_SECONDS = 300.0

_DEFAULTS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "fallback_application_name": "mcp_client",
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# Not in the connection string: poolers refuse settings that they do not know there.
_SETTINGS = """
select set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
  set_config('idle_in_transaction_session_timeout', %s, false),
  set_config('standard_conforming_strings', 'on', false),
  case current_setting('synchronous_commit') when 'off' then
    set_config('synchronous_commit', 'on', false) end
"""
_BUSY = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.TooManyConnections,
)
_NO_CONNECTION_LEFT = ("too many clients", "too many connections", "remaining connection slots")
"""The words of a server that refuses a connection: libpq does not report the code of that error."""
_WRONG = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError)


class Connection(psycopg.Connection[Any]):
    """A connection whose server has bounded time to respond."""

    idle_since: float = 0.0

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server, within bounds."""
        try:
            return super().wait(gen, interval, RESPONSE_SECONDS if timeout is None else timeout)
        except errors.OperationalError:
            if timeout is None and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()  # a response that comes later must not be taken for the next one
            raise


class Connections:
    """A set of at most ``most`` connections to the database that ``dsn`` names.

    They belong to the process that made them: a forked child makes others. Raises ``ConfigError``
    for what is not the text of a connection; it never repeats the text, which has a password.
    """

    def __init__(self, dsn: str, most: int) -> None:
        self._parameters = _parsed(dsn)
        self._secrets = [
            f"{value}"
            for name, value in self._parameters.items()
            if value and (name == "passfile" or "password" in name or "secret" in name)
        ]
        self._most = most
        self._begin()

    def __repr__(self) -> str:
        host, port = (self._parameters.get(name) or "" for name in ("host", "port"))
        place = f"{host}:{port}" if port else f"{host}"
        return safe_text(f"postgresql://{place}/{self._parameters.get('dbname') or ''}", 200)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._most)
        self._generation = object()

    def close(self) -> None:
        """Close those that are not in use, and the others when they are returned."""
        if self._pid == os.getpid():
            with self._lock:
                idle, self._idle, self._generation = self._idle, [], object()
            for each in idle:
                each.close()

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode, for the caller alone.

        An error of psycopg inside is raised as ``StateError`` or ``ConfigError``; a transaction
        that is left open is undone.
        """
        if self._pid != os.getpid():
            self._inherited = self._idle  # the parent's: not to be closed, nor used, by this one
            self._begin()
        free, generation = self._free, self._generation
        if not free.acquire(timeout=LOCK_SECONDS):
            why = f"all {self._most} connections (pool=) were in use for {LOCK_SECONDS} s"
            raise self._error(why, busy=True)
        connection: Connection | None = None
        try:
            connection = self._taken()
            try:
                yield connection
            except psycopg.Error as error:
                raise self.translated(error) from None
        finally:
            if connection is not None:
                self._return(connection, generation)
            free.release()

    def connect(self) -> Connection:
        """Return a new connection, not counted among those that are lent."""
        made = None
        values = (STATEMENT_SECONDS, LOCK_SECONDS, STATEMENT_SECONDS)
        try:
            made = Connection.connect(
                **{**self._parameters, "client_encoding": "UTF8"},
                autocommit=True,
                prepare_threshold=None,  # a pooler may give each transaction another connection
                cursor_factory=psycopg.ClientCursor,  # several statements in one round trip
            )
            made.execute(_SETTINGS, [f"{value * 1000}" for value in values])
            return made
        except (psycopg.Error, UnicodeError) as error:
            if made is not None:
                made.close()
            advice = "check its address and login, or try" if made is None else "try"
            failure = self.translated(error, advice)
        raise failure  # outside the handler: the frames of what failed know the password

    def _taken(self) -> Connection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self.connect()
            is_old = time.monotonic() - connection.idle_since > _MAX_IDLE_SECONDS
            if not is_old and not connection.closed and not _is_readable(connection.fileno()):
                return connection
            connection.close()  # an idle server sends nothing unless it ends the connection

    def _return(self, connection: Connection, generation: object) -> None:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            _roll_back(connection)
        connection.idle_since = time.monotonic()
        with self._lock:
            if not connection.closed and self._generation is generation:
                self._idle.append(connection)
                return
        connection.close()

    def translated(self, error: Exception, advice: str = "try") -> McpError:
        """Return the error to raise for an error of psycopg."""
        what = self._described(error)
        if isinstance(error, errors._WaitTimeout | errors.ConnectionTimeout):
            return self._error("it does not respond")
        if isinstance(error, _BUSY) or any(text in what for text in _NO_CONNECTION_LEFT):
            return self._error(what, busy=True)
        if isinstance(error, _WRONG):
            return ConfigError(f"the state in {self!r} cannot be used: {what}")
        return self._error(what, advice=advice)

    def _error(self, why: str, *, busy: bool = False, advice: str = "try") -> StateError:
        is_what = "is busy" if busy else "cannot be used now"
        return StateError(f"the state in {self!r} {is_what}: {why}; {advice} again", busy=busy)

    def _described(self, error: Exception) -> str:
        """Return the first line, which names neither values nor statements."""
        text = next(iter(f"{error}".splitlines()), "") or type(error).__name__
        text = text.removeprefix("connection failed: ").rstrip(". ")
        return safe_text(mask(text, self._secrets), 300)


def _parsed(dsn: str) -> Mapping[str, Any]:
    try:
        if not isinstance(dsn, str) or "\0" in dsn or not dsn.strip():
            raise ValueError
        dsn.encode()
        found = {**_DEFAULTS, **conninfo.conninfo_to_dict(dsn)}
        int(found["connect_timeout"])
        return found
    except (psycopg.Error, ValueError, OverflowError):
        pass
    raise ConfigError(
        "PostgresState(dsn): PostgreSQL cannot parse the dsn. Give one such as "
        "'postgresql://user@host:5432/database'. The dsn is not quoted, for its password"
    )


def _roll_back(connection: Connection) -> None:
    try:
        if not connection.closed and connection.info.transaction_status in _OPEN:
            connection.rollback()
            return
    except psycopg.Error:
        pass
    connection.close()


_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def _is_readable(fd: int) -> bool:
    if sys.platform == "win32":
        return bool(select.select([fd], [], [], 0)[0])
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


_VERSION = 1
_MAX_NAME_BYTES = 63

# Keys are bytes, which every collation leaves alone, and objects are ASCII: both may then hold any
# text of Python's. A change is counted in the row of the connection that makes it, so that changes
# made at once do not wait for one another, and their sum shows a change in any order of their ends.
_TABLES = """
create table {layout} (version integer not null);
create table {object} (
  kind text collate "C" not null, key bytea not null, body text not null, due double precision,
  primary key (kind, key)
);
create index on {object} (kind, due) where due is not null;
create table {change} (
  kind text collate "C" not null, place integer not null, number bigint not null,
  primary key (kind, place)
);
create table {audit_chain} (
  number bigint generated always as identity, chain text collate "C" primary key,
  line bigint not null, hash text not null
);
create table {audit_line} (
  chain text collate "C" not null, line bigint not null, text text not null,
  primary key (chain, line)
);
insert into {layout} values (%s)
"""
# Not by to_regclass, which in an open transaction may not know of a table made by another.
_EXISTS = """
select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = %s and relname = 'layout'
"""

_NAMES = ("layout", "object", "change", "audit_chain", "audit_line")


def quoted(schema: Any) -> str:
    """Return the name of a schema for statements that have parameters.

    Raises ``ConfigError`` for what cannot be one.
    """
    name = schema if isinstance(schema, str) else ""
    size = len(name.encode("utf-8", "replace"))
    is_text = size == len(name.encode("utf-8", "surrogatepass"))
    if not 0 < size <= _MAX_NAME_BYTES or not is_text or "\0" in name:
        raise ConfigError(
            f"PostgresState(schema={schema!r:.100}): give a name of 1 to {_MAX_NAME_BYTES} bytes"
        )
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def lock_number(*names: str) -> int:
    """Return the number of these names in an advisory lock.

    Two names that share one only wait needlessly.
    """
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)


def ready(connection: Connection, schema: str) -> None:
    """Make the tables if there are none yet.

    Raises ``ConfigError`` if they are of another release, or if they are missing and may not be
    made.
    """
    found = _version(connection, schema)
    if found is None:
        try:
            _make(connection, schema)
            found = _version(connection, schema)
        except errors.InsufficientPrivilege:
            found = ""
    if found == "":
        raise ConfigError(
            f"PostgresState: the schema {schema!r} has no tables, and this role cannot create "
            "them. Use the state once with a role that can. Then grant this role usage of the "
            "schema, and select, insert, update and delete on its tables"
        )
    if found != _VERSION:
        raise ConfigError(
            f"PostgresState: the tables in the schema {schema!r} have version {found}, and this "
            f"release needs version {_VERSION}: use one release everywhere, or another schema"
        )


def _version(connection: Connection, schema: str) -> int | str | None:
    """Return the version of the tables.

    None without tables, a text for tables of another program.
    """
    if connection.execute(_EXISTS, [schema]).fetchone() is None:
        return None
    query = f"select version from {quoted(schema)}.layout"  # noqa: S608 - it is quoted
    rows = connection.execute(query.encode(), ()).fetchall()
    return rows[0][0] if len(rows) == 1 else "unknown"


def _make(connection: Connection, schema: str) -> None:
    name = quoted(schema)
    tables = {each: f"{name}.{each}" for each in _NAMES}
    with connection.transaction():
        lock = lock_number("mcp_client tables", schema)
        connection.execute("select pg_advisory_xact_lock(%s)", [lock])
        if _version(connection, schema) is not None:
            return
        # Not "if not exists", which needs the right to make one even if there is one.
        known = connection.execute("select 1 from pg_namespace where nspname = %s", [schema])
        if known.fetchone() is None:
            connection.execute(f"create schema {name}".encode(), ())
        connection.execute(_TABLES.format(**tables).encode(), [_VERSION])


_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 10.0
_CHECK_SECONDS = 60.0
"""The seconds without a notice after which the connection is checked, because it may be dead."""


class Listener:
    """A thread with a connection, from the first watch until ``close``.

    The notifications of a channel are the kinds that were changed.

    When a connection was lost, every watcher is called once another one listens, because changes
    may have been missed. Through a pooler that does not let a connection listen, nothing is
    received.
    """

    def __init__(self, connections: Connections, channel: str) -> None:
        self._connections = connections
        self._channel = channel
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._watchers: dict[object, tuple[str, Callable[[], None]]] = {}
        self._waker: socket.socket | None = None
        """Closed to end the thread that waits for the other end of it."""

    def watch(self, kind: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify``, from any thread, after objects of this kind were changed."""
        if self._pid != os.getpid():
            self._begin()  # the thread is in the parent
        watch = object()
        with self._lock:
            self._watchers[watch] = kind, notify
            if self._waker is None:
                waker, other = socket.socketpair()
                try:
                    start_thread(self._run, "mcp_client state", other)
                except NoThread:
                    waker.close()
                    other.close()
                    del self._watchers[watch]
                    raise
                self._waker = waker
        return lambda: self._forget(watch)

    def _forget(self, watch: object) -> None:
        with self._lock:
            self._watchers.pop(watch, None)

    def close(self) -> None:
        """End the thread. Watches stay, and the next ``watch`` starts another."""
        if self._pid == os.getpid():
            with self._lock:
                waker, self._waker = self._waker, None
            if waker is not None:
                waker.close()

    def _run(self, stopped: socket.socket) -> None:
        pause = _FIRST_PAUSE_SECONDS
        with stopped:
            while True:
                connection = self._connected()
                if connection is not None:
                    pause = _FIRST_PAUSE_SECONDS
                    self._notify(None)
                    self._listen(connection, stopped)
                    connection.close()
                if _waited(stopped, None, pause) is stopped:
                    return
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def _connected(self) -> Connection | None:
        try:
            connection = self._connections.connect()
        except McpError as error:
            _log.debug("cannot listen for changes now: %s", error)
            return None
        try:
            connection.execute(f'listen "{self._channel}"'.encode())
            return connection
        except psycopg.Error as error:
            _log.debug("cannot listen for changes now: %s", type(error).__name__)
            connection.close()
            return None

    def _listen(self, connection: Connection, stopped: socket.socket) -> None:
        with suppress(psycopg.Error, OSError):
            while True:
                kinds = {notice.payload for notice in connection.notifies(timeout=0)}
                if kinds:
                    self._notify(kinds)
                    continue
                readable = _waited(stopped, connection, _CHECK_SECONDS)
                if readable is stopped:
                    return
                if readable is None:
                    connection.execute(b"select 1")

    def _notify(self, kinds: set[str] | None) -> None:
        """Notify those who watch these kinds, or all."""
        with self._lock:
            watchers = [*self._watchers.values()]
        for kind, notify in watchers:
            if kinds is None or kind in kinds:
                try:
                    notify()
                except Exception:  # noqa: BLE001 - one watcher must not end the others' notices
                    _log.exception("a callback for changes of a state failed")


def _waited(
    stopped: socket.socket, connection: Connection | None, seconds: float
) -> socket.socket | Connection | None:
    """Return what can be read first: the connection, or the socket if its other end was closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(stopped, selectors.EVENT_READ, stopped)
        if connection is not None:
            selector.register(connection, selectors.EVENT_READ, connection)
        ready = [key.data for key, _ in selector.select(seconds)]
    return stopped if stopped in ready else ready[0] if ready else None
