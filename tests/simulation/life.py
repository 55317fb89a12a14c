"""One life of a client, from its first connection until nothing of it is left.

The seed draws how the servers are reached, what the callers do and when, and what goes wrong. In
some lives the faults stop at a moment: then everything has to be listed and callable again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_client import CancelToken, Handlers, Timeouts, connect
from mcp_client.connection.retry import Retry
from mcp_client.errors import McpError
from mcp_client.session.connect import Connecting

from .loops import BACKENDS, run
from .network import Network
from .observer import Observer, Seen
from .people import Hook, answer_of
from .servers import SimServer
from .wires import Pipes, memory
from .world import MOMENT, World, faults

__all__ = ["Options", "live"]

WAYS_OUT = faults("token", "scope", "short timeout")
faults("session is closed early", "list is refreshed")
TOOLS = ("work", "work", "turn", "turn", "typed", "odd", "absent")
SLACK = 30.0
"""Seconds of a bound that no clock of the client's counts."""
CONNECT_ATTEMPTS = 6
WIRES = ("memory", "stdio", "http", "http")


@dataclass(frozen=True)
class Options:
    """How a life is to be lived otherwise than the seed alone says."""

    dropped: frozenset[str] = frozenset()
    """Kinds of faults and calls that are left out."""
    calls: int = 99
    """The most that it makes."""
    backend: str = ""
    messages: bool = False
    """Whether the timeline has every message."""

    @property
    def words(self) -> str:
        """These options on a command line."""
        dropped = ",".join(sorted(self.dropped))
        return f"--drop '{dropped}'" + (f" --backend {self.backend}" if self.backend else "")


def live(seed: int, options: Options = Options()) -> World:
    """Live one life, and return its world."""
    world = World(seed, options.dropped, messages=options.messages)
    with ExitStack() as stack:
        life = Life(world, options.calls)
        life.pipes.install(stack)
        life.network.install(stack)
        run(world, options.backend or world.draw("backend", BACKENDS), life.run)
        life.pipes.forget()
    return world


