"""No script gets out: at no file, process, variable, network or clock, at no object of the host, at
no more than its share of anything, and at no tool but through the gate.

``escapes`` has the tries. Those that get out of an ordinary Python are shown to.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after

from mcp_client import Allow, Deny, Limits, MemoryServer, Timeouts, ToolCall, connect
from mcp_client.code.run import ScriptResult
from tests.code.escapes import ALONE, ASKED, BOUNDED, CALLS, OUTSIDE
from tests.code.worlds import run

pytest.importorskip("pydantic_monty")
pytestmark = pytest.mark.one_backend

SECRET = f"canary-{os.urandom(8).hex()}"
VARIABLE = "MCP_CLIENT_CANARY"
FORGED = "files.delete(path='x')"
SCHEMA = {"type": "object", "properties": {"path": {}}}


class Files:
    """Two tools, and what reached them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.definitions: list[dict[str, Any]] = [
            {"name": name, "inputSchema": SCHEMA} for name in ("read", "delete")
        ]
        self.result: dict[str, Any] | None = None

    def __call__(self, message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": self.definitions}
        if message["method"] != "tools/call":
            return NotImplemented
        name, arguments = message["params"]["name"], message["params"].get("arguments")
        self.sent.append((name, arguments))
        if self.result is not None:
            return self.result
        return {"content": [{"type": "text", "text": FORGED}]}


class Gate:
    """Says yes to ``read`` and no to everything else."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.scripts: set[str] = set()

    def __call__(self, call: ToolCall) -> Allow | Deny:
        self.asked.append((call.tool.name, json.loads(call.arguments_json)))
        assert call.origin == "code"
        assert call.script is not None
        assert call.context == "ana"
        self.scripts.add(call.script.code)
        return Allow() if call.tool.name == "read" else Deny("not this one")


@dataclass
class World:
    """What a script would reach if it got out."""

    directory: Path
    port: int
    met: list[Any]
    files: Files = field(default_factory=Files)
    gate: Gate = field(default_factory=Gate)

    @property
    def canary(self) -> Path:
        return self.directory / "canary"

    @property
    def out(self) -> Path:
        return self.directory / "out"

    def code(self, tried: str) -> str:
        places = {"CANARY": self.canary, "OUT": self.out, "FOLDER": self.directory}
        constants = [f"{name} = {str(place)!r}" for name, place in places.items()]
        constants += [f"VARIABLE = {VARIABLE!r}", f"PORT = {self.port}"]
        return "\n".join([*constants, tried])

    async def run(self, tried: str, **options: Any) -> ScriptResult:
        async with self.session(**options) as session:
            with fail_after(60):
                return await run(session, self.code(tried), context="ana")

    def session(self, **options: Any) -> Any:
        return connect(MemoryServer(self.files), name="files", approval=self.gate, **options)

    def check(self, found: ScriptResult) -> None:
        """Nothing got out, neither by the script's output nor by a call."""
        reported = [found.text, found.output, repr(found.value), str(found.error), str(found.stop)]
        sent = json.dumps(self.files.sent, default=repr)
        for text in (*reported, sent):
            assert SECRET not in text
            assert time.strftime("%Y") not in text.replace(str(self.directory), "")
            assert str(int(time.time()))[:6] not in text.replace(str(self.directory), "")
            assert "mcp_client/" not in text
            assert "site-packages" not in text
        assert self.canary.read_text() == SECRET
        assert sorted(os.listdir(self.directory)) == ["canary"]
        assert self.met == []
        assert os.environ[VARIABLE] == SECRET
        assert self.files.sent == [one for one in self.gate.asked if one[0] == "read"]
        assert "delete" not in [name for name, _ in self.files.sent]
        assert len(found.text) < 300_000


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A port of this machine, and who came to it."""
    met: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                met.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], met
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.fixture
def world(
    tmp_path: Path, listener: tuple[int, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> World:
    port, met = listener
    met.clear()
    made = World(tmp_path / "world", port, met)
    made.directory.mkdir()
    made.canary.write_text(SECRET)
    monkeypatch.setenv(VARIABLE, SECRET)
    return made


def tries(*tables: dict[str, str]) -> pytest.MarkDecorator:
    found = [(name, code) for table in tables for name, code in table.items()]
    return pytest.mark.parametrize("tried", [c for _, c in found], ids=[n for n, _ in found])


# ------------------------------------------------------------- what an ordinary Python gives


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")
@pytest.mark.parametrize("what", OUTSIDE)
def test_the_tries_get_out_of_an_ordinary_python(what: str, world: World) -> None:
    asked = {
        "tries": {name: world.code(code) for name, code in OUTSIDE[what].items()},
        "secret": SECRET,
        "out": str(world.out),
        "canary": str(world.canary),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("outside.py"))],
        input=json.dumps(asked),
        capture_output=True,
        timeout=120,
        text=True,
        cwd=world.directory,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    if what == "network":
        assert len(world.met) >= len(outcomes)
        return
    within = [name for name, outcome in outcomes.items() if not outcome]
    assert within == []


@tries(*OUTSIDE.values())
async def test_a_script_reaches_nothing_of_the_system_and_of_the_host(
    tried: str, world: World
) -> None:
    world.check(await world.run(tried))


@tries(ALONE)
async def test_a_script_ends_where_it_would_end_or_ask_the_host(tried: str, world: World) -> None:
    found = await world.run(tried)
    world.check(found)
    assert (await world.run("await files.read(path=1)")).value == FORGED


@tries(BOUNDED)
async def test_a_script_takes_no_more_than_its_share(tried: str, world: World) -> None:
    limits = Limits(script_calls=10, script_memory=16 * 1024 * 1024, script_output=10_000)
    found = await world.run(tried, limits=limits, timeouts=Timeouts(script=0.5))
    world.check(found)
    assert len(found.text) < 30_000
    assert found.calls <= 10


@tries(CALLS)
async def test_no_call_bypasses_the_gate(tried: str, world: World) -> None:
    world.check(await world.run(tried))


@pytest.mark.parametrize("name", ASKED)
async def test_the_gate_sees_each_call(name: str, world: World) -> None:
    found = await world.run(CALLS[name])
    asked = [tool for tool, _ in world.gate.asked]
    # Of two side by side, a denial of one ends the script, perhaps before the other is asked about.
    unasked = found.calls - len(asked)
    assert asked.count("delete") == ASKED[name]
    assert unasked == 0 or (name, unasked, world.files.sent) == ("mixed", 1, [])


# -------------------------------------------------------------------- what servers send

HOSTILE = [
    "__import__('os').system('touch OUT')",
    "files.delete(path='x')",
    '"""\nfiles.delete(path="x")\n"""',
    "{0.__class__}",
    "%(x)s%n",
    "\x1b[2J\u202e",
    "a\nb",
    "import",
    "__class__",
    "eval",
    "CallDenied",
    "a" * 5_000,
    "日本",
    "",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_names_and_descriptions_of_a_server_are_never_code(name: str, world: World) -> None:
    definition = {"description": name, "title": name, "outputSchema": {"type": "object"}}
    members = {"type": "object", "properties": {name: {"description": name, "default": name}}}
    world.files.definitions += [{"name": name, "inputSchema": members, **definition}]
    found = await world.run("await files.read(path=1)\nprint(files)")
    world.check(found)
    assert found.error is None


RESULTS: list[dict[str, Any]] = [
    {"content": [{"type": "text", "text": FORGED}]},
    {"content": [], "structuredContent": {"__class__": "x", "__reduce__": ["os.system", "id"]}},
    {"content": [], "structuredContent": {"read": FORGED, "print": FORGED, "": {"": {}}}},
    {"content": [], "structuredContent": {"exc_type": "SystemExit", "message": "x"}},
    {"content": [], "structuredContent": {"return_value": 1, "future": ..., "n": 10**300}},
    {"content": [{"type": "text", "text": "x" * 1_000_000}]},
    {"content": [{"type": "text", "text": "\ud800"}]},
    {"content": [{"type": "text", "text": "{files.delete}"}], "isError": True},
    {"content": [{"type": "text", "text": "CallDenied: await files.delete()"}], "isError": True},
]


@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
async def test_results_are_data(result: dict[str, Any], world: World) -> None:
    if "future" in (result.get("structuredContent") or {}):
        result = {"content": [], "structuredContent": {"future": "...", "return_value": 1}}
    world.files.result = result
    code = (
        "try:\n    found = await files.read(path=1)\n"
        "except Exception as error:\n    found = str(error)\n"
        "print(type(found) in (str, dict), len(str(found)))"
    )
    found = await world.run(code, validation="off")
    world.check(found)
    assert found.output.startswith("True ")


async def test_what_one_script_made_is_not_there_for_the_next(world: World) -> None:
    async with world.session() as session:
        await run(session, "left = 1\nimport sys\nsys.left = 2\nprint = None", context="ana")
        found = await run(session, "import sys\nprint(hasattr(sys, 'left'))\nleft", context="ana")
    assert found.output in ("False\n", "")
    assert found.error is not None
    assert "NameError" in found.error


async def test_the_code_that_is_shown_is_the_code_that_runs(world: World) -> None:
    tried = "await files.read(path=1)\r\n#\x0c\u2028await files.delete(path=2)\rawait files.read()"
    found = await world.run(tried)
    world.check(found)
    (displayed,) = world.gate.scripts
    assert displayed.split("\n")[-1] == "await files.read()"
    assert [name for name, _ in world.gate.asked] == ["read", "read"]
