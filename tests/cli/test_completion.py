"""``completion bash|zsh|fish``: servers, tools, arguments and values, without starting anything."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Tool
from mcp_client.cli.completion import Known, SeenNames, is_plain, known_of, split_line
from tests.cli.shell import ROOT, at_terminal, environment, example, run
from tests.interop import peers

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a config file of three servers, of which one has been listed."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "mcp-client"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcp_client "$@"\n')
    program.chmod(0o755)
    config = tmp_path / "config" / "mcp-client" / "mcp.json"
    config.parent.mkdir(parents=True)
    command, path = shlex.split(example("weather"))
    never = {"command": "touch", "args": [str(tmp_path / "started")]}
    servers = {"sky": {"command": command, "args": [path]}, "skew": never, "$(touch x)": never}
    config.write_text(json.dumps({"mcpServers": servers}))
    names = SeenNames(tmp_path / "cache" / "mcp-client" / "completion.json")
    alarm = {"location": (), "loud": ("true", "false")}
    tools = {"get_weather": {"location": ()}, "set_alarm": alarm, "$(touch x)": {}}
    names.keep(f"{config}\nsky", {"tools": tools})
    return tmp_path


def seen(*words: str, home: Path, asked: bool = False) -> str:
    """A command at a terminal, by which names become known."""
    child = at_terminal(*words, home=home, XDG_CACHE_HOME=str(home / "cache"))
    if asked:
        child.expect(r"Start it\? ")
        child.sendline("y")
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


def offered(home: Path, *words: str) -> list[str]:
    done = run("_complete", "words", *words, home=home, XDG_CACHE_HOME=str(home / "cache"))
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["desc"], ["describe"]),
        (["tools", ""], ["sky", "skew"]),
        (["call", "sk"], ["sky", "skew"]),
        (["call", "--trust", "sk"], ["sky", "skew"]),
        (["call", "sky", "set"], ["set_alarm"]),
        (["call", "sky", "set_alarm", ""], ["location=", "loud="]),
        (["call", "sky", "set_alarm", "location=x", ""], ["loud="]),
        (["call", "sky", "set_alarm", "loud="], ["loud=true", "loud=false"]),
        (["call", "sky", "--approve", "w"], ["web"]),
        (["call", "--approve", ""], ["ask", "deny", "web"]),
        (["call", "--audit", ""], []),
        (["call", "skew", ""], []),
        (["call", "unknown", ""], []),
        (["describe", "sky", ""], ["get_weather", "set_alarm"]),
        (["pins", "sky", "--accept", "g"], ["get_weather"]),
        (["call", "sky", "--tr"], ["--trust"]),
        (["audit", ""], ["verify", "show", "export"]),
        (["completion", "f"], ["fish"]),
        (["nosuch", ""], []),
        (["logout", ""], []),
    ],
)
def test_what_is_offered(home: Path, words: list[str], wanted: list[str]) -> None:
    assert offered(home, *words) == wanted
    assert not (home / "started").exists()


def test_fish_gets_what_commands_and_options_are_for(home: Path) -> None:
    def described(*words: str) -> list[str]:
        return run("_complete", "described", *words, home=home).out.splitlines()

    assert described("pro") == ["prompts\tList the prompts of a server.", "prompt\tGet a prompt."]
    assert described("call", "--tr") == ["--trust\ttrust the server's annotations of its tools"]
    assert described("call", "sk") == ["sky", "skew"]


@pytest.mark.slow
def test_a_command_and_a_url_are_stored_as_digests_for_their_owner_alone(home: Path) -> None:
    target = f"{example('weather')} --key=hunter2"
    seen("tools", target, home=home)
    assert offered(home, "call", target, "get") == ["get_weather"]
    (stored,) = (home / "cache").rglob("completion.json")
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    text = stored.read_text()
    assert "get_weather" in text
    for secret in ("hunter2", "weather.py", "sky", "The weather"):
        assert secret not in text


@pytest.mark.slow
def test_what_a_person_lists_can_be_completed(home: Path) -> None:
    (cache,) = (home / "cache").rglob("completion.json")
    cache.unlink()
    assert offered(home, "call", "sky", "") == []
    assert "set_alarm" in seen("tools", "sky", home=home, asked=True)
    assert offered(home, "call", "sky", "set_alarm", "lou") == ["loud="]


def test_names_are_not_stored_without_a_terminal(home: Path) -> None:
    target = f"{example('weather')} --another"
    assert run("tools", target, home=home, XDG_CACHE_HOME=str(home / "cache")).code == 0
    assert offered(home, "call", target, "") == []


@pytest.mark.parametrize("content", ["[[[", "{}", '{"version": 1}', '{"version": 1, "key": "zz"}'])
def test_a_cache_that_cannot_be_read_offers_nothing_and_is_replaced(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "completion.json"
    path.write_text(content)
    path.chmod(0o600)
    names = SeenNames(path)
    assert names.known("x") == Known()
    names.keep("x", {"tools": {"t": {"a": ("b",)}}})
    assert names.known("x").tools == {"t": {"a": ("b",)}}


@pytest.mark.slow
def test_the_cache_is_bounded(tmp_path: Path) -> None:
    names = SeenNames(tmp_path / "completion.json")
    many: dict[str, Any] = {f"tool{n}": {f"a{m}": () for m in range(60)} for n in range(600)}
    names.keep("many", {"tools": {**many, "x" * 1_000: {}}})
    assert len(names.known("many").tools) == 500
    assert len(names.known("many").tools["tool1"]) == 50
    for number in range(70):
        names.keep(f"target {number}", {"tools": {"t": {}}})
    assert len(json.loads((tmp_path / "completion.json").read_text())["targets"]) == 64
    assert names.known("many") == Known()


def test_the_newest_of_the_targets_that_were_seen_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "completion.json"
    names = SeenNames(path)
    names.keep("first", {"tools": {"t": {}}})
    names.keep("second", {"tools": {"u": {}}})
    whole = json.loads(path.read_text())
    whole["targets"] |= {f"other {number}": {} for number in range(61)}
    path.write_text(json.dumps(whole))
    names.keep("third", {"tools": {}})
    names.keep("first", {"prompts": {"p": ("a",)}})
    assert names.known("first") == Known({"t": {}}, {"p": ("a",)})
    assert names.known("second") == Known({"u": {}})
    names.keep("fourth", {"tools": {"v": {}}})
    assert names.known("second") == names.known("unseen") == Known()
    assert len(json.loads(path.read_text())["targets"]) == 64


def test_of_the_names_that_were_seen_so_many_are_stored(tmp_path: Path) -> None:
    names = SeenNames(tmp_path / "completion.json")
    stored, long = "x" * 120, "x" * 121
    arguments: dict[str, tuple[str, ...]] = {f"a{n}": () for n in range(49)}
    tools: dict[str, Any] = {
        "t": {stored: (stored, long), **arguments, "late": ()},
        "u": {long: ()},
    }
    tools |= {f"t{n}": {} for n in range(497)}
    names.keep("many", {"tools": {long: {}, **tools, "late": {}}})
    found = names.known("many")
    assert list(found.tools) == list(tools)
    assert found.tools["t"] == {stored: (stored,), **arguments}
    assert found.tools["u"] == {}
    prompts: dict[str, tuple[str, ...]] = {"p": (long, *"a" * 50)}
    names.keep("many", {"prompts": prompts})
    assert names.known("many") == Known(found.tools, {"p": tuple("a" * 49)})


@pytest.mark.parametrize(
    "content",
    ['{"version": 2, "key": "00", "targets": {}}', '{"version": 1, "key": "x"}', "[]", "{"],
)
def test_a_cache_of_another_kind_is_begun_again(content: str, tmp_path: Path) -> None:
    path = tmp_path / "completion.json"
    path.write_text(content)
    path.chmod(0o600)
    names = SeenNames(path)
    assert names.known("t") == Known()
    names.keep("t", {"tools": {"a": {}}})
    assert names.known("t") == Known({"a": {}})


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (True, ()),
        ({"type": "boolean"}, ("true", "false")),
        ({"const": "A"}, ("A",)),
        ({"enum": ["A", True, 3, 0.5, None, [1]]}, ("A", "true", "3", "0.5")),
        ({"enum": list(range(51))}, tuple(map(str, range(50)))),
        ({"enum": "abc"}, ()),
        ({}, ()),
    ],
)
def test_an_argument_is_completed_by_the_values_of_its_schema(schema: Any, wanted: Any) -> None:
    definition = {"type": "object", "properties": {"a": schema}}
    tool = Tool("t", "s", False, {"name": "t", "inputSchema": definition})
    assert known_of([tool]).tools == {"t": {"a": wanted}}
    bare = Tool("t", "s", False, {"name": "t", "inputSchema": {"properties": "none"}})
    assert known_of([bare]).tools == {"t": {}}


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("a.b,c:/@=+-_1é", True), ("", False), ("a b", False), ("a$", False), ("a\u202e", False)]
    + [(f"{sign}a", False) for sign in "-@=+:,"],
)
def test_only_a_word_that_a_shell_takes_as_it_is_is_offered(word: str, wanted: bool) -> None:
    assert is_plain(word) is wanted


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mcp-client call ", ["call", ""]),
        ("mcp-client call 'a b' x", ["call", "a b", "x"]),
        ('mcp-client call "a b" x=', ["call", "a b", "x="]),
        ("mcp-client ", [""]),
    ],
)
def test_a_line_of_bash_is_read_as_words(line: str, words: list[str]) -> None:
    assert split_line(line) == words


def test_nothing_is_offered_within_quotes(home: Path) -> None:
    env: dict[str, Any] = {"XDG_CACHE_HOME": str(home / "cache")}
    for line in ("mcp-client call 'sk", 'mcp-client call "sky" "set'):
        done = run("_complete", "line", line, ":=", home=home, **env)
        assert (done.code, done.out, done.err) == (0, "", "")


# ----------------------------------------------------------------- in the shells themselves


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_is_one_that_its_shell_can_read(shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert "mcp-client _complete" in done.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.out, text=True, check=True, timeout=30)


@pytest.mark.slow
def test_bash_completes_every_kind_of_word(home: Path) -> None:
    script = run("completion", "bash").out + (
        "complete_line() {\n"
        '  COMP_LINE="$1" COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
        '  COMPREPLY=(); _mcp_client; echo "${COMPREPLY[*]}"\n'
        "}\n"
        "complete_line 'mcp-client call x --al' mcp-client call x --al\n"
        "complete_line 'mcp-client descr' mcp-client descr\n"
        "complete_line 'mcp-client call s' mcp-client call s\n"
        "complete_line 'mcp-client call sky set_alarm lou' mcp-client call sky set_alarm lou\n"
        "complete_line 'mcp-client call sky set_alarm loud=t' mcp-client call sky x loud = t\n"
    )
    env = environment(home, XDG_CACHE_HOME=str(home / "cache"))
    env["PATH"] = f"{home / 'bin'}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        ["bash", "-s"],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=env,
        cwd=ROOT,
    )
    assert done.stdout.splitlines() == [
        "--allow --allow-finding",
        "describe",
        "sky skew",
        "loud=",
        "true",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "shell",
    ["bash", *(pytest.param(name, marks=pytest.mark.interop) for name in ("zsh", "fish"))],
)
def test_a_tab_completes_at_the_shell_itself(shell: str, home: Path) -> None:
    program, libraries = ("bash", {}) if shell == "bash" else peers.shell(shell)
    script = home / "completion"
    script.write_text(run("completion", shell).out)
    start = {
        "bash": ["--norc", "--noprofile", "-i"],
        "zsh": ["-f", "-i"],
        "fish": ["--no-config", "-i"],
    }[shell]
    env = environment(home, XDG_CACHE_HOME=str(home / "cache"), TERM="xterm", PS1="> ")
    env = {**env, **libraries, "PATH": f"{home / 'bin'}{os.pathsep}{env['PATH']}"}
    child = pexpect.spawn(str(program), start, env=env, encoding="utf-8", timeout=60, cwd=str(ROOT))
    if shell == "zsh":
        for line in _places_of_zsh(Path(program)):
            child.sendline(line)
        child.sendline("autoload -U compinit; compinit -u")
    child.sendline(f". {script}; echo re''ady")
    child.expect("ready")
    child.send("mcp-client call sky set_\t")
    child.expect("alarm")
    child.send("lou\t")
    child.expect("d=")
    child.send("t\t")
    child.expect("rue")
    child.close(force=True)


def _places_of_zsh(program: Path) -> list[str]:
    """Lines that configure a zsh that was unpacked and not installed."""
    root = program.parents[1]
    if root == Path("/") or root == Path("/usr"):
        return []
    modules = next((root / "usr" / "lib").glob("*/zsh/*/zsh/zle.so")).parents[1]
    functions = root / "usr" / "share" / "zsh" / "functions"
    return [f"module_path=({modules})", f"fpath=({functions} {functions}/**/*(/))"]
