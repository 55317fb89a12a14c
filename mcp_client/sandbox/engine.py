"""The seam between a server that is to be confined and what confines it.

An engine says of a ``Sandbox`` what it lacks to hold *all* of it (``lacking``), and turns a command
into the one that is started instead (``confine``). "auto" takes the first that lacks nothing; none
is ever taken for less than was asked.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ..errors import ConfigError, ConnectError
from ..runtime.frozen import frozen_dataclass
from ..runtime.process_tree import PosixGroup

if TYPE_CHECKING:
    from .sandbox import Network, Sandbox

__all__ = [
    "Confined",
    "ConfinedGroup",
    "Confinement",
    "Engine",
    "Launch",
    "chosen_engine",
    "confine",
]

_ENGINES = {"linux": ("bubblewrap", "landlock"), "darwin": ("sandbox_exec",)}
"""The modules of a system's engines, in the order "auto" tries them; each has an ``ENGINE``."""


class Confined(NamedTuple):
    """A command that is to run in a sandbox."""

    argv: Sequence[str]
    """It begins with an absolute path."""
    env: Mapping[str, str]
    cwd: str
    sandbox: Sandbox
    made_of: Sequence[str] = ()
    """Absolute paths of files and folders that the program is made of, to be read."""


class Launch(NamedTuple):
    """What is started instead."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    pass_fds: Sequence[int] = ()
    """Descriptors that it inherits beside its three streams; closed here once it is started."""
    folder: str | None = None
    """Removed, with all that is in it, when everything has ended."""
    signals: Callable[[int, int], None] | None = None
    """Sends a signal that asks to end: is given the process id of what was started, and the signal.
    None: the process group gets it."""
    exit_code: Callable[[int], int] = lambda code: code
    """What the exit code of what was started says of the server's own; negative for a signal."""
    end: int | None = None
    """A descriptor that is at its end when no process is left; closed here."""


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
    """What it can read: what was granted, and what its program is made of. The system's programs
    and libraries, and what it can write, come beside that."""
    write: tuple[str, ...]
    """What it can write, beside a temporary folder of its own."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same for people."""
        network = {
            "none": "cannot reach the network",
            "loopback": "can reach no address but a loopback's",
            "all": "can reach the network",
        }
        read = ", ".join(("the system's programs and libraries", *self.read))
        write = ", ".join((*self.write, "a temporary folder of its own"))
        return (
            f"can read {read}",
            f"can write {write}",
            network[self.network],
            f"held by {self.engine}",
        )


def confine(
    sandbox: Sandbox, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[Launch, Confinement]:
    """How to start ``argv``, which begins with an absolute path, in ``sandbox``. Raises as
    ``chosen_engine``, and ``ConnectError`` where something granted is no longer what it was."""
    engine = chosen_engine(sandbox)
    for path, real in sandbox.places:
        if not os.path.exists(path) or os.path.realpath(path) != real:
            raise ConnectError(
                f"the server was not started, because {path!r}, which its sandbox grants, "
                + ("leads elsewhere now" if os.path.lexists(path) else "does not exist any more")
            )
    made_of: tuple[str, ...] = ()
    confined = Confined(argv, env, os.path.abspath(cwd or "."), sandbox, made_of)
    read = tuple(dict.fromkeys((*map(str, sandbox.read), *made_of)))
    write = tuple(map(str, sandbox.write))
    held = Confinement(engine.name, sandbox.network, read, write)
    return engine.confine(confined), held


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


class ConfinedGroup(PosixGroup):
    """The processes of a ``Launch``."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        launch = self._launch
        try:
            popen = self._popen(launch.argv, launch.env, launch.cwd, launch.pass_fds)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in launch.pass_fds:
                os.close(fd)
        return popen

    def is_empty(self) -> bool:
        return super().is_empty() and self._has_ended()

    def _has_ended(self) -> bool:
        end = self._launch.end
        return end is None or bool(select.select([end], [], [], 0)[0])

    def close(self) -> None:
        if self._launch.end is not None:
            os.close(self._launch.end)
        if self._launch.folder is not None:
            shutil.rmtree(self._launch.folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        signals = self._launch.signals
        if signals is None or number == 9:
            super()._signal(number)
        elif self._pid:
            signals(self._pid, number)
