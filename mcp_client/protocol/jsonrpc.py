"""JSON-RPC 2.0 as MCP uses it: bytes to messages, messages to text.

A server's bytes are not trusted, so they are checked in this order: nesting depth before parsing,
strict UTF-8, strict JSON (no NaN, no Infinity), then the shape of the envelope. An invalid frame
raises ``InvalidFrame``. If the frame still identifies its request, the error names it. So one
broken frame fails one call and not the connection. A response that is cut off or too long usually
has its id at the beginning or the end of the line.

JSON has no rule for a duplicate key; as in Python's own parser, the last one counts.

Unambiguous deviations are accepted and reported: a byte order mark, a member that is null instead
of missing, an integer that is written as ``3.0``. Only unusual frames take that path.

2026-07-28 ``basic/index`` (messages); 2025-03-26 ``basic/index`` (batches, which only that
revision has, and which are accepted in every revision).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..runtime.strict_json import is_deeper
from .json_paths import escape

__all__ = [
    "ErrorResponse",
    "Id",
    "InvalidFrame",
    "Json",
    "Message",
    "Notification",
    "Request",
    "Response",
    "dump",
    "encode_error_response",
    "encode_fields",
    "encode_members",
    "encode_notification",
    "encode_request",
    "encode_response",
    "not_finite",
    "number_of",
    "own_id",
    "owner_of_fragment",
    "parse",
    "whole",
]

Id: TypeAlias = int | str


class Json(str):
    """Text that already is JSON and is sent as it is."""

    __slots__ = ()


class Response(NamedTuple):
    """A response with a result."""

    id: Id
    result: Any
    size: int = 0
    """Bytes of the frame it came in."""


class ErrorResponse(NamedTuple):
    """A response with an error. ``id`` is None where the server could not read ours."""

    id: Id | None
    code: int
    message: str
    data: Any
    status: int | None = None
    """The HTTP status it came with, where that was not a success."""
    retry_after: float | None = None
    """Seconds the server asked to wait before asking again."""
    size: int = 0
    """Bytes of the frame it came in."""


class Request(NamedTuple):
    """A request from the server."""

    id: Id
    method: str
    params: dict[str, Any]


class Notification(NamedTuple):
    """A notification."""

    method: str
    params: dict[str, Any]


Message: TypeAlias = Response | ErrorResponse | Request | Notification


class InvalidFrame(ValueError):
    """A frame is not a JSON-RPC message. ``owner`` is the id of its request, if known."""

    def __init__(self, reason: str, owner: Id | None = None, raw: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.owner: Id | None = own_id(owner)
        self.raw = raw


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Called directly, because ``decode`` searches for white space, which frames do not begin with.
_decoder: Any = json.JSONDecoder(parse_constant=_refuse_constant)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once
dump: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode
_quote = json.encoder.encode_basestring

# Searched for by the functions of ``re``, which compile a pattern when a frame first needs it: few
# sessions get such a frame.
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
_MAX_EXACT = 2**53
"""Whole numbers below it are exact as a float."""
_ID_FIRST = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,(?!\s*"method")'
_METHOD_FIRST = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"'
_ID_LAST = rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'


def _unreported(deviation: str) -> None:
    """Report nothing: for a caller that has no place for it."""


def parse(
    frame: bytes, depth: int, accept: Callable[[str], None] = _unreported
) -> list[Message | InvalidFrame]:
    """Return the messages of one frame: one, or those of a batch.

    A bad message of a batch is an ``InvalidFrame``. Calls ``accept`` with a sentence for each
    deviation that is accepted. Raises ``InvalidFrame`` if the frame as a whole cannot be parsed.
    """
    if is_deeper(frame, depth):
        raise InvalidFrame(f"nested deeper than {depth} levels", owner_of_fragment(frame))
    size = len(frame)
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        raise InvalidFrame("it is not UTF-8", owner_of_fragment(frame)) from None
    # A large frame that only this function refers to is freed before its values are made. Three
    # copies are more than malloc keeps for the next frame: their pages would be mapped each time.
    del frame
    try:
        value, end = _scan(text, 0)
        if end != len(text):
            raise ValueError("the frame has more than one value")
    except StopIteration:
        frame = text.encode()
        bare = frame.lstrip(_BEFORE_JSON)
        if bare and len(bare) < size:
            accept("a message begins with a byte order mark or blanks")
            return parse(bare, depth, accept)
        raise InvalidFrame("it is not JSON", owner_of_fragment(frame)) from None
    except (ValueError, RecursionError):
        reason = f"it is not JSON{_odd_number_of(text)}"
        raise InvalidFrame(reason, owner_of_fragment(text.encode())) from None
    if type(value) is dict:
        id = value.get("id")
        if type(id) is int and "result" in value and len(value) == 3 and "jsonrpc" in value:
            return [Response(id, value["result"], size)]  # as most messages are
        return [_message(value, size, accept)]
    if type(value) is list and value:
        return [_batched(item, size, accept) for item in value]
    raise InvalidFrame("it is JSON but not a JSON-RPC message", raw=value)


def _odd_number_of(text: str) -> str:
    """Return which member is NaN or infinite, as the end of a sentence; empty if that is not it."""
    try:
        found = not_finite(json.loads(text))
    except (ValueError, RecursionError):
        return ""
    return "" if found is None else f": its member {found}"


def not_finite(value: Any) -> str | None:
    """Return the place and the value of a number that JSON does not have; None without one."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        place, item = waiting.pop()
        kind = type(item)
        if kind is float:
            if item - item != 0:
                name = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(item)]
                return f"{place or 'the whole value'} is {name}"
        elif kind is dict:
            waiting += [(f"{place}/{escape(name)}", each) for name, each in item.items()]
        elif kind is list:
            waiting += [(f"{place}/{at}", each) for at, each in enumerate(item)]
    return None


