"""What an HTTP status other than success means: a JSON-RPC error, if the body is one, else ours.

2026-07-28 ``basic/transports/streamable-http``: a JSON-RPC error may come on any 4xx or 5xx, and
is then read as that error. What else comes is told apart by what may have happened: 401 and 403
ask who we are, 502 and 504 are a gateway that does not know either, and with every other status
the server itself says that it did not do it.
"""

from __future__ import annotations

import re

from ..errors import AuthError, ConnectError, McpError, ServerError
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, parse
from ..protocol.response_headers import Challenge, parse_challenges, what_is_wanted
from ..runtime.safe_text import safe_text
from .http_client import HttpClient
from .http_response import HttpResponse

__all__ = ["NOT_KNOWN", "http_error", "is_passing", "session_is_gone", "session_lost"]

NOT_KNOWN = frozenset({400, 404, 405})
"""What a server may answer to what it was not made for: HTTP+SSE is tried after these."""

_GONE = frozenset({404, 410})
_GATEWAY = frozenset({502, 504})
_BUSY = frozenset({408, 425, 429})
_NOT_IMPLEMENTED = 501
_INVALID_REQUEST = -32600
_SHOWN = 500
_NO_SESSION = re.compile(
    r"session\b.{0,40}\b(not found|unknown|expired|terminated|invalid|closed|does(n't| not) exist)"
    r"|(no valid|invalid|unknown|expired) session|server not initialized",
    re.IGNORECASE,
)
_WANTS_TLS = re.compile(r"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS", re.I)


async def http_error(
    client: HttpClient, response: HttpResponse, id: Id | None, *, agreed: bool
) -> ErrorResponse | McpError:
    """What the response means to the request ``id``.

    ``agreed`` is whether an era was agreed on: before that, nothing was called.
    """
    body = await response.excerpt()
    await response.aclose()
    failure = _failure(client, body)
    if failure is not None and response.status not in (401, 403):
        failure = response.without_secrets(failure)
        return failure._replace(id=id, status=response.status, retry_after=response.retry_after)
    excerpt = _excerpt(body, response, failure)
    text = f"{client.shown} answered HTTP {response.status}"
    if excerpt:
        text += f": {excerpt}"
    if _WANTS_TLS.search(excerpt):
        text += "; use https://"
    server, status, after = client.context.server, response.status, response.retry_after
    if status in (401, 403):
        headers = [response.mask(one) for one in response.headers.get_list("www-authenticate")]
        return AuthError(
            text + _how_to_authorize(client, status, parse_challenges(headers)),
            challenge=", ".join(headers)[:4096] if headers else None,
            http_status=status,
            body_excerpt=excerpt,
            retry_after=after,
            server=server,
        )
    if not agreed:
        return ConnectError(
            text,
            http_status=status,
            body_excerpt=excerpt,
            retry_after=after,
            server=server,
            retryable=status in (408, 429, 503) or status in _GATEWAY,
        )
    if status in _GATEWAY:
        return client.lost(f"a gateway answered HTTP {status}", status)
    return ServerError(
        text,
        code=None,
        http_status=status,
        body_excerpt=excerpt,
        retry_after=after,
        server=server,
        retryable=status == 429,
    )


def _how_to_authorize(client: HttpClient, status: int, challenges: list[Challenge]) -> str:
    text = f"; it wants {what_is_wanted(challenges)}" if challenges else ""
    if client.authorized:
        if status == 403:
            return text
        return f"{text}; what HttpServer(auth=...) or HttpServer(headers=...) gave was not accepted"
    if status == 403 and not challenges:
        return text
    schemes = {challenge.scheme for challenge in challenges}
    if schemes and not schemes & {"bearer", "dpop"}:
        return f"{text}: give it with HttpServer(url, headers={{'Authorization': '...'}})"
    return (
        f"{text}: log in with HttpServer(url, auth=OAuth()), or, if you have a token already, give "
        "it with HttpServer(url, auth=BearerToken('...')); both are in mcp_client.auth"
    )


def is_passing(status: int) -> bool:
    """Whether the same request may fare better later."""
    return (status >= 500 and status != _NOT_IMPLEMENTED) or status in _BUSY


def session_is_gone(status: int, text: str, code: int | None = None) -> bool:
    """Whether a request that named our session was refused because the server has it no longer.

    The specification has 404 for it. Some servers answer 410, or 400 with the reason; others HTTP
    200 and the JSON-RPC error "invalid request", which says that nothing was run.
    """
    if status in _GONE:
        return True
    if status != 400 and not (200 <= status < 300 and code == _INVALID_REQUEST):
        return False
    return bool(_NO_SESSION.search(text[:2000]))


def session_lost(client: HttpClient) -> ConnectError:
    """For a request that named such a session, or would have."""
    return ConnectError(
        f"{client.shown} no longer knows our session; nothing was run, and the next request opens "
        "a new one",
        http_status=404,
        server=client.context.server,
        retryable=True,
    )


def _failure(client: HttpClient, body: bytes) -> ErrorResponse | None:
    try:
        messages = parse(body.strip(), client.context.limits.depth)
    except InvalidFrame:
        return None
    return next((message for message in messages if type(message) is ErrorResponse), None)


def _excerpt(body: bytes, response: HttpResponse, failure: ErrorResponse | None) -> str:
    if failure is not None:
        text = failure.message
    elif response.is_html(body):
        text = f"{response.html_page(body)}; {_page_advice(response.status)}"
    else:
        text = body.decode("utf-8", "replace").strip()
    return safe_text(response.mask(text), _SHOWN)


def _page_advice(status: int) -> str:
    if status >= 500:
        return "the server, or a gateway before it, failed, and its own log may say why"
    if status in (401, 403, 407):
        return "it is a page for people, perhaps to log in"
    return "this may not be the URL of the MCP endpoint"
