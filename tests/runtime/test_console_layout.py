"""How a JSON value is laid out, and how the output marks that some of it is left out."""

from __future__ import annotations

import json

import pytest

from mcp_client.runtime.console_layout import Fold, json_rows

pytestmark = pytest.mark.one_backend


def test_what_is_too_long_too_many_or_too_deep_is_left_out_and_counted() -> None:
    value = {
        "outer": {
            "a long name of a member": [1, 2.5, {}],
            "b": {"deep": {"e": 1}},
            "last": 0,
        },
        "say": "a long text of a member",
    }
    text = json.dumps(value).replace("2.5", "2.50")
    rows = json_rows(text, Fold(text=8, members=2, depth=2))
    assert [f"<{row.text}>" if row.ours else row.text for row in rows] == [
        "{",
        '  "outer": {',
        '    "a long',
        "<15 more characters>",
        '    er": [',
        "<3 more members>",
        "    ],",
        '    "b": {',
        "<1 more member>",
        "    },",
        "<1 more member>",
        "  },",
        '  "say": "a long',
        "<15 more characters>",
        'er"',
        "}",
    ]


def test_members_that_are_named_come_first_and_numbers_stay_as_they_are_written() -> None:
    rows = json_rows('{"a": 1.0, "b": -0, "c": [true, null]}', Fold(8, 8, 2), first=["b", "x"])
    assert [row.text for row in rows] == [
        "{",
        '  "b": -0,',
        '  "a": 1.0,',
        '  "c": [',
        "    true,",
        "    null",
        "  ]",
        "}",
    ]
