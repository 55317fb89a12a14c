"""Parse one server of a config file: from any program's fields to a ``Launch``.

A ``Launch`` is the one value that describes the server until it is started. It makes the
``ServerConfig``, and shows a person what would be started (``starting``). Both come from the
same parsed result, so what is confirmed is what is started.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..protocol.capabilities import is_known
from ..runtime.limits import Timeouts
from ..runtime.safe_text import invisible, safe_text
from ..transports.stdio import StdioServer
from .fields import Fields, ParsedFile, listed
from .programs import OWN, as_own
from .security import GivenSandbox, own_sandbox, read_login, vscode_sandbox
from .server_config import ServerConfig
from .text import KeyPath, OutOfRange
from .values import LOADERS, Expanded, SecretReference, Unset, env_values, is_within, values_of

if TYPE_CHECKING:
    from ..transports.http import HttpServer

__all__ = ["Launch", "read_server"]

_TYPES = {
    "stdio": "command",
    "http": "url",
    "sse": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}
_OTHER_TYPES = {"local": "command", "remote": "url"}
"""Words of other programs, such as Copilot CLI, which mean one thing only."""
_GRANTS = re.compile(r"trust(ed)?|always_?allow.*|auto.*|default_tools_approval_mode", re.I)
"""Names of fields with which a file would decide what may run without asking."""
_HARMLESS_GRANTS: tuple[Any, ...] = (None, False, "prompt", "ask", [], {})
_ANY = {
    **dict.fromkeys(("include", "exclude", "tool_names"), Fields.names),
    **dict.fromkeys(("disabled", "enabled", "required"), Fields.flag),
    **dict.fromkeys(("resource", "description"), Fields.raw),
    **dict.fromkeys(("startup_seconds", "timeout_seconds"), Fields.seconds),
    **dict.fromkeys(("startup_ms", "timeout_ms"), Fields.milliseconds),
    **dict.fromkeys(("tool_modes", "own"), Fields.object),
}
"""The parsers of the fields of any server, by our names for them; and those of one that is started,
and of one at a URL."""
_STDIO = {
    **dict.fromkeys(("command", "cwd", "env_file"), Fields.text),
    "args": Fields.words,
    "env_vars": Fields.names_of_variables,
    "env": Fields.secret_pairs,
}
_HTTP = {
    **dict.fromkeys(("headers_helper", "auth_provider", "bearer_variable"), Fields.raw),
    "url": Fields.text,
    "headers": Fields.secret_pairs,
    "header_variables": Fields.pairs,
    "scopes": Fields.names,
}
_OWN = {
    **dict.fromkeys(("include", "exclude"), Fields.names),
    **dict.fromkeys(("lazy", "enabled", "trusted"), Fields.flag),
    **dict.fromkeys(("validation", "revision", "description"), Fields.raw),
    **dict.fromkeys(("timeouts", "bind"), Fields.object),
    "sandbox": own_sandbox,
}
_TIMEOUTS = dict.fromkeys(("connect", "idle", "total", "ping"), Fields.seconds)
_NO_MORE_THAN_A_SCHEME = re.compile(r"\s*([A-Za-z][\w-]*\s+)?")
"""The pattern of the rest of a header that has a scheme and a token, without the token."""
_MAX_ENV_FILE_BYTES = 1024 * 1024
_MAX_NAME_CHARS = 128


@dataclass(frozen=True)
class Launch:
    """A server with its references put in: each text as it will be used and as it may be shown."""

    parsed: ParsedFile = field(repr=False)
    """The file, and its directory."""
    path: KeyPath
    """The place in the file."""
    written: Mapping[str, Any] = field(repr=False)
    """The server's members as they are in the file."""
    command: Expanded | None = None
    args: tuple[Expanded, ...] = ()
    env: Mapping[str, Expanded] = field(default_factory=dict)
    env_file: Expanded | None = None
    env_of_file: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Expanded | None = None
    url: Expanded | None = None
    headers: Mapping[str, Expanded] = field(default_factory=dict)
    login: Mapping[str, Expanded] | None = None
    """The login in the file: arguments of ``OAuth``, with the scopes in one text."""
    timeouts: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of ``ServerConfig``."""
    sandbox: GivenSandbox | bool | None = None
    """The sandbox; False for none, whatever the host's is; None for the host's."""
    required: bool = False
    """Whether the host cannot do without it."""

    @property
    def name(self) -> str:
        """The server's name."""
        return str(self.path[-1])

    @cached_property
    def places(self) -> Mapping[str, Expanded]:
        """The values that may have references, by their names for a person."""
        places = {
            "command": self.command,
            **{f"args[{number}]": each for number, each in enumerate(self.args)},
            **{f"env.{name}": each for name, each in self.env.items()},
            "envFile": self.env_file,
            "cwd": self.cwd,
            "url": self.url,
            **{f"headers.{name}": each for name, each in self.headers.items()},
            **{f"oauth.{name}": each for name, each in (self.login or {}).items()},
            **(self.sandbox.places if isinstance(self.sandbox, GivenSandbox) else {}),
        }
        return {place: each for place, each in places.items() if each is not None}

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        """The secrets that it refers to, which are not read."""
        return tuple(secret for each in self.places.values() for secret in each.secrets)

    def with_secrets(self) -> Launch:
        """Return it with its secrets read.

        This waits for a person if the keyring has to be unlocked. Raises ``ConfigError``.
        """
        from .security import Secrets

        put_in = Secrets(self.parsed).put_into
        login = None if self.login is None else put_in(self.login)
        return replace(self, env=put_in(self.env), headers=put_in(self.headers), login=login)

    def config(self, timeouts: Timeouts | None = None) -> ServerConfig:
        """Return the server's config. Raises ``ConfigError``.

        ``timeouts`` are those of the host, if the file sets only some.
        """
        if not self.timeouts:
            return self._config
        return replace(self._config, timeouts=replace(timeouts or Timeouts(), **self.timeouts))

    @cached_property
    def _config(self) -> ServerConfig:
        return ServerConfig(self._server(), **self.options)

    def _server(self) -> StdioServer | HttpServer:
        if self.command is not None:
            env = {**self.env_of_file, **values_of(self.env)}
            args = tuple(each.value for each in self.args)
            cwd = self.cwd and self.cwd.value
            own = self.sandbox
            sandbox = own.made() if isinstance(own, GivenSandbox) else own
            return StdioServer(self.command.value, args, env=env, cwd=cwd, sandbox=sandbox)
        from ..transports.http import HttpServer

        assert self.url is not None
        auth: Any = None
        if self.login is not None:
            from ..auth import OAuth

            values: dict[str, Any] = values_of(self.login)
            if "scopes" in values:
                values["scopes"] = tuple(values["scopes"].split())
            auth = OAuth(**values)
        return HttpServer(self.url.value, headers=values_of(self.headers) or None, auth=auth)


