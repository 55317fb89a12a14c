"""A server on FastMCP whose tools are tasks of the extension of 2026-07-28."""

import sys

import anyio  # type: ignore[import-not-found,unused-ignore]
import mcp_types as types  # type: ignore[import-not-found,unused-ignore]
from fastmcp import Context, FastMCP  # type: ignore[import-not-found,unused-ignore]
from fastmcp.utilities.tasks import TaskConfig  # type: ignore[import-not-found,unused-ignore]
from fastmcp_tasks import TasksExtension  # type: ignore[import-not-found,unused-ignore]

server = FastMCP("tasks")
server.add_extension(TasksExtension())


async def slow(seconds: float = 0.1) -> str:
    """Takes a while."""
    await anyio.sleep(seconds)
    return "done"


async def must() -> str:
    """Works as a task only."""
    return "as a task"


async def fails() -> str:
    """Raises."""
    raise ValueError("no luck")


async def ask(ctx: Context) -> types.InputRequiredResult | str:
    """Asks for a name while it is a task."""
    answers = ctx.input_responses or {}
    if "name" in answers:
        return f"hello {answers['name']}"
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    params = types.ElicitRequestFormParams(message="Your name?", requested_schema=schema)
    asked = types.ElicitRequest(method="elicitation/create", params=params)
    return types.InputRequiredResult(request_state="one", input_requests={"name": asked})


server.tool(slow, task=True)
server.tool(fails, task=True)
server.tool(must, task=TaskConfig(mode="required"))
server.tool(ask, task=True, output_schema=None)

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run(show_banner=False)
        case [port]:
            server.run("http", host="127.0.0.1", port=int(port), show_banner=False)
