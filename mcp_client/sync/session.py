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
    from ..protocol.consent_url import Address
    from ..sandbox.grants import Confinement

__all__ = ["App", "Session", "Skill", "Task", "gives_a_task", "loads"]

P = ParamSpec("P")
A = TypeVar("A")


def loads(
    method: Callable[Concatenate[A, P], Awaitable[AsyncSkill]],
) -> Callable[Concatenate[_Blocking[A], P], Skill]:
    """The async method that returns a skill, waited for, with one whose files are, too."""

    def load(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Skill:
        return Skill(self._portal, self._portal.run(method, self._async, *args, **kwargs))

    described: Callable[Concatenate[_Blocking[A], P], Skill] = _described_by(method, load)
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
    """A ``tool`` call of ``server`` that still runs: ``mcp_client.extensions.Task``, waited for."""

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
        """What ``resume_task`` makes this task of again: see ``mcp_client.extensions.Task``."""
        return self._async.to_json()


def gives_a_task(
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
    def server_answer(self) -> Mapping[str, Any]:
        """The result of ``initialize`` or ``server/discover``, whole, as the server sent it."""
        return self._async.server_answer

    @property
    def session_id(self) -> str | None:
        """The id that the server gave the session; None if there is none. A secret."""
        return self._async.session_id

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

    start_tool: Final = gives_a_task(AsyncSession.start_tool)

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
    load_skill: Final = loads(AsyncSession.load_skill)
    ping: Final = _waits(AsyncSession.ping)

    def app(self, tool: Tool, *, context: Hashable = None) -> App:
        return App(self._portal, self._async.app(tool, context=context))

    app.__doc__ = AsyncSession.app.__doc__

    def close(self) -> None:
        """End the connection and the server's process. From any thread, any number of times."""
        self._finish(self._async.aclose)
        self._portal.forget(self._async)


class App(_Blocking[AsyncApp]):
    """What the view of one tool may do with its server. Made by ``session.app(tool)``.

    Everything is as in ``mcp_client.extensions.App``, waited for. Give each message of the view a
    thread of its own: ``handle`` waits as long as what the view asks for takes.
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
