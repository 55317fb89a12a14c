"""The files of a skill, and skills in the lock file.

``pins`` documents the file. The entry of a skill is the set of its files, each URI with its digest.
The first list of a server's skills is stored; a skill that is loaded by its URI before any list is
stored by itself. Afterwards a skill that has changed or is not in the file is a finding of the
request to load it:

- "ask": the approver sees it. A permanent approval stores the new set.
- "refuse": the load is refused before approval is requested (``CallDenied``).
- "accept": the file follows the server.

A list need not be complete, so a skill that is missing from one is not gone.
``io.modelcontextprotocol/skills`` (security considerations: content-bound approval).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import CallDenied
from ..protocol.canonical_json import canonical, sha256
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .finding import Finding
from .pins import DYNAMIC, Pins, pinned

__all__ = ["SkillFile", "SkillPins", "digest_of"]


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


Files: TypeAlias = Sequence[SkillFile]
_MAX_FILES_SHOWN = 8


class SkillPins:
    """The skills in a lock file. Reads and writes it: to be called in a thread."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._seen: set[str] = set()
        """Servers whose skills the file had: if they are gone there, they are not new."""

    def drift_of(self, server: str, uri: str, files: Files) -> tuple[Finding, ...]:
        """Return the differences between a skill and the file."""
        pins = self._pins
        if pins.policy == "accept":
            return ()
        known = self._known(server)
        if known is None:
            if self._may_begin(server):
                return ()  # none of its skills has been written down yet
            text = f"{pins.name} does not have the skills of this server"
            return (Finding("not_pinned", text, "server"),)
        if pins._has_moved(server):
            text = f"{pins.name} has this server's name for another URL or other identity"
            return (Finding("server_moved", text),)
        return self._drift(known, uri, files)

    def compare(self, server: str, skills: Sequence[tuple[str, Files]]) -> list[Finding]:
        """Compare a list with the file, store what the policy permits, and return the drift."""
        pins = self._pins
        known = self._known(server)
        follows = pins.policy == "accept" and (pins.create or known is not None)
        findings = [
            finding.at(f"skill '{safe_text(uri, 128)}'")
            for uri, files in skills
            for finding in (
                self._drift(known or {}, uri, files)
                if follows and known is not None
                else self.drift_of(server, uri, files)
            )
        ]
        is_first = known is None and self._may_begin(server) and bool(skills)
        if (is_first or (follows and findings)) and not (
            pins._has_moved(server) and pins.policy != "accept"
        ):
            self._write(server, skills)
            if is_first and pins.policy == "refuse":
                text = (
                    f"{pins.name} did not have the skills of '{safe_text(server, 60)}': they were "
                    f"stored unreviewed ({len(skills)} of them); Pins(create=False) refuses "
                    "instead"
                )
                return [Finding("not_pinned", text, "server")]
        return findings

    def check_policy(self, server: str, uri: str, drift: Sequence[Finding]) -> None:
        """Raise ``CallDenied`` if there is ``drift`` and the policy is to refuse it."""
        if drift and self._pins.policy == "refuse":
            reason = "; ".join(map(str, drift))
            raise CallDenied(
                f"skill {safe_text(uri, 200)!r} refused: {reason}. To accept the new files, "
                "call Pins.accept_skills(...)",
                reason=reason,
                server=server,
            )

    def loaded(self, server: str, uri: str, files: Files, *, is_permanent: bool) -> None:
        """Note that a skill was approved and verified; ``is_permanent`` by a permanent approval."""
        pins = self._pins
        known = self._known(server)
        if known is not None and known.get(uri) == pinned(files):
            return
        is_first = known is None and self._may_begin(server)
        if (is_first or is_permanent or pins.policy == "accept") and not pins._has_moved(server):
            self._write(server, [(uri, files)])

    def _known(self, server: str) -> Mapping[str, Any] | None:
        known = self._pins._skills(server)
        if known is not None:
            self._seen.add(server)
        return known

    def _may_begin(self, server: str) -> bool:
        """Whether skills of a server that the file does not have are written down."""
        return self._pins.create and server not in self._seen

    def _write(self, server: str, skills: Iterable[tuple[str, Files]]) -> None:
        self._seen.add(server)
        self._pins._write_skills(server, {uri: pinned(files) for uri, files in skills})

    def _drift(self, known: Mapping[str, Any], uri: str, files: Files) -> tuple[Finding, ...]:
        old, new, name = known.get(uri), pinned(files), self._pins.name
        if old is None:
            text = f"this skill is not in {name}: it came after the file was written"
            return (Finding("not_pinned", text, "skill"),)
        if old == new:
            return ()
        if old == DYNAMIC or new == DYNAMIC:
            is_now = "is dynamic now" if new == DYNAMIC else "was dynamic"
            text = f"this skill has changed since {name} was written: its content {is_now}"
            return (Finding("definition_changed", text, digest_of(files) if files else DYNAMIC),)
        changes = list(_differences(uri, old, new))
        if len(changes) > _MAX_FILES_SHOWN:
            changes[_MAX_FILES_SHOWN:] = [f"{len(changes) - _MAX_FILES_SHOWN} more files differ"]
        texts = (f"this skill has changed since {name} was written", *changes)
        return tuple(Finding("definition_changed", text, digest_of(files)) for text in texts)


def _differences(uri: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    directory = uri.rpartition("/")[0] + "/"
    for file in sorted({*old, *new}):
        quoted = f"its file '{safe_text(file.removeprefix(directory), 110)}'"
        if file not in old:
            yield f"{quoted} is new"
        elif file not in new:
            yield f"{quoted} was removed"
        elif old[file] != new[file]:
            yield f"{quoted} has changed"
