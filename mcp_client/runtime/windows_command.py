"""How a command is found and its line written on Windows. Pure, so that it is tested anywhere.

- Looked up in the folders of PATH only, never in the working directory, and only as a kind of file
  that can be started: ``npx`` is ``npx.cmd`` there, beside a script for other systems that is just
  called ``npx``.
- A batch file is run by cmd.exe, which reads its line by other rules than any other program and may
  take a part of an argument for a command ("BatBadBut", CVE-2024-24576). Every word is put in
  quotation marks, within which only a quotation mark, a percent sign and a line break mean
  anything, to cmd.exe and to the batch file that passes its arguments on. A word that contains one
  of those is refused.
"""

from __future__ import annotations

import ntpath
import os
from collections.abc import Callable, Mapping, Sequence

__all__ = ["INHERITED", "command_line", "find_executable", "merged_environment", "split_words"]

INHERITED = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TZ",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
)
"""The variables that a server gets on Windows, where many programs do not start without some."""

_BATCH = (".bat", ".cmd")
_STARTED = (".com", ".exe", *_BATCH)
"""What can be started. PATHEXT also names scripts that need a program to run them."""
_UNSAFE = {'"': "a quotation mark", "%": "a percent sign"}
_CONTROL = ("Cc", "Zl", "Zp")
"""The Unicode categories of characters that may end a line or stand for a key."""


def find_executable(
    command: str,
    cwd: str | None,
    env: Mapping[str, str],
    is_file: Callable[[str], bool] = os.path.isfile,
) -> str | None:
    """The absolute path of the file to run; None where it is not found."""
    if ntpath.basename(command) != command:
        folders = [ntpath.join(cwd or os.getcwd(), ntpath.dirname(command))]
    else:
        folders = [f for f in env.get("PATH", "").split(";") if ntpath.isabs(f.strip('"'))]
    name = ntpath.basename(command)
    for folder in folders:
        for each in _names(name, env):
            path = ntpath.abspath(ntpath.join(folder.strip('"'), each))
            if is_file(path):
                return path
    return None


def _names(name: str, env: Mapping[str, str]) -> list[str]:
    if name.lower().endswith(_STARTED):
        return [name]
    told = env.get("PATHEXT", "").lower().split(";")
    order = [kind for kind in told if kind in _STARTED] or list(_STARTED)
    return [name + kind for kind in order]


def merged_environment(
    host: Mapping[str, str], given: Mapping[str, str], inherited: Sequence[str] = INHERITED
) -> dict[str, str]:
    """A server's environment: what it inherits and, before that, ``given``. Names differ by more
    than their case, as Windows does not tell them apart."""
    upper = {name.upper(): value for name, value in host.items()}
    env = {name: upper[name] for name in inherited if name in upper}
    for name, value in given.items():
        env[name.upper()] = value
    return env


def split_words(text: str) -> list[str]:
    """The words of a line that a person wrote: quotation marks of both kinds keep one together, and
    a backslash is a part of a path. Raises ``ValueError`` for a mark that is not closed."""
    from shlex import shlex

    reader = shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    reader.commenters = reader.escape = ""
    return list(reader)


def command_line(argv: Sequence[str]) -> str:
    """The line for ``CreateProcess``. Raises ``ValueError`` for what a batch file cannot be given
    safely. ``argv`` begins with an absolute path."""
    from subprocess import list2cmdline

    if not argv[0].lower().rstrip(" .").endswith(_BATCH):
        return list2cmdline(argv)
    words = [_quoted(word, position) for position, word in enumerate(argv)]
    # /d: without the commands of AutoRun; /v:off: "!" means nothing; /s: what is between the first
    # quotation mark and the last is the command.
    shell = ntpath.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "cmd.exe")
    return f'"{shell}" /d /e:on /v:off /s /c "{" ".join(words)}"'


def _quoted(word: str, position: int) -> str:
    from unicodedata import category  # only for a batch file

    for character in word:
        if character in _UNSAFE or category(character) in _CONTROL:
            what = _UNSAFE.get(character, "a control character")
            which = f"its argument {position}" if position else "its path"
            raise ValueError(
                f"it is a batch file, run by cmd.exe, and {which} contains {what}, which cmd.exe "
                "might take for a part of a command; give the program that the batch file starts "
                "and its arguments instead (of npx: node and the path of npx-cli.js)"
            )
    # A program that the batch file starts reads a backslash before a quotation mark as an escape.
    slashes = len(word) - len(word.rstrip("\\"))
    return f'"{word}{slashes * chr(92)}"'
