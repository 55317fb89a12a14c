"""The approval page alone, on this machine, for the person who started it.

```python
async with serve_desk(queue) as desk:
    print("Decide at", desk.url)              # opens the page once; desk.invite() returns another
```

The address is for one use: it is exchanged for a cookie of that browser. A person who reads it
afterwards, in a history or over a shoulder, is not let in. The page has a path that is random too,
to which the cookie is limited, because cookies are shared by all ports of a host. Requests under
another host name (one that was made to resolve to this machine) are refused.
"""

from __future__ import annotations

import getpass
import hmac
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

import anyio

from ..approval.queue import ApprovalQueue
from ..errors import ConfigError
from ..runtime.background import BackgroundTasks
from ..runtime.callbacks import in_thread, is_async
from ..runtime.daemon_thread import NoThread, start_thread
from ..runtime.event_loop import Backend, current
from ..runtime.urls import is_loopback
from .http import check_extra, path_of, respond, static
from .inbox import document, message
from .page import ApprovalPage, Receive, Scope, Send, Visible

if TYPE_CHECKING:
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Desk", "serve_desk"]

_COOKIE = "mcp_client_desk"
_CLOSE_SECONDS = 2
_VISIBLE_SECONDS = 30.0
"""The seconds for one response of an async ``visible``, whose event loop may have ended."""
_MAX_CONNECTIONS = 64
_STYLE = "static/desk.css"
_USED = (
    "This address was used already, or is not one of this page. Ask for a new one where the page "
    "was started."
)


