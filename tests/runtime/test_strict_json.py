"""A document that two programs could read in two ways is not read."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.runtime.strict_json import read_json, read_json_object

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.slow
@given(values, st.booleans())
def test_valid_json_is_parsed(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    assert read_json(text) == value
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert read_json(text.encode()) == read_json(b"\xef\xbb\xbf" + text.encode()) == value


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "the member 'a' appears twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "the member 'b' appears twice"),
        ("[NaN]", "NaN is not a value of JSON"),
        ('{"a": -Infinity}', "-Infinity is not a value of JSON"),
        ("[1e999]", "1e999 is too large for a number"),
        ("", "it is not JSON: Expecting value in line 1"),
        ('{\n"a": }', "it is not JSON: Expecting value in line 2"),
        ("{} {}", "it is not JSON: Extra data in line 1"),
        (b'{"a": "\xff"}', "it is not UTF-8"),
        ("[" * 65 + "]" * 65, "it is nested deeper than 64 levels"),
        ('{"a":' * 100_000, "it is nested deeper than 64 levels"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_the_reason(document: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        read_json(document)


def test_brackets_within_strings_are_not_depth() -> None:
    text = json.dumps(["[" * 1_000, '\\"[{' * 100, [{}] * 200])
    assert read_json(text, max_depth=3) == json.loads(text)
    with pytest.raises(ValueError, match=r"nested deeper than 2"):
        read_json(text, max_depth=2)


@pytest.mark.parametrize("document", ["[]", '"a"', "1", "null"])
def test_an_object_is_asked_for_where_only_one_will_do(document: str) -> None:
    assert read_json_object("{}") == {}
    with pytest.raises(ValueError, match="not a JSON object"):
        read_json_object(document)


@given(st.binary() | st.text())
def test_any_input_gives_a_value_or_a_reason(document: bytes | str) -> None:
    with suppress(ValueError):
        value = read_json(document)
        assert not isinstance(value, float) or math.isfinite(value)
