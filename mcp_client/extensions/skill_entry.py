"""A server's entry of one skill, checked: frozen values.

``io.modelcontextprotocol/skills``, skill entries and resource mapping. ``from_wire`` raises
``ValueError`` with the reason why an entry is rejected.

A file of a skill is named by its path within the skill's directory. A path has segments and nothing
else: none is empty, ``.`` or ``..``, in clear or percent-encoded, and none has a backslash; a query
and a fragment are refused. So no path leads out of the directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from ..approval.skill_request import SkillRequest
from ..catalog.finding import Finding
from ..catalog.skill_pins import SkillFile, digest_of
from ..protocol.resources import is_visible, usable_uri
from ..runtime.safe_text import safe_text

__all__ = ["SkillEntry", "path_problem", "request_for"]

_MAIN = "SKILL.md"
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MAX_DESCRIPTION_CHARS = 1_024
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://)?")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HARMLESS = frozenset({"name", "description", "license", "compatibility", "metadata"})
_SAFE = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill of a server. ``load_skill(entry)`` loads it; nothing of it has been read."""

    uri: str
    """The URI of its SKILL.md. With ``server`` it identifies the skill."""
    name: str
    """A label: other skills, also of the same server, may have the same."""
    description: str
    """Text from the server, not trusted."""
    files: tuple[SkillFile, ...]
    """The files of the skill, SKILL.md among them; none if the content is dynamic."""
    server: str
    """The name the host gave the server."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The entry as it came."""

    @classmethod
    def from_wire(cls, entry: Any, server: str) -> SkillEntry:
        """Check an entry of ``skills/list`` or ``skills/get``. Raises ``ValueError``."""
        if type(entry) is not dict:
            raise ValueError("it is not a JSON object")
        uri, fields, resources = (entry.get(key) for key in ("uri", "frontmatter", "resources"))
        if type(uri) is not str:
            raise ValueError("its uri is missing or not a string")
        directory = _directory_of(uri)
        name, description = _named(fields, directory)
        if resources == "dynamic":
            return cls(uri, name, description, (), server, entry)
        if type(resources) is not list:
            raise ValueError("its resources are neither an array nor 'dynamic'")
        files = _files(resources, directory)
        if _MAIN not in {file.path for file in files}:
            raise ValueError("its resources lack its SKILL.md")
        return cls(uri, name, description, files, server, entry)

    @property
    def dynamic(self) -> bool:
        """Whether the server makes up the content when it is read, so that it has no digests."""
        return not self.files

    @property
    def size(self) -> int | None:
        """The bytes of all files; None if the content is dynamic."""
        return sum(file.size for file in self.files) if self.files else None

    @property
    def digest(self) -> str | None:
        """The SHA-256 digest over the URIs and digests of all files.

        None if the content is dynamic.
        """
        return digest_of(self.files) if self.files else None

    @property
    def frontmatter(self) -> Mapping[str, Any]:
        """The fields of its front matter, as the server declares them until SKILL.md was read."""
        fields: Mapping[str, Any] = self.raw["frontmatter"]
        return fields

    @property
    def ignored(self) -> tuple[str, ...]:
        """Fields of its front matter that have no effect: see ``SkillRequest.ignored``."""
        return tuple(safe_text(name, 64) for name in self.frontmatter if name not in _HARMLESS)

    def file(self, path: str) -> SkillFile | None:
        """Return the file at ``path``, spelled as in its URI, or without percent-encoding."""
        decoded = None
        for file in self.files:
            if file.path == path:
                return file
            if decoded is None and "%" in file.path and unquote(file.path) == path:
                decoded = file
        return decoded

    def uri_of(self, path: str) -> str:
        """Return the URI of a file that is not listed, because the content is dynamic."""
        return f"{_directory_of(self.uri)}/{quote(path, safe=_SAFE)}"