def read_server(parsed: ParsedFile, path: KeyPath, members: Any) -> Launch | None:
    """Return the server at ``path``; None, with problems, if it cannot be used."""
    parsed.failed = False
    name, written = str(path[-1]), members
    if not isinstance(members, dict):
        parsed.leave_out(path, "is not an object with the fields of a server")
    elif not name or len(name) > _MAX_NAME_CHARS or invisible(name):
        why = f"cannot be the name of a server: give 1 to {_MAX_NAME_CHARS} visible characters"
        parsed.leave_out(path, why)
    elif (where := _out_of_range(members)) is not None:
        parsed.leave_out((*path, *where), "is a number out of range")
    else:
        members = _with_flat_command(parsed, path, members)
        grants = [each for each in members if _GRANTS.fullmatch(each)]
        names = {**parsed.program.fields, **dict.fromkeys(grants, "")}
        fields = Fields(parsed, path, members, names, title=parsed.program.title)
        for grant in grants:
            _refuse_grant(fields, grant, members[grant])
        kind = _kind(fields)
        timeouts: dict[str, float] = {}
        options = _options(fields, timeouts)
        parts = _stdio(fields) if kind == "command" else _http(fields) if kind == "url" else {}
        sandbox = options.pop("sandbox", None)
        if options.pop("required", False) and options.get("enabled", True):
            parts["required"] = True
        if kind == "command":
            parts["sandbox"] = vscode_sandbox(fields) if sandbox is None else sandbox
        elif sandbox is not None:
            parsed.note((*path, OWN, "sandbox"), "has no effect: at a URL nothing is started")
        if not parsed.failed:
            if kind == "command":
                fields.unused([*_HTTP, "oauth", "client_id"], "this server is not at a URL")
            else:
                fields.unused(_STDIO, "nothing is started at a URL")
            return Launch(parsed, path, written, timeouts=timeouts, options=options, **parts)
    return None


