"""A sandbox by Landlock, which is in the kernel: no program and no privilege is needed.

``launcher`` is started in the place of the server, confines itself and becomes it. Landlock's rules
say which files are open to it; what Landlock does not confine is forbidden by a filter of system
calls (``seccomp``), which cannot tell one file or socket from another. So under this engine a
server cannot change mode, owner or times of any file, and has no Unix sockets but pairs.

What it can do all the same: ``stat`` and ``readlink`` of a path that it knows or guesses tell
whether that exists, how large and old it is and where it leads, and a signal to a process number
tells whether that is in use. No file can be read so. Where Python is to find the modules beside a
script, the names in the folder are seen, and in those below it.
"""

from __future__ import annotations

import ctypes
import functools
import marshal
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from ..errors import ConnectError
from .engine import Launch, memory_file, trial
from .program import home_folders
from .program_caches import fill
from .seccomp import filter_program, machine
from .system import DEVICES, system_paths
from .visible_paths import inside

if TYPE_CHECKING:
    from .engine import Confined
    from .sandbox import Sandbox

__all__ = [
    "ENGINE",
    "lacking_here",
    "launcher_command",
    "launcher_environment",
    "launcher_in_reach",
    "plan_file",
]

_LAUNCHER = os.path.join(os.path.dirname(__file__), "launcher.py")
_ABI, _KERNEL = 6, "6.12"
"""The first that confines signals and abstract sockets, and the Linux that has it."""
_EVERYTHING = 0xFFFF
_READ = 0x1 | 0x4 | 0x8
"""Run, read a file, list a folder."""
_LIST = 0x8
_USE = 0x2 | 0x4
_PORTS = 0x3
"""To bind one of TCP, and to connect to one."""
_OTHER_DOMAINS = 0x3
"""Abstract sockets and signals."""


class _Landlock:
    name = "landlock"

    def lacking(self, sandbox: Sandbox) -> str | None:
        lack = lacking_here() or _not_narrower(sandbox) or launcher_in_reach(sandbox)
        if lack is None and sandbox.network == "loopback":
            lack = _lacking_network()
        return lack

    def confine(self, confined: Confined) -> Launch:
        homes = home_folders()
        for listed in map(os.path.realpath, confined.listed):
            if any(inside(home, listed) for home in homes):
                raise ConnectError(
                    f"the server was not started: its script lies in {listed!r}, and to let it "
                    "find modules there, Landlock would have to show it the names of all files "
                    "below; move the script to a folder of its own, or install bubblewrap"
                )
        folder = _private_folder()
        try:
            return _launch(confined, folder)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConnectError(f"cannot prepare the sandbox of the server: {error}") from None


ENGINE = _Landlock()


def _launch(confined: Confined, folder: str) -> Launch:
    if sys.platform != "linux":
        raise AssertionError
    env = confined.environment(folder)
    if confined.private is not None:
        fill(folder, confined.private)
    end, end_of_watcher = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        plan = plan_file(
            {
                "confine": True,
                "argv": [os.fsencode(word) for word in confined.argv],
                "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                "domain": (
                    _EVERYTHING,
                    _PORTS if confined.sandbox.network == "none" else 0,
                    _OTHER_DOMAINS,
                ),
                "rules": list(_rules(confined, folder).items()),
                "filter": filter_program(confined.sandbox.network, machine() or ""),
                "own_network": confined.sandbox.network == "loopback",
                "host": os.getpid(),
                "done": end_of_watcher,
                "folder": os.fsencode(folder),
            }
        )
    except BaseException:
        os.close(end)
        os.close(end_of_watcher)
        raise
    return Launch(
        launcher_command(plan),
        launcher_environment(),
        confined.cwd,
        (plan, end_of_watcher),
        folder,
        end=end,
        besides=_besides(confined),
    )


def _rules(confined: Confined, folder: str) -> dict[bytes, int]:
    """The rights below each path. Each is real: of one that has become a link since, the launcher
    says so."""
    sandbox = confined.sandbox
    real = dict(sandbox.places)
    rules = {os.path.realpath(path): _LIST for path in confined.listed}
    rules |= {os.path.realpath(path): _READ for path in system_paths(sandbox.network)}
    rules |= {os.path.realpath(path): _READ for path in confined.made_of}
    rules |= {real[str(path)]: _READ for path in sandbox.read}
    rules |= {path: _USE for path in DEVICES if os.path.exists(path)}
    rules |= {real[str(path)]: _EVERYTHING for path in sandbox.write}
    rules[folder] = _EVERYTHING
    return {os.fsencode(path): rights for path, rights in rules.items()}


