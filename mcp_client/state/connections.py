"""Connections to a PostgreSQL database, with bounded waits and translated errors.

Each is lent to one thread at a time. They are psycopg's synchronous ones, used in threads: its
asynchronous ones need asyncio, and a host may run on trio. They need no threads of their own: the
thread that needs a connection makes it. So an unreachable database is reported immediately, and a
connection that the server has closed is noticed before it is used.

``psycopg_pool`` 3.3 does not replace this module. Its pool connects in threads of its own: a caller
waits for the whole timeout while the database is down, and always in a forked process. Its pool
without idle connections reports that at once, and takes 46 ms for a use that takes 0.1 ms here,
because it connects each time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from ..errors import ConfigError, McpError, StateError
from ..runtime.masking import mask
from ..runtime.safe_text import safe_text

__all__ = ["Connection", "Connections"]

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
            raise self._error(
                f"all {self._most} connections (pool=) were in use for {LOCK_SECONDS} s",
                busy=True,
            )
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
        try:
            made = Connection.connect(
                **{**self._parameters, "client_encoding": "UTF8"},
                autocommit=True,
                prepare_threshold=None,  # a pooler may give each transaction another connection
                cursor_factory=psycopg.ClientCursor,  # several statements in one round trip
            )
        except (psycopg.Error, UnicodeError) as error:
            failure: McpError | None = self.translated(error, "check its address and login, or try")
        else:
            failure = self._prepared(made)
            if failure is None:
                return made
        assert failure is not None
        raise failure  # outside the handler: the frames of what failed know the password

    def _prepared(self, made: Connection) -> McpError | None:
        values = (STATEMENT_SECONDS, LOCK_SECONDS, STATEMENT_SECONDS)
        try:
            made.execute(_SETTINGS, [f"{value * 1000}" for value in values])
        except psycopg.Error as error:
            made.close()
            return self.translated(error)
        return None

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

    # ------------------------------------------------------------------------- errors

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

if sys.platform == "win32":
    import select

    def _is_readable(fd: int) -> bool:
        return bool(select.select([fd], [], [], 0)[0])
else:
    import select

    def _is_readable(fd: int) -> bool:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(0))
