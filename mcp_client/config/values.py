"""Replace references in the values of a config file: variables, inputs, and other files.

One pass over the text, and no shell: the value of a variable is put in unchanged and never searched
for references again. A reference to a variable that is not set, or of a kind that is not known, is
an error that names it: a text is never left empty because something was missing.

A project's file chooses the paths of its files of variables. So they are not read before a person
is about to be asked whether its server may be started. Each is read once, and all of them within
one budget. They must be below the project's directory or the person's home: anywhere else a path
may lead to another machine, to a device or to other users' files. The same applies to the files of
``${file:PATH}``. They and the keyring's entries are secrets: see ``security``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..runtime.safe_text import safe_text

__all__ = [
    "Expanded",
    "Files",
    "Misspelled",
    "SecretReference",
    "Syntax",
    "Unset",
    "Variables",
    "expand",
    "values_of",
]

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_WITH_DEFAULT = re.compile(rf"({_VARIABLE})(?::-(.*))?", re.DOTALL)
_OF_ANY_PROGRAM = re.compile(
    rf"\s*(?:(?:env|input|secrets|vars)[:.])?\s*({_VARIABLE})\s*(?::?[-=].*)?", re.I | re.DOTALL
)
"""The pattern of the text in braces, in programs with variables or inputs."""
SPELLED = re.compile(
    rf"\$\{{{{1,2}}\s*(?:(?:env|secrets|vars)[:.])?\s*({_VARIABLE})\s*(?::?[-=][^{{}}]*)?\}}{{1,2}}"
    rf"|(?<!\$)\{{env:({_VARIABLE})\}}|(?<![\w%])%([A-Z_][A-Z0-9_]+)%"
    r"|(?<!\S)\$(?:env:)?([A-Z_][A-Z0-9_]{2,})(?![^\s/\\])"
)
"""A variable as some program spells it; its name is in one of the groups."""
_PLUGIN = "CLAUDE_PLUGIN_ROOT"
"""The variable for the directory of a plugin of Claude Code, which has its ``.mcp.json``."""
_MAX_FILE_BYTES = 64 * 1024
_MAX_LINKS = 40
_MAX_VARIABLES = 1_000
_ENV_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)", re.DOTALL)
_NOT_READ = "***"
_SECRET = re.compile(r"(file|keyring):(.+)", re.DOTALL)
SECRET_IN_TEXT = re.compile(r"\$\{(file|keyring):[^{}]+\}")

LOADERS = re.compile(
    r"LD_(PRELOAD|LIBRARY_PATH|AUDIT)|DYLD_\w+|GCONV_PATH|OPENSSL_(CONF|MODULES)|PATH|HOME"
    r"|XDG_(CONFIG|DATA)_(HOME|DIRS)"
    r"|PYTHON(PATH|STARTUP|HOME|USERBASE|BREAKPOINT|WARNINGS|PLATLIBDIR|PYCACHEPREFIX|EXECUTABLE)"
    r"|NODE_(OPTIONS|PATH|REPL_EXTERNAL_MODULE|TLS_REJECT_UNAUTHORIZED|EXTRA_CA_CERTS)"
    r"|BASH_ENV|ENV|SHELL|PROMPT_COMMAND|IFS|SHELLOPTS|PERL5(OPT|LIB|DB)|RUBY(OPT|LIB)"
    r"|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|CLASSPATH|DOTNET_STARTUP_HOOKS|CORECLR_\w+"
    r"|GIT_(SSH(_COMMAND)?|CONFIG\w*|EXEC_PATH|PROXY_COMMAND|ASKPASS|EXTERNAL_DIFF|PAGER|EDITOR)"
    r"|BROWSER|EDITOR|VISUAL|PAGER|DOCKER_(HOST|CONFIG|CONTEXT)"
    r"|(npm|pnpm|uv|pip|pipx|bun)_config_\w+|yarn_\w*registry\w*|cargo_(home|registr\w+)"
    r"|(uv|pip|pipx)_(index|(extra_)?index_url|default_index|find_links|override|constraint|python)"
    r"|(HTTPS?|ALL)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE"
    r"|BASH_FUNC_.*|KUBECONFIG|GO(ROOT|PATH|PROXY|ENV|BIN|NOSUMDB|PRIVATE)|CC|CXX|LD|AR|MAKE"
    r"|LESS(OPEN|CLOSE)|COMSPEC|PATHEXT|PSMODULEPATH|ZDOTDIR|INPUTRC|TERMINFO|\w*PAGER|\w*EDITOR"
    r"|RUSTC|LUA_(C?PATH|INIT)\w*|PHP(RC|_INI_SCAN_DIR)|R_(PROFILE|ENVIRON)\w*|JULIA_\w+|DENO_\w+"
    r"|\w*(OPTS|OPTIONS|FLAGS|PRELOAD|WRAPPER|_HOOKS?|RUNNER|_CONFIG_FILE|_CONFIG_HOME)"
    r"|\w*(LIBRARY_PATH|PLUGIN_PATH|MODULE_PATH|RSH|ASKPASS)",
    re.I | re.DOTALL,
)
"""Names of variables that make programs load or run other code."""


class Unset(Exception):
    """An error: a reference cannot be replaced. ``args[0]`` has the reason and what to do."""


class Misspelled(Unset):
    """A reference as another program spells it: ``args[1]`` names the variable or the input."""


class SecretReference(NamedTuple):
    """A reference to a secret."""

    kind: str
    """"file" or "keyring"."""
    name: str
    """The path as it is written, or service and user."""
    place: str
    """The file, with its links followed; or service and user."""


class Expanded(NamedTuple):
    """A value with its references replaced."""

    value: str
    """The value as it is used; ``***`` replaces a secret that is not read yet."""
    shown: str
    """The same, with what comes from outside the file as it is written: ``--key=${KEY}``. A
    default that the file itself gives is shown as it is put in."""
    used: tuple[str, ...] = ()
    """The values from outside the file: names of variables, ``input:ID``, ``file:PATH``,
    ``keyring:SERVICE/USER``."""
    parts: tuple[str | SecretReference, ...] = ()
    """The parts of a value that has secrets."""
    at: tuple[str | int, ...] = ()
    """The place of such a value in the file."""
    empty: tuple[str, ...] = ()
    """The references that brought an empty text."""
    is_set: bool = True
    """False for a variable that is passed on if it is set, and is not."""

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        """The references to secrets in it."""
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    def __repr__(self) -> str:
        return f"<Expanded, {len(self.used)} references>"


def values_of(texts: Mapping[str, Expanded]) -> dict[str, str]:
    """Return what is used, by name."""
    return {name: each.value for name, each in texts.items() if each.is_set}


Syntax: TypeAlias = frozenset[str]
"""The references that a program knows: "braced", ``${NAME}`` and ``${NAME:-default}`` for variables
of the environment; "bare", ``$NAME``; "env" and "input", ``${kind:name}``; "directories",
``${workspaceFolder}``, ``${userHome}`` and the like; "plugin", ``${CLAUDE_PLUGIN_ROOT}``. If a
program knows any of them, our own for secrets are supported, too."""

_REFERENCE = re.compile(rf"\$\{{(?P<body>[^{{}}]*)\}}|(?P<open>\$\{{)|\$(?P<bare>{_VARIABLE})")


@dataclass(frozen=True, slots=True)
class Variables:
    """The sources of values."""

    directory: Path
    """``${workspaceFolder}``."""
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of ``${input:ID}`` that the host gave."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    home: Path = field(default_factory=Path.home)
    base: Path | None = None
    """The directory of relative paths of secrets; None for ``directory``."""
    defaults: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The values of ``${input:ID}`` in the file itself, used if the host gave none."""
    files: Files = field(
        default_factory=lambda: Files(None, _MAX_FILE_BYTES, reads=True), repr=False
    )

    def variable(self, name: str) -> str:
        """Return the value of a variable. Raises ``Unset``."""
        value = self.environ.get(name)
        if value is None:
            raise Unset(f"the environment variable {_quoted(name)} is not set: set it")
        return value

    def input(self, name: str) -> str:
        """Return the value of an input. Raises ``Unset``."""
        if name not in self.inputs:
            quoted = _quoted(name)
            raise Unset(f"no value for the input {quoted}: give it as inputs={{{quoted}: ...}}")
        return self.inputs[name]

    def secret(self, kind: str, name: str) -> SecretReference:
        """Return a reference to a secret, which is not read."""
        if kind == "keyring":
            keyring_entry(name)
            return SecretReference(kind, name, name)
        base = self.base or self.directory
        path = self.home / name[2:] if name.startswith("~/") else base / name
        return SecretReference(kind, name, self.files.place(path, name))

    def named(self, name: str) -> str | None:
        """Return a directory or sign of the program's own; None for an unknown name."""
        match name:
            case "workspaceFolder":
                return str(self.directory)
            case "workspaceFolderBasename":
                return self.directory.name
            case "userHome":
                return str(self.home)
            case "pathSeparator" | "/":
                return os.sep
        return None


