"""Sessions, views, skills and tasks whose methods block instead of being awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from ..approval.decisions import Decisions
from ..extensions.apps import App as AsyncApp
from ..extensions.skill import Skill as AsyncSkill
from ..extensions.tasks import Task as AsyncTask
from ..protocol.capabilities import Implementation
from ..runtime.portal import Blocking as _Blocking
from ..runtime.portal import Lease, Portal
from ..runtime.portal import described_by as _described_by
from ..runtime.portal import replaced_by as _replaced_by
from ..runtime.portal import waits as _waits
from ..runtime.portal import watches as _watches
from ..runtime.session_context import Stats
from ..session.session import Session as AsyncSession

if TYPE_CHECKING:
    from ..catalog.tool import Tool
    from ..protocol.uris import Address
    from ..sandbox.sandbox import Confinement

__all__ = ["App", "Session", "Skill", "Task", "gives_a_task", "loads"]

P = ParamSpec("P")
A = TypeVar("A")


def loads(
    method: Callable[Concatenate[A, P], Awaitable[AsyncSkill]],
) -> Callable[Concatenate[_Blocking[A], P], Skill]:
    """Return the blocking form of an async method that returns a skill."""

    def load(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Skill:
        return Skill(self._portal, self._portal.run(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[_Blocking[A], P], Skill] = _described_by(method, load)
    return described


class Skill(_Blocking[AsyncSkill]):
    """A loaded skill: see ``mcp_client.extensions.skill``, whose attributes it has."""

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
    """A running call of ``tool`` on ``server``: a blocking ``mcp_client.extensions.Task``."""

    def __init__(self, portal: Portal | Lease, task: AsyncTask) -> None:
        self._portal = portal
        self._async = task
        self.server: str = task.server
        self.tool: str = task.tool

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def id(self) -> str:
        """The server's id of the task; empty if the tool completed at once. A secret."""
        return self._async.id

    @property
    def status(self) -> str:
        """The last status that the server reported."""
        return self._async.status

    @property
    def status_message(self) -> str | None:
        """The server's text about the status: untrusted."""
        return self._async.status_message

    result: Final = _waits(AsyncTask.result)
    cancel: Final = _waits(AsyncTask.cancel)

    def to_json(self) -> dict[str, Any]:
        """Return the task as a dict for ``resume_task``: see ``mcp_client.extensions.Task``."""
        return self._async.to_json()


def gives_a_task(
    method: Callable[Concatenate[A, P], Awaitable[AsyncTask]],
) -> Callable[Concatenate[_Blocking[A], P], Task]:
    """Return the blocking form of an async method that returns a task."""

    def gives(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Task:
        return Task(self._portal, self._portal.run(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[_Blocking[A], P], Task] = _described_by(method, gives)
    return described


class Session(_Blocking[AsyncSession]):
    """A connection to one server, made by ``connect``. Any thread may use it and close it.

    Everything is as in ``mcp_client.Session``, but blocking.
    """

    def __init__(self, portal: Portal | Lease, session: AsyncSession) -> None:
        self._portal = portal
        self._async = session
        self.name: str = session.name
        """The host's name for the server."""

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def stats(self) -> Stats:
        """Counts of what happened on this session's connections."""
        return self._async.stats

    @property
    def generation(self) -> int:
        """The number of connections that the session has had."""
        return self._async.generation

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, or None: for display, never for a decision."""
        return self._async.server_info

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._async.protocol_version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server declares, unchanged."""
        return self._async.capabilities

    @property
    def sandbox(self) -> Confinement | None:
        """The restrictions of the server's process, or None; ``.sentences`` explains them."""
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
    def server_response(self) -> Mapping[str, Any]:
        """The complete result of ``initialize`` or ``server/discover``: untrusted."""
        return self._async.server_response

    @property
    def session_id(self) -> str | None:
        """The id that the server assigned to the session (``Mcp-Session-Id``), or None.

        It is a secret.
        """
        return self._async.session_id

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._async.closed

    @property
    def decisions(self) -> Decisions:
        """The decisions remembered until the session ends, to list and revoke."""
        return self._async.decisions

    list_tools: Final = _waits(AsyncSession.list_tools)
    get_tool: Final = _waits(AsyncSession.get_tool)
    search_tools: Final = _waits(AsyncSession.search_tools)
    tool_changes: Final = _watches(AsyncSession.tool_changes)

    @_replaced_by(_waits(AsyncSession.call_tool))
    def call_tool(self) -> None:
        """Call a tool: see ``mcp_client.Session.call_tool``."""

    start_tool: Final = gives_a_task(AsyncSession.start_tool)

    def resume_task(self, saved: Mapping[str, Any] | str) -> Task:
        """Return a saved task: see ``mcp_client.Session.resume_task``."""
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
    load_skill: Final = loads(AsyncSession.load_skill)
    ping: Final = _waits(AsyncSession.ping)

    def app(self, tool: Tool, *, context: Hashable = None) -> App:
        """Return the interface for a tool's view: see ``mcp_client.Session.app``."""
        return App(self._portal, self._async.app(tool, context=context))

    app.__doc__ = AsyncSession.app.__doc__

    def close(self) -> None:
        """End the connection and the server's process, from any thread, any number of times."""
        self._finish(self._async.aclose)
        self._portal.forget(self._async)


class App(_Blocking[AsyncApp]):
    """The interface for a tool's view, made by ``session.app(tool)``.

    Everything is as in ``mcp_client.extensions.App``, but blocking. Handle each message of the view
    in a thread of its own: ``handle`` waits as long as the view's request takes.
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
        """Return the checked address of a link: see ``mcp_client.extensions.App.link``."""
        return self._async.link(url)

    link.__doc__ = AsyncApp.link.__doc__

    def close(self) -> None:
        """Cancel the view's pending requests and refuse later ones.

        Call this when the view closes.
        """
        self._in_loop(self._async.close)
