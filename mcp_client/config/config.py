"""Config files of other programs, and of this one: their servers and their problems.

```python
config = load_config(".mcp.json")
for problem in config.problems:
    print(problem)                       # .mcp.json:12: mcpServers.docs.headers: ...
host = Host(config.servers)              # or Host.from_config(".mcp.json", confirm=...)
```

These files are parsed: those of Claude Desktop, Claude Code and its plugins, VS Code, Cursor, LM
Studio, Windsurf, Gemini CLI, Codex, Copilot CLI and Zed, and ``mcp.json`` of mcp-client. In each of
them, a server may have options of this package::

    {"mcpServers": {"docs": {"url": "https://docs.example.com/mcp", "mcp-client": {"lazy": true}}}}

Some values may have secrets by reference, if the program's file may have ``${VARIABLE}``: those of
``env`` and ``headers``, and the client secret of a login. ``${keyring:SERVICE/USER}`` needs
``mcp-client-host[keyring]``. ``${file:PATH}`` is a file of one line. Its path is relative to the
project's directory, or to your home in your own settings. A person is shown the reference, and the
place of its value. The value is read after the approval, and may be renewed without another one.

Loading a file starts nothing and runs nothing. **A config file is code, though**: the servers it
names run with your rights. ``Host(config.servers)`` starts them without a question;
``Host.from_config`` asks first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..approval.start_request import StartRequest
from ..errors import ConfigError
from ..runtime.directory import checked_path
from ..runtime.safe_text import safe_text
from .fields import ConfigProblem, ParsedFile, listed, shown_key
from .programs import (
    OWN,
    PROGRAMS,
    ConfigFile,
    Program,
    Scope,
    find_configs,
    place_of,
    program_by_content,
)
from .server import Launch, read_server
from .server_config import ServerConfig
from .starting import Looked, Start
from .text import Document, KeyPath, NotReadable, read_json, read_toml
from .values import Files, Unset, Variables, file_text

__all__ = ["Config", "ConfigFile", "ConfigProblem", "find_configs", "load_config"]

_MAX_BYTES = 1024 * 1024
_MAX_OWN_BYTES = 16 * 1024 * 1024
"""The bytes of a person's own settings: some programs store their whole state with the servers."""
_MAX_PUT_IN_BYTES = 1024 * 1024
"""The bytes of all files that one config file includes."""
_MAX_SERVERS = 500
_INPUT_TYPES = ("promptString", "pickString")


@dataclass(frozen=True, slots=True)
class Config:
    """The servers and the problems of a config file."""

    path: Path
    """The file, absolute."""
    program: str
    """The program whose file it is, as in ``ConfigFile.program``."""
    scope: Scope
    """"user" for a person's own settings, "project" for any other file."""
    servers: Mapping[str, ServerConfig] = field(repr=False)
    """The servers that can be used, by name. A look at one reads the secrets that it refers to, and
    of a project's file the file of variables, and raises ``ConfigError`` if that fails. The keyring
    may wait for a person who unlocks it."""
    problems: tuple[ConfigProblem, ...] = ()
    """The problems, and the entries that have no effect here."""
    requests: Mapping[str, StartRequest] = field(default_factory=dict, repr=False)
    """The requests that a person should see before one of ``servers`` is started, by name. A look
    at one looks at the files and programs that it names."""
    _starts: Mapping[str, Start] = field(default_factory=dict, repr=False)

    @property
    def required(self) -> tuple[str, ...]:
        """The servers that a host cannot do without, by the file (Codex: ``required``).

        ``Host.from_config`` adds them to ``required=``.
        """
        return tuple(name for name, one in self._starts.items() if one.first.required)

    def only(self, names: Collection[str]) -> Config:
        """Return this config with these servers alone.

        Raises ``ConfigError`` for one that is not there.
        """
        if isinstance(names, str) or not isinstance(names, Collection):
            raise ConfigError(f"only={names!r}: give a list of names")
        for name in names:
            if name not in self.servers:
                known = ", ".join(safe_text(one, 60) for one in list(self.servers)[:20]) or "none"
                raise ConfigError(
                    f"{self.path} has no server {safe_text(name, 60)!r} that can be used; it has: "
                    f"{known}"
                )
        return self._of({name: self._starts[name] for name in names})

    def _of(self, starts: Mapping[str, Start]) -> Config:
        servers, requests = Looked(starts, Start.config), Looked(starts, Start.request)
        return replace(self, servers=servers, requests=requests, _starts=starts)


