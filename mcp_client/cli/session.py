"""The subject of a command, by its options: one session, and the files of the command itself."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..approval.decision import Allow, Answer, Deny
from ..approval.managed_policy import ManagedPolicy
from ..approval.remember import Remember
from ..approval.request import ApprovalRequest
from ..approval.rules import Origin, Rule, Rules
from ..approval.tool_call import ToolCall
from ..catalog.finding import Finding
from ..errors import ConfigError, StartDenied
from ..runtime.atomic_file import access_problem, lock, unlock
from ..runtime.daemon_thread import run_in_thread
from ..runtime.directory import NO_WAIT
from ..runtime.limits import Timeouts
from ..session.connect import connect
from ..session.session import Session
from ..transports.servers import Recording, confined
from ..transports.stdio import StdioServer
from .exits import UsageError
from .output import note
from .target import Configured, target_of

if TYPE_CHECKING:
    from ..approval.decision import ApprovalHook
    from ..approval.decisions import Decisions
    from ..approval.queue import ApprovalQueue
    from ..catalog.tool import Tool
    from ..config.server_config import ServerConfig
    from ..handlers.handlers import ElicitRequest, Handlers
    from ..sandbox.sandbox import Sandbox
    from ..state import State
    from ..transports.http import HttpServer

__all__ = [
    "approval_queue",
    "chosen_target",
    "decisions_of",
    "existing_state_of",
    "is_allowed",
    "logged_in",
    "open_session",
    "options_of",
    "sandbox_of",
    "started_from",
    "state_file",
    "state_of",
]

_SERVER_SEPARATORS = "/", "__"
_MAX_DESK_BYTES = 10_000
_STORED_ELSEWHERE = "env", "file", "keyring"
_PASSWORD = re.compile(r"(?i)password\s*=|^[a-z]+://[^/?#@]*:[^/?#]*@")
_MIN_START_SECONDS = 5.0
"""The seconds that a server has to start in any case; ``--timeout`` is about later requests."""


def options_of(options: argparse.Namespace, queue: ApprovalQueue | None = None) -> dict[str, Any]:
    """Return the options of ``connect`` that the command line gives."""
    return {
        "approval": _policy(options, queue),
        "trusted": options.trust,
        "audit": _file_to_write("--audit", options.audit),
        "pins": options.pins,
        "state": decisions_of(options),
        "handlers": _handlers(options),
        "timeouts": _timeouts(options),
        "policy": ManagedPolicy.system(),
    }


def _handlers(options: argparse.Namespace) -> Handlers:
    """Declared without a terminal too: a server may offer other tools to who cannot be asked."""
    from ..handlers.handlers import Cancel, Handlers

    async def elicit(request: ElicitRequest) -> Any:
        if options.terminal:
            from ..handlers.terminal import elicit_on_terminal

            return await elicit_on_terminal(request)
        why = "--no-input was given" if options.no_input else "no terminal to ask at"
        note(f"{request.server}: a request for input was cancelled: {why}")
        return Cancel()

    return Handlers(elicitation=elicit)


def _file_to_write(option: str, path: str | None) -> str | None:
    """Return the path of an option after a look at it, before anything is done.

    Raises ``UsageError``.
    """
    if path is None:
        return None
    directory = os.path.dirname(path) or "."
    why = None
    if not path:
        why = "give the path of a file"
    elif os.path.isdir(path):
        why = "it is a directory"
    elif option == "--record" and os.path.exists(path) and not os.path.isfile(path):
        why = "it is not a regular file"
    elif not os.path.isdir(directory):
        why = f"directory not found: {directory}"
    elif not os.access(path if os.path.exists(path) else directory, os.W_OK):
        why = "it cannot be written"
    if why is not None:
        raise UsageError(f"{option} {path}: {why}")
    return path


def sandbox_of(options: argparse.Namespace) -> Sandbox | None:
    """Return the sandbox of ``--sandbox``, with what it grants."""
    if options.sandbox:
        from ..sandbox.sandbox import Sandbox

        return Sandbox(options.read, options.write, options.network or "none")
    for name in ("read", "write", "network"):
        if getattr(options, name):
            raise UsageError(f"--{name} is a grant of a sandbox: add --sandbox")
    return None


def _timeouts(options: argparse.Namespace) -> Timeouts:
    if options.timeout is None:
        return Timeouts()
    seconds = options.timeout
    connect = seconds if options.command == "doctor" else max(seconds, _MIN_START_SECONDS)
    return Timeouts(connect=connect, idle=seconds, total=seconds)


@asynccontextmanager
async def open_session(options: argparse.Namespace) -> AsyncIterator[Session]:
    """Open the session of ``TARGET``, or yield the one that is open already."""
    if getattr(options, "session", None) is not None:
        yield options.session
        return
    target = await chosen_target(options)
    async with approval_queue(options) as queue, _session(target, options, queue) as session:
        yield session


async def chosen_target(options: argparse.Namespace) -> StdioServer | HttpServer | Configured:
    """Return the target of TARGET, ``--header`` and ``--env``. A keyring may wait for a person."""
    words = options.target, options.config, options.header, options.env
    if any("=keyring:" in word for word in (*options.header, *options.env)):
        target = await run_in_thread(target_of, *words, abandon_on_cancel=True)
    else:
        target = target_of(*words)
    if options.sandbox:
        _check_sandbox(target)
    return target


def _check_sandbox(target: StdioServer | HttpServer | Configured) -> None:
    """Raise ``UsageError`` where ``--sandbox`` does not go with it."""
    is_command = isinstance(target, StdioServer)
    if isinstance(target, Configured):
        start = target.config._starts[target.name].first
        is_command = start.command is not None
        if start.sandbox is not None:
            raise UsageError(
                f"--sandbox does not go with {target.name!r}: {target.config.path} defines how it "
                "is confined"
            )
    if not is_command:
        raise UsageError("--sandbox goes with a command: nothing is started at a URL")


@asynccontextmanager
async def approval_queue(options: argparse.Namespace) -> AsyncIterator[ApprovalQueue | None]:
    """Open the queue of ``--approve web``: the desk of ``--state``, one that runs, or a new page.

    Yields None without that option.
    """
    if options.approve != "web":
        yield None
        return
    from ..approval.queue import ApprovalQueue
    from ..desk.http import check_extra
    from ..desk.serve import serve_desk

    state = state_of(options) if options.state else _state_of_running_desk()
    if state is not None:
        note(f"calls are decided at the desk of {state!r}")
        yield ApprovalQueue(decisions=state.decisions, keep=Timeouts().approval)
        return
    check_extra("--approve web", "starlette", "uvicorn")
    queue = ApprovalQueue()
    async with serve_desk(queue) as desk:
        note(f"decide calls at {desk.url} (the address lets in once)")
        yield queue


@asynccontextmanager
async def _session(
    target: StdioServer | HttpServer | Configured,
    options: argparse.Namespace,
    queue: ApprovalQueue | None,
) -> AsyncIterator[Session]:
    chosen, name = options_of(options, queue), getattr(options, "server_name", None)
    if isinstance(target, Configured):
        if name is not None:
            raise UsageError(f"--name does not go with {target.name!r}: its config file names it")
        async with _configured(target, options, chosen, queue) as session:
            yield session
        return
    server = _recorded(confined(await logged_in(target, options), sandbox_of(options)), options)
    async with connect(server, name=name, revision=options.revision, **chosen) as session:
        yield session


def _recorded(server: Any, options: argparse.Namespace) -> Any:
    """Return the server with its session written to the file of ``--record``."""
    path = _file_to_write("--record", options.record)
    return server if path is None else Recording(server, path)


@asynccontextmanager
async def _configured(
    target: Configured,
    options: argparse.Namespace,
    chosen: dict[str, Any],
    queue: ApprovalQueue | None,
) -> AsyncIterator[Session]:
    """Open the session in a host of this server alone, with the options of its config file."""
    from ..host.host import Host

    for problem in target.config.problems:
        if target.name in problem.key:
            note(problem)
    config = target.config._starts[target.name].config(secrets=False)
    if config.enabled:
        config = await started_from(target, options, queue)
    config = replace(config, lazy=True, server=_recorded(config.server, options))
    if options.revision != "auto":
        config = replace(config, revision=options.revision)
    async with Host({target.name: config}, sandbox=sandbox_of(options), **chosen) as host:
        yield await host.session(target.name)


async def logged_in(
    target: StdioServer | HttpServer, options: argparse.Namespace
) -> StdioServer | HttpServer:
    """Return a URL of the command line with the login that is stored for it."""
    if isinstance(target, StdioServer) or options.header:
        return target
    from .login import with_login

    return await with_login(target)


async def started_from(
    target: Configured, options: argparse.Namespace, queue: ApprovalQueue | None = None
) -> ServerConfig:
    """Return the server of a config file, when its start or connection has been allowed."""
    from ..config.start_gate import start_of

    starting = start_of(
        target.config,
        target.name,
        _confirm(options, queue),
        decisions_of(options),
        _file_to_write("--audit", options.audit),
        _timeouts(options),
        sandbox_of(options),
    )
    try:
        return await starting.config()
    except StartDenied as error:
        raise _denied(error, target, _why_unasked(options)) from None


def _confirm(options: argparse.Namespace, queue: ApprovalQueue | None) -> ApprovalHook | None:
    """Return the hook that decides whether a server of a config file is started."""
    from ..approval.terminal import ask_on_terminal
    from ..config.start_gate import by_its_place

    ask = queue or (ask_on_terminal if _why_unasked(options) is None else None)
    rules = [rule for rule in _policy_rules(options) if rule.kind in ("start", "any")]
    return Rules(rules, ask or by_its_place) if rules else ask


def _denied(error: StartDenied, target: Configured, why: str | None) -> StartDenied:
    """Return the same for people at a shell."""
    if error.source != "gate":
        return error
    because = f" ({why})" if why else ""
    return StartDenied(
        f"the server was not started: what {target.config.path} runs has not been confirmed "
        f"here{because}; run this command once at a terminal, which asks: 'a' is remembered; or "
        f"see it with 'mcp-client confirm {shlex.quote(str(target.config.path))} "
        f"{shlex.quote(target.name)}'",
        server=target.name,
        reason=error.reason,
        source=error.source,
    )


# ------------------------------------------------------------------- who decides for it


def _policy(options: argparse.Namespace, queue: ApprovalQueue | None = None) -> Rules:
    """Return the approval policy: the rules of ``--policy`` first, then those of ``--allow``.

    All other calls are asked about or refused. With a ``queue``, it is asked.
    """
    rules = _rules(options)

    async def ask(request: Any) -> Answer:
        asked = request if options.command == "shell" else request.for_one_call()
        if queue is not None:
            return _beyond_session(options, await queue(asked))
        why = _why_unasked(options)
        if why is None:
            from ..approval.terminal import ask_on_terminal

            return _beyond_session(options, await ask_on_terminal(asked))
        return Deny(f"{why}; {_advice(rules, request)}", source="rule")

    return Rules(rules, ask)


def _beyond_session(options: argparse.Namespace, decision: Answer) -> Answer:
    """Return the answer, in a form that outlasts the session.

    An approval for a time is stored like "always", if the session ends with the command.
    """
    if options.command == "shell" or not isinstance(decision, Allow):
        return decision
    remember = Remember.of(decision.remember)
    return replace(decision, remember=None if remember is None else remember.beyond_session())


def is_allowed(options: argparse.Namespace, tool: Tool) -> bool:
    """Whether ``--allow`` lets the tool run."""
    return isinstance(Rules(_rules(options)).decide(ToolCall.example(tool)), Allow)


def _rules(options: argparse.Namespace) -> list[Rule]:
    origin: Origin = "code" if options.command == "run" else "host"
    allowed = [_rule(glob, tuple(options.allow_finding), origin) for glob in options.allow]
    return [*_policy_rules(options), *allowed]


def _policy_rules(options: argparse.Namespace) -> tuple[Rule, ...]:
    return Rules.from_file(options.policy).rules if options.policy else ()


def _rule(glob: str, findings: tuple[str, ...], origin: Origin) -> Rule:
    """Return a rule for ``TOOL``, ``SERVER/TOOL`` or ``SERVER__TOOL``.

    Server and tool are matched apart, so that a tool cannot have the name of another server's tool.
    """
    server: str | None = None
    tool = glob
    for separator in _SERVER_SEPARATORS:
        if separator in glob:
            server, _, tool = glob.partition(separator)
            break
    try:
        return Rule("allow", server=server, tool=tool, findings=findings, origin=origin)
    except ConfigError as error:
        raise UsageError(f"--allow {glob}: {error.message}") from None


def _advice(rules: list[Rule], request: ApprovalRequest) -> str:
    """Return the option that lets the request through: another allowed finding, or its name."""
    for rule in rules:
        if rule.outcome == "allow" and replace(rule, findings=Finding.KINDS).matches(request):
            found = [one for one in request.findings if not (one.note or one.kind in rule.findings)]
            kinds = dict.fromkeys(one.kind for one in found)
            texts = "; ".join(dict.fromkeys(str(one) for one in found))
            words = " ".join(f"--allow-finding {kind}" for kind in kinds)
            return f"{texts}; allow it anyway with {words}"
    return f"allow it with --allow {_as_glob(request)}"


def _as_glob(request: ApprovalRequest) -> str:
    name = request.subject
    if any(separator in name for separator in _SERVER_SEPARATORS):
        name = f"{request.server}/{name}"
    for sign in "[*?":  # which match other characters in a pattern
        name = name.replace(sign, f"[{sign}]")
    return shlex.quote(name)


def _why_unasked(options: argparse.Namespace) -> str | None:
    """Return the reason why a person cannot be asked now; None if one can be."""
    if options.approve == "deny":
        return "--approve deny was given"
    if options.no_input:
        return "--no-input was given"
    if not options.terminal:
        return "no terminal to ask at"
    from ..runtime.console import why_no_terminal

    return why_no_terminal()


# ----------------------------------------------------------- files of the command itself


def state_file(name: str) -> Path:
    """Return the path of a file in the user's state directory, which is created if missing.

    It is ``$XDG_STATE_HOME/mcp-client``.
    """
    directory = _state_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{directory} cannot be made: {error.strerror or error}") from None
    return directory / name


def state_of(options: argparse.Namespace) -> State:
    """Return the state of ``--state``, else of the user's state directory."""
    return _state_named(options.state or str(_state_directory()))


