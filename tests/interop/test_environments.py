"""Programs in the environments that people run them in, each in real processes of its own.

Each starts one server for one session or host, and leaves none behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from tests.interop import peers

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.one_backend]

ROOT = Path(__file__).parents[2]
BOUND = 120.0

SERVER = """
import json, os, sys

with open(sys.argv[1], "a") as starts:
    starts.write(f"{os.getpid()}\\n")
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "x", "version": "1"}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": f"called {os.getpid()}"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"error": {"code": -32601, "message": "no such method"}}
        if message["method"] in RESULTS:
            answer = {"result": RESULTS[message["method"]]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
COMMON = """
import sys
from pathlib import Path
from mcp_client import StdioServer

here = Path(__file__).parent
SERVER = StdioServer(sys.executable, [str(here / "server.py"), str(here / "starts")])
"""


class Place:
    """A directory with a server, and with the program that starts it."""

    def __init__(self, directory: Path) -> None:
        self.python = str(peers.environments())
        self.directory = directory
        self.starts = directory / "starts"
        self.starts.touch()
        self.write(server=SERVER, common=COMMON)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.directory / f"{name}.py").write_text(text)

    @property
    def _env(self) -> dict[str, str]:
        remaining = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
        }
        return {
            **remaining,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{self.directory}",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, *words: str) -> str:
        """Run Python to its end, which has to be a good one, and return what it printed."""
        done = subprocess.run(
            [self.python, *words],
            cwd=self.directory,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=BOUND,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    @contextmanager
    def running(self, *words: str, until: str, codes: Sequence[int] = (0,)) -> Iterator[str]:
        """Run Python beside this. Yield what ``until`` finds in its lines; then end it by SIGTERM.
        It has to end with one of ``codes``, without a traceback."""
        process = subprocess.Popen(
            [self.python, *words],
            cwd=self.directory,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        lines: list[str] = []
        bound = threading.Timer(BOUND, os.killpg, [process.pid, signal.SIGKILL])
        bound.start()
        try:
            found = _first(process.stdout, until, lines)
            rest = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
            rest.start()
            yield found
            process.send_signal(signal.SIGTERM)
            process.wait()
            rest.join()
        finally:
            bound.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        reported = "".join(lines)
        assert process.returncode in codes, reported
        assert "Traceback" not in reported, reported

    def servers(self) -> list[str]:
        """The servers that were started, once all of them have ended."""
        started = self.starts.read_text().split()
        until = time.monotonic() + BOUND
        while any(map(_runs, started)):
            assert time.monotonic() < until, "a server was left behind"
            time.sleep(0.02)
        assert self.starts.read_text().split() == started
        return started


def _first(lines: IO[str], pattern: str, seen: list[str]) -> str:
    for line in lines:
        seen.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError("".join(seen))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _get(url: str) -> str:
    with urlopen(url, timeout=BOUND) as response:
        return str(response.read().decode())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    return Place(tmp_path)


def test_fastapi_under_uvicorn_ends_its_host_at_sigterm(place: Place) -> None:
    place.write(
        app="""
import dataclasses
from contextlib import asynccontextmanager
from fastapi import FastAPI
from mcp_client import Host, allow_all
from common import SERVER

@asynccontextmanager
async def lifespan(app):
    async with Host({"a": SERVER}, approval=allow_all) as app.state.host:
        yield

app = FastAPI(lifespan=lifespan)

@app.get("/call")
async def call():
    return (await app.state.host.call_tool("a__echo")).to_json()

@app.get("/health")
async def health():
    return {name: one.state for name, one in app.state.host.status().items()}
"""
    )
    words = ["-m", "uvicorn", "app:app", "--port", "0"]
    ended_by = (0, -signal.SIGTERM)  # uvicorn raises the signal again when it has shut down
    with place.running(*words, until=r"running on (http://\S+)", codes=ended_by) as url:
        first, second = (json.loads(_get(f"{url}/call")) for _ in range(2))
        assert first == second
        assert json.loads(_get(f"{url}/health")) == {"a": "connected"}
    assert [f"called {pid}" for pid in place.servers()] == [first["content"][0]["text"]]


def test_each_worker_of_gunicorn_with_preload_has_one_server(place: Place) -> None:
    place.write(
        app="""
import os
from mcp_client import allow_all, sync
from common import SERVER

host = None

def app(environ, start_response):
    global host
    host = host or sync.Host({"a": SERVER}, approval=allow_all).open()
    start_response("200 OK", [])
    return [f"{os.getpid()} {host.call_tool('a__echo').text}".encode()]
"""
    )
    options = ["--preload", "--workers", "2", "--max-requests", "3", "--bind", "127.0.0.1:0"]
    words = ["-m", "gunicorn", *options, "app:app"]
    with place.running(*words, until=r"Listening at: (http://\S+)") as url:
        reported = {_get(url) for _ in range(12)}
    workers = {one.split()[0] for one in reported}
    assert len(workers) >= 4, "none was replaced"
    assert len(reported) == len(workers) == len(place.servers())


def test_each_job_of_celery_has_a_server_of_its_own(place: Place) -> None:
    place.write(
        jobs="""
from celery import Celery
from mcp_client import allow_all, sync
from common import SERVER, here

folders = {name: str(here / name) for name in ("data_folder_in", "data_folder_out")}
folders |= {"data_folder_out": folders["data_folder_in"], "control_folder": str(here / "control")}
for folder in (*folders.values(), here / "results"):
    __import__("os").makedirs(folder, exist_ok=True)
app = Celery("jobs", broker="filesystem://", backend=f"file://{here / 'results'}")
app.conf.broker_transport_options = folders

@app.task
def call():
    with sync.connect(SERVER, approval=allow_all) as session:
        return session.call_tool("echo").text
""",
        ask="""
from jobs import call
for job in [call.delay() for _ in range(4)]:
    print(job.get(timeout=100))
""",
    )
    pool = ["--pool", "prefork", "--concurrency", "2", "--max-tasks-per-child", "1"]
    alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    words = ["-m", "celery", "-A", "jobs", "worker", "-l", "info", *pool, *alone]
    with place.running(*words, until=r"(\S+) ready\.") as _:
        output = place.run("ask.py").splitlines()
    assert sorted(output) == sorted(f"called {pid}" for pid in place.servers())
    assert len(output) == 4


def test_the_cells_of_a_notebook_share_a_session(place: Place) -> None:
    cells = [
        "from mcp_client import allow_all, connect, sync\nfrom common import SERVER",
        "session = await connect(SERVER, approval=allow_all)",
        "print((await session.call_tool('echo')).text)",
        "await session.aclose()",
        "plain = sync.connect(SERVER, approval=allow_all).open()",
        "print(plain.call_tool('echo').text)  # and it is never closed",
    ]
    place.write(
        notebook=f"""
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(cell) for cell in {cells}]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout={BOUND:.0f}, kernel_name="python3").execute()
for cell in cells:
    for output in cell.outputs:
        print(output.text, end="")
"""
    )
    output = place.run("notebook.py")
    assert output.splitlines() == [f"called {pid}" for pid in place.servers()]


def test_fixtures_of_pytest_asyncio_share_a_session(place: Place) -> None:
    place.write(
        test_fixtures="""
import pytest_asyncio, pytest
from mcp_client import allow_all, connect
from common import SERVER

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with connect(SERVER, approval=allow_all) as session:
        yield session

@pytest_asyncio.fixture
async def own():
    async with connect(SERVER, approval=allow_all) as session:
        yield session

@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("time", [1, 2])
async def test_shared(shared, time):
    assert (await shared.call_tool("echo")).text.startswith("called")

@pytest.mark.asyncio
async def test_own(own):
    assert (await own.call_tool("echo")).text.startswith("called")
"""
    )
    (place.directory / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    assert "3 passed" in place.run("-m", "pytest", "-q", "test_fixtures.py")
    assert len(place.servers()) == 2
