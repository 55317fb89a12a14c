"""The server's process: how it starts, dies, floods, and is not left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_client import (
    CallTimeout,
    CancelToken,
    ConfigError,
    ConnectError,
    Limits,
    McpError,
    Session,
    StdioServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.errors import CallWithdrawn, ConnectionLost
from mcp_client.processes.process import PosixGroup
from tests.support.selection import CONFINED, process_here
from tests.support.starting import scripted
from tests.support.timing import Clock

pytestmark = pytest.mark.usefixtures("process_way")


def _session(*options: str, env: dict[str, str] | None = None, **rest: Any) -> Any:
    return connect(scripted(*options, env=env), approval=allow_all, **rest)


async def _goes_on(session: Session, generation: int = 1) -> None:
    assert (await session.call_tool("echo")).text == "{}"
    assert session.generation == generation


async def _gone(pid: int) -> None:
    with anyio.fail_after(60):
        while _lives(pid):
            await anyio.sleep(0.01)


async def _until_it_waits() -> None:
    """For what is not ready at once. (anyio's own function for that sleeps on asyncio.)"""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def _until_some_has_left(session: Session) -> None:
    """Wait until a part of what is written is in the pipe, if the system reports that."""
    transport: Any = session._connection.transport
    with anyio.fail_after(60):
        while (unread := transport.unread()) is not None and unread <= transport._process.backlog:
            await anyio.sleep(0.001)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def _until_dead(pid: int) -> None:
    """Wait for the end of a process that was killed: the system takes as long as it takes."""
    with anyio.fail_after(60):
        while _lives(pid):
            await anyio.sleep(0.001)


# ------------------------------------------------------------------------ starting


@pytest.mark.parametrize(
    ("command", "displayed", "advice"),
    [
        ("no-such-program server.py", "'no-such-program server.py'", "['server.py']"),
        ("no-such-program a --key=sk-1", "'no-such-program a --key=...'", "['a', '--key=...']"),
        ("no-such-program KEY=sk-1 b", "'no-such-program KEY=... b'", "['KEY=...', 'b']"),
        ("no-such-program -ksk-1", "'no-such-program -k...'", "['-k...']"),
        ("no-such-program -k sk-1 b", "'no-such-program -k ... b'", "['-k', '...', 'b']"),
        ("no-such-program -y b", "'no-such-program -y b'", "['-y', 'b']"),
        ("no-such-program https://sk-1@h", "'no-such-program https://...'", "['https://...']"),
    ],
)
async def test_a_whole_command_line_is_refused_without_what_may_be_secret(
    command: str, displayed: str, advice: str
) -> None:
    server = StdioServer(command)
    with pytest.raises(ConnectError, match="a whole command line; give the command") as caught:
        await connect(server, approval=allow_all)
    assert f"cannot run the command {displayed}" in str(caught.value)
    assert f"StdioServer('no-such-program', {advice})" in str(caught.value)
    with pytest.raises(ConfigError, match="give its words apart") as refused:
        connect(command)
    assert f"StdioServer('no-such-program', {advice})" in str(refused.value)
    assert "sk-1" not in repr((server, caught.value, caught.value.server, refused.value))


async def test_what_is_set_before_the_command_is_not_shown() -> None:
    server = StdioServer("KEY=sk-1 npx b")
    with pytest.raises(
        ConnectError, match=r"StdioServer\('KEY=\.\.\.', \['npx', 'b'\]\)"
    ) as caught:
        await connect(server, approval=allow_all)
    with pytest.raises(
        ConfigError, match=r"StdioServer\('KEY=\.\.\.', \['npx', 'b'\]\)"
    ) as refused:
        connect("KEY=sk-1 npx b")
    assert "sk-1" not in repr((server, caught.value, caught.value.server, refused.value))


async def test_a_command_that_does_not_exist_states_what_to_do() -> None:
    with pytest.raises(ConnectError, match="not on PATH; install it, or give its full path"):
        await connect(["no-such-command-anywhere"])


async def test_a_file_that_is_not_executable_is_a_connect_error(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01")
    program.chmod(0o755)
    with pytest.raises(ConnectError, match=r"cannot start|Exec format error"):
        await connect([str(program)])


async def test_a_system_without_another_thread_is_a_connect_error_and_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, process_way: str
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if process_way != "loop":  # the way of the event loop starts none
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(ConnectError, match=r"can't start new thread"):
            await connect(scripted())


async def test_a_working_directory_that_is_missing_is_named() -> None:
    with pytest.raises(ConnectError, match="'/no/such/place' does not exist"):
        await connect(StdioServer(sys.executable, cwd="/no/such/place"))


async def test_a_relative_command_is_found_where_the_server_runs(
    tmp_path: Path, process_way: str
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    command = scripted().args
    server = StdioServer("./python", command, cwd=tmp_path)
    python = Path(sys.executable).resolve()
    if process_way == CONFINED and python.is_relative_to(Path.home()):
        with pytest.raises(ConnectError, match=r"add Sandbox\(read="):
            await connect(server)
        return
    async with connect(server) as session:
        await session.ping()


async def test_the_error_has_the_last_lines_of_standard_error_without_secrets() -> None:
    with pytest.raises(ConnectError) as caught:
        await connect(scripted("--print-and-exit", env={"SECRET": "hunter2-hunter2"}))
    assert caught.value.exit_code == 1
    assert caught.value.stderr_tail == "cannot start: the key *** is no good"
    assert "the key ***" in str(caught.value)


async def test_a_variable_of_the_host_does_not_reach_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOST_TOKEN", "secret")
    async with _session(env={"GIVEN": "yes"}) as session:
        seen = json.loads((await session.call_tool("environment")).text)
    assert "HOST_TOKEN" not in seen
    assert (seen["GIVEN"], seen["PATH"]) == ("yes", os.environ["PATH"])


async def test_standard_error_may_be_replaced_by_an_object_without_a_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", object())
    async with _session() as session:
        await _goes_on(session)


async def test_cancelling_a_connect_leaves_no_process() -> None:
    with anyio.move_on_after(0.1) as scope:
        await connect(scripted("--slow-start", "30"), timeouts=Timeouts(close=0.2))
    assert scope.cancelled_caught


# -------------------------------------------------------------------------- dying


async def test_killing_the_server_settles_every_call_and_the_next_call_restarts_it() -> None:
    async with _session() as session:
        errors: list[ConnectionLost] = []

        async def wait(name: str) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await session.call_tool(name)
            errors.append(caught.value)

        await session.list_tools()
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(wait, "never")
            await anyio.wait_all_tasks_blocked()
            group.start_soon(wait, "kill")
        assert [error.exit_code for error in errors] == [-9] * 6
        assert len(set(map(id, errors))) == 6
        await _goes_on(session, generation=2)
        assert session.stats.restarts == 1


async def test_a_server_that_keeps_dying_is_given_up() -> None:
    async with _session(limits=Limits(restarts=2)) as session:
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="exited with code 3") as caught:
                await session.call_tool("exit")
            assert caught.value.stderr_tail == "about to go"
        with pytest.raises(ConnectError, match=r"exited or ended its session.*Limits.restarts"):
            await session.call_tool("echo")


async def test_output_that_is_closed_settles_what_waits() -> None:
    async with _session(timeouts=Timeouts(close=0.2)) as session:
        with pytest.raises(ConnectionLost, match="closed its output"):
            await session.call_tool("close-output")
        await _goes_on(session, generation=2)


async def test_a_server_that_closes_its_input_is_started_again() -> None:
    async with _session(timeouts=Timeouts(close=0.2)) as session:
        assert (await session.call_tool("close-input")).text == "deaf"
        with pytest.raises(ConnectError):
            await session.call_tool("echo")
        await _goes_on(session, generation=2)


async def test_a_grandchild_that_holds_the_output_delays_no_call() -> None:
    async with _session() as session:
        with anyio.fail_after(60), pytest.raises(ConnectionLost) as caught:
            await session.call_tool("spawn-and-exit")
        assert caught.value.exit_code == 0
        await _gone(process_here(int(caught.value.stderr_tail)))


async def test_a_grandchild_ends_with_the_session() -> None:
    async with _session("--spawn-grandchild") as session:
        pid = process_here(int((await session.call_tool("spawn")).text))
        assert _lives(pid)
    await _gone(pid)


async def test_a_server_that_ignores_sigterm_is_killed_within_the_bound(clock: Clock) -> None:
    async with _session("--ignore-sigterm", timeouts=Timeouts(close=20)) as session:
        pid = process_here(int((await session.call_tool("pid")).text))
        clock.stop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.aclose)
            for _ in range(2):  # it may end by its input, and by the signal
                await _until_it_waits()
                assert _lives(pid)
                clock.jump(20)
            await _until_it_waits()
            clock.resume()  # the kill takes what it takes on this machine
    await _until_dead(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
async def test_a_server_that_is_slow_to_die_is_reaped_when_it_has_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PosixGroup, "kill", lambda group: None)
    async with _session("--ignore-sigterm", timeouts=Timeouts(close=0.1)) as session:
        pid = process_here(int((await session.call_tool("pid")).text))
    assert _lives(pid)
    os.kill(pid, signal.SIGKILL)
    with anyio.fail_after(60):
        while Path(f"/proc/{pid}").exists():  # until a process has waited for it
            await anyio.sleep(0.01)


async def test_a_server_that_is_busy_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    async with _session("--note-sigterm", str(noted), timeouts=Timeouts(close=2)) as session:
        await session.call_tool("stop-reading", {"until": str(tmp_path / "never")})
    assert noted.exists()


async def test_what_a_server_leaves_behind_is_asked_to_end_before_it_is_killed(
    tmp_path: Path, clock: Clock, process_way: str
) -> None:
    noted = tmp_path / "noted"
    async with _session() as session:
        pid = (await session.call_tool("spawn-noting", {"folder": str(noted)})).text
        left = process_here(int(pid))
        clock.stop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.aclose)
            for _ in range(2_000):  # it takes what it takes on this machine
                if noted.exists() or not _lives(left):
                    break
                await anyio.to_thread.run_sync(time.sleep, 0.01)
            clock.resume()
    assert not _lives(left)
    # What is left in a sandbox is killed at once, so that it starts nothing meanwhile.
    assert noted.exists() or process_way == CONFINED


