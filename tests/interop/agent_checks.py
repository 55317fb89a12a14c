"""The agents of ``examples/`` beside the real clients of the providers, and the app with users in
two processes; run by the Python that has these packages, see ``provider_checks``.

The clients speak HTTP to a server here, which answers as the service would, with every member that
a response of the service has.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import anyio

__all__ = ["CHECKS"]

OSLO = {"location": "Oslo"}
LOOK, WAKE = "weather__get_weather", "weather__set_alarm"
KEYS = ("OPENAI", "ANTHROPIC", "GEMINI")


class Service:
    """A provider's service: answers each request with the next of ``answers``, keeps requests."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, service: Service, *arguments: Any) -> None:
        self.service = service
        super().__init__(*arguments)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.service.requests.append(json.loads(self.rfile.read(length)))
        body = json.dumps(self.service.answers.pop(0)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _ran(example: str, service: Service, path: str = "") -> str:
    with service.running() as url:
        keys = {f"{name}_API_KEY": "x" for name in KEYS}
        urls = {f"{name}_BASE_URL": url + path for name in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI")}
        env = {**os.environ, **keys, **urls}
        for name in KEYS:
            env.pop(f"{name}_MODEL", None)
        words = [sys.executable, f"examples/agents/{example}.py"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    assert not service.answers, "the example did not ask for every answer"
    return done.stdout


def _assert_explained(reported: str) -> None:
    assert "Oslo: 22.5 °C, partly cloudy" in reported, reported
    assert "The call was not approved: the neighbours sleep." in reported, reported


# ------------------------------------------------------------------------------- agents


def _completion(*calls: tuple[str, dict[str, Any]], text: str | None = None) -> dict[str, Any]:
    # The service sends every member, null if it has no value.
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(passed)},
            }
            for name, passed in calls
        ]
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "logprobs": None, "message": message}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "service_tier": "default", "usage": None}


def the_agent_on_openai_chat_runs_with_the_real_client() -> None:
    service = Service(_completion((LOOK, OSLO), (WAKE, OSLO)), _completion(text="Partly cloudy."))
    _assert_explained(_ran("agent_openai", service))
    kind = _adapter("openai.types.chat", "ChatCompletionMessageParam")
    for message in service.requests[1]["messages"]:
        kind.validate_python(message)
    shared = import_module("openai.types.shared")
    assert service.requests[0]["model"] in get_args(shared.ChatModel)


def the_agent_on_anthropic_runs_with_the_real_client() -> None:
    def message(reason: str, *content: dict[str, Any]) -> dict[str, Any]:
        head = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        usage = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0}
        ending = {"stop_reason": reason, "stop_sequence": None, "usage": usage}
        return {**head, "content": list(content), **ending}

    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": n, "input": OSLO} for n in (LOOK, WAKE)
    ]
    text = {"type": "text", "text": "Partly cloudy.", "citations": None}
    service = Service(message("tool_use", text, *calls), message("end_turn", text))
    _assert_explained(_ran("agent_anthropic", service))
    kind = _adapter("anthropic.types", "MessageParam")
    for one in service.requests[1]["messages"]:
        kind.validate_python(one)
    model = service.requests[0]["model"]
    assert model in get_args(get_args(import_module("anthropic.types.model").Model)[0])
    withdrawn = import_module("anthropic.resources.messages.messages").DEPRECATED_MODELS
    assert model not in withdrawn, "it is withdrawn soon: name another one"


def the_agent_on_gemini_runs_with_the_real_client() -> None:
    def response(*parts: dict[str, Any]) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}

    calls = [{"functionCall": {"id": name, "name": name, "args": OSLO}} for name in (LOOK, WAKE)]
    service = Service(response(*calls), response({"text": "Partly cloudy."}))
    _assert_explained(_ran("agent_gemini", service))
    kind = import_module("google.genai.types").Content
    for content in service.requests[1]["contents"]:
        kind.model_validate(content)


def the_agent_with_tool_search_runs_with_the_real_client() -> None:
    def response(**item: Any) -> dict[str, Any]:
        head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "error": None}
        rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {**head, **rest, "output": [{"id": "i", "status": "completed", **item}]}

    def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
        kind = "function_call"
        return response(type=kind, call_id=id, name=name, arguments=json.dumps(arguments))

    text: dict[str, Any] = {
        "type": "output_text",
        "text": "Partly cloudy.",
        "annotations": [],
        "logprobs": None,
    }
    service = Service(
        call("1", "search_tools", {"query": "weather at a place"}),
        call("2", "call_tool", {"name": LOOK, "arguments": OSLO}),
        response(type="message", role="assistant", content=[text]),
    )
    reported = _ran("agent_with_tool_search", service)
    assert "Oslo: 22.5 °C" in reported
    assert "Partly cloudy." in reported
    kind = _adapter("openai.types.responses", "ResponseInputItemParam")
    for item in service.requests[2]["input"]:
        kind.validate_python(item)


