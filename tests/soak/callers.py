"""The calls of the soak: what each asks of its server and of the approval hook, and what it saw."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from mcp_client import Allow, CancelToken, Deny, Host, McpError, ToolCall
from mcp_client.handlers import Accept, ElicitRequest

from .world import World

__all__ = ["Callers", "Hook"]

ACTS = {
    "ok": 40,
    "slow": 8,
    "progress": 4,
    "big": 3,
    "drip": 3,
    "garbage": 3,
    "twice": 2,
    "change": 2,
    "ask": 3,
    "fail": 3,
    "error": 3,
    "nonsense": 2,
    "never": 2,
    "cut": 2,
    "busy": 2,
    "die": 0.06,
    "die-first": 0.04,
}
HOOKS = {"yes": 80, "no": 4, "raise": 3, "think": 6, "wrong": 2, "cancelled": 2, "edit": 3}
WAYS_OUT = {"": 80, "scope": 8, "token": 8, "timeout": 4}
"""How a call may be ended by its caller."""


def _drawn(rng: random.Random, weights: dict[str, Any]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


class Hook:
    """The approval hook: the call's arguments choose what it does. ``approved`` has the key of each
    call that it approved."""

    def __init__(self, approved: Path, seed: int) -> None:
        self._rng = random.Random(f"{seed} hook")
        self._approved = approved.open("w", buffering=1)

    async def __call__(self, call: ToolCall) -> Any:
        arguments: dict[str, Any] = dict(call.arguments)
        key = str(call.context)
        match arguments.get("hook", "yes"):
            case "no":
                return Deny("the seed denies it")
            case "raise":
                raise ValueError("a fault of the hook's own")
            case "wrong":
                return 7
            case "think":
                await anyio.sleep(self._rng.uniform(0.0, 0.1))
            case "cancelled":
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await anyio.sleep(1)
                return None
            case "edit":
                self._approved.write(f"{key}\n")
                return Allow(arguments={**arguments, "edited": True})
        self._approved.write(f"{key}\n")
        return Allow()

    def close(self) -> None:
        self._approved.close()


class Callers:
    """Tasks that call until there are enough calls or no time is left.

    What each call saw is a line in ``seen``: key, server, act, outcome, begin and end. Nothing is
    stored in memory, which is measured.
    """

    def __init__(self, world: World, host: Host, seen: Path, seed: int) -> None:
        self._world = world
        self._host = host
        self._seed = seed
        self._seen = seen.open("w", buffering=1)
        self._names: dict[tuple[str, str], str] = {}
        self.count = 0
        self.outcomes: Counter[str] = Counter()
        self.foreign: list[str] = []
        """Tracebacks of what was raised and is not an ``McpError``."""

    async def learn_names(self) -> None:
        for tool in await self._host.list_tools():
            self._names[tool.server, tool.name] = tool.qualified_name

    async def one(self, number: int, calls: int, until: float) -> None:
        rng = random.Random(f"{self._seed} caller {number}")
        own = 0
        while self.count < calls and anyio.current_time() < until:
            self.count += 1
            own += 1
            await self._call(rng, f"{number}.{own}")

    async def _call(self, rng: random.Random, key: str) -> None:
        server = rng.choice(list(self._world.servers))
        act = "real"
        arguments: dict[str, Any] = {}
        if server in self._world.real:
            tool, arguments = self._world.real[server]
        else:
            tool, act = rng.choice(["work", "work", "work", "turning"]), _drawn(rng, ACTS)
            arguments = {"key": key, "act": act, "hook": _drawn(rng, HOOKS)}
        name = self._names.get((server, tool), f"{server}__{tool}")
        way_out, after = _drawn(rng, WAYS_OUT), rng.uniform(0.0, 0.06)
        if act == "never":
            way_out = rng.choice(["scope", "token", "timeout"])
        outcome, began = "none", anyio.current_time()
        token = CancelToken() if way_out == "token" else None
        timeout = after + 0.05 if way_out == "timeout" else 10.0
        try:
            async with anyio.create_task_group() as tasks:
                if token is not None:
                    tasks.start_soon(self._cancel_later, token, after)
                with anyio.CancelScope() as scope:
                    if way_out == "scope":
                        scope.deadline = anyio.current_time() + after
                    outcome = "cancelled"
                    try:
                        result = await self._host.call_tool(
                            name, arguments, timeout=timeout, cancel=token, context=key
                        )
                    except McpError as error:
                        outcome = type(error).__name__
                    else:
                        outcome = "tool_error" if result.is_error else "ok"
                tasks.cancel_scope.cancel()
        except Exception as error:  # not ours: the report states it, and the soak goes on
            outcome = f"raised-{type(error).__name__}"
            self.foreign.append("".join(traceback.format_exception(error))[-1_500:])
        finally:
            self.outcomes[outcome] += 1
            took = f"{began:.3f} {anyio.current_time():.3f}"
            self._seen.write(f"{key} {server} {act} {outcome} {took}\n")

    async def _cancel_later(self, token: CancelToken, seconds: float) -> None:
        await anyio.sleep(seconds)
        token.cancel("the seed asks for it")

    def close(self) -> None:
        self._seen.close()


async def answer(request: ElicitRequest) -> Accept:
    """The reply of the host's person to a server that asks."""
    return Accept({})
