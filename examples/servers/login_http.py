"""The weather server over HTTP, behind an authorization server that asks for no password."""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode

from weather_http import Weather  # type: ignore[import-not-found]

CODES: dict[str, dict[str, str]] = {}
TOKENS: set[str] = set()


class Guarded(Weather):  # type: ignore[misc]
    def do_GET(self) -> None:  # noqa: N802 - what http.server looks for
        here = f"http://{self.headers['Host']}"
        path, _, query = self.path.partition("?")
        match path:
            case "/.well-known/oauth-protected-resource/mcp":
                self.reply(200, {"resource": f"{here}/mcp", "authorization_servers": [here]})
            case "/.well-known/oauth-authorization-server":
                self.reply(200, metadata(here))
            case "/authorize":
                asked = dict(parse_qsl(query))
                code = secrets.token_urlsafe(16)
                CODES[code] = asked
                response = urlencode({"code": code, "state": asked["state"], "iss": here})
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri']}?{response}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            case _:
                self.reply(404, {})

    def do_POST(self) -> None:  # noqa: N802
        if self.path == "/mcp":
            if self.headers["Authorization"] in TOKENS:
                self.headers.replace_header("Authorization", "Bearer token-1")
            super().do_POST()
            return
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/register":
            self.reply(201, {**json.loads(body), "client_id": "weather-example"})
            return
        form = dict(parse_qsl(body))
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if CODES.pop(form["code"], {}).get("code_challenge") != challenge:
            self.reply(400, {"error": "invalid_grant"})
            return
        token = secrets.token_urlsafe(16)
        TOKENS.add(f"Bearer {token}")
        self.reply(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})


def metadata(issuer: str) -> dict[str, object]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
    }


@contextmanager
def serving() -> Iterator[str]:
    """Serve while the block runs, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}/mcp"
        httpd.shutdown()