def the_agent_with_large_results_runs_with_the_real_client() -> None:
    read = {"name": "plant__read_log", "arguments": {"day": "Monday"}}
    service = Service(
        _completion(("search_tools", {"query": "read the log"})),
        _completion(("call_tool", read)),
        _completion(text="All is well."),
    )
    reported = _ran("agent_with_large_results", service)
    assert reported.endswith("All is well.\n")
    displayed = service.requests[2]["messages"][-1]["content"]
    assert len(displayed) < 3_000
    assert 'read_result(handle="' in displayed


def _adapter(module: str, name: str) -> Any:
    return import_module("pydantic").TypeAdapter(getattr(import_module(module), name))


# ----------------------------------------------------------------------- the app with users


def two_workers_of_the_app_share_what_its_users_decide() -> None:
    with tempfile.TemporaryDirectory() as directory, socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        words = [sys.executable, "-m", "uvicorn", "examples.agents.agent_with_users:app"]
        options = ["--workers", "2", "--port", str(port), "--timeout-graceful-shutdown", "5"]
        env = {**os.environ, "AGENT_STATE": directory}
        app = subprocess.Popen([*words, *options], env=env, stdout=sys.stderr)
        try:
            anyio.run(_people, f"http://127.0.0.1:{port}", app)
        finally:
            app.terminate()
            app.wait(30)
        verify = import_module("mcp_client.audit").verify_audit
        assert not verify(Path(directory) / "audit.jsonl").open_calls


async def _people(url: str, app: subprocess.Popen[bytes]) -> None:
    httpx = import_module("httpx")

    def browser(user: str) -> Any:
        cookies = {"user": user} if user else {}
        # Each request has a connection of its own, so that either worker may get it.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=url, cookies=cookies, limits=limits, timeout=60)

    async def pending(web: Any, count: int) -> list[Any]:
        while len(found := (await web.get("/pending")).json()) != count:
            await anyio.sleep(0.05)
        return list(found)

    async def chat(web: Any, reported: list[str]) -> None:
        reported.append((await web.post("/chat", params={"question": "Wake Oslo"})).json())

    with anyio.fail_after(90):
        async with browser("") as no_one, browser("ana") as ana, browser("ben") as ben:
            while True:
                try:
                    assert (await no_one.get("/pending")).status_code == 401
                    break
                except httpx.ConnectError:
                    await anyio.sleep(0.05)
            assert (await no_one.get("/approvals/")).status_code == 403
            reported: list[str] = []
            async with anyio.create_task_group() as group:
                group.start_soon(chat, ana, reported)
                (one,) = await pending(ana, 1)
                assert await pending(ben, 0) == []
                assert one["id"] not in (await ben.get("/approvals/")).text
                stolen = await ben.post("/decide", params={"id": one["id"], "allow": True})
                assert stolen.status_code == 404
                html = (await ana.get("/approvals/")).text
                form = dict(re.findall(r'name="(token|ids)" value="([^"]+)"', html))
                assert form["ids"] == one["id"]
                headers = {"Origin": url}
                data = {**form, "answer": "allow"}
                done = await ana.post("/approvals/decide", data=data, headers=headers)
                assert done.status_code in (200, 303), done.text
            assert "Alarm set for Oslo." in reported[0]

            async with anyio.create_task_group() as group:  # goes away while it waits
                group.start_soon(chat, ben, reported)
                await pending(ben, 1)
                group.cancel_scope.cancel()
            assert await pending(ben, 0) == []
            while not (mine := (await ben.get("/audit")).json())[1:]:
                await anyio.sleep(0.05)
            outcomes = [record["delivery"] for record in mine if "delivery" in record]
            assert outcomes == ["not_sent"], mine
            assert {record["context"] for record in mine if "context" in record} == {"ben"}
            theirs = (await ana.get("/audit")).json()
            decided = [record["decision"]["by"] for record in theirs if record.get("decision")]
            assert decided == ["ana"], theirs

            async with anyio.create_task_group() as group:  # stopped while a question is open
                group.start_soon(chat, ana, reported)
                await pending(ana, 1)
                app.terminate()
            assert "the server is stopping" in reported[-1]


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        the_agent_on_openai_chat_runs_with_the_real_client,
        the_agent_on_anthropic_runs_with_the_real_client,
        the_agent_on_gemini_runs_with_the_real_client,
        the_agent_with_tool_search_runs_with_the_real_client,
        the_agent_with_large_results_runs_with_the_real_client,
        two_workers_of_the_app_share_what_its_users_decide,
    )
}
