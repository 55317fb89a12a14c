"""Colours, tables, bars and pictures at a terminal, by ``rich`` and ``textual-image``.

They need the extra ``cli``. ``screen_of(stream)`` returns None if text has to be plain: in a pipe
or a file, without the extra, at a dumb terminal, at one narrower than 40 columns, and if
``NO_COLOR`` is set. The text is the same either way: nothing is cut off, and no text of a server is
interpreted as markup or by the terminal.

``textual-image`` asks the terminal what it can draw: the graphics protocol of kitty, else sixel
(iTerm2, WezTerm, foot, Konsole, Windows Terminal, xterm), else coloured half blocks. That question
needs standard input and standard output at the terminal, so pictures are drawn nowhere else;
``--save DIR`` saves the file everywhere. A picture's bytes are a server's: four formats are
decoded, and of those no more than 16 MiB and 16 million pixels. The drawing is made from the pixels
alone.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from rich.console import Console

__all__ = ["Screen", "draw", "screen_of"]

_MIN_COLUMNS = 40
_MIN_TABLE_COLUMNS = 12
"""The columns that each column of a table needs; otherwise rows are written as lines."""
_PICTURE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_MAX_PICTURE_BYTES = 16 * 1024 * 1024
_MAX_PIXELS = 16_000_000
_MAX_SIDE_PIXELS = 2_000
"""The largest side that is drawn, in pixels: more than a terminal has."""


def screen_of(stream: TextIO) -> Screen | None:
    """Return the screen for styled text on ``stream``; None if text has to be plain."""
    try:
        if not stream.isatty() or os.environ.get("NO_COLOR"):
            return None
        columns = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown") or 0 < columns < _MIN_COLUMNS:
        return None
    return _screen(stream)


@functools.lru_cache(4)
def _screen(stream: TextIO) -> Screen | None:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Screen(Console(file=stream, markup=False, highlight=False, emoji=False))


class Screen:
    """A terminal that shows styles. Every text is made safe here, and taken literally."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def print(self, *parts: tuple[str, str]) -> None:
        """Print texts with their styles, such as ``("healthy", "bold green")``, as lines.

        The terminal wraps a line that is too long.
        """
        self._console.print(self._text(*parts), soft_wrap=True)

    def table(self, rows: Sequence[Sequence[str]], heads: Sequence[str]) -> bool:
        """Print rows below their heads, if that is possible without cutting anything off.

        Long cells continue in further lines, the last column's before others. Returns whether the
        table was printed.
        """
        from rich.cells import cell_len
        from rich.table import Table

        rows = [[safe_text(cell, len(cell), lines=True) for cell in row] for row in rows]
        if self._console.width < _MIN_TABLE_COLUMNS * len(heads):
            return False
        widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)][:-1]
        fits = sum(widths) + 2 * len(widths) + 2 * _MIN_TABLE_COLUMNS <= self._console.width
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for number, head in enumerate(heads):
            least = widths[number] if fits and number < len(widths) else None
            style = "cyan" if number == 0 else ""
            table.add_column(head, overflow="fold", style=style, min_width=least)
        for row in rows:
            table.add_row(*(self._text((cell, "")) for cell in row))
        lines = self._console.render_lines(table, pad=False)
        drawn = Counter("".join(each.text for line in lines for each in line))
        # A character whose width is not what rich takes it for may have been cut off.
        wanted = Counter(char for row in rows for cell in row for char in cell)
        if any(drawn[char] < count for char, count in wanted.items() if not char.isspace()):
            return False
        self._console.print(table)
        return True

    def bar(self, done: float, total: float | None, text: str) -> None:
        """Draw a line with a bar over the line that the cursor is in."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_column(width=max(10, min(30, self._console.width // 3)))
        line.add_column(no_wrap=True, overflow="ellipsis")
        width = max(10, min(30, self._console.width // 3))
        bar = ProgressBar(total=total, completed=done, width=width, pulse=total is None)
        line.add_row(bar, self._text((text, "")))
        with self._console.capture() as captured:
            self._console.print(line, end="")
        self._write("\r\x1b[2K" + captured.get().rstrip("\n") + "\r")

    def clear(self) -> None:
        """Erase the line that the cursor is in."""
        self._write("\r\x1b[2K")

    def show(self, renderable: Any) -> None:
        """Something of rich's own, with no text of a server in it."""
        self._console.print(renderable)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.width, self._console.height

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    def _text(self, *parts: tuple[str, str]) -> Any:
        from rich.text import Text

        encoding = getattr(self._console.file, "encoding", None) or "utf-8"
        safe: Iterable[tuple[str, str]] = (
            (safe_text(text, len(text), lines=True).encode(encoding, "replace").decode(encoding), s)
            for text, s in parts
        )
        return Text.assemble(*safe)


# ----------------------------------------------------------------------------- pictures


def draw(data: bytes) -> bool:
    """Draw a picture on standard output, and whether that was possible."""
    screen = screen_of(sys.stdout)
    if screen is None or len(data) > _MAX_PICTURE_BYTES or not _can_be_asked():
        return False
    try:
        from PIL import Image
    except ImportError:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = _opened_picture(data)
            warnings.simplefilter("ignore")  # textual-image uses what Pillow will drop one day
            if picture is None:
                return False
            sys.stdout.flush()
            _show_picture(picture, screen)
    except Exception:  # noqa: BLE001 - decoders raise anything for bytes that are not a picture
        return False
    return True


def _opened_picture(data: bytes) -> Picture | None:
    """Return the picture, no larger than can be seen; None for one that is too large to decode."""
    from PIL import Image, ImageFile

    ImageFile.LOAD_TRUNCATED_IMAGES = True  # wrong checksums apart from the pixels, as browsers do
    with Image.open(io.BytesIO(data), formats=_PICTURE_FORMATS) as opened:
        if opened.width * opened.height > _MAX_PIXELS:
            return None
        opened.draft("RGB", (_MAX_SIDE_PIXELS, _MAX_SIDE_PIXELS))
        picture = opened.convert("RGBA")
    picture.thumbnail((_MAX_SIDE_PIXELS, _MAX_SIDE_PIXELS))
    return picture


def _show_picture(picture: Picture, screen: Screen) -> None:
    log = logging.getLogger("textual_image")  # it logs a terminal that does not respond
    log.addHandler(logging.NullHandler())
    log.propagate = False
    from textual_image.renderable import Image as Drawn  # asks the terminal

    columns, lines = screen.size
    width, height = max(1, min(columns - 1, picture.width // 8)), max(1, lines - 3)
    if width * picture.height > 2 * height * picture.width:  # a cell is twice as high as wide
        width = max(1, 2 * height * picture.width // picture.height)
    screen.show(Drawn(picture, width=width, height="auto"))


def _can_be_asked() -> bool:
    """Whether the terminal's response would come to our standard input, and to no other program."""
    if sys.platform == "win32":  # its console draws no pictures
        return False
    try:
        here, there = sys.__stdin__, sys.__stdout__
        if here is None or there is None or not (here.isatty() and there.isatty()):
            return False
        return os.tcgetpgrp(here.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):
        return False
