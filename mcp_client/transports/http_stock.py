"""Stock httpx under the HTTP transports: what our own pool (``http_pool``) does not do.

That is proxies and a client of the host's own; and everything, if h11 is missing or the host
requires it.

The TLS context, whose certificates take 17 ms to load, is made once for the whole process.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import anyio
import httpx

from ..errors import Advice, ConfigError
from ..runtime.masking import mask, secrets_sent
from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback
from .base import PersonAsked
from .http_options import origin_of, shown

__all__ = [
    "SIGNS_OF_LIFE",
    "USER_AGENT",
    "RequestBody",
    "logged_safely",
    "new_client",
    "proxy_for",
    "proxy_named",
    "send_logged_safely",
    "tls_context",
]

USER_AGENT = {"User-Agent": "mcp-client"}
_sending: ContextVar[bool] = ContextVar("mcp_client.sending", default=False)


class _HideSecrets(logging.Filter):
    """Leaves out what may be secret in the log lines of httpx and httpcore about our requests.

    httpx logs the URL of each request at INFO; its query and user are left out. httpcore logs the
    headers of each response at DEBUG; cookies and repeated secrets are left out.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not _sending.get():
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(
                shown(str(each)) if isinstance(each, httpx.URL) else each for each in record.args
            )
        if isinstance(record.msg, str) and record.msg.startswith(_HEADERS_CAME):
            record.msg = _HEADERS_CAME
        return True


_HEADERS_CAME = "receive_response_headers.complete"
for _name in ("httpx", "httpcore.http11", "httpcore.http2"):
    logging.getLogger(_name).addFilter(_HideSecrets())


@contextmanager
def logged_safely() -> Iterator[None]:
    """Leave out of httpx's log lines what may be secret, within the block."""
    token = _sending.set(True)
    try:
        yield
    finally:
        _sending.reset(token)


async def send_logged_safely(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send ``request`` as it is and return its response unread, following no redirect."""
    with logged_safely():
        return await client.send(request, stream=True, auth=httpx.Auth(), follow_redirects=False)


SIGNS_OF_LIFE: list[tuple[int, int, int]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", 60),
            ("TCP_KEEPALIVE", 60),  # the same on macOS
            ("TCP_KEEPINTVL", 15),
            ("TCP_KEEPCNT", 4),
        )
        if hasattr(socket, name)
    ),
]
"""The options of a socket: a silent stream ends within two minutes if the machine at its other end,
or the way to it, is gone. Nothing else would show it."""
_contexts: dict[tuple[object, ...], ssl.SSLContext] = {}


def tls_context(certificates: bool) -> ssl.SSLContext:
    """Return the process's own TLS context; without certificates, one that trusts no server.

    Another one where ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, which name them, have changed. Raises
    ``ConfigError`` if what these or ``SSLKEYLOGFILE`` name cannot be used.
    """
    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    key = (certificates, *named)
    context = _contexts.get(key)
    if context is None:
        context = _with_certificates() if certificates else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["http/1.1"])
        _contexts[key] = context
    return context


def _with_certificates() -> ssl.SSLContext:
    file, directories = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if directories and not file and not any(map(os.path.isdir, directories.split(os.pathsep))):
        # OpenSSL would trust no server, and every connection would fail without a word of this.
        raise _unusable("SSL_CERT_DIR", directories, "is not a directory")
    if file and (not os.path.exists(file) or os.path.isdir(file)):
        _check_certificates(file)  # httpx 0.27 ignores such a file and trusts its own certificates
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
    if file:
        _check_certificates(file)
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys:
        raise _unusable("SSLKEYLOGFILE", keys, f"cannot be written: {reason}")
    raise ConfigError(f"cannot load the TLS certificates of this machine: {reason}")


def _check_certificates(file: str) -> None:
    """Raise ``ConfigError`` if ``file``, of ``SSL_CERT_FILE``, holds no certificates."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except ssl.SSLError:
        raise _unusable("SSL_CERT_FILE", file, "has no certificate in PEM format") from None
    except OSError as error:
        raise _unusable("SSL_CERT_FILE", file, f"cannot be read: {error.strerror}") from None


def _unusable(variable: str, path: str, why: str) -> ConfigError:
    return ConfigError(
        f"the environment variable {variable} names {safe_text(path, 300)!r}, which {why}",
        advice=Advice(f"change {variable}, or unset it"),
    )


def _tls_context_for(url: str) -> ssl.SSLContext:
    """Return the TLS context for ``url``.

    The certificates are loaded only if TLS may be spoken: not for ``http://localhost``.
    """
    scheme, host, _ = origin_of(url)
    return tls_context(certificates=not (scheme == "http" and is_loopback(host)))


def proxy_named(url: str) -> str | None:
    """Return the proxy for ``url`` as errors name it, without its password.

    None without a proxy.
    """
    proxy = proxy_for(url)
    return None if proxy is None else f"the proxy {shown(proxy)}, which {_source(url)}"


def _source(url: str) -> str:
    """Return what names the proxy for ``url``, with its verb."""
    names = (f"{origin_of(url)[0]}_proxy", "all_proxy")
    found = [name for name in os.environ if name.lower() in names and os.environ[name]]
    # Its own variable comes before ALL_PROXY, and of two spellings the one in lower case counts.
    found.sort(key=lambda name: (names.index(name.lower()), name.isupper()))
    return f"the environment variable {found[0]} names" if found else "the system's settings name"


def proxy_for(url: str) -> str | None:
    """Return the proxy's URL; None without a proxy, and for this machine itself.

    ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case, else the
    system's settings. ``NO_PROXY`` names hosts with their subdomains, addresses, and networks
    (``10.0.0.0/8``). Raises ``ConfigError`` if the proxy's URL is not valid.
    """
    from urllib.request import getproxies, proxy_bypass

    scheme, host, port = origin_of(url)
    if is_loopback(host):
        return None
    proxies: dict[str, Any] = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host if ":" in host else f"{host}:{port}"):
        return None
    if _is_in_one_of(str(proxies.get("no", "")).split(","), host):
        return None
    proxy = str(proxy) if "://" in proxy else f"http://{proxy}"
    try:
        parsed = httpx.URL(proxy)
        is_valid = parsed.host != "" and "@" not in f"{parsed.raw_path!r}{parsed.fragment}"
    except httpx.InvalidURL:
        is_valid = False
    if not is_valid:  # its parts are not shown: one may be the beginning of the password
        raise ConfigError(
            f"{_source(url)} a proxy whose URL is not valid",
            advice=Advice(
                "give one such as http://user:password@proxy.example.com:3128, with '/', '?', '#' "
                "and '@' in the password as %2F, %3F, %23 and %40"
            ),
        )
    return proxy