def _message(value: Any, size: int, accept: Callable[[str], None]) -> Message:
    if type(value) is not dict:
        raise InvalidFrame("it is JSON but not a JSON-RPC message", raw=value)
    for member in ("method", "result", "error"):
        if member in value and value[member] is None and _is_void(member, value):
            accept(f"a message has the member {member!r} with the value null")
            value = {name: item for name, item in value.items() if name != member}
    owner = whole(value.get("id"))
    if "method" in value:
        return _request(value, owner, accept)
    if (
        type(owner) is not int
        and type(owner) is not str
        and not (owner is None and "error" in value)
    ):
        raise InvalidFrame(f"its id is {_short(owner)}, not a string or an integer", None, value)
    if "error" in value:
        error = value["error"]
        if "result" in value or type(error) is not dict:
            raise InvalidFrame(
                "it has both result and error, or an error that is not an object", owner, value
            )
        code, text = whole(error.get("code")), error.get("message")
        if type(code) is not int:
            raise InvalidFrame(f"its error code is {_short(code)}, not an integer", owner, value)
        text = text if type(text) is str else ""
        return ErrorResponse(owner, code, text, error.get("data"), size=size)
    if "result" not in value or owner is None:
        raise InvalidFrame("it has neither method, result nor error", owner, value)
    return Response(owner, value["result"], size)


def _is_void(member: str, value: dict[str, Any]) -> bool:
    """Return whether ``member``, which is null, counts as missing: another states the kind."""
    others = {"method", "result", "error"} - {member}
    return any(value.get(other) is not None for other in others) or (
        member != "result" and "result" in value
    )


def whole(value: Any) -> Any:
    """Return a whole number as an int, and any other value as it is.

    ``3.0`` is the same JSON number as ``3``.
    """
    if type(value) is float and value.is_integer() and abs(value) < _MAX_EXACT:
        return int(value)
    return value


