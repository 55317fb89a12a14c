"""Every command of ``mcp-client`` in a real terminal, against servers that are not ours.

The reference servers for everything, files, memory, time and git, and servers on several versions
of the official SDK. The terminal is a pseudo-terminal of its own for each command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import StdioServer
from tests.cli.shell import ROOT, at_terminal, environment, python, run
from tests.interop import http_peers, peers

# Processes wait, on one event loop each.
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.one_backend]

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def words_of(server: StdioServer) -> str:
    return shlex.join([server.command, *server.args])


def output_of(
    *words: str, code: int = 0, reply: str = "", question: str = r"Run it\? ", **env: Any
) -> str:
    """What a command shows at a terminal; ``reply`` is the person's to its question."""
    child = at_terminal(*words, columns=200, **env)
    if reply:
        child.expect(question)
        child.sendline(reply)
    child.expect(pexpect.EOF)
    child.close()
    text = STYLE.sub("", child.before).replace("\r\n", "\n")
    assert child.exitstatus == code, text
    assert "Traceback" not in text
    return text


@pytest.fixture
def everything() -> str:
    return words_of(peers.everything())


# ------------------------------------------------------------------------ one server


def test_tools_and_describe(everything: str) -> None:
    text = output_of("tools", everything)
    assert 'get-structured-content(location: "New York"|"Chicago"|"Los Angeles") -> {' in text
    assert "get-sum(a: float, b: float)" in text
    text = output_of("describe", everything, "get-annotated-message")
    assert '"error"|"success"|"debug"' in text
    assert "Fingerprint: sha256:" in text


def test_call_by_a_person_and_by_a_rule(everything: str) -> None:
    assert "5" in output_of("call", everything, "get-sum", "a=2", "b=3", reply="y")
    assert "not approved" in output_of(
        "call", everything, "get-sum", "a=2", "b=3", reply="n", code=3
    )
    allowed = ("--allow", "get-*")
    text = output_of("call", everything, "get-structured-content", "location=Chicago", *allowed)
    assert '"temperature"' in text
    output_of("call", everything, "get-sum", "a=two", "b=3", *allowed, code=2)
    assert "did you mean get-sum" in output_of("call", everything, "get-sun", code=4)
    progress = ("trigger-long-running-operation", "duration=1", "steps=2", "--allow", "*")
    assert "Long running operation completed" in output_of("call", everything, *progress)


def test_a_picture_of_a_server_is_saved_and_drawn(everything: str, tmp_path: Path) -> None:
    words = ["call", everything, "get-tiny-image", "--allow", "*", "--save", str(tmp_path / "s")]
    child = at_terminal(*words)
    child.setecho(False)
    child.send("\x1b[?62;4c\x1b[6;20;10t")  # a terminal that can show sixel graphics
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    assert "\x1bP0;0;0q" in child.before
    (picture,) = (tmp_path / "s").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_resources_prompts_and_completion(everything: str) -> None:
    assert "demo://resource/static/document/features.md" in output_of("resources", everything)
    uri = "demo://resource/static/document/features.md"
    assert "Features" in output_of("read", everything, uri)
    output_of("read", everything, "demo://nowhere", code=4)
    assert "args-prompt(city, state?)" in output_of("prompts", everything)
    assert "Paris" in output_of("prompt", everything, "args-prompt", "city=Paris")
    words = ["complete", everything, "completable-prompt", "department=E"]
    assert "Engineering" in output_of(*words)
    assert "get-sum" in output_of("search", everything, "sum of two numbers")


def test_the_shell_completes_and_calls(everything: str, tmp_path: Path) -> None:
    child = at_terminal("shell", everything, "--allow", "get-sum", home=tmp_path, columns=200)
    child.expect("mcp>")
    child.send("call get-struc\t")
    child.expect("tured-content")
    child.send(" loc\t")
    child.expect("ation=")
    child.send("Chi\t")
    child.expect("cago")
    child.send("\x15call get-sum a=20 b=22\r")
    child.expect("42")
    child.expect("mcp>")
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


# --------------------------------------------------------------- files and other servers


