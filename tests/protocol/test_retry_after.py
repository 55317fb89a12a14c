"""``Retry-After``: seconds, a date, or nothing that can be read."""

from __future__ import annotations

import pytest

from mcp_client.protocol.headers import retry_after_seconds

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("9" * 40, 999_999_999.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_is_read_as_seconds_or_not_at_all(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after_seconds(value, now=lambda: NOW) == seconds
