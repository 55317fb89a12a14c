"""``ApprovalPage``: the pending requests of an ``ApprovalQueue`` on a web page.

```python
page = ApprovalPage(queue, authorize=who_is_there)
app = Starlette(routes=[..., Mount("/approvals", page)])    # FastAPI: app.mount("/approvals", page)
```

It is an ASGI application, to be mounted in any other. ``authorize(scope)`` names the person at the
browser, by the host's own login, and is called each time. ``visible(person, request)`` returns
whether they may see and decide an ``ApprovalRequest``, or see a ``DeviceLogin`` of
``OAuth(on_device=queue.show_login)``. Both may be async; an exception is a denial.

**The person of a login.** The host acts with the account of the person who uses a code that is
shown here. If people have separate accounts, ``visible`` has to show a login to its person alone.

**Other pages** cannot frame this one, read it or start a script in it (Content-Security-Policy). A
form that they send has neither the token nor the origin that a decision needs. The text of servers
and models is escaped, and invisible characters are spelled out. A decision names its requests by
random ids, and each is decided once, so that sending it again does nothing.

**Several at once:** see ``subject``.

**Live.** Each stream of server-sent events ends after some seconds, and the browser opens another:
``authorize`` is called again and a server can stop.
"""

from __future__ import annotations

import json
import logging
import secrets
import weakref
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

import anyio

from ..approval.decision import check_person
from ..approval.queue import ApprovalQueue, DecidedApproval, PendingApproval
from ..errors import ConfigError, McpError, NotPending
from ..runtime.callbacks import in_thread, invoke_callback, is_async
from ..runtime.watch import Watch
from .card import card, part, was, whole
from .http import (
    Refused,
    check_extra,
    decision_of,
    draft_for,
    fields_of,
    form_of,
    new_nonce,
    path_of,
    respond,
    static,
    whole_number,
)
from .inbox import (
    View,
    decided_list,
    document,
    in_order,
    list_of,
    login_list,
    mark_of,
    message,
)
from .markup import Html, element, filled, joined
from .subject import Signer, check_several, proof_of_opening, proof_of_row, question

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ..auth.steps import DeviceLogin

__all__ = ["ApprovalPage", "Authorize", "Visible"]

_log = logging.getLogger("mcp_client.desk")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Authorize: TypeAlias = Callable[[Scope], "str | Awaitable[str | None] | None"]
Visible: TypeAlias = Callable[[str, Any], "bool | Awaitable[bool]"]
"""A function of a person and an ``ApprovalRequest`` or a ``DeviceLogin``. If it raises, the request
is not shown."""

_STYLE = "/static/desk.css"
_RETRY_MS = 1_000
"""After which a browser opens the next stream."""
_MAX_CARDS = 20
"""The number of cards in one response."""
_NOT_SHOWN = "visible() raised, so the request is not shown"
T = TypeVar("T", "PendingApproval", "DecidedApproval", "DeviceLogin")


