"""What a person is asked before a server from a config file is started or connected to.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024: the
exact command is shown, whole, before it first runs, with a warning where it looks dangerous.

What the file itself says is shown as it will be used, with its defaults put in; only values that
come from the host, its environment and ``inputs``, are shown as they are written.

The digest covers everything in the file that says what the server is: the command, the arguments,
the values of its environment and headers as they are written, what every file that is put in
contains, the folder and the file itself. So a yes holds until any of that changes. The values of
variables are not in it: a token that is renewed does not ask again.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..protocol.canonical_json import sha256
from ..runtime.safe_text import safe_text
from ..transports.http_server import shown
from .config_launch import Launch
from .config_places import Scope
from .interpolation import Expanded
from .start_warnings import warnings_of

__all__ = ["StartRequest", "start_request"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A server that would be started, or connected to. Values of the host's variables are not in
    it; those that a project's file has itself are, in ``env`` and ``headers``, for a person to see.
    """

    server: str
    """The name the file gives it."""
    command: str | None
    """What is run, without a shell; None for a server at a URL."""
    args: tuple[str, ...] = field(repr=False)
    """All of them, whole. What a variable of the host brings is shown as in the file:
    ``--key=${KEY}``."""
    env_names: tuple[str, ...]
    """The variables the server gets besides HOME, PATH and the like."""
    cwd: str | None
    """The folder it runs in."""
    url: str | None
    """Without user, password and query."""
    header_names: tuple[str, ...]
    warnings: tuple[str, ...]
    """What looks dangerous, in sentences that are safe to show."""
    variables: Mapping[str, tuple[str, ...]] = field(hash=False)
    """What is put in from outside the file, by name, and where it goes:
    ``{"TOKEN": ("headers.Authorization",)}``. Inputs are ``input:ID``, files ``file:PATH``."""
    digest: str
    """Changes whenever what is asked about changes."""
    path: Path
    """The config file."""
    scope: Scope
    """"project" for a file that may have come with a repository, "user" for the person's own."""
    env_file: str | None = None
    """The file that some of ``env_names`` come from."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Of a project's file: the values it has itself, with ``${NAME}`` for what comes from the host.
    They may be secrets of the file: show them to the person who decides, and keep them nowhere."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Likewise."""

    def __str__(self) -> str:
        """All of it but ``env`` and ``headers`` in one line that is safe to show and to keep: the
        whole command, each word quoted where a shell would need that, then names, places and
        warnings."""
        return "; ".join(_parts(self))


def _parts(request: StartRequest) -> Iterator[str]:
    place = "a project's file" if request.scope == "project" else "a file of your own"
    yield f"server {_word(request.server)} from {_word(str(request.path))} ({place})"
    if request.command is not None:
        yield f"command: {_words([request.command, *request.args])}"
    if request.cwd is not None:
        yield f"in folder: {_word(request.cwd)}"
    if request.url is not None:
        yield f"url: {_word(request.url)}"
    if request.env_names:
        some = "" if request.env_file is None else f" (some from {_word(request.env_file)})"
        yield f"variables: {_words(request.env_names)}{some}"
    if request.header_names:
        yield f"headers: {_words(request.header_names)}"
    for name, places in request.variables.items():
        yield f"puts in: {_word(name)} -> {_words(places)}"
    for warning in request.warnings:
        yield f"warning: {safe_text(warning, sys.maxsize)}"


def _words(words: Iterable[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """Whole, and quoted so that it cannot be taken for anything else in the line."""
    return shlex.quote(safe_text(text, sys.maxsize))


def start_request(
    launch: Launch, path: Path, scope: Scope, folder: Path, inputs: Mapping[str, Any]
) -> StartRequest:
    """``folder`` is that of the project, ``inputs`` are those that the file defines."""
    command = None if launch.command is None else launch.command.shown
    args = tuple(each.shown for each in launch.args)
    brought = {} if launch.env_file is None else launch.env_file.values
    variables = _variables(launch)
    return StartRequest(
        server=launch.name,
        command=command,
        args=args,
        env_names=tuple(dict.fromkeys([*launch.env, *brought])),
        cwd=launch.cwd and launch.cwd.shown,
        url=None if launch.url is None else shown(launch.url.shown),
        header_names=tuple(launch.headers),
        warnings=tuple(dict.fromkeys(warnings_of(launch, variables, scope, folder))),
        variables=MappingProxyType(variables),
        digest=_digest(launch, path, scope, inputs),
        path=path,
        scope=scope,
        env_file=None if launch.env_file is None else launch.env_file.path.shown,
        env=_written(launch.env, scope),
        headers=_written(launch.headers, scope),
    )


def _written(values: Mapping[str, Expanded], scope: Scope) -> Mapping[str, str]:
    """Of a project's file. A person knows what stands in their own, and there are secrets in it."""
    shown = {name: each.shown for name, each in values.items()} if scope == "project" else {}
    return MappingProxyType(shown)


def _digest(launch: Launch, path: Path, scope: Scope, inputs: Mapping[str, Any]) -> str:
    texts = [launch.command, *launch.args, launch.url, launch.cwd]
    used = {name.partition(":")[2] for name in _variables(launch) if name.startswith("input:")}
    covered = {
        "version": _VERSION,
        "path": str(path),
        "scope": scope,
        "server": launch.name,
        "written": launch.written,
        "shown": [each and each.shown for each in texts],
        "env_file": launch.env_file and [launch.env_file.path.shown, dict(launch.env_file.values)],
        "files": sorted(content for _, each in _places(launch) for content in each.files),
        "inputs": {name: inputs[name] for name in sorted(used) if name in inputs},
    }
    text = json.dumps(covered, sort_keys=True, default=str, ensure_ascii=True)
    return f"sha256:{sha256(text)}"


def _variables(launch: Launch) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for place, each in _places(launch):
        for name in dict.fromkeys(each.used):
            found[name] = (*found.get(name, ()), place)
    return found


def _places(launch: Launch) -> list[tuple[str, Expanded]]:
    """Everything that something may be put into."""
    places = [
        ("command", launch.command),
        *((f"args[{number}]", each) for number, each in enumerate(launch.args)),
        *((f"env.{name}", each) for name, each in launch.env.items()),
        ("envFile", None if launch.env_file is None else launch.env_file.path),
        ("cwd", launch.cwd),
        ("url", launch.url),
        *((f"headers.{name}", each) for name, each in launch.headers.items()),
    ]
    if launch.login is not None:
        places += [
            ("oauth.client_id", launch.login.client_id),
            ("oauth.client_secret", launch.login.client_secret),
        ]
    return [(place, each) for place, each in places if each is not None]
