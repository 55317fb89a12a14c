"""A tool, and a call of it: frozen values.

2026-07-28 ``server/tools`` (data types). What a server sent is kept complete and private;
attributes are copies, so that changing one does not change the definition in force.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import ConfigError, UnknownTool
from ..protocol.canonical_json import NotJson, canonical, frozen, plain, sha256
from ..protocol.headers import HeaderParam, header_params_of
from ..runtime.frozen import frozen_dataclass, maker_of
from ..runtime.safe_text import safe_text
from .call_context import CallOrigin, context_text
from .finding import Finding
from .fingerprint import fingerprint_of, fingerprinted
from .hints import HINTS, Hints, HintSource, hint_findings, hints_from
from .inspection import definition_findings
from .listed import Listed, Rejected
from .tool_traits import TaskSupport, ToolUi, task_support_of, trait_findings, ui_of

if TYPE_CHECKING:
    from ..protocol.icons import Origin
    from .drift import Drift

__all__ = [
    "HintSource",
    "Hints",
    "Rejected",
    "Tool",
    "ToolCall",
    "ToolList",
    "new_call",
    "new_tool",
    "not_a_name",
    "tools_of",
]

T = TypeVar("T")


@frozen_dataclass
class Tool:
    """One tool of one server, as it was when it was listed."""

    name: str
    server: str
    """The name the host gave the server."""
    trusted: bool
    """Whether the host trusts what the server says of this tool (``connect(trusted=...)``)."""
    _definition: dict[str, Any] = field(repr=False, hash=False)
    _looks_like: str | None = field(default=None, repr=False, compare=False)
    """Another tool of the list whose name a person could take for this one's."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)
    """Where its server is, if that is at a URL."""
    _qualified_name: str | None = field(default=None, repr=False, compare=False)
    _derived: dict[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)
    """By the function that made it. None until there is something: of ten thousand tools few are
    ever called."""
    _plan: Any = field(default=None, init=False, repr=False, compare=False)
    """The ``ToolPlan`` of its session, once it was called."""

    @property
    def qualified_name(self) -> str:
        """What the tool is called where it was listed, and shown to a model as: in a ``Host`` a
        name that no tool of another server has; in a session's own list, ``name``."""
        return self._qualified_name or self.name

    @property
    def title(self) -> str | None:
        return _text(self._definition.get("title"))

    @property
    def description(self) -> str | None:
        """Text from the server, untrusted even where the server is trusted."""
        return _text(self._definition.get("description"))

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, every keyword kept. A copy: yours to change."""
        schema: dict[str, Any] = _copy(self._definition["inputSchema"])
        return schema

    @property
    def output_schema(self) -> Any:
        """JSON Schema of the structured content, or None. A copy: yours to change."""
        return _copy(self._definition.get("outputSchema"))

    @property
    def annotations(self) -> dict[str, Any] | None:
        """The server's annotations; None unless the host trusts the server.

        A hint that is neither true nor false is left out.
        """
        annotations = self._definition.get("annotations") if self.trusted else None
        if not isinstance(annotations, dict):
            return None
        return {
            key: _copy(value)
            for key, value in annotations.items()
            if key not in HINTS or type(value) is bool
        }

    @property
    def icons(self) -> list[Any]:
        """As they came. What a person is shown are ``safe_icons``."""
        icons = self._definition.get("icons")
        return _copy(icons) if isinstance(icons, list) else []

    @property
    def safe_icons(self) -> list[dict[str, Any]]:
        """Those icons a host may show: ``https`` URLs of the server's own origin, and ``data:``
        URLs of PNG, JPEG or WebP images of at most 256 KiB (``protocol.icons``). Never fetched."""
        from ..protocol.icons import safe_icons

        return safe_icons(self._definition.get("icons"), self._origin)

    @property
    def ui(self) -> ToolUi | None:
        """Its view (MCP Apps), and who may call it; None where ``_meta`` says nothing of one."""
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
        """How the tool is run (2025-11-25 ``server/tools``), as it came; see ``task_support``."""
        execution = self._definition.get("execution")
        return _copy(execution) if isinstance(execution, dict) else None

    @property
    def task_support(self) -> TaskSupport:
        """Whether a server of 2025-11-25 has it called as a task: "forbidden" (the default),
        "optional" or "required". In 2026-07-28 the server decides at each call."""
        return task_support_of(self._definition)

    @property
    def meta(self) -> dict[str, Any] | None:
        meta = self._definition.get("_meta")
        return _copy(meta) if isinstance(meta, dict) else None

    @property
    def raw(self) -> dict[str, Any]:
        """The definition as it came, unknown members included. A copy."""
        raw: dict[str, Any] = _copy(self._definition)
        return raw

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What looks wrong with the definition.

        Looked for when this is first read, so that a list of many tools costs little.
        """
        return self.derived(_findings_of)

    @property
    def hints(self) -> Hints:
        """The server's hints where the host trusts it, else the worst case."""
        return self.derived(_hints_of)

    @property
    def mirrors(self) -> tuple[HeaderParam, ...]:
        """The arguments that HTTP headers repeat (``x-mcp-header``)."""
        return self.derived(_mirrors_of)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, title, description, both schemas, annotations, execution, icons and
        what ``_meta`` says of the tool's view, in canonical form.

        Equal for equal definitions wherever they come from.
        """
        return self.derived(_fingerprint_of)

    def derived(self, make: Callable[[Tool], T]) -> T:
        """``make(tool)``, made once and kept as long as the tool."""
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
    return (
        *definition_findings(definition, tool.name, tool._looks_like),
        *hint_findings(definition.get("annotations"), tool.trusted),
        *trait_findings(definition),
    )


def _hints_of(tool: Tool) -> Hints:
    return hints_from(tool._definition.get("annotations"), tool.trusted)


def _mirrors_of(tool: Tool) -> tuple[HeaderParam, ...]:
    return header_params_of(tool._definition["inputSchema"])


def _fingerprint_of(tool: Tool) -> str:
    return fingerprint_of(fingerprinted(tool._definition))


class ToolList(Listed[Tool]):
    """The tools of one server, in the server's order; ``[index]`` and ``in`` as in a list."""

    __slots__ = ("_all_findings",)

    def __init__(
        self,
        tools: Sequence[Tool],
        rejected: Sequence[Rejected] = (),
        findings: Sequence[Finding] = (),
    ) -> None:
        super().__init__(tools, rejected, findings)
        self._all_findings: tuple[Finding, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a person should look at: of the list, then of each tool.

        The tools are looked through when this is first read.
        """
        if self._all_findings is None:
            of_tools = [
                finding.at(f"tool '{safe_text(tool.qualified_name, 128)}'")
                for tool in self
                for finding in tool.findings
            ]
            self._all_findings = (*self._findings, *of_tools)
        return self._all_findings


@frozen_dataclass
class ToolCall:
    """A call as it will be sent, if it is approved: nothing in it can be changed.

    An approval is good for this value, once. ``digest`` covers everything that decides what
    happens: server (its name, and what is run or where it is), connection, the tool's definition,
    the arguments and the caller's ``_meta``, and whether the host makes the call or a view.
    """

    id: str
    server: str
    """The name the host gave the server, never the server's own claim."""
    tool: Tool
    arguments_json: str
    """The arguments as the very text that will be sent, in canonical form."""
    meta_json: str | None
    """The caller's own ``_meta``, likewise; None if there was none."""
    hints: Hints
    findings: tuple[Finding, ...]
    """What a person should know before answering."""
    generation: int
    """Counts the connections of the session: an approval does not outlive its connection."""
    edited: bool = False
    """Whether these are not the caller's arguments but the approver's."""
    context: Hashable = None
    """The host's own word on whose call it is, from ``call_tool(context=...)``. Never sent."""
    origin: CallOrigin = "host"
    """Where the call comes from: "host" for ``call_tool`` of sessions and hosts, be it for a model,
    a person or a program; "app" for the view of a tool (``session.app``), which is code of the
    server's own."""
    drift: Drift | None = field(default=None, repr=False, compare=False)
    """How the tool differs from the ``pins``, which is among the findings, too."""
    _identity: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)
    """Gives what the server is, as the digests have it; None where that cannot be told."""
    _arguments: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def trusted(self) -> bool:
        return self.tool.trusted

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, deeply immutable."""
        if not self._arguments:
            self._arguments.append(frozen(json.loads(self.arguments_json)))
        arguments: dict[str, Any] = self._arguments[0]
        return arguments

    @property
    def digest(self) -> str:
        bound = [
            self.server,
            self.generation,
            self.tool.fingerprint,
            self.arguments_json,
            self.meta_json,
            *self._not_the_host,
            *self._of_one_server,
        ]
        return "sha256:" + sha256(canonical(bound))

    @property
    def key(self) -> str:
        """Digest of server, definition, arguments, ``_meta``, context and origin: equal for the
        same call made again, also after a reconnect; never for that of a server which only has the
        same name, and is another command or at another URL.

        Also in another process where the context is text, a number, a boolean or a tuple of them;
        any other context only in this one.
        """
        same = [self.server, self.tool.fingerprint, self.arguments_json, self.meta_json]
        whose = [context_text(self.context), *self._not_the_host, *self._of_one_server]
        return "sha256:" + sha256(canonical([*same, *whose]))

    @property
    def _not_the_host(self) -> list[str]:
        """The origin, in digests of calls that the host does not make."""
        return [] if self.origin == "host" else [self.origin]

    @property
    def _of_one_server(self) -> list[Any]:
        """What the server is, in digests of calls of servers that can be told apart."""
        identity = None if self._identity is None else self._identity()
        return [] if identity is None else [{"identity": identity}]

    def with_arguments(self, arguments: Any) -> ToolCall:
        """The same call with other arguments, marked as edited. Raises ``NotJson``."""
        return replace(self, arguments_json=canonical(arguments), edited=True)

    @classmethod
    def example(
        cls,
        tool: str | Mapping[str, Any] | Tool = "example",
        arguments: Mapping[str, Any] | None = None,
        *,
        server: str = "example",
        trusted: bool | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        meta: Mapping[str, Any] | None = None,
        findings: Sequence[Finding | str] = (),
        context: Hashable = None,
        origin: CallOrigin = "host",
    ) -> ToolCall:
        """A call for testing hooks and policies: ``Rules.explain(ToolCall.example(...))``.

        ``tool`` is a name, a definition as servers list it, or a ``Tool``, which has its server and
        trust already. The hints are what the server says of the tool; as they count only where it
        is trusted, giving one makes it so, unless ``trusted=False``. ``findings``, or their kinds,
        are added to those of the definition. Raises ``ConfigError`` for what is not JSON.
        """
        said = {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }
        hints = {name: value for name, value in said.items() if value is not None}
        try:
            if not isinstance(tool, Tool):
                trusted = bool(hints) if trusted is None else trusted
                tool = Tool(*_example_of(tool, hints, server, trusted))
            elif hints or trusted is not None:
                raise ConfigError("ToolCall.example(): a Tool has its hints and its trust already")
            return cls(
                id="example-1",
                server=tool.server,
                tool=tool,
                arguments_json=canonical({} if arguments is None else arguments),
                meta_json=None if meta is None else canonical(meta),
                hints=tool.hints,
                findings=(*map(_example_finding, findings), *tool.findings),
                generation=1,
                context=context,
                origin=origin,
            )
        except NotJson as error:
            raise ConfigError(f"ToolCall.example(): {error}") from None


def tools_of(tools: Any, where: str) -> list[Tool]:
    """``tools`` as a list. Raises ``ConfigError`` for what is not a list of tools, in ``where``."""
    if inspect.isawaitable(tools):
        raise ConfigError(
            f"{where} was given a {type(tools).__name__} that was not awaited: write "
            "'await session.list_tools()'"
        )
    is_list = isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping)
    found = list(tools) if is_list else [tools]
    for tool in found:
        if not isinstance(tool, Tool):
            shown = f"a list with a {type(tool).__name__}" if is_list else type(tool).__name__
            raise ConfigError(f"{where} was given {shown}: give the tools of list_tools()")
    return found


def not_a_name(name: object, attribute: str = "name", *, server: str | None = None) -> UnknownTool:
    """What is raised for ``name``, which is not a text."""
    advice = f"give tool.{attribute}" if isinstance(name, Tool) else "give a text"
    return UnknownTool(f"the name of a tool is a {type(name).__name__}: {advice}", server=server)


new_tool, new_call = maker_of(Tool), maker_of(ToolCall)


def _example_of(
    tool: str | Mapping[str, Any], hints: dict[str, bool], server: str, trusted: bool
) -> tuple[str, str, bool, dict[str, Any]]:
    if not isinstance(tool, str | Mapping):
        raise ConfigError(
            f"ToolCall.example(): the tool is a {type(tool).__name__}: give a name, a definition "
            "or a Tool"
        )
    definition: dict[str, Any] = plain({"name": tool} if isinstance(tool, str) else tool)
    if not isinstance(definition.get("name"), str):
        raise ConfigError("ToolCall.example(): the definition of the tool has no name")
    definition.setdefault("inputSchema", {"type": "object"})
    if hints:
        definition["annotations"] = {**(definition.get("annotations") or {}), **hints}
    return definition["name"], server, trusted, definition


def _example_finding(one: Finding | str) -> Finding:
    return one if isinstance(one, Finding) else Finding(cast(Any, one), f"an example: {one}")


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
