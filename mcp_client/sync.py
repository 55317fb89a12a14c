"""The client for programs without an event loop: ``from mcp_client.sync import connect``.

::

    with connect(StdioServer("python", ["weather.py"]), approval=ask) as session:
        print(session.call_tool("get_weather", {"location": "Oslo"}).text)

Everything has the names, options, errors and documentation of the async package. Nothing is
awaited: ``async with`` is ``with``, ``async for`` is ``for``, and ``aclose`` is ``close``. Without
``with``: ``session = connect(...).open()`` ... ``session.close()``.

Any number of threads may use one session at once. One thread of the process runs the event loop
of all sessions; hooks and handlers may be plain functions, which run in threads of their own, or
async ones, which run in that loop and cannot use a session of this module (``NotSent``). Ctrl-C
cancels the call that the main thread waits for, and the server is told. A session that is dropped
is closed with a ``ResourceWarning``; one that is open when the program ends is closed silently. A
forked process cannot use its parent's sessions.

Where it is not said otherwise, a method here is the async one of the same name, and waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack
from weakref import WeakKeyDictionary

from .approval.decisions import Decisions
from .errors import ConfigError
from .extensions.apps import App as AsyncApp
from .extensions.skill import Skill as AsyncSkill
from .extensions.tasks import Task as AsyncTask
from .host.host import Host as AsyncHost
from .host.options import AnyServer, HostOptions, ServerConfig
from .host.status import ServerStatus
from .protocol.capabilities import Implementation
from .runtime.portal import Blocking as _Blocking
from .runtime.portal import BlockingWatch as Watch
from .runtime.portal import Lease, Portal, portal
from .runtime.portal import described_by as _described_by
from .runtime.portal import replaced_by as _replaced_by
from .runtime.portal import waits as _waits
from .runtime.portal import watches as _watches
from .runtime.session_context import Stats
from .session.connect import Connecting as AsyncConnecting
from .session.connect import NotOpen
from .session.connect import connect as connect_async
from .session.session import Session as AsyncSession

if TYPE_CHECKING:
    from .approval.gate import ApprovalHook, Policy
    from .catalog.tool import Tool
    from .host.config_fields import ConfigProblem
    from .host.config_programs import Scope
    from .protocol.consent_url import Address
    from .sandbox.grants import Confinement

__all__ = ["App", "Connecting", "Host", "Session", "Skill", "Task", "Watch", "connect"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
U = TypeVar("U")
_NOT_ASYNC = "{0} of mcp_client.sync is not awaited: use 'with', or {1}"


def _loads(
    method: Callable[Concatenate[A, P], Awaitable[AsyncSkill]],
) -> Callable[Concatenate[_Blocking[A], P], Skill]:
    """The async method that returns a skill, waited for, with one whose files are, too."""

    def loads(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Skill:
        return Skill(self._portal, self._portal.run(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[_Blocking[A], P], Skill] = _described_by(method, loads)
    return described


class Skill(_Blocking[AsyncSkill]):
    """A skill that was loaded: see ``mcp_client.extensions.skill``, whose attributes it has."""

    def __init__(self, portal: Portal | Lease, skill: AsyncSkill) -> None:
        self._portal = portal
        self._async = skill

    read: Final = _waits(AsyncSkill.read)
    read_text: Final = _waits(AsyncSkill.read_text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of an object that is being copied, which has no _async yet
            raise AttributeError(name)
        return getattr(self._async, name)

    def __repr__(self) -> str:
        return repr(self._async)


class Task(_Blocking[AsyncTask]):
    """A call of a ``tool`` of ``server`` that goes on: as ``mcp_client.Task``, waited for."""

    def __init__(self, portal: Portal | Lease, task: AsyncTask) -> None:
        self._portal = portal
        self._async = task
        self.server: str = task.server
        self.tool: str = task.tool

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def id(self) -> str:
        """The server's id of the task; empty where the tool completed at once. A secret."""
        return self._async.id

    @property
    def status(self) -> str:
        """As the server said last."""
        return self._async.status

    @property
    def status_message(self) -> str | None:
        """What the server said of the status: untrusted text."""
        return self._async.status_message

    result: Final = _waits(AsyncTask.result)
    cancel: Final = _waits(AsyncTask.cancel)

    def to_json(self) -> dict[str, Any]:
        """What ``resume_task`` makes this task of again: see ``mcp_client.Task``."""
        return self._async.to_json()


