"""A server with books: resources, templates, prompts, completion, subscriptions, in every revision.

The standard library alone. ``Library`` is a function of messages, for any transport; run as a
program it speaks over stdio, and ``library_http`` carries it over HTTP.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

STATELESS = "2026-07-28"
ID = "io.modelcontextprotocol/subscriptionId"
COVER = base64.b64encode(b"\x89PNG cover").decode()
SHELF = "book:shelf"
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


class Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Library:
    """``respond(message, send)`` returns a result, or None if there is none to send."""

    def __init__(self, *, ttl: int | None = 3_600_000) -> None:
        self.books = {"book:emma": "Emma Woodhouse", "book:ulysses": "Stately, plump"}
        self.prompts = ["summary"]
        self.capabilities = dict(EVERYTHING)
        self.ttl = ttl
        self.messages: list[dict[str, Any]] = []
        self.streams: dict[Any, tuple[dict[str, Any], Callable[[Any], None]]] = {}
        self.subscribed: list[str] = []
        self.send: Callable[[Any], None] = lambda message: None
        """To the client of the handshake era, unasked."""

    def count(self, method: str) -> int:
        return sum(message.get("method") == method for message in self.messages)

    def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.messages.append(message)
        method, params = message.get("method", ""), message.get("params", {})
        part = getattr(self, "_" + method.replace("/", "_"), None)
        if part is None:
            if "id" in message and method:
                raise Refused(-32601, f"method not found: {method}")
            return None
        if method == "subscriptions/listen":
            return self._listen(message["id"], params["notifications"], send)
        if method == "initialize":
            self.send = send
        return part(params)

    # ------------------------------------------------------------------- both eras

    def _initialize(self, params: dict[str, Any]) -> Any:
        info = {"name": "library", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": info}

    def _server_discover(self, params: dict[str, Any]) -> Any:
        return {"supportedVersions": [STATELESS], "capabilities": self.capabilities}

    def _notifications_cancelled(self, params: dict[str, Any]) -> None:
        self.streams.pop(params.get("requestId"), None)

    def _ping(self, params: dict[str, Any]) -> Any:
        return {}

    def _listed(self, **members: Any) -> Any:
        hints = {} if self.ttl is None else {"ttlMs": self.ttl, "cacheScope": "public"}
        return {**members, **hints, "resultType": "complete"}

    def _tools_list(self, params: dict[str, Any]) -> Any:
        names = ["find", "write", "add"]
        return self._listed(
            tools=[{"name": name, "inputSchema": {"type": "object"}} for name in names]
        )

    def _tools_call(self, params: dict[str, Any]) -> Any:
        passed = params.get("arguments", {})
        match params["name"]:
            case "write":
                self.write(passed["uri"], passed["text"])
            case "add":
                self.add(passed["uri"])
        link = {"type": "resource_link", "uri": "book:emma", "name": "emma", "size": 14}
        web = {"type": "resource_link", "uri": "https://library.invalid/emma", "name": "web"}
        cover = {"type": "image", "data": COVER, "mimeType": "image/png"}
        marked = {**cover, "annotations": {"audience": ["user"], "priority": 0.5}}
        text = {"type": "text", "text": "found"}
        return {"content": [text, link, web, marked], "resultType": "complete"}

    def _resources_list(self, params: dict[str, Any]) -> Any:
        books = sorted(self.books)
        at = int(params.get("cursor", 0))
        rest = {"nextCursor": str(at + 1)} if at + 1 < len(books) else {}
        displayed = [{"uri": uri, "name": uri.partition(":")[2]} for uri in books[at : at + 1]]
        return self._listed(resources=displayed, **rest)

    def _resources_templates_list(self, params: dict[str, Any]) -> Any:
        return self._listed(
            resourceTemplates=[{"uriTemplate": "book:{title}", "name": "a book by its title"}]
        )

    def _resources_read(self, params: dict[str, Any]) -> Any:
        uri = params["uri"]
        if uri == "book:cover":
            piece = {"uri": uri, "mimeType": "image/png", "blob": COVER}
        elif uri == "https://library.invalid/emma":
            piece = {"uri": uri, "text": "as the server read it"}
        elif uri in self.books:
            piece = {"uri": uri, "mimeType": "text/plain", "text": self.books[uri]}
        else:
            raise Refused(-32602, "Resource not found", {"uri": uri})
        return self._listed(contents=[piece])

    def _prompts_list(self, params: dict[str, Any]) -> Any:
        arguments = [{"name": "title", "required": True}]
        prompts = [{"name": name, "arguments": arguments} for name in self.prompts]
        return self._listed(prompts=prompts)

    def _prompts_get(self, params: dict[str, Any]) -> Any:
        if params["name"] not in self.prompts:
            raise Refused(-32602, "no such prompt")
        title = params.get("arguments", {}).get("title", "")
        asked = {"type": "text", "text": f"Sum up {title}."}
        book = {"type": "resource_link", "uri": f"book:{title}", "name": title}
        messages = [{"role": "user", "content": asked}, {"role": "user", "content": book}]
        return {"description": "sums up", "messages": messages, "resultType": "complete"}

    def _completion_complete(self, params: dict[str, Any]) -> Any:
        typed = params["argument"]["value"]
        titles = [uri.partition(":")[2] for uri in sorted(self.books)]
        values = [title for title in titles if title.startswith(typed)]
        found = {"values": values, "total": len(values), "hasMore": False}
        return {"completion": found, "resultType": "complete"}

    # ------------------------------------------------------------------- what changes

    def _resources_subscribe(self, params: dict[str, Any]) -> Any:
        self.subscribed.append(params["uri"])
        return {}

    def _resources_unsubscribe(self, params: dict[str, Any]) -> Any:
        self.subscribed.remove(params["uri"])
        return {}

    def _listen(self, id: Any, wanted: dict[str, Any], send: Callable[[Any], None]) -> None:
        self.streams[id] = wanted, send
        self._notify(id, "subscriptions/acknowledged", notifications=wanted)

    _subscriptions_listen = _listen

    def _notify(self, id: Any, what: str, **params: Any) -> None:
        params["_meta"] = {ID: id}
        self.streams[id][1]({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params})

    def end_streams(self) -> None:
        for id in list(self.streams):
            self._notify(id, "cancelled", requestId=id)

    def write(self, uri: str, text: str) -> None:
        self.books[uri] = text
        self.updated(uri)

    def updated(self, uri: str) -> None:
        for id, (wanted, _) in list(self.streams.items()):
            if uri in wanted.get("resourceSubscriptions", ()):
                self._notify(id, "resources/updated", uri=uri)
        if uri in self.subscribed:
            self._unasked("resources/updated", uri=uri)

    def add(self, uri: str) -> None:
        self.books[uri] = ""
        self.changed("resources")

    def changed(self, what: str) -> None:
        for id, (wanted, _) in list(self.streams.items()):
            if wanted.get(f"{what}ListChanged"):
                self._notify(id, f"{what}/list_changed")
        self._unasked(f"{what}/list_changed")

    def _unasked(self, what: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params})

    # ------------------------------------------------------------------- over a line

    def reply(self, message: dict[str, Any], send: Callable[[Any], None]) -> dict[str, Any] | None:
        """The whole answer to a message, or None."""
        try:
            result = self.respond(message, send)
        except Refused as refused:
            error = {"code": refused.code, "message": refused.message, "data": refused.data}
            return {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        if result is None or "id" not in message:
            return None
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handshake(Library):
    """The library before the stateless era."""

    def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if message.get("method") in ("server/discover", "subscriptions/listen"):
            self.messages.append(message)
            raise Refused(-32601, "method not found")
        return super().respond(message, send)


class Stateless(Library):
    """The library of the stateless era alone."""

    def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if message.get("method") in ("initialize", "resources/subscribe"):
            raise Refused(-32601, "method not found")
        return super().respond(message, send)


def main() -> None:
    library = Handshake() if sys.argv[1:] == ["handshake"] else Stateless()

    def send(message: Any) -> None:
        print(json.dumps(message), flush=True)

    for line in sys.stdin:
        response = library.reply(json.loads(line), send)
        if response is not None:
            send(response)


if __name__ == "__main__":
    main()
