"""What the record of a session leaves out: see ``mcp_client.transports.recording``.

Arguments of calls by the names of their members, by look, and by what the tool's schema marks;
results and everything else by look alone, so that what is replayed still has its shape. What a
server lists is kept as it is: a definition with a word missing would be another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .redaction import Redaction

__all__ = ["SessionRecord"]


class SessionRecord:
    """The redaction of one session's record."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._schemas: dict[str, Any] = {}

    def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        shown = {key: value for key, value in params.items() if key not in ("_meta", "arguments")}
        shown = {key: self.value(value) for key, value in shown.items()}
        if "arguments" in params:
            schema = self._schemas.get(str(params.get("name")))
            shown["arguments"] = self._redaction.show(params["arguments"], schema).value
        return shown

    def result(self, method: str, result: Any) -> Any:
        if not method.endswith("/list"):
            return self.value(result)
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._schemas[tool["name"]] = tool.get("inputSchema")
        return result

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redaction.text(value, len(value))
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value
