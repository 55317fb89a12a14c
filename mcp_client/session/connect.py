"""Connect to a server: ``connect``, its options, and errors for what is not a server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..approval.decision import Answer, ApprovalHook, Policy, allow_all, check_hook
from ..approval.gate import Gate
from ..approval.remembered import ApprovalMemory
from ..approval.request import ApprovalRequest
from ..errors import ConfigError
from ..extensions.extension import ClientInfo
from ..protocol.capabilities import ClientDeclaration
from ..runtime.daemon_thread import run_in_thread
from ..runtime.limits import Limits, Timeouts
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from ..runtime.session_context import KnownSecrets
from ..runtime.version import __version__
from ..transports.base import Transport
from ..transports.servers import Recording, is_started
from ..transports.stdio import StdioServer, StdioTransport
from ..validation.strictness import Strictness, Validation
from .session_options import ELSEWHERE, Setup, check_instance, checked, paused_in, stores_in

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..approval.managed_policy import ManagedPolicy
    from ..audit import Audit, AuditTo
    from ..audit.record import SessionAudit
    from ..catalog.pins import Pins
    from ..catalog.tool import ToolList
    from ..catalog.tools import Trust
    from ..connection.call_options import Retry
    from ..connection.connection import RestartPolicy
    from ..handlers.handlers import Handlers
    from ..state import State
    from ..transports.http import HttpServer
    from ..transports.memory import ServerInProcess
    from ..transports.stream import StreamServer
    from .binding import Bind
    from .session import Session

__all__ = ["Connecting", "NotOpen", "connect", "transport_of"]

_USE = "use 'async with connect(...) as session', or 'session = await connect(...)'"


@with_option_names(**ELSEWHERE)
def connect(
    server: StdioServer
    | HttpServer
    | ServerInProcess
    | StreamServer
    | Recording
    | Transport
    | str
    | Sequence[str],
    *,
    name: str | None = None,
    trusted: Trust = False,
    approval: ApprovalHook | Policy | None = None,
    handlers: Handlers | None = None,
    state: State | Decisions | str | os.PathLike[str] | None = None,
    pins: Pins | str | os.PathLike[str] | None = None,
    audit: Audit | AuditTo | None = None,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    validation: Validation | Strictness = "strict",
    retry: Retry | None = None,
    bind: Bind | None = None,
    policy: ManagedPolicy | None = None,
    revision: str = "auto",
    client_info: ClientInfo | None = None,
) -> Connecting:
    """Open a session with one server. Enter the result with ``async with``, or await it.

    Args:
        server: A ``StdioServer``, the words of a command, an ``HttpServer``, a URL, a
            ``MemoryServer``, a ``ReplayServer``, a ``StreamServer``, a ``Recording`` or a
            ``Transport``.
        name: What the server is called in approvals, errors, logs and stores. Without one, the name
            is made of the command or the URL. Nothing that the server reports about itself is used.
        trusted: True if the server's annotations may be believed, or a function that decides it for
            each ``Tool`` as it is listed. Only the value True grants trust.
        approval: The decision for each call: a hook, async or not, that takes an
            ``ApprovalRequest`` and returns ``Allow(...)`` or ``Deny(...)``; ``Rules(...)``; or an
            ``ApprovalQueue``. Any other value is a denial. None asks the user at the terminal;
            without a terminal every call is refused.
        handlers: The handlers for the server's own requests and log lines:
            ``Handlers(elicitation=..., sampling=..., roots=..., log=...)``. Only the handlers that
            are set are declared to the server.
        state: The path of a directory, or any ``State``. It stores the decisions, pins, audit,
            tokens of ``OAuth()`` and the key of saved tasks that have no place of their own.
            ``Decisions(path)`` stores decisions alone. Entries are stored by ``name``, so set it:
            see ``mcp_client.session.connect``.
        pins: A lock file of the server's tools: a path, or ``Pins(path, policy=...)``. Set ``name``
            as well; see ``mcp_client.catalog.pins``.
        audit: The record of each call, opened before the decision and closed at the end: the path
            of a file, ``AuditLog(path, ...)``, a callable that takes each record, a list of those,
            or ``Audit(to, failure=..., redaction=..., trace_content=...)``. See
            ``mcp_client.audit``.
        timeouts: The timeouts, in seconds: ``Timeouts(connect=30, idle=60, total=600)``.
        limits: Limits on what the server may send: ``Limits(tools=100, ...)``.
        validation: The treatment of a result that is not valid for the tool's output schema:
            "strict" raises ``InvalidResult``, "warn" returns it with a finding, "off" does not
            check. ``Validation(results=..., arguments=...)`` sets it for arguments, too.
        retry: When to repeat a failed call that cannot have had an effect: ``Retry(...)``.
        bind: Arguments that neither a model nor another caller may see or choose, by globs over
            tool names: ``{"create_*": {"tenant": "acme", "user": lambda user: user.id}}``. A value
            is JSON, or a function of the call's ``context=``: see ``mcp_client.session.binding``.
        policy: An organisation's policy, which the other options cannot override:
            ``ManagedPolicy.system()`` loads the policy of this machine.
        revision: The only protocol revision to accept, such as "2025-06-18"; "handshake" or
            "stateless" for the newest common revision of that era, without a request of the other;
            "auto" for the newest common revision of all.
        client_info: The name, version and extensions that are declared to the server:
            ``ClientInfo("my-app", "1.0", extensions=[...])``.

    Returns:
        A session that is not open yet. Enter it or await it, once.

    Raises:
        ConfigError: An option is wrong. On opening: a store cannot be used, or contains another
            server under this name.
        ConnectError: On opening: the server cannot be reached, or there is no common revision
            (``NegotiationError``).
        StartDenied: On opening: ``policy`` refuses the server, and nothing was started.

    Example::

        async with connect(["npx", "server"], name="files", approval=hook) as session:
            result = await session.call_tool("search", {"query": "tea"})
    """
    of_session = checked(locals())
    approval, handlers = _under(policy, approval, handlers)
    stores = stores_in(state, pins, audit, server)
    transport = transport_of(server)
    memory = ApprovalMemory(lambda: transport.stable_identity, stores.decisions)
    secrets, has_default_name = KnownSecrets(), name is None
    name = name or transport.name
    setup = Setup(
        name=name,
        has_default_name=has_default_name,
        gate=Gate(approval, of_session["timeouts"].approval, _ask_on_terminal, memory),
        memory=memory,
        client=_client(client_info, handlers),
        pins=None if stores.pins is None else _pins(stores.pins, name, transport, secrets),
        handlers=handlers,
        audit=_audit(name, transport, stores.audit, secrets, memory),
        state=stores.state,
        paused=paused_in(stores.state, approval),
        policy=policy,
        content=None if stores.audit is None else stores.audit._span_content(secrets),
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
    from ..transports.stream import StreamServer

    if isinstance(server, ServerInProcess | StreamServer):
        return server._transport()
    from ..transports.http import HttpServer, HttpTransport

    if isinstance(server, HttpServer):
        return HttpTransport(server)
    if isinstance(server, str):
        return HttpTransport(HttpServer(server))
    raise ConfigError(f"cannot connect to a {type(server).__name__}: {_advice(server)}")


def _advice(server: object) -> str:
    """Return what to pass instead of a value that is not a server."""
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
        return "give StdioServer(command, args, env=...), with this dict's members"
    if isinstance(server, Sequence) and not isinstance(server, bytes):
        return "the list is empty: put the command first"
    return "give a StdioServer, a command as a list, an HttpServer, a URL, or a transport"


# Optional parts are loaded on first use: they double the time of ``import mcp_client``.


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
        hook = handlers.sampling_approval
        over = policy.over(allow_all if hook is None else hook)
        handlers = replace(handlers, sampling_approval=over)
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
    from ..audit.options import redaction_of
    from ..audit.redacted_content import SessionRecord
    from ..transports.recording import Recorder, RecordingTransport

    redact = SessionRecord(redaction_of(server.redaction))
    return RecordingTransport(transport_of(server.server), Recorder(server.path, redact))


def _pins(
    pins: Pins | str | os.PathLike[str], server: str, transport: Transport, secrets: KnownSecrets
) -> Pins | None:
    from ..catalog.pins import Pins

    lock_file = Pins._of(pins)
    if lock_file is not None:
        lock_file._identify(server, lambda: transport.pinned_identity, secrets)
    return lock_file


def _audit(
    server: str,
    transport: Transport,
    audit: Audit | None,
    secrets: KnownSecrets,
    memory: ApprovalMemory,
) -> SessionAudit | None:
    made = None if audit is None else audit._of_server(server, lambda: transport.stable_identity)
    if made is not None:
        made.secrets = secrets
        memory.observe(made)
    return made


def _client(info: ClientInfo | None, handlers: Handlers | None) -> ClientDeclaration:
    info = ClientInfo("mcp-client", __version__) if info is None else info
    return info.declaration({} if handlers is None else handlers.capabilities)


class NotOpen(ConfigError, AttributeError):
    """The session is not open yet, so it lacks the attribute; ``hasattr`` returns False."""


class Connecting:
    """A session that is not open yet: enter it with ``async with``, or await it, once."""

    def __init__(self, transport: Transport, setup: Setup) -> None:
        self._transport = transport
        self._setup = setup
        self._entered = False
        self._session: Session | None = None

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> Any:
            from .session import Session

            if hasattr(Session, name) or name in ("name", "stats"):
                raise NotOpen(f"the session is not open yet, so {name} is not available: {_USE}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __enter__(self) -> Any:
            raise ConfigError(f"'with connect(...)' cannot wait for the server: {_USE}")

        def __exit__(self, *_: object) -> None: ...

    def __await__(self) -> Generator[Any, Any, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        return await self._open()

    async def __aexit__(self, *raised: object) -> None:
        if self._session is not None:
            await self._session.aclose()

    async def _open(
        self,
        restarts: RestartPolicy | None = None,
        why_left_out: Callable[[str], str | None] | None = None,
    ) -> Session:
        """Open the session; see ``Connection`` and ``Catalog`` for the arguments of a ``Host``."""
        if self._entered:
            raise ConfigError("connect(...) can be entered or awaited once. Call connect again")
        self._entered = True
        setup = self._setup
        if setup.pins is not None:
            await run_in_thread(setup.pins._read)  # unusable: then nothing is started
        if setup.memory.store is not None:
            await run_in_thread(setup.memory.store.check)  # likewise
        session = self._made(restarts, why_left_out)
        _take_name(session, setup)
        return await session._open()

    async def _pinned_tools(
        self, restarts: RestartPolicy, why_left_out: Callable[[str], str | None] | None
    ) -> tuple[ToolList | None, str | None]:
        """Return the tools and the instructions in the lock file, before the session is open."""
        catalog = self._made(restarts, why_left_out)._catalog
        return await catalog.pinned(), catalog.instructions

    def _made(
        self, restarts: RestartPolicy | None, why_left_out: Callable[[str], str | None] | None
    ) -> Session:
        if self._session is None:
            from .session import Session  # a fifth of what is loaded: the bench's row "import"

            self._session = Session(self._transport, self._setup, restarts, why_left_out)
        return self._session


_open: WeakKeyDictionary[Session, frozenset[Hashable]] = WeakKeyDictionary()
"""The sessions that store something, and where."""
_lock = threading.Lock()


def _take_name(session: Session, setup: Setup) -> None:
    """Raise ``ConfigError`` if a session of another server stores under the same name.

    Decisions and pins are stored by server name. A default name is made from the command or the URL
    alone, so two servers may have the same name. If two sessions with one name are open, and both
    store decisions or pins in one place, the second is refused, except:

    - if the servers are the same (``Transport.stable_identity``): their sessions share the name,
    - if both names were set by the host, which may start one program for each of its users under
      one name. Decisions are then stored apart, by the command or the address, and pins report
      drift.

    No session changes its name because of another one.
    """
    places = _places(setup)
    if not places:
        return
    with _lock:
        for other, its_places in _open.items():
            if (
                other.name == session.name
                and not other.closed
                and (setup.has_default_name or other._setup.has_default_name)
                and its_places & places
                and _are_different(session, other)
            ):
                raise ConfigError(
                    f"two servers are named {safe_text(session.name, 60)!r} and store decisions "
                    f"or pins in one place: {_described(session)} and {_described(other)}, whose "
                    "session is open. Give each a name of its own: connect(..., name=...)"
                )
        _open[session] = places


def _places(setup: Setup) -> frozenset[Hashable]:
    decisions, pins = setup.memory.store, setup.pins
    found: list[Hashable] = []
    if decisions is not None:
        found.append(("decisions", decisions._state.place))
    if pins is not None:
        found.append(("pins", pins._state.place))
    return frozenset(found)


def _are_different(one: Session, other: Session) -> bool:
    identities = one._transport.stable_identity, other._transport.stable_identity
    return None not in identities and identities[0] != identities[1]


def _described(session: Session) -> str:
    return safe_text(session._transport.address or "a server", 200)
