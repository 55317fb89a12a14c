"""A request and its header fields, as ``http_pool`` sends them.

They have what ``httpx.Request`` and ``httpx.Headers`` have of the same name, as far as our own
authorization uses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

__all__ = ["Fields", "PooledRequest"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


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


class PooledRequest:
    """One request."""

    __slots__ = ("_fields", "_given", "extensions", "method", "target", "url")

    def __init__(
        self, method: str, url: tuple[str, str], headers: Mapping[str, str], *, owner: object
    ) -> None:
        """``url``: all of it, and its path and query as they travel."""
        self.method = method
        self.url, self.target = url
        self.extensions = {"mcp_client": owner}
        self._given = headers
        self._fields: Fields | None = None

    @property
    def headers(self) -> Fields:
        """What is sent; it may be changed before that."""
        if self._fields is None:
            given = self._given
            self._fields = Fields([(n.lower().encode(), given[n].encode("ascii")) for n in given])
        return self._fields

    def head(self) -> bytes:
        """Request line and fields. Raises ``ValueError`` where HTTP cannot carry one of them."""
        fields = self._given if self._fields is None else dict(self._fields.multi_items())
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {fields[name]}" for name in fields]
        text = "\r\n".join(lines) + "\r\n\r\n"
        ends = len(lines) + 1
        if text.count("\n") != ends or text.count("\r") != ends or "\0" in text:
            raise ValueError("a header has a line break or a null in it")
        for name in fields:
            if not _is_name(name):
                raise ValueError("a header has a name that HTTP cannot carry")
        return text.encode("ascii")

    def asks_to_close(self) -> bool:
        """Whether its header says that the connection is to be closed after it."""
        fields = self._given if self._fields is None else dict(self._fields.multi_items())
        return any([name.lower() == "connection" for name in fields])


@lru_cache(256)
def _is_name(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None
