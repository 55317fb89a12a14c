"""A state for as long as the object lives."""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable

from .base import Change, Object, State

__all__ = ["MemoryState"]


class MemoryState(State):
    """Keeps objects in memory. Sessions and hosts that are given it share them."""

    waits = False

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, str]] = {}  # as text, which nobody can change in place
        self._changes: dict[str, int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<MemoryState, {sum(map(len, self._kept.values()))} objects>"

    def get(self, kind: str, key: str) -> Object | None:
        return _read(self._kept.get(kind, {}).get(key))

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        with self._lock:
            kept = self._kept.setdefault(kind, {})
            before = kept.get(key)
            changed = function(_read(before))
            after = None if changed is None else json.dumps(changed, allow_nan=False)
            if after != before:
                if after is None:
                    del kept[key]
                else:
                    kept[key] = after
                self._changes[kind] = self._changes.get(kind, 0) + 1
            return _read(after)

    def list(self, kind: str) -> dict[str, Object]:
        with self._lock:
            kept = dict(self._kept.get(kind, {}))
        return {key: json.loads(text) for key, text in kept.items()}

    def stamp(self, kind: str) -> Hashable:
        return self._changes.get(kind, 0)


def _read(text: str | None) -> Object | None:
    if text is None:
        return None
    found: Object = json.loads(text)
    return found
