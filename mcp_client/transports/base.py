"""The seam between a session and the transport that carries its messages.

A transport is exchange-shaped, not a pipe: a request opens an ``Exchange``, which returns the
messages that belong to that request until it is closed. Messages that the server sends by itself go
to a callback. Over HTTP an exchange is one POST in the caller's own task; on a shared line (stdio,
memory) a ``Multiplexer`` sorts the messages by owner.

The contract, which ``tests/transports`` runs over every implementation:

- ``open`` makes the connection or raises ``ConnectError``; ``aclose`` ends it, in any task, any
  number of times, within bounded time, and leaves no process, task or stream behind.
- ``exchange`` returns once the request is on its way or, if every request has a stream of its
  own, is ready to leave with the first ``receive``. ``NotSent`` from either means that the server
  did not accept the request.
- ``receive`` raises ``TimeoutError`` when ``until`` passes and, on a shared line, leaves the
  exchange usable. It raises ``ConnectionLost`` when the connection ends first, and ``ServerError``
  if only a refusal in the transport's own terms came. It raises ``InvalidFrame`` if the response
  came and cannot be parsed.
- After ``aclose`` of an exchange, late messages for it are dropped and counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from anyio.lowlevel import checkpoint

from ..errors import Advice, AuthError, ConnectError, McpError
from ..protocol.jsonrpc import ErrorResponse, Id, Notification, Request, Response
from ..runtime.limits import Limits, Timeouts
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import KnownSecrets, StartPolicy, Stats
from ..runtime.urls import is_loopback

if TYPE_CHECKING:
    from ..protocol.era import Era
    from ..sandbox.sandbox import Confinement

__all__ = [
    "AnnouncedSilence",
    "Credentials",
    "Exchange",
    "Owner",
    "PersonAsked",
    "Received",
    "Transport",
    "TransportContext",
    "Unasked",
    "UnmatchedOutput",
    "is_passing",
]

_TURNS_TO_CATCH_UP = 3
"""One for the event loop to see that there is something to read, one to read it, and one for the
task that listens for changes."""
Unasked: TypeAlias = Callable[[Request | Notification], None]
"""A function that receives what belongs to no request of the client. It must not wait or raise."""

Owner: TypeAlias = Callable[[Notification], Id | None]
"""A function that returns the id of the request that a notification belongs to, or None."""
_BUSY = frozenset({408, 425, 429})
_NOT_IMPLEMENTED = 501


def is_passing(status: int | None) -> bool:
    """Whether a request that was refused with this HTTP status may succeed later."""
    if status is None:
        return False
    return status in _BUSY or (status >= 500 and status != _NOT_IMPLEMENTED)


class Credentials(Protocol):
    """The authorization of requests, as digests that reveal nothing about it."""

    async def current(self) -> Hashable:
        """Return a digest of what would authorize the next request of this task.

        Raises ``AuthError`` if a function that was given for authorization fails.
        """

    def recorded(self) -> AbstractContextManager[set[Hashable]]:
        """Collect a digest of what authorizes each request that this task sends.

        The set is complete at the end of the block.
        """


class TransportContext(NamedTuple):
    """A session's parameters for its transport: the receiver of unowned messages, and bounds."""

    server: str
    unasked: Unasked
    limits: Limits
    timeouts: Timeouts
    stats: Stats
    clock: PausableClock | None = None
    """The connection's own; None for one that nothing pauses."""
    ended: Callable[[McpError], None] | None = None
    """Called when a shared line has ended, by itself or because it was closed, maybe more than
    once, with what its requests fail with. Must not wait or raise."""
    doubted: Callable[[], None] = lambda: None
    """Called when the server has ended the session over HTTP, or the connection is ``suspect``.
    Must not wait or raise."""
    missed: Callable[[], None] = lambda: None
    """A function that is called when messages arrive again after a time in which those of the
    server itself were lost. It must not wait or raise."""
    secrets: KnownSecrets | None = None
    """The collector of the secrets that the server is given."""
    policy: StartPolicy | None = None
    """Asked by ``permit`` before anything is started or sent."""

    def accept(self, deviation: str) -> None:
        """Report a deviation of the server that is accepted: see ``Stats.accept``."""
        self.stats.accept(self.server, deviation)


