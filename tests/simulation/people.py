"""The people of a simulated life: who approves calls and answers what servers ask."""

from __future__ import annotations

from typing import Any

import anyio

from mcp_client import Allow, Deny
from mcp_client.handlers import Accept, Decline, ElicitRequest

from .observer import Observer
from .world import MOMENT, World, faults

__all__ = ["Hook", "answer_of"]

KINDS = faults(
    "hook denies",
    "hook raises",
    "hook answers nonsense",
    "hook never answers",
    "hook edits",
    "hook swallows the cancellation",
    "hook cancels itself",
    "hook allows for the session",
    "hook breaks the arguments",
)
faults("handler raises", "handler never answers", "handler declines")


class Hook:
    """An approval hook. What it answers to a call is drawn by the call's argument ``n``."""

    def __init__(self, world: World, observer: Observer, client: str) -> None:
        self._world = world
        self._observer = observer
        self._client = client

    async def __call__(self, call: Any) -> Any:
        n, world = str(call.arguments["n"]), self._world
        kind = next((kind for kind in KINDS if world.fault(kind, n)), "")
        world.note(n, f"asks for {call.tool.name} {call.tool.description}")
        match kind:
            case "hook raises":
                raise ValueError("a fault of the hook's own")
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
        if kind == "hook answers nonsense":
            return 7
        if kind == "hook denies":
            return Deny("the seed denies it")
        if kind == "hook breaks the arguments":
            return self._allow(call, {"n": n, "to": "no number"})
        if kind == "hook edits":
            return self._allow(call, {**call.arguments, "to": 77})
        if kind == "hook allows for the session":
            standing = self._client, call.tool.name, call.tool.description
            self._observer.standing.add(standing)
            return Allow(remember="session")
        return self._allow(call, None)

    def _allow(self, call: Any, edited: dict[str, Any] | None) -> Allow:
        n = str(call.arguments["n"])
        arguments = dict(call.arguments) if edited is None else edited
        self._observer.approved(n, arguments, call.tool.description)
        return Allow() if edited is None else Allow(arguments=edited)


def answer_of(world: World) -> Any:
    """A handler for what servers ask."""

    async def answer(request: ElicitRequest) -> Any:
        where = request.message
        if world.fault("handler raises", where):
            raise ValueError("a fault of the handler's own")
        if world.fault("handler never answers", where):
            await anyio.sleep_forever()
        await anyio.sleep(world.latency(where))
        return Decline() if world.fault("handler declines", where) else Accept({})

    return answer
