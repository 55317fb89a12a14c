"""Variables in the values of a config file, in each program's own way of writing them.

One pass over the text, and no shell: what a variable brings is put in as it is and never searched
for references again. A reference to a variable that is not set, or of a kind that is not known, is
an error that names it: a text is never put in empty because something was missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..runtime.safe_text import safe_text
from .config_files import Files, Unset

__all__ = ["BRACED", "DOLLAR", "NO_SYNTAX", "Expanded", "Syntax", "Unset", "Variables", "expand"]

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_WITH_DEFAULT = re.compile(rf"({_VARIABLE})(?::-(.*))?", re.DOTALL)
_FILE_BYTES = 64 * 1024


class Expanded(NamedTuple):
    value: str
    shown: str
    """The same, with what comes from outside the file as it is written: ``--key=${KEY}``. A
    default that the file itself gives is shown as it is put in."""
    used: tuple[str, ...] = ()
    """What was put in from outside the file: names of variables, ``input:ID``, ``file:PATH``."""
    files: tuple[tuple[str, str], ...] = ()
    """The files that were put in: path and content."""

    def __repr__(self) -> str:
        return f"<Expanded, {len(self.used)} references>"


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a program writes a reference."""

    braced: bool = False
    """``${NAME}`` and ``${NAME:-default}`` for variables of the environment."""
    bare: bool = False
    """``$NAME``, too."""
    kinds: frozenset[str] = frozenset()
    """Of ``${kind:name}``: "env", "input", "file"."""
    folders: bool = False
    """``${workspaceFolder}``, ``${userHome}`` and the like."""

    @property
    def pattern(self) -> re.Pattern[str] | None:
        if not (self.braced or self.kinds or self.folders):
            return None
        return _BARE_TOO if self.bare else _BRACES


_BRACES = re.compile(r"\$\{(?P<body>[^{}]*)\}|(?P<open>\$\{)")
_BARE_TOO = re.compile(rf"\$\{{(?P<body>[^{{}}]*)\}}|(?P<open>\$\{{)|\$(?P<bare>{_VARIABLE})")
NO_SYNTAX = Syntax()
BRACED = Syntax(braced=True)
DOLLAR = Syntax(braced=True, bare=True)


@dataclass(frozen=True, slots=True)
class Variables:
    """Where values come from."""

    folder: Path
    """``${workspaceFolder}``."""
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of ``${input:ID}`` that the host gave."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    home: Path = field(default_factory=Path.home)
    defaults: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of ``${input:ID}`` that the file itself gives where the host gave none."""
    files: Files = field(default_factory=lambda: Files(None, _FILE_BYTES, reads=True), repr=False)

    def variable(self, name: str) -> str:
        value = self.environ.get(name)
        if value is None:
            raise Unset(f"the environment variable {_quoted(name)} is not set: set it")
        return value

    def input(self, name: str) -> str:
        if name not in self.inputs:
            raise Unset(
                f"no value for the input {_quoted(name)}: give it as "
                f"inputs={{{_quoted(name)}: ...}}"
            )
        return self.inputs[name]

    def file(self, path: str) -> str:
        """The reference itself where files are not read yet."""
        text = self.files.text(self.folder / path, _FILE_BYTES, path)
        return f"${{file:{path}}}" if text is None else text.strip("\r\n")

    def named(self, name: str) -> str | None:
        """A folder or sign of the program's own; None for an unknown name."""
        match name:
            case "workspaceFolder":
                return str(self.folder)
            case "workspaceFolderBasename":
                return self.folder.name
            case "userHome":
                return str(self.home)
            case "pathSeparator" | "/":
                return os.sep
        return None


def expand(
    text: str, syntax: Syntax, variables: Variables, *, shows_files: bool = False
) -> Expanded:
    """``text`` with its references replaced, once. Raises ``Unset``.

    ``shows_files``: the content of a file is ``shown``, for a word of a command.
    """
    pattern = syntax.pattern
    if pattern is None or "$" not in text:
        return Expanded(text, text)
    used: list[str] = []
    values: list[str] = []
    shown: list[str] = []
    files: list[tuple[str, str]] = []
    at = 0
    for match in pattern.finditer(text):
        between = text[at : match.start()]
        value, name = _reference(match, syntax, variables)
        is_shown = name is None
        if name is not None and match["body"] == name and name.startswith("file:"):
            files.append((name.removeprefix("file:"), value))
            is_shown = shows_files
        values += (between, value)
        shown += (between, value if is_shown else match[0])
        if name is not None:
            used.append(name)
        at = match.end()
    rest = text[at:]
    return Expanded("".join([*values, rest]), "".join([*shown, rest]), tuple(used), tuple(files))


def _reference(
    match: re.Match[str], syntax: Syntax, variables: Variables
) -> tuple[str, str | None]:
    """The value, and the name of what brought it: None for what the file itself says."""
    if match["open"]:
        raise Unset("a reference '${' does not end, or has another one in it: write them apart")
    bare = match.groupdict().get("bare")
    if bare is not None:
        return variables.variable(bare), bare
    body: str = match["body"]
    if syntax.folders and (value := variables.named(body)) is not None:
        return value, None
    kind, colon, name = body.partition(":")
    if colon and kind in syntax.kinds and name:
        if kind == "input" and name not in variables.inputs and name in variables.defaults:
            return variables.defaults[name], None
        return _SOURCES[kind](variables, name), name if kind == "env" else body
    found = _WITH_DEFAULT.fullmatch(body) if syntax.braced else None
    if found is not None:
        if found[2] is not None and found[1] not in variables.environ:
            return found[2], None
        return variables.variable(found[1]), found[1]
    raise Unset(
        f"the reference {safe_text('${' + body + '}', 80)} is not one that can be put in here: "
        "write the value, or use a variable of the environment"
    )


_SOURCES: dict[str, Callable[[Variables, str], str]] = {
    "env": Variables.variable,
    "input": Variables.input,
    "file": Variables.file,
}


def _quoted(name: str) -> str:
    return repr(safe_text(name, 80))
