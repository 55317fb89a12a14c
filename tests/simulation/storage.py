"""The storage that the clients of a simulated life share, and what kills a client in the middle.

Each client is a process of its own, with a ``SimState`` of its own on the one ``Disk``. Using it
takes a thread, and so an unknown time; it fails before or after it has done what it was asked for.
Nothing that a killed client still does has an effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from mcp_client.approval import tickets
from mcp_client.errors import ConfigError, StateError
from mcp_client.runtime.backoff import doubled
from mcp_client.runtime.storage import Change, MemoryStorage, Object
from mcp_client.session import journal
from mcp_client.state import lease
from mcp_client.state.state import State

from .loops import replace, spawn
from .world import World, faults

__all__ = ["Disk", "SimState", "process"]

T = TypeVar("T")
faults("storage fails before", "storage fails after", "storage cannot be used", "stores no results")
process: ContextVar[str] = ContextVar("process", default="")
"""The client whose code runs."""


class Disk(MemoryStorage):
    """What survives the clients."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def install(self, stack: ExitStack) -> None:
        world = self._world
        for where in (lease, tickets):
            replace(stack, where, "process_id", process.get)
            replace(stack, where, "is_alive", lambda name: name not in world.dead)
        if world.fault("stores no results", "disk"):
            replace(stack, journal, "MAX_RESULT_BYTES", 10)
        begin = lambda mine: _begin(world, mine)  # noqa: E731 - partials do not bind
        replace(stack, lease.Lease, "_start", begin)
        world.checks.append(self._no_claim_is_left)

    def _no_claim_is_left(self) -> None:
        for key, row in self.list("calls").items():
            if (
                row["state"] != "settled"
                and row["lease"]
                and row["process"] not in self._world.dead
            ):
                self._world.fail(f"{key}: its caller has ended, and its claim is {row['state']}")


class SimState(State):
    """The storage as one client has it."""

    def __init__(self, world: World, disk: Disk, client: str) -> None:
        self._world, self._disk, self._client = world, disk, client
        self._stamps = itertools.count()

    def _used(self, function: Callable[..., T], kind: str, *args: Any) -> T:
        world, client = self._world, self._client
        if client in world.dead:
            raise StateError("this client was killed")
        if world.fault("storage fails before", client):
            raise StateError(f"the storage of {kind} cannot be reached")
        if kind == "decisions" and world.fault("storage cannot be used", client):
            raise ConfigError("the storage of decisions cannot be used")
        result = function(kind, *args)
        if world.fault("storage fails after", client):
            raise StateError(f"the storage of {kind} was lost before it answered")
        return result

    def get(self, kind: str, key: str) -> Object | None:
        return self._used(self._disk.get, kind, key)

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        return self._used(self._disk.change, kind, key, function)

    def list(self, kind: str) -> dict[str, Object]:
        return self._used(self._disk.list, kind)

    def stamp(self, kind: str) -> Hashable:
        if "storage cannot be used" in self._world.rates:
            return next(self._stamps)  # another process changes what is beside it
        return self._disk.stamp(kind)


class _Thread:
    def join(self, seconds: float) -> None: ...


def _begin(world: World, mine: Any) -> None:
    """What ``Lease._start`` does, without a thread: called with the lock held."""
    if mine._thread is None and (mine._storage.waits or mine._left):
        mine._closing, mine._thread = False, _Thread()
        spawn(world, partial(_renew, mine))


async def _renew(mine: Any) -> None:
    failures, worked = 0, anyio.current_time()
    while mine._left or (mine._under_way and not mine._closing):
        due = doubled(0.5, failures, 15.0) if mine._left else 15.0
        if anyio.current_time() - worked >= due:
            worked = anyio.current_time()
            done = await anyio.to_thread.run_sync(mine._work)
            failures = 0 if done else failures + 1
        else:
            await anyio.sleep(0.5)
    mine._thread = None
