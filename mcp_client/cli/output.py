"""Print results on standard output, and everything else on standard error."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import logging
import mimetypes
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ..catalog.call_values import ToolResult
from ..errors import McpError, ends_of
from ..protocol.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from ..protocol.offers import ResourceContents
from ..runtime.console import between_dialogues, in_dialogue
from ..runtime.console_layout import broken
from ..runtime.safe_text import invisible, is_invisible, safe_text, with_plain_emoji
from .exits import USAGE, OutputError, UsageError, exit_code, in_shell
from .screen import Screen, draw, screen_of

__all__ = [
    "Progress",
    "current_line",
    "json_without_escapes",
    "log_to_stderr",
    "make_save_directory",
    "note",
    "note_error",
    "note_of_server",
    "print_content",
    "print_contents",
    "print_document",
    "print_json",
    "print_parts",
    "print_result",
    "print_table",
    "print_text",
    "print_wrapped",
    "progress_to_stderr",
    "save_content",
    "table",
]

_BYTES = "application/octet-stream"
_EXTENSIONS = {"image/jpeg": ".jpg", "image/png": ".png", "audio/wav": ".wav", "audio/mpeg": ".mp3"}
current_line: ContextVar[int | None] = ContextVar("current_line", default=None)
"""The number of the line of standard input that is worked on, in a batch that prints JSON."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Half characters, which a server can send and no encoding can write."""


def print_json(value: Any) -> None:
    """Print one JSON document on standard output, safe for the terminal that shows it."""
    line = current_line.get()
    indent = 2 if sys.stdout.isatty() and line is None else None
    value = value if line is None else {"line": line, **value}
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if not _is_utf8() or _HALVES.search(text):
        text = json.dumps(value, indent=indent)
    print(json_without_escapes(text))


def json_without_escapes(text: str) -> str:
    """Return the same JSON, with invisible characters as escape sequences of JSON."""
    if not invisible(text.replace("\n", "")):
        return text
    return "".join(
        json.dumps(char)[1:-1].replace("\x7f", "\\u007f")
        if char != "\n" and is_invisible(drawn)
        else char
        for char, drawn in zip(text, with_plain_emoji(text), strict=True)
    )


def print_text(text: str, *, whole: bool = False) -> None:
    """Print text on standard output, safe for the terminal that shows it.

    At a terminal the text is cut at 100,000 characters, or 1,000,000 if ``whole``.
    """
    most = len(text)
    if sys.stdout.isatty():
        most = 1_000_000 if whole else 100_000
    text = safe_text(text.replace("\r\n", "\n"), most, lines=True)
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def print_document(options: argparse.Namespace, document: Any, text: str) -> None:
    """Print the result of a command: as JSON with ``--json``, else as text."""
    if options.json:
        print_json(document)
    else:
        print_text(text, whole=True)


def print_parts(*parts: tuple[str, str]) -> None:
    """Print texts as a line of standard output, each with its style if the terminal has styles."""
    screen = screen_of(sys.stdout)
    if screen is None:
        print_text("".join(text for text, _ in parts))
    else:
        screen.print(*parts)


def print_wrapped(*parts: tuple[str, str]) -> None:
    """Print texts like ``print_parts``. At a terminal, wrapped lines are indented."""
    if not sys.stdout.isatty():
        print_parts(*parts)
        return
    width = max(20, shutil.get_terminal_size().columns - 1)
    whole = "".join(text for text, _ in parts)
    indent = " " * (len(whole) - len(whole.lstrip()) or 4)
    pieces = list(broken(whole, width))
    if len(pieces) > 1:
        first = next(broken(whole, width))
        pieces = [first, *broken(whole[len(first) :].lstrip(), width - len(indent))]
    print_parts(*_styled(parts, len(pieces[0])))
    place = len(whole) - len(whole[len(pieces[0]) :].lstrip())
    for piece in pieces[1:]:
        print_parts((indent, ""), *_styled(parts, len(piece), place))
        place += len(piece)


def _styled(
    parts: tuple[tuple[str, str], ...], length: int, start: int = 0
) -> list[tuple[str, str]]:
    """Return ``length`` characters of the parts, from ``start``, with their styles."""
    found = []
    for text, style in parts:
        piece = text[max(start, 0) : max(start + length, 0)]
        start -= len(text)
        found.append((piece, style))
    return found


