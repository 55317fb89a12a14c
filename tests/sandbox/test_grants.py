"""What a sandbox grants is one list, which is approved, mounted and compared at each start."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ConnectError,
    Deny,
    Host,
    Sandbox,
    StdioServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.approval import ManagedPolicy, StartRequest
from mcp_client.config import load_config
from mcp_client.errors import ConnectionLost
from mcp_client.sandbox import sandbox as sandbox_module
from mcp_client.sandbox.sandbox import Grants, GrantsChanged
from tests.sandbox.confined import needs_bubblewrap, run
from tests.sandbox.test_program import environment, made, python

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux"),
]
ROOT = Path(__file__).parents[2]
SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif asked.get("method") == "tools/list":
        result = {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
    elif asked.get("method") == "tools/call":
        code = asked["params"]["arguments"]["code"]
        try:
            text = str(eval(code))
        except OSError as error:
            text = type(error).__name__
        result = {"content": [{"type": "text", "text": text}]}
    elif "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"],
                          "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with an environment of its own, a script, and secrets outside of it."""
    work = made(tmp_path / "work", "app/server.py", "data/x")
    (work / "app" / "server.py").write_text(SERVER)
    made(tmp_path / "home", ".ssh/id_rsa")
    (tmp_path / "home" / ".ssh" / "id_rsa").write_text("private")
    base = Path(os.path.realpath(sys.executable))
    environment(work / ".venv", base)
    return work


def server_in(work: Path, **options: Any) -> StdioServer:
    sandbox = Sandbox(**{"read": [work / "data"], **options})
    command = str(work / ".venv" / "bin" / "python")
    return StdioServer(command, ["app/server.py"], cwd=str(work), sandbox=sandbox)


@needs_bubblewrap
async def test_a_server_that_plants_something_in_its_project_reads_no_more_when_it_is_started_again(
    work: Path, tmp_path: Path
) -> None:
    server = server_in(work, read=[], write=[work])
    secret = tmp_path / "home" / ".ssh"
    packages = next((work / ".venv" / "lib").iterdir()) / "site-packages"
    plant = (
        f"(os.symlink({str(secret)!r}, {str(work / 'site-packages')!r}), "
        f"open({str(packages / 'a.pth')!r}, 'w').write({str(work / 'site-packages')!r}), "
        "os._exit(0))"
    )
    look = {"code": f"open({str(secret / 'id_rsa')!r}).read()"}
    async with connect(server, approval=allow_all, timeouts=Timeouts(connect=60)) as session:
        assert (await session.call_tool("do", look)).text == "FileNotFoundError"
        with pytest.raises(ConnectionLost):
            await session.call_tool("do", {"code": plant})
        assert (work / "site-packages").is_symlink()
        assert (await session.call_tool("do", look)).text == "FileNotFoundError"


@needs_bubblewrap
async def test_a_server_whose_program_would_be_made_of_something_else_is_not_started_again(
    work: Path, tmp_path: Path
) -> None:
    other = python(tmp_path / "other")
    async with connect(server_in(work), approval=allow_all) as session:
        (work / ".venv" / "pyvenv.cfg").write_text(f"home = {other.parent}\n")
        with pytest.raises(ConnectionLost):
            await session.call_tool("do", {"code": "os._exit(0)"})
        with pytest.raises(ConnectError, match=f"now grants to read {tmp_path}/other"):
            await session.call_tool("do", {"code": "1"})


def config_in(work: Path, sandbox: Any) -> Path:
    path = work / ".mcp.json"
    server: dict[str, Any] = {"command": ".venv/bin/python", "args": ["app/server.py"]}
    path.write_text(
        json.dumps({"mcpServers": {"s": server | {"mcp-client": {"sandbox": sandbox}}}})
    )
    return path


@needs_bubblewrap
async def test_a_host_asks_again_if_a_start_would_grant_something_else(
    work: Path, tmp_path: Path
) -> None:
    asked: list[StartRequest] = []

    async def confirm(request: StartRequest) -> Allow | Deny:
        asked.append(request)
        return Allow() if len(asked) == 1 else Deny("not that")

    path = config_in(work, {"read": ["data"]})
    async with Host.from_config(path, confirm=confirm, approval=allow_all) as host:
        with anyio.fail_after(60):
            await host.session("s")
            other = python(tmp_path / "other")
            (work / ".venv" / "pyvenv.cfg").write_text(f"home = {other.parent}\n")
            with pytest.raises(ConnectionLost):
                await host.call_tool("s__do", {"code": "os._exit(0)"})
            while len(asked) < 2:
                await anyio.sleep(0)
    assert any(str(tmp_path / "other") in each for each in asked[1].granted)
    assert asked[0].fingerprint != asked[1].fingerprint


