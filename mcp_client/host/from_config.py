"""A host of a config file: ``Host.from_config``, ``Host.reload`` and ``watch=True``.

Each server is started only once that is allowed: see ``mcp_client.config.start_gate``. Entering the
host waits for a decision as long as a remembered one takes, a second at most. A server that waits
for a decision is "idle"; it is connected as soon as it is approved. After a denial its status has
the reason, and ``host.session(name)`` and ``host.reconnect(name)`` ask again.

A file may be loaded again while its servers run, and only the changed servers are touched. A server
that was removed from the file is closed. A new one, or one with a changed entry, is started with
the same consent as when the host was entered. All others continue, with their calls under way. A
part that cannot be parsed changes nothing. If the whole file is malformed, all servers stay
unchanged; if one entry is malformed, its server does.
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
"""The seconds between two checks of a watched file."""
_MAX_LISTED = 3
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
    """Return the host of a config file, for ``Host.from_config``."""
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
            "Host.from_config(policy=...): this machine has its own policy. Omit policy="
        )
    options["policy"] = policy
    starts = dict(config._starts)

    def first(start: Start) -> ServerConfig:
        return start.first.config(timeouts)

    host = kind({name: first(start) for name, start in starts.items()}, **options)
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

    path, servers = str(config.path), dict(host._servers)
    host._source = ConfigSource(path, read, asking, first, starts, servers, watch)
    for name, start in starts.items():
        host._servers[name].gate = asking(name, start)
    return host


def _main_problems(config: Config) -> str:
    """Return three of the problems for which servers were left out, and the number of others."""
    problems = sorted(config.problems, key=lambda one: not one.left_out)
    more = len(problems) - _MAX_LISTED
    text = "; ".join(map(str, problems[:_MAX_LISTED]))
    return text if more <= 0 else f"{text}; and {more} more: load_config(path).problems"


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload: the servers of a config file, by name."""

    added: tuple[str, ...] = ()
    """New in the file, and asked about."""
    removed: tuple[str, ...] = ()
    """The servers that are no longer in the file, and were closed."""
    changed: tuple[str, ...] = ()
    """Asked about again, and restarted."""
    unchanged: tuple[str, ...] = ()
    """Among them those that the file now describes in a way that cannot be used: see
    ``Host.problems``."""


class HostOfFile(Protocol):
    """A protocol: the part of a ``Host`` that loading its file changes."""

    problems: tuple[ConfigProblem, ...]
    _source: ConfigSource | None
    _options: SharedOptions
    _required: frozenset[str]
    _servers: dict[str, HostedServer]

    def _check_open(self) -> None: ...

    def _made(self, name: object, server: ServerConfig) -> HostedServer: ...

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
    """The running servers, as the file described them."""
    servers: dict[str, HostedServer]
    """The servers of the host that are from the file."""
    watch: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def reload(self, host: HostOfFile) -> Reloaded:
        """Load the file again, and apply the changes to ``host``."""
        async with self.lock:
            config = await run_in_thread(self.read)
            new, old = config._starts, self.starts
            known = [name for name in new if name in old]
            changed = await run_in_thread(
                lambda: [name for name in known if old[name].differs(new[name])]
            )
            host._check_open()
            # From here on nothing is waited for, until the host has the new servers.
            host.problems = config.problems
            missing = [name for name in old if name not in new]
            broken = [name for name in missing if _is_broken(old[name], config)]
            if not new and broken == missing and any(one.left_out for one in config.problems):
                raise ConfigError(
                    f"the config was not applied: {'; '.join(map(str, config.problems[:3]))}"
                )
            added = [name for name in new if name not in old]
            removed = [name for name in missing if name not in broken]
            started = [*changed, *added]
            made = [self._made(host, name, new[name]) for name in started]
            for name in (*removed, *changed):
                del old[name]
            old.update((name, new[name]) for name in started)
            ended = [self.servers.pop(name) for name in (*removed, *changed)]
            self.servers.update(zip(started, made, strict=True))
            await host._replace([one for one in ended if host._servers.get(one.name) is one], made)
            same = [*(name for name in new if name not in started), *broken]
            return Reloaded(tuple(added), tuple(removed), tuple(changed), tuple(same))

    def _made(self, host: HostOfFile, name: str, start: Start) -> HostedServer:
        """Return the server for the host. Raises ``ConfigError`` if the host cannot have it."""
        own = self.servers.get(name)
        if host._servers.get(name, own) is not own:
            raise ConfigError(
                f"the config was not applied: {self.path} defines a server {name!r}, and the host "
                "has one of that name from another source. Rename one",
                server=name,
            )
        server = host._made(name, self.config(start))
        server.gate = self.gate(name, start)
        return server

    def watched(self, reload: Callable[[], Awaitable[Reloaded]], backend: Backend) -> FileWatch:
        """Return a watch of the file, which calls ``reload``."""
        return FileWatch(self, reload, backend)

    def stamp(self) -> object:
        """Return a value that changes when the file is written; None if it is missing."""
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


class FileWatch:
    """A watch that reloads when the file was written, and has stayed the same for a moment.

    Editors replace a file, write it in steps, or only touch it. So it is read when two checks in a
    row find the same file, and its content is compared, not its time.
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
            _log.warning("%s was changed and was not applied: %s", self._source.path, error)
            return
        _log.info("%s was changed: %s", self._source.path, done)

    async def aclose(self) -> None:
        """Stop watching."""
        await self._tasks.aclose(1.0)
