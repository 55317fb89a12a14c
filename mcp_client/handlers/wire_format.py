"""The parser of a server's requests, and the encoder of responses. Nothing here waits.

Every request is checked against the capabilities declared for the agreed revision before a handler
receives it. Every response is checked against the request before it is sent. Error codes:
2025-11-25 ``client/elicitation``, ``client/sampling`` and ``client/roots``, error handling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from ..approval.decision import Deny
from ..protocol.canonical_json import NotJson, plain
from ..protocol.elicitation import Form, NotAForm, Wrong, form_of
from ..protocol.jsonrpc import whole
from ..protocol.uris import NotOpenable, address_of
from ..runtime.safe_text import safe_text
from .handlers import (
    Accept,
    Cancel,
    Decline,
    ElicitRequest,
    Root,
    RootsRequest,
    SamplingRequest,
    SamplingResult,
)

__all__ = [
    "INVALID_PARAMS",
    "METHOD_NOT_FOUND",
    "REJECTED",
    "HandlerRequest",
    "InvalidHandlerAnswer",
    "RequestRefused",
    "encode_result",
    "parse_request",
    "parse_required_urls",
]

HandlerRequest: TypeAlias = ElicitRequest | SamplingRequest | RootsRequest

METHOD_NOT_FOUND, INVALID_PARAMS, REJECTED = -32601, -32602, -1
_MAX_URLS = 16
_BLOCKS = frozenset({"text", "image", "audio"})
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})


class RequestRefused(Exception):
    """A server's request gets an error in response. The server may see the text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidHandlerAnswer(Exception):
    """A handler's return value cannot be sent. The text is for the host, not for the server."""


def parse_request(
    method: object, params: object, server: str, declared: Mapping[str, Any], full: bool
) -> HandlerRequest:
    """Parse a server's request. Raises ``RequestRefused``.

    Args:
        method: The method.
        params: The parameters.
        server: The host's name for the server.
        declared: The client's capabilities that the agreed revision knows.
        full: Whether the revision has titled choices, and tools in sampling.
    """
    capability, parse = _PARSERS.get(method, ("", None)) if isinstance(method, str) else ("", None)
    if parse is None or capability not in declared:
        what = safe_text(method, 80) if isinstance(method, str) else "a request without a method"
        raise RequestRefused(METHOD_NOT_FOUND, f"this client does not support {what}")
    if not isinstance(params, dict):
        raise RequestRefused(INVALID_PARAMS, "params is not an object")
    settings = declared[capability]
    request: HandlerRequest = parse(
        params, server, settings if isinstance(settings, dict) else {}, full
    )
    return request


def encode_result(request: HandlerRequest, returned: Any, full: bool) -> dict[str, Any]:
    """Return the result to send for a handler's return value.

    Raises ``InvalidHandlerAnswer``, or ``RequestRefused`` if it is a ``Deny``.

    Args:
        request: The request.
        returned: The handler's return value.
        full: As for ``parse_request``.
    """
    result = _ENCODERS[request.handler](request, returned, full)
    try:
        object: dict[str, Any] = plain(result)
    except NotJson as error:
        raise InvalidHandlerAnswer(f"it cannot be sent as JSON: {error}") from None
    return object


# ------------------------------------------------------------------------------ elicitation


def _elicit_request(
    params: dict[str, Any], server: str, settings: Mapping[str, Any], full: bool
) -> ElicitRequest:
    mode, message = params.get("mode"), params.get("message")
    mode = "form" if mode is None else mode
    if not isinstance(mode, str) or mode not in (settings or {"form": {}}):
        raise RequestRefused(
            INVALID_PARAMS, f"this client does not support elicitation of mode {mode!r:.40}"
        )
    if not isinstance(message, str):
        raise RequestRefused(INVALID_PARAMS, "message is not a string")
    if mode == "url":
        return _url_request(params, server, message)
    schema = params.get("requestedSchema")
    try:
        fields = form_of(schema, titled=full).fields
    except NotAForm as error:
        raise RequestRefused(INVALID_PARAMS, safe_text(f"requestedSchema: {error}", 300)) from None
    return ElicitRequest(server, message, "form", schema, fields, raw=params)


