"""A list of a server: its usable entries, and the reasons why others are not usable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypeVar

from ..protocol.canonical_json import FrozenObject
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .finding import Finding

__all__ = ["Listed", "Rejected", "RejectedKind"]

RejectedKind: TypeAlias = Literal["invalid", "same_name", "not_wanted", "unnamed"]

T = TypeVar("T", covariant=True)


@frozen_dataclass
class Rejected:
    """An entry that was left out of a list, and why."""

    name: str
    """The entry's name or URI, made safe to show; empty where it has none."""
    reason: str
    """A sentence for people; ``kind`` is for programs."""
    kind: RejectedKind = "invalid"
    """The kind of reason.

    "invalid": the entry breaks the specification. "same_name": another has its name. "not_wanted":
    the host omits it. "unnamed": the host's ``naming`` assigns no name to it.
    """
    server: str | None = None
    """The name the host gave the server, in a list over the servers of a ``Host``."""


class Listed(tuple[T, ...]):
    """A list of one server, in the server's order: a tuple with findings."""

    rejected: tuple[Rejected, ...]
    """The omitted entries, each with its reason."""
    meta: Mapping[str, Any]
    """The server's ``_meta`` of the first page, as it came and read-only; empty without one."""
    _findings: tuple[Finding, ...]

    def __new__(
        cls,
        entries: Iterable[T] = (),
        rejected: Sequence[Rejected] = (),
        findings: Sequence[Finding] = (),
        meta: Mapping[str, Any] = FrozenObject(),
    ) -> Self:
        """Return a list with its findings and rejected entries."""
        self = super().__new__(cls, entries)
        self.rejected = tuple(rejected)
        self._findings = tuple(findings)
        self.meta = meta
        return self

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that a person should check."""
        return self._findings

    @property
    def own_findings(self) -> tuple[Finding, ...]:
        """The findings about the list as a whole."""
        return self._findings

    def with_finding(self, finding: Finding) -> Self:
        """Return the list with one more thing to look at before the others."""
        return type(self)(self, self.rejected, (finding, *self._findings), self.meta)

    def __repr__(self) -> str:
        shown = [safe_text(getattr(entry, "name", "?"), 64) for entry in self[:8]]
        names = ", ".join(shown)
        more = ", ..." if len(self) > 8 else ""
        kind = type(self).__name__
        return f"<{kind} of {len(self)}: {names}{more}; {len(self.rejected)} rejected>"
