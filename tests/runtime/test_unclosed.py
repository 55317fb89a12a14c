"""A session that is still open when its event loop ends: what is left, and the warning."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import anyio
import pytest

from mcp_client import allow_all, connect
from tests.support.starting import scripted

WEATHER = Path(__file__).parents[2] / "examples/servers/weather.py"


@pytest.mark.skipif(sys.platform != "linux", reason="lists the open descriptors in /proc")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_its_descriptors_are_closed_and_a_warning_names_it(backend: str) -> None:
    async def leave_open() -> int:
        session = await connect(scripted(), name="weather", approval=allow_all)
        return int((await session.call_tool("pid")).text)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
        caught.clear()
        before = len(os.listdir("/proc/self/fd"))
        pids = [anyio.run(leave_open, backend=backend) for _ in range(3)]
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before
    reported = [str(one.message) for one in caught if one.category is ResourceWarning]
    assert reported == 3 * [reported[0]]
    assert "session 'weather' was still open when its event loop ended" in reported[0]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


KEPT = """
import os, sys, anyio, mcp_client
async def leave_open():
    global kept
    kept = await mcp_client.connect([sys.executable, sys.argv[2]], name="weather")
anyio.run(leave_open, backend=sys.argv[1])
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_the_program_closes_one_that_is_still_referred_to(backend: str) -> None:
    words = [sys.executable, "-W", "always", "-c", KEPT, backend, str(WEATHER)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert done.stderr.count("ResourceWarning") == 1
    assert "session 'weather' was still open when its event loop ended" in done.stderr


IN_A_THREAD = """
import asyncio, sys, threading, mcp_client
async def open_all():
    global kept
    program = 'open(sys.argv[1], "a").write("."); exec(open(sys.argv[2]).read())'
    words = [sys.executable, "-c", f"import sys; {program}", *sys.argv[1:]]
    kept = mcp_client.Host({"a": words, "b": words, "c": words}, approval=mcp_client.allow_all)
    await kept.__aenter__()
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(open_all(), loop).result()
"""


@pytest.mark.slow
def test_the_end_of_the_program_starts_nothing_again_in_the_loop_of_a_daemon_thread(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-c", IN_A_THREAD, str(tmp_path / "starts"), str(WEATHER)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "starts").read_text() == "..."
