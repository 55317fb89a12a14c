"""The names of servers and tools in a script: Python identifiers for names of any kind.

A valid identifier is unchanged. Any other name gets a digest of the original, so that its
identifier depends on nothing else, and so that no two names share one. An identifier is looked up,
never parsed, and it has only letters, digits and underscores.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping

from ..catalog.tool import Tool
from ..protocol.canonical_json import sha256
from ..runtime.safe_text import safe_text

__all__ = ["EXCEPTIONS", "Bindings", "arguments_of", "spell", "spell_server"]

EXCEPTIONS = {
    "CallDenied": "PermissionError",
    "CallTimeout": "TimeoutError",
    "ToolFailed": "RuntimeError",
    "InvalidArguments": "ValueError",
    "CallFailed": "OSError",
}
"""The exceptions that a script may catch, and their builtin counterparts: classes cannot be derived
there. The first two are ``CallFailed``, too, as Python has it."""

_MODULES = (
    *("asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses"),
    *("datetime", "decimal", "functools", "hashlib", "itertools", "json", "math", "os", "pathlib"),
    *("posixpath", "random", "re", "sys", "time", "tomllib", "typing", "unicodedata"),
)
"""The modules that scripts can import: no server has such a name."""
_RESERVED = frozenset((*_MODULES, *dir(builtins), *EXCEPTIONS))
_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_LIKE_OWN_NAMES = re.compile(r".*_[0-9a-f]{10}", re.ASCII)
_MAX_CHARS = 64
_DIGEST_CHARS = 10


def spell(name: str) -> str:
    """Return ``name``, of a tool or of an argument, as an identifier; unchanged if it is one."""
    return name if _is_legal(name) else _respelled(name)


def spell_server(name: str) -> str:
    """Spell a server's ``name`` as a global variable that shadows nothing of the language."""
    return name if _is_legal(name) and name not in _RESERVED else _respelled(name)


def _respelled(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", name[:_MAX_CHARS]).strip("_")
    stem = words if words[:1].isalpha() else f"x_{words}".rstrip("_")
    return f"{stem[: _MAX_CHARS - 1 - _DIGEST_CHARS]}_{sha256(name)[:_DIGEST_CHARS]}"


def _is_legal(name: str) -> bool:
    return (
        len(name) <= _MAX_CHARS
        and _LEGAL.fullmatch(name) is not None
        and _LIKE_OWN_NAMES.fullmatch(name) is None
        and not keyword.iskeyword(name)
    )


class Bindings:
    """The tools that a script can call, by the names that it calls them by."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.servers: dict[str, dict[str, Tool]] = {}
        self.left_out: list[str] = []
        """A sentence for each tool that is spelled as another one."""
        owners: dict[str, str] = {}
        for tool in tools:
            server = spell_server(tool.server)
            its = self.servers.setdefault(server, {})
            name = spell(tool.name)
            if owners.setdefault(server, tool.server) != tool.server or name in its:
                quoted = safe_text(tool.qualified_name, 128)
                self.left_out.append(f"tool '{quoted}': another tool has this spelling; left out")
                continue
            its[name] = tool

    def find(self, server: str, name: str) -> Tool | None:
        """Return the tool that a script calls so."""
        return self.servers.get(server, {}).get(name)

    @property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by ``server.tool``."""
        return {
            f"{server}.{name}": tool
            for server, its in self.servers.items()
            for name, tool in its.items()
        }


def arguments_of(tool: Tool, given: Mapping[str, object]) -> dict[str, object]:
    """Return ``given`` under the tool's names; a script spells a name as an identifier."""
    properties = tool.input_schema.get("properties")
    if type(properties) is not dict or properties.keys() >= given.keys():
        return dict(given)
    names = {spell(name): name for name in properties if name not in given}
    return {
        names.get(name, name) if name not in properties else name: value
        for name, value in given.items()
    }
