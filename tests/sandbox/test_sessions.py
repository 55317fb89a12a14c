"""A server in a sandbox ends, fails and is started again as one without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcp_client.sync
from mcp_client import ConnectError, Sandbox, Session, Timeouts, allow_all, connect
from mcp_client.errors import ConnectionLost
from tests.support.starting import scripted

from .confined import needs_bubblewrap, run

pytestmark = needs_bubblewrap

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A variable by which all processes of a test are found; none is left when it ends."""
    yield str(tmp_path)
    for pid in marked(str(tmp_path)):
        os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                reported = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            except OSError:
                continue
            found += [int(process.name)] if mark.encode() in reported else []
    return found


async def gone(mark: str) -> None:
    with anyio.fail_after(60):
        while marked(mark):
            await anyio.sleep(0.01)


def session(mark: str, *options: str, close: float = 5, **sandbox: Any) -> Any:
    held = Sandbox(**sandbox)
    server = scripted("--note-sigterm", f"{mark}/noted", *options, env={"M": mark}, sandbox=held)
    return connect(server, approval=allow_all, timeouts=Timeouts(close=close))


async def goes_on(session: Session, generation: int) -> None:
    assert (await session.call_tool("echo")).text == "{}"
    assert session.generation == generation


async def test_a_crash_by_signal_is_reported_and_the_next_call_starts_it_again(mark: str) -> None:
    async with session(mark) as server:
        with pytest.raises(ConnectionLost, match="ended by signal 9") as caught:
            await server.call_tool("kill")
        assert caught.value.exit_code == -9
        await goes_on(server, 2)
        assert server.sandbox is not None
    await gone(mark)


async def test_exit_code_and_standard_error_are_those_of_the_server(mark: str) -> None:
    async with session(mark) as server:
        with pytest.raises(ConnectionLost, match="exited with code 3") as caught:
            await server.call_tool("exit")
        assert (caught.value.exit_code, caught.value.stderr_tail) == (3, "about to go")
    await gone(mark)


@pytest.mark.parametrize("stream", ["output", "input"])
async def test_a_stream_that_the_server_closes_is_noticed(mark: str, stream: str) -> None:
    async with session(mark, close=0.2) as server:
        if stream == "output":
            with pytest.raises(ConnectionLost, match="closed its output"):
                await server.call_tool("close-output")
        else:
            assert (await server.call_tool("close-input")).text == "deaf"
            with pytest.raises(ConnectError):
                await server.call_tool("echo")
        await goes_on(server, 2)


async def test_without_another_thread_it_is_a_connect_error(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(anyio.to_thread, "run_sync", fail)
    with pytest.raises(ConnectError, match="can't start new thread"):
        await session(mark)


async def test_what_it_started_ends_with_the_session(mark: str) -> None:
    async with session(mark) as server:
        await server.call_tool("spawn")
        assert marked(mark)
    assert marked(mark) == []


async def test_what_it_started_ends_with_the_server(mark: str) -> None:
    async with session(mark) as server:
        with pytest.raises(ConnectionLost):
            await server.call_tool("spawn-and-exit")
        await gone(mark)


async def test_a_daemon_ends_with_the_server(mark: str) -> None:
    held = Sandbox()
    script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &) ; echo started"
    env = {"PATH": "/usr/bin:/bin", "M": mark}
    assert (await anyio.to_thread.run_sync(lambda: run(held, ["/bin/sh", "-c", script], env=env)))[
        1
    ] == "started\n"
    await gone(mark)


async def test_a_busy_server_is_asked_to_end_before_it_is_killed(mark: str, tmp_path: Path) -> None:
    async with session(mark, close=0.5, write=[tmp_path]) as server:
        await server.call_tool("stop-reading", {"until": f"{mark}/never"})
    assert (tmp_path / "noted").exists()
    await gone(mark)


async def test_a_server_that_ignores_what_asks_it_to_end_is_killed(mark: str) -> None:
    async with session(mark, "--ignore-sigterm", close=0.2) as server:
        await server.call_tool("stop-reading", {"until": f"{mark}/never"})
        assert marked(mark)
    assert marked(mark) == []


async def test_cancelling_a_connect_leaves_no_process(mark: str) -> None:
    with anyio.move_on_after(0.3):
        async with session(mark, "--slow-start", "100", close=0.2):
            pytest.fail("it never answers")
    await gone(mark)


HOST = """
import sys
from mcp_client import Sandbox, allow_all
from mcp_client.sync import connect
from tests.support.starting import scripted

server = scripted(env={"M": sys.argv[1]}, sandbox=Sandbox())
session = connect(server, approval=allow_all).open()
session.call_tool("spawn")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
async def test_killing_the_host_leaves_no_process(mark: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as host:
        assert host.stdout is not None
        assert await anyio.to_thread.run_sync(host.stdout.readline) == b"open\n"
        with anyio.fail_after(60):
            while len(marked(mark)) < 3:  # host, server, and what that started
                await anyio.sleep(0.01)
        host.kill()
    await gone(mark)


async def test_a_session_reports_what_is_enforced(mark: str, tmp_path: Path) -> None:
    async with session(mark, read=[ROOT], write=[tmp_path], network="all") as server:
        held = server.sandbox
    assert held.network == "all"
    assert (held.read, held.write) == ((str(ROOT),), (str(tmp_path),))
    assert held.sentences[4:] == held.besides == ()
    assert held.sentences[1] == f"can write {tmp_path}, a temporary directory of its own"
    assert held.sentences[2] == "can reach the network"
    assert set(held.program) >= {os.path.realpath(sys.base_prefix)} - {"/usr"}


@pytest.mark.slow
@pytest.mark.one_backend
async def test_without_a_sandbox_nothing_is_reported_and_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys; from mcp_client import allow_all; from mcp_client.sync import connect; "
        "from tests.support.starting import scripted; "
        "session = connect(scripted(sandbox=False), approval=allow_all).open(); "
        "assert session.call_tool('echo').text == '{}' and session.sandbox is None; "
        "session.close(); print([name for name in sys.modules if 'sandbox' in name])"
    )
    ran = await anyio.run_process([sys.executable, "-c", program], cwd=ROOT)
    assert ran.stdout == b"[]\n"
    assert mcp_client.sync
