"""The seam between a session and whatever carries its messages.

A transport is exchange-shaped, not a pipe: a request opens an ``Exchange``, which hands over the
messages that belong to that request until it is closed. What the server says unasked goes to a
callback. Over HTTP an exchange is one POST in the caller's own task; on a shared line (stdio,
memory) a ``Multiplexer`` sorts what comes by owner.

The contract, which ``tests/transports`` runs over every implementation:

- ``open`` makes the connection or raises ``ConnectError``; ``aclose`` ends it, in any task, any
  number of times, within bounded time, and leaves no process, task or stream behind.
- ``exchange`` returns once the request is on its way or, where every request has a stream of its
  own, is ready to leave with the first ``receive``. ``NotSent`` from either means that the server
  did not take the request up.
- ``receive`` raises ``TimeoutError`` when ``until`` passes and, on a shared line, leaves the
  exchange usable; ``ConnectionLost`` when the connection ends first; ``ServerError`` when all that
  came is a refusal in the transport's own terms; ``InvalidFrame`` when the answer came and cannot
  be read.
- After ``aclose`` of an exchange, late messages for it are dropped and counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from ..errors import Advice, AuthError, ConnectError, McpError
from ..protocol.jsonrpc import ErrorResponse, Id, Notification, Request, Response
from ..runtime.limits import Limits, Timeouts
from ..runtime.loopback import is_loopback
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import KnownSecrets, StartPolicy, Stats

if TYPE_CHECKING:
    from ..protocol.era import Era
    from ..sandbox.grants import Confinement

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
]

Unasked: TypeAlias = Callable[[Request | Notification], None]
"""Is handed what belongs to no request of ours. Must not wait or raise."""

Owner: TypeAlias = Callable[[Notification], Id | None]
"""Tells which of our requests a notification belongs to."""


class Credentials(Protocol):
    """What requests are authorized by, as digests from which nothing can be found out."""

    async def current(self) -> Hashable:
        """What the next request of this task would be authorized by.

        Raises ``AuthError`` if a function that was given for authorization fails.
        """

    def recorded(self) -> AbstractContextManager[set[Hashable]]:
        """What each request is authorized by that this task sends meanwhile."""


class TransportContext(NamedTuple):
    """What a session gives its transport: where unowned messages go, and the bounds."""

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
    """Called when the server can be heard again after a time in which what it said by itself was
    lost. Must not wait or raise."""
    secrets: KnownSecrets | None = None
    """Is told what the server is given to keep secret."""
    policy: StartPolicy | None = None
    """Asked by ``permit`` before anything is started or sent."""

    def accept(self, deviation: str) -> None:
        """Report a deviation of the server that is accepted: see ``Stats.accept``."""
        self.stats.accept(self.server, deviation)


class AnnouncedSilence(NamedTuple):
    """The server asked not to be contacted about a request before ``until``.

    That is the ``retry`` of an event stream which ended before the answer (2025-11-25
    ``basic/transports``), or a ``Retry-After``.
    """

    until: float
    """A time of the connection's clock."""


Received: TypeAlias = Response | ErrorResponse | Notification | AnnouncedSilence


class UnmatchedOutput(NamedTuple):
    """What a server sent on a shared line that is not a response to a request of ours."""

    lines: int
    first: str
    """The beginning of the first line, made safe to show."""
    may_be_responses: bool
    """Whether it may have been meant as responses."""
    ended: bool = True
    """Whether there is a line that has an end."""


class PersonAsked(AuthError):
    """A request that is held (``Transport.hold``) was not sent: somebody was asked meanwhile."""


class Exchange(Protocol):
    """One request under way."""

    async def receive(self, until: float) -> Received:
        """The next message for this request; ``until`` is a time of the connection's clock."""

    async def aclose(self) -> None:
        """Give the request up, if it has not been answered. Never raises."""


def _no_owner(notice: Notification) -> Id | None:
    """Which request a notification belongs to before an era is agreed on: none."""
    return None


