"""Namespaces of a server's own, made by the program bwrap (Linux, package ``bubblewrap``).

The server sees a file system of nothing but what it is granted, each at its own path, its own
processes and its own network. What is not granted does not exist there. All that is made to mount
something on is read-only, so that a write outside of what is granted fails, rather than vanishes.

- The command line of bwrap has the server's words alone: options and environment are handed over
  in a descriptor. So no value is to be seen by others, and no ``LD_PRELOAD`` of a server's is for
  bwrap.
- As root, kernel settings in ``/proc`` would be writable; they are mounted read-only.
- What is granted is held by descriptors while it is mounted: nothing that replaces a folder by a
  link meanwhile gets it to lead elsewhere.
- With the network of this machine, abstract sockets would be within reach, the desktop's bus among
  them. A domain of Landlock, which bwrap is started in, keeps them out.
- bwrap ends with a code of 128 and more for a signal, as a shell does, so an exit code of a
  server's own above 128 is taken for a signal.
- A signal to bwrap ends all at once. One that asks to end goes to what runs inside instead. When
  bwrap or the server has ended, and when the thread that started it has, the kernel ends the rest.

As root alone, the mode of ``/dev/null`` and four other devices can be changed; and a folder that
only another user may open cannot be granted, as no capability is left to open it with: the server
does not start, or cannot read it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import ConnectError
from ..runtime.folder import CLOSED_IN_CHILDREN
from .engine import Confined, Launch, memory_file, trial
from .seccomp import machine, namespace_program
from .system import system_paths
from .visible_paths import VisiblePaths

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["ENGINE", "PLACES"]

PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
"""Where it is looked for: never on a server's PATH."""

_ISOLATED = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"),
)
_STREAMS_OUT = ("/bin/sh", "-c", 'exec 3<&0 4>&1 </dev/null >/dev/null "$@"', "sh")
_STREAMS_IN = ("/bin/sh", "-c", 'exec "$@" <&3 >&4 3<&- 4>&-', "sh")
"""bwrap holds its own streams for as long as it runs: a server that closes one of the two would do
so unnoticed. What has another number is for the server alone."""
_AS_ROOT = ("can change the mode of /dev/null, as root alone, and of four other devices",)
_HOW_TO_GET = (
    "install the Debian package bubblewrap, or what your system calls it, version 0.10 or one with "
    "the fixes of 2024"
)
_HOW_TO_ALLOW = (
    "it needs namespaces that an ordinary user may make: sysctl kernel.unprivileged_userns_clone=1 "
    "on Debian, an AppArmor profile for bwrap on Ubuntu; in a container they may be forbidden"
)
_SCOPE_OF_ABSTRACT_SOCKETS = 1


_PATH: int = getattr(os, "O_PATH", 0)
_working: set[str] = set()
"""Programs that were tried, and make a sandbox here."""


class _Bubblewrap:
    name = "bubblewrap"

    def lacking(self, sandbox: Sandbox) -> str | None:
        program = _program()
        if program is None:
            return f"there is no {PLACES[0]}; {_HOW_TO_GET}"
        if machine() is None:
            return "the system calls of this processor are not known here"
        if program not in _working:
            failure = _tried(program)
            if failure is not None:
                return failure
            _working.add(program)
        if sandbox.network == "all":
            # Only for a server that may use the network.
            from .landlock import lacking_here, launcher_in_reach

            lack = lacking_here() or launcher_in_reach(sandbox)
            if lack is not None:
                return (
                    'with network="all" it leaves abstract sockets within reach, and Landlock '
                    f"cannot keep them out: {lack}"
                )
        return None

    def confine(self, confined: Confined) -> Launch:
        fds: list[int] = []

        def hold(fd: int) -> str:
            fds.append(_of_two_digits(fd))
            return str(fds[-1])

        try:
            options = hold(_written(_options(confined, hold)))
            program = _program() or PLACES[0]
            inside = [*_STREAMS_IN, *confined.argv]
            words = [*_STREAMS_OUT, program, "--args", options, "--", *inside]
            env: dict[str, str] = {}
            if confined.sandbox.network == "all":
                words, env = _without_abstract_sockets(words, hold)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        besides = () if _is_ordinary_user() else _AS_ROOT
        return Launch(
            words, env, "/", fds, asked_inside=True, exit_code=_exit_code, besides=besides
        )


ENGINE = _Bubblewrap()


# --------------------------------------------------------------------- whether it can be had


def _program() -> str | None:
    return next((path for path in PLACES if os.access(path, os.X_OK)), None)


