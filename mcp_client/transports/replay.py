"""A server made of a record: ``connect(ReplayServer("session.jsonl"))``.

It gives the same answers to the same requests, in any order, without the server that was
recorded: for bug reports, and for tests of an agent. Requests are the same if method and parameters
are, ``_meta`` aside; ``initialize`` and ``server/discover`` go by their method alone, and ``ping``
is always answered. A request that was made several times is answered in turn as it was, and then
as it was last. What the server said and asked during a request comes again before its answer.
Notifications that belonged to no request do not.

A request that is not in the record is answered with an error that says what differs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from ..errors import ConfigError
from ..protocol.json_pointer import pointer
from ..runtime.given_path import given_path
from .memory import JsonRpcError, MemoryServer
from .recording import FORMAT, digest_of

__all__ = ["ReplayServer"]

_BY_METHOD = frozenset({"initialize", "server/discover", "logging/setLevel"})
_MOST_BYTES = 256 * 1024 * 1024
_MISSING = object()
_NO_ANSWER = -32001
_LEFT_OUT = "[redacted]"
_OWN_IDS = ("progressToken", "io.modelcontextprotocol/subscriptionId")


@dataclass(slots=True)
class _Recorded:
    """One request of the record, and what came of it."""

    line: int
    id: Any
    method: str
    params: dict[str, Any]
    digest: str
    before: list[dict[str, Any]] = field(default_factory=list)
    """Notifications and questions that came before its answer."""
    result: Any = _MISSING
    error: dict[str, Any] | None = None
    failed: str | None = None


class ReplayServer(MemoryServer):
    """The server of a record, as a transport for ``connect``. ``path`` is what was given to
    ``connect(record=...)``. Raises ``ConfigError`` where it cannot be read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(_Player(_read(path)).answer)
        self.name = "replay"
        self._path = path

    def fresh(self) -> ReplayServer:
        return ReplayServer(self._path)


@dataclass(frozen=True, slots=True)
class _Record:
    key: bytes
    requests: list[_Recorded]


def _read(path: str | os.PathLike[str]) -> _Record:
    """The requests of a record. A last line that was cut off is left out."""
    path = given_path(path, f"ReplayServer({path!r})")
    where = f"ReplayServer({path!r})"
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{where}: the record is larger than {_MOST_BYTES} bytes")
    lines = data.decode("utf-8", "surrogatepass" if _is_utf8(data) else "replace").split("\n")
    complete = lines[:-1]
    head = _parsed(complete[0], where, 1) if complete else {}
    if head.get("mcp-client-record") != FORMAT:
        raise ConfigError(
            f"{where}: it is not a record of this version: give a file that connect(record=...) "
            "wrote"
        )
    requests: dict[Any, _Recorded] = {}
    for number, line in enumerate(complete[1:], 2):
        entry = _parsed(line, where, number)
        try:
            _take(requests, entry, number)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{where}: line {number} is not of a record: {error!r}") from None
    try:
        key = bytes.fromhex(head["key"])
    except (KeyError, ValueError, TypeError):
        raise ConfigError(f"{where}: line 1 has no key") from None
    return _Record(key, list(requests.values()))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _parsed(line: str, where: str, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: line {number} is not a JSON object")
    return entry


def _take(requests: dict[Any, _Recorded], entry: dict[str, Any], line: int) -> None:
    if "request" in entry:
        requests[entry["request"]] = _Recorded(
            line, entry["id"], entry["method"], dict(entry["params"]), entry["digest"]
        )
    elif "answer" in entry:
        recorded = requests[entry["answer"]]
        if "error" in entry:
            recorded.error = dict(entry["error"])
        else:
            recorded.result = entry["result"]
    elif "failed" in entry:
        requests[entry["failed"]].failed = f"{entry['error']}: {entry['message']}"
    elif entry.get("notice") is not None:
        requests[entry["notice"]].before.append(
            {"method": entry["method"], "params": dict(entry["params"])}
        )
    elif entry.get("question") is not None:
        requests[entry["question"]].before.append(
            {"id": entry["id"], "method": entry["method"], "params": dict(entry["params"])}
        )


class _Player:
    """Answers requests from a record."""

    def __init__(self, record: _Record) -> None:
        self._key = record.key
        self._all = record.requests
        self._left: dict[str, list[_Recorded]] = {}
        for recorded in record.requests:
            self._left.setdefault(_place(recorded.method, recorded.digest), []).append(recorded)
        self._asked: dict[str, anyio.Event] = {}
        """Set once the client has answered the question of that id."""
        self._questions = 0

    async def answer(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        """The recorded result for a request; raises the recorded error."""
        if "method" not in message and message.get("id") in self._asked:
            self._asked.pop(message["id"]).set()
        if "method" not in message or "id" not in message:
            return None
        if message["method"] == "ping":
            return {}
        method, params = message["method"], message.get("params") or {}
        place = _place(method, digest_of(self._key, method, params))
        left = self._left.get(place)
        if not left:
            raise JsonRpcError(_NO_ANSWER, self._difference(method, params))
        recorded = left.pop(0) if len(left) > 1 else left[0]
        for said in recorded.before:
            told = {"jsonrpc": "2.0", **said, "params": _renumbered(said["params"], message["id"])}
            if "id" not in said:
                send(told)
                continue
            self._questions += 1
            told["id"] = f"replay-{self._questions}"
            answered = self._asked[told["id"]] = anyio.Event()
            send(told)
            await answered.wait()  # ends with the session at the latest
        if recorded.error is not None:
            error = recorded.error
            raise JsonRpcError(error["code"], error["message"], error.get("data"))
        if recorded.result is not _MISSING:
            return recorded.result
        if method.startswith("subscriptions/"):
            return None  # it stood until the session was closed
        reason = recorded.failed or "the record ends before it"
        raise JsonRpcError(
            _NO_ANSWER,
            f"replay: {method} had no answer when it was recorded (line {recorded.line}): {reason}",
        )

    def _difference(self, method: str, params: dict[str, Any]) -> str:
        """In which way a request differs from those of the record."""
        name = params.get("name", params.get("uri"))
        what = method if name is None else f"{method} of {name!r}"
        same = [one for one in self._all if one.method == method]
        if not same:
            methods = ", ".join(dict.fromkeys(one.method for one in self._all))
            return f"replay: {what} is not in the record, which has: {methods or 'nothing'}"
        named = [one for one in same if one.params.get("name", one.params.get("uri")) == name]
        if not named:
            names = (one.params.get("name", one.params.get("uri")) for one in same)
            known = ", ".join(dict.fromkeys(repr(one) for one in names))
            return f"replay: {what} is not in the record, which has {method} of: {known}"
        nearest = min(named, key=lambda one: len(_differences(one.params, params, ())))
        found = _differences(nearest.params, params, ())
        # What is left out of the record may be equal, so it is named where nothing else differs.
        places = [place for place, shown in found if shown] or [place for place, _ in found]
        listed = ", ".join(places[:8]) or "a value that the record leaves out"
        return f"replay: {what} is in the record (line {nearest.line}), but it differs in {listed}"


def _place(method: str, digest: str) -> str:
    return method if method in _BY_METHOD else digest


def _renumbered(params: Mapping[str, Any], id: Any) -> dict[str, Any]:
    """What belongs to a request names it by the id it has now."""
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
    hidden = isinstance(was, str) and _LEFT_OUT in was
    return [(pointer(path) or "everything", not hidden)]
