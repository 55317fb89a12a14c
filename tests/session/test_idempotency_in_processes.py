"""One key in several processes: killed with -9 at every step, and eight of them at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import Allow, MemoryServer, OutcomeUnknown, allow_all, sync
from mcp_client.state import State
from mcp_client.state.calls import Calls
from mcp_client.state.file_state import state_of

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

SECONDS = 100.0
STEPS = {
    "asked": "ran",
    "written": "unknown",
    "running": "unknown",
    "answered": "unknown",
    "settled": "ran before",
}
"""Where a call is when its process is killed, and what the same key leads to then."""
REACHED = {step: threading.Event() for step in STEPS}


def reach(step: str) -> None:
    """Tell the test, in one write: with ``print`` another thread's could come between."""
    os.write(1, f"{step}\n".encode())
    REACHED[step].set()


class Bank:
    """A server whose tool writes into a file that it ran."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.hangs = False

    async def __call__(self, message: dict[str, Any]) -> Any:
        match message.get("method"):
            case "tools/list":
                return {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                step = message["params"]["arguments"]["step"]
                with self.log.open("a") as file:
                    file.write(f"{step} {os.getpid()}\n")
                if step == "running" and self.hangs:
                    reach(step)
                    await anyio.sleep_forever()
                return {"content": [{"type": "text", "text": str(os.getpid())}]}
        return NotImplemented

    @property
    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def opened(self, state: State, approval: Any = allow_all) -> sync.Connecting:
        return sync.connect(MemoryServer(self), name="bank", state=state, approval=approval)


def hang_at_each_step(address: str, log: str) -> None:
    """Make one call for each step, under a key of that name, that never gets beyond it."""

    def wait(step: str) -> None:
        reach(step)
        threading.Event().wait()

    def approve(call: Any) -> Allow:
        if call.arguments["step"] == "asked":
            wait("asked")
        return Allow()

    sending, end = Calls.sending, Calls.end

    def sending_or_wait(self: Calls, key: str, *args: Any) -> None:
        sending(self, key, *args)
        if key == "written":
            wait(key)

    def end_or_wait(self: Calls, key: str, *args: Any, **options: Any) -> None:
        if key == "answered":
            wait(key)
        end(self, key, *args, **options)

    Calls.sending, Calls.end = sending_or_wait, end_or_wait  # type: ignore[method-assign, assignment]
    bank = Bank(Path(log))
    bank.hangs = True
    state = state_of(address)
    assert state is not None
    with bank.opened(state, approve) as session:

        def call(step: str) -> None:
            session.call_tool("pay", {"step": step}, idempotency_key=step)
            wait(step)

        # The one that was answered hangs while it writes the audit, which then no other can write.
        for step in sorted(STEPS, key="answered".__eq__):
            if step == "answered":
                assert all([REACHED[other].wait(SECONDS) for other in STEPS if other != step])
            threading.Thread(target=call, args=[step], daemon=True).start()
        threading.Event().wait()


def pay_once(address: str, log: str) -> None:
    state, bank = state_of(address), Bank(Path(log))
    assert state is not None
    with bank.opened(state) as session:
        print("open", flush=True)
        sys.stdin.readline()
        print(session.call_tool("pay", {"step": "1"}, idempotency_key="one").text, flush=True)


@contextmanager
def process(function: str, address: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    code = f"import sys; from {__name__} import {function}; {function}(*sys.argv[1:])"
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-c", code, address, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as child:
        late = threading.Timer(SECONDS, child.kill)
        late.start()
        try:
            yield child
        finally:
            late.cancel()
            child.kill()


@pytest.fixture(scope="session", params=["a directory", "a database"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "a database":  # before it is noted which processes there are
        request.getfixturevalue("postgres")
    return str(request.param)


@pytest.fixture
def address(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    is_directory = kind == "a directory"
    return str(tmp_path / "s") if is_directory else str(request.getfixturevalue("database"))


@pytest.fixture
def state(address: str) -> Iterator[State]:
    made = state_of(address)
    assert made is not None
    yield made
    if hasattr(made, "close"):
        made.close()


def test_a_process_that_is_killed_at_any_step_leaves_each_call_run_once_at_most(
    address: str, state: State, tmp_path: Path
) -> None:
    bank = Bank(tmp_path / "log")
    with process("hang_at_each_step", address, bank.log) as child:
        assert child.stdout is not None
        assert {child.stdout.readline().strip() for _ in STEPS} == set(STEPS)
        assert state.calls.unsettled() == (), "its process is there"
        child.kill()
        child.wait(SECONDS)
        pid = str(child.pid)
    assert {one.key for one in state.calls.unsettled()} == {"written", "running", "answered"}
    with bank.opened(state) as session:
        for step, then in STEPS.items():
            try:
                text = session.call_tool("pay", {"step": step}, idempotency_key=step).text
                found = "ran before" if text == pid else "ran"
            except OutcomeUnknown as error:
                assert not error.retryable  # noqa: PT017 - it is one of three outcomes
                found = "unknown"
            assert found == then, step
    steps = [line.split()[0] for line in bank.ran]
    assert sorted(steps) == ["answered", "asked", "running", "settled"]


def test_eight_processes_with_one_key_run_one_call(
    address: str, state: State, tmp_path: Path
) -> None:
    bank = Bank(tmp_path / "log")
    state.calls.unsettled()  # which makes the tables
    with (
        process("pay_once", address, bank.log) as a,
        process("pay_once", address, bank.log) as b,
        process("pay_once", address, bank.log) as c,
        process("pay_once", address, bank.log) as d,
        process("pay_once", address, bank.log) as e,
        process("pay_once", address, bank.log) as f,
        process("pay_once", address, bank.log) as g,
        process("pay_once", address, bank.log) as h,
    ):
        children = (a, b, c, d, e, f, g, h)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        found = [child.stdout.readline() for child in children if child.stdout is not None]
    assert len(bank.ran) == 1
    assert found == [bank.ran[0].split()[1] + "\n"] * 8
