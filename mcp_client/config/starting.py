"""A server of a config file on its way to be started, and the request about it.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024: the
exact command is shown, whole, before it first runs, with a warning if it looks dangerous.

The file's own text is shown as it will be used, with its defaults. Only values that come from the
host, its environment and ``inputs``, are shown as they are written.

The digest covers everything in the file that defines the server::

    the command, its arguments and its directory
    the values of its environment and headers, as they are written
    the content of its file of variables
    the path of the file itself
    everything that its sandbox grants, as real paths

So an approval is valid until any of that changes. The values of variables and of secrets are not in
it: a token that is renewed does not need another approval.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..approval.start_request import CONFINED, CONNECTS, STARTS, StartRequest
from ..errors import ConfigError, ConnectError
from ..processes.commands import environment_of, find_executable
from ..protocol.canonical_json import FrozenArray, FrozenObject, sha256
from ..runtime.limits import Timeouts
from ..transports.http_options import shown
from ..transports.stdio import to_look_up
from .security import GivenSandbox
from .server import Launch, read_server
from .server_config import ServerConfig
from .start_warnings import warnings_of
from .values import Expanded, Files, followed, values_of

if TYPE_CHECKING:
    from ..runtime.session_context import StartPolicy
    from ..sandbox.sandbox import Grants, Sandbox

__all__ = ["Looked", "Start", "start_request"]

_VERSION = 1
V = TypeVar("V")


class Start:
    """A server of the file that may be started.

    The servers of a project's file are parsed twice: at first without the files that they include,
    and again with them, once, when they are shown to a person. The request and the start both use
    that second result. The methods look at files, and raise ``ConfigError`` if that fails. For any
    number of threads.
    """

    def __init__(self, first: Launch, files: Files) -> None:
        """Create it; ``files`` are those that the second parse reads."""
        self.first = first
        """The server as far as it is known without looking at a file."""
        self._files = files
        self._lock = threading.Lock()
        self._launch: Launch | None = None
        self._request: StartRequest | None = None

    @property
    def is_read(self) -> bool:
        """Whether ``first`` is all of it."""
        return self._has_its_files and not self.first.secrets

    @property
    def _has_its_files(self) -> bool:
        return self.first.parsed.variables.files.reads or self.first.env_file is None

    def differs(self, later: Start) -> bool:
        """Whether ``later``, of the same name, is another server or has other options.

        The included files are compared if they have been read.
        """
        if _compared(self.first) != _compared(later.first):
            return True
        with self._lock:
            seen = self._launch
        try:
            return seen is not None and _compared(seen) != _compared(later._whole())
        except ConfigError:
            return True

    def config(self, timeouts: Timeouts | None = None, *, secrets: bool = True) -> ServerConfig:
        """Return the server to start.

        ``timeouts`` are those of the host, if the file sets only some. Its secrets are read each
        time, which may wait for a person who unlocks the keyring. Without ``secrets`` they are not,
        and the result is only for a look at it.
        """
        with self._lock:
            launch = self._whole()
        if secrets and launch.secrets:
            launch = launch.with_secrets()
        try:
            return launch.config(timeouts)
        except ConfigError as error:
            if launch is self.first:
                raise
            why = "is not valid after its files and secrets are inserted"
            raise ConfigError(f"{self._place} {why}") from (None if self.first.secrets else error)

    def request(
        self, sandbox: Sandbox | None = None, policy: StartPolicy | None = None
    ) -> StartRequest:
        """Return the request for a person, as it is now.

        ``sandbox`` is the host's, for a server without its own; ``policy`` is that of the machine.
        """
        with self._lock:
            whole = self._whole()
            confined = confinement(whole, sandbox, policy)
            if confined is not None:
                return start_request(whole, confined)
            if self._request is None:
                self._request = start_request(whole)
            return self._request

    def approved(
        self,
        request: StartRequest,
        sandbox: Sandbox | None,
        timeouts: Timeouts | None = None,
        policy: StartPolicy | None = None,
    ) -> ServerConfig:
        """Return ``config``, whose sandbox grants exactly what ``request`` lists.

        Raises ``ConfigError`` if it would grant something else by now.
        """
        config = self.config(timeouts)
        with self._lock:
            confined = confinement(self._whole(), sandbox, policy)
            now = confined and start_request(self._whole(), confined).fingerprint
        if confined is not None and now != request.fingerprint:
            raise ConfigError(
                f"{self._place}: what its sandbox grants has changed since it was shown; ask again"
            )
        if confined is None:
            return config
        confined_sandbox = replace(confined.sandbox, approved=confined.grants)
        server = replace(config.server, sandbox=confined_sandbox)  # type: ignore[type-var]
        return replace(config, server=server)

    @property
    def _place(self) -> str:
        return f"{self.first.parsed.path}: the server {self.first.name!r}"

    def _whole(self) -> Launch:
        if self._has_its_files:
            return self.first
        if self._launch is None:
            first = self.first
            variables = replace(first.parsed.variables, files=self._files)
            parsed = replace(first.parsed, variables=variables, problems=[])
            self._launch = read_server(parsed, first.path, first.written)
            if self._launch is None:
                problem = next((one for one in parsed.problems if one.left_out), None)
                raise ConfigError(str(problem or f"{self._place} cannot be used"))
        return self._launch


class Looked(Mapping[str, V]):
    """The results of ``look`` for each of ``starts``, made on demand; names are known before."""

    def __init__(self, starts: Mapping[str, Start], look: Callable[[Start], V]) -> None:
        self._starts, self._look = starts, look

    def __getitem__(self, name: str) -> V:
        return self._look(self._starts[name])

    def __contains__(self, name: object) -> bool:
        return name in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        return f"<{len(self)} servers: {', '.join(map(repr, self))}>"


def _compared(launch: Launch) -> tuple[Any, ...]:
    """Return the file's description of a server, with included files, without variables."""
    given = launch.sandbox
    sandbox = given.network if isinstance(given, GivenSandbox) else given
    parts = (launch.written, launch.path, _shown(launch.places), _inputs(launch))
    return *parts, launch.secrets, sandbox, launch.env_of_file


