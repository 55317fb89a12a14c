"""The record of a call: opened before anybody is asked, closed on every way out."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    Allow,
    AuditLog,
    CallDenied,
    CancelToken,
    ConfigError,
    ConnectError,
    Deny,
    Finding,
    Host,
    HttpServer,
    MemoryServer,
    ServerError,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
    deny_all,
)
from mcp_client.approval import Decision, Decisions, Remember
from mcp_client.audit import Audit, Redaction, verify_audit
from mcp_client.audit.entry import AuditEntry
from mcp_client.audit.entry_members import About
from mcp_client.audit.record import SessionAudit
from mcp_client.audit.redacted_content import MAX_ARGUMENTS_CHARS
from mcp_client.errors import (
    CallCancelled,
    CallWithdrawn,
    ConnectionLost,
    InvalidArguments,
    UnknownTool,
)
from mcp_client.testing import JsonRpcError
from mcp_client.transports.memory import MemoryTransport
from mcp_client.validation import Validation
from tests.support.http_apps import Stateless
from tests.support.http_server import serving
from tests.support.properties import examples
from tests.support.starting import scripted
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

SECRET = "c0rrect-h0rse-b4ttery"
INPUT = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "password": {"type": "string"},
        "word": {"type": "string", "format": "password"},
    },
}
NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": {},
    "fails": {},
    "error": {},
    "never": {},
    "dies": {},
    "nonsense": {},
    "promises": {"outputSchema": NUMBER},
    "no schema": {"outputSchema": {"enum": [0] * 20_000}},
    "asks back": {},
    "asks again": {},
}


class Server:
    """A tool for every way a call may end, and a record of what arrived."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.transport = MemoryTransport(self.handle)
        self.arrived = anyio.Event()

    async def handle(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": {}}
            case "tools/list":
                return {"tools": [{"name": k, "inputSchema": INPUT, **v} for k, v in TOOLS.items()]}
            case "tools/call":
                self.sent.append(message["params"])
                self.arrived.set()
                return await self.call(message["params"])
        return NotImplemented

    async def call(self, params: dict[str, Any]) -> Any:
        match params["name"]:
            case "fails":
                return {"content": [{"type": "text", "text": SECRET}], "isError": True}
            case "error":
                raise JsonRpcError(-32000, f"no one has {params['arguments'].get('password')}")
            case "never":
                await anyio.sleep_forever()
            case "dies":
                self.transport.end()
                return None
            case "nonsense":
                return {"content": "none"}
            case "asks back":
                return {"resultType": "input_required", "inputRequests": {"a": {"method": "x"}}}
            case "asks again":
                return {"resultType": "input_required", "requestState": "more"}
        return {"content": [{"type": "text", "text": "ran"}]}

    def connect(self, audit: Any, approval: Any = allow_all, **options: Any) -> Any:
        options = {"timeouts": Timeouts(approval=30), **options}
        return connect(self.transport, approval=approval, audit=audit, **options)


def audit_at(server: str, to: Any, identity: Callable[[], str | None] = lambda: None) -> Any:
    return Audit(to)._of_server(server, identity)


class Records(list[dict[str, Any]]):
    """A sink that keeps records, and checks what holds for all of them."""

    def __call__(self, record: Mapping[str, Any]) -> None:
        json.dumps(record, allow_nan=False)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record["time"])
        self.append(dict(record))

    @property
    def pair(self) -> tuple[dict[str, Any], dict[str, Any]]:
        opened, closed = self
        assert (opened["event"], closed["event"]) == ("opened", "closed")
        same = ("call", "process", "server", "tool")
        assert [opened[k] for k in same] == [closed[k] for k in same]
        return opened, closed


async def awaited(call: Awaitable[Any]) -> None:
    await call


class Abrupt(BaseException):
    """An error that is not an ``Exception``, and ends a program."""


async def raises(call: ToolCall) -> Allow:
    raise RuntimeError(SECRET)


async def raises_abruptly(call: ToolCall) -> Allow:
    raise Abrupt(SECRET)


def edits(call: ToolCall) -> Allow:
    return Allow({"n": "x", "password": SECRET})


ALLOWED, DENIED = "allow", "deny"
STRICT: dict[str, Any] = {"validation": Validation(arguments="strict")}
HASTE: dict[str, Any] = {"timeout": 0.05}
WAYS: dict[str, tuple[str, Any, Any, dict[str, Any], str, str, str | None]] = {
    # what happens: tool, arguments, hook, options, outcome, delivery, decision
    "a result": ("echo", {"n": 1}, allow_all, {}, "ok", "answered", ALLOWED),
    "no arguments": ("echo", None, allow_all, {}, "ok", "answered", ALLOWED),
    "a tool error": ("fails", {}, allow_all, {}, "tool_error", "answered", ALLOWED),
    "refused": ("echo", {}, deny_all, {}, "CallDenied", "not_sent", DENIED),
    "the hook raises": ("echo", {}, raises, {}, "CallDenied", "not_sent", DENIED),
    "it raises no Exception": ("echo", {}, raises_abruptly, {}, "Abrupt", "not_sent", None),
    "no answer": ("echo", {}, lambda call: None, {}, "CallDenied", "not_sent", DENIED),
    "unknown tool": ("nope", {}, allow_all, {}, "UnknownTool", "not_sent", None),
    "wrong arguments": (
        "echo",
        {"n": "x"},
        allow_all,
        STRICT,
        "InvalidArguments",
        "not_sent",
        None,
    ),
    "no object": ("echo", [1], allow_all, {}, "InvalidArguments", "not_sent", None),
    "no JSON": ("echo", {"n": {1}}, allow_all, {}, "InvalidArguments", "not_sent", None),
    "wrong edits": ("echo", {}, edits, STRICT, "InvalidArguments", "not_sent", ALLOWED),
    "wrong schema": ("no schema", {}, allow_all, {}, "InvalidSchema", "not_sent", None),
    "an error": ("error", {}, allow_all, {}, "ServerError", "answered", ALLOWED),
    "a clock": ("never", {}, allow_all, HASTE, "CallTimeout", "unknown", ALLOWED),
    "it dies": ("dies", {}, allow_all, {}, "ConnectionLost", "unknown", ALLOWED),
    "nonsense": ("nonsense", {}, allow_all, {}, "ProtocolViolation", "answered", ALLOWED),
    "a question": ("asks back", {}, allow_all, {}, "ProtocolViolation", "answered", ALLOWED),
    "broken promise": ("promises", {}, allow_all, {}, "InvalidResult", "answered", ALLOWED),
}


