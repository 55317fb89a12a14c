"""The ``Retry-After`` header (RFC 9110, section 10.2.3): seconds, or a date."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["retry_after_seconds"]


def retry_after_seconds(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """The seconds to wait; None where the header is absent or cannot be read."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, OverflowError):
        return None