def expand(text: str, syntax: Syntax, variables: Variables, *, secrets: bool = False) -> Expanded:
    """Return ``text`` with its references replaced, once.

    Raises ``Unset``, also for a reference to a secret unless it may have ``secrets``.
    """
    if not syntax:
        return Expanded(text, text)
    used: list[str] = []
    values: list[str] = []
    visible: list[str] = []
    parts: list[str | SecretReference] = []
    empty: list[str] = []
    at = 0
    for match in _REFERENCE.finditer(text):
        if match["bare"] and "bare" not in syntax:
            continue
        between = text[at : match.start()]
        secret = _SECRET.fullmatch(match["body"] or "")
        if secret is None:
            value, name = _reference(match, syntax, variables)
            parts += (between, value)
            if not value:
                empty.append(match[0])
        elif not secrets:
            raise Unset(
                f"the secret {safe_text(match[0], 80)} would be seen there by others: only values "
                "of env, of headers and the client secret of a login may have one"
            )
        else:
            value, name = _NOT_READ, match["body"]
            parts += (between, variables.secret(*secret.groups()))
        values += (between, value)
        visible += (between, value if name is None else match[0])
        if name is not None:
            used.append(name)
        at = match.end()
    rest = text[at:]
    parts.append(rest)
    has_secret = any(isinstance(part, SecretReference) for part in parts)
    return Expanded(
        "".join([*values, rest]),
        "".join([*visible, rest]),
        tuple(used),
        tuple(parts) if has_secret else (),
        empty=tuple(empty),
    )


