"""Transports of messages. A transport knows JSON-RPC; it knows no MCP method.

::

    base.py              the protocol ``Transport``: one exchange per request
    multiplexer.py       one stream of messages, sorted by owner
    memory.py            ``MemoryServer``: a server in the same process
    stream.py            ``StreamServer``: a pair of streams of the host's own
    stdio.py             ``StdioServer``: a server that the host starts
    servers.py           servers that are started, their sandboxes, ``Recording``
    http_options.py      ``HttpServer`` and its checks
    http.py              streamable HTTP: one request, one POST
    http_session.py      streamable HTTP in the handshake era
    http_listener.py     the GET stream of a session
    http_response.py     one HTTP response, parsed within bounds
    http_errors.py       failed HTTP requests as errors, with what to do; lost sessions
    http_base.py         address, credentials and one-way messages of both HTTP transports
    http_client.py       one server's address and its HTTP client
    http_pool.py         connections of HTTP/1.1 over h11
    http_stock.py        httpx, for what that pool does not do
    http_credentials.py  a digest of what authorizes requests
    http_sse.py          HTTP+SSE, the transport of 2024-11-05
    recording.py         records the messages of a transport
    replay.py            a server made of such a record
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "base": ["Transport"],
        "stdio": ["StdioServer"],
        "stream": ["StreamServer"],
        "http": ["HttpServer"],
    },
)
