"""Patterns of ECMA-262 match for ``re`` what they match for a browser: the verdicts are Node's."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.validation.code_points import complement, merged, of_property
from mcp_client.validation.ecma_patterns import Untranslatable, translate
from mcp_client.validation.known_cost import simple_pattern
from tests.support.properties import examples

SAME: list[tuple[str, list[str], list[str]]] = [
    (r"^\p{L}+$", ["Zoë", "名前", "ß"], ["a1", "", "a b", "a\n"]),
    (r"^\p{Lu}\p{Ll}*$", ["Zoë", "Ä"], ["zoë", "名"]),
    (r"^\p{Letter}$", ["é"], ["1"]),
    (r"^\p{gc=Nd}+$", ["12", "٣"], ["a", "½"]),
    (r"^\p{General_Category=Decimal_Number}$", ["٣"], ["a"]),
    (r"^\P{L}+$", ["12 -"], ["1a"]),
    (r"^[\p{L}\p{N}_-]+$", ["Zoë-1_名"], ["a b", "a.b"]),
    (r"^[^\p{L}]$", ["1"], ["é"]),
    (r"^\p{P}$", ["!", "¿"], ["a", "+"]),
    (r"^\p{S}$", ["+", "€"], ["!"]),
    (r"^\p{Z}$", [" ", "\u3000"], ["\t"]),
    (r"^[\p{ASCII}]+$", ["az~"], ["é"]),
    (r"^\p{Any}$", ["é", "\n"], ["ab"]),
    (r"^\d+$", ["12"], ["٣", "12\n", ""]),
    (r"^\D$", ["٣", "a"], ["1"]),
    (r"^\w+$", ["a_1"], ["é", "a b"]),
    (r"^\W$", ["é", " "], ["a"]),
    (r"^\s$", ["\ufeff", "\u00a0", "\n"], ["\x1c", "\x85", "a"]),
    (r"^[\w-.]+$", ["a-b.c"], ["a b"]),
    (r"^[\w.-]+$", ["a-b.c"], ["a b"]),
    (r"^[a-\d]$", ["-", "a", "1"], ["b"]),
    (r"^[^\s\S]$", [], ["a", ""]),
    ("^a$", ["a"], ["a\n", "\na"]),
    (r"^\cA$", ["\x01"], ["A"]),
    (r"^[\cJ]$", ["\n"], ["J"]),
    ("^[^]$", ["a", "\n", "é"], ["", "ab"]),
    ("^a[]|b$", ["b"], ["a"]),
    (r"^\u{1F600}$", ["😀"], ["u"]),
    (r"^\ud83d\ude00$", ["😀"], ["?"]),
    (r"^\u00e9\x41$", ["éA"], ["e"]),
    (r"^[\u{61}-\u{63}]+$", ["abc"], ["d"]),
    (r"^(?<year>\d{4})-\k<year>$", ["1999-1999"], ["1999-2000"]),
    (r"^(?<a>x)|(?<b>y)$", ["x", "y"], ["z"]),
    (r"^(a)?\1b$", ["b", "aab"], ["ab"]),
    (r"^\1(a)$", ["a"], ["aa"]),
    (r"^(a\1)$", ["a"], ["aa"]),
    (r"^https?:\/\/x$", ["https://x"], ["https:/x"]),
    (r"^\-\_\@\#$", ["-_@#"], ["-"]),
    (r"^.$", ["a", "\x85"], ["\n", "\r", "\u2028"]),
    (r"\bé", ["aé"], ["é"]),
    (r"é\B", ["é"], ["éa"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^\0$", ["\0"], ["0"]),
    (r"^a{,3}$", ["aaa"], ["aaaa"]),
    ("^{a}]$", ["{a}]"], ["a"]),
    ("^(?:a|b){2,3}?$", ["ab", "aba"], ["a"]),
    ("(?=ab)a", ["ab"], ["ac"]),
    ("(?<!x)a", ["a"], ["xa"]),
    ("^(?i:a)b$", ["Ab"], ["AB"]),
    ("[[]", ["["], ["a"]),
    # What Python and Rust have, and no one means otherwise.
    (r"\Aab\Z", ["ab"], ["ab\n", "xab"]),
    (r"^(?P<a>x)(?P=a)$", ["xx"], ["x"]),
    ("(?i)^ab$", ["AB"], ["abc"]),
    (r"^a++$", ["aa"], ["ab"]),
]


@pytest.mark.parametrize(("source", "matches", "others"), SAME, ids=[row[0] for row in SAME])
def test_a_pattern_matches_what_it_matches_in_ecma_262(
    source: str, matches: list[str], others: list[str]
) -> None:
    search = re.compile(translate(source)).search
    assert [text for text in matches if search(text) is None] == []
    assert [text for text in others if search(text) is not None] == []


@pytest.mark.parametrize(
    "source",
    [
        *(r"\p{Script=Greek}", r"\p{Greek}", r"\p{Emoji}", r"\p{}", r"\p", r"[\p{Nope}]"),
        *("(", ")", "[", "a**", "*a", "a{2,1}", "a{99999999999}", "\\", "[b-a]", r"(?<=a+)b"),
        *("[[:alpha:]]", "[a--b]", r"(?<a>x)(?<a>y)", r"(?<a>x)\k<b>", r"(a)\2", r"\q"),
        *(r"(?:(a)|b)*\1", "(" * 400 + ")" * 400, r"(?x", "(?<>a)", r"\c1"),
    ],
)
def test_what_re_cannot_express_is_not_translated(source: str) -> None:
    with pytest.raises(Untranslatable):
        translate(source)
    with pytest.raises(Untranslatable):
        translate(source, whole=False)


@pytest.mark.parametrize(
    "source", ["^[a-z0-9-]+$", r"^\d{4}-\d{2}$", r"^\S+@\S+$", r"^[^\s@]+@[^\s@]+$", r"^\w+$"]
)
def test_an_everyday_pattern_stays_one_whose_time_is_known(source: str) -> None:
    assert simple_pattern(translate(source)) is not None


def test_a_property_has_the_characters_of_unicode() -> None:
    import unicodedata

    for name, prefix in [("L", "L"), ("Nd", "Nd"), ("Sc", "Sc"), ("Co", "Co"), ("Cn", "Cn")]:
        ranges = of_property(name)
        assert ranges == merged(ranges)
        points = [*range(0, 0x3000, 7), *range(0x20000, 0x110000, 997), 0x10FFFF, 0xE0001]
        for point in points:
            has = any(low <= point <= high for low, high in ranges)
            assert has is unicodedata.category(chr(point)).startswith(prefix), hex(point)
    assert complement(complement(of_property("P"))) == of_property("P")
    assert of_property("LC") == merged(
        [*of_property("Lu"), *of_property("Ll"), *of_property("Titlecase_Letter")]
    )


PIECES = st.lists(
    st.sampled_from([*"ab1^$.*+?|()[]{}\\-,:=!<>kpuxcPdwsbB0", r"\d", r"[\w-]", "(?<n>", r"\p{L}"]),
    max_size=12,
).map("".join)


@given(source=PIECES | st.text(max_size=8))
@examples(2_000)
def test_what_is_translated_compiles_without_a_warning(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            text = translate(source)
        except Untranslatable:
            return
        re.compile(text)
