"""Config files of all programs, of the shape that each program documents."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConfigError, StdioServer, Timeouts
from mcp_client.config import ConfigFile, find_configs
from mcp_client.config.config import Config, load_config
from mcp_client.transports.http import HttpServer


@pytest.fixture(autouse=True)
def a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA", "MISSING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TOKEN", "s3cret-t0ken")
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def stdio(config: Config, name: str) -> StdioServer:
    server = config.servers[name].server
    assert isinstance(server, StdioServer)
    return server


def http(config: Config, name: str) -> HttpServer:
    server = config.servers[name].server
    assert isinstance(server, HttpServer)
    return server


# --------------------------------------------------------------- one test a program


def test_claude_desktop(a_home_of_its_own: Path, project: Path) -> None:
    content = {
        "globalShortcut": "Ctrl+Space",
        "mcpServers": {
            "filesystem": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ana/Desktop"],
            },
            "github": {"command": "uvx", "args": ["server"], "env": {"TOKEN": "${TOKEN}"}},
        },
    }
    config = load_config(written(project / "claude_desktop_config.json", content))
    assert config.program == "claude"
    assert stdio(config, "filesystem").args[-1] == "/Users/ana/Desktop"
    assert stdio(config, "github").env == {"TOKEN": "${TOKEN}"}  # it has no variables
    (problem,) = config.problems
    assert (problem.key, problem.left_out) == ("mcpServers.github.env.TOKEN", False)
    assert "Claude Desktop's files do not support variables" in problem.message


def test_claude_code(project: Path) -> None:
    content = """{
      "mcpServers": {
        "airtable": {
          "type": "stdio", "command": "npx", "args": ["-y", "airtable-mcp-server"],
          "env": {"AIRTABLE_API_KEY": "${TOKEN}", "CACHE": "${CACHE_DIR:-/tmp}"}, "timeout": 120000
        },
        "api": {
          "type": "http", "url": "${API_BASE_URL:-https://api.example.com}/mcp",
          "headers": {"Authorization": "Bearer ${TOKEN}"}
        },
        "events": {"type": "sse", "url": "https://mcp.example.com/sse"},
        "login": {
          "type": "http", "url": "https://mcp.example.com/mcp",
          "oauth": {"clientId": "abc", "callbackPort": 8080, "scopes": "read write"}
        },
        "helper": {
          "type": "http", "url": "https://mcp.example.com/mcp",
          "headersHelper": "/opt/bin/get-token.sh"
        }
      }
    }"""
    config = load_config(written(project / ".mcp.json", content))
    assert config.program == "claude"
    assert list(config.servers) == ["airtable", "api", "events", "login"]
    airtable = stdio(config, "airtable")
    assert airtable.env == {"AIRTABLE_API_KEY": "s3cret-t0ken", "CACHE": "/tmp"}
    assert airtable.cwd == str(project)
    timeouts = config.servers["airtable"].timeouts
    assert timeouts is not None
    assert (timeouts.idle, timeouts.total, timeouts.connect) == (120, 120, 30)
    assert http(config, "api").url == "https://api.example.com/mcp"
    assert http(config, "api").headers == {"Authorization": "Bearer s3cret-t0ken"}
    assert type(http(config, "login").auth).__name__ == "OAuth"
    (problem,) = config.problems
    assert (problem.line, problem.key) == (18, "mcpServers.helper.headersHelper")


def test_claude_code_for_a_user_and_a_project_of_his(
    a_home_of_its_own: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        a_home_of_its_own / ".claude.json",
        {
            "numStartups": 3,
            "mcpServers": {"everywhere": {"command": "a"}, "both": {"command": "user"}},
            "projects": {
                str(project): {"allowedTools": [], "mcpServers": {"both": {"command": "local"}}},
                "/elsewhere": {"mcpServers": {"no": {"command": "b"}}},
            },
        },
    )
    monkeypatch.chdir(project)
    config = load_config(path)
    assert (config.program, config.scope, config.problems) == ("claude", "user", ())
    assert {name: stdio(config, name).command for name in config.servers} == {
        "everywhere": "a",
        "both": "local",
    }


def test_vscode(project: Path) -> None:
    content = """{
      // servers of this workspace
      "inputs": [
        {"type": "promptString", "id": "api-key", "description": "API key", "password": true},
        {"type": "pickString", "id": "region", "description": "Region", "options": ["eu", "us"],
         "default": "eu"},
        {"type": "command", "id": "dynamic", "command": "extension.token"},
      ],
      "servers": {
        "perplexity": {
          "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask"],
          "env": {"PERPLEXITY_API_KEY": "${input:api-key}", "REGION": "${input:region}", "N": 3},
          "envFile": "${workspaceFolder}/.env",
          "cwd": "${workspaceFolder}/server",
          "dev": {"watch": "src/**/*.ts", "debug": {"type": "node"}},
        },
        "github": {
          "type": "http", "url": "https://api.githubcopilot.com/mcp",
          "headers": {"Authorization": "Bearer ${env:TOKEN}"},
        },
        "socket": {"type": "http", "url": "unix:///tmp/server.sock"},
        "dynamic": {"url": "https://mcp.example.com", "headers": {"X-Key": "${input:dynamic}"}},
      },
    }"""
    written(project / ".env", "# keys\nexport A=1\nB='two words'\nC=x # not this\nREGION=other\n")
    config = load_config(
        written(project / ".vscode" / "mcp.json", content), inputs={"api-key": "pplx-1"}
    )
    assert config.program == "vscode"
    assert list(config.servers) == ["perplexity", "github"]
    perplexity = stdio(config, "perplexity")
    assert perplexity.env == {
        "A": "1",
        "B": "two words",
        "C": "x",
        "REGION": "eu",
        "PERPLEXITY_API_KEY": "pplx-1",
        "N": "3",
    }
    assert perplexity.cwd == str(project / "server")
    assert http(config, "github").headers == {"Authorization": "Bearer s3cret-t0ken"}
    assert [(problem.line, problem.key) for problem in config.problems] == [
        (7, "inputs[2]"),
        (15, "servers.perplexity.dev"),
        (21, "servers.socket"),
        (22, "servers.dynamic.headers.X-Key"),
    ]


def test_an_input_that_is_not_asked_for_needs_a_value_of_the_host(project: Path) -> None:
    inputs = [
        {"type": "command", "id": "a"},
        {"type": "other", "id": "b"},
        {"id": "c"},
        {"type": "promptString", "id": "d"},
        {"type": "pickString"},
        "e",
    ]
    servers = {name: {"command": "x", "env": {"A": f"${{input:{name}}}"}} for name in "abc"}
    path = written(
        project / ".vscode" / "mcp.json", json.dumps({"inputs": inputs, "servers": servers})
    )
    runs = "runs a command of the editor, which is never done here"
    unknown = "has a type that is not known here"
    left_out = load_config(path)
    assert list(left_out.servers) == []
    assert [
        (one.key, one.message) for one in left_out.problems if one.key.startswith("inputs")
    ] == [
        ("inputs[0]", f"the input 'a' {runs}: give its value as inputs={{...}}"),
        ("inputs[1]", f"the input 'b' {unknown}: give its value as inputs={{...}}"),
        ("inputs[2]", f"the input 'c' {unknown}: give its value as inputs={{...}}"),
        ("inputs[4]", "is not an input: it has no id"),
        ("inputs[5]", "is not an input: it has no id"),
    ]
    passed = load_config(path, inputs=dict.fromkeys("abc", "v"))
    assert list(passed.servers) == ["a", "b", "c"]
    assert [one.key for one in passed.problems] == ["inputs[4]", "inputs[5]"]


def test_cursor(project: Path) -> None:
    content = {
        "mcpServers": {
            "local": {
                "command": "python",
                "args": ["${workspaceFolder}/tools/${workspaceFolderBasename}.py"],
                "env": {"API_KEY": "${env:TOKEN}"},
                "envFile": ".env",
            },
            "remote": {
                "url": "https://api.example.com/mcp",
                "auth": {"CLIENT_ID": "${env:TOKEN}", "CLIENT_SECRET": "x", "scopes": ["read"]},
            },
        }
    }
    written(project / ".env", "A=1")
    config = load_config(written(project / ".cursor" / "mcp.json", content))
    assert (config.program, config.problems) == ("cursor", ())
    assert stdio(config, "local").args == (f"{project}/tools/project.py",)
    assert stdio(config, "local").env == {"A": "1", "API_KEY": "s3cret-t0ken"}
    assert type(http(config, "remote").auth).__name__ == "OAuth"


def test_windsurf(project: Path) -> None:
    content = {
        "mcpServers": {
            "github": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-github"],
                "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${env:TOKEN}"},
                "disabledTools": ["delete_repository", "what[ever]*"],
            },
            "remote": {
                "serverUrl": "https://mcp.example.com/mcp",
                "headers": {"API_KEY": "Bearer ${file:token.txt}"},
            },
            "off": {"command": "x", "disabled": True},
        }
    }
    written(project / "token.txt", "from-a-file\n")
    config = load_config(written(project / "mcp_config.json", content))
    assert (config.program, config.problems) == ("windsurf", ())
    assert config.servers["github"].exclude == ("delete_repository", "what[[]ever][*]")
    assert http(config, "remote").headers == {"API_KEY": "Bearer from-a-file"}
    assert not config.servers["off"].enabled


def test_lm_studio(a_home_of_its_own: Path) -> None:
    content = {
        "mcpServers": {
            "hf": {"url": "https://hf.co/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
            "local": {"command": "npx", "args": ["-y", "server-memory"]},
        }
    }
    config = load_config(written(a_home_of_its_own / ".lmstudio" / "mcp.json", content))
    assert (config.program, config.scope, config.problems) == ("lmstudio", "user", ())
    assert http(config, "hf").headers == {"Authorization": "Bearer s3cret-t0ken"}
    assert stdio(config, "local").cwd == str(a_home_of_its_own)


def test_gemini_cli(project: Path) -> None:
    content = """{
      "theme": "Default", // other settings are beside
      "mcp": {"allowed": ["pythonTools", "stream", "events", "none"], "excluded": ["events"]},
      "mcpServers": {
        "pythonTools": {
          "command": "python", "args": ["-m", "my_mcp_server", "--port", "8080"],
          "cwd": "./mcp-servers/python",
          "env": {"DATABASE_URL": "$TOKEN", "API_KEY": "${TOKEN}"},
          "timeout": 15000, "trust": true, "includeTools": ["safe_tool", "file_reader"],
          "excludeTools": ["dangerous_tool"], "description": "Tools in Python"
        },
        "stream": {"httpUrl": "http://localhost:3000/mcp", "timeout": 5000},
        "events": {"url": "http://localhost:8080/sse"},
        "none": {"command": "x", "includeTools": []},
        "other": {"command": "x"},
        "google": {"httpUrl": "https://x.run.app/mcp", "authProviderType": "google_credentials"}
      }
    }"""
    config = load_config(written(project / ".gemini" / "settings.json", content))
    assert config.program == "gemini"
    assert list(config.servers) == ["pythonTools", "stream", "none"]
    python = config.servers["pythonTools"]
    assert stdio(config, "pythonTools").env == {
        "DATABASE_URL": "s3cret-t0ken",
        "API_KEY": "s3cret-t0ken",
    }
    assert stdio(config, "pythonTools").cwd == str(project / "mcp-servers" / "python")
    assert python.include == ("safe_tool", "file_reader")
    assert python.exclude == ("dangerous_tool",)
    assert python.description == "Tools in Python"
    assert python.trusted is None
    assert python.approval is None
    assert python.timeouts is not None
    assert python.timeouts.total == 15
    assert http(config, "stream").url == "http://localhost:3000/mcp"
    assert config.servers["none"].exclude == ("*",)
    (problem,) = config.problems
    assert (problem.line, problem.key) == (9, "mcpServers.pythonTools.trust")
    assert "no effect" in problem.message


def test_codex(project: Path) -> None:
    content = """
