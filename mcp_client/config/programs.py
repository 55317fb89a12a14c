"""The form of each program's config file, and its places.

Names of fields are translated into one vocabulary, that of ``config.server``. A field that a
program does not document is reported and not used: its meaning there would be a guess.

A *user* file is one of a person's own settings, at a place that is known here. Anything else is a
*project* file: it may have come with a repository, and grants itself nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..approval.start_request import Scope
from .values import Syntax

__all__ = ["OWN", "PROGRAMS", "UNUSED", "ConfigFile", "Program", "Scope", "find_configs"]

OWN = "mcp-client"
"""Our own program, and the member of a server that holds our own options in any program's file."""
UNUSED = "unused"
"""A mark for a field that a program honours and this package does not."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with config files."""

    title: str
    public_name: str
    """The name that users know."""
    fields: Mapping[str, str]
    """The program's name of a field, and ours; ``UNUSED`` for one that is reported, because it has
    no effect here, and "" for a label that has none anywhere."""
    servers: str = "mcpServers"
    """The member that holds the servers."""
    syntax: Syntax = frozenset()
    lenient: frozenset[str] = frozenset()
    """The deviations from JSON that its JSON may have: see ``config.text``."""
    toml: bool = False
    unused: tuple[str, ...] = ()
    """The members next to the servers, or to those of a project, that describe them, and have no
    effect here."""
    shared: bool = False
    """Whether the file holds other settings too, so that it need not name servers at all."""
    file_names: tuple[str, ...] = ()
    """The names of files that are this program's in any directory."""
    directory: str = ""
    """The directory in which every file is this program's, and which is in a project's
    directory."""
    in_project: str = ""
    """The path of its file in a project."""
    of_user: tuple[str, ...] = ()
    """The paths of a person's files; ``{config}`` and the like are of ``_user_directories``."""
    instead: str = ": write the value"
    """The advice for a file that knows no variables."""

    @property
    def knows_local(self) -> bool:
        """Whether ``"type": "local"`` is a word of its own."""
        return self.public_name in ("copilot", OWN)

    def variable(self, name: str) -> str | None:
        """Return how its files spell a variable of the environment; None if they have none."""
        if "env" in self.syntax:
            return f"${{env:{name}}}"
        return f"${{{name}}}" if "braced" in self.syntax else None


def as_own(*names: str) -> dict[str, str]:
    """Return fields that have our own names."""
    return {name: name for name in names}


_STDIO = {**as_own("type", "command", "args", "env"), OWN: "own"}
_COMMON = {**_STDIO, **as_own("url", "headers", "disabled")}
_CURSOR = {**_COMMON, "envFile": "env_file", "auth": "oauth"}
_EDITOR = frozenset({"env", "directories"})
_LENIENT = frozenset({"comments", "trailing commas"})

