"""One life of some clients, from the first connection until nothing of them is left.

The seed draws how many there are, how their servers are reached, what the callers do and when, and
what goes wrong. In some lives the faults stop at a moment: then everything has to be listed and
callable again. A client may be killed: another goes on with its storage.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_client import ApprovalQueue, Host, Limits, Timeouts, connect
from mcp_client.approval import ManagedPolicy
from mcp_client.errors import McpError, StartDenied
from mcp_client.validation import Validation

from .callers import Callers
from .config_file import RELOADS, SimConfig
from .loops import BACKENDS, run, spawn
from .network import NETWORK, Network
from .observer import Observer
from .people import POLICIES, Hook, Person, PlainHook, Policy, handlers
from .scripts import Scripts
from .servers import READS, SimServer
from .storage import Disk, SimState, process
from .wires import Pipes, memory
from .world import World, faults

__all__ = ["Options", "live", "lives"]

faults("client is killed", "session is closed early", "list is refreshed", "host reconnects")
faults("host replaces a server", "audit fails", "policy refuses the server")
faults("arguments are strict", "hook is a plain function", "hook is quick", "one call at a time")
WIRES = ("memory", "stdio", "http", "http")
CONNECT_ATTEMPTS = 6
CLOSE_SECONDS = 60.0
_COLLECTED = 10
"""After so many lives, what is left of them is collected."""
REFUSING = ManagedPolicy(deny=["/bin/sh *", "http://*"])


@dataclass(frozen=True)
class Options:
    """How a life is to be lived otherwise than the seed alone says."""

    dropped: frozenset[str] = frozenset()
    """Kinds of faults and calls that are left out."""
    calls: int = 99
    """The most that each client makes."""
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
        for part in (life.pipes, life.network, life.disk, life.scripts):
            part.install(stack)
        run(world, options.backend or world.draw("backend", BACKENDS), life.run)
        life.pipes.forget()
    return world


def lives(
    seeds: Iterable[int], options: Options = Options()
) -> Iterator[tuple[int, Counter[str], list[str]]]:
    """Live many lives: each seed, what happened, and what was broken.

    Garbage is collected when nothing of a life is referenced any more, which takes a tenth of the
    time that Python's own pace takes.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        for number, seed in enumerate(seeds, 1):
            world = live(seed, options)
            happened, wrong = world.happened, world.wrong
            del world
            if number % _COLLECTED == 0:
                gc.collect(1)  # what is older is none of theirs
            yield seed, happened, wrong
    finally:
        if enabled:
            gc.enable()


class Life:
    def __init__(self, world: World, most: int) -> None:
        self.world = world
        self.observer = Observer(world)
        self.pipes, self.network, self.disk = Pipes(world), Network(world), Disk(world)
        self.scripts = Scripts(world)
        draw = world.draw
        self.count = min(most, draw("calls", (1, 2, 3, 4, 6)))
        self.becomes_calm = draw("liveness", (True, False))
        self.is_host = draw("host", (True, False, False))
        needs_state = {*world.focus} & {"storage cannot be used", "stores no results"}
        self.has_state = draw("state", (True, False)) or bool(needs_state)
        self.approval = draw("approval", ("hook", "hook", "queue", "tickets"))
        if {*world.focus} & {"storage cannot be used", "hook edits"}:
            self.approval = "hook"
        is_hook = self.approval == "hook"
        self.clients = ["A", "B"] if draw("clients", (1, 1, 2)) == 2 else ["A"]
        self.timeouts = Timeouts(
            connect=draw("connect", (5.0, 30.0)),
            idle=draw("idle", (1.0, 60.0)),
            total=draw("total", (61.0, 150.0)),
            approval=draw("approval time", (1.0, 60.0, 200.0) if is_hook else (60.0, 200.0)),
            close=1.0,
            ping=draw("ping", (None, None, 20.0)),
        )
        names = ("s", "t") if self.is_host else ("s",)
        self.servers = {name: SimServer(world, self.observer, name) for name in names}
        self.observer.servers = dict(self.servers)
        self.observer.has_storage = self.has_state
        self.observer.hears_all = not NETWORK & {*world.rates}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for server in self.servers.values():
                tasks.start_soon(server.live)
            for name in self.clients:
                tasks.start_soon(Client(self, name).run)
        self.observer.judge()