def existing_state_of(options: argparse.Namespace) -> State:
    """Return the state of ``--state``, without creating a directory."""
    state = state_of(options)
    path = getattr(state, "path", None)
    if path is not None and not path.is_dir():
        raise UsageError(f"--state {options.state}: directory not found")
    return state


def _state_named(word: str) -> State:
    """Return the state of a directory or a database. A password is not a word of a command."""
    from ..state.file_state import state_of
    from .target import secret_of

    kind, colon, _ = word.partition(":")
    if colon and kind in _STORED_ELSEWHERE:
        word = secret_of(word, "--state")
    elif _PASSWORD.search(word):
        raise UsageError(
            "--state: other users can read a password on the command line; put it into PGPASSWORD "
            "or ~/.pgpass, or the whole address into a variable and write --state env:NAME"
        )
    if os.path.isfile(word):
        raise UsageError(f"--state {word}: it is a file; give a directory")
    state = state_of(word)
    assert state is not None
    return state


def _state_of_running_desk() -> State | None:
    """Return the state in which the running desk looks for calls; None if no desk runs."""
    try:
        file = os.open(state_file("desk.json"), os.O_RDONLY | NO_WAIT)
    except (OSError, UsageError):  # no desk has run, or the home is read-only
        return None
    with open(file, "rb") as stream:
        if access_problem(os.fstat(file), private=True) is not None:
            return None
        if lock(file, 0.0, shared=True):  # the desk that wrote it has ended
            unlock(file)
            return None
        try:
            return _state_named(json.loads(stream.read(_MAX_DESK_BYTES))["state"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError):
            return None


def decisions_of(options: argparse.Namespace) -> Decisions:
    """Return the decisions. Without a state directory they are stored until the command ends."""
    from ..approval.decisions import Decisions

    directory = _state_directory()
    nearest = next(each for each in (directory, *directory.parents) if os.path.lexists(each))
    if options.state is None and not nearest.is_dir():
        return Decisions()
    return state_of(options).decisions


def _state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local/state") / "mcp-client"
