"""The names of the tools of many servers: unique, and stable whatever servers do.

The ways, by the ``naming`` of a ``Host``:

- "prefix": ``server__tool``. Made from the two names alone, so that it is the same in every run and
  with any other servers. Only letters, digits, ``_`` and ``-``, at most 64 characters,
  as model providers demand.
- "bare": ``tool``, if no server has taken that name before; otherwise as with "prefix".
- "random": as "prefix", with five random characters for each server in place of its name.
- "uri": ``weather.example.com:tool``, with the host of the server's URL, or the server's name.
- a function from server and tool to the name.

A name that has to be cut or altered gets a suffix: eight hexadecimal digits of a hash of the
original. A name that looks as if it had a suffix gets one, too. So no tool can take the name of
another with its suffix. The server's part never contains ``__`` and never ends with ``_``. So two
names with a prefix differ if their servers or tools differ. No list of names is needed for that,
and no server can take a name from another.

The other ways share one space of names. There the first tool with a name owns it, in the order of
the host's servers. It owns the name as long as the host lives, even after the tool or its server
was removed. Names are looked up and never parsed: the text before ``__`` proves nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from ..errors import ConfigError
from ..runtime.safe_text import invisible, safe_text

__all__ = ["Names", "Naming", "authority_of", "naming_of", "prefixed"]

Naming: TypeAlias = Literal["prefix", "bare", "random", "uri"] | Callable[[str, str], str]
"""The ways to name the tools of many servers: see ``mcp_client.host.naming``."""

MAX_CHARS = 64
"""The characters of a name that every model provider accepts."""
_MAX_PREFIX_CHARS = 32
_ALTERED = re.compile(r"[^A-Za-z0-9_-]+")
_HAS_SUFFIX = re.compile(r"_[0-9a-f]{8}\Z")
_HASH_CHARS = 8
_LETTERS = "abcdefghijkmnpqrstuvwxyz"
_LETTERS_AND_DIGITS = _LETTERS + "23456789"
_PORTS = {"http": 80, "https": 443}
_MAX_CHARS = 256
_MAX_TAKEN = 50_000
"""Names that one server may take where names are in one space; a bare tool beyond them gets a name
with a prefix."""


def authority_of(identity: object) -> str | None:
    """Return host and port of a server's URL, by its ``Transport.identity``; None without one."""
    if not isinstance(identity, tuple) or identity[0] != "http":
        return None
    _, scheme, host, port = identity
    return host if port == _PORTS.get(scheme) else f"{host}:{port}"


def prefixed(prefix: str, server: str, tool: str) -> str:
    """``prefix__tool``, for a prefix that ``server_part`` made."""
    room = MAX_CHARS - len(prefix) - 2
    return f"{prefix}__{_part(tool, room, server, tool)}"


def server_part(server: str) -> str:
    """Return the part of names for a server: its name, if its end is recognizable."""
    if "__" in server or server.endswith("_"):
        return _with_suffix(server, _MAX_PREFIX_CHARS, server)
    return _part(server, _MAX_PREFIX_CHARS, server)


def _part(text: str, room: int, *whole: str) -> str:
    legal = text and len(text) <= room and not _ALTERED.search(text)
    if legal and not _HAS_SUFFIX.search(text):
        return text
    return _with_suffix(text, room, *whole)


def _with_suffix(text: str, room: int, *whole: str) -> str:
    stem = re.sub("_+", "_", _ALTERED.sub("_", text[: 4 * MAX_CHARS]))
    stem = stem[: room - _HASH_CHARS - 1].strip("_")
    return f"{stem or 'x'}_{_hash(*whole)}"


def _hash(*whole: str) -> str:
    lengths = ",".join(str(len(part)) for part in whole)
    text = "\0".join((lengths, *whole)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_HASH_CHARS]


def naming_of(naming: object) -> Naming:
    """Raise ``ConfigError`` for anything else."""
    if naming in ("prefix", "bare", "random", "uri") or callable(naming):
        return naming
    raise ConfigError(
        f"naming={naming!r}: give 'prefix', 'bare', 'random', 'uri', or a function (server, tool) "
        "-> str"
    )


