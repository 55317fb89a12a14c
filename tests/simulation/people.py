"""The people of a simulated life: who approves calls and answers what servers ask."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio

from mcp_client import Allow, Deny
from mcp_client.approval import SamplingRequest
from mcp_client.errors import McpError, ServerError
from mcp_client.handlers import (
    Accept,
    Decline,
    ElicitRequest,
    Handlers,
    SamplingResult,
)
from mcp_client.runtime.callbacks import in_thread

from .observer import Observer
from .world import MOMENT, World, faults

__all__ = ["Hook", "Person", "PlainHook", "Policy", "handlers"]

KINDS = faults(
    "hook denies",
    "hook raises",
    "hook answers nonsense",
    "hook never answers",
    "hook edits",
    "hook swallows the cancellation",
    "hook cancels itself",
    "hook allows for the session",
    "hook allows always",
    "hook breaks the arguments",
    "hook edits again and again",
    "hook allows what is no call",
    "hook raises an error of the package",
    "hook calls a tool",
)
POLICIES = faults("policy raises", "policy denies", "policy allows", "policy answers nonsense")
faults("handler raises", "handler never answers", "handler declines")
faults("person never decides", "person is late", "person denies", "person edits", "decides twice")
faults("person withdraws")


class Hook:
    """An approval hook. What it answers to a call is drawn by the call's argument ``n``."""

    def __init__(self, world: World, observer: Observer, client: str) -> None:
        self._world, self._observer, self._client = world, observer, client
        self.call_tool: Callable[[str], Awaitable[None]] | None = None
        """Makes a call of that name in the session of the hook, once there is one."""

    def begins(self, call: Any) -> tuple[str, str]:
        """Return the name of the call, and what the hook does."""
        n, world = str(call.arguments["n"]), self._world
        kind = next((kind for kind in KINDS if world.fault(kind, n)), "")
        if call.edited and "hook edits again and again" in world.rates:
            kind = world.draw(f"{n} is edited again", (*["hook edits again and again"] * 3, kind))
        world.note(n, f"asks for {call.tool.name} {call.tool.description}")
        return n, kind

    async def __call__(self, call: Any) -> Any:
        n, kind = self.begins(call)
        world = self._world
        match kind:
            case "hook raises":
                raise ValueError("a fault of the hook's own")
            case "hook calls a tool" if self.call_tool is not None:
                await self.call_tool(f"{n} nested")
            case "hook cancels itself":
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await anyio.sleep(1)
                return None
            case "hook never answers":
                await anyio.sleep_forever()
            case "hook swallows the cancellation":
                try:
                    await anyio.sleep(world.latency(f"{n} swallows") + MOMENT)
                except anyio.get_cancelled_exc_class():
                    world.note(n, "swallows the cancellation of its hook")
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(world.latency(f"{n} goes on"))
            case _:
                await anyio.sleep(world.latency(f"{n} is decided"))
        return self.answer(kind, call)

    def answer(self, kind: str, call: Any) -> Any:
        tool, arguments = call.tool, json.loads(call.arguments_json)
        match kind:
            case "hook raises an error of the package":
                raise ServerError("an error of another server")
            case "hook answers nonsense":
                return 7
            case "hook denies":
                return Deny("the seed denies it")
            case "hook allows for the session":
                self._observer.approved_for_all(self._client, tool.name, tool.description)
                return Allow(remember="session")
            case "hook allows always":
                self._observer.approved_for_all("", tool.name, tool.description)
                return Allow(remember="always")
            case "hook edits" | "hook breaks the arguments":
                arguments["to"] = 77 if kind == "hook edits" else "no number"
                self._observer.approved(arguments, tool.description)
                return Allow(arguments=arguments)
            case "hook edits again and again":  # another type each time is asked about again
                arguments["to"] = _NEXT_EDIT[type(arguments.get("to"))]
                self._observer.approved(arguments, tool.description)
                return Allow(arguments=arguments)
            case "hook allows what is no call":
                given: Any = self._world.draw("no call", ("a text", {"n": b"", "to": 1}, None))
                allow = Allow(arguments=given)
                if given is None:
                    object.__setattr__(allow, "remember", "sometimes")
                return allow
        self._observer.approved(arguments, tool.description)
        return Allow()


