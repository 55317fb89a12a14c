"""What no client can do without: bare asyncio pipes, json, and a dict of futures.

No gate, no clock, no limit, no typed result, no cancellation. Only ``record`` is validated, with a
``jsonschema`` validator prepared once, for that row is about validation.
"""

from time import process_time

_started = process_time()
import asyncio  # noqa: E402, TID251 - bare asyncio is the point; this import is what is measured
import json  # noqa: E402

_import_seconds = process_time() - _started

from collections.abc import AsyncIterator  # noqa: E402
from contextlib import asynccontextmanager  # noqa: E402
from typing import Any  # noqa: E402

from tests.bench.clients.workload import META, Peer, main  # noqa: E402

_LONGEST = 64 * 1024 * 1024


class Floor:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._newest = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._validator: Any = None

    async def read(self) -> None:
        async for line in self._stdout:
            message = json.loads(line)
            self._waiting.pop(message["id"]).set_result(message["result"])

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._newest = id = self._newest + 1
        future = self._waiting[id] = asyncio.get_running_loop().create_future()
        params["_meta"] = META
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self._stdin.write(json.dumps(message).encode() + b"\n")
        return await future

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        result = await self.ask("tools/call", {"name": name, "arguments": arguments})
        if name == "record":
            if self._validator is None:
                self._validator = await self._prepared(name)
            self._validator.validate(result["structuredContent"])
        return result

    async def _prepared(self, name: str) -> Any:
        import jsonschema

        page = await self.ask("tools/list", {})
        (schema,) = [tool["outputSchema"] for tool in page["tools"] if tool["name"] == name]
        return jsonschema.Draft202012Validator(schema)

    async def count_tools(self) -> int:
        page = await self.ask("tools/list", {})
        tools = page["tools"]
        while "nextCursor" in page:
            page = await self.ask("tools/list", {"cursor": page["nextCursor"]})
            tools += page["tools"]
        return len(tools)


@asynccontextmanager
async def connect(server: list[str]) -> AsyncIterator[Peer]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*server, stdin=pipe, stdout=pipe, limit=_LONGEST)
    floor = Floor(process)
    reader = asyncio.create_task(floor.read())
    await floor.ask("server/discover", {})
    yield Peer(
        floor.call,
        floor.count_tools,
        lambda result: str(result["content"][0]["text"]),
        lambda result: result["structuredContent"],
    )
    assert process.stdin is not None
    process.stdin.close()
    await reader
    await process.wait()


main(_import_seconds, connect)
