"""Errors for HTTP requests that failed, with what to do about each; and lost sessions.

If nothing could be sent, ``Endpoint.connect_failure`` makes the error of an exception. If a
response came, ``http_error`` makes the error of its status, or of its body if that is a JSON-RPC
error.

2026-07-28 ``basic/transports/streamable-http``: a JSON-RPC error may come on any 4xx or 5xx, and is
then parsed as that error. The other responses differ in what may have happened. With 401 and 403
the server wants to know the client. 502 and 504 come from a gateway that does not know the outcome.
With every other status the server itself states that it did not run the request.

The specification has 404 for a session that the server has forgotten (2025-11-25
``basic/transports``, session management). In the field it is also 400, 401, 403, 410, 500 or 503
with words about the session, and a JSON-RPC error in HTTP 200. Such a refusal comes before the
request runs, so the request may be sent again on a new session. A 5xx whose words may be about a
session that broke while the request ran ("session closed") is not one. A 401 or 403 without such
words may be the same: the credentials were good when the session was opened. ``RefusedAlike``
allows one new session for it. If the same request is refused again there, it is a refusal.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from ..errors import Advice, AuthError, ConnectError, ConnectionLost, McpError, ServerError
from ..protocol.headers import Challenge, parse_challenges, what_is_wanted
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, parse
from ..runtime.safe_text import safe_text
from .http_options import origin_of, shown
from .http_response import HttpResponse
from .multiplexer import LineExchange

__all__ = [
    "ENDED",
    "NOT_KNOWN",
    "Endpoint",
    "Refusal",
    "RefusedAlike",
    "http_error",
    "is_foreign",
    "names_lost_session",
    "session_has_ended",
]

NOT_KNOWN = frozenset({400, 404, 405})
"""The statuses of a server that does not know the request: HTTP+SSE is tried after these."""

_GATEWAY = frozenset({502, 504})
_MAX_EXCERPT_CHARS = 500
_WANTS_TLS = re.compile(r"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS", re.I)

_SELF_SIGNED = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose issuer is not known here (X509_V_ERR_...)."""
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = (62, 64)
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_PASSING = (httpx.TransportError,)
_PERMANENT = (httpx.ProtocolError, httpx.UnsupportedProtocol)


