"""The sandbox: namespaces of a server's own, made by the program bwrap (Linux).

The server sees a file system of nothing but its grants, each at its own path, its own processes and
its own network. Everything else does not exist there. The directories above mounts are read-only,
so that a write outside of the grants fails, rather than vanishes.

- The command line of bwrap has the server's words alone: options and environment are passed
  in a descriptor. So no value can be seen by others, and no ``LD_PRELOAD`` of a server applies to
  bwrap.
- Each grant is opened without following a link, and mounted by its descriptor.
- A directory between one that can be written and one in it that cannot is mounted on itself:
  otherwise it could be renamed, and another put in its place.
- As root, kernel settings in ``/proc`` would be writable; they are mounted read-only. The devices
  are nodes of the sandbox's own, so that their mode is not the machine's.
- Without the network no Unix socket can be made either: one in a readable directory could be
  connected to, read-only or not. Pipes are files, and no filter distinguishes them.
- Abstract Unix sockets have no path, so no mount hides them, and the network they belong to is the
  machine's: the bus of the desktop is among them. One call of Landlock does (Linux 6.12): bwrap is
  started in a domain whose only rule is that abstract sockets of other domains cannot be connected
  to. A process of its own enters the domain and becomes bwrap: this cannot be undone.
- bwrap ends with a code of 128 and more for a signal, as a shell does. So an exit code of a
  server's own above 128 is taken for a signal.
- A signal to bwrap ends everything at once. A signal that asks to end goes to the process inside
  instead. When bwrap or the server has ended, and when the thread that started it has, the kernel
  ends the rest.

As root alone, a directory that only another user may open cannot be granted, as no capability is
left to open it with: the server does not start, or cannot read it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigError, ConnectError
from ..runtime.directory import CLOSED_IN_CHILDREN
from ..runtime.safe_text import safe_text
from .sandbox import DEVICES, Confinement, Grants, system_paths
from .seccomp import machine, namespace_program
from .visible_paths import VisiblePaths, inside

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["PLACES", "Launch", "confine", "lacking", "why_not"]

PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
"""The places of bwrap: it is never looked for on a server's PATH."""

_ISOLATED = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"),
)
_STREAMS_OUT = ("/bin/sh", "-c", 'exec 3<&0 4>&1 </dev/null >/dev/null "$@"', "sh")
_STREAMS_IN = ("/bin/sh", "-c", 'exec "$@" <&3 >&4 3<&- 4>&-', "sh")
"""bwrap holds its own streams for as long as it runs: a server that closes one of the two would do
so unnoticed. What has another number is for the server alone."""
_HOW_TO_GET = (
    "install bubblewrap (Debian's package bubblewrap, or what your system calls it), version 0.10 "
    "or one with the fixes of 2024"
)
_INSTEAD = "or run the server in a container of its own, without sandbox="
_HOW_TO_ALLOW = (
    "it needs namespaces that an ordinary user may make: sysctl kernel.unprivileged_userns_clone=1 "
    "on Debian, an AppArmor profile for bwrap on Ubuntu; in a container they may be forbidden"
)
_TRIAL_SECONDS = 5
_PATH: int = getattr(os, "O_PATH", 0)
_working: set[str] = set()
"""Programs that were tried, and make a sandbox here."""


class Launch(NamedTuple):
    """A program to start in the place of a server."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    pass_fds: Sequence[int]
    """The descriptors that it inherits in addition to its streams; closed here once it is
    started."""
    directory: str | None
    """A directory of this package, removed with its content when everything has ended."""


def why_not(sandbox: Sandbox) -> str | None:
    """Return why ``sandbox`` cannot be had on this machine, and what to do; None if it can."""
    program = next((path for path in PLACES if os.access(path, os.X_OK)), None)
    if program is None:
        return f"{PLACES[0]} not found: {_HOW_TO_GET}, {_INSTEAD}"
    if machine() is None:
        return f"the system calls of this processor are not known here: {_INSTEAD[3:]}"
    if program not in _working:
        failure = _tried(program)
        if failure is not None:
            return failure
        _working.add(program)
    if sandbox.network == "all":
        lack = lacking() or _launcher_in_reach(sandbox)
        if lack is not None:
            return f'network="all" leaves abstract sockets within reach, and to prevent it: {lack}'
    return None


def confine(
    sandbox: Sandbox, grants: Grants, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[Launch, Confinement]:
    """Return how to start ``argv`` so that it has exactly ``grants``, and what it then can reach.

    Starts nothing. Raises ``ConfigError`` on a system without bubblewrap, and ``ConnectError`` if
    it is not installed or cannot work, or if a grant no longer exists.
    """
    if sys.platform != "linux":
        raise ConfigError(
            f"sandbox=: this system ({sys.platform}) has no sandbox for servers. Start the "
            "server without a sandbox, or in its own container"
        )
    lack = why_not(sandbox)
    if lack is not None:
        raise ConnectError(f"cannot start the server in a sandbox: {lack}")
    fds: list[int] = []

    def hold(fd: int) -> str:
        fds.append(_of_two_digits(fd))
        return str(fds[-1])

    devices = _own_devices()
    try:
        options = hold(_written(_options(grants, argv, env, cwd, devices, hold)))
        program = next(path for path in PLACES if os.access(path, os.X_OK))
        inside_it = [*_STREAMS_IN, *argv]
        words = [*_STREAMS_OUT, program, "--args", options, "--", *inside_it]
        if grants.network == "all":
            words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *words]
    except BaseException:
        for fd in fds:
            os.close(fd)
        remove(devices)
        raise
    of_machine = not _is_ordinary_user() and devices is None
    besides = ("can change the mode of /dev/null and four other devices",) if of_machine else ()
    own = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return Launch(words, own, "/", fds, devices), grants.confinement(besides)


def exit_code(code: int) -> int:
    """Return the server's exit code by the exit code of bwrap; negative for a signal."""
    return 128 - code if 128 < code <= 128 + signal.NSIG else code