def _besides(confined: Confined) -> tuple[str, ...]:
    listed = ", ".join(confined.listed)
    return (
        *([f"can see the names of all files below {listed}"] if listed else []),
        "can tell of any path whether it exists, its size, owner and times, and where a link leads",
        "can tell whether a process number is in use",
        "cannot change the mode, owner or times of any file, its own included",
        "cannot use Unix sockets, watch files for changes, or share memory with other programs",
    )


def _private_folder() -> str:
    import tempfile  # only for a sandbox

    try:
        return os.path.realpath(tempfile.mkdtemp(prefix="mcp-client-"))
    except OSError as error:
        raise ConnectError(f"cannot make a temporary folder for the server: {error}") from None


def plan_file(plan: dict[str, Any]) -> int:
    """A descriptor from which the launcher reads ``plan``."""
    return memory_file(marshal.dumps(plan))


def launcher_command(plan: int) -> list[str]:
    return [sys.executable, "-I", "-S", _LAUNCHER, str(plan)]


def launcher_environment() -> dict[str, str]:
    """What Python itself may need to start. The server's own environment is in the plan: a library
    that it names would be loaded into the launcher, which nothing confines yet."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


# -------------------------------------------------------------------------------- what is lacking


@functools.cache
def lacking_here() -> str | None:
    if machine() is None:
        return "it is for 64-bit Python on Linux, on x86_64 and arm64 alone"
    if not sys.executable or getattr(sys, "frozen", False):
        return "it needs a Python interpreter to start, and this program has none (sys.executable)"
    create_ruleset, version = 444, 1
    abi = ctypes.CDLL(None).syscall(create_ruleset, None, None, version)
    if abi < 0:
        return (
            "this kernel does not have it, or does not allow it (add landlock to its lsm= "
            f"parameter; Linux {_KERNEL} or newer is needed)"
        )
    if abi < _ABI:
        return (
            f"that of this kernel (ABI {abi}) cannot confine signals and abstract sockets; Linux "
            f"{_KERNEL} or newer can"
        )
    return None


def _not_narrower(sandbox: Sandbox) -> str | None:
    """Its rules only add: what lies in a folder that can be written can be written."""
    real = dict(sandbox.places)
    for write in map(str, sandbox.write):
        for read in map(str, sandbox.read):
            if real[read].startswith(os.path.join(real[write], "")) and read not in sandbox.write:
                return f"it cannot keep {read!r} from being written, which is in {write!r}"
    return None


def launcher_in_reach(sandbox: Sandbox) -> str | None:
    """Whether a server could change the launcher, and so what confines it when it is next started:
    where Python lies in a folder of the project that the server may write."""
    executable = os.path.abspath(sys.executable)
    shown = os.path.join(
        os.path.realpath(os.path.dirname(executable)), os.path.basename(executable)
    )
    files = shown, os.path.realpath(executable), os.path.realpath(f"{sys.prefix}/pyvenv.cfg")
    folders = [os.path.dirname(os.path.realpath(file)) for file in (os.__file__, _LAUNCHER)]
    real = dict(sandbox.places)
    for write in map(str, sandbox.write):
        parts = [part for part in (*files, *folders) if inside(part, real[write])]
        parts += [folder for folder in folders if inside(real[write], folder)]
        if parts:
            return (
                f"a server that can write {write!r} could change what confines it, {parts[0]!r}; "
                "grant folders without this program's Python, or install that elsewhere"
            )
    return None


@functools.cache
def _lacking_network() -> str | None:
    """Whether the kernel gives an ordinary process a network namespace is found out by trying."""
    plan = plan_file({"confine": True, "argv": [], "own_network": True, "done": 3})
    said = trial(launcher_command(plan), plan, launcher_environment())
    if said is None:
        return None
    return (
        f"network='loopback' needs a network namespace, and this system gives none ({said}); "
        "install bubblewrap, or allow user namespaces"
    )
