"""MCP Apps: views of tools, which a server sends as HTML and a host shows.

2026-01-26 ``apps`` (SEP-1865), the extension ``io.modelcontextprotocol/ui``. This package does not
render. It provides what a host needs for that, and enforces what the page requires:

- ``ClientInfo(name, version, extensions=[Apps()])`` declares that the host renders; servers may
  then offer other tools. ``tool.ui`` is the view of a tool, and who may call the tool.
- ``await session.read_ui(tool)`` is the document, with the content security policy and the
  permissions to show it with: a ``UiResource``.
- ``session.app(tool)`` lets the view use its own server, and no other: an ``App``.
  A web host passes each message of the view to ``App.handle`` and posts back what it returns.

A view is not trusted more than a model. Its calls pass the same gate, each as a ``ToolCall`` whose
``origin`` is "app". The approval hook, rules (``Rule(origin="app")``) and the audit distinguish the
two origins. A decision that is remembered for calls of one origin does not apply to the other. An
allow rule matches calls of a view only if it has ``origin="app"`` or ``"any"``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias, Unpack

import anyio

from ..catalog.call_values import ToolResult
from ..catalog.finding import Listed
from ..catalog.library import ResourceResult
from ..catalog.tool import Tool
from ..connection.call_options import CallOptions, CancelToken, ReadOptions
from ..errors import (
    CallDenied,
    CallTimeout,
    ConfigError,
    InvalidArguments,
    McpError,
    NotSent,
    ServerError,
    UnknownTool,
)
from ..protocol.offers import Resource
from ..protocol.uris import Address, NotOpenable, address_of
from ..runtime.limits import Limits, RateLimit, Timeouts
from ..runtime.safe_text import safe_text
from .extension import Extension
from .ui_resource import MIME_TYPE, UiResource, has_own_rights

__all__ = ["UI", "App", "Apps", "read_ui"]

UI = "io.modelcontextprotocol/ui"

_log = logging.getLogger("mcp_client")
_INVALID_REQUEST, _UNKNOWN_METHOD, _INVALID_PARAMS, _REFUSED = -32600, -32601, -32602, -32000
_CANCELLED = "the view cancelled it"
_CLOSED = "the view was closed"
_MAX_ID_CHARS = 256

Reply: TypeAlias = dict[str, Any]


class Apps(Extension):
    """The declaration of a host that shows views: for ``ClientInfo(extensions=[Apps()])``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(UI, {"mimeTypes": [MIME_TYPE]})


class ViewedServer(Protocol):
    """A protocol: the part of a ``Session`` that an app needs."""

    name: str
    _limits: Limits

    @property
    def _is_local(self) -> bool: ...

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """Return the server's resources."""
        ...

    async def read_resource(self, uri: str, **options: Unpack[ReadOptions]) -> ResourceResult:
        """Return the contents of a resource of the server."""
        ...

    def _call_as_app(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions
    ) -> Awaitable[ToolResult]: ...


async def read_ui(tool: Tool, server: ViewedServer, timeout: float | Timeouts | None) -> UiResource:
    """See ``Session.read_ui``."""
    uri = _view_of(tool, server.name)
    result = await server.read_resource(uri, timeout=timeout)
    listed = None
    if not has_own_rights(result):
        try:
            resources = await server.list_resources()
        except McpError as error:  # then it gets the rights of a view that asks for none
            _log.debug("%s: cannot list the rights of a view: %s", server.name, error)
        else:
            listed = next((one for one in resources if one.uri == uri), None)
    most = server._limits.view_bytes
    view = UiResource.from_result(result, listed, most=most, local=server._is_local)
    name = safe_text(uri, 200)
    _log.info("%s: %s: Content-Security-Policy: %s", server.name, name, view.csp)
    if view.domains:
        _log.warning("%s: %s may connect to %s", server.name, name, ", ".join(view.domains))
    for finding in view.findings:
        _log.warning("%s: %s: %s", server.name, name, finding)
    return view


