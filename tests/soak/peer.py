"""A server for the soak, over stdio or HTTP, of either era; the arguments of a call choose.

``peer.py stdio|http handshake|stateless FOLDER NAME [PORT]``. The standard library alone. Each call
of ``work`` is written to ``FOLDER/NAME.ran`` before anything else is done about it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
Send = Callable[[dict[str, Any]], None]


def text(words: str, *, is_error: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return {"content": content, "isError": is_error, "resultType": "complete"}


class Peer:
    def __init__(self, era: str, directory: str, name: str) -> None:
        self.era = era
        self.name = name
        self.turn = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.records = os.open(os.path.join(directory, f"{name}.ran"), flags, 0o600)
        with open(os.path.join(directory, f"{name}.pid"), "w") as file:
            file.write(str(os.getpid()))

    def tools(self) -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"key": {"type": "string"}}}
        changing = f"Its definition changes: {self.turn}."
        return [
            {"name": "work", "inputSchema": schema},
            {"name": "turning", "inputSchema": schema, "description": changing},
        ]

    def ran(self, key: str) -> None:
        os.write(self.records, f"{key}\n".encode())

    def reply(self, message: dict[str, Any], send: Send, raw: Callable[[bytes], None]) -> None:
        """Answer one message by ``send``; bytes that are not a message go to ``raw``."""
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if id is None or method is None:
            return

        def respond(result: dict[str, Any]) -> None:
            send({"jsonrpc": "2.0", "id": id, "result": result})

        about = {"name": self.name, "version": "1"}
        if method == "initialize" and self.era == "handshake":
            capabilities = {"tools": {"listChanged": True}}
            revision = params.get("protocolVersion", HANDSHAKE)
            agreed = HANDSHAKE if revision == STATELESS else revision
            respond({"protocolVersion": agreed, "capabilities": capabilities, "serverInfo": about})
        elif method == "server/discover" and self.era == "stateless":
            respond(
                {
                    "resultType": "complete",
                    "supportedVersions": [STATELESS],
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
            )
        elif method == "tools/list":
            respond({"resultType": "complete", "tools": self.tools(), "ttlMs": 3_000})
        elif method == "ping":
            respond({})
        elif method == "tools/call":
            self.call(id, params, send, raw)
        else:
            error = {"code": -32601, "message": f"no method {method}"}
            send({"jsonrpc": "2.0", "id": id, "error": error})

    def call(
        self, id: Any, params: dict[str, Any], send: Send, raw: Callable[[bytes], None]
    ) -> None:
        arguments = params["arguments"]
        key, act = arguments["key"], arguments["act"]

        def respond(result: dict[str, Any]) -> None:
            send({"jsonrpc": "2.0", "id": id, "result": result})

        if act == "ask" and self.era == "stateless" and "inputResponses" not in params:
            form = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
            question = {"method": "elicitation/create", "params": form}
            respond({"resultType": "input_required", "inputRequests": {"q": question}})
            return
        if act == "die-first":
            os._exit(4)
        self.ran(key)
        match act:
            case "die":
                os._exit(3)
            case "never":
                return
            case "fail":
                respond(text("it failed", is_error=True))
            case "error":
                error = {"code": -32000, "message": "an error of the server's own"}
                send({"jsonrpc": "2.0", "id": id, "error": error})
            case "nonsense":
                respond({"content": 7})
            case "garbage":
                raw(b'\xff\xfe{"jsonrpc": \n[1, 2\n{"id": 99999999, "result"}\n')
                respond(text(key))
            case "twice":
                respond(text(key))
                respond(text(key))
            case "big":
                respond(text(key + "x" * 150_000))
            case "slow":
                threading.Timer(0.03, respond, [text(key)]).start()
            case "progress":
                token = params.get("_meta", {}).get("progressToken")
                for step in range(3):
                    about = {"progressToken": token, "progress": step}
                    notice = {"jsonrpc": "2.0", "method": "notifications/progress"}
                    send({**notice, "params": about})
                respond(text(key))
            case "change":
                self.turn += 1
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                respond(text(key))
            case _:
                respond(text(key))


def over_stdio(peer: Peer) -> None:
    out, lock = sys.stdout.buffer, threading.Lock()

    def write(data: bytes) -> None:
        with lock:
            out.write(data)
            out.flush()

    def drip(data: bytes) -> None:
        with lock:
            step = max(1, len(data) // 5)
            for start in range(0, len(data), step):
                out.write(data[start : start + step])
                out.flush()
                time.sleep(0.002)

    def send(put: Callable[[bytes], None], message: dict[str, Any]) -> None:
        put(json.dumps(message).encode() + b"\n")

    for line in sys.stdin.buffer:
        message = json.loads(line)
        act = message.get("params", {}).get("arguments", {}).get("act")
        peer.reply(message, partial(send, drip if act == "drip" else write), write)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    peer: Peer

    def log_message(self, *args: object) -> None:
        return

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        act = message.get("params", {}).get("arguments", {}).get("act")
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if act == "busy":
            self.send_error(503)
            return
        done, lines = threading.Event(), bytearray()

        def send(sent: dict[str, Any]) -> None:
            lines.extend(b"event: message\ndata: " + json.dumps(sent).encode() + b"\n\n")
            if sent.get("id") == message["id"]:
                done.set()

        def raw(data: bytes) -> None:
            lines.extend(b"data: {nonsense\n\n: comment\nbogus: field\n\n")

        self.peer.reply(message, send, raw)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        if message["method"] == "initialize":
            self.send_header("Mcp-Session-Id", f"s-{time.monotonic_ns()}")
        self.end_headers()
        done.wait(0.5)
        if act == "cut":
            del lines[len(lines) // 2 :]
        step = max(1, len(lines) // 5) if act == "drip" else max(1, len(lines))
        for start in range(0, len(lines), step):
            self.wfile.write(lines[start : start + step])
            self.wfile.flush()
            if act == "drip":
                time.sleep(0.002)


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # the client has gone, as it may


def main(transport: str, era: str, directory: str, name: str, port: str = "0") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # the host's disk is full, not ours
    peer = Peer(era, directory, name)
    if transport == "stdio":
        over_stdio(peer)
        return
    Handler.peer = peer
    Server(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
