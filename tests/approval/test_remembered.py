"""A remembered approval covers what it was for, is stored safely, and can be revoked."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Finding,
    HttpServer,
    MemoryServer,
    Rule,
    Rules,
    Session,
    StdioServer,
    ToolCall,
    connect,
    deny_all,
)
from mcp_client.approval import Decision, Decisions, Remember, one_at_a_time
from mcp_client.approval.gate import Gate
from mcp_client.approval.remembered import ApprovalMemory, OneCallApproval
from mcp_client.approval.tickets import Ticket
from mcp_client.protocol.canonical_json import canonical
from mcp_client.session.connect import transport_of
from mcp_client.transports.memory import MemoryTransport
from tests.support.http_apps import Handshake
from tests.support.http_server import serving
from tests.support.starting import scripted
from tests.support.terminal import call_of

pytestmark = pytest.mark.one_backend

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Server:
    """Tools that can be changed, and a record of what was sent and who was asked."""

    def __init__(self, *names: str) -> None:
        self.tools = [
            {"name": name, "description": "One.", "inputSchema": SCHEMA} for name in names or "ab"
        ]
        self.sent: list[Any] = []
        self.asked: list[Any] = []
        self.remember: Any = "session"
        self.edit: dict[str, Any] | None = None

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": self.tools}
            case "tools/call":
                self.sent.append(message["params"]["arguments"])
                return {"content": []}
            case "ping":
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                return {}
        return NotImplemented

    async def approve(self, call: ToolCall) -> Allow:
        self.asked.append(dict(call.arguments))
        return Allow(self.edit, remember=self.remember, source="person")

    def connect(self, identity: str | None = "the server", **options: Any) -> Any:
        class Known(MemoryTransport):
            stable_identity = identity

        transport = MemoryServer(self) if identity is None else Known(self)
        return connect(transport, **{"approval": self.approve, **options})

    async def change(self, session: Session, **members: Any) -> None:
        self.tools = [{**tool, **members} for tool in self.tools]
        await session.ping()


def text_of(file: Path) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(file.read_text())
    return whole


# ------------------------------------------------------------------- how far it goes


async def test_without_remember_every_call_is_asked_about() -> None:
    server = Server()
    server.remember = None
    async with server.connect() as session:
        for _ in range(3):
            await session.call_tool("a")
        assert session.decisions.list() == ()
    assert len(server.asked) == 3


async def test_an_approval_for_the_session_covers_the_tool_with_any_arguments_until_it_ends() -> (
    None
):
    server = Server()
    async with server.connect() as session:
        for n in range(3):
            await session.call_tool("a", {"n": n})
        assert server.asked == [{"n": 0}]
        await session.call_tool("b")
        assert server.asked == [{"n": 0}, {}]
        (first, second) = session.decisions.list()
        assert (first.server, first.subject, first.scope, first.where) == (
            "memory",
            "a",
            "session",
            None,
        )
        assert second.subject == "b"
    assert session.decisions.list() == ()
    async with server.connect() as session:
        await session.call_tool("a")
    assert len(server.asked) == 3
    assert len(server.sent) == 5


async def test_where_narrows_what_an_approval_covers() -> None:
    server = Server()
    server.remember = Remember("session", where={"/n": {"max": 5}})
    async with server.connect() as session:
        for n in (1, 5, 6):
            await session.call_tool("a", {"n": n})
        await session.call_tool("a")
        (decision,) = session.decisions.list()
    assert server.asked == [{"n": 1}, {"n": 6}, {}], "a missing argument is not covered"
    assert decision.where == {"/n": {"max": 5}}


@pytest.mark.both_backends
async def test_calls_that_waited_for_their_turn_are_not_asked_about_if_approved() -> None:
    server = Server()

    async def slowly(call: ToolCall) -> Allow:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return await server.approve(call)

    approval = one_at_a_time(slowly)
    async with server.connect(approval=approval) as session, anyio.create_task_group() as tasks:
        await session.list_tools()
        for n in range(5):
            tasks.start_soon(session.call_tool, "a", {"n": n})
    assert len(server.asked) == 1
    assert len(server.sent) == 5


async def test_an_edited_call_is_not_remembered_beyond_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    server.edit = {"n": 7}
    async with server.connect() as session:
        for _ in range(2):
            await session.call_tool("a", {"n": 1})
        assert session.decisions.list() == ()
    assert len(server.asked) == 2
    assert server.sent == [{"n": 7}] * 2
    assert "its arguments were edited" in caplog.text


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_denial_is_never_remembered_and_an_approval_does_not_outlast_a_rule(
    scope: str,
) -> None:
    server = Server()
    denied: list[str] = []

    async def no(call: ToolCall) -> Deny:
        denied.append(call.tool.name)
        return Deny("no", source="person")

    async with server.connect(approval=no) as session:
        for _ in range(2):
            with pytest.raises(CallDenied):
                await session.call_tool("a")
    assert denied == ["a", "a"]

    server.remember, store = "always", Decisions()
    async with server.connect(state=store) as session:
        await session.call_tool("a")
    rules = Rules([Rule("deny", arguments={"/n": {"equals": 13}})], ask=no)
    async with server.connect(approval=rules, state=store) as session:
        await session.call_tool("a", {"n": 1})
        with pytest.raises(CallDenied) as caught:
            await session.call_tool("a", {"n": 13})
    assert caught.value.source == "rule"
    assert server.sent == [{}, {"n": 1}]


@pytest.mark.parametrize(
    "wrong", ["for ever", "", True, 1, ["session"], {"scope": "session"}, object(), Remember]
)
async def test_a_malformed_remember_is_a_denial_with_a_reason(wrong: Any) -> None:
    server = Server()
    server.remember = wrong
    async with server.connect() as session:
        with pytest.raises(
            CallDenied, match="give 'call', 'script', 'session' or 'always'"
        ) as caught:
            await session.call_tool("a")
        assert session.decisions.list() == ()
    assert caught.value.source == "gate"
    assert server.sent == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("weekly",), "give 'call'"),
        ((["session"],), "give 'call'"),
        (("call", {"/n": {"equals": 1}}), "one call has its arguments"),
        (("session", {"n": {"equals": 1}}), "not a JSON pointer"),
        (("session", ["/n"]), "constraints are a mapping"),
    ],
)
def test_a_remember_that_cannot_be_stored_cannot_be_made(arguments: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Remember(*arguments)


# ------------------------------------------------- a call that has to be made again


@pytest.mark.parametrize("edit", [None, {"n": 7}], ids=["as it was", "edited"])
@pytest.mark.parametrize("remember", ["call", None])
async def test_an_approval_of_one_call_covers_it_where_it_has_to_be_made_again(
    remember: Any, edit: dict[str, Any] | None
) -> None:
    app, asked = Handshake(), []

    def approve(call: ToolCall) -> Allow:
        asked.append((call.generation, dict(call.arguments)))
        return Allow(edit, remember=remember)

    async with serving(app) as server, connect(server.url, approval=approve) as session:
        await session.list_tools()
        app.ended.add("session-1")
        result = await session.call_tool("echo", {"n": 1})
        assert result.text == str(edit or {"n": 1})
        assert [generation for generation, _ in asked] == ([1] if remember else [1, 2])
        await session.call_tool("echo", {"n": 1})
        assert asked.pop() == (2, {"n": 1}), "the next call is another one"


async def test_an_approval_of_one_call_covers_no_arguments_that_changed_meanwhile() -> None:
    app, asked = Handshake(), []
    arguments = {"n": 1}

    async def approve(call: ToolCall) -> Allow:
        asked.append(call.arguments_json)
        arguments["n"] = 2
        return Allow(remember="call")

    async with serving(app) as server, connect(server.url, approval=approve) as session:
        await session.list_tools()
        app.ended.add("session-1")
        await session.call_tool("echo", arguments)
    assert asked == ['{"n":1}', '{"n":2}']


# ------------------------------------------------------------------- what voids it


@pytest.mark.both_backends
async def test_a_tool_that_changed_is_asked_about_again() -> None:
    server = Server()
    async with server.connect() as session:
        await session.call_tool("a")
        await server.change(session, description="Another.")
        await session.call_tool("a")
        await session.call_tool("a")
        assert len(server.asked) == 2
        assert len(session.decisions.list()) == 1, "the new answer takes the old one's place"


async def test_findings_that_were_not_there_when_it_was_given_void_an_approval() -> None:
    server = Server()
    async with server.connect() as session:
        await session.call_tool("a", {"n": 1})
        await session.call_tool("a", {"n": "no number"})
        assert len(server.asked) == 2
        await session.call_tool("a", {"n": "no number"})
        await session.call_tool("a", {"n": 2})
        assert len(server.asked) == 2, "the second answer was given knowing the finding"
        await session.call_tool("a", {"n": ["something else"]})
    assert len(server.asked) == 3


@pytest.mark.parametrize("scope", ["session", "always"])
def test_a_finding_in_other_words_asks_no_one_again_and_one_of_another_value_does(
    tmp_path: Path, scope: Any
) -> None:
    def found(text: str, about: str) -> ToolCall:
        return ToolCall.example("read", findings=[Finding("hidden_text", text, about)])

    file = tmp_path / "decisions.json"
    once, asked = OneCallApproval(), found("hidden text", "a title")
    once.keep(asked, asked)
    ApprovalMemory(lambda: "one server", Decisions(file)).keep(asked, Remember("always"))
    memory = ApprovalMemory(lambda: "one server", Decisions(file))
    if scope == "session":
        memory = ApprovalMemory(lambda: "one server")
        memory.keep(asked, Remember("session"))
    reworded, other = found("its text has hidden text", "a title"), found("hidden text", "a name")
    ticket = Ticket("1", asked, 0.0, 0.0)
    assert memory.recall(reworded) and once.recall(reworded) and ticket.holds_for(reworded)
    assert not (memory.recall(other) or once.recall(other) or ticket.holds_for(other))
    of_another_kind = ToolCall.example("read", findings=[Finding("look_alike", "x", "a title")])
    assert not (memory.recall(of_another_kind) or once.recall(of_another_kind))


async def test_drift_from_the_pins_voids_an_approval_that_was_given_before(tmp_path: Path) -> None:
    server, lock, file = Server(), tmp_path / "mcp.lock", tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(pins=lock) as session:
        await session.list_tools()
    server.tools = [{**tool, "description": "Another."} for tool in server.tools]
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a")
    async with server.connect(state=Decisions(file), pins=lock) as session:
        await session.call_tool("a")
        assert len(server.asked) == 2, "no approver was shown the difference"
        await session.call_tool("a")
    assert len(server.asked) == 2


@pytest.mark.both_backends
async def test_an_approval_is_for_one_degree_of_trust(tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    for trusted in (False, True, True, lambda tool: False, lambda tool: True):
        async with server.connect(state=Decisions(file), trusted=trusted) as session:
            await session.call_tool("a")
    assert len(server.asked) == 4, "each change of trust is asked about"


@pytest.mark.parametrize(
    "other", [{"name": "other"}, {"identity": "another server"}], ids=["name", "identity"]
)
async def test_an_approval_is_for_one_server(other: dict[str, Any], tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a")
    async with server.connect(state=Decisions(file), **other) as session:
        await session.call_tool("a")
    assert len(server.asked) == 2
    assert len(Decisions(file).list()) == 2


def identity_of(server: Any) -> str:
    identity = transport_of(server).stable_identity
    assert identity is not None
    return identity


def test_the_identity_of_a_server_is_what_is_run_and_has_no_secret(tmp_path: Path) -> None:
    def run(*args: str, command: str = "/usr/bin/files", **options: Any) -> str:
        return identity_of(StdioServer(command, args, **options))

    plain = run("--root", "/srv")
    assert plain == run("--root", "/srv") == run("--root", "/srv", cwd=os.getcwd())
    others = {
        run("--root", "/etc"),
        run("--root /srv"),
        run("--root", "/srv", command="/tmp/files"),
        run("--root", "/srv", cwd=tmp_path),
        run("--root", "/srv", env={"TOKEN": "s3cret"}),
    }
    assert len(others) == 5
    assert plain not in others
    assert run(env={"TOKEN": "s3cret"}) == run(env={"TOKEN": "rotated"})
    for identity in (run("--token", "s3cret"), run(env={"TOKEN": "s3cret"})):
        assert identity.startswith("files sha256:")
        assert "s3cret" not in identity


@pytest.mark.parametrize(
    "name",
    ["DATABASE", "REGION", "DB_URL", "PROJECT", "KEY", "TOPIC", "AUTH_HOST", "SECRETS_DB"],
)
def test_a_server_is_distinguished_from_others_by_the_values_it_is_started_with(name: str) -> None:
    def run(value: str, *identity: str, **more: str) -> str:
        env = {name: value, "API_TOKEN": "1", **more}
        return identity_of(StdioServer("x", env=env, identity=identity or None))

    assert run("staging") == run("staging") != run("production")
    assert run("staging", API_TOKEN="renewed") == run("staging")
    assert run("staging", other="x") != run("staging")
    assert "staging" not in run("staging")
    assert run("staging", "API_TOKEN") == run("production", "API_TOKEN")
    assert run("staging", "API_TOKEN") != run("staging", "API_TOKEN", API_TOKEN="other")


def test_a_path_distinguishes_a_server_from_others_whatever_the_name_of_its_variable() -> None:
    def run(value: str) -> str:
        return identity_of(StdioServer("x", env={"GOOGLE_APPLICATION_CREDENTIALS": value}))

    staging, production = (os.path.abspath(f"{name}.json") for name in ("staging", "production"))
    assert run(staging) == run(staging) != run(production)
    assert run("one key") == run("another")


def test_an_empty_identity_means_that_no_value_distinguishes_a_server_from_others() -> None:
    one, other = (
        StdioServer("x", env={"DATABASE": value}, identity=[])
        for value in ("staging", "production")
    )
    assert identity_of(one) == identity_of(other)
    assert identity_of(one) != identity_of(StdioServer("x", env={"DATABASE": "staging"}))


async def test_an_approval_for_always_is_for_the_database_it_was_given_for(tmp_path: Path) -> None:
    asked: list[str] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call.tool.name)
        return Allow(remember="always")

    file = tmp_path / "decisions.json"
    for database in ("staging", "staging", "production", "staging"):
        server = scripted()
        server = replace(
            server, env={**(server.env or {}), "DATABASE": database, "PASSWORD": file.name}
        )
        async with connect(server, name="db", approval=approve, state=Decisions(file)) as session:
            await session.call_tool("echo", {})
    assert len(asked) == 2
    assert "staging" not in file.read_text()


def test_the_identity_of_a_server_is_its_url_and_has_no_secret() -> None:
    def at(url: str) -> str:
        return identity_of(HttpServer(url))

    plain = at("https://example.com/mcp")
    assert plain.startswith("https://example.com:443 sha256:")
    assert plain == at("HTTPS://Example.com:443/mcp")
    assert plain == identity_of(HttpServer("https://example.com/mcp", headers={"A": "s3cret"}))
    others = {
        at("https://example.com/other"),
        at("https://example.com:8443/mcp"),
        at("https://example.org/mcp"),
        at("http://127.0.0.1/mcp"),
        at("https://example.com/mcp?project=staging"),
        at("https://example.com/mcp?project=production"),
    }
    assert len(others | {plain}) == 7
    assert "s3cret" not in at("https://example.com/s3cret")
    assert "s3cret" not in at("https://example.com/mcp?key=s3cret")


def test_values_named_by_identity_distinguish_servers() -> None:
    def run(value: str, *names: str) -> str:
        env = {"PROJECT": value, "TOKEN": "s3cret"}
        return identity_of(StdioServer("files", env=env, identity=names))

    def at(value: str, *names: str) -> str:
        headers = {"X-Tenant": value, "Authorization": "s3cret"}
        return identity_of(HttpServer("https://example.com/mcp", headers=headers, identity=names))

    for make, name in ((run, "PROJECT"), (at, "x-tenant")):
        assert make("a") == make("b")
        assert make("a", name) == make("a", name)
        assert len({make("a"), make("a", name), make("b", name)}) == 3
        assert "s3cret" not in make("a", name)


@pytest.mark.parametrize(
    "make",
    [
        lambda names: StdioServer("files", env={"A": "1"}, identity=names),
        lambda names: HttpServer("https://example.com", headers={"A": "1"}, identity=names),
        lambda names: HttpServer("https://example.com", headers=dict, identity=names),
    ],
)
@pytest.mark.parametrize("names", ["A", ["B"], [7]])
def test_identity_names_what_there_is(make: Any, names: Any) -> None:
    with pytest.raises(ConfigError, match=r"identity=\.\.\."):
        make(names)


async def test_a_decision_for_one_project_is_not_one_for_another(tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    asked: list[str] = []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call.server)
        return Allow(remember="always")

    async with serving(Handshake()) as server:
        for project in ("staging", "production", "staging"):
            address = f"{server.url}?project={project}"
            async with connect(
                address, name="db", approval=approve, state=Decisions(file)
            ) as session:
                await session.call_tool("echo", {"text": "x"})
    assert len(asked) == 2
    assert "production" not in file.read_text()


# ------------------------------------------------------------------------ the file


async def test_an_approval_for_always_is_stored_in_the_file_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = Remember("always", where={"/n": {"min": 0}})
    for n in range(3):
        async with server.connect(state=Decisions(file), name="ours") as session:
            await session.call_tool("a", {"n": n})
            assert session.decisions.list() == ()
    assert server.asked == [{"n": 0}]
    assert file.stat().st_mode & 0o777 == 0o600
    (decision,) = Decisions(file).list()
    assert (
        decision.server,
        decision.identity,
        decision.subject,
        decision.scope,
        decision.where,
    ) == (
        "ours",
        "the server",
        "a",
        "always",
        {"/n": {"min": 0}},
    )
    assert (decision.fingerprint or "").startswith("sha256:")


async def test_what_is_revoked_elsewhere_is_asked_about_from_the_next_call_on(
    tmp_path: Path,
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a")
        await session.call_tool("a")
        assert len(server.asked) == 1
        assert Decisions(file).revoke_all() == 1
        await session.call_tool("a")
    assert len(server.asked) == 2


@pytest.mark.parametrize("mode", [0o644, 0o606, 0o660])
async def test_a_file_that_others_may_use_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    Decisions(file).add(call_of(), Remember("always"), "here")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod it to 600"):
        await Server().connect(state=Decisions(file))


async def test_a_file_that_breaks_while_it_is_used_is_a_denial(tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a")
        file.write_text("{}")
        with pytest.raises(CallDenied, match="memory made no decision") as caught:
            await session.call_tool("a")
    assert "decisions.json cannot be used" in caught.value.reason
    assert len(server.sent) == 1


async def test_an_approval_that_cannot_be_written_down_is_for_this_call_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, file = Server(), tmp_path / "gone" / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        for _ in range(2):
            await session.call_tool("a")
    assert len(server.asked) == len(server.sent) == 2
    assert "the decision is not remembered: the decisions" in caplog.text
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "there is no state= to store it in"),
        ({"identity": None, "state": Decisions()}, "cannot be distinguished"),
    ],
    ids=["no store", "no identity"],
)
async def test_always_without_a_place_to_keep_it_lasts_for_the_session_and_is_reported_once(
    options: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.remember = "always"
    async with server.connect(**options) as session:
        for tool in "aabb":
            await session.call_tool(tool)
        assert [decision.scope for decision in session.decisions.list()] == ["session", "session"]
    assert len(server.asked) == 2
    logged = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(logged) == 1
    assert logged[0].getMessage().startswith("memory: an approval for always is stored until")
    assert re.search(why, logged[0].getMessage())


async def test_a_store_in_memory_is_shared_by_the_sessions_that_are_given_it() -> None:
    server, store = Server(), Decisions()
    server.remember = "always"
    async with server.connect(state=store) as one, server.connect(state=store) as other:
        await one.call_tool("a")
        await other.call_tool("a")
        assert len(server.asked) == 1
        store.revoke_all()
        await other.call_tool("a")
    assert len(server.asked) == 2


async def test_deny_all_denies_what_was_approved_and_beneath_rules_only_the_rest() -> None:
    server, decisions = Server(), Decisions()
    server.remember = "always"
    async with server.connect(state=decisions) as session:
        await session.call_tool("a")
    async with server.connect(state=decisions, approval=deny_all) as session:
        with pytest.raises(CallDenied, match="deny_all"):
            await session.call_tool("a")
    rest = Rules([], ask=deny_all)
    async with server.connect(state=decisions, approval=rest) as session:
        await session.call_tool("a")
        with pytest.raises(CallDenied, match="deny_all"):
            await session.call_tool("b")
    assert len(server.sent) == 2


async def test_no_value_of_the_arguments_is_written_down_and_of_what_is_wrong_only_the_place(
    tmp_path: Path,
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a", {"n": "s3cret"})
    assert "s3cret" not in file.read_text()
    ((entry,),) = (row["decisions"].values() for row in text_of(file)["decisions"].values())
    assert entry["findings"] == [["broken_arguments", "/n: string"]]


@pytest.mark.parametrize("scope", ["session", "always"])
@pytest.mark.parametrize("passed", ["exact", "where"])
async def test_an_approval_for_exactly_these_arguments_covers_the_same_arguments_and_meta_only(
    scope: Any, passed: str, tmp_path: Path
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    password = {"password": "hunter2", "n": 1}
    server.remember = (
        Remember(scope, exact=True)
        if passed == "exact"
        else Remember(scope, where={"": {"equals": password}})
    )
    async with server.connect(state=Decisions(file)) as session:
        await session.call_tool("a", password, meta={"pin": "pin 1234"})
        assert len(server.asked) == 1
        await session.call_tool("a", {"n": 1, "password": "hunter2"}, meta={"pin": "pin 1234"})
        assert len(server.asked) == 1
        server.remember = None
        for arguments, meta in (
            (password, None),
            (password, {"pin": "pin 1235"}),
            (password, {"pin": 1234}),
            ({**password, "n": True}, {"pin": "pin 1234"}),
            ({**password, "more": None}, {"pin": "pin 1234"}),
            ({"password": "hunter2"}, {"pin": "pin 1234"}),
        ):
            await session.call_tool("a", arguments, meta=meta)
        (decision,) = session.decisions.list() + Decisions(file).list()
    assert len(server.asked) == 7
    assert (decision.where, decision.scope) == (None, scope)
    assert decision.exact
    if scope == "always":
        assert "hunter2" not in file.read_text()
        assert "pin 1234" not in file.read_text()
        plain = hashlib.sha256(b'["{\\"n\\":1').hexdigest()
        assert plain not in file.read_text()


async def test_digests_in_one_file_of_decisions_are_different_in_another(tmp_path: Path) -> None:
    server = Server()
    server.remember = Remember("always", exact=True)
    stored: list[Decision] = []
    for name in ("a.json", "b.json"):
        async with server.connect(
            identity=f"https://example.com:443 sha256:{'0' * 64}", state=Decisions(tmp_path / name)
        ) as session:
            for _ in range(2):
                await session.call_tool("a", {"n": 4321})
        stored += Decisions(tmp_path / name).list()
    assert len(server.asked) == 2
    one, other = stored
    assert one.exact != other.exact
    assert one.identity != other.identity
    assert one.identity.startswith("https://example.com:443 ")
    assert "0" * 64 not in one.identity


@pytest.mark.parametrize(
    "options", [{"where": {"/n": {"equals": 1}}}, {"scope": "call"}, {"exact": 1}]
)
def test_exact_goes_with_no_where_and_not_with_one_call(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="exact"):
        Remember(**{"scope": "session", "exact": True, **options})


# -------------------------------------------------------------------------- whose call


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_remembered_decision_holds_only_for_calls_of_an_equal_context(
    scope: str, tmp_path: Path
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = scope
    contexts: list[Any] = [None, "ana", "bob", 1, True, "1", 2.5, ("acme", 1), ("acme", True), ()]
    async with server.connect(state=Decisions(file)) as session:
        for context in contexts:
            await session.call_tool("a", context=context)
        assert len(server.asked) == len(contexts)
        for context in contexts:
            await session.call_tool("a", {"n": 1}, context=context)
        assert len(server.asked) == len(contexts)
        stored = (*session.decisions.list(), *Decisions(file).list())
        assert [repr(decision.context) for decision in stored] == [repr(one) for one in contexts]
    async with server.connect(state=Decisions(file)) as session:
        for context in contexts:
            await session.call_tool("a", context=context)
    assert len(server.asked) == len(contexts) * (1 if scope == "always" else 2)


class User:
    """A context that equals others of the same name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@pytest.mark.parametrize(
    ("context", "equal"),
    [
        (User("ana"), User("ana")),
        (("acme", User("ana")), ("acme", User("ana"))),
        (frozenset("a"), frozenset("a")),
        (("acme", None), ("acme", None)),
        (b"ana", b"ana"),
        (float("inf"), float("inf")),
    ],
)
async def test_a_context_that_cannot_be_written_down_is_remembered_for_the_session_only(
    context: Any, equal: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, file = Server(), tmp_path / "decisions.json"
    server.remember = "always"
    async with server.connect(state=Decisions(file)) as session:
        for one in (context, equal, context):
            await session.call_tool("a", context=one)
        assert len(server.asked) == 1
        assert [decision.scope for decision in session.decisions.list()] == ["session"]
        await session.call_tool("a", context=User("bob"))
    assert len(server.asked) == 2
    assert "its context is not text, a number, a boolean or a tuple of them" in caplog.text
    assert not file.exists()


async def test_an_approval_of_one_call_that_is_made_again_is_for_the_same_context() -> None:
    once, call = OneCallApproval(), call_of()
    once.keep(call, call)
    assert once.recall(call) is not None
    assert once.recall(replace(call, context="ana")) is None


# ------------------------------------------------------------------------------ frozen


async def test_an_approval_of_one_call_keeps_the_arguments_as_they_were_approved() -> None:
    mine: dict[str, Any] = {"path": "/tmp", "deep": {"n": 1}}
    once, call = OneCallApproval(), call_of()
    gate = Gate(lambda _: Allow(mine, remember="call"), 5)
    first = await gate.decide(call, once)
    mine["path"] = "/etc"
    mine["deep"]["n"] = 2
    again = await gate.decide(call, once)
    assert again.source == "memory"
    assert (
        again.request.arguments_json
        == first.request.arguments_json
        == canonical({"path": "/tmp", "deep": {"n": 1}})
    )


# --------------------------------------------------------------- whose, and how long


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_remembered_decision_states_whose_it_is(scope: Any, tmp_path: Path) -> None:
    server, file = Server(), tmp_path / "decisions.json"

    def approve(call: ToolCall) -> Allow:
        return Allow(remember=scope, by="ana\u202e")

    async with server.connect(approval=approve, state=Decisions(file)) as session:
        await session.call_tool("a")
        stored = session.decisions.list() if scope == "session" else Decisions(file).list()
        assert [decision.by for decision in stored] == ["ana\\u{202e}"]


async def test_an_approval_for_some_time_ends_then(monkeypatch: pytest.MonkeyPatch) -> None:
    server, now = Server(), 1_700_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    server.remember = Remember("session", seconds=60)
    async with server.connect() as session:
        await session.call_tool("a")
        now += 59
        await session.call_tool("a")
        assert len(server.asked) == 1
        assert len(session.decisions.list()) == 1
        now += 1
        assert session.decisions.list() == ()
        await session.call_tool("a")
        assert len(server.asked) == 2


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "60", True])
def test_a_time_that_cannot_be_stored_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="seconds"):
        Remember("session", seconds=seconds)
    with pytest.raises(ConfigError, match="seconds"):
        Remember("call", seconds=60)
