"""What is fuzzed: functions that take any bytes, and what must hold whatever the bytes are.

A target raises for bytes that break a promise: ``AssertionError``, or an exception of another kind
than the documented one.
"""
# ruff: noqa: PT017 - an error that is documented is one way to go on

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from mcp_client import ConfigError, McpError, ToolCall, adapters
from mcp_client.approval.decision import Allow, Deny
from mcp_client.approval.rules import Rules
from mcp_client.config.config import load_config
from mcp_client.config.programs import PROGRAMS
from mcp_client.errors import ConnectError
from mcp_client.extensions.front_matter import BadYaml, front_matter, same
from mcp_client.protocol.capabilities import ClientDeclaration, Implementation
from mcp_client.protocol.era import Era
from mcp_client.protocol.jsonrpc import (
    ErrorResponse,
    InvalidFrame,
    Notification,
    Request,
    Response,
    parse,
)
from mcp_client.protocol.negotiation import (
    MAX_REQUESTS,
    Answered,
    AnsweredWithError,
    Ask,
    Failed,
    Outcome,
    Silent,
    negotiate,
)
from mcp_client.runtime.limits import Limits, Timeouts
from mcp_client.runtime.session_context import Stats
from mcp_client.transports.base import TransportContext
from mcp_client.transports.http_response import Event, EventStream, TooLong
from mcp_client.transports.multiplexer import Multiplexer

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], None]
    covers: tuple[str, ...]
    """The files of the package whose branches guide the search."""
    seeds: tuple[bytes, ...]


# --------------------------------------------------------------------------- frames


def decoder(data: bytes) -> None:
    """A frame is messages or one ``InvalidFrame``; ids are text or whole numbers, as they came."""
    depth = 1 + data[0] % 40 if data else 1
    frame = data[1:]
    try:
        found = parse(frame, depth)
    except InvalidFrame as error:
        assert error.reason
        return
    value = json.loads(frame)
    assert len(found) == (len(value) if type(value) is list else 1)
    for item, message in zip(value if type(value) is list else [value], found, strict=True):
        if type(message) is InvalidFrame:
            assert type(value) is list
            continue
        assert isinstance(message, Request | Notification | Response | ErrorResponse)
        if isinstance(message, Request | Response):
            assert type(message.id) in (int, str)
            assert message.id == item["id"]
        if isinstance(message, Request | Notification):
            assert type(message.method) is str
            assert message.method == item["method"]


def line(data: bytes) -> None:
    """A stream of lines gives the same messages however it is cut into pieces."""
    size, data = (1 + data[0] % 9 if data else 1), data[1:]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert _sorted([data]) == _sorted(pieces)


def _sorted(pieces: list[bytes]) -> tuple[list[str], int]:
    stats, received = Stats(), list[str]()
    limits = Limits(message_bytes=64, depth=8)
    hear = cast("Any", lambda message: received.append(repr(message)))
    context = TransportContext("fuzzed", hear, limits, Timeouts(), stats)
    lines = Multiplexer(cast("Any", None), context, lambda: lambda _: None)
    for piece in pieces:
        lines.feed(piece)
    lines.feed(b"\n")
    return received, stats.junk_lines + stats.late_answers + stats.stray_answers


# --------------------------------------------------------------------------- events


def sse(data: bytes) -> None:
    """A stream of events is parsed as HTML specifies, in pieces of any size, within its cap."""
    size, data = (1 + data[0] % 7 if data else 1), data[1:]
    whole, last_id = _events([data], 1_000_000)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert (whole, last_id) == _events(pieces, 1_000_000)
    assert whole == _as_the_standard_specifies(data)
    with suppress(TooLong):
        assert _events(pieces, 48)[0] == whole


def _events(pieces: list[bytes], cap: int) -> tuple[list[Event], str | None]:
    left = iter(pieces)

    async def read() -> bytes:
        return next(left, b"")

    stream = EventStream(read, cap)
    found: list[Event] = []
    while (event := _result_of(stream.next())) is not None:
        found.append(event)
    return found, stream.last_id


