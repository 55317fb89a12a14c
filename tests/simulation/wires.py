"""The wires to the servers of a simulated life that need no network: memory and stdio.

A stdio server is simulated below ``LoopProcess``, which runs unchanged: the pipes of its process
are numbers that ``os.read``, ``os.write`` and the event loop's watches take for descriptors. A pipe
has little room, delivers in pieces and late, and ends when the process does.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio

from mcp_client import MemoryServer, StdioServer
from mcp_client.processes import loop_process
from mcp_client.runtime.event_loop import Backend, LoopEvent, current
from mcp_client.transports import stdio

from .loops import replace, spawn
from .servers import SimServer
from .world import MOMENT, World, faults

__all__ = ["PIECES", "Line", "Pipe", "Pipes", "Told", "memory"]

faults("server goes away", "cannot start", "stderr flood", "does not end", "exits")
_ROOM = (64, 4_096, 65_536)
PIECES = (7, 4_096, 65_536, 65_536)
Told = Callable[[], None] | None


class MemoryPeer:
    def __init__(self, client: str, send: Any) -> None:
        self.client = client
        self._send = send

    @property
    def alive(self) -> bool:
        return bool(self._send.__self__.alive)

    def send(self, message: Any, delivered: Told = None) -> None:
        if delivered is not None and self.alive:
            delivered()
        self._send(message)

    def end(self, rest: bytes = b"") -> None:
        if rest:
            self._send(rest)
        self._send.__self__.end()


def memory(world: World, client: str, server: SimServer) -> MemoryServer:
    peers: dict[Any, MemoryPeer] = {}

    async def handler(message: dict[str, Any], send: Any) -> None:
        if client in world.dead:
            return
        peer = peers.setdefault(send, MemoryPeer(client, send))
        await server.handle(message, peer, world.now())

    async def go_away() -> None:
        for turn in range(3):
            await anyio.sleep(world.latency(f"{client} {server.name} away {turn}"))
            if world.fault("server goes away", f"{client} {server.name}"):
                served.end()

    served = MemoryServer(handler)
    spawn(world, go_away)
    return served


class Watch:
    """Calls ``callback`` whenever ``is_ready``, until it is cancelled."""

    def __init__(self, is_ready: Callable[[], bool], callback: Callable[[], None]) -> None:
        self._is_ready, self._callback = is_ready, callback
        self._event = LoopEvent()
        self._active = True
        self._task = current().spawn(self._run)

    def poke(self) -> None:
        self._event.set()

    def cancel(self) -> None:
        self._active = False
        self._task.cancel()

    async def _run(self) -> None:
        while self._active:
            if self._is_ready():
                self._callback()
                await anyio.lowlevel.checkpoint()
            else:
                self._event = LoopEvent()
                await self._event.wait()


class Line:
    """Things that happen one after another, each at a time that is drawn."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self._at = 0.0
        self._waiting: deque[Callable[[], None]] = deque()

    def put(self, callback: Callable[[], None]) -> None:
        wait = self._world.draw(self._name, (0.0, 0.0, 0.0, MOMENT))
        self._at = max(self._at, self._world.now()) + wait
        self._waiting.append(callback)
        # Timers of one time may ring in any order.
        ring = current().call_at(self._at, lambda: self._waiting.popleft()())
        self._world.ends.append(ring.cancel)


class Pipe:
    """One direction of bytes. As a file, it is the end that the client has."""

    def __init__(self, fd: int, room: int = 2**20) -> None:
        self.fd, self.room = fd, room
        self.client = ""
        self.data = bytearray()
        self.is_over = False
        """Whether nothing will be written to it, or no one will read it."""
        self.taken = 0
        self.marks: deque[tuple[int, Callable[[], None]]] = deque()
        """What to call once so many bytes were taken."""
        self.sent: deque[float] = deque()
        """When each line in it was written, or began to wait for room."""
        self.blocked_since: float | None = None
        self.watches: list[Watch] = []
        self.on_close: Callable[[], object] = lambda: None

    def fileno(self) -> int:
        return self.fd

    def close(self) -> None:
        self.is_over = True
        self.on_close()

    def poke(self) -> None:
        for watch in self.watches:
            watch.poke()

    @property
    def has_input(self) -> bool:
        return bool(self.data) or self.is_over

    def add(self, data: bytes, delivered: Told = None) -> None:
        self.data += data
        if delivered is not None:
            self.marks.append((self.taken + len(self.data), delivered))

    def take(self, size: int) -> bytes:
        data = bytes(self.data[:size])
        del self.data[:size]
        self.taken += len(data)
        while self.marks and self.marks[0][0] <= self.taken:
            self.marks.popleft()[1]()
        return data

    def watch(self, callback: Callable[[], None], *, for_room: bool = False) -> Watch:
        def is_ready() -> bool:
            return self.is_over or (len(self.data) < self.room if for_room else bool(self.data))

        watch = Watch(is_ready, callback)
        self.watches.append(watch)
        return watch


