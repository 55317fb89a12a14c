"""Sessions in the shape of the official SDK's; run by the Python that has a version of it.

``python -m tests.interop.official_checks NAME`` makes one check, on asyncio.
"""

# ruff: noqa: PT017 - the Python that runs this has no pytest
from __future__ import annotations

import json
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import anyio

from mcp_client import (
    Allow,
    ConfigError,
    Deny,
    Handlers,
    MemoryServer,
    StdioServer,
    connect,
    sync,
)
from mcp_client.adapters import official
from mcp_client.errors import CallDenied, CallTimeout, ConnectError, McpError, ServerError
from mcp_client.testing import JsonRpcError
from mcp_client.validation import Validation
from tests.support.tasking import CoreTasking

__all__ = ["CHECKS"]

types: Any = import_module("mcp.types")
exceptions: Any = import_module("mcp.shared.exceptions")
SdkError: Any = getattr(exceptions, "MCPError", None) or exceptions.McpError
ERAS = ("handshake", "stateless")
TOOL = {
    "name": "echo",
    "description": "repeats it",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}
MESSAGE = {"role": "user", "content": {"type": "text", "text": "?"}}
CHECKS: dict[str, Callable[[], Awaitable[None]]] = {}


def check(function: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    CHECKS[function.__name__] = function
    return function


class Server:
    """Everything that a framework asks for, in both eras."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.answers: list[Any] = []

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        params = message.get("params", {})
        self.asked.append(message["method"])
        capabilities = {
            **{name: {} for name in ("tools", "prompts", "completions", "logging")},
            "resources": {"subscribe": True},
        }
        if "id" not in message or "method" not in message:
            self.answers.append(message)
            return None
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": capabilities,
                    "serverInfo": {"name": "s", "version": "1"},
                    "instructions": "be kind",
                }
            case "server/discover":
                return {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities,
                    "instructions": "be kind",
                }
            case "tools/list":
                if "cursor" in params:
                    return {"tools": [{**TOOL, "name": "slow"}, {"name": "x", "inputSchema": {}}]}
                return {"tools": [TOOL], "nextCursor": "2", "_meta": {"page": 1}}
            case "tools/call":
                self.calls.append(params)
                return self.called(message, params, send)
            case "resources/list":
                return {"resources": [{"uri": "x://one", "name": "one"}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "x://{a}", "name": "t"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": "read"}]}
            case "prompts/list":
                return {"prompts": [{"name": "p"}]}
            case "prompts/get":
                text = {"type": "text", "text": str(params.get("arguments"))}
                return {"messages": [{"role": "user", "content": text}]}
            case "completion/complete":
                return {"completion": {"values": [params["argument"]["value"] + "x"]}}
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        raise JsonRpcError(-32601, "no such method")

    def called(self, message: dict[str, Any], params: Any, send: Callable[[Any], None]) -> Any:
        if params["name"] == "slow":
            return None
        if params.get("arguments", {}).get("n") == -1:
            raise JsonRpcError(-32050, "the server's words", {"more": 1})
        token = params.get("_meta", {}).get("progressToken")
        reported = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": reported})
        text = json.dumps(params.get("arguments"))
        return {"content": [{"type": "text", "text": text}], "_meta": {"of": "it"}}


async def decide(request: Any) -> Any:
    return Deny("not this number") if dict(request.arguments).get("n") == 13 else Allow()


def opened(server: Any, era: str, **options: Any) -> AbstractAsyncContextManager[Any]:
    target = MemoryServer(server) if callable(server) else server
    return connect(target, revision=era, **{"approval": decide, **options})


def attribute(value: Any, *names: str) -> Any:
    """The member of a result under the name of either generation."""
    return next(getattr(value, name) for name in names if hasattr(value, name))


@check
async def every_list_and_read_gives_the_sdks_types() -> None:
    for era in ERAS:
        async with opened(Server(), era) as session, official.client_session(session) as ours:
            result = await ours.initialize()
            assert isinstance(result, types.InitializeResult)
            assert attribute(result, "protocol_version", "protocolVersion") == ours.protocol_version
            assert ours.get_server_capabilities().tools is not None
            assert result.instructions == ours.instructions == "be kind"
            listed = await ours.list_tools()
            assert isinstance(listed, types.ListToolsResult)
            assert [tool.name for tool in listed.tools] == ["echo", "slow", "x"]
            assert attribute(listed, "next_cursor", "nextCursor") is None
            assert attribute(listed, "meta") == {"page": 1}
            assert attribute(listed.tools[0], "input_schema", "inputSchema") == TOOL["inputSchema"]
            assert [r.name for r in (await ours.list_resources()).resources] == ["one"]
            templates = await ours.list_resource_templates()
            assert len(attribute(templates, "resource_templates", "resourceTemplates")) == 1
            assert (await ours.read_resource("x://one")).contents[0].text == "read"
            assert [p.name for p in (await ours.list_prompts()).prompts] == ["p"]
            prompt = await ours.get_prompt("p", {"a": "b"})
            assert prompt.messages[0].content.text == "{'a': 'b'}"
            ref = types.PromptReference(type="ref/prompt", name="p")
            found = await ours.complete(ref, {"name": "a", "value": "v"}, {"b": "c"})
            assert found.completion.values == ["vx"]
            plain_ref = {"type": "ref/prompt", "name": "p"}
            found = await ours.complete(plain_ref, {"name": "a", "value": "v"})
            assert found.completion.values == ["vx"]
            assert isinstance(await ours.send_ping(), types.EmptyResult)
            await ours.set_logging_level("info")
            await ours.send_roots_list_changed()
            try:
                await ours.list_tools("2")
            except SdkError as error:
                assert error.error.code == -32602
            else:
                raise AssertionError


@check
async def a_call_gives_the_sdks_result() -> None:
    for era in ERAS:
        server, received = Server(), list[Any]()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            received.append((done, total, message))  # noqa: B023

        async with opened(server, era) as session:
            ours = official.client_session(session)
            result = await ours.call_tool(
                "echo", {"n": 1}, timedelta(seconds=5), progress, meta={"own": "yes"}
            )
            assert isinstance(result, types.CallToolResult)
            assert result.content[0].text == '{"n": 1}'
            assert result.meta == {"of": "it"}
            assert not attribute(result, "is_error", "isError")
            assert server.calls[0]["_meta"]["own"] == "yes"
            assert received == [(1, 2, "half")]
            assert (await ours.call_tool("echo")).content[0].text in ("null", "{}")
            assert (await ours.call_tool("echo", {"n": 2}, 5.0)).content[0].text == '{"n": 2}'


@check
async def a_refused_call_is_a_result_for_the_model() -> None:
    server = Server()
    for era in ERAS:
        async with opened(server, era, validation=Validation(arguments="strict")) as session:
            ours = official.client_session(session)
            for name, arguments, reported in (
                ("echo", {"n": 13}, "not this number"),
                ("nothing", {}, "no tool with that name"),
                ("echo", {"n": "text"}, "Correct the arguments"),
            ):
                result = await ours.call_tool(name, arguments)
                assert attribute(result, "is_error", "isError")
                text = result.content[0].text
                assert text.startswith("refused: "), text
                assert text.endswith("; nothing was sent"), text
                assert reported in text, text
    assert server.calls == []


@check
async def with_denied_raise_it_raises_the_sdks_error() -> None:
    server = Server()
    async with opened(server, "handshake") as session:
        ours = official.client_session(session, denied="raise")
        try:
            await ours.call_tool("echo", {"n": 13})
        except SdkError as error:
            assert isinstance(error.__cause__, CallDenied)
            assert "not this number" in error.error.message
        else:
            raise AssertionError
    assert server.calls == []


@check
async def each_error_is_the_sdks_with_ours_as_its_cause() -> None:
    async with opened(Server(), "handshake") as session:
        ours = official.client_session(session)
        for arguments, timeout, kind, code in (
            (("echo", {"n": -1}), None, ServerError, -32050),
            (("slow", {}), 0.05, CallTimeout, getattr(types, "REQUEST_TIMEOUT", 408)),
        ):
            try:
                await ours.call_tool(*arguments, timeout)
            except SdkError as error:
                assert isinstance(error.__cause__, kind), error.__cause__
                assert error.error.code == code
                if kind is ServerError:
                    assert error.error.message == "the server's words"
                    assert error.error.data == {"more": 1}
            else:
                raise AssertionError
    try:
        await ours.list_tools()
    except SdkError as error:
        assert isinstance(error.__cause__, ConnectError)
    else:
        raise AssertionError


@check
async def nothing_passes_the_gate() -> None:
    """Every public method is called without an approval: no ``tools/call`` leaves."""
    server, asked = Server(), list[Any]()

    def refuse(request: Any) -> Any:
        asked.append(request)
        return Deny("no")

    async with opened(server, "handshake", approval=refuse) as session:
        ours = official.client_session(session)
        names = [name for name in dir(ours) if not name.startswith("_")]
        assert not {"send_request", "send_notification"} & set(names)
        await ours.call_tool("echo", {"n": 1})
        try:
            await ours.experimental.call_tool_as_task("echo", {"n": 1})
        except SdkError as error:
            assert isinstance(error.__cause__, CallDenied)
    assert len(asked) == 2
    assert server.calls == []


@check
async def a_blocking_session_works_from_any_thread_and_loop() -> None:
    server = Server()
    with sync.connect(MemoryServer(server), revision="handshake", approval=decide) as session:
        ours = official.client_session(session)
        texts: list[str] = []

        async def one(n: int) -> None:
            assert len((await ours.list_tools()).tools) == 3
            texts.append((await ours.call_tool("echo", {"n": n})).content[0].text)

        threads = [threading.Thread(target=anyio.run, args=(one, n)) for n in (1, 2, 13)]
        for thread in threads:
            thread.start()
        await one(4)
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        with anyio.move_on_after(0.1):
            await ours.call_tool("slow", {})
    assert sorted(texts)[1:] == ['{"n": 1}', '{"n": 2}', '{"n": 4}']
    assert "not this number" in sorted(texts)[0]
    assert len(server.calls) == 4


@check
async def a_resource_is_watched_and_the_sdks_callbacks_are_called() -> None:
    received, logged = list[Any](), list[Any]()
    done = anyio.Event()

    async def on_message(message: Any) -> None:
        received.append(getattr(message, "root", message))
        if len(received) == 3:
            done.set()

    async def on_log(params: Any) -> None:
        logged.append(params)

    server = Server()
    handlers = official.handlers(message_handler=on_message, logging_callback=on_log)
    assert isinstance(handlers, Handlers)
    sends: list[Callable[[Any], None]] = []

    def also(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        sends.append(send)
        return server(message, send)

    async with opened(also, "handshake", handlers=handlers) as session:
        ours = official.client_session(session)
        await ours.subscribe_resource("x://one")
        for method, params in (
            ("notifications/resources/updated", {"uri": "x://one"}),
            ("notifications/message", {"level": "info", "data": "hi"}),
            ("notifications/not-in-the-sdk", {}),
            ("notifications/tools/list_changed", {}),
        ):
            sends[-1]({"jsonrpc": "2.0", "method": method, "params": params})
        with anyio.fail_after(20):
            await done.wait()
        await ours.unsubscribe_resource("x://one")
        with anyio.fail_after(20):
            while "resources/unsubscribe" not in server.asked:
                await anyio.lowlevel.checkpoint()
    assert {one.method for one in received} == {
        "notifications/resources/updated",
        "notifications/message",
        "notifications/tools/list_changed",
    }
    assert logged[0].data == "hi"


@check
async def the_sdks_callbacks_answer_the_server() -> None:
    async def sampling(context: Any, params: Any) -> Any:
        assert isinstance(params, types.CreateMessageRequestParams)
        content = types.TextContent(type="text", text="from the model")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def elicitation(context: Any, params: Any) -> Any:
        assert params.message == "who?"
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def roots(context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv")])

    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("sampling/createMessage", {"messages": [MESSAGE], "maxTokens": 5}),
        (
            "elicitation/create",
            {
                "message": "who?",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        ),
        ("roots/list", {}),
    )
    answers: dict[str, Any] = {}
    server, done = Server(), anyio.Event()

    def asking(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if "method" not in message:
            answers[message["id"]] = message.get("result", message.get("error"))
            if len(answers) == 3:
                done.set()
            return None
        if message["method"] == "notifications/initialized":
            for number, (method, params) in enumerate(asked):
                send({"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": params})
        return server(message, send)

    handlers = official.handlers(
        sampling_callback=sampling, elicitation_callback=elicitation, list_roots_callback=roots
    )
    async with opened(asking, "handshake", handlers=handlers):
        with anyio.fail_after(20):
            await done.wait()
    assert answers["q0"]["content"]["text"] == "from the model"
    assert answers["q1"] == {"action": "accept", "content": {"name": "Ada"}}
    assert answers["q2"]["roots"][0]["uri"] == "file:///srv"


@check
async def a_task_is_started_once_it_is_approved() -> None:
    server = CoreTasking("working", "completed")
    async with opened(server, "handshake") as session:
        tasks = official.client_session(session).experimental
        created = await tasks.call_tool_as_task("slow", {"n": 1}, ttl=5_000)
        assert isinstance(created, types.CreateTaskResult)
        assert server.all("tools/call")[0]["task"] == {"ttl": 5_000}
        id = attribute(created.task, "task_id", "taskId")
        seen = [state async for state in tasks.poll_task(id)]
        assert [state.status for state in seen] == ["working", "completed"]
        result = await tasks.get_task_result(id, types.CallToolResult)
        assert result.content[0].text == "done"
        cancelled = await tasks.cancel_task(id)
        assert cancelled.status == "completed"
        try:
            await tasks.get_task("another")
        except SdkError as error:
            assert error.error.code == -32602
        else:
            raise AssertionError


@check
async def a_task_can_be_polled_by_the_program() -> None:
    server = CoreTasking("working", "working", "completed")
    async with opened(server, "handshake") as session:
        tasks = official.client_session(session).experimental
        id = attribute((await tasks.call_tool_as_task("slow", {})).task, "task_id", "taskId")
        assert [one.status for one in (await tasks.list_tasks()).tasks] == ["working"]
        with anyio.fail_after(20):
            while (await tasks.get_task(id)).status != "completed":
                await anyio.lowlevel.checkpoint()
        assert (await tasks.get_task_result(id)).content[0].text == "done"


@check
async def what_the_sdks_types_refuse_does_not_cost_the_result() -> None:
    odd: dict[str, Any] = {
        "t": {"annotations": [], "title": 5, "_meta": [], "inputSchema": {"type": "object"}}
    }
    results: dict[str, tuple[Any, str]] = {
        "hologram": ({"content": [{"type": "hologram"}, {"type": "text", "text": "x"}]}, "x"),
        "image": ({"content": [{"type": "image", "data": "aGk="}]}, "ImageContent"),
        "audience": (
            {"content": [{"type": "text", "text": "x", "annotations": {"audience": ["robot"]}}]},
            "x",
        ),
        "null": ({"content": None, "structuredContent": {"a": 1}, "isError": None}, '{"a": 1}'),
        "link": ({"content": [{"type": "resource_link", "uri": "a/b"}]}, "a/b"),
        "no address": ({"content": [{"type": "resource", "resource": {"text": "x"}}]}, "x"),
        "list": ({"structuredContent": [1, 2]}, "[1, 2]"),
        "meta": ({"content": [{"type": "text", "text": "x"}], "_meta": "m"}, "x"),
    }
    stated = {
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "tools": True,
            "resources": {},
            "prompts": 1,
            "completions": {},
            "logging": None,
        },
        "serverInfo": {"name": None, "version": 2, "icons": 1},
        "instructions": ["a"],
    }
    block = {"type": "image", "data": "aGk="}

    def respond(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        match message["method"]:
            case "initialize":
                return stated
            case "tools/list":
                return {"tools": [{"name": "t", **odd["t"]}]}
            case "tools/call":
                return results[message["params"]["arguments"]["n"]][0]
            case "resources/read":
                return {"contents": [{"uri": "a/b", "text": "read"}, {"uri": "x://y"}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": block}], "description": 5}
            case "completion/complete":
                return {"completion": {"values": ["v", 1], "total": 1.5}}
        return NotImplemented

    async with opened(respond, "handshake") as session:
        ours = official.client_session(session)
        result = await ours.initialize()
        assert result.capabilities.tools is not None
        assert result.capabilities.logging is None
        assert ours.server_info.version == "2"
        assert [tool.name for tool in (await ours.list_tools()).tools] == ["t"]
        for n, (_, expected) in results.items():
            found = await ours.call_tool("t", {"n": n})
            assert isinstance(found, types.CallToolResult)
            assert expected in repr(found.content), n
        read = (await ours.read_resource("x://y")).contents
        assert [one.text for one in read] == ["read"]
        prompt = await ours.get_prompt("p")
        assert isinstance(prompt.messages[0].content, types.ImageContent)
        ref = types.PromptReference(type="ref/prompt", name="p")
        assert (await ours.complete(ref, {"name": "a", "value": "v"})).completion.values == ["v"]


@check
async def an_error_that_a_callback_returns_is_sent() -> None:
    async def sampling(context: Any, params: Any) -> Any:
        return types.ErrorData(code=-1, message="the user rejected it")

    answers, done = list[Any](), anyio.Event()
    server = Server()

    def asking(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if "method" not in message:
            answers.append(message)
            done.set()
            return None
        if message["method"] == "notifications/initialized":
            params = {"messages": [MESSAGE], "maxTokens": 5}
            send({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params})
        return server(message, send)

    handlers = official.handlers(sampling_callback=sampling)
    async with opened(asking, "handshake", handlers=handlers):
        with anyio.fail_after(20):
            await done.wait()
    assert answers[0]["error"] == {"code": -1, "message": "the user rejected it"}


@check
async def options_of_the_other_generation_are_accepted_if_they_change_nothing() -> None:
    async with opened(Server(), "stateless") as session:
        ours = official.client_session(session)
        more: dict[str, Any] = {"allow_input_required": True, "request_state": None}
        assert not attribute(await ours.call_tool("echo", {}, **more), "is_error", "isError")
        assert len((await ours.read_resource("x://one", **more)).contents) == 1
        assert len((await ours.get_prompt("p", **more)).messages) == 1
        try:
            await ours.call_tool("echo", {}, request_state="s")
        except SdkError as error:
            assert error.error.code == -32602
        else:
            raise AssertionError
        try:
            await ours.call_tool("echo", {}, no_such_option=1)
        except TypeError as error:
            assert "no_such_option" in str(error)
        else:
            raise AssertionError


@check
async def an_http_transport_of_the_sdk_gets_the_headers_of_the_era() -> None:
    received, respond = list[Any](), Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            version = self.headers["MCP-Protocol-Version"]
            received.append((message["method"], version, self.headers["Mcp-Method"]))
            self.reply(message, {"resultType": "complete", **respond(message, lambda _: None)})

        def reply(self, message: Any, result: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = import_module("mcp.client.streamable_http")
    if not hasattr(import_module("mcp.shared.message").ClientMessageMetadata(), "headers"):
        return  # 1.x speaks the handshake era alone, and sets the header by itself
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{httpd.server_port}/mcp"
        server = official.server(lambda: http.streamable_http_client(url))
        async with opened(server, "stateless") as session:
            assert (await session.call_tool("echo", {"n": 1})).text == '{"n": 1}'
        httpd.shutdown()
    assert all((version, sent) == ("2026-07-28", method) for method, version, sent in received)
    assert {method for method, *_ in received} == {"server/discover", "tools/list", "tools/call"}


_STDIO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else:
        result = {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@check
async def a_transport_of_the_sdk_carries_a_session() -> None:
    stdio = import_module("mcp.client.stdio")
    parameters = stdio.StdioServerParameters(command=sys.executable, args=["-c", _STDIO])
    server = official.server(lambda: stdio.stdio_client(parameters))
    async with opened(server, "handshake") as session:
        ours = official.client_session(session)
        assert (await ours.call_tool("echo", {"n": 7})).content[0].text == '{"n": 7}'
    missing = stdio.StdioServerParameters(command="no-such-command-anywhere")
    try:
        await connect(official.server(lambda: stdio.stdio_client(missing)))
    except ConnectError as error:
        assert "cannot open the transport stdio_client" in str(error), str(error)
        assert "no-such-command-anywhere" in str(error), str(error)
    else:
        raise AssertionError
    ends = stdio.StdioServerParameters(command=sys.executable, args=["-c", "input()"])
    try:
        await connect(official.server(lambda: stdio.stdio_client(ends)), revision="handshake")
    except ConnectError as error:
        assert "the transport stdio_client ended" in str(error), str(error)
    else:
        raise AssertionError


@check
async def what_is_no_session_is_refused() -> None:
    for passed in (5, None, connect(StdioServer("x")), MemoryServer(Server())):
        try:
            official.client_session(passed)  # type: ignore[arg-type]
        except ConfigError as error:
            assert "give a session that is open" in str(error) or "not open yet" in str(error)
        else:
            raise AssertionError(passed)
    async with opened(Server(), "handshake") as session:
        try:
            official.client_session(session, denied="ignore")  # type: ignore[arg-type]
        except ConfigError as error:
            assert "give 'result' or 'raise'" in str(error)
        else:
            raise AssertionError


if __name__ == "__main__":
    for name in sys.argv[1:] or CHECKS:
        try:
            anyio.run(CHECKS[name])
        except McpError as error:
            raise SystemExit(f"{name}: {error!r}") from error
        print("passed:", name)