class Confined(NamedTuple):
    """The sandbox that a server would be started in, and everything that it grants now."""

    sandbox: Sandbox
    grants: Grants


def confinement(
    launch: Launch, sandbox: Sandbox | None, policy: StartPolicy | None
) -> Confined | None:
    """Return what confines a server; None if nothing does. ``sandbox`` is the host's.

    Raises ``ConfigError``.
    """
    if launch.command is None or launch.sandbox is False:
        return None
    if isinstance(launch.sandbox, GivenSandbox):
        sandbox = launch.sandbox.made()
    if sandbox is None:
        return None
    from ..sandbox.sandbox import Grants

    env = environment_of({**launch.env_of_file, **values_of(launch.env)})
    cwd = None if launch.cwd is None else launch.cwd.value
    found = find_executable(launch.command.value, cwd, to_look_up(env, policy))
    command = found or f"/{launch.command.value}"
    argv = [command, *(each.value for each in launch.args)]
    try:
        return Confined(sandbox, Grants.of(sandbox, argv, env, cwd))
    except ConnectError as error:
        raise ConfigError(error.message) from None


def start_request(launch: Launch, confined: Confined | None = None) -> StartRequest:
    """Return what a person is asked before ``launch`` is started, ``confined`` or not."""
    parsed = launch.parsed
    shown_grants = None if confined is None else confined.grants.named_as(_written(launch))
    is_project = parsed.scope == "project"
    variables = _variables(launch)
    program = _program(launch)
    parts = (launch.command, launch.cwd)
    program_text = None if any(each is not None and each.used for each in parts) else program
    url = launch.url and launch.url.shown
    url_text = None if url is None else shown(url)
    return StartRequest(
        server=launch.name,
        command=launch.command and launch.command.shown,
        args=tuple(each.shown for each in launch.args),
        env_names=tuple(dict.fromkeys([*launch.env, *launch.env_of_file])),
        cwd=launch.cwd and launch.cwd.shown,
        url=url_text,
        header_names=tuple(launch.headers),
        findings=(
            CONNECTS if launch.command is None else STARTS if confined is None else CONFINED,
            *dict.fromkeys(warnings_of(launch, variables, program)),
        ),
        variables=FrozenObject((one, FrozenArray(of)) for one, of in variables.items()),
        fingerprint=_digest(launch, program_text, confined),
        path=parsed.path,
        scope=parsed.scope,
        env_file=launch.env_file and launch.env_file.shown,
        # A person knows what is in their own file, and there are secrets in it.
        env=_shown(launch.env) if is_project else FrozenObject(),
        headers=_shown(launch.headers) if is_project else FrozenObject(),
        oauth=_login(launch),
        program=program_text,
        whole_url=url if is_project and url != url_text else None,
        confined=() if shown_grants is None else shown_grants.confinement().sentences,
        granted=() if shown_grants is None else shown_grants.listed,
    )


