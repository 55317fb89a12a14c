"""The audit in a database: one chain a process, all of them verified, nothing written twice."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mcp_client import AuditLog, ConfigError, allow_all, connect
from mcp_client.audit import database_log, verify_audit
from mcp_client.audit.database_log import DatabaseLog
from mcp_client.errors import AuditError, StateError
from mcp_client.state import MemoryState, PostgresState
from mcp_client.transports.memory import MemoryTransport

KEY = b"0123456789abcdef"
BOUND = 120.0

pytestmark = pytest.mark.one_backend


@pytest.fixture
def state(database: str) -> Iterator[PostgresState]:
    state = PostgresState(database, key=KEY)
    yield state
    state.close()


def opened(call: str = "1", **more: Any) -> dict[str, Any]:
    return {"event": "opened", "process": 7, "call": call, "server": "s", "tool": "t", **more}


def closed(call: str = "1", **more: Any) -> dict[str, Any]:
    return {"event": "closed", "process": 7, "call": call, "outcome": "ok", **more}


def sql(database: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set search_path to mcp_client")
        done = connection.execute(statement, values or None)
        return done.fetchall() if done.description else []


def other_chain(state: PostgresState) -> DatabaseLog:
    """As another process has one."""
    return DatabaseLog(state)


def events(state: PostgresState) -> list[str]:
    return [json.loads(line)["event"] for _, _, line in state.audit.records()]


def test_what_is_appended_is_verified_with_the_calls_that_are_open(state: PostgresState) -> None:
    state.audit.append(opened("1"), opened("2"))
    state.audit.append(closed("1"))
    found = verify_audit(state)
    assert (found.lines, found.calls, found.keyed, found.earlier) == (4, 2, True, 0)
    assert [(call.call, call.line) for call in found.open_calls] == [("2", 3)]
    assert found.open_calls[0].file == found.files[0]
    assert verify_audit(state.audit, noted=found.last_hash) == found


def test_a_database_without_records_is_intact_and_empty(state: PostgresState) -> None:
    found = verify_audit(state)
    assert (found.lines, found.files, found.last_hash) == (0, (), "0" * 64)


def test_the_first_line_of_a_chain_names_who_writes_it_and_which_there_were(
    state: PostgresState,
) -> None:
    state.audit.append(opened())
    other = other_chain(state)
    other.append(closed())
    first = [json.loads(line) for _, number, line in other.records() if number == 1]
    assert [one["event"] for one in first] == ["begun", "begun"]
    assert first[0]["after"] == []
    (named,) = first[1]["after"]
    assert named[1:3] == [first[0]["chain"], 2]
    assert all(one["host"] and one["process"] and one["time"] for one in first)


def test_a_call_opened_by_one_process_may_be_closed_by_another(state: PostgresState) -> None:
    first, second = other_chain(state), other_chain(state)
    second.append(opened("x"))
    first.append(opened("y"))
    second.append(closed("y", process=8, opened_by=7))
    first.append(closed("x", process=9, opened_by=7))
    assert verify_audit(state).open_calls == ()


@pytest.mark.parametrize(
    "text", ["\0", "\ud800", "'); drop table x; --", "ä" * 10_000, "\\u0000", "%s {lines}"]
)
def test_any_text_and_number_of_a_record_comes_back(text: str, state: PostgresState) -> None:
    record = {"event": "other", "text": text, text: [10**400, 1e308, -0.0, None]}
    state.audit.append(record)
    *_, (_, _, line) = state.audit.records()
    displayed = json.loads(line)
    assert {name: displayed[name] for name in record} == record
    assert verify_audit(state).lines == 2


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": object()}, {"a": "x" * 600_000}])
def test_a_record_that_cannot_be_written_spoils_no_other(
    odd: dict[str, Any], state: PostgresState
) -> None:
    state.audit.append(opened())
    with pytest.raises((AuditError, TypeError, ValueError)):
        state.audit.append(odd)
    state.audit.append(closed())
    assert verify_audit(state).lines == 3


def test_threads_that_append_at_once_lose_no_line_and_share_writes(state: PostgresState) -> None:
    log = state.audit

    def append() -> None:
        for _ in range(20):
            log.append(opened(), closed())

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert verify_audit(state).lines == 1 + 8 * 20 * 2


PROCESS = """
import sys
from mcp_client.state import PostgresState