class Desk:
    """A page that ``serve_desk`` returns.

    Enter it, or call ``open`` and, in the end, ``aclose``.
    """

    return_seconds: float = 2.0
    """The seconds for which closing waits for a browser without scripts that was just
    redirected."""

    def __init__(
        self, page: ApprovalPage, host: str, port: int, *, key: str, caller: _CallersLoop
    ) -> None:
        self._page, self._host, self._port, self._key = page, host, port, key
        self._root = f"/{secrets.token_urlsafe(16)}"
        self._invitations: set[str] = set()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._caller = caller
        self._return: _Return | None = None
        self.url: str = ""
        """The first address that lets a person in, once the page is served."""

    async def open(self) -> Self:
        """Serve the page. Raises ``ConfigError`` if it cannot listen there."""
        host = "127.0.0.1" if self._host == "localhost" else self._host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, self._port), family=family)
        except OSError as error:
            raise ConfigError(
                f"serve_desk(): cannot listen at {self._host}:{self._port}: {error.strerror}"
            ) from None
        self._port = listener.getsockname()[1]
        self.url = self.invite()
        self._caller.open()
        try:
            self._server = await in_thread(_server_of, self._app, self._page.end_streams)
            self._thread = start_thread(self._server.run, "mcp_client desk", [listener])
        except NoThread:
            listener.close()
            await self._caller.aclose()
            raise
        return self

    def invite(self) -> str:
        """Return an address that lets a person in, once."""
        invitation = secrets.token_urlsafe(24)
        self._invitations.add(invitation)
        return f"http://{self._netloc}/{invitation}"

    async def aclose(self) -> None:
        """Stop serving.

        A person who has just decided in a browser without scripts, and is on the way back to the
        page, gets it first, within ``return_seconds``.
        """
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is None or thread is None:
            return
        with anyio.CancelScope(shield=True):
            if self._return is not None:
                await in_thread(self._return.wait, self.return_seconds)
            server.should_exit = True
            await in_thread(thread.join, 2 * _CLOSE_SECONDS)
            await self._caller.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    @property
    def _netloc(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request

        request = Request(scope)
        path = path_of(request)
        if request.headers.get("host") != self._netloc:
            await _plain_text("This page is not served for that host.", 421)(scope, receive, send)
        elif path == self._root or path.startswith(f"{self._root}/"):
            await self._serve_page(path.removeprefix(f"{self._root}/"), scope, receive, send)
        elif path == f"/{_STYLE}":
            await static("desk.css")(scope, receive, send)  # of the pages that refuse
        elif path in ("/favicon.ico", "/robots.txt"):
            await respond(status=404)(scope, receive, send)
        else:
            await self._let_in(request, path[1:])(scope, receive, send)

    async def _serve_page(self, place: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: MutableMapping[str, Any]) -> None:
            if scope["method"] == "POST" and message.get("status") == 303:
                self._return = _Return()
            await send(message)

        await self._page({**scope, "root_path": self._root}, receive, noting)
        if self._return is not None and scope["method"] == "GET":
            self._return.served(place)

    def _let_in(self, request: Request, invitation: str) -> Response:
        if request.method != "GET" or invitation not in self._invitations:
            return _plain_text(_USED, 403)
        self._invitations.discard(invitation)
        cookie = f"{_COOKIE}={self._key}; HttpOnly; SameSite=Lax; Path={self._root}/"
        return respond(status=303, location=f"{self._root}/", **{"set-cookie": cookie})


class _Return:
    """A browser without scripts, redirected to the page after a decision."""

    def __init__(self) -> None:
        self._page = threading.Event()
        self._style = threading.Event()

    def served(self, place: str) -> None:
        if place in ("", _STYLE):
            (self._style if place else self._page).set()

    def wait(self, seconds: float) -> None:
        """Until it has the page and its style, which some browsers do not ask for."""
        if self._page.wait(seconds):
            self._style.wait(seconds / 4)


class _CallersLoop:
    """The event loop in which the desk was opened.

    An async ``visible`` runs there, and not in the loop of the server, because it may use objects
    of its own loop.
    """

    def __init__(self) -> None:
        self._backend: Backend | None = None
        self._tasks: BackgroundTasks | None = None

    def open(self) -> None:
        self._backend = current()
        self._tasks = BackgroundTasks(self._backend, "the approval page")

    def bound(self, visible: Visible) -> Visible:
        """Call ``visible`` from any thread."""

        def ask(person: str, request: Any) -> bool:
            result: Future[bool] = Future()

            async def run() -> None:
                try:
                    result.set_result(await visible(person, request))  # type: ignore[misc]
                except BaseException as error:
                    result.set_exception(error)
                    raise

            assert self._backend is not None
            assert self._tasks is not None
            tasks = self._tasks
            self._backend.run_soon(lambda: (tasks.start(run), None)[1])
            return result.result(_VISIBLE_SECONDS)  # else TimeoutError, which means no

        return ask

    async def aclose(self) -> None:
        if self._tasks is not None:
            await self._tasks.aclose(_CLOSE_SECONDS)


def serve_desk(
    queue: ApprovalQueue,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    person: str | None = None,
    visible: Visible | None = None,
    show_context: bool = False,
) -> Desk:
    """Return the page for ``queue``, served on this machine until it is closed.

    Args:
        queue: The requests to decide.
        host: A name or an address of this machine.
        port: The port; 0 for a free one.
        person: The name of the person who decides, for the record; by default the user of this
            program.
        visible: As for ``ApprovalPage``.
        show_context: As for ``ApprovalPage``.

    Returns:
        A ``Desk``. Use it with ``async with``; ``desk.url`` opens the page once.

    Raises:
        ConfigError: If an argument is wrong, or if the desk cannot listen at the address.

    Example:
        >>> async with serve_desk(queue) as desk: print(desk.url)
    """
    if not isinstance(host, str) or not is_loopback(host):
        raise ConfigError(
            f"serve_desk(host={host!r}): it is for this machine only; for others, mount "
            "ApprovalPage in an application with a login and TLS"
        )
    if type(port) is not int or not 0 <= port < 65_536:
        raise ConfigError(f"serve_desk(port={port!r}): give 0 to 65535")
    check_extra("serve_desk()", "starlette", "uvicorn")
    name = _user() if person is None else person
    key = secrets.token_urlsafe(32)

    def authorize(scope: Scope) -> str | None:
        return name if _has_cookie(scope, key) else None

    caller = _CallersLoop()
    if visible is not None and is_async(visible):
        visible = caller.bound(visible)
    page = ApprovalPage(queue, authorize=authorize, visible=visible, show_context=show_context)
    return Desk(page, host, port, key=key, caller=caller)


def _has_cookie(scope: Scope, key: str) -> bool:
    """Whether one of the cookies is right: a page of another port may set one of the same name."""
    found = [value for name, value in scope["headers"] if name == b"cookie"]
    pairs = (part.strip().partition(b"=") for header in found for part in header.split(b";"))
    keys = [value for name, _, value in pairs if name == _COOKIE.encode()]
    return any(hmac.compare_digest(value, key.encode()) for value in keys)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "the person at this machine"


def _plain_text(text: str, status: int) -> Response:
    return respond(document(message(text), above="/"), status)


def _server_of(app: Callable[..., Any], end_streams: Callable[[], None]) -> uvicorn.Server:
    """Return uvicorn with h11 alone, which reads a request's head within bounds.

    Its logging is that of the program. Beyond ``_MAX_CONNECTIONS`` the oldest is closed.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    connections: deque[Any] = deque()

    class Connection(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.access_log = False  # it would have the address that lets in
            connections.append(transport)
            if len(connections) > _MAX_CONNECTIONS:
                connections.popleft().abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.transport in connections:
                connections.remove(self.transport)
            super().connection_lost(exc)

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            end_streams()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            interface="asgi3",
            http=Connection,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
    )
