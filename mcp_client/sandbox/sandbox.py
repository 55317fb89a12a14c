"""The grants of a host to a server that is started in a sandbox, and the same as real paths.

``Sandbox`` is what the host writes. ``Grants`` are computed of it once, shown, approved and
compared. ``Grants.of`` is called before a person is asked about a start, and before each start. It
returns a value. The facts and the fingerprint of a ``StartRequest`` are made of it. A start mounts
exactly it, or raises ``GrantsChanged``. Nothing in it is followed again: each path is opened
without following a link and mounted by its descriptor.

In addition, a server reads the system's programs and libraries (``system_paths``), which only the
administrator of the machine can change.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from ..errors import Advice, ConfigError, ConnectError
from ..runtime.directory import checked_path
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from .program import modules_elsewhere, program_of
from .visible_paths import inside

if TYPE_CHECKING:
    from .program import PrivateFiles

__all__ = [
    "DEVICES",
    "Confinement",
    "Grant",
    "Grants",
    "GrantsChanged",
    "Network",
    "Sandbox",
    "sandbox_of",
    "system_paths",
]

Network: TypeAlias = Literal["none", "loopback", "all"]

_TOO_WIDE = ("/", "/proc", "/sys", "/dev")
_GLOB = frozenset("*?[")
_MAX_LISTED = 8
_PLAIN = re.compile(r"[\w@%+=:./~${}-]+")
_PATH_IN_TEXT = r"(?<![\w.~/-])/[\w.@+~-][\w./@+~-]{2,300}"
_OF_ITS_OWN = ("/proc", "/dev", "/sandbox", "/tmp")  # noqa: S108 - never granted, so no advice


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


class Grant(NamedTuple):
    """A file or directory that a server can read, or read and write."""

    path: str
    """The real path, absolute."""
    write: bool
    kind: Literal["named", "program", "script", "cache"]
    """The source of the grant: ``read=`` or ``write=``, or the rule about programs, scripts or
    caches. Of the directory of a script, files whose names begin with a dot are not shown."""
    given: str = ""
    """The given path, if it leads to ``path`` by a link."""

    @property
    def shown(self) -> str:
        """The path on one line, quoted if it could be ambiguous, and the given path."""
        words = [self.given, "->", self.path] if self.given else [self.path]
        return " ".join(word if word == "->" else _quoted(word) for word in words)


def _quoted(path: str) -> str:
    return path if _PLAIN.fullmatch(path) else shlex.quote(safe_text(path, sys.maxsize))


class GrantsChanged(ConnectError):
    """The server was not started: its sandbox would grant something else than before."""

    must_be_asked = True
    """Whether a host asks about the start again."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of one server's sandbox, without the system."""

    network: Network
    paths: tuple[Grant, ...]
    names: tuple[str, ...] = ()
    """Paths under which the program is started, which may be links: they are found there, too."""
    missing: tuple[str, ...] = ()
    """The paths that the program may need as well. They are granted only if ``read=`` names
    them."""
    env: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Variables that are added to the server's."""
    private: PrivateFiles | None = field(default=None, compare=False)
    """The files in its private directory from the start."""

    @classmethod
    def of(
        cls, sandbox: Sandbox, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> Grants:
        """Return the grants of ``sandbox`` for ``argv``, which begins with an absolute path.

        This looks at the file system, and starts nothing. Raises ``ConnectError`` if a path of the
        ``Sandbox`` is gone, or leads to another place than when the ``Sandbox`` was made.
        """
        writes = {path for path, _ in sandbox.places} & {os.fspath(path) for path in sandbox.write}
        found: dict[str, Grant] = {}
        for path, real in sandbox.places:
            if not os.path.exists(path) or os.path.realpath(path) != real:
                how = "now leads to another place" if os.path.lexists(path) else "no longer exists"
                raise GrantsChanged(
                    f"cannot start the server: {path!r}, which its sandbox grants, {how}"
                )
            write = path in writes or (real in found and found[real].write)
            found[real] = Grant(real, write, "named", "" if path == real else path)
        place = os.path.abspath(cwd or ".")
        writable = [one.path for one in found.values() if one.write]
        offline = sandbox.network != "all"
        program = program_of(argv, env, place, writable=writable, offline=offline)
        system = tuple(map(os.path.realpath, system_paths(sandbox.network)))
        found_for = (
            ("program", program.paths),
            ("script", program.scripts),
            ("cache", program.caches),
        )
        for kind, paths in found_for:
            for path in paths:
                if not any(inside(path, each) for each in (*found, *system)):
                    found[path] = Grant(path, False, kind)  # type: ignore[arg-type]
        missing = tuple(one for one in program.missing if not _covered(one, (*found, *system)))
        ordered = tuple(sorted(found.values()))
        return cls(sandbox.network, ordered, program.names, missing, program.env, program.private)

    @property
    def listed(self) -> tuple[str, ...]:
        """The paths with their rights, as text; equal only if the same is granted."""
        return tuple(f"{'write' if one.write else 'read'} {one.shown}" for one in self.paths)

    def check_same(self, before: Grants | None) -> None:
        """Raise ``GrantsChanged`` if ``before``, what was approved or started, was different."""
        if before is None or (before.network, before.listed) == (self.network, self.listed):
            return
        new = [one for one in self.listed if one not in before.listed]
        lost = [one for one in before.listed if one not in self.listed]
        words = [f"now grants to {one}" for one in new]
        words += [f"no longer grants to {one}" for one in lost]
        raise GrantsChanged(
            "cannot start the server again, because its sandbox would differ: it "
            f"{'; '.join(words[:_MAX_LISTED]) or 'has another network'}. If that is intended, open "
            "a new session, or start the host again"
        )

    def advice(self, stderr: str) -> Advice | None:
        """Return what to grant as well, by what a server that failed wrote to standard error."""
        system = tuple(map(os.path.realpath, system_paths(self.network)))
        known = (*(one.path for one in self.paths), *system)
        named = [
            each for each in re.findall(_PATH_IN_TEXT, stderr) if not _covered(each, _OF_ITS_OWN)
        ]
        real = map(os.path.realpath, (*named, *modules_elsewhere(stderr, known)))
        wanted = [path for path in real if os.path.exists(path) and not _covered(path, known)]
        every = dict.fromkeys((*wanted, *self.missing))
        paths = [
            path for path in every if not _covered(path, [one for one in every if one != path])
        ][:_MAX_LISTED]
        if not paths:
            return None
        found = f"its sandbox does not grant {', '.join(paths)}"
        return Advice(f"{found}. If it needs that, add Sandbox(read={paths!r})", "sandbox", found)

    def named_as(self, names: Mapping[str, str]) -> Grants:
        """Return the same with other names for some paths, for people.

        Values of variables are shown as they are written.
        """
        paths = [
            one._replace(path=names[one.path], given="") if one.path in names else one
            for one in self.paths
        ]
        return replace(self, paths=tuple(paths))

    def confinement(self, besides: tuple[str, ...] = ()) -> Confinement:
        """Return the same for ``session.sandbox``."""
        return Confinement(self.network, self.paths, besides)


def _covered(path: str, granted: Sequence[str]) -> bool:
    return any(inside(path, each) for each in granted)


@dataclass(frozen=True, slots=True)
class Confinement:
    """The rights of a server in its sandbox: everything that it can reach."""

    network: Network
    """"none", "loopback" (one of its own, never this machine's) or "all"."""
    grants: tuple[Grant, ...]
    """The grants in addition to the system's programs and libraries."""
    besides: tuple[str, ...] = ()
    """The other things that this machine lets through, as sentences."""

    @property
    def read(self) -> tuple[str, ...]:
        """The real paths that ``read=`` grants."""
        return self._named(write=False)

    @property
    def write(self) -> tuple[str, ...]:
        """The real paths that ``write=`` grants, to be read and written.

        The server also has a private temporary directory.
        """
        return self._named(write=True)

    @property
    def program(self) -> tuple[str, ...]:
        """The real paths of its own program and of its caches, which it can read."""
        return tuple(one.path for one in self.grants if one.kind != "named")

    def _named(self, *, write: bool) -> tuple[str, ...]:
        return tuple(one.path for one in self.grants if one.kind == "named" and one.write is write)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same for people, each path whole and quoted if it needs that."""
        own = ", ".join(one.shown for one in self.grants if one.kind != "named")
        read = ["the system's programs and libraries", f"its own ({own})" if own else "its own"]
        read += [one.shown for one in self.grants if one.kind == "named" and not one.write]
        write = [one.shown for one in self.grants if one.write]
        return (
            f"can read {', '.join(read)}",
            f"can write {', '.join([*write, 'a temporary directory of its own'])}",
            *_NETWORKS[self.network],
            *self.besides,
        )


_PIPES = "named pipes in what it can read"
_SOCKETS = f"can use Unix sockets and {_PIPES}"
_NETWORKS = {
    "none": ("cannot reach the network", f"cannot use Unix sockets, but can write to {_PIPES}"),
    "loopback": ("can reach no address but those of a loopback of its own", _SOCKETS),
    "all": ("can reach the network", _SOCKETS),
}


# ----------------------------------------------------- the system's own files


DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""The devices that can be read and written."""

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
_SETTINGS = """
    alternatives crypto-policies fonts gai.conf gitconfig group host.conf ld.so.cache locale.alias
    locale.conf localtime mime.types nsswitch.conf os-release passwd pki/tls/certs pki/tls/cert.pem
    pki/tls/openssl.cnf pki/ca-trust/extracted protocols services ssl/cert.pem ssl/certs
    ssl/openssl.cnf terminfo timezone
""".split()  # noqa: SIM905 - a list of words is read as words
"""The files in ``/etc`` that can be read. Each costs a mount, and other files there hold
passwords."""


def system_paths(network: str) -> tuple[str, ...]:
    """Return the files and directories that exist; some are symbolic links.

    If names of the network can be looked up, the files that define how are among them.
    """
    names = {"none": (), "loopback": ("hosts",), "all": ("hosts", "resolv.conf")}[network]
    named = (*_PROGRAMS, *(f"/etc/{name}" for name in (*_SETTINGS, *names)))
    return tuple(path for path in named if os.path.exists(path))