def number_of(text: str) -> int | None:
    """Return the number that ``text`` is the ordinary spelling of; None for any other text.

    All of our ids and progress tokens are numbers, so a server that sends ``"3"`` means 3.
    """
    plain = text.isascii() and text.isdecimal() and len(text) < 16
    return int(text) if plain and (text == "0" or text[0] != "0") else None


def own_id(value: object) -> Id | None:
    """Return an id or token of ours as we sent it, however the server spells it."""
    if type(value) is int:
        return value
    if type(value) is str:
        number = number_of(value)
        return value if number is None else number
    value = whole(value)
    return value if type(value) is int else None


def _batched(item: Any, size: int, accept: Callable[[str], None]) -> Message | InvalidFrame:
    try:
        return _message(item, size, accept)
    except InvalidFrame as error:
        return error


def _request(value: dict[str, Any], owner: Any, accept: Callable[[str], None]) -> Message:
    method, params = value["method"], value.get("params")
    if params is None:
        params = {}
    if type(method) is not str or type(params) is not dict:
        # A server numbers its own requests: the id is one of ours only in a response.
        answers = "result" in value or "error" in value
        whose = owner if answers and (type(owner) is int or type(owner) is str) else None
        raise InvalidFrame(
            "its method is not a string or its params are not an object", whose, value
        )
    if owner is None:
        if "id" in value:
            accept("a notification has an id of null")
        return Notification(method, params)
    if type(owner) is not int and type(owner) is not str:
        raise InvalidFrame(f"its id is {_short(owner)}, not a string or an integer", raw=value)
    return Request(owner, method, params)


def owner_of_fragment(head: bytes, tail: bytes | None = None) -> Id | None:
    """Return the id of a response that cannot be parsed, if it is first or last in the frame.

    ``tail`` is the end of a frame that is complete but too long to store. Without it, ``head`` is
    all there is; if that is cut off, its last id may be a nested one, and is not used.
    """
    found = re.match(_ID_FIRST, head[:256])
    if found is None and not re.match(_METHOD_FIRST, head[:256]):
        if tail is None and head.count(b"{") == head.count(b"}"):
            tail = head
        found = None if tail is None else re.search(_ID_LAST, tail[-256:])
    return int(found.group(1)) if found else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def encode_members(fields: Mapping[str, Any]) -> str:
    """The members of a JSON object, without its braces; ``Json`` is inserted as it is."""
    parts = []
    for key, value in fields.items():
        kind = type(value)
        if kind is Json:
            text = value
        else:
            text = _quote(value) if kind is str else str(value) if kind is int else dump(value)
        parts.append(f"{_quote(key)}:{text}")
    return ",".join(parts)


def encode_fields(fields: Mapping[str, Any]) -> str:
    """A JSON object; its ``Json`` members are inserted as they are."""
    return f"{{{encode_members(fields)}}}"


def encode_request(id: Id, method: str, params: str) -> str:
    """Return a request as JSON text."""
    id_text = id if type(id) is int else dump(id)
    text = f'{{"jsonrpc":"2.0","id":{id_text},"method":"{method}","params":{params}}}'
    return text if text.isascii() else _sendable(text)


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> str:
    """Return a notification as JSON text."""
    tail = f',"params":{encode_fields(params)}' if params else ""
    return _sendable(f'{{"jsonrpc":"2.0","method":"{method}"{tail}}}')


def encode_response(id: Id, result: Mapping[str, Any]) -> str:
    """Return a response as JSON text."""
    return _sendable(f'{{"jsonrpc":"2.0","id":{dump(id)},"result":{encode_fields(result)}}}')


def encode_error_response(id: Id, code: int, message: str) -> str:
    """Return an error response as JSON text."""
    error = dump({"code": code, "message": message})
    return _sendable(f'{{"jsonrpc":"2.0","id":{dump(id)},"error":{error}}}')


def _sendable(text: str) -> str:
    """``text`` with lone surrogates escaped, as UTF-8 cannot encode them.

    They come from a server's own JSON escapes, for example in an id that is sent back to it.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text
