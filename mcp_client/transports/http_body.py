"""The body of a request: bytes, sent once.

httpx iterates its own with an async generator, and one that is left in the middle, when a request
is given up, waits for a collector that trio complains about. Loaded with httpx, and so not before
it is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

__all__ = ["Body"]


class Body(httpx.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._data)


class _Once:
    def __init__(self, data: bytes) -> None:
        self._left: bytes | None = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data, self._left = self._left, None
        if not data:
            raise StopAsyncIteration
        return data
