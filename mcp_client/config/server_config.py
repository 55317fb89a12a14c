"""A server with its own options: what a host takes of its program, and what a config file gives.

Nothing here needs a session, nor a host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ConfigError
from ..runtime.limits import Limits, Timeouts
from ..runtime.option_names import with_option_names
from ..transports.servers import Recording, is_started, recorded_by
from ..transports.stdio import StdioServer

if TYPE_CHECKING:
    from ..approval.decision import ApprovalHook, Policy
    from ..catalog.tools import Trust
    from ..connection.call_options import Retry
    from ..extensions.extension import ClientInfo
    from ..handlers.handlers import Handlers
    from ..sandbox.sandbox import Sandbox
    from ..session.binding import Bind
    from ..transports.base import Transport
    from ..transports.http import HttpServer
    from ..transports.memory import ServerInProcess
    from ..transports.stream import StreamServer
    from ..validation.strictness import Strictness, Validation

__all__ = ["AnyServer", "ServerConfig", "ServerLike", "StartGate"]

_OfAClass: TypeAlias = "StdioServer | HttpServer | ServerInProcess | StreamServer | Recording"
AnyServer: TypeAlias = "_OfAClass | Transport | str | Sequence[str]"
"""Whatever ``connect`` takes."""

ServerLike: TypeAlias = "AnyServer | ServerConfig"
"""A server as ``Host`` takes it. Annotate a dict with ``dict[str, ServerLike]`` if its servers are
of several kinds: type checkers infer ``object`` for them otherwise."""

StartGate: TypeAlias = "Callable[[], Awaitable[ServerConfig | None]]"
"""Asked before a server is started for the first time: None to start it, or what to start in its
place. Raises why it is not started, which becomes the ``error`` of its status. It may take as long
as a person does."""


@with_option_names()
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A server and its own options: ``Host({"docs": ServerConfig(url, include=["search_*"])})``.

    ``None`` means the host's option for all its servers. Options are checked when the host is made.
    """

    server: AnyServer = field(repr=False, kw_only=False)
    """Whatever ``connect`` takes."""
    trusted: Trust | None = None
    """Whether the annotations of the server's tools are believed."""
    include: Sequence[str] = ()
    """Globs over the server's own names of its tools, such as ``search_*``: the tools there are.
    Without any, all. ``*`` is any text, ``?`` any character."""
    exclude: Sequence[str] = ()
    """Globs of the tools to leave out, even if ``include`` has them."""
    enabled: bool = True
    """Whether the server is used at all."""
    lazy: bool = False
    """Whether the server is started at its first use, instead of when the host is entered. Until
    then its tools are listed from the lock file (``Host(pins=)``), if that has them."""
    approval: ApprovalHook | Policy | None = None
    """The hook or policy that decides the calls of this server's tools."""
    handlers: Handlers | None = None
    """The handlers of this server's own questions: elicitation, sampling, roots; and of its log."""
    timeouts: Timeouts | None = None
    """The time limits for this server."""
    limits: Limits | None = None
    """The size limits for this server."""
    validation: Validation | Strictness | None = None
    """The treatment of a result that breaks its tool's output schema, and of such arguments."""
    client_info: ClientInfo | None = None
    """The description of the host program for this server, with the declared extensions."""
    bind: Bind | None = field(default=None, repr=False)
    """The arguments that the host sets of calls of this server's tools: see ``connect``."""
    retry: Retry | None = None
    """Whether a failed call is attempted again, and when."""
    sandbox: Sandbox | bool | None = None
    """The sandbox of this server, if it is started; False for none."""
    revision: str | None = None
    """The one revision of the protocol to speak; "handshake" or "stateless", the newest in common
    of that era; "auto", the newest of all."""
    description: str | None = None
    """The purpose of the server, in the host's own words: for people, shown in its status."""

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            object.__setattr__(self, name, _globs(name, getattr(self, name)))
        for name in ("enabled", "lazy"):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(f"ServerConfig({name}={getattr(self, name)!r}): True or False")
        _check_server(self.server)
        if self.sandbox not in (None, False) and not is_started(self.server):
            raise ConfigError(
                f"ServerConfig(sandbox={self.sandbox!r}): only what is started by a command is "
                "confined, StdioServer(...)"
            )
        if self.description is not None and not isinstance(self.description, str):
            raise ConfigError(f"ServerConfig(description={self.description!r}): give a text")

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``connect`` that it sets."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if name not in _NOT_FOR_CONNECT and value is not None
        }


_NOT_FOR_CONNECT = frozenset(
    {"server", "include", "exclude", "enabled", "lazy", "sandbox", "description"}
)


def _check_server(server: AnyServer | ServerConfig) -> None:
    server = recorded_by(server)
    if isinstance(server, ServerConfig):
        raise ConfigError("ServerConfig(ServerConfig(...)): give the server itself")
    if isinstance(server, str):
        from ..transports.http_options import HttpServer

        HttpServer(server)  # it is a URL, or this names what to give instead
    elif isinstance(server, Sequence) and server:
        StdioServer(server[0], tuple(server[1:]))


def _globs(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ConfigError(f"ServerConfig({option}={value!r}): give a list of globs, ['search_*']")
    for pattern in value:
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"ServerConfig({option}=...): {pattern!r} is not a glob")
    return tuple(value)
