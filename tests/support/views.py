"""A server whose tools have views (MCP Apps), in both eras: the standard library alone.

What is sent for ``ui://views/clock.html`` is in ``document``, and may be changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.library import Handshake, Library, Refused, Stateless

VIEW = "ui://views/clock.html"
MIME_TYPE = "text/html;profile=mcp-app"
UI = "io.modelcontextprotocol/ui"


def tool(name: str, **ui: Any) -> dict[str, Any]:
    meta = {"_meta": {"ui": ui}} if ui else {}
    return {"name": name, "inputSchema": {"type": "object"}, **meta}


class Views(Library):
    def __init__(self, *, ttl: int | None = 3_600_000) -> None:
        super().__init__(ttl=ttl)
        self.capabilities = {"tools": {}, "resources": {}, "extensions": {UI: {}}}
        self.calls: list[dict[str, Any]] = []
        self.tools = [
            tool("show", resourceUri=VIEW),
            tool("refresh", resourceUri=VIEW, visibility=["app"]),
            tool("model_only", resourceUri=VIEW, visibility=["model"]),
            tool("nobody", resourceUri=VIEW, visibility=[]),
            tool("plain"),
        ]
        self.document: dict[str, Any] = {
            "uri": VIEW,
            "mimeType": MIME_TYPE,
            "text": "<!doctype html><title>Clock</title>",
        }
        self.listed: dict[str, Any] | None = None
        """``_meta`` of the view's entry in the list of resources; None leaves it out there."""

    def _tools_list(self, params: dict[str, Any]) -> Any:
        return self._listed(tools=self.tools)

    def _tools_call(self, params: dict[str, Any]) -> Any:
        self.calls.append(params)
        if params["name"] not in [tool["name"] for tool in self.tools]:
            raise Refused(-32602, "no such tool")
        if params.get("arguments", {}).get("fail"):
            raise Refused(-32050, "the clock is stopped")
        text = {"type": "text", "text": "ten to three"}
        return {"content": [text], "structuredContent": {"h": 14}, "resultType": "complete"}

    def _resources_list(self, params: dict[str, Any]) -> Any:
        entry = {"uri": VIEW, "name": "clock", "_meta": self.listed}
        return self._listed(resources=[] if self.listed is None else [entry])

    def _resources_read(self, params: dict[str, Any]) -> Any:
        if params["uri"] == "data:hours":
            return self._listed(contents=[{"uri": "data:hours", "text": "14"}])
        if params["uri"] != VIEW:
            raise Refused(-32602, "Resource not found", {"uri": params["uri"]})
        return self._listed(contents=[self.document])


class HandshakeViews(Views, Handshake):
    """Before the stateless era."""


class StatelessViews(Views, Stateless):
    """Of the stateless era alone."""


def main() -> None:
    views = HandshakeViews() if sys.argv[1:] == ["handshake"] else StatelessViews()
    for line in sys.stdin:
        response = views.reply(json.loads(line), lambda message: None)
        if response is not None:
            print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
