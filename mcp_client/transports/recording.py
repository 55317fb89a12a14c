"""A transport that records the messages of another: ``Recording(server, path)``.

A record is a file of JSON lines. The first names the format; each other one is a message, in the
order it passed, with ``[redacted]`` for each secret (``mcp_client.audit.redacted_content``
defines them):

- ``{"request": 3, "method": ..., "params": ..., "secrets": [1, 1, 2]}``: a request of the client.
  ``[redacted]`` replaces any value, or any text within a string. ``secrets`` shows which of
  the values left out of the requests were equal: each new one has the next number. Nothing in the
  file is made of such a value: a digest, keyed or not, would let a reader of the file try every PIN
  there is. ``mcp_client.transports.replay`` states the cost of that.
- ``{"answer": 3, "result": ...}`` or ``{"answer": 3, "error": ...}``, ``{"failed": 3, ...}`` if
  the request ended without a response.
- ``{"notice": 3, ...}`` and ``{"question": 3, ...}``: notifications and questions of the server;
  null if they belonged to no request. ``{"reply": ...}``: the client's response to a question.

The file is replaced when the session opens, before the server is started. Each line is written at
once, so that the record of a process that was killed is usable. A record that cannot be written is
logged, and ends no call.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any, Protocol

from ..errors import ConfigError, McpError
from ..protocol.era import Era
from ..protocol.jsonrpc import ErrorResponse, Id, Notification, Request, Response, dump
from ..runtime.directory import BINARY, CLOSED_IN_CHILDREN, NO_FOLLOW
from ..runtime.session_context import KnownSecrets
from .base import AnnouncedSilence, Exchange, Received, Transport, TransportContext

__all__ = [
    "FORMAT",
    "LEFT_OUT",
    "Recorder",
    "RecordingTransport",
    "Redact",
    "SecretNumbers",
    "captured",
    "text_of",
]

FORMAT = 1
LEFT_OUT = "[redacted]"
_log = logging.getLogger("mcp_client")


class Redact(Protocol):
    """A filter that leaves secrets out of a record."""

    def follow(self, secrets: KnownSecrets) -> None:
        """Leave out the secrets that the server is given, too."""

    def placeholders(self, value: Any) -> Any:
        """Return ``value`` with placeholders for names from the server that are secrets.

        A replay sends the placeholders, too.
        """

    def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters of a request, without ``_meta`` and secrets."""

    def result(self, method: str, result: Any) -> Any:
        """Return the result of such a request."""

    def value(self, value: Any) -> Any:
        """Return any other value without secrets."""


