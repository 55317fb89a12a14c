"""A response of ``http_pool``, and the header fields of its messages.

They have what ``httpx.Response`` and ``httpx.Headers`` have of the same name, as far as our own
authorization uses it.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

__all__ = ["Connection", "Fields", "PooledResponse"]

_DRAINED = 64 * 1024


class Connection(Protocol):
    """What a response is read from."""

    async def read(self) -> tuple[bytes, bool]:
        """Some more of the body, and whether that is its end."""

    async def aclose(self) -> None: ...

    def server_address(self) -> Any: ...


class Fields:
    """Header fields: pairs of bytes with names in lower case, in the order they travel."""

    __slots__ = ("_index", "raw")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.raw = raw
        self._index: dict[bytes, bytes] | None = None

    def _by_name(self) -> dict[bytes, bytes]:
        if self._index is None:
            self._index = dict(self.raw)
        return self._index

    def __contains__(self, name: str) -> bool:
        return name.lower().encode() in self._by_name()

    def __setitem__(self, name: str, value: str) -> None:
        self.pop(name)
        self.raw.append((name.lower().encode(), value.encode("ascii")))
        self._index = None

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or several joined by commas."""
        index = self._by_name()
        value = index.get(name.lower().encode())
        if value is None:
            return default
        return _text(value) if len(index) == len(self.raw) else ", ".join(self.get_list(name))

    def get_list(self, name: str) -> list[str]:
        wanted = name.lower().encode()
        return [_text(value) for each, value in self.raw if each == wanted]

    def multi_items(self) -> list[tuple[str, str]]:
        return [(_text(name), _text(value)) for name, value in self.raw]

    def pop(self, name: str, default: None = None) -> None:
        wanted = name.lower().encode()
        self.raw = [field for field in self.raw if field[0] != wanted]
        self._index = None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class PooledResponse:
    """A response from the moment its headers are there, with what ``httpx.Response`` has of the
    same name."""

    __slots__ = ("_connection", "headers", "request", "status_code")

    def __init__(
        self, connection: Connection, request: Any, status: int, fields: list[tuple[bytes, bytes]]
    ) -> None:
        self.request = request
        self.status_code = status
        self.headers = Fields(fields)
        self._connection: Connection | None = connection

    @property
    def extensions(self) -> dict[str, Any]:
        return {"network_stream": self}

    def get_extra_info(self, name: str) -> Any:
        """As the ``network_stream`` of httpx has it, for ``server_addr``."""
        return None if self._connection is None else self._connection.server_address()

    def aiter_raw(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        try:
            data, ended = await connection.read()
        except BaseException:
            self._connection = None
            await connection.aclose()
            raise
        if ended:
            self._connection = None
            if not data:
                raise StopAsyncIteration
        return data

    @property
    def ended(self) -> bool:
        """Whether it was read to its end, or given up."""
        return self._connection is None

    async def drain(self) -> None:
        """Read a response that nothing is wanted of, so that its connection can be used again; a
        long one is given up."""
        size = 0
        async for data in self:
            size += len(data)
            if size > _DRAINED:
                break
        await self.aclose()

    async def aclose(self) -> None:
        """Give the response up; one that was not read to its end costs the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()
