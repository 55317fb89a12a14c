"""A tool, and a call of it: frozen values.

2026-07-28 ``server/tools`` (data types). What a server sent is kept whole and private; what is
handed out is a copy, so that nothing a caller does to it changes the definition in force.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..protocol.canonical_json import canonical, frozen, sha256
from ..protocol.headers import HeaderParam, header_params_of
from .listed import Listed, Rejected

__all__ = ["HintSource", "Hints", "Rejected", "Tool", "ToolCall", "ToolList"]

HintSource: TypeAlias = Literal["server", "assumed", "contradiction"]

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_FINGERPRINTED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class Hints:
    """What a tool is said to do, in the form policy and people may rely on.

    Only a trusted server's own ``true`` or ``false`` counts; whatever is missing is the worst case.
    ``said`` names the hints that are the server's word; the others are our assumption.
    ``contradicted`` names those it said and that do not count, because it contradicts itself.
    """

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    said: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()

    @property
    def source(self) -> dict[str, HintSource]:
        """Where each value comes from: "server" is the word of a server the host trusts; "assumed"
        is the worst case where nobody trusted says; "contradiction" the worst case because a
        trusted server says what cannot be."""
        return {
            hint: "server"
            if hint in self.said
            else "contradiction"
            if hint in self.contradicted
            else "assumed"
            for hint in ("read_only", "destructive", "idempotent", "open_world")
        }


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of one server, as it was when it was listed."""

    name: str
    server: str
    """The name the host gave the server."""
    trusted: bool
    """Whether the host said it trusts that server, in what it says of this tool."""
    _definition: dict[str, Any] = field(repr=False, hash=False)
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was worked out once: the fingerprint, and what ``validation`` made of the schemas."""

    @property
    def title(self) -> str | None:
        return _text(self._definition.get("title"))

    @property
    def description(self) -> str | None:
        """The server's own words: untrusted text, also when the server is trusted."""
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
        """What the server says the tool does; None unless the host trusts the server.

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
        icons = self._definition.get("icons")
        return _copy(icons) if isinstance(icons, list) else []

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
    def findings(self) -> tuple[str, ...]:
        """What looks wrong with the definition, in sentences safe to show: see ``findings``."""
        findings: tuple[str, ...] = self._memo.get("findings", ())
        return findings

    @property
    def mirrors(self) -> tuple[HeaderParam, ...]:
        """The arguments that HTTP headers repeat (``x-mcp-header``)."""
        mirrors: tuple[HeaderParam, ...] | None = self._memo.get("mirrors")
        if mirrors is None:
            mirrors = self._memo["mirrors"] = header_params_of(self._definition["inputSchema"])
        return mirrors

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, title, description, both schemas and annotations, in canonical form.

        Equal for equal definitions wherever they come from.
        """
        fingerprint: str | None = self._memo.get("fingerprint")
        if fingerprint is None:
            fingerprint = self._memo["fingerprint"] = fingerprint_of(self._definition)
        return fingerprint


def fingerprinted(definition: dict[str, Any]) -> dict[str, Any]:
    """The part of a definition that says what the tool is."""
    return {k: definition[k] for k in _FINGERPRINTED if k in definition}


def fingerprint_of(definition: dict[str, Any]) -> str:
    return "sha256:" + sha256(_canonical(fingerprinted(definition)))


def _canonical(parts: dict[str, Any]) -> str:
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class ToolList(Listed[Tool]):
    """The tools of one server, in the server's order; ``[index]`` and ``in`` as in a list."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as it will be sent, if it is approved: nothing in it can be changed.

    An approval is good for this value, once. ``digest`` covers everything that decides what
    happens: server, connection, the tool's definition, the arguments and the caller's ``_meta``.
    """

    id: str
    server: str
    """The name the host gave the server, never the server's own claim."""
    tool: Tool
    arguments_json: str
    """The arguments as the very text that will be sent, in canonical form."""
    meta_json: str | None
    """The caller's own ``_meta``, likewise; None where there is none."""
    hints: Hints
    findings: tuple[str, ...]
    """What a person should know before answering, in sentences safe to show."""
    generation: int
    """Counts the connections of the session: an approval does not outlive its connection."""
    edited: bool = False
    """Whether these are not the caller's arguments but the approver's."""
    context: Hashable = None
    """The host's own word on whose call it is, from ``call_tool(context=...)``. Never sent."""
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
        ]
        return "sha256:" + sha256(canonical(bound))

    def with_arguments(self, arguments: Any) -> ToolCall:
        """The same call with other arguments, marked as edited. Raises ``NotJson``."""
        return replace(self, arguments_json=canonical(arguments), edited=True)


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
