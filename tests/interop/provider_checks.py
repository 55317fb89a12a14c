"""What is checked with the providers' own packages; run by their Python, see ``test_providers``.

``python -m tests.interop.provider_checks TOOLS`` runs every check and writes a line of JSON for
each: its name and what is wrong, which is empty where nothing is. TOOLS is a file with the
definitions that real servers list. The clients of the packages are real, too: their HTTP goes to a
function here, which answers as the service would.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from mcp_client import MemoryServer, allow_all, connect
from mcp_client.adapters import anthropic, gemini, openai_chat, openai_responses
from mcp_client.catalog.tool import Tool
from tests.adapters.zoo import ZOO
from tests.interop import agent_checks, message_checks
from tests.support.worlds import IMAGE

__all__ = ["CHECKS"]

ARGUMENTS = {"text": "hello", "pictures": 1}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"text": {"type": "string"}, "pictures": {"enum": [0, 1]}},
    "required": ["text"],
}


def tools() -> list[Tool]:
    listed = json.loads(Path(sys.argv[1]).read_text())
    listed += [{"name": f"zoo {name}", "inputSchema": schema} for name, schema in ZOO.items()]
    return [Tool(one["name"], "server", False, one) for one in listed]


def kits(module: Any) -> Iterator[Any]:
    yield module.toolset(tools())
    yield module.toolset(tools(), strict=True)
    yield module.toolset(tools(), search=True, strict=True, always=["*echo"], large_results="keep")


def searched(module: Any) -> Iterator[Any]:
    """The declarations for the provider's own search, that of its tool first."""
    for strict in (False, True):
        own, *declared = module.toolset(tools(), search="native", strict=strict).tools
        assert all(tool["defer_loading"] is True for tool in declared)
        yield from (own, *declared)


@cache
def adapter(module: str, name: str) -> Any:
    return import_module("pydantic").TypeAdapter(getattr(import_module(module), name))


# ---------------------------------------------------------------------- declarations


def chat_tools_are_those_of_the_openai_package() -> None:
    for kit in kits(openai_chat):
        for tool in kit.tools:
            kind = adapter("openai.types.chat", "ChatCompletionToolParam")
            assert kind.validate_python(tool, strict=True) == tool


def responses_tools_are_those_of_the_openai_package() -> None:
    for kit in kits(openai_responses):
        for tool in kit.tools:
            kind = adapter("openai.types.responses", "FunctionToolParam")
            assert kind.validate_python(tool, strict=True) == tool


def messages_tools_are_those_of_the_anthropic_package() -> None:
    for kit in kits(anthropic):
        for tool in kit.tools:
            kind = adapter("anthropic.types", "ToolParam")
            assert kind.validate_python(tool, strict=True) == tool


def gemini_tools_and_their_schemas_are_those_of_the_google_genai_package() -> None:
    types = import_module("google.genai.types")
    for kit in kits(gemini):
        types.GenerateContentConfig.model_validate({"tools": kit.tools})
        (tool,) = kit.tools
        for declaration in types.Tool.model_validate(tool).function_declarations:
            types.Schema.model_validate(declaration.parameters_json_schema)


def what_a_provider_searches_is_of_its_types() -> None:
    openai = adapter("openai.types.responses", "ToolParam")
    for tool in searched(openai_responses):
        assert openai.validate_python(tool, strict=True) == tool
    anthropic_ = adapter("anthropic.types", "ToolUnionParam")
    for tool in searched(anthropic):
        assert anthropic_.validate_python(tool, strict=True) == tool


def strict_tools_are_as_many_as_anthropic_takes_in_one_request() -> None:
    def cost(schema: Any) -> tuple[int, int]:
        if isinstance(schema, list):
            inner = [cost(one) for one in schema]
            return sum(one for one, _ in inner), sum(one for _, one in inner)
        if not isinstance(schema, dict):
            return 0, 0
        optional, unions = cost(list(schema.values()))
        optional += len(set(schema.get("properties", ())) - set(schema.get("required", ())))
        is_union = "anyOf" in schema or isinstance(schema.get("type"), list)
        return optional, unions + is_union

    for options in ({}, {"search": "native"}, {"search": True, "always": ["*"]}):
        kit = anthropic.toolset(tools(), strict=True, **options)
        strict = [tool for tool in kit.tools if tool.get("strict")]
        optional, unions = cost([tool["input_schema"] for tool in strict])
        assert len(strict) == 20
        assert optional <= 24
        assert unions <= 16
        loose = len(kit.names) - sum(tool["name"] in kit.names for tool in strict)
        assert sum("it is not strict" in one for one in kit.changes) >= loose


