"""The approval page alone, on this machine, for the person who started it.

```python
async with serve_desk(queue) as desk:
    print("Decide at", desk.url)              # opens the page once; desk.invite() gives another
```

The address is for one use: it exchanges itself for a cookie of that browser, and who reads it
afterwards, in a history or over a shoulder, gets in no more. The page stands under a path that is
random too, to which the cookie is limited, for cookies are shared by all ports of a host. Requests
under another host name (one that was made to resolve to this machine) are refused.
"""

from __future__ import annotations

import getpass
import hmac
import secrets
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

from ..approval.queue import ApprovalQueue
from ..errors import ConfigError
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.loopback import is_loopback
from .asgi import Receive, Request, Response, Scope, Send
from .document import document, message
from .http_server import serve_connections
from .page import ApprovalPage, Visible

__all__ = ["Desk", "serve_desk"]

_COOKIE = "mcp_client_desk"
_CLOSE_SECONDS = 2.0
_STYLE = "static/desk.css"
_USED = (
    "This address was used already, or is not one of this page. Ask for a new one where the page "
    "was started."
)


class Desk:
    """What ``serve_desk`` returns: enter it, or call ``open`` and, in the end, ``aclose``."""

    return_seconds = 2.0
    """How long closing waits for a browser without scripts that was just redirected to the page."""

    def __init__(self, page: ApprovalPage, host: str, port: int, key: str) -> None:
        self._page = page
        self._host = host
        self._port = port
        self._key = key
        self._root = f"/{secrets.token_urlsafe(16)}"
        self._invitations: set[str] = set()
        self._listener: Listener[SocketStream] | None = None
        self._tasks: BackgroundTasks | None = None
        self._return: _Return | None = None
        self.url = ""
        """The first address that lets a person in, once the page is served."""

    async def open(self) -> Self:
        """Serve the page. Raises ``ConfigError`` where it cannot listen there."""
        try:
            listener = await anyio.create_tcp_listener(
                local_host="127.0.0.1" if self._host == "localhost" else self._host,
                local_port=self._port,
            )
        except OSError as error:
            raise ConfigError(
                f"serve_desk(): cannot listen at {self._host}:{self._port}: {error.strerror}"
            ) from None
        self._listener = listener
        self._port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
        self.url = self.invite()
        self._tasks = BackgroundTasks(current(), "the approval page")
        self._tasks.start(lambda: serve_connections(listener, self._app))
        return self

    def invite(self) -> str:
        """An address that lets a person in, once."""
        invitation = secrets.token_urlsafe(24)
        self._invitations.add(invitation)
        return f"http://{self._netloc}/{invitation}"

    async def aclose(self) -> None:
        """Stop serving. Somebody who has just decided in a browser without scripts, and is on the
        way back to the page, gets it first, within ``return_seconds``."""
        tasks, listener = self._tasks, self._listener
        self._tasks = self._listener = None
        if tasks is not None and self._return is not None:
            await self._return.over(self.return_seconds)
        if tasks is not None:
            await tasks.aclose(_CLOSE_SECONDS)
        if listener is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await listener.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def _netloc(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = request.path
        if request.header("host") != self._netloc:
            await _said("This page is not served for that host.", 421).send(send)
        elif path == self._root or path.startswith(f"{self._root}/"):
            place = path.removeprefix(f"{self._root}/")
            noting = self._noting_returns(request.method, place, send)
            await self._page({**scope, "root_path": self._root}, receive, noting)
        elif path in ("/favicon.ico", "/robots.txt"):
            await Response(status=404).send(send)
        else:
            await self._let_in(request, path[1:]).send(send)

    def _noting_returns(self, method: str, place: str, send: Send) -> Send:
        """``send``, for an answer to a request of ``place`` of the page."""

        async def noting(message: MutableMapping[str, Any]) -> None:
            if method == "POST" and message.get("status") == 303:
                self._return = _Return()
            await send(message)
            if self._return is not None and method == "GET" and not message.get("more_body", False):
                self._return.served(place, message)

        return noting

    def _let_in(self, request: Request, invitation: str) -> Response:
        if request.method != "GET" or invitation not in self._invitations:
            return _said(_USED, 403)
        self._invitations.discard(invitation)
        cookie = f"{_COOKIE}={self._key}; HttpOnly; SameSite=Lax; Path={self._root}/"
        return Response(status=303, location=f"{self._root}/", cookie=cookie)


class _Return:
    """A browser without scripts, redirected to the page after a decision."""

    def __init__(self) -> None:
        self._page = anyio.Event()
        self._style = anyio.Event()

    def served(self, place: str, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body" and place in ("", _STYLE):
            (self._style if place else self._page).set()

    async def over(self, seconds: float) -> None:
        """Wait until it has the page and its style, which some browsers do not ask for."""
        with anyio.move_on_after(seconds, shield=True):
            await self._page.wait()
            with anyio.move_on_after(seconds / 4):
                await self._style.wait()


def serve_desk(
    queue: ApprovalQueue,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    person: str | None = None,
    visible: Visible | None = None,
    show_context: bool = False,
) -> Desk:
    """The page for ``queue``, served on this machine until it is closed: ``async with`` it.

    ``host`` is a name or address of this machine, ``port`` 0 a free one. ``person`` is who decides,
    for the record; by default the user who runs this program. ``visible`` and ``show_context`` are
    those of ``ApprovalPage``. Raises ``ConfigError`` for a wrong argument, or where it cannot
    listen.
    """
    if not isinstance(host, str) or not is_loopback(host):
        raise ConfigError(
            f"serve_desk(host={host!r}): it is for this machine only; for others, mount "
            "ApprovalPage in an application with a login and TLS"
        )
    if type(port) is not int or not 0 <= port < 65_536:
        raise ConfigError(f"serve_desk(port={port!r}): give 0 to 65535")
    name = _user() if person is None else person
    key = secrets.token_urlsafe(32)

    def authorize(scope: Scope) -> str | None:
        return name if _has_cookie(Request(scope, _nothing).header("cookie"), key) else None

    page = ApprovalPage(queue, authorize=authorize, visible=visible, show_context=show_context)
    return Desk(page, host, port, key)


def _has_cookie(header: str, key: str) -> bool:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    given = [value for name, _, value in pairs if name == _COOKIE]
    return any(hmac.compare_digest(value.encode(), key.encode()) for value in given)


async def _nothing() -> dict[str, object]:
    return {"type": "http.disconnect"}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "the person at this machine"


def _said(text: str, status: int) -> Response:
    return Response(document(message(text)), status=status)
