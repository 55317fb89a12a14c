"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.json_paths import escape, parse, pointer, resolve

# RFC 6901, section 5.
DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "m~n": 8,
    "~01": 9,
}
LEADS_TO: list[tuple[str, Any]] = [
    ("", DOCUMENT),
    ("/foo", ["bar", "baz"]),
    ("/foo/0", "bar"),
    ("/", 0),
    ("/a~1b", 1),
    ("/c%d", 2),
    ("/m~0n", 8),
    ("/~001", 9),
]


@pytest.mark.parametrize(("text", "value"), LEADS_TO)
def test_a_pointer_leads_where_the_rfc_specifies(text: str, value: Any) -> None:
    assert resolve(DOCUMENT, parse(text)) == value


@pytest.mark.parametrize("text", ["foo", "/~", "/a~2", "/~~01", " "])
def test_what_is_not_a_pointer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON pointer"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["/none", "/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/x", "/foo/\u00b2", "/a~1b/c"]
)
def test_a_pointer_that_leads_nowhere_is_a_lookup_error(text: str) -> None:
    with pytest.raises(LookupError):
        resolve(DOCUMENT, parse(text))


@given(st.lists(st.text()))
def test_any_steps_survive_being_written(steps: list[str]) -> None:
    assert parse(pointer(steps)) == tuple(steps)
    assert all("/" not in escape(step) for step in steps)
