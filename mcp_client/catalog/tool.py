"""A tool: a frozen value, its fingerprint, and whether the host trusts its annotations.

2026-07-28 ``server/tools`` (data types). The server's definition is stored completely and
privately; attributes are copies, so that changing one does not change the definition in force.

The fingerprint is over the members that a person or a model reads, that a call is checked against,
or that decide who may make it and how. They are ``name``, ``title``, ``description``, both schemas,
``annotations``, ``execution`` (2025-11-25 ``server/tools``), and the part of ``_meta`` that the
extension for apps uses (2026-01-26 ``apps``). A member that is null, and empty annotations, count
as missing. No interface of this package shows icons, so they may differ between two lists, as may
the rest of ``_meta`` and unknown members.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ConfigError, UnknownTool
from ..protocol.canonical_json import sha256
from ..protocol.headers import HeaderParam, header_params_of
from ..protocol.json_paths import copy_of
from ..runtime.frozen import fields_of, frozen_dataclass, json_of, show_fields
from ..runtime.safe_text import safe_text
from ..validation.usable_schema import UsableSchema, usable_schema
from .definition import (
    HINTS,
    UI_KEYS,
    Hints,
    HintSource,
    TaskSupport,
    ToolUi,
    definition_findings,
    hint_findings,
    hints_from,
    schema_findings,
    task_support_of,
    trait_findings,
    ui_of,
)
from .finding import Finding, Listed, Rejected

if TYPE_CHECKING:
    from ..protocol.metadata import Origin

__all__ = [
    "HintSource",
    "Hints",
    "Rejected",
    "Tool",
    "ToolList",
    "fingerprint_of",
    "fingerprinted",
    "not_a_name",
    "tools_of",
]

T = TypeVar("T")
_MEMBERS = (
    *("name", "title", "description", "inputSchema", "outputSchema"),
    *("annotations", "execution"),
)


@frozen_dataclass
class Tool:
    """One tool of one server, as it was when it was listed."""

    name: str
    """The server's name for the tool."""
    server: str
    """The name the host gave the server."""
    trusted: bool
    """Whether the host trusts the annotations of this tool (``connect(trusted=...)``)."""
    _definition: dict[str, Any] = field(repr=False, hash=False)
    _looks_like: str | None = field(default=None, repr=False, compare=False)
    """Another tool of the list whose name a person could take for this one's."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)
    """The origin of the server, if it is at a URL."""
    _qualified_name: str | None = field(default=None, repr=False, compare=False)
    bound: tuple[str, ...] = ()
    """The arguments that the host sets at each call (``bind=``).

    They are not in ``input_schema``, and a call that contains one is refused. ``raw`` and
    ``fingerprint`` cover the server's own definition.
    """
    pinned_at: str | None = None
    """When the lock file wrote the definition down, in UTC (ISO 8601, empty if unknown), if its
    server was not started since; None for a definition that the server listed itself."""
    _derived: dict[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)
    """The derived values by the function that made each; None until there is one."""
    _plan: Any = field(default=None, init=False, repr=False, compare=False)
    """The ``ToolPlan`` of its session, once it was called."""

    @property
    def qualified_name(self) -> str:
        """The name that a model sees.

        In a ``Host`` no tool of another server has it; in a session's own list it is ``name``.
        """
        return self._qualified_name or self.name

    @property
    def title(self) -> str | None:
        """Text from the server for a person, untrusted even where the server is trusted."""
        return _text(self._definition.get("title"))

    @property
    def description(self) -> str | None:
        """Text from the server, untrusted even where the server is trusted."""
        return _text(self._definition.get("description"))

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments of a call, as a copy.

        It lacks the arguments that are ``bound``, and otherwise has every keyword.
        """
        schema: dict[str, Any] = copy_of(self._listed_schema)
        return schema

    @property
    def _listed_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._definition.get("inputSchema", {})
        return self._derive(_without_bound) if self.bound else schema

    @property
    def output_schema(self) -> Any:
        """JSON Schema of the structured content, or None. A copy: yours to change."""
        return copy_of(self._definition.get("outputSchema"))

    @property
    def annotations(self) -> dict[str, Any] | None:
        """The server's annotations; None unless the host trusts the server.

        A hint that is neither true nor false is left out.
        """
        annotations = self._definition.get("annotations") if self.trusted else None
        if not isinstance(annotations, dict):
            return None
        return {
            key: copy_of(value)
            for key, value in annotations.items()
            if key not in HINTS or type(value) is bool
        }

    @property
    def icons(self) -> list[Any]:
        """The icons as the server sent them. Show ``safe_icons`` to people."""
        icons = self._definition.get("icons")
        return copy_of(icons) if isinstance(icons, list) else []

    @property
    def safe_icons(self) -> list[dict[str, Any]]:
        """The icons that a host may show.

        ``https`` URLs of the server's own origin, and ``data:`` URLs of PNG, JPEG or WebP images of
        at most 256 KiB (``protocol.metadata``).
        """
        from ..protocol.metadata import safe_icons

        return safe_icons(self._definition.get("icons"), self._origin)

    @property
    def ui(self) -> ToolUi | None:
        """The tool's view (MCP Apps), and who may call it; None where ``_meta`` names none."""
        return ui_of(self._definition)

    @property
    def is_for_models(self) -> bool:
        """Whether a model may be shown it and call it: ``session.call_tool`` refuses it else."""
        return "_meta" not in self._definition or self._is_for("model")

    @property
    def is_for_apps(self) -> bool:
        """Whether the view of a tool of the same server may call it."""
        return "_meta" not in self._definition or self._is_for("app")

    def _is_for(self, audience: str) -> bool:
        ui = self.ui
        return ui is None or audience in ui.visibility

    @property
    def execution(self) -> dict[str, Any] | None:
        """The execution options (2025-11-25 ``server/tools``), unchanged; see ``task_support``."""
        execution = self._definition.get("execution")
        return copy_of(execution) if isinstance(execution, dict) else None

    @property
    def task_support(self) -> TaskSupport:
        """Whether a server of 2025-11-25 runs the tool as a task.

        The value is "forbidden" (the default), "optional" or "required". In 2026-07-28 the server
        decides at each call.
        """
        return task_support_of(self._definition)

    @property
    def meta(self) -> dict[str, Any] | None:
        """The ``_meta`` of the definition, as a copy; None without one."""
        meta = self._definition.get("_meta")
        return copy_of(meta) if isinstance(meta, dict) else None

    @property
    def raw(self) -> dict[str, Any]:
        """The definition as it came, unknown members included. A copy."""
        raw: dict[str, Any] = copy_of(self._definition)
        return raw

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings about the definition.

        They are computed on first access, so that a list of many tools costs little.
        """
        return self._derive(_findings_of)

    @property
    def hints(self) -> Hints:
        """The server's hints where the host trusts it, else the worst case."""
        return self._derive(_hints_of)

    @property
    def _usable_input(self) -> UsableSchema:
        """The part of the input schema that can be judged."""
        return self._derive(_usable_input_of)

    @property
    def _usable_output(self) -> UsableSchema | None:
        """The part of the output schema that can be judged; None without an output schema."""
        return self._derive(_usable_output_of)

    @property
    def _header_params(self) -> tuple[HeaderParam, ...]:
        """The arguments that HTTP headers repeat (``x-mcp-header``)."""
        return self._derive(_header_params_of)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the tool's definition.

        It covers name, title, description, both schemas, annotations, execution and the view in
        ``_meta``, in canonical form. It is equal for equal definitions from any server.
        """
        return self._derive(_fingerprint_of)

    def to_json(self) -> dict[str, Any]:
        """Return the public fields as JSON values, for an endpoint or a log of your own.

        ``raw`` is the definition as the server sent it. ``dataclasses.asdict`` of a tool, and
        FastAPI, return the same fields.
        """
        values: dict[str, Any] = json_of(self)
        return values

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the fields without those that were derived from them, some of which are code."""
        return (*[getattr(self, name) for name in _STORED], None, None)

    def _derive(self, make: Callable[[Tool], T]) -> T:
        """Return ``make(tool)``, computed once and stored with the tool."""
        derived = self._derived
        if derived is None:
            derived = {}
            object.__setattr__(self, "_derived", derived)
        if make not in derived:
            derived[make] = make(self)
        found: T = derived[make]
        return found


