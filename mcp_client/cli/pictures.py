"""Pictures of results, drawn at the terminal by ``textual-image`` (the extra ``cli``).

It asks the terminal what it can draw: the graphics protocol of kitty, else sixel (iTerm2, WezTerm,
foot, Konsole, Windows Terminal, xterm), else coloured half blocks. That question needs standard
input and standard output at the terminal, so pictures are drawn nowhere else; ``--save DIR`` keeps
the file everywhere.

The bytes are a server's: four formats are read, and of those no more than 16 MiB and 16 million
pixels. What is drawn is made from the pixels alone.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

from .screen import Screen, screen_of

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["draw"]

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_MOST_BYTES = 16 * 1024 * 1024
_MOST_PIXELS = 16_000_000
_LARGEST = 2_000
"""Pixels of a side that are drawn: more than a terminal has."""


def draw(data: bytes) -> bool:
    """Draw a picture on standard output, and whether that was possible."""
    screen = screen_of(sys.stdout)
    if screen is None or len(data) > _MOST_BYTES or not _can_be_asked():
        return False
    try:
        from PIL import Image
    except ImportError:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = _opened(data)
            warnings.simplefilter("ignore")  # textual-image uses what Pillow will drop one day
            if picture is None:
                return False
            sys.stdout.flush()
            _show(picture, screen)
    except Exception:  # noqa: BLE001 - decoders raise anything for bytes that are not a picture
        return False
    return True


def _opened(data: bytes) -> Picture | None:
    """The picture, no larger than can be seen; None for one that is too large to decode."""
    from PIL import Image, ImageFile

    ImageFile.LOAD_TRUNCATED_IMAGES = True  # wrong checksums beside the pixels, as browsers do
    with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
        if opened.width * opened.height > _MOST_PIXELS:
            return None
        opened.draft("RGB", (_LARGEST, _LARGEST))
        picture = opened.convert("RGBA")
    picture.thumbnail((_LARGEST, _LARGEST))
    return picture


def _show(picture: Picture, screen: Screen) -> None:
    log = logging.getLogger("textual_image")  # it logs a terminal that does not answer
    log.addHandler(logging.NullHandler())
    log.propagate = False
    from textual_image.renderable import Image as Drawn  # asks the terminal

    columns, lines = screen.size
    width, height = max(1, min(columns - 1, picture.width // 8)), max(1, lines - 3)
    if width * picture.height > 2 * height * picture.width:  # a cell is twice as high as wide
        width = max(1, 2 * height * picture.width // picture.height)
    screen.show(Drawn(picture, width=width, height="auto"))


def _can_be_asked() -> bool:
    """Whether the terminal's answer would come to our standard input, and to no other program."""
    if sys.platform == "win32":
        return False
    try:
        here, there = sys.__stdin__, sys.__stdout__
        if here is None or there is None or not (here.isatty() and there.isatty()):
            return False
        if sys.platform == "win32":
            return False  # its console draws no pictures
        return os.tcgetpgrp(here.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):
        return False
