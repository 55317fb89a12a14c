"""A host of a config file: ``Host.from_config``, ``Host.reload`` and ``watch=True``.

Each server is started only once that is allowed: see ``mcp_client.config.start_gate``. Entering the
host waits for an answer as long as a remembered one takes, a second at most. A server that waits
for an answer is "idle"; it is connected as soon as there is a yes. After a no its status says why,
and ``host.session(name)`` and ``host.reconnect(name)`` ask again.

A file may be read again while its servers run, and only what changed is touched. A server that is
gone from the file is closed; one that is new, or of which the file says something else, is started
as when the host was entered, with the same consent; all others go on, calls under way included.
What cannot be read changes nothing: where the file as a whole is malformed all servers stay as they
are, and where one server is, that one does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import anyio

from ..approval.decision import ApprovalHook, Policy, check_hook
from ..approval.managed_policy import ManagedPolicy
from ..approval.start_request import Scope
from ..config.config import Config, load_config
from ..config.fields import ConfigProblem
from ..config.server_config import ServerConfig, StartGate
from ..config.start_gate import Starting, gate_of
from ..config.starting import Start
from ..errors import ConfigError
from ..runtime.background import BackgroundTasks
from ..runtime.daemon_thread import run_in_thread
from ..runtime.event_loop import Backend
from ..runtime.limits import Timeouts
from .options import HostOptions, SharedOptions
from .server import HostedServer

__all__ = ["ConfigSource", "FileWatch", "HostOfFile", "Reloaded", "host_from_config"]

_log = logging.getLogger("mcp_client")
_LOOK_SECONDS = 1.0
"""Between two looks at a file that is watched."""
_MAX_TOLD = 3
H = TypeVar("H", bound="HostOfFile")


def host_from_config(
    kind: Callable[..., H],
    path: str | os.PathLike[str],
    confirm: ApprovalHook | Policy | None,
    *,
    scope: Scope | None,
    inputs: Mapping[str, str] | None,
    only: Collection[str] | None,
    watch: bool,
    options: HostOptions,
) -> H:
    check_hook("confirm", confirm)
    if type(watch) is not bool:
        raise ConfigError(f"watch={watch!r}: give True or False")
    timeouts = options.get("timeouts")
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts={timeouts!r}: give Timeouts(idle=30, ...)")
    config = load_config(path, scope=scope, inputs=inputs)
    if not config.servers and config.problems:
        raise ConfigError(f"no server can be used: {_main_problems(config)}")
    if only is not None:
        config = config.only(only)
    policy = ManagedPolicy.system()
    if options.setdefault("policy", policy) not in (None, policy):
        raise ConfigError(
            "Host.from_config(policy=...): the policy of this machine holds here; leave it out"
        )
    options["policy"] = policy
    starts = dict(config._starts)
    host = kind({name: one.first.config(timeouts) for name, one in starts.items()}, **options)
    host.problems = config.problems
    host._required |= frozenset(config.required)
    shared = host._options
    gate = gate_of(policy, confirm, shared.decisions, shared.timeouts.approval)

    def read() -> Config:
        again = load_config(config.path, scope=scope, inputs=inputs)
        return (
            again if only is None else again.only([name for name in only if name in again.servers])
        )

    def asking(name: str, start: Start) -> StartGate:
        audit, sandbox = shared.audit_of(name), shared.sandbox
        return Starting(start, gate, timeouts, audit, policy, sandbox).ask

    host._source = ConfigSource(
        str(config.path),
        read,
        asking,
        lambda start: start.first.config(timeouts),
        starts,
        dict(host._servers),
        watch,
    )
    for name, start in starts.items():
        host._servers[name].gate = asking(name, start)
    return host


def _main_problems(config: Config) -> str:
    """Those for which servers were left out before the others: three, and how many more."""
    problems = sorted(config.problems, key=lambda one: not one.left_out)
    more = len(problems) - _MAX_TOLD
    text = "; ".join(map(str, problems[:_MAX_TOLD]))
    return text if more <= 0 else f"{text}; and {more} more: load_config(path).problems"


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What became of the servers of a config file, by name."""

    added: tuple[str, ...] = ()
    """New in the file, and asked about."""
    removed: tuple[str, ...] = ()
    """No longer in the file, and ended."""
    changed: tuple[str, ...] = ()
    """Asked about again, and restarted."""
    unchanged: tuple[str, ...] = ()
    """Among them those that the file now describes in a way that cannot be used: see
    ``Host.problems``."""