def _findings_of(tool: Tool) -> tuple[Finding, ...]:
    definition = tool._definition
    schemas = (("inputSchema", tool._usable_input), ("outputSchema", tool._usable_output))
    return (
        *[
            finding
            for member, usable in schemas
            if usable is not None and (usable.skipped or usable.mixed)
            for finding in schema_findings(member, usable)
        ],
        *definition_findings(definition, tool.name, tool._looks_like),
        *hint_findings(definition.get("annotations"), tool.trusted),
        *trait_findings(definition),
    )


def _usable_input_of(tool: Tool) -> UsableSchema:
    return usable_schema(tool._definition.get("inputSchema", {}))


def _usable_output_of(tool: Tool) -> UsableSchema | None:
    schema = tool._definition.get("outputSchema")
    return None if schema is None else usable_schema(schema)


def _without_bound(tool: Tool) -> dict[str, Any]:
    from .bound_schema import without  # few hosts bind arguments

    return without(copy_of(tool._definition["inputSchema"]), tool.bound)


def _hints_of(tool: Tool) -> Hints:
    return hints_from(tool._definition.get("annotations"), tool.trusted)


def _header_params_of(tool: Tool) -> tuple[HeaderParam, ...]:
    return header_params_of(tool._definition["inputSchema"])


def _fingerprint_of(tool: Tool) -> str:
    return fingerprint_of(fingerprinted(tool._definition))