async def test_closing_is_finished_even_if_the_closer_is_cancelled() -> None:
    session = await _session("--ignore-sigterm", timeouts=Timeouts(close=0.2))
    pid = process_here(int((await session.call_tool("pid")).text))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await session.aclose()
    await session.aclose()
    await _until_dead(pid)


# ------------------------------------------------------------------------ flooding


async def test_a_flood_on_standard_error_blocks_nothing_and_is_bounded() -> None:
    async with _session("--stderr-flood", "300000", limits=Limits(stderr_bytes=1000)) as session:
        assert (await session.call_tool("flood-errors", {"bytes": 1_000_000})).text == "flooded"
        with pytest.raises(ConnectionLost) as caught:
            await session.call_tool("exit")
        assert caught.value.stderr_tail.endswith("about to go")
        assert len(caught.value.stderr_tail) <= 1000


async def test_each_line_of_standard_error_is_passed_to_the_function_of_the_host() -> None:
    lines: list[str] = []

    def listen(line: str) -> None:
        lines.append(line)
        raise ValueError("a fault of the host's own")

    server = scripted(stderr=listen)
    limits = Limits(stderr_bytes=1000)
    async with connect(server, approval=allow_all, limits=limits) as session:
        await session.call_tool("flood-errors", {"bytes": 100_000})
        with anyio.fail_after(60):
            while lines[-1:] != ["the end"]:
                await anyio.sleep(0.01)
        assert "".join(lines[:-1]) == "e" * 100_000, "a line beyond the limit comes in parts"
        await session.call_tool("flood-errors", {"bytes": 5})
        with anyio.fail_after(60):
            while lines[-2:] != ["eeeee", "the end"]:
                await anyio.sleep(0.01)


