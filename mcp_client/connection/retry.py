"""When a failed call is attempted again: nothing reached the server, or it is harmless."""

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
    """Return whether a request that was refused with this HTTP status may succeed later."""
    if status is None:
        return False
    return status in _BUSY or (status >= 500 and status != _NOT_IMPLEMENTED)


@with_option_names()
@frozen_dataclass
class Retry:
    """The number and the times of attempts at a failed call.

    One approval covers all attempts of the same call: the same definition and arguments. The total
    timeout of the call also covers them, including the pauses.

    - ``attempts``: The maximum number, including the first.
    - ``backoff``: Seconds before the second attempt, doubled for each one that follows, with
      jitter; never less than the server requests (``retry_after``).
    - ``safe``: Whether repeating the call is harmless, although it may have run already. Then HTTP
      500, 503 and other faults of the server permit another attempt, too.
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
        """Return whether a call that ended with ``error`` may be attempted again.

        A durable engine uses this for its own retries, too.
        """
        if isinstance(error, NotSent | ServerError):
            # A person has to visit a URL or to decide, which takes longer than seconds.
            waits = isinstance(error, UrlElicitationRequired | CallPending)
            safe = self.safe and isinstance(error, ServerError) and may_pass(error.http_status)
            return (error.retryable or safe) and not waits
        if isinstance(error, CallTimeout | ConnectionLost):
            return error.retryable or self.safe
        return False

    def next_pause(self, error: McpError, attempts: int, left: float) -> float | None:
        """Return the seconds before the next attempt; None without another attempt.

        Args:
            error: The error of the last attempt, which may not permit another.
            attempts: The number of attempts so far.
            left: Seconds left of the total timeout, which the pause must not exceed.
        """
        error.attempts = attempts
        if attempts == self.attempts or not self.permits(error):
            return None
        pause = self.pause(error, attempts)
        return pause if pause < left else None

    def pause(self, error: McpError, attempts: int) -> float:
        """Return the seconds before the next attempt, after ``attempts``."""
        wanted: float | None = getattr(error, "retry_after", None)
        return max(spread(doubled(self.backoff, attempts - 1)), wanted or 0.0)
