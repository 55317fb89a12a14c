"""The forms of ``TARGET``: a URL, the name of a server in a config file, or a quoted command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigError, NotFound
from ..processes.commands import find_executable, split_words
from ..runtime.safe_text import near, safe_text
from ..transports.stdio import StdioServer
from .exits import UsageError
from .output import note

if TYPE_CHECKING:
    from ..config.config import Config
    from ..transports.http import HttpServer

__all__ = ["Configured", "Target", "configs_of", "secret_of", "target_of"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Configured:
    """A server of a config file."""

    config: Config
    name: str


Target = "StdioServer | HttpServer | Configured"


def target_of(
    words: str, config: str | None, headers: Iterable[str], env: Iterable[str]
) -> StdioServer | HttpServer | Configured:
    """Return the server that ``words`` name. Raises ``UsageError`` or ``NotFound``."""
    if not words.strip():
        raise UsageError("TARGET is empty: give a URL, a name of a config file, or 'a command'")
    sent = dict(_header(word) for word in headers)
    variables = dict(_variable(word) for word in env)
    if "://" in words.split()[0]:
        return _http(words, sent, variables)
    if len(words.split()) == 1 or config is not None:
        found = _configured(words, config)
        if found is not None:
            if sent or variables:
                raise UsageError(f"--header and --env do not go with {words!r}, which a file sets")
            return found
    if sent:
        raise UsageError("--header goes with a URL")
    if config is not None:
        raise _unknown(words, configs_of(config))
    return _command(words, variables)


def _http(url: str, headers: dict[str, str], env: dict[str, str]) -> HttpServer:
    from ..transports.http import HttpServer

    if env:
        raise UsageError("--env goes with a command")
    return HttpServer(url, headers=headers or None)


def _command(words: str, env: dict[str, str]) -> StdioServer:
    try:
        command, *args = split_words(words)
    except ValueError as error:
        raise UsageError(f"the command cannot be read: {error}") from None
    if len(words.split()) == 1 and os.path.basename(command) == command:
        # Not run as a program, even if PATH has one: it may be the name of a server, misspelled.
        raise _unknown(words, configs_of(None), find_executable(command, None, os.environ))
    return StdioServer(command, args, env=env or None)


def configs_of(config: str | None, *, quiet: bool = False) -> list[Config]:
    """Return the config file that was named, or those found, the project's first.

    One of those found that cannot be read is left out, with a note unless it is to be ``quiet``.
    """
    from ..config.config import load_config
    from ..config.programs import find_configs

    if config is not None:
        return [load_config(config)]
    found = []
    for one in find_configs():
        try:
            found.append(load_config(one.path, scope=one.scope))
        except ConfigError as error:
            if not quiet:
                note(error)
    return found


def _unknown(name: str, configs: list[Config], program: str | None = None) -> NotFound | UsageError:
    """Return the error for a server ``name`` that is not known."""
    for config in configs:
        for problem in config.problems:
            if name in problem.key.split("."):
                return UsageError(f"the server {safe_text(name, 60)!r} cannot be used: {problem}")
    empty = [
        str(config.problems[0]) for config in configs if config.problems and not config.servers
    ]
    if len(empty) == len(configs) == 1:
        return NotFound(f"unknown server {safe_text(name, 60)!r}: {empty[0]}")
    names = [each for config in configs for each in config.servers]
    where = ", ".join(str(config.path) for config in configs) or "a config file (none was found)"
    path = f"its path ({shlex.quote(program)})" if program else "its path"
    return NotFound(
        f"unknown server {safe_text(name, 60)!r} in {where}{near(name, names)}; give a URL, or a "
        f"command: a program and its arguments in quotes, or one program by {path}"
    )


def _configured(name: str, path: str | None) -> Configured | None:
    for config in configs_of(path):
        if name in config.servers:
            return Configured(config, name)
    return None


def _header(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or not name:
        raise UsageError(
            "--header is NAME=env:VARIABLE, NAME=file:PATH or NAME=keyring:SERVICE/USER"
        )
    return name, secret_of(value, f"--header {safe_text(name, 60)}")


def _variable(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign:
        value = f"env:{name}"
    if not _NAME.match(name):
        raise UsageError(
            "--env is NAME=env:VARIABLE, NAME=file:PATH or NAME=keyring:SERVICE/USER, or NAME "
            "alone to pass it on"
        )
    return name, secret_of(value, f"--env {name}")


def secret_of(value: str, option: str) -> str:
    """Return the secret of ``env:NAME``, ``file:PATH`` or ``keyring:SERVICE/USER``.

    The last slash divides service and user. A literal value is refused: every user of the machine
    can read the words of a command.
    """
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        found = os.environ.get(rest)
        if not found:
            raise UsageError(f"{option}: the environment variable {rest!r} is not set")
        return found
    if kind == "keyring" or (kind == "file" and rest):
        from ..config.security import secret_of as held_by
        from ..config.values import Unset

        try:
            return held_by(kind, rest, pipes=True)
        except Unset as error:
            raise UsageError(f"{option}: {error}") from None
    raise UsageError(
        f"{option}: other users can read a value on the command line; put it into an environment "
        "variable and write env:NAME, into a file and write file:PATH, or into the system's "
        "keyring and write keyring:SERVICE/USER"
    )
