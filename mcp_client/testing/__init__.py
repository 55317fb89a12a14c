"""Servers for tests, without a network: in memory, or made of the record of a session."""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "..transports.memory": ["MemoryServer", "JsonRpcError"],
        "..transports.replay": ["ReplayServer"],
        "..transports.servers": ["Recording"],
    },
)
