"""The grants of a host to a server that is started in a sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.directory import checked_path
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
    """A sandbox: what a server and all its descendants can reach.

    Args:
        read: Files and directories that can be read. Each has to exist; globs are not allowed.
        write: Files and directories that can be read and written. A path of ``read`` in a directory
            of ``write`` cannot be written, moved or replaced.
        network: "none"; "loopback" (a loopback of its own, never this machine's); or "all".

    Raises:
        ConfigError: If an argument is wrong, and on macOS and Windows when the server is started.

    Example:
        >>> StdioServer("notes-server", sandbox=Sandbox(write=["~/notes"]))

    It needs bubblewrap, on Linux. If that is missing, or cannot work here, opening the server
    raises ``ConnectError``, and nothing is started.

    A server can also read the system's programs and libraries, and its own program (see
    ``mcp_client.sandbox.program``). It has a temporary directory of its own, which is its HOME and
    TMPDIR and is removed with it; ``/tmp`` and ``/dev/shm`` are not the machine's. Outside of the
    grants it sees no home directory, no other process and no socket of this machine. The directory
    that the server runs in is granted no more than any other: it can run there, and sees nothing.

    Read access includes named pipes, which can be written to. Unix sockets in a readable directory
    can be connected to with ``network="loopback"`` or "all", and not with "none". So grant no
    directory such as ``/run``, where services have theirs.

    The grants are found before the server is started, as real paths, and are listed in
    ``session.sandbox``; for a config file's server also in the request that a person approves. A
    server that is started again has the same grants, or is not started. A symbolic link grants its
    target at the time when the ``Sandbox`` is made; if it leads to another place later, the server
    does not start.
    """

    read: Iterable[str | os.PathLike[str]] = ()
    write: Iterable[str | os.PathLike[str]] = ()
    network: Network = "none"
    places: tuple[tuple[str, str], ...] = field(init=False, default=(), repr=False)
    """The target of each path of ``read`` and ``write`` when this was made."""
    approved: Grants | None = field(default=None, repr=False, compare=False)
    """The approved grants: the server is started with exactly these, or not at all."""

    def __post_init__(self) -> None:
        read, write = _paths("read", self.read), _paths("write", self.write)
        object.__setattr__(self, "read", read)
        object.__setattr__(self, "write", write)
        if self.network not in get_args(Network):
            names = ", ".join(map(repr, get_args(Network)))
            raise ConfigError(f"Sandbox(network={self.network!r}): give one of {names}")
        places = tuple((path, os.path.realpath(path)) for path in dict.fromkeys(read + write))
        object.__setattr__(self, "places", places)


def sandbox_of(value: object) -> Sandbox | None:
    """Return the sandbox of ``sandbox=``: ``True`` is ``Sandbox()``, ``False`` and None are None.

    Raises ``ConfigError`` for anything else.
    """
    if value is None or isinstance(value, Sandbox):
        return value
    if isinstance(value, bool):
        return Sandbox() if value else None
    raise ConfigError(f"sandbox={value!r}: give True, False or a Sandbox")


def _paths(option: str, value: object) -> tuple[str, ...]:
    where = f"Sandbox({option}=...)"
    if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
        raise ConfigError(f"{where}: give a list of paths")
    paths = []
    for each in value:
        path = os.path.abspath(os.path.expanduser(checked_path(each, where)))
        if not os.path.lexists(path) and _GLOB & set(path):
            raise ConfigError(
                f"{path!r} is a glob; give the files or their directory", option=where
            )
        if not os.path.exists(path):
            raise ConfigError(f"{path!r} does not exist", option=where)
        if os.path.realpath(path) in _TOO_WIDE:
            raise ConfigError(
                f"{path!r} cannot be granted; give the directories in it", option=where
            )
        paths.append(path)
    return tuple(dict.fromkeys(paths))
