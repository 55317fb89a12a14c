"""The durable agents of ``examples/`` with their workers killed elsewhere than the examples do.

Run by the Python that has the engines: ``-m tests.interop.durable_checks NAME CHECK``, where NAME
is that of the example's module. It prints the last output of the agent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

__all__ = ["CHECKS"]

_SECONDS = 50.0


class Drill:
    """An agent whose call is approved, and was waiting in a worker that is killed now."""

    def __init__(self, example: ModuleType, stack: ExitStack) -> None:
        self.example, self._stack = example, stack
        example.SOLD.touch()
        self.worker = self.started()
        if hasattr(example, "start"):
            example.start()
        assert self.worker.stdout.readline() == "it waits\n"
        self.end()
        example.desk()

    def started(self, *words: str) -> Any:
        """A worker, or what else runs these words, ended with the drill."""
        if words:
            made = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
        else:
            made = self.example.worker()
        self._stack.callback(made.communicate, timeout=_SECONDS)
        self._stack.callback(made.kill)
        self.worker = made
        return made

    def end(self) -> None:
        self.worker.kill()
        self.worker.wait(_SECONDS)

    def output(self) -> str:
        """The last output of the agent, with a worker that runs."""
        if hasattr(self.example, "start"):
            url = f"{self.example.RESTATE}/restate/workflow/{self.example.AGENT}/attach"
            return str(self.example.web.get(url).raise_for_status().json())
        return str(self.worker.communicate(timeout=_SECONDS)[0]).replace("it waits\n", "").strip()


def killed_between_the_result_and_the_checkpoint(drill: Drill) -> str:
    name = drill.example.__name__
    drill.started("-m", __spec__.name, name, "die_with_the_result")
    assert drill.worker.wait(_SECONDS) == -signal.SIGKILL
    assert drill.example.SOLD.read_text() == "tea\n"
    drill.started()
    return drill.output()


def the_server_dies_while_the_tool_runs(drill: Drill) -> str:
    worker = drill.started()
    _until(drill.example.SOLD.read_text)
    children = Path(f"/proc/{worker.pid}/task").glob("*/children")
    (shop,) = [int(pid) for file in children for pid in file.read_text().split()]
    os.kill(shop, signal.SIGKILL)
    return drill.output()


def _until(there: Callable[[], object]) -> None:
    end = time.monotonic() + _SECONDS
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def die_with_the_result(example: ModuleType) -> None:
    """A worker that is killed when it has the result of a call."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    kind = type(example.host)
    made = kind.call_tool
    if hasattr(example, "start"):

        async def call_tool(self: Any, *args: Any, **options: Any) -> Any:
            await made(self, *args, **options)
            die()

    else:

        def call_tool(self: Any, *args: Any, **options: Any) -> Any:  # type: ignore[misc]
            made(self, *args, **options)
            die()

    kind.call_tool = call_tool
    anyio.run(example.work) if hasattr(example, "start") else example.work()


CHECKS: dict[str, Callable[[Drill], str]] = {
    check.__name__: check
    for check in (
        killed_between_the_result_and_the_checkpoint,
        the_server_dies_while_the_tool_runs,
    )
}


def main(name: str, check: str) -> None:
    example = import_module(name)
    if check == die_with_the_result.__name__:
        die_with_the_result(example)
        return
    with ExitStack() as stack:
        print(CHECKS[check](Drill(example, stack)))
    assert example.SOLD.read_text() == "tea\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