class ApprovalPage:
    """A page of approvals, as an ASGI application. One serves any number of people."""

    stream_seconds: float = 12.0
    """The seconds after which a stream of changes ends, and the browser opens the next."""

    def __init__(
        self,
        queue: ApprovalQueue,
        *,
        authorize: Authorize,
        visible: Visible | None = None,
        show_context: bool = False,
        secret: bytes | None = None,
    ) -> None:
        """Create the page. Raises ``ConfigError`` for a wrong argument.

        Args:
            queue: The requests to decide.
            authorize: Returns the person's name, which is recorded (200 characters), or None.
            visible: Returns whether a person may see a request; all may by default.
            show_context: Whether the ``context`` of calls is shown.
            secret: A key for forms, if processes share the page and no ``decisions``.
        """
        if not isinstance(queue, ApprovalQueue):
            raise ConfigError(f"ApprovalPage({queue!r}): give an ApprovalQueue")
        for name, function in (("authorize", authorize), ("visible", visible)):
            if not callable(function) and (function is not None or name == "authorize"):
                raise ConfigError(f"ApprovalPage({name}={function!r}): give a function")
        if secret is not None and (not isinstance(secret, bytes) or len(secret) < 16):
            raise ConfigError("ApprovalPage(secret=...): give at least 16 random bytes")
        check_extra("ApprovalPage", "starlette")
        self._queue = queue
        self._streams = weakref.WeakSet[Watch[Any]]()
        self._authorize, self._visible, self._shows = authorize, visible, show_context
        self._has_warned = False
        secret = secret or queue.secret("page")
        self._is_own_secret = secret is None
        self._signer = Signer(secret or secrets.token_bytes(32))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one call."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        from starlette.requests import Request

        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except Refused as refused:
            response = _refusal(request, refused)
        except McpError as error:
            _log.error("a request to the approval page failed: %s", error)
            response = _refusal(request, Refused(503, "What is pending cannot be read now."))
        if request.method == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if path_of(request) == _STYLE and request.method in ("GET", "HEAD"):
            return static("desk.css")  # also for pages that explain why a person is not let in
        person = await self._person(request)
        _check_site(request)
        path = path_of(request)
        first, _, rest = path.removeprefix("/").partition("/")
        if path == "":
            place = request.scope["root_path"].rstrip("/").rpartition("/")[2]
            return respond(status=307, location=f"./{place}/" if place else "/")
        if first == "decide" and not rest:
            if request.method != "POST":
                return respond(status=405, allow="POST")
            return await self._decide(request, person)
        if request.method not in ("GET", "HEAD"):
            return respond(status=405, allow="GET, HEAD")
        query = fields_of(request.url.query)
        match first, rest:
            case "", "":
                return await self._page(person, View.of(query), query.get("open", [""])[-1])
            case "list", "":
                every, view = await self._pending(person), View.of(query)
                return respond(await in_thread(self._list, person, every, view))
            case "changes", "" if request.method == "GET":
                # nginx would hold the events back
                response = respond(_Events(self, person), type="text/event-stream; charset=utf-8")
                response.headers["x-accel-buffering"] = "no"
                return response
            case "calls", "":
                return await self._some(person, query.get("ids", []))
            case "decided", "":
                return respond(decided_list(await self._decided(person)))
            case "decided", id:
                return await self._was(person, id)
            case "logins", "":
                return respond(login_list(await self._logins(person)))
            case "call", id:
                return await self._whole(person, query, await self._one(person, id))
            case "draft", id:
                pending = await self._one(person, id)
                draft = await in_thread(draft_for, pending.request)
                return respond(draft, type="text/plain; charset=utf-8")
            case "static", "desk.js":
                return static("desk.js")
        raise Refused(404, "This address has no page.")

    # ------------------------------------------------------------------------ who

    async def _person(self, request: Request) -> str:
        try:
            name = await invoke_callback(self._authorize, request.scope)
        except Exception:  # noqa: BLE001 - any failure means no
            _log.exception("authorize() raised, so the request is refused")
            name = None
        if name is not None and not isinstance(name, str) and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "authorize() returned a %s, so the request is refused: it must return the name of "
                "the person, or None",
                type(name).__name__,
            )
        if not isinstance(name, str) or not name:
            raise Refused(
                403,
                "You are not logged in, or may not decide anything here. Log in where you came "
                "from, and load this page again.",
            )
        try:
            check_person(name)
        except ConfigError as error:
            _log.warning("what authorize() returned is refused: %s", error)
            raise Refused(403, "Your name is too long to decide anything here.") from None
        return name

    async def _seen(self, person: str, requests: Sequence[T]) -> list[T]:
        """Return those that this person may see."""
        visible = self._visible
        if visible is None or not requests:
            return list(requests)
        if not is_async(visible):
            return await in_thread(_seen, visible, person, requests)
        seen = []
        for one in requests:
            try:
                if await visible(person, _asked(one)) is True:  # type: ignore[misc]
                    seen.append(one)
            except Exception:  # noqa: BLE001 - any failure means no
                _log.exception(_NOT_SHOWN)
        return seen

    def _token(self, person: str) -> str:
        return self._signer.sign("form", person)

    def _proofs(self, person: str, pending: PendingApproval) -> dict[str, str]:
        """Return the proofs that the form of a request sends."""
        opened = proof_of_opening(self._signer, person, pending.id)
        return {"token": self._token(person), "opened": opened}

    # ----------------------------------------------------------------------- what

    async def _pending(
        self, person: str, ids: Sequence[str] | None = None
    ) -> list[PendingApproval]:
        """Return what this person may decide, of these ``ids`` or of all."""
        queue = self._queue
        pending = await in_thread(lambda: queue.pending) if queue.waits else queue.pending
        some = None if ids is None else set(ids)
        wanted = pending if some is None else [one for one in pending if one.id in some]
        return await self._seen(person, wanted)

    async def _decided(self, person: str) -> list[DecidedApproval]:
        return await self._seen(person, self._queue.decided)

    async def _logins(self, person: str) -> list[DeviceLogin]:
        return await self._seen(person, self._queue.logins)

    async def _one(self, person: str, id: str) -> PendingApproval:
        for pending in await self._pending(person, [id]):
            return pending
        raise Refused(404, "That is not pending: it was decided, or its caller no longer waits.")

    async def _page(self, person: str, view: View, open: str) -> Response:
        pending, decided = await self._pending(person), await self._decided(person)
        notice = None
        if open and not any(one.id == open for one in pending):
            notice = self._why_not_pending(decided, open)
        nonce, logins = new_nonce(), login_list(await self._logins(person))

        def body() -> Html:
            listed = [one for one in in_order(pending) if view.admits(one.request, self._shows)]
            shown = [one for one in listed if one.id == open] or listed[view.skip :]
            first = shown[0] if shown else None
            query = view.query(skip=view.skip)
            return filled(
                "page.html",
                person=person,
                token=self._token(person),
                action=f"decide?{query}" if query else "decide",
                notice=element("p", notice, class_="notice", role="status") if notice else None,
                logins=logins,
                list=self._list(person, pending, view, first.id if first else None),
                card=self._card(person, first, query) if first else None,
                count=str(len(pending)),
                decided=decided_list(decided),
            )

        return respond(document(await in_thread(body), nonce=nonce, above=""), nonce=nonce)

    def _list(
        self, person: str, pending: Sequence[PendingApproval], view: View, open: str | None = None
    ) -> Html:
        proof = partial(proof_of_row, self._signer, person)
        return list_of(in_order(pending), view, open, context=self._shows, proof=proof)

    def _card(self, person: str, one: PendingApproval, query: str = "") -> Html:
        return card(one, query=query, context=self._shows, **self._proofs(person, one))

    async def _whole(
        self, person: str, query: dict[str, list[str]], pending: PendingApproval
    ) -> Response:
        """Return all of one request, or the rest of one of its texts."""
        name, start = query.get("part", [""])[-1], whole_number(query, "from")
        proofs = self._proofs(person, pending)
        rest = partial(part, pending, name, start, **proofs)
        all = partial(whole, pending, context=self._shows, **proofs)
        body = await in_thread(rest if name else all)
        if body is None:
            raise Refused(404, "The request does not have this part.")
        return respond(document(body, above="../"))

    async def _was(self, person: str, id: str) -> Response:
        if not (found := [one for one in await self._decided(person) if one.id == id]):
            raise Refused(404, "It is not among the latest decisions.")
        body = await in_thread(lambda: was(found[-1], context=self._shows))
        return respond(document(body, above="../"))

    async def _some(self, person: str, ids: list[str]) -> Response:
        pending = await self._pending(person, ",".join(ids).split(",")[:_MAX_CARDS])
        return respond(await in_thread(lambda: joined(self._card(person, one) for one in pending)))

    def end_streams(self) -> None:
        """End the streams of changes that are open, in the event loop that serves them."""
        for changes in list(self._streams):
            changes.close()

    # --------------------------------------------------------------------- decisions

    def _warn_of_other_token(self, token: str) -> None:
        """Warn of a token that may be of another process, with another secret."""
        if self._is_own_secret and len(token) == len(self._token("")):
            self._is_own_secret = False  # once
            _log.warning(
                "a form of the approval page was refused, because its token was not made here: "
                "several processes that serve the page need one secret, so give the queue "
                "decisions=..., or ApprovalPage(secret=...)"
            )

    async def _decide(self, request: Request, person: str) -> Response:
        form = await form_of(request)
        token = form.get("token", [""])[-1]
        if not self._signer.is_one_of([token], "form", person):
            self._warn_of_other_token(token)
            raise Refused(403, "This page is out of date. Load it again, and decide then.")
        ids = list(dict.fromkeys(form.get("ids", [])))
        if not ids:
            raise Refused(422, "Select a request first.")
        pending = await self._pending(person, ids)
        if len(pending) < len(ids):
            there = {one.id for one in pending}
            await self._too_late(person, ids, [id for id in ids if id not in there])
        decision = decision_of(form, [one.request for one in pending])
        check_several(self._signer, person, form, pending)
        asked = question(self._signer, person, form, pending)
        if asked is not None:
            return _asks(request, asked)
        try:
            if self._queue.waits:
                await in_thread(lambda: self._queue.decide(ids, decision, by=person))
            else:
                self._queue.decide(ids, decision, by=person)
        except NotPending as error:
            await self._too_late(person, ids, list(error.ids))
        if _wants_json(request):
            return respond(json.dumps({"decided": ids}), type="application/json")
        query = View.of(fields_of(request.url.query)).query()
        return respond(status=303, location=f"./?{query}" if query else "./")

    async def _too_late(self, person: str, ids: list[str], missing: list[str]) -> None:
        text = (
            self._why_not_pending(await self._decided(person), missing[0])
            if len(ids) == 1
            else f"{len(missing)} of the {len(ids)} requests are not pending any more, so none was "
            "decided. Look again."
        )
        raise Refused(409, text, gone=missing)

    def _why_not_pending(self, decided: Sequence[DecidedApproval], id: str) -> str:
        by = [one.answer.by or "somebody" for one in decided if one.id == id]
        if by:
            return f"It was decided already, by {by[0]}."
        return "It is not pending any more: it was decided, or its caller no longer waits."


