"""Why a request could not be sent: from an exception to a sentence that says what to do about it.

Nothing has reached the server in any of these cases.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from ..errors import ConnectError
from ..runtime.safe_text import safe_text
from .http_options import origin_of, shown

__all__ = ["connect_failure", "is_foreign"]

_SELF_SIGNED = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose issuer is not known here (X509_V_ERR_...)."""
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = (62, 64)
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_PASSING = (httpx.TransportError,)
_LASTING = (httpx.ProtocolError, httpx.UnsupportedProtocol)


def connect_failure(error: Exception, url: str, server: str, seconds: float) -> ConnectError:
    """``seconds``: the connect timeout."""
    address = shown(url)
    text, retryable = f"cannot connect to {address}: ", True
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    if isinstance(error, httpx.ConnectTimeout | TimeoutError):
        text += f"no answer within {seconds:g} s; is the server running there?"
    elif tls is not None:
        text, retryable = text + _tls_advice(tls, url), False
    elif any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
        host = safe_text(urlsplit(url).hostname or "", 80)
        text += f"the host name {host!r} cannot be resolved; check the URL"
    elif isinstance(error, httpx.ConnectError | httpx.PoolTimeout | OSError):
        text += f"{_text_of(error)}; is the server running there?"
    elif isinstance(error, httpx.ProxyError):
        text += f"the proxy of this environment refused: {_text_of(error)}"
    else:
        text = f"the request to {address} could not be sent: {_text_of(error)}; nothing was sent"
        retryable = isinstance(error, _PASSING) and not isinstance(error, _LASTING)
    return ConnectError(text, server=server, retryable=retryable)


def is_foreign(error: Exception) -> bool:
    """Whether it comes from something the host gave, so that its trace tells more."""
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
            "what answers there does not speak TLS; if the server has no certificate, its URL "
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