class SimProcess:
    """A server's process: a ``Popen`` and a tree to the package, and the peer of the server."""

    def __init__(self, pipes: Pipes, client: str, server: SimServer) -> None:
        self.client = client
        self._world, self._server, self._all = pipes.world, server, pipes
        self._where = f"{client} {server.name}"
        self.alive = True
        self.pid = next(pipes.numbers)
        full = self._world.fault("pipe is full", self._where)
        self.stdin = Pipe(next(pipes.numbers), 64 if full else self._world.draw("room", _ROOM))
        self.stdin.client = client
        self.stdout, self.stderr = Pipe(next(pipes.numbers)), Pipe(next(pipes.numbers))
        self.stdin.on_close = self.has_input
        self.exit = Pipe(next(pipes.numbers))
        self.code: int | None = None
        self._line = b""
        self._messages: deque[tuple[dict[str, Any], float]] = deque()
        self._reads = False
        self._out = Line(self._world, f"{self._where} output")
        self._tasks = [spawn(self._world, self._live)]
        self._world.note(client, f"starts {server.name}")

    def poll(self) -> int | None:
        return self.code

    def wait(self, popen: Any = None) -> int | None:
        return self.code

    async def _live(self) -> None:
        for turn in range(3):
            await anyio.sleep(self._world.latency(f"{self._where} lives {turn}"))
            if self._world.fault("stderr flood", self._where):
                self.stderr.data += b"it goes on and on\n" * 5_000
                self.stderr.poke()
            if self._world.fault("exits", self._where):
                self.ends(1)

    def has_input(self) -> None:
        if not self._reads and self.code is None:
            self._reads = True
            self._tasks.append(spawn(self._world, self._read))

    async def _read(self) -> None:
        world, name = self._world, self._server.name
        while self.stdin.data:
            await anyio.sleep(world.latency(f"{name} reads"))
            self._line += self.stdin.take(world.draw(f"{name} takes", PIECES))
            self.stdin.poke()
            *lines, self._line = self._line.split(b"\n")
            for line in lines:
                self._messages.append((json.loads(line), self.stdin.sent.popleft()))
                self._tasks.append(spawn(world, self._handle))
        self._reads = False
        if self.stdin.is_over and not world.fault("does not end", f"{self._where} input"):
            self.ends(0)

    async def _handle(self) -> None:  # trio starts tasks in any order
        message, at = self._messages.popleft()
        await self._server.handle(message, self, at)

    def send(self, message: Any, delivered: Told = None) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._put(data + b"\n", delivered)

    def end(self, rest: bytes = b"") -> None:
        self._put(rest)
        self.ends(1)

    def _put(self, data: bytes, delivered: Told = None) -> None:
        """Write output, which arrives in order and in pieces."""
        while data and self.code is None:
            size = self._world.draw(f"{self._server.name} piece", PIECES)
            piece, data = data[:size], data[size:]
            self._out.put(partial(self._arrive, piece, None if data else delivered))

    def _arrive(self, piece: bytes, delivered: Told) -> None:
        self.stdout.add(piece, delivered)
        self.stdout.poke()

    def ends(self, code: int) -> None:
        """The process ends; what it has written still arrives."""
        if self.code is not None:
            return
        self.code, self.alive = code, False
        self._world.note(self._server.name, f"exits with {code}")
        self._server.gone(self)
        for pipe in (self.stdin, self.stderr, self.exit):
            pipe.is_over = True
            pipe.poke()
        self._out.put(self._close_output)
        for cancel in self._tasks:
            cancel()

    def _close_output(self) -> None:
        self.stdout.is_over = True
        self.stdout.poke()


