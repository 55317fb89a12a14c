"""A shared line: one stream of messages, sorted by owner.

On stdio every message shares one channel, so responses come in any order between notifications and
the server's own questions. ``Multiplexer`` is fed bytes and sorts: a response goes to the exchange
with its id, a notification to the exchange its owner function names, and the rest to the session.
All of it happens in the call that feeds, without a task or a queue between reader and waiter.

*Lines.* A line may come in thousands of pieces. They are gathered in one buffer, which becomes the
line without a copy. A copy would take a fifth of a long line's time (the bench's row "8 MiB text").
A line beyond the cap is dropped as it comes. Its beginning and end are stored, because its id is
looked for there.

*Invalid frames.* A frame that is not a message is counted and skipped. If its request is known,
that request fails with ``InvalidFrame`` at once. If a frame was too long to store and its request
is not known, every waiting request fails: one of them would wait without end.

*Clocks.* One timer (``runtime.deadline_timer``) serves all waits. It rings at the earliest deadline
that was known when it was set; a later one costs nothing. With the usual equal clocks, new
deadlines are always later.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ..errors import McpError
from ..protocol.jsonrpc import (
    ErrorResponse,
    Id,
    InvalidFrame,
    Notification,
    Response,
    number_of,
    owner_of_fragment,
    parse,
)
from ..runtime.deadline_timer import DeadlineTimer
from ..runtime.event_loop import Backend, Waiter
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..runtime.session_context import KnownSecrets, Stats
from .base import AnnouncedSilence, Owner, Received, TransportContext, UnmatchedOutput

if TYPE_CHECKING:
    from ..processes.process import Pending

__all__ = ["JUNK_CHARS", "TEXT_ID", "LineExchange", "Multiplexer"]

_log = logging.getLogger("mcp_client")
TEXT_ID = "a response has its id as text, although the request had a number"
JUNK_CHARS = 60
"""The characters of an invalid message in the log."""
_TIMER_SECONDS = 0.01
_STORED_EDGE_BYTES = 1024
_NO_RESPONSE = (  # compiled by ``re`` when it is first needed, as few sessions need it
    rb'\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:"[^"\\]{0,64}"|\d{1,18})\s*,\s*){0,2}"method"\s*:'
)


class LineExchange:
    """A request under way on a shared line."""

    __slots__ = (
        *("_failure", "_inbox", "_multiplexer", "_until", "_waiter"),
        *("begun", "id", "pending", "settled"),
    )

    def __init__(self, multiplexer: Multiplexer, id: Id) -> None:
        self.id: Id = id
        self.settled: bool = False
        self.begun: bool = False
        """Whether the server has sent a notification for it."""
        self.pending: Pending | None = None
        """The line of the request, if it could not leave at once."""
        self._multiplexer = multiplexer
        self._inbox: list[Received] = []  # mostly one message: a deque costs more
        self._failure: Exception | None = None
        self._waiter: Waiter | None = None
        self._until = math.inf

    async def receive(self, until: float) -> Received:
        """Return the next message for this request."""
        inbox = self._inbox
        if not inbox and self._failure is None:
            multiplexer = self._multiplexer
            self._until = until
            if until < multiplexer.timer.at:
                multiplexer.timer.set(until)
            self._waiter = waiter = multiplexer.backend.waiter()
            try:
                await waiter
            finally:
                self._waiter = None
        if inbox:
            return inbox.pop(0)
        if self._failure is not None:
            raise self._failure
        raise TimeoutError

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        self._multiplexer.exchanges.pop(self.id, None)

    def deliver(self, message: Response | ErrorResponse | Notification) -> None:
        """Add a message for this request."""
        inbox = self._inbox
        # What comes after the response changes nothing. Nor does what comes after a failure: a
        # server whose input we closed may still respond before the waiting task runs.
        over = self._failure is not None or (inbox and type(inbox[-1]) in (Response, ErrorResponse))
        if over:
            self._multiplexer.stats.late_answers += 1
            return
        if len(inbox) >= self._multiplexer.limits.notices:
            inbox.pop(0)
            self._multiplexer.stats.dropped_notices += 1
        if type(message) is Notification:
            self.begun = True
        else:
            self.settled = self._multiplexer.has_answered = True
        inbox.append(message)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def announce(self, silence: AnnouncedSilence) -> None:
        """Announce to the waiter that nothing will come for a while."""
        self._inbox.append(silence)
        self._wake()

    def fail(self, error: Exception) -> None:
        """Settle the request with ``error``."""
        self.settled = True
        self._failure = error
        self._wake()

    def expire(self, now: float) -> float:
        """Wake if the deadline has passed. Returns the deadline that is still ahead."""
        if self._waiter is None:
            return math.inf
        if self._until <= now:
            self._wake()
            return math.inf
        return self._until

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Multiplexer:
    """A shared line, which sorts its messages by owner."""

    def __init__(
        self, backend: Backend, context: TransportContext, owner: Callable[[], Owner]
    ) -> None:
        self.backend = backend
        self.timer: DeadlineTimer = DeadlineTimer(backend, self._ring)
        self.limits: Limits = context.limits
        self.stats: Stats = context.stats
        self._context = context
        self._secrets = context.secrets or KnownSecrets()
        self._owner = owner
        self.exchanges: dict[Id, LineExchange] = {}
        """The requests under way, by their id."""
        self._has_notified = False
        self._newest = 0
        self.has_answered: bool = False
        """Whether a response to one of our requests has come."""
        self._logged_junk: set[int] = set()
        """The levels at which an invalid message was logged."""
        self._pieces = BytesIO()
        self._held = 0
        self._skipping: tuple[bytes, bytes] | None = None
        self._unmatched_lines = 0
        """Lines that are not a message, or a response to a request that was not made."""
        self._first_unmatched = ""
        self._strays = 0

    # ---------------------------------------------------------------- requests

    def exchange(self, id: Id) -> LineExchange:
        """Register an exchange for the request ``id``."""
        exchange = LineExchange(self, id)
        self.exchanges[id] = exchange
        if type(id) is int:
            self._newest = id
        return exchange

    def forget(self, exchange: LineExchange) -> None:
        """Remove an exchange."""
        self.exchanges.pop(exchange.id, None)

    def end(self, error: Callable[[], McpError]) -> None:
        """End the line: every request that waits settles, each with an error of its own."""
        self.timer.stop()
        for exchange in list(self.exchanges.values()):
            if not exchange.settled:
                exchange.fail(error())
        if self._context.ended is not None:
            self._context.ended(error())

    def all_seen(self) -> bool:
        """Whether no task was given a notification since this was asked last."""
        notified, self._has_notified = self._has_notified, False
        return not notified

    # ------------------------------------------------------------------- bytes

    def feed(self, data: bytes) -> None:
        """Take what was read, in pieces of any size."""
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._hold(data)
            return
        if self._held or self._skipping:
            self._hold(head)
            self._finish_line()
        else:
            self.take(head)
        if rest:
            *lines, tail = rest.split(b"\n")
            for line in lines:
                self.take(line)
            if tail:
                self._hold(tail)

    def _hold(self, piece: bytes) -> None:
        if self._skipping is not None:
            start, end = self._skipping
            self._skipping = start, (end + piece[-_STORED_EDGE_BYTES:])[-_STORED_EDGE_BYTES:]
            return
        self._held += self._pieces.write(piece)
        if self._held > self.limits.message_bytes:
            whole = self._pieces.getvalue()
            self._skipping = whole[:_STORED_EDGE_BYTES], whole[-_STORED_EDGE_BYTES:]
            self._pieces, self._held = BytesIO(), 0

    def _finish_line(self) -> None:
        if self._skipping is not None:
            (start, end), self._skipping = self._skipping, None
            self._too_long(start, end)
            return
        self.take(self._whole_line())

    def _whole_line(self) -> bytes:
        line = self._pieces.getvalue()
        self._pieces, self._held = BytesIO(), 0
        return line

    def _too_long(self, start: bytes, end: bytes) -> None:
        cap = self.limits.message_bytes
        reason = f"it is longer than {cap} bytes (Limits.message_bytes)"
        if re.match(_NO_RESPONSE, start):
            self.junk(start, InvalidFrame(reason))
            return
        owner = owner_of_fragment(start, end)
        if owner is not None or not start.lstrip().startswith((b"{", b"[")):
            self.junk(start, InvalidFrame(reason, owner))
            return
        self.junk(start, InvalidFrame(reason))
        for exchange in list(self.exchanges.values()):
            exchange.fail(InvalidFrame(f"{reason}, and its request is not known"))

    def take(self, line: bytes) -> None:
        """Take a whole line, or message."""
        if len(line) > self.limits.message_bytes:
            self._too_long(line[:_STORED_EDGE_BYTES], line[-_STORED_EDGE_BYTES:])
            return
        passed = [line.strip(b" \t\r\xef\xbb\xbf")]
        start = passed[0][:_STORED_EDGE_BYTES]
        if not start:
            return
        del line  # so that ``parse`` alone refers to it, and can free it
        try:
            messages = parse(passed.pop(), self.limits.depth, self._context.accept)
        except InvalidFrame as error:
            self.junk(start, error)
            return
        for message in messages:
            self.sort(start, message)

    # ----------------------------------------------------------------- sorting

    def is_awaited(self, message: Any) -> bool:
        """Whether the message is for a request under way."""
        if type(message) is Notification:
            return self._owner()(message) in self.exchanges
        return type(message) in (Response, ErrorResponse) and message.id in self.exchanges

    def sort(self, line: bytes, message: Any) -> None:
        """Sort one message."""
        kind = type(message)
        if kind is Response or kind is ErrorResponse:
            exchange = self.exchanges.get(message.id)
            if exchange is not None:
                exchange.deliver(message)
            else:
                self._unowned_response(line, message)
        elif kind is Notification:
            owner = self._owner()(message)
            exchange = None if owner is None else self.exchanges.get(owner)
            if exchange is not None:
                self._has_notified = True
                exchange.deliver(message)
            elif owner is None:
                self._context.unasked(message)
            else:
                self.stats.late_answers += 1
        elif kind is InvalidFrame:
            self.junk(line, message)
        else:
            self._context.unasked(message)

    def _unowned_response(self, line: bytes, message: Response | ErrorResponse) -> None:
        id = message.id
        if id is None and len(self.exchanges) == 1:
            # The server could not read an id, and only one request can have been meant.
            next(iter(self.exchanges.values())).deliver(message)
        elif type(id) is int and 0 < id <= self._newest:
            self.stats.late_answers += 1
        elif type(id) is str and (number := number_of(id)) is not None:
            if number in self.exchanges:
                self._context.accept(TEXT_ID)
            self.sort(line, message._replace(id=number))
        else:
            self.stats.stray_answers += 1
            self._strays += 1
            self._note_unmatched(line)
            _log.debug(
                "%s: a response that belongs to no request was dropped", self._context.server
            )

    def junk(self, line: bytes, error: InvalidFrame) -> None:
        """Count a frame that is not a message, and settle its request if that is known."""
        self.stats.junk_lines += 1
        error.reason = self._secrets.text(error.reason)
        self.stats.last_junk = self._safe(_beginning(line))
        self._note_unmatched(line)
        # Before the first response it is mostly a banner.
        level = logging.WARNING if self.has_answered else logging.INFO
        text = safe_text(self._secrets.text(_beginning(line)), JUNK_CHARS)
        _log.log(
            logging.DEBUG if level in self._logged_junk else level,
            "%s: skipped an invalid message: %s: '%s'",
            self._context.server,
            error.reason,
            text,
        )
        self._logged_junk.add(level)
        exchange = None if error.owner is None else self.exchanges.get(error.owner)
        if exchange is not None:
            exchange.fail(error)

    def _note_unmatched(self, line: bytes) -> None:
        self._first_unmatched = self._first_unmatched or _beginning(line)
        self._unmatched_lines += 1

    def unmatched_output(self) -> UnmatchedOutput | None:
        """See ``Transport.unmatched_output``."""
        lines, first, held = self._unmatched_lines, self._first_unmatched, self._held > 0
        if not lines and not held:
            return None
        first_line = self._safe(first or _beginning(self._pieces.getvalue()))
        return UnmatchedOutput(lines or 1, first_line, held or self._strays > 0, lines > 0)

    def _safe(self, text: str) -> str:
        return safe_text(self._secrets.text(text), 80)

    # ------------------------------------------------------------------ clocks

    def _ring(self) -> None:
        now = self.backend.now()
        ahead = min((e.expire(now) for e in self.exchanges.values()), default=math.inf)
        if ahead < math.inf:
            self.timer.set(max(ahead, now + _TIMER_SECONDS))


def _beginning(line: bytes) -> str:
    # More than is shown: a secret that is cut in two may not be known any more.
    return line[:1024].decode(errors="replace")
