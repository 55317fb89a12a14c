"""The commands that work on files: audit, decisions, pins, servers; and the page of approvals."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from mcp_client import AuditLog, FileState, Host, ServerConfig, StdioServer
from mcp_client.approval import Remember
from mcp_client.state import PostgresState
from tests.cli.shell import ROOT, at_terminal, begin, example, python, run
from tests.support.terminal import call_of

WEATHER = example("weather")


def audited(directory: Path) -> Path:
    log = directory / "audit.jsonl"
    run("call", WEATHER, "get_weather", "location=Oslo", "--allow", "*", "--audit", str(log))
    return log


def test_an_audit_log_is_shown_and_verified(tmp_path: Path) -> None:
    log = audited(tmp_path)
    displayed = run("audit", "show", str(log))
    assert displayed.code == 0
    assert re.search(r'opened +weather/get_weather +\{"location": "Oslo"\}', displayed.out)
    assert re.search(r"closed +weather/get_weather +ok allow by rule", displayed.out)
    assert len(run("audit", "show", str(log), "--json").json["records"]) == 3
    verified = run("audit", "verify", str(log), "--json")
    assert (verified.code, verified.json["intact"], verified.json["calls"]) == (0, True, 1)
    again = run("audit", "verify", str(log), "--noted", verified.json["lastHash"])
    assert again.out.startswith("intact: 3 lines, 1 calls\n")


def test_an_audit_log_is_shown_with_the_files_it_was_rotated_into(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, max_bytes=65_536)
    for number in range(40):
        log.append({"event": "opened", "server": "s", "tool": f"t{number}", "more": "x" * 8_000})
    assert len(list(tmp_path.iterdir())) > 3
    displayed = run("audit", "show", str(path), "--json").json["records"]
    tools = [record["tool"] for record in displayed if record["event"] == "opened"]
    assert tools == [f"t{number}" for number in range(40)]
    assert run("audit", "show", str(path)).out.count("s/t") == 40


def test_the_load_of_a_skill_is_shown_with_its_uri(tmp_path: Path) -> None:
    path, uri = tmp_path / "audit.jsonl", "skill://pdf/SKILL.md"
    AuditLog(path).append({"event": "closed", "server": "s", "tool": None, "skill": uri})
    assert f"s/{uri}" in run("audit", "show", str(path)).out


def test_a_start_and_a_use_of_the_model_are_shown_with_what_was_asked_about(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    about = {"event": "closed", "server": "s", "tool": None}
    yes = {"outcome": "ok", "decision": {"answer": "allow", "source": "person", "by": "ana"}}
    no = {"outcome": "CallDenied", "decision": {"answer": "deny", "source": "rule"}}
    AuditLog(path).append(
        {**about, "start": "npx weather", **yes}, {**about, "sampling": "haiku", **no}
    )
    displayed = run("audit", "show", str(path)).out
    assert re.search("s/npx weather +ok allow by ana", displayed)
    assert re.search("s/haiku +CallDenied deny by rule", displayed)


def test_whose_call_it_was_is_shown_beside_both_records(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    about = {"process": 1, "call": "a-1", "server": "s", "tool": "t"}
    AuditLog(path).append(
        {"event": "opened", **about, "context": "ana", "arguments": {}},
        {"event": "closed", **about, "outcome": "ok"},
        {"event": "opened", **about, "process": 2, "context": ["bo", 7], "resource": "a:b"},
    )
    displayed = run("audit", "show", str(path)).out
    assert re.search(r"opened +ana +s/t", displayed)
    assert re.search(r"closed +ana +s/t +ok", displayed)
    assert re.search(r'opened +\["bo", 7\] +s/t/a:b', displayed)


def test_the_records_of_one_context_are_both_records_of_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    about = {"process": 1, "server": "s", "tool": "t"}
    yes = {"answer": "allow", "source": "person", "by": "bo", "scope": "always"}
    AuditLog(path).append(
        {"event": "opened", **about, "call": "a", "context": "ana", "arguments": {}},
        {"event": "opened", **about, "call": "b", "context": "bo", "arguments": {}},
        {"event": "closed", **about, "call": "b", "context": "bo", "outcome": "ok"},
        {"event": "closed", **about, "call": "a", "outcome": "ok", "decision": yes},
        {"event": "opened", **about, "call": "c", "context": ["ana", 7], "arguments": {}},
        {"event": "opened", **about, "call": "d", "context": None, "arguments": {}},
    )
    for context, calls in (
        ("ana", ["a", "a"]),
        ("bo", ["b", "b"]),
        ('["ana", 7]', ["c"]),
        ("null", []),
    ):
        done = run("audit", "show", "--context", context, str(path), "--json")
        assert [one["call"] for one in done.json["records"]] == calls, context
        rows = run("audit", "show", str(path), "--context", context).out.splitlines()
        assert len(rows) == len(calls)
    assert "ok allow by bo (always)" in run("audit", "show", str(path), "--context", "ana").out
    wrong = run("audit", "verify", str(path), "--context", "ana")
    assert (wrong.code, "--context goes with 'audit show'" in wrong.err) == (2, True)


def test_a_line_that_is_not_a_record_is_reported_and_the_others_are_shown(tmp_path: Path) -> None:
    log = audited(tmp_path)
    with log.open("a") as file:
        file.write("half of a rec\n")
    done = run("audit", "show", str(log))
    assert (done.code, "ok allow by rule" in done.out) == (1, True)
    assert "line 4: no record of an audit" in done.err
    other = tmp_path / "other"
    other.write_text("not a log\n")
    assert run("audit", "show", str(other)).code == 2


def test_an_audit_log_that_was_changed_is_reported_with_its_line(tmp_path: Path) -> None:
    log = audited(tmp_path)
    log.write_text(log.read_text().replace("Oslo", "Rome"))
    done = run("audit", "verify", str(log), "--json")
    assert (done.code, done.json["intact"], done.json["line"]) == (1, False, 2)
    assert run("audit", "verify", str(log)).out.startswith("not intact")


@pytest.mark.parametrize("action", ["show", "verify"])
def test_an_audit_log_that_is_not_there_is_a_usage_error(action: str) -> None:
    done = run("audit", action, "/no/such/file", "--json")
    assert done.code == 2
    assert "error" in done.json


@pytest.mark.slow
def test_decisions_are_listed_and_revoked(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    where = ["--state", str(directory)]
    words = ["call", WEATHER, "set_alarm", "location=Oslo", *where]
    child = at_terminal(*words)
    child.expect(r"Run it\? ")
    child.sendline("a")
    child.expect("Alarm set for Oslo")
    child.wait()
    child.close()
    assert run(*words).code == 0
    listed = run("decisions", "list", *where)
    assert "call  weather  set_alarm  always, any arguments" in listed.out
    (stored,) = run("decisions", "list", *where, "--json").json["decisions"]
    assert (stored["kind"], stored["server"], stored["subject"]) == ("call", "weather", "set_alarm")
    assert run("decisions", "list", *where, "--kind", "start", "--json").json == {"decisions": []}
    assert run("decisions", "revoke", *where).code == 2
    assert run("decisions", "revoke", "some", "--all", *where).code == 2
    assert run("decisions", "list", "--all", *where).code == 2
    assert run("decisions", "revoke", *where, "--server", "other").code == 4
    assert run("decisions", "revoke", "unknown", *where).code == 4
    assert run("decisions", "list", "--state", str(tmp_path / "no")).code == 2
    assert listed.out.split()[0] == stored["id"][:8]
    done = run("decisions", "revoke", stored["id"][:8], *where)
    assert (done.code, done.out) == (0, "revoked: 1\n")
    assert run(*words).code == 3
    state = FileState(directory)
    state.decisions.add(replace(call_of(), origin="app"), Remember("always"), "x")
    assert "always, any arguments, called by its view" in run("decisions", "list", *where).out
    assert run("decisions", "revoke", "--all", *where, "--json").json == {"revoked": 1}


def test_pins_show_what_changed_and_accept_it(tmp_path: Path) -> None:
    lock, program = tmp_path / "mcp.lock", tmp_path / "weather.py"
    text = (ROOT / "examples" / "servers" / "weather.py").read_text()
    program.write_text(text)
    words = ["pins", python(program), "--pins", str(lock)]
    assert "2 tools were written down" in run(*words).out
    assert run(*words).out == "2 tools are as written down\n"
    program.write_text(text.replace("Sound the siren", "Delete everything"))
    done = run(*words)
    assert done.code == 1
    assert "was" in done.out
    assert "Delete everything" in done.out
    assert run(*words, "--json").json["drift"][0]["kind"] == "changed"
    assert run(*words, "--accept", "set_alram").code == 4
    assert run(*words, "--accept", "set_alarm").code == 0
    assert run(*words).code == 0


async def test_pins_of_a_name_are_what_a_host_lists_of_its_lazy_server(tmp_path: Path) -> None:
    lock, program = tmp_path / "mcp.lock", ROOT / "examples" / "servers" / "weather.py"
    words = ["pins", python(program), "--pins", str(lock), "--name", "sky"]
    assert run(*words).code == 0
    sky = ServerConfig(StdioServer("/does/not/exist"), lazy=True)
    async with Host({"sky": sky}, pins=lock) as host:
        assert [tool.name for tool in await host.list_tools()] == ["get_weather", "set_alarm"]
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": sys.executable}}}))
    done = run("pins", "sky", "--config", str(config), "--pins", str(lock), "--name", "other")
    assert done.code == 2 and "--name does not go with 'sky'" in done.err


def test_servers_are_listed_with_whether_they_may_start(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    secret = {"command": "weather", "args": ["--key=hunter2"]}
    config.write_text(json.dumps({"mcpServers": {"sky": secret}}))
    done = run("servers", cwd=tmp_path, home=tmp_path)
    assert re.match(r"sky +asks first +\S*mcp\.json \(project\) +weather\n", done.out)
    assert "hunter2" not in done.out + done.err
    (one,) = run("servers", "--json", cwd=tmp_path, home=tmp_path).json["servers"]
    assert (one["name"], one["scope"], one["mayStart"]) == ("sky", "project", False)


@contextmanager
def started(*words: str, home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that runs, with the address of its page, which it prints."""
    own = "desk" in words
    process = begin(*words, home=home)
    with process:
        try:
            stream = process.stdout if own else process.stderr
            assert stream is not None
            line = stream.readline()
            url = re.search(r"http://[^\s\"]+", line)
            assert url is not None, (line, process.stderr and process.stderr.read())
            yield process, url[0]
        finally:
            if process.poll() is None:
                process.kill()


