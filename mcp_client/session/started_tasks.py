"""``start_tool`` and ``resume_task``: tasks that are returned instead of awaited, or saved.

The call that became a task was approved once and has one audit entry. The session that observes the
end closes the entry. That is the session that made the call (``StartedCall``), or one that resumed
the task, perhaps in another process (``ResumedCall``). Both validate the result by the definition
that was approved. If several sessions observe the end, the first of them closes the entry
(``TaskLedger``).

A saved task (``SavedTask``) identifies the task, its server and its authorization, as a private
list does (2026-07-28 ``server/utilities/caching``). Server and authorization are digests under a
key of their own. The id of the task is stored in clear, because nothing else identifies the task.

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
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from ..catalog.call_values import ToolResult, context_to_json, is_storable
from ..catalog.tool import Tool
from ..catalog.tools import Catalog
from ..connection.call_options import CallOptions
from ..connection.connection import Connection
from ..errors import ConfigError, InvalidSchema, McpError
from ..extensions.tasks import Task, TaskCalls
from ..handlers.dispatcher import Dispatcher
from ..protocol.canonical_json import canonical, keyed, plain
from ..runtime.callbacks import in_thread
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext
from ..transports.base import Transport
from .call import Caller
from .call_state import Outcome, StartedCall
from .session_options import Setup
from .tool_validation import ToolValidation

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..state import State

__all__ = ["PROCESS_LEDGER", "Handover", "ProcessLedger", "ResumedCall", "SavedTask", "StateLedger"]
__all__ += ["TaskLedger"]

_log = logging.getLogger("mcp_client")
_CHECK_SECONDS = Timeouts().validation
_MAX_TTL_SECONDS = 366 * 86_400
_NOT_LISTED = "the server no longer lists the tool as it was approved"
_FORMAT = "mcp-client-task"
_VERSION = 2
_MAC = "mac"
_PBKDF2_ROUNDS = 50_000
"""Iterations that a guess at a password takes, for those who read a saved task."""
_UNKNOWN: Literal[""] = ""
"""The authorization that no session is known to have."""
_MAX_CLOSED = 10_000
_KIND = "tasks"
_STORED_SECONDS = 90 * 86_400.0
"""Seconds after which a task that has ended is forgotten."""
_CLEARED_EACH = 16
"""One of so many ends of tasks looks for those that are to be forgotten."""


class Handover:
    """Starts calls whose tasks outlive them, and resumes tasks that were started elsewhere."""

    def __init__(
        self,
        connection: Connection,
        tools: Catalog,
        caller: Caller,
        dispatcher: Dispatcher,
        *,
        setup: Setup,
        context: SessionContext,
    ) -> None:
        self._connection = connection
        self._tools = tools
        self._caller = caller
        self.tasks: TaskCalls = TaskCalls(connection, dispatcher, context)
        self._server = setup.name
        self._audit = setup.audit
        self._ledger = PROCESS_LEDGER if setup.state is None else StateLedger(setup.state)
        self._held: WeakValueDictionary[str, Task] = WeakValueDictionary()
        """Tasks by ``SavedTask.digest``: one that is taken up again is the same."""

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        ttl: float | None,
        options: CallOptions,
    ) -> Task:
        """Make a call, and return the task that the server creates for it.

        Args:
            name: The name of the tool.
            arguments: The arguments.
            ttl: Seconds for which the server should store the task.
            options: The options of ``call_tool``.
        """
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float)):
            raise ConfigError(f"ttl={ttl!r}: give seconds, such as 3600")
        if ttl is not None and not 0 < ttl <= _MAX_TTL_SECONDS:
            raise ConfigError(f"ttl={ttl!r}: give seconds, more than 0 and at most a year")
        call = self._caller.begin(name, arguments, options)
        call.ttl, call.hands_over = ttl, True
        if call.keyed is not None:
            raise ConfigError(
                "start_tool() has no option idempotency_key: a task outlives its call. "
                "Store task.to_json(), or use call_tool()"
            )
        await self._ledger.prepare()
        transport, salt = self._connection.transport, os.urandom(16)
        authorization = await authorization_of(transport, salt)
        outcome: Outcome = await self._caller.run(call)
        run, tool, spec = call.run, call.attempt.plan.tool, call.spec
        saved = SavedTask.of(
            transport,
            authorization,
            salt,
            id="" if run is None else run.state.id,
            tool=tool.name,
            definition=tool.fingerprint,
            call=call.id,
            context=context_to_json(spec.context) if is_storable(spec.context) else None,
            tag=plain(spec.tag),
            name=self._server,
            revision=self._connection.rpc.era.revision,
        )
        if call.entry is not None:
            call.entry.is_first = partial(self._ledger.close, saved.digest)
        task = Task(
            self.tasks,
            run,
            outcome if isinstance(outcome, StartedCall) else None,
            tool=tool.name,
            timeouts=spec.timeouts,
            on_progress=spec.on_progress,
            saved=lambda: saved.to_json(self._ledger.key()),
            outcome=outcome if isinstance(outcome, ToolResult) else None,
        )
        self._held[saved.digest] = task
        return task

    def resume(self, task_json: Mapping[str, Any] | str) -> Task:
        """Return the task that another session saved; the same object if this session has it."""
        saved = SavedTask.read(task_json, self._ledger.key())
        revision = self._connection.rpc.era.revision
        saved.check_server(self._server, self._connection.transport, revision)
        held = self._held.get(saved.digest)
        if held is not None:
            return held
        if not saved.id:
            raise ConfigError(
                f"the tool {saved.tool!r} completed at once, so there is no task to resume. A "
                "saved task does not contain the result: store that of task.result()",
                server=self._server,
                tool=saved.tool,
            )
        tasks, audit = self.tasks, self._audit
        entry = None
        if audit is not None:
            from ..audit.entry import AuditEntry
            from ..audit.entry_members import About

            about = About(saved.call, "call", saved.tool, None, saved.context, saved.tag)
            entry = AuditEntry.resumed(audit, about, saved.process)
            entry.is_first = partial(self._ledger.close, saved.digest)
        ending = ResumedCall(
            saved,
            entry,
            server=self._server,
            admit=lambda: saved.check_authorization(self._server, self._connection.transport),
            find=self._tools.find,
            read=self._caller.read,
            validation=self._caller.validation,
        )
        copy = json.loads(task_json) if isinstance(task_json, str) else dict(task_json)
        task = self._held[saved.digest] = Task(
            tasks,
            tasks.resumed(saved.id),
            ending,
            tool=saved.tool,
            timeouts=tasks.context.timeouts,
            saved=lambda: dict(copy),
        )
        return task


class ResumedCall(StartedCall):
    """The last steps of a call whose task another session or process started."""

    def __init__(
        self,
        saved: SavedTask,
        entry: AuditEntry | None,
        *,
        server: str,
        admit: Callable[[], Awaitable[None]],
        find: Callable[[str], Awaitable[Tool]],
        read: Callable[[dict[str, Any], str], ToolResult],
        validation: ToolValidation,
    ) -> None:
        """``find`` gives the tool as it is now; ``read`` a result from the wire."""
        super().__init__(entry, self._read_and_checked, self._failed)
        self._saved = saved
        self._server = server
        self._admit = admit
        self._find = find
        self._read = read
        self._validation = validation
        self._admitted = False

    async def admit(self) -> None:
        """Check that this session may have the task."""
        if not self._admitted:
            await self._admit()
            self._admitted = True

    async def _failed(self, error: BaseException) -> None:
        if self.entry is not None:
            await self.entry.failed(error)

    async def _read_and_checked(self, raw: dict[str, Any]) -> ToolResult:
        result = self._read(raw, self._saved.tool)
        if result.is_error or self._validation.results == "off":
            return result
        try:
            tool = await self._find(self._saved.tool)
        except McpError:
            tool = None
        if tool is None or tool.fingerprint != self._saved.definition:
            return self._validation.unchecked(result, self._validation.results, _NOT_LISTED)
        try:
            plan = tool._plan or self._validation.plan(tool)
            await self._validation.prepare_results(plan, _CHECK_SECONDS)
        except InvalidSchema:  # that error would state that nothing was sent
            return self._validation.unchecked(result, self._validation.results, _NOT_LISTED)
        return await self._validation.checked(
            plan, result, self._validation.results, _CHECK_SECONDS
        )


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
            await in_thread(self.key)

    def key(self) -> bytes:
        """Return the secret of the state."""
        if self._key is None:
            self._key = self._state.secret(_KIND)
        return self._key

    async def close(self, task: str) -> bool:
        """Return True for the first caller of all processes."""
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
