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
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..approval.start_request import CONNECTS, STARTS, Scope, StartRequest
from ..protocol.canonical_json import sha256
from ..runtime.executables import environment_of, find_executable
from ..transports.http_server import shown
from .config_files import followed
from .config_launch import Launch
from .interpolation import Expanded
from .start_warnings import warnings_of

__all__ = ["start_request"]

_VERSION = 1


def start_request(
    launch: Launch, path: Path, scope: Scope, folder: Path, inputs: Mapping[str, Any]
) -> StartRequest:
    """``folder`` is that of the project, ``inputs`` are those that the file defines."""
    command = None if launch.command is None else launch.command.shown
    args = tuple(each.shown for each in launch.args)
    brought = {} if launch.env_file is None else launch.env_file.values
    variables = _variables(launch)
    program = _program(launch, folder)
    parts = (launch.command, launch.cwd)
    shown_program = None if any(each is not None and each.used for each in parts) else program
    url = None if launch.url is None else shown(launch.url.shown)
    whole = launch.url.shown if launch.url is not None and scope == "project" else None
    return StartRequest(
        server=launch.name,
        command=command,
        args=args,
        env_names=tuple(dict.fromkeys([*launch.env, *brought])),
        cwd=launch.cwd and launch.cwd.shown,
        url=url,
        header_names=tuple(launch.headers),
        findings=(
            CONNECTS if command is None else STARTS,
            *dict.fromkeys(warnings_of(launch, variables, scope, folder, program)),
        ),
        variables=MappingProxyType(variables),
        fingerprint=_digest(launch, path, scope, inputs, shown_program),
        path=path,
        scope=scope,
        env_file=None if launch.env_file is None else launch.env_file.path.shown,
        env=_written(launch.env, scope),
        headers=_written(launch.headers, scope),
        oauth=_oauth(launch),
        program=shown_program,
        whole_url=None if whole == url else whole,
    )


def _written(values: Mapping[str, Expanded], scope: Scope) -> Mapping[str, str]:
    """Of a project's file. A person knows what stands in their own, and there are secrets in it."""
    shown = {name: each.shown for name, each in values.items()} if scope == "project" else {}
    return MappingProxyType(shown)


def _program(launch: Launch, folder: Path) -> str | None:
    """The file that the command is; None where it is not found, or where looking for it would mean
    looking at a place that the file has chosen outside of the project."""
    if launch.command is None:
        return None
    command, cwd = launch.command.value, None if launch.cwd is None else launch.cwd.value
    if os.path.basename(command) != command:
        place = os.path.join(cwd or os.curdir, command)
        return followed(place, [str(folder)])[0]
    env = {name: each.value for name, each in launch.env.items()}
    if launch.env_file is not None:
        env = {**launch.env_file.values, **env}
    if any(name.upper() in ("PATH", "PATHEXT") for name in env):
        return None
    return find_executable(command, cwd, environment_of(env))


def _oauth(launch: Launch) -> Mapping[str, str]:
    login = launch.login
    if login is None:
        return MappingProxyType({})
    texts = {"client_id": login.client_id, "redirect_uri": login.redirect_uri}
    found = {name: each.shown for name, each in texts.items() if each is not None}
    if login.scopes is not None:
        found["scopes"] = " ".join(login.scopes)
    if login.client_secret is not None:
        secret = login.client_secret
        found["client_secret"] = secret.shown if secret.used else "stands in the file"
    return MappingProxyType(found)


def _digest(
    launch: Launch, path: Path, scope: Scope, inputs: Mapping[str, Any], program: str | None
) -> str:
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
        "program": program,
        "files": sorted(content for _, each in launch.places() for content in each.files),
        "inputs": {name: inputs[name] for name in sorted(used) if name in inputs},
    }
    text = json.dumps(covered, sort_keys=True, default=str, ensure_ascii=True)
    return f"sha256:{sha256(text)}"


def _variables(launch: Launch) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for place, each in launch.places():
        for name in dict.fromkeys(each.used):
            found[name] = (*found.get(name, ()), place)
    return found
