"""From what a host gives to a session: ``connect``, its options, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..approval.decision import allow_all, check_hook
from ..approval.gate import Answer, ApprovalHook, Gate, Policy
from ..approval.remembered import ApprovalMemory
from ..approval.request import ApprovalRequest
from ..catalog.trust import Trust
from ..errors import ConfigError
from ..extensions.extension import ClientInfo
from ..protocol.capabilities import ClientDeclaration
from ..runtime.daemon_thread import run_in_thread
from ..runtime.limits import Limits, Timeouts
from ..runtime.option_names import with_option_names
from ..runtime.session_context import KnownSecrets
from ..runtime.version import __version__
from ..transports.base import Transport
from ..transports.servers import Recording, is_started
from ..transports.stdio import StdioServer, StdioTransport
from ..validation.strictness import Strictness, Validation
from .names import take_name
from .session_options import Setup, check_instance, checked, kept_in, paused_in

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..approval.managed_policy import ManagedPolicy
    from ..audit import Audit, AuditTo
    from ..audit.record import SessionAudit
    from ..catalog.pins import Pins
    from ..connection.connection import RestartPolicy
    from ..connection.retry import Retry
    from ..errors import McpError
    from ..handlers.handlers import Handlers
    from ..state import State
    from ..transports.http import HttpServer
    from ..transports.memory import ServerInProcess
    from .binding import Bind
    from .session import Session

__all__ = ["Connecting", "NotOpen", "connect", "transport_of"]

_USE = "use 'async with connect(...) as session', or 'session = await connect(...)'"


@with_option_names(
    timeout="give timeouts=Timeouts(total=...), or timeout= to call_tool()",
    headers="give it to HttpServer(url, headers={...})",
    auth="give it to HttpServer(url, auth=...)",
    env="give it to StdioServer(command, args, env={...})",
    cwd="give it to StdioServer(command, args, cwd=...)",
    args="give StdioServer(command, args), or the words of the command as a list",
    approve="did you mean approval?",
)
def connect(
    server: StdioServer
    | HttpServer
    | ServerInProcess
    | Recording
    | Transport
    | str
    | Sequence[str],
    *,
    name: str | None = None,
    trusted: Trust = False,
    approval: ApprovalHook | Policy | None = None,
    audit: Audit | AuditTo | None = None,
    state: State | Decisions | str | os.PathLike[str] | None = None,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    validation: Validation | Strictness = "strict",
    pins: Pins | str | os.PathLike[str] | None = None,
    handlers: Handlers | None = None,
    client_info: ClientInfo | None = None,
    revision: str = "auto",
    retry: Retry | None = None,
    bind: Bind | None = None,
    policy: ManagedPolicy | None = None,
) -> Connecting:
    """Connect to a server: ``async with connect(...) as session``, or ``await connect(...)``.

    ``server`` is a ``StdioServer``, the words of a command, an ``HttpServer``, a URL, a
    ``MemoryServer``, a ``ReplayServer``, a ``Recording`` or a ``Transport``. ``name`` is what the
    server is called from here on, in approvals, errors and logs; by default, what its command runs
    or where its URL leads. Nothing the server says of itself is used. Opening raises
    ``ConfigError`` if decisions or pins of two different servers would go by one such name: see
    ``mcp_client.session.names``.

    ``approval`` decides every call: a hook, async or not, that is given an ``ApprovalRequest`` and
    answers ``Allow(...)`` or ``Deny(...)``, or ``Rules(...)``, or an ``ApprovalQueue``; anything
    else than ``Allow`` means no. Without one, the person at the terminal is asked, and without a
    terminal every call is refused.

    ``state`` is where everything is stored that is not given by an option of its own: decisions,
    pins, the audit, the tokens of ``OAuth()`` without ``store=``, and the key of saved tasks. Give
    the path of a directory, or any ``State``; ``Decisions(path)`` stores decisions alone. Servers
    in it go by ``name``, so give one: see ``mcp_client.approval.decisions``.

    ``trusted=True`` is the host's word that the server's annotations may be believed. A function
    decides it tool by tool: it is called with each ``Tool`` as it is listed, shown as an untrusted
    one, and only True means yes.

    ``audit`` is where every call is recorded, before it is decided and when it is over: the path
    of a file, ``AuditLog(path, ...)``, a callable that takes each record, or a list of those.
    ``Audit(to, failure=..., redaction=..., trace_content=...)`` takes one of these and says what
    happens to a call that cannot be recorded, what records leave out, and what spans show: see
    ``mcp_client.audit``.

    ``validation`` is what happens to a result that breaks the tool's output schema: "strict"
    raises ``InvalidResult``, which has the result; "warn" returns it with a finding; "off" does not
    check. ``Validation(results=..., arguments=...)`` says the same of arguments, too: see
    ``mcp_client.validation.Validation``.

    ``pins`` is a lock file of what the server's tools were, a path or ``Pins(path, policy=...)``:
    see ``mcp_client.catalog.pins``. Its servers go by ``name``, so give one.

    ``handlers`` answer what the server asks back and get its log lines,
    ``Handlers(elicitation=..., sampling=..., roots=..., log=...)``: what is given there is declared
    to the server, and nothing else.

    ``revision`` fixes the protocol revision ("2025-06-18"); "auto" agrees on the newest in common.

    ``retry=Retry(...)`` attempts calls that failed again where that can do no harm.

    ``bind`` sets arguments of calls that neither a model nor anybody else who calls may see or
    choose: ``bind={"create_*": {"tenant": "acme", "user": lambda context: context.user}}``, by
    globs over names of tools; a value is JSON, or a function of the call's ``context=``, async or
    not. See ``mcp_client.session.binding``.

    ``timeouts=Timeouts(connect=30, idle=60, total=600)`` are the clocks, in seconds; ``limits`` are
    bounds on what the server may send, ``Limits(tools=100, ...)``. ``client_info`` is what the
    server is told of this program, ``ClientInfo("my-app", "1.0", extensions=[...])``: see
    ``mcp_client.extensions.ClientInfo``.

    ``policy`` is what an organisation allows, whatever the other options say:
    ``ManagedPolicy.system()``, that of this machine. A server that it refuses is not started or
    connected to, and opening raises ``StartDenied``: see ``mcp_client.approval.managed_policy``.

    Raises ``ConfigError`` for a wrong argument, at once; ``ConnectError`` (``NegotiationError``
    where no revision is in common) when entered or awaited.
    """
    of_session = checked(locals())
    approval, handlers = _under(policy, approval, handlers)
    kept = kept_in(state, pins, audit, server)
    transport = transport_of(server)
    memory = ApprovalMemory(lambda: transport.lasting_identity, kept.decisions)
    secrets, has_default_name = KnownSecrets(), name is None
    name = name or transport.name
    setup = Setup(
        name=name,
        has_default_name=has_default_name,
        gate=Gate(approval, of_session["timeouts"].approval, _ask_on_terminal, memory),
        memory=memory,
        client=_client(client_info, handlers),
        pins=None if kept.pins is None else _pins(kept.pins, name, transport, secrets),
        handlers=handlers,
        audit=_audit(name, transport, kept.audit, secrets, memory),
        state=kept.state,
        paused=paused_in(kept.state, approval),
        policy=policy,
        content=None if kept.audit is None else kept.audit.span_content(secrets),
        secrets=secrets,
        **of_session,
    )
    return Connecting(transport, setup)


def transport_of(server: Any) -> Transport:
    """Return the transport to what ``connect`` was given. Raises ``ConfigError``."""
    if isinstance(server, Recording):
        return _recording(server)
    if is_started(server):
        if not isinstance(server, StdioServer):
            server = StdioServer(server[0], tuple(server[1:]))
        return StdioTransport(server)
    if isinstance(server, Transport):
        return server
    from ..transports.memory import ServerInProcess

    if isinstance(server, ServerInProcess):
        return server._transport()
    from ..transports.http import HttpServer, HttpTransport

    if isinstance(server, HttpServer):
        return HttpTransport(server)
    if isinstance(server, str):
        return HttpTransport(HttpServer(server))
    raise ConfigError(f"cannot connect to a {type(server).__name__}: {_advice(server)}")


def _advice(server: object) -> str:
    """What to give instead of something that is not a server."""
    if isinstance(server, os.PathLike):
        path = os.fspath(server)
        if str(path).endswith((".js", ".mjs", ".cjs")):
            return f"to run a script, give StdioServer('node', [{path!r}])"
        if str(path).endswith(".py"):
            return f"to run a script, give StdioServer(sys.executable, [{path!r}])"
        return f"to run a program, give StdioServer({path!r})"
    if isinstance(server, Mapping):
        if "url" in server:
            return "give HttpServer(url, headers=...)"
        return "give StdioServer(command, args, env=...), with the members of this dict"
    if isinstance(server, Sequence) and not isinstance(server, bytes):
        return "the list of words is empty: give the command first"
    return (
        "give a StdioServer, the words of a command as a list, an HttpServer, a URL, or a transport"
    )


# What only some sessions have is loaded only for them: it would be half of ``import mcp_client``.


def _under(
    policy: Any, approval: ApprovalHook | Policy | None, handlers: Handlers | None
) -> tuple[ApprovalHook | Policy | None, Handlers | None]:
    """The hooks of a session, checked, with the rules of its policy before them."""
    check_hook("approval", approval)
    if handlers is not None:
        handlers = _handlers(handlers)
    if policy is None:
        return approval, handlers
    from ..approval.managed_policy import ManagedPolicy

    check_instance("policy", policy, ManagedPolicy, "ManagedPolicy.system()")
    if handlers is not None and handlers.sampling is not None:
        hook = policy.over(handlers.sampling_approval or allow_all)
        handlers = replace(handlers, sampling_approval=hook)
    return policy.over(approval), handlers


async def _ask_on_terminal(request: ApprovalRequest) -> Answer:
    from ..approval.terminal import ask_on_terminal

    return await ask_on_terminal(request)


def _handlers(handlers: Any) -> Handlers:
    from ..handlers.handlers import Handlers

    if not isinstance(handlers, Handlers):
        raise ConfigError(f"handlers={handlers!r}: give Handlers(elicitation=..., ...)")
    return handlers


def _recording(server: Recording) -> Transport:
    from ..audit.redaction_function import redaction_of
    from ..audit.session_record import SessionRecord
    from ..transports.recording import Recorder, RecordingTransport

    redact = SessionRecord(redaction_of(server.redaction))
    return RecordingTransport(transport_of(server.server), Recorder(server.path, redact))


def _pins(
    pins: Pins | str | os.PathLike[str], server: str, transport: Transport, secrets: KnownSecrets
) -> Pins | None:
    from ..catalog.pins import Pins

    book = Pins._of(pins)
    if book is not None:
        book._identify(server, lambda: transport.pinned_identity, secrets)
    return book


def _audit(
    server: str,
    transport: Transport,
    audit: Audit | None,
    secrets: KnownSecrets,
    memory: ApprovalMemory,
) -> SessionAudit | None:
    made = None if audit is None else audit.of_server(server, lambda: transport.lasting_identity)
    if made is not None:
        made.secrets = secrets
        memory.tell(made)
    return made


def _client(info: ClientInfo | None, handlers: Handlers | None) -> ClientDeclaration:
    info = ClientInfo("mcp-client", __version__) if info is None else info
    return info.declaration({} if handlers is None else handlers.capabilities)


class NotOpen(ConfigError, AttributeError):
    """Something was asked of a session that is not open yet, which has it only then: ``hasattr``
    says so."""


class Connecting:
    """A session that is not open yet: enter it with ``async with``, or await it. Either, once."""

    def __init__(self, transport: Transport, setup: Setup) -> None:
        self._transport = transport
        self._setup = setup
        self._entered = False
        self._session: Session | None = None

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> Any:
            from .session import Session

            if hasattr(Session, name) or name in ("name", "stats"):
                raise NotOpen(f"the session is not open yet, so it has no {name}: {_USE}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __enter__(self) -> Any:
            raise ConfigError(f"'with connect(...)' cannot wait for the server: {_USE}")

        def __exit__(self, *_: object) -> None: ...

    def __await__(self) -> Generator[Any, Any, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.aclose()

    async def _open(
        self,
        restarts: RestartPolicy | None = None,
        on_lost: Callable[[McpError], None] | None = None,
        why_left_out: Callable[[str], str | None] | None = None,
    ) -> Session:
        """``restarts``, ``on_lost`` and ``why_left_out`` are of a ``Host``: see ``Connection`` and
        ``Catalog``."""
        if self._entered:
            raise ConfigError("connect(...) can be entered or awaited once; call connect again")
        from .session import Session  # a fifth of what is loaded: the bench's row "import"

        self._entered = True
        setup = self._setup
        if setup.pins is not None:
            await run_in_thread(setup.pins._read)  # unusable: then nothing is started
        if setup.memory.store is not None:
            await run_in_thread(setup.memory.store.check)  # likewise
        session = self._session = Session(self._transport, setup, why_left_out)
        if restarts is not None:
            session._connection.restarts, session._connection.on_lost = restarts, on_lost
        take_name(session, setup)
        return await session._open()