def fingerprinted(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a definition that the fingerprint covers."""
    found = {k: definition[k] for k in _MEMBERS if definition.get(k) is not None}
    for member in ("annotations", "execution"):  # without empty members
        if type(declared := found.get(member)) is dict:
            found[member] = {k: value for k, value in declared.items() if value is not None}
            if not found[member]:
                del found[member]
    meta = definition.get("_meta")
    if type(meta) is dict:
        ui = {k: meta[k] for k in UI_KEYS if meta.get(k) is not None}
        if ui:
            found["_meta"] = ui
    return found


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what ``fingerprinted`` returns, in canonical form."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + sha256(text)


class ToolList(Listed[Tool]):
    """The tools of one server, in the server's order: a tuple with findings.

    An endpoint returns ``[tool.to_json() for tool in tools]``.
    """

    _all_findings: tuple[Finding, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that a person should check: of the list, then of each tool.

        They are computed on first access.
        """
        if self._all_findings is None:
            of_tools = [
                finding.at(f"tool '{safe_text(tool.qualified_name, 128)}'")
                for tool in self
                for finding in tool.findings
            ]
            self._all_findings = (*self._findings, *of_tools)
        return self._all_findings


def tools_of(tools: Any, where: str) -> list[Tool]:
    """Return ``tools`` as a list. Raises ``ConfigError`` if they are not a list of tools."""
    if inspect.isawaitable(tools):
        raise ConfigError(
            f"{where} was given a {type(tools).__name__} that was not awaited: write "
            "'await session.list_tools()'"
        )
    is_list = isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping)
    found = list(tools) if is_list else [tools]
    for tool in found:
        if not isinstance(tool, Tool):
            kind = f"a list with a {type(tool).__name__}" if is_list else type(tool).__name__
            raise ConfigError(f"{where} was given {kind}: give the tools of list_tools()")
    return found


def not_a_name(name: object, attribute: str = "name", *, server: str | None = None) -> UnknownTool:
    """Return the error for ``name``, which is not a str."""
    advice = f"give tool.{attribute}" if isinstance(name, Tool) else "give a text"
    return UnknownTool(f"the name of a tool is a {type(name).__name__}: {advice}", server=server)


_STORED = [name for name in fields_of(Tool) if name not in ("_derived", "_plan")]
_SHOWN = (
    *("name", "server", "qualified_name", "trusted", "title", "description"),
    *("input_schema", "output_schema", "annotations", "bound", "pinned_at", "findings"),
)
show_fields(Tool, _SHOWN)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
