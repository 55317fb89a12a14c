"""The floor over HTTP: a bare ``httpx.AsyncClient.post``, what stock httpx alone costs.

No gate, no clocks, no limits, no validation.
"""

from time import process_time

_started = process_time()
import httpx  # noqa: E402 - this import is what is measured

_import_seconds = process_time() - _started

import json  # noqa: E402
from collections.abc import AsyncIterator  # noqa: E402
from contextlib import asynccontextmanager  # noqa: E402
from typing import Any  # noqa: E402

from tests.bench.clients.workload import META, Peer, main  # noqa: E402

_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
}


class Floor:
    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self._newest = 0

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._newest += 1
        params["_meta"] = META
        message = {"jsonrpc": "2.0", "id": self._newest, "method": method, "params": params}
        headers = {**_HEADERS, "mcp-method": method}
        response = await self._client.post(self._url, json=message, headers=headers)
        if response.headers["content-type"] == "application/json":
            return response.json()["result"]
        (data,) = [line[6:] for line in response.text.split("\n") if line.startswith("data: ")]
        return json.loads(data)["result"]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.ask("tools/call", {"name": name, "arguments": arguments})

    async def count_tools(self) -> int:
        return len((await self.ask("tools/list", {}))["tools"])


@asynccontextmanager
async def connect(server: list[str]) -> AsyncIterator[Peer]:
    async with httpx.AsyncClient() as client:
        floor = Floor(client, server[0])
        if "/old" not in server[0]:
            await floor.ask("server/discover", {})
        yield Peer(
            floor.call,
            floor.count_tools,
            lambda result: str(result["content"][0]["text"]),
            lambda result: result["structuredContent"],
        )


main(_import_seconds, connect)
