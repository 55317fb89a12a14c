"""A server's text is shown, never obeyed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.catalog.definition import text_findings
from mcp_client.content import safe_text
from mcp_client.runtime.safe_text import invisible


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("plain text, with: everything!", "plain text, with: everything!"),
        ("Grüße, 東京, Ελλάδα, e\u0301, 👍", "Grüße, 東京, Ελλάδα, e\u0301, 👍"),
        ("", ""),
        ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
        ("\x9b2J", "\\u{9b}2J"),
        ("a\rb", "a\\u{d}b"),
        ("a\x08b\x7f", "a\\u{8}b\\u{7f}"),
        ("nul\x00", "nul\\u{0}"),
        ("zero\u200bwidth\u200c\u200d\ufeff", "zero\\u{200b}width\\u{200c}\\u{200d}\\u{feff}"),
        ("\u2060\u2061\u00ad", "\\u{2060}\\u{2061}\\u{ad}"),
        ("safe\u202egpj.exe", "safe\\u{202e}gpj.exe"),
        (
            "\u2066\u2067\u2068\u2069\u200e\u200f",
            "\\u{2066}\\u{2067}\\u{2068}\\u{2069}\\u{200e}\\u{200f}",
        ),
        ("\U000e0041\U000e007f", "\\u{e0041}\\u{e007f}"),
        ("a\ufe0f\U000e0100", "a\\u{fe0f}\\u{e0100}"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\\u{fe0f}"),
        ("\u2764\ufe01", "\u2764\\u{fe01}"),
        ("\U0001f469\u200da", "\U0001f469\\u{200d}a"),
        ("a\u200d\U0001f469", "a\\u{200d}\U0001f469"),
        ("1\ufe0f \ufe0f\u2764", "1\\u{fe0f} \\u{fe0f}\u2764"),
        ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4\\u{e0067}\\u{e007f}"),
        ("\u3164\u115f\u1160\uffa0\u034f", "\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}\\u{34f}"),
        ("\u180b\u180e\u17b4", "\\u{180b}\\u{180e}\\u{17b4}"),
        ("\u2028\u2029", "\\u{2028}\\u{2029}"),
        ("\ud800", "\\u{d800}"),
        ("\ue000\U000f0000", "\\u{e000}\\u{f0000}"),
        ("\u0378", "\\u{378}"),
        ("a\nb", "a\\u{a}b"),
        ("a\tb", "a\\u{9}b"),
    ],
)
def test_what_is_not_plainly_seen_is_spelled_out(text: str, displayed: str) -> None:
    assert safe_text(text) == displayed


EMOJI = [
    "\u2764\ufe0f",  # a red heart
    "\u2764\ufe0e",
    "\u00a9\ufe0f",
    "1\ufe0f\u20e3#\ufe0f\u20e3",  # keycaps
    "\U0001f469\u200d\U0001f4bb",  # a woman at a computer
    "\U0001f3f3\ufe0f\u200d\U0001f308",  # the rainbow flag
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # a family
    "\U0001f575\U0001f3fb\u200d\u2642\ufe0f",  # a detective
]


@pytest.mark.parametrize("emoji", EMOJI)
def test_what_chooses_or_joins_an_emoji_is_part_of_it(emoji: str) -> None:
    text = f"Sunny {emoji}, 20 degrees {emoji * 9}"
    assert safe_text(text) == text
    assert invisible(text) == ""
    assert text_findings([text]) == []


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("\u0301a", "\\u{301}a"),
        ("a\n\u0301", "a\n\\u{301}"),
        ("a\u200b\u0301", "a\\u{200b}\\u{301}"),
        ("a" + "\u0301" * 4 + "b\u0301", "a" + "\u0301" * 4 + "b\u0301"),
        ("a" + "\u0301\u20dd\u0489" * 2, "a\u0301\u20dd\u0489\u0301\\u{20dd}\\u{489}"),
        ("\u1112\u1161\u11ab", "\u1112\u1161\u11ab"),
        ("\u11ab", "\\u{11ab}"),
        ("\u0928\u093f\u092e", "\u0928\u093f\u092e"),
    ],
)
def test_marks_are_on_a_letter_and_not_many_on_one(text: str, displayed: str) -> None:
    assert safe_text(text, lines=True) == displayed


def test_lines_keeps_line_feeds_and_nothing_else() -> None:
    assert safe_text("a\nb\r\n\x1b\u2028", lines=True) == "a\nb\\u{d}\n\\u{1b}\\u{2028}"


@pytest.mark.parametrize(("length", "left"), [(9, 0), (10, 0), (11, 1), (5_000, 4_990)])
def test_a_long_text_states_how_much_was_left_out(length: int, left: int) -> None:
    displayed = safe_text("x" * length, 10)
    more = f"… ({left} more characters)" if left else ""
    assert displayed == "x" * min(length, 10) + more


def test_the_limit_counts_characters_of_the_text_and_not_of_its_spelling() -> None:
    assert safe_text("\x00\x00\x00", 2) == "\\u{0}\\u{0}… (1 more characters)"


@pytest.mark.parametrize("value", [None, 7, ["\x1b"], {"a": 1}])
def test_what_is_not_text_is_shown_as_text(value: object) -> None:
    assert safe_text(value) == str(value)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.booleans())
def test_no_text_comes_out_with_a_character_that_acts_or_hides(text: str, lines: bool) -> None:
    displayed = safe_text(text, 50, lines=lines)
    for char in displayed:
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or (
            lines and char in "\n\t"
        )
        assert not 0xE0000 <= ord(char) <= 0xE0FFF
    displayed.encode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain text, \u00e9 and \u6f22", ""),
        ("ascii\x1b[2J\n\x1b", "\n\x1b"),
        ("b\u202ea\u200b\u202e", "\u200b\u202e"),
        ("\U000e0041", "\U000e0041"),
    ],
    ids=ascii,
)
def test_the_characters_that_no_one_sees_are_found_each_once(text: str, found: str) -> None:
    assert invisible(text) == found