class Endpoint(NamedTuple):
    """The address of requests, and what errors report about it."""

    url: str
    server: str
    """The host's name for the server."""
    connect_seconds: float
    authorized: bool
    """Whether the host gave something to show who is asking."""
    depth: int
    """See ``Limits.depth``."""
    announced_by: str = ""
    """The address of the stream that announced ``url``, if one did."""
    proxy: str | None = None
    """The result of ``proxy_named``, if the requests go through that proxy."""

    @property
    def shown(self) -> str:
        """The URL, without what may be secret."""
        return shown(self.url)

    @property
    def described(self) -> str:
        """The address, and its source."""
        if not self.announced_by:
            return self.shown
        by = shown(self.announced_by)
        return f"{self.shown}, the endpoint that the stream of {by} announced,"

    def connect_failure(self, error: Exception, url: str) -> ConnectError:
        """Return the error for a request to ``url``, of which nothing has reached the server."""
        address = shown(url)
        text, retryable, advice = f"cannot connect to {address}: ", True, None
        tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
        unresolved = any(isinstance(cause, socket.gaierror) for cause in _causes(error))
        if self.proxy is not None and (why := self._of_proxy(error, tls, unresolved)):
            text += f"{self.proxy}, {why}"
            advice = Advice("check the proxy, or name the host in NO_PROXY", "proxy")
        elif isinstance(error, httpx.ConnectTimeout | TimeoutError):
            text += f"no response within {self.connect_seconds:g} s; is the server running there?"
        elif tls is not None:
            text, retryable = text + _tls_advice(tls, url), False
        elif unresolved:
            host = safe_text(urlsplit(url).hostname or "", 80)
            text += f"the host name {host!r} cannot be resolved; check the URL"
        elif isinstance(error, httpx.ConnectError | httpx.PoolTimeout | OSError):
            text += f"{_text_of(error)}; is the server running there?"
        elif isinstance(error, httpx.ProxyError):
            text += f"the proxy refused: {_text_of(error)}"
        else:
            text = f"cannot send the request to {address}: {_text_of(error)}; nothing was sent"
            retryable = isinstance(error, _PASSING) and not isinstance(error, _PERMANENT)
        return ConnectError(text, server=self.server, retryable=retryable, advice=advice)

    def _of_proxy(self, error: Exception, tls: ssl.SSLError | None, unresolved: bool) -> str | None:
        """Return the problem with the proxy; None if the problem is another one."""
        if isinstance(error, httpx.ConnectTimeout | TimeoutError):
            return f"did not respond within {self.connect_seconds:g} s"
        if tls is not None:  # of the server, or of a proxy with an https:// address
            return None
        if unresolved:
            return "has a host name that cannot be resolved"
        if isinstance(error, httpx.ProxyError):
            return f"refused: {_text_of(error)}"
        if isinstance(error, httpx.ConnectError | OSError):
            return f"cannot be reached: {_text_of(error)}"
        if isinstance(error, httpx.RemoteProtocolError):
            return f"did not make the connection: {_text_of(error)}"
        return None

    def not_connected(self) -> ConnectError:
        """Return the error for a request whose time ran out before it could leave."""
        return ConnectError(
            f"no connection to {self.shown} was made within the time the request had; nothing "
            "was sent",
            server=self.server,
            retryable=True,
        )

    def session_lost(self, words: str = "") -> ConnectError:
        """Return the error for a request that named a session that the server does not know.

        ``words`` are the server's own.
        """
        because = f" ({safe_text(words.strip(), 200)})" if words.strip() else ""
        return ConnectError(
            f"{self.shown} no longer knows our session{because}; nothing was run, and the next "
            "request opens a new one",
            http_status=404,
            server=self.server,
            retryable=True,
        )

    def lost(self, why: str, status: int | None = None, excerpt: str = "") -> ConnectionLost:
        """Return the error for a request that has begun to leave."""
        return ConnectionLost(
            f"the connection to {self.shown} was lost while the request was under way: {why}; "
            "it may have run",
            why=f"the connection to {self.shown} was lost: {why}",
            http_status=status,
            body_excerpt=excerpt,
            server=self.server,
        )


