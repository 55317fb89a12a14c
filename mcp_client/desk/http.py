"""The HTTP of the page apart from Starlette: its headers, the fields of its forms, refusals."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ..errors import ConfigError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "Refused",
    "check_extra",
    "fields_of",
    "form_of",
    "new_nonce",
    "path_of",
    "respond",
    "static",
    "whole_number",
]

_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_FIELDS = 2_000
_STATIC = {
    "desk.js": ("text/javascript; charset=utf-8", ("desk.js", "keys.js", "times.js")),
    "desk.css": ("text/css; charset=utf-8", ("desk.css",)),
}
_HTML = "text/html; charset=utf-8"


class Refused(Exception):
    """A request that is answered with ``status`` and a sentence."""

    def __init__(
        self, status: int, text: str, *, links: Sequence[tuple[str, str]] = (), **more: Any
    ) -> None:
        """Create a refusal; ``links`` are addresses below the page's, with the text of each."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.links = links
        self.more = more


def check_extra(what: str, *packages: str) -> None:
    """Raise ``ConfigError`` if one of these packages of the extra ``web`` is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f'{what} needs the package {package}: pip install "mcp-client-host[web]"'
            )


def path_of(request: Request) -> str:
    """Return the path below the page's mount point; empty if only the slash is missing."""
    path, root = str(request.scope["path"]), str(request.scope.get("root_path") or "").rstrip("/")
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def fields_of(text: str) -> dict[str, list[str]]:
    """Return the fields of a query or a form. Raises ``Refused``."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "The fields cannot be read.") from None


async def form_of(request: Request) -> dict[str, list[str]]:
    """Return the fields of the body. Raises ``Refused``.

    Starlette's own parser needs one more package.
    """
    from starlette.requests import ClientDisconnect

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "Send the fields of the form.")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                raise Refused(413, f"That is more than {_MAX_BODY_BYTES:,} bytes.")
    except ClientDisconnect:
        raise Refused(400, "The request ended early.") from None
    return fields_of(body.decode("latin-1"))


def whole_number(query: dict[str, list[str]], name: str) -> int:
    """Return the whole number ``name`` of a query. Raises ``Refused``."""
    text = query.get(name, ["0"])[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise Refused(400, f"Give {name}= as a whole number.")
    return int(text)


def new_nonce() -> str:
    """Return a Content-Security-Policy nonce for one page."""
    return secrets.token_urlsafe(16)


def static(name: str) -> Response:
    """Return a file of the page, which may be made of several."""
    type, files = _STATIC[name]
    directory = Path(__file__).parent / "static"
    return respond(b"".join((directory / file).read_bytes() for file in files), type=type)


def respond(
    body: Any = "", status: int = 200, *, type: str = _HTML, nonce: str = "none", **headers: str
) -> Response:
    """Return a response with the headers that protect the page.

    Nothing from another origin is loaded, no script without the ``nonce`` runs, no other page can
    frame this one or read it, and nothing is cached. A ``body`` that is not text is events to be
    streamed.
    """
    from starlette.responses import Response, StreamingResponse

    kind = Response if isinstance(body, str | bytes) else StreamingResponse
    answer = kind(body, status)
    answer.headers.update({"content-type": type, **_SECURITY, **headers})
    answer.headers["content-security-policy"] = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types desk"
    )
    return answer


_SECURITY = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
