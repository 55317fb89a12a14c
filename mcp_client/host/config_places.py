"""Where programs keep their config files, and which program a file belongs to.

A *user* file is one of a person's own settings, at a place that is known here. Anything else is a
*project* file: it may have come with a repository, and grants itself nothing.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..approval.start_request import Scope

__all__ = ["ConfigFile", "Scope", "find_configs", "folder_of", "guess_program", "user_place"]

_IN_A_FOLDER = {".vscode": "vscode", ".cursor": "cursor", ".lmstudio": "lmstudio"}
_BY_NAME = {
    "claude_desktop_config.json": "claude-desktop",
    ".mcp.json": "claude",
    ".claude.json": "claude",
    "mcp_config.json": "windsurf",
    "config.toml": "codex",
}
_IN_PROJECTS = (
    (".mcp.json", "claude"),
    (".vscode/mcp.json", "vscode"),
    (".cursor/mcp.json", "cursor"),
    (".gemini/settings.json", "gemini"),
    (".codex/config.toml", "codex"),
    ("mcp.json", "mcp-client"),
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file that was found."""

    path: Path
    program: str
    """"claude", "vscode", "cursor", "lmstudio", "windsurf", "gemini", "codex" or "mcp-client"."""
    scope: Scope
    """"user" for a person's own settings, "project" for a file of the folder."""


def find_configs(folder: str | os.PathLike[str] = ".") -> list[ConfigFile]:
    """The config files of all programs that there are: those of the project in ``folder``, then
    those of the user. They are not read: give ``path`` to ``load_config`` or
    ``Host.from_config``."""
    base = Path(os.path.abspath(folder))
    places = _user_places()
    mine = {os.path.realpath(path) for path, _ in places}
    found = [
        ConfigFile(path, program, "project")
        for name, program in _IN_PROJECTS
        if (path := base / name).is_file() and os.path.realpath(path) not in mine
    ]
    return found + [
        ConfigFile(path, public_name(program), "user") for path, program in places if path.is_file()
    ]


def public_name(program: str) -> str:
    return "claude" if program == "claude-desktop" else program


def user_place(path: Path) -> str | None:
    """The program whose user file this is; None for any other file."""
    real = os.path.realpath(path)
    for place, program in _user_places():
        if os.path.realpath(place) == real:
            return program
    return None


def guess_program(path: Path, value: Any) -> str:
    """By the file's name and folder; by what it says where the name does not tell."""
    known = _BY_NAME.get(path.name) or _IN_A_FOLDER.get(path.parent.name)
    if known is not None:
        return known
    if path.suffix == ".toml":
        return "codex"
    if path.parent.name == ".gemini":
        return "gemini"
    members = value if isinstance(value, dict) else {}
    if "servers" in members or "servers" in _object(members.get("mcp")):
        return "vscode"
    servers = _object(members.get("mcpServers"))
    fields = {name for server in servers.values() for name in _object(server)}
    if path.name == "settings.json" or "httpUrl" in fields:
        return "gemini"
    return "windsurf" if "serverUrl" in fields else "mcp-client"


def folder_of(path: Path) -> Path:
    """The project's folder: of ``x/.vscode/mcp.json`` it is ``x``."""
    inside = path.parent.name in {".vscode", ".cursor", ".gemini", ".codex", ".lmstudio"}
    return path.parent.parent if inside else path.parent


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _user_places() -> list[tuple[Path, str]]:
    home = Path.home()
    if not home.is_absolute():
        return []
    if sys.platform == "darwin":
        data = config = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        data = config = _folder("APPDATA", home / "AppData" / "Roaming")
    else:
        data = home / ".config"
        config = _folder("XDG_CONFIG_HOME", data)
    codex = _folder("CODEX_HOME", home / ".codex")
    return [
        (config / "mcp-client" / "mcp.json", "mcp-client"),
        (data / "Claude" / "claude_desktop_config.json", "claude-desktop"),
        (home / ".claude.json", "claude"),
        (data / "Code" / "User" / "mcp.json", "vscode"),
        (home / ".cursor" / "mcp.json", "cursor"),
        (home / ".lmstudio" / "mcp.json", "lmstudio"),
        (home / ".codeium" / "windsurf" / "mcp_config.json", "windsurf"),
        (home / ".codeium" / "mcp_config.json", "windsurf"),
        (home / ".gemini" / "settings.json", "gemini"),
        (codex / "config.toml", "codex"),
    ]


def _folder(variable: str, otherwise: Path) -> Path:
    """A relative path counts for nothing, as XDG's specification has it: in a project's folder it
    would make the project's file a person's own."""
    path = Path(os.environ.get(variable) or otherwise)
    return path if path.is_absolute() else otherwise
