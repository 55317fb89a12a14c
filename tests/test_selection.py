"""``tests.support.selection`` loses no test, and leaves to CI what its docstring states."""

from __future__ import annotations

import operator
from itertools import islice
from typing import Any, cast

import pytest

from tests.support.selection import (
    CONFINED,
    begin_with_long_ones,
    is_twice_the_same,
    leave_products_to_ci,
)


class Item:
    """What the selection reads of a collected test."""

    def __init__(self, nodeid: str, *marks: str, **params: str) -> None:
        self.nodeid = f"{nodeid}[{'-'.join(params.values())}]" if params else nodeid
        self.marks = list(marks)
        if params:
            self.callspec = type("CallSpec", (), {"params": params})

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark.name)


def chosen(items: list[Item]) -> list[Item]:
    leave_products_to_ci(cast(list[pytest.Item], items))
    return [item for item in items if "slow" not in item.marks]


def each_way(nodeid: str, **ways: tuple[str, ...]) -> list[Item]:
    items = [dict[str, str]()]
    for name, values in ways.items():
        items = [{**item, name: value} for item in items for value in values]
    return [Item(nodeid, **params) for params in items]


BACKENDS = ("asyncio", "trio")


def test_a_test_with_parameters_has_all_on_asyncio_and_the_first_on_trio() -> None:
    items = each_way("tests/host/test_a.py::test_b", anyio_backend=BACKENDS, size=("1", "2", "3"))
    assert [item.nodeid.partition("[")[2] for item in chosen(items)] == [
        "asyncio-1]", "asyncio-2]", "asyncio-3]", "trio-1]",
    ]  # fmt: skip


def test_each_test_has_a_first_of_its_own() -> None:
    one = each_way("tests/host/test_a.py::test_b", anyio_backend=BACKENDS)
    other = each_way("tests/host/test_a.py::test_c", anyio_backend=BACKENDS)
    plain = Item("tests/host/test_a.py::test_d")
    assert chosen([*one, *other, plain]) == [*one, *other, plain]


@pytest.mark.parametrize("file", ["tests/journeys/test_a.py", "tests/transports/test_contract.py"])
def test_each_transport_is_tried_on_each_backend(file: str) -> None:
    items = each_way(f"{file}::test_b", way=("stdio", "http"), anyio_backend=BACKENDS)
    assert chosen(items) == items


def test_a_login_goes_through_the_pool() -> None:
    ways = {"http_way": ("pool", "httpx"), "anyio_backend": BACKENDS}
    login = each_way("tests/auth/test_a.py::test_b", **ways)
    assert chosen(login) == login[:2]
    other = each_way("tests/auth/test_httpx_auth.py::test_b", http_way=("pool", "httpx"))
    assert chosen(other) == other


def test_what_is_slow_is_not_the_first_on_trio() -> None:
    slow = Item("tests/host/test_a.py::test_b", "slow", anyio_backend="trio", size="1")
    quick = Item("tests/host/test_a.py::test_b", anyio_backend="trio", size="2")
    assert chosen([slow, quick]) == [quick]


@pytest.mark.parametrize("workers", [1, 3, 4])
@pytest.mark.parametrize("longs", [0, 1, 5, 23])
def test_each_worker_begins_with_its_share_of_the_long_ones(workers: int, longs: int) -> None:
    items = [Item(f"test_{n}", *["slow", "interop"][n % 2 : n % 2 + 1]) for n in range(longs)]
    items += [Item(f"test_{n}") for n in range(longs, 50)]
    before = list(items)
    begin_with_long_ones(cast(list[pytest.Item], items), workers)
    assert len(items) == 50
    assert {*items} == {*before}
    rest = iter(items)
    for left in range(workers, 0, -1):  # as xdist's worksteal gives them out
        share = [bool(item.marks) for item in islice(rest, operator.length_hint(rest) // left)]
        assert share == sorted(share, reverse=True)
        assert longs // workers <= sum(share) <= -(-longs // workers)


def test_a_sandbox_is_tried_on_one_backend() -> None:
    ways = ("loop", CONFINED)
    items = each_way("tests/hostile/test_a.py::test_b", process_way=ways, anyio_backend=BACKENDS)
    left = [item for item in items if not is_twice_the_same(cast(pytest.Item, item))]
    assert [item.nodeid.partition("[")[2] for item in left] == [
        "loop-asyncio]", "loop-trio]", f"{CONFINED}-asyncio]",
    ]  # fmt: skip
    assert not is_twice_the_same(cast(pytest.Item, Item("tests/hostile/test_a.py::test_c")))
