"""One server, agreed on a revision: what it is, what it offers, and how to call it."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakSet

import anyio

from .approval import ApprovalHook, Gate
from .backend import current
from .bounds import Limits, Timeouts
from .call import Caller, Strictness
from .catalog import Catalog
from .errors import (
    ConfigError,
    ConnectError,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    ServerError,
)
from .opening import Opening
from .pins import Pins
from .protocol.capabilities import Client, Implementation
from .protocol.era import Complete, Reading
from .protocol.headers import HEADER_MISMATCH
from .protocol.jsonrpc import Notice, Question, encode_answer, encode_failure
from .protocol.notices import TOOLS_CHANGED
from .protocol.versions import HANDSHAKE, STATELESS, is_known
from .result import ToolResult
from .subscriptions import Subscriptions, ToolWatch
from .tool import Tool, ToolList
from .transports.base import Stats, Transport
from .transports.http import HttpServer, HttpTransport
from .transports.stdio import StdioServer, StdioTransport
from .wire import OnProgress, Wire
from .worker import Workers

__all__ = ["Connecting", "Session", "connect"]

_log = logging.getLogger("mcp_client")
_METHOD_NOT_FOUND = -32601
_MINUTE = 60.0


def connect(
    server: StdioServer | HttpServer | Transport | str | Sequence[str],
    *,
    name: str | None = None,
    trusted: bool = False,
    approval: ApprovalHook | None = None,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    validation: Strictness = "strict",
    argument_validation: Strictness = "warn",
    pins: Pins | str | os.PathLike[str] | None = None,
    client_info: Implementation | None = None,
    revision: str = "auto",
) -> Connecting:
    """Connect to a server: ``async with connect(...) as session``, or ``await connect(...)``.

    ``server`` is a ``StdioServer``, the words of a command, an ``HttpServer``, a URL, or a
    transport such as ``MemoryServer``. ``name`` is what the server is called from here on, in
    approvals, errors and logs; by default, what its command or host is called. Nothing the server
    says of itself is used.

    ``approval`` decides every call: see ``mcp_client.approval``. Without one, the person at the
    terminal is asked, and where there is no terminal every call is refused.
    ``trusted=True`` is the host's word that the server's annotations may be believed.

    ``validation`` is what happens to a result that breaks the tool's output schema: "strict"
    raises ``InvalidResult``, which carries it; "warn" hands it over with a finding; "off" does not
    look. ``argument_validation`` likewise before the call; with "warn", the default, the approval
    hook sees the finding and the call goes on. What cannot be judged within
    ``Timeouts.validation`` counts as broken, and the text says so.

    ``pins`` is a lock file of what the server's tools were, a path or ``Pins(path, policy=...)``:
    see ``mcp_client.pins``. Its servers go by ``name``, so give one.

    ``revision`` fixes the protocol revision ("2025-06-18"); "auto" agrees on the newest in common.

    Raises ``ConfigError`` for a wrong argument, at once; ``ConnectError`` (``NegotiationError``
    where no revision is in common) when entered or awaited.
    """
    transport = _transport(server)
    if revision != "auto" and not is_known(revision):
        raise ConfigError(
            f"revision={revision!r}: give one of {', '.join((*STATELESS, *HANDSHAKE))}, or 'auto'"
        )
    _strictness("validation", validation)
    _strictness("argument_validation", argument_validation)
    if approval is not None and not callable(approval):
        raise ConfigError(f"approval={approval!r}: give a function from ToolCall to Allow or Deny")
    if not isinstance(trusted, bool):
        raise ConfigError(f"trusted={trusted!r}: give True or False")
    return Connecting(
        Session(
            transport,
            name=name or transport.name,
            trusted=trusted,
            gate=Gate(approval, (timeouts or Timeouts()).approval),
            timeouts=timeouts or Timeouts(),
            limits=limits or Limits(),
            validation=validation,
            argument_validation=argument_validation,
            client=Client(client_info or _ourselves(), {}),
            pin=None if revision == "auto" else revision,
            pins=Pins.of(pins),
        )
    )


def _transport(server: Any) -> Transport:
    if isinstance(server, Transport):
        return server
    if isinstance(server, StdioServer):
        return StdioTransport(server)
    if isinstance(server, HttpServer):
        return HttpTransport(server)
    if isinstance(server, str):
        return HttpTransport(HttpServer(server))
    if isinstance(server, Sequence) and not isinstance(server, str | bytes) and server:
        return StdioTransport(StdioServer(server[0], tuple(server[1:])))
    raise ConfigError(
        f"cannot connect to a {type(server).__name__}: give a StdioServer, the words of a command "
        "as a list, an HttpServer, a URL, or a transport"
    )


def _strictness(option: str, value: object) -> None:
    if value not in ("strict", "warn", "off"):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")


def _ourselves() -> Implementation:
    from . import __version__

    return Implementation("mcp-client", __version__)


class Connecting:
    """A session on its way: enter it with ``async with``, or await it. Either, once."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __await__(self) -> Generator[Any, Any, Session]:
        return self._session._open().__await__()

    async def __aenter__(self) -> Session:
        return await self._session._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.aclose()


