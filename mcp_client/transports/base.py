"""The seam between a session and whatever carries its messages.

A transport is exchange-shaped, not a pipe: a request opens an ``Exchange``, which hands over the
messages that belong to that request until it is closed. What the server says by itself goes to a
callback. Over HTTP an exchange is one POST in the caller's own task; on a shared line (stdio,
memory) ``Channel`` sorts what comes by owner.

The contract, which ``tests/transports`` runs over every implementation:

- ``open`` makes the connection or raises ``ConnectError``; ``aclose`` ends it, in any task, any
  number of times, within bounded time, and leaves no process, task or stream behind.
- ``exchange`` returns once the request is on its way. ``ConnectError`` from it means that not one
  byte of the request left.
- ``receive`` raises ``TimeoutError`` when ``until`` passes and leaves the exchange usable;
  ``ConnectionLost`` when the connection ends first; ``Unusable`` when the answer came and cannot
  be read.
- After ``aclose`` of an exchange, late messages for it are dropped and counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from ..bounds import Limits, Timeouts
from ..protocol.jsonrpc import Answer, Failure, Id, Notice, Question

__all__ = ["Exchange", "Link", "Owner", "Stats", "Transport", "Unasked"]

Unasked: TypeAlias = Callable[[Question | Notice], None]
"""Is handed what belongs to no request of ours. Must not wait or raise."""

Owner: TypeAlias = Callable[[Notice], Id | None]
"""Tells which of our requests a notification belongs to."""


@dataclass(slots=True)
class Stats:
    """Counts of what happened on a connection, mostly of what was survived."""

    requests: int = 0
    """Requests sent, of any method; those that open a stream of notices are in ``streams``."""
    streams: int = 0
    """Streams of notices that were asked for."""
    junk_lines: int = 0
    """Frames that were no JSON-RPC message."""
    late_answers: int = 0
    """Answers to requests that had been given up."""
    stray_answers: int = 0
    """Answers that belong to no request of ours."""
    dropped_notices: int = 0
    """Notifications dropped because too many waited."""
    refused_questions: int = 0
    """Requests from the server that were answered with an error."""
    unsent: int = 0
    """Answers and notifications of ours dropped because the server does not read."""
    restarts: int = 0
    """Times the server was started again."""
    last_junk: str = ""
    """The beginning of the last frame that was no message, made safe to show."""


class Link(NamedTuple):
    """What a session gives its transport: where unowned messages go, and the bounds."""

    server: str
    unasked: Unasked
    limits: Limits
    timeouts: Timeouts
    stats: Stats


class Exchange(Protocol):
    """One request under way."""

    async def receive(self, until: float) -> Answer | Failure | Notice:
        """The next message for this request; ``until`` is a time of the loop's clock."""

    async def aclose(self) -> None:
        """Give the request up, if it has not been answered. Never raises."""


class Transport(ABC):
    shared: ClassVar[bool]
    """Whether all requests share one line, so that giving one up must be said on it."""

    name: str = "server"
    """What the server is called where the host gave no name."""
    owner: Owner = staticmethod(lambda notice: None)
    """Set once an era is agreed on."""

    @abstractmethod
    async def open(self, link: Link) -> None: ...

    @abstractmethod
    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange: ...

    @abstractmethod
    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. ``ConnectError`` if it cannot."""

    @abstractmethod
    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""

    @abstractmethod
    async def aclose(self) -> None: ...

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether a request can be sent now."""

    @property
    def identity(self) -> Hashable | None:
        """Equal for two connections to the same server; None where that cannot be told."""
        return None

    @property
    def credentials(self) -> Hashable | None:
        """Equal while requests go out under the same authorization; None where there is none."""
        return None

    def unread(self) -> int | None:
        """How many bytes we sent that the server has not taken yet; None where unknown."""
        return None

    def fresh(self) -> Transport:
        """A new, unopened transport to the same server."""
        raise NotImplementedError
