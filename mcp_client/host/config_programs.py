"""What each program's config file looks like: where its servers stand, what it calls their fields.

Names of fields are translated into one vocabulary, that of ``config_server``. A field that a
program does not document is reported and not used: what it means there would be a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .interpolation import BRACED, DOLLAR, NO_SYNTAX, Syntax

__all__ = ["OWN", "PROGRAMS", "Program"]

OWN = "mcp-client"
"""The member of a server that holds our own options, in any program's file."""


@dataclass(frozen=True, slots=True)
class Program:
    title: str
    fields: Mapping[str, str]
    """The program's name of a field, and ours; "" for one that has no effect here."""
    servers: str = "mcpServers"
    """The member that holds the servers."""
    syntax: Syntax = NO_SYNTAX
    comments: bool = False
    trailing_commas: bool = False
    toml: bool = False
    shared: bool = False
    """Whether the file holds other settings too, so that it need not name servers at all."""


_STDIO = {"type": "type", "command": "command", "args": "args", "env": "env"}
_HTTP = {"url": "url", "headers": "headers"}
_EVERYWHERE = {"disabled": "disabled", OWN: "own"}
_EDITOR = Syntax(kinds=frozenset({"env", "input"}), folders=True)

_CLAUDE_CODE = {
    **_STDIO,
    **_HTTP,
    "timeout": "timeout_ms",
    "headersHelper": "headers_helper",
    "oauth": "oauth",
    "alwaysLoad": "",
}
_VSCODE = {
    **_STDIO,
    **_HTTP,
    "envFile": "env_file",
    "cwd": "cwd",
    "oauth": "oauth",
    "sandboxEnabled": "sandbox",
    "sandbox": "",
    "dev": "",
    "gallery": "",
    "version": "",
}
_CURSOR = {**_STDIO, **_HTTP, "envFile": "env_file", "auth": "oauth"}
_WINDSURF = {
    **_STDIO,
    "serverUrl": "url",
    **_HTTP,
    "disabledTools": "exclude",
}
_GEMINI = {
    **_STDIO,
    "httpUrl": "url",
    **_HTTP,
    "cwd": "cwd",
    "timeout": "timeout_ms",
    "includeTools": "include",
    "excludeTools": "exclude",
    "description": "description",
    "oauth": "oauth",
    "authProviderType": "auth_provider",
}
_CODEX = {
    **_STDIO,
    "env_vars": "env_vars",
    "cwd": "cwd",
    "url": "url",
    "bearer_token_env_var": "bearer_variable",
    "http_headers": "headers",
    "env_http_headers": "header_variables",
    "scopes": "scopes",
    "oauth": "oauth",
    "oauth_resource": "resource",
    "enabled": "enabled",
    "required": "required",
    "startup_timeout_sec": "startup_seconds",
    "startup_timeout_ms": "startup_ms",
    "tool_timeout_sec": "timeout_seconds",
    "enabled_tools": "include",
    "disabled_tools": "exclude",
    "tools": "tool_modes",
}
_STANDARD = {
    **_STDIO,
    **_HTTP,
    "envFile": "env_file",
    "cwd": "cwd",
    "oauth": "oauth",
    "timeout": "timeout_ms",
    "description": "description",
    "title": "",
}

PROGRAMS: Mapping[str, Program] = {
    "claude-desktop": Program("Claude Desktop", {**_STDIO, **_EVERYWHERE}, shared=True),
    "claude": Program("Claude Code", {**_CLAUDE_CODE, **_EVERYWHERE}, syntax=BRACED),
    "vscode": Program(
        "VS Code",
        {**_VSCODE, **_EVERYWHERE},
        servers="servers",
        syntax=_EDITOR,
        comments=True,
        trailing_commas=True,
    ),
    "cursor": Program(
        "Cursor",
        {**_CURSOR, **_EVERYWHERE},
        syntax=Syntax(kinds=frozenset({"env"}), folders=True),
        comments=True,
        trailing_commas=True,
    ),
    "lmstudio": Program(
        "LM Studio",
        {**_CURSOR, **_EVERYWHERE},
        syntax=Syntax(kinds=frozenset({"env"}), folders=True),
        comments=True,
        trailing_commas=True,
    ),
    "windsurf": Program(
        "Windsurf",
        {**_WINDSURF, **_EVERYWHERE},
        syntax=Syntax(kinds=frozenset({"env", "file"})),
    ),
    "gemini": Program(
        "Gemini CLI", {**_GEMINI, **_EVERYWHERE}, syntax=DOLLAR, comments=True, shared=True
    ),
    "codex": Program(
        "Codex", {**_CODEX, OWN: "own"}, servers="mcp_servers", toml=True, shared=True
    ),
    "mcp-client": Program(
        "mcp-client",
        {**_STANDARD, **_EVERYWHERE},
        syntax=Syntax(braced=True, kinds=frozenset({"env", "input"}), folders=True),
        comments=True,
        trailing_commas=True,
    ),
}
