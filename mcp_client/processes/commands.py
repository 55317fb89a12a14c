"""A command that starts a server: its file, its variables, and its default name.

On Windows a command is looked up as a kind of file that can be started. ``npx`` is ``npx.cmd``
there, and the file ``npx`` next to it is a script for other systems. A batch file is run by
cmd.exe, which has its own rules for parsing a line. It may run a part of an argument as a command
("BatBadBut", CVE-2024-24576). Every word is put in quotation marks. Within them, only a quotation
mark, a percent sign and a line break have a meaning to cmd.exe and to a batch file that passes its
arguments on. A word that contains one of those is refused. All of it is pure, so that it is tested
anywhere.
"""

from __future__ import annotations

import ntpath
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from ..errors import Advice

__all__ = [
    "command_line_on_windows",
    "environment_of",
    "environment_on_windows",
    "find_executable",
    "find_on_windows",
    "inherited",
    "name_of_command",
    "redacted_words",
    "split_words",
    "why_not_found",
    "words_on_windows",
]

_LEFT_OUT = "..."
_WITHOUT_VALUE = ("-y", "--yes", "-m")
_INHERITED = tuple(
    "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER".split()  # noqa: SIM905
)
_INHERITED_ON_WINDOWS = tuple(
    """
    APPDATA COMSPEC HOMEDRIVE HOMEPATH LANG LOCALAPPDATA NUMBER_OF_PROCESSORS OS PATH PATHEXT
    PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP TZ USERNAME
    USERPROFILE WINDIR
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Many programs do not start there without some of them."""
_BATCH = (".bat", ".cmd")
_STARTED = (".com", ".exe", *_BATCH)
"""The endings of files that can be started. PATHEXT also names scripts that need a program."""
_UNSAFE = {'"': "a quotation mark", "%": "a percent sign"}
_CONTROL = ("Cc", "Zl", "Zp")
"""The Unicode categories of characters that may end a line or mean a key."""


def inherited() -> tuple[str, ...]:
    """Return the variables of the host's environment that a server gets.

    All others (keys, tokens) stay with the host unless ``StdioServer(env=...)`` passes them on.
    """
    return _INHERITED_ON_WINDOWS if sys.platform == "win32" else _INHERITED


def environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: what it inherits, and ``given`` before that."""
    if sys.platform == "win32":
        return environment_on_windows(os.environ, given)
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **given}


def find_executable(command: str, cwd: str | None, env: Mapping[str, str]) -> str | None:
    """Return the absolute path of the file to run; None if it is not found.

    The search is the system's: a path is relative to the directory the server runs in. But a
    relative or empty entry of PATH is ignored, because it would find programs of the current
    directory, such as those of a project. (``shutil.which`` would load the modules of three
    compressors.)
    """
    if sys.platform == "win32":
        return find_on_windows(command, cwd, env)
    if os.sep in command:
        candidates = [os.path.join(cwd or "", command)]
    else:
        directories = env.get("PATH", os.defpath).split(os.pathsep)
        candidates = [os.path.join(path, command) for path in directories if os.path.isabs(path)]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def split_words(text: str) -> list[str]:
    """Return the words of a line that a person wrote, as the shells of this system read them.

    Raises ``ValueError`` for a quotation mark that is not closed.
    """
    if sys.platform == "win32":
        return words_on_windows(text)
    import shlex  # only for a line

    return shlex.split(text)


def redacted_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command with "..." for what may be secret in them.

    Those are the value of an option or a variable, and the rest of a URL. Of those alone, ``-y``
    and ``-m`` have none.
    """
    redacted: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("-")
        if is_value and not is_option:
            redacted.append(_LEFT_OUT)
        elif equals:
            redacted.append(f"{name}={_LEFT_OUT}")
        elif is_option and not word.startswith("--"):
            redacted.append(word if len(word) <= 2 else word[:2] + _LEFT_OUT)
        else:
            scheme, leads, _ = word.partition("://")
            redacted.append(f"{scheme}://{_LEFT_OUT}" if leads else word)
        is_value = is_option and not equals and word not in _WITHOUT_VALUE
    return redacted


# ----------------------------------------------------------------------- on Windows


def find_on_windows(
    command: str,
    cwd: str | None,
    env: Mapping[str, str],
    is_file: Callable[[str], bool] = os.path.isfile,
) -> str | None:
    """Return the absolute path of the file to run; None if it is not found."""
    if ntpath.basename(command) != command:
        directories = [ntpath.join(cwd or os.getcwd(), ntpath.dirname(command))]
    else:
        directories = [f for f in env.get("PATH", "").split(";") if ntpath.isabs(f.strip('"'))]
    name = ntpath.basename(command)
    for directory in directories:
        for each in _names(name, env):
            path = ntpath.abspath(ntpath.join(directory.strip('"'), each))
            if is_file(path):
                return path
    return None


def _names(name: str, env: Mapping[str, str]) -> list[str]:
    if name.lower().endswith(_STARTED):
        return [name]
    suffixes = env.get("PATHEXT", "").lower().split(";")
    order = [kind for kind in suffixes if kind in _STARTED] or list(_STARTED)
    return [name + kind for kind in order]


def environment_on_windows(host: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: what it inherits and, before that, ``given``.

    Names must differ by more than their case on Windows.
    """
    upper = {name.upper(): value for name, value in host.items()}
    env = {name: upper[name] for name in _INHERITED_ON_WINDOWS if name in upper}
    for name, value in given.items():
        env[name.upper()] = value
    return env


def words_on_windows(text: str) -> list[str]:
    """Return the words of a line that a person wrote.

    Quotation marks of both kinds join a word, and a backslash is a part of a path. Raises
    ``ValueError`` for a mark that is not closed.
    """
    from shlex import shlex

    reader = shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    reader.commenters = reader.escape = ""
    return list(reader)


def command_line_on_windows(argv: Sequence[str]) -> str:
    """Return the line for ``CreateProcess``.

    Raises ``ValueError`` for what a batch file cannot be given safely. ``argv`` begins with an
    absolute path.
    """
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
                f"it is a batch file, and {which} contains {what}, which cmd.exe might execute. "
                "Give the program that the batch file starts, with its arguments (for npx: node "
                "and the path of npx-cli.js)"
            )
    # A program that the batch file starts reads a backslash before a quotation mark as an escape.
    slashes = len(word) - len(word.rstrip("\\"))
    return f'"{word}{slashes * chr(92)}"'


_CONTAINERS = ("docker", "podman")
_LAUNCHERS = frozenset(
    """
    python pythonw pypy py node tsx ts-node npx npm pnpm yarn bun bunx deno uv uvx pipx poetry
    docker podman java dotnet go ruby php env sh bash zsh cmd
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""The programs that run a program after which the server is named."""
_BEFORE_PROGRAM = ("run", "exec", "dlx", "x", "tool", "container", "/c")
_WITH_VALUE = frozenset(
    """
    -W -X -r --require --import --loader --env-file --conditions -p --package --registry --python
    --with --with-editable --with-requirements --from --index --index-url --extra --group --config
    --import-map --spec -P -e --env -v --volume --mount --name --network --publish -w --workdir
    -u --user --platform --entrypoint --add-host -l --label -h --hostname -m --memory --cpus --pull
    --runtime -cp -classpath --class-path --unset
    """.split()  # noqa: SIM905
)
"""Options of launchers whose next word is theirs: it may be a secret, and is in no name."""
_DIRECTORY_OPTIONS = ("--directory", "--project", "--chdir", "-C")
_TEXTS = ("-c", "-e", "--eval", "--print")
"""The options that the text of a program follows, except if a container is run."""
_GENERIC = frozenset(
    """
    server main index app __main__ run start cli mcp stdio program src dist build lib bin out
    target scripts mcp_server mcp-server
    """.split()  # noqa: SIM905
)
"""The words that name many servers; the directory is used instead."""
_READABLE = re.compile(r"[\w@.-]{1,40}")
_EXTENSION = re.compile(r"\.(?:py|pyz|js|mjs|cjs|ts|mts|jar|dll|exe|cmd|bat|sh|rb|php|go)\Z", re.I)
_VERSION = re.compile(r"(?<=.)(?:@[\w.^~-]*|[=<>~!]=?.*|\[.*)\Z")
_IMAGE_TAG = re.compile(r"(?:@sha256:.*|:[\w.-]+)\Z")


def name_of_command(
    command: str, args: Sequence[str], cwd: str | os.PathLike[str] | None = None
) -> str:
    """Return the name of what is run, not of its launcher: ``uv run weather.py`` is "weather".

    A file with a common name (``server.py``) is named after its directory, if the words or ``cwd``
    name one. A name contains only words that name a program, a file, a package or an image. Options
    and arguments of the server are left out, because they may be secret.
    """
    directory = None if cwd is None else os.fspath(cwd)
    launcher = _launcher(command)
    if launcher is None:
        return _named(command, directory) or "server"
    fallback, words = _stem(command), iter(args)
    for word in words:
        option, _, value = word.partition("=")
        in_container = launcher in _CONTAINERS
        if option in ("-m", "--module") and not in_container:
            return _named(next(words, "").replace(".", "/"), None) or fallback
        if option in _TEXTS and not in_container:
            return fallback
        if option in _DIRECTORY_OPTIONS:
            directory = value or next(words, None)
        elif option in _WITH_VALUE:
            value = value or next(words, "")
            if _EXTENSION.search(value) and not in_container:  # ``python -u weather.py``
                return _named(value, directory) or fallback
        elif word.startswith("-") or value or word in _BEFORE_PROGRAM:
            continue
        elif (inner := _launcher(word)) is not None:
            launcher = inner
        else:
            return _named(_IMAGE_TAG.sub("", word) if in_container else word, directory) or fallback
    return fallback


def _launcher(word: str) -> str | None:
    name = _stem(word)
    name = name.rstrip("0123456789.") or name
    return name if name in _LAUNCHERS else None


def _named(word: str, directory: str | None) -> str:
    """Return a name for a program, a file, a package or an image; empty if none fits."""
    word = word.replace("\\", "/").removesuffix(".git")
    parts = [part for part in word.split("/") if part not in ("", ".", "..")]
    if directory is not None and not word.startswith(("/", "@")):
        parts = [part for part in directory.replace("\\", "/").split("/") if part] + parts
    names = [_stem(part).lstrip("@") if part.startswith("@") else _stem(part) for part in parts]
    for name in reversed(names):
        if name.lower() not in _GENERIC and _READABLE.fullmatch(name):
            return name
    return names[-1] if names and _READABLE.fullmatch(names[-1]) else ""


def _stem(word: str) -> str:
    last = word.replace("\\", "/").rsplit("/", 1)[-1]
    return _EXTENSION.sub("", _VERSION.sub("", last) or last)


def why_not_found(command: str, args: Sequence[str]) -> tuple[str, Advice]:
    """Return the reason why no file was found for ``command``, and what to do."""
    if command.startswith("~"):
        return "'~' is not expanded", Advice("give os.path.expanduser('~/...')", "home")
    try:
        words = split_words(command)
    except ValueError:
        words = []
    if len(words) > 1:
        more = ", ..." if args else ""
        program, *rest = redacted_words(words)
        apart = (
            f"give the command and its arguments apart: StdioServer({program!r}, "
            f"[{', '.join(map(repr, rest))}{more}])"
        )
        missing = os.path.isabs(words[0]) and not os.path.exists(words[0])
        if missing and not any(word.startswith("-") for word in rest):
            return "no file has this path", Advice(
                f"if it is a whole command line, {apart}", "command"
            )
        return "it is a whole command line", Advice(apart, "command")
    if os.path.basename(command) != command:
        advice = Advice("check the path, and that it may be executed")
        return "it is not an executable file", advice
    return "it is not on PATH", Advice("install it, or give its full path")