@pytest.mark.slow
async def test_a_flood_of_progress_is_bounded_and_the_response_comes() -> None:
    async with _session() as session:
        assert (await session.call_tool("flood-progress", {"count": 20_000})).text == "flooded"


@pytest.mark.slow
async def test_answers_to_a_server_that_does_not_read_are_dropped_at_a_cap() -> None:
    async with _session() as session:
        assert (await session.call_tool("flood-pings", {"count": 40_000})).text == "flooded"
        assert session.stats.unsent > 0
        await _goes_on(session)


async def test_what_waits_for_a_server_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    resume = tmp_path / "go-on"
    async with _session() as session:
        await session.call_tool("stop-reading", {"until": str(resume)})
        transport: Any = session._connection.transport
        notice = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "x" * 100_000}}
        for _ in range(40):
            transport.send_soon(json.dumps(notice), {})
        assert transport._process.backlog < 2 * 1024 * 1024
        assert session.stats.unsent > 20
        resume.touch()
        await _goes_on(session)


async def test_a_call_cancelled_before_it_was_written_never_runs(tmp_path: Path) -> None:
    resume, records = tmp_path / "go-on", list[Any]()
    async with _session(audit=records.append) as session:
        await session.call_tool("stop-reading", {"until": str(resume)})
        blocked = {"text": "x" * 300_000}
        with pytest.raises(CallTimeout, match="it may have run"):  # some of it has left
            await session.call_tool("length", blocked, timeout=1)
        with pytest.raises(ConnectError, match="nothing was sent") as caught:
            await session.call_tool("length", blocked, timeout=0.1)
        assert (caught.value.retryable, caught.value.tool) == (True, "length")
        token = CancelToken()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_withdrawn, session, blocked, token)
            await _until_it_waits()
            token.cancel("no")
        closed = [record for record in records if record["event"] == "closed"][1:]
        assert [record["delivery"] for record in closed] == ["unknown", "not_sent", "not_sent"]
        assert [record["sent_bytes"] > 0 for record in closed] == [True, False, False]
        assert session._connection.transport.unread() < 2 * 300_000
        resume.touch()
        await _goes_on(session)
        reported = json.loads((await session.call_tool("seen")).text)
        assert "notifications/cancelled" in [notice["method"] for notice in reported]
        assert len(await _cancelled(session)) == 1, "the others were never sent"