def test_a_recorded_session_audit_pins_and_answers(tmp_path: Path) -> None:
    server = words_of(peers.filesystem(tmp_path))
    (tmp_path / "notes.txt").write_text("milk")
    record, log = tmp_path / "record.jsonl", tmp_path / "audit.jsonl"
    lock, stored = tmp_path / "mcp.lock", tmp_path / "answers.json"
    words = ["call", server, "read_text_file", f"path={tmp_path / 'notes.txt'}"]
    files = ["--record", str(record), "--audit", str(log), "--state", str(stored)]
    assert "milk" in output_of(*words, *files, reply="a")  # always
    assert "milk" in output_of(*words, "--state", str(stored))
    assert "read_text_file" in output_of("decisions", "list", "--state", str(stored))
    assert "revoked: 1" in output_of("decisions", "revoke", "--state", str(stored), "--all")
    assert "intact: 3 lines, 1 calls" in output_of("audit", "verify", str(log))
    assert "read_text_file" in output_of("audit", "show", str(log))
    assert "14 tools were written down" in output_of("pins", server, "--pins", str(lock))
    assert "14 tools are as written down" in output_of("pins", server, "--pins", str(lock))
    assert '"tools/call"' in record.read_text()
    program = (
        "import sys\nfrom mcp_client import allow_all\n"
        "from mcp_client.sync import connect\nfrom mcp_client.testing import ReplayServer\n"
        "with connect(ReplayServer(sys.argv[1]), approval=allow_all) as session:\n"
        "    print(session.call_tool('read_text_file', {'path': sys.argv[2]}).text)\n"
    )
    words = [sys.executable, "-c", program, str(record), str(tmp_path / "notes.txt")]
    done = subprocess.run(words, env=environment(None), capture_output=True, text=True, timeout=60)
    assert done.stdout == "milk\n", done.stderr


def test_servers_of_a_config_file_go_by_their_names(tmp_path: Path) -> None:
    clock = peers.time()
    servers = {"clock": {"command": clock.command, "args": list(clock.args)}}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    named = ["--config", str(config)]
    assert "asks first" in output_of("servers", *named, home=tmp_path)
    words = ["tools", "clock", *named]
    asked: dict[str, Any] = {"reply": "a", "question": r"Start it\? "}
    assert "get_current_time(" in output_of(*words, home=tmp_path, **asked)
    assert "may start" in output_of("servers", *named, home=tmp_path)
    call = ["call", "clock", "get_current_time", "timezone=UTC", "--allow", "clock__*", *named]
    assert '"is_dst"' in output_of(*call, home=tmp_path)


def test_a_tool_that_fails_is_exit_code_1(tmp_path: Path) -> None:
    clock = words_of(peers.time())
    words = ["call", clock, "get_current_time", "timezone=Nowhere/X", "--allow", "*"]
    assert "timezone" in output_of(*words, code=1).lower()
    assert run(*words, "--json").json["isError"] is True


def test_a_server_on_fastmcp() -> None:
    server = words_of(peers.fastmcp())
    text = output_of("tools", server)
    assert "add(a: int, b: int = 1) -> {result}" in text
    assert 'weather(place: str, unit: "C"|"F" = "C") -> {place, degrees}' in text
    assert "42" in output_of("call", server, "add", "a=40", "b=2", "--allow", "add")
    output_of("call", server, "weather", "place=Oslo", "unit=F", reply="y")
    assert "no coffee" in output_of(
        "call", server, "fail", "reason=no coffee", "--allow", "*", code=1
    )
    output_of("call", server, "add", "a=forty", "--allow", "*", code=2)


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_a_url(transport: str) -> None:
    async with http_peers.official("1.30.0", transport) as url:
        text = await anyio.to_thread.run_sync(
            lambda: output_of("call", url, "add", "a=2", "b=3", "--allow", "add")
        )
        assert "5" in text


# ----------------------------------------------------------------------------- doctor


def verdict(target: str, code: int, *more: str) -> str:
    text = output_of("doctor", target, *more, code=code)
    return "\n".join(text.splitlines()[:4])


def test_doctor_finds_the_reference_servers_healthy(everything: str, tmp_path: Path) -> None:
    for server in (words_of(peers.time()), words_of(peers.filesystem(tmp_path)), everything):
        # A busy machine may make it slow, and nothing else.
        assert re.match(r"[\w-]+: (healthy|slow), speaks 20", verdict(server, 0))


def test_doctor_finds_an_old_server_old() -> None:
    text = verdict(words_of(peers.official("1.2.0")), 0)
    assert re.match(r"official_1: (old|slow), speaks 2024-11-05", text)
    assert "it speaks 2024-11-05; the newest revision is" in text