def decide(url: str, reply: str) -> None:
    """Wait at the page of ``url`` until a call is there, and decide it as a browser would."""
    cookies = urllib.request.HTTPCookieProcessor(CookieJar())
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
    page = browser.open(url, timeout=30)
    root, form = page.url, fields(page.read().decode())
    until = time.monotonic() + 60
    while "ids" not in form and time.monotonic() < until:  # until the call waits
        time.sleep(0.05)
        form = fields(browser.open(root, timeout=30).read().decode())
    data = urllib.parse.urlencode({**form, "answer": reply}).encode()
    # It redirects to the page, which the command may have ended before.
    deciding = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies, Stays())
    with pytest.raises(urllib.error.HTTPError, match="303") as redirected:
        deciding.open(f"{root}decide", data, timeout=30)
    redirected.value.close()  # Python 3.14 warns of one that is not


class Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *args: Any) -> None:
        return None


ALARM = ["call", WEATHER, "set_alarm", "location=Oslo", "--approve", "web", "--json"]


@pytest.mark.slow
def test_a_call_is_decided_on_the_page_of_its_command(tmp_path: Path) -> None:
    with started(*ALARM, home=tmp_path) as (process, url):
        decide(url, "allow")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["content"][0]["text"] == "Alarm set for Oslo."


