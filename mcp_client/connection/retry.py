"""How often a failed call is attempted: where nothing reached the server, or it does no harm."""

from __future__ import annotations

from ..errors import (
    CallPending,
    CallTimeout,
    ConfigError,
    ConnectionLost,
    McpError,
    NotSent,
    ServerError,
    UrlElicitationRequired,
)
from ..runtime.backoff import doubled, spread
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

__all__ = ["Retry", "may_pass"]

_BUSY = frozenset({408, 425, 429})
_NOT_IMPLEMENTED = 501


def may_pass(status: int | None) -> bool:
    """Whether a request that was refused with this HTTP status may be answered later."""
    if status is None:
        return False
    return status in _BUSY or (status >= 500 and status != _NOT_IMPLEMENTED)


@with_option_names()
@frozen_dataclass
class Retry:
    """How often a failed call is attempted, and when.

    One approval covers all attempts of the same call: the same definition and arguments. The total
    timeout of the call covers them, too, with the pauses between them.

    - ``attempts``: How many there are at most, the first one included.
    - ``backoff``: Seconds before the second attempt, twice as many before each one that follows;
      with jitter, and never less than the server asks for (``retry_after``).
    - ``safe``: The host's word that repeating the call does no harm, although it may have run
      already. Then HTTP 500, 503 and other faults of the server permit another attempt, too.
    """

    attempts: int = 3
    backoff: float = 0.5
    safe: bool = False

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ConfigError(f"Retry(attempts={self.attempts!r}): give a whole number above 0")
        if type(self.backoff) not in (int, float) or not 0 <= self.backoff < float("inf"):
            raise ConfigError(f"Retry(backoff={self.backoff!r}): give seconds, 0 or more")
        if type(self.safe) is not bool:
            raise ConfigError(f"Retry(safe={self.safe!r}): give True or False")

    def permits(self, error: BaseException) -> bool:
        """Whether a call that ended with ``error`` may be attempted again: a durable engine asks
        this about its own retries, too."""
        if isinstance(error, NotSent | ServerError):
            # A person has to visit a URL, or to decide: neither is a matter of seconds.
            waits = isinstance(error, UrlElicitationRequired | CallPending)
            safe = self.safe and isinstance(error, ServerError) and may_pass(error.http_status)
            return (error.retryable or safe) and not waits
        if isinstance(error, CallTimeout | ConnectionLost):
            return error.retryable or self.safe
        return False

    def next_pause(self, error: McpError, attempts: int, left: float) -> float | None:
        """Seconds before the next attempt, after ``attempts``; None if it was the last: ``error``
        does not permit another, or the pause takes the ``left`` seconds of the total timeout."""
        error.attempts = attempts
        if attempts == self.attempts or not self.permits(error):
            return None
        pause = self.pause(error, attempts)
        return pause if pause < left else None

    def pause(self, error: McpError, attempts: int) -> float:
        """Seconds before the next attempt, after ``attempts``."""
        wanted: float | None = getattr(error, "retry_after", None)
        return max(spread(doubled(self.backoff, attempts - 1)), wanted or 0.0)
