"""The contents of ``task.to_json()``, and what sessions share about saved tasks.

A saved task identifies the task, its server and its authorization, as a private list does
(2026-07-28 ``server/utilities/caching``). Server and authorization are digests under a key of their
own. The id of the task is stored in clear, because nothing else identifies the task.

Approval is not requested again for a saved task, so nothing in it may be changed: all of it is
under a MAC. The key is that of ``TaskLedger``, which also records whose audit records are closed. A
saved task never contains the result of a call.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, McpError
from ..protocol.canonical_json import canonical, keyed
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..state import State

__all__ = [
    "PROCESS_LEDGER",
    "ProcessLedger",
    "SavedTask",
    "StateLedger",
    "TaskLedger",
    "authorization_of",
]

_FORMAT = "mcp-client-task"
_VERSION = 2
_MAC = "mac"
_PBKDF2_ROUNDS = 50_000
"""Iterations that a guess at a password takes, for those who read a saved task."""
_UNKNOWN: Literal[""] = ""
"""The authorization that no session is known to have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTask:
    """A task as it is saved."""

    id: str = field(repr=False)
    """The id of the task; empty if the tool completed at once."""
    tool: str
    definition: str
    """The fingerprint of the tool as it was approved."""
    call: str
    """The id of the call in the audit."""
    process: int
    """The process that first wrote the call to the audit."""
    context: Any
    """The context of the call as JSON; None if other processes cannot compare it."""
    tag: Any
    """The host's tag of the call."""
    name: str
    """The host's name for the server."""
    revision: str
    """The revision of the specification for the task."""
    server: str | None
    """The server's identity; None if it is unknown, and the name is compared instead."""
    authorization: str | None
    """The digest of the authorization; None without one."""
    salt: str = field(repr=False)

    @classmethod
    def of(
        cls, transport: Transport, authorization: str | None, salt: bytes, **facts: Any
    ) -> SavedTask:
        """Return the saved form of a task.

        Args:
            transport: The transport of the session.
            authorization: The authorization of the session's requests.
            salt: Random bytes for the digests.
            **facts: The other fields.
        """
        return cls(
            server=_described(transport, salt),
            authorization=authorization,
            salt=salt.hex(),
            process=os.getpid(),
            **facts,
        )

    def to_json(self, key: bytes) -> dict[str, Any]:
        """Return the saved task as a dict, authenticated with ``key``."""
        authorization = self.authorization and _stretched(self.authorization, self.salt)
        made = {_FORMAT: _VERSION, **asdict(self), "authorization": authorization}
        return {**made, _MAC: _mac(made, key)}

    @classmethod
    def read(cls, saved: Mapping[str, Any] | str, key: bytes) -> SavedTask:
        """Parse the result of ``to_json`` under the same key, or its JSON text.

        The ``authorization`` is stretched. Raises ``ConfigError`` for anything else.
        """
        try:
            found = dict(json.loads(saved) if isinstance(saved, str) else saved)
            mac = found.pop(_MAC)
            whole = hmac.compare_digest(mac, _mac(found, key)) and found.pop(_FORMAT) == _VERSION
            if not whole or found.keys() != {each.name for each in fields(cls)}:
                raise ValueError
            return cls(**found)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # Without the cause, which would quote the argument.
            raise ConfigError(
                "this is not a saved task of this process: give the unchanged result of "
                "task.to_json(); to resume a task in another process, use one state in both"
            ) from None

    @property
    def digest(self) -> str:
        """An identifier of the task that does not reveal its id."""
        return hashlib.sha256(f"{self.call} {self.salt}".encode()).hexdigest()

    def check_server(self, name: str, transport: Transport, revision: str) -> None:
        """Check that a session belongs to the task's server.

        Args:
            name: The name of the session.
            transport: The transport of the session.
            revision: The revision of the session.

        Raises:
            ConfigError: The session belongs to another server or speaks another revision.
        """
        here = _described(transport, bytes.fromhex(self.salt))
        if here != self.server or (here is None and name != self.name):
            what = repr(self.name) if here is None else f"{self.name!r} ({self.server})"
            raise ConfigError(
                f"the task belongs to the server {what}. Resume it in a session of that server",
                server=name,
            )
        if revision != self.revision:
            raise ConfigError(
                f"the task was started under revision {self.revision}, and this session uses "
                f"{revision}. Connect with revision={self.revision!r}",
                server=name,
            )

    async def check_authorization(self, name: str, transport: Transport) -> None:
        """Raise ``ConfigError`` if requests are not authorized as those of the task's session were.

        That includes an authorization that cannot be compared.
        """
        here = await authorization_of(transport, bytes.fromhex(self.salt))
        if here and self.authorization:
            here = _stretched(here, self.salt)
        if here != self.authorization or here == _UNKNOWN:
            raise ConfigError(
                "the task was started under another authorization, or one that cannot be "
                "compared. Resume it in a session with the same login",
                server=name,
            )