def _tried(program: str) -> str | None:
    """Why it makes no sandbox here; None where it does."""
    root = os.open("/", _PATH)
    words = [*_ISOLATED, "--unshare-net", "--ro-bind-fd", str(root), "/", "--proc", "/proc"]
    command = [program, *words, "--dev", "/dev", "--", "/bin/sh", "-c", ":"]
    said = trial(command, root, {})
    if said is None:
        return None
    old = "--ro-bind-fd" in said
    return f"{program} fails ({said}); {_HOW_TO_GET if old else _HOW_TO_ALLOW}"


# --------------------------------------------------------------------- what it is told


def _options(confined: Confined, hold: Callable[[int], str]) -> Iterator[str]:
    sandbox = confined.sandbox
    visible = VisiblePaths()
    granted = dict(sandbox.places)
    for path, write in _grants(sandbox):
        if visible.grant(path, write=write) != granted[path]:
            raise ConnectError(f"{path!r} cannot be granted: it leads elsewhere now")
    for path in (*system_paths(sandbox.network), *confined.made_of):
        visible.find(path)
    cwd = visible.follow(confined.cwd)
    home = visible.unused("/sandbox")
    yield from _ISOLATED
    if sandbox.network != "all":
        yield "--unshare-net"
    yield from ("--proc", "/proc", *_kernel_settings(), "--dev", "/dev")
    for path, write in visible.mounts():
        if path in granted.values():
            yield from ("--bind-fd" if write else "--ro-bind-fd", hold(_opened(path)), path)
        else:
            yield from ("--bind" if write else "--ro-bind", path, path)
    for link, target in visible.links():
        yield from ("--symlink", target, link)
    yield from ("--tmpfs", home)
    if confined.private is not None:
        for name, target in confined.private.links.items():
            yield from ("--symlink", target, f"{home}/{name}")
        for name, content in confined.private.files.items():
            yield from ("--file", hold(memory_file(content)), f"{home}/{name}")
    if not visible.covers(cwd):
        yield from ("--dir", cwd)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", confined.cwd)
    yield from ("--seccomp", hold(memory_file(namespace_program(machine() or ""))), "--clearenv")
    for name, value in confined.environment(home).items():
        yield from ("--setenv", name, value)


def _grants(sandbox: Sandbox) -> Iterator[tuple[str, bool]]:
    """Each path, and whether it may be written."""
    yield from ((str(path), True) for path in sandbox.write)
    yield from ((str(path), False) for path in sandbox.read)


def _kernel_settings() -> Iterator[str]:
    """What root could write in ``/proc``, read-only."""
    if _is_ordinary_user():
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() or entry.is_symlink():
            continue
        if entry.is_dir() or entry.stat().st_mode & 0o222:
            yield from ("--ro-bind", entry.path, entry.path)


def _is_ordinary_user() -> bool:
    return sys.platform == "win32" or os.geteuid() != 0


def _of_two_digits(fd: int) -> int:
    """The same with a number that no stream is given."""
    if sys.platform == "win32":
        raise AssertionError
    import fcntl

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


def _opened(path: str) -> int:
    """A descriptor of the file or folder that has this real path."""
    try:
        fd = os.open(path, _PATH | CLOSED_IN_CHILDREN)
    except OSError as error:
        raise ConnectError(f"{path!r} cannot be granted: {error.strerror}") from None
    if os.readlink(f"/proc/self/fd/{fd}") != path:
        os.close(fd)
        raise ConnectError(f"{path!r} cannot be granted: it leads elsewhere now")
    return fd


def _written(options: Iterator[str]) -> int:
    words = list(options)
    if any("\0" in word for word in words):
        raise ConnectError("the environment of a server in a sandbox cannot contain a NUL")
    return memory_file(b"".join(os.fsencode(word) + b"\0" for word in words))


def _without_abstract_sockets(
    words: Sequence[str], hold: Callable[[int], str]
) -> tuple[list[str], dict[str, str]]:
    from .landlock import launcher_command, launcher_environment, plan_file

    plan = {
        "confine": False,
        "domain": (0, 0, _SCOPE_OF_ABSTRACT_SOCKETS),
        "rules": (),
        "argv": [os.fsencode(word) for word in words],
        "env": {},
    }
    return launcher_command(int(hold(plan_file(plan)))), launcher_environment()


# --------------------------------------------------------------------- how it ends


def _exit_code(code: int) -> int:
    return 128 - code if 128 < code <= 128 + signal.NSIG else code
