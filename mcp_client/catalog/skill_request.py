"""A skill that is to be loaded, as the approval hook is asked about it: frozen values.

``io.modelcontextprotocol/skills`` (security considerations: content-bound approval).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..protocol.canonical_json import canonical, sha256
from ..runtime.frozen import frozen_dataclass
from .call_context import context_text
from .finding import Finding

__all__ = ["DYNAMIC", "SKILL_FINDING", "SkillFile", "SkillRequest", "digest_of", "pinned"]

DYNAMIC = "dynamic"
"""What stands for the files of a skill that lists none."""

SKILL_FINDING = Finding(
    "skill",
    "this is a skill and not a tool call: its text, which comes from the server and cannot be "
    "trusted, will be instructions for the model",
)
"""The first finding of every request, so that no hook that allows what has no findings says yes."""


@frozen_dataclass
class SkillFile:
    """A file of a skill, as the server's entry lists it."""

    uri: str
    digest: str
    """SHA-256 of its bytes: ``sha256:`` and 64 hexadecimal digits."""
    size: int
    """Bytes."""
    path: str
    """Its path within the skill, as in the URI: what ``Skill.read`` takes."""


@frozen_dataclass
class SkillRequest:
    """A skill as it will be loaded, if that is approved. Nothing of it has been read yet.

    The approval hook of ``connect`` is asked with it as with a ``ToolCall``, and tells them apart
    by ``isinstance(request, SkillRequest)``. It has no ``tool``, ``arguments``, ``hints`` or
    ``trusted``, so a hook written for tool calls alone raises ``AttributeError``, which means no.

    A yes is for the files as listed here: each is compared with its digest before it is used.
    ``name`` and ``description`` are compared with the file when it is read.
    """

    id: str
    """The load's, as in the audit."""
    server: str
    """The name the host gave the server, never the server's own claim."""
    name: str
    """A label that is not unique: a skill is identified by ``server`` and ``uri``."""
    description: str
    uri: str
    """Of its SKILL.md."""
    files: tuple[SkillFile, ...]
    """Every file of the skill, SKILL.md among them; none where its content is dynamic."""
    size: int | None
    """Bytes of all files; None where the content is dynamic."""
    ignored: tuple[str, ...]
    """Fields of its front matter that would change what the model may do, such as
    ``allowed-tools``, or that are not known. A yes does not put them into force."""
    digest: str | None
    """Of the set of all (uri, digest): other files, another digest. Rules match it as
    ``fingerprint``, and remembered answers are for it. None where the content is dynamic: then no
    answer is remembered, and what the server sends cannot be verified."""
    findings: tuple[Finding, ...]
    """What a person should know before answering; the first one says that this is a skill."""
    context: Hashable = None
    """The host's own word on whose load it is, from ``load_skill(context=...)``. Never sent."""
    _identity: str | None = field(default=None, repr=False, compare=False)
    """What the server is; None where that cannot be told."""

    @property
    def dynamic(self) -> bool:
        """Whether the server makes up the content when it is read, so that it has no digests."""
        return self.digest is None

    @property
    def key(self) -> str:
        """Digest of server, skill and context: equal for the same load made again, as
        ``ToolCall.key`` is for a call."""
        same: list[Any] = ["skill", self.server, self.uri, self.digest, context_text(self.context)]
        same += [] if self._identity is None else [{"identity": self._identity}]
        return "sha256:" + sha256(canonical(same))

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a SkillRequest has no {name!r}: it is a skill to be loaded and not a tool call; "
                "tell them apart with isinstance(request, SkillRequest)"
            )


def pinned(files: Sequence[SkillFile]) -> Any:
    """What a lock file has of a skill with these files."""
    return {file.uri: file.digest for file in files} or DYNAMIC


def digest_of(files: Sequence[SkillFile]) -> str:
    """The digest of the set of (uri, digest)."""
    return "sha256:" + sha256(canonical(sorted([file.uri, file.digest] for file in files)))
