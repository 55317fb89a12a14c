"""The current list of one server's tools, and whether they are among those of its host.

They are if the server is connected, and for ``Host(keep_listed=)`` seconds after it went down.
Those of a lazy server that was not started are, too, if the lock file has them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from ..catalog.tool import ToolList
from ..connection.connection import RestartPolicy
from ..errors import AuthError, ConnectError, McpError, StartDenied
from ..runtime.event_loop import Backend, Handle, LoopEvent
from ..runtime.safe_text import one_line, safe_text
from ..session.connect import Connecting
from ..session.session import Session
from .status import ServerState, ServerStatus, StatusEvents, after_login

__all__ = ["Downtime", "ListedServer", "ServerListing", "how_to_list", "refusal_of"]

_log = logging.getLogger("mcp_client")


class ListedServer(Protocol):
    """A server of a host, as far as listing its tools needs it."""

    name: str
    session: Session | None
    closed: bool
    now: Callable[[], float]

    @property
    def is_connected(self) -> bool:
        """Whether it is connected."""

    def status(self) -> ServerStatus:
        """Return its status."""

    def note(self, error: McpError) -> None:
        """Note an error of its session."""

    def job(
        self, work: Callable[[], Awaitable[None]], keep: Callable[[LoopEvent | None], None]
    ) -> Any:
        """Run ``work`` in the background."""


class ServerListing:
    """A current list of one server's tools."""

    def __init__(self, server: ListedServer, events: StatusEvents) -> None:
        self.tools: ToolList | None = None
        """The tools as last listed by the session."""
        self.pinned: ToolList | None = None
        """The tools of the lock file, for a lazy server that was not listed yet."""
        self._pinned_instructions: str | None = None
        self.error: McpError | None = None
        """The error of the last attempt to list them."""
        self.fetching: LoopEvent | None = None
        """Set when the list that is being fetched is there, or failed."""
        self._server = server
        self._events = events
        self._watched = False
        self._subscribed: Session | None = None

    @property
    def current(self) -> ToolList | None:
        """The tools as last listed; before that, those of the lock file."""
        return self.pinned if self.tools is None else self.tools

    @property
    def count(self) -> int | None:
        """The number of its tools; None before."""
        return None if self.current is None else len(self.current)

    @property
    def pinned_at(self) -> str | None:
        """The date of the lock file, if its tools are listed; else None."""
        if self.tools is not None or self.pinned is None:
            return None
        return next((tool.pinned_at for tool in self.pinned), "")

    @property
    def instructions(self) -> str | None:
        """The server's instructions, as far as a model may be shown them."""
        session = self._server.session
        if session is None or self.tools is None:
            return self._pinned_instructions
        return session._model_instructions.get(self._server.name)

    async def list_pinned(
        self,
        restarts: RestartPolicy,
        connecting: Connecting,
        why_left_out: Callable[[str], str | None] | None,
    ) -> None:
        """List them as the lock file has them, without starting the server."""
        try:
            self.pinned, instructions = await connecting._pinned_tools(restarts, why_left_out)
            self._pinned_instructions = instructions
        except McpError as error:  # when it is started, this is reported again
            why = safe_text(one_line(error.message), 500)
            _log.warning("%s: cannot list the tools from the lock file: %s", error.server, why)

    def fetch(self, *, refresh: bool = False) -> None:
        """List them, in the background, unless that is being done already."""
        if self.fetching is None:
            self._server.job(lambda: self._fetch(refresh), partial(setattr, self, "fetching"))

    async def _fetch(self, refresh: bool) -> None:
        session = self._server.session
        if session is None:
            return
        try:
            if self._watched:
                await session._subscriptions.tools.settled()
            tools = await session.list_tools(refresh=refresh)
        except McpError as error:
            self.error = error
            self._server.note(error)
            self._events.changed()
        except Exception as error:  # noqa: BLE001 - a bug of this package costs this server only
            name = self._server.name
            _log.warning("%s: cannot list the tools", name, exc_info=True)
            self.error = McpError(f"listing failed: {type(error).__name__}", server=name)
            self._events.changed()
        else:
            self.error = None
            self.take(tools)

    def take(self, tools: ToolList) -> None:
        """Use ``tools`` as the current list."""
        before = self.tools
        if tools is before or self._server.closed:
            return
        self.tools = tools
        if before is None or len(before) != len(tools):
            self._events.publish(self._server.status())

    # ------------------------------------------------------------------- changes

    @property
    def due_in(self) -> float | None:
        """The seconds until a fetch, if the server reported a change; else None.

        The delay grows with the number of reports.
        """
        server = self._server
        session = server.session
        if session is None or not server.is_connected or not session._catalog.outdated:
            return None
        return session._catalog.due_in

    def fetch_changed(self) -> None:
        """Fetch the list, because the server reported a change."""
        session = self._server.session
        if session is not None:
            session._catalog.note_fetch()
        self.fetch()

    def watch(self, wanted: bool) -> None:
        """Set whether changes are waited for: then the server is asked to report them."""
        self._watched = wanted
        self._subscribe(self._server.session)

    def has_session(self, session: Session) -> None:
        """Use the list of ``session`` from now on."""
        session._subscriptions.tools.add_listener(lambda certain: self._events.notifier.notify())
        self._subscribe(session)

    def close(self) -> None:
        """Stop fetching."""
        self._watched = False
        self._subscribe(None)

    def _subscribe(self, session: Session | None) -> None:
        wanted = session if self._watched else None
        if wanted is self._subscribed:
            return
        if self._subscribed is not None:
            self._subscribed._subscriptions.tools.unwatch()
        self._subscribed = wanted
        if wanted is not None:
            wanted._subscriptions.tools.watch()


