"""The arguments of a call in the person's own editor, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from ..processes.commands import split_words
from ..runtime.console import terminal
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object

__all__ = ["EditorFailed", "arguments_of", "draft_of", "edited", "editor"]

_END_SECONDS = 5.0

_MAX_FILE_BYTES = 10_000_000


class EditorFailed(Exception):
    """The edited text cannot be used as arguments; the message is safe to show."""


def editor() -> list[str] | None:
    """Return the command of $VISUAL or $EDITOR, split into words; None if neither is set."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return split_words(command) or None
    except ValueError:  # an open quotation mark
        return None


async def edited(command: list[str], text: str) -> str:
    """Return ``text`` as the person edited it. Raises ``EditorFailed`` if the editor fails.

    Only the owner can read the file, and it is deleted afterwards. The editor is started directly,
    not through a shell.
    """
    with _file(text) as path:
        await _run([*command, str(path)])
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise EditorFailed(f"the file is larger than {_MAX_FILE_BYTES:,} bytes")
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EditorFailed(f"cannot read the file: {safe_text(error, 200)}") from None


def draft_of(text: str) -> str:
    """Return JSON ``text`` indented, with invisible characters as JSON escapes."""
    draft = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    if not draft.isascii():
        draft = "".join(char if _seen(char) else json.dumps(char)[1:-1] for char in draft)
    return draft + "\n"


def arguments_of(draft: str) -> dict[str, Any]:
    """Return the JSON object in ``draft``. Raises ``EditorFailed``."""
    try:
        return read_json_object(draft, max_depth=None)
    except ValueError as error:
        raise EditorFailed(safe_text(error, 200)) from None


@contextmanager
def _file(text: str) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mcp-") as directory:  # made with mode 0700
        path = Path(directory) / "arguments.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


async def _run(command: list[str]) -> None:
    # The editor draws on standard error, like the question: standard output may be a pipe.
    stdin, screen = (stream.fileno() for stream in terminal())
    try:
        process = await anyio.open_process(command, stdin=stdin, stdout=screen, stderr=screen)
    except OSError as error:
        raise EditorFailed(f"cannot start the editor {command[0]!r}: {error.strerror}") from None
    async with process:
        try:
            code = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                process.terminate()  # not kill: the editor restores the screen
            with anyio.move_on_after(_END_SECONDS, shield=True):
                await process.wait()
            raise
    if code:
        raise EditorFailed(f"the editor ended with status {code}, so nothing was changed")


def _seen(char: str) -> bool:
    return char.isascii() or safe_text(f"x{char}") == f"x{char}"
