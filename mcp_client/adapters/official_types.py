"""Results of a session as types of the official SDK.

The types refuse much that a session accepts: an image without a MIME type, odd annotations, a null.
A result that its type refuses is made again of what the session found in it. Content that fits no
type becomes text, and other members that are refused are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..protocol.canonical_json import plain
from ..protocol.content import ContentBlock, Contents, EmbeddedResource
from ..runtime.safe_text import safe_text
from .official_sdk import official

if TYPE_CHECKING:
    from ..catalog.call_values import ToolResult
    from ..catalog.library import PromptResult, ResourceResult
    from ..protocol.offers import Completion

__all__ = [
    "complete_result",
    "fitted",
    "initialize_result",
    "prompt_result",
    "resource_result",
    "tool_result",
]

_log = logging.getLogger("mcp_client")


def tool_result(result: ToolResult, where: str) -> Any:
    """Return a ``CallToolResult``. ``where`` is the name of the server, for the log."""
    types = official("types")
    with suppress(ValueError):
        return types.CallToolResult.model_validate(result.raw)
    content = [_block(one, where) for one in result.content]
    if not content and result.text:
        content = [types.TextContent(type="text", text=result.text)]
    found = {**plain(result.raw), "content": content, "isError": result.is_error}
    return fitted(types.CallToolResult, found, where)


def resource_result(result: ResourceResult, uri: str, where: str) -> Any:
    """Return a ``ReadResourceResult`` for the resource at ``uri``."""
    kind, raw = official("types").ReadResourceResult, plain(result.raw)
    with suppress(ValueError):
        return kind.model_validate(raw)
    held = []
    for one in result.contents:
        with suppress(ValueError):
            held.append(_contents(one, uri))
    return fitted(kind, {**raw, "contents": held}, where)


def prompt_result(result: PromptResult, where: str) -> Any:
    """Return a ``GetPromptResult``."""
    kind, raw = official("types").GetPromptResult, plain(result.raw)
    with suppress(ValueError):
        return kind.model_validate(raw)
    messages = [
        {"role": one.role, "content": _block(one.content, where)} for one in result.messages
    ]
    return fitted(kind, {**raw, "messages": messages}, where)


def complete_result(result: Completion, where: str) -> Any:
    """Return a ``CompleteResult``."""
    found = {"values": list(result.values), "total": result.total, "hasMore": result.has_more}
    raw = {**plain(result.raw), "completion": found}
    return fitted(official("types").CompleteResult, raw, where)


def initialize_result(session: Any) -> Any:
    """Return an ``InitializeResult`` of the session's first response, of either era."""
    types, where, info = official("types"), session.name, session.server_info
    response = plain(session.server_response)
    response["protocolVersion"] = session.protocol_version
    declared = response.get("capabilities")
    declared = declared if isinstance(declared, dict) else {}
    declared = {name: one for name, one in declared.items() if one not in (None, False)}
    response["capabilities"] = fitted(types.ServerCapabilities, declared, where, instead={})
    stated = {} if info is None else plain(info.to_wire())
    if isinstance(response.get("serverInfo"), dict):
        stated |= response["serverInfo"]
    for member in ("name", "version"):
        if not isinstance(stated.get(member), str):
            stated[member] = str(stated.get(member) or "")
    response["serverInfo"] = fitted(types.Implementation, stated, where)
    return fitted(types.InitializeResult, response, where)


def fitted(kind: Any, value: Mapping[str, Any], where: str, instead: Any = None) -> Any:
    """Return ``value`` as a type of the SDK, without members that the type refuses.

    Args:
        kind: A type of ``mcp.types``.
        value: The members by their names on the wire.
        where: The owner of the value, for the log.
        instead: The value of the refused members; without one, they are left out.

    Raises:
        ValueError: The type refuses a member that it requires.
    """
    try:
        return kind.model_validate(value)
    except ValueError as error:
        found: Any = error
        refused = {place for one in found.errors() for place in one["loc"][:1]}
        left = {name: instead if name in refused else each for name, each in value.items()}
        made = kind.model_validate({name: one for name, one in left.items() if one is not None})
        names = safe_text(", ".join(map(str, sorted(refused))), 200)
        _log.info("%s: left out what the SDK refuses: %s of %s", where, names, kind.__name__)
        return made


def _block(found: ContentBlock, where: str) -> Any:
    """Return a content block as a type of the SDK; as text if it fits none of them."""
    types = official("types")
    kind = getattr(types, type(found).__name__, None)
    for make in (lambda: plain(found.raw), lambda: _usual(found)):
        with suppress(ValueError, TypeError, AttributeError):
            return fitted(kind, make(), where)
    return types.TextContent(type="text", text=str(found))


def _usual(found: Any) -> dict[str, Any]:
    """Return a content block with the members that it lacks on the wire."""
    if isinstance(found, EmbeddedResource):
        return {"type": "resource", "resource": _contents(found, found.uri)}
    members = {"mimeType": "mime_type", "data": "data", "uri": "uri", "name": "name"}
    derived = {name: getattr(found, member, None) for name, member in members.items()}
    return {**plain(found.raw), **{name: one for name, one in derived.items() if one is not None}}


def _contents(found: Contents, uri: str) -> Any:
    """Return contents of the resource that was read from ``uri``. Raises ``ValueError``."""
    types = official("types")
    kind = types.BlobResourceContents if found.text is None else types.TextResourceContents
    members = {"text": found.text, "blob": found.blob, "mimeType": found.mime_type}
    members = {name: one for name, one in members.items() if one is not None}
    with suppress(ValueError):
        return kind.model_validate({**members, "uri": found.uri})
    return kind.model_validate({**members, "uri": uri})