class AnnouncedSilence(NamedTuple):
    """A server's request not to be contacted about a request before ``until``.

    It is the ``retry`` of an event stream that ended before the response (2025-11-25
    ``basic/transports``), or a ``Retry-After``.
    """

    until: float
    """A time of the connection's clock."""


Received: TypeAlias = Response | ErrorResponse | Notification | AnnouncedSilence


class UnmatchedOutput(NamedTuple):
    """The output of a server on a shared line that is not a response to a request of the client."""

    lines: int
    first: str
    """The beginning of the first line, made safe to show."""
    may_be_responses: bool
    """Whether it may have been meant as responses."""
    ended: bool = True
    """Whether there is a line that has an end."""


class PersonAsked(AuthError):
    """An error: a held request (``Transport.hold``) was not sent, because a person was asked."""


class Exchange(Protocol):
    """A request under way."""

    async def receive(self, until: float) -> Received:
        """Return the next message for this request.

        Args:
            until: The time at which ``TimeoutError`` is raised, on the connection's clock.
        """

    async def aclose(self) -> None:
        """Give the request up, if it has not been answered. Never raises."""


async def _turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await checkpoint()


def _no_owner(notice: Notification) -> Id | None:
    """Return None: before an era is agreed on, no notification belongs to a request."""
    return None


