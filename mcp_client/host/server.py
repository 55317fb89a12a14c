"""The life of one server of a host: started, listed, lost, started again, closed.

Everything that takes time runs in a background task of the server: confirming its start,
connecting, listing its tools. At most one task of a kind runs. So no caller's cancellation ends
what others wait for, and nothing runs for a server that is up or down and not being worked on.

The session is created again until it is open for the first time; then its lost connection is
replaced within it. The ``Connection`` asks here first (``begin``) and reports the end (``end``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from ..config.server_config import ServerConfig, StartGate
from ..errors import (
    Advice,
    AuthError,
    ConfigError,
    ConnectError,
    ConnectionLost,
    McpError,
    OutcomeUnknown,
    ServerError,
    StartDenied,
)
from ..runtime.background import BackgroundTasks
from ..runtime.backoff import Backoff, chance
from ..runtime.event_loop import Backend, Handle, LoopEvent
from ..session.connect import Connecting
from ..session.session import Session
from .listing import Downtime, ServerListing, how_to_list, refusal_of
from .naming import authority_of
from .options import SharedOptions, ToolFilter
from .status import ServerState, ServerStatus, StatusEvents

__all__ = ["HostedServer"]

_log = logging.getLogger("mcp_client")
_PROBE_SECONDS = 10.0
_EARLY_SECONDS = 0.01
"""The seconds by which a timer may ring too early."""
_AT_ONCE_SECONDS = 1.0
"""The seconds in which a confirm hook decides without a person, or from memory."""
_GATEWAY = frozenset({502, 503, 504})


class HostedServer:
    """A server, by the name the host gave it."""

    def __init__(
        self,
        name: str,
        config: ServerConfig,
        options: SharedOptions,
        events: StatusEvents,
        *,
        jitter: Callable[[], float] = chance,
    ) -> None:
        """Raise ``ConfigError`` for an invalid option. Nothing is started."""
        self.name = name
        self.config: ServerConfig = config
        self.state: ServerState = "idle" if config.enabled else "disabled"
        self.error: McpError | None = None
        self.session: Session | None = None
        """The session to use, connected or about to be again; None before the first one."""
        self.closed: bool = False
        self.busy_since: float = 0.0
        self.gate: StartGate | None = None
        """The gate before the first start, until it approves."""
        self._asked: StartGate | None = None
        """The gate that approved: it is asked again if a later start would grant something else."""
        self._options = options
        self._timeouts = config.timeouts or options.timeouts
        self._events = events
        self._filter = ToolFilter(config.include, config.exclude)
        self._why_left_out = self._filter.why_left_out if self._filter else None
        self._backoff = Backoff(jitter)
        self._prepared: Connecting | None = options.connecting(name, config.server, config)
        self._transport = self._prepared._transport
        self._attempt: LoopEvent | None = None
        self._asking: LoopEvent | None = None
        self._timer: Handle | None = None
        self.listing: ServerListing = ServerListing(self, events)
        self.downtime: Downtime = Downtime(options.keep_listed, events)

    def open(self, backend: Backend) -> None:
        """Use the event loop of ``backend``. Nothing is started."""
        self._backend = backend
        self.now: Callable[[], float] = backend.now
        self._tasks = BackgroundTasks(backend, self.name)

    # --------------------------------------------------------------- what it is

    @property
    def authority(self) -> str | None:
        """Host and port of its URL; None for one that has none."""
        return authority_of(self._transport.identity)

    @property
    def closes_within(self) -> float:
        """Seconds that closing it takes at most."""
        return 8 * self._timeouts.close + 15

    @property
    def is_connected(self) -> bool:
        """Whether it is connected now."""
        return self.state == "connected" and self.session is not None and not self.session.closed

    @property
    def live_session(self) -> Session | None:
        """The server's session while it is connected."""
        return self.session if self.is_connected else None

    @property
    def retry_in(self) -> float | None:
        """The seconds until it is tried again; None if nothing is planned."""
        is_due = self.state == "failed" and self._timer is not None
        return self._backoff.wait(self._backend.now()) if is_due else None

    @property
    def busy(self) -> bool:
        """Whether it is being connected or listed."""
        return self._attempt is not None or self.listing.fetching is not None

    @property
    def is_asking(self) -> bool:
        """Whether a person is being asked whether it may be started."""
        return self._asking is not None

    @property
    def waited_for_since(self) -> float:
        """Since when others wait for it: for a person who is being asked, one second."""
        only_asking = self.is_asking and not self.busy
        return self.busy_since - (self._events.gather - _AT_ONCE_SECONDS if only_asking else 0.0)

    @property
    def offers_tools(self) -> bool:
        """Whether its tools are among the host's."""
        if self.listing.current is None or self.was_closed:
            return False
        if self.state == "connected":
            return True
        if self.state in ("disabled", "closed") or isinstance(self.error, StartDenied):
            return False
        return self.downtime.is_short(self.state)

    @property
    def pins(self) -> str | None:
        """The name of the host's lock file; None without one."""
        return None if self._options.pins is None else self._options.pins.name

    async def list_pinned(self) -> None:
        """List its tools as the lock file has them, if it is lazy and was not started."""
        is_wanted = self.config.lazy and self.config.enabled and self.pins is not None
        if is_wanted and self.session is None and self._prepared is not None:
            await self.listing.list_pinned(self, self._prepared, self._why_left_out)

    @property
    def is_pinned(self) -> bool:
        """Whether its tools are listed from the lock file, because it was not started."""
        return self.session is None and self.listing.pinned_at is not None and self.offers_tools

    def status(self) -> ServerStatus:
        """Return its status at this moment."""
        state: ServerState = "closed" if self.was_closed else self.state
        listing = self.listing
        is_unlisted = self.state == "idle" and listing.current is None and self.config.lazy
        how = how_to_list(self.name, self.pins) if is_unlisted else None
        more = self.retry_in, listing.count, self.config.description, listing.pinned_at, how
        return ServerStatus(self.name, state, self.error or listing.error, *more)

    @property
    def was_closed(self) -> bool:
        """Whether its user closed its session."""
        return self.session is not None and self.session.closed

    def refusal(self, *, final: bool = False) -> ConnectError:
        """Return the error of a use of it now; ``final``: it will not be connected."""
        if self.error is None:
            why = "not started: it waits to be allowed" if self.is_asking else self.state
            return ConnectError(f"the server is {why}", server=self.name)
        return refusal_of(self.error, self.name, None if final else self.retry_in)

    def leaves_out(self, tool: str) -> str | None:
        """Return the reason why the host leaves out that tool; None if it does not."""
        return self._filter.why_left_out(tool)

    # ------------------------------------------------------------------ starting

    def start(self) -> LoopEvent | None:
        """Connect it in the background, once allowed, and return an event for the end of that."""
        if self.closed or self.state == "disabled":
            return None
        if self.gate is not None:
            return self._asking or self.job(self._ask, partial(setattr, self, "_asking"))
        return self._begin()

    async def usable(self, *, ask_again: bool = False) -> Session:
        """Return its session, and start it if need be; with ``ask_again`` also after a denial."""
        session = self.session
        if session is not None and not session.closed:
            return session
        if self.closed:
            raise ConnectError("the host is closed", server=self.name)
        if self.state == "disabled":
            advice = Advice("it has ServerConfig(enabled=False)", "program")
            raise ConnectError("the server is disabled", advice=advice, server=self.name)
        if self.gate is not None:
            if self._asking is None and self.error is not None and not ask_again:
                raise self.refusal()
            await self._wait(self.start(), self._timeouts.approval + _PROBE_SECONDS)
            if self.gate is not None:
                raise self.refusal()
            if self.session is not None:
                return self.session
        if self._attempt is None:
            waiting = self._backoff.wait(self._backend.now())
            if self.state == "needs_login" or (self.state == "failed" and waiting > _EARLY_SECONDS):
                raise self.refusal()
        await self._wait(self._begin(), self._timeouts.connect + _PROBE_SECONDS)
        if self.session is None or self.session.closed:
            raise self.refusal()
        return self.session

    async def reconnect(self) -> Session:
        """Connect it again, at once. Raises ``ConnectError``."""
        if self._attempt is not None:
            await self._wait(self._attempt, self._timeouts.connect + _PROBE_SECONDS)
        self._backoff.reset()
        session = self.session
        if session is None or session.closed or self.state == "disabled":
            if self.state in ("failed", "needs_login"):
                self._set("idle", None)
            return await self.usable(ask_again=True)
        self._set("connecting", None)
        await session._connection.transport.aclose()
        await self._wait(self._begin(), self._timeouts.connect + _PROBE_SECONDS)
        if self.state != "connected":
            raise self.refusal()
        return session

    async def _wait(self, event: LoopEvent | None, seconds: float) -> None:
        if event is not None and not event.is_set():
            with anyio.move_on_after(seconds):
                await event.wait()

    def job(
        self, work: Callable[[], Awaitable[None]], keep: Callable[[LoopEvent | None], None]
    ) -> LoopEvent:
        """Run ``work`` in the background.

        ``keep`` gets the event that is set when it is over, and then None.
        """
        over = LoopEvent()
        self.busy_since = self._backend.now()

        async def run() -> None:
            try:
                await work()
            finally:
                keep(None)
                over.set()
                self._events.notifier.notify()

        keep(over)
        self._tasks.start(run)
        return over

    async def _ask(self) -> None:
        assert self.gate is not None
        self._set("idle", None)
        refused: McpError | None = None
        most = self._timeouts.approval
        try:
            with anyio.fail_after(most + 1):  # a gate has that clock itself
                config = await self.gate()
            if config is not None:
                self._use(config)
        except TimeoutError:
            why = f"there was no decision within {most:g} s, Timeouts(approval=...)"
            refused = ConfigError(why)
        except McpError as error:
            refused = error
        except Exception as error:  # noqa: BLE001 - any failure means no
            _log.warning("%s: the start confirmation failed", self.name, exc_info=True)
            kind = type(error).__name__
            refused = ConfigError(f"asking whether it may be started failed: {kind}")
        if refused is not None:
            by_policy = isinstance(refused, StartDenied) and refused.source == "policy"
            self._set("failed" if by_policy else "idle", refused)
            return
        self._asked, self.gate = self.gate, None
        if not self.closed:
            await self._begin().wait()

    def _use(self, config: ServerConfig) -> None:
        """Start this instead of what was known before it was allowed. Raises ``ConfigError``."""
        self.config, self._timeouts = config, config.timeouts or self._options.timeouts
        self._prepared = self._options.connecting(self.name, config.server, config)
        self._transport = self._prepared._transport

    # ---------------------------------------------------------------- connecting

    def _begin(self) -> LoopEvent:
        """Connect in the background, unless that is being done. From loop callbacks, too."""
        if self._attempt is None:
            self._stop_timer()
            self._set("connecting", self.error)
            return self.job(self._connect, partial(setattr, self, "_attempt"))
        return self._attempt

    async def _connect(self) -> None:
        session = self.session
        try:
            if session is None or session.closed:
                session = await self._open_session()
            else:
                await session._connection.ensure_connected()
                if session._connection.transport.is_remote:
                    await self._probe(session)
        except McpError as error:
            if getattr(error, "must_be_asked", False) and self._asked is not None:
                await self._ask_again(error)
            elif self.state == "connecting":  # otherwise ``end`` has reported it already
                self._is_down(error)
        except Exception as error:  # noqa: BLE001 - a bug of the host's transport, or of this package
            _log.warning("%s: cannot connect", self.name, exc_info=True)
            kind = type(error).__name__
            self._is_down(ConnectError(f"connecting failed: {kind}", server=self.name))
        else:
            self._is_up(session)
            if self.closed:  # at the moment when the connection was open
                with anyio.CancelScope(shield=True):
                    await session.aclose()

    async def _ask_again(self, error: McpError) -> None:
        """Ask whether it may be started as it is now, in a session of its own."""
        session, self.session = self.session, None
        if session is not None:
            await session.aclose()
        self.gate, self._asked = self._asked, None
        self._stop_timer()
        self._set("idle", error)
        self._attempt = None
        self.start()

    async def _open_session(self) -> Session:
        connecting, self._prepared = self._prepared, None
        if connecting is None:
            transport = self._transport = self._transport.clone()
            connecting = self._options.connecting(self.name, transport, self.config)
        self._backoff.started()
        return await connecting._open(self, self._why_left_out)

    async def _probe(self, session: Session) -> None:
        """Check a server over HTTP: only a response shows that it is up."""
        try:
            await session.ping(timeout=min(_PROBE_SECONDS, self._timeouts.connect))
        except (ServerError, OutcomeUnknown) as error:
            status = getattr(error, "http_status", None)
            if isinstance(error, OutcomeUnknown) or status in _GATEWAY:
                raise ConnectError(error.message, http_status=status, server=self.name) from None

    def _is_up(self, session: Session) -> None:
        if self.closed:
            return
        self._backoff.up(self._backend.now())
        is_new = session is not self.session
        self.session = session
        if is_new:
            self.listing.has_session(session)
        self._set("connected", None)
        if not session._connection.transport.alive:
            self.lost(ConnectError("the server closed the connection", server=self.name))
        elif is_new or self.listing.tools is None:
            self.listing.fetch()

    def _is_down(self, error: McpError) -> None:
        if self.closed:
            return
        now = self._backend.now()
        self._backoff.down(now, getattr(error, "retry_after", None))
        if isinstance(error, AuthError | StartDenied):  # trying again would change nothing
            self._stop_timer()
            self._set("needs_login" if isinstance(error, AuthError) else "failed", error)
            return
        self._try_at(now + self._backoff.wait(now))
        self._set("failed", error)

    def _try_at(self, when: float) -> None:
        self._stop_timer()
        self._timer = self._backend.call_at(when, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        if self._attempt is not None:
            self._try_at(self._backend.now() + _EARLY_SECONDS)
        elif not self.closed:
            self._begin()

    def lost(self, error: McpError) -> None:
        """Note that the connection has ended. In a loop callback, or in any task."""
        if self.closed or self.state != "connected":
            return
        text = error.why if isinstance(error, ConnectionLost) else error.message
        fields = {name: getattr(error, name, None) for name in ("exit_code", "stderr_tail")}
        fields["stderr_tail"] = fields["stderr_tail"] or ""
        error = ConnectError(text, retryable=True, server=self.name, **fields)
        now = self._backend.now()
        self._backoff.down(now)
        wait = self._backoff.wait(now)
        if wait > 0:
            self._try_at(now + wait)
            self._set("failed", error)
        elif self._attempt is not None:  # which has just brought it up
            self._try_at(now)
            self._set("connecting", error)
        else:
            self.error = error
            self._begin()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # The policy of its connection, which asks and reports in the task that needs it.

    def begin(self) -> None:
        """Raise ``ConnectError`` if its connection may not be made again now."""
        if self.closed:
            raise ConnectError("the host is closed", server=self.name)
        now = self._backend.now()
        if self._backoff.wait(now) > _EARLY_SECONDS or self.state == "needs_login":
            raise self.refusal()
        self._backoff.started()

    def end(self, error: BaseException | None) -> None:
        """Note that its connection was made, or why not."""
        if error is None:
            if self.session is not None:
                self._is_up(self.session)
        elif isinstance(error, McpError):
            self._is_down(error)
        elif not self.closed:  # its caller was cancelled, which means nothing about the server
            self._backoff.abandoned()
            self._begin()

    # --------------------------------------------------------- what calls find out

    def note(self, error: McpError) -> None:
        """Note a failed use of its session, which over HTTP may show that it is down."""
        session = self.session
        if self.closed or session is None or self.state != "connected" or session.closed:
            return
        if not session._connection.transport.is_remote:
            return
        status = getattr(error, "http_status", None)
        if isinstance(error, AuthError) or (isinstance(error, ConnectError) and status is None):
            self._is_down(error)
        elif isinstance(error, ConnectionLost) or status in _GATEWAY:
            self._begin()  # asks whether it is still there

    def works(self) -> None:
        """Note a successful call although it counted as down."""
        if self.session is not None and self.state in ("failed", "needs_login", "connecting"):
            self._stop_timer()
            self._is_up(self.session)

    # -------------------------------------------------------------------- closing

    async def aclose(self) -> None:
        """End it, within bounded time."""
        self.closed = True
        self._stop_timer()
        self.listing.close()
        await self._tasks.aclose(3 * self._timeouts.close + 1)
        session, self.session = self.session, None
        if session is not None:
            await session.aclose()
        self._set("closed", None)

    def _set(self, state: ServerState, error: McpError | None) -> None:
        if (self.closed and state != "closed") or (state == self.state and error is self.error):
            return
        self.state, self.error = state, error
        self.downtime.is_now(state, self._backend)
        self._events.publish(self.status())
