"""The tasks of a simulated server, of either revision that has them.

A call of 2026-07-28 becomes a task if the server decides so; one of 2025-11-25 if the client asks
for it, which it must for the tools of some servers. A task goes on without a request: it asks a
person something, runs, and ends, at times that are drawn by the call's argument ``n``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from .loops import spawn
from .observer import IN_TASK
from .world import MOMENT, World, faults

if TYPE_CHECKING:
    from .observer import Observer
    from .servers import Peer, SimServer

__all__ = ["REQUIRES", "SimTasks"]

REQUIRES = "tools require tasks"
BECOMES = "call becomes a task"
faults(BECOMES, REQUIRES, "task fails", "task is cancelled by its server", "task is forgotten")
faults("poll is refused", "task asks", "cancellation of a task is ignored")
_EXTENSION = "io.modelcontextprotocol/tasks"
_RELATED = "io.modelcontextprotocol/related-task"
_ENDED = frozenset({"completed", "failed", "cancelled"})
_INTERVALS = (None, 50, 1_000, 60_000)
_UNKNOWN = {"error": {"code": -32602, "message": "no such task"}}


@dataclass(eq=False)
class SimTask:
    id: str
    n: str
    request: tuple[Peer, Any]
    """The call: its connection and its id."""
    interval: int | None
    """The milliseconds between two polls that it asks for; a second if it does not."""
    end: dict[str, Any]
    """The result of the call."""
    status: str = "working"
    polled: float | None = None
    known_at: float | None = None
    """When the client had the response that creates it."""
    is_told: bool = False
    """Whether the client has reported that it gives the call up."""
    is_answered: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def ended(self) -> bool:
        return self.status in _ENDED

    def becomes(self, status: str) -> None:
        if not self.ended:
            self.status = status
        self.changed.set()
        self.changed = anyio.Event()


class SimTasks:
    """The tasks of one server, which outlive its connections."""

    def __init__(self, world: World, observer: Observer, server: SimServer) -> None:
        self._world, self._observer, self._server = world, observer, server
        self._tasks: dict[str, SimTask] = {}
        self._count = -1

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the server declares."""
        if self._server.stateless:
            return {"extensions": {_EXTENSION: {}}} if BECOMES in self._world.rates else {}
        if not self._server.requires_tasks:
            return {}
        return {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}

    def becomes_one(self, n: str, params: dict[str, Any]) -> bool:
        """Whether a call of a server with tasks becomes one."""
        if not self._server.stateless:
            return "task" in params
        return BECOMES in self._world.rates and self._world.fault(BECOMES, n)

    def begin(
        self, n: str, request: tuple[Peer, Any], make: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Create the task of a call; ``make`` runs it.

        Returns the response to the call, and what to call when it has arrived.
        """
        world = self._world
        self._count += 1
        id = f"{self._server.name}-task-{self._count}"
        interval = world.draw(f"{n} interval", _INTERVALS)
        task = self._tasks[id] = SimTask(id, n, request, interval, {})
        world.note(self._server.name, f"makes a task of {n}")
        world.happened["task: begins"] += 1
        spawn(world, partial(self._run, task, make))
        shown = self._shown(task)
        response = {"resultType": "task", **shown} if self._server.stateless else {"task": shown}

        def delivered() -> None:
            task.known_at = world.now()

        return response, delivered

    def withdrawn(self, request: tuple[Peer, Any]) -> None:
        """A client gives up a call."""
        for task in self._tasks.values():
            task.is_told |= task.request == request

    async def _run(self, task: SimTask, make: Callable[[], dict[str, Any]]) -> None:
        world, n = self._world, task.n
        await anyio.sleep(world.latency(f"{n} begins its task"))
        if world.fault("task asks", n):
            task.becomes("input_required")
            while not (task.is_answered or task.ended):
                await task.changed.wait()
            task.becomes("working")
        if task.ended:
            return
        task.end = make()
        await anyio.sleep(world.latency(f"{n} runs its task"))
        kinds = "task fails", "task is cancelled by its server"
        kind = next((kind for kind in kinds if world.fault(kind, n)), "")
        status = {"": "completed", "task fails": "failed"}.get(kind, "cancelled")
        if not (task.is_told or task.ended or task.known_at is None) and task.request[0].alive:
            self._observer.went_on(n, task.request[0].client, task.known_at)
        self._ends(task, status)

    def _ends(self, task: SimTask, status: str) -> None:
        task.becomes(status)
        self._world.happened[f"task: {task.status}"] += 1
        self._world.note(self._server.name, f"the task of {task.n} is {task.status}")
        self._server.let_go(task.request)

    # ------------------------------------------------------------------- requests

    def cancels(self, params: dict[str, Any]) -> None:
        """A client asks that a task is cancelled."""
        task = self._tasks.get(str(params.get("taskId")))
        if task is None:
            return
        task.is_told = True
        self._server.let_go(task.request)
        ignores = self._world.fault("cancellation of a task is ignored", task.n)
        if not task.ended and not ignores:
            self._ends(task, "cancelled")

    async def answer(
        self, method: str, params: dict[str, Any], peer: Peer, at: float
    ) -> dict[str, Any]:
        """The response to a request about a task, which the client sent ``at`` a time."""
        world, stateless = self._world, self._server.stateless
        task = self._tasks.get(str(params.get("taskId")))
        if task is not None and not task.ended and world.fault("task is forgotten", task.n):
            self._server.let_go(task.request)
            self._tasks.pop(task.id).is_told = True
            task = None
        if task is None:
            return _UNKNOWN
        match method:
            case "tasks/get":
                self._look_at_the_pace(task, at)
                if world.fault("poll is refused", task.n):
                    return {"error": {"code": -32603, "message": "not now"}}
                return {"result": self._shown(task, is_whole=True)}
            case "tasks/update" if stateless:
                if "q" in params.get("inputResponses", {}):
                    task.is_answered = True
                    task.becomes("working" if task.status == "input_required" else task.status)
                return {"result": {"resultType": "complete"}}
            case "tasks/cancel":
                return {"result": {} if stateless else self._shown(task)}
            case "tasks/result" if not stateless:
                return await self._result(task, peer)
        return {"error": {"code": -32601, "message": f"method not found: {method}"}}

    def _look_at_the_pace(self, task: SimTask, at: float) -> None:
        interval = 1_000 if task.interval is None else task.interval
        early = task.polled is not None and 0 <= at - task.polled < interval / 1_000 - MOMENT
        if early and task.n not in self._observer.returned:
            self._world.fail(f"{task.n}: its task was polled again within {interval} ms")
        task.polled = max(at, task.polled or 0.0)

    async def _result(self, task: SimTask, peer: Peer) -> dict[str, Any]:
        related = {"_meta": {_RELATED: {"taskId": task.id}}}
        if task.status == "input_required" and not task.is_answered:
            asked = self._server.question(f"who, for {task.n}")
            await self._server.ask({**asked, "params": {**asked["params"], **related}}, peer)
            task.is_answered = True
            task.becomes("working")
        while not task.ended:
            await task.changed.wait()
        if task.status == "completed":
            return {"result": {**task.end, **related}}
        return {"error": {"code": -32000, "message": f"the task of {task.n} is {task.status}"}}

    def _shown(self, task: SimTask, *, is_whole: bool = False) -> dict[str, Any]:
        """The status of a task, as its server reports it."""
        stateless = self._server.stateless
        units = {"interval": "pollIntervalMs", "ttl": "ttlMs"} if stateless else {}
        times = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-07-28T09:00:00Z")
        shown: dict[str, Any] = {"taskId": task.id, "status": task.status, **times}
        shown[units.get("ttl", "ttl")] = 600_000
        if task.interval is not None:
            shown[units.get("interval", "pollInterval")] = task.interval
        if not is_whole or not stateless:
            return shown
        match task.status:
            case "completed":
                shown["result"] = task.end
            case "failed":
                shown["error"] = {"code": -32000, "message": f"the task of {task.n} failed"}
            case "input_required":
                shown["inputRequests"] = {
                    "q": self._server.question(f"{IN_TASK} {task.id} of {task.n}")
                }
        return {"resultType": "complete", **shown}
