"""A server made of functions, for users' own tests: ``FakeServer({"read_file": read_file})``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..errors import ConfigError
from ..protocol.capabilities import HANDSHAKE, STATELESS
from ..protocol.metadata import Metadata
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import near
from ..transports.memory import JsonRpcError, MemoryServer
from .annotations import as_json, input_schema, loaded_arguments, output_schema

__all__ = ["FakeServer", "FakeTool"]

_PREFIX = "io.modelcontextprotocol/"
_CHANGED = "notifications/tools/list_changed"


@with_option_names()
@dataclass(frozen=True)
class FakeTool:
    """A function as a tool of a ``FakeServer``, with data that the function does not have.

    Hints count only in a session with ``trusted=True``, as those of any server.
    """

    function: Callable[..., Any]
    """The function, sync or async."""
    _: KW_ONLY
    title: str | None = None
    """A name for people."""
    description: str | None = None
    """The purpose of the tool; by default the docstring of the function."""
    read_only: bool | None = None
    """The hint ``readOnlyHint``."""
    destructive: bool | None = None
    """The hint ``destructiveHint``."""
    idempotent: bool | None = None
    """The hint ``idempotentHint``."""
    open_world: bool | None = None
    """The hint ``openWorldHint``."""


class FakeServer(MemoryServer):
    """A server in this process whose tools are functions.

    ``connect(FakeServer({"add": add}))`` lists a tool ``add`` with the description and the schemas
    that the official Python SDK (FastMCP) makes of the function's docstring and annotations. A call
    runs the function, sync or async, in the event loop of the session. What it returns is the
    result: text as it is, all else as JSON, and structured content if there is an output schema. A
    content block, such as ``TextContent``, is sent as it is. An exception is a result with
    ``is_error``; ``JsonRpcError`` is an error of the server.

    The server speaks every revision; ``connect(..., revision=...)`` chooses one. For a server that
    asks questions, reports progress or breaks rules, give ``MemoryServer`` a function from message
    to result.

    Args:
        tools: Each tool's function, or a ``FakeTool``, by the tool's name.
        identity: A name that distinguishes this server from others, as the command distinguishes
            programs. Two fakes with one identity are one server. Without it, an approval for
            "always" is stored until the session ends.
        name: The server's own name.
        instructions: The server's instructions for a model.

    Raises:
        ConfigError: A parameter's annotation has no JSON schema.

    Example:
        ```python
        def add(a: int, b: int = 1) -> int:
            "Add two numbers."
            return a + b

        server = FakeServer({"add": add})
        async with connect(server, approval=allow_all) as session:
            assert (await session.call_tool("add", {"a": 1})).text == "2"
        assert server.calls == [("add", {"a": 1})]
        ```
    """

    @with_option_names()
    def __init__(
        self,
        tools: Mapping[str, Any] | None = None,
        *,
        identity: str | None = None,
        name: str = "fake",
        instructions: str | None = None,
    ) -> None:
        super().__init__(self._respond, identity=identity)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The name and the arguments of each call that reached the server, in order."""
        if tools is not None and not isinstance(tools, Mapping):
            kind = type(tools).__name__
            raise ConfigError(f"FakeServer({kind}): give a dict from names of tools to functions")
        self._tools = {each: _Tool(each, function) for each, function in (tools or {}).items()}
        self._listening: dict[Any, Callable[[Any], None]] = {}
        """The sessions that get notifications: the id of the subscription and the send function.

        Before 2026-07-28 there is no id.
        """
        self._facts = {"capabilities": {"tools": {"listChanged": True}}}
        if instructions is not None:
            self._facts["instructions"] = instructions  # type: ignore[assignment]
        self._info = {"name": name, "version": "0"}

    def add_tool(self, name: str, tool: Callable[..., Any] | FakeTool) -> None:
        """Add a tool, or replace one, and notify the open sessions. Raises ``ConfigError``."""
        self._tools[name] = _Tool(name, tool)
        self._notify()

    def remove_tool(self, name: str) -> None:
        """Remove a tool, and notify the open sessions. Raises ``ConfigError`` if there is none."""
        if self._tools.pop(name, None) is None:
            raise ConfigError(f"FakeServer has no tool {name!r}{near(name, self._tools)}")
        self._notify()

    def _notify(self) -> None:
        for (_, id), send in list(self._listening.items()):
            notification: dict[str, Any] = {"jsonrpc": "2.0", "method": _CHANGED}
            if id is not None:
                notification["params"] = {"_meta": {_PREFIX + "subscriptionId": id}}
            send(notification)

    async def _respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        params = message.get("params") or {}
        result: Any
        match message.get("method"):
            case "initialize":
                self._listening[send, None] = send
                asked = params.get("protocolVersion")
                revision = asked if asked in HANDSHAKE else HANDSHAKE[0]
                return {"protocolVersion": revision, "serverInfo": self._info, **self._facts}
            case "server/discover":
                result = {"supportedVersions": [*STATELESS, *HANDSHAKE], **self._facts}
                result["_meta"] = {_PREFIX + "serverInfo": self._info}
            case "subscriptions/listen":
                self._listening[send, message["id"]] = send
                notification = {"notifications": params.get("notifications", {})}
                notification["_meta"] = {_PREFIX + "subscriptionId": message["id"]}
                method = "notifications/subscriptions/acknowledged"
                send({"jsonrpc": "2.0", "method": method, "params": notification})
                return None
            case "notifications/cancelled":
                self._listening.pop((send, params.get("requestId")), None)
                return None
            case "ping":
                return {}
            case "tools/list":
                result = {"tools": [tool.definition for tool in list(self._tools.values())]}
            case "tools/call":
                result = await self._call(params["name"], params.get("arguments") or {})
            case _:
                return NotImplemented
        if _PREFIX + "protocolVersion" in params.get("_meta", {}):
            result["resultType"] = "complete"
            if "content" not in result:
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((name, arguments))
        tool = self._tools.get(name)
        try:
            if tool is None:
                return _failed(f"Unknown tool: {name}")
            return await tool.call(arguments)
        except JsonRpcError:
            raise
        except Exception as error:  # noqa: BLE001 - a tool's failure is a result
            return _failed(f"Error executing tool {name}: {error}")