class Recorder:
    """A record, for all the connections of a session."""

    def __init__(self, path: str | os.PathLike[str], redact: Redact) -> None:
        self._path = os.fspath(path)
        self._redact = redact
        self._file: int | None = None
        self._users: int | None = None
        """The number of connections that write; None before the first."""
        self._numbers = SecretNumbers()
        self._requests = 0
        self._under_way: list[int] = []

    def open(self, server: str, secrets: KnownSecrets | None = None) -> None:
        """Count one more connection that writes, to a server that is given ``secrets``.

        The first replaces the file; raises ``ConfigError`` if that cannot be done.
        """
        if secrets is not None:
            self._redact.follow(secrets)
        if self._file is None:
            began = self._users is not None
            self._file = self._opened(os.O_APPEND if began else os.O_CREAT | os.O_EXCL)
            if not began:
                self._write({"mcp-client-record": FORMAT, "server": server})
        self._users = (self._users or 0) + 1

    def _opened(self, how: int) -> int:
        try:
            if how & os.O_CREAT and os.path.lexists(self._path):
                if not os.path.isfile(self._path) or os.path.islink(self._path):
                    raise OSError("it exists and is not a regular file")
                os.unlink(self._path)
            how |= os.O_WRONLY | CLOSED_IN_CHILDREN | NO_FOLLOW | BINARY
            return os.open(self._path, how, 0o600)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"cannot write Recording({self._path!r}): {reason}") from None

    def close(self) -> None:
        """Count one connection less."""
        if self._users:
            self._users -= 1
        if not self._users:
            self._end()

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    # ------------------------------------------------------------------ messages

    def request(self, text: str) -> int:
        """Record a request, and return the number under which its messages are recorded."""
        message = json.loads(text)
        method, params = message["method"], self._redact.placeholders(message.get("params") or {})
        self._requests += 1
        number = self._requests
        self._under_way.append(number)
        asked = {name: value for name, value in params.items() if name != "_meta"}
        redacted = matchable(self._redact.request(method, params), asked)
        numbers = self._numbers.of(captured(redacted, asked) or [])
        self._write(
            {
                "request": number,
                "id": message["id"],
                "method": method,
                "params": redacted,
                **({"secrets": numbers} if numbers else {}),
            }
        )
        return number

    def received(self, number: int, method: str, message: Received) -> None:
        """Record a message that was received for a request."""
        match message:
            case Response(result=result):
                self._over(number)
                self._write({"answer": number, "result": self._redact.result(method, result)})
            case ErrorResponse(code=code, message=text, data=data):
                self._over(number)
                error = {"code": code, "message": self._redact.value(text)}
                if data is not None:
                    error["data"] = self._redact.value(data)
                self._write({"answer": number, "error": error})
            case Notification(method=named, params=params):
                self._write(
                    {"notice": number, "method": named, "params": self._redact.value(params)}
                )
            case AnnouncedSilence():
                pass

    def failed(self, number: int, error: McpError) -> None:
        """Record that a request failed."""
        self._over(number)
        self._write(
            {
                "failed": number,
                "error": type(error).__name__,
                "message": self._redact.value(error.message),
            }
        )

    def unasked(self, message: Request | Notification) -> None:
        """Record a message that belongs to no request."""
        params = self._redact.value(message.params)
        if isinstance(message, Notification):
            self._write({"notice": None, "method": message.method, "params": params})
            return
        during = self._under_way[-1] if self._under_way else None
        self._write(
            {"question": during, "id": message.id, "method": message.method, "params": params}
        )

    def sent(self, text: str) -> None:
        """Record a one-way message, if it is a response to a question."""
        message = json.loads(text)
        if "method" not in message and "id" in message:
            entry = {
                key: self._redact.value(message[key])
                for key in ("result", "error")
                if key in message
            }
            self._write({"reply": message["id"], **entry})

    # ------------------------------------------------------------------- private

    def _over(self, number: int) -> None:
        if number in self._under_way:
            self._under_way.remove(number)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        data = (dump(line) + "\n").encode("utf-8", "surrogatepass")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._end()
            _log.error("cannot write more to the record %r: %s", self._path, error.strerror)