class Session:
    """A connection to one server. Made by ``connect``.

    Its methods may be called from any number of tasks at once, and any task may close it. If the
    server's process dies, the calls under way raise ``ConnectionLost``, and the next use starts
    the server again (2026-07-28 ``basic/transports/stdio``), at most ``Limits.restarts`` times a
    minute.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        name: str,
        trusted: bool,
        gate: Gate,
        timeouts: Timeouts,
        limits: Limits,
        validation: Strictness,
        argument_validation: Strictness,
        client: Client,
        pin: str | None,
        pins: Pins | None = None,
    ) -> None:
        self.name = name
        """What the host calls the server."""
        self.stats = Stats()
        """Counts of what happened on this session's connections."""
        self.generation = 0
        """How many connections the session has had."""
        self._transport = transport
        self._timeouts = timeouts
        self._limits = limits
        self._client = client
        self._pin = pin
        self._pins = pins
        self._trusted = trusted
        self._ids = itertools.count(1)
        self._wire: Wire | None = None
        self._opened = False
        self._closed = False
        self._starts: list[float] = []
        self._retired: WeakSet[Transport] = WeakSet()
        prefix = os.urandom(4).hex()
        self._workers = Workers()
        self._caller = Caller(
            self._find,
            self._live,
            self._renewed,
            gate,
            validation,
            argument_validation,
            limits,
            self._workers,
            prefix,
            pins,
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._wire else "not open"
        return f"<Session {self.name!r}, {state}>"

    # --------------------------------------------------------------- what it is

    @property
    def server_info(self) -> Implementation | None:
        """Name and version by the server's own word, or None: for display, never for a decision."""
        return self._agreed().era.server.info

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._agreed().era.revision

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server says it can do, as it came."""
        return self._agreed().era.server.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        return self._agreed().era.server.instructions

    def _agreed(self) -> Wire:
        if self._wire is None:
            raise ConnectError("the session is not open", server=self.name)
        return self._wire

    # ------------------------------------------------------------------- tools

    async def list_tools(self, *, refresh: bool = False) -> ToolList:
        """Every tool the server offers, all pages, from the cache while that is fresh.

        What was left out, and why, is in ``.rejected``; what a person should look at in
        ``.findings``. ``refresh=True`` asks anew. Raises ``ProtocolViolation`` rather than return a
        part of the list. A list that cannot be fetched anew is returned as it was last, and its
        first finding says so; with ``refresh=True``, that raises.
        """
        await self._live()
        return await self._catalog.tools(refresh=refresh)

    async def get_tool(self, name: str) -> Tool:
        """The tool ``name``. Raises ``UnknownTool``, which lists the names there are."""
        return await self._find(name)

    def tool_changes(self) -> ToolWatch:
        """What is added, removed and changed from now on, compared with the list fetched last.

        An async iterator of ``ToolChanges``, and a context manager to let go of it; see there.
        """
        self._agreed()
        return ToolWatch(self._subscriptions, self._catalog, self._latest)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | Timeouts | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        validation: Strictness | None = None,
    ) -> ToolResult:
        """Call a tool, if the approval hook allows it, and return its result.

        ``timeout`` in seconds bounds the call from when it is sent; a ``Timeouts`` sets the clocks
        one by one. ``on_progress(progress, total, message)`` may be async. ``meta`` goes into the
        request's ``_meta`` beside the protocol's own members. ``validation`` says for this call
        what ``connect(validation=...)`` says for all.

        A failure the tool reports is a result with ``is_error``. Raises ``UnknownTool``,
        ``InvalidArguments``, ``InvalidSchema``, ``CallDenied`` or ``ConnectError`` where nothing
        was sent; ``CallTimeout`` or ``ConnectionLost`` where it may have run; ``ServerError``,
        ``ProtocolViolation`` or ``InvalidResult`` where the server answered.
        """
        if validation is not None:
            _strictness("validation", validation)
        return await self._caller.run(
            name, arguments, self._timeouts.for_call(timeout), on_progress, meta, validation
        )

    async def ping(self, *, timeout: float | Timeouts | None = None) -> None:
        """Ask the server for a sign of life.

        The stateless era has no ping; there ``server/discover`` is asked instead.
        """
        wire = await self._live()
        method = "ping" if wire.era.server_may_ask else "server/discover"
        await wire.request(method, {}, self._timeouts.for_call(timeout), repeatable=True)

    async def aclose(self) -> None:
        """End the connection and the server's process. From any task, any number of times."""
        self._closed = True
        if self._wire is not None:
            self._subscriptions.close()
        try:
            await self._transport.aclose()
            for transport in list(self._retired):
                await transport.aclose()
        finally:
            await self._workers.aclose()

    # -------------------------------------------------------------- connecting

    async def _open(self) -> Session:
        if self._opened:
            raise ConfigError("connect(...) can be entered or awaited once; call connect again")
        self._opened = True
        self._turn = anyio.Lock()
        self._now = current().now
        if self._pins is not None:
            await anyio.to_thread.run_sync(self._pins.read)  # unusable: then nothing is started
        self._catalog = Catalog(
            self.name,
            self._trusted,
            self._limits,
            self._list_page,
            self._now,
            pins=self._pins,
            seconds=self._timeouts.total,
            credentials=lambda: self._transport.credentials,
            told=lambda: self._subscriptions.told,
        )
        self._subscriptions = Subscriptions(self.name, self._catalog, self._timeouts.connect)
        self._wire = await self._connected()
        return self

    async def _latest(self) -> ToolList:
        await self._live()
        return await self._catalog.latest()

    async def _find(self, name: str) -> Tool:
        await self._live()
        return await self._catalog.find(name)

    async def _live(self) -> Wire:
        """The wire to use now; a server that has gone is started again."""
        wire = self._agreed()
        if wire.transport.alive and not self._closed:
            return wire
        async with self._turn:
            if self._closed:
                raise ConnectError("the session is closed; connect again", server=self.name)
            wire = self._agreed()
            if not wire.transport.alive:
                self._retired.add(wire.transport)
                await wire.transport.retire()
                self._may_restart()
                self.stats.restarts += 1
                _log.warning("%s: the connection is over and is made anew", self.name)
                self._transport = wire.transport.fresh()
                wire = self._wire = await self._connected()
                self._catalog.changed()
            return wire

    async def _connected(self) -> Wire:
        opening = Opening(
            self._transport,
            self._client,
            self._pin,
            self.name,
            self._limits,
            self._timeouts,
            self.stats,
            self._ids,
            self._unasked,
        )
        wire = await opening.run()
        self._transport = wire.transport
        self.generation += 1
        self._catalog.mirrors = wire.mirrors
        wire.generation = self.generation
        if self._closed:
            await self._transport.aclose()
            raise ConnectError("the session was closed while it was being opened", server=self.name)
        self._subscriptions.connected(wire)
        return wire

    async def _renewed(self, error: McpError) -> bool:
        """Whether a call that was refused, and not run, may be made again with newer knowledge.

        The server had ended our session, and a new one will be opened (2025-11-25
        ``basic/transports``, session management); or it missed headers that a newer definition of
        the tool asks for, which is fetched (2026-07-28 ``basic/transports/streamable-http``).
        """
        if isinstance(error, ServerError):
            if error.code != HEADER_MISMATCH or not self._agreed().mirrors:
                return False
            await self._catalog.tools(refresh=True)
            return True
        return isinstance(error, ConnectError) and _session_ended(error)

    def _may_restart(self) -> None:
        now = self._now()
        self._starts = [start for start in self._starts if now - start < _MINUTE]
        if len(self._starts) >= self._limits.restarts:
            raise ConnectError(
                f"the server keeps dying, or ending our session: it was begun anew "
                f"{len(self._starts)} times within a minute (Limits.restarts)",
                server=self.name,
            )
        self._starts.append(now)

    # --------------------------------------------------------------- listening

    async def _list_page(self, fields: Mapping[str, Any]) -> Reading:
        """One page of the list; asked again once if the server died of old age in between."""
        wire = await self._live()
        try:
            reading = await wire.request("tools/list", fields, self._timeouts, repeatable=True)
        except (ConnectionLost, ConnectError) as error:
            if isinstance(error, ConnectError) and not _session_ended(error):
                raise
            wire = await self._live()
            reading = await wire.request("tools/list", fields, self._timeouts, repeatable=True)
        if not isinstance(reading, Complete):
            raise ProtocolViolation(
                "the server asks back on tools/list, which only calls and reads may",
                result=reading.result,
                server=self.name,
            )
        return reading

    def _unasked(self, transport: Transport, message: Question | Notice) -> None:
        if isinstance(message, Notice):
            if message.method == TOOLS_CHANGED:
                self._catalog.changed()
            return
        agreed = self._wire
        if agreed is not None and not agreed.era.server_may_ask:
            self.stats.refused_questions += 1
            _log.warning(
                "%s: a question from the server was dropped: its revision has none", self.name
            )
        elif message.method == "ping":
            transport.send_soon(encode_answer(message.id, {}), {})
        else:
            self.stats.refused_questions += 1
            text = encode_failure(message.id, _METHOD_NOT_FOUND, "this client has no such method")
            transport.send_soon(text, {})


def _session_ended(error: ConnectError) -> bool:
    return error.http_status == 404 and error.retryable