class Life:
    def __init__(self, world: World, most: int) -> None:
        self.world = world
        self.observer = Observer(world)
        self.pipes = Pipes(world)
        self.network = Network(world)
        self._most = most
        draw = world.draw
        self.count = draw("calls", (2, 3, 4, 6))
        self.becomes_calm = draw("liveness", (True, False))
        self.timeouts = Timeouts(
            connect=draw("connect", (5.0, 30.0)),
            idle=draw("idle", (1.0, 60.0)),
            total=draw("total", (61.0, 150.0)),
            approval=draw("approval", (1.0, 60.0, 200.0)),
            close=1.0,
            ping=draw("ping", (None, None, 20.0)),
        )

    async def run(self) -> None:
        server = SimServer(self.world, self.observer, "s")
        self.observer.servers["s"] = server
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.live)
            tasks.start_soon(self._session, "A", server)
        self.observer.judge()

    def _wire(self, client: str, server: SimServer) -> Any:
        match self.world.draw(f"wire of {client}", WIRES):
            case "memory":
                return memory(self.world, client, server)
            case "stdio":
                return self.pipes.stdio(client, server)
        return self.network.http(client, server)

    async def _session(self, client: str, server: SimServer) -> None:
        world = self.world
        wire = self._wire(client, server)
        opening = partial(
            connect,
            wire,
            name=server.name,
            approval=Hook(world, self.observer, client),
            handlers=Handlers(elicitation=answer_of(world)),
            audit=self.observer.record,
            timeouts=self.timeouts,
        )
        session = await self._connected(client, opening)
        if session is None:
            return
        async with anyio.create_task_group() as tasks:
            for number in range(min(self.count, self._most)):
                if world.has(f"c{number}"):
                    tasks.start_soon(self._call, f"c{number}", session)
            tasks.start_soon(self._other_uses, client, session)
        if self.becomes_calm:
            world.calm = True
            await self._recovers(client, session, server)
        await session.aclose()
        world.note(client, "is closed")

    async def _connected(self, client: str, opening: Callable[[], Connecting]) -> Any:
        world = self.world
        for _ in range(CONNECT_ATTEMPTS):
            try:
                session = await opening()
            except McpError as error:
                world.note(client, f"cannot connect: {type(error).__name__}: {error}"[:160])
                world.happened[f"connect: {type(error).__name__}"] += 1
                await anyio.sleep(1)
            else:
                world.note(client, "is connected")
                return session
        return None

    async def _other_uses(self, client: str, session: Any) -> None:
        world = self.world
        for turn in range(3):
            await anyio.sleep(world.latency(f"{client} uses {turn}"))
            if world.fault("list is refreshed", client):
                try:
                    tools = await session.list_tools(refresh=True)
                    world.note(client, f"lists {[tool.description for tool in tools]}")
                except McpError as error:
                    world.note(client, f"cannot list: {error}"[:160])
            if world.fault("session is closed early", client):
                await session.aclose()
                world.note(client, "is closed early")

    async def _call(self, n: str, session: Any) -> None:
        world = self.world
        await anyio.sleep(world.latency(f"{n} starts"))
        seen = self.observer.calls[n] = Seen(n, began=world.now())
        tool = world.draw(f"{n} tool", TOOLS)
        retry = world.draw(f"{n} retry", (None, None, Retry(), Retry(safe=True)))
        way = next((way for way in WAYS_OUT if world.fault(way, n)), "")
        after = world.latency(f"{n} leaves")
        token = CancelToken() if way == "token" else None
        options: dict[str, Any] = {"cancel": token, "retry": retry}
        if way == "short timeout":
            options["timeout"] = max(after, MOMENT)
        seen.may_repeat = retry is not None
        seen.bound = self._bound(3 if retry else 1)
        world.note(n, f"calls {tool} {way} {after if way else ''} {retry or ''}".rstrip())
        outcome: Any = None
        try:
            async with anyio.create_task_group() as tasks:
                if token is not None:
                    tasks.start_soon(self._cancel, token, after, seen)
                with anyio.CancelScope() as scope:
                    if way == "scope":
                        tasks.start_soon(self._leave, scope, after, seen)
                    try:
                        outcome = await session.call_tool(tool, {"n": n}, **options)
                    except McpError as error:
                        outcome = error
                tasks.cancel_scope.cancel()
        except Exception as error:
            outcome = error
        self.observer.end(seen, outcome)

    async def _cancel(self, token: CancelToken, after: float, seen: Seen) -> None:
        await anyio.sleep(after)
        seen.left = self.world.now()
        self.world.note(seen.n, "cancels its token")
        token.cancel("the seed says so")

    async def _leave(self, scope: anyio.CancelScope, after: float, seen: Seen) -> None:
        await anyio.sleep(after)
        seen.left = self.world.now()
        self.world.note(seen.n, "is cancelled")
        scope.cancel()

    def _bound(self, attempts: int) -> float:
        """The seconds within which a call ends: each of its waits has a clock."""
        clocks = self.timeouts
        once = 2 * (clocks.connect + 9 * clocks.close + 2 * clocks.total + clocks.approval)
        return attempts * (once + clocks.total) + 4 * clocks.approval + SLACK

    async def _recovers(self, client: str, session: Any, server: SimServer) -> None:
        """The faults are over: everything is listed and can be called again."""
        if session.closed:
            return
        world = self.world
        world.note(client, "has no more faults")
        await anyio.sleep(130)
        problem: Any = None
        for attempt in range(CONNECT_ATTEMPTS):
            try:
                tools = await session.list_tools(refresh=True)
                problem = await self._try(f"calm{attempt}", session)
            except McpError as error:
                problem = error
            if problem is None:
                found = [tool.description for tool in tools]
                wanted = [each["description"] for each in server.definitions()]
                if found != wanted:
                    world.fail(f"it lists {found}, and the server has {wanted}")
                return
            await anyio.sleep(30)
        world.fail(f"nothing works again after the faults: {problem}")

    async def _try(self, n: str, session: Any) -> McpError | None:
        """Make a plain call, and return why it failed."""
        seen = self.observer.calls[n] = Seen(n, began=self.world.now(), bound=self._bound(1))
        problem = None
        try:
            outcome: Any = await session.call_tool("work", {"n": n})
        except McpError as error:
            outcome = problem = error
        self.observer.end(seen, outcome)
        return problem
