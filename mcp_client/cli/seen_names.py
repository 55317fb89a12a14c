"""The names of tools and prompts that the lists of servers had, for the completion of a shell.

A shell that completes a word must start no server and wait for none. So the commands ``tools``,
``search``, ``prompts`` and ``shell``, at a terminal, write down the names they saw, and completion
reads those. The file is ``completion.json`` in the user's cache folder, for its owner alone (0600).
It holds names and the values that schemas list, no descriptions and no URIs; a TARGET stands in it
as a digest keyed with the file's own key, because commands and URLs may hold secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..runtime.atomic_file import OwnFile
from ..runtime.strict_json import read_json_object
from .candidates import Known

__all__ = ["SeenNames", "cache_file"]

_VERSION = 1
_MOST_TARGETS = 64
_MOST_NAMES = 500
_MOST_ARGUMENTS = 50
_LONGEST = 120


def cache_file() -> Path:
    """``completion.json`` in ``$XDG_CACHE_HOME/mcp-client``."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return folder / "mcp-client" / "completion.json"


class SeenNames:
    """What was seen, by TARGET. No method raises: without the file nothing is completed."""

    def __init__(self, path: Path) -> None:
        self._file = OwnFile(path, "names for completion", "delete it", private=True)

    def known(self, target: str) -> Known:
        """The names of a server; none where its lists were not seen."""
        try:
            key, targets = self._read()
        except ConfigError:
            return Known()
        found = targets.get(_digest(target, key))
        if not isinstance(found, dict):
            return Known()
        tools, prompts = found.get("tools"), found.get("prompts")
        return Known(
            {
                str(name): {str(each): _texts(values) for each, values in _members(its).items()}
                for name, its in _members(tools).items()
            },
            {str(name): _texts(its) for name, its in _members(prompts).items()},
        )

    def keep(self, target: str, lists: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down names of "tools" and "prompts", in place of those of earlier lists."""
        try:
            self._file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._file.locked():
                key, targets = self._read()
                digest = _digest(target, key)
                before = _members(targets.get(digest))
                now = {**before, **{name: _bounded(its) for name, its in lists.items()}}
                if now == before:
                    return
                targets.pop(digest, None)
                kept = dict([*targets.items(), (digest, now)][-_MOST_TARGETS:])
                whole = {"version": _VERSION, "key": key.hex(), "targets": kept}
                self._file.replace(json.dumps(whole) + "\n")
        except (ConfigError, OSError):
            return

    def _read(self) -> tuple[bytes, dict[str, Any]]:
        found = self._file.read()
        if found is None:
            return secrets.token_bytes(32), {}
        try:
            whole = read_json_object(found[1])
            if whole.get("version") == _VERSION:
                return bytes.fromhex(str(whole.get("key"))), _members(whole.get("targets"))
        except ValueError:
            pass
        return secrets.token_bytes(32), {}


def _digest(target: str, key: bytes) -> str:
    return hmac.digest(key, target.encode("utf-8", "replace"), hashlib.sha256).hex()


def _bounded(names: Mapping[str, Any]) -> dict[str, Any]:
    """At most so many names, none longer than anybody would complete."""
    found: dict[str, Any] = {}
    for name, its in list(names.items())[:_MOST_NAMES]:
        if len(name) > _LONGEST:
            continue
        if isinstance(its, dict):
            kept = list(its.items())[:_MOST_ARGUMENTS]
            found[name] = {
                each: [value for value in values if len(value) <= _LONGEST]
                for each, values in kept
                if len(each) <= _LONGEST
            }
        else:
            found[name] = [each for each in its[:_MOST_ARGUMENTS] if len(each) <= _LONGEST]
    return found


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