def _is_in_one_of(networks: list[str], host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for network in networks:
        try:
            if address in ip_network(network.strip().strip("[]"), strict=False):
                return True
        except (TypeError, ValueError):  # a name, or the other version of IP
            continue
    return False


def new_client(url: str, keep: float) -> httpx.AsyncClient:
    """Return a client for the origin of ``url``, which uses the proxy of the environment.

    ``keep``: seconds that an idle connection stays open.
    """
    proxy = proxy_for(url)
    try:
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                verify=_tls_context_for(url),
                proxy=proxy,
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=20, keepalive_expiry=keep),
                socket_options=SIGNS_OF_LIFE,
            ),
            trust_env=False,
            timeout=None,  # noqa: S113 - every wait has a clock of the session's
            headers=USER_AGENT,
        )
    except (ImportError, ValueError) as error:
        if proxy is None:
            raise
        reason = safe_text(mask(str(error), secrets_sent(proxy, ())), 200)
        raise ConfigError(
            f"{proxy_named(url)}, cannot be used for {shown(url)}: {reason}. Change it, or add "
            "the host to NO_PROXY"
        ) from None


@dataclass(eq=False)
class RequestBody(httpx.AsyncByteStream):
    """The body of a request, sent once.

    httpx iterates its own body with an async generator. If a request is abandoned, that generator
    is left unfinished, and trio warns when it is collected.
    """

    data: bytes = field(repr=False)
    is_stale: Callable[[], bool] | None = field(default=None, repr=False)
    """Whether it must not be sent now, or again: see ``Transport.hold``."""
    spares_login: Callable[[], bool] | None = field(default=None, repr=False)
    """Whether a person is not asked to log in after a 401 to it, since it may have another
    cause."""
    begun: bool = field(default=False, init=False)
    """Whether the connection was given it to send, which comes after the headers: until then no
    server can have taken the request up."""
    withdrawn: bool = field(default=False, init=False)
    """Whether it must not be sent any more. Cancelling the sending task is not enough: if the task
    was already woken, it sends before it waits again."""

    def withdraw(self) -> bool:
        """Send nothing of it from here on. Returns False if it has begun."""
        self.withdrawn = not self.begun
        return self.withdrawn

    def check(self) -> None:
        """Raise an error if it must not be sent any more.

        It is ``PersonAsked`` or ``anyio.ClosedResourceError``.
        """
        if self.withdrawn:
            raise anyio.ClosedResourceError
        if self.is_stale is not None and self.is_stale():
            raise PersonAsked(
                "a person logged in before the request could be sent; nothing was sent",
                retryable=True,
            )

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.check()
        self.begun = True
        return _Chunk(self.data)

    def rewind(self) -> None:
        """Prepare to send it again, because the server that got it did not accept it."""
        self.begun = False


class _Chunk:
    def __init__(self, data: bytes) -> None:
        self._left: bytes | None = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data, self._left = self._left, None
        if not data:
            raise StopAsyncIteration
        return data
