"""A probe: a function that tries one thing, and what it reports that it got.

``READ`` got what it should not if its text holds the secret. ``WRITE`` did if something outside
changed, and counts as a vanished write if nothing did and it was not refused. ``REACH`` did if it
was not refused. ``WORKS`` is the other way round: it has to be possible.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

READ, WRITE, REACH, WORKS = "read", "write", "reach", "works"
ALL = ("default", "read", "write", "loopback", "all")
"""The settings that are tried."""


class World(dict[str, Any]):
    """What is outside, as the server receives it: paths, ports, numbers of processes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@dataclass(frozen=True)
class Probe:
    name: str
    kind: str
    run: Callable[[World], Any]
    settings: tuple[str, ...]
    """Settings in which it has to succeed, as that was asked for."""
    either: tuple[str, ...]
    """Settings in which it does not matter."""
    who: str
    """Who can do it without a sandbox: "both", "root", "user", or "nobody"."""


PROBES: dict[str, Probe] = {}


def probe(
    kind: str, *, settings: tuple[str, ...] = (), either: tuple[str, ...] = (), who: str = "both"
) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    def add(run: Callable[[World], Any]) -> Callable[[World], Any]:
        name = run.__name__
        PROBES[name] = Probe(name, kind, run, ALL if kind == WORKS else settings, either, who)
        return run

    return add


# ----------------------------------------------------------------------- system calls

_LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {  # x86-64, and AArch64
    "ptrace": (101, 117),
    "mount": (165, 40),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "ioprio_set": (251, 30),
    "perf_event_open": (298, 241),
    "prlimit64": (302, 261),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "fchmodat2": (452, 452),
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "sethostname": (170, 161),
    "syslog": (103, 116),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "mq_open": (240, 180),
    "mq_timedreceive": (243, 183),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
}


def system_call(name: str, *arguments: Any) -> int:
    """Calls the kernel. Raises ``OSError``."""
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    _LIBC.syscall.restype = ctypes.c_long
    words = [
        ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *arguments)
    ]
    ctypes.set_errno(0)
    result: int = _LIBC.syscall(*words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return result