def print_table(rows: Iterable[tuple[str, ...]], *heads: str) -> None:
    """Print rows on standard output; the heads are for people at a terminal."""
    all_rows = list(rows)
    screen = screen_of(sys.stdout)
    if all_rows and (screen is None or not screen.table(all_rows, heads)):
        for line in table(all_rows):
            print_text(line)


def note(text: object) -> None:
    """Print a line for people on standard error."""
    with _progress_aside(), suppress(OSError):  # there is no other place to report it
        print(safe_text(text, 10_000, lines=True), file=sys.stderr)


def note_of_server(server: str, text: str) -> None:
    """Print lines of a server on standard error.

    Each begins with the server's name and a mark, also if a terminal would wrap it, so that none
    looks like a line of this command.
    """
    name = safe_text(server, 40)
    on_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - len(name) - 4 if on_terminal else sys.maxsize
    with _progress_aside(), suppress(OSError):
        for line in safe_text(text, 10_000, lines=True).replace("\t", "    ").split("\n"):
            for number, piece in enumerate(broken(line, max(width, 10))):
                print(f"{name} {':' if number else '|'} {piece}", file=sys.stderr)


def note_error(error: McpError, number: int | None = None) -> None:
    """Print an error, and below it what the server wrote to its standard error.

    ``number`` is the number of the line of a batch that failed.
    """
    failure = in_shell(error)
    tail = vars(failure).pop("stderr_tail", "")
    where = "" if number is None else f"line {number}: "
    text = f"mcp-client: {where}{failure.message if exit_code(failure) == USAGE else failure}"
    note(text.replace("\n", "\n    "))
    for line in ends_of(tail):
        note_of_server(failure.server or "server", line)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_listed", False):  # which the commands that list report
            return
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        _, of_server, server = record.name.partition("mcp_client.server.")
        show = partial(note_of_server, server, text) if of_server else partial(note, text)
        between_dialogues(show)


def log_to_stderr() -> None:
    """Print warnings of this package on standard error, a line each, safe to look at."""
    log = logging.getLogger("mcp_client")
    if not log.handlers:
        log.addHandler(_Notes(logging.WARNING))
        log.propagate = False


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def print_result(result: ToolResult, options: argparse.Namespace) -> None:
    """Print a result for people: its text, its other content in words, and what was saved.

    The structured content is printed if there is no text.
    """
    has_text = print_content(result.content, options)
    if not has_text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False, indent=2)
        print_text(json_without_escapes(text), whole=True)


def print_content(content: Iterable[Any], options: argparse.Namespace) -> bool:
    """Print blocks of content for people: texts as they are, the rest in words, drawn or saved.

    Returns whether there was a text.
    """
    texts = _Texts(options)
    for number, block in enumerate(content, 1):
        match block:
            case TextContent():
                texts.print(block.text)
            case EmbeddedResource(text=str() as text):
                texts.print(text)
            case ResourceLink():
                texts.print_link(block)
            case _ if media := _media_of(block):
                if media[0].startswith("image/"):
                    draw(_decoded(media[1]))
                _keep(*media, number, options)
            case _:
                text = f"content of an unknown kind, {block.type}"
                text = str(block)[1:-1] if isinstance(block, UnknownContent) else text
                note(f"({safe_text(text, 200)}; --json shows it)")
    return texts.any