class App:
    """A tool's view, with what it may do with its server. Made by ``session.app(tool)``.

    Close it when the view is gone: that cancels its pending requests.
    """

    def __init__(self, tool: Tool, server: ViewedServer, context: Hashable = None) -> None:
        _check(tool, server.name)
        if tool.ui is None or tool.ui.uri is None:
            raise ConfigError(
                "cannot open a view: the tool declares none (tool.ui.uri)",
                server=server.name,
                tool=tool.name,
            )
        self.tool = tool
        """The tool whose view it is."""
        self.context = context
        """The ``context`` of the view's calls that name none."""
        self._server = server
        self._stops: dict[str | int, Callable[[str], None]] = {}
        self._rate = RateLimit(server._limits.view_requests_per_minute)
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<App of {self._server.name}/{safe_text(self.tool.name, 128)}, {state}>"

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> ToolResult:
        """Call a tool of the view's own server, as ``Session.call_tool`` does, for the view.

        Args:
            name: The name of the tool.
            arguments: The arguments, as a mapping.
            options: The options of ``Session.call_tool``. ``context`` is that of the view by
                default.

        Raises:
            NotSent: Before approval is asked, if the server does not have the tool, or if the
                tool's ``ui.visibility`` does not name "app". Otherwise as ``Session.call_tool``.

        The approval hook finds "app" in ``ToolCall.origin``.
        """
        self._check_open()
        if options.get("context") is None:
            options["context"] = self.context
        return await self._server._call_as_app(name, arguments, options)

    async def read_resource(self, uri: str, **options: Unpack[ReadOptions]) -> ResourceResult:
        """Read a resource of the view's own server, as ``Session.read_resource`` does.

        This needs no approval.
        """
        self._check_open()
        if options.get("context") is None:
            options["context"] = self.context
        return await self._server.read_resource(uri, **options)

    def link(self, url: object) -> Address:
        """Return the target of a URL that the view asks to open (``ui/open-link``).

        It has the host and warnings, to show to a person first. Raises ``InvalidArguments`` for a
        URL that must not be opened.
        """
        try:
            return address_of(url)
        except NotOpenable as error:
            raise InvalidArguments(str(error), server=self._server.name) from None

    def close(self) -> None:
        """Cancel the view's pending requests and refuse later ones.

        Call this when the view closes.
        """
        self._closed = True
        for stop in list(self._stops.values()):
            stop(_CLOSED)

    # -------------------------------------------------------- messages of the view

    async def handle(self, message: Any) -> Reply | None:
        """Process one JSON-RPC message of the view, and return what to post back, or None.

        ``tools/call``, ``resources/read`` and ``ping`` are processed here. Nothing else of the view
        reaches the server, and any other request is refused. The host itself processes messages
        whose method begins with ``ui/``: None is returned for them, but ``ui/open-link`` with a URL
        that must not be opened is refused here. None is also returned for what is not JSON-RPC.
        ``notifications/cancelled`` cancels a request of the view. ``Limits.questions`` requests may
        be open at once, and ``Limits.view_requests_per_minute`` may come within a minute.

        This waits as long as the request does, so give each message a task of its own. It raises
        nothing for what the view or the server sends. The view does not learn who refused a call,
        nor why.
        """
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            return None  # scripts in a page post other things to their parent, too
        if "method" not in message and ("result" in message or "error" in message):
            return None  # an answer to the host
        method, id = message.get("method"), message.get("id")
        if type(method) is not str or not method:
            return _error(_usable(id), _INVALID_REQUEST, "the method is not a string")
        params = message.get("params", {})
        if "id" not in message:
            self._hear(method, params)
            return None
        id = _usable(id)
        if id is None:
            return _error(None, _INVALID_REQUEST, "the id is neither a string nor an integer")
        if type(params) is not dict:
            return _error(id, _INVALID_PARAMS, "params is not an object")
        return await self._respond(id, method, params)

    def _hear(self, method: str, params: Any) -> None:
        if type(params) is not dict:
            return
        if method == "notifications/cancelled":
            id = _usable(params.get("requestId"))
            stop = None if id is None else self._stops.get(id)
            if stop is not None:
                stop(_CANCELLED)
        elif method == "notifications/message":
            text = safe_text(params.get("data"), 500)
            _log.debug("%s: the view of %s reports %s", self._server.name, self._tool_name, text)

    async def _respond(self, id: str | int, method: str, params: dict[str, Any]) -> Reply | None:
        if method == "ui/open-link":
            try:
                self.link(params.get("url"))
            except InvalidArguments as error:
                return _error(id, _REFUSED, f"Invalid URL: {error.message}")
        if method.startswith("ui/"):
            return None
        match method:
            case "ping":
                return _result(id, {})
            case "tools/call":
                return await self._request(self._call, id, method, params)
            case "resources/read":
                return await self._request(self._read, id, method, params)
        return _error(id, _UNKNOWN_METHOD, "the host does not answer this method")

    async def _request(
        self,
        work: Callable[[str | int, dict[str, Any]], Awaitable[Reply | None]],
        id: str | int,
        method: str,
        params: dict[str, Any],
    ) -> Reply | None:
        _log.info("%s: the view of %s requests %s", self._server.name, self._tool_name, method)
        if self._closed:
            return _error(id, _REFUSED, _CLOSED)
        if id in self._stops:
            return _error(id, _INVALID_REQUEST, "a request with this id is under way")
        if len(self._stops) >= self._server._limits.questions:
            return _error(id, _REFUSED, "too many requests are under way")
        now = anyio.current_time()
        if not self._rate.allows(now):
            return _error(id, _REFUSED, "too many requests within a minute")
        self._rate.count(now)
        try:
            return await work(id, params)
        except McpError as error:
            code, text = _code_and_text(error)
            return _error(id, code, text)
        finally:
            self._stops.pop(id, None)

    async def _call(self, id: str | int, params: dict[str, Any]) -> Reply | None:
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str or not (arguments is None or type(arguments) is dict):
            return _error(id, _INVALID_PARAMS, "give a name and an object of arguments")
        token = CancelToken()
        self._stops[id] = token.cancel
        try:
            result = await self.call_tool(name, arguments, cancel=token)
        except McpError:
            if token.cancelled:
                return None
            raise
        return _result(id, result.raw)

    async def _read(self, id: str | int, params: dict[str, Any]) -> Reply | None:
        uri = params.get("uri")
        if type(uri) is not str:
            return _error(id, _INVALID_PARAMS, "give a uri")
        with anyio.CancelScope() as scope:
            self._stops[id] = lambda reason: scope.cancel()
            return _result(id, dict((await self.read_resource(uri)).raw))
        return None

    @property
    def _tool_name(self) -> str:
        return safe_text(self.tool.name, 128)

    def _check_open(self) -> None:
        if self._closed:
            raise NotSent(f"nothing was sent: {_CLOSED}", server=self._server.name)


