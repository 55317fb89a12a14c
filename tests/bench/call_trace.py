"""Frames and changes of source file on the path of a request, counted with ``sys.setprofile``.

    python -m tests.bench.call_trace [--files] [--row NAME]

Each row is one operation through the public API, the shortest of five traces after one run that is
not traced: imports, caches and timers that happen to be due are not in it. A frame is counted when
a function of the package is called or a coroutine of it is resumed; a change of file is a frame
whose file differs from that of the frame before it. "Before the write" ends where the first request
is handed on: at ``os.write``, a send on a socket or the first frame of httpcore or h11, or where
``MemoryServer``, whose own frames are not counted, is given its text. After a notice that is the
request for the new list. ``--files`` also prints the path of the first row, before it and after;
``--row`` is for some of the rows.

Figures repeat exactly on one version of Python; from 3.12 on, list comprehensions have no frame.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias
from urllib.parse import urlencode

import anyio
import h11
import httpcore

import mcp_client
from mcp_client import (
    Allow,
    ApprovalQueue,
    Handlers,
    Host,
    HttpServer,
    MemoryServer,
    OAuth,
    allow_all,
    connect,
)
from mcp_client.adapters import anthropic
from mcp_client.approval import ApprovalHook
from mcp_client.desk import ApprovalPage
from mcp_client.handlers import Accept
from tests.support.asking import FORM, Asking
from tests.support.authorization import guarded
from tests.support.http_apps import Stateless
from tests.support.http_server import serving
from tests.support.library import Library
from tests.support.starting import in_memory

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_PACKAGE = os.path.dirname(mcp_client.__file__) + os.sep
_HTTP = tuple(os.path.dirname(inspect.getfile(module)) + os.sep for module in (httpcore, h11))
_MEMORY_SERVER = inspect.getfile(MemoryServer)

Operation: TypeAlias = Callable[[], Awaitable[object]]


class Trace:
    """A profile function: the package's frames, and how many there were before the first write."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, str]] = []
        self.written = 0

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(_PACKAGE) and file != _MEMORY_SERVER:
            self.frames.append((file.removeprefix(_PACKAGE), frame.f_code.co_name))
        elif event in ("call", "c_call") and not self.written:
            self.written = len(self.frames) if _is_write(file, frame, event, value) else 0

    def counts(self, end: int | None = None) -> tuple[int, int, int]:
        """Frames, changes of file and files, among the first ``end`` frames."""
        files = [file for file, _ in self.frames[:end]]
        return len(files), len(list(groupby(files))) - 1, len(set(files))


def _is_write(file: str, frame: FrameType, event: str, value: Any) -> bool:
    if event == "c_call":
        on_socket = isinstance(getattr(value, "__self__", None), socket.socket)
        return value in (os.write, os.writev) or (on_socket and "send" in value.__name__)
    if file == _MEMORY_SERVER:  # its other functions do not get the text
        return any(type(local) is str and '"jsonrpc"' in local for local in frame.f_locals.values())
    return file.startswith(_HTTP)


_COMMAND = [sys.executable, "-IS", str(Path(__file__).with_name("server.py"))]


@asynccontextmanager
async def _stdio(
    revision: str, *, listing: bool = False, approval: ApprovalHook = allow_all
) -> AsyncIterator[Operation]:
    async with connect(_COMMAND, approval=approval, revision=revision) as session:
        echo = partial(session.call_tool, "echo", {"text": "a"})
        yield partial(session.list_tools, refresh=True) if listing else echo


async def _allow(request: object) -> Allow:
    return Allow()


@asynccontextmanager
async def _model() -> AsyncIterator[Operation]:
    """A model's answer with one call, from ``Toolset.run`` on."""
    block = {"type": "tool_use", "id": "1", "name": "s__echo", "input": {"text": "a"}}
    async with Host({"s": _COMMAND}, approval=allow_all) as host:
        kit = anthropic.toolset(await host.list_tools())

        async def run() -> object:
            return await kit.run(host, {"role": "assistant", "content": [block]})

        yield run


@asynccontextmanager
async def _http() -> AsyncIterator[Operation]:
    app = Stateless()
    app.schemas["echo"] = _SCHEMA
    async with serving(app) as served, connect(served.url, approval=allow_all) as session:
        yield partial(session.call_tool, "echo", {"text": "a"})


async def _accept(request: object) -> Accept:
    return Accept({"name": "Ada"})


class _Asking(Asking):
    """Its questions have ids of their own, so that it can ask more than once."""

    async def ask(self, id: Any, question: Any) -> Any:
        return await super().ask(f"{id}-{len(self.messages)}", question)


@asynccontextmanager
async def _question(revision: str) -> AsyncIterator[Operation]:
    asking, handlers = _Asking(revision, FORM), Handlers(elicitation=_accept)
    async with connect(MemoryServer(asking), approval=allow_all, handlers=handlers) as session:
        yield partial(session.call_tool, "ask")
        assert all("content" in response for response in asking.answers.values())


class _Changing(Library):
    """Its one tool has another name each time it is listed."""

    def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        result = super().respond(message, send)
        if message.get("method") == "tools/list":
            result["tools"] = [{"name": f"tool-{self.count('tools/list')}", "inputSchema": _SCHEMA}]
        return result


