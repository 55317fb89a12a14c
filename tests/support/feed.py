"""A list of tools without a session: what it is fetched from, and a subscription to drive it."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from mcp_client import Limits, Timeouts
from mcp_client.catalog.read_requests import Page
from mcp_client.catalog.subscription import ListSubscription
from mcp_client.protocol.era import TOOLS
from mcp_client.runtime.session_context import SessionContext

__all__ = ["Feed", "source_of"]


class Feed(ListSubscription):
    """Reports of itself what the test sets: whether a change would be received."""

    def __init__(self) -> None:
        super().__init__("files", TOOLS, 1.0)
        self.stream: int | None = 1
        self.used = 0

    @property
    def epoch(self) -> int | None:
        return self.stream

    def use(self) -> None:
        self.used += 1


class KnownAs:
    """Credentials of a test's choice, the same for a whole fetch."""

    def __init__(self, user: Callable[[], Hashable]) -> None:
        self._user = user

    async def current(self) -> Hashable:
        return self._user()

    @contextmanager
    def recorded(self) -> Iterator[set[Hashable]]:
        yield {self._user()}


def source_of(
    fetch: Callable[[Mapping[str, Any]], Any],
    now: Callable[[], float],
    limits: Limits | None = None,
    seconds: float = float("inf"),
    user: Callable[[], Hashable] = lambda: None,
    *,
    in_headers: bool = False,
) -> Any:
    era = SimpleNamespace(has_tasks=False, mirrors=True)

    async def page(method: str, fields: Mapping[str, Any]) -> Page:
        found: dict[str, Any] = await fetch(fields)
        return Page(found, len(json.dumps(found)))

    context = SessionContext("files", Timeouts(total=seconds), limits or Limits())
    transport = SimpleNamespace(
        credentials=KnownAs(user), origin=None, has_headers=in_headers, era=era
    )
    connection = SimpleNamespace(transport=transport, generation=1)
    return SimpleNamespace(context=context, page=page, now=now, connection=connection)
