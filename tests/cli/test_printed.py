"""What each way to print writes, exactly, without a process of its own."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client.cli import output
from mcp_client.cli.exits import OutputError, UsageError
from mcp_client.cli.output import Progress
from mcp_client.protocol.content import AudioContent, ImageContent, TextContent

LONG = "  one two three four five six seven"


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [(False, f"{LONG}\n"), (True, "  one two three \n  four five six \n  seven\n")],
)
def test_a_terminal_gets_lines_that_end_between_words_and_a_pipe_one_line(
    typed: bool, wanted: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: typed)
    monkeypatch.setattr(output, "screen_of", lambda stream: None)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((21, 10)))
    output.print_wrapped(("  one ", "bold"), (LONG[6:], ""))
    assert capsys.readouterr().out == wanted


@pytest.mark.parametrize("kind", ["image/png", "audio/wav", None])
def test_a_picture_at_a_terminal_is_drawn_and_noted(
    kind: str | None, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bytes] = []
    monkeypatch.setattr(output, "draw", drawn.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    options = Namespace(command="read", save=None)
    part = SimpleNamespace(text=None, bytes=b"pixels", mime_type=kind)
    output.print_contents([part], options)
    block = ImageContent("cGl4ZWxz", kind or "", {})
    reported = f"({kind or 'application/octet-stream'}, 6 bytes; --save DIR saves it)\n".encode()
    assert capsysbinary.readouterr() == (b"", reported)
    assert drawn == ([b"pixels"] if kind == "image/png" else [])
    if kind is not None:
        output.print_content([block], options)
        assert capsysbinary.readouterr() == (b"", reported)
        assert drawn == ([b"pixels"] * 2 if kind == "image/png" else [])


def test_the_bytes_of_one_content_alone_reach_a_pipe(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(output, "draw", lambda data: None)
    part = SimpleNamespace(text=None, bytes=b"\0\xff", mime_type=None)
    words = SimpleNamespace(text="words", bytes=b"words", mime_type=None)
    bare, stored = (
        Namespace(command="read", save=None),
        Namespace(command="read", save=str(tmp_path)),
    )
    output.print_contents([part], bare)
    assert capsysbinary.readouterr() == (b"\0\xff", b"")
    output.print_contents([words, part], bare)
    reported = b"(application/octet-stream, 2 bytes; --save DIR saves it)\n"
    assert capsysbinary.readouterr() == (b"words\n", reported)
    for _ in range(2):
        output.print_contents([part], stored)
        out, reported = capsysbinary.readouterr()
        assert out == b""
    names = {"content-1.bin": b"\0\xff", "content-1-1.bin": b"\0\xff"}
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == names
    assert (
        reported
        == f"(application/octet-stream, 2 bytes: saved as {tmp_path}/content-1-1.bin)\n".encode()
    )


def options_of(**options: Any) -> Namespace:
    return Namespace(**{"command": "call", "save": None} | options)


@pytest.mark.parametrize("whole", [False, True])
def test_a_text_is_cut_at_a_terminal_alone(
    whole: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 1_000_000 if whole else 100_000
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.print_text("x" * (most + 1), whole=whole)
    assert capsys.readouterr().out == "x" * most + "… (1 more characters)\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    output.print_text("x" * 100_001 + "\r\n\x1b", whole=whole)
    assert capsys.readouterr().out == "x" * 100_001 + "\n\\u{1b}\n"


def test_json_is_in_lines_for_people_alone_and_in_ascii_where_it_has_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for typed in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda typed=typed: typed)
        for value in ("é", "\ud800é", "\u202e\x7f"):
            output.print_json([value])
            found[typed, value] = capsys.readouterr().out
    monkeypatch.setattr(output, "_is_utf8", lambda: False)
    output.print_json(["é"])
    found[True, ""] = capsys.readouterr().out
    assert found == {
        (False, "é"): '["é"]\n',
        (False, "\ud800é"): '["\\ud800\\u00e9"]\n',
        (False, "\u202e\x7f"): '["\\u202e\\u007f"]\n',
        (True, "é"): '[\n  "é"\n]\n',
        (True, "\ud800é"): '[\n  "\\ud800\\u00e9"\n]\n',
        (True, "\u202e\x7f"): '[\n  "\\u202e\\u007f"\n]\n',
        (True, ""): '[\n  "\\u00e9"\n]\n',
    }


def test_rows_are_printed_as_columns_where_there_is_no_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[Any] = []

    class Fitting:
        fits = True

        def table(self, rows: Any, heads: Any) -> bool:
            displayed.append((rows, heads))
            return self.fits

    rows = [("a", "b"), ("cc", "")]
    for screen in (Fitting(), None):
        monkeypatch.setattr(output, "screen_of", lambda stream, screen=screen: screen)
        output.print_table(iter(rows), "x", "y")
        output.print_table([], "x", "y")
    Fitting.fits = False
    monkeypatch.setattr(output, "screen_of", lambda stream: Fitting())
    output.print_table(rows, "x", "y")
    assert displayed == [(rows, ("x", "y"))] * 2
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["a   b", "cc"] * 2


@pytest.mark.parametrize(
    ("save", "expected"), [(True, "saved as "), (False, "--save DIR saves it")]
)
def test_every_kind_of_content_is_printed_noted_or_saved(
    save: bool, expected: str, capsysbinary: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(output, "draw", lambda data: None)
    options = options_of(save=str(tmp_path) if save else None, tool="../the tool")
    blocks = [
        ImageContent("AAA=", "image/png", {}),
        AudioContent("AA==", "audio/wav", {}),
        ImageContent("no base64!", "image/png", {}),
        ImageContent("", "x/y", {}),
    ]
    odd: Any = SimpleNamespace(type="odd\x1b")
    assert output.print_content([*blocks, odd], options) is False
    out, err = capsysbinary.readouterr()
    lines = err.decode().splitlines()
    assert out == b""
    assert lines[0].startswith(f"(image/png, 2 bytes{':' if save else ';'} {expected}")
    assert lines[1].startswith(f"(audio/wav, 1 bytes{':' if save else ';'} {expected}")
    assert lines[2] == "(content 3 is not base64)"
    assert lines[3].startswith("(x/y, 0 bytes")
    assert lines[4] == "(content of an unknown kind, odd\\u{1b}; --json shows it)"
    stored = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    files = {"the_tool-1.png": b"\0\0", "the_tool-2.wav": b"\0", "the_tool-4.bin": b""}
    assert stored == (files if save else {})
    assert not save or (tmp_path / "the_tool-1.png").stat().st_mode & 0o777 == 0o600
    output.save_content([*blocks, odd], options)
    assert len(list(tmp_path.iterdir())) == 2 * len(stored)


def test_a_file_that_cannot_be_saved_is_an_error_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = options_of(save=str(tmp_path / "file"))
    with pytest.raises(OutputError, match=r"--save .*: Not a directory"):
        output._save(b"", "x/y", 1, options)
    with pytest.raises(UsageError, match=r"--save .*: File exists"):
        output.make_save_directory(options)
    output.make_save_directory(options_of())
    output.make_save_directory(options_of(save=str(tmp_path / "a" / "b")))
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    ("passed", "texts", "wanted"),
    [
        ({}, ["a", "b"], b"a\nb\n"),
        ({"save": "d"}, ["a", "b"], b"a\nb"),
        ({}, ["a\n", "b\n"], b"a\nb\n"),
        ({}, ["", "b"], b"\nb\n"),
        ({"session": object()}, ["a", "b\n"], b"a\nb\n"),
        ({"session": object()}, ["a", "b"], b"a\nb\n"),
        ({"command": "prompt"}, ["a\n", "b"], b"a\nb\n"),
    ],
)
def test_texts_are_divided_by_line_feeds(
    passed: dict[str, Any], texts: list[str], wanted: bytes, capsysbinary: Any
) -> None:
    options = options_of(**passed)
    assert output.print_content([TextContent(one, {}) for one in texts], options) is True
    assert capsysbinary.readouterr() == (wanted, b"")


def test_progress_is_the_part_of_the_whole_and_what_was_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((21, 10)))
    progress = Progress(None)
    reported: list[str] = []
    monkeypatch.setattr(progress, "_write", reported.append)
    for done, total, message in (
        (0.5, None, None),
        (1, 3, "x"),
        (1, 3, "x" * 30),
        (1, 3, "é" * 30),
    ):
        progress(done, total, message)
        assert Progress.shown is progress
    Progress(None).clear()
    assert Progress.shown is progress
    progress.clear()
    assert Progress.shown is None
    assert reported[:2] == ["0.5", "1/3 x"]
    assert [len(one) for one in reported[2:]] == [20, 10, 0]
    monkeypatch.setattr(output, "in_dialogue", lambda: True)
    progress(1, None, None)
    assert Progress.shown is None
