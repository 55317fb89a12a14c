"""What a record shows of arguments and texts: secrets are not in it, and it has an end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError
from mcp_client.audit import Redaction
from mcp_client.audit.options import redaction_of
from mcp_client.audit.redaction import KEYS, PATTERNS, REDACTED, marked

SECRET = "c0rrect-h0rse-b4ttery"
redaction = Redaction()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def show(value: Any, schema: Any = None) -> Any:
    return redaction.show(value, schema).value


# ---------------------------------------------------------------------- by name


@pytest.mark.parametrize(
    "key",
    [
        *("password", "PASSWORD", "Password", "db_password", "dbpassword", "passwordHash"),
        *("api_key", "API-Key", "apiKey", "x-api-key", "X_API_KEY", "OPENAI_API_KEY", "apikey"),
        *(
            "token",
            "accessToken",
            "access_token",
            "ACCESS-TOKEN",
            "idtoken",
            "token2",
            "githubToken",
        ),
        *("Authorization", "proxy-authorization", "auth", "Cookie", "Set-Cookie", "sessionid"),
        *("client_secret", "clientSecret", "secrets", "credentials", "aws_secret_access_key"),
        *(
            "private_key",
            "privateKey",
            "SSHKey",
            "pwd",
            "user.pwd",
            "pin",
            "card pin",
            "otp",
            "CVV",
        ),
        *(
            "refresh_tokens",
            "".join(chr(ord(c) + 0xFEE0) for c in "password"),
            "connectionString",
            "jwt",
        ),
    ],
)
def test_a_value_under_a_secret_name_is_left_out(key: str) -> None:
    for value in (SECRET, [SECRET], {"any": SECRET}, 123456, 1.5):
        assert show({"deep": [{key: value}]}) == {"deep": [{key: REDACTED}]}


@pytest.mark.parametrize(
    "key",
    [
        *(
            "max_tokens",
            "tokenizer",
            "author",
            "authority",
            "pinned",
            "spin",
            "passenger",
            "compass",
        ),
        *(
            "secretary",
            "monkey",
            "key",
            "keyboard",
            "location",
            "cookiecutter",
            "bearing",
            "passage",
        ),
        *("", "…", "12", "ключ"),
    ],
)
def test_a_value_under_a_name_that_only_resembles_a_secret_is_shown(key: str) -> None:
    assert show({key: "plain"}) == {key: "plain"}


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_a_value_that_cannot_be_a_secret_is_shown_under_any_name(value: Any) -> None:
    assert show({"password": value}) == {"password": value}


# ---------------------------------------------------------------------- by look

LOOKS = [
    ("Bearer abcdefghijklmnop0123", "Bearer [redacted]"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
    ("Authorization: hunter2\nAccept: */*", "Authorization: [redacted]\nAccept: */*"),
    ("curl -H 'Authorization: Token hunter2' x", "curl -H 'Authorization: Token [redacted]' x"),
    ("at eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln end", "at [redacted] end"),
    ("sk-abcdefghijklmnopqrst", "[redacted]"),
    ("sk-ant-api03-abcdefghijklmnop", "[redacted]"),
    ("key=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "key=[redacted]"),
    ("github_pat_11ABCDEFG0123456789_abc", "[redacted]"),
    ("glpat-abcdefghijklmnopqrst", "[redacted]"),
    ("xoxb-1234567890-abcdefghijk", "[redacted]"),
    ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"),
    ("postgres://ana:hunter2@db.example/x", "postgres://[redacted]@db.example/x"),
    ("https://x.example/?a=1&access_token=hunter2&b=2", "https://x.example/?a=1&access_token="),
    ("https://x.example/?X-Amz-Signature=abc&b=2", "https://x.example/?X-Amz-Signature=[redacted]"),
    ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted] psql"),
    ('{"password": "hunter2"}', '{"password": "[redacted]"}'),
    ("run --db-password hunter2 -v", "run --db-password [redacted] -v"),
    (
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
        "a\n[redacted]\nb",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIE never ends", "[redacted]"),
]


@pytest.mark.parametrize(("text", "displayed"), LOOKS)
def test_what_looks_like_a_secret_is_left_out_of_every_string(text: str, displayed: str) -> None:
    assert redaction.text(text).startswith(displayed)
    assert show([text]) == [redaction.text(text)]
    assert show({text: None}) == {redaction.text(text): None}
    assert "hunter2" not in redaction.text(text)


@pytest.mark.parametrize(
    "text",
    [
        *("New York", "the bearer of bad news", "a basic understanding of characteristics"),
        *("sk-short", "d670460b4b4aece5915caf5c68d12f560a9fe3e4", "https://example.com/a?page=2"),
        *("use max_tokens", "-----BEGIN CERTIFICATE-----", "mailto:a@b.example", "12:30@noon"),
    ],
)
def test_ordinary_text_is_shown(text: str) -> None:
    assert redaction.text(text) == text


# ------------------------------------------------------------ by the tool's word

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "plain": {"type": "string"},
        "iban": {"type": "string", "writeOnly": True},
        "word": {"type": "string", "format": "password"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/person"}},
        "pair": {"prefixItems": [{"type": "string"}, {"writeOnly": True}]},
        "choice": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/hidden"}]},
        "far": {"$ref": "https://example.com/schema.json"},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "$defs": {
        "person": {"properties": {"name": {}, "number": {"writeOnly": True}}},
        "hidden": {"format": "password"},
        "tree": {"properties": {"leaf": {"writeOnly": True}, "next": {"$ref": "#/$defs/tree"}}},
    },
}


def test_what_the_schema_marks_is_left_out_wherever_it_is() -> None:
    value = {
        "plain": "shown",
        "iban": SECRET,
        "word": SECRET,
        "list": [{"name": "Ana", "number": 1}, {"number": SECRET, "name": "Bo"}],
        "pair": ["shown", SECRET],
        "choice": SECRET,
        "far": SECRET,
        "tree": {"leaf": SECRET, "next": {"next": {"leaf": SECRET, "other": "shown"}}},
        "unknown": "shown",
    }
    assert show(value, SCHEMA) == {
        "plain": "shown",
        "iban": REDACTED,
        "word": REDACTED,
        "list": [{"name": "Ana", "number": REDACTED}, {"number": REDACTED, "name": "Bo"}],
        "pair": ["shown", REDACTED],
        "choice": REDACTED,
        "far": REDACTED,
        "tree": {"leaf": REDACTED, "next": {"next": {"leaf": REDACTED, "other": "shown"}}},
        "unknown": "shown",
    }


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="its re needs memory for each word")
def test_long_text_takes_no_memory_for_each_word() -> None:
    text, redaction = "a " * 500_000, Redaction()
    assert redaction._clean(text[:100])[0] == text[:100]  # what is loaded once is loaded
    tracemalloc.start()
    try:
        assert redaction._clean(text)[0] == text
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("word", ["patternProperties", "additionalProperties"])
def test_marks_of_members_that_are_not_named_one_by_one_count(word: str) -> None:
    mark: Any = {"writeOnly": True}
    schema = {word: {"^x-": mark} if word == "patternProperties" else mark}
    assert show({"x-any": SECRET}, schema) == {"x-any": REDACTED}


def test_marks_in_what_holds_only_under_a_condition_count() -> None:
    hidden = {"properties": {"x": {"writeOnly": True}}}
    for schema in (
        {"if": {}, "then": hidden},
        {"if": {}, "else": hidden},
        {"allOf": [{"oneOf": [hidden]}]},
        {"dependentSchemas": {"y": hidden}},
    ):
        assert show({"x": SECRET, "y": 1}, schema) == {"x": REDACTED, "y": 1}


def test_a_schema_too_complex_to_follow_leaves_the_whole_value_out() -> None:
    schema = {"allOf": [{"title": str(n)} for n in range(100)], "properties": {"x": {}}}
    assert show({"x": SECRET}, schema) == REDACTED


def test_a_schema_with_a_mark_is_distinguished_from_one_without() -> None:
    assert marked(SCHEMA)
    assert marked({"properties": {"a": {"items": [{"format": "password"}]}}})
    assert not marked({"properties": {"a": {"format": "email", "writeOnly": False}}})
    assert not marked(True)


# ---------------------------------------------------------------------- bounded


def test_a_long_string_is_cut_and_reports_it() -> None:
    text = show(["x" * 100_000])[0]
    assert text == "x" * 1_000 + "… (100000 characters)"


def test_a_secret_that_the_cut_goes_through_is_not_shown_in_part() -> None:
    for start in range(900, 1_001, 5):
        text = "a" * start + " sk-" + "Z" * 50_000
        assert "ZZ" not in redaction.text(text, 1_000)


@given(st.integers(0, 6_000), st.sampled_from(["eyJ", "sk-", "Bearer "]), st.integers(20, 9_000))
def test_truncation_at_any_position_shows_no_part_of_a_secret(
    before: int, kind: str, size: int
) -> None:
    text = "- " * (before // 2) + kind + "Z" * size + " and on" * 200
    assert "ZZ" not in redaction.text(text, 1_000)
    assert "ZZ" not in json.dumps(show([text]))


@pytest.mark.parametrize(
    "value",
    [
        {str(n): n for n in range(100_000)},
        list(range(100_000)),
        [["x" * 900] * 100] * 100,
        {"password" + str(n): "x" for n in range(100_000)},
        ["x" * 10_000_000] * 100,
    ],
    ids=["members", "items", "nested", "secrets", "long strings"],
)
def test_what_is_shown_of_a_large_value_is_small_and_states_what_is_missing(value: Any) -> None:
    displayed = json.dumps(show(value), ensure_ascii=False)
    assert len(displayed) < 40_000
    assert "…" in displayed


def test_a_value_nested_without_end_is_shown_to_a_depth() -> None:
    value: Any = "bottom"
    for _ in range(900):
        value = [value]
    displayed = json.dumps(show(value))
    assert "nested too deep" in displayed
    assert "bottom" not in displayed


def test_names_that_are_alike_once_they_are_cut_lose_no_member() -> None:
    displayed = show({"x" * 2_000 + str(n): n for n in range(3)})
    assert sorted(displayed.values()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1, 2}, "[set]"),
        (b"bytes", "[bytes]"),
        (float("nan"), "[nan]"),
        (float("-inf"), "[-inf]"),
        (10**100, "[a number of 333 bits]"),
        (object, "[type]"),
    ],
)
def test_a_value_that_is_not_json_is_shown_as_its_type(value: Any, expected: str) -> None:
    assert show({"x": value}) == {"x": expected}


UNITS = (
    ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----BEGIN A"),
    ("bearer ", "Bearer\t"),
    ("eyJ", "eyJaaaaaaaaaaaaaaaaaaaa."),
    ("sk-", "sk-aaaaaaaaaaaaaaaaaaaa "),
    ("npm_", "hf_a"),
    ("AKIA",),
    ("M.", "MAAAAAAAAAAAAAAAAAAAAAAAAA.", "a."),
    ("1:", "12345678:a"),
    ("://", "://a:", "://a:b", "://a:b@"),
    ("http://", "http://a", "http://a@"),
    ("://", "://aaaaaaaaaaaaaaaaaaaaaaa"),
    ("?a", "?signature", "?key="),
    ("https://hook", "https://hooks.a/"),
    ("https://a/hook", "https://a/", "hook/"),
    ("https://a/bot", "https://a/bot1"),
    ("-u ", "-u a", "-u a:"),
    ("curl ", "curl -u", "curl -ua"),
    ("mysql ", "mysql -p", " -p"),
    ("login ", "login a ", "login a password "),
)
"""For each of ``PATTERNS`` in turn, what may lead it astray where there is much of it."""
NOTATIONS = (
    *("=", ":", "a:", "a=", "token=", "token: ", '"token":"', '"token": {', "token=[", "[", "{"),
    *('\\"token\\":', "'token',", "Cookie: ", "x-a: ", "name: token ", "name: token value: ", "{'"),
    *("--token ", "--token a", "<token>", "<token>a</", "<name>token</name>", "a;token=a b;", "`"),
    *(
        "%41",
        "%",
        "&amp;",
        "&",
        "\\u0041",
        "YWJjZGVmZ2hpamtsbW5vcHFy ",
        '{"a":',
        "[1,",
        '["token",',
    ),
    *("'token=", "-u", "a b c ", '\\\\\\"token\\\\\\":'),
)
"""Likewise for the names of secrets in a text."""
LINEAR = f"""
import resource
from mcp_client.audit import Redaction
from mcp_client.audit.secret_text import find_named
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
redaction = Redaction()
for pattern, units in zip(redaction._patterns, {UNITS!r}, strict=True):
    for unit in ("a", " ", *units):
        text = unit * (100_000 // len(unit))
        pattern.sub("", text)
redaction._names.is_secret("aB" * 300_000)
for unit in {NOTATIONS!r}:
    text = unit * (60_000 // len(unit))
    find_named(text, redaction._names)
    redaction.show([text[:20_000]])
    redaction.text(text, 5_000, ["secret" * 9, text[:3_000]])
print("done")
"""


@pytest.mark.slow
def test_no_text_takes_more_than_linear_time() -> None:
    """Takes a few seconds of a processor; were one pattern quadratic, it would be minutes."""
    done = subprocess.run([sys.executable, "-c", LINEAR], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("done\n", 0)


@given(json_values)
def test_whatever_is_shown_is_json_and_bounded(value: Any) -> None:
    displayed = redaction.show(value, SCHEMA).value
    assert len(json.dumps(displayed, allow_nan=False)) < 120_000


PLAIN_NAMES = ["text", "name", "value", "n", "max_tokens", "Id", "token", "password", "label"]
PLAIN_VALUES = st.sampled_from(
    [
        "hello",
        "",
        "Oslo, now",
        "token",
        "api key",
        "12",
        "a:b",
        "x=1",
        '"',
        "\u00e9",
        "1234567890123456",
    ]
) | st.text('ab1 .,-_:=\\"<&;/', max_size=30)


@given(
    st.dictionaries(
        st.sampled_from(PLAIN_NAMES) | st.text("aZ_1-", min_size=1, max_size=50),
        PLAIN_VALUES | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none(),
        max_size=5,
    )
)
def test_arguments_that_are_known_to_be_shown_are_shown_as_they_are(value: Any) -> None:
    """``shows`` is a short way for plain arguments: it must agree with the whole way."""
    if redaction.shows(json.dumps(value, separators=(",", ":"), ensure_ascii=False)):
        found = redaction.show(value)
        assert (found.value, found.hidden, found.pointers, found.count) == (value, [], [], 0)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ('{"text":"hello"}', True),
        ('{"city":"Oslo, Norway","days":-3,"exact":true,"limit":0.5,"unit":null}', True),
        ('{"name":"token","value":"hunter"}', False),  # one names the other
        ('{"pin":"1234"}', False),
        ('{"text":"password hunter"}', False),
        ('{"text":"it has\\nlines"}', False),
        ('{"text":{"a":1}}', False),
        ('{"text":"' + "ab " * 400 + '"}', False),
        ("{}", False),
    ],
)
def test_short_plain_arguments_are_known_to_be_shown(text: str, known: bool) -> None:
    assert redaction.shows(text) is known
    assert not Redaction(patterns=[*PATTERNS, "hello"]).shows(text)
    assert not redaction_of(lambda value: value).shows(text)


@given(st.sampled_from(sorted(KEYS)), json_values, st.text(min_size=6))
def test_a_secret_under_a_secret_name_is_never_shown(key: str, value: Any, secret: str) -> None:
    planted = f"{SECRET}{secret}"
    displayed = redaction.show({"a": [value, {key: planted}], key: {"b": [planted]}})
    assert SECRET not in json.dumps(displayed.value, ensure_ascii=False)
    text = redaction.text(f"no user has {planted}", hidden=displayed.hidden)
    assert SECRET not in text


def test_what_moves_up_as_secrets_before_it_are_left_out_is_not_shown_in_part() -> None:
    first = "-----BEGIN PRIVATE KEY-----" + "A" * 5_000 + "-----END PRIVATE KEY-----"
    for gap in range(1, 60):
        assert "ZZ" not in redaction.text(first + " " * gap + "sk-" + "Z" * 9_000, 1_000)


# -------------------------------------------------------------------- replaced


def test_names_and_patterns_may_be_replaced() -> None:
    own = Redaction(keys={*KEYS, "IBAN number"}, patterns=[*PATTERNS, r"\bDE\d{20}\b"])
    displayed = own.show({"ibanNumber": "x", "text": "DE" + "1" * 20, "token": "x", "city": "Oslo"})
    assert displayed.value == {
        "ibanNumber": REDACTED,
        "text": REDACTED,
        "token": REDACTED,
        "city": "Oslo",
    }
    none = Redaction(keys=(), patterns=[re.compile("(?P<keep>a)b")])
    assert none.show({"token": "ab", "x": "cab d"}).value == {"token": "ab", "x": "ca[redacted] d"}


def test_a_function_may_take_its_place_and_is_still_bounded() -> None:
    own = redaction_of(
        lambda arguments: {"only": arguments["city"], "token": "shown", "l": "x" * 9999}
    )
    displayed = own.show({"city": "Oslo"}).value
    assert displayed["only"] == "Oslo"
    assert displayed["token"] == "shown"
    assert len(displayed["l"]) < 1_100


@pytest.mark.parametrize(
    "options", [{"patterns": ["("]}, {"patterns": [1]}, {"patterns": "abc"}, {"keys": "abc"}]
)
def test_invalid_options_are_refused_at_once(options: Any) -> None:
    with pytest.raises(ConfigError):
        Redaction(**options)


def test_neither_a_function_nor_a_redaction_is_refused() -> None:
    with pytest.raises(ConfigError):
        redaction_of("password")


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ('[{"password": "hunter2"}] and more', '[{"password": "[redacted]"}] and more'),
        ('password: {"a": ["hunter2", "}"]} end', "password: [redacted] end"),
        ("password: {never closed hunter2", "password: [redacted]"),
        ("password: 'never closed hunter2", "password: '[redacted]"),
        ("X-Api-Key:", "X-Api-Key:"),
        ("X-Api-Key:\nnext", "X-Api-Key:\nnext"),
        ("run --token", "run --token"),
        ("run --token ", "run --token "),
        ("secret: 'hunter'", "secret: '[redacted]'"),
        ('PIN: "12"', 'PIN: "[redacted]"'),
        ("https://a:hunter2@x/?token=hunter2@b", "https://[redacted]"),
    ],
)
def test_where_a_secret_in_a_text_ends(text: str, displayed: str) -> None:
    assert show(text) == displayed


def test_json_in_json_is_looked_through_to_a_depth_and_then_left_out() -> None:
    text: Any = {"password": SECRET}
    for _ in range(12):
        text = json.dumps([text])
        assert SECRET not in json.dumps(show({"a": text}))


def test_of_many_brackets_in_a_text_the_first_are_looked_at() -> None:
    text = "[" * 1_000 + json.dumps({"password": SECRET})
    assert SECRET not in show(text)


@pytest.mark.parametrize("reference", ["other.json#/a", "#name", "#/nowhere", "#/a/b/%zz", 7])
def test_a_value_whose_schema_cannot_be_found_is_left_out(reference: Any) -> None:
    schema = {"properties": {"x": {"$ref": reference}, "y": {"$ref": "#/$defs/a%20b"}}}
    found = {**schema, "$defs": {"a b": {"type": "string"}}}
    assert show({"x": SECRET, "y": "shown"}, found) == {"x": REDACTED, "y": "shown"}
    assert show({"x": {"x": "shown"}}, {"properties": {"x": {"$ref": "#"}}}) == {
        "x": {"x": "shown"}
    }
