"""The revisions; and names, versions and capabilities of client and server, as they declare them.

The dates of the revisions are written as code only here.

2025-11-25 ``basic/lifecycle`` (capability negotiation); 2026-07-28 ``basic/index`` (``_meta``).
A name and version are self-reported: for display and logs, never for a decision.

This module knows what extensions add, and none of their names. 2026-07-28 ``basic/versioning``
(extension negotiation): an extension that both sides declare may give results of named methods
another ``resultType``. It may add methods, which over HTTP may have an ``Mcp-Name`` of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .canonical_json import FrozenObject, frozen, plain
from .metadata import Metadata, Origin

__all__ = ["CORE_TASKS", "ERAS", "FULL_FORMS", "HANDSHAKE"]
__all__ += ["LATEST_HANDSHAKE", "LATEST_STATELESS", "MISSING_CAPABILITY", "STATELESS", "TOOLS_CALL"]
__all__ += ["VERSION_HEADER", "Additions", "ClientDeclaration", "Implementation", "ServerFacts"]
__all__ += ["declared_extensions", "declared_in", "declares", "is_extension_id", "is_known"]
__all__ += ["makes_tasks", "may_offer", "missing_capabilities"]

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions opened by ``initialize``, newest first."""

STATELESS = ("2026-07-28",)
"""Revisions without a handshake, newest first."""

ERAS: dict[str, tuple[str, ...]] = {"handshake": HANDSHAKE, "stateless": STATELESS}
"""The revisions of each era, by the name that a host gives to speak the newest of them."""

VERSION_HEADER = (*STATELESS, "2025-11-25", "2025-06-18")
"""Revisions that have the HTTP header ``MCP-Protocol-Version``."""

_DECLARES_TOOLS = (*STATELESS, "2025-11-25", "2025-06-18")
"""The revisions in which a feature may be used only if it is declared.

Servers of older revisions often omit the declaration.
"""

_ELICITS = (*STATELESS, "2025-11-25", "2025-06-18")
"""Revisions that have elicitation."""

FULL_FORMS = (*STATELESS, "2025-11-25")
"""The revisions with URLs to open, titled choices and multiple choice.

In sampling, they have tools, and several content blocks in a message.
"""

CORE_TASKS = ("2025-11-25",)
"""Revisions in which a call may ask to be made a task, without an extension."""

LATEST_HANDSHAKE = HANDSHAKE[0]
LATEST_STATELESS = STATELESS[0]


def is_known(revision: str) -> bool:
    """Whether ``revision`` is a revision, or the name of an era."""
    return revision in ERAS or revision in HANDSHAKE or revision in STATELESS


TOOLS_CALL = "tools/call"
"""The method of tool calls, for modules that handle it differently from others."""
MISSING_CAPABILITY = -32021
"""The error of a server that needs the client to declare more (2026-07-28 ``basic/index``)."""
_MAX_WAYS = 8
# As the keys of ``_meta``, but with the prefix and the name: 2026-07-28 ``basic/index``.
_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ID = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


@frozen_dataclass
class Implementation(Metadata):
    """The ``name``, ``version`` and ``title`` of a client or server, as it declares them."""

    name: str
    version: str
    title: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """All that came, or all that is to be sent besides name, version and title."""
    _origin: Origin | None = field(default=None, repr=False, compare=False)

    def of_origin(self, origin: Origin | None) -> Implementation:
        """A copy for a server with this origin, of which icons may be shown."""
        return self if origin is None else replace(self, _origin=origin)

    @classmethod
    def from_wire(cls, value: object) -> Implementation | None:
        """Parse an implementation; None if ``value`` is not a JSON object."""
        if not isinstance(value, dict):
            return None
        name, version, title = (value.get(key) for key in ("name", "version", "title"))
        return cls(
            name if isinstance(name, str) else "",
            version if isinstance(version, str) else "",
            title if isinstance(title, str) else None,
            FrozenObject(value),
        )

    def to_wire(self) -> dict[str, Any]:
        """Return the dict to send."""
        title = {} if self.title is None else {"title": self.title}
        return {**self.raw, "name": self.name, "version": self.version, **title}


@frozen_dataclass
class Additions:
    """The additions of a client's declared extensions to the protocol."""

    results: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The methods whose result may have a ``resultType``, by that type."""
    named_by: Mapping[str, str] = field(default_factory=dict)
    """The parameter that ``Mcp-Name`` repeats, by method."""
    stateless_only: frozenset[str] = frozenset()
    """Identifiers of extensions that the handshake era does not have: not declared there."""

    @classmethod
    def together(cls, each: Iterable[Additions]) -> Additions:
        """Return all of ``each`` as one."""
        all = tuple(each)
        return cls(
            {kind: methods for one in all for kind, methods in one.results.items()},
            {method: name for one in all for method, name in one.named_by.items()},
            frozenset().union(*(one.stateless_only for one in all)),
        )


@frozen_dataclass
class ClientDeclaration:
    """The client's declaration to a server."""

    info: Implementation
    capabilities: Mapping[str, Any]
    additions: Additions = field(default_factory=Additions)
    """The additions of the extensions among the capabilities."""

    def with_extensions(self, extensions: Mapping[str, Mapping[str, Any]]) -> ClientDeclaration:
        """The same client, which supports these extensions, too (2026-07-28 ``basic/versioning``).

        By identifier, their settings; those that it has already are left as they are.
        """
        known = {**plain(extensions), **self.capabilities.get("extensions", {})}
        if not known:
            return self
        return replace(self, capabilities={**self.capabilities, "extensions": known})

    def declared_in(self, revision: str) -> dict[str, Any]:
        """Return the capabilities that ``revision`` knows; see the function of this name."""
        known = declared_in(revision, self.capabilities)
        if self.additions.stateless_only and revision not in STATELESS:
            left = {
                id: settings
                for id, settings in known.get("extensions", {}).items()
                if id not in self.additions.stateless_only
            }
            known.pop("extensions", None)
            known |= {"extensions": left} if left else {}
        return known


