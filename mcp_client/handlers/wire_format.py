"""What a server asks, from the wire; what is answered, to the wire. Nothing here waits.

Every question is held against what was declared for the agreed revision before anybody sees it,
and every answer against the question before it is sent. Codes of refusal: 2025-11-25
``client/elicitation``, ``client/sampling`` and ``client/roots``, error handling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from ..approval.gate import Deny
from ..protocol.canonical_json import NotJson, plain
from ..protocol.consent_url import NotOpenable, address_of
from ..protocol.content import content_block
from ..protocol.elicitation import Form, NotAForm, Wrong, form_of
from ..runtime.safe_text import safe_text
from .handlers import (
    Accept,
    Cancel,
    Decline,
    ElicitRequest,
    Root,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
    SamplingResult,
)
from .refusals import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REJECTED,
    InvalidHandlerAnswer,
    RequestRefused,
)

__all__ = ["Asked", "elicitations_of", "read", "written"]

Asked: TypeAlias = ElicitRequest | SamplingRequest | RootsRequest

_MOST_URLS = 16
_BLOCKS = frozenset({"text", "image", "audio"})
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})


def read(
    method: object, params: object, server: str, declared: Mapping[str, Any], full: bool
) -> Asked:
    """The typed question. ``declared`` is what the agreed revision knows of our capabilities,
    ``full`` whether it has titled choices and tools in sampling. Raises ``RequestRefused``."""
    reader = _READERS.get(method) if isinstance(method, str) else None
    if reader is None or reader[0] not in declared:
        shown = safe_text(method, 80) if isinstance(method, str) else "a question without a method"
        raise RequestRefused(METHOD_NOT_FOUND, f"this client does not answer {shown}")
    if not isinstance(params, dict):
        raise RequestRefused(INVALID_PARAMS, "params is no object")
    settings = declared[reader[0]]
    asked: Asked = reader[1](params, server, settings if isinstance(settings, dict) else {}, full)
    return asked


def written(asked: Asked, answer: Any, full: bool) -> dict[str, Any]:
    """The result to send for a handler's ``answer``.

    Raises ``InvalidHandlerAnswer`` or ``RequestRefused``.
    """
    if isinstance(asked, ElicitRequest):
        result = _elicited(asked, answer)
    elif isinstance(asked, SamplingRequest):
        result = _sampled(asked, answer, full)
    else:
        result = _rooted(answer)
    try:
        object: dict[str, Any] = plain(result)
    except NotJson as error:
        raise InvalidHandlerAnswer(f"it cannot be sent as JSON: {error}") from None
    return object


# ------------------------------------------------------------------------------ elicitation


def _elicit_request(
    params: dict[str, Any], server: str, settings: Mapping[str, Any], full: bool
) -> ElicitRequest:
    mode, message = params.get("mode", "form"), params.get("message")
    if not isinstance(mode, str) or mode not in (settings or {"form": {}}):
        raise RequestRefused(
            INVALID_PARAMS, f"this client does not do elicitation of mode {mode!r:.40}"
        )
    if not isinstance(message, str):
        raise RequestRefused(INVALID_PARAMS, "message is no string")
    if mode == "url":
        return _visit(params, server, message)
    schema = params.get("requestedSchema")
    try:
        fields = form_of(schema, titled=full).fields
    except NotAForm as error:
        raise RequestRefused(INVALID_PARAMS, safe_text(f"requestedSchema: {error}", 300)) from None
    return ElicitRequest(server, message, "form", schema, fields, raw=params)


def _visit(params: dict[str, Any], server: str, message: str) -> ElicitRequest:
    url, id = params.get("url"), params.get("elicitationId")
    try:
        address_of(url)
    except NotOpenable as error:
        raise RequestRefused(INVALID_PARAMS, str(error)) from None
    id = id if isinstance(id, str) else None
    return ElicitRequest(server, message, "url", url=url, elicitation_id=id, raw=params)


def elicitations_of(data: object, server: str) -> tuple[ElicitRequest, ...]:
    """The URLs to visit that the ``data`` of a -32042 error names (2025-11-25). Raises
    ``RequestRefused`` where they are none."""
    found = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_URLS:
        raise RequestRefused(INVALID_PARAMS, f"it names no list of 1 to {_MOST_URLS} elicitations")
    read = []
    for params in found:
        if not isinstance(params, dict) or params.get("mode") != "url":
            raise RequestRefused(
                INVALID_PARAMS, "it names an elicitation that is not of mode 'url'"
            )
        message = params.get("message")
        read.append(_visit(params, server, message if isinstance(message, str) else ""))
    return tuple(read)


def _elicited(asked: ElicitRequest, answer: Any) -> dict[str, Any]:
    if isinstance(answer, Mapping):
        answer = _typed(answer)
    if isinstance(answer, Decline):
        return {"action": "decline"}
    if isinstance(answer, Cancel):
        return {"action": "cancel"}
    if not isinstance(answer, Accept):
        raise InvalidHandlerAnswer(
            f"it is a {type(answer).__name__}, and neither Accept, Decline nor Cancel"
        )
    if asked.mode == "url":
        if answer.content:
            raise InvalidHandlerAnswer("consent to open a URL has no content, and this has some")
        return {"action": "accept"}
    content = answer.content or {}
    if not isinstance(content, Mapping):
        raise InvalidHandlerAnswer("the content is no mapping from field to value")
    try:
        return {
            "action": "accept",
            "content": Form(asked.fields).checked(content, fill=answer.fill),
        }
    except Wrong as error:
        raise InvalidHandlerAnswer(str(error)) from None


def _typed(answer: Mapping[str, Any]) -> Accept | Decline | Cancel:
    match answer.get("action"):
        case "accept":
            return Accept(answer.get("content"))
        case "decline":
            return Decline()
        case "cancel":
            return Cancel()
    raise InvalidHandlerAnswer("it is a dict whose action is neither accept, decline nor cancel")


# --------------------------------------------------------------------------------- sampling


def _sampling_request(
    params: dict[str, Any], server: str, settings: Mapping[str, Any], full: bool
) -> SamplingRequest:
    tools, choice = params.get("tools"), params.get("toolChoice")
    if (tools is not None or choice is not None) and "tools" not in settings:
        raise RequestRefused(INVALID_PARAMS, "this client does not do sampling with tools")
    if not isinstance(tools, list | None) or not all(isinstance(t, dict) for t in tools or ()):
        raise RequestRefused(INVALID_PARAMS, "tools is no list of objects")
    most = params.get("maxTokens")
    if type(most) is not int or most < 1:
        raise RequestRefused(INVALID_PARAMS, "maxTokens is no whole number above 0")
    return SamplingRequest(
        server,
        _conversation(params.get("messages"), full),
        most,
        _of(str, params.get("systemPrompt")),
        _of(dict, params.get("modelPreferences")),
        _of(str, params.get("includeContext")),
        _of((int, float), params.get("temperature")),
        tuple(word for word in _of(list, params.get("stopSequences")) or () if _of(str, word)),
        _of(dict, params.get("metadata")),
        tuple(tools or ()),
        _of(dict, choice),
        params,
    )


def _conversation(messages: object, full: bool) -> tuple[SamplingMessage, ...]:
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(INVALID_PARAMS, "messages is no list with something in it")
    read, owed = [], set[str]()
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise RequestRefused(
                INVALID_PARAMS, "a message has a role that is neither user nor assistant"
            )
        content = message.get("content")
        blocks = content if full and isinstance(content, list) else [content]
        if not blocks or not all(isinstance(block, dict) for block in blocks):
            raise RequestRefused(
                INVALID_PARAMS, "a message has content that is no block of content"
            )
        owed = _balanced(role, blocks, owed)
        read.append(SamplingMessage(role, tuple(map(content_block, blocks)), message))
    if owed:
        raise RequestRefused(INVALID_PARAMS, "Tool result missing in request")
    return tuple(read)


def _balanced(role: str, blocks: list[dict[str, Any]], owed: set[str]) -> set[str]:
    """Tool uses of this message, which the next must answer; raises if the last were not."""
    results = {str(b.get("toolUseId")) for b in blocks if b.get("type") == "tool_result"}
    mixed = results and any(b.get("type") != "tool_result" for b in blocks)
    if mixed or (results and role != "user"):
        raise RequestRefused(INVALID_PARAMS, "Tool results mixed with other content")
    if results != owed:
        raise RequestRefused(INVALID_PARAMS, "Tool result missing in request")
    uses = {str(b.get("id")) for b in blocks if b.get("type") == "tool_use"}
    if uses and role != "assistant":
        raise RequestRefused(
            INVALID_PARAMS, "a tool use stands in a message that is not the assistant's"
        )
    return uses


def _sampled(asked: SamplingRequest, answer: Any, full: bool) -> dict[str, Any]:
    if isinstance(answer, Deny):
        raise RequestRefused(REJECTED, "User rejected sampling request")
    if isinstance(answer, SamplingResult):
        reason = {} if answer.stop_reason is None else {"stopReason": answer.stop_reason}
        answer = {
            "role": answer.role,
            "content": answer.content,
            "model": answer.model,
            **reason,
        }
    if not isinstance(answer, Mapping):
        raise InvalidHandlerAnswer(
            f"it is a {type(answer).__name__}, and neither SamplingResult nor a dict"
        )
    content = answer.get("content")
    if isinstance(content, str):
        content = {"type": "text", "text": content}
    if answer.get("role") not in ("user", "assistant") or not _of(str, answer.get("model")):
        raise InvalidHandlerAnswer("its role is neither user nor assistant, or it names no model")
    many = full and isinstance(content, Sequence)
    for block in content if many else [content]:  # type: ignore[union-attr]
        _block(block, bool(asked.tools))
    return {**answer, "content": content}


def _block(block: Any, tools: bool) -> None:
    kind = _of(str, block.get("type")) if isinstance(block, Mapping) else None
    if kind in _TOOL_BLOCKS and tools:
        return
    if kind not in _BLOCKS or (kind == "text" and not isinstance(block.get("text"), str)):
        raise InvalidHandlerAnswer(
            "its content is no block of text, image or audio (or tool use, if asked)"
        )


# ------------------------------------------------------------------------------------ roots


def _roots_request(
    params: dict[str, Any], server: str, settings: Mapping[str, Any], full: bool
) -> RootsRequest:
    return RootsRequest(server, params)


def _rooted(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Mapping):
        answer = answer.get("roots")
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        raise InvalidHandlerAnswer(f"it is a {type(answer).__name__}, and no list of Root")
    return {"roots": [_root(item) for item in answer]}


def _root(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        item = Root(item)
    if isinstance(item, Root):
        name = {} if item.name is None else {"name": item.name}
        item = {"uri": item.uri, **name}
    uri = item.get("uri") if isinstance(item, Mapping) else None
    if not isinstance(uri, str) or not _is_file(uri):
        raise InvalidHandlerAnswer("one of the roots is no file:// URI; Root.of(path) makes one")
    return dict(item)


def _is_file(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    clean = uri.isascii() and uri.isprintable() and " " not in uri and "\\" not in uri
    climbs = ".." in unquote(parts.path).replace("\\", "/").split("/")
    return clean and not climbs and uri.startswith("file://") and parts.path.startswith("/")


_READERS: dict[str, tuple[str, Any]] = {
    "elicitation/create": ("elicitation", _elicit_request),
    "sampling/createMessage": ("sampling", _sampling_request),
    "roots/list": ("roots", _roots_request),
}


def _of(kind: Any, value: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
