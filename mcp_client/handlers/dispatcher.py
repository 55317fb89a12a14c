"""Answering a server: the handlers are asked, and what they say is sent.

*Handshake era.* A question may come at any time. Each is a job of the session, at most
``Limits.questions`` at once; more are refused and counted. The server may withdraw a question
(``notifications/cancelled``): its handler is cancelled and nothing is sent. Meanwhile the clocks of
the calls under way stand still, see ``clock``.

*Stateless era.* A call is answered with questions (2026-07-28 ``basic/patterns/mrtr``). All of a
round are read and checked before the first is asked, then asked in the order they stand in, in the
caller's task: who cancels the call takes the question back.

A handler has ``Timeouts.approval`` for a question. One that raises, takes longer or answers
nonsense is logged; the server gets an error without the reason in the one era, and the call raises
``Unanswered`` with it in the other. Several questions may be open at once, so a handler may be
called again before it has answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from ..approval.gate import Allow
from ..errors import (
    ConfigError,
    McpError,
    ProtocolViolation,
    ServerError,
    Unanswered,
    UrlElicitationRequired,
)
from ..protocol.capabilities import declared_in
from ..protocol.era import Era, InputRequired
from ..protocol.jsonrpc import Id, Request, encode_error_response, encode_response
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.callbacks import invoke_callback
from ..runtime.event_loop import Backend, LoopEvent, being_cancelled
from ..runtime.limits import Limits, Timeouts
from ..runtime.safe_text import safe_text
from ..runtime.stats import Stats
from ..transports.base import Transport
from .refusals import METHOD_NOT_FOUND, REJECTED, InvalidHandlerAnswer, RequestRefused

if TYPE_CHECKING:
    from .handlers import Handlers, SamplingRequest
    from .wire_format import Asked

__all__ = ["URL_REQUIRED", "Dispatcher"]

_log = logging.getLogger("mcp_client")
URL_REQUIRED = -32042
_FAILED, _BUSY = -32603, -32000
_MOST_VISITS = 256
_LOOK = 0.5
"""Seconds between two looks whether who asked is still there."""


class Dispatcher:
    """Answers for one session. What reads a question is loaded when one comes: few servers ask."""

    def __init__(
        self,
        handlers: Handlers | None,
        server: str,
        timeouts: Timeouts,
        limits: Limits,
        stats: Stats,
    ) -> None:
        self._handlers = handlers
        self._server = server
        self._seconds = timeouts.approval
        self._close = timeouts.close
        self._limits = limits
        self._stats = stats
        self._capabilities = {} if handlers is None else handlers.capabilities
        self._jobs: BackgroundTasks | None = None
        self._open: dict[tuple[Transport, Id], BackgroundTask] = {}
        self._watching = self._closed = False
        self._visits: dict[str, LoopEvent] = {}

    def start(self, backend: Backend) -> None:
        """``backend`` is that of the event loop the session lives in."""
        self._jobs = BackgroundTasks(backend, self._server)

    async def aclose(self) -> None:
        self._closed = True
        if self._jobs is not None:
            await self._jobs.aclose(self._close)

    def aside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that belongs to the session and to no task."""
        assert self._jobs is not None
        self._jobs.start(work)

    # ---------------------------------------------------------------- handshake era

    def asked(
        self,
        transport: Transport,
        question: Request,
        era: Era | None,
        pause: Callable[[], Callable[[], None]],
    ) -> None:
        """Answer a server's request, sooner or later. ``pause`` stops the clocks.

        Called by whatever reads the transport, which on stdio is a loop callback: it must not
        raise, for no caller would see it. The server would wait for ever, and so would every call
        under way, whose clocks stand still meanwhile.
        """
        if self._closed:
            return
        try:
            self._start_answering(transport, question, era, pause)
        except RequestRefused as refused:
            self._refuse(transport, question, refused)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("%s: a request of the server's cannot be handled", self._server)
            self._refuse(transport, question, RequestRefused(_FAILED, "the client failed"))

    def _start_answering(
        self,
        transport: Transport,
        question: Request,
        era: Era | None,
        pause: Callable[[], Callable[[], None]],
    ) -> None:
        assert self._jobs is not None
        key = transport, question.id
        if len(self._open) >= self._limits.questions or key in self._open:
            raise RequestRefused(_BUSY, "too many questions at once")
        asked = self._read(question.method, question.params, era)
        if not self._watching:
            self._jobs.start(self._watch)
            self._watching = True
        resume = pause()

        async def answer() -> None:
            try:
                text = await self._answered(question.id, asked, era)
            finally:
                self._open.pop(key, None)
                resume()
            try:
                await transport.send(text, {})
            except McpError as error:
                _log.debug("%s: an answer could not be sent: %s", self._server, error)

        try:
            self._open[key] = self._jobs.start(answer)
        except BaseException:
            resume()
            raise

    def ask_only_for(self, transport: Transport) -> None:
        """Nobody is to think about the questions of any connection but this."""
        for (asker, _), task in list(self._open.items()):
            if asker is not transport:
                task.cancel()

    async def _watch(self) -> None:
        """Take back the questions of a server that has gone, as long as any is open."""
        try:
            while self._open:
                await anyio.sleep(_LOOK)
                for (asker, _), task in list(self._open.items()):
                    if not asker.alive:
                        task.cancel()
        finally:
            self._watching = False

    def withdrawn(self, transport: Transport, params: Mapping[str, Any]) -> None:
        """The server wants no answer any more. 2025-11-25 ``basic/utilities/cancellation``."""
        question = params.get("requestId")
        if type(question) is int or type(question) is str:
            task = self._open.get((transport, question))
            if task is not None:
                reason = safe_text(params.get("reason", ""), 200)
                _log.debug("%s: the server withdrew its question: %s", self._server, reason)
                task.cancel()

    def _refuse(self, transport: Transport, question: Request, refused: RequestRefused) -> None:
        self._stats.refused_questions += 1
        first = self._stats.refused_questions == 1
        _log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s: a question (%s) was refused: %s",
            self._server,
            safe_text(question.method, 80),
            refused,
        )
        transport.send_soon(encode_error_response(question.id, refused.code, str(refused)), {})

    async def _answered(self, id: Id, asked: Asked, era: Era | None) -> str:
        try:
            return encode_response(id, await self._ask(asked, era))
        except RequestRefused as refused:
            self._stats.refused_questions += 1
            return encode_error_response(id, refused.code, str(refused))
        except InvalidHandlerAnswer as error:
            self._stats.refused_questions += 1
            _log.warning("%s: a question got no answer: %s", self._server, error)
            return encode_error_response(id, _FAILED, "the client has no answer to this")

    # ---------------------------------------------------------------- stateless era

    async def round(self, era: Era, wanted: InputRequired) -> dict[str, Any]:
        """What goes with the next try. Raises ``ProtocolViolation`` or ``Unanswered``."""
        echo = {} if wanted.state is None else {"requestState": wanted.state}
        if not wanted.questions:
            return echo
        if len(wanted.questions) > self._limits.questions:
            raise self._violation(
                f"the server asks {len(wanted.questions)} questions at once, and at most "
                f"{self._limits.questions} are answered (Limits.questions)",
                wanted,
            )
        asked = {key: self._of_round(q, era, wanted) for key, q in wanted.questions.items()}
        answers = {}
        for key, question in asked.items():
            try:
                answers[key] = await self._ask(question, era)
            except (RequestRefused, InvalidHandlerAnswer) as error:
                kind = type(question).__name__
                _log.warning("%s: %s got no answer: %s", self._server, kind, error)
                raise Unanswered(
                    f"the server asked back ({kind}) and got no answer: {error}",
                    result=wanted.result,
                    server=self._server,
                ) from error.__cause__
        return {"inputResponses": answers, **echo}

    def _of_round(self, question: object, era: Era, wanted: InputRequired) -> Asked:
        if not isinstance(question, dict):
            raise self._violation("one of the server's questions is no object", wanted)
        try:
            return self._read(question.get("method"), question.get("params", {}), era)
        except RequestRefused as refused:
            self._stats.refused_questions += 1
            method = safe_text(question.get("method"), 80)
            why = (
                f"for {method}, which this client did not declare"
                if refused.code == METHOD_NOT_FOUND
                else f"for {method} in a way that it may not: {refused}"
            )
            raise self._violation(f"the server asks {why}", wanted) from None

    def _violation(self, message: str, wanted: InputRequired) -> ProtocolViolation:
        return ProtocolViolation(message, result=wanted.result, server=self._server)

    # ------------------------------------------------------------------ URLs to visit

    async def visit_first(self, era: Era, error: ServerError) -> ServerError:
        """What to raise for an error that says a person has to visit URLs first (2025-11-25
        ``client/elicitation``): each was put to the handler, which opens what it has consent for.
        The request is not made again by itself: when to is the host's to know."""
        declared = declared_in(era.revision, self._capabilities)
        if not era.server_may_ask or "url" not in declared.get("elicitation", {}):
            return error
        from .wire_format import elicitations_of

        try:
            wanted = elicitations_of(error.data, self._server)
        except RequestRefused as refused:
            _log.warning("%s: error -32042 cannot be used: %s", self._server, refused)
            return error
        consents = 0
        for asked in wanted:
            self._expect(asked)
            try:
                consents += (await self._ask(asked, era))["action"] == "accept"
            except (RequestRefused, InvalidHandlerAnswer) as why:
                _log.warning("%s: a URL got no consent: %s", self._server, why)
        hosts = ", ".join(sorted({asked.host or "" for asked in wanted}))
        agreed = consents == len(wanted)
        then = "call again once that is done" if agreed else "not everything was agreed to"
        return UrlElicitationRequired(
            f"the server wants a person to visit {hosts} first; {then} (code {error.code})",
            elicitations=wanted,
            code=error.code,
            data=error.data,
            http_status=error.http_status,
            server=self._server,
            retryable=agreed,
        )

    def _expect(self, asked: Asked) -> None:
        from .handlers import ElicitRequest

        if isinstance(asked, ElicitRequest) and asked.elicitation_id is not None:
            if len(self._visits) >= _MOST_VISITS:
                del self._visits[next(iter(self._visits))]
            self._visits.setdefault(asked.elicitation_id, LoopEvent())

    def completed(self, params: Mapping[str, Any]) -> None:
        """The server says that a visit is done; one of an unknown id is ignored."""
        visit = self._visits.get(str(params.get("elicitationId")))
        if visit is not None:
            visit.set()

    def visit(self, elicitation_id: str) -> LoopEvent:
        found = self._visits.get(elicitation_id)
        if found is None:
            raise ConfigError(
                f"the server asked for no elicitation {safe_text(elicitation_id, 80)!r}",
                server=self._server,
            )
        return found

    # ------------------------------------------------------------------------- asking

    def _read(self, method: object, params: object, era: Era | None) -> Asked:
        from .wire_format import read

        declared = {} if era is None else declared_in(era.revision, self._capabilities)
        asked = read(method, params, self._server, declared, era is not None and era.full_forms)
        self._expect(asked)
        return asked

    async def _ask(self, asked: Asked, era: Era | None) -> dict[str, Any]:
        """The result to send. Raises ``RequestRefused`` or ``InvalidHandlerAnswer``."""
        from .handlers import SamplingRequest
        from .wire_format import written

        with anyio.move_on_after(self._seconds):
            try:
                if isinstance(asked, SamplingRequest):
                    await self._approve(asked)
                answer = await self._handled(asked)
                return written(asked, answer, era is not None and era.full_forms)
            except (RequestRefused, InvalidHandlerAnswer):
                raise
            except BaseException as error:
                cancelled = isinstance(error, anyio.get_cancelled_exc_class())
                if being_cancelled() or not (cancelled or isinstance(error, Exception)):
                    raise
                _log.debug("%s: a handler raised", self._server, exc_info=True)
                raise InvalidHandlerAnswer(f"its handler raised {type(error).__name__}") from error
        raise InvalidHandlerAnswer(f"no answer within {self._seconds:g} s, Timeouts(approval=...)")

    async def _handled(self, asked: Asked) -> Any:
        from .handlers import ElicitRequest, SamplingRequest

        handlers = self._handlers
        assert handlers is not None  # or nothing would be declared, and nothing be asked
        if isinstance(asked, ElicitRequest):
            assert handlers.elicitation is not None
            return await invoke_callback(handlers.elicitation, asked)
        if isinstance(asked, SamplingRequest):
            assert handlers.sampling is not None
            return await invoke_callback(handlers.sampling, asked)
        if callable(handlers.roots):
            return await invoke_callback(handlers.roots, asked)
        return handlers.roots

    async def _approve(self, asked: SamplingRequest) -> None:
        hook = None if self._handlers is None else self._handlers.sampling_approval
        if hook is None:
            return
        try:
            verdict = await invoke_callback(hook, asked)
        except Exception:  # noqa: BLE001 - whatever befalls the hook, the answer is no
            _log.warning("%s: the sampling approval hook raised", self._server, exc_info=True)
            verdict = None
        if type(verdict) is not Allow or verdict.arguments is not None:
            raise RequestRefused(REJECTED, "User rejected sampling request")
