"""A lock file of tools: first use writes it, drift is reported, and no entry is lost."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    FileState,
    HttpServer,
    MemoryServer,
    Pins,
    StdioServer,
    Tool,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.auth import BearerToken
from mcp_client.errors import UnknownTool
from mcp_client.protocol.canonical_json import sha256
from mcp_client.state import MemoryState, State
from mcp_client.transports.memory import MemoryTransport
from mcp_client.transports.stdio import StdioTransport
from tests.support.http_apps import Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).parents[2]
OBJECT = {"type": "object"}


class Server:
    """Offers ``tools`` and counts the calls."""

    def __init__(self, **descriptions: str) -> None:
        self.tools = [
            {"name": name, "description": text, "inputSchema": OBJECT}
            for name, text in descriptions.items()
        ]
        self.calls: list[str] = []
        self.asked = 0

    def __call__(self, message: dict[str, Any]) -> Any:
        self.asked += 1
        match message["method"]:
            case "tools/list":
                return {"tools": self.tools}
            case "tools/call":
                self.calls.append(message["params"]["name"])
                return {"content": []}
        return NotImplemented


class Person:
    """Decides as a test sets, and stores the findings that it received."""

    def __init__(self, decision: Allow | Deny) -> None:
        self.decision = decision
        self.findings: list[tuple[str, ...]] = []

    async def __call__(self, call: ToolCall) -> Allow | Deny:
        self.findings.append(tuple(map(str, call.findings)))
        return self.decision


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "mcp.lock"


async def first_use(lock: Path, **descriptions: str) -> None:
    async with connect(MemoryServer(Server(**descriptions)), name="files", pins=lock) as session:
        assert (await session.list_tools()).findings == ()


async def test_first_use_writes_down_what_there_is_and_finds_nothing(lock: Path) -> None:
    person = Person(Allow())
    server = Server(read="Reads.", write="Writes.")
    async with connect(MemoryServer(server), name="files", pins=str(lock), approval=person) as s:
        await s.call_tool("read")
        fingerprint = (await s.get_tool("read")).fingerprint
    book = json.loads(lock.read_text())
    assert (book["format"], book["version"]) == ("mcp-client lock file", 1)
    assert list(book["pins"]["files"]["tools"]) == ["read", "write"]
    assert book["pins"]["files"]["tools"]["read"] == {
        "fingerprint": fingerprint,
        "definition": {"name": "read", "description": "Reads.", "inputSchema": OBJECT},
    }
    assert person.findings == [()]


async def test_the_file_is_the_same_whatever_the_order_and_not_written_again(lock: Path) -> None:
    await first_use(lock, b="B", a="A")
    text, stamp = lock.read_text(), lock.stat().st_mtime_ns
    await first_use(lock, a="A", b="B")
    assert (lock.read_text(), lock.stat().st_mtime_ns) == (text, stamp)
    assert text.isascii()
    assert text.endswith("}\n")
    assert text.index('"a"') < text.index('"b"')
    assert [path.name for path in lock.parent.iterdir()] == ["mcp.lock"], "nothing is left behind"


async def test_invisible_characters_are_visible_in_the_file(lock: Path) -> None:
    await first_use_with(lock, "in\u200bvisible \ud800")
    assert "in\\u200bvisible \\ud800" in lock.read_text()
    Pins(lock)._read()


async def first_use_with(lock: Path, description: str) -> None:
    async with connect(MemoryServer(Server(a=description)), name="files", pins=lock) as session:
        await session.list_tools()


@pytest.mark.both_backends
async def test_the_approver_is_shown_old_beside_new_and_yes_for_always_writes_it_down(
    lock: Path,
) -> None:
    await first_use(lock, read="Reads a file.")
    server = Server(read="Reads a file and mails it.")
    server.tools[0]["inputSchema"] = {"type": "object", "properties": {"to": {"type": "string"}}}
    person = Person(Allow(remember="always"))
    pins = Pins(lock)
    async with connect(MemoryServer(server), name="files", pins=pins, approval=person) as session:
        listed = (await session.list_tools()).findings
        assert [drift.kind for drift in pins.drift("files")] == ["changed"]
        assert pins.drift("files")[0].diff.splitlines() == [
            "read: changed",
            "  description",
            "    was 'Reads a file.'",
            "    now 'Reads a file and mails it.'",
            "  inputSchema/properties",
            "    was absent",
            '    now {"to": {"type": "string"}}',
        ]
        await session.call_tool("read")
        session.decisions.revoke_all()
        await session.call_tool("read")
    first, second = person.findings
    assert first == (
        "this tool is not what it was when mcp.lock was written",
        "description was 'Reads a file.' and is now 'Reads a file and mails it.'",
        'inputSchema/properties was absent and is now {"to": {"type": "string"}}',
    )
    assert [finding.text.partition(": ")[2] for finding in listed] == list(first)
    assert second == (), "it was approved, and is what the file has"
    assert pins.drift("files") == ()
    assert "mails it" in lock.read_text()


@pytest.mark.parametrize("remember", [None, "call", "session"])
async def test_yes_this_once_does_not_accept_a_drift_permanently(lock: Path, remember: Any) -> None:
    await first_use(lock, read="Reads a file.")
    before = lock.read_text()
    server, person = Server(read="Reads and mails."), Person(Allow(remember=remember))
    pins = Pins(lock)
    for _ in range(2):
        async with connect(
            MemoryServer(server), name="files", pins=pins, approval=person
        ) as session:
            await session.call_tool("read")
            await session.call_tool("read")
    assert server.calls == ["read"] * 4
    assert len(person.findings) == (2 if remember == "session" else 4)
    assert all(
        displayed[0].startswith("this tool is not what it was") for displayed in person.findings
    )
    assert lock.read_text() == before


async def test_yes_for_always_to_edited_arguments_does_not_accept_a_drift(lock: Path) -> None:
    await first_use(lock, read="Reads a file.")
    before = lock.read_text()
    person = Person(Allow({"n": 1}, remember="always"))
    server = Server(read="Other.")
    async with connect(MemoryServer(server), name="files", pins=lock, approval=person) as session:
        await session.call_tool("read")
    assert server.calls == ["read"]
    assert lock.read_text() == before


async def test_no_leaves_the_file_and_the_next_question_shows_it_again(lock: Path) -> None:
    await first_use(lock, read="Reads.")
    before = lock.read_text()
    server, person = Server(read="Other."), Person(Deny("no"))
    async with connect(MemoryServer(server), name="files", pins=lock, approval=person) as session:
        for _ in range(2):
            with pytest.raises(CallDenied):
                await session.call_tool("read")
    assert person.findings[0] == person.findings[1] != ()
    assert lock.read_text() == before
    assert server.calls == []


async def test_a_long_text_is_shown_from_where_it_differs(lock: Path) -> None:
    await first_use(lock, read="word " * 100 + "good")
    person = Person(Allow())
    server = Server(read="word " * 100 + "evil\u202e")
    async with connect(MemoryServer(server), name="files", pins=lock, approval=person) as session:
        await session.call_tool("read")
    (finding,) = [text for text in person.findings[0] if text.startswith("description")]
    assert "good" in finding
    assert "evil\\u{202e}" in finding
    assert len(finding) < 300


async def test_a_new_tool_and_one_that_has_gone_are_reported(lock: Path) -> None:
    await first_use(lock, old="Old.", stays="Stays.")
    person = Person(Allow())
    server = Server(stays="Stays.", new="New.")
    async with connect(MemoryServer(server), name="files", pins=lock, approval=person) as session:
        assert tuple(map(str, (await session.list_tools()).findings)) == (
            "tool 'new': this tool is not in mcp.lock: it came after the file was written",
            "tool 'old': mcp.lock has this tool, and the server does not offer it any more",
        )
        await session.call_tool("stays")
        await session.call_tool("new")
        with pytest.raises(UnknownTool, match=r"mcp\.lock has it"):
            await session.call_tool("old")
    assert [len(displayed) for displayed in person.findings] == [0, 1]


async def test_refuse_denies_before_anybody_is_asked(lock: Path) -> None:
    await first_use(lock, read="Reads.", stays="Stays.")
    person, server = Person(Allow()), Server(read="Other.", stays="Stays.", new="New.")
    pins = Pins(lock, policy="refuse")
    async with connect(MemoryServer(server), name="files", pins=pins, approval=person) as session:
        for name in ("read", "new"):
            with pytest.raises(CallDenied) as caught:
                await session.call_tool(name)
            assert "mcp.lock" in caught.value.reason
            assert (caught.value.server, caught.value.tool) == ("files", name)
        assert person.findings == server.calls == []  # type: ignore[comparison-overlap]
        await session.call_tool("stays")
        pins.accept("files", await session.list_tools())
        await session.call_tool("read")
    assert server.calls == ["stays", "read"]


async def test_accept_follows_the_server_and_reports_it_once(
    lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await first_use(lock, read="Reads.", old="Old.")
    person = Person(Allow())
    pins = Pins(lock, policy="accept")
    async with connect(
        MemoryServer(Server(read="Other.")), name="files", pins=pins, approval=person
    ) as session:
        assert len((await session.list_tools()).findings) == 3
        await session.call_tool("read")
        assert (await session.list_tools(refresh=True)).findings == ()
    assert person.findings == [()]
    (line,) = [one for one in caplog.messages if "follows the server" in one]
    assert line.startswith("files: mcp.lock follows the server: ") and "'Other.'" in line
    assert list(json.loads(lock.read_text())["pins"]["files"]["tools"]) == ["read"]


async def test_each_server_has_its_own_entry_in_one_file(lock: Path) -> None:
    pins = Pins(lock)
    for name in ("b", "a"):
        async with connect(MemoryServer(Server(read=name)), name=name, pins=pins) as session:
            assert (await session.list_tools()).findings == ()
    assert list(json.loads(lock.read_text())["pins"]) == ["a", "b"]


def written(**entry: Any) -> str:
    whole = {"format": "mcp-client lock file", "version": 1, "pins": {"files": entry}}
    return json.dumps(whole)


def tool(**changes: Any) -> dict[str, Any]:
    read = {"fingerprint": "sha256:0", "definition": {"name": "read"}, **changes}
    return {"read": read}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "servers": {}}',
        written()[:-3],
        written().replace("1", "2"),
        written().replace("1", "true"),
        written(tools=[]),
        written(tools={"read": 1}),
        written(tools=tool()),
        written(tools=tool(definition={"name": "other"})),
        written(tools=tool(definition=None)),
        written(skills=[]),
        written(skills={"skill://a": {}}),
        written(skills={"skill://a": {"file": 1}}),
        written(identity=1),
        written(more={}),
        "[" * 100_000,
        "<<<<<<< HEAD\n{}\n",
    ],
)
async def test_a_corrupted_file_is_a_configuration_error_and_nothing_is_started(
    lock: Path, text: str
) -> None:
    lock.write_text(text)
    server = Server(read="Reads.")
    with pytest.raises(ConfigError, match="lock file"):
        async with connect(MemoryServer(server), name="files", pins=lock):
            pass
    assert server.asked == 0
    assert lock.read_text() == text, "it is not overwritten"


async def test_a_file_that_is_corrupted_later_lets_no_call_through(lock: Path) -> None:
    server = Server(read="Reads.")
    async with connect(
        MemoryServer(server), name="files", pins=lock, approval=allow_all
    ) as session:
        await session.list_tools()
        lock.write_text("{")
        with pytest.raises(ConfigError):
            await session.list_tools(refresh=True)


async def test_a_file_that_cannot_be_written_is_reported_as_such(tmp_path: Path) -> None:
    lock = tmp_path / "missing" / "mcp.lock"
    async with connect(MemoryServer(Server(a="A")), name="files", pins=lock) as session:
        with pytest.raises(ConfigError, match="cannot be written"):
            await session.list_tools()


@pytest.mark.parametrize("wrong", [7, True, {}, b"mcp.lock"])
def test_anything_but_a_path_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="pins="):
        connect(MemoryServer(Server()), pins=wrong)


def test_an_unknown_policy_is_refused_at_once(lock: Path) -> None:
    with pytest.raises(ConfigError, match="policy"):
        Pins(lock, policy="maybe")  # type: ignore[arg-type]


async def test_a_link_to_the_file_stays_a_link_and_the_mode_stays(lock: Path) -> None:
    real = lock.parent / "real.json"
    await first_use(real, a="A")
    real.chmod(0o640)
    lock.symlink_to(real)
    pins = Pins(lock, policy="accept")
    async with connect(MemoryServer(Server(a="B")), name="files", pins=pins) as session:
        await session.list_tools()
    assert lock.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert '"B"' in real.read_text()


WRITER = """
import sys
from mcp_client import Pins, Tool
pins, me = Pins(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for number in range(20):
    name = f"{me}-{number}"
    pins._compare(name, [Tool("a", name, False, {"name": "a", "inputSchema": {}})])
"""


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(lock: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(lock), str(number)], stdin=subprocess.PIPE, cwd=ROOT
        )
        for number in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    assert [process.wait(60) for process in started] == [0] * 4
    assert len(Pins(lock)._read()) == 80
    assert [path.name for path in lock.parent.iterdir()] == ["mcp.lock"]


def test_a_reader_sees_the_old_file_or_the_new_one_and_never_a_part(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = Pins(lock)
    pins.accept("a", [])
    before = lock.read_text()

    def crash(*names: Any, **directories: Any) -> None:
        assert lock.read_text() == before
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(ConfigError, match="No space left"):
        pins.accept("b", [])
    assert lock.read_text() == before
    assert [path.name for path in lock.parent.iterdir()] == ["mcp.lock"]


async def test_a_definition_that_is_still_as_written_is_not_drift_though_a_newer_one_is(
    lock: Path,
) -> None:
    old, new = (
        Tool("a", "files", False, {"name": "a", "description": text, "inputSchema": {}})
        for text in ("Old.", "New.")
    )
    pins = Pins(lock)
    assert pins._compare("files", [old])[0] == []
    assert pins._compare("files", [new])[0] != []
    assert await pins._drift_of(new)
    assert not await pins._drift_of(old), "a call goes by what it was built on"


def test_waiting_for_a_lock_that_is_never_released_is_bounded(
    lock: Path, without_pauses: None
) -> None:
    held = os.open(lock.with_name(f".{lock.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process"):
            Pins(lock).accept("a", [])
    finally:
        os.close(held)


# --------------------------------------------------------- compared at the time of the call


async def test_refuse_compares_the_calls_own_definition_whatever_another_session_listed(
    lock: Path,
) -> None:
    await first_use(lock, read="Reads.")
    pins = Pins(lock, policy="refuse")
    drifted, sound = Server(read="Mails."), Server(read="Reads.")
    async with (
        connect(MemoryServer(drifted), name="files", pins=pins, approval=allow_all) as one,
        connect(MemoryServer(sound), name="files", pins=pins, approval=allow_all) as other,
    ):
        await one.list_tools()
        await other.list_tools()
        with pytest.raises(CallDenied, match=r"was 'Reads\.' and is now 'Mails\.'"):
            await one.call_tool("read")
        await other.call_tool("read")
        await one.list_tools(refresh=True)
        await other.call_tool("read")
    assert drifted.calls == []
    assert sound.calls == ["read", "read"]


@pytest.mark.both_backends
async def test_a_file_changed_by_another_process_counts_from_the_next_call_on(lock: Path) -> None:
    await first_use(lock, read="Reads.")
    server, pins = Server(read="Reads."), Pins(lock, policy="refuse")
    async with connect(
        MemoryServer(server), name="files", pins=pins, approval=allow_all
    ) as session:
        await session.call_tool("read")
        Pins(lock).accept("files", [Tool("read", "files", False, {"name": "read"})])
        with pytest.raises(CallDenied, match="this tool is not what it was"):
            await session.call_tool("read")
    assert server.calls == ["read"]


@pytest.mark.parametrize("policy", ["refuse", "ask"])
@pytest.mark.parametrize("listed_again", [False, True])
async def test_a_lock_file_deleted_in_mid_session_is_drift(
    lock: Path, policy: Any, listed_again: bool
) -> None:
    await first_use(lock, read="Reads.")
    server, person = Server(read="Reads."), Person(Allow())
    pins = Pins(lock, policy=policy)
    async with connect(MemoryServer(server), name="files", pins=pins, approval=person) as session:
        await session.call_tool("read")
        lock.unlink()
        if listed_again:
            (finding,) = (await session.list_tools(refresh=True)).findings
            assert "mcp.lock does not have this server" in str(finding)
        if policy == "refuse":
            with pytest.raises(CallDenied, match=r"mcp\.lock does not have this server"):
                await session.call_tool("read")
        else:
            await session.call_tool("read")
            assert "mcp.lock does not have this server" in person.findings[-1][0]
        assert not lock.exists(), "it is not written again"
        pins.accept("files", await session.list_tools())
        await session.call_tool("read")
    assert len(server.calls) == (2 if policy == "refuse" else 3)
    assert person.findings[-1] == ()


async def test_refuse_reports_once_that_it_wrote_down_what_it_had_not_seen(
    lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pins = Pins(lock, policy="refuse")
    async with connect(
        MemoryServer(Server(a="A", b="B")), name="flies", pins=pins, approval=allow_all
    ) as session:
        (finding,) = (await session.list_tools()).findings
        assert finding.kind == "not_pinned"
        assert str(finding) == (
            "mcp.lock did not have the server 'flies': its tools were stored unreviewed "
            "(2 of them); Pins(create=False) refuses instead"
        )
        assert (await session.list_tools(refresh=True)).findings == ()
        await session.call_tool("a")
    assert str(lock) in caplog.text


async def test_without_create_a_missing_file_is_a_configuration_error(lock: Path) -> None:
    server = Server(a="A")
    with pytest.raises(ConfigError, match=r"does not exist .* Pins\(create=False\)"):
        await connect(MemoryServer(server), name="files", pins=Pins(lock, create=False))
    assert server.asked == 0
    assert not lock.exists()


@pytest.mark.parametrize("policy", ["refuse", "ask", "accept"])
async def test_without_create_a_server_the_file_does_not_have_is_drift(
    lock: Path, policy: Any
) -> None:
    await first_use(lock, read="Reads.")
    before = lock.read_text()
    server, person = Server(read="Reads."), Person(Allow())
    pins = Pins(lock, policy=policy, create=False)
    async with connect(MemoryServer(server), name="flies", pins=pins, approval=person) as session:
        (finding,) = (await session.list_tools()).findings
        assert "mcp.lock does not have this server" in str(finding)
        if policy == "refuse":
            with pytest.raises(CallDenied, match="does not have this server"):
                await session.call_tool("read")
        else:
            await session.call_tool("read")
    assert lock.read_text() == before


@pytest.mark.parametrize("odd", [None, 1, "no"])
def test_create_is_true_or_false(lock: Path, odd: Any) -> None:
    with pytest.raises(ConfigError, match="create="):
        Pins(lock, create=odd)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
async def test_a_lock_file_that_others_may_write_is_refused(lock: Path, mode: int) -> None:
    await first_use(lock, a="A")
    lock.chmod(mode)
    with pytest.raises(ConfigError, match="others may write it"):
        await connect(MemoryServer(Server(a="A")), name="files", pins=lock)


# -------------------------------------------------------------------- which server it is


async def test_tools_pinned_for_one_url_are_drift_at_another(lock: Path) -> None:
    class At(MemoryTransport):
        stable_identity: str = ""

    def at(project: str, server: Server) -> At:
        transport = At(server)
        transport.stable_identity = f"https://db.example:443 sha256:{sha256(project)}"
        return transport

    server = Server(read="Reads.")
    for project in ("staging", "staging", "production"):
        pins = Pins(lock, policy="refuse")
        transport = at(project, server)
        async with connect(transport, name="db", pins=pins, approval=allow_all) as session:
            if project == "staging":
                await session.call_tool("read")
                continue
            with pytest.raises(CallDenied, match="for another URL"):
                await session.call_tool("read")
            pins.accept("db", await session.list_tools())
            await session.call_tool("read")
    assert server.calls == ["read"] * 3
    assert sha256("staging") not in lock.read_text(), "a plain digest of a key could be guessed"


def test_a_stdio_server_is_pinned_by_named_values_and_not_by_paths() -> None:
    def pinned(command: str, value: str, *names: str) -> str | None:
        server = StdioServer(command, env={"PROJECT": value}, identity=names)
        return StdioTransport(server).pinned_identity

    assert pinned("/srv/ana/server", "a") is pinned("/srv/bob/server", "b") is None
    assert pinned("/x", "a", "PROJECT") == pinned("/y", "a", "PROJECT")
    assert pinned("/x", "a", "PROJECT") != pinned("/x", "b", "PROJECT")


@pytest.mark.parametrize("where", ["memory", "folder"])
async def test_a_state_keeps_pins_and_hands_them_out(where: str, tmp_path: Path) -> None:
    state: State = MemoryState() if where == "memory" else FileState(tmp_path / "state")
    server = Server(read="Reads.")
    async with connect(MemoryServer(server), name="files", pins=state.pins) as session:
        assert (await session.list_tools()).findings == ()
    again = Pins(state, policy="refuse")
    changed = MemoryServer(Server(read="Reads and mails."))
    async with connect(changed, name="files", pins=again, approval=allow_all) as session:
        with pytest.raises(CallDenied, match="the lock file"):
            await session.call_tool("read")
    assert again.path is None
    with pytest.raises(ConfigError, match=r"the lock file does not exist or has no server"):
        Pins(MemoryState(), create=False)._read()


@pytest.mark.parametrize("expected", ["sent {}", "{}"])
async def test_a_credential_that_a_definition_repeats_is_not_in_the_lock_file(
    expected: str, tmp_path: Path, anyio_backend: str
) -> None:
    path, about = tmp_path / "mcp.lock", ["first"]

    async def handler(request: Request, reply: Reply) -> None:
        if request.method != "POST" or request.message.get("method") != "tools/list":
            await Stateless()(request, reply)
            return
        text = expected.format(request.headers.get("authorization"))
        schema = {"type": "object", "properties": {"a": {"default": text}}}
        tool = {"name": "t", "description": f"{about[0]} {text}", "inputSchema": schema}
        result = {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await reply.json({"jsonrpc": "2.0", "id": request.message["id"], "result": result})

    found = []
    async with serving(handler) as served:
        for token in ("abcdEFGH0123-token-1", "ijklMNOP4567-token-2", "qrstUVWX8901-token-3"):
            about[0] = "other" if token.endswith("3") else "first"
            server = HttpServer(served.url, auth=BearerToken(token))
            async with connect(server, name="s", pins=path) as session:
                found.append((await session.list_tools()).findings)
            assert token not in path.read_text() + str(found)
    assert [bool(findings) for findings in found] == [False, False, True]
