"""A server on the official SDK 1.x with the tasks of 2025-11-25, experimental there."""

# mypy: ignore-errors
from __future__ import annotations

import anyio
import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server = Server("tasks")
server.experimental.enable_tasks()
OBJECT = {"type": "object", "properties": {"seconds": {"type": "number"}}}


@server.list_tools()
async def list_tools() -> list[t.Tool]:
    supports = {"greet": "required", "wait": "optional", "fail": "required"}
    return [
        t.Tool(name=name, inputSchema=OBJECT, execution=t.ToolExecution(taskSupport=support))
        for name, support in supports.items()
    ]


def text(reported: str, is_error: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=reported)], isError=is_error)


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, object]) -> object:
    experimental = server.request_context.experimental

    async def greet(task: object) -> t.CallToolResult:
        await task.update_status("looking around")
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        response = await task.elicit(message="Who are you?", requestedSchema=schema)
        return text(f"hello {response.content['name']}")

    async def wait(task: object) -> t.CallToolResult:
        await anyio.sleep(float(arguments.get("seconds", 0)))
        return text("waited")

    async def fail(task: object) -> t.CallToolResult:
        raise RuntimeError("no disk")

    if not experimental.is_task:
        return text("at once")
    return await experimental.run_task({"greet": greet, "wait": wait, "fail": fail}[name])


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