class _Tool:
    """A tool of a fake server, ready to be called."""

    def __init__(self, name: str, function: Callable[..., Any] | FakeTool) -> None:
        tool = function if isinstance(function, FakeTool) else FakeTool(function)
        if not isinstance(name, str) or not callable(tool.function):
            kind = type(tool.function).__name__
            raise ConfigError(
                f"FakeServer: tool {name!r} is a {kind}. Give a function, by its name"
            )
        self._function = tool.function
        schema, self._parameters = input_schema(tool.function, name)
        self._output, self._is_wrapped = output_schema(tool.function, name)
        hints = {
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        }
        members = {
            "name": name,
            "title": tool.title,
            "description": tool.description or getattr(tool.function, "__doc__", None) or "",
            "inputSchema": schema,
            "outputSchema": self._output,
            "annotations": {hint: value for hint, value in hints.items() if value is not None}
            or None,
        }
        self.definition = {key: value for key, value in members.items() if value is not None}

    async def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the function. Raises what it raises; ``TypeError``, ``ValueError`` for arguments."""
        result = self._function(**loaded_arguments(self._parameters, arguments))
        if inspect.isawaitable(result):
            result = await result
        made = {"content": _content(result), "isError": False}
        if self._output is not None:
            made["structuredContent"] = self._structured(result, self._output)
        return made

    def _structured(self, result: Any, schema: dict[str, Any]) -> Any:
        if self._is_wrapped:
            return {"result": as_json(result)}
        value = as_json(result)
        if not isinstance(value, dict):  # an object of an ordinary class
            value = {name: as_json(getattr(result, name)) for name in schema["properties"]}
        return value


def _content(result: Any) -> list[dict[str, Any]]:
    """Return what a function returned as content blocks, as FastMCP does."""
    if result is None:
        return []
    if isinstance(result, Metadata):
        return [dict(result.raw)]
    if isinstance(result, list | tuple):
        return [block for each in result for block in _content(each)]
    if not isinstance(result, str):
        result = json.dumps(as_json(result), indent=2, ensure_ascii=False)
    return [{"type": "text", "text": result}]


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}