def _url_request(params: dict[str, Any], server: str, message: str) -> ElicitRequest:
    url, id = params.get("url"), params.get("elicitationId")
    try:
        address_of(url)
    except NotOpenable as error:
        raise RequestRefused(INVALID_PARAMS, str(error)) from None
    id = id if isinstance(id, str) else None
    return ElicitRequest(server, message, "url", url=url, elicitation_id=id, raw=params)


def parse_required_urls(data: object, server: str) -> tuple[ElicitRequest, ...]:
    """Parse the URLs that a person has to visit from the ``data`` of a -32042 error.

    2025-11-25 ``client/elicitation``. Raises ``RequestRefused`` for malformed data.
    """
    found = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(found, list) or not 0 < len(found) <= _MAX_URLS:
        raise RequestRefused(INVALID_PARAMS, f"elicitations is not a list of 1 to {_MAX_URLS}")
    requests = []
    for params in found:
        if not isinstance(params, dict) or params.get("mode") not in (None, "url"):
            raise RequestRefused(INVALID_PARAMS, "one of its elicitations is not of mode 'url'")
        message = params.get("message")
        requests.append(_url_request(params, server, message if isinstance(message, str) else ""))
    return tuple(requests)


def _elicit_result(request: ElicitRequest, returned: Any, full: bool) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        returned = _typed_result(returned)
    if isinstance(returned, Decline):
        return {"action": "decline"}
    if isinstance(returned, Cancel):
        return {"action": "cancel"}
    if not isinstance(returned, Accept):
        raise InvalidHandlerAnswer(
            f"the handler returned a {type(returned).__name__}, "
            "not Accept, Decline, Cancel or a dict"
        )
    if request.mode == "url":
        if returned.content:
            raise InvalidHandlerAnswer("consent to open a URL must not have content")
        return {"action": "accept"}
    content = returned.content or {}
    if not isinstance(content, Mapping):
        raise InvalidHandlerAnswer("content is not a mapping from field to value")
    try:
        return {
            "action": "accept",
            "content": Form(request.fields).checked(content, fill=returned.fill),
        }
    except Wrong as error:
        raise InvalidHandlerAnswer(str(error)) from None


def _typed_result(returned: Mapping[str, Any]) -> Accept | Decline | Cancel:
    match returned.get("action"):
        case "accept":
            return Accept(returned.get("content"))
        case "decline":
            return Decline()
        case "cancel":
            return Cancel()
    raise InvalidHandlerAnswer("action is not accept, decline or cancel")


# --------------------------------------------------------------------------------- sampling


def _sampling_request(
    params: dict[str, Any], server: str, settings: Mapping[str, Any], full: bool
) -> SamplingRequest:
    tools, choice = params.get("tools"), params.get("toolChoice")
    # Without tools there is nothing to choose, unless one must be used.
    may_be_none = choice is None or choice in ({}, {"mode": "auto"}, {"mode": "none"})
    if (tools not in (None, []) or not may_be_none) and "tools" not in settings:
        raise RequestRefused(INVALID_PARAMS, "this client does not support sampling with tools")
    if not isinstance(tools, list | None) or not all(isinstance(t, dict) for t in tools or ()):
        raise RequestRefused(INVALID_PARAMS, "tools is not a list of objects")
    max_tokens = whole(params.get("maxTokens"))
    if type(max_tokens) is not int or max_tokens < 1:
        raise RequestRefused(INVALID_PARAMS, "maxTokens is not a whole number above 0")
    _check_messages(params.get("messages"), full)
    return SamplingRequest.of(params, server)


def _check_messages(messages: object, full: bool) -> None:
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(INVALID_PARAMS, "messages is not a list, or is empty")
    pending = set[str]()
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise RequestRefused(INVALID_PARAMS, "the role of a message is not user or assistant")
        content = message.get("content")
        blocks = content if full and isinstance(content, list) else [content]
        if not blocks or not all(isinstance(block, dict) for block in blocks):
            raise RequestRefused(INVALID_PARAMS, "the content of a message is not a content block")
        pending = _pending_tool_uses(role, blocks, pending)
    if pending:
        raise RequestRefused(INVALID_PARAMS, "Tool result missing in request")


