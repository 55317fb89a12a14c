"""The seam between a server that is to be confined and what confines it.

An engine says of a ``Sandbox`` what it lacks to hold *all* of it (``lacking``), and turns a command
into the one that is started instead (``confine``). "auto" takes the first that lacks nothing; none
is ever taken for less than was asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ..errors import ConfigError, ConnectError
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .program import Program, program_of
from .visible_paths import inside

if TYPE_CHECKING:
    from .program_caches import PrivateFiles
    from .sandbox import Network, Sandbox

__all__ = [
    "Confined",
    "Confinement",
    "Engine",
    "Launch",
    "chosen_engine",
    "confine",
    "memory_file",
    "trial",
]

_ENGINES = {"linux": ("bubblewrap", "landlock"), "darwin": ("sandbox_exec",)}

"""The modules of a system's engines, in the order "auto" tries them; each has an ``ENGINE``."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/System", "/Library")
"""Where what everybody can read lies, which no list for people names."""


_SHOWN = 8
_TRIAL_SECONDS = 5


class Confined(NamedTuple):
    """A command that is to run in a sandbox."""

    argv: Sequence[str]
    """It begins with an absolute path."""
    env: Mapping[str, str]
    cwd: str
    sandbox: Sandbox
    made_of: Sequence[str] = ()
    """Absolute paths of files and folders that the program is made of, to be read."""
    listed: Sequence[str] = ()
    """Folders in which it looks for modules: their names have to be seen."""
    private: PrivateFiles | None = None
    """What is in its private folder from the start."""

    def environment(self, home: str) -> dict[str, str]:
        """That of the server, whose private folder is ``home``."""
        private = self.private.env if self.private is not None else {}
        places = {name: os.path.join(home, place) for name, place in private.items()}
        return {**self.env, **places, "HOME": home, "TMPDIR": home}


class Launch(NamedTuple):
    """What is started instead."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    pass_fds: Sequence[int] = ()
    """Descriptors that it inherits beside its three streams; closed here once it is started."""
    folder: str | None = None
    """Removed, with all that is in it, when everything has ended."""
    asked_inside: bool = False
    """What was started is not to be asked to end: that goes to the others in its process group."""
    exit_code: Callable[[int], int] = lambda code: code
    """What the exit code of what was started says of the server's own; negative for a signal."""
    end: int | None = None
    """A descriptor, never waited for in a read, that is at its end when no process is left; closed
    here."""
    besides: tuple[str, ...] = ()
    """What the engine lets through or denies beside what was asked, as sentences for people."""


class Engine(Protocol):
    @property
    def name(self) -> str:
        """As ``Sandbox(engine=...)`` and ``session.sandbox.engine`` have it."""

    def lacking(self, sandbox: Sandbox) -> str | None:
        """Why not all of ``sandbox`` can be held on this machine, and what to do about it: a
        sentence without the engine's name or a full stop. None where all of it can."""

    def confine(self, confined: Confined) -> Launch:
        """Called where ``lacking`` is None. Starts nothing. Raises ``ConnectError``."""


@frozen_dataclass
class Confinement:
    """What holds for a server that runs in a sandbox."""

    engine: str
    """Which one holds it: "bubblewrap", "landlock" or "sandbox-exec"."""
    network: Network
    read: tuple[str, ...]
    """What it was granted to read."""
    write: tuple[str, ...]
    """What it was granted to read and write. A temporary folder of its own comes beside that."""
    made_of: tuple[str, ...] = ()
    """What its own program is made of, which it can read, as it can the system's programs and
    libraries."""
    besides: tuple[str, ...] = ()
    """What this engine lets through or denies beside that, as sentences."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same for people."""
        network = {
            "none": "cannot reach the network",
            "loopback": "can reach no address but a loopback's",
            "all": "can reach the network",
        }
        made_of = [*self.made_of[:_SHOWN], *(["..."] if len(self.made_of) > _SHOWN else [])]
        program = f"its own ({', '.join(made_of)})" if made_of else "its own"
        read = ", ".join((f"the system's programs and libraries, {program}", *self.read))
        write = ", ".join((*self.write, "a temporary folder of its own"))
        return (
            f"can read {read}",
            f"can write {write}",
            network[self.network],
            *self.besides,
            f"held by {self.engine}",
        )


def confine(
    sandbox: Sandbox, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[Launch, Confinement]:
    """How to start ``argv``, which begins with an absolute path, in ``sandbox``. Raises as
    ``chosen_engine``, and ``ConnectError`` where something granted is no longer what it was."""
    engine = chosen_engine(sandbox)
    for path, real in sandbox.places:
        if not os.path.exists(path) or _real(path) != real:
            raise ConnectError(
                f"the server was not started, because {path!r}, which its sandbox grants, "
                + ("leads elsewhere now" if os.path.lexists(path) else "does not exist any more")
            )
    place = os.path.abspath(cwd or ".")
    program = program_of(argv, env, place, offline=sandbox.network != "all")
    made_of, env = program.made_of, {**env, **program.env}
    confined = Confined(argv, env, place, sandbox, made_of, program.listed, program.private)
    launch = engine.confine(confined)
    read = tuple(map(str, sandbox.read))
    write = tuple(map(str, sandbox.write))
    shown = _shortened(program)
    held = Confinement(engine.name, sandbox.network, read, write, shown, launch.besides)
    return launch, held


def _real(path: str) -> str | None:
    try:
        return os.path.realpath(path)
    except OSError:  # it is replaced at this moment
        return None


def _shortened(program: Program) -> tuple[str, ...]:
    """What people are told that a program is made of: without what lies in the system, or in
    another of them."""
    real = sorted({os.path.realpath(path) for path in program.made_of})
    return tuple(
        path
        for path in real
        if not any(inside(path, each) for each in _SYSTEM)
        and not any(path != other and inside(path, other) for other in real)
    )


def chosen_engine(sandbox: Sandbox) -> Engine:
    """The engine that holds all of ``sandbox``. Raises ``ConnectError`` where there is none, and
    ``ConfigError`` on a system that has no engine at all."""
    known = _ENGINES.get(sys.platform)
    if known is None:
        raise ConfigError(
            f"sandbox=: there is no sandbox for servers on this system ({sys.platform}); start the "
            "server without one, or in a container of your own"
        )
    names = [name for name in known if sandbox.engine in ("auto", name)]
    lacks = []
    for engine in _loaded(names):
        lack = engine.lacking(sandbox)
        if lack is None:
            return engine
        lacks.append(f"{engine.name}: {lack}")
    if not lacks:
        lacks = [f"{sandbox.engine}: it is not on this system"]
    raise ConnectError(
        f"the server was not started, because nothing can hold its sandbox: {'; '.join(lacks)}"
    )


def _loaded(names: Sequence[str]) -> Iterator[Engine]:
    for name in names:
        yield cast("Engine", import_module(f".{name}", __package__).ENGINE)


def trial(command: Sequence[str], fd: int, env: Mapping[str, str]) -> str | None:
    """Start a program that inherits ``fd``, which is closed here, and is soon over. Why it fails,
    cut and safe to show; None where it does not."""
    try:
        done = subprocess.run(  # noqa: S603 - one of ours or of the system's, by its full path
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd="/",
            pass_fds=[fd],
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return safe_text(str(error))
    finally:
        os.close(fd)
    if not done.returncode:
        return None
    return safe_text(done.stderr.decode(errors="replace").strip()[:200])


def memory_file(data: bytes) -> int:
    """A descriptor of a file in memory: arguments and environments can be read by others."""
    if sys.platform != "linux":
        raise AssertionError
    fd = os.memfd_create("mcp_client", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
