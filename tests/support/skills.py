"""A server with skills in the same process; each test sets what it does wrong."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from mcp_client import MemoryServer
from mcp_client.approval import SkillRequest
from mcp_client.approval.skill_request import SKILL_FINDING
from mcp_client.extensions.skill import SkillEntry, request_for
from mcp_client.testing import JsonRpcError

__all__ = ["FORMS", "MAIN", "PDF", "TEXT", "SkillServer", "entry_of", "request_of", "skill"]

PDF = "skill://pdf/SKILL.md"
FORMS = "skill://pdf/references/FORMS.md"
TEXT = "\n# PDF\n\nSee references/FORMS.md\n"
MAIN = f"---\nname: pdf\ndescription: Fill in forms\nallowed-tools: Bash\n---\n{TEXT}".encode()
EXTENSION = "io.modelcontextprotocol/skills"


def skill(name: str, description: str = "It helps", text: str = "Do it.\n") -> bytes:
    """A SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n---\n{text}".encode()


def entry_of(uri: str, files: Mapping[str, bytes], **fields: Any) -> dict[str, Any]:
    """What a server lists of a skill with these files."""
    name = uri.split("/")[-2]
    return {
        "uri": uri,
        "frontmatter": {"name": name, "description": "It helps", **fields},
        "resources": [
            {
                "uri": file,
                "digest": "sha256:" + hashlib.sha256(content).hexdigest(),
                "size": len(content),
            }
            for file, content in files.items()
        ],
    }


class SkillServer:
    """One skill, ``pdf``, with two files. ``skills`` are the entries, ``files`` what is served."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {PDF: MAIN, FORMS: b"# Forms\n\xc3\xa9\n"}
        fields = {"description": "Fill in forms", "allowed-tools": "Bash"}
        self.skills: list[Any] = [entry_of(PDF, self.files, **fields)]
        self.unlisted: list[Any] = []
        """Entries that only ``skills/get`` gives."""
        self.blobs = False
        """Whether files come as Base64."""
        self.extensions: dict[str, Any] = {EXTENSION: {}}
        self.ttl = 60_000
        self.scope = "public"
        self.asked: list[tuple[str, Any]] = []

    @property
    def transport(self) -> MemoryServer:
        return MemoryServer(self)

    @property
    def reads(self) -> list[str]:
        return [uri for method, uri in self.asked if method == "resources/read"]

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)

    def __call__(self, message: dict[str, Any]) -> Any:
        method, params = message["method"], message.get("params", {})
        self.asked.append((method, params.get("uri")))
        known = {"ttlMs": self.ttl, "cacheScope": self.scope, "resultType": "complete"}
        match method:
            case "server/discover":
                capabilities = {"resources": {}, "extensions": self.extensions}
                return known | {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities,
                    "serverInfo": {"name": "not-its-label", "version": "1"},
                }
            case "skills/list":
                return known | {"skills": self.skills}
            case "skills/get":
                return known | {"skill": self._entry(params["uri"])}
            case "resources/read":
                return known | {"contents": [self.content(params["uri"])]}
        return NotImplemented

    def content(self, uri: str) -> dict[str, Any]:
        if uri not in self.files:
            raise JsonRpcError(-32602, "no such resource", {"uri": uri})
        data = self.files[uri]
        if self.blobs:
            return {"uri": uri, "blob": base64.b64encode(data).decode()}
        return {"uri": uri, "text": data.decode()}

    def _entry(self, uri: str) -> Any:
        for entry in (*self.skills, *self.unlisted):
            if entry["uri"] == uri:
                return entry
        raise JsonRpcError(-32602, "no such skill")


def request_of(entry: Any = None, *, context: Any = None, findings: Any = ()) -> SkillRequest:
    """The request to load a skill of the server ``docs``, as an approval hook is asked with it."""
    raw = SkillServer().skills[0] if entry is None else entry
    return request_for(SkillEntry.from_wire(raw, "docs"), "1", (SKILL_FINDING, *findings), context)