_NEXT_EDIT: dict[type, Any] = {
    type(None): "no number",
    int: "no number",
    str: [],
    list: {},
    dict: 7,
}


class PlainHook:
    """A hook that is a plain function: it runs in a thread, or in the event loop if it is quick."""

    def __init__(self, hook: Hook, *, is_quick: bool) -> None:
        self._hook, self.is_quick = hook, is_quick

    def __call__(self, call: Any) -> Any:
        _, kind = self._hook.begins(call)
        if kind == "hook raises":
            raise ValueError("a fault of the hook's own")
        return self._hook.answer(kind, call)


class Policy:
    """A policy before a hook, which it decides some calls without."""

    def __init__(self, world: World, observer: Observer, ask: Any) -> None:
        self._world, self._observer, self.ask = world, observer, ask

    def decide(self, call: Any) -> Any:
        n, world = str(call.arguments["n"]), self._world
        match next((kind for kind in POLICIES if world.fault(kind, n)), ""):
            case "policy raises":
                raise LookupError("a fault of the policy's own")
            case "policy denies":
                return Deny("the policy of the seed denies it")
            case "policy answers nonsense":
                return "yes"
            case "policy allows":
                self._observer.approved(json.loads(call.arguments_json), call.tool.description)
                return Allow()
        return None


class Person:
    """Decides what waits in an ``ApprovalQueue``, from another task or another process."""

    def __init__(self, world: World, observer: Observer, queue: Any) -> None:
        self._world, self._observer, self._queue = world, observer, queue
        self._ignored: set[str] = set()

    async def run(self) -> None:
        idle = 0
        while True:
            pause = self._world.draw("person looks", (MOMENT, 1.0, 1.0))
            await anyio.sleep(pause + min(idle, 20))
            try:
                waiting = await self._read()
            except McpError:
                continue
            idle = 0 if waiting else idle + 1
            for pending in waiting:
                if pending.id not in self._ignored:
                    await self._decide(pending)

    async def _read(self) -> Any:
        if not self._queue.waits:
            return self._queue.pending
        return await in_thread(lambda: self._queue.pending)

    async def _decide(self, pending: Any) -> None:
        world, call = self._world, pending.request
        n = str(call.arguments["n"])
        if world.fault("person never decides", n):
            self._ignored.add(pending.id)
            return
        if world.fault("person is late", n):
            await anyio.sleep(world.latency(f"{n} late"))
        arguments = dict(call.arguments)
        answer: Allow | Deny = Allow()
        if world.fault("person denies", n):
            answer = Deny("the person denies it")
        else:
            if world.fault("person edits", n):
                arguments["to"] = 78
                answer = Allow(arguments=arguments)
            self._observer.approved(arguments, call.tool.description)
        world.note(n, f"is decided by a person: {type(answer).__name__}")
        decide = partial(self._queue.decide, pending.id, answer, by="ana")
        if world.fault("person withdraws", n):
            decide = partial(self._queue.withdraw, pending.id)
        for _ in range(1 + world.fault("decides twice", n)):
            try:
                if self._queue.waits:
                    await in_thread(decide)
                else:
                    decide()
            except McpError as error:
                world.note(n, f"the decision fails: {type(error).__name__}")
                world.happened[f"decision: {type(error).__name__}"] += 1


def handlers(world: World, observer: Observer) -> Handlers:
    """The handlers for what servers ask."""

    async def decided(message: str) -> bool:
        """Answer a question, or decline it."""
        over = observer.asks(message)
        try:
            if world.fault("handler raises", message):
                raise ValueError("a fault of the handler's own")
            if world.fault("handler never answers", message):
                await anyio.sleep_forever()
            await anyio.sleep(world.latency(message))
            return not world.fault("handler declines", message)
        finally:
            over()

    async def fill(request: ElicitRequest) -> Any:
        return Accept({}) if await decided(request.message) else Decline()

    async def sample(request: SamplingRequest) -> Any:
        answers = await decided(str(request.messages[0].content[0]))
        return SamplingResult("me", "a model") if answers else Deny("no model for it")

    if not {"asks a model", "asks for roots"} & {*world.rates}:
        return Handlers(elicitation=fill)
    return Handlers(elicitation=fill, sampling=sample, roots=[])
