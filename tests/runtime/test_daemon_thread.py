"""A thread that waits for a person does not keep a program alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio.from_thread
import pytest

from mcp_client.runtime.daemon_thread import in_daemon_thread

ROOT = Path(__file__).parents[2]
BOUND = 60.0

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import anyio
from mcp_client import Allow, connect, sync
from tests.server.start import scripted

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


def raises() -> None:
    raise LookupError("its own")


async def doubled(number: int) -> int:
    return 2 * number
