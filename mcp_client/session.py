"""One server, agreed on a revision: what it is, what it offers, and how to call it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from .answers import Answers
from .approval import Gate
from .backend import current
from .bounds import Limits, Timeouts
from .call import Caller, Strictness, strictness_of
from .catalog import Catalog
from .connection import Connection, session_ended
from .errors import (
    ConfigError,
    ConnectError,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    ServerError,
)
from .pins import Pins
from .protocol.capabilities import Client, Implementation
from .protocol.era import Complete, Reading
from .protocol.headers import HEADER_MISMATCH
from .protocol.jsonrpc import Notice, Question, encode_answer, encode_failure
from .protocol.notices import TOOLS_CHANGED
from .result import ToolResult
from .rounds import Rounds, no_answers
from .subscriptions import Subscriptions, ToolWatch
from .tool import Tool, ToolList
from .transports.base import Stats, Transport
from .trust import Trust
from .wire import OnProgress, Wire
from .worker import Workers

__all__ = ["Session", "Setup"]

_log = logging.getLogger("mcp_client")
_METHOD_NOT_FOUND = -32601


@dataclass(frozen=True, slots=True)
class Setup:
    """What the host gave to ``connect``, checked and with its defaults."""

    name: str
    trusted: Trust
    gate: Gate
    timeouts: Timeouts
    limits: Limits
    validation: Strictness
    argument_validation: Strictness
    client: Client
    pin: str | None
    pins: Pins | None = None


class Session:
    """A connection to one server. Made by ``connect``.

    Its methods may be called from any number of tasks at once, and any task may close it. If the
    server's process dies, the calls under way raise ``ConnectionLost``, and the next use starts
    the server again (2026-07-28 ``basic/transports/stdio``), at most ``Limits.restarts`` times a
    minute.
    """

    def __init__(self, transport: Transport, setup: Setup) -> None:
        self.name = setup.name
        """What the host calls the server."""
        self.stats = Stats()
        """Counts of what happened on this session's connections."""
        self._setup = setup
        self._timeouts = setup.timeouts
        self._opened = False
        self._connection = Connection(
            transport,
            name=setup.name,
            client=setup.client,
            pin=setup.pin,
            timeouts=setup.timeouts,
            limits=setup.limits,
            stats=self.stats,
            unasked=self._unasked,
            connected=self._connected,
        )
        self._workers = Workers()
        self._rounds = Rounds(no_answers, setup.limits)
        self._caller = Caller(
            self._find,
            self._connection.live,
            self._renewed,
            self._rounds,
            self._workers,
            setup.gate,
            setup.validation,
            setup.argument_validation,
            setup.limits,
            os.urandom(4).hex(),
            setup.pins,
        )

    def __repr__(self) -> str:
        connection = self._connection
        state = "closed" if connection.closed else "open" if connection.wire else "not open"
        return f"<Session {self.name!r}, {state}>"

    # --------------------------------------------------------------- what it is

    @property
    def generation(self) -> int:
        """How many connections the session has had."""
        return self._connection.generation

    @property
    def server_info(self) -> Implementation | None:
        """Name and version by the server's own word, or None: for display, never for a decision."""
        return self._connection.agreed().era.server.info

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._connection.agreed().era.revision

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server says it can do, as it came."""
        return self._connection.agreed().era.server.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        return self._connection.agreed().era.server.instructions

    @property
    def answers(self) -> Answers:
        """What is remembered until the session ends, to be listed and revoked.

        What is remembered always is in the store that ``connect(answers=...)`` was given.
        """
        return self._setup.gate.memory.session

    # ------------------------------------------------------------------- tools

    async def list_tools(self, *, refresh: bool = False) -> ToolList:
        """Every tool the server offers, all pages, from the cache while that is fresh.

        What was left out, and why, is in ``.rejected``; what a person should look at in
        ``.findings``. ``refresh=True`` asks anew. Raises ``ProtocolViolation`` rather than return a
        part of the list. A list that cannot be fetched anew is returned as it was last, and its
        first finding says so; with ``refresh=True``, that raises.
        """
        await self._connection.live()
        return await self._catalog.tools(refresh=refresh)

    async def get_tool(self, name: str) -> Tool:
        """The tool ``name``. Raises ``UnknownTool``, which lists the names there are."""
        return await self._find(name)

    def tool_changes(self) -> ToolWatch:
        """What is added, removed and changed from now on, compared with the list fetched last.

        An async iterator of ``ToolChanges``, and a context manager to let go of it; see there.
        """
        self._connection.agreed()
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
            strictness_of("validation", validation)
        return await self._caller.run(
            name, arguments, self._timeouts.for_call(timeout), on_progress, meta, validation
        )

    async def ping(self, *, timeout: float | Timeouts | None = None) -> None:
        """Ask the server for a sign of life.

        The stateless era has no ping; there ``server/discover`` is asked instead.
        """
        wire = await self._connection.live()
        method = "ping" if wire.era.server_may_ask else "server/discover"
        await wire.request(method, {}, self._timeouts.for_call(timeout), repeatable=True)

    async def aclose(self) -> None:
        """End the connection and the server's process. From any task, any number of times."""
        self._connection.closed = True
        self.answers.clear()
        if self._connection.wire is not None:
            self._subscriptions.close()
        try:
            await self._connection.aclose()
        finally:
            await self._workers.aclose()

    # -------------------------------------------------------------- connecting

    async def _open(self) -> Session:
        if self._opened:
            raise ConfigError("connect(...) can be entered or awaited once; call connect again")
        self._opened = True
        setup = self._setup
        if setup.pins is not None:
            await anyio.to_thread.run_sync(setup.pins.read)  # unusable: then nothing is started
        if setup.gate.memory.store is not None:
            await anyio.to_thread.run_sync(setup.gate.memory.store.list)  # likewise
        self._catalog = Catalog(
            self.name,
            setup.trusted,
            setup.limits,
            self._list_page,
            current().now,
            pins=setup.pins,
            seconds=self._timeouts.total,
            credentials=lambda: self._connection.transport.credentials,
            told=lambda: self._subscriptions.told,
        )
        self._subscriptions = Subscriptions(self.name, self._catalog, self._timeouts.connect)
        await self._connection.open()
        return self

    def _connected(self, wire: Wire) -> None:
        self._catalog.mirrors = wire.mirrors
        if wire.generation > 1:
            self._catalog.changed()
        self._subscriptions.connected(wire)

    async def _latest(self) -> ToolList:
        await self._connection.live()
        return await self._catalog.latest()

    async def _find(self, name: str) -> Tool:
        await self._connection.live()
        return await self._catalog.find(name)

    async def _renewed(self, error: McpError) -> bool:
        """Whether a call that was refused, and not run, may be made again with newer knowledge.

        The server had ended our session, and a new one will be opened (2025-11-25
        ``basic/transports``, session management); or it missed headers that a newer definition of
        the tool asks for, which is fetched (2026-07-28 ``basic/transports/streamable-http``).
        """
        if isinstance(error, ServerError):
            if error.code != HEADER_MISMATCH or not self._connection.agreed().mirrors:
                return False
            await self._catalog.tools(refresh=True)
            return True
        return isinstance(error, ConnectError) and session_ended(error)

    # --------------------------------------------------------------- listening

    async def _list_page(self, fields: Mapping[str, Any]) -> Reading:
        """One page of the list; asked again once if the server died of old age in between."""
        wire = await self._connection.live()
        try:
            reading = await wire.request("tools/list", fields, self._timeouts, repeatable=True)
        except (ConnectionLost, ConnectError) as error:
            if isinstance(error, ConnectError) and not session_ended(error):
                raise
            wire = await self._connection.live()
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
        agreed = self._connection.wire
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