class Transport(ABC):
    """How messages travel to one server: what ``connect`` takes where neither a command nor a URL
    will do. The module's docstring is the contract, which ``tests/transports`` runs over each.
    """

    multiplexed: ClassVar[bool]
    """Whether all requests share one line, so that giving one up must be said on it."""

    has_headers: ClassVar[bool] = False
    """Whether messages travel with headers, which an era then gives them."""
    always_responds: ClassVar[bool] = False
    """Whether the transport itself answers every request, if only with an HTTP status, so that a
    server which does not answer a probe is slow, rather than ignorant of the method."""
    only_its_word: ClassVar[bool] = False
    """Whether why a connection ended is known from the transport alone, and not from a process."""
    is_remote: ClassVar[bool] = False
    """Whether the server was running before we came, and starting it again is not ours to do."""

    closed_because: str = "the session was closed"
    """What the requests under way when it is closed fail with."""
    name: str = "server"
    """What the server is called where the host gave no name."""
    owner: Owner = staticmethod(_no_owner)
    """Set once an era is agreed on: tells which of our requests a notification belongs to."""
    era: Era | None = None
    """What was agreed on, from before the server is told."""
    last_unsent_id: Id | None = None
    """The request that was given up last of those of which nothing had left: the server is not told
    to cancel what it was never asked."""
    may_log_in: bool = False
    """Whether somebody may be asked to log in before a request can be sent: see ``hold``."""
    sends_credentials: bool = False
    """Whether the host gave something to show who is asking."""
    suspect: bool = False
    """Whether the server may have stopped serving this connection without ending it, so that it
    should be asked for a sign of life before anything is sent that matters."""

    @abstractmethod
    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""

    def permit(self, policy: StartPolicy | None) -> None:  # noqa: B027 - most reach no server
        """Raise ``StartDenied`` where ``policy`` refuses the server that this leads to."""

    def agree(self, era: Era) -> None:
        """Told which era holds from now on: in the handshake era before ``initialized`` is sent."""
        self.owner = era.owner
        self.era = era

    def hold(self, id: Id) -> None:  # noqa: B027 - most ask no one
        """The request ``id``, which is the next, is not to be sent once a person was asked about
        something else, such as a login, after ``exchange`` was called: it raises
        ``PersonAsked``, because what it does may have been changed meanwhile."""

    async def ready(self) -> None:  # noqa: B027 - most have nothing to do
        """Called once the session stands, before anything else is sent. Never raises."""

    @abstractmethod
    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange:
        """Send the request ``id``, whose JSON is ``text``, or make it ready to leave, at the latest
        with the first ``receive``. ``until`` is a time of the connection's clock. ``NotSent`` if it
        cannot."""

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
        """End a connection of which nothing is expected any more, as fast as possible.

        ``wait``: until it has ended. Otherwise it may end behind the caller, within bounded time.
        """
        await self.aclose()

    def unmatched_output(self) -> UnmatchedOutput | None:
        """What the server sent that is not a response to a request of ours; None if there is
        nothing, or if it cannot be told."""
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
        """None while the server has no way to tell us anything unasked.

        Otherwise a number that changes whenever a notification may have been missed.
        """
        return 0 if self.alive else None

    @property
    def identity(self) -> Hashable | None:
        """Equal for two connections to the same server; None where that cannot be told."""
        return None

    @property
    def lasting_identity(self) -> str | None:
        """What is run, or where it is: the same in another process, another for another server.

        What may be secret is in it as a plain SHA-256 digest at the end, which a file keeps only
        keyed (``runtime.keyed_digest``). None where that cannot be told.
        """
        return None

    @property
    def address(self) -> str | None:
        """What is run, or where it is, for people: without what may be secret.

        It need not tell two servers apart.
        """
        return None

    @property
    def pinned_identity(self) -> str | None:
        """``lasting_identity``, as far as it is equal on every machine: lock files are shared."""
        return self.lasting_identity

    @property
    def origin(self) -> tuple[str, str, int] | None:
        """Scheme, host and port of the server's URL, in lower case; None where it has none."""
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
        """The id that the server gave the session; None where there is none. A secret."""
        return None

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, as far as the way to it tells."""
        origin = self.origin
        return not self.is_remote if origin is None else is_loopback(origin[1])

    @property
    def credentials(self) -> Credentials | None:
        """Tells what requests are authorized by.

        None where that cannot change, so that nothing needs to be compared.
        """
        return None

    async def lasting_authorization(self, key: bytes) -> bytes | None:
        """A digest under ``key`` of what requests are authorized by: equal in another process for
        the same credentials, or the same login. Empty where that cannot be told; None where
        nothing authorizes them. Raises ``AuthError``."""
        return None

    @property
    def sandbox(self) -> Confinement | None:
        """What holds for a server that was started in a sandbox; None without one."""
        return None

    @property
    def extensions(self) -> tuple[str, ...]:
        """Protocol extensions the way we are authorized is one of, to be told to the server."""
        return ()

    def unread(self) -> int | None:
        """How many bytes we sent that the server has not taken yet; None where unknown."""
        return None

    def exit_advice(self) -> Advice | None:
        """What may be the reason that the server ended, and what to do; None where unknown."""
        return None

    def maybe_unknown_method(self, error: ConnectError) -> bool:
        """Whether a request failed in a way in which it may be the method that is not known."""
        return True

    def fallback(self) -> Transport | None:
        """Another way to carry messages to the same server, where this one was refused."""
        return None

    def clone(self) -> Transport:
        """Return a new, unopened transport to the same server."""
        raise NotImplementedError
