"""Findings, which a person should know before an approval, and lists that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, get_args

from ..errors import ConfigError
from ..protocol.canonical_json import FrozenObject
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text

__all__ = ["Finding", "FindingKind", "Listed", "Rejected", "RejectedKind"]

FindingKind: TypeAlias = Literal[
    "hidden_text",
    "escape_sequences",
    "orders_to_model",
    "look_alike",
    "odd_name",
    "long_text",
    "same_name",
    "unknown_dialect",
    "invalid_hints",
    "invalid_metadata",
    "not_callable",
    "definition_changed",
    "not_pinned",
    "server_moved",
    "gone",
    "reconnected",
    "broken_arguments",
    "unchecked_arguments",
    "broken_result",
    "unchecked_result",
    "not_recorded",
    "left_out",
    "bind",
    "stale_list",
    "deviation",
    "missing_server",
    "not_started",
    "skill",
    "dynamic_content",
    "start",
    "sampling",
    "other_user",
    "runs_code",
    "deletes_files",
    "sensitive_place",
    "outside_project",
    "loads_code",
    "suspicious_address",
    "unencrypted",
    "from_variable",
]


@frozen_dataclass
class Finding:
    """A finding: a kind for programs and a sentence for people, ``str(finding)``.

    Compare ``kind``, and ``about`` if the value matters, never the sentence, which may change in
    any release. ``KINDS`` has all kinds:

    Of the texts and the definition of a tool, a skill, a resource or a prompt:

    - ``hidden_text``: characters that a model reads and a person does not see
    - ``escape_sequences``: sequences that a terminal obeys instead of showing them
    - ``orders_to_model``: text that tries to instruct the model
    - ``look_alike``: a name that can be mistaken for another one, of the list or of a program
    - ``odd_name``: a name that does not follow the rules for names
    - ``long_text``: more text than was inspected; or, as a ``note``, more than is usual
    - ``same_name``: several skills have one name
    - ``unknown_dialect``: a schema in a dialect that cannot be checked, or that is written as in
      another dialect than it names
    - ``invalid_hints``: annotations that are not valid, or contradict each other, and do not count
    - ``invalid_metadata``: other members that are not valid and do not count (``_meta``,
      ``execution``)
    - ``not_callable``: a tool that cannot be called, because it requires a feature that the server
      lacks

    Of differences from earlier lists:

    - ``definition_changed``: a tool or a skill differs from the lock file (``pins``), or the tool
      changed while approval was requested
    - ``not_pinned``: the lock file does not have the tool, the skill, the server, or members of it
    - ``server_moved``: the lock file has the server's name for another URL or other identity
    - ``gone``: the lock file has a tool that the server no longer offers
    - ``reconnected``: the connection was lost and made again while approval was requested

    Of a call and its result:

    - ``broken_arguments``: the arguments are not valid for the tool's input schema
    - ``unchecked_arguments``: they could not be checked in time; of a tool: part of its input
      schema cannot be checked, and is skipped
    - ``broken_result``: the result is not valid for the tool's output schema
    - ``unchecked_result``: it could not be checked; of a tool: its output schema, or a part of it,
      cannot be checked, and is skipped
    - ``not_recorded``: the audit, or the journal of calls by key, is incomplete
    - ``left_out``: a right that a view requests and does not get
    - ``bind``: no tool has an argument that the host sets, or an approver's edit omitted it

    Of a list:

    - ``stale_list``: it could not be fetched again, or its server is down
    - ``deviation``: it deviates from the specification, but its meaning is clear
    - ``missing_server``: a server's entries are missing
    - ``not_started``: a server's tools are listed from the lock file, because it was not started

    Of a request that is not a tool call, so that a hook that requires no findings denies it:

    - ``skill``: it is a skill, whose text will be instructions for the model
    - ``dynamic_content``: the content of the skill can be another one each time
    - ``start``: it is a server that would be started or connected to
    - ``sampling``: it is a use of the host's model

    Of a server that would be started or connected to:

    - ``other_user``: it runs commands with another user's rights, or rights over the machine
    - ``runs_code``: code is in its arguments, or is downloaded and run
    - ``deletes_files``: it deletes files and directories
    - ``sensitive_place``: it names a place with secrets, or the whole home directory
    - ``outside_project``: it names a path outside the project
    - ``loads_code``: a variable can make programs load or run other code
    - ``suspicious_address``: the address may not be what it looks like, or has a password in it
    - ``unencrypted``: the connection is not encrypted
    - ``from_variable``: a value from outside the file is inserted where others may see it
    """

    KINDS: ClassVar[tuple[str, ...]] = get_args(FindingKind)

    kind: FindingKind
    text: str
    """A sentence that is safe to show. If an argument is wrong it may quote the value."""
    about: str = ""
    """The detail of this finding, such as a JSON pointer, a fingerprint or a name.

    It distinguishes two findings of one kind. An approval given with one of them does not cover the
    other. It is never the value of an argument.
    """
    note: bool = False
    """Whether it is only for information: an allow rule applies all the same."""

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ConfigError(
                f"a finding of the kind {safe_text(repr(self.kind), 60)}: give one of "
                f"{', '.join(self.KINDS)}"
            )
        if not isinstance(self.text, str) or not isinstance(self.about, str):
            raise ConfigError("the text and about= of a finding are texts")
        if type(self.note) is not bool:
            raise ConfigError("the note= of a finding is True or False")

    def __str__(self) -> str:
        return self.text

    @property
    def known_as(self) -> tuple[str, str]:
        """Kind and ``about``: equal for what need not be asked about twice."""
        return self.kind, self.about

    def at(self, place: str) -> Finding:
        """Return this finding with ``place``, for a list of several places."""
        return Finding(self.kind, f"{place}: {self.text}", self.about, self.note)

    def to_json(self) -> dict[str, Any]:
        """Return ``{"kind", "text"}``, with "about" and "note" if they are set."""
        members = {"kind": self.kind, "text": self.text, "about": self.about, "note": self.note}
        return {name: value for name, value in members.items() if value or name in ("kind", "text")}

    @classmethod
    def from_json(cls, value: Any) -> Finding:
        """Parse the result of ``to_json``. Raises ``ValueError`` for anything else."""
        try:
            about, note = value.get("about", ""), value.get("note", False)
            return cls(value["kind"], value["text"], about, note)
        except (LookupError, TypeError, AttributeError, ConfigError):
            raise ValueError("a finding needs a kind and a text") from None


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
        names = ", ".join(safe_text(getattr(entry, "name", "?"), 64) for entry in self[:8])
        more = ", ..." if len(self) > 8 else ""
        kind = type(self).__name__
        return f"<{kind} of {len(self)}: {names}{more}; {len(self.rejected)} rejected>"
