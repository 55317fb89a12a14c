"""Typed Python for a server's tools: ``generate(tools)`` writes a module of classes to call them.

::

    weather = Weather(session)
    report = await weather.get_weather(location="Oslo")
    report["temperature"]

Each server has two classes: ``Weather`` for a ``Session`` or ``Host`` of ``mcp_client``, and
``WeatherSync`` for those of ``mcp_client.sync``. With a host, the class calls the server under
whose name the tools were listed. Parameters are keyword-only; optional ones are sent only if set. A
tool with an output schema returns its structured content, other tools the ``ToolResult``. Each
method has the fingerprint of the definition it was generated from: if the definition has changed, a
call raises ``ToolChanged`` before approval is requested.

A server's text is only in string literals and docstrings, escaped. The output is the same for the
same tools, passes ``mypy --strict`` and is formatted as by ``ruff format``.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from .catalog.call_values import ToolResult
from .catalog.schema_types import TYPING, WORDS, SchemaTypes
from .catalog.tool import Tool, tools_of
from .errors import ConfigError, InvalidResult, OutcomeUnknown, ProtocolViolation, ToolChanged
from .runtime.limits import Timeouts
from .runtime.python_source import ANY, MAX_NAME_CHARS, Names, PythonType, docstring, quoted, union
from .session.call_state import not_fetched

if TYPE_CHECKING:
    from .host.host import Host
    from .session.session import Session
    from .sync import Host as SyncHost
    from .sync import Session as SyncSession

    AnySession: TypeAlias = Session | Host
    AnySyncSession: TypeAlias = SyncSession | SyncHost

__all__ = ["UNSET", "Stub", "SyncStub", "Unset", "generate"]


# --------------------------------------------------------------- what generated code uses


class Unset(Enum):
    """The type of ``UNSET``."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The value of an optional parameter that was not set, and is not sent."""


S = TypeVar("S")


class _AnyStub(Generic[S]):
    """The common part of the classes for both worlds."""

    _server = ""
    _blocking: ClassVar[bool]

    def __init__(
        self, session: S, *, timeout: float | Timeouts | None = None, context: Hashable = None
    ) -> None:
        """``timeout`` and ``context`` are those of ``session.call_tool``, for every call."""
        get_tool = getattr(session, "get_tool", None)
        is_open = hasattr(session, "call_tool")
        if not is_open or inspect.iscoroutinefunction(get_tool) is self._blocking:
            world = "mcp_client.sync" if self._blocking else "mcp_client"
            kind = f"{type(session).__module__}.{type(session).__qualname__}"
            raise ConfigError(
                f"{type(self).__name__}({kind}): give an open Session or Host of {world}"
            )
        self._target: Any = session
        self._options: dict[str, Any] = {"timeout": timeout, "context": context}

    def _structured(self, result: ToolResult) -> Any:
        if result.structured_content is None:
            raise InvalidResult("the result has no structured content", result=result)
        return result.structured_content


class Stub(_AnyStub["AnySession"]):
    """A base class of generated classes: each method calls a tool of one server."""

    _blocking = False

    async def _call(self, name: str, fingerprint: str, arguments: Mapping[str, Any]) -> ToolResult:
        target = self._target
        session: Session = await target.session(self._server) if _is_host(target) else target
        try:
            tool = await session.get_tool(name)
        except (OutcomeUnknown, ProtocolViolation) as error:
            raise not_fetched(error) from error
        _check(tool, fingerprint)
        result = await session.call_tool(name, _given(arguments), **self._options)
        result.raise_for_error()
        return result


class SyncStub(_AnyStub["AnySyncSession"]):
    """A base class of generated classes for ``mcp_client.sync``: as ``Stub``, in threads."""

    _blocking = True

    def _call(self, name: str, fingerprint: str, arguments: Mapping[str, Any]) -> ToolResult:
        target = self._target
        session: SyncSession = target.session(self._server) if _is_host(target) else target
        try:
            tool = session.get_tool(name)
        except (OutcomeUnknown, ProtocolViolation) as error:
            raise not_fetched(error) from error
        _check(tool, fingerprint)
        result = session.call_tool(name, _given(arguments), **self._options)
        result.raise_for_error()
        return result


def _is_host(target: Any) -> bool:
    return hasattr(target, "sessions")


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not UNSET}


def _check(tool: Tool, fingerprint: str) -> None:
    if tool.fingerprint != fingerprint:
        what = "the server defines the tool otherwise than when this stub was generated"
        raise ToolChanged(
            f"{what}: look at what changed, and generate it again with 'mcp-client stubs TARGET -o "
            "FILE'",
            server=tool.server,
            tool=tool.name,
            expected=fingerprint,
            found=tool.fingerprint,
        )


# ------------------------------------------------------------------------- generating


