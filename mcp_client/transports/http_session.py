"""Streamable HTTP in the handshake era: a session made of many streams.

2025-11-25, 2025-06-18 and 2025-03-26 ``basic/transports``. Every request is a POST with a stream of
its own, and a GET is for messages that the server sends by itself. But servers deviate: progress
comes on the GET, a response on the stream that resumes a lost one. So all streams feed one
``Multiplexer``, which sorts the messages by owner, and each POST is read by a task.

*Resumption.* A stream that ends before its response is requested again with the id of its last
event, after the time the server named (``retry``), however long that is. The request is notified of
it, so that its idle timeout does not run, and one whose total timeout is shorter fails at once.
Without an event id there is nothing to resume, and the response is lost. It is also lost if the
server cannot be reached for a few seconds. Resuming repeats nothing: the request itself is sent
once.

*Sessions end.* A 404 to a request with a session id means that the server no longer knows the
session. So it did not run the request. ``http_errors`` has the other forms of that. Three
unreadable responses in a row end the session too, although their requests may have run.
``has_ended`` asks the host to open a new one.

``http_listener`` reads the messages that the server sends by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import anyio

from ..errors import AuthError, ConfigError, McpError
from ..protocol.era import is_news
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, Message, Response, parse
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.backoff import doubled
from ..runtime.event_loop import current
from .base import AnnouncedSilence, Owner, Received, is_passing
from .http_base import receive_by
from .http_client import HttpClient, RequestBody
from .http_errors import ENDED, RefusedAlike, http_error, names_lost_session, session_has_ended
from .http_listener import MIN_PAUSE_SECONDS, PAUSE_SECONDS, HttpListener, resume_headers
from .http_options import Headers
from .http_response import HttpResponse
from .multiplexer import LineExchange, Multiplexer

__all__ = ["HttpSession"]

_log = logging.getLogger("mcp_client")
_UNREACHABLE_SECONDS = 3.0
"""The seconds in which a server has to be reachable again for its stream to be resumed."""
_MAX_EMPTY_STREAMS = 5
"""Streams in a row that resume a request and bring nothing at all."""
_MAX_UNREADABLE = 3
_MAX_SESSION_ID_CHARS = 4096


class PostedExchange:
    """A request under way: its messages, and the task that reads its stream."""

    __slots__ = ("_body", "_inner", "_session", "_task")

    def __init__(
        self, session: HttpSession, inner: LineExchange, body: RequestBody, task: BackgroundTask
    ) -> None:
        self._session = session
        self._inner = inner
        self._body = body
        self._task = task

    async def receive(self, until: float) -> Received:
        """Return the next message for this request."""
        client = self._session.client
        try:
            return await receive_by(client.clock, self._inner, until)
        except TimeoutError:
            if not self._body.withdraw():
                raise
            self._task.cancel()
            raise client.endpoint.not_connected() from None
        except anyio.get_cancelled_exc_class():
            if self._body.withdraw():
                self._session.last_unsent_id = self._inner.id
            raise

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        await self._inner.aclose()
        if not self._inner.settled:
            self._task.cancel()
        await self._session.closed_one()


class HttpSession:
    """A session of the handshake era over HTTP."""

    def __init__(
        self,
        client: HttpClient,
        tasks: BackgroundTasks,
        owner: Callable[[], Owner],
        *,
        session_id: str | None,
        headers: Mapping[str, str],
        refused: RefusedAlike,
        opening: tuple[bytes, Headers],
    ) -> None:
        """Create a session.

        ``headers`` go with every request of the session; ``opening`` is the body and headers of the
        request that opened it.
        """
        self._refused = refused
        self._opening = opening
        self._unreadable = 0
        """The number of responses in a row that could not be used."""
        self.client = client
        self.has_ended: bool = False
        """Whether the server has ended the session."""
        self.last_unsent_id: Id | None = None
        """See ``Transport.last_unsent_id``."""
        self._tasks = tasks
        self._context = client.context
        self._multiplexer = Multiplexer(current(), client.context, owner)
        self._multiplexer.has_answered = True  # to initialize
        self.id: str | None = _usable_id(session_id, client.context.server)
        own = {"Mcp-Session-Id": self.id} if self.id else {}
        self.headers: Mapping[str, str] = {**headers, **own}
        self._listener = HttpListener(client, self.headers, self._read_unasked, self._end)
        self._when_idle: Callable[[], Awaitable[None]] | None = None

    # ---------------------------------------------------------------- requests

    async def exchange(
        self,
        id: Id,
        text: str,
        headers: Mapping[str, str],
        until: float,
        stale: Callable[[], bool] | None = None,
    ) -> PostedExchange:
        """``stale``: see ``RequestBody.is_stale``."""
        if self.has_ended:
            raise self.client.endpoint.session_lost()
        # The host's functions are asked in the caller's own task, where its context variables are.
        try:
            with self.client.clock.scope(until) as scope:
                user_headers = await self.client.user_headers()
        except anyio.get_cancelled_exc_class():
            self.last_unsent_id = id
            raise
        if scope.cancelled_caught:
            raise self.client.endpoint.not_connected()
        inner = self._multiplexer.exchange(id)
        own = {**headers, **self.headers}
        data = text.encode("utf-8", "replace")
        body = RequestBody(data, stale)
        if self.id is not None:
            body.spares_login = partial(self._refused.may_be_session, data)
        task = self._tasks.start(lambda: self._post(inner, own, body, user_headers))
        return PostedExchange(self, inner, body, task)

    @property
    def under_way(self) -> int:
        """The number of requests under way."""
        return len(self._multiplexer.exchanges)

    def call_when_idle(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call once, when no request is under way any more."""
        self._when_idle = callback

    async def closed_one(self) -> None:
        """Count a request as ended."""
        if self._when_idle is not None and not self.under_way:
            await self._when_idle()

    async def _post(
        self, inner: LineExchange, headers: Headers, body: RequestBody, user_headers: Headers
    ) -> None:
        try:
            response = await self.client.open("POST", headers, body, user_headers=user_headers)
            if response.ok:
                if self._refused:
                    self._refused.answered(body.data)
                await self._read_until_answered(inner, response)
            elif await self._settle_refused(inner, response, (headers, body, user_headers)):
                self._note_unreadable()
                return
            self._unreadable = 0
        except (McpError, InvalidFrame) as error:
            if isinstance(error, InvalidFrame):
                self._note_unreadable()
            if not inner.settled:
                inner.fail(error)

    def _note_unreadable(self) -> None:
        self._unreadable += 1
        if self.id is not None and self._unreadable >= _MAX_UNREADABLE:
            self._end()

    async def _settle_refused(
        self,
        inner: LineExchange,
        response: HttpResponse,
        sent: tuple[Headers, RequestBody, Headers],
    ) -> bool:
        """End the request. Returns whether it is uncertain if the server has the session."""
        headers, body, user_headers = sent
        refusal = await http_error(self.client.endpoint, response, inner.id, agreed=True)
        words = refusal.words
        ended = self.id is not None and session_has_ended(response.status, words, refusal.code)
        if ended and response.status not in ENDED:
            ended = self._refused.note_words(body.data)
        if self.id and not ended and refusal.auth_error:
            ended = self._refused.note(body.data, refusal.auth_error)
            if ended and self.client.asks_person and not await self._opens_another(user_headers):
                body.spares_login = None
                body.rewind()
                response = await self.client.open("POST", headers, body, user_headers=user_headers)
                if response.ok:
                    self._refused.answered(body.data)
                    await self._read_until_answered(inner, response)
                    return False
                return await self._settle_refused(inner, response, sent)
        if ended:
            self._end()
            inner.fail(self.client.endpoint.session_lost(words))
        else:
            refusal.settle(inner)
        return not ended and response.status >= 500 and names_lost_session(words)

    async def _opens_another(self, user_headers: Headers) -> bool:
        """Whether the server opens another session for the credentials that this one refuses.

        Then no person needs to log in.
        """
        data, headers = self._opening
        body = RequestBody(data, spares_login=lambda: True)
        response = await self.client.open("POST", headers, body, user_headers=user_headers)
        id = response.headers.get("mcp-session-id")
        try:
            await response.excerpt()
        finally:
            await response.aclose()
        if response.ok and id:
            other = await self.client.open("DELETE", {**self.headers, "Mcp-Session-Id": id})
            await other.aclose()
        return response.ok

    def _end(self) -> None:
        """End the session: the server has reported that it does not know it."""
        self.has_ended = True
        self._context.doubted()

    # -------------------------------------------------------------- resumption

    async def _read_until_answered(self, inner: LineExchange, response: HttpResponse) -> None:
        """Read until the request is answered, resuming its stream as often as it takes."""
        last_id: str | None = None
        retry: float | None = None
        empty = 0
        while True:
            lost: McpError | None = None
            try:
                await self._read_response(response, inner)
            except McpError as error:
                lost = error
            finally:
                await response.aclose()
            if inner.settled:
                return
            new_id = response.events.last_id
            empty = 0 if new_id not in (None, last_id) or response.events.count else empty + 1
            last_id = new_id or last_id
            retry = response.events.retry if response.events.retry is not None else retry
            if last_id is None or not response.streaming or empty > _MAX_EMPTY_STREAMS:
                raise lost or self._unanswered(response)
            pause = doubled(PAUSE_SECONDS if retry is None else MIN_PAUSE_SECONDS, empty)
            pause = max(pause, retry or 0.0)
            response = await self._resume(inner, last_id, pause)

    async def _resume(self, inner: LineExchange, last_id: str, pause: float) -> HttpResponse:
        """Return the stream that goes on after ``last_id``. Raises ``ConnectionLost``."""
        clock = self.client.clock
        headers = resume_headers(self.headers, last_id)
        give_up_at: float | None = None
        attempt = 0
        while headers is not None:
            inner.announce(AnnouncedSilence(clock.now() + pause))
            await anyio.sleep(pause)
            asked_to_wait: float | None = None
            try:
                response = await self.client.open("GET", headers)
            except (AuthError, ConfigError):
                raise
            except McpError as error:
                why = error.args[0]
            else:
                if response.ok and response.streaming:
                    return response
                await response.aclose()
                why = f"resuming it got HTTP {response.status}"
                if not is_passing(response.status):
                    break
                asked_to_wait = response.retry_after
            attempt += 1
            pause = max(pause, doubled(PAUSE_SECONDS, attempt - 1, 8 * PAUSE_SECONDS))
            give_up_at = clock.now() + _UNREACHABLE_SECONDS if give_up_at is None else give_up_at
            if asked_to_wait is not None:
                pause, give_up_at = max(asked_to_wait, MIN_PAUSE_SECONDS), None
            elif clock.now() + pause > give_up_at:
                break
        else:
            why = "the id of its last event cannot be sent"
        raise self.client.endpoint.lost(f"its stream ended without the response, and {why}")

    def _unanswered(self, response: HttpResponse) -> Exception:
        if response.streaming:
            return self.client.endpoint.lost("the stream of events ended without the response")
        return InvalidFrame("it has no response to the request in it")

    # ----------------------------------------------------------------- streams

    async def _read_unasked(self, response: HttpResponse) -> None:
        """Sort what the server sends by itself, until the end of the stream."""
        while (frame := await response.frame()) is not None:
            frame = frame.strip()
            for message in self._parsed(frame, None):
                if type(message) is ErrorResponse:
                    message = response.without_secrets(message)
                self._listener.brought |= is_news(message) or self._multiplexer.is_awaited(message)
                self._multiplexer.sort(frame, message)

    async def _read_response(self, response: HttpResponse, inner: LineExchange) -> None:
        """Sort the messages, until the end of the stream or the response to ``inner``."""
        whole = None if response.streaming else response
        while not inner.settled and (frame := await response.frame()) is not None:
            frame = frame.strip()
            messages = self._parsed(frame, whole)
            if any(type(one) in (Response, ErrorResponse) for one in messages):
                await self.client.finish(response)
            for message in messages:
                if type(message) is ErrorResponse:
                    message = response.without_secrets(message)
                    message = message if message.id is not None else message._replace(id=inner.id)
                    if self._reports_lost_session(response, message, inner):
                        self._end()
                        inner.fail(self.client.endpoint.session_lost(message.message))
                        return
                self._multiplexer.sort(frame, message)

    def _parsed(self, frame: bytes, whole: HttpResponse | None) -> Sequence[Message | InvalidFrame]:
        """Return the messages of a frame, none if they cannot be read.

        Raises ``InvalidFrame`` if the frame is the ``whole`` of a response.
        """
        try:
            return parse(frame, self._context.limits.depth, self._context.accept)
        except InvalidFrame as error:
            if whole is None:
                self._multiplexer.junk(frame, error)
                return ()
            if self.id and names_lost_session(frame.decode(errors="replace")):
                self._end()  # but who knows whether the request ran
            if "json" in whole.kind:
                raise
            raise InvalidFrame(f"it is {whole.unlike(frame)}") from None

    def _reports_lost_session(
        self, response: HttpResponse, message: ErrorResponse, inner: LineExchange
    ) -> bool:
        if self.id is None or message.id != inner.id:
            return False
        if response.streaming and response.events.count > 1:
            return False  # the request was begun
        return session_has_ended(response.status, message.message, message.code)

    # --------------------------------------------------------------- listening

    async def listen(self) -> None:
        """Open the stream for messages of the server itself, if it has one."""
        await self._listener.start(self._tasks)

    @property
    def notification_epoch(self) -> int | None:
        """A number that changes whenever a notification may have been missed."""
        # A server without sessions cannot know whose stream a GET is, and so mostly sends nothing
        # on it: what does come is received.
        return None if self.id is None else self._listener.epoch

    # ----------------------------------------------------------------- closing

    async def aclose(self, within: float, why: str, *, end: bool) -> None:
        """End the session, with ``end`` on the server too.

        A server may refuse that (405), or not respond.
        """
        self._multiplexer.end(lambda: self.client.endpoint.lost(why))
        await self._tasks.aclose(within)
        if self.id is None or self.has_ended or not end:
            return
        with anyio.move_on_after(within, shield=True):
            try:
                response = await self.client.open("DELETE", self.headers)
                await response.excerpt()
                await response.aclose()
            except McpError as error:
                _log.debug("%s: cannot end the session: %s", self._context.server, error)


def _usable_id(session_id: str | None, server: str) -> str | None:
    """Return the session id that ``server`` gave, if it can be sent as a header."""
    if not session_id:
        return None
    if len(session_id) > _MAX_SESSION_ID_CHARS or not all(
        "!" <= char <= "~" for char in session_id
    ):
        _log.warning("%s: ignored a session id with other characters than visible ASCII", server)
        return None
    return session_id
