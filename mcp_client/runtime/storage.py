"""JSON objects, each found by its kind and its key, and changed one at a time; in memory, too.

Decisions, pins, tokens and their like are stored in a ``Storage`` and need only the four methods
here. ``json_file`` has one in a file; ``mcp_client.state`` has those for users.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

from ..errors import ConfigError

__all__ = ["Change", "MemoryStorage", "Object", "Storage"]

Object: TypeAlias = dict[str, Any]
"""A JSON object: its values are what ``json.loads`` gives."""
Change: TypeAlias = Callable[[Object | None], Object | None]
_SECRETS = "keys"
_SECRET = re.compile(r"[0-9a-f]{64}")


class Storage(ABC):
    """A store of JSON objects.

    Every method may be called from any thread, and by many processes that share the storage; each
    raises ``ConfigError`` if it cannot be used.

    A kind is a word of ``a`` to ``z`` and ``_``; a key is any text. The result of a method is the
    caller's own: changing it changes nothing in the storage.
    """

    waits: bool = True
    """Whether the methods read files or use the network, so that event loops call them in a
    thread."""
    is_remote: bool = False
    """Whether even ``stamp`` may take long, so that event loops call that in a thread, too."""
    reports_changes: bool = False
    """Whether ``watch`` reports changes, so that it is enough to look again seldom."""

    @property
    def place(self) -> Hashable:
        """A value that is equal for two storages of one file, directory or database."""
        path = getattr(self, "path", None)
        return id(self) if path is None else os.path.realpath(path)

    @abstractmethod
    def get(self, kind: str, key: str) -> Object | None:
        """Return the object that is there, or None."""

    @abstractmethod
    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it.

        Args:
            kind: The kind of the object.
            key: The key of the object.
            function: Gets the object, or None; returns the new one, or None to remove it. It may be
                called more than once, and must not use a storage. If it raises, nothing is changed.

        Returns:
            The new object. It is stored permanently when this method returns. Nothing else changes
            the object during the call, in any process.
        """

    def _change(
        self, kind: str, key: str, function: Change, also: Callable[[Any], object] | None = None
    ) -> Object | None:
        """Do ``change``, and call ``also`` with the connection in the same transaction.

        Only a storage that also has an audit supports this.
        """
        raise NotImplementedError

    @abstractmethod
    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""

    @abstractmethod
    def stamp(self, kind: str) -> Hashable:
        """Return a value that is another one after an object of this kind was changed.

        Cheap: it is asked for before every tool call.
        """

    def several(self, kind: str, keys: Iterable[str]) -> dict[str, Object]:
        """Return the objects with these keys, of those that are there.

        A storage may get them faster than one by one.
        """
        found = {key: self.get(kind, key) for key in keys}
        return {key: each for key, each in found.items() if each is not None}

    def count(self, kind: str) -> int:
        """Return the number of objects of a kind."""
        return len(self.list(kind))

    def due(
        self, kind: str, low: float, high: float, limit: int | None = None
    ) -> dict[str, Object]:
        """Return the objects whose ``"due"`` is a number from ``low`` to below ``high``.

        The lowest come first, at most ``limit`` of them. A storage may find them without reading
        the others.
        """
        found = [
            (each["due"], key, each)
            for key, each in self.list(kind).items()
            if type(each.get("due")) in (int, float) and low <= each["due"] < high
        ]
        return {key: each for _, key, each in sorted(found, key=lambda one: one[:2])[:limit]}

    def sweep(self, kind: str, before: float, limit: int = 100) -> int:
        """Remove objects that are due from 1 to below ``before``, and return their number.

        At most ``limit`` are removed at once.
        """
        removed = 0

        def remove(found: Object | None) -> Object | None:
            """Remove the objects with these keys."""
            nonlocal removed
            is_due = found is not None and 1 <= found.get("due", 0) < before
            removed += is_due
            return None if is_due else found

        for key in self.due(kind, 1, before, limit):
            self.change(kind, key, remove)
        return removed

    def now(self) -> float:
        """Return the seconds since 1970 by one clock for all machines."""
        return time.time()

    def watch(self, kind: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify``, from any thread, after objects of this kind were changed.

        Changes of other processes count. It ends when the returned function is called. A
        notification may be lost, and a storage that cannot know of changes gives none: a caller
        that waits looks again from time to time.
        """
        return lambda: None

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Let there be no objects with these keys. A storage may do that faster than one by one."""
        for key in keys:
            self.change(kind, key, lambda found: None)

    def secret(self, name: str) -> bytes:
        """32 random bytes, for digests that no one can make without them. They are made once."""
        known = self.known_secret(name)
        if known is not None:
            return known
        self.change(_SECRETS, name, lambda found: found or {"key": os.urandom(32).hex()})
        made = self.known_secret(name)
        assert made is not None
        return made

    def known_secret(self, name: str) -> bytes | None:
        """Return the bytes that ``secret`` made for this name, or None if it never did."""
        found = self.get(_SECRETS, name)
        if found is None:
            return None
        key = found.get("key")
        if type(key) is not str or not _SECRET.fullmatch(key):
            raise self.unusable(_SECRETS, "a key in it is not 64 hexadecimal digits")
        return bytes.fromhex(key)

    def unusable(self, kind: str, why: str) -> ConfigError:
        """Return the error for an object of this kind that cannot be used."""
        return ConfigError(f"the {kind} of {self!r} cannot be used: {why}")


class MemoryStorage(Storage):
    """A storage in memory, for as long as it lives."""

    waits = False

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}  # as text, which no one can change in place
        self._due: dict[str, dict[str, float]] = {}
        self._changes: dict[str, int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {sum(map(len, self._rows.values()))} objects>"

    def get(self, kind: str, key: str) -> Object | None:
        """Return the object, or None."""
        return _read(self._rows.get(kind, {}).get(key))

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Replace an object by the result of ``function``, and return it."""
        with self._lock:
            rows = self._rows.setdefault(kind, {})
            before = rows.get(key)
            changed = function(_read(before))
            after = None if changed is None else json.dumps(changed, allow_nan=False)
            if after != before:
                due = self._due.setdefault(kind, {})
                due.pop(key, None)
                if changed is None or after is None:
                    del rows[key]
                else:
                    rows[key] = after
                    if type(changed.get("due")) in (int, float):
                        due[key] = changed["due"]
                self._changes[kind] = self._changes.get(kind, 0) + 1
            return _read(after)

    def list(self, kind: str) -> dict[str, Object]:
        """Return all objects of a kind by their keys, in any order."""
        with self._lock:
            rows = dict(self._rows.get(kind, {}))
        return {key: json.loads(text) for key, text in rows.items()}

    def due(
        self, kind: str, low: float, high: float, limit: int | None = None
    ) -> dict[str, Object]:
        """Return the objects that are due from ``low`` to below ``high``, the first ones first."""
        with self._lock:
            due = self._due.get(kind, {})
            found = sorted((at, key) for key, at in due.items() if low <= at < high)[:limit]
            return {key: json.loads(self._rows[kind][key]) for _, key in found}

    def stamp(self, kind: str) -> Hashable:
        """Return a value that changes when an object of this kind changes."""
        return self._changes.get(kind, 0)


def _read(text: str | None) -> Object | None:
    if text is None:
        return None
    found: Object = json.loads(text)
    return found
