"""A call that a script makes is asked about as one, and an approval covers only what it states."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    ApprovalRequest,
    CallPending,
    ConfigError,
    Deny,
    FileState,
    Host,
    MemoryServer,
    Rule,
    Rules,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import Decisions, Remember, Script
from mcp_client.approval.remembered import ApprovalMemory
from mcp_client.errors import UnknownTool
from tests.support.starting import scripted

CODE = "for n in range(3):\n    await files.delete(n=n)"
SCRIPT = Script("run-1", CODE, calls=2, line=2)
SCRIPTS = [Script("r1", CODE), Script("r2", CODE)]
HERE = "a server"


def call_by(script: Script | None = SCRIPT, **options: Any) -> ToolCall:
    return ToolCall.example("delete", {"n": 1}, script=script, **options)


def next_of(script: Script) -> Script:
    return replace(script, calls=script.calls + 1)


class Server:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def __call__(self, message: dict[str, Any], send: Any) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in "ab"]}
        if message["method"] == "tools/call":
            self.sent.append(message["params"]["arguments"])
            return {"content": []}
        return NotImplemented


async def run(target: Session | Host, script: Script, tool: str = "a", *, times: int = 1) -> None:
    for calls in range(times):
        await target._call_as_code(tool, {"n": calls}, {}, replace(script, calls=calls))


# ----------------------------------------------------------------------- what is shown


def test_the_facts_of_a_call_state_which_script_makes_it_and_where() -> None:
    reported = {fact.kind: fact.text for fact in call_by().facts()}
    assert reported["origin"] == "a script, which is shown here, not the host"
    assert reported["script_calls"] == "this is call 3 of the script"
    assert reported["script_line"] == "await files.delete(n=n)"
    assert reported["script"] == "  1  for n in range(3):\n> 2      await files.delete(n=n)"
    assert {"script", "script_line"}.isdisjoint(fact.kind for fact in call_by(None).facts())


@pytest.mark.parametrize("line", [None, 0, 3, -1])
def test_a_line_that_is_not_known_is_not_marked(line: int | None) -> None:
    script = replace(SCRIPT, line=line)
    assert script.calling_line is None
    assert not any(row.startswith(">") for row in script.listing().split("\n"))


def test_a_line_of_the_script_cannot_look_like_the_one_that_calls() -> None:
    script = Script("r", "> 1  harmless()\n> 2  harmless()\nawait files.delete()", line=3)
    marked = [row for row in script.listing().split("\n") if row.startswith(">")]
    assert marked == ["> 3  await files.delete()"]


def test_a_call_of_a_script_has_one_more_choice() -> None:
    assert call_by().choices() == ("once", "script", "session", "hour", "always", "exact")
    assert "script" not in call_by(None).choices()
    assert replace(call_by(), edited=True).choices() == ("once",)
    assert "made by scripts, in this run" in call_by().coverage(Remember("script"))
    assert "for 1 minutes, at most until it ends" in call_by().coverage(
        Remember("script", seconds=60)
    )
    assert "made by scripts, until the session ends" in call_by().coverage(Remember("session"))


# ------------------------------------------------------------------ what an approval is bound to


def test_the_key_of_a_call_is_for_this_place_of_this_run() -> None:
    calls = [
        call_by(),
        call_by(None),
        call_by(next_of(SCRIPT)),
        call_by(replace(SCRIPT, id="run-2")),
        call_by(replace(SCRIPT, code=CODE + " ")),
        call_by(replace(SCRIPT, line=1)),
        ToolCall.example("delete", {"n": 2}, script=SCRIPT),
    ]
    assert len({call.key for call in calls}) == len(calls)
    assert call_by().key == call_by().key


def test_a_call_of_a_script_is_the_same_after_json() -> None:
    call = call_by(context=("ana", 1))
    found = ApprovalRequest.from_json(json.loads(json.dumps(call.to_json())))
    assert (found.key, found.origin, found.script) == (call.key, "code", SCRIPT)
    assert found.facts() == call.facts()


@pytest.mark.parametrize(
    "change",
    [
        {"script": None},
        {"script": 1},
        {"script": {}},
        {"script": {**SCRIPT.to_json(), "id": "run-2"}},
        {"script": {**SCRIPT.to_json(), "code": "await files.read()"}},
        {"script": {**SCRIPT.to_json(), "calls": 0}},
        {"script": {**SCRIPT.to_json(), "line": "2"}},
        {"script": {**SCRIPT.to_json(), "calls": True}},
        {"script": {**SCRIPT.to_json(), "more": 1}},
        {"origin": "host"},
        {"origin": "any"},
    ],
)
def test_a_stored_call_whose_script_was_changed_is_not_read(change: dict[str, Any]) -> None:
    value = {**json.loads(json.dumps(call_by().to_json())), **change}
    with pytest.raises(ValueError, match=r"."):
        ApprovalRequest.from_json(value)


@pytest.fixture(params=["the session", "a file", "a directory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Decisions]:
    own = Decisions()
    stores: dict[str, Callable[[], Decisions]] = {
        "the session": lambda: own,
        "a file": lambda: Decisions(tmp_path / "decisions.json"),
        "a directory": lambda: FileState(tmp_path / "state").decisions,
    }
    return stores[request.param]


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_an_approval_of_a_run_is_in_the_store_for_a_day_or_as_long_as_it_states(
    seconds: float | None, tmp_path: Path
) -> None:
    memory = ApprovalMemory(lambda: HERE, Decisions(tmp_path / "decisions.json"))
    memory.keep(call_by(), Remember("script", seconds=seconds))
    assert memory.session.is_empty
    (stored,) = Decisions(tmp_path / "decisions.json").list()
    assert stored.expires_at == pytest.approx(stored.decided_at + (seconds or 86_400))


def test_an_approval_for_a_script_is_for_this_tool_in_this_run(
    opened: Callable[[], Decisions],
) -> None:
    opened().add(call_by(), Remember("script"), HERE, "ana")
    later = call_by(replace(SCRIPT, calls=9, line=1))
    assert opened().find(later, HERE) is not None
    for other in (
        call_by(replace(SCRIPT, id="run-2")),
        call_by(replace(SCRIPT, code=f"{CODE}\n")),
        call_by(None),
        replace(call_by(None), origin="code"),
        replace(call_by(), origin="app"),
        ToolCall.example("other", script=SCRIPT),
        call_by(context="bo"),
    ):
        assert opened().find(other, HERE) is None
    (stored,) = opened().list()
    assert (stored.scope, stored.script, stored.origin, stored.by) == (
        "script",
        "run-1",
        "code",
        "ana",
    )
    assert opened().revoke(stored.id)
    assert opened().find(later, HERE) is None


def test_two_runs_have_an_approval_each(opened: Callable[[], Decisions]) -> None:
    for id in ("run-1", "run-2", "run-1"):
        opened().add(call_by(replace(SCRIPT, id=id)), Remember("script"), HERE)
    assert sorted(str(one.script) for one in opened().list()) == ["run-1", "run-2"]


@pytest.mark.parametrize("scope", ["session", "always"])
def test_what_is_remembered_of_a_scripts_call_is_for_scripts_only(
    scope: Any, opened: Callable[[], Decisions]
) -> None:
    opened().add(call_by(), Remember(scope), HERE)
    assert opened().find(call_by(replace(SCRIPT, id="run-2")), HERE) is not None
    assert opened().find(call_by(None), HERE) is None


@pytest.mark.parametrize("times", [1, 3])
async def test_an_approval_for_the_script_is_asked_for_once_in_each_run(times: int) -> None:
    asked: list[tuple[str, str]] = []

    def approve(call: ApprovalRequest) -> Allow:
        assert call.script is not None
        asked.append((call.script.id, call.subject))
        return Allow(remember="script")

    server = Server()
    async with connect(MemoryServer(server), name="s", approval=approve) as session:
        for id in ("r1", "r2"):
            for tool in "ab":
                await run(session, Script(id, CODE), tool, times=times)
    assert asked == [("r1", "a"), ("r1", "b"), ("r2", "a"), ("r2", "b")]
    assert len(server.sent) == 4 * times


@pytest.mark.parametrize("kind", ["session", "host"])
async def test_an_approval_for_a_script_is_forgotten_when_its_run_is_over(kind: str) -> None:
    server = MemoryServer(Server())

    def approve(call: ApprovalRequest) -> Allow:
        return Allow(remember="script" if call.script == SCRIPTS[0] else "session")

    async def check(target: Session | Host, tool: str, session: Session) -> None:
        for script, name in zip(SCRIPTS, "ab", strict=True):
            await target._call_as_code(f"{tool}{name}", {}, {}, script)
        assert [one.script for one in session.decisions.list()] == ["r1", None]
        target._for_scripts.end_run("r2")
        assert len(session.decisions.list()) == 2
        target._for_scripts.end_run("r1")
        assert [one.script for one in session.decisions.list()] == [None]

    if kind == "session":
        async with connect(server, name="s", approval=approve) as session:
            await check(session, "", session)
    else:
        async with Host({"s": server}, approval=approve) as host:
            await check(host, "s__", await host.session("s"))


async def test_an_approval_for_the_script_given_to_a_call_of_the_host_is_for_this_call() -> None:
    asked = []

    def approve(call: ApprovalRequest) -> Allow:
        asked.append(call.id)
        return Allow(remember="script")

    async with connect(MemoryServer(Server()), name="s", approval=approve) as session:
        for _ in range(2):
            await session.call_tool("a", {})
        assert session.decisions.list() == ()
    assert len(asked) == 2


@pytest.mark.slow
async def test_an_approval_for_the_script_holds_in_another_process_that_goes_on_with_it(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"

    async def goes_on(id: str, times: int) -> None:
        queue = ApprovalQueue(decisions=FileState(state).decisions, wait=0)
        async with connect(scripted(), name="s", approval=queue, state=state) as session:
            await run(session, Script(id, CODE), "echo", times=times)

    with pytest.raises(CallPending) as pending:
        await goes_on("r1", 1)
    page = ApprovalQueue(decisions=FileState(state).decisions, wait=0)
    page.decide(pending.value.ticket, Allow(remember="script"), by="ana")
    for _ in range(2):
        await goes_on("r1", 3)
    with pytest.raises(CallPending):
        await goes_on("r2", 1)
    (stored,) = [one for one in FileState(state).decisions.list() if one.scope == "script"]
    assert stored.expires_at is not None
    assert stored.expires_at - stored.decided_at == pytest.approx(86_400)


async def test_a_host_makes_the_calls_of_scripts_through_the_gate_of_each_server() -> None:
    asked: list[tuple[str, str, int]] = []

    def approve(call: ApprovalRequest) -> Allow | Deny:
        assert call.script is not None
        asked.append((call.server, call.origin, call.script.calls))
        return Allow()

    servers = {"one": MemoryServer(Server()), "two": MemoryServer(Server())}
    async with Host(servers, approval=approve) as host:
        await run(host, SCRIPT, "one__a", times=2)
        await run(host, SCRIPT, "two__b")
    assert asked == [("one", "code", 0), ("one", "code", 1), ("two", "code", 0)]


async def test_the_audit_reports_of_each_call_which_run_made_it_but_not_its_code() -> None:
    records: list[Any] = []
    async with connect(
        MemoryServer(Server()), name="s", approval=allow_all, audit=records.append
    ) as session:
        await run(session, SCRIPT, times=2)
        with pytest.raises(UnknownTool):
            await run(session, SCRIPT, "gone")
        await session.call_tool("a")
    opened = [one for one in records if one["event"] == "opened"]
    reported = [[one.get(name) for name in ("origin", "script", "script_call")] for one in opened]
    assert reported == [["code", "run-1", number] for number in (1, 2, 1)] + [[None] * 3]
    assert [one.get("script_line") for one in opened] == [2, 2, 2, None]
    assert "range" not in json.dumps(records)
    assert "delete" not in json.dumps(records)


@pytest.mark.parametrize("wrong", ["await files.delete()", {}, 1, Script])
def test_an_example_takes_a_script_only(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="give a Script"):
        call_by(wrong)


async def test_a_rule_that_names_no_origin_lets_no_script_call() -> None:
    for rule, asks in (
        (Rule("allow", tool="*"), True),
        (Rule("allow", tool="*", origin="host"), True),
        (Rule("allow", tool="*", origin="app"), True),
        (Rule("allow", tool="*", origin="code"), False),
        (Rule("allow", tool="*", origin="any"), False),
    ):
        assert Rules([rule]).explain(call_by()).outcome == ("ask" if asks else "allow")
    assert Rules([Rule("deny", tool="*")]).explain(call_by()).outcome == "deny"


@pytest.mark.parametrize(
    "wrong", [{"scope": "script", "seconds": 0}, {"scope": "scripts"}, {"scope": "Script"}]
)
def test_a_wrong_yes_for_a_script_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="emember"):
        Remember(**wrong)
