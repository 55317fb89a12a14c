"""What a status that is none of success means: a JSON-RPC error, if the body is one, else ours.

2026-07-28 ``basic/transports/streamable-http``: a JSON-RPC error may come on any 4xx or 5xx, and
is then read as that error. What else comes is told apart by what may have happened: 401 and 403
ask who we are, 502 and 504 are a gateway that does not know either, and with every other status
the server itself says that it did not do it.
"""

from __future__ import annotations

from ..errors import AuthError, ConnectError, McpError, ServerError
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, parse
from ..protocol.www_authenticate import Challenge, parse_challenges, what_is_wanted
from ..runtime.masking import mask, mask_json
from ..runtime.safe_text import safe_text
from .http_client import HttpClient
from .http_response import HttpResponse

__all__ = ["NOT_KNOWN", "SESSION_ENDED", "http_error", "session_ended", "without_secrets"]

NOT_KNOWN = frozenset({400, 404, 405})
"""What a server may answer to what it was not made for: HTTP+SSE is tried after these."""

SESSION_ENDED = 404

_GATEWAY = frozenset({502, 504})
_SHOWN = 500
_NO_SESSION = (b"no valid session id", b"session not found", b"invalid session id")


async def http_error(
    web: HttpClient, reply: HttpResponse, id: Id | None, *, agreed: bool
) -> ErrorResponse | McpError:
    """What the reply means to the request ``id``; before an era is agreed, nothing was called."""
    body = await reply.excerpt()
    await reply.aclose()
    failure = _failure(web, body)
    if failure is not None and reply.status not in (401, 403):
        failure = failure._replace(id=id, status=reply.status, retry_after=reply.retry_after)
        return without_secrets(web, reply, failure)
    secrets = web.secrets(reply.response)
    excerpt = _excerpt(body, reply, failure, secrets)
    text = f"{web.shown} answered HTTP {reply.status}"
    if excerpt:
        text += f": {excerpt}"
    server, status, after = web.link.server, reply.status, reply.retry_after
    if status in (401, 403):
        headers = [
            mask(header, secrets) for header in reply.response.headers.get_list("www-authenticate")
        ]
        return AuthError(
            text + _wanted(web, status, parse_challenges(headers)),
            challenge=", ".join(headers)[:4096] if headers else None,
            http_status=status,
            body_excerpt=excerpt,
            retry_after=after,
            server=server,
        )
    again = status in (408, 429, 503)
    if not agreed:
        return ConnectError(
            text,
            http_status=status,
            body_excerpt=excerpt,
            retry_after=after,
            server=server,
            retryable=again or status in _GATEWAY,
        )
    if status in _GATEWAY:
        return web.lost(f"a gateway answered HTTP {status}", status)
    return ServerError(
        text,
        code=None,
        http_status=status,
        body_excerpt=excerpt,
        retry_after=after,
        server=server,
        retryable=status == 429,
    )


def _wanted(web: HttpClient, status: int, challenges: list[Challenge]) -> str:
    """What the server wants from us, and how to give it."""
    text = f"; it wants {what_is_wanted(challenges)}" if challenges else ""
    if web.authorized or (status == 403 and not challenges):
        return text
    schemes = {challenge.scheme for challenge in challenges}
    if schemes and not schemes & {"bearer", "dpop"}:
        return f"{text}: give it with HttpServer(headers=...)"
    return f"{text}: log in with HttpServer(url, auth=OAuth()), or give a token, auth=BearerToken()"


def session_ended(web: HttpClient, reply_status: int, body_said: bytes) -> ConnectError | None:
    """The error for a request that named a session the server no longer has; None otherwise.

    The specification has 404 for it. Some servers say 400 and name the reason.
    """
    said = body_said[:2000].lower()
    if reply_status != SESSION_ENDED and not (
        reply_status == 400 and any(text in said for text in _NO_SESSION)
    ):
        return None
    return ConnectError(
        f"{web.shown} no longer knows our session (HTTP {reply_status}); nothing was run, and "
        "the next request opens a new one",
        http_status=SESSION_ENDED,
        server=web.link.server,
        retryable=True,
    )


def _failure(web: HttpClient, body: bytes) -> ErrorResponse | None:
    try:
        messages = parse(body.strip(), web.link.limits.depth)
    except InvalidFrame:
        return None
    return next((message for message in messages if type(message) is ErrorResponse), None)


def without_secrets(web: HttpClient, reply: HttpResponse, error: ErrorResponse) -> ErrorResponse:
    """The JSON-RPC error with the credentials hidden that its request carried."""
    secrets = web.secrets(reply.response)
    return error._replace(message=mask(error.message, secrets), data=mask_json(error.data, secrets))


def _excerpt(
    body: bytes, reply: HttpResponse, failure: ErrorResponse | None, secrets: set[str]
) -> str:
    if failure is not None:
        text = failure.message
    elif reply.kind == "text/html":
        text = reply.unlike(body)
    else:
        text = body.decode("utf-8", "replace").strip()
    return safe_text(mask(text, secrets), _SHOWN)