PROGRAMS: Mapping[str, Program] = {
    "claude-desktop": Program(
        "Claude Desktop",
        "claude",
        {**_STDIO, "disabled": "disabled"},
        shared=True,
        file_names=("claude_desktop_config.json",),
        of_user=("{data}/Claude/claude_desktop_config.json",),
    ),
    "claude": Program(
        "Claude Code",
        "claude",
        {
            **_COMMON,
            **as_own("cwd", "oauth"),
            "timeout": "timeout_ms",
            "headersHelper": "headers_helper",
            "alwaysLoad": UNUSED,
        },
        syntax=frozenset({"braced", "plugin"}),
        unused=("disabledMcpServers", "disabledMcpjsonServers", "enabledMcpjsonServers"),
        file_names=(".mcp.json", ".claude.json"),
        in_project=".mcp.json",
        of_user=("{home}/.claude.json",),
    ),
    "vscode": Program(
        "VS Code",
        "vscode",
        {
            **_COMMON,
            **as_own("cwd", "oauth"),
            "envFile": "env_file",
            "sandboxEnabled": "sandbox",
            "sandbox": "sandbox_rules",
            "dev": UNUSED,
            **dict.fromkeys(("gallery", "version"), ""),
        },
        servers="servers",
        syntax=_EDITOR | {"input"},
        lenient=_LENIENT,
        directory=".vscode",
        in_project=".vscode/mcp.json",
        of_user=("{data}/Code/User/mcp.json",),
    ),
    "cursor": Program(
        "Cursor",
        "cursor",
        _CURSOR,
        syntax=_EDITOR,
        lenient=_LENIENT,
        directory=".cursor",
        in_project=".cursor/mcp.json",
        of_user=("{home}/.cursor/mcp.json",),
    ),
    "lmstudio": Program(
        "LM Studio",
        "lmstudio",
        _CURSOR,
        syntax=_EDITOR,
        lenient=_LENIENT,
        directory=".lmstudio",
        of_user=("{home}/.lmstudio/mcp.json",),
    ),
    "windsurf": Program(
        "Windsurf",
        "windsurf",
        {"serverUrl": "url", **_COMMON, "disabledTools": "exclude"},
        syntax=frozenset({"env"}),
        file_names=("mcp_config.json",),
        of_user=("{home}/.codeium/windsurf/mcp_config.json", "{home}/.codeium/mcp_config.json"),
    ),
    "gemini": Program(
        "Gemini CLI",
        "gemini",
        {
            "httpUrl": "url",
            **_COMMON,
            **as_own("cwd", "oauth", "description"),
            "timeout": "timeout_ms",
            "includeTools": "include",
            "excludeTools": "exclude",
            "authProviderType": "auth_provider",
            **dict.fromkeys(("targetAudience", "targetServiceAccount", "tcp"), UNUSED),
        },
        syntax=frozenset({"braced", "bare"}),
        lenient=frozenset({"comments"}),
        shared=True,
        directory=".gemini",
        in_project=".gemini/settings.json",
        of_user=("{home}/.gemini/settings.json",),
    ),
    "codex": Program(
        "Codex",
        "codex",
        {
            **_STDIO,
            **as_own("env_vars", "cwd", "url", "scopes", "oauth", "enabled", "required"),
            "bearer_token_env_var": "bearer_variable",
            "http_headers": "headers",
            "http_headers_helper": "headers_helper",
            "env_http_headers": "header_variables",
            "oauth_resource": "resource",
            "startup_timeout_sec": "startup_seconds",
            "startup_timeout_ms": "startup_ms",
            "tool_timeout_sec": "timeout_seconds",
            "enabled_tools": "include",
            "disabled_tools": "exclude",
            "tools": "tool_modes",
            "name": "",
            **dict.fromkeys(
                ("environment_id", "experimental_environment", "supports_parallel_tool_calls"),
                UNUSED,
            ),
        },
        servers="mcp_servers",
        toml=True,
        unused=("mcp_oauth_callback_port", "mcp_oauth_callback_url", "mcp_oauth_credentials_store"),
        shared=True,
        instead=": name it in env_vars, env_http_headers or bearer_token_env_var",
        file_names=("config.toml",),
        directory=".codex",
        in_project=".codex/config.toml",
        of_user=("{codex}/config.toml",),
    ),
    "copilot": Program(
        "Copilot CLI",
        "copilot",
        {
            **_COMMON,
            "cwd": "cwd",
            "tools": "tool_names",
            "timeout": "timeout_ms",
            "oauthClientId": "client_id",
            "oauthScopes": "scopes",
            **dict.fromkeys(
                """
                deferTools disableToolCache filterMapping oauthGrantType oauthPublicClient oidc
                slowConnectionThresholdMs
                """.split(),  # noqa: SIM905 - a list of words is read as words
                UNUSED,
            ),
        },
        syntax=frozenset({"braced", "bare"}),
        file_names=("mcp-config.json",),
        directory=".github",
        in_project=".github/mcp.json",
        of_user=("{copilot}/mcp-config.json",),
    ),
    "zed": Program(
        "Zed",
        "zed",
        {
            **as_own("command", "args", "env", "url", "headers", "enabled", "oauth"),
            OWN: "own",
            "timeout": "timeout_seconds",
            "settings": "of_extension",
            "source": "",
            "remote": UNUSED,
        },
        servers="context_servers",
        lenient=_LENIENT,
        unused=("context_server_timeout",),
        shared=True,
        directory=".zed",
        in_project=".zed/settings.json",
        of_user=("{zed}/settings.json",),
    ),
    OWN: Program(
        "mcp-client",
        OWN,
        {
            **_COMMON,
            **as_own("cwd", "oauth", "description"),
            "envFile": "env_file",
            "timeout": "timeout_ms",
            "tools": "tool_names",
            "title": "",
        },
        syntax=_EDITOR | {"input", "braced"},
        lenient=_LENIENT,
        in_project="mcp.json",
        of_user=("{config}/mcp-client/mcp.json",),
    ),
}
_BY_FILE_NAME = {each: name for name, one in PROGRAMS.items() for each in one.file_names}
_BY_DIRECTORY = {one.directory: name for name, one in PROGRAMS.items() if one.directory}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file that was found."""

    path: Path
    """The absolute path."""
    program: str
    """The program whose file it is: "claude", "vscode", "cursor", "lmstudio", "windsurf", "gemini",
    "codex", "copilot", "zed" or "mcp-client"."""
    scope: Scope
    """"user" for a person's own settings, "project" for a file of the directory."""