def _result_of(coroutine: Any) -> Any:
    """Nothing that is fuzzed waits, so an event loop would only cost time."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def _as_the_standard_specifies(data: bytes) -> list[Event]:
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[Event] = []
    kind, lines = b"", list[bytes]()
    for text in data.split(b"\n")[:-1]:
        if not text:
            content = b"\n".join(lines)
            if content.strip(b"\n"):
                found.append(Event((kind or b"message").decode("utf-8", "replace"), content))
            kind, lines = b"", []
            continue
        name, _, value = text.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value
        elif name == b"data":
            lines.append(value)
    return found


# ---------------------------------------------------------------------- negotiation

_CLIENT = ClientDeclaration(Implementation("fuzzer", "1"), {})
_PINS = (None, None, None, "2026-07-28", "2025-11-25", "2024-11-05")


def negotiation(data: bytes) -> None:
    """For any responses there are at most four requests, and then an era or one error."""
    head, *answers = data.split(b"\n")
    pin = _PINS[head[0] % len(_PINS)] if head else None
    talk = negotiate(_CLIENT, pin, skip_probe=bool(head and head[-1] & 1))
    outcomes = _outcomes(answers)
    asked, sent = 0, cast("Outcome | None", None)
    try:
        while True:
            step = talk.send(sent)
            asked += isinstance(step, Ask)
            assert asked <= MAX_REQUESTS
            sent = next(outcomes)
    except StopIteration as done:
        assert isinstance(done.value, Era)
    except McpError as error:
        assert error.message


def _outcomes(answers: list[bytes]) -> Iterator[Outcome]:
    for response in answers:
        value: Any = None
        with suppress(ValueError, RecursionError):
            value = json.loads(response[1:])
        match response[:1]:
            case b"e":
                code = value.get("code") if type(value) is dict else None
                data = value.get("data") if type(value) is dict else value
                yield AnsweredWithError(code if type(code) is int else -32022, "no", data)
            case b"s":
                yield Silent()
            case b"f":
                yield Failed(ConnectError("it died"))
            case _:
                yield Answered(value)
    while True:
        yield Silent()


# -------------------------------------------------------------------- files of the host

_NAMES = tuple(
    ((one.file_names or (one.in_project or f"{one.directory}/mcp.json",))[0], name)
    for name, one in PROGRAMS.items()
)


@cache
def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _written(name: str, data: bytes) -> Path:
    path = _directory() / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def config(data: bytes) -> None:
    """A config file gives servers and problems, or one ``ConfigError``; nothing is lost."""
    name, program = _NAMES[data[0] % len(_NAMES) if data else 0]
    path = _written(name, data[1:])
    try:
        read = load_config(path, program=program)
    except ConfigError as error:
        assert error.message
        return
    lines = len(data[1:].splitlines()) + 1
    for problem in read.problems:
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= lines
    for server, entry in read.servers.items():
        assert type(server) is str
        assert repr(entry)


def rules(data: bytes) -> None:
    """A file of rules is rules or one ``ConfigError``; what they explain is what they decide."""
    path = _written("rules.toml" if data[:1] < b"\x80" else "rules.json", data[1:])
    try:
        read = Rules.from_file(path)
    except ConfigError as error:
        assert error.message
        return
    assert str(read)
    for call in _calls():
        decided = read.decide(call)
        assert decided is None or isinstance(decided, Allow | Deny)
        explained = read.explain(call)
        assert str(explained)
        if isinstance(decided, Allow):
            assert explained.outcome == "allow"
        assert isinstance(decided, Deny) == (explained.outcome == "deny")


@cache
def _calls() -> tuple[ToolCall, ...]:
    return (
        ToolCall.example("read_file", {"path": "/etc/passwd"}, read_only=True),
        ToolCall.example("delete_file", {"path": "x", "n": 3, "deep": {"a": [1, None, "b"]}}),
        ToolCall.example("read_file", {}, server="other", context="ana", trusted=False),
    )


def skill(data: bytes) -> None:
    """A SKILL.md is JSON values and a text, or ``BadYaml``; read again, they are the same."""
    try:
        members, text = front_matter(data)
    except BadYaml as error:
        assert str(error)
        return
    assert data.decode("utf-8-sig").replace("\r\n", "\n").endswith(text.replace("\r\n", "\n"))
    assert same(members, json.loads(json.dumps(members, allow_nan=False)))
    for name, value in members.items():
        assert type(name) is str
        assert same(value, front_matter(data)[0][name])


# ------------------------------------------------------------------ answers of providers


@cache
def _kits() -> tuple[Any, ...]:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    tools = [
        ToolCall.example({"name": name, "inputSchema": schema}).tool for name in ("one", "two.x")
    ]
    return tuple(
        each.toolset(tools, **options)
        for each in (import_module(f"mcp_client.adapters.{name}") for name in adapters.PROVIDERS)
        for options in ({}, {"strict": True}, {"search": True})
    )


def providers(data: bytes) -> None:
    """What a model answered is calls, each with arguments or a problem, or one ``ConfigError``."""
    try:
        response = json.loads(data[1:])
    except (ValueError, RecursionError):
        response = data[1:].decode("utf-8", "replace")
    kit = _kits()[data[0] % len(_kits())] if data else _kits()[0]
    try:
        calls = kit.calls(response)
    except ConfigError as error:
        assert error.message
        return
    for call in calls:
        assert type(call.id) is str
        assert type(call.name) is str
        assert isinstance(call.arguments, dict)
        assert call.problem is None or (type(call.problem) is str and call.problem)
    answered = kit.results([(call, ConnectError("it is down")) for call in calls])
    json.dumps(answered).encode()


def _chat(*calls: tuple[str, str]) -> bytes:
    made = [
        {"id": str(n), "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return json.dumps({"choices": [{"message": message}]}).encode()


_RULES = b"""\x00[[rules]]
outcome = "allow"
tool = "read_*"
server = "example"
arguments = {path = {glob = "/etc/*"}, n = {min = 1, max = 5}}
expires_at = 2099-01-01T00:00:00Z
[[rules]]
outcome = "deny"
reason = "no"
hints = {read_only = false}
context = "ana"
"""
_SERVERS = b"""{"mcpServers": {"a": {"command": "npx", "args": ["-y", "${env:HOME}"], "env": {"K":
"${input:k}"}}, "b": {"type": "http", "url": "https://x.example/mcp?a=b", "headers": {"A": "b"}},
}, // comment
"inputs": [{"id": "k", "type": "promptString", "password": true}]}"""

TARGETS = {
    "decoder": Target(
        decoder,
        ("protocol/jsonrpc.py",),
        (
            b'\x10{"jsonrpc":"2.0","id":1,"result":{"a":[1,2.5,null,true,"\\u0041"]}}',
            b'\x10{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"m","data":{}}}',
            b'\x10[{"jsonrpc":"2.0","method":"ping","id":2},{"jsonrpc":"2.0","method":"n"},7]',
            b'\x02[[[[[{"id":3}]]]]]',
        ),
    ),
    "line": Target(
        line,
        ("transports/multiplexer.py", "protocol/jsonrpc.py"),
        (
            b'\x03{"jsonrpc":"2.0","id":1,"result":{}}\n\nnoise\r\n{"jsonrpc":"2.0","method":"m"}',
            b'\x05{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 80 + b'"}\n{"a":1}\n',
        ),
    ),
    "sse": Target(
        sse,
        ("transports/http_response.py",),
        (
            b'\x02: hello\nid: 1\nevent: message\ndata: {"a":\ndata: 1}\n\nretry: 10\n\n',
            b"\x01\xef\xbb\xbfdata:x\r\n\r\ndata\rid\r\revent: e\ndata: y\n\n",
        ),
    ),
    "negotiation": Target(
        negotiation,
        ("protocol/negotiation.py", "protocol/capabilities.py", "protocol/handshake.py"),
        (
            b'ab\na{"supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":""}}',
            (
                b'ab\ne{"code":-32022,"data":{"supported":["2025-11-25"]}}\n'
                b'a{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s"}}'
            ),
            b'bb\ns\nf\na{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}',
            b'ba\ne{"code":-32021,"data":{"requiredCapabilities":{"roots":{}}}}\ns',
        ),
    ),
    "config": Target(
        config,
        ("config/config.py", "config/text.py", "config/server.py", "config/values.py"),
        (
            b"\x00" + _SERVERS,
            b"\x02" + _SERVERS.replace(b"mcpServers", b"servers"),
            b'\x07[mcp_servers.a]\ncommand = "x"\nargs = ["y"]\n[mcp_servers.a.env]\nK = "v"\n',
            b'\x06{"mcpServers": {"g": {"httpUrl": "http://localhost:1", "trust": true}}}',
            b'\x0a{"servers": {"g": {"command": "a", "include": ["*"], "timeout": 3}}}',
        ),
    ),
    "rules": Target(
        rules,
        ("approval/rules.py", "approval/constraints.py"),
        (
            _RULES,
            b'\x80{"rules": [{"outcome": "ask", "tool": "*", "arguments": {"n": {"max": 2}}}]}',
        ),
    ),
    "skill": Target(
        skill,
        ("extensions/front_matter.py",),
        (
            b"---\nname: x\nabout: >-\n  folded\n  text\n\nmore:\n  a: [1, 'b', \"c\\n\"]\n---\nB",
            b"---\r\nname: a b # c\r\nlist:\r\n  - 1.5e3\r\n  - {k: null, m: 0x1F}\r\n---\r\n",
            b"---\ntext: |\n  kept\n   so\nplain: over\n  lines\n'quoted': ''\n- \n---",
        ),
    ),
    "providers": Target(
        providers,
        (
            "adapters/calls.py",
            *(f"adapters/{name}.py" for name in adapters.PROVIDERS),
            "adapters/toolset.py",
        ),
        (
            b"\x00" + _chat(("one", '{"a": "x"}'), ("two_x", "{bad"), ("three", "")),
            b"\x02" + _chat(("search_tools", '{"query": "x"}'), ("call_tool", '{"name": "one"}')),
            (
                b'\x03{"output": [{"type": "function_call", "call_id": "c", "name": "one",'
                b' "arguments": "{\\"a\\": null}"}]}'
            ),
            b'\x06{"content": [{"type": "tool_use", "id": "t", "name": "one", "input": {"a": 1}}]}',
            (
                b'\x09{"candidates": [{"content": {"parts": [{"functionCall": {"name": "one",'
                b' "args": {"b": 1}}}]}}]}'
            ),
        ),
    ),
}
