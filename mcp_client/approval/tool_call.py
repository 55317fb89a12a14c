"""A tool call to make, as the approval hook sees it: a frozen value."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..catalog.call_values import CallOrigin
from ..catalog.definition import Hints
from ..catalog.finding import Finding
from ..catalog.tool import Tool, fingerprinted
from ..errors import ConfigError, McpError
from ..protocol.canonical_json import NotJson, canonical, frozen, plain
from ..runtime.frozen import frozen_dataclass
from .request import (
    ApprovalRequest,
    Choice,
    Fact,
    RequestKind,
    digest_of,
    facts_of,
    finding_facts,
    optional_text,
    text,
    texts,
)
from .script import Script

if TYPE_CHECKING:
    from ..catalog.drift import Drift
    from .remember import Remember

__all__ = ["HINTS", "SOURCES", "ToolCall"]

HINTS = (
    ("read_only", "Read-only"),
    ("destructive", "Destructive"),
    ("idempotent", "Repeatable"),
    ("open_world", "Reaches out"),
)
SOURCES = {
    "server": "the server's word, which you trust",
    "assumed": "assumed, not stated by a trusted server",
    "contradiction": "assumed, the server contradicts itself",
}
_ORIGINS = {
    "app": "the server's own view (MCP App), not the host",
    "code": "a script, which is shown here, not the host",
}
"""The descriptions of origins other than the host."""
_MADE_BY = {"host": "", "app": ", made by its view", "code": ", made by scripts"}
_MAX_COMPARED_LINES = 4_000
"""The limit on compared lines of two definitions, because the time may grow with their square."""
_MAX_CHANGED_LINES = 400
"""Lines of the comparison that are shown."""
_LINES_AROUND = 2
_OF_ARGUMENTS = ("broken_arguments", "unchecked_arguments")


@frozen_dataclass
class ToolCall(ApprovalRequest):
    """A call as it will be sent, if it is approved: nothing in it can be changed.

    An approval covers this value, once. ``digest`` covers everything that decides what happens: the
    server (its name, and its command or address), the connection, the tool's definition, the
    arguments and the caller's ``_meta``, and the caller: the host, a view, or a script at this line
    of its run.
    """

    kind: ClassVar[RequestKind] = "call"
    asks = "May this tool run?"
    prompt = "Run it?"
    can_edit = True
    _covers_once = "This call only, also if the server is restarted before it is sent."

    id: str
    """The id of the call, as in the audit and in errors."""
    server: str
    """The host's name for the server, never the server's own claim."""
    tool: Tool
    """The tool's definition that will be in force when the call is sent."""
    arguments_json: str
    """The arguments as the exact text that will be sent, in canonical form."""
    meta_json: str | None
    """The caller's own ``_meta`` in the same form, or None."""
    hints: Hints = field()  # without field(), that of the base class would be its default
    """The possible effects of the call: the hints of a trusted server, else the worst case."""
    findings: tuple[Finding, ...]
    """The findings for the person who decides."""
    generation: int
    """The number of the session's connection: an approval does not outlive its connection."""
    edited: bool = False
    """Whether these are the approver's arguments instead of the caller's."""
    context: Hashable = None
    """The host's identifier of the caller, from ``call_tool(context=...)``. Never sent."""
    tag: Any = field(default=None, compare=False)
    """The host's identifier of the call, from ``call_tool(tag=...)``: JSON, immutable.

    It has no influence on decisions, is not among the facts, and is never sent.
    """
    origin: CallOrigin = "host"
    """The origin of the call: "host", "app" or "code".

    "host" is ``call_tool`` of sessions and hosts, for a model, a person or a program. "app" is the
    view of a tool (``session.app``), which is code of the server. "code" is a script that a model
    wrote (``toolset(code=True)``).
    """
    script: Script | None = None
    """The script that makes the call, and its line."""
    drift: Drift | None = field(default=None, repr=False, compare=False)
    """The differences between the tool and the ``pins``, which are also among the findings."""
    _identity: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)
    _address: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)
    _one_call: bool = field(default=False, repr=False, compare=False)
    """Whether the session ends with this call: see ``for_one_call``."""
    _arguments: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def trusted(self) -> bool:
        """Whether the host trusts the server's annotations."""
        return self.tool.trusted

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, deeply immutable."""
        if not self._arguments:
            self._arguments.append(frozen(json.loads(self.arguments_json)))
        arguments: dict[str, Any] = self._arguments[0]
        return arguments

    @property
    def address(self) -> str | None:
        """The command or the URL of the server without secrets, for people; None if unknown.

        It distinguishes two servers with one name.
        """
        return None if self._address is None else self._address()

    @property
    def subject(self) -> str:
        """The name of the tool."""
        return self.tool.name

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tool's definition."""
        return self.tool.fingerprint

    @property
    def digest(self) -> str:
        """The digest of everything that decides what happens, for this call alone."""
        return digest_of([self.key, self.generation])

    def facts(self) -> tuple[Fact, ...]:
        """The facts for the person who decides."""
        tool, drift = self.tool, self.drift
        facts = facts_of(
            ("Server", self.server, "server"),
            ("Tool", tool.name, "subject"),
            ("Which is", self.address, "address"),
            ("Called by", _ORIGINS.get(self.origin), "origin"),
            *self._script_rows(),
            ("Its title", tool.title or None, "title"),
            ("It says", tool.description or None, "description"),
        )
        sources = self.hints.source
        for name, label in HINTS:
            value = "yes" if getattr(self.hints, name) else "no"
            source = sources[name]
            text = f"{value} ({SOURCES[source]})"
            facts.append(Fact(label, text, name, value=value, source=source))
        if self.meta_json is not None:
            facts.append(Fact("Call's _meta", self.meta_json, "meta", is_json=True))
        label = "Your edit" if self.edited else "Arguments"
        facts.append(Fact(label, self.arguments_json, "arguments", is_json=True))
        if tool.bound:
            facts.append(Fact("Set by the host", ", ".join(tool.bound), "bound"))
        facts += finding_facts(self.findings)
        if drift is not None and drift.pinned is not None:
            facts.append(Fact("Changes", _changes(drift.pinned, tool), "changes"))
        facts.append(Fact("Definition", self.fingerprint, "fingerprint"))
        return tuple(facts)

    def choices(self) -> tuple[Choice, ...]:
        """The possible reaches of an approval."""
        if self.edited:
            return ("once",)
        script: tuple[Choice, ...] = () if self.script is None else ("script",)
        session: tuple[Choice, ...] = () if self._one_call else ("session",)
        return ("once", *script, *session, "hour", "always", "exact")

    def for_one_call(self) -> ToolCall:
        """Return the call as of a session that ends with it."""
        return replace(self, _one_call=True)

    def coverage(self, remember: Remember | None) -> str:
        """Return sentences about what an approval with this reach covers."""
        if remember is not None and self._one_call:
            remember = remember.beyond_session()
        return ApprovalRequest.coverage(self, remember)

    def _script_rows(self) -> tuple[tuple[str, str | None, str], ...]:
        script = self.script
        if script is None:
            return ()
        nth = f"{script.calls + 1:,}"
        return (
            ("Calls", f"this is call {nth} of the script", "script_calls"),
            ("Calling line", script.calling_line, "script_line"),
            ("Script", script.listing(), "script"),
        )

    @property
    def _weight(self) -> int:
        return len(self.arguments_json) + (0 if self.script is None else len(self.script.code))

    def _covers(self, remember: Remember, until: str) -> str:
        what = "exactly these arguments" if remember.exact else "any arguments"
        whose = "" if self.context is None else " of the same context"
        whose += _MADE_BY[self.origin]
        if remember.scope == "script":
            whose, until = f"{whose}, in this run", "until it ends"
            if remember.seconds is not None:
                until = f"for {remember.seconds / 60:g} minutes, at most {until}"
        found = "something more is found" if self.findings else "something is found"
        return (
            f"Calls with {what} of {self.tool.name} on {self.server}{whose}, {until}. "
            f"You are asked again if the definition of the tool changes or {found} about a call."
        )

    def _asked_for(self) -> Any:
        asked = [self.fingerprint, self.arguments_json, self.meta_json]
        script = self.script
        if script is None:
            return asked
        return [*asked, [script.id, script.digest, script.calls, script.line]]

    def _own_members(self) -> dict[str, Any]:
        drift = self.drift
        return {
            "address": self.address,
            "trusted": self.trusted,
            "definition": self.tool.raw,
            "bound": list(self.tool.bound),
            "arguments": json.loads(self.arguments_json),
            "meta": None if self.meta_json is None else json.loads(self.meta_json),
            "edited": self.edited,
            "tag": self.tag,
            "generation": self.generation,
            "one_call": self._one_call,
            "script": None if self.script is None else self.script.to_json(),
            "drift": None if drift is None else {"kind": drift.kind, "pinned": drift.pinned},
        }

    @classmethod
    def _made_of(cls, members: dict[str, Any], value: Any) -> ToolCall:
        from ..catalog.drift import Drift

        definition, meta, drift = value["definition"], value["meta"], value["drift"]
        name, server = text(definition["name"]), members["server"]
        bound = texts(value["bound"])
        tool = Tool(name, server, value["trusted"] is True, definition, bound=bound)
        address = optional_text(value["address"])
        if type(value["generation"]) is not int:
            raise ValueError("the generation of a call is not an integer")
        for value_part in (value["arguments"], {} if meta is None else meta):
            if type(value_part) is not dict:
                raise ValueError("the arguments of a call are not a JSON object")
        return cls(
            **members,
            tool=tool,
            arguments_json=canonical(value["arguments"]),
            meta_json=None if meta is None else canonical(meta),
            hints=tool.hints,
            generation=value["generation"],
            edited=value["edited"] is True,
            tag=frozen(value["tag"]),
            origin=value["origin"] if value["origin"] in _ORIGINS else "host",
            script=None if value["script"] is None else Script.from_json(value["script"]),
            drift=None if drift is None else Drift.of(tool, drift["kind"], drift["pinned"]),
            _address=lambda: address,
            _one_call=value.get("one_call") is True,
        )

    def why_not_remembered(self, remember: Remember) -> str | None:
        """Return why an approval cannot be remembered; None if it can."""
        if remember.scope == "script" and self.script is None:
            return "no script makes this call"
        return "its arguments were edited" if self.edited else None

    def refusal(self, message: str, **fields: Any) -> McpError:
        """Return the error for a denial."""
        return ApprovalRequest.refusal(self, message, **fields, tool=self.tool.name)

    @property
    def _exactly(self) -> str:
        return digest_of([self.arguments_json, self.meta_json])

    def with_arguments(self, arguments: Any) -> ToolCall:
        """Return the call with these arguments, marked as edited.

        The findings about the old arguments are removed. Raises ``NotJson``, and ``TypeError`` if
        the arguments are not a mapping.
        """
        if not isinstance(arguments, Mapping):
            raise TypeError("the arguments of a call are not a mapping")
        of_tool = self.tool.findings
        matching = tuple(
            one for one in self.findings if one.kind not in _OF_ARGUMENTS or one in of_tool
        )
        return replace(self, arguments_json=canonical(arguments), findings=matching, edited=True)

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
        tag: Any = None,
        origin: CallOrigin = "host",
        script: Script | None = None,
    ) -> ToolCall:
        """Return a call to test hooks and policies: ``Rules.explain(ToolCall.example(...))``.

        Args:
            tool: A name, a definition as servers list it, or a ``Tool``, which has its server and
                trust already.
            arguments: The arguments.
            server: The host's name for the server.
            trusted: Whether the server is trusted. Setting a hint implies it, unless this is False.
            read_only: The server's hint, as the other three.
            destructive: The server's hint.
            idempotent: The server's hint.
            open_world: The server's hint.
            meta: The caller's ``_meta``.
            findings: Findings, or their kinds, added to those of the definition.
            context: The host's identifier of the caller.
            tag: The host's identifier of the call.
            origin: "host", "app" or "code".
            script: The script that makes the call.

        Raises:
            ConfigError: An argument is not JSON, or wrong.
        """
        from ..connection.call_options import frozen_tag

        stated = {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }
        hints = {name: value for name, value in stated.items() if value is not None}
        if script is not None and not isinstance(script, Script):
            what = type(script).__name__
            raise ConfigError(f"ToolCall.example(): the script is a {what}: give a Script")
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
                tag=frozen_tag(tag),
                origin=origin if script is None else "code",
                script=script,
            )
        except NotJson as error:
            raise ConfigError(f"ToolCall.example(): {error}") from None


def _changes(pinned: Mapping[str, Any], tool: Tool) -> str:
    """The pinned definition and the one in force, line by line."""
    import difflib  # few definitions change

    old, new = map(_lines, (pinned, fingerprinted(tool._definition)))
    same = (number for number, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    start = max(0, next(same, min(len(old), len(new))) - _LINES_AROUND)
    end = start + _MAX_COMPARED_LINES
    lines = list(
        difflib.unified_diff(old[start:end], new[start:end], lineterm="", n=_LINES_AROUND)
    )[3:]
    first_lines = lines[:_MAX_CHANGED_LINES]
    if len(lines) > _MAX_CHANGED_LINES:
        first_lines.append(f"… {len(lines) - _MAX_CHANGED_LINES} more lines")
    if max(len(old), len(new)) > end:
        first_lines.append(
            f"… {max(len(old), len(new)) - end:,} lines further down are not compared"
        )
    return "\n".join(first_lines)


def _lines(definition: Mapping[str, Any]) -> list[str]:
    text = json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\\n\n").split("\n")


def _example_finding(one: Finding | str) -> Finding:
    return one if isinstance(one, Finding) else Finding(cast(Any, one), f"an example: {one}")


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
