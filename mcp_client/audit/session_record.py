"""What the record of a session leaves out: see ``mcp_client.transports.recording``.

Arguments of calls by the names of their members, by look, and by what the tool's schema marks;
results and everything else by look alone, so that what is replayed still has its shape. What a
server lists is kept as it is: a definition with a word missing would be another one. The id of
a task is all that is needed to get its result: ``[task 1]`` stands for it wherever it occurs, so
that the client that a record is replayed to asks about that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol.metadata import related_task
from .redaction import Redaction

__all__ = ["SessionRecord"]

_SHORTEST = 4
"""Characters of an id. A shorter one hides nothing, and would spoil every text."""
_MOST = 1_024
"""Tasks of one session that are known again."""


class SessionRecord:
    """The redaction of one session's record."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._schemas: dict[str, Any] = {}
        self._tasks: dict[str, str] = {}
        """By the id of a task, what stands for it."""

    def stand_ins(self, value: Any) -> Any:
        if not self._tasks:
            return value
        if isinstance(value, str):
            for id, shown in self._tasks.items():
                value = value.replace(id, shown)
            return value
        if isinstance(value, dict):
            return {self.stand_ins(key): self.stand_ins(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.stand_ins(item) for item in value]
        return value

    def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        shown = {key: value for key, value in params.items() if key not in ("_meta", "arguments")}
        shown = {key: self.value(value) for key, value in shown.items()}
        if "arguments" in params:
            schema = self._schemas.get(str(params.get("name")))
            shown["arguments"] = self._redaction.show(params["arguments"], schema).value
        return shown

    def result(self, method: str, result: Any) -> Any:
        if isinstance(result, dict):
            self._note_task(result)
            self._note_task(result.get("task"))
        if not method.endswith("/list"):
            return self.value(result)
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._schemas[tool["name"]] = tool.get("inputSchema")
        return result

    def _note_task(self, said: Any) -> None:
        id = said.get("taskId") if isinstance(said, dict) else None
        if isinstance(id, str) and len(id) >= _SHORTEST and len(self._tasks) < _MOST:
            self._tasks.setdefault(id, f"[task {len(self._tasks) + 1}]")

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):  # notices of a task may come before the answer that creates it
            self._note_task(value)
            id = related_task(value)
            self._note_task(None if id is None else {"taskId": id})
        return self._redacted(self.stand_ins(value))

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redaction.text(value, len(value))
        if isinstance(value, dict):
            return {key: self._redacted(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redacted(item) for item in value]
        return value