@pytest.mark.slow
@pytest.mark.parametrize(("reply", "code"), [("allow", 0), ("deny", 3)])
@pytest.mark.parametrize("named", [True, False])
def test_the_desk_decides_the_calls_of_other_commands(
    named: bool, reply: str, code: int, tmp_path: Path
) -> None:
    more = ["--state", str(tmp_path / "state")] if named else []
    with started("desk", *more, "--json", home=tmp_path) as (desk, url):
        call = begin(*ALARM, *more, home=tmp_path)
        decide(url, reply)
        out, err = call.communicate(timeout=60)
        assert call.returncode == code, err
        assert "calls are decided at the desk of" in err
        assert ("Alarm set for Oslo." in out) == (reply == "allow")
        desk.send_signal(signal.SIGINT)
        assert desk.wait(timeout=60) == 130


@pytest.mark.slow
@pytest.mark.parametrize(("reply", "code"), [("allow", 0), ("deny", 3)])
@pytest.mark.parametrize("has_desk", [True, False])
def test_the_start_of_a_projects_server_is_decided_on_the_page(
    has_desk: bool, reply: str, code: int, tmp_path: Path
) -> None:
    config = tmp_path / "mcp.json"
    command, path = shlex.split(WEATHER)
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": command, "args": [path]}}}))
    words = ["tools", "sky", "--config", str(config), "--approve", "web"]
    if not has_desk:
        with started(*words, home=tmp_path) as (process, url):
            decide(url, reply)
            out, err = process.communicate(timeout=60)
            assert process.returncode == code, err
    else:
        with started("desk", home=tmp_path) as (_, url):
            run = begin(*words, home=tmp_path)
            decide(url, reply)
            out, err = run.communicate(timeout=60)
            assert run.returncode == code, err
    assert ("set_alarm" in out) == (reply == "allow")