@pytest.mark.both_backends
@pytest.mark.parametrize("way", WAYS)
async def test_every_outcome_of_a_call_closes_its_record(way: str) -> None:
    tool, arguments, hook, options, outcome, delivery, decision = WAYS[way]
    options = dict(options)
    timeout = options.pop("timeout", None)
    server, records = Server(), Records()
    error: BaseException | None = None
    async with server.connect(records, hook, **options) as session:
        try:
            await session.call_tool(tool, arguments, timeout=timeout)
        except BaseException as caught:
            error = caught
    opened, closed = records.pair
    assert (closed["outcome"], closed["delivery"]) == (outcome, delivery)
    assert outcome in ("ok", "tool_error") or type(error).__name__ == outcome
    assert (closed["decision"] or {}).get("answer") == decision
    assert bool(closed["sent_bytes"]) == (delivery != "not_sent")
    assert len(server.sent) == (delivery != "not_sent") or way == "a clock", "the clock may win"
    assert bool(closed["received_bytes"]) == (delivery == "answered")
    assert (closed["running_seconds"] is None) == (delivery == "not_sent")
    assert opened["tool"] == tool
    assert SECRET not in repr(records)


@pytest.mark.parametrize("decision", [Allow(), Deny()], ids=["yes", "no"])
async def test_the_time_for_asking_ends_with_the_decision(decision: Allow | Deny) -> None:
    now, records = 100.0, Records()

    def approve(call: ToolCall) -> Allow | Deny:
        nonlocal now
        now += 3
        return decision

    class Slow(Server):
        async def call(self, params: dict[str, Any]) -> Any:
            nonlocal now
            now += 5
            return await super().call(params)

    async with Slow().connect(records, approve) as session:
        assert session._setup.audit is not None
        session._setup.audit.clock = lambda: now
        with suppress(CallDenied):
            await session.call_tool("echo")
    _, closed = records.pair
    assert closed["asking_seconds"] == 3
    assert closed["running_seconds"] == (5 if decision == Allow() else None)


async def test_the_records_name_the_call_and_its_outcome() -> None:
    server, records = Server(), Records()
    async with server.connect(records, name="host's name", trusted=True) as session:
        tool = await session.get_tool("echo")
        await session.call_tool("echo", {"n": 1, "city": "Oslo"})
        revision = session.protocol_version
    opened, closed = records.pair
    del opened["time"], closed["time"]
    assert opened == {
        "event": "opened",
        "process": closed["process"],
        "call": closed["call"],
        "server": "host's name",
        "tool": "echo",
        "identity": None,
        "context": None,
        "revision": revision,
        "trusted": True,
        "fingerprint": tool.fingerprint,
        "arguments": {"city": "Oslo", "n": 1},
        "redacted": [],
        "arguments_digest": opened["arguments_digest"],
        "arguments_bytes": len('{"city":"Oslo","n":1}'),
        "findings": [],
        "facts": opened["facts"],
    }
    assert re.fullmatch("sha256:[0-9a-f]{64}", opened["arguments_digest"])
    about = {"answer": "allow", "source": "hook", "reason": None}
    assert closed["decision"] == {**about, "scope": "once"}
    assert closed["context"] is None
    assert closed["asking_seconds"] >= 0
    assert closed["running_seconds"] >= 0
    assert "error" not in closed
    assert "edited" not in closed


