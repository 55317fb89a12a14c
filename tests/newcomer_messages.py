"""What a newcomer's mistakes are answered with: ``python -m tests.newcomer_messages`` prints them.

Each mistake is one that a user made. The answer is one typed error that names the cause and the way
out; ``test_newcomer_messages`` holds that.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from mcp_client import (
    Allow,
    McpError,
    MemoryServer,
    StdioServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.audit import Audit
from tests.support.certificates import self_signed
from tests.support.http_server import Reply, Request, serving

__all__ = ["MISTAKES", "error_of"]

CONNECT: Any = connect
"""``connect`` without its types: a newcomer may have no type checker."""
Mistake = Callable[[], Awaitable[object]]


def _tools(message: dict[str, Any]) -> Any:
    if message["method"] == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if message["method"] == "tools/call":
        return {"content": []}
    return NotImplemented


async def _open(*words: Any, **options: Any) -> None:
    async with CONNECT(*words, **{"timeouts": Timeouts(connect=20, close=0.2), **options}):
        pass


async def _call(arguments: Any = None, **options: Any) -> None:
    async with CONNECT(MemoryServer(_tools), **options) as session:
        await session.call_tool("echo", arguments)


async def _use_without_entering() -> None:
    await CONNECT(MemoryServer(_tools)).call_tool("echo")


async def _needs_a_variable() -> None:
    program = "import os, sys; sys.exit(f'KeyError: {os.environ[\"WEATHER_KEY\"]}')"
    os.environ["WEATHER_KEY"] = "s3cret-value"
    try:
        await _open(StdioServer(sys.executable, ["-c", program]))
    finally:
        del os.environ["WEATHER_KEY"]


async def _over_http(
    status: int, headers: dict[str, str] | None = None, tls: bool = False, scheme: str = ""
) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(status, b"", headers or {})

    error = None
    with tempfile.TemporaryDirectory() as directory:
        context = self_signed(Path(directory))[1] if tls else None
        async with serving(handler, tls=context) as server:
            url = server.url if not scheme else scheme + server.url[server.url.index(":") :]
            try:
                await _open(url)
            except McpError as raised:
                error = raised  # raised below: the server's task group would wrap it
    if error is not None:
        raise error


def _redacted_by(redaction: Any) -> Audit:
    return Audit(print, redaction=redaction)


MISTAKES: dict[str, Mistake] = {
    'StdioServer("python server.py")': lambda: _open(StdioServer("python server.py")),
    'connect("python server.py")': lambda: _open("python server.py"),
    'connect("localhost:8000/mcp")': lambda: _open("localhost:8000/mcp"),
    'connect({"command": "python"})': lambda: _open({"command": "python", "args": ["server.py"]}),
    'connect(Path("server.py"))': lambda: _open(Path("server.py")),
    "connect(...) without async with": _use_without_entering,
    "timeouts=10": lambda: _open(MemoryServer(_tools), timeouts=10),
    "limits=5": lambda: _open(MemoryServer(_tools), limits=5),
    'client_info="x"': lambda: _open(MemoryServer(_tools), client_info="x"),
    "name=5": lambda: _open(MemoryServer(_tools), name=5),
    "redaction=5": lambda: _open(MemoryServer(_tools), audit=_redacted_by(5)),
    "approval=True": lambda: _open(MemoryServer(_tools), approval=True),
    "approval=Allow": lambda: _call(approval=Allow),
    'arguments="{...}"': lambda: _call('{"location": "Oslo"}', approval=allow_all),
    "a variable that is set here and not passed on": _needs_a_variable,
    "a server that answers 500": lambda: _over_http(500),
    "a server that wants a login": lambda: _over_http(401, {"WWW-Authenticate": "Bearer"}),
    "a self-signed certificate": lambda: _over_http(404, tls=True),
    "http:// to a server with TLS": lambda: _over_http(404, tls=True, scheme="http"),
}
"""The mistake as it is written, and how it is made."""


async def error_of(mistake: Mistake) -> BaseException | None:
    """What it raises; None where nothing."""
    try:
        with anyio.fail_after(30):
            await mistake()
    except Exception as error:
        return error
    return None


async def main() -> None:
    for written, mistake in MISTAKES.items():
        error = await error_of(mistake)
        kind = "nothing is reported" if error is None else type(error).__name__
        print(f"{written}\n    {kind}: {error}\n")
        if not isinstance(error, McpError):
            print("    ^ not one of ours\n")


if __name__ == "__main__":
    anyio.run(main)