class _Texts:
    """Texts of one result.

    A pipe gets the bytes of those of tools and resources, with a line feed between two if there is
    none. With ``--save`` outside of ``shell``, nothing is added after the last.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.any = False
        self._exact = options.command != "prompt" and not sys.stdout.isatty()
        in_shell = getattr(options, "session", None) is not None
        self._ends_line = in_shell or options.save is None
        self._open = False

    def print(self, text: str) -> None:
        self.any = self.any or bool(text)
        if not self._exact:
            print_text(text.removesuffix("\n"))
            return
        sys.stdout.flush()
        text = f"\n{text}" if self._open else text
        if text and self._ends_line and not text.endswith("\n"):
            text += "\n"
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        self._open = not text.endswith("\n")

    def print_link(self, link: ResourceLink) -> None:
        print_text(
            "\n" * self._open + f"[link {link.uri}] {link.title or link.name or ''}".rstrip()
        )
        self._open = False


def print_contents(contents: Iterable[Any], options: argparse.Namespace) -> None:
    """Print the contents of a resource. Bytes go to a pipe unchanged if there is one content."""
    contents, texts = list(contents), _Texts(options)
    for number, part in enumerate(contents, 1):
        if part.text is not None:
            texts.print(part.text)
        elif options.save is None and len(contents) == 1 and not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(part.bytes)
        else:
            kind = part.mime_type or _BYTES
            if kind.startswith("image/"):
                draw(part.bytes)
            _keep(kind, part.bytes, number, options)


def save_content(content: Iterable[Any], options: argparse.Namespace) -> None:
    """Save the files of a result that is printed as JSON, for ``--save``."""
    for number, block in enumerate(content, 1):
        media = _media_of(block)
        if media is not None and options.save is not None:
            _keep(*media, number, options)


def _media_of(block: Any) -> tuple[str, str | bytes] | None:
    """Return the type and the bytes, or their Base64, of what is neither a text nor a link."""
    match block:
        case ImageContent() | AudioContent():
            return block.mime_type, block.data
        case EmbeddedResource(blob=str() as blob):
            return block.mime_type or _BYTES, blob
        case ResourceContents(text=None):
            return block.mime_type or _BYTES, block.bytes
    return None


def _decoded(data: str | bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else data
    except (binascii.Error, ValueError):
        return b""


def _keep(kind: str, data: str | bytes, number: int, options: argparse.Namespace) -> None:
    content = _decoded(data)
    if data and not content:
        note(f"(content {number} is not base64)")
        return
    named = f"{safe_text(kind, 60)}, {len(content)} bytes"
    if options.save is None:
        note(f"({named}; --save DIR saves it)")
        return
    note(f"({named}: saved as {_save(content, kind, number, options)})")


def make_save_directory(options: argparse.Namespace) -> None:
    """Make the directory of ``--save``, before any request. Raises ``UsageError``."""
    try:
        if options.save is not None:
            Path(options.save).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save {options.save}: {error.strerror or error}") from None


def _save(content: bytes, kind: str, number: int, options: argparse.Namespace) -> Path:
    """Return a new file in the directory of ``--save``; what is there already is never replaced."""
    directory = Path(options.save)
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", getattr(options, "tool", "") or "content").strip("._")
    extension = _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ".bin"
    for extra in range(10_000):
        more = "" if extra == 0 else f"-{extra}"
        path = directory / f"{stem or 'content'}-{number}{more}{extension}"
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(content)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise OutputError(f"--save {directory}: {error.strerror or error}") from None
    raise OutputError(f"--save {directory}: too many files")


@contextmanager
def _progress_aside() -> Iterator[None]:
    """Print the line of progress, if one is shown, below the output of the block."""
    progress = Progress.shown
    if progress is None:
        yield
        return
    progress.erase()
    yield
    progress.draw()


class Progress:
    """The progress of a call as one line of the terminal, which is removed afterwards."""

    shown: ClassVar[Progress | None] = None

    def __init__(self, screen: Screen | None) -> None:
        self._screen = screen
        self._width = 0
        self._now: tuple[float, float | None, str] = 0.0, None, ""

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Handle one call."""
        part = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self._now = progress, total, f"{part} {message or ''}".rstrip()
        if not in_dialogue():
            Progress.shown = self
            self.draw()

    def draw(self) -> None:
        """Draw the line."""
        progress, total, message = self._now
        columns = max(10, shutil.get_terminal_size().columns - 1)
        text = safe_text(message, columns)[:columns]
        if self._screen is not None:
            self._screen.bar(progress, total, text)
        elif all(map(str.isascii, text)):
            self._write(text)
        else:  # wide characters take two columns
            self._write(text[: columns // 2])

    def erase(self) -> None:
        """Erase the line."""
        if self._screen is not None:
            self._screen.clear()
        else:
            self._write("")

    def clear(self) -> None:
        """Erase the line, if one is shown."""
        if Progress.shown is self:
            self.erase()
            Progress.shown = None

    def _write(self, text: str) -> None:
        print(f"\r{text:<{self._width}}", end="\r", file=sys.stderr, flush=True)
        self._width = min(2 * len(text), max(10, shutil.get_terminal_size().columns - 1))


def progress_to_stderr() -> Progress | None:
    """Return the place of progress: the terminal, or None."""
    return Progress(screen_of(sys.stderr)) if sys.stderr.isatty() else None


def table(rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    """Yield rows as lines with columns of the same width; no trailing spaces."""
    all_rows = [tuple(safe_text(cell, 100_000) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*all_rows, strict=True)] if all_rows else []
    for row in all_rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
