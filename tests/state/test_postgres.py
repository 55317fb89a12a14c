"""A state in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_client import PostgresState
from tests.postgres import PASSWORD
from tests.state.contract import TellingStateContract


class TestPostgresState(TellingStateContract):
    opener = "mcp_client:PostgresState"

    @pytest.fixture
    def address(self, database: str) -> str:
        return database


@pytest.fixture
def state(database: str) -> Iterator[PostgresState]:
    state = PostgresState(database)
    yield state
    state.close()


def test_its_repr_names_the_database_and_no_password(state: PostgresState) -> None:
    assert repr(state).startswith("PostgresState(postgresql://127.0.0.1:")
    assert PASSWORD not in repr(state)
    assert "tester" not in repr(state)
