"""The extra ``cli``: styles, tables, bars and pictures at a terminal; the same words without it."""

from __future__ import annotations

import base64
import io
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from mcp_client.cli import screen as screen_module
from mcp_client.cli.screen import Screen, draw
from mcp_client.content import safe_text
from tests.cli.shell import at_terminal, example, sending, without_extra
from tests.support.properties import examples

WEATHER = example("weather")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def output_of(*words: str, **more: Any) -> str:
    child = at_terminal(*words, **more)
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


@pytest.mark.slow
def test_a_terminal_shows_styles_and_the_words_are_the_same_without(tmp_path: Path) -> None:
    plain = output_of("tools", WEATHER, **without_extra(tmp_path / "without"))
    styled = output_of("tools", WEATHER)
    assert "\x1b" not in plain
    assert "\x1b[1;36mget_weather\x1b[0m(" in styled
    assert STYLE.sub("", styled) == plain


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"columns": 39}, {"line": "mcp tools T | cat"}]
)
def test_output_is_plain_where_styles_are_not_wanted(more: dict[str, Any]) -> None:
    words = ["tools", WEATHER]
    if "line" in more:
        more, words = {"line": more["line"].replace("T", shlex.quote(WEATHER))}, []
    text = output_of(*words, **more)
    assert "get_weather(location: str) -> " in text.replace("\r\n", "")
    assert "\x1b" not in text


@pytest.mark.slow
@pytest.mark.parametrize("extra", [True, False])
def test_rows_are_complete_at_any_width(extra: bool, tmp_path: Path) -> None:
    env = {} if extra else without_extra(tmp_path / "without")
    for columns in (20, 41, 200):
        text = STYLE.sub("", output_of("describe", WEATHER, "set_alarm", columns=columns, **env))
        for word in ("location", "str", "required", "loud", "bool"):
            assert word in text, columns


@pytest.mark.slow
def test_progress_is_a_bar_that_goes_away() -> None:
    text = output_of("call", example("cafe"), "brew", "steps=3", "--allow", "brew")
    bars = re.findall(r"\r\x1b\[2K[^\r]*━[^\r]* (\d/3)\r", text)
    assert bars == ["1/3", "2/3", "3/3"]
    assert re.search(r"\r\x1b\[2KThe coffee is ready", text)


HOSTILE = "[bold]b[/bold] [link=http://x]l[/link] :skull: \x1b[2J\x1b]0;owned\x07\u202e\x9b31m"


def on_screen(width: int) -> tuple[Screen, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, markup=False, highlight=False, emoji=False
    )
    return Screen(console), file


def test_text_of_a_server_is_neither_markup_nor_obeyed() -> None:
    screen, file = on_screen(300)
    screen.print((HOSTILE, "bold"), (HOSTILE, ""))
    assert screen.table([(HOSTILE, HOSTILE)], ("[red]a", "b"))
    screen.bar(1, 3, HOSTILE)
    text = file.getvalue().replace("\r\x1b[2K", "")
    assert text.count("[bold]b[/bold] [link=http://x]l[/link] :skull: \\u{1b}[2J") == 5
    rest = STYLE.sub("", text)
    assert not set("\x1b\x07\x9b\u202e") & set(rest)


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.integers(1, 130), st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=3))
@examples(60)
def test_a_table_leaves_nothing_out(width: int, rows: list[tuple[str, ...]]) -> None:
    screen, file = on_screen(width)
    if not screen.table(rows, ("one", "two", "three")):  # printed plainly instead
        ordinary = all(cell.isascii() for row in rows for cell in row)
        assert width < 36 or not ordinary
        assert file.getvalue() == ""
        return
    text = Counter(STYLE.sub("", file.getvalue()))
    wanted = Counter("".join(safe_text(cell, 10_000, lines=True) for row in rows for cell in row))
    missing = {char for char in wanted - text if not char.isspace()}
    assert not missing


# ------------------------------------------------------------------------- pictures


def picture(kind: str = "PNG") -> dict[str, str]:
    file = io.BytesIO()
    Image.new("RGB", (64, 48), "red").save(file, kind)
    return image(file.getvalue())


def image(data: bytes) -> dict[str, str]:
    return {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()}


ATTRIBUTES, CELL_SIZE, GRAPHICS = r"\x1b\[c", r"\x1b\[16t", r"\x1b_G[^\x1b]*a=q[^\x1b]*\x1b\\"
"""What a terminal is asked: what it can do, the size of a cell, whether it has kitty's protocol."""


def drawn(words: list[str], answers: dict[str, str]) -> str:
    """What is sent to a terminal that answers so when it is asked, and is silent where it has no
    answer."""
    child = at_terminal(*words)
    child.setecho(False)
    sent = ""
    while child.expect([pexpect.EOF, *answers]):
        sent += child.before + child.after
        child.send(answers[child.match.re.pattern])
    return sent + str(child.before)


