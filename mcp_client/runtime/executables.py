"""Which file a command is, and which of the host's variables the program that it starts gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from . import windows_command

__all__ = ["environment_of", "find_executable", "inherited", "shown_words", "split_words"]

_LEFT_OUT = "..."
_WITHOUT_VALUE = ("-y", "--yes", "-m")
_INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)


def inherited() -> tuple[str, ...]:
    """The variables of the host's environment that a server gets; everything else the host has
    (keys, tokens) stays with the host unless ``StdioServer(env=...)`` passes it on."""
    return windows_command.INHERITED if sys.platform == "win32" else _INHERITED


def environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: what it inherits, and ``given`` before that."""
    if sys.platform == "win32":
        return windows_command.merged_environment(os.environ, given)
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **given}


def find_executable(command: str, cwd: str | None, env: Mapping[str, str]) -> str | None:
    """The absolute path of the file to run; None where it is not found.

    As the system does it: a path is relative to the directory the server runs in. But what stands
    relative on PATH, or empty, is not looked through: in the folder of a project, that would be the
    project's own programs. (``shutil.which`` takes the modules of three compressors to be loaded.)
    """
    if sys.platform == "win32":
        return windows_command.find_executable(command, cwd, env)
    if os.sep in command:
        candidates = [os.path.join(cwd or "", command)]
    else:
        folders = env.get("PATH", os.defpath).split(os.pathsep)
        candidates = [os.path.join(path, command) for path in folders if os.path.isabs(path)]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def split_words(text: str) -> list[str]:
    """The words of a line that a person wrote, as the shells of this system read them. Raises
    ``ValueError`` for a quotation mark that is not closed."""
    if sys.platform == "win32":
        return windows_command.split_words(text)
    import shlex  # only for a line

    return shlex.split(text)


def shown_words(words: Sequence[str]) -> list[str]:
    """The words of a command with "..." for what may be secret in them: the value of an option or a
    variable, and where a URL leads. Of those alone, ``-y`` and ``-m`` have none."""
    shown: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("-")
        if is_value and not is_option:
            shown.append(_LEFT_OUT)
        elif equals:
            shown.append(f"{name}={_LEFT_OUT}")
        elif is_option and not word.startswith("--"):
            shown.append(word if len(word) <= 2 else word[:2] + _LEFT_OUT)
        else:
            scheme, leads, _ = word.partition("://")
            shown.append(f"{scheme}://{_LEFT_OUT}" if leads else word)
        is_value = is_option and not equals and word not in _WITHOUT_VALUE
    return shown