class _Events:
    """A stream of events (HTML Living Standard, 9.2): the pending ids whenever they change."""

    def __init__(self, page: ApprovalPage, person: str) -> None:
        self._page = page
        self._person = person
        self._changes: Watch[Any] | None = None
        self._until = anyio.current_time() + page.stream_seconds
        self._last = ""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        with anyio.CancelScope(deadline=self._until):
            while True:
                if self._changes is None:
                    self._changes = self._page._queue._page_changes()
                    self._page._streams.add(self._changes)
                else:
                    await anext(self._changes)
                event = await self._event()
                if event != self._last:
                    self._last = event
                    return f"retry: {_RETRY_MS}\ndata: {event}\n\n"
        raise StopAsyncIteration

    async def _event(self) -> str:
        page, person = self._page, self._person
        pending, decided = await page._pending(person), await page._decided(person)
        ids, last = [one.id for one in pending], decided[-1].id if decided else ""
        logins, token = mark_of(await page._logins(person)), page._token(person)
        return json.dumps({"ids": ids, "decided": last, "logins": logins, "token": token})


def _asked(one: PendingApproval | DecidedApproval | DeviceLogin) -> Any:
    return getattr(one, "request", one)


def _seen(visible: Visible, person: str, requests: Sequence[T]) -> list[T]:
    seen = []
    for one in requests:
        try:
            if visible(person, _asked(one)) is True:
                seen.append(one)
        except Exception:  # noqa: BLE001 - any failure means no
            _log.exception(_NOT_SHOWN)
    return seen


