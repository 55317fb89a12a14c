"""What a server tells us unasked, in either era, as one stream.

In the handshake era notices simply come. In the stateless era they come on a stream that we open
with ``subscriptions/listen`` (2026-07-28 ``basic/patterns/subscriptions``) and hold open. It is
opened only once somebody needs it: a ``ToolWatch`` is in use, or a list is relied on that was
fetched before, and the server has declared that it tells of changes. It runs outside any task of
the host's and ends with its connection.

What was said while no stream was open is lost, so that each opening counts as a change: always
where a stream was lost before or somebody watches, and else where the list's ``ttlMs`` is over. A
stream that is lost or ended is opened again after a pause that doubles, with jitter. A server that
does not know the method, or does not acknowledge what was asked for, is not asked again on this
connection; the list then lives by its ``ttlMs``.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Any

import anyio

from .backend import Handle, Waiter, current
from .catalog import Catalog
from .errors import McpError
from .protocol.capabilities import declares
from .protocol.jsonrpc import Answer, Failure, Unusable
from .protocol.notices import ACKNOWLEDGED, LISTEN, TOOLS_CHANGED, TOOLS_FILTER, honours_tools
from .tool import Tool, ToolList
from .transports.base import Exchange
from .wire import Wire

__all__ = ["Subscriptions", "ToolChanges", "ToolWatch"]

_log = logging.getLogger("mcp_client")
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_LOOK = 1.0
_ROUND = 300.0
_NOT_FOUND_OR_WRONG = frozenset({-32601, -32602})


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """How a server's tools differ from what they were."""

    added: tuple[Tool, ...]
    removed: tuple[Tool, ...]
    changed: tuple[Tool, ...]
    """As they are now; as they were is in ``before``."""
    before: ToolList
    tools: ToolList
    """The whole list, as it is now."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def _compared(before: ToolList, tools: ToolList) -> ToolChanges:
    was = {tool.name: tool for tool in before}
    now = {tool.name: tool for tool in tools}
    return ToolChanges(
        tuple(tool for name, tool in now.items() if name not in was),
        tuple(tool for name, tool in was.items() if name not in now),
        tuple(
            tool
            for name, tool in now.items()
            if name in was and was[name].fingerprint != tool.fingerprint
        ),
        before,
        tools,
    )


class _End(Enum):
    """How a stream came to its end."""

    LOST = auto()
    ENDED = auto()
    UNSUPPORTED = auto()


class Subscriptions:
    """The notices of one session. ``session`` makes one, and tells it of each connection."""

    def __init__(
        self,
        server: str,
        catalog: Catalog,
        seconds: float,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``seconds``: how long a server may take to acknowledge."""
        self._server = server
        self._catalog = catalog
        self._seconds = seconds
        self._sleep = sleep
        self._jitter = jitter
        self._backend = current()
        self._wire: Wire | None = None
        self._available = False
        self._acknowledged = False
        self._tried = False
        self._again = False
        self._relied = False
        self._watchers = 0
        self._job: Handle | None = None
        self._waiters: set[Waiter] = set()
        self.closed = False
        catalog.on_news = self.wake
        catalog.on_reliance = self._rely

    @property
    def told(self) -> bool:
        """Whether a change would be heard of."""
        return self._wire is None or not self._wire.era.listens or self._acknowledged

    def connected(self, wire: Wire) -> None:
        """A connection stands. What was subscribed to on the last one is subscribed to anew."""
        self._stop()
        self._wire = wire
        capabilities = wire.era.server.capabilities
        self._available = wire.era.listens and declares(capabilities, "tools", "listChanged")
        if self._relied or self._watchers:
            self._start()

    def watch(self) -> None:
        self._watchers += 1
        self._start()

    def unwatch(self) -> None:
        self._watchers -= 1
        if not self._watchers and not self._relied:
            self._stop()

    def close(self) -> None:
        self.closed = True
        self._stop()
        self.wake()

    def _rely(self) -> None:
        if not self._relied and self._available:
            self._relied = True
            self._start()

    # ------------------------------------------------------------------ waiting

    def wake(self) -> None:
        # Not an Event: notices are handed over in a reader's callback, which is in no task.
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def news(self, seconds: float) -> None:
        """Wait until something happened here or to the catalogue, or ``seconds`` are over."""
        waiter = self._backend.waiter()
        self._waiters.add(waiter)
        try:
            with anyio.move_on_after(seconds):
                await waiter
        finally:
            self._waiters.discard(waiter)

    async def pause(self, seconds: float) -> None:
        await self._sleep(seconds)

    async def settled(self) -> None:
        """Wait until the stream stands, or it is clear that it does not yet."""
        until = self._backend.now() + self._seconds
        while self._job is not None and not (self._acknowledged or self._tried):
            await self.news(max(0.0, until - self._backend.now()))

    # ---------------------------------------------------------------- listening

    def _start(self) -> None:
        wire = self._wire
        if self._job is None and self._available and wire is not None and not self.closed:
            self._tried = False
            self._job = self._backend.spawn(lambda: self._keep_listening(wire))

    def _stop(self) -> None:
        job, self._job = self._job, None
        if self._acknowledged:
            self._again, self._acknowledged = True, False
        if job is not None:
            job.cancel()

    async def _keep_listening(self, wire: Wire) -> None:
        pause = _FIRST_PAUSE
        while wire.transport.alive:
            try:
                end = await self._listen(wire)
            except Exception:  # noqa: BLE001 - nobody waits for this task: its fault stays here
                _log.warning("%s: listening failed", self._server, exc_info=True)
                end = _End.UNSUPPORTED
            if wire is not self._wire:
                return
            if self._acknowledged:
                pause, self._again, self._acknowledged = _FIRST_PAUSE, True, False
            self._tried = True
            self.wake()
            if end is _End.UNSUPPORTED:
                _log.info("%s: the server does not tell of changes after all", self._server)
                self._available = False
                break
            _log.debug("%s: the stream of notices is over (%s)", self._server, end.name)
            if wire.transport.alive:
                await self._sleep(pause * (0.5 + self._jitter() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if wire is self._wire:
            self._job = None
            self.wake()

    async def _listen(self, wire: Wire) -> _End:
        until = self._backend.now() + self._seconds
        try:
            id, exchange = await wire.listen(LISTEN, TOOLS_FILTER, until)
        except (McpError, TimeoutError):
            return _End.LOST
        answered = False
        try:
            message = await self._acknowledgement(exchange, until)
            if message is None:
                message = await self._hear(exchange)
            answered = type(message) in (Answer, Failure)
        except (McpError, TimeoutError, Unusable):
            return _End.LOST
        finally:
            await wire.leave(id, exchange, answered=answered)
        if type(message) is Failure:
            wrong = message.code in _NOT_FOUND_OR_WRONG
            return _End.UNSUPPORTED if wrong else _End.LOST
        return _End.ENDED if answered else _End.UNSUPPORTED

    async def _acknowledgement(self, exchange: Exchange, until: float) -> Any:
        """None once the server has agreed; else what it said instead."""
        while True:
            message: Any = await exchange.receive(until)
            if type(message) in (Answer, Failure):
                return message
            if message.method == ACKNOWLEDGED:
                if not honours_tools(message):
                    return message
                break
        self._acknowledged = True
        if self._again or self._watchers or not self._catalog.fresh:
            self._catalog.changed()
        self.wake()
        return None

    async def _hear(self, exchange: Exchange) -> Any:
        while True:
            try:
                message: Any = await exchange.receive(self._backend.now() + _ROUND)
            except TimeoutError:
                continue
            if type(message) in (Answer, Failure):
                return message
            if message.method == TOOLS_CHANGED:
                self._catalog.changed()


class ToolWatch:
    """The changes of a server's tools, one ``ToolChanges`` after another; made by a session.

    ``async with session.tool_changes() as changes:`` hears of whatever happens from its first line
    on, and lets go at its end. ``async for changes in session.tool_changes():`` does as well until
    ``aclose``. It ends when the session is closed.

    Several changes in a row may come as one. What cannot be fetched raises as ``list_tools`` does,
    and the next ``anext`` tries again. Where the server does not declare that it tells of changes,
    what comes is what other uses of the session find out.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        catalog: Catalog,
        tools: Callable[[], Awaitable[ToolList]],
    ) -> None:
        self._subscriptions = subscriptions
        self._catalog = catalog
        self._tools = tools
        self._before = catalog.known
        self._watching = False
        self._closed = False
        self._fruitless = 0

    async def __aenter__(self) -> ToolWatch:
        await self._watch()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> ToolWatch:
        return self

    async def __anext__(self) -> ToolChanges:
        try:
            await self._watch()
            while not (self._closed or self._subscriptions.closed):
                changes = await self._step()
                if changes:
                    return changes
        except McpError:
            if not self._subscriptions.closed:
                raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Let go. Whoever waits for the next change is told that there is none."""
        self._closed = True
        if self._watching:
            self._watching = False
            self._subscriptions.unwatch()
        self._subscriptions.wake()

    async def _watch(self) -> None:
        if self._closed:
            return
        if not self._watching:
            self._watching = True
            self._subscriptions.watch()
        if self._before is None:
            await self._subscriptions.settled()
            self._before = await self._tools()
        elif not self._fruitless:
            await self._subscriptions.settled()

    async def _step(self) -> ToolChanges | None:
        """Look once; where nothing has changed, wait until something may have."""
        outdated = self._catalog.outdated
        tools = await self._tools()
        assert self._before is not None
        changes = _compared(self._before, tools) if tools is not self._before else None
        self._before = tools
        if changes:
            self._fruitless = 0
            return changes
        if self._catalog.outdated:
            # A server that says so without end, and has nothing to show, is not run after.
            self._fruitless += 1
            if self._fruitless > 1:
                await self._subscriptions.pause(min(0.05 * 2 ** min(self._fruitless, 8), 5.0))
            return None
        if not outdated:
            self._fruitless = 0
        if not (self._closed or self._subscriptions.closed):
            await self._subscriptions.news(_LOOK)
        return None
