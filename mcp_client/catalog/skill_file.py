"""The files of a skill, as a server lists them and as a lock file has them: frozen values.

``io.modelcontextprotocol/skills`` (security considerations: content-bound approval).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..protocol.canonical_json import canonical, sha256
from ..runtime.frozen import frozen_dataclass

__all__ = ["DYNAMIC", "SkillFile", "digest_of", "pinned"]

DYNAMIC = "dynamic"
"""The marker for the files of a skill that lists none."""


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


def pinned(files: Sequence[SkillFile]) -> Any:
    """Return the entry of a skill with these files for a lock file."""
    return {file.uri: file.digest for file in files} or DYNAMIC


def digest_of(files: Sequence[SkillFile]) -> str:
    """The digest of the set of (uri, digest)."""
    return "sha256:" + sha256(canonical(sorted([file.uri, file.digest] for file in files)))