def _reference(
    match: re.Match[str], syntax: Syntax, variables: Variables
) -> tuple[str, str | None]:
    """Return the value, and the name of its source: None for a value of the file itself."""
    if match["open"]:
        raise Unset("a reference '${' does not end, or has another one in it: write them apart")
    if match["bare"]:
        return variables.variable(match["bare"]), match["bare"]
    body: str = match["body"]
    if "directories" in syntax and (value := variables.named(body)) is not None:
        return value, None
    kind, colon, name = body.partition(":")
    if colon and kind in syntax and kind in _SOURCES and name:
        if kind == "input" and name not in variables.inputs and name in variables.defaults:
            return variables.defaults[name], None
        return _SOURCES[kind](variables, name), name if kind == "env" else body
    found = _WITH_DEFAULT.fullmatch(body) if "braced" in syntax else None
    if found is not None:
        is_root = body == _PLUGIN and "plugin" in syntax and _PLUGIN not in variables.environ
        if is_root and variables.base not in (None, variables.home):
            return str(variables.base), None
        if found[2] is not None and found[1] not in variables.environ:
            return found[2], None
        return variables.variable(found[1]), found[1]
    meant = _OF_ANY_PROGRAM.fullmatch(body)
    named = body if meant is None else body[: meant.end(1)]
    why = f"the reference {safe_text('${' + named + '}', 80)} is not supported here"
    if meant is not None:
        raise Misspelled(why, meant[1])
    raise Unset(f"{why}: write the value, or use a variable of the environment")


_SOURCES: dict[str, Callable[[Variables, str], str]] = {
    "env": Variables.variable,
    "input": Variables.input,
}


def keyring_entry(name: str) -> tuple[str, str]:
    """Service and user: the last slash divides them. Raises ``Unset``."""
    service, _, user = name.rpartition("/")
    if not service or not user:
        raise Unset(
            "a secret of the keyring is named by service and user: write keyring:SERVICE/USER"
        )
    return service, user


def _quoted(name: str) -> str:
    return repr(safe_text(name, 80))


# ------------------------------------------------------------------------ files


