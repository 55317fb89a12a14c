"""FastMCP's client, as its documentation uses it."""
# mypy: ignore-errors
# FastMCP lives in an environment of its own, out of the type checker's sight.

from time import process_time

_started = process_time()
from fastmcp import Client  # noqa: E402 - this import is what is measured

_import_seconds = process_time() - _started

from contextlib import asynccontextmanager  # noqa: E402

from fastmcp.client.transports import (  # noqa: E402
    StdioTransport,
    StreamableHttpTransport,
)

from tests.bench.clients.workload import Peer, main, where  # noqa: E402


@asynccontextmanager
async def connect(server):
    at = where(server)
    if isinstance(at, str):
        at = StreamableHttpTransport(at)  # by the name of /sse it would take the transport of 2024
    else:
        at = StdioTransport(command=server[0], args=server[1:], keep_alive=False)
    async with Client(at) as client:

        async def count_tools():
            return len(await client.list_tools())

        yield Peer(
            client.call_tool,
            count_tools,
            lambda result: result.content[0].text,
            lambda result: result.structured_content,
        )


main(_import_seconds, connect)