def drawn_in(mark: str, words: list[str], answers: dict[str, str]) -> str:
    """The same, once it has ``mark``: textual-image before 0.13 waits for an answer for a tenth of
    a second, and draws in half blocks where a busy machine took longer."""
    text = ""
    for _ in range(5):
        text = drawn(words, answers)
        if re.search(mark, text):
            break
    return text


@pytest.mark.slow
def test_a_picture_is_drawn_in_what_the_terminal_declares() -> None:
    words = sending(picture())
    plain = {ATTRIBUTES: "\x1b[?62c", CELL_SIZE: "\x1b[6;20;10t"}
    assert "▀" in drawn(words, plain)  # half blocks, as it cannot do better
    mark = r"\x1b_Gi=\d+,m=0,f=100,q=2;"
    kitty = drawn_in(mark, words, {**plain, GRAPHICS: "\x1b_Gi=1;OK\x1b\\"})
    assert re.search(mark, kitty)
    sixel = drawn_in("\x1bP0;0;0q", words, {**plain, ATTRIBUTES: "\x1b[?62;4c"})
    assert "\x1bP0;0;0q" in sixel
    assert "bytes; --save DIR saves it)" in sixel
    assert "Traceback" not in sixel


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"no picture",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        base64.b64decode(picture("BMP")["data"]),  # a format that we do not read
        # A header of 60000 x 60000 pixels.
        bytes.fromhex("89504e470d0a1a0a0000000d494844520000ea600000ea6008020000003d2e1a0a"),
    ],
)
def test_what_is_not_a_picture_is_not_drawn_and_harms_nothing(data: bytes) -> None:
    text = output_of(*sending(image(data)))
    assert "--save DIR saves it" in text
    assert "\x1b[c" not in text
    assert "Traceback" not in text


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_picture_is_not_drawn_where_styles_are_not_wanted(more: dict[str, str]) -> None:
    text = output_of(*sending(picture()), **more)
    assert "\x1b" not in text
    assert "--save DIR saves it" in text


@pytest.mark.slow
def test_a_picture_is_not_drawn_without_the_extra_nor_in_a_pipe(tmp_path: Path) -> None:
    words = sending(picture("JPEG"))
    assert "\x1b" not in output_of(*words, **without_extra(tmp_path / "without"))
    assert "\x1b" not in output_of(line=f"mcp {shlex.join(words)} | cat")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """A terminal of 41 columns and 13 lines that can be asked: the widths that are drawn in it."""
    drawn: list[tuple[int, Any]] = []

    def render(picture: Any, width: int, height: str) -> str:
        drawn.append((width, picture.size))
        return "drawn"

    console = Console(file=io.StringIO(), width=41, height=13)
    monkeypatch.setattr(screen_module, "screen_of", lambda stream: Screen(console))
    monkeypatch.setattr(screen_module, "_can_be_asked", lambda: True)
    fake = SimpleNamespace(Image=render)
    monkeypatch.setitem(sys.modules, "textual_image.renderable", fake)
    return drawn


def pixels(width: int, height: int, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("size", "width"),
    [
        ((64, 48), 8),
        ((1, 1), 1),
        ((7, 8), 1),
        ((16, 8), 2),
        ((800, 100), 40),
        ((800, 800), 20),
        ((320, 160), 40),
        ((320, 640), 10),
        ((8, 2000), 1),
        ((32, 2000), 1),
    ],
)
def test_a_picture_is_as_wide_as_fits_and_no_higher_than_the_terminal(
    size: tuple[int, int], width: int, asked: list[tuple[int, Any]]
) -> None:
    assert draw(pixels(*size))
    assert asked == [(width, size)]


def test_only_a_picture_of_bounded_size_at_a_terminal_that_can_be_asked_is_drawn(
    asked: list[tuple[int, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = pixels(4, 4)
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        assert draw(pixels(4, 4, kind)) is True
    assert draw(b"no picture") is False
    assert draw(pixels(4, 4, "BMP")) is False
    monkeypatch.setattr(screen_module, "_MAX_PIXELS", 15)
    assert draw(good) is False
    monkeypatch.setattr(screen_module, "_MAX_PIXELS", 16)
    monkeypatch.setattr(screen_module, "_MAX_PICTURE_BYTES", len(good) - 1)
    assert draw(good) is False
    monkeypatch.setattr(screen_module, "_MAX_PICTURE_BYTES", len(good))
    monkeypatch.setattr(screen_module, "_MAX_SIDE_PIXELS", 2)
    assert draw(good) is True
    assert [size for _, size in asked[-2:]] == [(4, 4), (2, 2)]
    monkeypatch.setattr(screen_module, "_can_be_asked", lambda: False)
    assert draw(good) is False
    monkeypatch.setattr(screen_module, "_can_be_asked", lambda: True)
    monkeypatch.setattr(screen_module, "screen_of", lambda stream: None)
    assert draw(good) is False
    assert len(asked) == 5
