"""The filter of system calls that a sandboxed server runs under (seccomp, Linux).

Namespaces confine files, processes and the network already. The filter forbids what would undo
that, or what they do not confine:

- The kernel: what sets up namespaces, mounts, modules, tracing and io_uring, whose requests no
  filter sees; keys; and every call that is newer than the list.
- Sockets: raw ones; without a network all but pairs. A Unix socket could be connected to any path
  that the server sees. One of a pair for datagrams can send to any, so pairs are of the other
  types.
- Controls that type into a terminal or change a file that is only read.

The numbers are those of Linux for x86_64 and arm64 (``asm/unistd.h``). A program of another
architecture, 32-bit ones included, is killed at its first call.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from errno import EACCES, ENOSYS, EPERM

__all__ = ["machine", "namespace_program"]

_COLUMNS = {"x86_64": 0, "aarch64": 1}
_AUDIT = (0xC000003E, 0xC00000B7)
_LAST = 469
"""The newest call that was judged (Linux 6.18); a newer one does not exist in a sandbox."""
_X32 = 0x40000000

_OF_THE_KERNEL = """
    add_key 248 217 request_key 249 218 keyctl 250 219
    bpf 321 280 perf_event_open 298 241 userfaultfd 323 282
    io_uring_setup 425 425 io_uring_enter 426 426 io_uring_register 427 427
    fanotify_init 300 262 fanotify_mark 301 263 name_to_handle_at 303 264 open_by_handle_at 304 265
    syslog 103 116 kexec_load 246 104 kexec_file_load 320 294 init_module 175 105
    finit_module 313 273 delete_module 176 106 reboot 169 142 swapon 167 224 swapoff 168 225
    acct 163 89 quotactl 179 60 quotactl_fd 443 443 settimeofday 164 170 clock_settime 227 112
    sethostname 170 161 setdomainname 171 162 iopl 172 - ioperm 173 - vhangup 153 58
    mount 165 40 umount2 166 39 pivot_root 155 41 chroot 161 51 move_mount 429 429
    open_tree 428 428 open_tree_attr 467 467 fsopen 430 430 fsconfig 431 431 fsmount 432 432
    fspick 433 433 mount_setattr 442 442 statmount 457 457 listmount 458 458
    unshare 272 97 setns 308 268
"""
_CLONE3 = 435
"""The number of ``clone3``. Its flags are in memory, which no filter reads; without it, C libraries
use ``clone``."""

# Calls that depend on their arguments.
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_CLONE, _IOCTL = (56, 220), (16, 29)
_NAMESPACES = 0x7E020000
_IOCTLS = (
    0x5412,  # TIOCSTI: types into a terminal
    0x541C,  # TIOCLINUX
    0x40086602,  # FS_IOC_SETFLAGS: attributes of a file that is only read
    0x40046602,
    0x401C5820,  # FS_IOC_FSSETXATTR
)
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5

# Classic BPF over ``struct seccomp_data``: (code, if true, if false, value).
_Step = tuple[int, int, int, int]
_NUMBER = (0x20, 0, 0, 0)
_ARCHITECTURE = (0x20, 0, 0, 4)
_ALLOW = (0x06, 0, 0, 0x7FFF0000)
_KILL = (0x06, 0, 0, 0x80000000)


def machine() -> str | None:
    """Return this machine's architecture; None if its system calls are not known here."""
    if sys.platform != "linux" or sys.maxsize < 2**32 or sys.byteorder != "little":
        return None
    name = os.uname().machine
    return name if name in _COLUMNS else None


def namespace_program(architecture: str, *, sockets: bool) -> bytes:
    """Return the filter for a server in namespaces, as an array of ``struct sock_filter``.

    Files and processes are confined already: it refuses what would set up more namespaces, what
    reaches the kernel itself, and, unless ``sockets``, every socket but a pair.
    """
    families = (_UNIX, _INET, _INET6) if sockets else ()
    column = _COLUMNS[architecture]
    program = [
        _ARCHITECTURE,
        _equal(_AUDIT[column], 1, 0),
        _KILL,
        _NUMBER,
        *([_at_least(_X32, 0, 1), _KILL] if architecture == "x86_64" else []),
        _at_least(_LAST + 1, 0, 1),
        _refuse(ENOSYS),
        *_when(_CLONE3, [_refuse(ENOSYS)]),
        *_refused(_OF_THE_KERNEL, column, EPERM),
        *_when(_SOCKET[column], _sockets(families)),
        *([] if sockets else _when(_SOCKETPAIR[column], _pairs())),
        *_when(_CLONE[column], [_argument(0), (0x45, 0, 1, _NAMESPACES), _refuse(EPERM), _ALLOW]),
        *_when(_IOCTL[column], _controls()),
        _ALLOW,
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _refused(table: str, column: int, error: int) -> list[_Step]:
    numbers = [each for each in table.split()[1 + column :: 3] if each != "-"]
    return [step for each in numbers for step in _when(int(each), [_refuse(error)])]


def _sockets(families: Sequence[int]) -> list[_Step]:
    """Return the steps that allow ``families``, none of them raw.

    If there are any, the part of netlink is allowed that reports the addresses of this machine.
    """
    steps = [_argument(0)]
    for family in families:
        steps += _when(family, _of_type(_STREAM, _DATAGRAM, _PACKETS))
    if families:
        steps += _when(_NETLINK, [_argument(2), *_when(_ROUTE, [_ALLOW]), _refuse(EACCES)])
    return [*steps, _refuse(EACCES)]


def _pairs() -> list[_Step]:
    return [_argument(0), *_when(_UNIX, _of_type(_STREAM, _PACKETS)), _refuse(EACCES)]


def _of_type(*kinds: int) -> list[_Step]:
    without_flags = (0x54, 0, 0, 0xF)
    allowed = [step for kind in kinds for step in _when(kind, [_ALLOW])]
    return [_argument(1), without_flags, *allowed, _refuse(EACCES)]


def _controls() -> list[_Step]:
    refused = [step for each in _IOCTLS for step in _when(each, [_refuse(EPERM)])]
    return [_argument(1), *refused, _ALLOW]


def _when(value: int, steps: Sequence[_Step]) -> list[_Step]:
    """Return ``steps`` for the case that this value was loaded.

    Each way through them has to end: what they load in its place is not loaded again.
    """
    return [_equal(value, 0, len(steps)), *steps]


def _argument(index: int) -> _Step:
    return (0x20, 0, 0, 16 + 8 * index)  # the lower half, as the kernel takes it


def _equal(value: int, then: int, otherwise: int) -> _Step:
    return (0x15, then, otherwise, value)


def _at_least(value: int, then: int, otherwise: int) -> _Step:
    return (0x35, then, otherwise, value)


def _refuse(error: int) -> _Step:
    return (0x06, 0, 0, 0x00050000 | error)