class Pipes:
    """The processes of a life, and what ``loop_process`` has for ``os``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.numbers = itertools.count(100_001)
        self.processes: list[SimProcess] = []
        world.checks.append(self._none_is_left)
        self._servers: dict[str, tuple[str, SimServer]] = {}

    def stdio(self, client: str, server: SimServer) -> StdioServer:
        word = f"{client}/{server.name}"
        self._servers[word] = client, server
        return StdioServer("/bin/sh", [word])

    def install(self, stack: ExitStack) -> None:
        for where, name, value in (
            (loop_process, "os", self),
            (loop_process, "bytes_unread", lambda fd: len(self._pipe(fd).data)),
            (loop_process, "exit_code_of", self._exit_code_of),
            (stdio, "new_process", self._new_process),
        ):
            replace(stack, where, name, value)

    def _new_process(
        self, backend: Backend, stderr: Any, output: Any, over: Any, tree: Any, name: str
    ) -> Any:
        watching: Any = _Backend(backend, self)
        made: Any = loop_process.LoopProcess
        return made(watching, stderr, output, over, tree=_Tree(self), name=name)

    def _none_is_left(self) -> None:
        if left := [each for each in self.processes if each.code is None]:
            self.world.fail(f"{len(left)} process(es) are left")

    def forget(self) -> None:
        """The life is over, and with it the event loop."""
        for each in self.processes:
            each.code = each.code or 0

    def begin(self, word: str) -> SimProcess:
        client, server = self._servers[word]
        if self.world.fault("cannot start", f"{client} {server.name}"):
            raise FileNotFoundError(2, "no such file")
        process = SimProcess(self, client, server)
        self.processes.append(process)
        return process

    def _pipe(self, fd: int) -> Pipe:
        for each in self.processes:
            for pipe in (each.stdin, each.stdout, each.stderr, each.exit):
                if pipe.fd == fd:
                    return pipe
        raise OSError(9, "bad file descriptor")

    def _exit_code_of(self, pid: int, *, wait: bool = False) -> tuple[bool, int | None]:
        code = next(each.code for each in self.processes if each.pid == pid)
        return code is not None, code

    def watch(self, fd: int, callback: Callable[[], None], *, for_room: bool = False) -> Watch:
        return self._pipe(fd).watch(callback, for_room=for_room)

    # ------------------------------------------------------------------ as ``os``

    def set_blocking(self, fd: int, blocking: bool) -> None: ...
    def getpid(self) -> int:
        return 1

    def close(self, fd: int) -> None: ...

    def pidfd_open(self, pid: int) -> int:
        return next(each.exit.fd for each in self.processes if each.pid == pid)

    def read(self, fd: int, size: int) -> bytes:
        pipe = self._pipe(fd)
        if not pipe.data and not pipe.is_over:
            raise BlockingIOError
        return pipe.take(min(size, self.world.draw("os.read", PIECES)))

    def write(self, fd: int, data: Any) -> int:
        pipe = self._pipe(fd)
        if pipe.is_over or pipe.client in self.world.dead:
            raise BrokenPipeError
        part = bytes(data[: pipe.room - len(pipe.data)])
        at = self.world.now() if pipe.blocked_since is None else pipe.blocked_since
        pipe.sent.extend([at] * part.count(b"\n"))
        if len(part) == len(data):
            pipe.blocked_since = None
        elif pipe.blocked_since is None:
            pipe.blocked_since = self.world.now()
        if data and not part:
            raise BlockingIOError
        pipe.data += part
        pipe.on_close()
        return len(part)

    def writev(self, fd: int, lines: Any) -> int:
        return self.write(fd, b"".join(lines))


class _Tree:
    """A ``ProcessTree`` of one simulated process."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def start(self, argv: Any, env: Any, cwd: Any, memory: Any) -> SimProcess:
        self._process = self._pipes.begin(argv[1])
        return self._process

    def wait(self, popen: Any) -> int | None:
        return self._process.code

    def ask_to_end(self) -> None:
        if not self._pipes.world.fault("does not end", self._process.client):
            self._process.ends(-15)

    def kill(self) -> None:
        self._process.ends(-9)

    def is_empty(self) -> bool:
        return self._process.code is not None

    def close(self) -> None: ...


class _Backend:
    """The event loop, whose watches are those of pipes."""

    def __init__(self, backend: Backend, pipes: Pipes) -> None:
        self._backend = backend
        self.on_readable = pipes.watch
        self.on_writable = partial(pipes.watch, for_room=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)