model = "gpt-5-codex"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]
env_vars = ["TOKEN", { name = "HOME", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 45.5
enabled_tools = ["search", "read"]
disabled_tools = ["read"]
default_tools_approval_mode = "approve"

[mcp_servers.docs.env]
MODE = "fast"

[mcp_servers.docs.tools.search]
approval_mode = "auto"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Key" = "TOKEN" }
required = true

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.missing]
url = "https://example.com/mcp"
bearer_token_env_var = "MISSING"
"""
    config = load_config(written(project / ".codex" / "config.toml", content))
    assert config.program == "codex"
    assert list(config.servers) == ["docs", "figma", "off"]
    env = stdio(config, "docs").env
    assert env is not None
    assert (env["TOKEN"], env["MODE"]) == ("s3cret-t0ken", "fast")
    docs = config.servers["docs"]
    assert docs.timeouts is not None
    assert (docs.timeouts.connect, docs.timeouts.total) == (20, 45.5)
    assert (docs.include, docs.exclude) == (("search", "read"), ("read",))
    assert http(config, "figma").headers == {
        "X-Figma-Region": "us-east-1",
        "X-Key": "s3cret-t0ken",
        "Authorization": "Bearer s3cret-t0ken",
    }
    assert not config.servers["off"].enabled
    assert [(problem.line, problem.key) for problem in config.problems] == [
        (12, "mcp_servers.docs.default_tools_approval_mode"),
        (17, "mcp_servers.docs.tools"),
        (33, "mcp_servers.missing.bearer_token_env_var"),
    ]
    assert config.required == ("figma",)
    assert "'MISSING'" in config.problems[-1].message


def test_the_draft_standard(project: Path) -> None:
    content = {
        "mcpServers": {
            "local": {"type": "stdio", "command": "npx", "env": {"KEY": "${input:key}"}},
            "stream": {
                "type": "streamable-http",
                "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer ${env:TOKEN}"},
                "oauth": {"clientId": "id", "scopes": ["a"], "redirectUri": "http://localhost:9/"},
            },
            "vault": {"type": "sse", "url": "https://example.com/sse?k=${op://vault/item}"},
        },
        "inputs": [{"type": "promptString", "id": "key", "description": "Key"}],
    }
    path = written(project / "mcp.json", content)
    config = load_config(path, inputs={"key": "k"})
    assert config.program == "mcp-client"
    assert list(config.servers) == ["local", "stream"]
    assert stdio(config, "local").env == {"KEY": "k"}
    assert "op://vault/item" in config.problems[0].message
    (problem,) = [each for each in load_config(path).problems if "local" in each.key]
    assert "'key'" in problem.message


def test_our_own_options(project: Path) -> None:
    own = {
        "trusted": True,
        "include": ["search_*"],
        "exclude": ["delete_*"],
        "lazy": True,
        "validation": "warn",
        "revision": "2025-06-18",
        "description": "The documentation",
        "timeouts": {"connect": 5, "total": 90, "ping": 30},
    }
    content = {"mcpServers": {"docs": {"url": "https://example.com", "mcp-client": own}}}
    path = written(project / "mcp.json", content)
    config = load_config(path, scope="user")
    assert config.problems == ()
    docs = config.servers["docs"]
    assert (docs.trusted, docs.lazy, docs.validation) == (True, True, "warn")
    assert (docs.include, docs.exclude) == (("search_*",), ("delete_*",))
    assert (docs.revision, docs.description) == ("2025-06-18", "The documentation")
    assert docs.timeouts is not None
    assert docs.timeouts == Timeouts(connect=5, total=90, ping=30)
    of_a_project = load_config(path)
    assert (of_a_project.servers["docs"].trusted, of_a_project.servers["docs"].validation) == (
        None,
        None,
    )
    assert [problem.key for problem in of_a_project.problems] == [
        "mcpServers.docs.mcp-client.trusted",
        "mcpServers.docs.mcp-client.validation",
    ]


def test_a_users_own_file_sets_arguments_of_calls(project: Path) -> None:
    def read(bind: Any) -> Config:
        server = {"url": "https://example.com", "mcp-client": {"bind": bind}}
        path = written(project / "mcp.json", {"mcpServers": {"docs": server}})
        return load_config(path, scope="user")

    bind = {"create_*": {"tenant": "acme", "limits": {"most": 3}}}
    assert (read(bind).servers["docs"].bind, read(bind).problems) == (bind, ())
    assert read({}).servers["docs"].bind is None
    config = read({"create_*": "hunter2"})
    (problem,) = config.problems
    assert problem.message.startswith("cannot be used: bind['create_*'] is a str: give a mapping")
    assert not config.servers and "hunter2" not in str(problem)


# ------------------------------------------------------------------ where they are


def test_configs_of_a_project_and_of_the_user_are_found(
    a_home_of_its_own: Path, project: Path
) -> None:
    empty = '{"mcpServers": {}}'
    for name in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", "mcp.json"):
        written(project / name, empty)
    for name in (".cursor/mcp.json", ".gemini/settings.json", ".config/mcp-client/mcp.json"):
        written(a_home_of_its_own / name, empty)
    found = find_configs(project)
    assert found[:4] == [
        ConfigFile(project / ".mcp.json", "claude", "project"),
        ConfigFile(project / ".vscode" / "mcp.json", "vscode", "project"),
        ConfigFile(project / ".cursor" / "mcp.json", "cursor", "project"),
        ConfigFile(project / "mcp.json", "mcp-client", "project"),
    ]
    assert {(each.program, each.scope) for each in found[4:]} == {
        ("mcp-client", "user"),
        ("cursor", "user"),
        ("gemini", "user"),
    }
    for each in found:
        config = load_config(each.path)
        assert (config.program, config.scope) == (each.program, each.scope)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has directories of its own")
def test_on_macos_the_settings_of_programs_are_in_application_support(
    a_home_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = a_home_of_its_own / "Library" / "Application Support"
    path = written(directory / "mcp-client" / "mcp.json", "{}")
    desktop = written(directory / "Claude" / "claude_desktop_config.json", "{}")
    monkeypatch.setattr(sys, "platform", "darwin")
    found = find_configs(a_home_of_its_own / "elsewhere")
    assert ConfigFile(path, "mcp-client", "user") in found
    assert ConfigFile(desktop, "claude", "user") in found


def test_a_place_that_cannot_be_looked_at_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    unusable = f"/{'x' * 300}"
    monkeypatch.setenv("HOME", unusable)
    monkeypatch.setenv("XDG_CONFIG_HOME", unusable)
    assert find_configs(unusable) == []


@pytest.mark.parametrize(
    ("variable", "value", "file"),
    [
        ("XDG_CONFIG_HOME", ".", "mcp-client/mcp.json"),
        ("XDG_CONFIG_HOME", "config", "config/mcp-client/mcp.json"),
        ("CODEX_HOME", ".codex", ".codex/config.toml"),
        ("CODEX_HOME", "..", "../config.toml"),
        ("HOME", ".", ".cursor/mcp.json"),
    ],
)
def test_a_relative_directory_of_settings_makes_no_file_the_users(
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, file: str
) -> None:
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner" if value == ".." else project)
    path = Path(os.path.abspath(file))
    written(path, {} if path.suffix == ".json" else "")
    monkeypatch.setenv(variable, value)
    assert load_config(path).scope == "project"
    assert not [each for each in find_configs() if each.scope == "user"]
    monkeypatch.setenv(variable, os.path.abspath(value))
    assert load_config(path).scope == "user"


def test_the_files_of_the_home_directory_are_the_users_wherever_one_looks_from(
    a_home_of_its_own: Path,
) -> None:
    written(a_home_of_its_own / ".cursor" / "mcp.json", "{}")
    assert [each.scope for each in find_configs(a_home_of_its_own)] == ["user"]


def test_a_path_given_by_hand_is_a_projects(project: Path) -> None:
    path = written(project / "mcp.json", '{"mcpServers": {}}')
    assert load_config(path).scope == "project"
    assert load_config(path, scope="user").scope == "user"


@pytest.mark.parametrize(
    ("name", "content", "program"),
    [
        ("servers.json", '{"servers": {}}', "vscode"),
        ("settings.json", '{"mcp": {"servers": {}}}', "vscode"),
        ("settings.json", '{"mcpServers": {}}', "gemini"),
        ("a.json", '{"mcpServers": {"x": {"httpUrl": "https://e.com"}}}', "gemini"),
        ("a.json", '{"mcpServers": {"x": {"serverUrl": "https://e.com"}}}', "windsurf"),
        ("a.json", '{"mcpServers": {"x": {"command": "x"}}}', "mcp-client"),
        ("a.toml", "", "codex"),
    ],
)
def test_a_file_by_another_name_is_known_by_its_content(
    project: Path, name: str, content: str, program: str
) -> None:
    assert load_config(written(project / name, content)).program == program


def test_whose_file_it_is_is_known(project: Path) -> None:
    path = written(project / "x.json", '{"mcpServers": {"a": {"command": "$TOKEN"}}}')
    assert stdio(load_config(path, program="gemini"), "a").command == "s3cret-t0ken"
    with pytest.raises(ConfigError, match="give one of"):
        load_config(path, program="emacs")
