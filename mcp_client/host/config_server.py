"""One server of a config file, from any program's fields to a ``Launch``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..protocol.versions import is_known
from ..runtime.loopback import is_loopback
from ..runtime.safe_text import invisible, safe_text
from .config_files import Unset
from .config_launch import EnvFile, Launch, Login
from .config_problem import Fields, Reading, listed
from .config_text import KeyPath, OutOfRange
from .interpolation import Expanded

__all__ = ["read_server"]

_TYPES = {
    "stdio": "command",
    "http": "url",
    "sse": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}
_GRANTS = re.compile(r"trust(ed)?|always_?allow.*|auto.*|default_tools_approval_mode", re.I)
"""Names of fields with which a file would decide what may run without asking."""
_HARMLESS_GRANTS: tuple[Any, ...] = (None, False, "prompt", "ask", [], {})
_OWN = {
    "trusted": "trusted",
    "include": "include",
    "exclude": "exclude",
    "lazy": "lazy",
    "enabled": "enabled",
    "validation": "validation",
    "revision": "revision",
    "description": "description",
    "timeouts": "timeouts",
}
_LOGIN = {
    "clientId": "client_id",
    "client_id": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "client_secret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "scopes": "scopes",
    "redirectUri": "redirect_uri",
    "callbackPort": "callback_port",
    "enabled": "enabled",
}
_TIMEOUTS = {"connect": "connect", "idle": "idle", "total": "total", "ping": "ping"}
_ENV_FILE_BYTES = 1024 * 1024
_MOST_VARIABLES = 1_000
_ENV_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)", re.DOTALL)
_LONGEST_NAME = 128


def read_server(reading: Reading, path: KeyPath, members: Any) -> Launch | None:
    """The server at ``path``; None, with problems, where it cannot be used."""
    name = str(path[-1])
    if not isinstance(members, dict):
        reading.note(
            path, "is not an object with the fields of a server; it is left out", left_out=True
        )
        return None
    if not name or len(name) > _LONGEST_NAME or invisible(name):
        reading.note(
            path,
            f"cannot be the name of a server: give one of 1 to {_LONGEST_NAME} visible "
            "characters; the server is left out",
            left_out=True,
        )
        return None
    if (where := _out_of_range(members)) is not None:
        reading.note(
            (*path, *where), "is a number out of range; the server is left out", left_out=True
        )
        return None
    grants = [each for each in members if _GRANTS.fullmatch(each)]
    fields = Fields(reading, path, members, reading.program.fields)
    fields.report_unknown(
        {**reading.program.fields, **dict.fromkeys(grants, "")}, reading.program.title
    )
    for grant in grants:
        _refuse_grant(fields, grant, members[grant])
    return _Server(fields, name, members).launch()


def _out_of_range(value: Any) -> KeyPath | None:
    """Where a number stands in ``value`` that is too large to be read."""
    if isinstance(value, OutOfRange):
        return ()
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for part, each in items:
        found = _out_of_range(each)
        if found is not None:
            return (part, *found)
    return None


def _refuse_grant(fields: Fields, name: str, value: Any) -> None:
    if value not in _HARMLESS_GRANTS:
        fields.note(
            name,
            "has no effect: a config file does not decide which calls run without asking. Use "
            "approval=Rules(...) for that",
        )


class _Server:
    def __init__(self, fields: Fields, name: str, members: Mapping[str, Any]) -> None:
        self._fields = fields
        self._name = name
        self._members = members
        self._timeouts: dict[str, float] = {}
        self._options: dict[str, Any] = {}
        self._remarks: list[str] = []

    def launch(self) -> Launch | None:
        fields = self._fields
        kind = self._kind()
        self._common()
        launch = None
        if kind == "command":
            launch = self._stdio()
        elif kind == "url":
            launch = self._http()
        return None if fields.failed else launch

    def _kind(self) -> str | None:
        fields = self._fields
        there = [each for each in ("command", "url") if each in fields]
        named = fields.raw("type")
        if named is not None:
            kind = _TYPES.get(named) if isinstance(named, str) else None
            if kind is None:
                fields.wrong("type", f"is not one of {listed(_TYPES, 9)}: write one of these")
            elif kind not in there:
                fields.wrong("type", f"says {named!r}, and {kind!r} is missing beside it: add it")
            return kind
        if len(there) == 2:
            fields.wrong("url", "stands beside a command: remove one, or give 'type'")
        elif not there:
            has_urls = "url" in fields.reading.program.fields.values()
            lacks = "neither a command nor a url: add one" if has_urls else "no command: add one"
            fields.reading.note(fields.path, f"has {lacks}; the server is left out", left_out=True)
            fields.failed = True
        return there[0] if len(there) == 1 else None

    # ------------------------------------------------------------------ how to reach it

    def _stdio(self) -> Launch | None:
        fields = self._fields
        command = fields.text("command", shows_files=True)
        args = fields.words("args")
        env = {**self._forwarded(), **fields.pairs("env")}
        for name in env:
            if not name or "=" in name:
                fields.wrong("env", "is not the name of a variable", name)
        cwd = self._folder()
        env_file = self._env_file()
        if command is not None and not command.value.strip():
            fields.wrong("command", "is empty: write the program to start")
        if command is None:
            return None
        if fields.flag("sandbox"):
            self._remarks.append(
                "the file asks for a sandbox, and this client has none: the server runs with all "
                "of your rights"
            )
            fields.note("sandboxEnabled", "has no effect: servers are not sandboxed here")
        return self._made(command=command, args=args, env=env, env_file=env_file, cwd=cwd)

    def _http(self) -> Launch | None:
        fields = self._fields
        for helper in ("headers_helper", "auth_provider"):
            if fields.raw(helper) not in (None, "dynamic_discovery"):
                fields.wrong(
                    helper,
                    "is not supported, and no command is run for it: give the header in 'headers', "
                    "from a variable, or connect from code with HttpServer(auth=...)",
                )
        url = fields.text("url")
        headers = fields.pairs("headers")
        for header, name in fields.pairs("header_variables").items():
            headers.update(self._from_variable(header, name.value, "header_variables", header))
        token = fields.raw("bearer_variable")
        if token is not None:
            found = self._from_variable("Authorization", str(token), "bearer_variable")
            headers.update(
                (name, each._replace(value=f"Bearer {each.value}", shown=f"Bearer {each.shown}"))
                for name, each in found.items()
            )
        login = self._login()
        return None if url is None else self._made(url=url, headers=headers, login=login)

    def _made(self, **parts: Any) -> Launch:
        return Launch(
            self._name,
            self._members,
            timeouts=self._timeouts,
            options=self._options,
            remarks=tuple(self._remarks),
            **parts,
        )

    def _forwarded(self) -> dict[str, Expanded]:
        """Variables that are passed on under their own names (Codex: ``env_vars``)."""
        value = self._fields.raw("env_vars")
        found: dict[str, Expanded] = {}
        for number, item in enumerate(value if isinstance(value, list) else []):
            name = item.get("name") if isinstance(item, dict) else item
            if isinstance(name, str):
                found.update(self._from_variable(name, name, "env_vars", number))
            else:
                self._fields.wrong("env_vars", "is not the name of a variable", number)
        if value is not None and not isinstance(value, list):
            self._fields.wrong("env_vars", "is not a list of names of variables")
        return found

    def _from_variable(
        self, name: str, variable: str, ours: str, *parts: str | int
    ) -> dict[str, Expanded]:
        try:
            value = self._fields.reading.variables.variable(variable)
        except Unset as error:
            self._fields.wrong(ours, str(error), *parts)
            return {}
        return {name: Expanded(value, f"${{{variable}}}", (variable,))}

    def _folder(self) -> Expanded:
        given = self._fields.text("cwd", shows_files=True)
        return self._path(given or Expanded("", ""))

    def _path(self, given: Expanded) -> Expanded:
        """Absolute; shown as it is written where something from outside the file is in it."""
        path = os.path.abspath(self._fields.reading.base / given.value)
        return given._replace(value=path, shown=given.shown if given.used else path)

    def _env_file(self) -> EnvFile | None:
        given = self._fields.text("env_file", shows_files=True)
        if given is None:
            return None
        path = self._path(given)
        try:
            files = self._fields.reading.variables.files
            found = files.values(Path(path.value), _ENV_FILE_BYTES, path.shown, _env_values)
            return EnvFile(path, found or {})
        except Unset as error:
            self._fields.wrong("env_file", str(error))
            return None

    def _login(self) -> Login | None:
        outer = self._fields
        members = outer.object("oauth")
        scopes = outer.names("scopes")
        if "oauth" not in outer and scopes is None:
            return None
        fields = Fields(outer.reading, outer.where("oauth"), members, _LOGIN)
        fields.report_unknown(_LOGIN, outer.reading.program.title)
        given = fields.raw("scopes")
        if isinstance(given, str):
            scopes = tuple(given.split())
        elif given is not None:
            scopes = fields.names("scopes")
        uri = fields.text("redirect_uri")
        port = fields.raw("callback_port")
        if port is not None and not (type(port) is int and 0 < port < 65_536):
            fields.wrong("callback_port", "is not the number of a port")
        if port:
            address = f"http://localhost:{port}/callback"
            uri = Expanded(address, address)
        elif uri is not None and not _is_here(uri.value):
            fields.wrong(
                "redirect_uri",
                "does not lead to this machine, so another would get the login: write "
                "http://127.0.0.1:PORT/PATH",
            )
        login = Login(fields.text("client_id"), fields.text("client_secret"), scopes, uri)
        enabled = fields.flag("enabled")
        outer.failed = outer.failed or fields.failed
        return None if enabled is False else login

    # ------------------------------------------------------------------ everything else

    def _common(self) -> None:
        fields = self._fields
        include, exclude = fields.names("include"), fields.names("exclude")
        if include is not None:
            self._options["include"] = tuple(map(_literal, include))
        if exclude is not None:
            self._options["exclude"] = tuple(map(_literal, exclude))
        if include == ():  # no tool at all; to ServerConfig it would mean every tool
            self._options["exclude"] = ("*",)
        if fields.flag("disabled") or fields.flag("enabled") is False:
            self._options["enabled"] = False
        if fields.flag("required"):
            fields.note(
                "required",
                "has no effect here: name the server in Host.from_config(required=[...])",
            )
        if fields.raw("resource") is not None:
            fields.note("oauth_resource", "has no effect here: a login is for the server's URL")
        description = fields.raw("description")
        if isinstance(description, str):
            self._options["description"] = safe_text(description)
        self._time(
            "connect", fields.seconds("startup_seconds") or fields.seconds("startup_ms", 1e-3)
        )
        total = fields.seconds("timeout_seconds") or fields.seconds("timeout_ms", 1e-3)
        self._time("idle", total)
        self._time("total", total)
        modes = fields.object("tool_modes") if "tool_modes" in fields else {}
        if any(_mode(each) not in _HARMLESS_GRANTS for each in modes.values()):
            _refuse_grant(fields, "tools", True)
        if "own" in fields:
            self._own(fields.object("own"))

    def _own(self, members: Mapping[str, Any]) -> None:
        outer = self._fields
        fields = Fields(outer.reading, outer.where("own"), members, _OWN)
        fields.report_unknown(_OWN, "mcp-client")
        for name in ("include", "exclude"):
            globs = fields.names(name)
            if globs is not None:
                self._options[name] = globs
        for name in ("lazy", "enabled"):
            value = fields.flag(name)
            if value is not None:
                self._options[name] = value
        self._trusted(fields)
        validation = fields.raw("validation")
        if validation not in (None, "strict", "warn", "off"):
            fields.wrong("validation", "is not 'strict', 'warn' or 'off'")
        elif validation in ("warn", "off") and outer.reading.scope == "project":
            fields.note("validation", "has no effect: only a user's own file may loosen it")
        elif validation is not None:
            self._options["validation"] = validation
        revision = fields.raw("revision")
        if revision is not None:
            if revision != "auto" and not (isinstance(revision, str) and is_known(revision)):
                fields.wrong("revision", "is not a revision that is known here, and not 'auto'")
            self._options["revision"] = revision
        description = fields.raw("description")
        if isinstance(description, str):
            self._options["description"] = safe_text(description)
        times = Fields(
            outer.reading, fields.where("timeouts"), fields.object("timeouts"), _TIMEOUTS
        )
        times.report_unknown(_TIMEOUTS, "mcp-client")
        for name in _TIMEOUTS:
            self._time(name, times.seconds(name))
        outer.failed = outer.failed or fields.failed or times.failed

    def _trusted(self, fields: Fields) -> None:
        trusted = fields.flag("trusted")
        if trusted is None:
            return
        if trusted and fields.reading.scope == "project":
            fields.note("trusted", "has no effect: only a user's own file may trust a server")
        else:
            self._options["trusted"] = trusted

    def _time(self, name: str, seconds: float | None) -> None:
        if seconds is not None:
            self._timeouts[name] = seconds


def _mode(tool: Any) -> Any:
    return tool.get("approval_mode") if isinstance(tool, dict) else None


def _is_here(redirect: str) -> bool:
    try:
        parts = urlsplit(redirect)
        return parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _literal(name: str) -> str:
    """A glob that matches just this name."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _env_values(text: str) -> dict[str, str]:
    """The variables of an environment file: ``NAME=value`` lines, ``#`` comments, quotes.

    Nothing in it is interpolated. Raises ``Unset``.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line)
        if match is None or "\0" in line:
            raise Unset(f"line {number} of the environment file is not NAME=value")
        name, value = match.groups()
        if value[:1] in ("'", '"') and value.rfind(value[0]) > 0:
            value = value[1 : value.rfind(value[0])]
        else:
            value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
        found[name] = value
        if len(found) > _MOST_VARIABLES:
            raise Unset(f"the environment file has more than {_MOST_VARIABLES:,} variables")
    return found