def test_doctor_finds_a_dead_server_unreachable(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    text = verdict(words_of(peers.filesystem(Path(gone))), 5)
    assert ": unreachable" in text
    assert "last words were" in text


def test_doctor_finds_a_slow_server_slow(everything: str) -> None:
    late = shlex.join(["sh", "-c", f"sleep 2.5; exec {everything}"])
    assert "[slow] " in verdict(late, 0)


def test_doctor_finds_a_server_that_prints_its_log_lying(everything: str) -> None:
    chatty = shlex.join(["sh", "-c", f"echo starting up; exec {everything}"])
    text = verdict(chatty, 8)
    assert ": breaks promises" in text
    assert "lines that are not messages, such as 'starting up'" in text


async def test_doctor_finds_a_server_that_wants_a_login() -> None:
    async with http_peers.guarded() as url:
        text = await anyio.to_thread.run_sync(verdict, url, 6)
    assert ": needs login" in text
    assert f"mcp-client login {url}" in text


BROWSER = """\
import sys
sys.path.insert(0, ROOT)
from tests.interop import chromium, peers
with chromium.browsing(*peers.chromium()) as page:
    chromium.log_in(page, sys.argv[1], "ana", "correct horse")
"""


async def test_a_login_with_a_browser_lasts_until_the_logout(tmp_path: Path) -> None:
    peers.chromium()
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.replace("ROOT", repr(str(ROOT))))
    env: dict[str, Any] = {"BROWSER": f"{python(browser)} %s", "PYTHONWARNINGS": "default"}
    env |= {"XDG_DATA_HOME": str(tmp_path / "data"), "DISPLAY": ":0"}

    def story(url: str) -> None:
        call = ["call", url, "get_weather", "location=New York", "--allow", "get_weather"]
        assert f"mcp-client login {url}" in output_of("doctor", url, code=6, **env)
        assert "logged in; the tokens are in" in output_of("login", url, **env)
        assert "New York: 22.5" in output_of(*call, **env)
        assert "logged out" in output_of("logout", url, **env)
        output_of(*call, code=6, **env)

    async with http_peers.guarded() as url:
        await anyio.to_thread.run_sync(story, url)


# ------------------------------------------------------------------------------ stubs


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return peers.repository(tmp_path / "repo")


STUBS: dict[str, tuple[Callable[[Path], StdioServer], str]] = {
    "everything": (
        lambda _: peers.everything(),
        'round(stub.get_structured_content(location="Chicago")["temperature"]) < 100',
    ),
    "filesystem": (
        lambda directory: peers.filesystem(directory),
        '"[DIR] repo" in stub.list_directory(path=sys.argv[1])["content"]',
    ),
    "memory": (
        lambda directory: peers.memory(directory / "m"),
        'stub.read_graph()["entities"] == []',
    ),
    "time": (lambda _: peers.time(), 'stub.get_current_time(timezone="UTC")["is_dst"] is False'),
    "fastmcp": (lambda _: peers.fastmcp(), 'stub.weather(place="Oslo")["degrees"] == 22.5'),
    "git": (
        lambda directory: peers.git(directory / "repo"),
        '"No commits" in stub.git_status(repo_path=sys.argv[1] + "/repo").text',
    ),
}


def test_stubs_are_type_checked_formatted_and_called(tmp_path: Path, repository: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    programs = [_program(name, tmp_path, home) for name in STUBS]
    tools = Path(sys.executable).parent
    _run(home, str(tools / "ruff"), "format", "--check", "--isolated", *map(str, home.glob("s*")))
    _run(home, sys.executable, "-m", "mypy", "--strict", ".")
    for program in programs:
        _run(home, sys.executable, program, str(tmp_path))


def _program(name: str, directory: Path, home: Path) -> str:
    """Write the stubs of a server, and a program that uses them."""
    make, check = STUBS[name]
    server = make(directory)
    stubs = home / f"stubs_{name}.py"
    words = ["stubs", words_of(server), "-o", str(stubs)]
    env: dict[str, Any] = dict(server.env or {})
    more = [word for name in env for word in ("--env", name)]
    assert "wrote" in output_of(*words, *more, **env)
    (kind,) = re.findall(r"^class (\w+Sync)\(", stubs.read_text(), re.MULTILINE)
    listed = [server.command, *server.args]
    program = home / f"program_{name}.py"
    program.write_text(
        "import sys\n\n"
        "from mcp_client import StdioServer, allow_all\n"
        "from mcp_client.sync import connect\n"
        f"from stubs_{name} import {kind}\n\n"
        f"server = StdioServer({listed[0]!r}, {listed[1:]!r}, env={env!r})\n"
        "with connect(server, approval=allow_all) as session:\n"
        f"    stub = {kind}(session)\n"
        f"    assert {check}\n"
    )
    return str(program)


def _run(home: Path, *command: str) -> None:
    path = os.pathsep.join([str(home), str(ROOT)])
    done = subprocess.run(
        command,
        cwd=home,
        env=environment(None, PYTHONPATH=path, MYPYPATH=path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