class Downtime:
    """Since when a server is down, and whether its tools stay listed."""

    def __init__(self, keep: float, events: StatusEvents) -> None:
        self.keep = keep
        """Seconds for which they do."""
        self._events = events
        self._since: float | None = None
        self._timer: Handle | None = None
        self._was_started = self._has_failed = False

    def is_now(self, state: ServerState, backend: Backend) -> None:
        """Note the state of the server."""
        if state == "disabled" or (state == "idle" and not self._was_started):
            return
        self._was_started = True
        if state in ("connected", "closed"):
            self._since, self._has_failed = None, False
            if self._timer is not None:
                self._timer.cancel()
        elif self._since is None:
            self._since = backend.now()
            if self.keep:
                self._timer = backend.call_at(self._since + self.keep, self._over)
        self._has_failed = self._has_failed or state in ("failed", "needs_login", "idle")
        self._now = backend.now

    def _over(self) -> None:
        self._timer = None
        self._events.changed()

    def is_short(self, state: ServerState) -> bool:
        """Whether it is not down, or not for long; ``state`` is that of the server."""
        if self._since is None or (state == "connecting" and not self._has_failed):
            return True
        return self._now() < self._since + self.keep


def how_to_list(name: str, pins: str | None) -> str:
    """Return how to list the tools of a lazy server before it is started.

    ``pins`` is the name of the lock file, if there is one.
    """
    name = safe_text(name, 60)
    if pins is None:
        return (
            "its tools are unknown until its first use; to list them from a lock file, write that "
            f"with 'mcp-client pins TARGET --name {name} --pins mcp.lock', and give "
            "pins='mcp.lock'"
        )
    return (
        f"its tools are unknown until its first use, because {pins} does not have this server; to "
        f"write them down, run 'mcp-client pins TARGET --name {name} --pins {pins}'"
    )


def refusal_of(error: McpError, name: str, retry_in: float | None) -> ConnectError:
    """Return the error of a use of the server ``name``, which is not connected due to ``error``.

    ``retry_in`` are the seconds until it is connected again; None if nothing is planned.
    """
    kind = type(error) if isinstance(error, ConnectError) else ConnectError
    fields = dict(vars(error)) if isinstance(error, ConnectError) else {}
    fields.pop("__notes__", None)  # a note, as of an audit that failed, is of that error alone
    message = error.args[0] if "advice" in fields else error.message  # advice is the last word
    text = message if isinstance(error, StartDenied) else f"the server is not connected: {message}"
    if isinstance(error, AuthError):
        fields["advice"] = after_login(name, error.advice)
    elif retry_in is not None:
        text += f"; it is tried again in {retry_in:.1f} s"
        fields = {**fields, "retryable": True, "retry_after": retry_in}
    return kind(text, **{**fields, "server": name, "tool": None, "attempts": 1})