class Refusal(NamedTuple):
    """A response with the status of an error, as what it means for its request."""

    words: str
    """The server's own words."""
    outcome: ErrorResponse | McpError
    """The JSON-RPC error in its body, or else the error of its status."""

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error."""
        return self.outcome.code if isinstance(self.outcome, ErrorResponse) else None

    @property
    def auth_error(self) -> AuthError | None:
        """The error of a refused login."""
        return self.outcome if isinstance(self.outcome, AuthError) else None

    def response(self) -> ErrorResponse:
        """Return the JSON-RPC error. Raises the error of the status if there is none."""
        if isinstance(self.outcome, McpError):
            raise self.outcome
        return self.outcome

    def settle(self, exchange: LineExchange) -> None:
        """End the request with it."""
        if isinstance(self.outcome, McpError):
            exchange.fail(self.outcome)
        else:
            exchange.deliver(self.outcome)


async def http_error(
    endpoint: Endpoint, response: HttpResponse, id: Id | None, *, agreed: bool
) -> Refusal:
    """Return what the response means for the request ``id``.

    ``agreed`` is whether an era was agreed on: before that, nothing was called.
    """
    body = await response.excerpt()
    await response.aclose()
    failure = _failure(endpoint, body)
    if failure is not None and response.status not in (401, 403):
        failure = response.without_secrets(failure)
        status, after = response.status, response.retry_after
        answered = failure._replace(id=id, status=status, retry_after=after)
        return Refusal(f"{failure.message} {failure.data or ''}", answered)
    excerpt = _excerpt(body, response, failure)
    return Refusal(excerpt, _error_of_status(endpoint, response, excerpt, agreed))


def _error_of_status(
    endpoint: Endpoint, response: HttpResponse, excerpt: str, agreed: bool
) -> McpError:
    text = f"{endpoint.described} answered HTTP {response.status}"
    if endpoint.proxy and endpoint.url.startswith("http:"):  # else it only passes bytes on
        text += f" through {endpoint.proxy}"
    if response.status == 407:
        text += "; give the proxy's user and password in its URL, or name the host in NO_PROXY"
    if response.status == 404 and not agreed and urlsplit(endpoint.url).path in ("", "/"):
        text += "; many servers are at the path /mcp: give the whole URL"
    if excerpt:
        text += f": {excerpt}"
    if _WANTS_TLS.search(excerpt):
        text += "; use https://"
    server, status, after = endpoint.server, response.status, response.retry_after
    if status in (401, 403):
        headers = [response.mask(one) for one in response.headers.get_list("www-authenticate")]
        challenges = parse_challenges(headers)
        wanted = f"; it requires {what_is_wanted(challenges)}" if challenges else ""
        return AuthError(
            text + wanted,
            advice=_how_to_authorize(endpoint, status, challenges),
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
        return endpoint.lost(f"a gateway answered HTTP {status}", status, excerpt)
    return ServerError(
        text,
        code=None,
        http_status=status,
        body_excerpt=excerpt,
        retry_after=after,
        server=server,
        retryable=status == 429,
    )


def _how_to_authorize(
    endpoint: Endpoint, status: int, challenges: list[Challenge]
) -> Advice | None:
    if endpoint.authorized and status == 401:
        options = "HttpServer(auth=...) or HttpServer(headers=...)"
        return Advice(f"what {options} gave was not accepted", "header", endpoint.shown)
    if endpoint.authorized or (status == 403 and not challenges):
        return None
    schemes = {challenge.scheme for challenge in challenges}
    if schemes and not schemes & {"bearer", "dpop"}:
        header = "give it with HttpServer(url, headers={'Authorization': '...'})"
        return Advice(header, "header", endpoint.shown)
    return Advice(
        "log in with HttpServer(url, auth=OAuth()), or, if you have a token already, give it with "
        "HttpServer(url, auth=BearerToken('...')); both are in mcp_client.auth",
        "login",
        endpoint.shown,
    )


def _failure(endpoint: Endpoint, body: bytes) -> ErrorResponse | None:
    try:
        messages = parse(body.strip(), endpoint.depth)
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
    return safe_text(response.mask(text.strip()), _MAX_EXCERPT_CHARS, lines=True)


def _page_advice(status: int) -> str:
    if status >= 500:
        return "the server, or a gateway before it, failed. Its own log may have the reason"
    if status in (401, 403, 407):
        return "it is a page for people, perhaps to log in"
    return "this may not be the URL of the MCP endpoint"


def is_foreign(error: Exception) -> bool:
    """Whether it comes from code that the host gave, so that its trace is useful."""
    return not isinstance(error, httpx.HTTPError | httpx.InvalidURL | OSError | TimeoutError)


def _tls_advice(error: ssl.SSLError, url: str) -> str:
    host = safe_text(origin_of(url)[1], 80)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _SELF_SIGNED:
            return (
                f"its TLS certificate is not trusted here ({error.verify_message}). If it is your "
                "own, name its file, or that of its authority, in the environment variable "
                "SSL_CERT_FILE, or give HttpServer(url, client=httpx.AsyncClient(verify="
                "ssl.create_default_context(cafile=...)))"
            )
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            return f"its TLS certificate is not valid now ({error.verify_message})"
        if error.verify_code in _OTHER_NAME:
            return f"its TLS certificate is not for {host!r}; check the URL"
        return f"its TLS certificate cannot be verified ({error.verify_message})"
    code = getattr(error, "reason", None) or ""
    if any(known in code for known in _NO_TLS):
        return (
            "the server there does not speak TLS; if the server has no certificate, its URL "
            "begins with http://"
        )
    return f"the TLS handshake failed ({safe_text(code or error, 100)})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _text_of(error: BaseException) -> str:
    text = safe_text(str(error), 200)
    if isinstance(error, httpx.HTTPError | OSError):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


ENDED = frozenset({404, 410})
_CODES = frozenset({-32600, -32001})
"""JSON-RPC codes of a server for requests that it did not run."""
_OF_REQUEST = frozenset({-32601, -32602})
"""JSON-RPC codes that are about the request: some servers send them with 404, as later revisions do
for an unknown method."""
_CLEAR = ("insufficient_scope", "use_dpop_nonce")
"""Errors in a challenge that are about the credentials for certain."""
_MAX_CHARS = 2000
_STATES = (
    r"(?:not (?:be )?(?:found|known|valid|active|exist\w*|recogni[sz]ed|available|initiali[sz]ed)"
    r"|un(?:known|recogni[sz]ed|available)|in(?:valid|active)|expired|terminated|closed|missing|lost"
    r"|required|deleted|removed|ended|stale|gone|timed out|time ?out|does(?:n.t| not) exist)"
)
_SESSION = r"\bsession(?: ?ids?)?\b"
_LOST = re.compile(
    rf"{_SESSION}.{{0,60}}?\b{_STATES}\b"
    r"|\b(?:no|not|without|bad|stale|un(?:known|recogni[sz]ed)|in(?:valid|active)|expired|missing"
    rf"|terminated|closed)(?: \w+){{0,3}}? {_SESSION}"
    r"|\b(?:cannot|can.t|could not|couldn.t|unable to|failed to) (?:find|locate)"
    rf"(?: \w+){{0,2}} {_SESSION}"
    r"|\bserver (?:is |was )?not (?:yet )?initiali[sz]ed\b",
    re.IGNORECASE,
)
_BROKE = re.compile(r"\b(?:closed|terminated|lost|ended|timed out|time ?out)\b", re.IGNORECASE)
"""States of a session that a request may also find while it runs."""
_OF_MCP = re.compile(r"\bmcp session\b", re.IGNORECASE)
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])")


def names_lost_session(text: str) -> bool:
    """Whether ``text`` states that a session is unknown, missing, expired or inactive."""
    return bool(_LOST.search(_words(text)))


def session_has_ended(status: int, text: str, code: int | None = None) -> bool:
    """Whether a request that named our session was refused because the server has it no longer.

    Args:
        status: The HTTP status.
        text: The words of the refusal.
        code: The code of a JSON-RPC error, if the response is one. With a status of success, only
            few codes count without the name of the header: a tool may have sessions of its own.
            With 404, a few codes are about the method or the tool.
    """
    if status >= 500:
        found = _LOST.search(_words(text))
        return found is not None and not _BROKE.search(found.group())
    if status >= 300:
        return (status in ENDED and code not in _OF_REQUEST) or names_lost_session(text)
    if code not in _CODES and not _OF_MCP.search(_words(text)):
        return False
    return names_lost_session(text)


def _words(text: str) -> str:
    """``text`` with the words of identifiers apart: SessionNotFound, session_expired."""
    text = text[:_MAX_CHARS].replace("_", " ").replace("-", " ").replace("\n", " ")
    return _JOINT.sub(" ", text)


class RefusedAlike:
    """The requests that were refused with 401 or 403 on a session whose credentials were good.

    One server's, on all sessions with it, one after the other.
    """

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def may_be_session(self, body: bytes) -> bool:
        """Whether a refusal of this request may mean that the session is gone."""
        return _kind(body) not in self._requests

    def note(self, body: bytes, error: AuthError) -> bool:
        """Note a refusal. Returns whether a new session may help."""
        kind = _kind(body)
        challenge = error.challenge or ""
        if kind in self._requests or any(clear in challenge for clear in _CLEAR):
            return False
        self._requests.add(kind)
        return True

    def note_words(self, body: bytes) -> bool:
        """Note a refusal whose words name the session. Returns whether a new session may help.

        It does not if the last session was replaced because of the same request.
        """
        kind = f"words {_kind(body)}"
        self._requests ^= {kind}
        return kind in self._requests

    def answered(self, body: bytes) -> None:
        """Forget the refusals of this request, since it was answered."""
        kind = _kind(body)
        self._requests -= {kind, f"words {kind}"}


def _kind(body: bytes) -> str:
    """Return the kind of a request: its method, and the name of its subject."""
    message = json.loads(body)
    params = message.get("params") or {}
    return f"{message.get('method')} {params.get('name') or params.get('uri') or ''}"
