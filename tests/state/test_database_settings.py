"""The settings of a database change nothing of what is stored in it."""

from __future__ import annotations

import psycopg
import pytest

from mcp_client.audit import verify_audit
from mcp_client.state import PostgresState


@pytest.mark.parametrize(
    "setting",
    [
        "standard_conforming_strings = off",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
        "default_transaction_isolation = 'serializable'",
        "search_path = 'nowhere'",
    ],
)
def test_settings_of_the_database_change_nothing(setting: str, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"alter database {database.rpartition('/')[2]} set {setting}".encode())
    state = PostgresState(database)
    for key in ("a", "\0", "\ud800", "ä\\x'"):
        _keep(state, key)
        assert state.get("thing", key) == {"key": key, "due": 10**400}
    state.audit.append({"event": "other", "text": "\\u0000 \\' \ud800"})
    assert verify_audit(state).lines == 2
    state.close()


def test_a_database_without_an_encoding_is_as_good_as_any(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create database ascii encoding 'SQL_ASCII' template template0")
    state = PostgresState(database.rpartition("/")[0] + "/ascii")
    state.change("thing", "ä\0", lambda found: {"text": "ä"})
    state.audit.append({"event": "other", "text": "ä"})
    assert state.list("thing") == {"ä\0": {"text": "ä"}}
    assert verify_audit(state).lines == 2
    state.close()


def _keep(state: PostgresState, key: str) -> None:
    state.change("thing", key, lambda found: {"key": key, "due": 10**400})
