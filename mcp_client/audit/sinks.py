"""The places of records: a file, or a function of the host, sync or async."""

from __future__ import annotations

import hmac
import inspect
import json
import logging
import os
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import anyio
from anyio.lowlevel import RunVar

from ..errors import AuditError, ConfigError, StateError
from ..protocol.canonical_json import keyed, sha256
from ..runtime.daemon_thread import limiter_of, run_in_thread
from ..runtime.event_loop import being_cancelled
from .hash_chain import encoder_with
from .log_file import AuditLog
from .redaction import Redaction

if TYPE_CHECKING:
    from ..runtime.session_context import KnownSecrets

__all__ = [
    "AuditSink",
    "Digested",
    "Identity",
    "Known",
    "Members",
    "Record",
    "Recorder",
    "Shared",
    "Sink",
    "failure_reason",
    "in_own_thread",
    "place_of",
    "sink_of",
]

Members: TypeAlias = dict[str, Any]
Joined: TypeAlias = Callable[[Callable[[Any], None] | None], object]
"""A change that calls what it is given, with its connection, before it is committed."""
Within: TypeAlias = tuple[object, Joined]
"""A storage, and a change of it."""
AuditSink: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None] | None]
"""Takes each record of ``connect(audit=...)``, a plain dict of JSON that it must not change."""

_logger = logging.getLogger("mcp_client")
_SINK_SECONDS = 10.0
_MAX_THREADS = 40
_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.audit")
_process_key = secrets.token_bytes(32)


@dataclass(slots=True, repr=False)
class Digested:
    """The arguments with their digest, which depends on the key of the log."""

    text: str
    has_secrets: bool

    def by(self, key: bytes | None) -> str:
        """Return the HMAC under the log's key; without a key, the SHA-256.

        If secrets were left out, it is an HMAC under a key of this process in place of the SHA-256:
        a short secret could be found by trying.
        """
        if key is None and not self.has_secrets:
            return "sha256:" + sha256(self.text)
        data = self.text.encode("utf-8", "surrogatepass")
        return "hmac-sha256:" + hmac.digest(key or _process_key, data, "sha256").hex()


@dataclass(slots=True, repr=False)
class Identity:
    """A server's identity, with the digest of what may be secret in it."""

    text: str

    def by(self, key: bytes | None) -> str:
        """Return the digest as an HMAC under the log's key, or else under a key of this process.

        Otherwise a short secret among the words of a command could be found by trying.
        """
        return keyed(self.text, key or _process_key, "hmac-sha256:")


class Shared:
    """Members that many records have alike, encoded once for each key."""

    __slots__ = ("_members", "_texts")

    def __init__(self, members: Members) -> None:
        self._members = members
        self._texts: dict[bytes | None, str] = {}

    def text(self, key: bytes | None, encode: Callable[[Any], str]) -> str:
        """Return their JSON text without braces, in which digests are made with ``key``."""
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = encode(self._members)[1:-1]
        return text


class Record(NamedTuple):
    """A record: members as JSON text without braces, others as values, and those that it shares."""

    text: str
    own: Members
    shared: Shared | None = None
    digest: Digested | None = None
    """The digest of the arguments, if no other part has it."""


class Known(NamedTuple):
    """The name of a subject in the records of a session, and the members that those share."""

    name: str
    """The name of the subject as a record may show it."""
    shared: dict[str, tuple[Any, Shared]]
    """By event, the members of the last record that others may share, after what they depend on.
    """


class Recorder(Protocol):
    """A protocol: the part of ``SessionAudit`` that an entry needs."""

    server: str
    refuses: bool

    @property
    def clock(self) -> Callable[[], float]:
        """Returns the Unix time in seconds."""

    @property
    def sinks(self) -> Sequence[Sink]:
        """The places of the records."""

    @property
    def redaction(self) -> Redaction:
        """The redaction of the records."""

    @property
    def identity(self) -> Identity | None:
        """The server's identity."""

    @property
    def secrets(self) -> KnownSecrets:
        """The secrets that the server was given."""

    def known(self, subject: str) -> Known:
        """Return the shared part of the records about ``subject``."""

    def redacted_context(self, context: Hashable) -> Any:
        """Return a call's context as a record may show it."""

    def whose(self, context: Hashable, tag: Any) -> Members:
        """Return the members of records for the host's own words on a call."""

    def began(self, entry: object) -> None:
        """Note that ``entry`` has to be closed before the session is."""

    def ended(self, entry: object) -> None:
        """Note that ``entry`` is closed, or that its end belongs to another session."""