def _view_of(tool: Tool, server: str) -> str:
    """Return the URI of its view. Raises ``InvalidArguments`` if it has none on this server."""
    _check(tool, server)
    view = tool.ui
    if view is None or view.uri is None:
        raise InvalidArguments("the tool has no view", server=server, tool=tool.name)
    return view.uri


def _check(tool: object, server: str) -> None:
    if not isinstance(tool, Tool):
        raise InvalidArguments(
            f"the tool is a {type(tool).__name__}: give a Tool of list_tools()", server=server
        )
    if tool.server != server:
        raise InvalidArguments(
            f"the tool is one of the server {tool.server!r}: views call only their own server",
            server=server,
        )


def _usable(id: Any) -> str | int | None:
    if type(id) is str:
        return id if len(id) <= _MAX_ID_CHARS else None
    return id if type(id) is int else None


def _code_and_text(error: McpError) -> tuple[int, str]:
    """Return the code and text of an error for the view.

    A view is the server's code, so the text contains no details of the host.
    """
    match error:
        case UnknownTool():
            return _INVALID_PARAMS, "unknown tool"
        case InvalidArguments():
            return _INVALID_PARAMS, "invalid arguments"
        case CallDenied():
            return _REFUSED, "the call was not approved"
        case NotSent():
            return _REFUSED, "the request was not sent"
        case CallTimeout():
            return _REFUSED, "the request timed out"
        case ServerError():
            text = (
                safe_text(error.server_message, 500, lines=True) or "the server refused the request"
            )
            return _REFUSED if error.code is None else error.code, text
    return _REFUSED, "the request failed"


def _result(id: str | int, result: Mapping[str, Any]) -> Reply:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: str | int | None, code: int, text: str) -> Reply:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}