def _gives_a_task(
    method: Callable[Concatenate[A, P], Awaitable[AsyncTask]],
) -> Callable[Concatenate[_Blocking[A], P], Task]:
    """The method that returns a task, with one that is waited for."""

    def gives(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Task:
        return Task(self._portal, self._portal.run(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[_Blocking[A], P], Task] = _described_by(method, gives)
    return described


class Session(_Blocking[AsyncSession]):
    """A connection to one server. Made by ``connect``. Any thread may use it, and any may close it.

    Everything is as in ``mcp_client.Session``, waited for.
    """

    def __init__(self, portal: Portal | Lease, session: AsyncSession) -> None:
        self._portal = portal
        self._async = session
        self.name: str = session.name
        """What the host calls the server."""

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def stats(self) -> Stats:
        """Counts of what happened on this session's connections."""
        return self._async.stats

    @property
    def generation(self) -> int:
        """How many connections the session has had."""
        return self._async.generation

    @property
    def server_info(self) -> Implementation | None:
        """Name and version by the server's own word, or None: for display, never for a decision."""
        return self._async.server_info

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._async.protocol_version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server says it can do, as it came."""
        return self._async.capabilities

    @property
    def sandbox(self) -> Confinement | None:
        """What holds for the server's process, where it was started in a sandbox; None without
        one. ``.sentences`` is for people."""
        return self._async.sandbox

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """The extensions that the server declares, with their settings; immutable."""
        return self._async.extensions

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        return self._async.instructions

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._async.closed

    @property
    def decisions(self) -> Decisions:
        """What is remembered until the session ends, to be listed and revoked."""
        return self._async.decisions

    list_tools: Final = _waits(AsyncSession.list_tools)
    get_tool: Final = _waits(AsyncSession.get_tool)
    search_tools: Final = _waits(AsyncSession.search_tools)
    tool_changes: Final = _watches(AsyncSession.tool_changes)

    @_replaced_by(_waits(AsyncSession.call_tool))
    def call_tool(self) -> None: ...

    start_tool: Final = _gives_a_task(AsyncSession.start_tool)

    def resume_task(self, saved: Mapping[str, Any] | str) -> Task:
        return Task(self._portal, self._in_loop(self._async.resume_task, saved))

    resume_task.__doc__ = AsyncSession.resume_task.__doc__
    list_resources: Final = _waits(AsyncSession.list_resources)
    list_resource_templates: Final = _waits(AsyncSession.list_resource_templates)
    resource_changes: Final = _watches(AsyncSession.resource_changes)
    read_ui: Final = _waits(AsyncSession.read_ui)
    read_resource: Final = _waits(AsyncSession.read_resource)
    follow: Final = _waits(AsyncSession.follow)
    subscribe_resource: Final = _watches(AsyncSession.subscribe_resource)
    list_prompts: Final = _waits(AsyncSession.list_prompts)
    prompt_changes: Final = _watches(AsyncSession.prompt_changes)
    get_prompt: Final = _waits(AsyncSession.get_prompt)
    complete: Final = _waits(AsyncSession.complete)
    set_log_level: Final = _waits(AsyncSession.set_log_level)
    roots_changed: Final = _waits(AsyncSession.roots_changed)
    wait_for_elicitation: Final = _waits(AsyncSession.wait_for_elicitation)
    list_skills: Final = _waits(AsyncSession.list_skills)
    load_skill: Final = _loads(AsyncSession.load_skill)
    ping: Final = _waits(AsyncSession.ping)

    def app(self, tool: Tool, *, context: Hashable = None) -> App:
        return App(self._portal, self._async.app(tool, context=context))

    app.__doc__ = AsyncSession.app.__doc__

    def close(self) -> None:
        """End the connection and the server's process. From any thread, any number of times."""
        self._run(self._async.aclose)
        self._portal.forget(self._async)


class App(_Blocking[AsyncApp]):
    """What the view of one tool may do with its server. Made by ``session.app(tool)``.

    Everything is as in ``mcp_client.App``, waited for. Give each message of the view a thread of
    its own: ``handle`` waits as long as what the view asks for takes.
    """

    def __init__(self, portal: Portal | Lease, app: AsyncApp) -> None:
        self._portal = portal
        self._async = app
        self.tool: Tool = app.tool
        """The tool whose view it is."""
        self.context: Hashable = app.context
        """Whose view it is: the ``context`` of its calls where they name none."""

    def __repr__(self) -> str:
        return repr(self._async)

    call_tool: Final = _waits(AsyncApp.call_tool)
    read_resource: Final = _waits(AsyncApp.read_resource)
    handle: Final = _waits(AsyncApp.handle)

    def link(self, url: object) -> Address:
        return self._async.link(url)

    link.__doc__ = AsyncApp.link.__doc__

    def close(self) -> None:
        """The view is gone: what it still asks for is cancelled, and later requests are refused."""
        self._in_loop(self._async.close)


class Connecting(_Blocking[AsyncConnecting]):
    """A session that is not open yet: enter it with ``with``, or call ``open()``. Either, once."""

    def __init__(self, portal: Portal, connecting: AsyncConnecting) -> None:
        self._portal = portal
        self._async = connecting
        self._session: Session | None = None

    def open(self) -> Session:
        """Connect. The session is closed with ``session.close()``, or when the program ends."""
        try:
            session = self._run(self._async.__aenter__)
            lease = portal().lease(session, session.aclose, f"Session {session.name!r}")
        except KeyboardInterrupt:
            self._run(self._async.__aexit__, None, None, None)
            raise
        self._session = found = Session(lease, session)
        return found

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.close()

    if not TYPE_CHECKING:  # a type checker reports these by itself

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(Session, name):
                raise NotOpen(
                    f"the session is not open yet, so it has no {name}: use 'with connect(...) as "
                    "session', or 'session = connect(...).open()'"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        async def __aenter__(self) -> Any:
            raise ConfigError(_NOT_ASYNC.format("connect(...)", "mcp_client.connect"))

        async def __aexit__(self, *_: object) -> None: ...

        def __await__(self) -> Any:
            raise ConfigError(_NOT_ASYNC.format("connect(...)", "mcp_client.connect"))


def _connects(source: Callable[P, AsyncConnecting]) -> Callable[P, Connecting]:
    def connects(*args: P.args, **kwargs: P.kwargs) -> Connecting:
        return Connecting(portal(), source(*args, **kwargs))

    described: Callable[P, Connecting] = _described_by(source, connects)
    return described


connect: Final = _connects(connect_async)


class Host(_Blocking[AsyncHost]):
    """Many servers as one set of tools: ``with Host({"weather": server, ...}) as host``.

    Everything is as in ``mcp_client.Host``, waited for; its sessions are those of this module.
    """

    def __init__(
        self,
        servers: Mapping[str, AnyServer | ServerConfig],
        **options: Unpack[HostOptions],
    ) -> None:
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
        host = cls.__new__(cls)
        host._hold(
            AsyncHost.from_config(
                path,
                confirm=confirm,
                scope=scope,
                inputs=inputs,
                only=only,
                watch=watch,
                **options,
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
        """Connect. The host is closed with ``host.close()``, or when the program ends."""
        name = f"Host of {', '.join(map(repr, self._async._servers))}"
        self._portal = self._portal.lease(self._async, self._async.aclose, name)
        try:
            self._run(self._async.__aenter__)
        except KeyboardInterrupt:
            self.close()
            raise
        finally:
            if self._async._closed:
                self._portal.forget(self._async)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # a type checker reports these by itself

        async def __aenter__(self) -> Any:
            raise ConfigError(_NOT_ASYNC.format("Host(...)", "mcp_client.Host"))

        async def __aexit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """End all servers, within bounded time. From any thread, any number of times."""
        self._run(self._async.aclose)
        self._portal.forget(self._async)

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """What is wrong in the config file of ``from_config``; its other servers are here."""
        return self._async.problems

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of the servers that are connected, by name, at this moment."""
        found = self._in_loop(lambda: dict(self._async.sessions))
        return MappingProxyType({name: self._session(one) for name, one in found.items()})

    def status(self) -> Mapping[str, ServerStatus]:
        """How each server is doing, at this moment."""
        found = self._in_loop(self._async.status)
        return MappingProxyType({name: self._status(one) for name, one in found.items()})

    def status_changes(self) -> Watch[ServerStatus]:
        """Iterate over the changes of the servers' statuses from now on."""
        watch = self._in_loop(self._async.status_changes)
        return Watch(self._portal, watch, self._status)

    def session(self, name: str) -> Session:
        """The session of a server, which is connected if it was not. Raises ``ConnectError``."""
        return self._session(self._run(self._async.session, name))

    def add(self, name: str, server: AnyServer | ServerConfig) -> ServerStatus:
        return self._status(self._run(self._async.add, name, server))

    add.__doc__ = AsyncHost.add.__doc__

    def reconnect(self, name: str) -> Session:
        return self._session(self._run(self._async.reconnect, name))

    reconnect.__doc__ = AsyncHost.reconnect.__doc__

    remove: Final = _waits(AsyncHost.remove)
    reload: Final = _waits(AsyncHost.reload)
    list_tools: Final = _waits(AsyncHost.list_tools)
    get_tool: Final = _waits(AsyncHost.get_tool)

    @_replaced_by(_waits(AsyncHost.call_tool))
    def call_tool(self) -> None: ...

    start_tool: Final = _gives_a_task(AsyncHost.start_tool)
    search_tools: Final = _waits(AsyncHost.search_tools)
    tool_changes: Final = _watches(AsyncHost.tool_changes)
    list_resources: Final = _waits(AsyncHost.list_resources)
    list_prompts: Final = _waits(AsyncHost.list_prompts)
    read_resource: Final = _waits(AsyncHost.read_resource)
    get_prompt: Final = _waits(AsyncHost.get_prompt)
    list_skills: Final = _waits(AsyncHost.list_skills)
    load_skill: Final = _loads(AsyncHost.load_skill)

    def _session(self, session: AsyncSession) -> Session:
        found = self._wrapped.get(session)
        if found is None:
            found = self._wrapped[session] = Session(self._portal, session)
        return found

    def _status(self, status: ServerStatus) -> ServerStatus:
        if status.session is None:
            return status
        session: Any = self._session(status.session)  # the one attribute of another type here
        return replace(status, session=session)
