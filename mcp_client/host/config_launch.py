"""What a config file says of one server, read and with its references put in: a ``Launch``.

It holds what is needed twice: to make the ``ServerConfig``, and to show a person what would be
started. Both come from the same reading, so what is confirmed is what is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..runtime.limits import Timeouts
from ..transports.stdio import StdioServer
from .interpolation import Expanded
from .server_config import ServerConfig

if TYPE_CHECKING:
    from ..transports.http import HttpServer

__all__ = ["EnvFile", "Launch", "Login"]


@dataclass(frozen=True, slots=True, repr=False)
class EnvFile:
    path: Expanded
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """How a person logs in to the server, as far as the file says."""

    client_id: Expanded | None = None
    client_secret: Expanded | None = None
    scopes: tuple[str, ...] | None = None
    redirect_uri: Expanded | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Launch:
    name: str
    written: Any
    """The server's members as they stand in the file."""
    command: Expanded | None = None
    args: tuple[Expanded, ...] = ()
    env: Mapping[str, Expanded] = field(default_factory=dict)
    env_file: EnvFile | None = None
    cwd: Expanded | None = None
    url: Expanded | None = None
    headers: Mapping[str, Expanded] = field(default_factory=dict)
    login: Login | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of ``ServerConfig``."""
    remarks: tuple[str, ...] = ()
    """What a person should know, besides what can be seen in the above."""

    @property
    def has_files(self) -> bool:
        """Whether something is put in from other files."""
        return self.env_file is not None or any(each.files for _, each in self.places())

    def places(self) -> list[tuple[str, Expanded]]:
        """Everything that something may be put into, by what a person is told of it."""
        places = [
            ("command", self.command),
            *((f"args[{number}]", each) for number, each in enumerate(self.args)),
            *((f"env.{name}", each) for name, each in self.env.items()),
            ("envFile", None if self.env_file is None else self.env_file.path),
            ("cwd", self.cwd),
            ("url", self.url),
            *((f"headers.{name}", each) for name, each in self.headers.items()),
        ]
        if self.login is not None:
            places += [
                ("oauth.client_id", self.login.client_id),
                ("oauth.client_secret", self.login.client_secret),
                ("oauth.redirect_uri", self.login.redirect_uri),
            ]
        return [(place, each) for place, each in places if each is not None]

    def server(self) -> StdioServer | HttpServer:
        """Raises ``ConfigError``."""
        if self.command is not None:
            brought = {} if self.env_file is None else self.env_file.values
            named = {name: each.value for name, each in self.env.items()}
            args = tuple(each.value for each in self.args)
            cwd = self.cwd and self.cwd.value
            return StdioServer(self.command.value, args, env={**brought, **named}, cwd=cwd)
        from ..transports.http import HttpServer

        assert self.url is not None
        headers = {name: each.value for name, each in self.headers.items()}
        return HttpServer(self.url.value, headers=headers or None, auth=self._auth())

    def config(self, timeouts: Timeouts | None = None) -> ServerConfig:
        """``timeouts`` are those of the host, where the file sets only some. Raises
        ``ConfigError``."""
        options = dict(self.options)
        if self.timeouts:
            options["timeouts"] = replace(timeouts or Timeouts(), **self.timeouts)
        return ServerConfig(self.server(), **options)

    def _auth(self) -> Any:
        login = self.login
        if login is None:
            return None
        from ..auth import OAuth

        return OAuth(
            client_id=login.client_id and login.client_id.value,
            client_secret=login.client_secret and login.client_secret.value,
            scopes=login.scopes,
            redirect_uri=login.redirect_uri and login.redirect_uri.value,
        )
