"""A server with skills, two pages of them: the standard library alone, over any transport.

A tool, ``revise``, changes a file and its entry; ``tamper`` changes the file alone.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from tests.support.library import Library, Refused, Stateless

__all__ = ["FORMS", "GUIDE", "HIDDEN", "SKILLS", "Guides"]

SKILLS = "io.modelcontextprotocol/skills"
GUIDE = "skill://acme/forms/SKILL.md"
FORMS = "skill://acme/forms/references/FORMS.md"
HIDDEN = "skill://hidden/SKILL.md"


def main_file(name: str) -> str:
    return f"---\nname: {name}\ndescription: How to {name}\n---\nThe {name}.\n"


class Guides(Stateless):
    def __init__(self, *, ttl: int | None = 0) -> None:
        Library.__init__(self, ttl=ttl)
        self.capabilities = {"tools": {}, "resources": {}, "extensions": {SKILLS: {}}}
        self.files = {GUIDE: main_file("forms"), FORMS: "Ticks.", HIDDEN: main_file("hidden")}
        self.announced = dict(self.files)

    def entry(self, uri: str) -> dict[str, Any]:
        directory, name = uri.removesuffix("SKILL.md"), uri.split("/")[-2]
        files = {file: text.encode() for file, text in self.announced.items() if directory in file}
        return {
            "uri": uri,
            "frontmatter": {"name": name, "description": f"How to {name}"},
            "resources": [
                {
                    "uri": file,
                    "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
                    "size": len(data),
                }
                for file, data in files.items()
            ],
        }

    def _tools_list(self, params: dict[str, Any]) -> Any:
        schema = {"type": "object"}
        names = ("revise", "tamper")
        return self._listed(tools=[{"name": name, "inputSchema": schema} for name in names])

    def _tools_call(self, params: dict[str, Any]) -> Any:
        self.files[FORMS] = "Trick."
        if params["name"] == "revise":
            self.announced[FORMS] = self.files[FORMS]
        return {"content": [], "resultType": "complete"}

    def _skills_list(self, params: dict[str, Any]) -> Any:
        if params.get("cursor") == "two":
            return self._listed(skills=[{"uri": "skill://broken"}])
        return self._listed(skills=[self.entry(GUIDE)], nextCursor="two")

    def _skills_get(self, params: dict[str, Any]) -> Any:
        if params["uri"] not in (GUIDE, HIDDEN):
            raise Refused(-32602, "no such skill")
        return self._listed(skill=self.entry(params["uri"]))

    def _resources_read(self, params: dict[str, Any]) -> Any:
        if params["uri"] not in self.files:
            raise Refused(-32602, "Resource not found", {"uri": params["uri"]})
        return self._listed(contents=[{"uri": params["uri"], "text": self.files[params["uri"]]}])


def main() -> None:
    guides = Guides()
    for line in sys.stdin:
        response = guides.reply(json.loads(line), lambda message: None)
        if response is not None:
            print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
