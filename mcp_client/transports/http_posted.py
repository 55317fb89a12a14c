"""One request of a session over HTTP, and the ids that a server gives and expects to be sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio

from ..runtime.background import BackgroundTask
from .base import Received
from .http_base import receive_by
from .http_client import RequestBody
from .multiplexer import LineExchange

if TYPE_CHECKING:
    from .http_session import HttpSession

__all__ = ["PostedExchange", "resume_headers", "usable_id"]

_log = logging.getLogger("mcp_client")
_EVENT_STREAM = {"Accept": "text/event-stream"}
_MAX_EVENT_ID_CHARS = 4096
_MAX_SESSION_ID_CHARS = 4096


def usable_id(session_id: str | None, server: str) -> str | None:
    """Return the session id that ``server`` gave, if it can be sent as a header."""
    if not session_id:
        return None
    if len(session_id) > _MAX_SESSION_ID_CHARS or not all(
        "!" <= char <= "~" for char in session_id
    ):
        _log.warning("%s: its session id is not of visible ASCII, and is not used", server)
        return None
    return session_id


def resume_headers(headers: Mapping[str, str], last_id: str) -> dict[str, str] | None:
    """The headers of a GET that resumes a stream; None where the id cannot be sent."""
    fits = (
        len(last_id) <= _MAX_EVENT_ID_CHARS and last_id.isprintable() and last_id == last_id.strip()
    )
    if not fits or not last_id.isascii():
        return None
    return {**_EVENT_STREAM, **headers, "Last-Event-ID": last_id}


class PostedExchange:
    """One request under way: what comes for it, and the task that reads its stream."""

    __slots__ = ("_body", "_inner", "_session", "_task")

    def __init__(
        self,
        session: HttpSession,
        inner: LineExchange,
        body: RequestBody,
        task: BackgroundTask,
    ) -> None:
        self._session = session
        self._inner = inner
        self._body = body
        self._task = task

    async def receive(self, until: float) -> Received:
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
        await self._inner.aclose()
        if not self._inner.settled:
            self._task.cancel()
        await self._session.closed_one()
