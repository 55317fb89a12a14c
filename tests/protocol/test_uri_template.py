"""URI templates: the RFC's own table, and what a value can never do."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.uris import BadTemplate, expand, variables

VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

# RFC 6570, section 3.2, in the order of its subsections.
TABLE = """
{count} one,two,three
{count*} one,two,three
{/count} /one,two,three
{/count*} /one/two/three
{;count} ;count=one,two,three
{;count*} ;count=one;count=two;count=three
{?count} ?count=one,two,three
{?count*} ?count=one&count=two&count=three
{&count*} &count=one&count=two&count=three
{var} value
{hello} Hello%20World%21
{half} 50%25
O{empty}X OX
O{undef}X OX
{x,y} 1024,768
{x,hello,y} 1024,Hello%20World%21,768
?{x,empty} ?1024,
?{x,undef} ?1024
?{undef,y} ?768
{var:3} val
{var:30} value
{list} red,green,blue
{list*} red,green,blue
{keys} semi,%3B,dot,.,comma,%2C
{keys*} semi=%3B,dot=.,comma=%2C
{+var} value
{+hello} Hello%20World!
{+half} 50%25
{base}index http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index http://example.com/home/index
O{+empty}X OX
O{+undef}X OX
{+path}/here /foo/bar/here
here?ref={+path} here?ref=/foo/bar
up{+path}{var}/here up/foo/barvalue/here
{+x,hello,y} 1024,Hello%20World!,768
{+path,x}/here /foo/bar,1024/here
{+path:6}/here /foo/b/here
{+list} red,green,blue
{+list*} red,green,blue
{+keys} semi,;,dot,.,comma,,
{+keys*} semi=;,dot=.,comma=,
{#var} #value
{#hello} #Hello%20World!
{#half} #50%25
foo{#empty} foo#
foo{#undef} foo
{#x,hello,y} #1024,Hello%20World!,768
{#path,x}/here #/foo/bar,1024/here
{#path:6}/here #/foo/b/here
{#list} #red,green,blue
{#list*} #red,green,blue
{#keys} #semi,;,dot,.,comma,,
{#keys*} #semi=;,dot=.,comma=,
{.who} .fred
{.who,who} .fred.fred
{.half,who} .50%25.fred
www{.dom*} www.example.com
X{.var} X.value
X{.empty} X.
X{.undef} X
X{.var:3} X.val
X{.list} X.red,green,blue
X{.list*} X.red.green.blue
X{.keys} X.semi,%3B,dot,.,comma,%2C
X{.keys*} X.semi=%3B.dot=..comma=%2C
X{.empty_keys} X
X{.empty_keys*} X
{/who} /fred
{/who,who} /fred/fred
{/half,who} /50%25/fred
{/who,dub} /fred/me%2Ftoo
{/var} /value
{/var,empty} /value/
{/var,undef} /value
{/var,x}/here /value/1024/here
{/var:1,var} /v/value
{/list} /red,green,blue
{/list*} /red/green/blue
{/list*,path:4} /red/green/blue/%2Ffoo
{/keys} /semi,%3B,dot,.,comma,%2C
{/keys*} /semi=%3B/dot=./comma=%2C
{;who} ;who=fred
{;half} ;half=50%25
{;empty} ;empty
{;v,empty,who} ;v=6;empty;who=fred
{;v,bar,who} ;v=6;who=fred
{;x,y} ;x=1024;y=768
{;x,y,empty} ;x=1024;y=768;empty
{;x,y,undef} ;x=1024;y=768
{;hello:5} ;hello=Hello
{;list} ;list=red,green,blue
{;list*} ;list=red;list=green;list=blue
{;keys} ;keys=semi,%3B,dot,.,comma,%2C
{;keys*} ;semi=%3B;dot=.;comma=%2C
{?who} ?who=fred
{?half} ?half=50%25
{?x,y} ?x=1024&y=768
{?x,y,empty} ?x=1024&y=768&empty=
{?x,y,undef} ?x=1024&y=768
{?var:3} ?var=val
{?list} ?list=red,green,blue
{?list*} ?list=red&list=green&list=blue
{?keys} ?keys=semi,%3B,dot,.,comma,%2C
{?keys*} ?semi=%3B&dot=.&comma=%2C
{&who} &who=fred
{&half} &half=50%25
?fixed=yes{&x} ?fixed=yes&x=1024
{&x,y,empty} &x=1024&y=768&empty=
{&var:3} &var=val
{&list*} &list=red&list=green&list=blue
{&keys} &keys=semi,%3B,dot,.,comma,%2C
{&keys*} &semi=%3B&dot=.&comma=%2C
"""
ROWS = [line.split(" ") for line in TABLE.strip().splitlines()]


def fill(template: str, **values: Any) -> str:
    return expand(template, values, longest=65_536)


@pytest.mark.parametrize(("template", "uri"), ROWS, ids=[row[0] for row in ROWS])
def test_each_row_of_the_table_in_the_rfc(template: str, uri: str) -> None:
    assert expand(template, VALUES, longest=1_000) == uri


def test_names_are_reported_once_each_and_in_order() -> None:
    assert variables("/a{/b,c*}{?b,d.e:3,%41}") == ("b", "c", "d.e", "%41")
    assert variables("no:names") == ()


@pytest.mark.parametrize(
    "template",
    [
        *("{", "}", "a{b", "a}b", "{{a}}", "{a}}", "{}", "{,}", "{a,}", "{a b}", "{a-b}", "{.}"),
        *("{=a}", "{!a}", "{@a}", "{|a}", "{a:0}", "{a:10000}", "{a:-1}", "{a:}", "{a**}", "{*a}"),
        *("{a.}", "{%4}", "{a\n}", "a\x00{b}", "x\u202ey"),
    ],
)
def test_what_is_not_a_template_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        variables(template)
    with pytest.raises(BadTemplate):
        fill(template, a="x", b="x")


def test_literals_are_encoded_and_triplets_are_not_encoded_twice() -> None:
    assert fill("x:/ä b/%20/%zz/{a}", a="%20") == "x:/%C3%A4%20b/%20/%25zz/%2520"
    assert fill("{+a}", a="%20 %zz") == "%20%20%25zz"


@pytest.mark.parametrize("value", [True, object(), b"x", float("nan"), float("inf"), [["a"]], {1}])
def test_a_value_that_cannot_be_in_a_uri_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="give strings, numbers"):
        fill("x:{a}", a=value)


def test_numbers_are_written_and_a_cut_is_for_one_text() -> None:
    assert fill("{a,b,c:2}", a=7, b=1.5, c=789) == "7,1.5,78"
    with pytest.raises(ValueError, match="cut to 2"):
        fill("{a:2}", a=["x"])
    with pytest.raises(ValueError, match="surrogate"):
        fill("{a}", a="\ud800")


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("file:///{a}", {"a": ".."}),
        ("file:///x/{a}/y", {"a": "."}),
        ("file:///{a}{b}/y", {"a": ".", "b": "."}),
        ("file:///.{a}/y", {"a": "."}),
        ("x:{/a*}", {"a": ["b", ".."]}),
        ("x:/{.a}", {"a": "."}),
        ("..{/a}", {"a": ".."}),
    ],
)
def test_a_value_cannot_make_a_step_of_the_path(template: str, values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="segment of the path"):
        fill(template, **values)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///../{a}", "file:///../..."),
        ("file:///{a}.txt", "file:///....txt"),
        ("file:///x{?a}", "file:///x?a=..."),
        ("file:///{+b}", "file:///../x"),
    ],
)
def test_dots_elsewhere_are_only_dots(template: str, uri: str) -> None:
    assert fill(template, a="...", b="../x") == uri


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_a_value_stays_in_its_place_whatever_it_is(value: str) -> None:
    uri = fill("scheme://host/a/x{value}x/b?c={value}&d", value=value)
    before, after = "scheme://host/a/x", "x/b?c="
    assert uri.startswith(before)
    inside = uri[len(before) :].split(after)[0]
    assert not set(inside) & set(":/?#[]@!$&'()*+,;= \\\"<>")
    assert unquote(inside) == value


@given(st.text("{}+#/;?&a,b:*1%é ", max_size=30), st.text("aé/?#% \n", max_size=5))
def test_any_template_is_expanded_or_refused(template: str, value: str) -> None:
    try:
        names = variables(template)
    except BadTemplate:
        return
    uri = fill(template, **dict.fromkeys(names, value))
    assert uri.isascii()
    assert not set(uri) & set('{} "<>')


def test_what_a_template_becomes_has_a_cap_that_is_reached_early() -> None:
    many = ",".join(["a"] * 100_000)
    with pytest.raises(ValueError, match="more than 65536 characters"):
        fill("{" + many + "}", a="x" * 1_000)


@pytest.mark.slow
def test_a_long_template_is_read_in_one_pass() -> None:
    assert variables("{a}" * 200_000) == ("a",)
    assert fill("a" * 60_000) == "a" * 60_000
    for odd in ("{" * 200_000, "{" + "a" * 200_000, "{" + "a." * 100_000 + "}"):
        with pytest.raises(BadTemplate):
            variables(odd)
