"""The arguments of a call as they may be shown, in records and in spans.

A span shows them, and the result, if ``Audit(trace_content=True)`` asks for it: both are JSON
texts. A result is not in the audit. It is shown without what looks like a secret, and bounded
likewise. A redaction that is a function of the host decides arguments only.
"""

from __future__ import annotations

import json
from typing import Any

from ..approval.tool_call import ToolCall
from ..catalog.call_values import ToolResult
from ..catalog.tool import Tool
from ..protocol.canonical_json import canonical
from ..runtime.session_context import KnownSecrets
from .redaction import Redacted, Redaction, marked

__all__ = ["MAX_ARGUMENTS_CHARS", "SpanContent", "are_shown", "differing_paths"]
__all__ += ["redacted_arguments", "text_of"]

_parse = json.JSONDecoder().raw_decode  # canonical text has no space before or after it
MAX_ARGUMENTS_CHARS = 256 * 1024
"""Characters of arguments that are looked through and shown."""


def text_of(given: Any) -> str | None:
    """Return the canonical text of what was ``given``; None if it has none."""
    try:
        return canonical({} if given is None else given)
    except Exception:  # noqa: BLE001 - an object of the caller's own may do anything
        return None


def redacted_arguments(
    redaction: Redaction,
    secrets: KnownSecrets,
    text: str | None,
    given: Any,
    tool: Tool | None,
    is_unread: bool = False,
) -> Redacted:
    """Return the arguments as a record may show them. Never raises.

    They are of ``text`` if there is one, else of ``given``. ``is_unread``: nothing is shown,
    because the tool's schema is not known, which may mark secrets.
    """
    if text is not None and len(text) > MAX_ARGUMENTS_CHARS:
        return Redacted(f"[left out: {len(text)} characters]", pointers=[""])
    try:
        if is_unread and given:
            return Redacted("[left out: the tool's definition is not known]", pointers=[""])
        value = given if text is None else _parse(text)[0]
        redacted = redaction.show(value, _marks_of(tool))
        clean = secrets.json(redacted.value)
        if clean != redacted.value:  # their places are not looked for
            redacted.value, redacted.pointers = clean, [*redacted.pointers, ""]
    except Exception as error:  # noqa: BLE001 - an object of the caller's own may do anything
        return Redacted(f"[unreadable: {type(error).__name__}]", pointers=[""])
    return redacted


def are_shown(redaction: Redaction, secrets: KnownSecrets, text: str, tool: Tool | None) -> bool:
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