@asynccontextmanager
async def _notice(revision: str) -> AsyncIterator[Operation]:
    library = _Changing()
    async with (
        connect(in_memory(library), approval=allow_all, revision=revision) as session,
        session.tool_changes() as changes,
    ):

        async def next_change() -> object:
            library.changed("tools")
            return await anext(changes)

        yield next_change


@asynccontextmanager
async def _login() -> AsyncIterator[Operation]:
    async with guarded() as world:

        async def log_in() -> None:
            auth = OAuth(on_url=world.agree)
            await (await connect(HttpServer(world.url, auth=auth), approval=allow_all)).aclose()

        yield log_in


@asynccontextmanager
async def _click() -> AsyncIterator[Operation]:
    """Allow is clicked on the page: from the form to the call's request. Nothing else is traced."""
    queue = ApprovalQueue()
    page = ApprovalPage(queue, authorize=lambda scope: "Ana")

    async def ask(method: str, path: str, form: dict[str, str]) -> str:
        headers = {"host": "localhost", "content-type": "application/x-www-form-urlencoded"}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        body, sent = urlencode(form).encode(), bytearray()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.extend(message.get("body", b""))

        await page(scope, receive, send)
        return sent.decode()

    async with (
        connect(MemoryServer(Asking(STATELESS, FORM)), approval=queue) as session,
        anyio.create_task_group() as tasks,
    ):

        async def click() -> None:
            trace = sys.getprofile()
            sys.setprofile(None)
            with queue.changes() as changes:
                tasks.start_soon(partial(session.call_tool, "plain", {}))
                pending = await anext(aiter(changes))
            token = re.search(r'name="token" value="([0-9a-f]+)"', await ask("GET", "/", {}))
            assert token
            form = {"answer": "allow", "ids": pending[0].id, "token": token[1]}
            sys.setprofile(trace)
            await ask("POST", "/decide", form)
            while isinstance(trace, Trace) and not trace.written:
                await anyio.lowlevel.checkpoint()
            sys.setprofile(None)

        yield click
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _config_file(*, enters: bool) -> AsyncIterator[Operation]:
    """The file of one server to a ``Host``; ``enters``: and on, to the first request of the process
    that is started."""
    with tempfile.TemporaryDirectory() as directory, open(os.devnull, "wb", 0) as null:
        path = Path(directory, "mcp.json")
        server = {"command": _COMMAND[0], "args": _COMMAND[1:], "env": {"FOLDER": "${HOME}"}}
        path.write_text(json.dumps({"mcpServers": {"bench": server}}))

        async def make() -> None:
            host = Host.from_config(path, confirm=allow_all, approval=allow_all)
            if enters:
                async with host:
                    sys.setprofile(None)
            else:
                os.write(null.fileno(), b"\n")

        yield make


async def _shortest(scenario: AbstractAsyncContextManager[Operation]) -> Trace:
    traces = [Trace() for _ in range(5)]
    with anyio.fail_after(30):
        async with scenario as operation:
            await operation()
            for trace in traces:
                sys.setprofile(trace)
                await operation()
                sys.setprofile(None)
    return min(traces, key=Trace.counts)


def _print_path(trace: Trace) -> None:
    for part in (trace.frames[: trace.written], trace.frames[trace.written :]):
        print()
        for file, frames in groupby(part, lambda frame: frame[0]):
            print(f"{file:32}{', '.join(function for _, function in frames)}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print the path of the first row")
    parser.add_argument("--row", default="", help="only the rows that begin with this")
    options = parser.parse_args()
    scenarios = {
        f"call, stdio, {STATELESS}": _stdio(STATELESS),
        f"call, stdio, {STATELESS}, an async hook": _stdio(STATELESS, approval=_allow),
        f"call, HTTP, {STATELESS}": _http(),
        f"call, stdio, {HANDSHAKE}": _stdio(HANDSHAKE),
        f"list_tools(refresh=True), stdio, {STATELESS}": _stdio(STATELESS, listing=True),
        f"call with an elicitation, {STATELESS}": _question(STATELESS),
        f"call with an elicitation, {HANDSHAKE}": _question(HANDSHAKE),
        f"tools list_changed, {STATELESS}": _notice(STATELESS),
        f"tools list_changed, {HANDSHAKE}": _notice(HANDSHAKE),
        f"connect with a login, HTTP, {STATELESS}": _login(),
        "Allow clicked on the page, to the write": _click(),
        "a model's answer over a host, stdio": _model(),
        "a config file to a Host": _config_file(enters=False),
        "a config file to its server's first request": _config_file(enters=True),
    }
    print(f"{'in total':>67}{'before the write':>24}")
    print(f"{'':43}{'  frames changes   files' * 2}")
    traces = {
        name: await _shortest(scenario)
        for name, scenario in scenarios.items()
        if name.startswith(options.row)
    }
    for name, trace in traces.items():
        assert trace.written, f"{name}: no write was seen"
        counts = *trace.counts(), *trace.counts(trace.written)
        print(f"{name:43}" + "".join(f"{count:8}" for count in counts))
    if options.files:
        _print_path(next(iter(traces.values())))


if __name__ == "__main__":
    anyio.run(main)
