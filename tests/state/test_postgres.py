"""A state in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from mcp_client import Allow, ApprovalQueue, Deny
from mcp_client.approval import queue as approval_queue
from mcp_client.runtime.callbacks import in_thread
from mcp_client.state import PostgresState
from mcp_client.state.database import Listener
from tests.state.contract import DatabaseStateContract
from tests.support.postgres import PASSWORD
from tests.support.terminal import call_of


class TestPostgresState(DatabaseStateContract):
    opener = "mcp_client.state:PostgresState"

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


def test_two_states_of_one_schema_are_one_place_and_those_of_two_are_not(database: str) -> None:
    one, same, other = (PostgresState(database, schema=name) for name in ("a", "a", "b"))
    assert one.place == same.place != other.place
    assert PASSWORD not in str(one.place)


# --------------------------------------------------------------------- notifications


async def until_pending(queue: ApprovalQueue) -> str:
    async with queue.changes() as changes:
        async for pending in changes:
            return pending[0].id
    raise AssertionError("unreachable")


@pytest.fixture
def no_slow_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a wait ends by a notification, or not at all."""
    monkeypatch.setattr(approval_queue, "_SLOW_LOOK_SECONDS", 3_600.0)


@pytest.mark.usefixtures("no_slow_look")
async def test_a_decision_made_elsewhere_wakes_the_call_that_waits_and_its_question_the_page(
    database: str,
) -> None:
    here, there = PostgresState(database), PostgresState(database)
    mine, theirs = ApprovalQueue(decisions=here.decisions), ApprovalQueue(decisions=there.decisions)
    answers = []

    async def ask() -> None:
        answers.append(await mine(call_of()))

    with anyio.fail_after(30):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                id = await until_pending(theirs)
                await in_thread(
                    theirs.decide,
                    id,
                    Allow(),
                )
    assert [type(decision) for decision in answers] == [Allow, Allow]
    here.close()
    there.close()


async def test_a_call_that_waits_finds_the_decision_where_no_notification_comes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_queue, "_SLOW_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(Listener, "_notify", lambda *progress: None)
    here, there = PostgresState(database), PostgresState(database)
    mine, theirs = ApprovalQueue(decisions=here.decisions), ApprovalQueue(decisions=there.decisions)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mine, call_of())
            await in_thread(theirs.decide, await until_pending(theirs), Deny("no"))
    here.close()
    there.close()
