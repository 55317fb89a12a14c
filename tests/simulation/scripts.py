"""The scripts of a simulated life, and what runs them in place of a process with Monty.

A script is JSON: the calls that it makes, and whether it makes them side by side. It catches what
a call raises. ``SimInterpreter`` has the interface of ``code.interpreter.Interpreter``.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from mcp_client.adapters import code_mode
from mcp_client.code import interpreter
from mcp_client.code import run as code_run
from mcp_client.code.bindings import Bindings
from mcp_client.code.interpreter import AskedCall, Returned, Settled, Stop, Turn
from mcp_client.errors import CallDenied, InvalidArguments

from .loops import replace
from .world import World, faults

__all__ = ["SCRIPT", "Scripts", "script"]

SCRIPT = "a script calls"
faults(SCRIPT, "interpreter crashes")
_ERRORS = {"CallDenied": CallDenied, "InvalidArguments": InvalidArguments}
"""The errors that report that nothing was sent."""


def script(server: str, tool: str, names: list[str], *, together: bool) -> str:
    """Return a script that calls a tool once for each of ``names``."""
    return json.dumps({"server": server, "tool": tool, "names": names, "together": together})


class Scripts:
    """The scripts of one life, and what their calls led to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.outcomes: dict[str, Any] = {}
        """What a script got of each call, by its argument ``n``."""

    def install(self, stack: ExitStack) -> None:
        def new(code: str, bindings: Bindings, **_: Any) -> SimInterpreter:
            return SimInterpreter(self, code, bindings)

        replace(stack, code_run, "Interpreter", new)
        for where in (code_run, code_mode):
            replace(stack, where, "interpreter_version", lambda: "0")


class SimInterpreter:
    """Runs one script."""

    def __init__(self, scripts: Scripts, code: str, bindings: Bindings) -> None:
        self._scripts, self._world = scripts, scripts.world
        self._code: dict[str, Any] = json.loads(code)
        self._tool = bindings.find(self._code["server"], self._code["tool"])
        self._settled: set[int] = set()
        self._asked = 0
        self._killed: Stop | None = None
        self.output = ""

    def start(self) -> Turn:
        return self._goes_on()

    def resume(self, number: int, settled: Settled) -> Turn:
        self._settled.add(number)
        n = self._code["names"][number - 1]
        outcome: Any = _outcome(settled)
        if isinstance(settled, Returned) and not str(outcome).startswith(f"{n} run "):
            self._world.fail(f"{n}: a script received what no call returned: {outcome!r}")
        self._scripts.outcomes[n] = outcome
        self.output += f"{n}: {outcome}\n"
        return self._goes_on()

    def kill(self, stop: Stop) -> None:
        self._killed = self._killed or stop

    def close(self) -> None:
        self.kill(interpreter.CLOSED)

    def _goes_on(self) -> Turn:
        names, turn = self._code["names"], Turn()
        if self._tool is None:
            turn.error = "AttributeError: there is no such tool"
            return turn
        if self._asked and self._world.fault("interpreter crashes", names[0]):
            self.kill(Stop("crashed", "the process that ran it ended by itself"))
        if self._killed is not None:
            turn.stop = self._killed
            return turn
        may_ask = self._code["together"] or self._asked == len(self._settled)
        while may_ask and self._asked < len(names):
            self._asked += 1
            turn.calls.append(self._asks(self._asked, names[self._asked - 1]))
            may_ask = self._code["together"]
        turn.waits_for = frozenset({*range(1, self._asked + 1)} - self._settled)
        return turn

    def _asks(self, number: int, n: str) -> AskedCall:
        assert self._tool is not None
        return interpreter._asked(number, self._tool, {"n": n}, number)


def _outcome(settled: Settled) -> Any:
    """What a script got, as another caller would get it."""
    if isinstance(settled, Returned):
        value = settled.value
        return value["said"] if isinstance(value, dict) else value
    error = _ERRORS.get(settled.kind)
    text = f"{settled.kind}: {settled.message}"
    return text if error is None else error(text)
