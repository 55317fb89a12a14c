"""Many servers as one set of tools, with methods that block instead of being awaited."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack
from weakref import WeakKeyDictionary

from ..config.server_config import ServerLike
from ..errors import CallCancelled, CallWithdrawn, ConfigError
from ..host.host import Host as AsyncHost
from ..host.options import HostOptions
from ..host.status import ServerStatus
from ..runtime.portal import Blocking as _Blocking
from ..runtime.portal import BlockingWatch as Watch
from ..runtime.portal import Lease, Portal, portal
from ..runtime.portal import replaced_by as _replaced_by
from ..runtime.portal import waits as _waits
from ..runtime.portal import watches as _watches
from ..session.session import Session as AsyncSession
from .connecting import NOT_ASYNC
from .session import Session, gives_a_task, loads

if TYPE_CHECKING:
    from ..approval.decision import ApprovalHook, Policy
    from ..config.fields import ConfigProblem
    from ..config.programs import Scope

__all__ = ["Host", "Watch"]


class Host(_Blocking[AsyncHost]):
    """Many servers as one set of tools: ``with Host({"weather": server, ...}) as host``.

    Everything is as in ``mcp_client.Host``, waited for; its sessions are those of this module.
    """

    def __init__(self, servers: Mapping[str, ServerLike], **options: Unpack[HostOptions]) -> None:
        self._hold(AsyncHost(servers, **options))

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        confirm: ApprovalHook | Policy | None = None,
        scope: Scope | None = None,
        inputs: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
        watch: bool = False,
        **options: Unpack[HostOptions],
    ) -> Host:
        """Return a host for a config file: see ``mcp_client.Host.from_config``."""
        host = cls.__new__(cls)
        host._hold(
            AsyncHost.from_config(
                path, confirm=confirm, scope=scope, inputs=inputs, only=only, watch=watch, **options
            )
        )
        return host

    __init__.__doc__ = AsyncHost.__init__.__doc__
    from_config.__func__.__doc__ = AsyncHost.from_config.__doc__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return repr(self._async)

    def _hold(self, host: AsyncHost) -> None:
        self._portal: Portal | Lease = portal()
        self._async = host
        self._wrapped: WeakKeyDictionary[AsyncSession, Session] = WeakKeyDictionary()

    def open(self) -> Self:
        """Connect and return the host.

        Close it with ``host.close()``; otherwise it is closed when the program ends.
        """
        name = f"Host of {', '.join(map(repr, self._async._servers))}"
        self._portal = self._portal.lease(self._async, self._async.aclose, name)
        try:
            self._run(self._async.__aenter__)
        except (KeyboardInterrupt, CallCancelled, CallWithdrawn):
            self.close()
            raise
        finally:
            if self._async._closed:
                self._portal.forget(self._async)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *raised: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # a type checker reports these by itself

        async def __aenter__(self) -> Any:
            raise ConfigError(NOT_ASYNC.format("Host(...)", "mcp_client.Host"))

        async def __aexit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """End all servers, within bounded time, from any thread, any number of times."""
        self._finish(self._async.aclose)
        self._portal.forget(self._async)

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """The problems in the config file of ``from_config``; its other servers are usable."""
        return self._async.problems

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of the servers that are connected now, by name."""
        found = self._in_loop(lambda: dict(self._async.sessions))
        return MappingProxyType({name: self._session(one) for name, one in found.items()})

    def status(self) -> Mapping[str, ServerStatus]:
        """Return how each server is doing at this moment, by name, as a dict of its own."""
        return self._in_loop(self._async.status)

    def status_changes(self) -> Watch[ServerStatus]:
        """Iterate over the changes of the servers' statuses from now on."""
        return Watch(self._portal, self._in_loop(self._async.status_changes))

    def session(self, name: str) -> Session:
        """Return the session of a server, connected if it was not. Raises ``ConnectError``."""
        return self._session(self._run(self._async.session, name))

    def add(self, name: str, server: ServerLike) -> ServerStatus:
        """Add a server: see ``mcp_client.Host.add``."""
        return self._run(self._async.add, name, server)

    add.__doc__ = AsyncHost.add.__doc__

    def reconnect(self, name: str) -> Session:
        """Connect a server again, and return its session."""
        return self._session(self._run(self._async.reconnect, name))

    reconnect.__doc__ = AsyncHost.reconnect.__doc__

    remove: Final = _waits(AsyncHost.remove)
    reload: Final = _waits(AsyncHost.reload)
    list_tools: Final = _waits(AsyncHost.list_tools)
    get_tool: Final = _waits(AsyncHost.get_tool)

    @_replaced_by(_waits(AsyncHost.call_tool))
    def call_tool(self) -> None:
        """Call a tool: see ``mcp_client.Host.call_tool``."""

    start_tool: Final = gives_a_task(AsyncHost.start_tool)
    search_tools: Final = _waits(AsyncHost.search_tools)
    tool_changes: Final = _watches(AsyncHost.tool_changes)
    list_resources: Final = _waits(AsyncHost.list_resources)
    list_prompts: Final = _waits(AsyncHost.list_prompts)
    read_resource: Final = _waits(AsyncHost.read_resource)
    get_prompt: Final = _waits(AsyncHost.get_prompt)
    list_skills: Final = _waits(AsyncHost.list_skills)
    load_skill: Final = loads(AsyncHost.load_skill)

    def _session(self, session: AsyncSession) -> Session:
        found = self._wrapped.get(session)
        if found is None:
            found = self._wrapped[session] = Session(self._portal, session)
        return found