class RecordingTransport(Transport):
    """``inner``, with what passes written down by ``recorder``."""

    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self._writing = False
        self.name: str = inner.name

    @property
    def alive(self) -> bool:
        """Whether a request can be sent now."""
        return self._inner.alive

    def fallback(self) -> Transport | None:
        """Return another transport to the same server, if this one was refused; else None."""
        other = self._inner.fallback()
        return None if other is None else RecordingTransport(other, self._recorder)

    def clone(self) -> Transport:
        """Return a new, unopened transport to the same server."""
        return RecordingTransport(self._inner.clone(), self._recorder)

    # ---------------------------------------------------------------- messages

    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""
        self._recorder.open(context.server, context.secrets)
        self._writing = True
        unasked = context.unasked

        def hear(message: Request | Notification) -> None:
            self._recorder.unasked(message)
            unasked(message)

        await self._inner.open(context._replace(unasked=hear))

    def agree(self, era: Era) -> None:
        """Accept the era that applies from now on."""
        super().agree(era)
        self._inner.agree(era)

    async def ready(self) -> None:
        """Prepare the session, which is open, before anything else is sent. Never raises."""
        await self._inner.ready()

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange:
        """Send a request, or make it ready to leave. Raises ``NotSent``."""
        number = self._recorder.request(text)
        try:
            exchange = await self._inner.exchange(id, text, headers, until)
        except McpError as error:
            self._recorder.failed(number, error)
            raise
        method = json.loads(text)["method"]
        return _RecordedExchange(exchange, self._recorder, number, method)

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. Raises ``ConnectError``."""
        self._recorder.sent(text)
        await self._inner.send(text, headers)

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""
        self._recorder.sent(text)
        self._inner.send_soon(text, headers)

    async def retire(self) -> None:
        """Close, once the exchanges under way have ended."""
        try:
            await self._inner.retire()
        finally:
            await self.aclose()

    async def abandon(self, *, wait: bool = False) -> None:
        """End a connection from which nothing more is expected, as fast as possible."""
        try:
            await self._inner.abandon(wait=wait)
        finally:
            self._end()

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        try:
            await self._inner.aclose()
        finally:
            self._end()

    def _end(self) -> None:
        if self._writing:
            self._writing = False
            self._recorder.close()


def _inner(name: str) -> property:
    return property(
        lambda self: getattr(self._inner, name),
        lambda self, value: setattr(self._inner, name, value),
    )


for _name in (
    *("multiplexed", "has_headers", "always_responds", "is_remote", "suspect", "address"),
    *("may_log_in", "hold", "last_unsent_id", "closed_because", "notification_epoch", "identity"),
    *("stable_identity", "pinned_identity", "is_local", "origin", "network"),
    *("credentials", "sandbox", "session_id", "only_its_word"),
    *("stable_authorization", "extensions", "unread", "exit_advice", "maybe_unknown_method"),
    *("permit", "withdraw", "sends_credentials", "unmatched_output"),
):
    setattr(RecordingTransport, _name, _inner(_name))  # a transport names itself what it wraps


class _RecordedExchange:
    def __init__(self, inner: Exchange, recorder: Recorder, number: int, method: str) -> None:
        self._inner = inner
        self._recorder = recorder
        self._number = number
        self._method = method

    async def receive(self, until: float) -> Received:
        """Return the next message for this request."""
        try:
            message = await self._inner.receive(until)
        except McpError as error:
            self._recorder.failed(self._number, error)
            raise
        self._recorder.received(self._number, self._method, message)
        return message

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        await self._inner.aclose()


# ------------------------------------------ requests that are the same but for what is left out


def matchable(redacted: Any, value: Any) -> Any:
    """Return ``redacted``, which is ``value`` without secrets, so that ``captured`` can match both.

    If their shapes differ, all is left out.
    """
    if isinstance(redacted, dict) and isinstance(value, dict) and redacted.keys() == value.keys():
        return {key: matchable(item, value[key]) for key, item in redacted.items()}
    if isinstance(redacted, list) and isinstance(value, list) and len(redacted) == len(value):
        return [matchable(*pair) for pair in zip(redacted, value, strict=True)]
    return LEFT_OUT if captured(redacted, value) is None else redacted


def captured(redacted: Any, value: Any) -> list[str] | None:
    """Return the texts in ``value`` that ``redacted`` leaves out; None if the rest differs."""
    if redacted == LEFT_OUT:
        return [text_of(value)]
    if type(redacted) is not type(value):
        return None
    if isinstance(redacted, str):
        return _captured_in_text(redacted, value)
    if isinstance(redacted, dict):
        if redacted.keys() != value.keys():
            return None
        pairs = [(item, value[key]) for key, item in redacted.items()]
    elif isinstance(redacted, list):
        if len(redacted) != len(value):
            return None
        pairs = list(zip(redacted, value, strict=True))
    else:
        return [] if redacted == value else None
    found: list[str] = []
    for pair in pairs:
        inner = captured(*pair)
        if inner is None:
            return None
        found += inner
    return found


def text_of(value: Any) -> str:
    """Return the same for values that are equal as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _captured_in_text(redacted: str, text: str) -> list[str] | None:
    first, *rest = redacted.split(LEFT_OUT)
    if not rest:
        return [] if redacted == text else None
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last):
        return None
    at, end, found = len(first), len(text) - len(last), list[str]()
    for part in middle:  # the leftmost place of each is right if any is
        start = text.find(part, at + 1, end) if part else at + 1
        if not 0 <= start <= end:
            return None
        found.append(text[at:start])
        at = start + len(part)
    return [*found, text[at:end]] if at < end else None


class SecretNumbers:
    """The values of the numbers of a record: in the record, or in a replay of it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._values: dict[int, str] = {}

    def of(self, values: list[str]) -> list[int]:
        """Return the numbers of ``values``; a new value gets the next number."""
        return [self._numbers.setdefault(value, len(self._numbers) + 1) for value in values]

    def fits(self, numbers: list[int], values: list[str]) -> bool:
        """Whether ``values`` may be those of ``numbers``."""
        if len(numbers) != len(values):
            return False
        pairs = dict[int, str](self._values)
        known = dict(self._numbers)
        for number, value in zip(numbers, values, strict=True):
            if value in (LEFT_OUT, f'"{LEFT_OUT}"'):  # as a replayed result had it
                continue
            if pairs.setdefault(number, value) != value:
                return False
            if known.setdefault(value, number) != number:
                return False
        return True

    def bind(self, numbers: list[int], values: list[str]) -> None:
        """Assign ``values`` to ``numbers`` from now on."""
        for number, value in zip(numbers, values, strict=True):
            if value not in (LEFT_OUT, f'"{LEFT_OUT}"'):
                self._values[number] = value
                self._numbers[value] = number
