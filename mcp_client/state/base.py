"""What a state is: JSON objects, each found by its kind and its key, and changed one at a time.

Decisions, pins and tokens are kept in a state and ask no more of it than the four methods here. To
keep them elsewhere, derive a class from ``State``, and hold it to ``tests/state/contract.py``.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

from ..errors import ConfigError
from .stores import Stores

__all__ = ["Change", "Object", "State", "state_of"]

Object: TypeAlias = dict[str, Any]
"""A JSON object: its values are what ``json.loads`` gives."""
Change: TypeAlias = Callable[[Object | None], Object | None]
_SECRETS = "keys"
_SECRET = re.compile(r"[0-9a-f]{64}")


class State(Stores, ABC):
    """Keeps JSON objects. Every method may be called from any thread, and by many processes that
    share the state; each raises ``ConfigError`` where the state cannot be used.

    A kind is a word of ``a`` to ``z`` and ``_``; a key is any text. What a method returns is the
    caller's own, and changing it changes nothing that is kept.
    """

    waits: bool = True
    """Whether the methods read files or use the network, so that event loops call them in a
    thread."""

    @abstractmethod
    def get(self, kind: str, key: str) -> Object | None:
        """The object that is there, or None."""

    @abstractmethod
    def change(self, kind: str, key: str, function: Change) -> Object | None:
        """Put what ``function`` returns in the place of the object it is given, and return it.

        ``function`` gets None where there is no object, and returns None for there to be none.
        Nothing else changes that object meanwhile, in any process. What it returned is kept once
        this method returns, whatever happens to the process or the machine. It may be called more
        than once, uses no state itself, and where it raises nothing is changed.
        """

    @abstractmethod
    def list(self, kind: str) -> dict[str, Object]:
        """All objects of a kind by their keys, in any order."""

    @abstractmethod
    def stamp(self, kind: str) -> Hashable:
        """A value that is another one after an object of this kind was changed. Cheap: it is asked
        for before every tool call."""

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Let there be no objects with these keys. A state may do that faster than one by one."""
        for key in keys:
            self.change(kind, key, lambda found: None)

    def secret(self, name: str) -> bytes:
        """32 random bytes, for digests that nobody can make without them. They are made once."""
        known = self.known_secret(name)
        if known is not None:
            return known
        self.change(_SECRETS, name, lambda found: found or {"key": os.urandom(32).hex()})
        made = self.known_secret(name)
        assert made is not None
        return made

    def known_secret(self, name: str) -> bytes | None:
        """The same, or None where it was never made."""
        found = self.get(_SECRETS, name)
        if found is None:
            return None
        key = found.get("key")
        if type(key) is not str or not _SECRET.fullmatch(key):
            raise self.unusable(_SECRETS, "a key in it is not 64 hexadecimal digits")
        return bytes.fromhex(key)

    def unusable(self, kind: str, why: str) -> ConfigError:
        """The error for an object of this kind that is not what was kept."""
        return ConfigError(f"the {kind} of {self!r} cannot be used: {why}")


def state_of(state: Any, option: str = "state") -> State | None:
    """From what ``state=`` takes: a ``State``, the path of a folder, or None."""
    if state is None or isinstance(state, State):
        return state
    if isinstance(state, str | os.PathLike):
        from .folder import FileState

        return FileState(state)
    raise ConfigError(f"{option}={state!r}: give the path of a folder, or a State")