def request_for(
    entry: SkillEntry,
    id: str,
    findings: tuple[Finding, ...],
    context: Any,
    identity: Callable[[], str | None] | None = None,
) -> SkillRequest:
    """Return the approval request for loading the skill."""
    return SkillRequest(
        id=id,
        server=entry.server,
        name=entry.name,
        description=entry.description,
        uri=entry.uri,
        files=entry.files,
        size=entry.size,
        ignored=entry.ignored,
        digest=entry.digest,
        findings=findings,
        context=context,
        _identity=identity,
    )


def _directory_of(uri: str) -> str:
    """Return the URI of the skill's directory. Raises ``ValueError`` without a SKILL.md."""
    reason = usable_uri(uri)
    if reason is not None:
        raise ValueError(f"its uri {reason}")
    scheme = _SCHEME.match(uri)
    if scheme is None:
        raise ValueError("its uri has no scheme")
    directory, slash, last = uri.rpartition("/")
    path = directory[scheme.end() :]
    if last != _MAIN or not slash or not path:
        raise ValueError("its uri does not end with '/<name>/SKILL.md'")
    problem = path_problem(path.removeprefix("/"))
    if problem is not None:
        raise ValueError(f"its uri has {problem}")
    return directory


def path_problem(path: str) -> str | None:
    """Return the reason why ``path`` is not a file within a directory; None if it is."""
    if not path:
        return "an empty path"
    if not is_visible(path):
        return "invisible characters"
    for char, what in (("?", "a query"), ("#", "a fragment"), ("\\", "a backslash")):
        if char in path:
            return what
    if _PERCENT.search(path):
        return "a % that encodes nothing"
    for segment in path.split("/"):
        decoded = unquote(segment, errors="replace")
        if not segment:
            return "an empty segment"
        if decoded in (".", ".."):
            return f"a segment {decoded!r}"
        if any(char in "/\\" or not char.isprintable() for char in decoded):
            return "a percent-encoded slash, backslash or control character"
    return None


def _named(fields: Any, directory: str) -> tuple[str, str]:
    if type(fields) is not dict:
        raise ValueError("its frontmatter is missing or not an object")
    name, description = fields.get("name"), fields.get("description")
    if type(name) is not str or not _NAME.fullmatch(name):
        raise ValueError(
            "its name is not one to 64 lower-case letters, digits and single hyphens between them"
        )
    if directory.rpartition("/")[2] != name:
        raise ValueError("its name differs from the name of its directory")
    if type(description) is not str or not description.strip():
        raise ValueError("its description is missing, empty or not a string")
    if len(description) > _MAX_DESCRIPTION_CHARS:
        raise ValueError(f"its description has more than {_MAX_DESCRIPTION_CHARS:,} characters")
    return name, description


def _files(resources: list[Any], directory: str) -> tuple[SkillFile, ...]:
    found: dict[str, SkillFile] = {}
    for number, resource in enumerate(resources, 1):
        file = _file(resource, directory, f"its resource {number}")
        if file.uri in found:
            raise ValueError(f"its resource {number} is listed twice")
        found[file.uri] = file
    return tuple(found.values())


def _file(resource: Any, directory: str, which: str) -> SkillFile:
    if type(resource) is not dict:
        raise ValueError(f"{which} is not an object")
    uri, digest, size = (resource.get(key) for key in ("uri", "digest", "size"))
    if type(uri) is not str or not uri.startswith(f"{directory}/") or usable_uri(uri):
        raise ValueError(f"{which} is not within the skill's directory")
    path = uri[len(directory) + 1 :]
    problem = path_problem(path)
    if problem is not None:
        raise ValueError(f"{which} has {problem}")
    if type(digest) is not str or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{which} has a digest that is not 'sha256:' and 64 hexadecimal digits")
    if type(size) is not int or size < 0:
        raise ValueError(f"{which} has a size that is not a whole number of bytes")
    return SkillFile(uri, digest, size, path)
