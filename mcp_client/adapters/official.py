"""A session in the shape of the official SDK's ``ClientSession``, for frameworks that expect one.

```python
async with connect(server, approval=hook) as session:
    tools = await load_mcp_tools(official.client_session(session))  # of langchain-mcp-adapters
```

Every method uses the wrapped session, so every call passes its approval hook, its audit and its
limits. There is no ``send_request``: nothing here reaches a server without the gate.

``server`` accepts a transport of the official SDK, and ``handlers`` its callbacks. This module
needs the package ``mcp``, version 1.24 or newer or 2.x, which is imported on use. Results have that
package's types. What these refuse is left out, or becomes text: see ``official_types``.

A list has all its pages, so its ``nextCursor`` is None and no cursor is valid. Closing is the
host's: leaving ``async with client_session(...)`` does not end the session.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..connection.call_options import CancelToken
from ..errors import (
    CallDenied,
    CallPending,
    ConfigError,
    InvalidArguments,
    InvalidSchema,
    McpError,
    UnknownTool,
)
from ..protocol.canonical_json import plain
from ..runtime.daemon_thread import run_in_thread
from ..runtime.portal import Blocking
from .calls import explain
from .official_sdk import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    handlers,
    official,
    official_error,
    official_error_of,
    server,
)
from .official_types import (
    complete_result,
    fitted,
    initialize_result,
    prompt_result,
    resource_result,
    tool_result,
)

if TYPE_CHECKING:
    from ..session.session import Session

__all__ = ["OfficialSession", "client_session", "handlers", "server"]

T = TypeVar("T")
_log = logging.getLogger("mcp_client")
_NOT_SENT = "Nothing was sent."
_NO_CURSOR = "no cursor is valid: a list has all its pages"


def client_session(
    session: Session | Blocking[Session], *, denied: Literal["result", "raise"] = "result"
) -> OfficialSession:
    """Return ``session`` with the methods and the types of ``mcp.ClientSession``.

    Args:
        session: A session of ``connect``, or of ``mcp_client.sync``: the latter may be used from
            any thread and any event loop, because its calls are waited for in threads.
        denied: What becomes of a call that is not sent because it was refused, waits for approval,
            names an unknown tool, or has invalid arguments or an unusable schema. "result" returns
            a result with ``isError`` and a text for the model; "raise" raises ``mcp.McpError``.

    Returns:
        An object for frameworks that take a ``ClientSession``. Each error of ours becomes
        ``mcp.McpError`` (``mcp.MCPError`` in 2.x), with our error as its ``__cause__``.

    Raises:
        ConfigError: ``denied`` is neither, or the package ``mcp`` is not installed.
    """
    if denied not in ("result", "raise"):
        raise ConfigError(f"client_session(denied={denied!r}): give 'result' or 'raise'")
    if not hasattr(session, "call_tool") or not hasattr(session, "server_response"):
        kind = type(session).__name__
        raise ConfigError(f"client_session({kind}): give a session that is open, of connect()")
    return OfficialSession(session, denied, official("types"))


class OfficialSession:
    """A replacement for ``mcp.ClientSession``, made by ``client_session``."""

    def __init__(self, session: Session | Blocking[Session], denied: str, types: Any) -> None:
        self._session: Any = session
        self._denied = denied
        self._types = types
        self._watched: dict[str, Any] = {}
        self._tasks: dict[str, tuple[Any, str]] = {}

    def __repr__(self) -> str:
        return f"<OfficialSession of {self._session!r}>"

    async def __aenter__(self) -> OfficialSession:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop watching resources. The session stays open: its host closes it."""
        for uri in list(self._watched):
            await self.unsubscribe_resource(uri)

    # -------------------------------------------------------------- the server

    async def initialize(self) -> Any:
        """Return the server's ``InitializeResult``: it has been agreed on already."""
        return self.initialize_result

    @property
    def initialize_result(self) -> Any:
        """The ``InitializeResult``, which in the stateless era is made of ``server/discover``."""
        return initialize_result(self._session)

    def get_server_capabilities(self) -> Any:
        """Return the ``ServerCapabilities``."""
        return self.initialize_result.capabilities

    @property
    def server_capabilities(self) -> Any:
        """The ``ServerCapabilities``, as 2.x has them."""
        return self.get_server_capabilities()

    @property
    def server_info(self) -> Any:
        """The ``Implementation``."""
        result = self.initialize_result
        return getattr(result, "server_info", None) or result.serverInfo

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        version: str = self._session.protocol_version
        return version

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        instructions: str | None = self._session.instructions
        return instructions

    async def send_ping(self, *, meta: Mapping[str, Any] | None = None) -> Any:
        """Ask the server for a sign of life."""
        await self._do(lambda session: session.ping())
        return self._types.EmptyResult()

    async def set_logging_level(self, level: str, *, meta: Mapping[str, Any] | None = None) -> Any:
        """Ask for the server's log lines from ``level`` on."""
        await self._do(lambda session: session.set_log_level(level))
        return self._types.EmptyResult()

    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self._do(lambda session: session.roots_changed())

    # ------------------------------------------------------------------- tools

    async def list_tools(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return every tool as a ``ListToolsResult``."""
        tools = await self._all(lambda session: session.list_tools(), cursor, params)
        listed = (
            {**tool.raw, "inputSchema": tool.input_schema} if tool.bound else tool.raw
            for tool in tools
        )
        return self._listed("Tool", "tools", listed, tools.meta)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: timedelta | float | None = None,
        progress_callback: Callable[..., Awaitable[None]] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        **rounds: Any,
    ) -> Any:
        """Call a tool, if the approval hook of the session allows it.

        Args:
            name: The tool.
            arguments: Its arguments.
            read_timeout_seconds: The timeout of this call: a ``timedelta``, or seconds.
            progress_callback: Called with progress, total and message, in the session's loop.
            meta: Goes into the request's ``_meta``.
            **rounds: The options of 2.x for requests for input, as ``_without_rounds`` has them.

        Returns:
            The ``CallToolResult``.
        """
        _without_rounds(rounds)
        token = CancelToken()
        options: dict[str, Any] = {"timeout": _seconds(read_timeout_seconds), "meta": meta}
        options["on_progress"] = progress_callback
        if isinstance(self._session, Blocking):
            options["cancel"] = token
        try:
            result = await self._do(
                lambda session: session.call_tool(name, arguments, **options), meant=True
            )
        except _Refused as refused:
            return self._refusal(refused.error)
        except BaseException:
            token.cancel("its caller was cancelled")
            raise
        return tool_result(result, self._session.name)

    def _refusal(self, error: McpError) -> Any:
        text = explain(error, "There is no tool with that name.")
        why = text.removeprefix(_NOT_SENT).strip().rstrip(".")
        text = f"refused: {why}" if error.follows else f"refused: {why}; nothing was sent"
        content = [{"type": "text", "text": text}]
        return self._types.CallToolResult.model_validate({"content": content, "isError": True})

    @property
    def experimental(self) -> OfficialTasks:
        """The tasks of 2025-11-25, as 1.x has them."""
        return OfficialTasks(self)

    # --------------------------------------------------- resources, prompts, completion

    async def list_resources(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return every resource as a ``ListResourcesResult``."""
        found = await self._all(lambda session: session.list_resources(), cursor, params)
        return self._listed("Resource", "resources", (one.raw for one in found), found.meta)

    async def list_resource_templates(
        self, cursor: str | None = None, *, params: Any = None
    ) -> Any:
        """Return every resource template as a ``ListResourceTemplatesResult``."""
        found = await self._all(lambda session: session.list_resource_templates(), cursor, params)
        raw = (one.raw for one in found)
        return self._listed("ResourceTemplate", "resourceTemplates", raw, found.meta)

    async def read_resource(
        self, uri: Any, *, meta: Mapping[str, Any] | None = None, **rounds: Any
    ) -> Any:
        """Return the contents of a resource as a ``ReadResourceResult``."""
        _without_rounds(rounds)
        found = await self._do(lambda session: session.read_resource(str(uri), meta=meta))
        return resource_result(found, str(uri), self._session.name)

    async def subscribe_resource(self, uri: Any, *, meta: Mapping[str, Any] | None = None) -> Any:
        """Watch a resource: ``handlers(message_handler=)`` is called when it changes."""
        if str(uri) not in self._watched:

            async def watched(session: Session) -> Any:
                watch = session.subscribe_resource(str(uri))
                await watch.__aenter__()
                return watch

            self._watched[str(uri)] = await self._do(watched)
        return self._types.EmptyResult()

    async def unsubscribe_resource(self, uri: Any, *, meta: Mapping[str, Any] | None = None) -> Any:
        """Stop watching a resource."""
        watch = self._watched.pop(str(uri), None)
        if watch is not None:
            await self._do(lambda _: watch.aclose())
        return self._types.EmptyResult()

    async def list_prompts(self, cursor: str | None = None, *, params: Any = None) -> Any:
        """Return every prompt as a ``ListPromptsResult``."""
        found = await self._all(lambda session: session.list_prompts(), cursor, params)
        return self._listed("Prompt", "prompts", (one.raw for one in found), found.meta)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        **rounds: Any,
    ) -> Any:
        """Return the messages of a prompt as a ``GetPromptResult``."""
        _without_rounds(rounds)
        found = await self._do(lambda session: session.get_prompt(name, arguments, meta=meta))
        return prompt_result(found, self._session.name)

    async def complete(
        self,
        ref: Any,
        argument: Mapping[str, str],
        context_arguments: Mapping[str, str] | None = None,
    ) -> Any:
        """Return what the server suggests for an argument as a ``CompleteResult``."""
        arguments = ref
        if not isinstance(ref, Mapping):
            arguments = ref.model_dump(by_alias=True, mode="json", exclude_none=True)
        found = await self._do(
            lambda session: session.complete(arguments, argument, context_arguments)
        )
        return complete_result(found, self._session.name)

    # ------------------------------------------------------------------- within

    async def _do(self, work: Callable[[Session], Awaitable[T]], *, meant: bool = False) -> T:
        """Do ``work`` with the session, in its own event loop; its errors are the SDK's.

        ``meant``: whether a refusal raises ``_Refused``, unless the host wants an error for it.
        """
        session: Any = self._session
        try:
            if isinstance(session, Blocking):
                run = functools.partial(session._wait_for, work)
                return await run_in_thread(run, abandon_on_cancel=True)
            return await work(session)
        except McpError as error:
            if meant and self._denied == "result" and isinstance(error, _MEANT_FOR_A_MODEL):
                raise _Refused(error) from None
            raise official_error_of(error) from error

    async def _all(
        self, work: Callable[[Session], Awaitable[T]], cursor: str | None, params: Any
    ) -> T:
        """Do ``work``, which gives a whole list. Raises the SDK's error for a cursor."""
        asked = cursor if cursor is not None else getattr(params, "cursor", None)
        if asked is not None:
            raise official_error(INVALID_PARAMS, _NO_CURSOR)
        return await self._do(work)

    def _listed(
        self, kind: str, member: str, entries: Iterable[Mapping[str, Any]], meta: Mapping[str, Any]
    ) -> Any:
        """Return the SDK's result of a list; an entry that its types refuse is left out."""
        made = []
        for entry in entries:
            try:
                made.append(fitted(getattr(self._types, kind), plain(entry), self._session.name))
            except ValueError:
                name = entry.get("name")
                _log.warning("%s: the SDK refuses the %s %r", self._session.name, kind, name)
        found = {member: made, **({"_meta": plain(meta)} if meta else {})}
        return getattr(self._types, f"List{kind}sResult").model_validate(found)