def find_configs(directory: str | os.PathLike[str] = ".") -> list[ConfigFile]:
    """Find the config files of all programs, without parsing them.

    Those of the project in ``directory`` come first, then those of the user. Pass a
    ``path`` to ``load_config`` or ``Host.from_config``.
    """
    base = Path(os.path.abspath(directory))
    places = list(_user_places())
    mine = {os.path.realpath(path) for path, _ in places}
    found = [
        ConfigFile(path, program.public_name, "project")
        for program in PROGRAMS.values()
        if program.in_project
        and os.path.isfile(path := base / program.in_project)
        and os.path.realpath(path) not in mine
    ]
    return found + [
        ConfigFile(path, PROGRAMS[name].public_name, "user")
        for path, name in places
        if os.path.isfile(path)
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """The meaning of a config file's place."""

    program: str | None
    """The program whose file it is; None if its name and directory do not show it."""
    is_user: bool
    directory: Path
    """The directory in which servers run: the home, or the project's. Of ``x/.vscode/mcp.json`` it
    is ``x``."""


def place_of(path: Path) -> Place:
    """Return the meaning of the path."""
    real = os.path.realpath(path)
    for place, name in _user_places():
        if os.path.realpath(place) == real:
            return Place(name, True, Path.home())
    inside = path.parent.name in _BY_DIRECTORY
    program = _BY_FILE_NAME.get(path.name) or _BY_DIRECTORY.get(path.parent.name)
    if program is None and path.suffix == ".toml":
        program = "codex"
    return Place(program, False, path.parent.parent if inside else path.parent)


def program_by_content(path: Path, value: Any) -> str:
    """Return the program whose file this is, by its content."""
    members = _object(value)
    servers = _object(members.get("mcpServers"))
    if "context_servers" in members and "mcpServers" not in members:
        return "zed"
    if "servers" in _object(members.get("mcp")):
        return "vscode"
    if "servers" in members:
        return OWN if servers else "vscode"
    fields = {name for server in servers.values() for name in _object(server)}
    if path.name == "settings.json" or "httpUrl" in fields:
        return "gemini"
    return "windsurf" if "serverUrl" in fields else OWN


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _user_places() -> Iterator[tuple[Path, str]]:
    """Yield each place with its program; our own first, so that it comes before those of others."""
    directories = _user_directories()
    for name in sorted(PROGRAMS, key=lambda one: one != OWN) if directories else ():
        for place in PROGRAMS[name].of_user:
            yield Path(place.format_map(directories)), name


def _user_directories() -> Mapping[str, Path]:
    home = Path.home()
    if not home.is_absolute():
        return {}
    if sys.platform == "darwin":
        data = config = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        data = config = _directory("APPDATA", home / "AppData" / "Roaming")
    else:
        data = home / ".config"
        config = _directory("XDG_CONFIG_HOME", data)
    elsewhere = _directory("XDG_CONFIG_HOME", home / ".config")
    return {
        "home": home,
        "data": data,
        "config": config,
        "codex": _directory("CODEX_HOME", home / ".codex"),
        "copilot": _directory("COPILOT_HOME", home / ".copilot"),
        "zed": data / "Zed" if sys.platform == "win32" else elsewhere / "zed",
    }


def _directory(variable: str, otherwise: Path) -> Path:
    """Return a directory of the user's, from a variable or else ``otherwise``.

    A relative path is ignored, as XDG's specification demands: in a project's directory it would
    make the project's file a person's own.
    """
    path = Path(os.environ.get(variable) or otherwise)
    return path if path.is_absolute() else otherwise