@frozen_dataclass
class ServerFacts:
    """The server's description of itself in ``initialize`` or ``server/discover``."""

    info: Implementation | None
    capabilities: Mapping[str, Any]
    instructions: str | None
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The result, whole."""

    @classmethod
    def from_wire(cls, result: Mapping[str, Any], info: object) -> ServerFacts:
        """Parse a result."""
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        found = capabilities if isinstance(capabilities, dict) else {}
        # A feature that is null is not declared. Tools are asked for all the same.
        declared = {k: v for k, v in found.items() if v is not None or k == "tools"}
        return cls(
            Implementation.from_wire(info),
            FrozenObject(declared),
            instructions if isinstance(instructions, str) else None,
            FrozenObject(result),
        )


def declares(capabilities: Mapping[str, Any], feature: str, detail: str) -> bool:
    """Whether ``capabilities`` has ``{feature: {detail: true}}``."""
    settings = capabilities.get(feature)
    return isinstance(settings, dict) and settings.get(detail) is True


def makes_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Return whether ``capabilities`` has ``tasks.requests.tools.call``.

    2025-11-25 ``basic/utilities/tasks``.
    """
    found: Any = capabilities
    for name in ("tasks", "requests", "tools", "call"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return isinstance(found, Mapping) or found is True


def may_offer(
    revision: str, capabilities: Mapping[str, Any], feature: str, detail: str | None = None
) -> bool:
    """Whether to ask a server for a feature that not every server has.

    Not where the server declares its capabilities and this is not one of them. A server that
    declares nothing at all may have it all the same. ``completions`` is declared since 2025-03-26
    only, and ``tools`` reliably since 2025-06-18.
    """
    if not capabilities or (feature == "completions" and revision == "2024-11-05"):
        return True
    if feature == "tools" and revision not in _DECLARES_TOOLS:
        return True
    if feature not in capabilities:
        return False
    return detail is None or declares(capabilities, feature, detail)


def declared_in(revision: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a client's ``capabilities`` that ``revision`` knows.

    ``capabilities`` has the newest revision's form. Elicitation exists since 2025-06-18, its modes
    and tools in sampling since 2025-11-25, and notifications of changed roots until then.
    """
    known = dict(capabilities)
    if isinstance(modes := known.get("elicitation"), Mapping) and revision not in FULL_FORMS:
        del known["elicitation"]
        if revision in _ELICITS and (not modes or "form" in modes):
            known["elicitation"] = {}
    if "sampling" in known and revision not in FULL_FORMS:
        known["sampling"] = {}
    if "roots" in known and revision in STATELESS:
        known["roots"] = {}
    return known


def missing_capabilities(data: object) -> tuple[dict[str, Any], str]:
    """Parse the ``data`` of a ``MISSING_CAPABILITY`` error: capabilities, and advice for a host."""
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    if not isinstance(required, dict):
        return {}, "something of the client, and does not state what"
    ways: list[str] = []
    for name, settings in required.items():
        if name == "extensions" and isinstance(settings, dict):
            ways += [
                f"the extension {name}: client_info=ClientInfo(extensions=[Extension({name!r})])"
                for name in (safe_text(id, 120) for id in settings)
            ]
        elif name in ("elicitation", "sampling", "roots"):
            ways.append(f"{name}: connect(..., handlers=Handlers({name}=...))")
        else:
            ways.append(f"{safe_text(name, 60)!r}, which this client does not have")
    more = f" and {len(ways) - _MAX_WAYS} more" if len(ways) > _MAX_WAYS else ""
    return required, (", and ".join(ways[:_MAX_WAYS]) or "nothing that it names") + more


def is_extension_id(text: str) -> bool:
    """Whether ``text`` is the identifier of an extension: labels with dots, a slash, a name."""
    return re.fullmatch(_ID, text) is not None


def declared_extensions(capabilities: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The extensions among a peer's capabilities, with their settings; immutable.

    An entry whose settings are not an object declares nothing.
    """
    declared = capabilities.get("extensions")
    found: Mapping[str, Mapping[str, Any]] = frozen(
        {id: settings for id, settings in declared.items() if type(settings) is dict}
        if type(declared) is dict
        else {}
    )
    return found
