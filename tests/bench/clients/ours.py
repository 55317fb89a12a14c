"""``mcp_client``, as a user would use it: gate, clocks, limits and validation all on."""

from time import process_time

_started = process_time()
import mcp_client  # noqa: E402 - this import is what is measured, with what is loaded as it is used

connect_to, allow_all = mcp_client.connect, mcp_client.allow_all

_import_seconds = process_time() - _started

from collections.abc import AsyncIterator  # noqa: E402
from contextlib import asynccontextmanager  # noqa: E402

from tests.bench.clients.workload import Peer, main, where  # noqa: E402


@asynccontextmanager
async def connect(server: list[str]) -> AsyncIterator[Peer]:
    async with connect_to(where(server), approval=allow_all) as session:

        async def count_tools() -> int:
            return len(await session.list_tools(refresh=True))

        yield Peer(
            session.call_tool,
            count_tools,
            lambda result: result.text,
            lambda result: result.structured_content,
        )


main(_import_seconds, connect)