def _pending_tool_uses(role: str, blocks: list[dict[str, Any]], pending: set[str]) -> set[str]:
    """Return the ids of this message's tool uses, for which the next message needs results.

    ``pending`` are those of the message before. Raises ``RequestRefused`` if this one does not have
    exactly their results.
    """
    results = {str(b.get("toolUseId")) for b in blocks if b.get("type") == "tool_result"}
    mixed = results and any(b.get("type") != "tool_result" for b in blocks)
    if mixed or (results and role != "user"):
        raise RequestRefused(INVALID_PARAMS, "Tool results mixed with other content")
    if results != pending:
        raise RequestRefused(INVALID_PARAMS, "Tool result missing in request")
    uses = {str(b.get("id")) for b in blocks if b.get("type") == "tool_use"}
    if uses and role != "assistant":
        raise RequestRefused(
            INVALID_PARAMS, "a tool use is valid only in a message of the assistant"
        )
    return uses


def _sampling_result(request: SamplingRequest, returned: Any, full: bool) -> dict[str, Any]:
    if isinstance(returned, Deny):
        raise RequestRefused(REJECTED, "User rejected sampling request")
    if isinstance(returned, SamplingResult):
        reason = {} if returned.stop_reason is None else {"stopReason": returned.stop_reason}
        returned = {
            "role": returned.role,
            "content": returned.content,
            "model": returned.model,
            **reason,
        }
    if not isinstance(returned, Mapping):
        raise InvalidHandlerAnswer(
            f"the handler returned a {type(returned).__name__}, not SamplingResult, Deny or a dict"
        )
    content = returned.get("content")
    if isinstance(content, str):
        content = {"type": "text", "text": content}
    if returned.get("role") not in ("user", "assistant") or not _of(str, returned.get("model")):
        raise InvalidHandlerAnswer("role is not user or assistant, or model is missing")
    many = full and isinstance(content, Sequence)
    for block in content if many else [content]:  # type: ignore[union-attr]
        _check_block(block, bool(request.tools))
    return {**returned, "content": content}


def _check_block(block: Any, tools: bool) -> None:
    kind = _of(str, block.get("type")) if isinstance(block, Mapping) else None
    if kind in _TOOL_BLOCKS and tools:
        return
    if kind not in _BLOCKS or (kind == "text" and not isinstance(block.get("text"), str)):
        raise InvalidHandlerAnswer(
            "content is not a text, image or audio block (or a tool use, if tools were offered)"
        )


# ------------------------------------------------------------------------------------ roots


def _roots_result(request: RootsRequest, returned: Any, full: bool) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        returned = returned.get("roots")
    if not isinstance(returned, Sequence) or isinstance(returned, str):
        raise InvalidHandlerAnswer(
            f"the handler returned a {type(returned).__name__}, not a list of Root"
        )
    return {"roots": [_root(item) for item in returned]}


def _root(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        item = Root(item)
    if isinstance(item, Root):
        name = {} if item.name is None else {"name": item.name}
        item = {"uri": item.uri, **name}
    uri = item.get("uri") if isinstance(item, Mapping) else None
    if not isinstance(uri, str) or not _is_file(uri):
        raise InvalidHandlerAnswer("one of the roots is not a file:// URI; Root.of(path) makes one")
    return dict(item)


def _is_file(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    clean = uri.isascii() and uri.isprintable() and " " not in uri and "\\" not in uri
    climbs = ".." in unquote(parts.path).replace("\\", "/").split("/")
    return clean and not climbs and uri.startswith("file://") and parts.path.startswith("/")


_PARSERS: dict[str, tuple[str, Any]] = {
    "elicitation/create": ("elicitation", _elicit_request),
    "sampling/createMessage": ("sampling", _sampling_request),
    "roots/list": ("roots", lambda params, server, *_: RootsRequest(server, params)),
}
_ENCODERS: dict[str, Any] = {
    "elicitation": _elicit_result,
    "sampling": _sampling_result,
    "roots": _roots_result,
}


def _of(kind: Any, value: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