async def authorization_of(transport: Transport, salt: bytes) -> str | None:
    """Return the authorization of requests; None without one."""
    digest = await transport.stable_authorization(salt)
    return None if digest is None else digest.hex()


def _described(transport: Transport, salt: bytes) -> str | None:
    identity = transport.stable_identity
    return None if identity is None else keyed(identity, salt)


def _stretched(digest: str, salt: str) -> str:
    made = hashlib.pbkdf2_hmac("sha256", bytes.fromhex(digest), bytes.fromhex(salt), _PBKDF2_ROUNDS)
    return made.hex()


def _mac(made: Mapping[str, Any], key: bytes) -> str:
    return hmac.digest(key, f"task {canonical(made)}".encode(), "sha256").hex()


_log = logging.getLogger("mcp_client")
_MAX_CLOSED = 10_000
_KIND = "tasks"
_STORED_SECONDS = 90 * 86_400.0
"""Seconds after which a task that has ended is forgotten."""
_CLEARED_EACH = 16
"""One of so many ends of tasks looks for those that are to be forgotten."""


class TaskLedger(ABC):
    """Shared by the sessions that may resume each other's tasks."""

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Create the key before a task is started, so that ``key`` does not wait afterwards."""

    @abstractmethod
    def key(self) -> bytes:
        """Return the secret that authenticates saved tasks."""

    @abstractmethod
    async def close(self, task: str) -> bool:
        """Return True for the first caller that closes the audit record of ``task``.

        ``task`` is ``SavedTask.digest``.
        """


class ProcessLedger(TaskLedger):
    """The ledger for the sessions of one process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._closed: dict[str, None] = {}

    def key(self) -> bytes:
        """Return the secret of this process."""
        return self._key

    async def close(self, task: str) -> bool:
        """Return True for the first caller in this process."""
        if task in self._closed:
            return False
        self._closed[task] = None
        if len(self._closed) > _MAX_CLOSED:
            del self._closed[next(iter(self._closed))]
        return True


class StateLedger(TaskLedger):
    """The ledger for the sessions of all processes that share a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._key: bytes | None = None

    async def prepare(self) -> None:
        """Load or create the secret in the state."""
        if self._key is None:
            from ..runtime.callbacks import in_thread

            await in_thread(self.key)

    def key(self) -> bytes:
        """Return the secret of the state."""
        if self._key is None:
            self._key = self._state.secret(_KIND)
        return self._key

    async def close(self, task: str) -> bool:
        """Return True for the first caller of all processes."""
        from ..runtime.callbacks import in_thread

        try:
            return await in_thread(self._close, task)
        except McpError as error:  # a record that is closed twice is better than one left open
            _log.warning("cannot check whether the task was recorded: %s", error)
            return True

    def _close(self, task: str) -> bool:
        mine = {"closed_by": os.urandom(16).hex(), "at": time.time()}
        won = self._state.change(_KIND, task, lambda found: found or mine) == mine
        if won and os.urandom(1)[0] % _CLEARED_EACH == 0:
            self._clear()
        return won

    def _clear(self) -> None:
        before = time.time() - _STORED_SECONDS
        for task, row in self._state.list(_KIND).items():
            if not row.get("at", 0) > before:
                self._state.change(_KIND, task, lambda found: None)


PROCESS_LEDGER = ProcessLedger()
