"""Probes of other processes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .catalogue import (
    REACH,
    READ,
    WORKS,
    World,
    probe,
    system_call,
)


def _of_all_processes(file: str) -> str:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((process / file).read_bytes().decode(errors="replace"))
    if not found:
        raise FileNotFoundError(2, "no process is seen")
    return "\0".join(found)


@probe(READ)
def command_lines(world: World) -> str:
    return _of_all_processes("cmdline")


@probe(READ)
def environments(world: World) -> str:
    return _of_all_processes("environ")


@probe(READ)
def command_line_of_process(world: World) -> str:
    return Path(f"/proc/{world.victim}/cmdline").read_text()


@probe(READ, who="nobody")
def own_environment(world: World) -> str:
    """The host has agents, a desktop bus and keys in its environment."""
    return str(dict(os.environ))


@probe(READ)
def memory_of_process(world: World) -> str:
    with open(f"/proc/{world.victim}/mem", "rb", buffering=0) as memory:
        memory.seek(world.victim_address)
        return memory.read(64).decode(errors="replace")


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@probe(READ)
def process_vm_readv(world: World) -> str:
    buffer = ctypes.create_string_buffer(64)
    mine = _Part(ctypes.addressof(buffer), 64)
    theirs = _Part(world.victim_address, 64)
    parts = (ctypes.byref(mine), 1, ctypes.byref(theirs), 1)
    system_call("process_vm_readv", world.victim, *parts, 0)
    return buffer.raw.decode(errors="replace")


@probe(REACH)
def ptrace(world: World) -> None:
    system_call("ptrace", 16, world.victim, 0, 0)
    os.waitpid(world.victim, 0x40000000)
    system_call("ptrace", 17, world.victim, 0, 0)


@probe(READ)
def file_of_process(world: World) -> str:
    return Path(f"/proc/{world.victim}/fd/{world.victim_file}").read_text()


@probe(READ)
def pidfd_getfd(world: World) -> str:
    fd = system_call("pidfd_getfd", os.pidfd_open(world.victim), world.victim_file, 0)
    return os.pread(fd, 200, 0).decode()


@probe(REACH)
def kcmp(world: World) -> int:
    return system_call("kcmp", world.victim, world.client, 0, 0, 0)


@probe(REACH)
def enter_namespace(world: World) -> int:
    return os.open(f"/proc/{world.victim}/ns/net", os.O_RDONLY)


@probe(REACH)
def signal_to_process(world: World) -> None:
    os.kill(world.victim, 0)


@probe(REACH)
def signal_to_client(world: World) -> None:
    os.kill(world.client, 0)


@probe(REACH)
def signal_to_group(world: World) -> None:
    os.killpg(world.victim, 0)


@probe(REACH)
def signal_by_pidfd(world: World) -> None:
    system_call("pidfd_send_signal", os.pidfd_open(world.victim), 0, 0, 0)


@probe(REACH)
def signal_by_descriptor(world: World) -> None:
    """A descriptor sends its owner a signal when it can be read."""
    mine, other = os.pipe()
    fcntl.fcntl(mine, 10, signal.SIGURG)  # F_SETSIG: which signal
    fcntl.fcntl(mine, fcntl.F_SETOWN, world.victim)
    fcntl.fcntl(mine, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    before = Path(world.victim_signals).stat().st_size
    os.write(other, b"x")
    time.sleep(0.1)
    if Path(world.victim_signals).stat().st_size == before:
        raise PermissionError(1, "no signal came")


@probe(REACH)
def limit_process(world: World) -> int:
    """A limit of CPU time would end it."""
    return system_call("prlimit64", world.victim, 0, 0, ctypes.create_string_buffer(16))


@probe(REACH)
def slow_process(world: World) -> None:
    os.setpriority(os.PRIO_PROCESS, world.victim, 19)


@probe(REACH)
def bind_process(world: World) -> None:
    os.sched_setaffinity(world.victim, os.sched_getaffinity(0))


@probe(REACH)
def slow_reading_of_process(world: World) -> int:
    return system_call("ioprio_set", 1, world.victim, 0)


@probe(REACH)
def watch_by_perf(world: World) -> int:
    attributes = ctypes.create_string_buffer(b"\1\0\0\0\x70\0\0\0", 0x70)
    attributes[40] = b"\x60"  # not the kernel, nor the hypervisor
    return system_call("perf_event_open", attributes, world.victim, -1, -1, 0)


@probe(REACH, who="nobody")
def descriptors(world: World) -> str:
    """What was inherited besides the three streams."""
    found = []
    for fd in range(3, 1024):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_GETFD)
            link = os.readlink(f"/proc/self/fd/{fd}") if os.path.exists("/proc/self/fd") else "?"
            if f"{os.stat(fd).st_mode:o}"[:2] != "10" or not link.startswith("pipe"):
                found.append(f"{fd}: {link}")
    if not found:
        raise OSError(9, "none")
    return ", ".join(found)


@probe(REACH)
def daemon(world: World) -> None:
    """Two forks and a session of its own, deaf to every signal: is it there after the end?"""
    code = (
        "import os, signal, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "for one in (1, 2, 3, 10, 12, 13, 14, 15, 18): signal.signal(one, signal.SIG_IGN)\n"
        "time.sleep(600)"
    )
    nothing = subprocess.DEVNULL
    words = [sys.executable, "-I", "-c", code, world.mark]
    subprocess.run(words, check=True, stdin=nothing, stdout=nothing, stderr=nothing)


@probe(WORKS)
def children(world: World) -> str:
    """Pipes, threads and a lock that processes share."""
    import threading

    thread = threading.Thread(target=time.time)
    thread.start()
    thread.join()
    words = [sys.executable, "-c", "print(6 * 7)"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