# --------------------------------------------------------------------- whether it can be had


def _tried(program: str) -> str | None:
    """Return the reason why it makes no sandbox here; None if it does."""
    root = os.open("/", _PATH)
    words = [*_ISOLATED, "--unshare-net", "--ro-bind-fd", str(root), "/", "--proc", "/proc"]
    try:
        done = subprocess.run(  # noqa: S603 - of the system's, by its full path
            [program, *words, "--dev", "/dev", "--", "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=[root],
            timeout=_TRIAL_SECONDS,
            check=False,
        )
        text = done.stderr.decode(errors="replace").strip() if done.returncode else ""
        failed = done.returncode != 0
    except (OSError, subprocess.SubprocessError) as error:
        text, failed = str(error), True
    finally:
        os.close(root)
    if not failed:
        return None
    advice = _HOW_TO_GET if "--ro-bind-fd" in text else _HOW_TO_ALLOW
    return f"{program} fails ({safe_text(text, 200)}): {advice}, {_INSTEAD}"


def _launcher_in_reach(sandbox: Sandbox) -> str | None:
    """Whether a server could change the Python that confines it when it is next started."""
    executable = os.path.abspath(sys.executable)
    library = os.path.dirname(os.path.realpath(os.__file__))
    parts = [executable, os.path.realpath(executable), library, f"{sys.prefix}/pyvenv.cfg"]
    writable = [real for path, real in sandbox.places if path in sandbox.write]
    for write in writable:
        if inside(write, library) or any(inside(os.path.realpath(each), write) for each in parts):
            return f"grant directories without this program's Python, which {write!r} contains"
    return None


# --------------------------------------------------------------------- its options


def _options(
    grants: Grants,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    devices: str | None,
    hold: Callable[[int], str],
) -> Iterator[str]:
    visible = VisiblePaths()
    fixed = [(one.path, one.write) for one in grants.paths]
    for path, write in fixed:
        visible.grant(path, write=write)
    for path in system_paths(grants.network):
        visible.find(path)
    for path in (argv[0], *grants.names, *(one.given for one in grants.paths if one.given)):
        visible.follow(path)
    place = os.path.abspath(cwd or ".")
    followed = visible.follow(place)
    home = visible.unused("/sandbox")
    yield from _ISOLATED
    if grants.network != "all":
        yield "--unshare-net"
    yield from ("--proc", "/proc", *_kernel_settings(), "--dev", "/dev")
    if devices is not None:
        for device in DEVICES:
            yield from ("--dev-bind", os.path.join(devices, os.path.basename(device)), device)
    system = {os.path.realpath(path) for path in system_paths(grants.network)}
    for path, write in visible.mounts():
        if path in system and (path, write) not in fixed:
            yield from ("--ro-bind", path, path)
        else:
            yield from ("--bind-fd" if write else "--ro-bind-fd", hold(_opened(path)), path)
    for hidden in _hidden(grants):
        if os.path.isdir(hidden):
            yield from ("--tmpfs", hidden, "--remount-ro", hidden)
        else:
            yield from ("--ro-bind-data", hold(_memory_file(b"")), hidden)
    for link, target in visible.links():
        yield from ("--symlink", target, link)
    yield from ("--tmpfs", home)
    private = {} if grants.private is None else grants.private.env
    if grants.private is not None:
        for name, target in grants.private.links.items():
            yield from ("--symlink", target, f"{home}/{name}")
        for name, content in grants.private.files.items():
            yield from ("--file", hold(_memory_file(content)), f"{home}/{name}")
    if not visible.covers(followed):
        yield from ("--dir", followed)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", place)
    filter = namespace_program(machine() or "", sockets=grants.network != "none")
    yield from ("--seccomp", hold(_memory_file(filter)), "--clearenv")
    places = {name: os.path.join(home, each) for name, each in private.items()}
    variables = {**env, **grants.env, **places, "HOME": home, "TMPDIR": home}
    for name, value in variables.items():
        yield from ("--setenv", name, value)


def _hidden(grants: Grants) -> Iterator[str]:
    """Yield the files with a dot next to a script, but for what is granted in them."""
    granted = [one.path for one in grants.paths]
    directories = [(one.path, True) for one in grants.paths if one.kind == "script"]
    while directories:
        directory, only_dots = directories.pop()
        for entry in os.scandir(directory) if os.path.isdir(directory) else ():
            if entry.is_symlink() or (only_dots and not entry.name.startswith(".")):
                continue
            if not any(inside(path, entry.path) for path in granted):
                yield entry.path
            elif entry.path not in granted:
                directories.append((entry.path, False))


def _kernel_settings() -> Iterator[str]:
    """Yield the options that make kernel settings in ``/proc`` read-only for root."""
    if _is_ordinary_user():
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() or entry.is_symlink():
            continue
        if entry.is_dir() or entry.stat().st_mode & 0o222:
            yield from ("--ro-bind", entry.path, entry.path)


def _own_devices() -> str | None:
    """Return a directory with nodes of the sandbox's own; None if the machine's are used.

    An ordinary user cannot change those of the machine. The others are used if none can be made.
    """
    if sys.platform == "win32" or _is_ordinary_user():
        return None
    directory = tempfile.mkdtemp(prefix="mcp-client-")
    try:
        for device in DEVICES:
            node = os.path.join(directory, os.path.basename(device))
            os.mknod(node, stat.S_IFCHR | 0o600, os.stat(device).st_rdev)
            os.chmod(node, 0o666)  # noqa: S103 - as the machine's own
            os.close(os.open(node, os.O_RDONLY))  # not on a file system without devices
    except OSError:
        remove(directory)
        return None
    return directory


def remove(directory: str | None) -> None:
    """Remove the directory of devices, which has no directory in it."""
    if directory is None:
        return
    for device in DEVICES:
        try:
            os.unlink(os.path.join(directory, os.path.basename(device)))
        except OSError:
            continue
    try:
        os.rmdir(directory)
    except OSError:
        return


def _is_ordinary_user() -> bool:
    return sys.platform == "win32" or os.geteuid() != 0


def _of_two_digits(fd: int) -> int:
    """Return the same with a number that no stream is given."""
    if sys.platform == "win32":
        raise AssertionError
    import fcntl

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


def _opened(path: str) -> int:
    """Return a descriptor of the file or directory that has this real path."""
    try:
        fd = os.open(path, _PATH | CLOSED_IN_CHILDREN)
    except OSError as error:
        raise ConnectError(f"cannot grant {path!r}: {error.strerror}") from None
    if os.readlink(f"/proc/self/fd/{fd}") != path:
        os.close(fd)
        raise ConnectError(f"cannot grant {path!r}: the path now leads to another place")
    return fd


def _memory_file(data: bytes) -> int:
    """Return a descriptor of a file in memory: arguments and environments can be read by others."""
    if sys.platform != "linux":
        raise AssertionError
    fd = os.memfd_create("mcp_client", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _written(options: Iterator[str]) -> int:
    words = list(options)
    if any("\0" in word for word in words):
        raise ConnectError("the environment of a server in a sandbox cannot contain a NUL")
    return _memory_file(b"".join(os.fsencode(word) + b"\0" for word in words))


_ABI, _KERNEL = 6, "6.12"
_CREATE_RULESET, _VERSION = 444, 1
_LAUNCHER = """
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
rules = call(444, (ctypes.c_uint64 * 3)(0, 0, 1), ctypes.c_size_t(24), 0)
if ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) or rules < 0 or call(446, rules, 0):
    sys.exit("cannot keep abstract sockets out of reach")
os.closerange(rules, rules + 1)
os.execv(sys.argv[1], sys.argv[1:])
"""


@functools.cache
def lacking() -> str | None:
    """Return why abstract sockets stay within reach here; None if they do not."""
    if not sys.executable or getattr(sys, "frozen", False):
        return "that needs a Python interpreter to start, and this program has none"
    abi = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, None, _VERSION)
    if abi < _ABI:
        return f"that needs Landlock as Linux {_KERNEL} and newer have it"
    return None