def load_config(
    path: str | os.PathLike[str],
    *,
    program: str | None = None,
    scope: Scope | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Config:
    """Load a config file, and no other: nothing is started.

    Args:
        path: The file.
        program: The program whose file it is, if the file's name and directory do not show it: a
            ``ConfigFile.program``, or "claude-desktop".
        scope: "user" or "project". The default is "user" for the places of a person's own settings
            that ``find_configs`` knows, else "project".
        inputs: The values of ``${input:ID}``.

    Returns:
        A ``Config``. A server with a problem is left out of ``.servers`` and reported in
        ``.problems``, with file, line and key.

    Raises:
        ConfigError: If the file is missing or cannot be parsed.
    """
    _check(program, scope, inputs)
    path = checked_path(path, f"path={path!r}")
    path = Path(os.path.abspath(path))
    place = place_of(path)
    scope = scope or ("user" if place.is_user else "project")
    document, kind, problem = _parsed(path, _text_of(path, scope), program or place.program)
    if problem is not None:
        return Config(path, PROGRAMS[kind].public_name, scope, {}, (problem,))
    below = (place.directory, Path.home()) if scope == "project" else None
    workspace = Path.cwd() if place.is_user else place.directory
    files = Files(below, _MAX_PUT_IN_BYTES, reads=scope == "user")
    variables = Variables(workspace, dict(inputs or {}), files=files, base=place.directory)
    parsed = ParsedFile(path, scope, PROGRAMS[kind], document, variables, place.directory)
    return _config(parsed, kind, Files(below, _MAX_PUT_IN_BYTES, reads=True))


def _check(program: object, scope: object, inputs: object) -> None:
    if program is not None and program not in PROGRAMS:
        raise ConfigError(f"program={program!r}: give one of {', '.join(PROGRAMS)}")
    if scope not in (None, "user", "project"):
        raise ConfigError(f"scope={scope!r}: give 'user' or 'project'")
    if inputs is not None and not (
        isinstance(inputs, Mapping)
        and all(isinstance(part, str) for pair in inputs.items() for part in pair)
    ):
        raise ConfigError("inputs=...: give a dict of ids and values, both text")


def _text_of(path: Path, scope: Scope) -> str:
    try:
        return file_text(path, _MAX_BYTES if scope == "project" else _MAX_OWN_BYTES)
    except Unset as error:
        raise ConfigError(f"the config file {error}") from None


def _parsed(path: Path, text: str, kind: str | None) -> tuple[Document, str, ConfigProblem | None]:
    """Return the content of the file, and its program; or the problem that it has another form."""
    document = Document()
    try:
        document = read_toml(text) if kind and PROGRAMS[kind].toml else read_json(text)
        kind = kind or program_by_content(path, document.value)
        program = PROGRAMS[kind]
        document.check(program.lenient)
    except NotReadable as error:
        kind = kind or program_by_content(path, None)
        why = str(error) if text.strip() else f"the file is empty: {error}"
        why = f"{why}; no server is loaded from the file, which was {_taken_for(PROGRAMS[kind])}"
        return document, kind, ConfigProblem(path, error.line, "", why, left_out=True)
    return document, kind, None


def _config(parsed: ParsedFile, kind: str, files: Files) -> Config:
    parsed.document.value = _top(parsed)
    _read_inputs(parsed)
    starts: dict[str, Start] = {}
    for path, members in _servers(parsed, kind):
        launch = read_server(parsed, path, members)
        if launch is None:
            continue
        try:
            launch.config()
        except ConfigError as error:
            parsed.leave_out(path, _why(launch, error))
            continue
        starts[str(path[-1])] = Start(launch, files)
    if not starts:
        _note_that_nothing_came(parsed)
    name, problems = parsed.program.public_name, tuple(parsed.problems)
    return Config(parsed.path, name, parsed.scope, {}, problems)._of(MappingProxyType(starts))


def _taken_for(program: Program) -> str:
    return f"taken for a file of {program.title}"


def _note_that_nothing_came(parsed: ParsedFile) -> None:
    """Report why there is no server, unless the problems of each server show it."""
    if any(problem.left_out for problem in parsed.problems):
        return
    program, top = parsed.program, parsed.document.value
    why = f"{program.servers!r} has no server in it"
    if program.servers not in top:
        names = f"; it has {listed(top)}" if top else ""
        why = f"it has no member {program.servers!r}: write the servers there{names}"
    parsed.note(
        (),
        f"no server is loaded from the file, which was {_taken_for(program)}: {why}",
        left_out=program.servers not in top and not program.shared,
    )


def _why(launch: Launch, error: ConfigError) -> str:
    """Without what a variable may have brought."""
    if launch.url is not None and launch.url.used:
        why = "its URL and headers are not valid after the variables are replaced"
        return f"{why}: check their values"
    return error.message


def _top(parsed: ParsedFile) -> dict[str, Any]:
    value = parsed.document.value
    if not isinstance(value, dict):
        why = f"is not an object, and was {_taken_for(parsed.program)}: write the servers in braces"
        parsed.note((), why, left_out=True)
        return {}
    for path in parsed.document.repeated:
        if len(path) == 1:
            line = parsed.document.repeated[path]
            parsed.note(path, f"is repeated in line {line}: remove one")
    return value


# ---------------------------------------------------------------- places of servers


def _servers(parsed: ParsedFile, kind: str) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each server with its place; of two with the same name, the one that counts."""
    found: dict[str, tuple[KeyPath, Any]] = {}
    for path in _places(parsed, kind):
        for name, members in _object_at(parsed, path).items():
            if not path and not _is_server(members):
                parsed.note((name,), "is not a server, and has no effect here")
            elif name in found and kind == OWN and found[name][1] != members:
                other = shown_key(found.pop(name)[0])
                why = f"differs from {other}, and programs differ in which they take: remove one"
                parsed.leave_out((*path, name), why)
            else:
                found[name] = (*path, name), members
    repeated = {path[:depth] for path in parsed.document.repeated for depth in range(len(path) + 1)}
    allowed, excluded = _gemini_lists(parsed) if kind == "gemini" else (None, ())
    for number, (path, members) in enumerate(found.values()):
        name = str(path[-1])
        if number >= _MAX_SERVERS:
            parsed.leave_out(path, f"is beyond the first {_MAX_SERVERS} servers of this file")
            return
        if path in repeated or path[:-1] in parsed.document.repeated:
            _note_repeated(parsed, path)
        elif (allowed is None or name in allowed) and name not in excluded:
            yield path, members


def _is_server(members: Any) -> bool:
    return isinstance(members, dict) and not members.keys().isdisjoint(("command", "url"))


def _places(parsed: ParsedFile, kind: str) -> list[KeyPath]:
    program = parsed.program
    top = parsed.document.value
    own = program.servers
    places: list[KeyPath] = [(own,)]
    if kind == "vscode" and own not in top and isinstance(top.get("mcp"), dict):
        places = [("mcp", own)]
    elif kind == "claude" and "projects" in top:
        places += _claude_projects(parsed)
    elif kind == OWN and "servers" in top:
        places = [(name,) for name in (own, "servers") if isinstance(top.get(name), dict)]
    elif kind in ("claude", OWN) and own not in top and any(map(_is_server, top.values())):
        places = [()]  # as in a plugin of Claude Code
    if kind == OWN and len(places) > 1:
        parsed.note(("servers",), f"is used in addition to {own!r}: most programs read one of them")
    for place in places if places != [()] else ():
        beside = _object_at(parsed, place[:-1])
        for name in program.unused:
            if beside.get(name) not in (None, "", [], {}):
                parsed.note((*place[:-1], name), f"has no effect: only {program.title} honours it")
    for name in dict.fromkeys(each.servers for each in PROGRAMS.values()):
        others = top.get(name) if own in top and (name,) not in places else None
        if isinstance(others, dict) and others:
            why = f"has no effect: the file was {_taken_for(program)}, which reads {own!r}"
            parsed.note((name,), why)
    return places


def _claude_projects(parsed: ParsedFile) -> Iterator[KeyPath]:
    """Yield the places of a person's own servers for one project in ``~/.claude.json``."""
    projects = parsed.document.value["projects"]
    here = parsed.variables.directory
    for directory in (here, *here.parents):
        if isinstance(projects, dict) and str(directory) in projects:
            yield ("projects", str(directory), "mcpServers")
            return


def _object_at(parsed: ParsedFile, path: KeyPath) -> dict[str, Any]:
    found: dict[str, Any] = parsed.document.value
    for depth, part in enumerate(path, 1):
        value = found.get(str(part))
        if value is None:
            return {}
        if not isinstance(value, dict):
            why = f"is not an object, in what was {_taken_for(parsed.program)}"
            why = f"{why}: write names and values in braces"
            parsed.note(path[:depth], why, left_out=True)
            return {}
        found = value
    return found


def _note_repeated(parsed: ParsedFile, path: KeyPath) -> None:
    for twice, line in parsed.document.repeated.items():
        if twice[: len(path)] == path or twice == path[:-1]:
            why = f"is repeated in line {line}, and programs differ in which they take: remove one"
            parsed.leave_out(twice, why)


def _gemini_lists(parsed: ParsedFile) -> tuple[list[Any] | None, list[Any]]:
    members = _object_at(parsed, ("mcp",))
    if members.get("serverCommand") is not None:
        parsed.note(("mcp", "serverCommand"), "is not supported: name the server in mcpServers")
    allowed, excluded = members.get("allowed"), members.get("excluded")
    allowed = allowed if isinstance(allowed, list) else None
    return allowed, excluded if isinstance(excluded, list) else []


# ---------------------------------------------------------------------- inputs


def _read_inputs(parsed: ParsedFile) -> None:
    """Parse the inputs of the file: a default counts if no value was given."""
    if "input" not in parsed.program.syntax:
        return
    top = parsed.document.value
    of_mcp = top["mcp"].get("inputs") if isinstance(top.get("mcp"), dict) else None
    inputs = top.get("inputs", of_mcp)
    defaults: dict[str, str] = {}
    for number, item in enumerate(inputs if isinstance(inputs, list) else []):
        path = ("inputs", number)
        name = item.get("id") if isinstance(item, dict) else None
        if not isinstance(name, str):
            parsed.note(path, "is not an input: it has no id")
            continue
        parsed.inputs[name] = item
        kind = item.get("type")
        if name in parsed.variables.inputs:
            continue
        if kind not in _INPUT_TYPES:
            why = "runs a command of the editor, which is never done here"
            why = why if kind == "command" else "has a type that is not known here"
            why = f"the input {safe_text(name, 80)!r} {why}: give its value as inputs={{...}}"
            parsed.note(path, why)
            parsed.unusable_inputs[name] = why
        elif isinstance(item.get("default"), str) and item["default"]:
            defaults[name] = item["default"]
    parsed.variables = replace(parsed.variables, defaults=defaults)
