"""What is outside a sandbox: a home with keys, directories, sockets, processes, keys of the kernel.

All of it is on this machine and made for the purpose, below a directory in ``/var/tmp``, as engines
may treat ``/tmp`` in a way of their own. Each thing gives the same secret to who gets at it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).parent / "inside"
TARGETS = (
    "truncated",
    "opened",
    "dated",
    "owned",
    "marked",
    "removed",
    "renamed",
    "taken",
    "linked",
)
"""Files outside, each for one probe."""
_MTIME = 1_000_000_007
_VICTIM = """
import ctypes, os, signal, sys
secret = ctypes.create_string_buffer(sys.argv[1].encode())
file = os.open(sys.argv[2], os.O_RDONLY)
signals = open(sys.argv[3], "ab", buffering=0)
signal.signal(signal.SIGURG, lambda *_: signals.write(b"x"))
print(ctypes.addressof(secret), file, flush=True)
while True:
    signal.pause()
"""


class World:
    """As a context manager. ``facts`` is what a server inside receives of it."""

    def __init__(self, setuid: str | None = None) -> None:
        self.mark = secrets.token_hex(8)
        self.secret = f"secret-{self.mark}"
        self.top = Path(tempfile.mkdtemp(prefix="world-", dir="/var/tmp"))
        self.home = self.top / "home"
        self.scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir="/var/tmp"))
        """Where temporary directories are made, for this world alone."""
        self._ends = contextlib.ExitStack()
        self.facts: dict[str, Any] = {"mark": self.mark, "secret": self.secret, "setuid": setuid}

    def __enter__(self) -> World:
        with contextlib.ExitStack() as ends:
            ends.callback(self._remove)
            self._files()
            ends.enter_context(self._process())
            ends.enter_context(self._sockets())
            ends.enter_context(self._kernel())
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    # -------------------------------------------------------------------------- files

    def _files(self) -> None:
        top, secret = self.top, self.secret
        top.chmod(0o755)
        self.tmp = Path(tempfile.mkdtemp(prefix="world-", dir="/tmp"))
        shm = Path("/dev/shm", f"world-{self.mark}")
        self._strays = [
            Path(f"{directory}/world-{self.mark}") for directory in ("/etc", "/usr", "")
        ]
        self._strays.append(shm)
        shutil.copytree(INSIDE, top / "program", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("home/.ssh", "outside", "readable", "writable", "replaced"):
            (top / name).mkdir(parents=True)
        for name in (
            *(
                "home/notes.txt",
                "program/.env",
                "home/.ssh/id_ed25519",
                "home/.profile",
                "beside.txt",
            ),
            *("outside/secret.txt", "readable/secret.txt", "writable/secret.txt"),
        ):
            (top / name).write_text(secret)
        for name in TARGETS:
            (top / "outside" / name).write_text(secret)
        for path in (shm, self.tmp / "secret.txt"):
            path.write_text(secret)
        (self.home / secret).touch()
        (self.home / "link").symlink_to(secret)
        (self.home / "program").write_text("#!/bin/sh\nexit 0\n")
        (self.home / "program").chmod(0o755)
        (self.home / ".ssh").chmod(0o700)
        (top / "readable" / "to-home").symlink_to(self.home)
        (top / "writable" / "to-outside").symlink_to(top / "outside")
        notes = self.home / "notes.txt"
        os.setxattr(notes, "user.secret", secret.encode())
        os.utime(notes, (_MTIME, _MTIME))
        self.facts |= {name: str(top / name) for name in ("program", "outside", "readable")}
        self.facts |= {name: str(top / name) for name in ("writable", "home", "replaced")}
        self.facts |= {"tmp": str(self.tmp), "dev_shm": str(shm), "mtime": _MTIME}
        self.facts |= dict(
            zip(("in_etc", "in_usr", "in_root"), map(str, self._strays), strict=False)
        )
        mine = Path("/root")
        self.facts["in_root_home"] = len(list(mine.iterdir())) if os.access(mine, os.R_OK) else None
        number = os.stat("/").st_dev
        self.facts["disk"] = [os.major(number), os.minor(number)]
        device = Path("/sys/dev/block/{}:{}/uevent".format(*self.facts["disk"]))
        found = re.search(r"DEVNAME=(.+)", device.read_text()) if device.exists() else None
        self.facts["disk_path"] = f"/dev/{found[1]}" if found else None

    def replace_directory(self) -> None:
        """A granted directory becomes a link, after the server was started."""
        (self.top / "replaced").rename(self.top / "replaced-before")
        (self.top / "replaced").symlink_to(self.home)

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """All files outside, with what can be known of each."""
        found = {}
        granted = self.top / "replaced-before"
        places = [path for path in self.top.rglob("*") if granted not in (path, *path.parents)]
        places += [*self.tmp.rglob("*"), *self._strays]
        for path in places:
            with contextlib.suppress(FileNotFoundError):
                about = path.lstat()
                size = 0 if path.is_dir() else about.st_size
                found[str(path)] = (about.st_mode, about.st_ctime_ns, size, about.st_nlink)
        found.pop(str(self.top / "signals"), None)
        return found

    def _remove(self) -> None:
        for path in (self.top, self.tmp, self.scratch):
            shutil.rmtree(path, ignore_errors=True)
        for path in self._strays:
            path.unlink(missing_ok=True)

    # -------------------------------------------------------------------- a process

    @contextlib.contextmanager
    def _process(self) -> Iterator[None]:
        signals = self.top / "signals"
        signals.touch()
        words = [sys.executable, "-I", "-c", _VICTIM, self.secret]
        words += [str(self.home / "notes.txt"), str(signals)]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"SECRET": self.secret},
            cwd=self.home,
            start_new_session=True,
        ) as victim:
            try:
                assert victim.stdout is not None
                address, file = map(int, victim.stdout.readline().split())
                self.facts |= {"victim": victim.pid, "victim_address": address}
                self.facts |= {"victim_file": file, "victim_signals": str(signals)}
                self.facts |= {"client": os.getpid()}
                yield
            finally:
                victim.kill()

    def daemons(self) -> list[int]:
        """Processes that a probe left behind."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def end_daemons(self) -> int:
        """How many are left two seconds after the end; they are ended now."""
        until = time.monotonic() + 2
        while (left := self.daemons()) and time.monotonic() < until:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(left)

    # ---------------------------------------------------------------------- sockets

    @contextlib.contextmanager
    def _sockets(self) -> Iterator[None]:
        reported = self.facts
        address = other_address()
        reported["address"] = address
        reported["abstract"] = f"world-{self.mark}"
        reported["agent"] = str(self.top / "agent.sock")
        reported["datagrams"] = str(self.top / "datagrams.sock")
        inet, unix = socket.AF_INET, socket.AF_UNIX
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        with contextlib.ExitStack() as opened:
            over = threading.Event()

            def serve(family: int, kind: int, at: Any) -> Any:
                server = opened.enter_context(socket.socket(family, kind))
                server.bind(at)
                server.settimeout(0.2)
                target = self._accept if kind == stream else self._echo
                thread = threading.Thread(target=target, args=(server, over), daemon=True)
                thread.start()
                opened.callback(thread.join)
                return server.getsockname()

            reported["tcp"] = serve(inet, stream, ("", 0))[1]
            reported["tcp6"] = serve(socket.AF_INET6, stream, ("::1", 0))[1]
            reported["udp"] = serve(inet, datagram, ("", 0))[1]
            for at in (reported["agent"], str(self.top / "readable" / "socket")):
                serve(unix, stream, at)
            serve(unix, stream, "\0" + reported["abstract"])
            serve(unix, datagram, reported["datagrams"])
            serve(unix, datagram, f"\0{reported['abstract']}-datagrams")
            with socket.create_server(("127.0.0.1", 0)) as free:
                reported["free"] = free.getsockname()[1]
            opened.callback(over.set)
            yield

    def _accept(self, server: socket.socket, over: threading.Event) -> None:
        server.listen()
        while not over.is_set():
            with contextlib.suppress(OSError), server.accept()[0] as client:
                client.sendall(self.secret.encode())

    def _echo(self, server: socket.socket, over: threading.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                _, address = server.recvfrom(100)
                if address:
                    server.sendto(self.secret.encode(), address)

    @contextlib.contextmanager
    def knocking(self) -> Iterator[None]:
        """Tries to reach a server that listens on the free port."""
        over = threading.Event()

        def knock() -> None:
            while not over.wait(0.02):
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", self.facts["free"]), 0.2) as client,
                ):
                    client.sendall(b"reached")
                    over.wait(0.2)

        thread = threading.Thread(target=knock)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # ------------------------------------------------------------------- the kernel

    @contextlib.contextmanager
    def _kernel(self) -> Iterator[None]:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        key, size = secrets.randbits(30) | 1, 64
        segment = libc.shmget(key, size, 0o1600)
        at = libc.shmat(segment, None, 0)
        ctypes.memmove(at, self.secret.encode(), len(self.secret))
        self.facts["shared_memory"] = key
        self.facts["queue"] = f"world-{self.mark}"
        parts = (ctypes.c_long * 8)(0, 4, 100)
        queue = libc.mq_open(
            f"/world-{self.mark}".encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, parts
        )
        arm = platform.machine() == "aarch64"
        add, control = (217, 219) if arm else (248, 250)
        name = f"probe-{self.mark}".encode()
        text = self.secret.encode()
        self._key = libc.syscall(add, b"user", name, text, len(text), -4)
        libc.syscall(control, 5, self._key, 0x3F3F0000)  # all rights for the user, too
        control_side, terminal = os.openpty()
        self.facts["terminal"] = os.ttyname(terminal)
        self.send = lambda: libc.mq_send(queue, text, len(text), 0)
        try:
            yield
        finally:
            os.close(control_side)
            os.close(terminal)
            for each in (name, name + b"-new"):
                found = libc.syscall(control, 10, -4, b"user", each, 0)
                if found > 0:
                    libc.syscall(control, 9, found, -4)
            libc.mq_unlink(f"/world-{self.mark}".encode())
            libc.close(queue)
            libc.shmdt(ctypes.c_void_p(at))
            libc.shmctl(segment, 0, None)

    send: Callable[[], int]


def other_address() -> str | None:
    """An address of this machine besides loopback's."""
    try:
        text = Path("/proc/net/fib_trie").read_text()
    except OSError:
        return None
    found = re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", text)
    return next((each for each in found if not each.startswith("127.")), None)
