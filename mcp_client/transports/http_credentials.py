"""What requests are authorized by, as a digest: is this still the user a list was fetched for?

2026-07-28 ``server/utilities/caching``: a response that is private must not be used in another
authorization context. Tokens may come from functions, an ``httpx.Auth``, or a client of the host's
own, and none of them tells when it begins to stand for somebody else. So what a fetch carried is
recorded, and before its result is used again, a request is prepared as the next one would be, and
compared. The digest is keyed with a secret of this process, so that a token cannot be found from
it by trying.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import anyio
import httpx

from ..errors import AuthError, McpError
from .http_options import Headers

__all__ = ["HttpCredentials"]

_KEY = os.urandom(32)
_PROTOCOL = frozenset(
    b"accept accept-encoding accept-language connection content-length content-type host "
    b"last-event-id origin traceparent tracestate baggage transfer-encoding user-agent".split()
)
"""Headers that tell nothing about who is asking; and so do those that begin with ``Mcp-``."""
_DIFFER_PER_REQUEST = frozenset(b"date dpop x-amz-date x-amz-content-sha256".split())
"""Headers of signed requests which change though the signer is the same."""
_SIGNER = re.compile(
    rb"(?i)AWS4-\S+\s.*?Credential=([^/,\s]+)|Digest\s.*?username=(\"[^\"]*\"|[^,\s]+)"
)
"""Who signs, in schemes whose ``Authorization`` is another one for every request."""

_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)


class _Recorder:
    def __init__(self) -> None:
        self.digests: set[Hashable] = set()
        self.over = False


class HttpCredentials:
    """The credentials of one ``HttpClient``; see ``Transport.credentials``."""

    def __init__(
        self,
        client: Callable[[], httpx.AsyncClient],
        auth: httpx.Auth | None,
        given_headers: Callable[[], Awaitable[Headers]],
        *,
        url: str,
        is_own_client: bool,
        seconds: float,
    ) -> None:
        """``is_own_client``: the host has no hand in what ``client`` sends; ``seconds``: how long
        the host's functions may take."""
        self._seconds = seconds
        self._client = client
        self._auth = auth
        self._given_headers = given_headers
        self._url = url
        self._is_own_client = is_own_client
        self._server_cookies: dict[str, str] = {}

    async def current(self) -> Hashable:
        """What the next request of this task would carry. Raises ``AuthError``."""
        return await self._in_time(self._login, _KEY) or object()  # which is equal to nothing

    async def lasting(self, key: bytes) -> bytes:
        """The same, to be compared in another process: see ``Transport.lasting_authorization``."""
        return await self._in_time(self._lasting_login, key) or b""

    async def _in_time(self, login: Callable[[], object], key: bytes) -> bytes | None:
        with anyio.move_on_after(self._seconds):
            return await self._prepared(login(), key)
        raise AuthError(
            "what authorizes the requests to this server (HttpServer auth=, headers= or client=) "
            f"did not answer within {self._seconds:g} s (connect timeout); nothing was sent"
        )

    async def _prepared(self, login: object, key: bytes) -> bytes | None:
        """None where it cannot be known what will be sent."""
        auth = self._auth_in_force()
        given = await self._given_headers()
        if self._is_own_client and (auth is None or login is not None):
            encoded = ((name.encode(), value.encode()) for name, value in given.items())
            return self._digest(encoded, login, key)
        try:
            request = self._client().build_request("POST", self._url, headers=dict(given))
            if login is None and auth is not None and not await _sign(auth, request):
                return None
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the auth that goes with every request ({type(auth).__name__}) raised "
                f"{type(error).__name__}; nothing was sent"
            ) from error
        return self._digest(request.headers.raw, login, key)

    @contextmanager
    def recorded(self) -> Iterator[set[Hashable]]:
        """What each request carries that this task sends meanwhile."""
        recorder = _Recorder()
        token = _recorder.set(recorder)
        try:
            yield recorder.digests
        finally:
            recorder.over = True
            _recorder.reset(token)

    def note(self, response: httpx.Response) -> None:
        """A request was sent, and this is the response."""
        if not self._is_own_client and "set-cookie" in response.headers:
            self._server_cookies.update(response.cookies.items())
        recorder = _recorder.get()
        if recorder is not None and not recorder.over:
            recorder.digests.add(self._digest(response.request.headers.raw, self._login(), _KEY))

    def _auth_in_force(self) -> Any:
        return self._auth or (None if self._is_own_client else self._client().auth)

    def _login(self) -> object:
        """What ``mcp_client.auth`` says of who is logged in; None where it cannot tell."""
        authorized_as = getattr(self._auth_in_force(), "authorized_as", None)
        return None if authorized_as is None else authorized_as(self._url)

    def _lasting_login(self) -> object:
        """Whose tokens those are that ``mcp_client.auth`` gets."""
        lasting = getattr(self._auth_in_force(), "lasting_authorization", None)
        return None if lasting is None else lasting(self._url)

    def _digest(self, headers: Iterable[tuple[bytes, bytes]], login: object, key: bytes) -> bytes:
        digest = blake2b(key=key, digest_size=16)
        parts = [repr(login).encode()]
        for name, value in sorted((name.lower(), value) for name, value in headers):
            if name in _PROTOCOL or name in _DIFFER_PER_REQUEST or name.startswith(b"mcp-"):
                continue
            if name == b"authorization":
                if login is not None:
                    continue  # a token that was refreshed is still the same login's
                if signer := _SIGNER.match(value):
                    value = signer.group(1) or signer.group(2)
            elif name == b"cookie":
                value = self._without_server_cookies(value)
            if value:
                parts += [name, value]
        for part in parts:
            digest.update(len(part).to_bytes(8) + part)
        return digest.digest()

    def _without_server_cookies(self, header: bytes) -> bytes:
        """A load balancer renews its own cookie with each response, and that does not make us
        another user; what the host puts into its client does."""
        pairs = [pair.strip().partition("=") for pair in header.decode("latin-1").split(";")]
        kept = [
            f"{name}={value}" for name, _, value in pairs if self._server_cookies.get(name) != value
        ]
        return ";".join(kept).encode("latin-1")


async def _sign(auth: Any, request: httpx.Request) -> bool:
    """Let ``auth`` prepare ``request``, which is not sent. False where it wants to send another
    request first, so that what it would add is not known."""
    flow = auth.async_auth_flow(request)
    try:
        first = await anext(flow)
    finally:
        await flow.aclose()
    return first is request
