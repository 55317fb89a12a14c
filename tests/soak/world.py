"""Twenty servers of the soak, and the faults that come from outside a call."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from mcp_client import Host, HttpServer, McpError, StdioServer
from tests.interop.install import NODE, PEERS
from tests.support.starting import free_port

__all__ = ["Faults", "World", "servers"]

_PEER = Path(__file__).with_name("peer.py")
_INTEROP = Path(__file__).parents[1] / "interop" / "servers"


@dataclass
class World:
    """The servers by name. ``ours`` keep a record of what ran; ``real`` have the arguments of a
    call that is known to work."""

    directory: Path
    servers: dict[str, Any] = field(default_factory=dict)
    ours: list[str] = field(default_factory=list)
    over_http: dict[str, tuple[list[str], subprocess.Popen[bytes]]] = field(default_factory=dict)
    """How each is started, and its process: no one but us starts those again."""
    real: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def start_again(self) -> int:
        """Start what has died of those over HTTP, and return how many."""
        dead = [name for name, (_, it) in self.over_http.items() if it.poll() is not None]
        for name in dead:
            words, _ = self.over_http[name]
            self.over_http[name] = words, subprocess.Popen(words)
        return len(dead)

    def pid(self, name: str) -> int | None:
        try:
            return int((self.directory / f"{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def ran(self, name: str) -> list[str]:
        return (self.directory / f"{name}.ran").read_text().split()


@asynccontextmanager
async def servers(directory: Path, count: int = 20) -> AsyncIterator[World]:
    world = World(directory)
    _add_real(world)
    try:
        for era in ("handshake", "stateless") * 2:
            name, port = f"http-{era}-{len(world.over_http)}", free_port()
            words = [
                sys.executable,
                "-IS",
                str(_PEER),
                "http",
                era,
                str(directory),
                name,
                str(port),
            ]
            world.over_http[name] = words, subprocess.Popen(words)
            world.servers[name] = HttpServer(f"http://127.0.0.1:{port}/mcp")
            world.ours.append(name)
            await _listening(port)
        while len(world.servers) < count:
            era = ("handshake", "stateless")[len(world.servers) % 2]
            name = f"stdio-{era}-{len(world.servers)}"
            words = ["-IS", str(_PEER), "stdio", era, str(directory), name]
            world.servers[name] = StdioServer(sys.executable, words)
            world.ours.append(name)
        yield world
    finally:
        for _, process in world.over_http.values():
            process.kill()
            process.wait()


def _add_real(world: World) -> None:
    """Those that ``tests/interop/install.py`` has installed here."""
    for version in ("2.3.0", "1.12.4", "1.6.0"):
        python = PEERS / f"sdk-{version}" / "bin" / "python"
        script = _INTEROP / ("official_1.py" if version.startswith("1.") else "official_2.py")
        if python.exists():
            name = f"sdk-{version}".replace(".", "-")
            world.servers[name] = StdioServer(str(python), [str(script)])
            world.real[name] = "echo", {"text": "hello"}
    modules = PEERS / "npm" / "node_modules" / "@modelcontextprotocol"
    everything = modules / "server-everything" / "dist" / "index.js"
    node = PEERS / "npm" / "node_modules" / NODE / "bin" / "node"
    if everything.exists() and node.exists():
        world.servers["everything"] = StdioServer(str(node), [str(everything), "stdio"])
        world.real["everything"] = "echo", {"message": "hello"}


class Faults:
    """Kills, stops, reconnects and a full disk, in an order that the seed decides."""

    def __init__(self, world: World, host: Host, audit: Path, rng: random.Random) -> None:
        self._world = world
        self._host = host
        self._audit = audit
        self._rng = rng
        self.done: Counter[str] = Counter()
        self.full: list[tuple[float, float]] = []
        """When the disk was full, on the loop's clock."""

    async def go_on(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(self._rng.uniform(0.1, 0.6))
                self.done["start again"] += self._world.start_again()
                kind = self._rng.choice(["kill", "kill", "stop", "stop", "reconnect", "full disk"])
                name = self._rng.choice(self._world.ours)
                tasks.start_soon(self._one, kind, name, self._rng.uniform(0.01, 0.3))

    async def _one(self, kind: str, name: str, seconds: float) -> None:
        self.done[kind] += 1
        match kind:
            case "kill":
                self._signal(name, signal.SIGKILL)
            case "stop":
                await self._stop(name, seconds)
            case "reconnect":
                with suppress(McpError):
                    await self._host.reconnect(name)
                with suppress(McpError):
                    await self._host.list_tools(refresh=True)
            case "full disk":
                await self._fill_disk(seconds / 6)

    def _signal(self, name: str, number: int) -> None:
        pid = self._world.pid(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def _stop(self, name: str, seconds: float) -> None:
        self._signal(name, signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            self._signal(name, signal.SIGCONT)

    async def _fill_disk(self, seconds: float) -> None:
        """No file of this process may grow beyond what the audit log has now, for a moment."""
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        began = anyio.current_time()
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._audit.stat().st_size + 100, most))
        try:
            await anyio.sleep(seconds)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            self.full.append((began, anyio.current_time()))


async def _listening(port: int) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.02)
            else:
                await stream.aclose()
                return