class Transport(ABC):
    """A way for messages to one server: pass it to ``connect`` instead of a command or a URL.

    The module's docstring is the contract, which ``tests/transports`` runs over each transport.
    """

    multiplexed: ClassVar[bool]
    """Whether all requests share one line, so that a cancellation must be sent on it."""

    has_headers: bool = False
    """Whether messages travel with headers, which an era then gives them."""
    always_responds: ClassVar[bool] = False
    """Whether the transport itself responds to every request, if only with an HTTP status. Then a
    server that does not respond to a probe is slow, rather than ignorant of the method."""
    only_its_word: ClassVar[bool] = False
    """Whether only the transport, and not a process, shows why a connection ended."""
    is_remote: ClassVar[bool] = False
    """Whether the server was running before the client came, and is not restarted by it."""

    closed_because: str = "the session was closed"
    """The reason in the errors of the requests that are under way when it is closed."""
    name: str = "server"
    """The name of the server if the host gave none."""
    owner: Owner = staticmethod(_no_owner)
    """A function that returns the request that a notification belongs to. Set once an era is agreed
    on."""
    era: Era | None = None
    """The era that was agreed on. It is set before the server is notified."""
    last_unsent_id: Id | None = None
    """The last request that was given up before any byte of it had left: the server gets no
    cancellation for it."""
    may_log_in: bool = False
    """Whether a person may be asked to log in before a request can be sent: see ``hold``."""
    sends_credentials: bool = False
    """Whether the host gave something to show who is asking."""
    suspect: bool = False
    """Whether the server may have stopped serving this connection without ending it. If so, a ping
    should be sent before any important request."""

    @abstractmethod
    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""

    def permit(self, policy: StartPolicy | None) -> None:  # noqa: B027 - most reach no server
        """Raise ``StartDenied`` where ``policy`` refuses the server that this leads to."""

    def agree(self, era: Era) -> None:
        """Accept the era that applies from now on.

        In the handshake era it is called before ``initialized`` is sent.
        """
        self.owner = era.owner
        self.era = era

    def hold(self, id: Id) -> None:  # noqa: B027 - most ask no one
        """Hold the request ``id``, the next one: do not send it after a person was asked.

        If a person was asked about something else, such as a login, after ``exchange`` was called,
        it raises ``PersonAsked``: what the request does may have been changed.
        """

    async def ready(self) -> None:  # noqa: B027 - most have nothing to do
        """Prepare the session, which is open, before anything else is sent. Never raises."""

    @abstractmethod
    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange:
        """Send a request, or make it ready to leave with the first ``receive``.

        Args:
            id: The request's id.
            text: The JSON text of the request.
            headers: The headers of the era, which a transport with headers sends.
            until: The time limit, on the connection's clock.

        Raises:
            NotSent: If the request cannot be sent.
        """

    def catch_up(self) -> Awaitable[None] | None:
        """Read what the server has sent by now, so that it is known whether a list has changed.

        Returns what to wait for until it is known; None if no other task has to run for that.
        """
        return _turns_of_the_loop(_TURNS_TO_CATCH_UP)

    def withdraw(self, id: Id) -> bool:
        """Do not send the request ``id`` any more, and return whether nothing of it had left.

        True at most once, and never where ``exchange`` returns only once something has left.
        """
        return False

    @abstractmethod
    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. ``ConnectError`` if it cannot."""

    @abstractmethod
    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the connection, in any task, any number of times, within bounded time."""

    async def abandon(self, *, wait: bool = False) -> None:
        """End a connection from which nothing more is expected, as fast as possible.

        ``wait``: until it has ended. Otherwise it may end in the background, within bounded time.
        """
        await self.aclose()

    def unmatched_output(self) -> UnmatchedOutput | None:
        """Return the server's output that is not a response to a request.

        None if unknown or none.
        """
        return None

    async def retire(self) -> None:
        """Another takes our place: close, once whatever is still under way has ended."""
        await self.aclose()

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether a request can be sent now."""

    @property
    def notification_epoch(self) -> int | None:
        """A number that changes whenever a notification may have been missed.

        It is None while the server has no way to send notifications.
        """
        return 0 if self.alive else None

    @property
    def identity(self) -> Hashable | None:
        """A value that is equal for two connections to the same server; None if unknown."""
        return None

    @property
    def stable_identity(self) -> str | None:
        """A text that identifies the program or address, equal in every process.

        Parts that may be secret are in it as a plain SHA-256 digest at the end, which a file stores
        only keyed (``protocol.canonical_json.keyed``). None if unknown.
        """
        return None

    @property
    def address(self) -> str | None:
        """The program or address for people: without parts that may be secret.

        Two servers may have the same one.
        """
        return None

    @property
    def pinned_identity(self) -> str | None:
        """``stable_identity``, as far as it is equal on every machine: lock files are shared."""
        return self.stable_identity

    @property
    def origin(self) -> tuple[str, str, int] | None:
        """The scheme, host and port of the server's URL, in lower case; None if it has none."""
        return None

    @property
    def network(self) -> dict[str, str | int]:
        """The way to the server in the words of OpenTelemetry's conventions; empty where unknown.

        Host and port are the server's, without the rest of its URL.
        """
        if self.origin is None:
            return {}
        _, host, port = self.origin
        http = {"network.transport": "tcp", "network.protocol.name": "http"}
        return {**http, "server.address": host, "server.port": port}

    @property
    def session_id(self) -> str | None:
        """The id that the server gave the session, or None. A secret."""
        return None

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, as far as the transport knows."""
        origin = self.origin
        return not self.is_remote if origin is None else is_loopback(origin[1])

    @property
    def credentials(self) -> Credentials | None:
        """The authorization of requests.

        None if the authorization cannot change, so that nothing needs to be compared.
        """
        return None

    async def stable_authorization(self, key: bytes) -> bytes | None:
        """Return a digest under ``key`` of what authorizes requests.

        It is equal in another process for the same credentials, or the same login. Empty if
        unknown; None if nothing authorizes them. Raises ``AuthError``.
        """
        return None

    @property
    def sandbox(self) -> Confinement | None:
        """The grants of a server that was started in a sandbox; None without one."""
        return None

    @property
    def extensions(self) -> tuple[str, ...]:
        """The protocol extensions for the authorization in use, to be declared to the server."""
        return ()

    def unread(self) -> int | None:
        """Return the number of sent bytes that the server has not read yet; None if unknown."""
        return None

    def exit_advice(self) -> Advice | None:
        """Return a possible reason why the server ended, and what to do; None if unknown."""
        return None

    def maybe_unknown_method(self, error: ConnectError) -> bool:
        """Whether a request failed in a way in which it may be the method that is not known."""
        return True

    def fallback(self) -> Transport | None:
        """Return another transport to the same server, if this one was refused; else None."""
        return None

    def clone(self) -> Transport:
        """Return a new, unopened transport to the same server."""
        raise NotImplementedError
