"""The paths that a host gives for its files."""

from __future__ import annotations

import os

from ..errors import ConfigError

__all__ = ["given_path"]


def given_path(path: object, option: str) -> str:
    """``path`` as text. Raises ``ConfigError``, which begins with ``option``, for what is not the
    path of a file: neither text nor a path, empty, or of characters that no path has."""
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if isinstance(text, str) and text and "\0" not in text:
            try:
                os.fsencode(text)
                return text
            except UnicodeEncodeError:
                pass
    raise ConfigError(f"{option}: give the path of a file")