class Files:
    """The files that the servers of one config file include. For any number of threads."""

    def __init__(self, below: Iterable[Path] | None, most: int, *, reads: bool) -> None:
        """Create it.

        ``below``: the directories that files may lie in; None for any. ``most``: bytes of all of
        them. ``reads``: False if none is opened, because no one is asked yet.
        """
        self.reads = reads
        self._below = None if below is None else tuple(map(str, below))
        self._left = most
        self._read: dict[str, str] = {}
        self._values: dict[str, Mapping[str, str] | Unset] = {}
        self._lock = threading.Lock()

    def text(self, path: Path, most: int, shown: str) -> str | None:
        """Return the text of a file; None where nothing is read.

        Raises ``Unset``, which calls it ``shown``.
        """
        place = self.place(path, shown)
        if not self.reads:
            return None
        with self._lock:
            if place not in self._read:
                text = file_text(Path(place), min(most, self._left), shown=shown)
                self._left -= len(text.encode())
                self._read[place] = text
            return self._read[place]

    def place(self, path: Path, shown: str) -> str:
        """Return the file that ``path`` leads to, which exists and may be read.

        Raises ``Unset``.
        """
        below = self._below
        place = os.path.abspath(path) if below is None else resolved(str(path), below)
        if place is None:
            raise Unset(
                f"{safe_text(shown, 200)} is not in the directory of the project, nor in your "
                "home: a project's file may not name another file"
            )
        if not os.path.lexists(place):
            why = os.strerror(errno.ENOENT)
            raise Unset(f"{safe_text(shown, 200)} cannot be read ({why}): check the path")
        return place

    def check(self, secret: SecretReference) -> None:
        """Raise ``Unset`` where its file has become a link since it was shown."""
        if self.place(Path(secret.place), secret.name) != secret.place:
            raise Unset(
                f"{safe_text(secret.name, 200)} leads to another place than when it was shown"
            )

    def values(
        self, path: Path, most: int, shown: str, read: Callable[[str], Mapping[str, str]]
    ) -> Mapping[str, str] | None:
        """Return the result of ``read`` for a file's text, once for all servers.

        It is None if nothing is read. Raises ``Unset``, as ``read`` may.
        """
        text = self.text(path, most, shown)
        if text is None:
            return None
        with self._lock:
            if text not in self._values:
                try:
                    self._values[text] = read(text)
                except Unset as error:
                    self._values[text] = error
            found = self._values[text]
        if isinstance(found, Unset):
            raise Unset(*found.args)
        return found


def file_text(path: Path, most: int, *, shown: str | None = None, pipes: bool = False) -> str:
    """Return the text of a small file.

    Raises ``Unset``, which calls it ``shown``; waits for no pipe and no device, unless ``pipes``
    are to be read too.
    """
    name = path if shown is None else shown
    try:
        file = os.open(path, os.O_RDONLY | (0 if pipes else getattr(os, "O_NONBLOCK", 0)))
        with open(file, "rb") as stream:
            if not pipes and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unset(f"{safe_text(name, 200)} is not a regular file")
            content = stream.read(most + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its path is not one"
        raise Unset(f"{safe_text(name, 200)} cannot be read ({why}): check the path") from None
    if len(content) > most:
        raise Unset(f"{safe_text(name, 200)} has more than {most:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unset(f"{safe_text(name, 200)} is not UTF-8 text") from None


def env_values(text: str) -> dict[str, str]:
    """Return the variables of an environment file: ``NAME=value`` lines, ``#`` comments, quotes.

    Nothing in it is interpolated. Raises ``Unset``.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line)
        if match is None or "\0" in line:
            raise Unset(f"line {number} of the environment file is not NAME=value")
        name, value = match.groups()
        if value[:1] in ("'", '"') and value.rfind(value[0]) > 0:
            value = value[1 : value.rfind(value[0])]
        else:
            value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
        found[name] = value
        if len(found) > _MAX_VARIABLES:
            raise Unset(f"the environment file has more than {_MAX_VARIABLES:,} variables")
    return found


def resolved(path: str, below: Iterable[str]) -> str | None:
    """Return ``path`` with its links followed; None if it leads out of the directories ``below``.

    Nothing outside of them is looked at.
    """
    found, is_below = followed(path, below)
    return found if is_below else None


def followed(path: str, below: Iterable[str]) -> tuple[str, bool]:
    """Return ``path`` with its links followed while it stays below, and whether it did."""
    tops = {top for each in below for top in (os.path.abspath(each), os.path.realpath(each))}
    tops.discard(os.sep)
    path = os.path.abspath(path)
    for _ in range(_MAX_LINKS):
        top = max((top for top in tops if is_within(path, top)), key=len, default=None)
        if top is None:
            return path, False
        link = _first_link(top, path[len(top) :].strip(os.sep).split(os.sep))
        if link is None:
            return path, True
        path = link
    return path, False


def _first_link(here: str, parts: list[str]) -> str | None:
    """Return the path after its first link is followed; None if it has none."""
    for number, part in enumerate(parts):
        here = os.path.join(here, part)
        try:
            target = os.readlink(here)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it is not there, so nothing below it is
                return None
        except ValueError:
            return None
        else:
            directory = os.path.dirname(here)
            return os.path.abspath(os.path.join(directory, target, *parts[number + 1 :]))
    return None


def is_within(path: str, directory: str) -> bool:
    """Whether ``path`` is in ``directory``."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)