def strict_schemas_are_what_the_openai_package_would_make_of_them() -> None:
    make = import_module("openai.lib._pydantic")._ensure_strict_json_schema
    found = 0
    for tool in openai_chat.toolset(tools(), strict=True).tools:
        if tool["function"].get("strict"):
            schema = tool["function"]["parameters"]
            assert make(copy.deepcopy(schema), path=(), root=schema) == schema, tool
            found += 1
    assert found > 10


def strict_schemas_have_nothing_that_the_anthropic_package_would_take_out() -> None:
    transform = import_module("anthropic").transform_schema
    found = 0
    for tool in anthropic.toolset(tools(), strict=True).tools:
        if tool.get("strict"):
            schema = tool["input_schema"]
            assert _descriptions(transform(schema)) == _descriptions(schema), tool
            found += 1
    assert found > 10


def _descriptions(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["description"]] if isinstance(schema.get("description"), str) else []
        return own + [text for value in schema.values() for text in _descriptions(value)]
    if isinstance(schema, list):
        return [text for value in schema for text in _descriptions(value)]
    return []


# ------------------------------------------------------------------------ round trips


def _server(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            names = ("echo", "fail")
            return {"tools": [{"name": name, "inputSchema": SCHEMA} for name in names]}
        case "tools/call":
            params = message["params"]
            assert params["arguments"] == ARGUMENTS
            text = {"type": "text", "text": params["arguments"]["text"]}
            if params["name"] == "fail":
                return {"content": [text], "isError": True}
            picture = {"type": "image", "data": IMAGE, "mimeType": "image/png"}
            return {"content": [text, picture]}
    return NotImplemented


class Service:
    """A provider's service: answers every request with ``answer``, and keeps the requests."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        self.requests: list[dict[str, Any]] = []

    def client(self) -> Any:
        httpx = import_module("httpx2")
        return httpx.Client(transport=httpx.MockTransport(self._respond))

    def _respond(self, request: Any) -> Any:
        self.requests.append(json.loads(request.content))
        return import_module("httpx2").Response(200, json=self.response)


def _made(module: Any, first: Callable[[Any], Any], search: Any = False) -> list[dict[str, Any]]:
    """The messages for the calls in the provider's own object, which ``first`` gets for a kit."""

    async def run() -> list[dict[str, Any]]:
        async with connect(MemoryServer(_server), name="desk", approval=allow_all) as session:
            kit = module.toolset(await session.list_tools(), search=search)
            response = first(kit)
            assert [call.name for call in kit.calls(response)] == ["echo", "fail"]
            found: list[dict[str, Any]] = await kit.run(session, response)
            return found

    return anyio.run(run)


def a_round_trip_through_openai_chat() -> None:
    def call(id: str, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
        return {"id": id, "type": "function", "function": function}

    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [call("1", "echo"), call("2", "fail")],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
    service = Service(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    client = import_module("openai").OpenAI(api_key="x", http_client=service.client())
    messages: list[Any] = [{"role": "user", "content": "go"}]

    def first(kit: Any) -> Any:
        response = client.chat.completions.create(model="m", messages=messages, tools=kit.tools)
        messages.append(response.choices[0].message)
        return response

    messages += _made(openai_chat, first)
    client.chat.completions.create(model="m", messages=messages)
    sent = service.requests[1]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "tool"]
    assert [one.get("tool_call_id") for one in sent[2:]] == ["1", "2"]
    assert "hello\n[image, image/png, 70 bytes]\n[end " in sent[2]["content"]
    assert sent[3]["content"].startswith("The tool reported an error.")
    for one in messages[2:]:
        adapter("openai.types.chat", "ChatCompletionToolMessageParam").validate_python(one)


def a_round_trip_through_openai_responses() -> None:
    def call(id: str, name: str) -> dict[str, Any]:
        kind, arguments = "function_call", json.dumps(ARGUMENTS)
        return {"type": kind, "id": f"f{id}", "call_id": id, "name": name, "arguments": arguments}

    by_server = {"id": "s", "execution": "server", "call_id": None, "status": "completed"}
    found = {"type": "function", "name": "echo", "parameters": SCHEMA, "strict": False}
    search = [
        {"type": "tool_search_call", **by_server, "arguments": {"paths": ["echo"]}},
        {"type": "tool_search_output", **by_server, "tools": [found]},
    ]
    service = Service(
        {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "output": [*search, call("1", "echo"), call("2", "fail")],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    client = import_module("openai").OpenAI(api_key="x", http_client=service.client())
    items: list[Any] = [{"role": "user", "content": "go"}]

    def first(kit: Any) -> Any:
        response = client.responses.create(model="m", input=items, tools=kit.tools)
        items.extend(response.output)
        return response

    answers = _made(openai_responses, first, search="native")
    client.responses.create(model="m", input=[*items, *answers])
    assert [one["type"] for one in service.requests[0]["tools"]][:2] == ["tool_search", "function"]
    sent = service.requests[1]["input"]
    assert [one.get("type", "") for one in sent][1:3] == ["tool_search_call", "tool_search_output"]
    assert [one.get("call_id") for one in sent[3:]] == ["1", "2", "1", "2"]
    parts = [part["type"] for part in sent[5]["output"]]
    assert parts == ["input_text", "input_image", "input_text"]
    assert sent[6]["output"].startswith("The tool reported an error.")
    for one in answers:
        kind = adapter("openai.types.responses.response_input_item_param", "FunctionCallOutput")
        kind.validate_python(one, strict=True)


def a_round_trip_through_anthropic() -> None:
    def call(id: str, name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": id, "name": name, "input": ARGUMENTS}

    references = [{"type": "tool_reference", "tool_name": "echo"}]
    found = {"type": "tool_search_tool_search_result", "tool_references": references}
    name = "tool_search_tool_bm25"
    search = [
        {"type": "text", "text": "well"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {"query": "echo"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
    ]
    service = Service(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [*search, call("1", "echo"), call("2", "fail")],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    client = import_module("anthropic").Anthropic(api_key="x", http_client=service.client())
    messages: list[Any] = [{"role": "user", "content": "go"}]
    passed = {"model": "m", "max_tokens": 9}

    def first(kit: Any) -> Any:
        response = client.messages.create(messages=messages, tools=kit.tools, **passed)
        messages.append({"role": "assistant", "content": response.content})
        return response

    messages += _made(anthropic, first, search="native")
    client.messages.create(messages=messages, **passed)
    assert service.requests[0]["tools"][0]["name"] == "tool_search_tool_bm25"
    sent = service.requests[1]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    good, bad = sent[2]["content"]
    assert (good["tool_use_id"], bad["tool_use_id"]) == ("1", "2")
    assert [part["type"] for part in good["content"]] == ["text", "image", "text"]
    assert "is_error" not in good
    assert bad["is_error"] is True
    for block in (good, bad):
        adapter("anthropic.types", "ToolResultBlockParam").validate_python(block)


def a_round_trip_through_gemini() -> None:
    def part(id: str, name: str) -> dict[str, Any]:
        return {"functionCall": {"id": id, "name": name, "args": ARGUMENTS}}

    content = {"role": "model", "parts": [part("1", "echo"), part("2", "fail")]}
    service = Service({"candidates": [{"content": content, "finishReason": "STOP"}]})
    genai, types = import_module("google.genai"), import_module("google.genai.types")
    options = types.HttpOptions(httpx_client=service.client())
    client = genai.Client(api_key="x", http_options=options)
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]

    def first(kit: Any) -> Any:
        config = {"tools": kit.tools, "automatic_function_calling": {"disable": True}}
        generate = client.models.generate_content
        response = generate(model="m", contents=contents, config=config)
        contents.append(response.candidates[0].content)
        return response

    contents += _made(gemini, first)
    client.models.generate_content(model="m", contents=contents)
    sent = service.requests[1]["contents"]
    assert [one["role"] for one in sent] == ["user", "model", "user"]
    good, bad = [one["functionResponse"] for one in sent[2]["parts"]]
    assert (good["id"], good["name"]) == ("1", "echo")
    assert "output" in good["response"]
    assert len(good["parts"]) == 1
    assert (bad["id"], bad["name"]) == ("2", "fail")
    assert "error" in bad["response"]
    read = types.Content.model_validate(contents[2]).parts[0].function_response
    assert read.parts[0].inline_data.data.startswith(b"\x89PNG")


# --------------------------------------------------------------------------- examples


def _example(name: str) -> str:
    done = subprocess.run(
        [sys.executable, f"examples/agents/{name}.py"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def the_bridge_to_the_anthropic_runner_runs() -> None:
    assert "text='Partly cloudy.'" in _example("bridge_anthropic_runner")


def the_bridge_to_openai_agents_runs() -> None:
    reported = _example("bridge_openai_agents")
    assert "Oslo: 22.5 °C" in reported
    assert reported.endswith("Partly cloudy.\n")


def the_bridge_to_pydantic_ai_runs() -> None:
    reported = _example("bridge_pydantic_ai")
    assert "partly cloudy" in reported
    assert "Alarm set for a." in reported


def the_bridge_to_langchain_runs() -> None:
    assert "Oslo: 22.5 °C" in _example("bridge_langchain")


def each_user_of_the_web_app_decides_their_own_calls_only() -> None:
    httpx = import_module("httpx")
    app = import_module("examples.agents.agent_with_users").app
    reported: dict[str, str] = {}

    async def talk(web: Any, name: str) -> None:
        reported[name] = (await web.post("/chat", params={"question": "x"})).json()

    async def person(name: str, allow: bool, all_asked: Callable[[str], Any]) -> None:
        cookies = {"user": name}
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(base_url="http://app", cookies=cookies, transport=transport)
        async with client as web, anyio.create_task_group() as group:
            group.start_soon(talk, web, name)
            while not (mine := (await web.get("/pending")).json()):
                await anyio.sleep(0.01)
            (one,) = mine
            assert one["arguments"] == {"location": "Oslo"}
            other = await all_asked(one["id"])
            stolen = await web.post("/decide", params={"id": other, "allow": True})
            assert stolen.status_code == 404
            done = await web.post("/decide", params={"id": one["id"], "allow": allow})
            assert done.status_code == 200

    async def run() -> None:
        ids: list[str] = []
        both = anyio.Event()

        async def all_asked(id: str) -> str:
            ids.append(id)
            if len(ids) == 2:
                both.set()
            await both.wait()
            return ids[1 - ids.index(id)]

        with anyio.fail_after(60):
            async with app.router.lifespan_context(app), anyio.create_task_group() as group:
                group.start_soon(person, "ana", True, all_asked)
                group.start_soon(person, "ben", False, all_asked)

    anyio.run(run)
    assert "\nAlarm set for Oslo.\n" in reported["ana"], reported
    assert "the user denied" in reported["ben"]


CHECKS: dict[str, Callable[[], None]] = (
    {
        check.__name__: check
        for check in (
            chat_tools_are_those_of_the_openai_package,
            responses_tools_are_those_of_the_openai_package,
            messages_tools_are_those_of_the_anthropic_package,
            gemini_tools_and_their_schemas_are_those_of_the_google_genai_package,
            what_a_provider_searches_is_of_its_types,
            strict_tools_are_as_many_as_anthropic_takes_in_one_request,
            strict_schemas_are_what_the_openai_package_would_make_of_them,
            strict_schemas_have_nothing_that_the_anthropic_package_would_take_out,
            a_round_trip_through_openai_chat,
            a_round_trip_through_openai_responses,
            a_round_trip_through_anthropic,
            a_round_trip_through_gemini,
            the_bridge_to_the_anthropic_runner_runs,
            the_bridge_to_openai_agents_runs,
            the_bridge_to_pydantic_ai_runs,
            the_bridge_to_langchain_runs,
            each_user_of_the_web_app_decides_their_own_calls_only,
        )
    }
    | agent_checks.CHECKS
    | message_checks.CHECKS
)


def main() -> None:
    for name, check in CHECKS.items():
        try:
            check()
            problem = ""
        except Exception:
            problem = traceback.format_exc()
        print(json.dumps([name, problem]), flush=True)


if __name__ == "__main__":
    main()
