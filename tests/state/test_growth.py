"""The work of a call in a database does not grow with what is stored there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mcp_client import Pins, connect
from mcp_client.state import PostgresState
from mcp_client.state.database import Connection
from tests.bench.state import Known, approve, fill
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.one_backend
_CALLS = 5


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many statements were sent, and how many rows came back."""
    counted: Counter[str] = Counter()
    execute = Connection.execute

    def counting(self: Connection, *args: Any, **options: Any) -> Any:
        cursor = execute(self, *args, **options)
        counted["round trips"] += 1
        counted["rows"] += max(0, cursor.rowcount)
        return cursor

    monkeypatch.setattr(Connection, "execute", counting)
    return counted


def rows_read(server: PostgresServer, url: str) -> int:
    """How many rows the server has read of the objects, since it was started."""
    with server.connection(url.rpartition("/")[2]) as connection:
        row = connection.execute(
            "select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) "
            "from pg_stat_user_tables where relname = 'object'"
        ).fetchone()
    return int(row[0] or 0) if row is not None else 0


async def calls(url: str, name: str) -> None:
    state = PostgresState(url)
    options: dict[str, Any] = {"state": state, "pins": Pins(state), "approval": approve}
    async with connect(Known(), name="bench", **options) as session:
        for n in range(_CALLS):
            await session.call_tool("echo", {"n": 1}, idempotency_key=f"{name}/{n}")
    state.close()


async def test_a_call_reads_no_more_where_much_is_stored(
    postgres: PostgresServer, database: str, statements: Counter[str]
) -> None:
    await calls(database, "first")
    seen = []
    for name, more in (("few", 100), ("many", 20_000)):
        fill(database, more, more)
        statements.clear()
        before = rows_read(postgres, database)
        await calls(database, name)
        seen.append((*statements.values(), rows_read(postgres, database) - before))
    (few_trips, few_rows, _), (trips, rows, read) = seen
    assert trips <= few_trips
    assert rows <= few_rows + 2
    assert read < 100 * _CALLS, "by an index, and not one after another"
    assert trips < 16 * _CALLS
