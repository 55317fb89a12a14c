"""What a sandbox holds beyond what a server tries from inside: opening, grants, ending."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import ConnectError, Sandbox, Session, StdioServer, allow_all, connect
from mcp_client.sandbox.visible_paths import VisiblePaths
from tests.sandbox.confined import needs_bubblewrap
from tests.sandbox.world import INSIDE
from tests.support.starting import scripted

pytestmark = [
    needs_bubblewrap,
    pytest.mark.one_backend,
]
ROOT = Path(__file__).parents[2]


def probes(**grants: Any) -> Any:
    server = StdioServer(sys.executable, [str(INSIDE / "server.py")], sandbox=Sandbox(**grants))
    return connect(server, approval=allow_all, name="probes")


async def reported(session: Session, probe: str, **world: Any) -> dict[str, Any]:
    result = await session.call_tool("probe", {"name": probe, "world": world})
    return dict(json.loads(result.text))


# ------------------------------------------------------------------------- opening


async def _logged_by_the_loader(directory: Path, sandbox: Sandbox | None) -> list[str]:
    env = {"LD_DEBUG": "statistics", "LD_DEBUG_OUTPUT": str(directory / "log")}
    async with connect(scripted(env=env, sandbox=sandbox), approval=allow_all) as session:
        await session.call_tool("echo")
    return [path.name for path in directory.iterdir()]


async def test_a_variable_for_the_loader_has_no_effect_outside(tmp_path: Path) -> None:
    assert await _logged_by_the_loader(tmp_path, None), "it writes without a sandbox"
    for path in tmp_path.iterdir():
        path.unlink()
    assert not await _logged_by_the_loader(tmp_path, Sandbox())


async def test_the_value_of_a_variable_is_in_no_command_line() -> None:
    env = {"API_KEY": "hunter2-hunter2"}
    async with connect(scripted(env=env, sandbox=Sandbox()), approval=allow_all) as s:
        seen = json.loads((await s.call_tool("environment")).text)
        assert seen["API_KEY"] == "hunter2-hunter2"
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                assert b"hunter2-hunter2" not in (process / "cmdline").read_bytes()


# -------------------------------------------------------------------------- grants


@contextlib.contextmanager
def swapping(directory: Path, link: Path) -> Iterator[None]:
    """Each takes the place of the other, again and again."""
    over = threading.Event()
    libc = ctypes.CDLL(None)
    exchange = (-100, os.fsencode(directory), -100, os.fsencode(link), 2)

    def swap() -> None:
        while not over.wait(0.0005):
            libc.renameat2(*exchange)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
async def test_a_directory_that_becomes_a_link_while_a_server_opens_gives_nothing(
    tmp_path: Path,
) -> None:
    directory, home, link = (tmp_path / name for name in ("granted", "home", "link"))
    for path in (directory, home):
        path.mkdir()
        (path / "notes.txt").write_text(path.name)
    link.symlink_to(home)
    sandbox = Sandbox(read=[directory])
    server = StdioServer(sys.executable, [str(INSIDE / "server.py")], sandbox=sandbox)
    with swapping(directory, link):
        for _ in range(12):
            with contextlib.suppress(ConnectError):
                async with connect(server, approval=allow_all) as session:
                    for place in (directory, home):
                        world = {"replaced": str(place)}
                        response = await reported(
                            session, "read_by_directory_that_became_a_link", **world
                        )
                        assert response.get("got") in (None, "granted")


async def test_what_is_written_in_a_grant_below_tmp_is_there_afterwards(tmp_path: Path) -> None:
    async with probes(write=[tmp_path]) as session:
        assert "got" in await reported(session, "create_in_granted", writable=str(tmp_path))
    assert (tmp_path / "new").read_text() == "x"


async def test_a_directory_to_read_within_one_to_write_is_not_written(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    server = probes(read=[inner], write=[tmp_path])
    async with server as session:
        world = {"readable": str(inner), "writable": str(tmp_path)}
        assert "refused" in await reported(session, "create_in_granted_for_reading", **world)
        assert "got" in await reported(session, "create_in_granted", **world)


async def test_a_file_is_granted_without_its_directory(tmp_path: Path) -> None:
    for name in ("secret.txt", "notes.txt"):
        (tmp_path / name).write_text(name)
    async with probes(read=[tmp_path / "secret.txt"]) as session:
        granted = await reported(session, "read_granted", readable=str(tmp_path))
        assert granted["got"] == "secret.txt"
        beside = await reported(session, "read_home", home=str(tmp_path))
        assert "refused" in beside


# -------------------------------------------------------------------------- ending


_CLIENT = """
import sys, anyio
from mcp_client import Sandbox, allow_all, connect
from tests.support.starting import scripted

async def main():
    server = scripted("--ignore-sigterm", "--spawn-grandchild", sys.argv[1],
                      sandbox=Sandbox(write=[sys.argv[2]]))
    async with connect(server, approval=allow_all) as session:
        await session.call_tool("echo")
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_nothing_is_left_of_a_server_whose_client_is_killed(tmp_path: Path) -> None:
    mark = f"--starts={tmp_path / 'starts'}"
    words = [sys.executable, "-c", _CLIENT, mark, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        assert len(_marked(mark)) > 1, "the server runs, and the client has it in its words"
        os.kill(client.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while _marked(mark) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _marked(mark)


def _marked(mark: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def test_links_that_lead_to_each_other_are_followed_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert VisiblePaths().follow(f"{tmp_path}/a/c") == f"{tmp_path}/a/c"


async def test_a_private_directory_is_gone_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    async with probes() as session:
        assert "got" in await reported(session, "temporary_files")
    with anyio.fail_after(60):
        while list(tmp_path.iterdir()):
            await anyio.sleep(0.01)
