"""The parameters and the result of a tool as typed Python: for a model that writes a script.

::

    class GetWeatherResult(TypedDict):
        temperature: float

    class weather:
        async def get_weather(*, location: str, days: int = 3) -> GetWeatherResult:
            '''The weather of the next days.

            location: A city.
            '''

Schemas and descriptions are a server's. Their text is in docstrings and literals only, escaped and
bounded, and names are those that scripts use (``identifiers``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..catalog.schema_types import WORDS, SchemaTypes
from ..catalog.tool import Tool
from ..runtime.python_source import ANY, PythonType, docstring, quoted
from ..runtime.safe_text import safe_text
from .identifiers import spell, spell_server

__all__ = ["signature_of"]

_MAX_CHARS = 16_000
"""The characters of a signature; types are left out of a longer one."""
_MAX_PARAMETERS = 200
_MAX_DESCRIPTION_CHARS = 1_000
_MAX_ABOUT_CHARS = 200
_MAX_ABOUT = 40
_MAX_DEFAULT_CHARS = 40
_INDENT = 8


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
        if len(text) <= _MAX_CHARS:
            return text
    untyped = [(key, ANY, required) for key, _, required in parameters[:_MAX_PARAMETERS]]
    text = _written(tool, [], untyped, "Any", more=len(untyped) < len(parameters))
    return text if len(text) <= _MAX_CHARS else _written(tool, [], [], "Any", more=True)


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