def _check_site(request: Request) -> None:
    """Refuse requests from other sites, except for the page itself in a tab.

    The headers are the browser's own (Fetch Metadata, and RFC 6454 for ``Origin``).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if request.method != "POST":
        opened = request.headers.get("sec-fetch-dest", "document") in ("", "document")
        allowed = site in (None, "", "none", "same-origin") or opened
    elif site:
        allowed = site == "same-origin"
    else:
        allowed = not origin or urlsplit(origin).netloc == request.headers.get("host")
    if not allowed:
        raise Refused(403, "This request comes from another site.")


def _refusal(request: Request, refused: Refused) -> Response:
    if _wants_json(request):
        body = json.dumps({"error": refused.text, **refused.more})
        return respond(body, refused.status, type="application/json")
    above = "../" * (path_of(request).count("/") - 1)
    shown = message(refused.text, refused.links, back=above or "./")
    return respond(document(shown, above=above), refused.status)


def _asks(request: Request, question: Html) -> Response:
    """Return a question: nothing is decided yet."""
    if _wants_json(request):
        body = json.dumps({"error": "Confirm this first.", "question": question})
        return respond(body, 422, type="application/json")
    return respond(document(question, above=""), 422)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


async def _live(receive: Receive, send: Send) -> None:
    """Handle the lifespan events of a server that runs the page alone."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
