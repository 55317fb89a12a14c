"""Confines itself by the kernel's own means and becomes a server (Linux).

A separate program, run as ``python -I -S launcher.py FD`` and never imported: what it does cannot
be undone, so it must not happen in the host's process, and not between its fork and exec either,
where other threads may hold locks. It reads its plan from a descriptor (``landlock`` writes it; the
server's environment is in it, so that no LD_PRELOAD of a server's reaches this program), and then,
in this order:

1. enters a new network namespace, if it may have only a loopback;
2. gives up all capabilities and every way to new ones;
3. enters a first domain of Landlock, from which no signal leaves, and leaves a watcher there;
4. enters a second one, with the rules about files, sockets and signals, and the filter of calls;
5. becomes the server: process id, exit code and signals are the server's.

The watcher waits for the end of the server or of the host. Then it kills all that it can send a
signal to: these are the processes of its domain, wherever they went. Nothing in the second domain
can signal the watcher. Where the host has ended, it removes the server's temporary folder.

What goes wrong is one line on standard error and exit code 125: nothing was started. Neither
``json`` nor ``signal`` nor ``typing`` is imported: each start of a server waits for this.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["main"]

_FAILED = 125
_KILL_SECONDS = 5.0
_FOR_FILES = 0xC007
"""Rights that a rule about a file can give: run, write, read, truncate, control a device."""
_SCOPE_OF_SIGNALS = 2
_LINK_ELSEWHERE = 0x2000
"""To link and rename from one folder to another: no domain but one that grants it allows that."""
_NO_LINKS = 4

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_NO_NEW_PRIVILEGES, _DROP_CAPABILITY, _SECCOMP = 38, 24, 22
_OPENAT2, _CLOSE_RANGE = 437, 436
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_libc: Any = sys.platform == "linux" and ctypes.CDLL(None, use_errno=True)


class _Failed(Exception):
    """What could not be done, and why."""


def main() -> None:
    try:
        with open(int(sys.argv[1]), "rb") as file:
            plan = marshal.loads(file.read())  # noqa: S302 - of our own making
        if plan["confine"]:
            _confine(plan)
        else:  # another engine does the rest, in a domain
            _control("forgo new privileges", _NO_NEW_PRIVILEGES, 1)
            _enter_domain(plan["domain"], ())
        _become(plan["argv"], plan["env"])
    except (_Failed, OSError, ValueError) as error:
        os.write(2, f"mcp-client: the server was not started: {error}\n".encode())
    os._exit(_FAILED)


def _confine(plan: dict[str, Any]) -> None:
    done = plan["done"]
    _close_descriptors(3, done - 1)
    _close_descriptors(done + 1)
    if plan["own_network"]:
        _enter_own_network()
    if not plan["argv"]:
        os._exit(0)  # it was only to be tried
    _give_up_privileges()
    _enter_domain((_LINK_ELSEWHERE, 0, _SCOPE_OF_SIGNALS), [(b"/", _LINK_ELSEWHERE)])
    _leave_watcher(plan["host"], plan["folder"])
    _close_descriptors(3)
    _enter_domain(plan["domain"], plan["rules"])
    _filter_calls(plan["filter"])


def _enter_own_network() -> None:
    """Enter a network that has nothing but a loopback."""
    if sys.platform != "linux":
        raise AssertionError
    import fcntl
    import socket

    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_NETWORK):
        # An ordinary user may do so in a new user namespace.
        _check("get a network of its own", _libc.unshare(_NEW_USER | _NEW_NETWORK))
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = bytearray(b"lo".ljust(40, b"\0"))
        fcntl.ioctl(control, get_flags, request)
        request[16] |= up
        fcntl.ioctl(control, set_flags, request)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _give_up_privileges() -> None:
    _control("forgo new privileges", _NO_NEW_PRIVILEGES, 1)
    for capability in range(64):
        if _libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(capability), 0, 0, 0):
            break  # the last one, or an ordinary user, who could not get any
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _check("give up capabilities", _libc.capset(header, none))


def _enter_domain(scope: tuple[int, int, int], rules: Iterable[tuple[bytes, int]]) -> None:
    """``scope``: what is confined, of files, of ports, and of what belongs to other domains."""
    if sys.platform != "linux":
        raise AssertionError
    ruleset = _call("make rules", _CREATE_RULESET, (ctypes.c_uint64 * 3)(*scope), 24, 0)
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    for path, rights in rules:
        fd = _call(f"grant {os.fsdecode(path)!r}", _OPENAT2, -100, path, how, 24)
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            rights &= _FOR_FILES
        rule = rights.to_bytes(8, "little") + fd.to_bytes(4, "little")
        _call(f"grant {os.fsdecode(path)!r}", _ADD_RULE, ruleset, 1, rule, 0)
        os.close(fd)
    _call("enter the sandbox", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _filter_calls(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    filter = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(steps))
    _control("filter system calls", _SECCOMP, 2, ctypes.addressof(filter))


def _become(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    for ignored_by_python in (13, 25):  # SIGPIPE, SIGXFSZ
        _libc.signal(ignored_by_python, None)
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 - no shell; the host chose the command
    except OSError as error:
        raise _Failed(f"cannot run {os.fsdecode(argv[0])!r}: {error.strerror}") from None


# -------------------------------------------------------------------------------- the watcher


def _leave_watcher(host: int, folder: bytes) -> None:
    if sys.platform != "linux":
        raise AssertionError
    watched = os.pidfd_open(host), os.pidfd_open(os.getpid())
    if os.getppid() != host:
        raise _Failed("the host has ended")
    try:
        os.kill(host, 0)
    except PermissionError:
        pass  # as it has to be: whatever it may signal, the watcher kills
    else:
        raise _Failed("this kernel lets signals out of a sandbox")
    between = os.fork()  # so that the watcher is not a child of the server
    if not between:
        try:
            os.setsid()
            if not os.fork():
                _watch(*watched, folder)
            os._exit(0)
        finally:
            os._exit(_FAILED)
    if os.waitpid(between, 0)[1]:
        raise _Failed("cannot start a process that watches it")


def _watch(host: int, server: int, folder: bytes) -> None:
    if sys.platform != "linux":
        raise AssertionError
    for number in (1, 2, 15):  # hang-up, interrupt, terminate: it ends after the server
        _libc.signal(number, ctypes.c_void_p(1))
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir("/")
    poll = select.poll()
    for watched in (host, server):
        poll.register(watched, select.POLLIN)
    ended = [fd for fd, _ in poll.poll()]
    _kill_all()
    if host in ended:  # which would have removed it
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _kill_all() -> None:
    """Kill all of this domain, and wait until they are gone."""
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        try:
            os.kill(-1, 9)  # at once, so that none can be started meanwhile
        except OSError:
            pass
        if not any(map(_is_in_sandbox, os.listdir("/proc"))):
            return
        time.sleep(0.001)


def _is_in_sandbox(name: str) -> bool:
    if not name.isdecimal() or int(name) == os.getpid():
        return False
    try:
        os.kill(int(name), 0)
        with open(f"/proc/{name}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


# ------------------------------------------------------------------------------- system calls


def _close_descriptors(first: int, last: int = 0xFFFFFFFF) -> None:
    if first <= last:
        _call("close descriptors", _CLOSE_RANGE, first, last, 0)


def _control(what: str, option: int, *arguments: int) -> None:
    padded = [*arguments, 0, 0, 0, 0][:4]
    _check(what, _libc.prctl(option, *map(ctypes.c_ulong, padded)))


def _call(what: str, number: int, *arguments: object) -> int:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check(what, _libc.syscall(ctypes.c_long(number), *given))


def _check(what: str, result: int) -> int:
    if result < 0:
        raise _Failed(f"cannot {what}: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    main()
