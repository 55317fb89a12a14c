"""What of a tool's definition counts when two of them are compared.

The members that a person or a model reads, that a call is checked against, or that decide who may
make it and how: ``name``, ``title``, ``description``, both schemas, ``annotations``, ``execution``
(2025-11-25 ``server/tools``), ``icons``, and of ``_meta`` what the extension for apps reads
(2026-01-26 ``apps``). The rest of ``_meta`` and unknown members may differ between two lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..protocol.canonical_json import sha256

__all__ = ["UI_KEYS", "fingerprint_of", "fingerprinted"]

UI_KEYS = ("ui", "ui/resourceUri")
"""The members of ``_meta`` that the extension for apps reads; the second is deprecated there."""
_MEMBERS = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "execution",
    "icons",
)


def fingerprinted(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a definition that says what the tool is."""
    found = {k: definition[k] for k in _MEMBERS if k in definition}
    meta = definition.get("_meta")
    if type(meta) is dict:
        ui = {k: meta[k] for k in UI_KEYS if k in meta}
        if ui:
            found["_meta"] = ui
    return found


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """SHA-256 of what ``fingerprinted`` gives, in canonical form."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + sha256(text)
