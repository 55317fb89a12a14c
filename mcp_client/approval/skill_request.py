"""A skill that is to be loaded, as the approval hook is asked about it: a frozen value.

``io.modelcontextprotocol/skills`` (security considerations: content-bound approval).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from ..catalog.finding import Finding
from ..catalog.skill_file import SkillFile
from ..catalog.skill_file import digest_of as files_digest
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

__all__ = ["SKILL_FINDING", "SkillRequest"]

SKILL_FINDING = Finding(
    "skill",
    "this is a skill and not a tool call: its text, which comes from the server and cannot be "
    "trusted, will be instructions for the model",
)
"""The first finding of every request, so that no hook that allows what has no findings says yes."""


def _files(value: Any) -> tuple[SkillFile, ...]:
    return tuple(
        SkillFile(text(uri), text(digest), int(size), text(path))
        for uri, digest, size, path in value
    )


@frozen_dataclass
class SkillRequest(ApprovalRequest):
    """A skill as it will be loaded, if that is approved. Nothing of it has been read yet.

    A yes is for the files as listed here: each is compared with its digest before it is used.
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
    """The load's, as in the audit."""
    server: str
    """The name the host gave the server, never the server's own claim."""
    name: str
    """A label that is not unique: a skill is identified by ``server`` and ``uri``."""
    description: str
    uri: str
    """The URI of its SKILL.md."""
    files: tuple[SkillFile, ...]
    """Every file of the skill, SKILL.md among them; none where its content is dynamic."""
    size: int | None
    """Bytes of all files; None where the content is dynamic."""
    ignored: tuple[str, ...]
    """Fields of its front matter that would change what the model may do, such as
    ``allowed-tools``, or that are not known. A yes does not put them into force."""
    digest: str | None
    """Digest of the set of all (uri, digest): other files, another digest. Rules match it as
    ``fingerprint``, and remembered answers are for it. None where the content is dynamic: then no
    answer is remembered, and what the server sends cannot be verified."""
    findings: tuple[Finding, ...]
    """What a person should know before answering; the first one says that this is a skill."""
    context: Hashable = None
    """The host's own word on whose load it is, from ``load_skill(context=...)``. Never sent."""
    _identity: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)

    @property
    def dynamic(self) -> bool:
        """Whether the server makes up the content when it is read, so that it has no digests."""
        return self.digest is None

    @property
    def subject(self) -> str:
        """The URI of the skill."""
        return self.uri

    @property
    def fingerprint(self) -> str | None:
        """``digest``."""
        return self.digest

    def facts(self) -> tuple[Fact, ...]:
        count = len(self.files)
        size = "dynamic: what the server sends cannot be verified"
        if self.size is not None:
            size = f"{count:,} file{'' if count == 1 else 's'}, {self.size:,} bytes"
        ignored = f"{', '.join(self.ignored)} (a yes does not grant these)"
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
        return ("once",) if self.dynamic else ("once", "session", "hour", "always")

    def why_not_kept(self, remember: Remember) -> str | None:
        if self.dynamic and remember.scope != "call":
            return "its content is dynamic"
        return ApprovalRequest.why_not_kept(self, remember)

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
            digest=files_digest(files) if files else None,
        )
