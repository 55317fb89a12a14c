"""Config files as text: what is parsed, what is refused, and where each member is."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.config.text import Document, NotReadable, OutOfRange, read_json, read_toml
from tests.support.properties import examples

lenient = read_json


def strict(text: str) -> Document:
    document = read_json(text)
    document.check(())
    return document


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_PLAIN, st.sampled_from([None, 0, 2]), st.booleans())
@examples(200)
def test_plain_json_is_read_as_python_reads_it(value: Any, indent: int | None, ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert strict(text).value == json.loads(text)
    assert lenient(text).value == json.loads(text)


@given(st.text() | st.text(alphabet='{}[]",:/*\\ \n0123456789.-eEtruefalsn\t'))
@examples(500)
def test_any_text_is_read_or_refused_and_never_read_otherwise_than_python_does(text: str) -> None:
    try:
        found = strict(text)
    except NotReadable as error:
        refused = error
    else:
        if not found.repeated:
            assert found.value == json.loads(text)
        return
    assert refused.line is not None
    assert refused.line <= text.count("\n") + 1
    if not refused.args[0].startswith("it is nested"):
        with pytest.raises(ValueError):  # noqa: PT011
            _strictly(text)


def _strictly(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


@given(st.text() | st.text(alphabet='{}[]",:/*\\ \n01ae'))
@examples(300)
def test_what_is_json_without_comments_is_the_same_where_comments_are_allowed(text: str) -> None:
    try:
        plain = strict(text)
    except NotReadable:
        return
    assert lenient(text) == plain


def test_comments_and_trailing_commas_are_read_where_they_are_allowed() -> None:
    text = """// first
    { /* one
         two */ "a": [1, 2, ], // end
      "b": "// no /* comment */",
    }
    // last"""
    assert lenient(text).value == {"a": [1, 2], "b": "// no /* comment */"}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{"a": 1 // x\n}', 1, "comments"),
        ('{"a": 1,\n}', 1, "comma"),
        ("[1,]", 1, "comma"),
        ('{"a" 1}', 1, "colon"),
        ('{\n\n"a": tru\n}', 3, "value is missing"),
        ("{a: 1}", 1, "double quotes"),
        ("{'a': 1}", 1, "double quotes"),
        ('{"a": "x\ny"}', 1, "control character"),
        ('{"a": NaN}', 1, "value is missing"),
        ("[" * 100 + "]" * 100, 1, "nested deeper"),
        ("[" * 100_000, 1, "nested deeper"),
        ("{} {}", 1, "after the end"),
        ("", 1, "ends before"),
        ('{"a":\n', 2, "ends before"),
        ("[1 2]", 1, "comma"),
        ('"abc', 1, "quotes"),
    ],
)
def test_what_is_not_json_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(NotReadable, match=why) as caught:
        strict(text)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["[,]", "{,}", "[1,,2]", "[1,,]", "/* open", "/ /", '{"a":,}'])
def test_leniency_is_for_comments_and_one_trailing_comma_only(text: str) -> None:
    with pytest.raises(NotReadable):
        lenient(text)


def test_each_member_is_found_at_its_line() -> None:
    document = read_json('{\n"a": {\n  "b": [\n 1,\n 2]},\n"c": 3}')
    assert document.line(("a",)) == 2
    assert document.line(("a", "b")) == 3
    assert document.line(("a", "b", 1)) == 5
    assert document.line(("a", "b", "unknown")) == 3
    assert document.line(("c",)) == 6
    assert document.line(("unknown",)) is None


def test_a_repeated_name_is_reported_and_the_first_value_used() -> None:
    document = read_json('{"a": {"x": 1,\n"x": 2},\n"a": 3}')
    assert document.value == {"a": {"x": 1}}
    assert document.repeated == {("a", "x"): 2, ("a",): 3}
    deep = read_json('{"a":' * 20 + '{"b": 1, "b": 2}' + "}" * 20)
    assert list(deep.repeated) == [("a",) * 8 + ("b",)]


@pytest.mark.slow
def test_many_repeated_names_and_many_lines_take_no_long_time() -> None:
    text = "{" + ",\n".join(['"a": 1'] * 200_000) + "}"
    assert len(read_json(text).repeated) == 1
    assert lenient("/" + "*" * 500_000 + "/ 1").value == 1


TOML = """
# comment
model = "gpt"

[mcp_servers."my.server"]
command = "npx"
args = [
  "-y",
]
env = { TOKEN = "x" }

[mcp_servers.other]
url = "https://example.com/mcp"
[mcp_servers.other.http_headers]
X-Header = "value"
"""


def test_members_of_toml_are_found_at_their_lines() -> None:
    document = read_toml(TOML)
    assert document.value["mcp_servers"]["my.server"]["args"] == ["-y"]
    assert document.line(("mcp_servers", "my.server")) == 5
    assert document.line(("mcp_servers", "my.server", "args", 0)) == 7
    assert document.line(("mcp_servers", "my.server", "env", "TOKEN")) == 10
    assert document.line(("mcp_servers", "other", "http_headers", "X-Header")) == 15
    assert document.line(("nothing",)) is None


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a = 1\nb = \n", 2, "not TOML"),
        ("a = 1\na = 2\n", 2, "not TOML"),
        ("[a]\n[a]\n", 2, "not TOML"),
        ("a = " + "[" * 5_000 + "]" * 5_000, None, "nested"),
        ("x = 1\n" + ".".join("a" * 300_000) + " = 1", 2, "dots"),
        ("a = 1\n" * 300_000, None, "characters"),
        ("a = '''" + "x" * 100_000, 1, "not TOML"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(text: str, line: int | None, why: str) -> None:
    with pytest.raises(NotReadable, match=why) as caught:
        read_toml(text)
    assert caught.value.line == line or "'''" in text


def test_a_number_of_any_size_in_toml_is_read_or_out_of_range_and_a_text_is_left_alone() -> None:
    long = "9" * 5_000
    document = read_toml(
        f"a = {long}\nb = -{long}\nc = 0x{'f' * 5_000}\nd = 1.{long}\n"
        f"e = 'x {long}'\n{long} = 1\nf = [[1, {long}]]\ng = 1{'_9' * 5_000}\nh = 1e{long}\n"
        f"i = {'9' * 300}\nj = '{long} {long[1:]}'\nk = 0b{'1' * 5_000}\n"
    )
    value = document.value
    assert [type(value[name]) for name in "abcgk"] == [OutOfRange] * 5
    assert type(value["f"][0][1]) is OutOfRange
    assert (value["d"], value["e"], value[long], value["h"]) == (2.0, f"x {long}", 1, math.inf)
    assert (value["i"], value["j"]) == (int("9" * 300), f"{long} {long[1:]}")
    assert document.line(("g",)) == 8


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 301, "1e999", "-1.5E+999"])
def test_a_number_of_any_size_in_json_is_read_or_out_of_range(number: str) -> None:
    value = read_json(f'{{"a": {number}, "b": [{number}], "c": "{number}"}}').value
    assert (type(value["a"]), type(value["b"][0]), value["c"]) == (OutOfRange, OutOfRange, number)


@given(st.text() | st.text(alphabet="[]={}.\"'ab \n#,1-"))
@examples(300)
def test_any_text_is_read_as_toml_or_refused(text: str) -> None:
    try:
        document = read_toml(text)
    except NotReadable:
        return
    assert isinstance(document.value, dict)
    assert all(1 <= line <= text.count("\n") + 1 for line in document.lines.values())
