"""A hook that takes turns shows what it is, and can do what the hook inside it can."""

from __future__ import annotations

from mcp_client import allow_all
from mcp_client.approval import one_at_a_time


def test_a_hook_that_takes_turns_names_the_hook_in_it() -> None:
    assert repr(one_at_a_time(allow_all)) == f"one_at_a_time({allow_all!r})"
