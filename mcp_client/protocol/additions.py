"""What extensions add to the protocol, without knowing any of them by name.

2026-07-28 ``basic/versioning`` (extension negotiation): an extension that both sides declare may
give results of named methods another ``resultType``, and add methods, which over HTTP may have an
``Mcp-Name`` of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from ..runtime.frozen import frozen_dataclass
from .canonical_json import frozen

__all__ = ["Additions", "declared_extensions", "is_extension_id"]

# As the keys of ``_meta``, but with the prefix and the name: 2026-07-28 ``basic/index``.
_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ID = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


@frozen_dataclass
class Additions:
    """What the extensions that a client declares add, all together."""

    results: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By ``resultType``, the methods whose result may be of that type."""
    named_by: Mapping[str, str] = field(default_factory=dict)
    """By method, the parameter that ``Mcp-Name`` repeats."""
    stateless_only: frozenset[str] = frozenset()
    """Identifiers of extensions that the handshake era does not have: not declared there."""

    @classmethod
    def together(cls, each: Iterable[Additions]) -> Additions:
        all = tuple(each)
        return cls(
            {kind: methods for one in all for kind, methods in one.results.items()},
            {method: name for one in all for method, name in one.named_by.items()},
            frozenset().union(*(one.stateless_only for one in all)),
        )


def is_extension_id(text: str) -> bool:
    """Whether ``text`` is the identifier of an extension: labels with dots, a slash, a name."""
    return re.fullmatch(_ID, text) is not None


def declared_extensions(capabilities: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The extensions among a peer's capabilities, with their settings; immutable.

    An entry whose settings are not an object declares nothing.
    """
    said = capabilities.get("extensions")
    found: Mapping[str, Mapping[str, Any]] = frozen(
        {id: settings for id, settings in said.items() if type(settings) is dict}
        if type(said) is dict
        else {}
    )
    return found
