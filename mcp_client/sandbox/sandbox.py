"""What a server that is started in a sandbox is granted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.folder import given_path
from ..runtime.frozen import frozen_dataclass

__all__ = ["EngineName", "Network", "Sandbox", "sandbox_of"]

Network: TypeAlias = Literal["none", "loopback", "all"]
EngineName: TypeAlias = Literal["auto", "bubblewrap", "landlock"]

_TOO_WIDE = ("/", "/proc", "/sys", "/dev")
_GLOB = frozenset("*?[")


@frozen_dataclass
class Sandbox:
    """What a server and all its descendants can reach, beyond what they are made of:
    ``StdioServer(..., sandbox=Sandbox(write=["~/notes"]))``.

    They can read the system's programs and libraries, their own program (its interpreter, its
    package, the script and the modules beside it), and ``read``. They can write ``write``, which
    they can read too, and a temporary folder of their own, which is their HOME and TMPDIR and is
    removed when they end; ``/tmp`` and ``/dev/shm`` are not theirs. They see no home folder, no
    other process and no socket of this machine outside of what is granted.

    ``read`` and ``write`` are lists of files and folders; each has to exist, and is not a glob. A
    symbolic link grants what it leads to when the ``Sandbox`` is made; what leads elsewhere later
    is not granted, and the server does not start. What ``read`` names in a folder of ``write`` is
    kept from being written. The folder that the server runs in is granted no more than any other:
    it can be run in, and shows nothing.

    ``network``: "none"; "loopback" (addresses of this machine alone, or of a loopback of their
    own); or "all".

    ``engine``: "auto" takes the first that can hold all of it. Where none can, opening the server
    raises ``ConnectError``, and nothing is started. Linux has "bubblewrap" and "landlock"; on macOS
    "auto" is ``sandbox-exec``; Windows has none.

    Raises ``ConfigError``.
    """

    read: Iterable[str | os.PathLike[str]] = ()
    write: Iterable[str | os.PathLike[str]] = ()
    network: Network = "none"
    engine: EngineName = "auto"
    places: tuple[tuple[str, str], ...] = field(init=False, default=(), repr=False)
    """Each path of ``read`` and ``write``, and what it led to when this was made."""

    def __post_init__(self) -> None:
        read, write = _paths("read", self.read), _paths("write", self.write)
        object.__setattr__(self, "read", read)
        object.__setattr__(self, "write", write)
        if self.network not in get_args(Network):
            names = ", ".join(map(repr, get_args(Network)))
            raise ConfigError(f"Sandbox(network={self.network!r}): give one of {names}")
        if self.engine not in get_args(EngineName):
            names = ", ".join(map(repr, get_args(EngineName)))
            raise ConfigError(f"Sandbox(engine={self.engine!r}): give one of {names}")
        places = tuple((path, os.path.realpath(path)) for path in dict.fromkeys(read + write))
        for path, real in places:
            if real in _TOO_WIDE:
                raise ConfigError(f"Sandbox: {path!r} cannot be granted; give the folders in it")
        object.__setattr__(self, "places", places)


def sandbox_of(given: object) -> Sandbox | None:
    """What ``sandbox=`` of a server means: ``True`` is ``Sandbox()``, ``False`` and None are none.
    Raises ``ConfigError`` for anything else."""
    if given is None or isinstance(given, Sandbox):
        return given
    if isinstance(given, bool):
        return Sandbox() if given else None
    raise ConfigError(f"sandbox={given!r}: give True, False or a Sandbox")


def _paths(option: str, given: object) -> tuple[str, ...]:
    where = f"Sandbox({option}=...)"
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Iterable):
        raise ConfigError(f"{where}: give a list of paths")
    paths = []
    for each in given:
        path = os.path.abspath(os.path.expanduser(given_path(each, where)))
        if not os.path.lexists(path) and _GLOB & set(path):
            raise ConfigError(f"{where}: {path!r} is a glob; give the files or their folder")
        if not os.path.exists(path):
            raise ConfigError(f"{where}: {path!r} does not exist")
        paths.append(path)
    return tuple(dict.fromkeys(paths))