class HostOfFile(Protocol):
    """A ``Host``, as far as reading its file changes it."""

    problems: tuple[ConfigProblem, ...]
    _source: ConfigSource | None
    _options: SharedOptions
    _required: frozenset[str]
    _servers: dict[str, HostedServer]

    def _check_open(self) -> None: ...

    def _made(self, name: object, given: ServerConfig) -> HostedServer: ...

    async def _replace(self, ended: list[HostedServer], added: list[HostedServer]) -> None: ...


@dataclass(slots=True, eq=False)
class ConfigSource:
    """The file that servers of a host come from."""

    path: str
    read: Callable[[], Config]
    """Reads it again, which takes time. Raises ``ConfigError``."""
    gate: Callable[[str, Start], StartGate]
    """Asks whether a server of it may be started."""
    config: Callable[[Start], ServerConfig]
    starts: dict[str, Start]
    """What is running, as the file said it."""
    servers: dict[str, HostedServer]
    """Those of the host that are from the file."""
    watch: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def reload(self, host: HostOfFile) -> Reloaded:
        async with self.lock:
            config = await run_in_thread(self.read)
            new, old = config._starts, self.starts
            changed = await run_in_thread(_changed, old, new)
            host._check_open()
            # From here on nothing is waited for, until the host has the new servers.
            host.problems = config.problems
            gone = [name for name in old if name not in new]
            kept = [name for name in gone if _is_broken(old[name], config)]
            if not new and kept == gone and any(one.left_out for one in config.problems):
                raise ConfigError(
                    f"all servers stay as they were: {'; '.join(map(str, config.problems[:3]))}"
                )
            added = [name for name in new if name not in old]
            removed = [name for name in gone if name not in kept]
            started = [*changed, *added]
            made = [self._made(host, name, new[name]) for name in started]
            for name in (*removed, *changed):
                del old[name]
            old.update((name, new[name]) for name in started)
            ended = [self.servers.pop(name) for name in (*removed, *changed)]
            self.servers.update(zip(started, made, strict=True))
            await host._replace([one for one in ended if host._servers.get(one.name) is one], made)
            same = [*(name for name in new if name not in started), *kept]
            return Reloaded(tuple(added), tuple(removed), tuple(changed), tuple(same))

    def _made(self, host: HostOfFile, name: str, start: Start) -> HostedServer:
        """Raises ``ConfigError`` where it cannot be one of the host's."""
        own = self.servers.get(name)
        if host._servers.get(name, own) is not own:
            raise ConfigError(
                f"all servers stay as they were: {self.path} now has a server {name!r}, and so has "
                "the host, from elsewhere: rename one",
                server=name,
            )
        server = host._made(name, self.config(start))
        server.gate = self.gate(name, start)
        return server

    def watched(self, reload: Callable[[], Awaitable[Reloaded]], backend: Backend) -> FileWatch:
        return FileWatch(self, reload, backend)

    def stamp(self) -> object:
        """Another one where the file was written; None where it is missing."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _is_broken(start: Start, config: Config) -> bool:
    """Whether the file still names this server, in a way that cannot be used."""
    own = ".".join(map(str, start.first.path))

    def is_about_it(problem: ConfigProblem) -> bool:
        one, other = sorted((problem.key, own), key=len)
        return problem.left_out and (one in ("", other) or other.startswith(f"{one}."))

    return any(map(is_about_it, config.problems))


def _changed(old: Mapping[str, Start], new: Mapping[str, Start]) -> list[str]:
    """The servers of which the file, or a file that it puts in, says something else."""
    return [name for name in new if name in old and old[name].differs(new[name])]


class FileWatch:
    """Reloads when the file was written, and has stayed the same for a moment.

    Editors replace a file, write it in steps, or only touch it: it is read when two looks in a row
    find it the same, and what it says is compared, not when it was written.
    """

    def __init__(
        self, source: ConfigSource, reload: Callable[[], Awaitable[Reloaded]], backend: Backend
    ) -> None:
        self._source, self._reload = source, reload
        self._read = source.stamp()
        self._tasks = BackgroundTasks(backend, f"watching {source.path}")
        self._tasks.start(self._run)

    async def _run(self) -> None:
        seen = self._read
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = self._source.stamp()
            if now != seen:
                seen = now
            elif now != self._read:
                self._read = now
                await self._read_again()

    async def _read_again(self) -> None:
        try:
            done = await self._reload()
        except (ConfigError, OSError, RuntimeError) as error:  # no thread, no descriptor: for now
            _log.warning("%s was changed and is not used: %s", self._source.path, error)
            return
        _log.info("%s was changed: %s", self._source.path, done)

    async def aclose(self) -> None:
        await self._tasks.aclose(1.0)
