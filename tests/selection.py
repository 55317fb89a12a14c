"""Which of the collected tests run, and in what order: pairs by default, all products in CI."""

from __future__ import annotations

import pytest

from tests.stdio_ways import CONFINED

__all__ = ["begin_with_long_ones", "is_twice_the_same", "leave_products_to_ci"]

PRODUCTS = ("tests/journeys/", "tests/transports/test_contract.py")
"""Where each transport is tried on each backend, by default too."""
OF_LOGINS = "tests/auth/"
BY_ITSELF = "tests/auth/test_httpx_auth.py"


def is_twice_the_same(item: pytest.Item) -> bool:
    """Servers in a sandbox are tried on one backend: what they are to it, the others are too."""
    chosen = getattr(item, "callspec", None)
    return chosen is not None and (
        chosen.params.get("process_way") == CONFINED
        and chosen.params.get("anyio_backend") == "trio"
    )


def begin_with_long_ones(items: list[pytest.Item], workers: int) -> None:
    """Let each worker begin with its share of the tests that take or wait long: one that began last
    would keep all other workers waiting. xdist gives each worker a part of this list, in order."""
    is_long = [any(map(item.get_closest_marker, ("slow", "interop"))) for item in items]
    others = [item for item, long in zip(items, is_long, strict=True) if not long]
    longs = [item for item, long in zip(items, is_long, strict=True) if long]
    items.clear()
    for left in range(workers, 0, -1):
        size = (len(longs) + len(others)) // left
        count = len(longs) // left
        items += longs[:count] + others[: size - count]
        del longs[:count], others[: size - count]


def leave_products_to_ci(items: list[pytest.Item]) -> None:
    """Of ways that do not depend on one another, try pairs by default: a test with parameters has
    all of them on asyncio and the first on trio, and a login, which does not know how its requests
    travel, goes through the pool. All products are tried in CI."""
    on_trio: set[str] = set()
    for item in items:
        chosen = getattr(item, "callspec", None)
        if chosen is None or item.get_closest_marker("slow"):
            continue
        name = item.nodeid.partition("[")[0]
        if chosen.params.get("anyio_backend") == "trio" and not name.startswith(PRODUCTS):
            if name in on_trio:
                item.add_marker(pytest.mark.slow)
            on_trio.add(name)
        is_of_a_login = name.startswith(OF_LOGINS) and not name.startswith(BY_ITSELF)
        if chosen.params.get("http_way") == "httpx" and is_of_a_login:
            item.add_marker(pytest.mark.slow)
