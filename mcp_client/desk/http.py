"""The HTTP of the page apart from Starlette: its headers, the fields of its forms, refusals."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ..approval.decision import CHOICES, Allow, Answer, Deny
from ..approval.request import ApprovalRequest
from ..approval.terminal import EditorFailed, arguments_of, draft_of
from ..errors import ConfigError
from ..protocol.canonical_json import NotJson

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "Refused",
    "check_extra",
    "decision_of",
    "draft_for",
    "fields_of",
    "form_of",
    "new_nonce",
]
__all__ += ["path_of", "respond", "static", "whole_number"]

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
    response = kind(body, status)
    response.headers.update({"content-type": type, **_SECURITY, **headers})
    response.headers["content-security-policy"] = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types desk"
    )
    return response


_SECURITY = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def decision_of(form: dict[str, list[str]], requests: list[ApprovalRequest]) -> Answer:
    """Return the decision in the form. Raises ``Refused``."""
    reason = form.get("reason", [""])[-1].strip()[:500] or None
    match form.get("answer"):
        case ["deny"]:
            return Deny(reason, source="person") if reason else Deny(source="person")
        case ["allow"]:
            pass
        case _:
            raise Refused(422, "Choose Allow or Deny.")
    name = form.get("remember", ["once"])[-1]
    if not all(name in request.choices() for request in requests):
        raise Refused(422, "How long should the decision be remembered?")
    arguments = _edited(form.get("arguments"), requests)
    if arguments is not None and name != "once":
        raise Refused(422, "Arguments that were edited are for this call only.", field="remember")
    return Allow(arguments, CHOICES[name].remember, reason, source="person")


def _edited(draft: list[str] | None, requests: list[ApprovalRequest]) -> dict[str, Any] | None:
    if not draft:
        return None
    if len(requests) != 1 or len(draft) != 1:
        raise Refused(422, "Arguments are edited one call at a time.")
    (request,) = requests
    try:
        arguments = arguments_of(draft[0])
        same = request.with_arguments(arguments).key == request.key
    except TypeError as error:
        raise Refused(422, f"Not done: {error}.", field="arguments") from None
    except (EditorFailed, NotJson) as error:
        raise Refused(422, f"These arguments cannot be sent: {error}", field="arguments") from None
    return None if same else arguments


def draft_for(request: ApprovalRequest) -> str:
    """Return the text of the request's arguments for the editor."""
    if not request.can_edit:
        raise Refused(404, f"A {request.kind} has no arguments.")
    return draft_of(request.arguments_json)
