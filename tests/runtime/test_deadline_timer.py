"""A host that was stopped (SIGSTOP) for longer than a timeout reads what arrived meanwhile."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcp_client.runtime.deadline_timer import DeadlineTimer

SECONDS = {"call": 4.0, "connect": 9.0}
"""The timeout of each call and connection. The host is stopped much sooner: a third of the second
is left to a server over stdio, which is started again then."""
BOUND = 120.0
SERVERS = ["stdio", "json", "stream"]
REVISIONS = ["2025-11-25", "2026-07-28"]

HOST = """
import sys
import anyio
from mcp_client import StdioServer, Timeouts, allow_all, connect

held, port, url, relay, seconds, backend = sys.argv[1:]
seconds = float(seconds)
opened, ready = [], anyio.Event()

async def use(kind, revision):
    name = f"{kind} {revision}"
    server = f"{url}/{kind}"
    if kind == "stdio":
        server = StdioServer(sys.executable, ["-ISc", relay, port])
    timeouts = Timeouts(connect=seconds) if held == "connect" else None
    try:
        async with connect(server, approval=allow_all, revision=revision, timeouts=timeouts) as it:
            await it.list_tools()
            opened.append(name)
            if held == "call":
                await ready.wait()
                assert (await it.call_tool("echo", timeout=seconds)).text == "done"
        print(name, "done", flush=True)
    except Exception as error:
        print(name, repr(error), flush=True)

async def main():
    async with anyio.create_task_group() as tasks:
        for kind in ("stdio", "json", "stream"):
            for revision in ("2025-11-25", "2026-07-28"):
                tasks.start_soon(use, kind, revision)
        if held == "call":
            while len(opened) < 6:
                await anyio.sleep(0.01)
            ready.set()

anyio.run(main, backend=backend)
"""
RELAY = """
import socket, sys, threading
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def copy():
    while data := sys.stdin.buffer.raw.read(65536):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
threading.Thread(target=copy, daemon=True).start()
while data := line.recv(65536):
    sys.stdout.buffer.raw.write(data)
    line.sendall(b"\\n")  # it is in the pipe