async def test_calls_that_waited_for_a_server_that_ended_were_not_sent(tmp_path: Path) -> None:
    failed: dict[int, McpError] = {}

    async def ask(session: Session, number: int) -> None:
        with pytest.raises(McpError) as caught:
            await session.call_tool("length", {"text": "x" * 300_000})
        failed[number] = caught.value

    async with _session() as session, anyio.create_task_group() as tasks:
        pid = process_here(int((await session.call_tool("pid")).text))
        await session.call_tool("stop-reading", {"until": str(tmp_path / "never")})
        for number in range(4):
            tasks.start_soon(ask, session, number)
            await _until_it_waits()
            await _until_some_has_left(session)
        os.kill(pid, signal.SIGKILL)
    assert type(failed.pop(0)) is ConnectionLost, "some of it has left"
    assert [type(error) for error in failed.values()] == [ConnectError] * 3


async def test_calls_that_waited_for_the_server_to_read_are_all_made(tmp_path: Path) -> None:
    resume, lengths, token = tmp_path / "go-on", list[int](), CancelToken()
    sizes = [300_000, *range(1, 3_000, 5)]

    async def ask(session: Session, size: int) -> None:
        response = await session.call_tool("length", {"text": "x" * size})
        lengths.append(int(response.text))

    async with _session() as session, anyio.create_task_group() as tasks:
        await session.call_tool("stop-reading", {"until": str(resume)})
        for size in sizes:
            tasks.start_soon(ask, session, size)
            if size == 1_001:  # one among them is taken back
                tasks.start_soon(_withdrawn, session, {"text": "no"}, token)
            await anyio.lowlevel.checkpoint()
        await _until_it_waits()
        token.cancel()
        await _until_it_waits()
        resume.touch()
    assert sorted(lengths) == sorted(sizes)