class Sink(ABC):
    """A place for records, in order."""

    storage: object = None
    """The storage of the records, if a change of it can include them."""

    def __init__(self, name: str, key: bytes | None = None, *, code: bool = False) -> None:
        """Set the ``key`` of the digests in its records, and whether they have a script's code."""
        self.name = name
        self._key, self._code = key, code
        self._encode = encoder_with(self._digest)
        self._pending: deque[str] = deque()

    @property
    def has_pending(self) -> bool:
        """Whether records are pending."""
        return bool(self._pending)

    def keep(self, records: Iterable[Record]) -> None:
        """Write ``records`` before the next ones. From any thread."""
        self._pending.extend(map(self._text, records))

    def offer(self, records: Sequence[Record]) -> None:
        """Write ``records`` now if that needs no waiting, else before the next ones.

        From any thread.
        """
        self.keep(records)

    async def write(
        self, *records: Record, shield: bool = False, within: Within | None = None
    ) -> Exception | None:
        """Write what is pending and ``records``, in that order. Returns the failure, or None.

        ``shield``: also while the caller is being cancelled. ``within``: in the transaction of that
        change, if it is one of the storage of the records.
        """
        try:
            texts = [self._text(record) for record in records]
            if within is not None and within[0] is self.storage:
                await self._write_within(within[1], texts, shield)
            else:
                await self._write(texts, shield)
        except Exception as error:  # noqa: BLE001 - the function may be anybody's; the audit decides
            return error
        except anyio.get_cancelled_exc_class() as error:
            if being_cancelled():
                raise
            return RuntimeError(f"it was cancelled ({type(error).__name__})")
        return None

    def losses(self) -> Sequence[str]:
        """Return the losses of earlier records since the last time."""
        return ()

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Close all files; a later record opens them again."""

    @abstractmethod
    async def _write(self, records: list[str], shield: bool) -> None: ...

    async def _write_within(self, change: Joined, records: list[str], shield: bool) -> None:
        raise NotImplementedError

    def _text(self, record: Record) -> str:
        """Return the JSON text of a record's members, without braces."""
        text, own, shared, digest = record
        if digest is not None:
            text = f'{text},"arguments_digest":"{digest.by(self._key)}"'
        if own:
            if "code" in own and not self._code:
                own = {name: value for name, value in own.items() if name != "code"}
            text = f"{text},{self._encode(own)[1:-1]}"
        return text if shared is None else f"{text},{shared.text(self._key, self._encode)}"

    def _digest(self, value: Digested | Identity) -> str:
        return value.by(self._key)


class _FileSink(Sink):
    def __init__(self, log: AuditLog) -> None:
        super().__init__(log.path.name, log.key, code=log.code)
        self._log = log

    def losses(self) -> Sequence[str]:
        return self._log.take_losses()

    def close(self) -> None:
        self._log._close()

    def offer(self, records: Sequence[Record]) -> None:
        try:
            if self._is_written_now(records):
                return
        except AuditError as error:
            _logger.error("%s", error)
        self.keep(records)

    async def write(
        self, *records: Record, shield: bool = False, within: Within | None = None
    ) -> Exception | None:
        """Write what is pending and ``records``; mostly at once, without another coroutine."""
        try:
            if self._is_written_now(records):
                return None
        except Exception as error:  # noqa: BLE001 - as in ``Sink.write``
            return error
        return await super().write(*records, shield=shield, within=within)

    def _is_written_now(self, records: Sequence[Record]) -> bool:
        """Write ``records`` if that needs no waiting, and return whether it was done."""
        if self._pending or self._log.fsync or not records:
            return False
        return self._log.append_now(*map(self._text, records))

    async def _write(self, records: list[str], shield: bool) -> None:
        pending = []
        while self._pending:
            pending.append(self._pending.popleft())
        try:
            await self._append([*pending, *records], shield)  # in one write, all or none
        except BaseException:
            self._pending.extendleft(reversed(pending))
            raise

    async def _append(self, records: list[str], shield: bool) -> None:
        log = self._log
        if records and (log.fsync or not log.append_now(*records)):
            await in_own_thread(log.append, *records, shield=shield)


class _FunctionSink(Sink):
    def __init__(self, function: AuditSink) -> None:
        super().__init__(str(getattr(function, "__qualname__", type(function).__qualname__)))
        self._function = function

    async def _write(self, records: list[str], shield: bool) -> None:
        while self._pending:
            record = self._pending.popleft()
            try:
                await self._call(record, shield)
            except BaseException:
                self._pending.appendleft(record)
                raise
        for record in records:
            await self._call(record, shield)

    async def _call(self, record: str, shield: bool) -> None:
        result = self._function(json.loads(f"{{{record}}}"))
        if inspect.isawaitable(result):
            try:
                with anyio.fail_after(_SINK_SECONDS, shield=shield):
                    await result
            finally:
                if inspect.iscoroutine(result):
                    result.close()  # if the event loop has ended and cannot run it


async def in_own_thread(append: Callable[..., None], *args: Any, shield: bool) -> None:
    """Wait for the thread even when cancelled.

    A record that is being written must not be written again later.
    """
    # Threads of our own: people who are asked may have all the usual ones.
    threads = limiter_of(_threads, _MAX_THREADS)
    with anyio.CancelScope(shield=shield):
        await run_in_thread(append, *args, limiter=threads)


def sink_of(place: Any) -> Sink:
    """Return the sink of a ``place``, for the records of one session."""
    if isinstance(place, AuditLog):
        return _FileSink(place)
    if _is_database(place):
        log: _HasSink = place
        return log._as_sink()
    return _FunctionSink(place)


def _is_database(place: Any) -> bool:
    return hasattr(type(place), "_as_sink")  # of the class: a Mock has every attribute


def place_of(place: Any) -> Any:
    """Return where records go: an ``AuditLog`` if a path was given.

    Raises ``ConfigError`` for what records cannot go to.
    """
    if isinstance(place, AuditLog) or _is_database(place) or callable(place):
        return place
    if isinstance(place, str | os.PathLike):  # a MagicMock is a path, too
        return AuditLog(place)
    raise ConfigError(
        f"audit={place!r}: give the path of a file, an AuditLog, a callable that takes a record, "
        "a list of those, or Audit(...)"
    )


class _HasSink(Protocol):
    """A log in a database: its module is loaded only if there is one."""

    def _as_sink(self) -> Sink: ...


def failure_reason(sink: Sink, error: Exception) -> str:
    """Return the reason of a failure, for an error."""
    # The class of an error and not its text: one of the host's own may quote what it was given.
    if isinstance(error, StateError):
        return error.message
    return error.reason if isinstance(error, AuditError) else f"{sink.name}: {type(error).__name__}"
