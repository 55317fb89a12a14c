"""The weather server over HTTP, stateless, on a port of this machine. It needs a token."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weather import respond  # type: ignore[import-not-found]


class Weather(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer token-1":
            return self.reply(401, {})
        result = {"resultType": "complete", **respond(message["method"], message["params"])}
        return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def reply(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """Serve while the block runs, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}/mcp"
        httpd.shutdown()
