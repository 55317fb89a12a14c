"""A database that is away, hangs, is busy, or is not what it should be."""

from __future__ import annotations

import gc
import logging
import os
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from mcp_client import ConfigError, McpError
from mcp_client.errors import StateError
from mcp_client.state import PostgresState
from mcp_client.state import database as bounds
from tests.state.contract import KIND
from tests.support.postgres import PASSWORD, PostgresServer

SECRETS = [PASSWORD, "pass%20word%2Fof%3Atests", "pass%20word"]
USES: list[Callable[[PostgresState], object]] = [
    lambda state: state.get(KIND, "a"),
    lambda state: state.list(KIND),
    lambda state: state.stamp(KIND),
    lambda state: state.change(KIND, "a", lambda found: {"n": 1}),
    lambda state: state.remove(KIND, ["a"]),
    lambda state: state.sweep(KIND, 5),
]


@pytest.fixture
def opened(database: str) -> Iterator[Callable[..., PostgresState]]:
    states: list[PostgresState] = []

    def open_one(dsn: str = database, **options: Any) -> PostgresState:
        states.append(PostgresState(dsn, **options))
        return states[-1]

    yield open_one
    for state in states:
        state.close()


def error_of(use: Callable[[], object]) -> McpError:
    with pytest.raises(McpError) as caught:
        use()
    error = caught.value
    displayed = [repr(error), str(error), *traceback.format_exception(error)]
    displayed += [repr(error.__cause__), repr(error.__context__)]
    assert not [secret for secret in SECRETS for text in displayed if secret in text]
    return error


def down(use: Callable[[], object]) -> StateError:
    error = error_of(use)
    assert isinstance(error, StateError)
    assert error.retryable
    assert not error.busy
    return error


# ------------------------------------------------------------------------- away


