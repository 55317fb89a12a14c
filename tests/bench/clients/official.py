"""The official Python SDK's client, as its README uses it."""
# mypy: ignore-errors
# The official SDK lives in an environment of its own, out of the type checker's sight.

from time import process_time

_started = process_time()
import mcp  # noqa: E402 - this import is what is measured

_import_seconds = process_time() - _started

from contextlib import asynccontextmanager  # noqa: E402

from mcp.client.stdio import stdio_client  # noqa: E402

from tests.bench.clients.workload import Peer, main, where  # noqa: E402


@asynccontextmanager
async def connect(server):
    at = where(server)
    if not isinstance(at, str):
        at = stdio_client(mcp.StdioServerParameters(command=server[0], args=server[1:]))
    async with mcp.Client(at) as client:

        async def count_tools():
            page = await client.list_tools(cache_mode="refresh")
            count = len(page.tools)
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor, cache_mode="refresh")
                count += len(page.tools)
            return count

        yield Peer(
            client.call_tool,
            count_tools,
            lambda result: result.content[0].text,
            lambda result: result.structured_content,
        )


main(_import_seconds, connect)
