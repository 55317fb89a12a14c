"""Servers for tests, without a network: of functions, in memory, or made of a session's record.

::

    fake_server.py  FakeServer: a server whose tools are functions
    annotations.py  schemas of functions, by the rules of the official Python SDK

``MemoryServer``, ``ReplayServer`` and ``Recording`` are in ``transports/``.
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "fake_server": ["FakeServer", "FakeTool"],
        "..transports.memory": ["MemoryServer", "JsonRpcError"],
        "..transports.replay": ["ReplayServer"],
        "..transports.servers": ["Recording"],
    },
)