class Names:
    """The names that one host has given, and to what. They are never taken back."""

    def __init__(
        self,
        naming: Naming,
        *,
        authority: Callable[[str], str | None] = lambda server: None,
        choose: Callable[[Sequence[str]], str] = secrets.choice,
        most: int = _MAX_TAKEN,
    ) -> None:
        """Create the names of a host.

        ``authority`` returns the host and port of a server's URL; ``choose`` is the randomness;
        ``most`` names are one server's in a shared space.
        """
        self._naming, self._authority, self._choose, self._most = naming, authority, choose, most
        self._parts: dict[str, str] = {}
        self._servers: dict[str, str] = {}
        self._taken: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, int] = {}

    def of(self, server: str, tool: str) -> str:
        """Return the name of a tool: the same each time.

        Raises ``ValueError``, with the reason, if a naming function returns no usable one.
        """
        naming = self._naming
        if naming in ("prefix", "random"):
            return prefixed(self._part(server), server, tool)
        if naming == "bare":
            return self._bare(server, tool)
        if naming == "uri":
            return self._by_authority(server, tool)
        return self._by_function(server, tool)

    def would_be(self, server: str, tool: str, name: str) -> bool:
        """Whether ``name`` would be that of a rejected tool, or may be mistaken for it.

        Takes no name.
        """
        if self._naming in ("prefix", "random"):
            part = self._parts.get(server) or server_part(server)
            return name == prefixed(part, server, tool)
        if self._taken.get(name) == (server, tool):
            return True
        if self._naming == "bare":
            return name in (tool, prefixed(server_part(server), server, tool))
        if self._naming == "uri":
            plain, altered = self._with_authority(server, tool)
            return name in (tool, plain, altered)
        return name == tool

    def _part(self, server: str) -> str:
        part = self._parts.get(server)
        if part is None:
            part = self._random_part() if self._naming == "random" else server_part(server)
            if self._servers.setdefault(part, server) != server:
                raise ValueError("another server has the same name")
            self._parts[server] = part
        return part

    def _random_part(self) -> str:
        while True:
            rest = [self._choose(_LETTERS_AND_DIGITS) for _ in range(4)]
            part = "".join([self._choose(_LETTERS), *rest])
            if part not in self._servers:
                return part

    # ------------------------------------------------------- one space for all

    def _bare(self, server: str, tool: str) -> str:
        # A plain name has no "__", and one with a prefix always has.
        is_plain = "__" not in tool and _part(tool, MAX_CHARS, server, tool) == tool
        if is_plain and self._take(tool, server, tool):
            return tool
        return prefixed(self._part(server), server, tool)

    def _by_authority(self, server: str, tool: str) -> str:
        plain, altered = self._with_authority(server, tool)
        if plain and self._take(plain, server, tool):
            return plain
        if self._take(altered, server, tool):
            return altered
        raise ValueError("another tool has the same name")

    def _with_authority(self, server: str, tool: str) -> tuple[str, str]:
        """Return the plain name, empty if there can be none, and the one with a suffix."""
        label = self._authority(server) or server_part(server)
        if len(label) > _MAX_PREFIX_CHARS or invisible(label):
            label = server_part(server)
        altered = f"{label}:{_with_suffix(tool, MAX_CHARS - len(label) - 1, server, tool)}"
        plain = f"{label}:{tool}"
        is_plain = ":" not in tool and not invisible(tool) and not _HAS_SUFFIX.search(tool)
        return plain if is_plain and len(plain) <= MAX_CHARS else "", altered

    def _take(self, name: str, server: str, tool: str) -> bool:
        """Whether the name is this tool's, now or from before."""
        owner = self._taken.get(name)
        if owner is not None:
            return owner == (server, tool)
        count = self._counts.get(server, 0)
        if count >= self._most:
            return False
        self._counts[server] = count + 1
        self._taken[name] = server, tool
        return True

    def _by_function(self, server: str, tool: str) -> str:
        assert callable(self._naming)
        try:
            name = self._naming(server, tool)
        except Exception as error:  # the host's own function
            raise ValueError(f"the naming function raised {type(error).__name__}") from error
        returned = f"the naming function returned {safe_text(repr(name), 60)}"
        if not isinstance(name, str) or not name or name.isspace():
            raise ValueError(f"{returned}, not a name")
        if len(name) > _MAX_CHARS or invisible(name):
            raise ValueError(f"{returned}: a name has at most {_MAX_CHARS} visible characters")
        if self._take(name, server, tool):
            return name
        owner = self._taken.get(name)
        if owner is None:
            raise ValueError(f"the server has used {self._most} names, the limit")
        other = safe_text(f"{owner[0]}/{owner[1]}", 128)
        raise ValueError(
            f"the naming function returned {safe_text(name, 60)!r}, the name of {other}"
        )