def _with_flat_command(
    parsed: ParsedFile, path: KeyPath, members: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Convert Zed's older form: program, arguments and environment in one object."""
    command = members.get("command")
    if not isinstance(command, dict) or "path" not in command:
        return members
    parsed.note((*path, "command"), "is Zed's older form: path, args and env are taken from it")
    inner = {"command" if name == "path" else name: each for name, each in command.items()}
    return {**inner, **{name: each for name, each in members.items() if name != "command"}}


def _out_of_range(value: Any) -> KeyPath | None:
    """Return the place of a number in ``value`` that is too large to be parsed."""
    if isinstance(value, OutOfRange):
        return ()
    is_list = isinstance(value, list)
    items = value.items() if isinstance(value, dict) else enumerate(value if is_list else ())
    found = ((part, _out_of_range(each)) for part, each in items)
    return next(((part, *where) for part, where in found if where is not None), None)


def _refuse_grant(fields: Fields, name: str, value: Any) -> None:
    why = "has no effect: a config file does not decide which calls run without asking"
    if value not in _HARMLESS_GRANTS:
        fields.note(name, f"{why}. Use approval=Rules(...) for that")


def _kind(fields: Fields) -> str | None:
    """Return "command" or "url", the way to the server."""
    there = [each for each in ("command", "url") if fields.raw(each) is not None]
    if len(there) == 2:  # an empty one says nothing beside the other
        there = [each for each in there if fields.raw(each) != ""] or there
    named = fields.raw("type")
    if named not in (None, ""):
        kind = _kind_named(fields, named) if isinstance(named, str) else None
        if kind is None:
            fields.wrong("type", f"is not one of {listed(_TYPES, 9)}: write one of these")
        elif kind not in there:
            fields.wrong("type", f"is {named!r}, and {kind!r} is missing: add it, too")
        return kind
    if len(there) == 2:
        fields.wrong("url", "is used together with a command: remove one, or give 'type'")
    elif not there and fields.has("of_extension"):
        fields.unusable("is a server of an extension, which only Zed starts")
    elif not there:
        has_urls = "url" in fields.parsed.program.fields.values()
        lacks = "neither a command nor a url: add one" if has_urls else "no command: add one"
        fields.unusable(f"has {lacks}")
    return there[0] if len(there) == 1 else None


def _kind_named(fields: Fields, named: str) -> str | None:
    if named in _TYPES:
        return _TYPES[named]
    kinds = {name.lower(): kind for name, kind in (_TYPES | _OTHER_TYPES).items()}
    kind = kinds.get(named.lower())
    if kind is not None and not (named == "local" and fields.parsed.program.knows_local):
        meant = "stdio" if kind == "command" else "http"
        fields.note("type", f"{named!r} is taken for {meant!r}")
    return kind


# ------------------------------------------------------------------ how to reach it


def _stdio(fields: Fields) -> dict[str, Any]:
    values = fields.read(_STDIO)
    command: Expanded | None = values["command"]
    env: dict[str, Expanded] = {**values["env_vars"], **values["env"]}
    for name in env:
        if not name or "=" in name:
            fields.wrong("env", "is not the name of a variable", name)
        if _chooses_code(fields.parsed, name, env[name]):
            why = "makes programs load code, so its value has to be written here"
            fields.wrong("env", why, name)
    cwd = _absolute(fields.parsed.base, values["cwd"] or Expanded("", ""))
    env_file, env_of_file = _env_file(fields, values["env_file"])
    if command is not None and not command.value.strip():
        fields.wrong("command", "is empty: write the program to start")
    files = {"env_file": env_file, "env_of_file": env_of_file}
    return {"command": command, "args": values["args"], "env": env, "cwd": cwd, **files}


def _chooses_code(parsed: ParsedFile, name: str, value: Expanded) -> bool:
    """Whether a file of the project sets such a variable: no one is asked again when it changes."""
    return (
        parsed.scope == "project"
        and LOADERS.fullmatch(name) is not None
        and any(is_within(each.place, str(parsed.base)) for each in value.secrets)
    )


def _http(fields: Fields) -> dict[str, Any]:
    values = fields.read(_HTTP)
    program = fields.parsed.program
    in_file = next(name for name, meaning in program.fields.items() if meaning == "headers")
    instead = f"give the header in {in_file!r}, or connect from code with HttpServer(auth=...)"
    if values["headers_helper"] is not None:
        what = "is a command that prints headers, and no command is run for them here"
        fields.wrong("headers_helper", f"{what}: {instead}")
    if values["auth_provider"] not in (None, "dynamic_discovery"):
        fields.wrong("auth_provider", f"is a login that only {program.title} has: {instead}")
    headers: dict[str, Expanded] = values["headers"]
    for name, each in headers.items():
        if each.empty and _NO_MORE_THAN_A_SCHEME.fullmatch(each.value):
            fields.note(in_file, f"{safe_text(name, 80)!r} is left out: nothing is in it")
            headers[name] = each._replace(is_set=False)
    for header, name in values["header_variables"].items():
        found = fields.variable(header, name.value, "header_variables", header, optional=True)
        if header not in headers or found[header].is_set:
            headers.update(found)
    token = values["bearer_variable"]
    if token is not None:
        found = fields.variable("Authorization", str(token), "bearer_variable")
        headers.update(
            (name, each._replace(value=f"Bearer {each.value}", shown=f"Bearer {each.shown}"))
            for name, each in found.items()
        )
    has_login = fields.has("oauth") or fields.has("client_id") or values["scopes"] is not None
    login = read_login(fields, values["scopes"]) if has_login else None
    return {"url": values["url"], "headers": headers, "login": login}


def _absolute(base: Path, path_text: Expanded) -> Expanded:
    """Return the absolute path, shown as written if it has a reference to outside the file."""
    path = os.path.abspath(base / path_text.value)
    return path_text._replace(value=path, shown=path_text.shown if path_text.used else path)


def _env_file(fields: Fields, file: Expanded | None) -> tuple[Expanded | None, Mapping[str, str]]:
    if file is None:
        return None, {}
    path = _absolute(fields.parsed.base, file)
    files = fields.parsed.variables.files
    try:
        found = files.values(Path(path.value), _MAX_ENV_FILE_BYTES, path.shown, env_values)
    except Unset as error:
        fields.wrong("env_file", str(error))
        found = None
    return path, found or {}


# ------------------------------------------------------------------ everything else


def _options(fields: Fields, timeouts: dict[str, float]) -> dict[str, Any]:
    """Return options of ``ServerConfig``; those for its ``timeouts`` are put there."""
    values = fields.read(_ANY)
    options: dict[str, Any] = {}
    for name in ("include", "exclude"):
        if values[name] is not None:
            options[name] = tuple(map(glob.escape, values[name]))
    if values["tool_names"] is not None and "*" not in values["tool_names"]:
        options["include"] = tuple(map(glob.escape, values["tool_names"]))
    if () in (values["include"], values["tool_names"]):
        options["exclude"] = ("*",)  # no tool at all; to ServerConfig () means every tool
    if values["disabled"] or values["enabled"] is False:
        options["enabled"] = False
    if values["required"]:
        options["required"] = True
    if values["resource"] is not None:
        fields.note("oauth_resource", "has no effect here: a login is for the server's URL")
    if isinstance(values["description"], str):
        options["description"] = safe_text(values["description"])
    total = values["timeout_seconds"] or values["timeout_ms"]
    startup = values["startup_seconds"] or values["startup_ms"]
    times = {"connect": startup, "idle": total, "total": total}
    for tool in values["tool_modes"].values():
        if isinstance(tool, dict) and tool.get("approval_mode") not in _HARMLESS_GRANTS:
            _refuse_grant(fields, "tools", True)
            break
    if values["own"]:
        options |= _own_options(fields.inside("own", as_own(*_OWN), "mcp-client"), times)
    timeouts.update((name, seconds) for name, seconds in times.items() if seconds is not None)
    return options


def _own_options(fields: Fields, times: dict[str, float | None]) -> dict[str, Any]:
    values = fields.read(_OWN)
    options = {name: values[name] for name in _OWN if values[name] is not None}
    if options.pop("timeouts"):
        found = fields.inside("timeouts", as_own(*_TIMEOUTS), "mcp-client").read(_TIMEOUTS)
        times.update((name, found[name]) for name in found if found[name] is not None)
    is_project = fields.parsed.scope == "project"
    if values["bind"]:
        _check_bind(fields, values["bind"], is_project)
    else:
        del options["bind"]
    if values["trusted"] and is_project:
        fields.note("trusted", "has no effect: only a user's own file may trust a server")
        del options["trusted"]
    if values["validation"] not in (None, "strict", "warn", "off"):
        fields.wrong("validation", "is not 'strict', 'warn' or 'off'")
    elif values["validation"] in ("warn", "off") and is_project:
        fields.note("validation", "has no effect: only a user's own file may loosen it")
        del options["validation"]
    revision = options.get("revision", "auto")
    if revision != "auto" and not (isinstance(revision, str) and is_known(revision)):
        fields.wrong("revision", "is not a revision that is known here, and not 'auto'")
    description = options.pop("description", None)
    if isinstance(description, str):
        options["description"] = safe_text(description)
    return options


def _check_bind(fields: Fields, bind: Mapping[str, Any], is_project: bool) -> None:
    """Report a wrong ``bind``.

    Without it the server is not started, because its calls would differ.
    """
    from ..session.binding import Binding

    if is_project:
        why = "is only for a user's own file: others do not choose arguments of calls"
        fields.wrong("bind", why)
        return
    try:
        Binding(bind)
    except ConfigError as error:
        fields.wrong("bind", f"cannot be used: {error.message}")
