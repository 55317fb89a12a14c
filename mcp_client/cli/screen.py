"""Colours, tables and bars at a terminal, by ``rich`` (the extra ``cli``).

``screen_of(stream)`` is None wherever text has to be plain: in a pipe or a file, without the extra,
at a dumb terminal, at one narrower than 40 columns, and where ``NO_COLOR`` is set. What is written
is the same either way: nothing is cut off, and no text of a server is read as markup or obeyed.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Screen", "screen_of"]

_NARROWEST = 40
_LEAST_COLUMN = 12
"""Columns of the terminal that each column of a table needs: else rows are written as lines."""


def screen_of(stream: TextIO) -> Screen | None:
    """Where styled text for ``stream`` goes; None where it has to be plain."""
    try:
        if not stream.isatty() or os.environ.get("NO_COLOR"):
            return None
        columns = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown") or 0 < columns < _NARROWEST:
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
        """Texts with their styles, such as ``("healthy", "bold green")``, as one line or more.

        The terminal wraps what is longer than a line.
        """
        self._console.print(self._text(*parts), soft_wrap=True)

    def table(self, rows: Sequence[Sequence[str]], heads: Sequence[str]) -> bool:
        """Rows below their heads; long cells go on in further lines, the last column's before
        others. Whether that was possible without cutting anything off."""
        from rich.cells import cell_len
        from rich.table import Table

        rows = [[safe_text(cell, len(cell), lines=True) for cell in row] for row in rows]
        if self._console.width < _LEAST_COLUMN * len(heads):
            return False
        widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)][:-1]
        fits = sum(widths) + 2 * len(widths) + 2 * _LEAST_COLUMN <= self._console.width
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