class Client:
    """One process that uses the package."""

    def __init__(self, life: Life, name: str) -> None:
        self.life, self.name = life, name
        self.world, self.observer = life.world, life.observer
        self.state = SimState(self.world, life.disk, name) if life.has_state else None
        self.callers = Callers(
            self.world, self.observer, life.scripts, life.timeouts, name, life.is_host
        )
        self.hook = Hook(self.world, self.observer, name)
        self.config: SimConfig | None = None
        self.is_closed = False

    async def run(self) -> None:
        process.set(self.name)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._dies, tasks.cancel_scope)
            await self._live()
            tasks.cancel_scope.cancel()
        if self.name in self.world.dead and self.name[-1] != "'":
            await Client(self.life, f"{self.name}'").run()

    async def _dies(self, scope: anyio.CancelScope) -> None:
        await anyio.sleep(self.world.latency(f"{self.name} dies"))
        if self.life.has_state and self.world.fault("client is killed", self.name):
            self.world.dead.add(self.name)
            scope.cancel()

    async def _live(self) -> None:
        opened = await self._opened()
        if opened is None:
            return
        async with anyio.create_task_group() as tasks:
            if self.world.draw(f"{self.name} watches", (True, False, False)):
                tasks.start_soon(self._watch, opened)
            try:
                await self._use(opened)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._close(opened)

    async def _watch(self, opened: Any) -> None:
        """Watch the tools; the end of the session ends this."""
        watch = opened.tool_changes()
        while True:
            try:
                changes = await anext(watch)
            except StopAsyncIteration:
                return
            except McpError as error:
                self.world.note(self.name, f"watches: {type(error).__name__}")
                await anyio.sleep(1)
            else:
                self.world.note(self.name, f"watches: {len(changes.tools)} tools")

    async def _close(self, opened: Any) -> None:
        world, began = self.world, self.world.now()
        await opened.aclose()
        took = world.now() - began
        world.note(self.name, "is closed")
        if took > CLOSE_SECONDS:
            world.fail(f"closing took {took:.0f} s")

    async def _use(self, opened: Any) -> None:
        world = self.world
        async with anyio.create_task_group() as tasks:
            for number in range(self.life.count):
                if world.has(f"{self.name}{number}"):
                    tasks.start_soon(self.callers.call, number, opened, self.state is not None)
            tasks.start_soon(self._other_uses, opened)
        if not NETWORK & {*world.rates}:
            await anyio.sleep(250)  # it may be on its way behind the call
            for server in self.life.servers.values():
                self.observer.given_up(self.name, server.waited_for(self.name))
        if self.life.becomes_calm:
            world.calm = True
            await self._recovers(opened)

    async def _opened(self) -> Any:
        """A session or a host, once it can be opened."""
        world, life = self.world, self.life
        options: dict[str, Any] = {
            "approval": self._approval(),
            "handlers": handlers(world, self.observer),
            "audit": self._audit,
            "timeouts": life.timeouts,
            "state": self.state,
        }
        if world.fault("arguments are strict", self.name):
            options["validation"] = Validation(arguments="strict")
        if world.fault("one call at a time", self.name):
            options["limits"] = Limits(in_flight=1)
        wires = {name: self._wire(server) for name, server in life.servers.items()}
        new: Callable[..., Any] = partial(connect, wires["s"], name="s", **options)
        if life.is_host:
            new = partial(Host, wires, **options)
        for _ in range(CONNECT_ATTEMPTS):
            refusing = world.fault("policy refuses the server", self.name)
            try:
                opened = await new(**{"policy": REFUSING} if refusing else {})
            except McpError as error:
                world.note(self.name, f"cannot connect: {type(error).__name__}: {error}"[:160])
                world.happened[f"connect: {type(error).__name__}"] += 1
                await anyio.sleep(1)
            else:
                world.note(self.name, "is connected")
                self.hook.call_tool = partial(self.callers.nested_call, opened)
                if life.is_host and RELOADS in world.rates:
                    wire = lambda name: self._wire(life.servers[name])  # noqa: E731
                    self.config = SimConfig(world, self.name, opened, wire)
                return opened
        return None

    def _wire(self, server: SimServer) -> Any:
        match self.world.draw(f"wire of {self.name} {server.name}", WIRES):
            case "memory":
                return memory(self.world, self.name, server)
            case "stdio":
                return self.life.pipes.stdio(self.name, server)
        return self.life.network.http(self.name, server)

    def _approval(self) -> Any:
        """A hook, or a queue, which in some lives follow a policy."""
        ask = self._ask()
        return Policy(self.world, self.observer, ask) if {*POLICIES} & {*self.world.rates} else ask

    def _ask(self) -> Any:
        """A hook, or a queue that a person of the same or of another process decides."""
        world, observer, life = self.world, self.observer, self.life
        if life.approval == "hook":
            is_plain = world.fault("hook is a plain function", self.name)
            if world.fault("hook is quick", self.name) or is_plain:
                return PlainHook(self.hook, is_quick=not is_plain)
            return self.hook
        if life.approval == "queue" or self.state is None:
            queue = ApprovalQueue()
            spawn(world, Person(world, observer, queue).run)
            return queue
        theirs = SimState(world, life.disk, f"person of {self.name}")
        spawn(world, Person(world, observer, ApprovalQueue(decisions=theirs.decisions)).run)
        wait = world.draw(f"{self.name} waits", (0, 1.0, 60.0))
        return ApprovalQueue(decisions=self.state.decisions, wait=wait)

    def _audit(self, record: Any) -> None:
        if self.name in self.world.dead:
            raise OSError("it was killed")
        if self.world.fault("audit fails", self.name):
            raise OSError("no space is left")
        self.observer.recorded(self.name, record)

    async def _other_uses(self, opened: Any) -> None:
        world, name = self.world, self.name
        for turn in range(3):
            await anyio.sleep(world.latency(f"{name} uses {turn}"))
            try:
                if world.fault("list is refreshed", name):
                    await opened.list_tools(refresh=True)
                if self.life.is_host and world.fault("host reconnects", name):
                    await opened.reconnect("s")
                if self.life.is_host and world.fault("host replaces a server", name):
                    await opened.remove("t")
                    await opened.add("t", self._wire(self.life.servers["t"]))
                if self.config is not None and world.fault(RELOADS, name):
                    await self.config.reload()
                if world.fault(READS, name):
                    of = {"server": "s"} if self.life.is_host else {}
                    await opened.read_resource("sim://none", **of)
            except McpError as error:
                world.note(name, f"fails: {type(error).__name__}: {error}"[:160])
                world.happened[f"use: {type(error).__name__}"] += 1
            if world.fault("session is closed early", name):
                self.is_closed = True
                await opened.aclose()
                world.note(name, "is closed early")

    async def _recovers(self, opened: Any) -> None:
        """The faults are over: everything is listed and can be called again."""
        world, callers = self.world, self.callers
        if self.is_closed or (self.life.is_host and callers.server not in opened.status()):
            return
        world.note(self.name, "has no more faults")
        await anyio.sleep(130)
        problem: Any = None
        for _ in range(CONNECT_ATTEMPTS):
            try:
                if problem is not None and self.life.is_host:
                    await opened.reconnect(callers.server)
                tools = await opened.list_tools()
                problem = await callers.plain_call(f"calm {self.name}", opened)
                if self.life.is_host:  # a server that was down is listed once it is called
                    tools = await opened.list_tools()
            except McpError as error:
                problem = error
            if isinstance(problem, StartDenied) or self.is_closed:
                return
            if problem is None:
                found = [tool.description for tool in tools if tool.server == callers.server]
                server = self.life.servers[callers.server]
                wanted = [each["description"] for each in server.definitions()]
                if found != wanted:
                    world.fail(f"it lists {found}, and the server has {wanted}")
                return
            await anyio.sleep(30)
        world.fail(f"nothing works again after the faults: {problem}")
