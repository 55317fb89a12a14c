"""PostgreSQL for tests: a server in a directory of its own, run by an ordinary user on a free port.

The fixtures ``database`` (the URL of a new, empty database) and ``own_postgres`` (a server that the
test may stop, kill and suspend) are in ``tests.conftest``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.interop.peers import postgresql
from tests.support.starting import free_port

__all__ = ["PASSWORD", "PostgresServer", "new_cluster"]

USER, PASSWORD = "tester", "pass word/of:tests"
"""Of the superuser. No line that the package writes may contain the password."""
_SETTINGS = {
    "fsync": "off",  # a kill of processes loses nothing all the same
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_statement": "none",
}
_START_SECONDS = 40.0
_DISCONNECT_OTHERS = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""
_SCHEMAS = """
select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
"""


def new_cluster() -> Path:
    """A directory with an empty database cluster, which ``PostgresServer`` copies."""
    directory = _directory()
    password = directory / "password"
    password.write_text(PASSWORD)
    _give(password)
    words = [f"--username={USER}", f"--pwfile={password}", "--auth=scram-sha-256", "--no-sync"]
    words += ["--locale=C", "--encoding=UTF8", "--no-instructions", "-D", str(directory / "data")]
    _run([str(postgresql() / "initdb"), *words], directory)
    return directory


class PostgresServer:
    """A server of a copy of ``cluster``; it runs inside ``with``."""

    def __init__(self, cluster: Path, **settings: str) -> None:
        self.directory = _directory()
        shutil.copytree(cluster / "data", self.directory / "data")
        for path in [self.directory / "data", *(self.directory / "data").rglob("*")]:
            _give(path)
        self.settings = {**_SETTINGS, **settings}
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self._free: list[str] = []

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The URL of a database, with the password; ``port`` is that of a proxy before it."""
        address = f"127.0.0.1:{port or self.port}"
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{address}/{database}"

    def new_database(self) -> str:
        """The URL of a database that was empty until now."""
        if self._free:
            return self.url(self._free.pop())
        name = f"test_{next(self._numbers)}"
        with self.connection() as connection:
            connection.execute(f"create database {name}")
        return self.url(name)

    def take_back(self, url: str) -> None:
        """Empty a database of ``new_database``, for another test: a new one costs as much as ten
        tests."""
        name = url.rpartition("/")[2]
        with self.connection(name) as connection:
            connection.execute(_DISCONNECT_OTHERS)
            for (schema,) in connection.execute(_SCHEMAS).fetchall():
                connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))
            connection.execute("create schema public authorization pg_database_owner")
            connection.execute("grant usage on schema public to public")
            connection.execute(f"alter database {name} reset all".encode())
        self._free.append(name)

    def connection(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=20)

    # ------------------------------------------------------------------ its processes

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        assert self._process is None
        until = time.monotonic() + _START_SECONDS
        while True:
            words = [str(postgresql() / "postgres"), "-D", str(self.directory / "data")]
            with (self.directory / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [*words, *self._words()],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    **_as_ordinary_user(),
                )
            while self._process.poll() is None:
                try:
                    self.connection().close()
                    return
                except psycopg.OperationalError:
                    assert time.monotonic() < until, (self.directory / "log").read_text()
                    time.sleep(0.02)
            # After a kill its shared memory is in use for a moment; or the port was taken.
            assert time.monotonic() < until, (self.directory / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in an orderly way; connected clients are disconnected."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill all its processes at once."""
        for pid in reversed(self.pids):
            _signal(pid, signal.SIGKILL)
        self._end(signal.SIGKILL)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """None of its processes does anything meanwhile; connections stay."""
        pids = self.pids
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in {*pids, *self.pids}:
                _signal(pid, signal.SIGCONT)

    @property
    def pids(self) -> list[int]:
        if self._process is None:
            return []
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [pid, *map(int, children.read_text().split() if children.exists() else ())]

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(_START_SECONDS)

    def _words(self) -> list[str]:
        settings = {
            **self.settings,
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
        }
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    _give(directory)
    return directory


def _as_ordinary_user() -> dict[str, Any]:
    """How to start a program that root must not run."""
    return {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}


def _give(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, "nobody")


def _run(words: list[str], directory: Path) -> None:
    done = subprocess.run(
        words, cwd=directory, capture_output=True, text=True, timeout=120, **_as_ordinary_user()
    )
    assert done.returncode == 0, done.stderr


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
