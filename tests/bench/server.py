"""The server that every contender is measured against: one file, the standard library, cheap.

    python server.py [--tools 10000]

It speaks the stateless era (2026-07-28) and the handshake of the older revisions, and a tool's
name chooses what happens: ``echo`` returns its argument, ``big`` answers with a long text,
``sleep`` answers later with how many slept at once, ``record`` answers with twenty fields
under an output schema with one pattern. ``--tools`` fills the list up with tools that are only
listed.

One thread and one loop: read what there is, answer it in one write, sleep until the next is due.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import sys
import time
from typing import Any

REVISION = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PAGE = 100

_RECORD: dict[str, Any] = {
    **{f"name_{n}": f"value number {n}" for n in range(8)},
    **{f"count_{n}": n * 1000 for n in range(6)},
    **{f"share_{n}": n + 0.5 for n in range(4)},
    "active": True,
    "labels": ["red", "green", "blue"],
}
_TYPES: dict[type, dict[str, Any]] = {
    str: {"type": "string", "maxLength": 200},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array", "items": {"type": "string"}},
}
_ME = {"name": "bench", "version": "1"}


def _definitions(count: int) -> list[dict[str, Any]]:
    anything = {"type": "object"}
    tools: list[dict[str, Any]] = [
        {"name": "echo", "inputSchema": _object({"text": {"type": "string"}})},
        {"name": "big", "inputSchema": _object({"bytes": {"type": "integer"}})},
        {"name": "sleep", "inputSchema": _object({"seconds": {"type": "number"}})},
        {
            "name": "record",
            "inputSchema": anything,
            "outputSchema": _object(
                {key: _TYPES[type(v)] for key, v in _RECORD.items()}
                | {"name_0": {"type": "string", "pattern": "^value number [0-9]+$"}}
            ),
        },
    ]
    tools += [
        {
            "name": f"listed_{number}",
            "title": f"Tool number {number}",
            "description": f"Looks up entry {number} by its key, and reports what is known of it.",
            "inputSchema": _object({"key": {"type": "string"}, "limit": {"type": "integer"}}),
            "annotations": {"readOnlyHint": True},
        }
        for number in range(len(tools), count)
    ]
    return tools


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


class Server:
    def __init__(self, count: int, *, announces: bool = False) -> None:
        """``announces``: in the handshake era it declares that it announces changes of its list."""
        self._announces = announces
        self._tools = _definitions(count)
        self._asleep: list[tuple[float, int | str]] = []
        self._most_asleep = 0

    def run(self) -> None:
        pieces: list[bytes] = []
        while True:
            wait = max(0.0, self._asleep[0][0] - time.monotonic()) if self._asleep else None
            readable, _, _ = select.select([0], [], [], wait)
            answers = self._awake()
            if readable:
                data = os.read(0, 65536)
                if not data:
                    return
                pieces.append(data)
                if b"\n" in data:
                    *lines, rest = b"".join(pieces).split(b"\n")
                    pieces = [rest]
                    answers += [response for line in lines if (response := self.answer(line))]
            if answers:
                _write("".join(answers).encode())

    def _awake(self) -> list[str]:
        now = time.monotonic()
        awake = []
        while self._asleep and self._asleep[0][0] <= now:
            _, id = heapq.heappop(self._asleep)
            awake.append(_response(id, _text(str(self._most_asleep))))
        return awake

    def answer(self, line: bytes) -> str | None:
        message = json.loads(line)
        if "id" not in message:
            return None
        id, params = message["id"], message.get("params", {})
        match message["method"]:
            case "tools/call":
                result = self._call(id, params["name"], params.get("arguments") or {})
                return None if result is None else _response(id, result)
            case "tools/list":
                return _response(id, self._page(int(params.get("cursor") or 0)))
            case "server/discover":
                return _response(id, {"supportedVersions": [REVISION, *HANDSHAKE], **_INTRODUCTION})
            case "initialize":
                asked = params["protocolVersion"]
                agreed = asked if asked in HANDSHAKE else HANDSHAKE[0]
                declared = {"capabilities": {"tools": {"listChanged": self._announces}}}
                return _response(
                    id, {"protocolVersion": agreed, "serverInfo": _ME, **_INTRODUCTION, **declared}
                )
            case "ping":
                return _response(id, {})
        error = {"code": -32601, "message": "there is no such method"}
        return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}) + "\n"

    def _page(self, start: int) -> dict[str, Any]:
        page: dict[str, Any] = {"tools": self._tools[start : start + PAGE], **_CACHED}
        if start + PAGE < len(self._tools):
            page["nextCursor"] = str(start + PAGE)
        return page

    def _call(self, id: int | str, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        match name:
            case "echo":
                return _text(arguments["text"])
            case "big":
                return _text("x" * arguments["bytes"])
            case "record":
                return {**_text(_RECORD_TEXT), "structuredContent": _RECORD}
            case "sleep":
                heapq.heappush(self._asleep, (time.monotonic() + arguments["seconds"], id))
                self._most_asleep = max(self._most_asleep, len(self._asleep))
                return None
        return {**_text(f"there is no tool {name}"), "isError": True}


_RECORD_TEXT = json.dumps(_RECORD)
_CACHED = {"ttlMs": 3_600_000, "cacheScope": "private"}
_INTRODUCTION = {
    "capabilities": {"tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": _ME},
    **_CACHED,
}
_dump = json.JSONEncoder(separators=(",", ":")).encode


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _response(id: int | str, result: dict[str, Any]) -> str:
    result = {"resultType": "complete", **result}
    return _dump({"jsonrpc": "2.0", "id": id, "result": result}) + "\n"


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    Server(int(sys.argv[2]) if sys.argv[1:2] == ["--tools"] else 0, announces=True).run()
