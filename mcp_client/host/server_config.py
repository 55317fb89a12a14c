"""One server of a ``Host``: how to reach it, and where it differs from the host's own options."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from ..approval.constraints import glob
from ..approval.decision import ApprovalHook, Policy
from ..catalog.tool import Trust
from ..connection.call_options import Retry, Strictness
from ..errors import ConfigError
from ..extensions.extension import Extension
from ..runtime.limits import Limits, Timeouts
from ..transports.base import Transport
from ..transports.stdio import StdioServer

if TYPE_CHECKING:
    from ..handlers.handlers import Handlers
    from ..transports.http import HttpServer
    from ..transports.memory import ServerInProcess

__all__ = ["AnyServer", "ServerConfig", "StartGate", "ToolFilter"]

AnyServer: TypeAlias = (
    "StdioServer | HttpServer | ServerInProcess | Transport | str | Sequence[str]"
)
"""Whatever ``connect`` takes."""

StartGate: TypeAlias = "Callable[[], Awaitable[ServerConfig | None]]"
"""Asked before a server is started for the first time: None to start it, or what to start in its
place. Raises why it is not started, which becomes the ``error`` of its status. It may take as long
as a person does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A server and its own options: ``Host({"docs": ServerConfig(url, include=["search_*"])})``.

    ``None`` stands for what the host says for all its servers. Options are checked when the host
    is made.
    """

    server: AnyServer = field(repr=False, kw_only=False)
    """Whatever ``connect`` takes."""
    trusted: Trust | None = None
    include: Sequence[str] = ()
    """Globs over the server's own names of its tools, such as ``search_*``: the tools there are.
    Without any, all. ``*`` is any text, ``?`` any character."""
    exclude: Sequence[str] = ()
    """Globs likewise: the tools there are not, whatever ``include`` says."""
    enabled: bool = True
    """Whether the server is used at all."""
    lazy: bool = False
    """Whether the server is started at its first use, instead of when the host is entered."""
    approval: ApprovalHook | Policy | None = None
    handlers: Handlers | None = None
    timeouts: Timeouts | None = None
    limits: Limits | None = None
    validation: Strictness | None = None
    argument_validation: Strictness | None = None
    extensions: Sequence[Extension] | None = None
    retry: Retry | None = None
    record: str | os.PathLike[str] | None = None
    """A file that everything said on the session is written to."""
    revision: str = "auto"
    description: str | None = None
    """What the server is for, in the host's own words: for people, shown in its status."""

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            object.__setattr__(self, name, _globs(name, getattr(self, name)))
        for name in ("enabled", "lazy"):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(f"ServerConfig({name}={getattr(self, name)!r}): True or False")
        _check_server(self.server)
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


_NOT_FOR_CONNECT = frozenset({"server", "include", "exclude", "enabled", "lazy", "description"})


def _check_server(server: AnyServer | ServerConfig) -> None:
    if isinstance(server, ServerConfig):
        raise ConfigError("ServerConfig(ServerConfig(...)): give the server itself")
    if isinstance(server, str):
        from ..transports.http_server import HttpServer

        HttpServer(server)  # it is a URL, or this says what to give instead
    elif isinstance(server, Sequence) and server:
        StdioServer(server[0], tuple(server[1:]))


class ToolFilter:
    """Which of a server's tools there are, by its own names for them."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [(pattern, glob(pattern)) for pattern in include]
        self._exclude = [(pattern, glob(pattern)) for pattern in exclude]

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def why_left_out(self, tool: str) -> str | None:
        """None: the tool may be used. Otherwise which option leaves it out."""
        for pattern, matches in self._exclude:
            if matches(tool):
                return f"the host leaves it out: exclude={pattern!r}"
        if self._include and not any(matches(tool) for _, matches in self._include):
            patterns = ", ".join(repr(pattern) for pattern, _ in self._include[:5])
            return f"the host leaves it out: it is not among include=[{patterns}]"
        return None


def _globs(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ConfigError(f"ServerConfig({option}={value!r}): give a list of globs, ['search_*']")
    for pattern in value:
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"ServerConfig({option}=...): {pattern!r} is not a glob")
    return tuple(value)