def request_of(work: Path, sandbox: Any) -> StartRequest:
    return load_config(config_in(work, sandbox), scope="project").requests["s"]


def test_everything_that_is_granted_is_in_the_request_and_in_its_fingerprint(
    work: Path, tmp_path: Path
) -> None:
    request = request_of(work, {"read": ["data"]})
    for path in ("data", ".venv", "app"):
        assert f"read {work / path}" in request.granted
        assert str(work / path) in request.confined[0]
    (work / ".venv" / "pyvenv.cfg").write_text(f"home = {python(tmp_path / 'other').parent}\n")
    again = request_of(work, {"read": ["data"]})
    assert f"read {tmp_path / 'other'}" in again.granted
    assert again.fingerprint != request.fingerprint


def test_a_link_of_the_project_is_shown_with_where_it_leads_and_is_a_finding(
    work: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "home" / ".ssh"
    (work / "notes").symlink_to(secret)
    for key in ("read", "write"):
        request = request_of(work, {key: ["notes"]})
        assert f"{key} {work / 'notes'} -> {secret}" in request.granted
        assert f"{work / 'notes'} -> {secret}" in " ".join(request.confined)
        found = {one.kind for one in request.findings if "notes" in one.text}
        assert found == {"outside_project", "sensitive_place"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("~/.ssh", "sensitive_place"),
        ("~", "sensitive_place"),
        ("/etc", "sensitive_place"),
        ("/etc/ssl", "sensitive_place"),
        ("${HERE}", "from_variable"),
        ("..", "outside_project"),
        ("/usr/share", "outside_project"),
    ],
)
@pytest.mark.parametrize("key", ["read", "write"])
def test_a_grant_of_a_config_file_is_judged_as_a_word_of_its_command(
    work: Path, path: str, kind: str, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERE", str(work / "data"))
    before = set(request_of(work, {key: ["data"]}).findings)
    assert kind in {one.kind for one in {*request_of(work, {key: [path]}).findings} - before}


@needs_bubblewrap
async def test_what_was_approved_and_is_another_now_is_not_started(work: Path) -> None:
    server = server_in(work)
    argv = [server.command, *server.args]
    assert isinstance(server.sandbox, Sandbox)
    approved = Grants.of(server.sandbox, argv, {}, str(work))
    (work / "app").rename(work / "moved")
    made(work, "app/other.py")
    with pytest.raises(GrantsChanged, match="no longer grants"):
        Grants.of(Sandbox(), argv, {}, str(work)).check_same(approved)


@needs_bubblewrap
def test_a_found_path_that_is_swapped_for_a_link_before_it_is_mounted_is_refused(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Grants.of

    def swapped(*arguments: Any) -> Grants:
        found = of(*arguments)
        (work / "app").rename(work / "gone")
        (work / "app").symlink_to(tmp_path / "home" / ".ssh")
        return found

    monkeypatch.setattr(Grants, "of", swapped)
    argv = [str(work / ".venv" / "bin" / "python"), "app/server.py"]
    with pytest.raises(ConnectError, match="now leads to another place"):
        run(Sandbox(), argv, cwd=work)


@needs_bubblewrap
async def test_looking_at_what_is_granted_ends_with_the_connect_timeout(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hangs(*_: Any, **__: Any) -> Any:
        over.wait(60)
        raise ConnectError("too late")

    monkeypatch.setattr(sandbox_module, "program_of", hangs)
    try:
        with (
            anyio.fail_after(30),
            pytest.raises(ConnectError, match=r"cannot start the server within 0\.2 s"),
        ):
            await connect(server_in(work), approval=allow_all, timeouts=Timeouts(connect=0.2))
    finally:
        over.set()


@needs_bubblewrap
def test_what_begins_with_a_dot_beside_a_script_is_not_shown(work: Path) -> None:
    (work / "app" / ".env").write_text("secret")
    (work / "app" / ".git").mkdir()
    (work / "app" / ".git" / "config").write_text("secret")
    (work / "app" / "server.py").write_text(
        "import os\nfor name in ('.env', '.git/config', 'x.txt'):\n"
        "    try: print(open('app/' + name).read() or 'empty')\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    (work / "app" / "x.txt").write_text("shown")
    argv = [str(work / ".venv" / "bin" / "python"), "app/server.py"]
    reported = run(Sandbox(), argv, cwd=work)[1].split()
    assert reported == ["empty", "FileNotFoundError", "shown"]
    named = Sandbox(read=[work / "app" / ".env"])
    assert run(named, argv, cwd=work)[1].split()[0] == "secret"


@needs_bubblewrap
def test_a_grant_in_a_directory_with_a_dot_shows_nothing_else_of_it(work: Path) -> None:
    made(work / "app", ".keys/public/a.txt", ".keys/public/b.txt", ".keys/private.txt")
    (work / "app" / "server.py").write_text(
        "import os\nfor name in ('public/a.txt', 'public/b.txt', 'private.txt'):\n"
        "    try: print(name, os.stat('app/.keys/' + name).st_nlink)\n"
        "    except OSError: print('none')\n"
        "    else: print(open('app/.keys/' + name).read() or 'empty')\n"
    )
    for name in ("public/a.txt", "public/b.txt", "private.txt"):
        (work / "app" / ".keys" / name).write_text("shown")
    argv = [str(work / ".venv" / "bin" / "python"), "app/server.py"]
    reported = run(Sandbox(read=[work / "app" / ".keys" / "public" / "a.txt"]), argv, cwd=work)[1]
    assert [line for line in reported.split() if line in ("shown", "empty")] == [
        *("shown", "empty", "empty")
    ]


@needs_bubblewrap
async def test_a_project_whose_script_names_another_file_in_its_second_line_reads_no_secret(
    work: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "home" / ".ssh"
    script = made(work, "bin/server") / "bin" / "server"
    script.write_text(
        f"#!/bin/sh\n'''exec' \"{secret}\" \"$0\" &\nread line\ncat {secret}/id_rsa >&2\n"
    )
    server = StdioServer(str(script), cwd=str(work), sandbox=True)
    with pytest.raises(ConnectError) as caught:
        await connect(server)
    assert "private" not in str(caught.value)
    assert "No such file" in str(caught.value)


@needs_bubblewrap
async def test_the_error_of_a_server_of_an_editable_installation_names_what_then_lets_it_start(
    work: Path,
) -> None:
    made(work, "src/notes_server/__init__.py")
    (work / "src" / "notes_server" / "__main__.py").write_text(SERVER)
    packages = work / ".venv" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "_notes.pth").write_text(f"{work / 'src'}\n")
    command = str(work / ".venv" / "bin" / "python")
    module = ["-m", "notes_server"]
    with pytest.raises(ConnectError) as caught:
        await connect(StdioServer(command, module, cwd=str(work), sandbox=True))
    needed = str(work / "src" / "notes_server")
    assert f"Sandbox(read=[{needed!r}])" in str(caught.value)
    server = StdioServer(command, module, cwd=str(work), sandbox=Sandbox(read=[needed]))
    async with connect(server, approval=allow_all) as session:
        assert (await session.call_tool("do", {"code": "1 + 1"})).text == "2"


@needs_bubblewrap
async def test_the_command_that_is_shown_is_the_one_that_a_policy_with_a_list_has_started(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("host", "listed"):
        program = made(tmp_path / name, "bin/notes-server") / "bin" / "notes-server"
        program.write_text(f"#!/usr/bin/env python3\n{SERVER}")
    config = work / ".mcp.json"
    env = {"PATH": f"{tmp_path}/listed/bin:/usr/bin:/bin"}
    server = {"command": "notes-server", "env": env, "mcp-client": {"sandbox": True}}
    config.write_text(json.dumps({"mcpServers": {"s": server}}))
    monkeypatch.setenv("PATH", f"{tmp_path}/host/bin:/usr/bin:/bin")
    asked: list[StartRequest] = []

    def confirm(request: StartRequest) -> Allow:
        asked.append(request)
        return Allow()

    for allow, started in ((["notes-server"], "host"), (None, "listed")):
        monkeypatch.setattr(ManagedPolicy, "system", lambda of=allow: ManagedPolicy(allow=of))
        async with Host.from_config(config, confirm=confirm, approval=allow_all) as host:
            result = await host.call_tool("s__do", {"code": "__file__"})
        assert result.text == f"{tmp_path}/{started}/bin/notes-server"
        assert f"read {tmp_path}/{started}/bin/notes-server" in asked.pop().granted
        assert asked == []
