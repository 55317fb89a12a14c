"""The command is terminated, hung up or killed, in each phase: no process of it is left.

The server does not end by itself, and has started a process that ends neither.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client.cli.exits import Interrupted
from mcp_client.cli.signals import until_ctrl_c, until_ended
from tests.cli.shell import ROOT, at_terminal, environment, until

FAMILY = """
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
STUBBORN = "import signal, time\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\\nprint(flush=True)"
child = subprocess.Popen([sys.executable, "-c", STUBBORN + "\\ntime.sleep(1000)"],
                         stdout=subprocess.PIPE)
child.stdout.read(1)
def report(name):
    with open(os.path.join(sys.argv[1], name), "w") as file:
        file.write(f"{os.getpid()} {child.pid}\\n")
    os.rename(os.path.join(sys.argv[1], name), os.path.join(sys.argv[1], "at-" + name))
report("start")
for line in sys.stdin if sys.argv[2] != "start" else ():
    asked = json.loads(line)
    match asked["method"]:
        case "server/discover":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                     "serverInfo": {"name": "family", "version": "1"}}
        case "tools/list":
            found = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            report("call")
            continue
        case _:
            continue
    found |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
if sys.argv[2] == "end":
    report("end")
time.sleep(1000)
"""
HANG_UP = 0
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, HANG_UP)


def family(directory: Path, phase: str) -> str:
    program = directory / "family.py"
    program.write_text(FAMILY)
    return shlex.join([sys.executable, str(program), str(directory), phase])


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:
        return sys.platform != "linux"
    return state not in "ZX"


def all_gone(directory: Path) -> None:
    server, grandchild = map(int, (directory / "at-start").read_text().split())
    until(lambda: not lives(server) and not lives(grandchild))


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("phase", ["start", "ask", "call", "prompt", "end"])
def test_nothing_is_left_at_a_terminal(phase: str, number: int, tmp_path: Path) -> None:
    command = {"prompt": "shell", "end": "tools"}.get(phase, "call")
    words = [command, family(tmp_path, phase), *(["wait"] if command == "call" else [])]
    child = at_terminal(*words, *(["--allow=wait"] if phase == "call" else []))
    match phase:
        case "ask":
            child.expect(r"Run it\? ")
        case "prompt":
            child.expect("mcp>")
        case _:
            until((tmp_path / f"at-{phase}").exists)
    if number == HANG_UP:
        os.close(child.child_fd)
        child.closed = True
    else:
        child.kill(number)
    all_gone(tmp_path)
    if number == HANG_UP:
        until(lambda: os.waitpid(child.pid, os.WNOHANG)[0] != 0)
    else:
        child.wait()


def _as_in_background() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where ``nohup`` started these tests


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("stuck", [False, True])
def test_nothing_is_left_of_a_job_in_the_background(
    number: int, stuck: bool, tmp_path: Path
) -> None:
    """As of a script: it ignores Ctrl-C. ``stuck``: nothing comes on its standard input."""
    words = ["call", family(tmp_path, "call"), "wait", "--allow=wait", *(["-"] if stuck else [])]
    reading, writing = os.pipe()
    job = subprocess.Popen(
        [sys.executable, "-m", "mcp_client", *words],
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=reading,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_as_in_background,
    )
    os.close(reading)
    until((tmp_path / ("at-start" if stuck else "at-call")).exists)
    job.send_signal(signal.SIGINT)  # which it does not heed
    assert job.poll() is None
    job.send_signal(number)
    all_gone(tmp_path)
    output = job.communicate(timeout=60)[1]
    os.close(writing)
    assert job.returncode == (-number if number == signal.SIGKILL else 130), output
    assert b"Traceback" not in output


# ------------------------------------------------------------------- in the process itself


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """As ``nohup`` starts a command; and what would end it where it hangs, which here does not."""
    started: list[Any] = []

    class Timer:
        daemon = False

        def __init__(self, *what: Any) -> None:
            self.what = what

        def start(self) -> None:
            started.append((self.daemon, *self.what))

    monkeypatch.setattr(threading, "Timer", Timer)
    numbers = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    before = {one: signal.signal(one, how) for one, how in numbers.items()}
    yield started
    for one, how in before.items():
        signal.signal(one, how)


async def test_a_job_of_nohup_heeds_sigterm_alone(timers: list[Any]) -> None:
    async def ended_in_turn() -> int:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        signal.raise_signal(signal.SIGHUP)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()
        return 0

    with pytest.raises(Interrupted):
        await until_ended(ended_in_turn)
    assert timers == [(True, 15.0, os._exit, [130])]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_what_is_not_interrupted_returns_and_raises_as_it_is(timers: list[Any]) -> None:
    async def seven() -> int:
        return 7

    async def broken() -> int:
        raise KeyError("broken")

    for wait_for in (until_ended, until_ctrl_c):
        assert await wait_for(seven) == 7
        with pytest.raises(KeyError, match="broken"):
            await wait_for(broken)
    assert timers == []


async def test_ctrl_c_cancels_once_and_ends_the_second_time() -> None:
    before = signal.getsignal(signal.SIGINT)
    for times in (1, 2):

        async def cancelled(times: int = times) -> int:
            try:
                signal.raise_signal(signal.SIGINT)
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    for _ in range(times - 1):
                        signal.raise_signal(signal.SIGINT)
                    for _ in range(20):
                        await anyio.lowlevel.checkpoint()
            return 0

        if times == 1:
            assert await until_ctrl_c(cancelled) is None
        else:
            with pytest.raises(Interrupted):
                await until_ctrl_c(cancelled)
        assert signal.getsignal(signal.SIGINT) is before
