"""``key=value`` words become what the tool's schema wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_client.cli.exits import UsageError
from mcp_client.cli.tool_arguments import arguments_of, check_names

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "level": {"enum": [1, 2, 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "place": {"type": "object"},
        "shared": {"$ref": "#/$defs/number"},
        "free": {},
    },
    "$defs": {"number": {"type": "integer"}},
}


def read(*words: str, stdin: str = "") -> dict[str, Any]:
    return arguments_of(words, SCHEMA, lambda: stdin)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["text=1"], {"text": "1"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=null"], {"text": "null"}),
        (["text=@me"], {"text": "@me"}),
        (["text:=null"], {"text": None}),
        (["count=5"], {"count": 5}),
        (["count=-5"], {"count": -5}),
        (["count=5.0"], {"count": 5}),
        (["count=1e3"], {"count": 1000}),
        (["ratio=0.5"], {"ratio": 0.5}),
        (["ratio=2"], {"ratio": 2}),
        (["on=true"], {"on": True}),
        (["on=false"], {"on": False}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=3"], {"maybe": 3}),
        (["either=3"], {"either": "3"}),
        (["level=2"], {"level": 2}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]', "tags=c"], {"tags": ["a", "b", "c"]}),
        (["tags=a", 'tags:=["x"]', "tags=b"], {"tags": ["b"]}),
        (["sizes=1", "sizes=2"], {"sizes": [1, 2]}),
        (['place={"x": 1}'], {"place": {"x": 1}}),
        (["shared=7"], {"shared": 7}),
        (["free=7"], {"free": "7"}),
        (["unknown=7"], {"unknown": "7"}),
        (["unknown:=7"], {"unknown": 7}),
        (["count=1", "count=2"], {"count": 2}),
        (["a:b=1"], {"a:b": "1"}),
    ],
)
def test_a_word_becomes_what_the_schema_wants(words: list[str], wanted: dict[str, Any]) -> None:
    assert repr(read(*words)) == repr(wanted)


@pytest.mark.parametrize(
    "word",
    [
        "count=five",
        "count=5.5",
        "count=null",
        "count=",
        "count=0x10",
        "ratio=1e999",
        "ratio=NaN",
        "ratio=" + "9" * 5000,
        "on=yes",
        "level=two",
        "sizes=x",
        "sizes=[1",
        "place=here",
        "place={",
        "text:=yes",
        "text:=NaN",
        "text:=1e999",
        "text:=" + "9" * 5000,
        "text:=" + "[" * 5000,
        'text:={"a": 1, "a": 2}',
        "text",
        "=x",
        ":=1",
        "@/no/such/file",
        "@/",
    ],
)
def test_a_word_that_cannot_be_that_is_a_usage_error_that_shows_it(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(word)
    assert word[:10] in str(caught.value) or word[1:10] in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_and_standard_input_give_objects_that_later_words_change(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"text": "file", "count": 1, "tags": ["f"]}')
    assert read(f"@{file}", "count=2") == {"text": "file", "count": 2, "tags": ["f"]}
    assert read("-", "tags=b", stdin='{"tags": ["a"]}') == {"tags": ["b"]}


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b"{", b'"x"', b""])
def test_a_file_that_is_no_json_object_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)  # a long name is cut
    Path("a.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.json"):
        read("@a.json")


def test_a_slip_in_a_name_is_told() -> None:
    assert check_names({"text": 1}, SCHEMA) is None
    assert check_names({"quite_different": 1}, SCHEMA) is None
    assert "did you mean count?" in str(check_names({"cuont": 1}, SCHEMA))


def test_a_slip_in_a_name_is_a_usage_error_where_the_tool_cannot_take_it() -> None:
    for more in ({"additionalProperties": False}, {"required": ["count"]}):
        with pytest.raises(UsageError, match="did you mean count"):
            check_names({"cuont": 1}, {**SCHEMA, **more})
