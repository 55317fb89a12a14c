"""The resources, prompts and skills of all servers of a host, requested side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from ..catalog.finding import Finding, Listed, Rejected
from ..connection.call_options import ReadOptions
from ..errors import ConfigError, McpError
from ..extensions.extension import SKILLS
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.safe_text import one_line, safe_text
from ..session.session import Session
from .status import StatusEvents, wait_for_most, why_unavailable

if TYPE_CHECKING:
    from ..catalog.library import PromptResult, ResourceResult
    from ..extensions.skill import Skill, SkillEntry
    from ..protocol.prompts import Prompt
    from ..protocol.resources import Resource
    from .server import HostedServer

__all__ = ["LibraryOfHost"]

T = TypeVar("T")


class LibraryOfHost(ABC):
    """The part of ``Host`` that reads."""

    _servers: dict[str, HostedServer]
    _events: StatusEvents

    @abstractmethod
    def _check_open(self) -> None: ...

    @abstractmethod
    async def session(self, name: str) -> Session:
        """Return the session of a server, which is connected if it was not."""

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """Return the resources of all connected servers; each has its ``.server``."""
        return await self._gathered("resources", lambda one: one.list_resources(refresh=refresh))

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """Return the prompts of all connected servers; each has its ``.server``."""
        return await self._gathered("prompts", lambda one: one.list_prompts(refresh=refresh))

    async def read_resource(
        self, uri: str, *, server: str, **options: Unpack[ReadOptions]
    ) -> ResourceResult:
        """Return the contents of a resource of that server, as ``Session.read_resource``.

        Args:
            uri: The URI of the resource.
            server: The name of its server.
            options: The options of ``Session.read_resource``.
        """
        session = await self.session(server)
        return await session.read_resource(uri, **options)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        server: str,
        **options: Unpack[ReadOptions],
    ) -> PromptResult:
        """Return the messages of a prompt of that server, as ``Session.get_prompt``.

        Args:
            name: The name of the prompt.
            arguments: Its arguments, by name.
            server: The name of its server.
            options: The options of ``Session.get_prompt``.
        """
        session = await self.session(server)
        return await session.get_prompt(name, arguments, **options)

    async def list_skills(self, *, refresh: bool = False) -> Listed[SkillEntry]:
        """Return the skills of all connected servers; each has its ``.server``.

        Skills with one name are among the findings: server and URI identify a skill, and never the
        name.
        """
        from ..extensions.skills import with_same_names

        found = await self._gathered(SKILLS, lambda one: one.list_skills(refresh=refresh))
        return with_same_names(found)

    async def load_skill(
        self,
        skill: str | SkillEntry,
        *,
        server: str | None = None,
        timeout: float | Timeouts | None = None,
        context: Hashable = None,
    ) -> Skill:
        """Load a skill, as ``Session.load_skill`` does.

        Args:
            skill: An entry of ``list_skills``, or the URI of a SKILL.md.
            server: The name of the server. It is required with a URI.
            timeout: Seconds, or ``Timeouts``; by default those of the session.
            context: A hashable value that identifies the caller to approval hooks.
        """
        server = getattr(skill, "server", None) if server is None else server
        if server is None:
            raise ConfigError("load_skill(uri): give the name of its server, server='...'")
        session = await self.session(server)
        return await session.load_skill(skill, timeout=timeout, context=context)

    async def _gathered(
        self, feature: str, ask: Callable[[Session], Awaitable[Listed[T]]]
    ) -> Listed[T]:
        self._check_open()
        return await _gather(list(self._servers.values()), self._events, feature, ask)


async def _gather(
    servers: Sequence[HostedServer],
    events: StatusEvents,
    feature: str,
    ask: Callable[[Session], Awaitable[Listed[T]]],
) -> Listed[T]:
    """Return the lists of the connected servers that declare ``feature``.

    ``feature`` is a capability or an extension. The order is that of ``servers``. The findings name
    the missing servers with the reasons.
    """
    found: dict[str, Listed[T]] = {}
    failed: dict[str, str] = {}
    asked: set[str] = set()
    backend = current()
    tasks = BackgroundTasks(backend, "host")

    async def one(server: HostedServer, session: Session) -> None:
        try:
            found[server.name] = await ask(session)
        except McpError as error:
            server.note(error)
            failed[server.name] = safe_text(one_line(error.message), 500)
        finally:
            asked.discard(server.name)
            events.notifier.notify()

    for server in servers:
        session = server.session
        if session is not None and server.is_connected and _has(session, feature):
            asked.add(server.name)
            tasks.start(partial(one, server, session))
    began = backend.now()
    try:
        await wait_for_most(events, backend.now, lambda: asked, lambda name: began)
    finally:
        failed.update(dict.fromkeys(asked, "it does not respond"))
        await tasks.aclose(1.0)
    return _joined(servers, found, failed)


def _has(session: Session, feature: str) -> bool:
    return feature in session.capabilities or feature in session.extensions


def _joined(
    servers: Sequence[HostedServer], found: dict[str, Listed[T]], failed: dict[str, str]
) -> Listed[T]:
    entries: list[T] = []
    rejected: list[Rejected] = []
    findings: list[Finding] = []
    for server in servers:
        name = safe_text(server.name, 60)
        why = failed.get(server.name)
        if why is None and not server.is_connected:
            why = why_unavailable(server)
        if why is not None:
            text = f"server '{name}' is missing: {why}"
            findings.append(Finding("missing_server", text, server.name))
        listed = found.get(server.name)
        if listed is not None:
            entries += listed
            rejected += [replace(one, server=server.name) for one in listed.rejected]
            findings += [one.at(f"server '{name}'") for one in listed.findings]
    return Listed(entries, rejected, findings)
