"""What the callers of a client do in a simulated life: calls, and everything that ends them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from mcp_client import CancelToken, Timeouts
from mcp_client.adapters import anthropic
from mcp_client.connection.call_options import Retry
from mcp_client.errors import CallPending, McpError
from mcp_client.stubs import Stub

from .loops import own_task
from .observer import Caller, Observer
from .scripts import SCRIPT, Scripts, script
from .world import MOMENT, World, faults

__all__ = ["Callers"]

WAYS_OUT = faults("token", "scope", "task", "short timeout")
faults("key is used for another call", "stub", "context cannot be stored")
RETURNED = "task is returned"
faults(RETURNED)
TOOLS = ("work", "work", "turn", "turn", "typed", "odd", "absent")
SLACK = 60.0
"""Seconds of a bound that no clock of the client's counts."""
_PENDING_ATTEMPTS = 4
_RETRIES = (None, None, None, Retry(), Retry(safe=True))


class Callers:
    def __init__(
        self,
        world: World,
        observer: Observer,
        scripts: Scripts,
        timeouts: Timeouts,
        client: str,
        is_host: bool,
    ) -> None:
        self._scripts = scripts
        self._world, self._observer, self._timeouts = world, observer, timeouts
        self._client = client
        self._prefix = world.fixed("server called", ("s__", "t__")) if is_host else ""
        self.server = self._prefix[:1] or "s"
        """The server whose tools are called."""

    async def call(self, number: int, opened: Any, has_state: bool) -> None:
        """Make a call, with a key that other clients use, too, or as a model's response."""
        world, name = self._world, f"{self._client}{number}"
        await anyio.sleep(world.latency(f"{name} starts"))
        is_keyed = has_state and world.fixed(f"key {number}", (True, False))
        n = f"k{number}" if is_keyed else name
        tools = ("turn", "turn", "odd") if "change" in world.focus else TOOLS
        tool = self._prefix + world.fixed(f"{n} tool", tools)
        retry = world.draw(f"{n} retry", _RETRIES)
        options: dict[str, Any] = {"retry": retry}
        if is_keyed:
            options["idempotency_key"] = n
        elif world.fault("context cannot be stored", n):
            options["context"] = frozenset()
        if world.fixed(f"{n} is a model's", (True, False, False)):
            await self._run(n, tool, opened, options)
            return
        if not is_keyed and world.fault("stub", n):
            await self._by_stub(n, tool, opened)
            return
        if not is_keyed and world.fault(SCRIPT, n):
            await self._by_script(n, tool, opened)
            return
        if not is_keyed and world.fault(RETURNED, n):
            await self._by_task(n, tool, opened)
            return
        for attempt in range(_PENDING_ATTEMPTS):
            outcome = await self._one(n, tool, opened, options)
            again = outcome is not None and not isinstance(outcome, McpError)
            if not isinstance(outcome, CallPending) and not (
                again and world.draw(f"{n} is made again", (True, False, False))
            ):
                return
            await anyio.sleep(world.latency(f"{name} waits {attempt}") + MOMENT)

    async def plain_call(self, n: str, opened: Any) -> Any:
        """Make a call that nothing is wrong with, and return why it failed."""
        outcome = await self._one(n, f"{self._prefix}work", opened, {}, patient=True)
        return outcome if isinstance(outcome, McpError) else None

    async def nested_call(self, opened: Any, n: str) -> None:
        """Make a call within an approval hook, with which it may be cancelled."""
        await self._plainly(n, {}, opened.call_tool(f"{self._prefix}work", {"n": n}))

    async def _by_stub(self, n: str, tool: str, opened: Any) -> None:
        """Make a call by a stub that was generated from an earlier list."""
        try:
            tools = await opened.list_tools()
        except McpError:
            return  # no call was made
        known = next((each.fingerprint for each in tools if each.name == tool), "none")
        await anyio.sleep(self._world.latency(f"{n} uses its stub"))
        self._world.note(n, f"a stub of {self._client} calls {tool}")
        await self._plainly(n, {}, Stub(opened)._call(tool, known, {"n": n}))

    async def _by_script(self, n: str, tool: str, opened: Any) -> None:
        """Let a model's script make some calls, and resume it while it waits for people."""
        world, scripts = self._world, self._scripts
        names = [f"{n}.{number}" for number in range(world.draw(f"{n} calls", (1, 2, 3)))]
        name = tool.removeprefix(self._prefix)
        together = world.draw(f"{n} side by side", (True, False))
        code = script(self.server, name, names, together=together)
        callers = [self._begins(each, {}) for each in names]
        for caller in callers:
            caller.bound *= len(names) * _PENDING_ATTEMPTS
        world.note(n, f"a script of {self._client} calls {tool} {len(names)} times")
        try:
            kit = anthropic.toolset(await opened.list_tools(), code=True)
            block = {"type": "tool_use", "id": "1", "name": "run_code", "input": {"code": code}}
            making: Any = partial(kit.run, opened, {"content": [block]})
            for attempt in range(_PENDING_ATTEMPTS):
                try:
                    await making()
                except CallPending as pending:
                    making = partial(kit.resume, opened, pending.paused)
                    await anyio.sleep(world.latency(f"{n} is resumed {attempt}") + MOMENT)
                else:
                    world.happened["script: ends"] += 1
                    return
        except Exception as error:
            world.note(n, f"the script ends: {type(error).__name__}: {error}"[:160])
            world.happened[f"script: {type(error).__name__}"] += 1
        finally:
            for caller in callers:
                self._observer.ends(caller, scripts.outcomes.get(caller.n))

    async def _by_task(self, n: str, tool: str, opened: Any) -> None:
        """Make a call whose task is returned, and wait for it, save it, cancel it or leave it."""
        world, observer = self._world, self._observer
        observer.returned.add(n)
        caller, outcome = self._begins(n, {}), None
        caller.bound *= 2
        world.note(n, f"{self._client} starts {tool}")
        try:
            task = await opened.start_tool(tool, {"n": n})
            await anyio.sleep(world.latency(f"{n} has its task"))
            way = world.draw(f"{n} goes on", ("waits", "saves", "cancels", "leaves"))
            world.note(n, f"has a task that is {task.status}, and {way}")
            if way == "saves" and task.id:
                session = opened.sessions[task.server] if self._prefix else opened
                task = session.resume_task(task.to_json())
            if way == "cancels":
                with suppress(McpError):  # the server was not asked to cancel it
                    await task.cancel()
            if way != "leaves":
                outcome = await task.result()
                world.happened[f"task: {way}"] += 1
        except Exception as error:
            outcome = error
        finally:
            observer.ends(caller, outcome)

    async def _plainly(self, n: str, options: dict[str, Any], calling: Any) -> None:
        caller, outcome = self._begins(n, options), None
        try:
            outcome = await calling
        except Exception as error:
            outcome = error
        finally:
            self._observer.ends(caller, outcome)

    def _begins(self, n: str, options: dict[str, Any]) -> Caller:
        retry, clocks = options.get("retry"), self._timeouts
        once = 2 * (clocks.connect + 9 * clocks.close + 2 * clocks.total + clocks.approval)
        bound = (3 if retry else 1) * (once + clocks.total) + 4 * clocks.approval + SLACK
        if "idempotency_key" in options:  # it waits for another caller, and for the storage
            bound += clocks.approval + clocks.total + 10 * SLACK
        least = min(clocks.idle, clocks.total, options.get("timeout", clocks.total))
        is_keyed = "idempotency_key" in options
        began, repeats = self._world.now(), retry is not None
        return self._observer.begins(
            Caller(n, self._client, began, bound, least, is_keyed, repeats)
        )

    async def _one(
        self, n: str, tool: str, opened: Any, options: dict[str, Any], *, patient: bool = False
    ) -> Any:
        world = self._world
        way = next((way for way in WAYS_OUT if not patient and world.fault(way, n)), "")
        after = world.latency(f"{n} leaves")
        token = CancelToken() if way == "token" else None
        if way == "short timeout":
            options = {**options, "timeout": max(after, MOMENT)}
        caller, arguments = self._begins(n, options), dict[str, Any](n=n)
        if caller.is_keyed and world.fault("key is used for another call", n):
            arguments["to"] = 79
        world.note(n, f"{self._client} calls {tool} {' '.join(map(str, options.values()))}")
        outcome: Any = None
        try:
            async with anyio.create_task_group() as tasks:
                if token is not None:
                    tasks.start_soon(self._leave, token, after, caller)
                with anyio.CancelScope() as scope:
                    if way == "scope":
                        tasks.start_soon(self._leave, scope, after, caller)
                    calling = opened.call_tool(tool, arguments, cancel=token, **options)
                    task = own_task(calling) if way == "task" else None
                    if task is not None:
                        tasks.start_soon(self._leave, task, after, caller)
                    try:
                        outcome = await (task or calling)
                    except McpError as error:
                        outcome = error
                    except anyio.get_cancelled_exc_class():
                        if task is None or not task.cancelled():
                            raise
                tasks.cancel_scope.cancel()
        except Exception as error:
            outcome = error
        self._observer.ends(caller, outcome)
        return outcome

    async def _leave(self, way: Any, after: float, caller: Caller) -> None:
        await anyio.sleep(after)
        caller.left = self._world.now()
        self._world.note(caller.n, "is cancelled")
        way.cancel()

    async def _run(self, n: str, tool: str, opened: Any, options: dict[str, Any]) -> None:
        """Let a model's response make the call, and resume it while it waits."""
        world = self._world
        block = {"type": "tool_use", "id": "1", "name": tool, "input": {"n": n}}
        caller = self._begins(n, options)
        is_keyed = "idempotency_key" in options
        options = {"retry": options["retry"], "idempotency_prefix": options.get("idempotency_key")}
        try:
            kit = anthropic.toolset(await opened.list_tools())
        except McpError:
            self._observer.ends(caller, None)  # no call was made
            return
        making: Any = partial(kit.run, opened, {"content": [block]}, **options)
        for attempt in range(_PENDING_ATTEMPTS):
            world.note(n, f"a model of {self._client} calls {tool}")
            outcome: Any = None
            try:
                messages = await making()
                outcome = messages[0]["content"][0]["content"][0]["text"]
            except McpError as error:
                outcome = error
            except Exception as error:
                outcome = error
            self._observer.ends(caller, outcome)
            if not isinstance(outcome, CallPending) or attempt == _PENDING_ATTEMPTS - 1:
                return
            await anyio.sleep(world.latency(f"{n} is resumed {attempt}") + MOMENT)
            caller = self._begins(n, {**options, "idempotency_key": n} if is_keyed else options)
            making = partial(kit.resume, opened, outcome.paused, retry=options["retry"])
