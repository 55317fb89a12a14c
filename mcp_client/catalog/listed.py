"""What a server lists: the entries that can be used, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .finding import Finding

__all__ = ["Listed", "Rejected", "RejectedKind"]

RejectedKind: TypeAlias = Literal["invalid", "same_name", "not_wanted", "unnamed"]

T = TypeVar("T", covariant=True)
L = TypeVar("L", bound="Listed[Any]")


@frozen_dataclass
class Rejected:
    """An entry that was left out of a list, and why."""

    name: str
    """The entry's name or URI, made safe to show; empty where it has none."""
    reason: str
    """A sentence for people; ``kind`` is for programs."""
    kind: RejectedKind = "invalid"
    """"invalid": not what the specification says. "same_name": another has its name. "not_wanted":
    the host leaves it out. "unnamed": the host's ``naming`` gives it no name."""
    server: str | None = None
    """The name the host gave the server, in a list over the servers of a ``Host``."""


class Listed(Sequence[T], Generic[T]):
    """A list of one server, in the server's order; ``[index]`` and ``in`` as in a list."""

    __slots__ = ("_entries", "_findings", "rejected")

    def __init__(
        self,
        entries: Sequence[T],
        rejected: Sequence[Rejected] = (),
        findings: Sequence[Finding] = (),
    ) -> None:
        self._entries = tuple(entries)
        self.rejected: tuple[Rejected, ...] = tuple(rejected)
        """What the server offered and the list leaves out, each with its reason."""
        self._findings = tuple(findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a person should look at."""
        return self._findings

    @property
    def own_findings(self) -> tuple[Finding, ...]:
        """Those of ``findings`` that are about the list as a whole."""
        return self._findings

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries)

    def with_finding(self: L, finding: Finding) -> L:
        """The same list, with one more thing to look at before the others."""
        return type(self)(self._entries, self.rejected, (finding, *self._findings))

    def __repr__(self) -> str:
        shown = [safe_text(getattr(entry, "name", "?"), 64) for entry in self._entries[:8]]
        names = ", ".join(shown)
        more = ", ..." if len(self) > 8 else ""
        kind = type(self).__name__
        return f"<{kind} of {len(self)}: {names}{more}; {len(self.rejected)} rejected>"