async def test_the_record_of_a_call_has_what_its_approver_was_shown_without_secrets() -> None:
    asked: list[ToolCall] = []

    def look(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    server, records = Server(), Records()
    async with server.connect(records, approval=look) as session:
        for meta in (None, {"team": "ops", "password": SECRET}):
            await session.call_tool("echo", {"n": 1}, meta=meta)
    for call, opened in zip(asked, records[::2], strict=True):
        reported = json.dumps(opened, ensure_ascii=False)
        for fact in call.facts():
            if not fact.is_json:
                assert json.dumps(fact.text, ensure_ascii=False) in reported, fact.label
        assert SECRET not in reported
        assert ("ops" in opened["facts"].get("meta", "")) is (call.meta_json is not None)


@pytest.mark.parametrize(
    ("context", "recorded"),
    [("ana", "ana"), (("ana", 7), ["ana", 7]), (object, "[type]"), ("token=" + SECRET, None)],
)
async def test_an_entry_has_the_context_of_its_call(context: Any, recorded: Any) -> None:
    records = Records()
    audit = audit_at("s", records)
    entry = audit.entry("c-1", "echo", {}, context)
    await entry.failed(UnknownTool("no such tool"))
    again = entry.again("c-2")
    await again.failed(UnknownTool("no such tool"))
    for record in (records[0], records[2]):
        assert record["context"] == (recorded or "token=[redacted]")


async def test_the_person_who_decided_is_in_the_record() -> None:
    records = Records()
    entry = audit_at("s", records).entry("c-1", "echo", {})
    await entry.failed(CallDenied("no", reason="no", source="person", by="ana"))
    assert records.pair[1]["decision"]["by"] == "ana"


async def test_the_record_states_what_the_server_is_without_its_secrets(tmp_path: Path) -> None:
    records = Records()
    server = scripted(env={"API_TOKEN": SECRET})
    async with connect(server, approval=allow_all, audit=records, name="s") as session:
        await session.call_tool("environment")
        await session.call_tool("environment")
    identities = {record["identity"] for record in records if record["event"] == "opened"}
    (identity,) = identities
    assert re.fullmatch(r"\S+ hmac-sha256:[0-9a-f]{64}", identity)
    async with serving(Stateless()) as served:
        url = f"{served.url}?key={SECRET}"
        async with connect(HttpServer(url), approval=allow_all, audit=records) as session:
            await session.call_tool("echo", {"a": 1})
    assert records[-2]["identity"].startswith("http://127.0.0.1:")
    assert SECRET not in json.dumps(records)


@pytest.mark.parametrize("key", [None, b"k" * 16])
async def test_a_short_secret_among_the_words_of_a_command_cannot_be_found_by_trying(
    key: bytes | None, tmp_path: Path
) -> None:
    records = Records()
    log = AuditLog(tmp_path / "calls.jsonl", key=key)
    plain = hashlib.sha256(b"python --pin 4711").hexdigest()
    audit = audit_at("s", [records, log], identity=lambda: f"python sha256:{plain}")
    for number in range(2):
        await audit.entry(f"c-{number}", "echo", {}).failed(CallDenied("no", reason="no"))
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    stored = {one["identity"] for one in lines if one.get("event") == "opened"}
    assert len(stored) == 1
    assert plain not in log.path.read_text() + json.dumps(records)
    of_process = {one["identity"] for one in records if one["event"] == "opened"}
    assert (stored == of_process) is (key is None)


async def test_the_record_names_where_arguments_were_left_out_and_which_were_edited() -> None:
    records = Records()
    edit = Allow({"n": 2, "password": SECRET, "list": [1, {"a/b": 3}], "new": 1})
    async with Server().connect(records, lambda call: edit) as session:
        passed = {"n": 1, "password": "x", "list": [1, {"a/b": 2}], "city": "Oslo"}
        await session.call_tool("echo", passed)
    opened, closed = records.pair
    assert opened["redacted"] == ["/password"]
    assert closed["edited"]["redacted"] == ["/password"]
    assert sorted(closed["edited"]["paths"]) == [
        *("/city", "/list/1/a~1b", "/n", "/new", "/password")
    ]


async def test_arguments_that_are_too_long_to_compare_were_edited_as_a_whole() -> None:
    records, edit = Records(), Allow({"city": "x" * MAX_ARGUMENTS_CHARS})
    async with Server().connect(records, lambda call: edit) as session:
        await session.call_tool("echo", {"n": 1})
    _, closed = records.pair
    assert closed["edited"]["paths"] == [""]


async def test_sizes_are_in_bytes() -> None:
    records, passed = Records(), {"city": "Tromsø"}
    async with Server().connect(records) as session:
        await session.call_tool("echo", passed)
    opened, _ = records.pair
    size = len(json.dumps(passed, ensure_ascii=False, separators=(",", ":")).encode())
    assert opened["arguments_bytes"] == size == len('{"city":"Troms__"}')


def test_a_finding_of_arguments_that_were_not_checked_is_recorded_without_them() -> None:
    entry = SessionAudit("s", []).entry("c-1", "echo", {})
    displayed = entry._redacted_finding(Finding("unchecked_arguments", f"{SECRET} is too long"))
    assert SECRET not in repr(displayed)
    assert displayed["kind"] == "unchecked_arguments"


async def test_all_that_close_a_session_wait_until_its_last_entry_is_closed() -> None:
    audit = SessionAudit("s", [])
    entry, waiting = audit.entry("c-1", "echo", {}), 0

    async def close() -> None:
        nonlocal waiting
        waiting += 1
        await audit.closed()

    audit.began(entry)
    with anyio.fail_after(5):  # less than what ``closed`` waits for an entry that never ends
        async with anyio.create_task_group() as group:
            group.start_soon(close)
            group.start_soon(close)
            while waiting < 2:
                await checkpoint()
            await checkpoint()
            audit.ended(entry)


KEY = b"sixteen bytes or more"


async def test_digests_of_a_keyed_log_are_made_with_its_key(tmp_path: Path) -> None:
    log, records = AuditLog(tmp_path / "calls.jsonl", key=KEY), Records()
    edit = Allow({"n": 3})
    async with Server().connect([log, records], lambda call: edit) as session:
        await session.call_tool("echo", {"n": 1})
    opened, closed = (json.loads(line) for line in log.path.read_text().splitlines()[1:])
    for digest, text in (
        (opened["arguments_digest"], b'{"n":1}'),
        (closed["edited"]["from"], b'{"n":1}'),
        (closed["edited"]["to"], b'{"n":3}'),
    ):
        assert digest == "hmac-sha256:" + hmac.new(KEY, text, "sha256").hexdigest()
    plain = hashlib.sha256(b'{"n":1}').hexdigest()
    assert records.pair[0]["arguments_digest"] == f"sha256:{plain}"


@pytest.mark.parametrize("arguments", [{"pin": "4711"}, {"a": "token=4711"}])
async def test_a_short_secret_cannot_be_found_from_the_digest(arguments: Any) -> None:
    records = Records()
    async with Server().connect(records) as session:
        await session.call_tool("echo", arguments)
        await session.call_tool("echo", arguments)
    one, two = (record["arguments_digest"] for record in records if record["event"] == "opened")
    assert one == two
    text = json.dumps(arguments, separators=(",", ":")).encode()
    assert hashlib.sha256(text).hexdigest() not in one


def forgotten(**members: Any) -> Decision:
    passed: dict[str, Any] = {
        "id": "1",
        "kind": "call",
        "server": "s",
        "subject": "echo",
        "scope": "always",
        "context": "ana",
        "decided_at": 0.0,
        "by": "bo\u202e",
    }
    return Decision(**{**passed, **members})


async def test_what_a_view_calls_reports_it_in_each_attempt_and_in_what_is_revoked() -> None:
    log = Records()
    audit = audit_at("s", [log])
    await audit.entry("c-1", "echo", {}, origin="app").again("c-2").failed(UnknownTool("gone"))
    await audit.entry("c-3", "echo", {}).failed(UnknownTool("gone"))
    audit.revoked([forgotten(origin="app"), forgotten()])
    await audit.flush()
    records = [one for one in log if one["event"] != "closed"]
    assert [one.get("origin") for one in records] == ["app", None, "app", None]


@pytest.mark.parametrize("fsync", [False, True])
async def test_revoked_decisions_are_in_the_record_before_the_next_call(
    fsync: bool, tmp_path: Path
) -> None:
    records, log = Records(), AuditLog(tmp_path / "calls.jsonl", fsync=fsync)
    audit = audit_at("s", [records, log], identity=lambda: "what it is")
    audit.revoked([forgotten(), forgotten(server="another")], "carl")
    assert log.path.exists() is not fsync, "what waits for the disk waits for the next record"
    await audit.entry("c-1", "echo", {}).failed(UnknownTool("no such tool"))
    await audit.flush()
    assert [record["event"] for record in records] == ["revoked", "opened", "closed"]
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [record["event"] for record in lines] == ["begun", "revoked", "opened", "closed"]
    for revoked in (records[0], lines[1]):
        reported = {
            name: revoked[name] for name in ("server", "tool", "identity", "scope", "context")
        }
        assert reported == {
            "server": "s",
            "tool": "echo",
            "identity": "what it is",
            "scope": "always",
            "context": "ana",
        }
        assert revoked["given"] == "1970-01-01T00:00:00Z"
        assert (revoked["given_by"], revoked["by"]) == ("bo\\u{202e}", "carl")


async def test_a_decision_that_is_revoked_is_in_the_record_of_its_server(tmp_path: Path) -> None:
    answers, other = Decisions(), Records()
    path = tmp_path / "calls.jsonl"

    def always(call: ToolCall) -> Allow:
        return Allow(remember="session", by="ana")

    async with (
        Server().connect(path, always, name="one", state=answers) as session,
        Server().connect(other, name="two", state=answers),
    ):
        await session.call_tool("echo")
        (stored,) = session.decisions.list()
        assert session.decisions.revoke(stored.id, by="bo")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert [one["event"] for one in records] == ["begun", "opened", "closed", "revoked"]
        assert (records[-1]["given_by"], records[-1]["by"]) == ("ana", "bo")
    assert other == []


async def test_a_call_let_through_by_memory_names_whose_approval_it_was_and_when_that_ends() -> (
    None
):
    records = Records()

    def approve(call: ToolCall) -> Allow:
        return Allow(remember=Remember("session", seconds=3600), source="person", by="ana")

    async with Server().connect(records, approve) as session:
        await session.call_tool("echo")
        await session.call_tool("echo")
    asked, remembered = (record["decision"] for record in records if record["event"] == "closed")
    assert (asked["source"], asked["by"]) == ("person", "ana")
    assert (remembered["source"], remembered["by"]) == ("memory", "ana")
    assert asked["expires_at"][:16] == remembered["expires_at"][:16]
    assert asked["expires_at"] > records[0]["time"]


@pytest.mark.parametrize(
    ("remember", "scope"),
    [
        (None, "once"),
        ("once", "once"),
        ("call", "once"),
        ("session", "session"),
        ("hour", "session"),
        (Remember("session", exact=True), "session"),
        ("always", "always"),
        ("exact", "always"),
    ],
)
@pytest.mark.parametrize("source", ["hook", "person", "rule"])
async def test_a_decision_states_how_far_it_goes_also_once_it_is_remembered(
    remember: Any, scope: str, source: str
) -> None:
    records = Records()
    connecting = Server().connect(
        records,
        lambda call: Allow(remember=remember, source=source),
        state=Decisions(),
    )
    async with connecting as session:
        for _ in range(2):
            await session.call_tool("echo", context="ana")
    closed = [record for record in records if record["event"] == "closed"]
    # Without an identity of its server, "always" is remembered until the session ends.
    then = "session" if scope == "always" else scope
    assert [one["decision"]["scope"] for one in closed] == [scope, then]
    assert closed[1]["decision"]["source"] == (source if scope == "once" else "memory")
    assert [one["context"] for one in closed] == ["ana", "ana"]


async def test_revoking_a_decision_does_not_fail_where_the_record_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = audit_at("s", tmp_path / "no" / "calls.jsonl")
    audit.revoked([forgotten()])
    assert "No such file" in caplog.text
    (tmp_path / "no").mkdir()
    await audit.flush()
    assert "revoked" in (tmp_path / "no" / "calls.jsonl").read_text()


@pytest.mark.both_backends
async def test_a_definition_that_changed_is_in_the_closing_record() -> None:
    records, asked = Records(), list[ToolCall]()

    def approve(call: ToolCall) -> Deny:
        asked.append(call)
        return Deny("not yet")

    async with Server().connect(None, approve) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("echo", {"password": SECRET})
    (call,) = asked
    audit, times = audit_at("s", records), iter((1.0, 2.0, 4.0, 6.0, 7.0))
    audit.clock = lambda: next(times)
    entry = audit.entry(call.id, "echo", call.arguments)
    entry.found(call.tool, "a revision")
    await entry.open(call)
    entry.asking()
    entry.allowed("hook", None, None)
    entry.asking()
    entry.changed(replace(call, findings=(Finding("definition_changed", f"was {SECRET}", SECRET),)))
    await entry.failed(CallDenied("no", reason="no"))
    closed = records.pair[1]
    assert closed["asking_seconds"] == 3  # to the last decision, not to the first
    assert closed["changed"] == {
        "fingerprint": call.tool.fingerprint,
        "trusted": False,
        "findings": [
            {"kind": "definition_changed", "text": "was [redacted]", "about": "[redacted]"}
        ],
    }


async def test_a_decision_is_recorded_with_its_source_and_reason() -> None:
    records = Records()
    answers = iter([Allow(reason="rule 3", source="rule"), Deny("not today", source="person")])
    async with Server().connect(records, lambda call: next(answers)) as session:
        await session.call_tool("echo")
        with pytest.raises(CallDenied):
            await session.call_tool("echo")
    assert [record["decision"] for record in records if record["event"] == "closed"] == [
        {"answer": "allow", "source": "rule", "reason": "rule 3", "scope": "once"},
        {"answer": "deny", "source": "person", "reason": "not today"},
    ]


async def test_edited_arguments_are_recorded_beside_the_callers() -> None:
    server, records = Server(), Records()
    edit = Allow({"n": 2, "password": SECRET})
    async with server.connect(records, lambda call: edit) as session:
        await session.call_tool("echo", {"n": 1})
    opened, closed = records.pair
    assert opened["arguments"] == {"n": 1}
    assert closed["edited"]["from"] == opened["arguments_digest"] != closed["edited"]["to"]
    assert closed["edited"]["arguments"] == {"n": 2, "password": "[redacted]"}
    assert server.sent[0]["arguments"] == {"n": 2, "password": SECRET}


@pytest.mark.parametrize("last", [Allow(), Deny("no"), Allow({"n": "2"})])
async def test_what_an_approver_was_shown_about_an_edit_is_recorded_whatever_follows(
    last: Allow | Deny,
) -> None:
    records, asked = Records(), list[ToolCall]()

    def approve(call: ToolCall) -> Allow | Deny:
        asked.append(call)
        return [Allow({"n": "1"}), last, Allow()][len(asked) - 1]

    async with Server().connect(
        records, approve, validation=Validation(arguments="warn")
    ) as session:
        with nullcontext() if isinstance(last, Allow) else pytest.raises(CallDenied):
            await session.call_tool("echo", {"n": 1})
    opened, closed = records.pair
    assert opened["findings"] == []
    assert [one.kind for one in asked[1].findings] == ["broken_arguments"]
    assert [one["kind"] for one in closed["edited"]["findings"]] == ["broken_arguments"]
    assert closed["edited"]["arguments"] == (
        last.arguments if type(last) is Allow and last.arguments else {"n": "1"}
    )
    assert closed["decision"]["answer"] == ("deny" if type(last) is Deny else "allow")


@pytest.mark.both_backends
@pytest.mark.parametrize("where", ["asked", "sent", "a host"])
async def test_the_calls_that_closing_ends_are_closed_in_the_record_when_it_returns(
    where: str,
) -> None:
    server, records, asked = Server(), Records(), anyio.Event()

    async def approve(call: ToolCall) -> Allow:
        try:
            if where != "sent":
                asked.set()
                await anyio.sleep_forever()
            return Allow()
        finally:  # as a queue withdraws what it stored
            with anyio.CancelScope(shield=True):
                for _ in range(50):
                    await checkpoint()

    async def call(session: Session | Host) -> None:
        with pytest.raises((CallDenied, ConnectionLost)):
            await session.call_tool("s__never" if where == "a host" else "never")

    async with anyio.create_task_group() as tasks:
        if where == "a host":
            opening: Any = Host({"s": MemoryServer(server.handle)}, approval=approve, audit=records)
        else:
            opening = server.connect(records, approve)
        async with opening as session:
            tasks.start_soon(call, session)
            await (server.arrived if where == "sent" else asked).wait()
        of_calls = [record["event"] for record in records if record.get("tool") == "never"]
        assert of_calls == ["opened", "closed"]
        tasks.cancel_scope.cancel()


@pytest.mark.both_backends
async def test_a_hook_that_closes_its_own_session_does_not_wait_for_itself() -> None:
    records, took = Records(), list[float]()

    async def approve(call: ToolCall) -> Allow:
        began = anyio.current_time()
        with anyio.CancelScope(shield=True):
            await session.aclose()
        took.append(anyio.current_time() - began)
        return Allow()

    session = await Server().connect(records, approve)
    with pytest.raises(CallDenied):
        await session.call_tool("echo")
    assert took[0] < 8
    assert records.pair[1]["delivery"] == "not_sent"


async def test_findings_are_recorded_with_the_place_and_not_with_the_value() -> None:
    records = Records()
    async with Server().connect(records) as session:
        await session.call_tool("echo", {"n": "o1d-s3cret"})
    opened, _ = records.pair
    assert opened["findings"] == [
        {
            "kind": "broken_arguments",
            "text": "the arguments break the tool's input schema at /n",
            "about": "/n: string",
        }
    ]
    assert opened["arguments"] == {"n": "o1d-s3cret"}, "nothing marks this as one"


async def test_the_first_record_is_in_the_file_when_the_hook_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    seen: list[str] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(path.read_text())
        (mine,) = verify_audit(path).open_calls
        assert (mine.call, mine.tool) == (call.id, "echo")
        return Allow()

    async with Server().connect(path, approve) as session:
        await session.call_tool("echo", {"n": 1})
    assert '"opened"' in seen[0]
    assert '"closed"' not in seen[0]
    assert verify_audit(path).open_calls == ()


# -------------------------------------------------------------------- leaving early


@pytest.mark.both_backends
async def test_a_call_cancelled_while_a_person_is_asked_is_closed_as_not_sent() -> None:
    records, asked = Records(), anyio.Event()

    async def approve(call: ToolCall) -> Allow:
        asked.set()
        await anyio.sleep_forever()
        return Allow()

    server = Server()
    async with server.connect(records, approve) as session, anyio.create_task_group() as group:
        group.start_soon(awaited, session.call_tool("echo"))
        await asked.wait()
        group.cancel_scope.cancel()
    _, closed = records.pair
    assert closed["outcome"] == "Cancelled"
    assert (closed["delivery"], closed["decision"]) == ("not_sent", None)
    assert closed["asking_seconds"] is not None
    assert not server.sent


@pytest.mark.both_backends
async def test_a_call_cancelled_while_it_runs_is_closed_as_unknown(tmp_path: Path) -> None:
    late = Records()

    async def slowly(record: Mapping[str, Any]) -> None:
        await checkpoint()
        late(record)

    server, records = Server(), Records()
    sinks = [records, tmp_path / "calls.jsonl", slowly]
    async with server.connect(sinks) as session, anyio.create_task_group() as group:
        group.start_soon(awaited, session.call_tool("never"))
        await server.arrived.wait()
        group.cancel_scope.cancel()
    for each in (records, late):
        _, closed = each.pair
        assert closed["outcome"] == "Cancelled"
        assert closed["delivery"] == "unknown"
        assert closed["decision"]["answer"] == "allow"
    assert verify_audit(tmp_path / "calls.jsonl").open_calls == ()


@pytest.mark.both_backends
@pytest.mark.parametrize("asking", [False, True])
async def test_the_record_of_a_cancelled_call_is_closed_with_the_reason(asking: bool) -> None:
    asked = anyio.Event()

    async def approve(call: ToolCall) -> Allow:
        asked.set()
        if asking:
            await anyio.sleep_forever()
        return Allow()

    server, records = Server(), Records()
    async with server.connect(records, approve) as session, anyio.create_task_group() as group:
        token = CancelToken()

        async def make() -> None:
            with pytest.raises(CallWithdrawn if asking else CallCancelled):
                await session.call_tool("never", cancel=token)

        group.start_soon(make)
        await (asked if asking else server.arrived).wait()
        token.cancel("the user went home")
    _, closed = records.pair
    assert closed["outcome"] == ("CallWithdrawn" if asking else "CallCancelled")
    assert closed["delivery"] == ("not_sent" if asking else "unknown")
    assert "the user went home" in closed["error"]


class Never:
    def __await__(self) -> Any:
        yield


async def test_the_record_of_an_abandoned_call_is_closed_where_that_needs_no_wait() -> None:
    async def approve(call: ToolCall) -> Allow:
        await Never()
        return Allow()

    async def cannot(record: Mapping[str, Any]) -> None:
        if record["event"] == "closed":
            await checkpoint()
            raise AssertionError("no one is there to wait for this")

    server, records = Server(), Records()
    async with server.connect([records, cannot], approve) as session:
        await session.list_tools()
        call = session.call_tool("echo")
        call.send(None)
        call.close()
    _, closed = records.pair
    assert (closed["outcome"], closed["delivery"]) == ("GeneratorExit", "not_sent")
    assert not server.sent


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_record_of_a_call_that_outlives_its_loop_is_closed_where_that_needs_no_wait(
    backend: str, tmp_path: Path
) -> None:
    async def approve(call: ToolCall) -> Allow:
        await Never()
        return Allow()

    async def later(record: Mapping[str, Any]) -> None:
        reported.append(record["event"])

    async def main() -> None:
        async with server.connect([records, path, later], approve) as session:
            await session.list_tools()
            call = session.call_tool("echo")
            call.send(None)
            left.append(call)

    server, records, path = Server(), Records(), tmp_path / "calls.jsonl"
    reported: list[str] = []
    left: list[Any] = []
    anyio.run(main, backend=backend)
    with suppress(Exception):  # scopes that were left behind report it, each in its way
        left[0].close()
    assert records.pair[1]["delivery"] == "not_sent"
    assert verify_audit(path).open_calls == ()
    assert reported == ["opened"], "it was logged"
    assert not server.sent


@pytest.mark.both_backends
async def test_many_calls_at_once_make_one_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with Server().connect(path) as session, anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(awaited, session.call_tool("echo", {"n": number}))
    verified = verify_audit(path)
    assert (verified.calls, verified.open_calls, verified.lines) == (50, (), 101)


class Forgetful(MemoryTransport):
    """Ends the session when the first call arrives, as an HTTP server may."""

    ended = False

    async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
        if '"tools/call"' in text and not self.ended:
            self.ended = True
            raise ConnectError("no such session", http_status=404, retryable=True)
        return await super().exchange(id, text, *rest)


async def test_a_call_made_again_is_a_second_entry_that_names_the_first() -> None:
    server, records, asked = Server(), Records(), []
    server.transport = Forgetful(server.handle)

    def approve(call: ToolCall) -> Allow:
        asked.append(call.id)
        return Allow()

    async with server.connect(records, approve) as session:
        await session.call_tool("echo", {"n": 1})
    opened, closed, again, done = records
    assert asked == [opened["call"], again["call"]]
    assert "repeats" not in opened
    assert again["repeats"] == opened["call"] == closed["call"] != done["call"]
    assert (closed["outcome"], closed["delivery"]) == ("ConnectError", "not_sent")
    assert (done["outcome"], done["delivery"]) == ("ok", "answered")
    assert again["arguments"] == opened["arguments"] == {"n": 1}


class Leaving(MemoryTransport):
    """Is gone when the first question is to be answered."""

    calls = 0

    async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
        self.calls += '"tools/call"' in text
        if self.calls > 1:
            raise ConnectError("gone")
        return await super().exchange(id, text, *rest)


async def test_a_call_that_was_answered_with_a_question_is_not_stated_to_be_unsent() -> None:
    server, records = Server(), Records()
    server.transport = Leaving(server.handle)
    async with server.connect(records) as session:
        with pytest.raises(ConnectionLost, match="gone"):
            await session.call_tool("asks again")
    _, closed = records.pair
    assert (closed["outcome"], closed["delivery"]) == ("ConnectionLost", "unknown")


# ------------------------------------------------------------------------- secrets


async def test_no_secret_given_as_an_argument_comes_into_any_record() -> None:
    records = Records()
    passed = {"password": SECRET, "word": SECRET, "deep": [{"api_key": [SECRET]}]}
    async with Server().connect(records) as session:
        await session.call_tool("echo", passed)
        await session.call_tool("echo", {"n": f"Authorization: Bearer {SECRET}"})
        with pytest.raises(ServerError, match=SECRET):
            await session.call_tool("error", passed)
        with pytest.raises(UnknownTool):
            await session.call_tool("unknown", {"password": SECRET})
    async with Server().connect(records, lambda call: Deny(f"not with {SECRET}")) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("echo", passed)
    async with Server().connect(records, validation=Validation(arguments="strict")) as session:
        with pytest.raises(InvalidArguments):
            await session.call_tool("echo", {"n": SECRET, "password": [SECRET]})
        records[-2]["arguments"].pop("n")
    assert len(records) == 12
    assert SECRET not in json.dumps(records)
    assert "no one has [redacted]" in json.dumps(records)


async def test_no_header_comes_into_any_record(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with serving(Stateless()) as served:
        server = HttpServer(served.url, headers={"Authorization": SECRET, "X-Key": SECRET})
        async with connect(server, approval=allow_all, audit=path) as session:
            await session.call_tool("echo", {"a": 1})
    assert verify_audit(path).calls == 1
    assert SECRET not in path.read_text()


async def test_no_environment_and_no_argument_of_the_command_comes_into_any_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "calls.jsonl"
    server = scripted(env={"API_TOKEN": SECRET})
    async with connect(server, approval=allow_all, audit=path) as session:
        result = await session.call_tool("environment")
        with pytest.raises(ConnectionLost, match="about to go"):
            await session.call_tool("exit")
    assert SECRET in result.text
    assert verify_audit(path).calls == 2
    assert SECRET not in path.read_text()
    assert "about to go" not in path.read_text(), "what a server writes to its standard error"


async def test_the_host_may_choose_what_is_redacted() -> None:
    records = Records()
    own = Redaction(keys={"n"}, patterns=[])
    async with Server().connect(Audit(records, redaction=own)) as session:
        await session.call_tool("echo", {"n": 1, "password": "shown"})
    async with Server().connect(Audit(records, redaction=lambda value: sorted(value))) as session:
        await session.call_tool("echo", {"n": 1, "password": "x"})
    async with Server().connect(Audit(records, redaction=lambda value: 1 / 0)) as session:
        await session.call_tool("echo", {"n": 1})
    displayed = [record["arguments"] for record in records if record["event"] == "opened"]
    assert displayed == [
        {"n": "[redacted]", "password": "shown"},
        ["n", "password"],
        "[unreadable: ZeroDivisionError]",
    ]


async def test_arguments_too_long_to_look_through_are_left_out_and_counted() -> None:
    records = Records()
    async with Server().connect(records) as session:
        await session.call_tool("echo", {"text": "x" * 1_000_000})
    opened, _ = records.pair
    assert opened["arguments"] == "[left out: 1000011 characters]"
    assert opened["arguments_bytes"] == 1_000_011
    assert len(json.dumps(records)) < 2_000


class Odd(Mapping[str, Any]):
    """A mapping that does not behave."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Any:
        raise RuntimeError(SECRET)

    def __len__(self) -> int:
        return 1


async def test_arguments_that_cannot_be_read_do_not_keep_the_record_from_being_made() -> None:
    records = Records()
    async with Server().connect(records) as session:
        with pytest.raises(RuntimeError):
            await session.call_tool("echo", Odd())
    opened, closed = records.pair
    assert opened["arguments"] == "[unreadable: RuntimeError]"
    assert (closed["outcome"], closed["delivery"]) == ("RuntimeError", "not_sent")


# ------------------------------------------------------------------ sinks that fail


class Broken:
    """A sink that raises at some of its records, and keeps the others."""

    def __init__(self, *errors: BaseException | None, waits: bool = False) -> None:
        self.errors = list(errors)
        self.waits = waits
        self.records = Records()

    def __call__(self, record: Mapping[str, Any]) -> Any:
        return self._later(record) if self.waits else self._now(record)

    async def _later(self, record: Mapping[str, Any]) -> None:
        await checkpoint()
        self._now(record)

    def _now(self, record: Mapping[str, Any]) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.records(record)


ERRORS = [
    *(OSError(28, "No space left on device"), RuntimeError("x"), TypeError(), StopIteration()),
    *(TimeoutError(), StopAsyncIteration(), KeyboardInterrupt(), SystemExit(1), Abrupt()),
    *(CallDenied("odd"), ExceptionGroup("g", [ValueError()]), AssertionError()),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@examples(30)
@given(st.sampled_from(ERRORS), st.booleans(), st.integers(0, 2), st.booleans())
def test_whatever_a_sink_raises_nothing_is_sent(
    backend: str, error: BaseException, waits: bool, place: int, hook_waits: bool
) -> None:
    server, asked = Server(), []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async def main() -> None:
        sinks: list[Any] = [Records(), Records()]
        sinks.insert(place, Broken(error, waits=waits))
        async with server.connect(sinks, approve if hook_waits else allow_all) as session:
            with pytest.raises((CallDenied, type(error))):
                await session.call_tool("echo")

    anyio.run(main, backend=backend)
    assert server.sent == []
    assert asked == []


async def test_a_call_that_cannot_be_recorded_is_refused_and_gives_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, records = Server(), Records()
    async with server.connect([records, tmp_path / "no" / "such" / "place.jsonl"]) as session:
        with pytest.raises(CallDenied) as caught:
            await session.call_tool("echo")
    assert (caught.value.source, caught.value.tool) == ("gate", "echo")
    place = tmp_path / "no" / "such" / "place.jsonl"
    assert f"{place}: No such file or directory" in caught.value.reason
    assert f"{place}: No such file or directory" in caught.value.message
    assert "Audit(failure=...)" in str(caught.value)
    assert "place.jsonl" in caplog.text
    _, closed = records.pair
    assert (closed["outcome"], closed["delivery"]) == ("CallDenied", "not_sent")
    assert closed["decision"]["source"] == "gate"
    assert server.sent == []


async def test_with_warn_a_call_that_cannot_be_recorded_is_made_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, broken = Server(), Broken(OSError(), OSError(), OSError())
    async with server.connect(Audit(broken, failure="warn")) as session:
        assert (await session.call_tool("echo")).findings == ()
        assert caplog.text.count("cannot be opened") == 1
        assert caplog.text.count("could not be closed") == 1
        await session.call_tool("echo")
    assert len(server.sent) == 2
    opened, closed = broken.records.pair
    assert opened["call"].endswith("-2")
    assert "late, with its beginning" and closed["outcome"] == "ok"


@pytest.mark.parametrize("waits", [False, True])
async def test_a_result_whose_record_cannot_be_closed_is_returned_and_the_next_call_waits(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    broken = Broken(None, OSError(28, "full"), OSError(28, "full"), waits=waits)
    async with server.connect(broken) as session:
        result = await session.call_tool("echo")
        assert result.text == "ran"
        assert "could not be closed" in str(result.findings[0])
        assert "could not be closed" in caplog.text
        with pytest.raises(CallDenied):
            await session.call_tool("echo")
        assert len(server.sent) == 1
        assert (await session.call_tool("echo")).findings == ()
    first, late, *others = broken.records
    assert (first["event"], late["event"]) == ("opened", "closed")
    assert first["call"] == late["call"]
    assert [record["event"] for record in others] == ["opened", "closed"] * (len(others) // 2)
    assert len(server.sent) == 2


async def test_a_pending_record_is_written_before_the_next_call_is_opened() -> None:
    broken = Broken(None, OSError())
    async with Server().connect(broken) as session:
        await session.call_tool("echo")
        await session.call_tool("echo")
    reported = [(record["event"], record["call"][-1]) for record in broken.records]
    assert reported == [("opened", "1"), ("closed", "1"), ("opened", "2"), ("closed", "2")]


async def test_an_error_whose_record_cannot_be_closed_stays_what_it_is_and_has_a_note() -> None:
    broken = Broken(None, OSError())
    async with Server().connect(broken, deny_all) as session:
        with pytest.raises(CallDenied, match="deny_all") as caught:
            await session.call_tool("echo")
    assert "could not be closed" in caught.value.__notes__[0]
    assert [record["event"] for record in broken.records] == ["opened", "closed"], (
        "when it was left"
    )


@pytest.mark.both_backends
async def test_a_sink_that_is_cancelled_by_itself_has_failed() -> None:
    server = Server()

    async def sink(record: Mapping[str, Any]) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await checkpoint()
            except anyio.get_cancelled_exc_class() as error:
                stored.append(error)
                raise
        raise stored[0]

    stored: list[BaseException] = []
    async with server.connect(sink) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("echo")
    assert server.sent == []


@pytest.mark.both_backends
async def test_waiting_for_a_sink_is_bounded(clock: Clock) -> None:
    async def sink(record: Mapping[str, Any]) -> None:
        clock.jump(15)
        await anyio.sleep(15)

    server = Server()
    async with server.connect(sink) as session:
        with pytest.raises(CallDenied, match="TimeoutError"):
            await session.call_tool("echo")
    assert server.sent == []


def spoil(record: Any) -> None:
    for value in record.values():
        if isinstance(value, dict):
            value.clear()
    record.clear()


async def test_what_a_sink_does_to_a_record_is_not_seen_by_the_next(tmp_path: Path) -> None:
    records, path = Records(), tmp_path / "calls.jsonl"
    async with Server().connect([spoil, records, path]) as session:
        for _ in range(2):
            await session.call_tool("echo", {"n": 1})
    written = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    for each in (records, written):
        assert [record["event"] for record in each] == ["opened", "closed"] * 2
        for opened, closed in (each[:2], each[2:]):
            assert opened["arguments"] == {"n": 1}
            assert opened["facts"]["read_only"]
            assert closed["decision"]["answer"] == "allow"
            assert closed["outcome"] == "ok"


async def test_what_calls_of_a_tool_share_is_that_of_each_call(tmp_path: Path) -> None:
    """The members that seldom change are encoded once: each of them changes here and back."""
    now = allowed = Allow()
    records, server = Records(), Server()
    async with server.connect([records, tmp_path / "calls.jsonl"], lambda call: now) as session:
        audit = session._setup.audit
        assert audit is not None
        calls: list[tuple[Any, Any, Any]] = [
            ("ana", None, allowed),
            ("ana", None, allowed),
            ("bo", None, allowed),
            ("bo", {"who": "me"}, allowed),
            (1, None, allowed),
            (None, None, replace(allowed, by="bo")),
            (None, {"who": "you"}, replace(allowed, by="bo")),
            ("ana", None, allowed),
        ]
        for context, tag, now in calls:  # noqa: B007 - the hook returns it
            await session.call_tool("echo", {"n": 1}, context=context, tag=tag)
        audit.secrets.add(["no (assumed"])
        await session.call_tool("echo", {"n": 1})
    opened, closed = records[::2], records[1::2]
    for half in (opened, closed):
        found = [(each["context"], each.get("tag")) for each in half]
        assert found == [*((context, tag) for context, tag, _ in calls), (None, None)]
    assert [each["decision"].get("by") for each in closed] == [*[None] * 5, "bo", "bo", None, None]
    assert "no (assumed" in opened[-2]["facts"]["read_only"]
    assert "no (assumed" not in repr(opened[-1])
    written = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    place = {"line", "file", "previous", "hash"}
    assert [{k: v for k, v in one.items() if k not in place} for one in written[1:]] == records


@pytest.mark.both_backends
@pytest.mark.parametrize("fsync", [False, True])
async def test_one_log_serves_many_sessions(fsync: bool, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", fsync=fsync)

    async def call(name: str) -> None:
        async with Server().connect(log, name=name) as session:
            for _ in range(5):
                await session.call_tool("echo")

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(call, f"s{number}")
    verified = verify_audit(log.path)
    assert (verified.calls, verified.open_calls) == (20, ())


@pytest.mark.both_backends
async def test_a_log_that_waits_for_the_disk_uses_a_thread_of_its_own(
    tmp_path: Path,
) -> None:
    people = anyio.to_thread.current_default_thread_limiter()
    async with anyio.create_task_group() as group:
        for _ in range(int(people.total_tokens)):
            group.start_soon(people.acquire_on_behalf_of, object())
        while people.available_tokens:
            await checkpoint()
        log = AuditLog(tmp_path / "calls.jsonl", fsync=True)
        async with Server().connect(log) as session:
            await session.call_tool("echo")
    assert verify_audit(log.path).calls == 1


# ------------------------------------------------------------------------- options

WRONG: list[dict[str, Any]] = [
    {"audit": 7},
    {"audit": []},
    {"audit": [7]},
    {"audit": {"path": "x"}},
    {"audit": b"calls.jsonl"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_an_invalid_audit_option_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        connect(Server().transport, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"failure": "ignore"}, "failure='ignore'"),
        ({"redaction": "password"}, "redaction='password'"),
        ({"trace_content": 1}, "trace_content=1"),
        ({"to": []}, "audit=\\[\\]"),
        ({"audit_failure": "warn"}, "has no option 'audit_failure'"),
    ],
    ids=str,
)
def test_a_wrong_value_of_an_audit_is_refused_where_it_is_written(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Audit(**{"to": print, **options})


async def test_an_audit_without_a_place_records_where_the_state_does(tmp_path: Path) -> None:
    options: Any = {"approval": allow_all, "state": tmp_path / "state"}
    for audit in (None, Audit(redaction=lambda value: "hidden")):
        async with connect(Server().transport, audit=audit, **options) as session:
            await session.call_tool("echo", {"n": 1})
    lines = map(json.loads, (tmp_path / "state" / "audit.jsonl").read_text().splitlines())
    assert [one["arguments"] for one in lines if one["event"] == "opened"] == [{"n": 1}, "hidden"]
    async with connect(Server().transport, approval=allow_all, audit=Audit()) as session:
        assert session._caller._audit is None


async def test_without_an_audit_no_record_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def note(entry: AuditEntry, audit: object, about: About) -> None:
        built.append(about.id)
        raise RuntimeError("no record is needed")

    monkeypatch.setattr(AuditEntry, "__init__", note)
    async with Server().connect(None) as session:
        await session.call_tool("echo")
        with pytest.raises(UnknownTool):
            await session.call_tool("unknown")
    assert built == []
    async with Server().connect(print) as session:
        with pytest.raises(RuntimeError):
            await session.call_tool("echo")
    assert len(built) == 1


async def test_the_record_and_the_error_name_the_person_who_decided() -> None:
    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        return {"content": []} if message["method"] == "tools/call" else NotImplemented

    def hook(call: ToolCall) -> Allow | Deny:
        return Allow(by="ana") if call.arguments["n"] else Deny("too risky", by="bo")

    records: list[Mapping[str, Any]] = []
    async with connect(MemoryServer(server), approval=hook, audit=records.append) as session:
        await session.call_tool("echo", {"n": 1})
        with pytest.raises(CallDenied) as caught:
            await session.call_tool("echo", {"n": 0})
    assert caught.value.by == "bo"
    decisions = [record["decision"] for record in records if record.get("decision")]
    assert [(decision["answer"], decision["by"]) for decision in decisions] == [
        ("allow", "ana"),
        ("deny", "bo"),
    ]
