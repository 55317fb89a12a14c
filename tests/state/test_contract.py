"""States that are wrong on purpose: the contract finds each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable

import pytest

from mcp_client.runtime.storage import Change, Object, Storage
from mcp_client.state import PostgresState
from tests.state.contract import DatabaseStateContract

pytestmark = pytest.mark.one_backend


class LostUpdate(PostgresState):
    """Another may write between its reading and its writing."""

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        changed = function(self.get(kind, key))
        return super().change(kind, key, lambda found: changed)


class OwnStamp(PostgresState):
    """Notices only its own changes."""

    changes = 0

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        self.changes += 1
        return super().change(kind, key, function)

    def stamp(self, kind: str) -> Hashable:
        return self.changes


class NewestStamp(PostgresState):
    """Goes by the change that began last."""

    def stamp(self, kind: str) -> Hashable:
        query = f"select max(xmin::text::bigint) from {self._table('object')} where kind = %s"
        with self._connection() as connection:
            row = connection.execute(query.encode(), (kind,)).fetchone()
        return str(row)


class Acknowledged(PostgresState):
    """Keeps what it acknowledged only from the next change on."""

    late: Callable[[], object] | None = None

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        if self.late is not None:
            self.late()
        found = self.get(kind, key)
        changed = function(found)
        self.late = lambda: super(Acknowledged, self).change(kind, key, lambda found: changed)
        return changed


class SecretOfItsOwn(PostgresState):
    """Each process makes a secret."""

    def secret(self, name: str) -> bytes:
        self.remove("keys", [name])
        return super().secret(name)


class NoRemoval(PostgresState):
    """Removes nothing that is to be removed together."""

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        pass


class SharedObjects(PostgresState):
    """Gives out what it keeps itself."""

    known: dict[str, Object]

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        self.known = getattr(self, "known", {})
        for key, found in super().several(kind, keys).items():
            if json.dumps(self.known.get(key)) != json.dumps(found):
                self.known.setdefault(key, found)
        return {key: self.known[key] for key in keys if key in self.known}


WRONG: list[tuple[type[PostgresState], str]] = [
    (LostUpdate, "threads_that_change_one_object_lose_nothing"),
    (OwnStamp, "what_one_writes_another_reads"),
    (NewestStamp, "changes_that_end_in_another_order_than_they_began_give_another_stamp_each"),
    (Acknowledged, "what_one_writes_another_reads"),
    (SecretOfItsOwn, "a_secret_is_made_once_and_each_has_its_own"),
    (NoRemoval, "several_are_removed_at_once_and_those_that_are_not_there_already_are"),
    (SharedObjects, "what_a_caller_does_to_an_object_it_got_changes_nothing"),
]


@pytest.mark.parametrize(("wrong", "test"), WRONG, ids=lambda one: getattr(one, "__name__", ""))
def test_a_state_that_is_wrong_fails(wrong: type[PostgresState], test: str, database: str) -> None:
    opened: list[PostgresState] = []

    class Contract(DatabaseStateContract):
        def open(self, address: str) -> Storage:
            opened.append(wrong(address))
            return opened[-1]

    contract = Contract()
    run = getattr(contract, f"test_{test}")
    takes_state = "state" in run.__code__.co_varnames[: run.__code__.co_argcount]
    try:
        with pytest.raises(AssertionError):
            run(contract.open(database) if takes_state else database)
    finally:
        for state in opened:
            state.close()
