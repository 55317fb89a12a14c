"""The name of a server by its command, if the host gave it no name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

__all__ = ["name_of_command"]

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
