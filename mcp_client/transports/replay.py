"""A server made of a record: ``connect(ReplayServer("session.jsonl"))``.

It sends the same responses to the same requests, in any order, without the server that was
recorded: for bug reports, and for tests of an agent. Requests are the same if method and parameters
are, ``_meta`` aside; ``initialize`` and ``server/discover`` are matched by their method alone, and
``ping`` always gets a response.

The record does not have what was left out of a request, nor anything made of it. So the first value
in such a place is assumed to be the recorded one. From then on another value differs, and a value
that was recorded as another one is that one. Two requests may differ only in values that the record
hides. They are distinguished if they come in the recorded order; otherwise each gets the response
of the other. Give values of your own, or those that a replayed response has: ``[redacted]`` is
equal to the value that it replaces.

A request that was made several times gets its responses in the recorded order, and then the last
one. Notifications and questions during a request come again before its response. Notifications that
belonged to no request do not.

The response to a request that is not in the record is an error that states what differs.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from ..errors import ConfigError
from ..protocol.json_paths import pointer
from ..runtime.directory import BINARY, CLOSED_IN_CHILDREN, checked_path
from ..runtime.option_names import with_option_names
from .memory import JsonRpcError, MemoryTransport, ServerInProcess
from .recording import FORMAT, LEFT_OUT, SecretNumbers, captured, text_of

__all__ = ["ReplayServer"]

_BY_METHOD = frozenset({"initialize", "server/discover", "logging/setLevel"})
_MAX_RECORD_BYTES = 256 * 1024 * 1024
_MISSING = object()
_NO_RESPONSE = -32001
_OWN_IDS = ("progressToken", "io.modelcontextprotocol/subscriptionId")


@dataclass(slots=True)
class _Recorded:
    """A request of the record, and its outcome."""

    line: int
    id: Any
    method: str
    params: dict[str, Any] | str
    secrets: list[int]
    """The numbers of the values left out, which show those that were equal; see ``recording``."""
    before: list[dict[str, Any]] = field(default_factory=list)
    """The notifications and questions that came before its response."""
    result: Any = _MISSING
    error: dict[str, Any] | None = None
    failed: str | None = None


@with_option_names()
class ReplayServer(ServerInProcess):
    """The server of a record: ``connect(ReplayServer("session.jsonl"))``.

    ``path`` is the file that ``Recording`` wrote. Raises ``ConfigError`` if it cannot be read. Each
    session has the record from its beginning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._requests = _read(path)

    def _transport(self) -> MemoryTransport:
        return _ReplayTransport(self._requests, self._open)


class _ReplayTransport(MemoryTransport):
    name = "replay"

    def __init__(self, requests: list[_Recorded], all_open: set[MemoryTransport]) -> None:
        super().__init__(_Player(requests).respond, all_open)
        self._requests = requests

    def clone(self) -> MemoryTransport:
        return _ReplayTransport(self._requests, self._all_open)

    @property
    def is_local(self) -> bool:
        """False: a record may be of any server."""
        return False


def _read(path: str | os.PathLike[str]) -> list[_Recorded]:
    """Return the requests of a record. A last line that was cut off is left out."""
    path = checked_path(path, f"ReplayServer({path!r})")
    where = f"ReplayServer({path!r})"
    data = _content(path, where)
    complete = data.decode("utf-8", "surrogatepass" if _is_utf8(data) else "replace").split("\n")
    complete.pop()
    head = _parsed(complete[0], where, 1) if complete else {}
    if head.get("mcp-client-record") != FORMAT:
        raise ConfigError(
            f"{where}: it is not a record of this version: give a file that Recording(server, "
            "path) wrote"
        )
    requests: dict[int, _Recorded] = {}
    for number, line in enumerate(complete[1:], 2):
        try:
            _take(requests, _parsed(line, where, number), number)
        except _NotOfARecord as error:
            raise ConfigError(f"{where}: line {number} is not one of a record: {error}") from None
    return list(requests.values())


