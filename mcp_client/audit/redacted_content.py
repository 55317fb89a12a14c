"""The content of calls as records of the audit, spans and recordings may show it.

**Of a record**: the arguments of a call, and the places at which an approver changed them.

**Of a span**: the arguments and the result, if ``Audit(trace_content=True)`` asks for them: both
are JSON texts. A result is not in the audit. It is shown without what looks like a secret, and
bounded likewise. A redaction that is a function of the host decides arguments only.

**Of a recording** (``mcp_client.transports.recording``): every part of every message, by one
redaction (see ``redaction``): members by their names, strings and names by look, JSON within
strings, and what a tool's input schema marks in the arguments of its calls. Only schemas are not
changed. Also left out, in any usual form, are the texts that were left out of the arguments of an
earlier request, and the secrets that the server was given (``env=``, headers, tokens).

In a recorded response a placeholder has the type of the original (``"[redacted]"``, 0), so that a
replayed response still has its shape. The id of a task is all that is needed to get its result:
``[task 1]`` replaces it everywhere, so that the client of a replay asks about that. A secret that
no name, look or mark shows is in the recording.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..approval.tool_call import ToolCall
from ..catalog.call_values import ToolResult
from ..catalog.tool import Tool
from ..protocol.canonical_json import canonical
from ..protocol.metadata import related_task
from ..runtime.session_context import KnownSecrets
from .redaction import REDACTED, Redacted, Redaction, marked

__all__ = ["MAX_ARGUMENTS_CHARS", "SessionRecord", "SpanContent", "differing_paths"]
__all__ += ["need_no_redaction", "redacted_arguments", "text_of"]

_parse = json.JSONDecoder().raw_decode  # canonical text has no space before or after it
MAX_ARGUMENTS_CHARS = 256 * 1024
"""Characters of arguments that are looked through and shown."""


def text_of(value: Any) -> str | None:
    """Return the canonical text of ``value``; None if it has none."""
    try:
        return canonical({} if value is None else value)
    except Exception:  # noqa: BLE001 - an object of the caller's own may do anything
        return None


def redacted_arguments(
    redaction: Redaction,
    secrets: KnownSecrets,
    text: str | None,
    arguments: Any,
    tool: Tool | None,
    is_unread: bool = False,
) -> Redacted:
    """Return the arguments as a record may show them. Never raises.

    They are of ``text`` if there is one, else of ``arguments``. ``is_unread``: nothing is shown,
    because the tool's schema is not known, which may mark secrets.
    """
    if text is not None and len(text) > MAX_ARGUMENTS_CHARS:
        return Redacted(f"[left out: {len(text)} characters]", pointers=[""])
    try:
        if is_unread and arguments:
            return Redacted("[left out: the tool's definition is not known]", pointers=[""])
        value = arguments if text is None else _parse(text)[0]
        redacted = redaction.show(value, _marks_of(tool))
        clean = secrets.json(redacted.value)
        if clean != redacted.value:  # their places are not looked for
            redacted.value, redacted.pointers = clean, [*redacted.pointers, ""]
    except Exception as error:  # noqa: BLE001 - an object of the caller's own may do anything
        return Redacted(f"[unreadable: {type(error).__name__}]", pointers=[""])
    return redacted


def need_no_redaction(
    redaction: Redaction, secrets: KnownSecrets, text: str, tool: Tool | None
) -> bool:
    """Whether a record may show the arguments ``text`` as they are: false if that is not clear.

    Most arguments are short and plain, and need no walk through their value.
    """
    if tool is None or not redaction.shows(text) or _marks_of(tool) is not None:
        return False
    return secrets.text(text) == text


def _marks_of(tool: Tool | None) -> Any:
    """Return the tool's input schema if it marks secrets, else None: looked for once."""
    return None if tool is None else tool._derive(_marked_schema)


def _marked_schema(tool: Tool) -> Any:
    schema = tool._definition["inputSchema"]
    return schema if marked(schema) else None


# ---------------------------------------------------- what an approver edited


_MAX_PATHS = 32


def differing_paths(before: Any, after: Any) -> list[str]:
    """Return at most 32 JSON pointers to differences, down to where the shapes differ."""
    paths: list[str] = []
    _collect(before, after, "", paths)
    return paths


def _collect(before: Any, after: Any, path: str, paths: list[str]) -> None:
    if len(paths) >= _MAX_PATHS or (type(before) is type(after) and before == after):
        return
    if type(before) is dict and type(after) is dict:
        for key in dict.fromkeys((*before, *after)):
            step = key.replace("~", "~0").replace("/", "~1")
            _collect(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}/{step}", paths)
    elif type(before) is list and type(after) is list and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            _collect(*pair, f"{path}/{index}", paths)
    else:
        paths.append(path)


_ABSENT = object()


class SpanContent:
    """The content of calls that spans show."""

    def __init__(self, redaction: Redaction, secrets: KnownSecrets) -> None:
        self._redaction = redaction
        self._secrets = secrets

    def arguments(self, call: ToolCall) -> str:
        """Return the arguments of a call."""
        text = call.arguments_json
        redacted = redacted_arguments(self._redaction, self._secrets, text, None, call.tool)
        return json.dumps(redacted.value)

    def result(self, result: ToolResult) -> str:
        """Return the result of a call."""
        redacted = Redaction.show(self._redaction, self._secrets.json(result.raw))
        return json.dumps(redacted.value)


# ------------------------------------------------------- the record of a session


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
