"""Which answers to ``server/discover`` and ``initialize`` open a connection, and which end it: one
table for HTTP, one for stdio, with real bytes. The pure table is ``protocol/test_negotiation.py``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anyio
import pytest

from mcp_client import (
    ConnectError,
    HttpServer,
    McpError,
    MemoryServer,
    StdioServer,
    Timeouts,
    connect,
)
from mcp_client.errors import AuthError, NegotiationError
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock, quickly

NEW, MIDDLE, OLD, OLDEST = "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"
S = "2026-07-28"
P, I = "server/discover", "initialize"  # noqa: E741 - as in the tables
KEY = {"Authorization": "Bearer a-key-of-the-host"}


# ------------------------------------------------------------------- answers


class Status(NamedTuple):
    """A refusal over HTTP: of ``initialize``, unless the body is an answer of JSON-RPC."""

    status: int
    body: Any = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


def error(code: int, message: str = "no", data: Any = None) -> dict[str, Any]:
    more = {} if data is None else {"data": data}
    return {"error": {"code": code, "message": message, **more}}


def speaks(revision: str) -> dict[str, Any]:
    return {"result": {"protocolVersion": revision, "capabilities": {}}}


def discovers(*revisions: str) -> dict[str, Any]:
    return {"result": {"supportedVersions": list(revisions), "capabilities": {}}}


class Only(NamedTuple):
    """``initialize`` is answered if it offers one of these, and else refused."""

    revisions: tuple[str, ...]
    refusal: Any


UNKNOWN = error(-32601, "method not found")
CHALLENGE = {"WWW-Authenticate": "Bearer"}
SOON = {"Retry-After": "1"}
HTML = b"<!doctype html><title>Sign in</title>"

Answers: TypeAlias = dict[str, list[Any]]
"""By method: the answers to the first, second, ... request; the last is repeated."""


class Row(NamedTuple):
    what: str
    answers: Answers
    ends: str | tuple[type[McpError], str]
    """The revision that is spoken, or the error and what is in its text."""
    asked: list[str]
    """The requests that the server received, with the revisions that ``initialize`` offered."""
    key: bool = False
    """Whether the host gave credentials."""


def offer(*revisions: str) -> list[str]:
    return [f"{I}:{revision}" for revision in revisions]


HTTP = [
    # ------ what refuses initialize with the newest revision, and speaks an older one
    *(
        Row(
            f"initialize with {NEW} is refused with {refusal}: an older one is offered",
            {P: [UNKNOWN], I: [Only((MIDDLE, OLD), refusal)]},
            MIDDLE,
            [P, *offer(NEW, MIDDLE)],
        )
        for refusal in (
            Status(400),
            Status(400, b"Bad Request"),
            Status(400, HTML),
            Status(400, error(-32600, "Invalid Request")),
            Status(400, error(-32602, "Invalid params")),
            Status(400, error(-32000, "Bad Request: Unsupported protocol version")),
            Status(422, b'{"detail": "protocolVersion"}'),
            Status(500, b"ValueError: unsupported protocol version"),
            error(-32602, "Invalid params"),
            error(-32602, "Invalid params", {"field": "protocolVersion"}),
            error(-32603, "Unsupported MCP protocol version"),
            error(-32000, "this protocol revision is not known"),
        )
    ),
    Row(
        "the list in the error goes before the usual older revision",
        {P: [UNKNOWN], I: [Only((OLD,), error(-32602, "no", {"supported": [OLD, OLDEST]}))]},
        OLD,
        [P, *offer(NEW, OLD)],
    ),
    Row(
        "so does a list in the words of the server",
        {
            P: [UNKNOWN],
            I: [Only((OLD,), Status(400, b"we speak 2025-03-26 and 2024-11-05"))],
        },
        OLD,
        [P, *offer(NEW, OLD)],
    ),
    Row(
        "and a list under another name",
        {P: [UNKNOWN], I: [Only((OLDEST,), error(-32000, "no", {"supportedVersions": [OLDEST]}))]},
        OLDEST,
        [P, *offer(NEW, OLDEST)],
    ),
    Row(
        "a revision in the address of a page is not a list",
        {
            P: [UNKNOWN],
            I: [Only((MIDDLE,), Status(400, b"see https://example.com/spec/2024-11-05/lifecycle"))],
        },
        MIDDLE,
        [P, *offer(NEW, MIDDLE)],
    ),
    Row(
        "both refused: the error names both, and revision=",
        {P: [UNKNOWN], I: [Status(400, b"nope")]},
        (ConnectError, r"HTTP 400: nope.*2025-11-25 and 2025-06-18.*revision='2024-11-05'"),
        [P, *offer(NEW, MIDDLE), "GET"],
    ),
    Row(
        "both refused in JSON-RPC: likewise",
        {P: [UNKNOWN], I: [error(-32602, "nope")]},
        (NegotiationError, r"initialize with 2025-11-25 and 2025-06-18: nope.*revision="),
        [P, *offer(NEW, MIDDLE)],
    ),
    Row(
        "an error without revisions is not asked about twice",
        {P: [UNKNOWN], I: [error(-32603, "database is down")]},
        (NegotiationError, "database is down"),
        [P, *offer(NEW)],
    ),
    Row(
        "a fault of the server neither",
        {P: [UNKNOWN], I: [Status(500, b"Traceback")]},
        (ConnectError, "HTTP 500: Traceback"),
        [P, *offer(NEW)],
    ),
    # ------ busy
    Row(
        "429 to the probe: wait, and spend the next request on initialize",
        {P: [Status(429, b"", SOON)], I: [speaks(NEW)]},
        NEW,
        [P, *offer(NEW)],
    ),
    Row(
        "429 to initialize: wait, and ask the same again",
        {P: [UNKNOWN], I: [Status(429, b"", SOON), speaks(NEW)]},
        NEW,
        [P, *offer(NEW, NEW)],
    ),
    Row(
        "429 to both, as a JSON-RPC error, and without Retry-After",
        {P: [Status(429, error(-32000, "slow down"))], I: [Status(429), speaks(NEW)]},
        NEW,
        [P, *offer(NEW, NEW)],
    ),
    Row(
        "503 with Retry-After likewise",
        {P: [Status(503, b"", SOON)], I: [Status(503, b"", SOON), speaks(OLD)]},
        OLD,
        [P, *offer(NEW, NEW)],
    ),
    Row(
        "a server of the stateless era only, after 429 to the probe, is asked for it again",
        {P: [Status(429, b"", SOON), discovers(S)], I: [UNKNOWN]},
        S,
        [P, *offer(NEW), P],
    ),
    Row(
        "longer than there is time: the error comes at once",
        {P: [Status(429, b"", {"Retry-After": "3600"})], I: [speaks(NEW)]},
        (ConnectError, "HTTP 429"),
        [P],
    ),
    Row(
        "always 429: given up after a few",
        {P: [UNKNOWN], I: [Status(429)]},
        (ConnectError, "HTTP 429"),
        [P, *offer(NEW, NEW, NEW, NEW)],
    ),
    # ------ refused as if the login, or a gateway, failed
    *(
        Row(
            f"{status} to the probe alone, with credentials: initialize decides",
            {P: [Status(status, b"no", headers)], I: [speaks(MIDDLE)]},
            MIDDLE,
            [P, *offer(NEW)],
            True,
        )
        for status, headers in ((401, CHALLENGE), (401, {}), (403, CHALLENGE), (403, {}))
    ),
    *(
        Row(
            f"{status} to the probe alone: initialize decides",
            {P: [Status(status)], I: [speaks(MIDDLE)]},
            MIDDLE,
            [P, *offer(NEW)],
        )
        for status in (403, 408, 501, 502, 503, 504)
    ),
    Row(
        "401 without credentials is the server's request for a login",
        {P: [Status(401, b"", CHALLENGE)], I: [speaks(NEW)]},
        (AuthError, "HTTP 401"),
        [P],
    ),
    Row(
        "401 to both with credentials: they are refused",
        {P: [Status(401, b"", CHALLENGE)], I: [Status(401, b"", CHALLENGE)]},
        (AuthError, "HTTP 401"),
        [P, *offer(NEW)],
        True,
    ),
    Row(
        "401 to the probe of a server of the stateless era: it is the login that is refused",
        {P: [Status(401, b"", CHALLENGE)], I: [UNKNOWN]},
        (AuthError, "HTTP 401"),
        [P, *offer(NEW), P],
        True,
    ),
    Row(
        "502 to the first probe of a server of the stateless era: it is asked again",
        {P: [Status(502), discovers(S)], I: [Status(400, UNKNOWN)]},
        S,
        [P, *offer(NEW, MIDDLE), P],
    ),
    Row(
        "502 to initialize is a gateway's",
        {P: [UNKNOWN], I: [Status(502)]},
        (ConnectError, "HTTP 502"),
        [P, *offer(NEW)],
    ),
    # ------ unusable answers
    Row(
        "a page to the probe means initialize",
        {P: [Status(200, HTML)], I: [speaks(NEW)]},
        NEW,
        [P, *offer(NEW)],
    ),
    Row(
        "a page to both is described, and asked for once",
        {P: [Status(200, HTML)], I: [Status(200, HTML)]},
        (ConnectError, "an HTML page titled 'Sign in'"),
        [P, *offer(NEW)],
    ),
    Row(
        "202 to the probe means initialize",
        {P: [Status(202)], I: [speaks(NEW)]},
        NEW,
        [P, *offer(NEW)],
    ),
    Row(
        "the error of the stateless era to initialize, without a list",
        {P: [UNKNOWN], I: [error(-32022, "unsupported")]},
        (NegotiationError, "unsupported"),
        [P, *offer(NEW)],
    ),
    Row(
        "404 to both, and no HTTP+SSE either",
        {P: [Status(404)], I: [Status(404, b"not here")]},
        (ConnectError, r"HTTP 404: not here \(nor is it HTTP\+SSE"),
        [P, *offer(NEW), "GET"],
    ),
    Row(
        "a probe that lists old revisions: these are offered, from the newest",
        {P: [discovers(OLDEST, OLD)], I: [Only((OLDEST,), Status(400))]},
        OLDEST,
        [P, *offer(OLD, OLDEST)],
    ),
]


def _response_to(answers: Answers, counts: dict[str, int], method: str, message: Any) -> Any:
    found = answers.get(method)
    if found is None:
        return UNKNOWN
    number = counts[method] = counts.get(method, 0) + 1
    response = found[min(number, len(found)) - 1]
    if isinstance(response, Only):
        wanted = message["params"]["protocolVersion"]
        return speaks(wanted) if wanted in response.revisions else response.refusal
    return response


def _over_http(answers: Answers) -> Callable[[Request, Reply], Awaitable[None]]:
    counts: dict[str, int] = {}

    async def handler(request: Request, reply: Reply) -> None:
        if request.method != "POST":
            await reply.send(405)
            return
        message = request.message
        if "id" not in message:
            await reply.send(202)
            return
        response = _response_to(answers, counts, message["method"], message)
        status, headers = 200, dict[str, str]()
        if isinstance(response, Status):
            status, response, headers = response
        if isinstance(response, bytes):
            kind = "text/html" if response == HTML else "text/plain"
            await reply.send(status, response, {"Content-Type": kind, **headers})
        else:
            whole = {"jsonrpc": "2.0", "id": message["id"], **response}
            await reply.json(whole, status, headers)

    return handler


def _asked(requests: list[Request]) -> list[str]:
    asked = []
    for request in requests:
        expected = request.rpc_method
        if expected == I:
            expected += f":{request.message['params']['protocolVersion']}"
        if expected.startswith((P, I, "GET")):
            asked.append(expected)
    return asked


@pytest.mark.parametrize("row", HTTP, ids=[row.what for row in HTTP])
async def test_what_a_response_over_http_leads_to(row: Row, clock: Clock) -> None:
    clock.stop()
    async with serving(_over_http(row.answers)) as server, quickly(clock):
        target = HttpServer(server.url, headers=KEY if row.key else None)
        if isinstance(row.ends, str):
            async with connect(target) as session:
                assert session.protocol_version == row.ends
                asked = _asked(server.requests)
            if row.ends != S:
                asked = [each for each in asked if each != "GET"]  # the stream of the session
        else:
            with pytest.raises(row.ends[0], match=row.ends[1]):
                await connect(target)
            asked = _asked(server.requests)
    assert asked == row.asked


async def test_an_accepted_refusal_is_reported() -> None:
    answers: Answers = {P: [Status(403)], I: [Only((MIDDLE,), Status(400))]}
    async with (
        serving(_over_http(answers)) as server,
        connect(HttpServer(server.url, headers=KEY)) as session,
    ):
        assert len(session.stats.deviations) == 2


async def test_a_pinned_revision_is_offered_alone() -> None:
    answers: Answers = {I: [Only((MIDDLE,), Status(400))]}
    async with serving(_over_http(answers)) as server:
        with pytest.raises(ConnectError, match="HTTP 400"):
            await connect(server.url, revision=NEW)
        assert [each for each in _asked(server.requests) if each != "GET"] == offer(NEW)


MUTE: Answers = {P: [None]}
"""A server that does not respond to methods it does not know."""


@pytest.mark.parametrize("wire", ["stdio", "http", "memory"])
async def test_the_era_that_is_wanted_is_agreed_on_without_a_request_of_the_other(
    wire: str, clock: Clock, tmp_path: Path
) -> None:
    clock.stop()  # a probe that is not answered would wait for it
    log = tmp_path / "log"
    rows: list[tuple[str, Answers, list[str], str]] = [
        ("handshake", {**MUTE, I: [speaks(NEW)]}, offer(NEW), NEW),
        ("stateless", {P: [discovers(S)], I: [None]}, [P], S),
    ]
    for era, answers, asked, spoken in rows:
        if wire == "http":
            async with (
                serving(_over_http(answers)) as server,
                connect(server.url, revision=era) as session,
            ):
                assert session.protocol_version == spoken
                assert _asked(server.requests)[:1] == asked
        elif wire == "stdio":
            log.unlink(missing_ok=True)
            async with _stdio(answers, log, revision=era) as session:
                assert session.protocol_version == spoken
            assert _log(log) == ["start", *asked]
        else:
            async with connect(MemoryServer(_in_memory(answers)), revision=era) as session:
                assert session.protocol_version == spoken


def _in_memory(answers: Answers) -> Callable[[dict[str, Any]], Any]:
    return lambda message: (answers.get(message["method"], [{}])[0] or {}).get("result")


# --------------------------------------------------------------------------- stdio

_SERVER = r"""
import json, os, sys, time
answers, log = json.loads(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
log.write("start\n")
with open(sys.argv[2] + ".pids", "a") as pids:
    pids.write(f"{os.getpid()}\n")
sys.stdout.write(answers.get("banner", ""))
sys.stdout.flush()
stuck, counts = False, {}
if answers.get("ignores the end"):
    import signal
    signal.signal(signal.SIGTERM, lambda *_: log.write("SIGTERM\n"))
for line in sys.stdin.buffer:
    message = json.loads(line)
    method = message["method"]
    offered = message.get("params", {}).get("protocolVersion", "")
    if "id" in message:
        log.write(method + (":" + offered if method == "initialize" else "") + "\n")
    counts[method] = count = counts.get(method, 0) + 1
    found = answers.get(method, [])
    if not found or stuck or "id" not in message:
        continue
    answer = found[min(count, len(found)) - 1]
    if "only" in answer:
        revisions, refusal = answer["only"]
        result = {"protocolVersion": offered, "capabilities": {}}
        answer = {"result": result} if offered in revisions else refusal
    if answer == "first":
        result = {"protocolVersion": offered, "capabilities": {}}
        late = {"error": {"code": -32602, "message": "initialize comes first"}}
        answer = late if "server/discover" in counts else {"result": result}
    if answer == "silent":
        continue
    if answer == "stuck":
        stuck = True
        continue
    if answer == "exit":
        sys.exit(3)
    if "raw" in answer:
        sys.stdout.write(answer["raw"].replace("ID", str(message["id"])))
    else:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
    sys.stdout.flush()
    while answer.get("asleep"):
        time.sleep(60)
log.write("end of input\n")
while answers.get("ignores the end"):
    time.sleep(60)
"""


def only(*revisions: str, refusal: Any) -> dict[str, Any]:
    return {"only": [revisions, refusal]}


def raw(text: str) -> dict[str, Any]:
    return {"raw": text}


_ID_0 = raw('{"jsonrpc": "2.0", "id": 0, "result": {}}\n')
_WITH_CR = raw('{"jsonrpc": "2.0", "id": ID, "result": {}}\r')
_ASLEEP = {**raw('{"jsonrpc": "2.0", "id": null, "error": {"code": -32600}}\n'), "asleep": True}

_NOT_OURS = "lines that are not responses to our requests"
STDIO = [
    Row(
        "-32602 to the newest revision: an older one is offered to the same process",
        {P: [UNKNOWN], I: [only(MIDDLE, OLD, refusal=error(-32602))]},
        MIDDLE,
        ["start", P, *offer(NEW, MIDDLE)],
    ),
    Row(
        "a list in the words of the error is used",
        {P: [UNKNOWN], I: [only(OLD, refusal=error(-32000, "supported: 2025-03-26"))]},
        OLD,
        ["start", P, *offer(NEW, OLD)],
    ),
    Row(
        "a process that is stuck by the probe is replaced in time",
        {P: ["stuck"], I: [speaks(NEW)]},
        NEW,
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
    Row(
        "so is one that reads nothing more after its response to the probe",
        {P: [_ASLEEP], I: [speaks(NEW)]},
        NEW,
        ["start", P, "start", *offer(NEW)],
    ),
    Row(
        "so is one that refuses every initialize after the probe",
        {P: [UNKNOWN], I: ["first"]},
        NEW,
        ["start", P, *offer(NEW, MIDDLE), "start", *offer(NEW)],
    ),
    Row(
        "a banner on standard output changes nothing about it",
        {P: ["stuck"], I: [speaks(NEW)], "banner": "The server is ready\n"},  # type: ignore[dict-item]
        NEW,
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
    Row(
        "one that exits is started again at once",
        {P: ["exit"], I: [speaks(OLD)]},
        OLD,
        ["start", P, "start", *offer(NEW)],
    ),
    Row(
        "one that exits at initialize, too, is described by its end",
        {P: [UNKNOWN], I: ["exit"]},
        (ConnectError, "exited with code 3 before the session was open"),
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
    Row(
        "an ignored probe costs a moment",
        {P: ["silent"], I: [speaks(OLDEST)]},
        OLDEST,
        ["start", P, *offer(NEW)],
    ),
    Row(
        "a silent process is asked twice, and described",
        {P: ["silent"], I: ["silent"]},
        (ConnectError, "within 30 s: it does not answer initialize; allow more time"),
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
    Row(
        "responses to other requests do not start it again",
        {P: [_ID_0], I: [_ID_0]},
        (ConnectError, rf"not answer initialize; it sent 2 {_NOT_OURS}, the first: '{{.*id.*: 0"),
        ["start", P, *offer(NEW)],
    ),
    Row(
        "nor are lines that end with a carriage return only",
        {P: [_WITH_CR], I: [_WITH_CR]},
        (ConnectError, "it sent 1 line that is not a response .* and which no line feed ends"),
        ["start", P, *offer(NEW)],
    ),
    Row(
        "another framing is described",
        {P: [raw("Content-Length: 9\r\n\r\n")], I: [raw("Content-Length: 9\r\n\r\n")]},
        (ConnectError, "it sent 2 lines .* the first: 'Content-Length: 9'"),
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
    Row(
        "an answer that cannot be parsed is one",
        {P: [UNKNOWN], I: [raw('{"jsonrpc": "2.0", "id": ID, "result": {"a" 1}}\n')]},
        (ConnectError, "the server's response cannot be used"),
        ["start", P, *offer(NEW), "start", *offer(NEW)],
    ),
]


def _stdio(answers: Any, log: Path, **options: Any) -> Any:
    words = ["-ISc", _SERVER, json.dumps(answers), str(log)]
    return connect(StdioServer(sys.executable, words), **options)


def _log(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line != "end of input"]


@pytest.mark.parametrize("row", STDIO, ids=[row.what for row in STDIO])
async def test_what_a_response_over_stdio_leads_to(row: Row, clock: Clock, tmp_path: Path) -> None:
    log = tmp_path / "log"
    clock.stop()
    async with quickly(clock):
        if isinstance(row.ends, str):
            async with _stdio(row.answers, log) as session:
                assert session.protocol_version == row.ends
        else:
            with pytest.raises(row.ends[0], match=row.ends[1]):
                await _stdio(row.answers, log)
    assert _log(log) == row.asked


async def test_a_process_that_is_stuck_is_replaced_after_a_third_of_the_time(
    clock: Clock, tmp_path: Path
) -> None:
    clock.stop()
    began = anyio.current_time()
    async with quickly(clock), _stdio({P: ["stuck"], I: [speaks(NEW)]}, tmp_path / "log"):
        assert 10 <= anyio.current_time() - began < 25


@pytest.mark.parametrize("ignores", [False, True])
async def test_nothing_starts_at_the_deadline_and_the_error_does_not_wait(
    ignores: bool, clock: Clock, tmp_path: Path
) -> None:
    answers = {P: ["silent"], I: ["silent"], "ignores the end": ignores}
    log = tmp_path / "log"
    clock.stop()
    began = anyio.current_time()
    async with quickly(clock):
        with pytest.raises(ConnectError, match="within 15 s"):
            await _stdio(answers, log, timeouts=Timeouts(connect=15, close=600))
        assert anyio.current_time() - began < 60
    assert _log(log).count("start") == 2


_EMBEDDED = """
import asyncio, json, sys
from mcp_client import ConnectError, StdioServer, Timeouts, connect
async def main():
    server = StdioServer(sys.executable, ["-ISc", *sys.argv[1:]])
    try:
        await connect(server, timeouts=Timeouts(connect=0.5))
    except ConnectError as error:
        print(error)
asyncio.run(main())
"""


@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.one_backend
async def test_an_event_loop_that_is_closed_at_the_deadline_leaves_no_process(
    ignores: bool, tmp_path: Path
) -> None:
    answers = {P: ["silent"], I: ["silent"], "ignores the end": ignores}
    command = [sys.executable, "-c", _EMBEDDED, _SERVER, json.dumps(answers)]
    log = tmp_path / "log"
    with anyio.fail_after(60):
        ended = await anyio.run_process([*command, str(log)])
    assert b"no agreement with the server within 0.5 s" in ended.stdout
    for pid in (tmp_path / "log.pids").read_text().split() if log.exists() else ():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
