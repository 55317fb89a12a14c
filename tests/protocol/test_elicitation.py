"""A form: the content of its restricted schema, and which responses it allows."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.elicitation import Choice, Form, NotAForm, Wrong, form_of
from mcp_client.protocol.uris import NotOpenable, address_of, host_warnings
from tests.support.properties import examples


def one(schema: Any, *, titled: bool = True, required: bool = False) -> Form:
    properties = {"f": schema}
    names = ["f"] if required else []
    return form_of({"type": "object", "properties": properties, "required": names}, titled=titled)


NAMES = {"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]}
ONE_OF = {
    "type": "string",
    "oneOf": [{"const": "a", "title": "Ay"}, {"const": "b", "title": "Bee"}],
}
MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1}
MANY_TITLED = {"type": "array", "items": {"anyOf": ONE_OF["oneOf"]}, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "x"], [1, None, True, ["x"], {}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a", "@b", "a@", "a b@c.d"]),
        ({"type": "string", "format": "uri"}, ["https://a.b/c?d", "urn:x"], ["a b", "/x", "x"]),
        (
            {"type": "string", "format": "date"},
            ["2024-02-29"],
            ["2023-02-29", "24-01-01", "2024-1-1", "20240101", "٢٠٢٤-01-01"],
        ),
        (
            {"type": "string", "format": "date-time"},
            ["2024-02-29T23:59:60Z", "2024-01-01T00:00:00.5+01:30"],
            ["2024-01-01", "2024-01-01T24:00:00Z", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00"],
        ),
        ({"type": "string", "format": "unheard-of"}, ["anything"], [7]),
        ({"type": "number", "minimum": 0, "maximum": 2.5}, [0, 2.5, 1], [-1, 3, "1", True]),
        ({"type": "number"}, [0.1], [float("nan"), float("inf")]),
        ({"type": "integer"}, [1, 2.0, -3], [1.5, "1", False]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        (NAMES, ["a"], ["Ay", "c", 1]),
        (ONE_OF, ["b"], ["Bee", ""]),
        (MANY, [["a"], ["b", "a"], ("a",)], [[], "a", ["c"], [1], {"a": 1}]),
        (MANY_TITLED, [[], ["a"]], [["a", "b"], ["Ay"], "b"]),
    ],
)
def test_each_kind_allows_what_it_documents_and_nothing_else(
    schema: Any, good: list[Any], bad: list[Any]
) -> None:
    form = one(schema)
    for value in good:
        expected = list(value) if isinstance(value, tuple) else value
        assert form.checked({"f": value}) == {"f": expected}
    for value in bad:
        with pytest.raises(Wrong, match="'f'"):
            form.checked({"f": value})


DEFS = {
    "Size": {"type": "string", "enum": ["s", "m"], "title": "Size"},
    "Again": {"$ref": "#/$defs/Size"},
    "One": {"const": "a", "title": "Ay"},
}


@pytest.mark.parametrize(
    ("schema", "kind", "good", "bad"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string", "x", 7),
        ({"oneOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]}, "integer", 1, 0),
        ({"type": ["string", "null"], "maxLength": 1}, "string", "x", "xy"),
        ({"type": ["null", "boolean"], "default": None}, "boolean", True, "yes"),
        ({"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]}, "choice", "s", "l"),
        ({"enum": ["a", "b", None]}, "choice", "a", "c"),
        (
            {"type": ["string", "null"], "enum": ["a", None], "enumNames": ["A", "-"]},
            "choice",
            "a",
            "A",
        ),
        ({"anyOf": [*ONE_OF["oneOf"], {"const": None}]}, "choice", "b", "Bee"),
        ({"anyOf": [MANY, {"type": "null"}]}, "choices", ["a"], ["c"]),
        (
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "texts",
            ["x"],
            "x",
        ),
    ],
)
def test_a_type_or_null_is_a_field_that_may_be_left_out(
    schema: Any, kind: str, good: Any, bad: Any
) -> None:
    for required in (False, True):
        names = ["f"] if required else []
        whole = {"type": "object", "properties": {"f": schema}, "required": names, "$defs": DEFS}
        form = form_of(whole)
        (found,) = form.fields
        assert (found.kind, found.required) == (kind, False)
        assert found.raw == schema
        left_out = {"f": None} if required else {}
        assert form.checked({}) == left_out
        assert form.checked({"f": good}) == {"f": good}
        with pytest.raises(Wrong, match="'f'"):
            form.checked({"f": bad})
        if required:
            assert form.checked({"f": None}) == left_out
        assert jsonschema.Draft202012Validator(whole).is_valid(form.checked({}))


@pytest.mark.parametrize(
    ("schema", "kind", "good", "bad"),
    [
        ({"$ref": "#/$defs/Size"}, "choice", "s", "l"),
        ({"$ref": "#/$defs/Again", "title": "Own"}, "choice", "s", "l"),
        ({"allOf": [{"$ref": "#/$defs/Size"}], "default": "s"}, "choice", "m", "l"),
        ({"enum": ["a", "b"]}, "choice", "a", "c"),
        ({"anyOf": [{"const": "a"}, {"$ref": "#/$defs/One"}]}, None, None, None),
        ({"anyOf": [{"const": "a"}, {"const": "b", "title": "Bee"}]}, "choice", "b", "Bee"),
        ({"type": "array", "items": {"$ref": "#/$defs/Size"}}, "choices", ["s"], ["l"]),
        ({"type": "array", "items": {"type": "string"}}, "texts", ["x", "y"], ["x", 1]),
        (
            {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1},
            "texts",
            ["a@b.c"],
            [],
        ),
        ({"type": "array", "items": {"type": "string", "maxLength": 2}}, "texts", ["ab"], ["abc"]),
    ],
)
def test_what_means_a_plain_field_is_one(schema: Any, kind: Any, good: Any, bad: Any) -> None:
    whole = {"type": "object", "properties": {"f": schema}, "required": ["f"], "$defs": DEFS}
    if kind is None:
        with pytest.raises(NotAForm, match="'f'"):
            form_of(whole)
        return
    form = form_of(whole)
    assert (form.fields[0].kind, form.fields[0].required) == (kind, True)
    assert form.checked({"f": good}) == {"f": good}
    for wrong in (bad, None):
        with pytest.raises(Wrong, match="'f'"):
            form.checked({"f": wrong})


def test_the_whole_schema_may_be_behind_a_reference_and_lack_what_is_null() -> None:
    form = {"type": "object", "properties": {"f": {"type": "string"}}, "required": None}
    assert form_of({"$ref": "#/$defs/Form", "$defs": {"Form": form}}).fields[0].name == "f"
    assert form_of({"type": "object", "properties": None}).fields == ()


def test_references_without_end_and_nested_objects_are_refused_by_name() -> None:
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    for schema in ({"$ref": "#/$defs/a"}, {"type": "object"}, {"anyOf": [{"type": "object"}]}):
        with pytest.raises(NotAForm, match="'place'"):
            form_of({"type": "object", "properties": {"place": schema}, "$defs": circle})


@pytest.mark.parametrize(
    "word",
    ["enum", "enumNames", "oneOf", "anyOf", "allOf", "not", "$ref", "if", "items", "properties"],
)
def test_a_member_that_is_null_is_one_that_is_left_out(word: str) -> None:
    assert one({"type": "string", word: None}).fields[0].kind == "string"
    assert one({**NAMES, "oneOf": None, "items": None}).fields[0].kind == "choice"
    optional = {"anyOf": [{"type": "string", word: None}, {"type": "null"}]}
    assert one(optional).fields[0].kind == "string"
    if word != "properties":
        assert form_of({"type": "object", "properties": {}, word: None}).fields == ()


@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize("schema", [{"const": "a"}, {"type": ["string", "null"], "const": "a"}])
def test_a_constant_text_is_a_choice_of_one(schema: Any, titled: bool) -> None:
    field = one(schema, titled=titled).fields[0]
    assert (field.kind, field.choices) == ("choice", (Choice("a", "a"),))
    assert field.problem("b")


def test_choices_come_with_their_titles() -> None:
    for schema in (NAMES, ONE_OF, MANY_TITLED):
        assert one(schema).fields[0].choices == (Choice("a", "Ay"), Choice("b", "Bee"))
    assert one(MANY).fields[0].choices == (Choice("a", "a"), Choice("b", "b"))
    assert one({**NAMES, "enumNames": ["too few"]}).fields[0].choices[0].title == "a"


@pytest.mark.parametrize("schema", [ONE_OF, MANY, MANY_TITLED])
def test_the_revision_before_has_no_titled_choices_and_no_lists(schema: Any) -> None:
    with pytest.raises(NotAForm):
        one(schema, titled=False)
    assert one(NAMES, titled=False).fields[0].kind == "choice"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "object",
        {"type": "array"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {}, "required": ["f"]},
        {"type": "object", "properties": {}, "required": "f"},
        {"type": "object", "properties": {"f": {"type": "string"}}, "allOf": []},
        {"type": "object", "properties": {str(n): {"type": "string"} for n in range(201)}},
        *(
            {"type": "object", "properties": {"f": schema}}
            for schema in (
                {},
                True,
                {"type": "object"},
                {"type": "object", "properties": {}},
                {"type": "null"},
                {"type": ["string", "integer"]},
                {"type": ["null"]},
                {"type": "array"},
                {"type": "array", "items": {"type": "integer", "enum": [1]}},
                {"type": "array", "items": {"type": "array"}},
                {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                {"anyOf": [{"type": "object"}, {"type": "null"}]},
                {"anyOf": [{"type": "null"}]},
                {"type": "string", "$ref": "#/x"},
                {"$ref": "https://example.com/x"},
                {"$ref": "#/properties/f"},
                {"allOf": [{"type": "string"}, {"type": "string"}]},
                {"type": "string", "enum": []},
                {"type": "string", "enum": [1]},
                {"type": "string", "enum": "ab"},
                {"type": "string", "oneOf": [{"title": "no const"}]},
                {"type": "string", "oneOf": ["a"]},
                {"type": "string", "oneOf": []},
                {"type": "string", "oneOf": {"const": "a"}},
                {"type": "string", "oneOf": [{"const": "a"}] * 10_001},
                {"type": "integer", "oneOf": [{"const": 1}]},
            )
        ),
    ],
)
def test_what_is_not_a_flat_form_is_refused(schema: Any) -> None:
    with pytest.raises(NotAForm):
        form_of(schema)


def test_a_default_is_filled_in_unless_the_field_forbids_it() -> None:
    sound = one({"type": "integer", "default": 3, "minimum": 1}, required=True)
    assert sound.defaults == {"f": 3}
    assert sound.checked({}) == {"f": 3}
    assert sound.checked({"f": 4}) == {"f": 4}
    with pytest.raises(Wrong, match="required"):
        sound.checked({}, fill=False)
    forbidden = one({"type": "integer", "default": 0, "minimum": 1})
    assert forbidden.defaults == {}
    assert forbidden.checked({}) == {}
    assert one({"type": "boolean", "default": False}).checked({}) == {"f": False}


def test_what_the_form_does_not_ask_for_is_not_sent() -> None:
    with pytest.raises(Wrong, match="no field 'g'"):
        one({"type": "string"}).checked({"f": "x", "g": "secret"})


def test_a_wrong_response_is_named_by_its_field_and_not_shown() -> None:
    with pytest.raises(Wrong) as caught:
        one({"type": "integer"}).checked({"f": "hunter2"})
    assert "hunter2" not in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
_SCHEMAS = st.one_of(
    st.just({"type": "boolean"}),
    st.builds(
        lambda kind, low, high: {"type": kind, "minimum": low, "maximum": high},
        st.sampled_from(["integer", "number"]),
        st.integers(-3, 3),
        st.integers(-3, 3),
    ),
    st.builds(
        lambda low, high: {"type": "string", "minLength": low, "maxLength": high},
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    st.sampled_from([NAMES, ONE_OF, MANY, MANY_TITLED]),
)
_VALUES = _JSON | st.sampled_from(["a", "b", ["a"], ["a", "b"], [], 1, 2.0, True])


@examples(300)
@given(schema=_SCHEMAS, value=_VALUES)
def test_a_form_and_json_schema_agree_on_every_value(schema: dict[str, Any], value: Any) -> None:
    whole = {"type": "object", "properties": {"f": schema}, "required": ["f"]}
    try:
        form_of(whole).checked({"f": value})
        allowed = True
    except Wrong:
        allowed = False
    assert allowed == jsonschema.Draft202012Validator(whole).is_valid({"f": value})


@examples(300)
@given(schema=_JSON, properties=st.dictionaries(st.text(max_size=3), _JSON | _SCHEMAS, max_size=3))
def test_any_schema_is_a_form_or_none(schema: Any, properties: Any) -> None:
    for candidate in (schema, {"type": "object", "properties": properties}):
        try:
            form = form_of(candidate)
        except NotAForm:
            continue
        assert all(field.problem(field.default) is None for field in form.fields if field.default)


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("host", ["é" * 64, "é..b", "\ud800"])
def test_what_is_not_a_host_name_is_reported_of_a_host(host: str) -> None:
    assert host_warnings(host) == ("its host is not a valid host name",)


def test_an_ordinary_host_has_no_warning() -> None:
    assert host_warnings("login.example.com.") == ()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/x?y=1#z", "example.com"),
        ("https://example.com./", "example.com"),
        ("http://localhost:8000/", "localhost"),
        ("http://127.0.0.1:1/", "127.0.0.1"),
        ("http://[::1]:3/", "::1"),
    ],
)
def test_an_ordinary_url_comes_without_a_warning(url: str, host: str) -> None:
    address = address_of(url)
    assert (address.host, address.warnings) == (host, ())


@pytest.mark.parametrize(
    ("url", "host", "words"),
    [
        ("https://google.com@evil.com/", "evil.com", "before the @"),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", "punycode"),
        ("https://\u0430pple.com/", "xn--pple-43d.com", "cyrillic, latin"),
        ("https://b\u00fccher.de/", "xn--bcher-kva.de", "outside ASCII"),
        ("https://\uff47oogle.com/", "google.com", "outside ASCII"),
        ("https://xn--\u00e4\u00e4.com@a.xn--0/", "a.xn--0", "punycode"),
        ("https://2130706433/", "2130706433", "a number"),
        ("https://10.0.0.1/", "10.0.0.1", "a number"),
        ("https://[::2]/", "::2", "a number"),
        ("https://intranet/", "intranet", "local network"),
        ("https://example.com/\u0430", "example.com", "outside ASCII"),
    ],
)
def test_what_may_mislead_is_reported(url: str, host: str, words: str) -> None:
    address = address_of(url)
    assert address.host == host
    assert words in " ".join(address.warnings)
    assert all(warning.isprintable() for warning in address.warnings)


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "",
        "example.com",
        "http://example.com/",
        "http://127.0.0.1.evil.com/",
        "http://localhost.evil.com/",
        "http://localhost@evil.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://",
        "https:///path",
        "https://exa mple.com",
        "https://evil.com\\@good.com",
        "https://%67oogle.com/",
        "https://a.com/\u202egpj",
        "https://a.com/\n",
        "\thttps://a.com/",
        "https://a.com:99999/",
        "https://[::1",
        "https://a.com/" + "x" * 9000,
        "https://" + "\u00e4" * 100 + ".de",
    ],
)
def test_a_url_that_is_unsafe_to_open_is_refused(url: Any) -> None:
    with pytest.raises(NotOpenable):
        address_of(url)


@examples(300)
@given(st.text(max_size=30), st.sampled_from(["", "https://", "http://", "https://a.com/"]))
def test_any_text_is_an_address_or_none(text: str, start: str) -> None:
    try:
        address = address_of(start + text)
    except NotOpenable:
        return
    assert address.host.isascii()
    assert address.host
