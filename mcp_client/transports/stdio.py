"""Servers that are started by the host and spoken to over their standard streams.

2026-07-28 ``basic/transports/stdio``; the same framing since 2024-11-05 ``basic/transports``.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

import anyio

from ..errors import Advice, ConfigError, ConnectError, ConnectionLost, McpError
from ..processes.commands import (
    environment_of,
    find_executable,
    inherited,
    name_of_command,
    redacted_words,
    why_not_found,
)
from ..processes.new_process import new_process
from ..protocol.canonical_json import sha256
from ..protocol.jsonrpc import Id
from ..runtime.event_loop import LoopEvent, current
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names
from ..runtime.session_context import KnownSecrets, StartPolicy
from .base import Transport, TransportContext, UnmatchedOutput
from .multiplexer import LineExchange, Multiplexer

if TYPE_CHECKING:
    from ..processes.process import Pending, Process, ProcessTree
    from ..sandbox.sandbox import Confinement, Grants, Sandbox

__all__ = ["StdioServer", "StdioTransport", "to_look_up"]

_VARIABLE = r"\b[A-Z][A-Z0-9_]{2,63}\b"
_MISSING = r"(?i:KeyError|environ|variable|not set|unset|missing|required|undefined)"
_SETTLE_SECONDS = 0.5
_ABANDON_SECONDS = 0.25
"""The seconds for each step of ending a process that is given up."""
_MAX_TAIL_CHARS, _HEAD_CHARS = 4_000, 1_000
_MAX_BACKLOG_BYTES = 1024 * 1024
"""The bytes a server may leave unread; beyond that, optional messages are not sent."""


@with_option_names()
@frozen_dataclass
class StdioServer:
    """A server to be started: ``StdioServer("python", ["server.py"])``.

    A value that may be secret (``runtime.masking.secrets_passed``) is replaced by ``***`` if the
    server repeats it in errors, log lines, records and the audit. Results stay unchanged.

    Remembered decisions are for the server with this command, these arguments and this ``env``.
    Variables that are secrets by their names (``runtime.secret_names``) do not count, because they
    may be renewed, unless the value is a path: an approval for ``DATABASE=staging`` is not one for
    ``DATABASE=production``. Files store keyed digests.

    Args:
        command: The program, which is looked up on ``PATH`` and run without a shell.
        args: The arguments of the program.
        env: Variables, added to the few that every server gets (HOME, PATH, LANG, ...).
        cwd: The directory in which the program runs.
        stderr: Called with each line of its standard error; errors have the last ones.
        identity: The names of variables that count instead (``["PROJECT"]``; ``[]`` for none). Then
            pins are for one of these servers, too.
        sandbox: A ``Sandbox``, or ``True`` for one that grants nothing. It confines the server
            and its child processes; if that is not possible, nothing is started. None (use
            ``Host(sandbox=...)``) and ``False`` start the server with all rights of this program.
    """

    command: str
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | os.PathLike[str] | None = None
    stderr: Callable[[str], None] | None = field(default=None, repr=False, compare=False)
    identity: Sequence[str] | None = None
    sandbox: Sandbox | bool | None = None

    def __repr__(self) -> str:
        fields = f"command={self.redacted_command!r}, cwd={self.cwd!r}, identity={self.identity!r}"
        return f"StdioServer({fields})"

    @property
    def redacted_command(self) -> str:
        """The command, without what may be secret if it is, wrongly, a whole command line."""
        words = self.command.split()
        fields = redacted_words(words)
        return self.command if len(words) < 2 or fields == words else " ".join(fields)

    def __post_init__(self) -> None:
        if not isinstance(self.command, str | os.PathLike) or not str(self.command):
            raise ConfigError(f"StdioServer(command={self.command!r}): give a command")
        if isinstance(self.args, str):
            raise ConfigError("StdioServer(args=...) is one string: give a list of words")
        try:
            words = [os.fspath(self.command), *(os.fspath(word) for word in self.args)]
        except TypeError:
            raise ConfigError("StdioServer(args=...): give a list of str") from None
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ConfigError("StdioServer: every word of the command must be a str without a NUL")
        object.__setattr__(self, "command", words[0])
        object.__setattr__(self, "args", tuple(words[1:]))
        pairs = {} if self.env is None else self.env
        if not isinstance(pairs, Mapping):
            raise ConfigError("StdioServer(env=...): give a dict of names and values")
        if not all(isinstance(part, str) for pair in pairs.items() for part in pair):
            raise ConfigError("StdioServer(env=...): names and values must be str")
        object.__setattr__(self, "env", dict(pairs))
        if self.cwd is not None and not isinstance(self.cwd, str | os.PathLike):
            raise ConfigError(f"StdioServer(cwd={self.cwd!r}): give the path of a directory")
        if self.stderr is not None and not callable(self.stderr):
            raise ConfigError("StdioServer(stderr=...): give a function that takes a line")
        if self.sandbox is not None and self.sandbox is not False:
            from ..sandbox.sandbox import sandbox_of  # only if there is one

            object.__setattr__(self, "sandbox", sandbox_of(self.sandbox))
        if self.identity is None:
            return
        if isinstance(self.identity, str) or not isinstance(self.identity, Collection):
            raise ConfigError("StdioServer(identity=...): give a list of names of env=")
        for name in self.identity:
            if name not in pairs:
                raise ConfigError(
                    f"StdioServer(identity=...) names {name!r}, which env= does not contain"
                )
        object.__setattr__(self, "identity", tuple(self.identity))


def to_look_up(env: Mapping[str, str], policy: StartPolicy | None) -> Mapping[str, str]:
    """Return the environment whose PATH finds the command of a server with ``env``.

    If a policy lists what may be started, it is the host's own, because the policy allows names.
    """
    if policy is None or policy.allow is None:
        return env
    return {**env, "PATH": os.environ.get("PATH", os.defpath)}


class StdioTransport(Transport):
    """A transport over the standard streams of a process that it starts."""

    multiplexed = True
    alive: bool = False

    def __init__(self, server: StdioServer) -> None:
        self._server = server
        self._process: Process | None = None
        self._granted = None if isinstance(server.sandbox, bool) else server.sandbox
        self._grants: Grants | None = None
        """The grants of the sandbox at the start of the server, which it has to grant again."""
        self._sandbox: Confinement | None = None
        self._closed = False
        self.name: str = name_of_command(server.redacted_command, server.args, server.cwd)

    def clone(self) -> StdioTransport:
        """Return a new transport, which has to grant what this one did."""
        clone = StdioTransport(self._server)
        clone._grants = self._grants
        return clone

    @property
    def identity(self) -> Hashable:
        """The command, its words, its variables and its sandbox."""
        server = self._server
        pairs = tuple(sorted((server.env or {}).items()))
        return ("stdio", server.command, server.args, str(server.cwd), pairs, self._granted)

    @property
    def stable_identity(self) -> str:
        """The same as a digest, which may be stored."""
        # Only as a digest: a word or a value may be a secret.
        server = self._server
        cwd = os.path.abspath(server.cwd or ".")
        words = [server.command, *server.args, cwd, *sorted(server.env or {})]
        parts = [len(server.args), words, *self._telling()]
        if self._granted is not None:
            parts.append(repr((self._granted, self._granted.places)))
        text = json.dumps(parts)
        return f"{os.path.basename(server.redacted_command)} sha256:{sha256(text)}"

    @property
    def network(self) -> dict[str, str | int]:
        """The attributes of a span: a pipe."""
        return {"network.transport": "pipe"}

    @property
    def address(self) -> str:
        """The command, without what may be secret in it."""
        server = self._server
        words = [server.redacted_command, *redacted_words([server.command, *server.args])[1:]]
        place = "" if server.cwd is None else f" in {os.path.abspath(server.cwd)}"
        return " ".join(words) + place

    @property
    def pinned_identity(self) -> str | None:
        """A digest of the variables that distinguish this server; None without one."""
        # Not the words of the command: they often contain paths of one machine.
        # Nor their variables, unless they are named.
        named = self._telling() if self._server.identity else []
        return f"env sha256:{sha256(json.dumps(named))}" if named else None

    def _telling(self) -> list[list[str]]:
        """Return the variables that distinguish this server from others, with their values."""
        env, names = self._server.env or {}, self._server.identity
        if names is None and env:
            from ..runtime.secret_names import SecretText, usual_names  # only where given

            secret = usual_names()
            # AUTH_HOST is not a secret, nor is GOOGLE_APPLICATION_CREDENTIALS, which names a file.
            names = [
                name
                for name, value in env.items()
                if not isinstance(value, SecretText)
                and (not secret.ends_as_secret(name) or os.path.isabs(value))
            ]
        return [[name, env[name]] for name in sorted(set(names or ()))]

    def unread(self) -> int | None:
        """Return the number of sent bytes that the process has not read yet."""
        return self._process.unread() if self._process is not None else None

    def permit(self, policy: StartPolicy | None) -> None:
        """Raise ``ConfigError`` if the policy does not allow the command."""
        if policy is None:
            return
        server, env = self._server, to_look_up(environment_of(self._server.env or {}), policy)
        cwd = None if server.cwd is None else os.fspath(server.cwd)
        policy.check_command(
            [server.command, *server.args],
            lambda word: find_executable(word, cwd, env),
            confined=self._granted is not None,
        )

    async def open(self, context: TransportContext) -> None:
        """Start the process."""
        from ..processes.process import StderrTail  # only if a process is started

        self.permit(context.policy)
        self._context = context
        self._secrets = context.secrets or KnownSecrets()
        self._secrets.follow(functools.cache(self._known_secrets))
        backend = current()
        self._backend = backend
        self._multiplexer = Multiplexer(backend, context, lambda: self.owner)
        self._stderr_tail = StderrTail(context.limits.stderr_bytes, self._server.stderr)
        self._settled = LoopEvent()
        env = environment_of(self._server.env or {})
        argv, cwd = self._argv(env), self._cwd()
        tree: ProcessTree | None = None
        if self._granted is not None:
            from ..sandbox.confined_group import confined  # only if there is one

            before = self._grants or self._granted.approved
            seconds = context.timeouts.connect
            prepared = await confined(self._granted, before, argv, env, cwd, seconds)
            self._grants, self._sandbox, tree = prepared
        feed, name = self._multiplexer.feed, context.server
        process = new_process(backend, self._stderr_tail, feed, self._ended, tree, name)
        process.start(argv, env, cwd)
        self._process, self.alive = process, True

    @property
    def sandbox(self) -> Confinement | None:
        """The grants of the process; None without a sandbox."""
        return self._sandbox

    def _argv(self, env: Mapping[str, str]) -> list[str]:
        server = self._server
        cwd = None if server.cwd is None else os.fspath(server.cwd)
        found = find_executable(server.command, cwd, to_look_up(env, self._context.policy))
        if found is None:
            why, advice = why_not_found(server.command, server.args)
            raise ConnectError(
                f"cannot run the command {server.redacted_command!r}: {why}",
                advice=advice,
                no_such_command=True,
            )
        return [found, *server.args]

    def _cwd(self) -> str | None:
        cwd = self._server.cwd
        if cwd is not None and not os.path.isdir(cwd):
            raise ConnectError(f"the working directory {os.fspath(cwd)!r} does not exist")
        return None if cwd is None else os.fspath(cwd)

    # ---------------------------------------------------------------- messages

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> LineExchange:
        """Write a request, and return its exchange."""
        process, exchange = self._process, self._multiplexer.exchange(id)
        crowded = len(self._multiplexer.exchanges) > 1
        try:
            if process is None or not self.alive:
                raise BrokenPipeError
            # Not waited for: ``withdraw`` takes it back. The bench's row "1,000 in flight".
            exchange.pending = process.write(text.encode() + b"\n", crowded)
        except OSError:
            self._multiplexer.forget(exchange)
            await self._settled_soon()
            raise self._not_sent() from None
        return exchange

    def catch_up(self) -> Awaitable[None] | None:
        """Read what has arrived."""
        process = self._process
        has_read = process is not None and process.read_arrived() and self._multiplexer.all_seen()
        return None if has_read else super().catch_up()

    def withdraw(self, id: Id) -> bool:
        """Return whether the request has not left, and never will."""
        exchange = self._multiplexer.exchanges.get(id)
        return exchange is not None and self._never_leaves(exchange)

    def _never_leaves(self, exchange: LineExchange) -> bool:
        """Whether nothing of its line has left, and nothing will from now on."""
        pending, process = exchange.pending, self._process
        if pending is None or pending.begun or process is None:
            return False
        return pending.over.is_set() or process.withdraw(pending)

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Write a message, and wait until it has left."""
        try:
            if (pending := self._write(text)) is not None:
                await self._left(pending)
        except TimeoutError:
            raise ConnectError(
                "the server does not read its input", server=self._context.server, retryable=True
            ) from None
        except OSError:
            await self._settled_soon()
            raise self._not_sent() from None

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Write a message, unless the process has left too many unread."""
        if self._process is not None and self._process.backlog > _MAX_BACKLOG_BYTES:
            self._context.stats.unsent += 1
            return
        with suppress(OSError):
            self._write(text)

    def _write(self, text: str) -> Pending | None:
        if self._process is None or not self.alive:
            raise BrokenPipeError
        return self._process.write(text.encode() + b"\n")

    async def _left(self, pending: Pending) -> None:
        """Wait until a line has left. Cancelled before it began to, it is not sent."""
        process = self._process
        assert process is not None
        try:
            async with self._backend.time_limit(self._context.timeouts.idle):
                await pending.over.wait()
        except BaseException:
            process.withdraw(pending)
            raise
        if pending.rest and not pending.begun:
            raise BrokenPipeError

    # ------------------------------------------------------------------ ending

    def _ended(self) -> None:
        """Output or process has ended: find out how, then fail the requests under way."""
        self.alive = False
        self._backend.spawn(self._settle)

    async def _settle(self) -> None:
        process = self._process
        if process is not None:
            await process.exited(_SETTLE_SECONDS)
            await process.drain(_SETTLE_SECONDS)
        self._mark_settled()
        if process is not None:
            await process.aclose(self._context.timeouts.close)

    def _mark_settled(self) -> None:
        for exchange in self._multiplexer.exchanges.values():
            if self._never_leaves(exchange):
                exchange.fail(self._not_sent())
        self._multiplexer.end(self._lost)
        self._settled.set()

    async def _settled_soon(self) -> None:
        with anyio.move_on_after(2 * _SETTLE_SECONDS):
            await self._settled.wait()

    def _lost(self) -> McpError:
        how = self._how()
        return ConnectionLost(
            f"{how} while the request was under way; it may have run",
            why=how,
            exit_code=self._exit_code(),
            stderr_tail=self._tail(),
            server=self._context.server,
        )

    def _not_sent(self) -> ConnectError:
        return ConnectError(
            self._how(),
            advice=self.exit_advice() or Advice("run it by hand to see why"),
            exit_code=self._exit_code(),
            stderr_tail=self._tail(),
            server=self._context.server,
            retryable=True,
        )

    def _exit_code(self) -> int | None:
        code = self._process.exit_code if self._process is not None else None
        if code is None or self._sandbox is None:
            return code
        from ..sandbox.bubblewrap import exit_code

        return exit_code(code)

    def _how(self) -> str:
        if self._closed:
            return self.closed_because
        code = self._exit_code()
        if code is None:
            return "the server closed its output"
        if code < 0:
            return f"the server was ended by signal {-code}"
        return f"the server exited with code {code}"

    def exit_advice(self) -> Advice | None:
        """Return advice about variables that the server's standard error names.

        It was not given them, although they are set here: by hand the same command would work.
        """
        passed = {*inherited(), *(self._server.env or {})}
        tail = self._stderr_tail.tail()
        names = [
            name
            for name in dict.fromkeys(re.findall(_VARIABLE, tail))
            if name in os.environ
            and name not in passed
            and ("_" in name or re.search(_MISSING, tail))
        ][:3]
        if not names:
            return None if self._grants is None else self._grants.advice(tail)
        pairs = ", ".join(f"{name!r}: os.environ[{name!r}]" for name in names)
        are = "is set here and was" if len(names) == 1 else "are set here and were"
        found = f"its standard error names {', '.join(names)}, which {are} not passed on"
        return Advice(f"{found}: give it with StdioServer(..., env={{{pairs}}})", "env", found)

    def _tail(self) -> str:
        text = self._secrets.text(self._stderr_tail.tail())
        if len(text) <= _MAX_TAIL_CHARS:
            return text
        return f"{text[:_HEAD_CHARS]}\n[...]\n{text[_HEAD_CHARS + 7 - _MAX_TAIL_CHARS :]}"

    def _known_secrets(self) -> set[str]:
        from ..runtime.masking import secrets_passed  # only where something was given

        server = self._server
        return secrets_passed(server.env or {}, server.args) if server.env or server.args else set()

    async def aclose(self) -> None:
        """End the process, and wait for its end."""
        process = self._end()
        if process is not None:
            await process.aclose(self._context.timeouts.close)

    async def abandon(self, *, wait: bool = False) -> None:
        """End the process without the time that it may have to close."""
        process = self._end()
        if process is not None:
            process.abandon(min(_ABANDON_SECONDS, self._context.timeouts.close))
            if wait:
                await process.aclose(_ABANDON_SECONDS)

    def unmatched_output(self) -> UnmatchedOutput | None:
        """Return what the process wrote that belongs to no request."""
        return None if self._process is None else self._multiplexer.unmatched_output()

    def _end(self) -> Process | None:
        """Settle what is under way. Returns the process, if there is one."""
        if self.alive:
            self.alive, self._closed = False, True
            self._mark_settled()
        return self._process
