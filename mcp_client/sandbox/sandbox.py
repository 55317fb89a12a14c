"""What a server that is started in a sandbox is granted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.folder import given_path
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

if TYPE_CHECKING:
    from .grants import Grants

__all__ = ["Network", "Sandbox", "sandbox_of"]

Network: TypeAlias = Literal["none", "loopback", "all"]

_TOO_WIDE = ("/", "/proc", "/sys", "/dev")
_GLOB = frozenset("*?[")


@with_option_names()
@frozen_dataclass
class Sandbox:
    """What a server and all its descendants can reach, beside what its program is made of:
    ``StdioServer(..., sandbox=Sandbox(write=["~/notes"]))``. It needs bubblewrap, on Linux.

    What can be read can be used as far as reading allows, and that includes named pipes, which can
    be written to; Unix sockets in it can be connected to with ``network="loopback"`` or "all", and
    not with "none". So grant no directory such as ``/run``, where services have theirs.

    They can read the system's programs and libraries, their own program (see
    ``mcp_client.sandbox.program``), and ``read``. They can write ``write``, which they can read
    too, and a temporary directory of their own, which is their HOME and TMPDIR and goes with them;
    ``/tmp`` and ``/dev/shm`` are not theirs. They see no home directory, no other process and no
    socket of this machine outside of what is granted.

    Everything that is granted is found before the server is started, as real paths, and is listed
    in ``session.sandbox``; of a config file's server also in the request that a person approves. A
    server that is started again has the same grants, or is not started.

    ``read`` and ``write`` are lists of files and directories; each has to exist, and is not a glob.
    A symbolic link grants what it leads to when the ``Sandbox`` is made; if it leads elsewhere
    later, the server does not start. What ``read`` names in a directory of ``write`` cannot be
    written, moved or replaced. The directory that the server runs in is granted no more than any
    other: it can be run in, and shows nothing.

    ``network``: "none"; "loopback" (a loopback of its own, never this machine's); or "all".

    If there is no bubblewrap, or it cannot work here, opening the server raises ``ConnectError``,
    and nothing is started; on macOS and Windows that is a ``ConfigError``.

    Raises ``ConfigError``.
    """

    read: Iterable[str | os.PathLike[str]] = ()
    write: Iterable[str | os.PathLike[str]] = ()
    network: Network = "none"
    places: tuple[tuple[str, str], ...] = field(init=False, default=(), repr=False)
    """Each path of ``read`` and ``write``, and what it led to when this was made."""
    approved: Grants | None = field(default=None, repr=False, compare=False)
    """What was approved: the server is started with exactly that, or not at all."""

    def __post_init__(self) -> None:
        read, write = _paths("read", self.read), _paths("write", self.write)
        object.__setattr__(self, "read", read)
        object.__setattr__(self, "write", write)
        if self.network not in get_args(Network):
            names = ", ".join(map(repr, get_args(Network)))
            raise ConfigError(f"Sandbox(network={self.network!r}): give one of {names}")
        places = tuple((path, os.path.realpath(path)) for path in dict.fromkeys(read + write))
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
            raise ConfigError(f"{path!r} is a glob; give the files or their folder", option=where)
        if not os.path.exists(path):
            raise ConfigError(f"{path!r} does not exist", option=where)
        if os.path.realpath(path) in _TOO_WIDE:
            raise ConfigError(f"{path!r} cannot be granted; give the folders in it", option=where)
        paths.append(path)
    return tuple(dict.fromkeys(paths))
