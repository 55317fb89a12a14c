"""The redaction of the record of a session: see ``mcp_client.transports.recording``.

One redaction covers every part of every message (see ``redaction``): members by their names,
strings and names by look, JSON within strings, and what a tool's input schema marks in the
arguments of its calls. Only schemas are not changed. Also left out, in any usual form, are the
texts that were left out of the arguments of an earlier request, and the secrets that the server was
given (``env=``, headers, tokens).

In a response a placeholder has the type of the original (``"[redacted]"``, 0), so that a replayed
response still has its shape. The id of a task is all that is needed to get its result: ``[task 1]``
replaces it everywhere, so that the client of a replay asks about that.

A secret that no name, look or mark shows is in the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol.metadata import related_task
from ..runtime.session_context import KnownSecrets
from .redaction import REDACTED, Redaction

__all__ = ["SessionRecord"]

_MIN_ID_CHARS = 4
"""Characters of an id. A shorter one hides nothing, and would spoil every text."""
_MAX_TASKS = 1_024
"""Tasks of one session that are known again."""
_SCHEMAS = frozenset({"inputSchema", "outputSchema", "requestedSchema", "progressToken"})
"""Members of the protocol in which names are not those of secrets."""
_PARTS = _SCHEMAS | {"tools", "inputRequests", "params"}


class SessionRecord:
    """The redaction of one session's record."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._known_secrets = KnownSecrets(REDACTED)
        self._left_out = KnownSecrets(REDACTED)
        self._schemas: dict[str, Any] = {}
        self._tasks: dict[str, str] = {}
        """The placeholders, by the id of a task."""

    def follow(self, secrets: KnownSecrets) -> None:
        """Leave out ``secrets``, which the server is given, too."""
        self._known_secrets.follow(secrets.values)

    def placeholders(self, value: Any) -> Any:
        """Return ``value`` with placeholders for secrets."""
        if not self._tasks:
            return value
        if isinstance(value, str):
            for id, redacted in self._tasks.items():
                value = value.replace(id, redacted)
            return value
        if isinstance(value, dict):
            return {self.placeholders(key): self.placeholders(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.placeholders(item) for item in value]
        return value

    def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters of a request without secrets."""
        rest = {key: value for key, value in params.items() if key not in ("_meta", "arguments")}
        redacted = self._redaction.whole(rest, answer=True)
        found = dict(redacted.value)
        self._left_out.add(redacted.hidden)
        if "arguments" in params:
            schema = self._schemas.get(str(params.get("name")))
            redacted = self._redaction.whole(params["arguments"], schema)
            found["arguments"] = redacted.value
            self._left_out.add(redacted.hidden)
        clean: dict[str, Any] = self._known_secrets.json(self._left_out.json(found))
        if "name" in params:  # it names what is called, and may be like an argument left out
            clean["name"] = self._known_secrets.json(found.get("name"))
        return clean

    def result(self, method: str, result: Any) -> Any:
        """Return a result without secrets."""
        if isinstance(result, dict):
            self._note_task(result)
            self._note_task(result.get("task"))
        if not method.endswith("/list"):
            return self.value(result)
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._schemas[tool["name"]] = tool.get("inputSchema")
        return self._known_secrets.json(self._whole(result))

    def value(self, value: Any) -> Any:
        """Return any other value without secrets."""
        if isinstance(
            value, dict
        ):  # notices of a task may come before the response that creates it
            self._note_task(value)
            id = related_task(value)
            self._note_task(None if id is None else {"taskId": id})
        return self._known_secrets.json(self._left_out.json(self._whole(self.placeholders(value))))

    # ------------------------------------------------------------------- private

    def _note_task(self, task_id: Any) -> None:
        id = task_id.get("taskId") if isinstance(task_id, dict) else None
        if isinstance(id, str) and len(id) >= _MIN_ID_CHARS and len(self._tasks) < _MAX_TASKS:
            self._tasks.setdefault(id, f"[task {len(self._tasks) + 1}]")

    def _whole(self, message: Any) -> Any:
        """Return a part of the protocol that may have schemas in it, which stay as they are."""
        if not isinstance(message, dict):
            return self._redaction.whole(message, answer=True).value
        parts: dict[str, Any] = {}
        for name in _PARTS & message.keys():
            part = message[name]
            if name in _SCHEMAS:
                parts[name] = part
            elif name == "tools" and isinstance(part, list):
                parts[name] = [self._whole(tool) for tool in part]
            elif name == "inputRequests" and isinstance(part, dict):
                parts[name] = {self._whole(key): self._whole(each) for key, each in part.items()}
            elif name == "params":
                parts[name] = self._whole(part)
        rest = {name: part for name, part in message.items() if name not in parts}
        return {**self._redaction.whole(rest, answer=True).value, **parts}
