"""The same over HTTP: which revision and which flavour the URL speaks is found out.

A small server of our own stands in for one on the network.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
from servers.weather import answer

from mcp_client import HttpServer, allow_all, connect


class Weather(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert self.headers["Authorization"] == "Bearer token-1"
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = {"resultType": "complete", **answer(message["method"], message["params"])}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def token() -> str:
    return "token-1"  # asked before each request, so it may rotate


async def main() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{httpd.server_port}/mcp"
        async with connect(HttpServer(url, auth=token), approval=allow_all) as session:
            result = await session.call_tool("get_weather", {"location": "New York"})
            print(session.protocol_version, result.text)
        httpd.shutdown()


anyio.run(main)