class OfficialTasks:
    """The tasks of a session, as ``ClientSession.experimental`` of 1.x has them."""

    def __init__(self, session: OfficialSession) -> None:
        self._session = session
        self._types = session._types

    async def call_tool_as_task(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: int = 60_000,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool, if the approval hook allows it, and return the ``CreateTaskResult``.

        ``ttl`` is in milliseconds. Raises ``mcp.McpError`` if the call is refused, or if the server
        made no task of it.
        """
        inner = self._session
        task = await inner._do(
            lambda session: session.start_tool(name, arguments, ttl=ttl / 1000, meta=meta)
        )
        if not task.id:
            raise official_error(INVALID_REQUEST, "the tool completed at once: there is no task")
        inner._tasks[task.id] = task, datetime.now(UTC).isoformat()
        return self._types.CreateTaskResult(task=self._wire_task(task, self._types.Task))

    async def get_task(self, task_id: str) -> Any:
        """Ask the server for the status of the task, and return the ``GetTaskResult``."""
        task = self._found(task_id)
        await self._session._do(lambda _: task._refresh())
        return self._wire_task(task, self._types.GetTaskResult)

    async def list_tasks(self, cursor: str | None = None) -> Any:
        """Return the tasks that this session started as a ``ListTasksResult``, as last reported."""
        if cursor is not None:
            raise official_error(INVALID_PARAMS, _NO_CURSOR)
        started = [
            self._wire_task(task, self._types.Task) for task, _ in self._session._tasks.values()
        ]
        return self._types.ListTasksResult(tasks=started)

    async def get_task_result(self, task_id: str, result_type: Any = None) -> Any:
        """Wait for the task and return its result."""
        task = self._found(task_id)
        result = await self._session._do(lambda _: task.result())
        if result_type is None or result_type is self._types.CallToolResult:
            return tool_result(result, task.server)
        return result_type.model_validate(result.raw)

    async def cancel_task(self, task_id: str) -> Any:
        """Ask the server to cancel the task."""
        task = self._found(task_id)
        await self._session._do(lambda _: task.cancel())
        return self._wire_task(task, self._types.CancelTaskResult)

    async def poll_task(self, task_id: str) -> AsyncIterator[Any]:
        """Wait for the end of the task; yield its status before and after."""
        yield await self.get_task(task_id)
        if self._found(task_id).status in ("working", "input_required"):
            task = self._found(task_id)
            try:
                await self._session._do(lambda _: task.result())
            except Exception:  # noqa: BLE001 - get_task_result raises it again
                _log.debug("%s: a task ended in an error", task.server, exc_info=True)
            yield await self.get_task(task_id)

    def _found(self, task_id: str) -> Any:
        if task_id not in self._session._tasks:
            raise official_error(INVALID_PARAMS, "this session started no task with that id")
        return self._session._tasks[task_id][0]

    def _wire_task(self, task: Any, kind: Any) -> Any:
        ttl, now = task._run.state.ttl, datetime.now(UTC).isoformat()
        return kind.model_validate(
            {
                "taskId": task.id,
                "status": task.status,
                "statusMessage": task.status_message,
                "createdAt": self._session._tasks[task.id][1],
                "lastUpdatedAt": now,
                "ttl": None if ttl is None else int(ttl * 1000),
            }
        )


class _Refused(Exception):
    """A call that was not sent; the model gets the reason."""

    def __init__(self, error: McpError) -> None:
        super().__init__()
        self.error = error


_MEANT_FOR_A_MODEL = (CallDenied, CallPending, UnknownTool, InvalidArguments, InvalidSchema)


def _without_rounds(given: Mapping[str, Any]) -> None:
    """Check the options of 2.x for requests for input, which the handlers of the session answer.

    ``allow_input_required`` and ``allow_claimed`` permit results that do not occur here. Raises the
    SDK's error for ``input_responses`` and ``request_state``.
    """
    for option, value in given.items():
        if option in ("input_responses", "request_state"):
            if value is not None:
                text = f"{option}: give Handlers to connect(), which respond in the same call"
                raise official_error(INVALID_PARAMS, text)
        elif option not in ("allow_input_required", "allow_claimed"):
            raise TypeError(f"unexpected keyword argument {option!r}")


def _seconds(timeout: Any) -> float | None:
    """Return the seconds of a ``timedelta``, or a number as it is."""
    seconds: float | None = getattr(timeout, "total_seconds", lambda: timeout)()
    return seconds
