"""Front matter: what is read, and what is refused by name."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.extensions.front_matter import BadYaml, front_matter, same
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend


def fields(yaml: str) -> dict[str, Any]:
    return front_matter(f"---\n{yaml}\n---\n".encode())[0]


READ: list[tuple[str, Any]] = [
    ("a: text", "text"),
    ("a:   two  words  # comment", "two  words"),
    ("a: it's #1", "it's"),
    ("a: x#y", "x#y"),
    ("a: http://x/y:z", "http://x/y:z"),
    ("a: - b", None),
    ("a: -b", "-b"),
    ("a: Bash(git:*) Read", "Bash(git:*) Read"),
    ("a:", None),
    ("a: ~", None),
    ("a: null", None),
    ("a: nUll", "nUll"),
    ("a: True", True),
    ("a: false", False),
    ("a: yes", "yes"),
    ("a: on", "on"),
    ("a: 2026-01-01", "2026-01-01"),
    ("a: 12:30:45", "12:30:45"),
    ("a: 012", 12),
    ("a: -7", -7),
    ("a: 0o17", 15),
    ("a: 0x1F", 31),
    ("a: 1_000", "1_000"),
    ("a: 1.0", 1.0),
    ("a: 1.10", 1.1),
    ("a: 1.2.3", "1.2.3"),
    ("a: 1e3", 1000.0),
    ("a: '1'", "1"),
    ('a: "1"', "1"),
    ("a: 'it''s'", "it's"),
    (r'a: "t\tn\nq\"u\u00e9x\x41"', 't\tn\nq"uéxA'),
    ("a: [1, b, 'c, d', [e], {f: 1}]", [1, "b", "c, d", ["e"], {"f": 1}]),
    ('a: {b: 1, "c":2}', {"b": 1, "c": 2}),
    ("a: []", []),
    ("a: {}", {}),
    ("a:\n  b: 1\n  c:\n    d: x", {"b": 1, "c": {"d": "x"}}),
    ("a:\n- b\n- c", ["b", "c"]),
    ("a:\n  - b: 1\n    c: 2\n  - - d\n    - e\n  -", [{"b": 1, "c": 2}, ["d", "e"], None]),
    ("a: |\n  one\n    two\n\n  three\n\n", "one\n  two\n\nthree\n"),
    ("a: |-\n  one\n\n", "one"),
    ("a: |+\n  one\n", "one\n\n"),
    ("a: >\n  one\n  two\n\n  three\n    four\n  five", "one two\nthree\n  four\nfive\n"),
    ("a: one\n  two\n\n  three", "one two\nthree"),
    ("a: 'one\n  two'", "one two"),
    ('a: "one\n\n  two \\\n  three"', "one\ntwo three"),
    ("a:\n  text below", "text below"),
    ("# comment\n\na: b\n  # comment\n", "b"),
    ("a: [b: 1]", [{"b": 1}]),
    ("a: {b, c: 1}", {"b": None, "c": 1}),
    ("? a\n: b", "b"),
]


@pytest.mark.parametrize(("yaml", "value"), [one for one in READ if one[0] != "a: - b"])
def test_the_subset_is_parsed_as_yaml_1_2_specifies(yaml: str, value: Any) -> None:
    found = fields(yaml)["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("yaml", "reason"),
    [
        ("a: &x b", "an anchor"),
        ("a: *x", "an alias"),
        ("a: &x [*x]", "an anchor"),
        ("a: !!str b", "a tag"),
        ("a: !x b", "a tag"),
        ("a: ! b", "a tag"),
        ("a: !!python/object/apply:os.system [x]", "a tag"),
        ("<<: {b: 1}", "a merge key"),
        ("a: {<<: {b: 1}}", "a merge key"),
        ("? [a]\n: b", "not text"),
        ("? |\n  a\n: b", "not text"),
        ("a: b\na: c", "a duplicate name"),
        ("a: {b: 1, b: 2}", "a duplicate name"),
        ("1: b", "not text"),
        ("true: b", "not text"),
        (": b", "not YAML"),
        ("a" * 1_001 + ": b", "1,000 characters"),
        ("a:\n\tb: c", "not YAML"),
        ("a: b\tc", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: |2\n   b", "an indentation indicator"),
        ("a:\n  |\n  b", "does not begin on the line of its name"),
        ("a: [b,\n  c]", "not closed on its line"),
        ("a: 'b", "not YAML"),
        ("a: 'b' c", "not YAML"),
        ("a: 'b'#c", "something after"),
        ("a: [b]#c", "something after"),
        ("a: 'b\nc'", "without indentation"),
        ("a:\n  - 'b\n  c'", "without indentation"),
        (r'a: "\q"', "unknown escape"),
        (r'a: "\ud83d\ude00"', "not a character"),
        (r'a: "\UFFFFFFFF"', "not a character"),
        (r'a: "\U00110000"', "not a character"),
        ("a: .inf", "a number that JSON does not have"),
        ("a: .NaN", "a number that JSON does not have"),
        ("a: 1e999", "a number that JSON does not have"),
        ("a: " + "9" * 301, "300 characters"),
        ("a: @b", "not YAML"),
        ("a: `b`", "not YAML"),
        ("a: %b", "not YAML"),
        ("%YAML 1.2", "not YAML"),
        ("a: b\n...\nc: d", "not YAML"),
        ("a: b\n--- c", "another document"),
        ("- a\n- b", "not a mapping"),
        ("just text", "not a mapping"),
        ("", "empty"),
        ("# only a comment", "empty"),
        ("a: b\n  - c: d", "not YAML"),
        ("a:\n    b: 1\n  c: 2", "not YAML"),
        ("a: b # c\n  d", "not YAML"),
        ("a: \x00", "U+0000"),
        ("a: \x85", "U+0085"),
        ("a: \u2028", "U+2028"),
        ("a: \ufeff", "U+FEFF"),
        ("a: b\rc: d", "U+000D"),
        ("a:" + " [" * 17 + "]" * 17, "16 levels"),
        ("\n".join(" " * n + "a:" for n in range(18)), "16 levels"),
    ],
)
def test_everything_else_is_refused_by_name(yaml: str, reason: str) -> None:
    with pytest.raises(BadYaml, match=r".*") as refused:
        fields(yaml)
    assert reason in str(refused.value)


def test_sixteen_levels_are_read() -> None:
    for yaml in ("a:" + " [" * 15 + "]" * 15, "\n".join(" " * n + "a:" for n in range(16))):
        assert fields(yaml)
    for yaml in ("a:" + " [" * 16 + "]" * 16, "\n".join(" " * n + "a:" for n in range(17))):
        with pytest.raises(BadYaml, match="more than 16 levels"):
            fields(yaml)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin"),
        (b"name: x\n", "does not begin"),
        (b"\xef\xbb\xbf---\nname: x\n---\n", "does not begin"),
        (b" ---\nname: x\n---\n", "does not begin"),
        (b"---\nname: x\n", "no line '---'"),
        (b"---\nname: x\n --- \n", "no line '---'"),
        (b"---\nname: x\n----\n", "no line '---'"),
        (b"---\nname: \xff\n---\n", "UTF-8"),
        (b"---\nname: x\n---\n\xff", "UTF-8"),
        (b"---\n" + b"# " + b"x" * 65_530 + b"\n---\n", "65,536 bytes"),
    ],
)
def test_what_is_not_front_matter_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(BadYaml) as refused:
        front_matter(content)
    assert reason in str(refused.value)


def test_the_text_begins_behind_the_line_that_ends_the_front_matter() -> None:
    assert front_matter(b"---\na: b\n---\n\n# T\n") == ({"a": "b"}, "\n# T\n")
    assert front_matter(b"---  \r\na: b\r\nc: d\r\n---\t\r\nT") == ({"a": "b", "c": "d"}, "T")
    assert front_matter(b"---\na: b\n---") == ({"a": "b"}, "")
    assert front_matter(b"---\na: b\n---\n---\n") == ({"a": "b"}, "---\n")


def test_front_matter_of_the_largest_size_is_read() -> None:
    begin, end = b"name: x\n# ", b"\n---\n"
    rest = begin + b"y" * (65_536 - len(begin + end)) + end
    assert front_matter(b"---\n" + rest)[0] == {"name": "x"}
    with pytest.raises(BadYaml):
        front_matter(b"---\n" + b"#" + rest)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, False, False),
        ("1", 1, False),
        ([1, {"a": None}], [1.0, {"a": None}], True),
        ([1], [1, 2], False),
        ([1], [True], False),
        ([{"a": [0]}], [{"a": [False]}], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": 1}, [("a", 1)], False),
        (2**63 + 1, float(2**63), True),
        (10**400, 10**400, True),
        (10**400, 1.0, False),
        (2**53 - 1, 2**53, False),
    ],
)
def test_values_are_compared_as_json_values(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


@given(st.binary(max_size=200))
@examples(500)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for whole in (content, b"---\n" + content + b"\n---\n", b"---\na: " + content + b"\n---\n"):
        refusal = ""
        try:
            found, text = front_matter(whole)
        except BadYaml as error:
            refusal = str(error)
        else:
            assert type(found) is dict and type(text) is str
        assert refusal == "" or refusal.isprintable()


_YAML = st.text(st.sampled_from("ab:-#'\"\\|>[]{}, \n\t&*!?1.0"), max_size=60)


@given(_YAML)
@examples(1_000)
def test_any_text_is_read_or_refused(yaml: str) -> None:
    refusal = ""
    try:
        fields(yaml)
    except BadYaml as error:
        refusal = str(error)
    assert refusal == "" or refusal.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        "a: " + " " * 60_000 + "x #",
        "a: [" + " " * 60_000 + "#",
        "a: '" + "'" * 60_000,
        "a: |\n" * 9_000,
        "a: " + "[" * 60_000,
        "a: " + "{x: " * 15_000,
        "a: [" + "x," * 30_000 + "]",
        "a: [" + "{x: 'y'}," * 6_000 + "]",
        "- " * 30_000,
        "? " * 30_000,
        "a: &x [" + "*x," * 20_000 + "]",
        'a: "' + "\\x41" * 15_000 + '"',
        "a: '" + "\n" * 60_000 + "'",
        "".join(f"a{n}: 'b'\n" for n in range(6_000)),
    ],
)
def test_hostile_front_matter_takes_no_longer_than_its_size(line: str) -> None:
    began = time.process_time()
    try:
        fields(line[:65_000])
    except BadYaml:
        pass
    assert time.process_time() - began < 5.0
