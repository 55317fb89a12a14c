"""Name a process so that others on the same machine can find out whether it still runs.

A process number alone is not enough: numbers are used again, and a file may be shared by machines
or containers. So the name has the machine, the container and, if the system reports it, the time at
which the process was started.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

__all__ = ["is_alive", "process_id"]


def process_id() -> str:
    """Return the name of this process: "machine:namespace:number:start"."""
    number = os.getpid()
    return f"{_machine()}:{number}:{_started(number)}"


def is_alive(name: str) -> bool:
    """False if the process named so has certainly ended; True if it runs or cannot be judged."""
    machine, _, rest = name.rpartition(":")[0].rpartition(":")
    started = name.rpartition(":")[2]
    if machine != _machine() or not rest.isdecimal() or sys.platform == "win32":
        return True
    try:
        os.kill(int(rest), 0)  # signal 0 only checks, on POSIX
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return started == _started(int(rest))


def _machine() -> str:
    namespace = ""
    with suppress(OSError, AttributeError):  # Linux only
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()}:{namespace}"


def _started(number: int) -> str:
    """Return its start time, in clock ticks since boot; empty if the system has no /proc."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            # The name of the program, in parentheses, may contain anything.
            fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] == b"Z" else fields[19].decode()
    except (OSError, IndexError):
        return ""
