"""A hook that takes its turns says what it is, and keeps what the hook in it can do."""

from __future__ import annotations

from mcp_client import allow_all
from mcp_client.approval import one_at_a_time


def test_a_hook_that_takes_turns_names_the_hook_in_it() -> None:
    assert repr(one_at_a_time(allow_all)) == f"one_at_a_time({allow_all!r})"