def generate(tools: Iterable[Tool]) -> str:
    """Return a Python module with a class for each server of ``tools``, as text.

    Each tool becomes a method; names that are not legal in Python are changed. A schema that
    Python's types cannot express becomes ``Any`` at that place: the server's own schema still
    validates every call. A schema that is too deep or too long also becomes ``Any``, with a note in
    the method. The length of the text is limited to a multiple of the schemas. Raises
    ``ConfigError`` if ``tools`` is not a list of tools.
    """
    by_server: dict[str, list[Tool]] = {}
    for tool in tools_of(tools, "generate()"):
        by_server.setdefault(tool.server, []).append(tool)
    module = _Module()
    classes: list[str] = []
    for server, its in by_server.items():
        classes += module.classes(server, its)
    text = _HEAD + "\n".join([*module.imports(classes), *module.types, *classes])
    return text.rstrip() + "\n"


_HEAD = '''"""Typed calls of MCP tools. Generated by mcp-client: do not edit.

To generate it again: mcp-client stubs TARGET -o FILE
"""

from __future__ import annotations

'''

_RESERVED = frozenset((*WORDS, "Stub", "SyncStub", "ToolResult", "UNSET", "Unset", "self"))
"""Names that generated code uses, and that nothing in it may shadow."""
_CUT = "        # Any replaces a schema that is too deep or too long to be expressed here."


class _Module(SchemaTypes):
    """A generated module, as far as it is written."""

    def __init__(self) -> None:
        super().__init__(_RESERVED)

    def imports(self, classes: Sequence[str]) -> list[str]:
        """Return the imports that the text below them needs."""
        used = [name for name in TYPING if name in self.used]
        lines = [f"from typing import {', '.join(used)}", ""] if used else []
        if not classes:
            return lines
        if "ToolResult" in self.used:
            lines.append("from mcp_client import ToolResult")
        wanted = self.used | {"Stub", "SyncStub"}
        stubs = [name for name in ("UNSET", "Stub", "SyncStub", "Unset") if name in wanted]
        return [*lines, f"from mcp_client.stubs import {', '.join(stubs)}"]

    def classes(self, server: str, tools: Sequence[Tool]) -> list[str]:
        """Return the class for sessions, and the one for threads."""
        name = self._names.type(server)
        plain = self._names.type(server, "Sync")
        methods = Names(_RESERVED)
        written = [_Method(self, one, methods.variable(one.name, 64), name) for one in tools]
        return [
            *self._class(name, "Stub", server, written, blocking=False),
            *self._class(plain, "SyncStub", server, written, blocking=True),
        ]

    def _class(
        self, name: str, base: str, server: str, methods: Sequence[_Method], *, blocking: bool
    ) -> Iterator[str]:
        yield f"\n\nclass {name}({base}):"
        yield docstring(f"The tools of the server {server!r}.", 4)
        yield f"\n    _server = {quoted(server)}"
        for method in methods:
            yield f"\n{method.text(blocking=blocking)}"


class _Method:
    """A tool as a method."""

    def __init__(self, module: _Module, tool: Tool, name: str, owner: str) -> None:
        self._tool = tool
        self._name = name
        self._used = module.used
        module.cut = False
        found, self._whole = module.parameters(tool.input_schema, (owner, tool.name))
        names = Names(_RESERVED)
        self._parameters = [
            (key, names.variable(key), kind, required) for key, kind, required in found
        ]
        self._parameters.sort(key=lambda parameter: not parameter[3])
        output = tool.output_schema
        self._result: str | None = None
        if output is not None:
            result = module.type_of(output, output, (owner, tool.name, "Result"))
            result = result if len(str(result)) <= MAX_NAME_CHARS else ANY
            self._result = str(result)
            self._used |= result.names()
        else:
            self._used.add("ToolResult")
        self._cut = module.cut

    def text(self, *, blocking: bool) -> str:
        prefix, waits = ("def", "") if blocking else ("async def", "await ")
        lines = [f"    {prefix} {self._name}(", "        self,"]
        if self._parameters or self._whole:
            lines.append("        *,")
        for _, name, kind, required in self._parameters:
            kind = kind if required else union([kind, PythonType("Unset")])
            after = 1 if required else len(" = UNSET,")
            self._used |= set() if required else {"UNSET"}
            written = kind.lines(8, len(name) + 2, after, self._used)
            lines.append(f"        {name}: {written}{'' if required else ' = UNSET'},")
        if self._whole:
            self._used.add("Any")
            lines.append("        arguments: dict[str, Any],")
        lines.append(f"    ) -> {self._result or 'ToolResult'}:")
        lines.append(docstring(self._description(), 8))
        lines += [_CUT] if self._cut else []
        returned = "return " if self._result is None else "_result = "
        lines.append(f"        {returned}{waits}self._call(")
        lines.append(f"            {quoted(self._tool.name)},")
        lines.append(f"            {quoted(self._tool.fingerprint)},")
        lines += self._arguments()
        lines.append("        )")
        if self._result is not None:
            lines.append(f"        _structured: {self._result} = self._structured(_result)")
            lines.append("        return _structured")
        return "\n".join(lines)

    def _arguments(self) -> Iterator[str]:
        if self._whole:
            yield "            arguments,"
        elif not self._parameters:
            yield "            {},"
        else:
            yield "            {"
            for key, name, _, _ in self._parameters:
                yield f"                {quoted(key)}: {name},"
            yield "            },"

    def _description(self) -> str:
        tool = self._tool
        return tool.description or tool.title or f"Call the tool {tool.name!r}."