def test_one_that_cannot_be_reached_is_reported_at_once_and_leaks_no_thread(
    opened: Callable[..., PostgresState], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    before = threading.active_count()
    state = opened(f"postgresql://tester:{SECRETS[1]}@127.0.0.1:1/none")
    for use in USES:
        error = down(lambda use=use: use(state))  # type: ignore[misc]
        assert "postgresql://127.0.0.1:1/none" in str(error)
    assert threading.active_count() <= before
    assert not [secret for secret in SECRETS if secret in caplog.text]


@pytest.mark.slow
def test_it_is_used_again_after_a_restart_without_a_failed_attempt(
    own_postgres: PostgresServer, opened: Callable[..., PostgresState]
) -> None:
    state = opened(own_postgres.new_database())
    state.change(KIND, "a", lambda found: {"n": 1})
    for end in (own_postgres.stop, own_postgres.kill):
        end()
        for use in USES[:4]:
            down(lambda use=use: use(state))  # type: ignore[misc]
        own_postgres.start()
        assert state.get(KIND, "a") == {"n": 1}
    own_postgres.kill()
    own_postgres.start()
    assert state.get(KIND, "a") == {"n": 1}, "the connection that was lost meanwhile is not used"


@pytest.mark.slow
def test_a_change_whose_connection_is_lost_on_the_way_is_not_made_or_made_once(
    own_postgres: PostgresServer, opened: Callable[..., PostgresState]
) -> None:
    state = opened(own_postgres.new_database())

    def end_it(found: object) -> dict[str, int]:
        own_postgres.kill()
        return {"n": 1}

    down(lambda: state.change(KIND, "a", end_it))
    own_postgres.start()
    assert state.get(KIND, "a") is None


# ------------------------------------------------------------------------ hanging


class Proxy:
    """Passes bytes on, until it swallows them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.swallows = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, function: Callable[..., None], *args: Any) -> None:
        self._threads.append(threading.Thread(target=function, args=args))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [near, far]
            self._start(self._pass_on, near, far)
            self._start(self._pass_on, far, near)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                if not self.swallows:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()


@contextmanager
def proxy_to(server: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()


def test_one_that_swallows_what_it_is_sent_is_given_up_after_a_bound(
    postgres: PostgresServer, opened: Callable[..., PostgresState], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bounds.CONNECT_SECONDS + bounds.RESPONSE_SECONDS < 60
    monkeypatch.setattr(bounds, "RESPONSE_SECONDS", 0.3)
    database = urlsplit(postgres.new_database()).path[1:]
    with proxy_to(postgres) as proxy:
        state = opened(postgres.url(database, port=proxy.port) + "?connect_timeout=2")
        state.change(KIND, "a", lambda found: {"n": 1})
        proxy.swallows = True
        began = time.monotonic()
        assert "it does not respond" in str(down(lambda: state.get(KIND, "a")))
        assert "it does not respond" in str(down(lambda: state.get(KIND, "a"))), "a new connection"
        assert time.monotonic() - began < 60
        proxy.swallows = False
        assert state.get(KIND, "a") == {"n": 1}


# ---------------------------------------------------------------------------- busy


def test_waiting_too_long_for_a_writer_of_the_same_key_is_busy_and_others_go_on(
    opened: Callable[..., PostgresState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LOCK_SECONDS", 0.2)
    state, other = opened(), opened()
    errors: list[McpError] = []

    def hold(found: object) -> dict[str, int]:
        errors.append(error_of(lambda: other.change(KIND, "a", lambda found: None)))
        other.change(KIND, "b", lambda found: {"n": 2})
        return {"n": 1}

    state.change(KIND, "a", hold)
    assert isinstance(errors[0], StateError)
    assert errors[0].busy
    assert state.list(KIND) == {"a": {"n": 1}, "b": {"n": 2}}


def test_having_no_connection_left_is_busy(
    opened: Callable[..., PostgresState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LOCK_SECONDS", 0.1)
    state = opened(pool=1)
    errors: list[McpError] = []

    def use_another(found: object) -> dict[str, int]:
        errors.append(error_of(lambda: state.get(KIND, "b")))
        return {"n": 1}

    state.change(KIND, "a", use_another)
    assert isinstance(errors[0], StateError)
    assert errors[0].busy
    assert "all 1 connections (pool=)" in str(errors[0])
    assert state.get(KIND, "a") == {"n": 1}


def connections_until_refused(url: str) -> Iterator[psycopg.Connection]:
    try:
        while True:
            yield psycopg.connect(url)
    except psycopg.OperationalError:
        return


@pytest.mark.slow
def test_a_server_that_takes_no_more_connections_is_busy(
    postgres_cluster: Any, opened: Callable[..., PostgresState]
) -> None:
    few = {"max_connections": "5", "superuser_reserved_connections": "0"}
    with PostgresServer(postgres_cluster, **few) as server:
        url = server.new_database()
        held = list(connections_until_refused(url))
        error = error_of(lambda: opened(url).get(KIND, "a"))
        assert isinstance(error, StateError)
        assert error.busy
        for each in held:
            each.close()


# ----------------------------------------------------------------- of wrong contents


ODD_DSNS = [
    "",
    "  ",
    "folder/state",
    f"postgresql://u:{SECRETS[1]}@[::1/x",
    f"postgresql://u:{SECRETS[1]}@h/x?nonsense=1",
    f"host=h password='{PASSWORD}",
    f"host=h password='{PASSWORD}' connect_timeout=soon",
    "host=\0",
    "host=\ud800",
    None,
    b"postgresql:///x",
]


@pytest.mark.parametrize("dsn", ODD_DSNS)
def test_what_is_not_dsn_is_refused_without_repeating_it(dsn: Any) -> None:
    error = error_of(lambda: PostgresState(dsn))
    assert isinstance(error, ConfigError)
    assert "postgresql://user@host:5432/database" in str(error)
    assert error.__context__ is None


@pytest.mark.parametrize("schema", ["", "x" * 64, "ü" * 32, "a\0b", "\ud800", None, 5])
def test_a_schema_whose_name_would_be_cut_is_refused(schema: Any, database: str) -> None:
    error = error_of(lambda: PostgresState(database, schema=schema))
    assert isinstance(error, ConfigError)
    assert "1 to 63 bytes" in str(error)


@pytest.mark.parametrize(
    "schema", ['a"b', "A b", "50%s%(x)", "x" * 63, "ü" * 31, "a;drop table x;--", "\U0001f600", "'"]
)
def test_a_schema_is_named_exactly_so(schema: str, opened: Callable[..., PostgresState]) -> None:
    state, plain = opened(schema=schema), opened()
    state.change(KIND, "a", lambda found: {"n": 1})
    assert plain.get(KIND, "a") is None
    with state._connection() as connection:
        names = connection.execute("select nspname from pg_namespace").fetchall()
    assert (schema,) in names


def test_options_of_wrong_types_are_refused(database: str) -> None:
    odd: list[dict[str, Any]] = [{"pool": 0}, {"pool": True}, {"pool": "5"}, {"pool": None}]
    odd += [{"key": b"short"}, {"key": "k" * 32}, {"key": 5}]
    for options in odd:
        (name,) = options
        error = error_of(lambda options=options: PostgresState(database, **options))  # type: ignore[misc]
        assert isinstance(error, ConfigError)
        assert f"PostgresState({name}=" in str(error)


def test_tables_of_another_release_are_refused_on_both_sides(
    opened: Callable[..., PostgresState],
) -> None:
    state = opened()
    state.change(KIND, "a", lambda found: {"n": 1})
    layout = state._table("layout")
    for version, text in ((2, "version 2"), (0, "version 0")):
        with state._connection() as connection:
            connection.execute(f"update {layout} set version = {version}".encode(), ())
        error = error_of(lambda: opened().get(KIND, "a"))
        assert isinstance(error, ConfigError)
        assert re.search(rf"have {text}, and this release needs version 1", str(error))


def test_tables_that_are_gone_are_an_error_once_and_then_made_again(
    opened: Callable[..., PostgresState],
) -> None:
    state = opened()
    state.change(KIND, "a", lambda found: {"n": 1})
    with state._connection() as connection:
        connection.execute(b"drop schema mcp_client cascade", ())
    assert isinstance(error_of(lambda: state.get(KIND, "a")), ConfigError)
    assert state.get(KIND, "a") is None


def test_a_role_that_may_make_nothing_uses_tables_that_are_there(
    postgres: PostgresServer, opened: Callable[..., PostgresState]
) -> None:
    url = postgres.new_database()
    name = urlsplit(url).path[1:]
    with postgres.connection(name) as connection:
        connection.execute(f"create role plain_{name} login password 'simple'".encode())
    plain = url.replace(f"tester:{SECRETS[1]}", f"plain_{name}:simple")
    error = error_of(lambda: opened(plain).get(KIND, "a"))
    assert isinstance(error, ConfigError)
    assert "has no tables, and this role cannot create them" in str(error)
    opened(url).change(KIND, "a", lambda found: {"n": 1})
    error = error_of(lambda: opened(plain).get(KIND, "a"))
    assert isinstance(error, ConfigError)
    assert "permission denied" in str(error)
    with postgres.connection(name) as connection:
        connection.execute(f"grant usage on schema mcp_client to plain_{name}".encode())
        connection.execute(
            "grant select, insert, update, delete on all tables in schema mcp_client "
            f"to plain_{name}".encode()
        )
    state = opened(plain)
    assert state.change(KIND, "a", lambda found: {"n": 2}) == {"n": 2}
    state.remove(KIND, ["a"])


def test_a_database_that_takes_no_changes_now_is_down(
    postgres: PostgresServer, opened: Callable[..., PostgresState]
) -> None:
    url = postgres.new_database()
    opened(url).change(KIND, "a", lambda found: {"n": 1})
    with postgres.connection() as connection:
        name = urlsplit(url).path[1:]
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    state = opened(url)
    assert state.get(KIND, "a") == {"n": 1}
    assert "read-only" in str(down(lambda: state.change(KIND, "a", lambda found: None)))


# ------------------------------------------------------------------- its own resources


def connected(server: PostgresServer, url: str) -> int:
    with server.connection() as connection:
        query = "select count(*) from pg_stat_activity where datname = %s"
        row = connection.execute(query, [urlsplit(url).path[1:]]).fetchone()
    assert row is not None
    return int(row[0])


def until_connected(server: PostgresServer, url: str, wanted: int) -> None:
    until = time.monotonic() + 20
    while connected(server, url) != wanted:
        assert time.monotonic() < until, connected(server, url)
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_what_it_opened_ends_with_it(how: str, postgres: PostgresServer) -> None:
    url, before = postgres.new_database(), threading.active_count()
    state = PostgresState(url)
    notified = threading.Event()
    state.watch(KIND, notified.set)
    state.get(KIND, "a")
    assert notified.wait(20)
    assert connected(postgres, url) == 2
    if how == "closed":
        state.close()
        until_connected(postgres, url, 0)
        assert state.get(KIND, "a") is None, "a later use opens others"
        state.close()
    del state
    gc.collect()
    until_connected(postgres, url, 0)
    until = time.monotonic() + 20
    while threading.active_count() > before:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_forked_child_has_connections_of_its_own_and_ends_none_of_its_parents(
    opened: Callable[..., PostgresState], postgres: PostgresServer
) -> None:
    state = opened()
    state.change(KIND, "a", lambda found: {"n": 1})
    child = os.fork()
    if not child:
        code = 1
        try:
            made = state.change(KIND, "a", lambda found: {"n": (found or {"n": 9})["n"] + 1})
            state.close()
            code = 0 if made == {"n": 2} else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(state._connections._idle) == 1
    assert not state._connections._idle[0].closed
    with state._connection() as connection:
        assert connection.execute(b"select 1", ()).fetchone() == (1,)
    assert state.get(KIND, "a") == {"n": 2}