state = PostgresState(sys.argv[1], key=b"0123456789abcdef")
for number in range(50):
    state.audit.append({"event": "opened", "process": 1, "call": str(number)})
state.close()
"""


@pytest.mark.slow
def test_each_process_writes_a_chain_of_its_own(database: str, state: PostgresState) -> None:
    words = [sys.executable, "-c", PROCESS, database]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    found = verify_audit(state)
    assert (len(found.files), found.lines) == (3, 3 * 51)


TAMPERED = {
    "changed": "update audit_line set text = replace(text, '\"s\"', '\"r\"') where line = 3",
    "removed from the middle": "delete from audit_line where line = 3",
    "cut": "delete from audit_line where line = 5",
    "cut, with its row": """
        with cut as (delete from audit_line where line = 5 and chain = {0}),
             last as (select text from audit_line where line = 4 and chain = {0})
        update audit_chain set line = 4,
            hash = substring((select text from last) from '(.{{64}}).{{2}}$')
        where chain = {0}""",
    "moved": "update audit_line set line = 50 where line = 5",
    "swapped": """update audit_line as one set text = other.text from audit_line as other
        where one.chain = other.chain and one.line in (3, 4) and other.line = 7 - one.line""",
    "all lines removed": "delete from audit_line where chain = {0}",
    "its row removed": "delete from audit_chain where chain = {0}",
    "its row changed": "update audit_chain set line = 4 where chain = {0}",
    "its number changed": """alter table audit_chain alter number set generated by default;
        update audit_chain set number = 900 where chain = {1}""",
    "all of it removed": """with lines as (delete from audit_line where chain = {1})
        delete from audit_chain where chain = {1}""",
    "renamed": "update audit_line set chain = 'other' where chain = {0}",
    "a line inserted": """insert into audit_line
        select chain, 6, text from audit_line where line = 5""",
    "not a line": "update audit_line set text = 'nonsense' where line = 1",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_done_to_the_tables_is_found(
    how: str, state: PostgresState, database: str
) -> None:
    for _ in range(3):
        other_chain(state).append(*[opened()] * 4)
    names = [
        f"'{row[0]}'" for row in sql(database, "select chain from audit_chain order by number")
    ]
    statement = TAMPERED[how].format(*names)
    sql(database, statement)
    with pytest.raises(AuditError) as caught:
        verify_audit(state)
    assert "not as it was written" in str(caught.value)


def test_a_line_cannot_be_forged_without_the_key(state: PostgresState, database: str) -> None:
    state.audit.append(opened())
    forger = PostgresState(database, key=b"another key of 16")
    with pytest.raises(AuditError, match="the key is not the one"):
        verify_audit(forger)
    forger.close()


def test_an_end_that_nothing_names_is_missed_only_where_it_was_noted(
    state: PostgresState, database: str
) -> None:
    other_chain(state).append(opened())
    before = verify_audit(state)
    log = other_chain(state)
    log.append(opened())
    noted = verify_audit(state).last_hash
    assert noted != before.last_hash
    sql(database, "delete from audit_line where chain = %s", log._name)
    sql(database, "delete from audit_chain where chain = %s", log._name)
    assert verify_audit(state) == before
    with pytest.raises(AuditError, match="noted"):
        verify_audit(state, noted=noted)


def test_the_oldest_chains_may_be_deleted_whole(state: PostgresState, database: str) -> None:
    logs = [other_chain(state) for _ in range(3)]
    for log in logs:
        log.append(opened())
    sql(database, "delete from audit_line where chain = %s", logs[0]._name)
    sql(database, "delete from audit_chain where chain = %s", logs[0]._name)
    found = verify_audit(state)
    assert (found.earlier, found.lines) == (2, 4)


@pytest.mark.parametrize("how", ["cut", "deleted"])
def test_a_process_notices_that_its_last_line_is_gone(
    how: str, state: PostgresState, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = state.audit
    log.append(opened())
    before = sql(database, "select line, hash from audit_chain")[0]
    log.append(closed())
    sql(
        database,
        "delete from audit_line where line = 3" if how == "cut" else "delete from audit_line",
    )
    if how == "cut":
        sql(database, "update audit_chain set line = %s, hash = %s", *before)
    else:
        sql(database, "delete from audit_chain")
    with caplog.at_level(logging.ERROR, "mcp_client"):
        log.append(opened("2"))
    assert "line 3 was its last" in caplog.text
    assert len(log.take_losses()) == 1
    assert log.take_losses() == []
    assert events(state)[-2:] == ["begun", "opened"]
    if how == "cut":
        with pytest.raises(AuditError, match="cut off"):
            verify_audit(state)
    else:
        assert verify_audit(state).lost == 1


class _Lost:
    """A connection that is lost right after a statement was done, or before it."""

    def __init__(self, connection: Any, *, done: bool) -> None:
        self.connection, self.done = connection, done

    def transaction(self) -> Any:
        return self.connection.transaction()

    def execute(self, statement: str, values: Any = ()) -> Any:
        if "unnest" not in statement:
            return self.connection.execute(statement, values)
        if self.done:
            self.connection.execute(statement, values)
        raise StateError("the connection was lost")


@pytest.mark.parametrize("done", [True, False])
def test_a_write_whose_outcome_is_unknown_is_done_once(
    done: bool, state: PostgresState, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = state.audit
    log.append(opened("1"))
    whole = DatabaseLog._appended
    with monkeypatch.context() as lossy:
        lossy.setattr(
            DatabaseLog,
            "_appended",
            lambda self, connection, records: whole(self, _Lost(connection, done=done), records),
        )
        with pytest.raises(StateError):
            log.append(closed("1"))
        with pytest.raises(StateError):
            log.append(opened("2"))
    log.append(opened("3"))
    log.append(dict(closed("1")), opened("2"), closed("2"))
    assert verify_audit(state).lost == 0
    lines = [json.loads(line) for _, _, line in log.records()][1:]
    reported = sorted((line["call"], line["event"]) for line in lines)
    assert reported == [
        ("1", "closed"), ("1", "opened"), ("2", "closed"), ("2", "opened"), ("3", "opened")
    ]  # fmt: skip


def test_what_is_stored_is_written_by_itself_and_before_all_else(
    state: PostgresState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_log, "_RETRY_SECONDS", (0.01, 0.01))
    log = state.audit
    log.keep([closed("1")])
    until = time.monotonic() + BOUND
    while log.has_unwritten or log._retrying is not None:
        assert time.monotonic() < until
        time.sleep(0.001)
    monkeypatch.setattr(database_log, "_RETRY_SECONDS", (BOUND, BOUND))
    log.keep([closed("2")])
    log.append(opened("3"))
    assert not log.has_unwritten
    calls = [json.loads(line).get("call") for _, _, line in log.records()]
    assert calls == [None, "1", "2", "3"]
    thread = log._retrying
    log.close()
    assert thread is not None
    thread.join(BOUND)
    assert not thread.is_alive()


def test_an_exported_chain_is_verified_as_a_file(state: PostgresState, tmp_path: Path) -> None:
    for _ in range(2):
        other_chain(state).append(opened(), closed())
    files = state.audit.export(tmp_path / "out")
    assert len(files) == 2
    for file in files:
        found = verify_audit(file, key=KEY)
        assert (found.lines, found.calls, found.keyed) == (3, 1, True)
        assert file.stat().st_mode & 0o777 == 0o600
        AuditLog(file, key=KEY).append(opened())
        assert verify_audit(file, key=KEY).lines == 4
    with pytest.raises(ConfigError, match="File exists"):
        state.audit.export(tmp_path / "out")


def test_a_state_that_keeps_no_audit_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="has no audit"):
        verify_audit(MemoryState())


def test_a_forked_child_writes_a_chain_of_its_own(state: PostgresState) -> None:
    log = state.audit
    log.append(opened("1"))
    log._process = -1  # as in a child
    log.append(opened("2"))
    assert len(verify_audit(state).files) == 2


async def test_the_end_of_a_call_by_key_is_one_transaction_with_its_record(
    database: str, state: PostgresState
) -> None:
    server = MemoryTransport(echoing)
    async with connect(server, approval=allow_all, state=state) as session:
        await session.call_tool("echo", idempotency_key="k")
    (line, settled), *_ = sql(
        database,
        """select line.xmin::text, object.xmin::text from audit_line as line, object
        where line.text like '%"event":"closed"%' and object.kind = 'calls'""",
    )
    assert line == settled


async def echoing(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": []}
    return NotImplemented


def test_a_change_that_fails_takes_its_record_back(state: PostgresState) -> None:
    log = state.audit
    log.append(opened("1"))

    def change(also: Any) -> None:
        if also is None:
            state.change("calls", "k", lambda found: {"n": 1})
            return
        state._change("calls", "k", lambda found: {"n": 1}, also)
        raise StateError("the answer was lost")

    with pytest.raises(StateError):
        log.append_in(change, closed("1"))  # it was done, and its outcome is not known
    with pytest.raises(ZeroDivisionError):
        log.append_in(lambda also: state._change("calls", "k", lambda found: {"n": 1 / 0}, also))
    log.append(closed("1"), opened("2"))
    assert events(state) == ["begun", "opened", "closed", "opened"]
    assert verify_audit(state).lost == 0


def test_the_first_record_of_a_process_may_come_with_a_change(state: PostgresState) -> None:
    changes: list[Any] = []
    state.audit.append_in(changes.append, opened())
    assert changes == [None]
    state.audit.append_in(
        lambda also: state._change("calls", "k", lambda found: {}, also), closed()
    )
    assert events(state) == ["begun", "opened", "closed"]


def test_a_change_on_a_chain_that_was_deleted_is_made_with_the_chain_that_reports_it(
    state: PostgresState, database: str
) -> None:
    state.audit.append(opened())
    sql(database, "delete from audit_line")
    sql(database, "delete from audit_chain")
    tried: list[bool] = []

    def change(also: Any) -> None:
        tried.append(also is not None)
        if also is None:
            state.change("calls", "k", lambda found: {"n": 1})
        else:
            state._change("calls", "k", lambda found: {"n": 1}, also)

    state.audit.append_in(change, closed())
    assert tried == [True, False], "with the record, which the chain does not take, then without"
    assert events(state) == ["begun", "closed"]
    assert len(state.audit.take_losses()) == 1


def test_nothing_to_write_writes_nothing(state: PostgresState) -> None:
    log = state.audit
    log.append(opened())
    log.append()
    log.append_in(lambda also: state._change("calls", "k", lambda found: {}, also))
    log.keep([])
    assert log._retrying is None
    assert events(state) == ["begun", "opened"]


def test_a_database_log_that_others_keep_busy_reports_it(
    state: PostgresState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.audit.database_log._PATIENCE", 0.01)
    log = DatabaseLog(state)

    def change(also: object) -> None:
        with pytest.raises(StateError, match="other processes have been writing"):
            log.append_in(lambda also: None, opened())

    log.append(opened())
    log.append_in(change, closed())
