"""A skill to load and its files, as the approval hook sees them: frozen values.

``io.modelcontextprotocol/skills`` (security considerations: content-bound approval).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from ..catalog.finding import Finding
from ..protocol.canonical_json import canonical, sha256
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .request import (
    ApprovalRequest,
    Choice,
    Fact,
    RequestKind,
    facts_of,
    finding_facts,
    text,
    texts,
)

if TYPE_CHECKING:
    from .decision import Remember

__all__ = ["SKILL_FINDING", "SkillFile", "SkillRequest", "digest_of"]

SKILL_FINDING = Finding(
    "skill",
    "this is a skill and not a tool call: its text, which comes from the server and cannot be "
    "trusted, will be instructions for the model",
)
"""The first finding of every request, so that a hook which requires none denies it."""


@frozen_dataclass
class SkillFile:
    """A file of a skill, as the server's entry lists it."""

    uri: str
    digest: str
    """SHA-256 of its bytes: ``sha256:`` and 64 hexadecimal digits."""
    size: int
    """Bytes."""
    path: str
    """The path within the skill, as in the URI: the argument of ``Skill.read``."""


def digest_of(files: Sequence[SkillFile]) -> str:
    """The digest of the set of (uri, digest)."""
    return "sha256:" + sha256(canonical(sorted([file.uri, file.digest] for file in files)))


def _files(value: Any) -> tuple[SkillFile, ...]:
    return tuple(
        SkillFile(text(uri), text(digest), int(size), text(path))
        for uri, digest, size, path in value
    )


@frozen_dataclass
class SkillRequest(ApprovalRequest):
    """A skill as it will be loaded, if that is approved. None of its files have been read yet.

    An approval covers the files as listed here: each is compared with its digest before it is used.
    ``name`` and ``description`` are compared with the file when it is read.
    """

    kind: ClassVar[RequestKind] = "skill"
    asks = "May this skill be loaded? Its text will be instructions for the model."
    prompt = "Load it?"
    _covers_once = "This load only. Its other files are read when they are needed."
    _members: ClassVar = {
        "uri": text,
        "name": text,
        "description": text,
        "files": _files,
        "ignored": texts,
    }

    id: str
    """The id of the load, as in the audit."""
    server: str
    """The host's name for the server, never the server's own claim."""
    name: str
    """A label that is not unique: a skill is identified by ``server`` and ``uri``."""
    description: str
    uri: str
    """The URI of the SKILL.md."""
    files: tuple[SkillFile, ...]
    """All files of the skill, including SKILL.md; empty if the content is dynamic."""
    size: int | None
    """The size of all files in bytes; None if the content is dynamic."""
    ignored: tuple[str, ...]
    """The fields of the front matter that would change the model's rights, or that are unknown.

    An example is ``allowed-tools``. An approval does not put them into force.
    """
    digest: str | None
    """The digest of the set of all (uri, digest) pairs; None if the content is dynamic.

    Rules match it as ``fingerprint``, and remembered approvals are bound to it. Approvals of
    dynamic content are never remembered, because its files cannot be verified.
    """
    findings: tuple[Finding, ...]
    """The findings for the person who decides; the first one states that this is a skill."""
    context: Hashable = None
    """The host's identifier of the caller, from ``load_skill(context=...)``. Never sent."""
    _identity: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)

    @property
    def dynamic(self) -> bool:
        """Whether the server generates the content on each read, so that it has no digests."""
        return self.digest is None

    @property
    def subject(self) -> str:
        """The URI of the skill."""
        return self.uri

    @property
    def fingerprint(self) -> str | None:
        """The same as ``digest``."""
        return self.digest

    def facts(self) -> tuple[Fact, ...]:
        """The facts for the person who decides."""
        count = len(self.files)
        size = "dynamic: what the server sends cannot be verified"
        if self.size is not None:
            size = f"{count:,} file{'' if count == 1 else 's'}, {self.size:,} bytes"
        ignored = f"{', '.join(self.ignored)} (an approval does not grant these)"
        facts = facts_of(
            ("Server", self.server, "server"),
            ("Skill", self.name, "name"),
            ("URI", self.uri, "subject"),
            ("It says", self.description, "description"),
            ("Content", size, "size"),
            ("No effect", ignored if self.ignored else None, "ignored"),
        )
        facts += [Fact("File", f"{one.size:,} bytes  {one.path}", "file") for one in self.files]
        facts += finding_facts(self.findings)
        return (*facts, *facts_of(("Digest", self.digest, "fingerprint")))

    def choices(self) -> tuple[Choice, ...]:
        """The possible reaches of an approval."""
        return ("once",) if self.dynamic else ("once", "session", "hour", "always")

    def why_not_remembered(self, remember: Remember) -> str | None:
        """Return why an approval cannot be remembered; None if it can."""
        if self.dynamic and remember.scope != "call":
            return "its content is dynamic"
        return ApprovalRequest.why_not_remembered(self, remember)

    @property
    def _not_done(self) -> str:
        return f"the skill {safe_text(self.uri, 200)!r} is not loaded: "

    @property
    def _recorded(self) -> dict[str, Any]:
        return {"files": None if self.dynamic else len(self.files), "bytes": self.size}

    @property
    def _weight(self) -> int:
        return sum(len(file.uri) + len(file.path) for file in self.files)

    def _covers(self, remember: Remember, until: str) -> str:
        whose = "" if self.context is None else " for the same context"
        return (
            f"Loading {self.uri} from {self.server}{whose} with exactly these files, {until}. You "
            "are asked again if a file is changed, added or removed."
        )

    def _asked_for(self) -> Any:
        return [self.uri, self.digest]

    @classmethod
    def _made_of(cls, members: dict[str, Any], value: Any) -> ApprovalRequest:
        own = cls._read_members(value)
        files = own["files"]
        return cls(
            **members,
            **own,
            size=sum(file.size for file in files) if files else None,
            digest=digest_of(files) if files else None,
        )