@pytest.mark.slow
def test_doctor_asks_on_the_page_too_before_it_starts_a_projects_server(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    command, path = shlex.split(WEATHER)
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": command, "args": [path]}}}))
    words = ["doctor", "sky", "--config", str(config), "--approve", "web"]
    with started(*words, home=tmp_path) as (process, url):
        decide(url, "allow")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "sky: healthy" in out


@pytest.mark.slow
def test_a_desk_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    with started("desk", home=tmp_path) as (desk, _):
        desk.kill()
        desk.wait(timeout=60)
    with started(*ALARM, home=tmp_path) as (process, url):  # its own page
        decide(url, "deny")
        assert process.wait(timeout=60) == 3


def fields(html: str) -> dict[str, Any]:
    return dict(re.findall(r'name="(token|ids)" value="([^"]+)"', html))


def test_the_audit_of_a_database_is_verified_shown_and_exported(
    database: str, tmp_path: Path
) -> None:
    state = PostgresState(database)
    state.audit.append({"event": "opened", "process": 1, "call": "1", "server": "s", "tool": "t"})
    state.close()
    where: list[str] = ["--state", "env:STATE"]
    env: dict[str, Any] = {"STATE": database}
    found = run("audit", "verify", *where, "--json", **env).json
    assert (found["intact"], found["lines"], found["openCalls"]) == (True, 2, ["s/t at None"])
    assert run("audit", "verify", *where, "--noted", found["lastHash"], **env).code == 0
    assert run("audit", "verify", *where, "--noted", "0" * 64, **env).code == 1
    assert "s/t" in run("audit", "show", *where, **env).out
    exported = run("audit", "export", str(tmp_path / "out"), *where, "--json", **env).json
    (file,) = exported["files"]
    assert run("audit", "verify", file, "--json").json["lines"] == 2
    assert run("audit", "export", str(tmp_path / "out"), *where, **env).code == 2
    assert run("decisions", "list", *where, "--json", **env).json == {"decisions": []}


def test_the_audit_of_a_directory_is_verified_by_its_state(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    state = FileState(directory)
    state.audit.append({"event": "opened", "process": 1, "call": "1", "server": "s", "tool": "t"})
    assert run("audit", "verify", "--state", str(directory), "--json").json["lines"] == 2
    assert "s/t" in run("audit", "show", "--state", str(directory)).out
    assert run("audit", "export", str(tmp_path / "out"), "--state", str(directory)).code == 2
    assert run("audit", "verify", "--state", str(tmp_path / "no")).code == 2
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "--state", "postgresql://ana:pw1234@db/agents"],
        ["show", "--state", "postgres://:pw1234@/agents"],
        ["verify", "--state", "host=db password = pw1234"],
        ["verify", "--state", "postgresql://db/agents?password=pw1234"],
        ["verify", "--state", "env:NO_SUCH_VARIABLE"],
        ["verify", "some.jsonl", "--state", "folder"],
        ["verify"],
        ["export", "folder"],
        ["export", "--state", "folder"],
        ["verify", "--state", ""],
    ],
)
def test_a_state_that_cannot_be_meant_is_a_usage_error(words: list[str]) -> None:
    done = run("audit", *words, "--json")
    assert done.code == 2, done
    assert "pw1234" not in done.out + done.err


def test_a_database_that_cannot_be_reached_is_reported_without_its_password() -> None:
    env: dict[str, Any] = {"STATE": "postgresql://ana:pw1234@127.0.0.1:1/agents"}
    done = run("audit", "verify", "--state", "env:STATE", "--json", **env)
    assert done.code == 5
    assert done.json["error"]["type"] == "StateError"
    assert "pw1234" not in done.out + done.err