def _written(launch: Launch) -> dict[str, str]:
    """Return how grants with a value of a variable are written, by real path."""
    sandbox = launch.sandbox
    grants = (*sandbox.read, *sandbox.write) if isinstance(sandbox, GivenSandbox) else ()
    return {os.path.realpath(one.value): one.shown for one in grants if one.used}


def _shown(values: Mapping[str, Expanded]) -> Mapping[str, str]:
    return FrozenObject((name, each.shown) for name, each in values.items())


def _login(launch: Launch) -> Mapping[str, str]:
    login = dict(launch.login or {})
    secret = login.get("client_secret")
    if secret is not None and not secret.used:
        login["client_secret"] = secret._replace(shown="is written in the file")
    return _shown(login)


def _program(launch: Launch) -> str | None:
    """Return the file of the command.

    It is None if the file is not found, or if a search would look at a place that the file has
    chosen outside of the project.
    """
    if launch.command is None:
        return None
    command, cwd = launch.command.value, None if launch.cwd is None else launch.cwd.value
    if os.path.basename(command) != command:
        place = os.path.join(cwd or os.curdir, command)
        return followed(place, [str(launch.parsed.base)])[0]
    env = {**launch.env_of_file, **values_of(launch.env)}
    if any(name.upper() in ("PATH", "PATHEXT") for name in env):
        return None
    return find_executable(command, cwd, environment_of(env))


def _digest(launch: Launch, program: str | None, confined: Confined | None) -> str:
    parsed = launch.parsed
    env_file = launch.env_file
    covered = {
        "version": _VERSION,
        "path": str(parsed.path),
        "scope": parsed.scope,
        "server": launch.name,
        "written": launch.written,
        "shown": dict(_shown(launch.places)),
        "env_file": env_file and [env_file.shown, dict(launch.env_of_file)],
        "program": program,
        "sandbox": confined and [confined.sandbox.network, confined.grants.listed],
        "secrets": sorted(launch.secrets),
        "inputs": _inputs(launch),
    }
    text = json.dumps(covered, sort_keys=True, default=str, ensure_ascii=True)
    return f"sha256:{sha256(text)}"


def _inputs(launch: Launch) -> dict[str, Any]:
    """Return the file's description of the inputs that the server uses."""
    used = {name.partition(":")[2] for name in _variables(launch) if name.startswith("input:")}
    inputs = launch.parsed.inputs
    return {name: inputs[name] for name in sorted(used) if name in inputs}


def _variables(launch: Launch) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for place, each in launch.places.items():
        for name in dict.fromkeys(each.used):
            found[name] = (*found.get(name, ()), place)
    return found
