"""What a flow asks for, and what it is given.

A flow is a plain generator: it yields a step, is sent that step's outcome, and returns its
result. It does no I/O, so that tests feed it tables; the driver carries the steps out.

=============  ========================================  ============================
a flow yields  which means                               and is sent
=============  ========================================  ============================
``Fetch``      send this request                         ``Fetched`` or ``Unreachable``
``Listen``     be ready for the redirect of a consent    ``Listening``
``Consent``    have a person agree in a browser          ``Redirected``
``Recall``     look up the registration for an issuer    ``Registration`` or None
``Remember``   keep a registration for later runs        None
``Forget``     drop what is kept for an issuer           None
=============  ========================================  ============================
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..errors import AuthError, McpError

if TYPE_CHECKING:
    from .tokens import Registration

__all__ = [
    "Consent",
    "Fetch",
    "Fetched",
    "Flow",
    "FlowStep",
    "Forget",
    "Listen",
    "Listening",
    "Recall",
    "Redirected",
    "Remember",
    "Supply",
    "Unreachable",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send this request and read the whole reply, whatever its status."""

    method: str
    url: str
    what: str
    """What it is for, in an error's words: "the protected-resource metadata"."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A reply. A status that means failure is a reply too."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in lower case."""
    body: bytes = field(default=b"", repr=False)
    url: str = ""
    """Where it came from in the end, after redirects."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """There was no reply, or none that may be used: a refused address, a document too large."""

    reason: str


@dataclass(frozen=True, slots=True)
class Listen:
    """Be ready for a redirect, before any server is told where it will go to."""

    preferred: tuple[str, ...] = ()
    """Redirect URIs an earlier registration names: one of these, if its port can be had."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the redirect is to go."""

    redirect_uri: str


@dataclass(frozen=True, slots=True)
class Consent:
    """Have a person open ``url`` in a browser, and wait for what comes back to ``redirect_uri``."""

    url: str = field(repr=False)
    redirect_uri: str
    state: str = field(repr=False)
    server: str


@dataclass(frozen=True, slots=True)
class Redirected:
    """The query of the redirect that ended a consent: ``code``, ``state``, ``iss``, ``error``."""

    params: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recall:
    """Look up the client this authorization server knows us as."""

    issuer: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep a registration, so that the next run need not register again."""

    registration: Registration


@dataclass(frozen=True, slots=True)
class Forget:
    """The authorization server no longer knows the client that is kept for it."""

    issuer: str


@dataclass(frozen=True, slots=True)
class Supply:
    """Ask a function of the host's, sync or async, for a secret text it looks after."""

    source: Callable[[], str | Awaitable[str]] = field(repr=False)
    what: str
    """Which option it was given as: "WorkloadIdentity(assertion=...)"."""

    async def carry_out(self) -> str:
        """What the function gives. Raises ``AuthError`` where it raises, or gives no text."""
        try:
            given = self.source()
            text = await given if inspect.isawaitable(given) else given
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the function given as {self.what} raised {type(error).__name__}; nothing was sent"
            ) from error
        if not isinstance(text, str) or not text:
            raise AuthError(f"the function given as {self.what} gave no text; nothing was sent")
        return text


FlowStep: TypeAlias = Fetch | Listen | Consent | Recall | Remember | Forget | Supply
Flow: TypeAlias = Generator[FlowStep, Any, Result]
"""Yields steps, is sent their outcomes, returns a ``Result``."""
