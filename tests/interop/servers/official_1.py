"""A server on the official SDK 1.x, as old as 1.2: echoes, sums, describes, fails, waits."""

import math
import sys
from dataclasses import dataclass

import anyio
from mcp.server.fastmcp import Context, FastMCP  # type: ignore[import-not-found,unused-ignore]

server = FastMCP("official")
said: list[str] = []
send_cancelled, receive_cancelled = anyio.create_memory_object_stream[None](math.inf)


@dataclass
class Weather:
    place: str
    degrees: float


def echo(text: str) -> str:
    """Say it again."""
    said.append(text)
    return text


def heard() -> str:
    """Everything echo was given, in order."""
    return ",".join(said)


def add(a: int, b: int) -> str:
    """The sum."""
    return str(a + b)


def weather(place: str) -> Weather:
    """An object, and where the SDK knows of it, an output schema."""
    return Weather(place, 21.5)


def fail(reason: str) -> str:
    """Fails."""
    raise ValueError(reason)


async def slow(seconds: float, steps: int, ctx: Context) -> str:
    """Takes that long, telling of each step."""
    try:
        for step in range(1, steps + 1):
            await anyio.sleep(seconds / steps)
            await ctx.report_progress(step, steps)
    except anyio.get_cancelled_exc_class():
        send_cancelled.send_nowait(None)
        raise
    return f"{steps} steps"


async def was_cancelled() -> str:
    """Answers once for each time that slow was cancelled."""
    with anyio.fail_after(10):
        await receive_cancelled.receive()
    return "yes"


for tool in (echo, heard, add, weather, fail, slow, was_cancelled):
    server.add_tool(tool)

if __name__ == "__main__":
    transport, port, *options = [*sys.argv[1:], "stdio", "0"][: max(2, len(sys.argv) - 1)]
    if transport != "stdio":
        server.settings.port = int(port)
    if transport == "streamable-http":
        server.settings.json_response = "json" in options
        server.settings.stateless_http = "stateless" in options
    server.run(transport)
