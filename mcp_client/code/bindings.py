"""Servers and tools as a script sees them: their names as identifiers, and typed signatures.

A valid identifier is unchanged. Any other name gets a digest of the original, so that its
identifier depends on nothing else, and so that no two names share one. An identifier is looked up,
never parsed, and it has only letters, digits and underscores.

A model that writes a script sees the parameters and the result of a tool as typed Python::

    class GetWeatherResult(TypedDict):
        temperature: float

    class weather:
        async def get_weather(*, location: str, days: int = 3) -> GetWeatherResult:
            '''The weather of the next days.

            location: A city.
            '''

Schemas and descriptions are a server's. Their text is in docstrings and literals only, escaped and
bounded.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..catalog.schema_types import WORDS, SchemaTypes
from ..catalog.tool import Tool
from ..protocol.canonical_json import sha256
from ..runtime.python_source import ANY, PythonType, docstring, quoted
from ..runtime.safe_text import safe_text

__all__ = ["EXCEPTIONS", "Bindings", "arguments_of", "signature_of", "spell", "spell_server"]

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
_MAX_NAME_CHARS = 64
_DIGEST_CHARS = 10
_MAX_SIGNATURE_CHARS = 16_000
"""The characters of a signature; types are left out of a longer one."""
_MAX_PARAMETERS = 200
_MAX_DESCRIPTION_CHARS = 1_000
_MAX_ABOUT_CHARS = 200
_MAX_ABOUT = 40
_MAX_DEFAULT_CHARS = 40
_INDENT = 8


def spell(name: str) -> str:
    """Return ``name``, of a tool or of an argument, as an identifier; unchanged if it is one."""
    return name if _is_legal(name) else _respelled(name)


def spell_server(name: str) -> str:
    """Spell a server's ``name`` as a global variable that shadows nothing of the language."""
    return name if _is_legal(name) and name not in _RESERVED else _respelled(name)


def _respelled(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", name[:_MAX_NAME_CHARS]).strip("_")
    stem = words if words[:1].isalpha() else f"x_{words}".rstrip("_")
    return f"{stem[: _MAX_NAME_CHARS - 1 - _DIGEST_CHARS]}_{sha256(name)[:_DIGEST_CHARS]}"


def _is_legal(name: str) -> bool:
    return (
        len(name) <= _MAX_NAME_CHARS
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
        """Return the tool that a script calls as ``server.name``."""
        return self.servers.get(server, {}).get(name)

    @property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by ``server.tool``."""
        return {
            f"{server}.{name}": tool
            for server, its in self.servers.items()
            for name, tool in its.items()
        }


def arguments_of(tool: Tool, kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return ``kwargs`` under the tool's names; a script spells a name as an identifier."""
    properties = tool.input_schema.get("properties")
    if type(properties) is not dict or properties.keys() >= kwargs.keys():
        return dict(kwargs)
    names = {spell(name): name for name in properties if name not in kwargs}
    return {
        names.get(name, name) if name not in properties else name: value
        for name, value in kwargs.items()
    }


def signature_of(tool: Tool) -> str:
    """Return a Python module that shows only how a script calls ``tool``."""
    server = spell_server(tool.server)
    types = SchemaTypes({*WORDS, server})
    parameters, more = types.parameters(tool.input_schema, (tool.name,))
    output = tool.output_schema
    result = "str | Any"  # the text, or structured content without a schema
    if output is not None:
        result = str(types.type_of(output, output, (tool.name, "Result")))
    if len(parameters) <= _MAX_PARAMETERS:
        text = _written(tool, types.types, parameters, result, more=more)
        if len(text) <= _MAX_SIGNATURE_CHARS:
            return text
    untyped = [(key, ANY, required) for key, _, required in parameters[:_MAX_PARAMETERS]]
    text = _written(tool, [], untyped, "Any", more=len(untyped) < len(parameters))
    return text if len(text) <= _MAX_SIGNATURE_CHARS else _written(tool, [], [], "Any", more=True)


def _written(
    tool: Tool,
    types: list[str],
    parameters: list[tuple[str, PythonType, bool]],
    result: str,
    *,
    more: bool,
) -> str:
    """Write the signature; with ``more`` it takes other arguments, too."""
    properties = tool.input_schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    taken = ["*"] if parameters else []
    for key, kind, required in sorted(parameters, key=lambda one: not one[2]):
        default = "" if required else f" = {_default(known.get(key))}"
        taken.append(f"{spell(key)}: {kind}{default}")
    if more:
        taken.append("**arguments: Any")
    description = "\n".join(_about(tool, known))
    return "\n".join(
        [
            *(one.strip("\n") + "\n" for one in types),
            f"class {spell_server(tool.server)}:",
            f"    async def {spell(tool.name)}({', '.join(taken)}) -> {result}:",
            docstring(description, _INDENT),
        ]
    )


def _about(tool: Tool, known: dict[str, Any]) -> Iterator[str]:
    """Yield the description of the tool, and those of its arguments, a line each."""
    description = tool.description or tool.title or ""
    yield safe_text(description, _MAX_DESCRIPTION_CHARS, lines=True)
    described = [
        (key, value["description"])
        for key, value in known.items()
        if isinstance(value, dict) and isinstance(value.get("description"), str)
    ]
    if described:
        yield ""
    for key, text in described[:_MAX_ABOUT]:
        yield f"{spell(key)}: {' '.join(safe_text(text, _MAX_ABOUT_CHARS, lines=True).split())}"


def _default(schema: Any) -> str:
    """Return the default of an argument as a literal, ``...`` if there is no short one."""
    value = schema.get("default", ...) if isinstance(schema, dict) else ...
    match value:
        case str() if len(value) <= _MAX_DEFAULT_CHARS:
            return quoted(value)
        case None | bool():
            return repr(value)
        case int() | float() if abs(value) < 1e15:
            return repr(value)
    return "..."