async def _withdrawn(session: Session, arguments: Any, token: CancelToken) -> None:
    with pytest.raises(CallWithdrawn):
        await session.call_tool("length", arguments, cancel=token)


# ---------------------------------------------------------------------- giving up


async def _cancelled(session: Session) -> list[Any]:
    seen = json.loads((await session.call_tool("seen")).text)
    return [n["params"]["requestId"] for n in seen if n["method"] == "notifications/cancelled"]


async def test_a_late_response_is_dropped_after_the_server_was_notified() -> None:
    async with _session() as session:
        with pytest.raises(CallTimeout) as caught:
            await session.call_tool("hold", timeout=0.5)
        assert caught.value.clock in ("idle", "total")
        assert (await session.call_tool("release")).text == "released"
        assert session.stats.late_answers == 1
        assert len(await _cancelled(session)) == 1


async def test_a_cancelled_call_is_announced_to_the_server_and_the_session_goes_on() -> None:
    async with _session() as session:
        await session.list_tools()
        with anyio.move_on_after(0.5):
            await session.call_tool("hold")
        assert len(await _cancelled(session)) == 1
        await _goes_on(session)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_cancelled_through_asyncio_sends_a_cancellation() -> None:
    import asyncio  # noqa: TID251

    async with _session() as session:
        await session.list_tools()
        task = asyncio.ensure_future(session.call_tool("hold"))
        await anyio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await _cancelled(session)) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_closing_finishes_however_often_asyncio_cancels_it() -> None:
    import asyncio  # noqa: TID251

    session = await _session("--ignore-sigterm", timeouts=Timeouts(close=0.2))
    pid = process_here(int((await session.call_tool("pid")).text))
    closer = asyncio.ensure_future(session.aclose())
    for _ in range(3):
        await asyncio.sleep(0.02)
        closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    await session.aclose()
    await _until_dead(pid)


# -------------------------------------------------------------------------- owners


async def test_sessions_may_overlap_and_be_closed_in_other_tasks() -> None:
    opened: list[Session] = []

    async def open_one() -> None:
        opened.append(await _session())

    async with anyio.create_task_group() as group:
        group.start_soon(open_one)
        group.start_soon(open_one)
    first, second = opened
    await _goes_on(first)
    async with anyio.create_task_group() as group:
        group.start_soon(first.aclose)
    await _goes_on(second)
    await second.aclose()
    await second.aclose()
    with pytest.raises(ConnectError, match="closed"):
        await second.call_tool("echo")


async def test_a_server_that_exits_cancels_no_task_of_the_host() -> None:
    async with _session() as session:
        pid = process_here(int((await session.call_tool("pid")).text))
        os.kill(pid, signal.SIGKILL)
        await _gone(pid)
        await anyio.sleep(0.1)
        await anyio.lowlevel.checkpoint()
        await _goes_on(session, generation=2)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("script", "its interpreter, which its first line .* names, is not there"),
        ("my tools/the server", "no file has this path; if it is a whole command line, give"),
        ("no-such-server --stdio", "it is a whole command line; give the command"),
        ("~/bin/server", "'~' is not expanded"),
    ],
)
async def test_a_command_that_cannot_be_started_is_reported_with_the_reason(
    command: str, expected: str, tmp_path: Path, process_way: str
) -> None:
    if (process_way, command) == (CONFINED, "script"):
        expected = "exec: .*script: not found"  # the words of the shell in the sandbox
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    path = command if command.startswith("~") else str(tmp_path / command)
    with pytest.raises(ConnectError, match=expected):
        async with connect(StdioServer(path), approval=allow_all):
            raise AssertionError("it was entered")
