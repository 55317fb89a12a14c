"""What a session gave its server to keep secret: hidden wherever something is shown or kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .masking import Masker

__all__ = ["KnownSecrets"]

_MOST = 512


class KnownSecrets:
    """The secrets of one session, on all its connections: the first 512, each shown as ``mark``.
    ``masking`` says in which spellings they are found."""

    def __init__(self, mark: str = "***") -> None:
        self._mark = mark
        self._values: set[str] = set()
        self._source: Callable[[], Iterable[str]] | None = None
        self._masker: Masker | None = None

    def follow(self, source: Callable[[], Iterable[str]]) -> None:
        """``source`` tells from now on what is secret on the connection in use; what the sources
        before it told stays known."""
        self._update()
        self._source = source

    def add(self, values: Iterable[str]) -> None:
        new = {value for value in values if value not in self._values}
        if new and len(self._values) < _MOST:
            from .masking import Masker  # only now: most sessions have no secrets

            new = set(sorted(new)[: _MOST - len(self._values)])
            self._values |= new
            self._masker = self._masker or Masker(mark=self._mark)
            self._masker.add(new)

    def values(self) -> Iterable[str]:
        self._update()
        return self._values

    def text(self, text: str) -> str:
        """``text`` without them."""
        masker = self._update()
        return text if masker is None else masker.text(text)

    def json(self, value: Any) -> Any:
        """A JSON value without them."""
        masker = self._update()
        return value if masker is None else masker.json(value)

    def hide(self, error: BaseException) -> None:
        """Hide them in the texts and JSON of ``error``. A ``ToolResult`` in it stays as it came."""
        masker = self._update()
        if masker is not None:
            error.args = tuple(masker.json(each) for each in error.args)
            for name, value in list(vars(error).items()):
                if isinstance(value, str | dict | list):
                    setattr(error, name, masker.json(value))

    def _update(self) -> Masker | None:
        if self._source is not None:
            self.add(self._source())
        return self._masker