"""
RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"},
    },
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
HELD = {"call": ["tools/call"], "connect": ["initialize", "server/discover"]}


class Servers:
    """All servers of one host. Their responses to ``held`` wait for ``release``."""

    def __init__(self, held: str) -> None:
        self._held = HELD[held]
        self.waiting = threading.Semaphore(0)
        self.release = threading.Event()
        self.written = threading.Semaphore(0)

    def response(self, message: dict[str, Any]) -> tuple[bytes, bool]:
        """The response, and whether it was held back."""
        held = message["method"] in self._held
        if held:
            self.waiting.release()
            self.release.wait(BOUND)
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}
        return json.dumps(reply).encode(), held

    def talk(self, line: socket.socket) -> None:
        """One server over stdio, behind ``RELAY``."""
        late = False
        with line, line.makefile("rb") as lines, suppress(OSError):
            for text in lines:
                if text == b"\n":
                    if late:
                        self.written.release()
                    late = False
                elif "id" in (message := json.loads(text)):
                    response, late = self.response(message)
                    line.sendall(response + b"\n")
        if late:  # the host had ended it, and started another: it was mute for too long
            self.written.release()

    @contextmanager
    def running(self) -> Iterator[list[str]]:
        web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        with web, socket.create_server(("127.0.0.1", 0)) as listener:

            def accept() -> None:
                while True:
                    try:
                        line, _ = listener.accept()
                    except OSError:
                        return
                    threading.Thread(target=self.talk, args=[line], daemon=True).start()

            for target in (accept, partial(web.serve_forever, 0.05)):
                threading.Thread(target=target, daemon=True).start()
            yield [str(listener.getsockname()[1]), f"http://127.0.0.1:{web.server_port}"]
            web.shutdown()
            listener.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    def __init__(self, servers: Servers, *arguments: Any) -> None:
        self.servers = servers
        super().__init__(*arguments)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.send_response(202)
            self.end_headers()
            return
        streams = self.path == "/stream"
        if streams:
            self._begin("text/event-stream")
        response, held = self.servers.response(message)
        if not streams:
            self._begin("application/json")
        self.wfile.write(b"data: " + response + b"\n\n" if streams else response)
        if held:
            self.servers.written.release()

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(405)
        self.end_headers()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["loop", "threads"])
@pytest.mark.parametrize("held", ["call", "connect"])
def test_what_arrived_while_the_host_was_stopped_is_read_before_a_timeout(
    held: str, way: str, backend: str
) -> None:
    servers, env = Servers(held), {**os.environ, "MCP_CLIENT_STDIO": way}
    with servers.running() as places:
        words = ["-c", HOST, held, *places, RELAY, str(SECONDS[held]), backend]
        host = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, env=env)
        try:
            for _ in range(6):
                assert servers.waiting.acquire(timeout=BOUND)
            _wait_until_asleep(host.pid)
            host.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, host.pid, os.WSTOPPED)
            began = time.monotonic()
            held_back = 6
            while servers.waiting.acquire(blocking=False):
                held_back += 1
            servers.release.set()
            for _ in range(held_back):
                assert servers.written.acquire(timeout=BOUND)
            time.sleep(max(0.0, began + SECONDS[held] + 1 - time.monotonic()))
            host.send_signal(signal.SIGCONT)
            output, _ = host.communicate(timeout=BOUND)
        finally:
            host.kill()
            host.wait()
    every = sorted(f"{kind} {revision} done" for kind in SERVERS for revision in REVISIONS)
    assert sorted(output.decode().splitlines()) == every


def _wait_until_asleep(pid: int) -> None:
    """Wait until the event loop waits for its servers and its timers."""
    looks, until = 0, time.monotonic() + BOUND
    while looks < 5:
        assert time.monotonic() < until
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        looks = looks + 1 if state == "S" else 0
        time.sleep(0.002)


class Loop:
    """The clock of a loop and the timers set on it; ``monotonic`` is the real time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = self.real = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr("mcp_client.runtime.deadline_timer.time.monotonic", lambda: self.real)

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        timer = when, callback
        self.timers.append(timer)

        class Handle:
            def cancel(handle) -> None:  # noqa: N805
                self.timers.remove(timer)

        return Handle()

    def go_on(self, seconds: float, real: float | None = None) -> None:
        """Call the timers that are due then."""
        self.time += seconds
        self.real += seconds if real is None else real
        for timer in [timer for timer in self.timers if timer[0] <= self.time]:
            self.timers.remove(timer)
            timer[1]()


@pytest.mark.parametrize(
    ("late", "patience"), [(0.0, 0.0), (0.01, 0.0), (0.3, 0.3), (1.0, 1.0), (3_600.0, 1.0)]
)
def test_a_timer_that_is_late_waits_as_long_again_and_a_second_at_most(
    late: float, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, rung = Loop(monkeypatch), list[float]()
    timer = DeadlineTimer(loop, lambda: rung.append(loop.time))
    timer.set(110.0)
    loop.go_on(10 + late)
    if patience:
        assert not rung
        assert loop.timers[0][0] == loop.time + patience
        timer.set(105.0)  # no other deadline is earlier now
        loop.go_on(patience / 2)
        assert not rung
        loop.go_on(patience + 5)  # late again: it waits once
    assert rung == [loop.time]
    assert timer.at == math.inf
    assert not loop.timers


@pytest.mark.parametrize(("seconds", "real"), [(3_600.0, 0.1), (10.0, 3_600.0)])
def test_a_timer_that_is_late_by_one_clock_alone_rings_at_once(
    seconds: float, real: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, rung = Loop(monkeypatch), list[float]()
    timer = DeadlineTimer(loop, lambda: rung.append(loop.time))
    timer.set(110.0)
    loop.go_on(seconds, real=real)
    assert rung