def _content(path: str, where: str) -> bytes:
    how = os.O_RDONLY | CLOSED_IN_CHILDREN | BINARY | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, how)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ConfigError(f"{where}: it is not a regular file")
        with open(file, "rb", closefd=False) as stream:
            data = stream.read(_MAX_RECORD_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    finally:
        os.close(file)
    if len(data) > _MAX_RECORD_BYTES:
        raise ConfigError(f"{where}: the record is larger than {_MAX_RECORD_BYTES} bytes")
    return data


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _parsed(line: str, where: str, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line, parse_constant=_refused)
        json.dumps(entry)  # what can be read and not be written, such as an integer of many digits
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: line {number} is not a JSON object")
    return entry


def _refused(name: str) -> Any:
    raise ValueError(name)


class _NotOfARecord(Exception):
    """An error: the line cannot be part of a record."""


def _take(requests: dict[int, _Recorded], entry: dict[str, Any], line: int) -> None:
    if "request" in entry:
        recorded = _Recorded(
            line,
            _member(entry, "id", int, str),
            _member(entry, "method", str),
            _params(entry),
            _member({"secrets": [], **entry}, "secrets", list),
        )
        if not all(type(number) is int for number in recorded.secrets):
            raise _NotOfARecord("secrets is not a list of integers")
        requests[_member(entry, "request", int)] = recorded
    elif "answer" in entry:
        recorded = _request_of(requests, entry, "answer")
        if "error" in entry:
            recorded.error = _member(entry, "error", dict)
            _member(recorded.error, "code", int)
            _member(recorded.error, "message", str)
        else:
            recorded.result = _member(entry, "result", dict, list, str, int, float, bool, _Null)
    elif "failed" in entry:
        recorded = _request_of(requests, entry, "failed")
        recorded.failed = f"{_member(entry, 'error', str)}: {_member(entry, 'message', str)}"
    elif entry.get("notice") is not None:
        earlier = {
            "method": _member(entry, "method", str),
            "params": _member(entry, "params", dict),
        }
        _request_of(requests, entry, "notice").before.append(earlier)
    elif entry.get("question") is not None:
        earlier = {
            "method": _member(entry, "method", str),
            "params": _member(entry, "params", dict),
        }
        earlier["id"] = _member(entry, "id", int, str)
        _request_of(requests, entry, "question").before.append(earlier)


_Null = type(None)


def _member(entry: dict[str, Any], name: str, *types: type) -> Any:
    if name not in entry or type(entry[name]) not in types:
        raise _NotOfARecord(f"{name} is missing or has the wrong type")
    return entry[name]


def _params(entry: dict[str, Any]) -> dict[str, Any] | str:
    params: dict[str, Any] | str = _member(entry, "params", dict, str)
    if isinstance(params, str) and params != LEFT_OUT:
        raise _NotOfARecord("params is not an object")
    return params


def _request_of(requests: dict[int, _Recorded], entry: dict[str, Any], name: str) -> _Recorded:
    recorded = requests.get(_member(entry, name, int))
    if recorded is None:
        raise _NotOfARecord(f"its {name} is not the number of an earlier request")
    return recorded


@dataclass(slots=True)
class _Same:
    """Requests of the record that are the same, and how often they were answered."""

    first: _Recorded
    all: list[_Recorded] = field(default_factory=list)
    answered: int = 0

    def next(self) -> _Recorded:
        number = min(self.answered, len(self.all) - 1)
        self.answered += 1
        return self.all[number]


class _Player:
    """A player, which responds to requests from a record."""

    def __init__(self, requests: list[_Recorded]) -> None:
        self._all = requests
        self._numbers = SecretNumbers()
        self._candidates: dict[str, _Same] = {}
        """The requests that the record has all of, by method and parameters."""
        self._left_out: dict[str, dict[str, _Same]] = {}
        """The other requests, by method, and by parameters and numbers."""
        for one in requests:
            place = _place(one.method, one.params)
            same = self._candidates
            if one.secrets and one.method not in _BY_METHOD:
                same, place = self._left_out.setdefault(one.method, {}), f"{place}{one.secrets}"
            same.setdefault(place, _Same(one)).all.append(one)
        self._asked: dict[str, anyio.Event] = {}
        """Set once the client has answered the question of that id."""
        self._questions = 0

    async def respond(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        """Return the recorded result for a request; raises the recorded error."""
        if "method" not in message and message.get("id") in self._asked:
            self._asked.pop(message["id"]).set()
        if "method" not in message or "id" not in message:
            return None
        if message["method"] == "ping":
            return {}
        method, params = message["method"], message.get("params") or {}
        recorded = self._recorded(method, params)
        if recorded is None:
            raise JsonRpcError(_NO_RESPONSE, self._difference(method, params))
        for earlier in recorded.before:
            sent = {
                "jsonrpc": "2.0",
                **earlier,
                "params": _renumbered(earlier["params"], message["id"]),
            }
            if "id" not in earlier:
                send(sent)
                continue
            self._questions += 1
            sent["id"] = f"replay-{self._questions}"
            answered = self._asked[sent["id"]] = anyio.Event()
            send(sent)
            await answered.wait()  # ends with the session at the latest
        if recorded.error is not None:
            error = recorded.error
            raise JsonRpcError(error["code"], error["message"], error.get("data"))
        if recorded.result is not _MISSING:
            return recorded.result
        if method.startswith("subscriptions/"):
            return None  # it was open until the session was closed
        reason = recorded.failed or "the record ends before it"
        raise JsonRpcError(
            _NO_RESPONSE,
            f"replay: {method} had no response when it was recorded (line {recorded.line}): "
            f"{reason}",
        )

    def _recorded(self, method: str, params: dict[str, Any]) -> _Recorded | None:
        """Return the request of the record that this one is."""
        asked = {name: value for name, value in params.items() if name != "_meta"}
        same = self._candidates.get(_place(method, asked))
        if same is not None:
            return same.next()
        for same in self._left_out.get(method, {}).values():
            numbers, values = same.first.secrets, captured(same.first.params, asked)
            if values is not None and self._numbers.fits(numbers, values):
                self._numbers.bind(numbers, values)
                return same.next()
        return None

    def _difference(self, method: str, params: dict[str, Any]) -> str:
        """Return how a request differs from those of the record."""
        name = _name(params)
        what = method if name is None else f"{method} of {name!r}"
        same = [one for one in self._all if one.method == method]
        if not same:
            methods = ", ".join(dict.fromkeys(one.method for one in self._all))
            return f"replay: {what} is not in the record, which has: {methods or 'nothing'}"
        named = [one for one in same if _name(one.params) == name]
        if not named:
            names = (_name(one.params) for one in same)
            known = ", ".join(dict.fromkeys(repr(one) for one in names))
            return f"replay: {what} is not in the record, which has {method} of: {known}"
        nearest = min(named, key=lambda one: len(_differences(one.params, params, ())))
        found = _differences(nearest.params, params, ())
        # What is left out of the record may be equal, so it is named where nothing else differs.
        places = [place for place, is_same in found if is_same] or [place for place, _ in found]
        listed = ", ".join(places[:8]) or "a value that the record leaves out"
        return f"replay: {what} is in the record (line {nearest.line}), but it differs in {listed}"


def _place(method: str, params: dict[str, Any] | str) -> str:
    return method if method in _BY_METHOD else text_of([method, params])


def _name(params: dict[str, Any] | str) -> Any:
    return params if isinstance(params, str) else params.get("name", params.get("uri"))


def _renumbered(params: Mapping[str, Any], id: Any) -> dict[str, Any]:
    """Return parameters that name a request by the id it has now."""
    new = dict(params)
    if "progressToken" in new:
        new["progressToken"] = id
    meta = new.get("_meta")
    if isinstance(meta, dict):
        new["_meta"] = {key: id if key in _OWN_IDS else value for key, value in meta.items()}
    return new


def _differences(was: Any, now: Any, path: tuple[object, ...]) -> list[tuple[str, bool]]:
    """JSON pointers of where two requests differ, and whether the record shows what was there."""
    if isinstance(was, dict) and isinstance(now, dict):
        keys = [key for key in (*was, *(key for key in now if key not in was)) if key != "_meta"]
        return [
            place
            for key in keys
            for place in _differences(was.get(key, _MISSING), now.get(key, _MISSING), (*path, key))
        ]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [
            place
            for number, pair in enumerate(zip(was, now, strict=True))
            for place in _differences(*pair, (*path, number))
        ]
    if was == now and type(was) is type(now):
        return []
    hidden = isinstance(was, str) and LEFT_OUT in was
    return [(pointer(path) or "everything", not hidden)]
