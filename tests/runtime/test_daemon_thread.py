"""A thread that waits for a person does not keep a program alive."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio.from_thread
import anyio.to_thread
import pytest

from mcp_client.runtime import daemon_thread
from mcp_client.runtime.daemon_thread import in_daemon_thread

ROOT = Path(__file__).parents[2]
BOUND = 60.0

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import anyio
from mcp_client import Allow, connect, sync
from tests.support.starting import scripted

def ask(call):
    os.write(1, b"WAITING\\n")
    return Allow() if input() else None

async def main():
    async with connect(scripted(), approval=ask) as session:
        await session.call_tool("pid")

if sys.argv[1] == "sync":
    with sync.connect(scripted(), approval=ask) as session:
        session.call_tool("pid")
elif sys.argv[1] == "asyncio":
    import asyncio
    asyncio.run(main())
else:
    anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.one_backend
@pytest.mark.parametrize("runner", ["asyncio", "trio", "sync"])
def test_ctrl_c_ends_a_program_whose_hook_waits_for_input(runner: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(program), runner],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "WAITING\n"
        process.send_signal(signal.SIGINT)
        process.wait(BOUND)  # its input stays open
        assert process.stderr is not None
        errors = process.stderr.read()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode in (-signal.SIGINT, 130), errors
    assert "KeyboardInterrupt" in errors
    assert "_shutdown" not in errors
    assert "Fatal" not in errors


async def test_a_hook_may_use_the_event_loop_that_waits_for_it() -> None:
    assert await in_daemon_thread(lambda: anyio.from_thread.run(doubled, 3)) == 6
    with pytest.raises(LookupError, match="its own"):
        await in_daemon_thread(raises)


@pytest.mark.one_backend
async def test_a_thread_runs_one_function_after_another_and_ends_if_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_thread, "_IDLE_SECONDS", 0.05)
    here = threading.current_thread()
    first = await in_daemon_thread(threading.current_thread)
    assert await in_daemon_thread(threading.current_thread) is first is not here
    await anyio.to_thread.run_sync(first.join, BOUND)
    assert not first.is_alive()
    assert await in_daemon_thread(threading.current_thread) not in (first, here)


@pytest.mark.one_backend
async def test_functions_that_run_at_the_same_time_have_a_thread_each() -> None:
    meet, met = threading.Barrier(3), list[threading.Thread]()

    async def one() -> None:
        await in_daemon_thread(meet.wait, BOUND)
        met.append(await in_daemon_thread(threading.current_thread))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert len(met) == 3


FORKS = """
import asyncio, os
from mcp_client.runtime.daemon_thread import in_daemon_thread

def number_here():
    return loop.run_until_complete(asyncio.wait_for(in_daemon_thread(os.getpid), 30))

loop = asyncio.new_event_loop()
number_here()
child = os.fork()
if not child:
    os._exit(0 if number_here() == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
loop.close()
"""


@pytest.mark.one_backend
@pytest.mark.skipif(not hasattr(os, "fork"), reason="it cannot fork")
def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    words = [sys.executable, "-c", FORKS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def raises() -> None:
    raise LookupError("its own")


async def doubled(number: int) -> int:
    return 2 * number


WITHOUT_THREADS = """
import asyncio, json, os, sys, tempfile, threading
import anyio, trio
from mcp_client import *
from mcp_client import sync
from mcp_client.desk import serve_desk

outcomes = {}

def refuse(thread):
    raise RuntimeError("can't start new thread")

RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "x", "version": "1"}},
    "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"},
                              "outputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "called"}], "structuredContent": {}},
}

def server(message, send):
    if "id" in message and message["method"] in RESULTS:
        called.append(message["method"])
        send({"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]})

def note(name, error):
    said = f"{error}: {error.reason}" if isinstance(error, CallDenied) else str(error)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    outcomes[name] = [kinds, said, "tools/call" in called]

async def allow(call):
    return Allow()

async def use(name, server, **options):
    called.clear()
    try:
        options = {"approval": allow, "revision": "2025-11-25", **options}
        async with connect(server, **options) as it:
            outcomes[name] = [[], (await it.call_tool("add")).text, True]
    except Exception as error:
        note(name, error)

async def enter(name, context):
    called.clear()
    try:
        async with context:
            outcomes[name] = [[], "entered", False]
    except Exception as error:
        note(name, error)

async def main():
    folder = tempfile.mkdtemp()
    memory = MemoryServer(server)
    await use("nothing that needs a thread", memory)
    await use("a plain hook", memory, approval=lambda call: Allow())
    await use("a state", memory, state=folder)
    await use("pins", memory, pins=Pins(folder + "/pins.json"))
    await use("a host name", "http://localhost:9/mcp")
    os.environ["MCP_CLIENT_STDIO"] = "threads"
    await use("pipes", StdioServer(sys.executable, ["-c", "input()"]))
    await enter("pins of a host", Host({"a": memory}, pins=Pins(folder + "/pins.json")))
    await enter("a desk", serve_desk(ApprovalQueue()))
    threading.Thread.start = start_thread  # asyncio itself needs one at its end

called, start_thread = [], threading.Thread.start
threading.Thread.start = refuse
for name, start in {
    "a sync session": lambda: sync.connect(MemoryServer(server)),
    "a sync host": lambda: sync.Host({"a": MemoryServer(server)}).__enter__(),
}.items():
    try:
        start()
    except Exception as error:
        note(name, error)
anyio.run(main, backend=sys.argv[1])
print(json.dumps(outcomes))
"""


@pytest.mark.one_backend
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_where_no_thread_can_be_started_one_error_names_the_cause_and_nothing_is_sent(
    backend: str,
) -> None:
    words = [sys.executable, "-W", "error::ResourceWarning", "-c", WITHOUT_THREADS, backend]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes.pop("nothing that needs a thread") == [[], "called", True]
    kinds, reported, sent = outcomes.pop("a plain hook")
    assert kinds[0] == "CallDenied"
    assert "(cannot start a thread: can't start new thread. Raise the limit" in reported
    assert not sent
    assert len(outcomes) == 8
    for name, (kinds, reported, sent) in outcomes.items():
        assert "ConnectError" in kinds, (name, reported)
        assert "cannot start a thread: can't start new thread. Raise the limit" in reported, name
        assert not sent, name
    assert "Exception ignored" not in done.stderr


def test_threads_are_started_in_one_file() -> None:
    # ``confined_group`` and others make locks and events; the worker of validation and the timer
    # of the command line run in processes of their own, where there is no one to notify.
    elsewhere = {"validation/engine.py", "cli/signals.py"}
    package = ROOT / "mcp_client"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"threading\.(Thread|Timer)\(|to_thread\.run_sync\(", path.read_text())
    }
    assert found == {"runtime/daemon_thread.py", *elsewhere}
