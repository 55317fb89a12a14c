"""What a session offers besides tools: resources, prompts, completion and skills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from ..connection.call_options import ReadOptions
from ..connection.rpc import Traffic
from ..errors import McpError
from ..runtime.limits import Timeouts
from ..runtime.session_context import KnownSecrets

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..catalog.library import Library, PromptResult, ResourceResult
    from ..catalog.listed import Listed
    from ..catalog.watch import ListChanges
    from ..extensions.skill import Skill
    from ..extensions.skill_entry import SkillEntry
    from ..extensions.skills import Skills
    from ..protocol.content import ResourceLink
    from ..protocol.prompts import Completion, Prompt
    from ..protocol.resources import Resource, ResourceTemplate, ResourceUpdate
    from ..runtime.watch import Watch

__all__ = ["LibraryOfSession"]

T = TypeVar("T")


class LibraryOfSession(ABC):
    """The part of ``Session`` that reads."""

    @property
    @abstractmethod
    def _library(self) -> Library: ...

    @property
    @abstractmethod
    def _skills(self) -> Skills: ...

    @abstractmethod
    def _new_read(
        self,
        kind: Literal["resource", "prompt"],
        name: str,
        arguments: Mapping[str, str] | None,
        options: ReadOptions,
    ) -> AuditEntry | None:
        """The audit's entry of one read, where there is an audit."""

    _secrets: KnownSecrets

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """Every resource the server lists, cached and refreshed as in ``list_tools``.

        Raises ``NotSent`` where the server does not declare resources; the same holds for
        templates, prompts and completion (see ``capabilities``).
        """
        return await self._library.all("resources", self._library.resources, refresh)

    async def list_resource_templates(self, *, refresh: bool = False) -> Listed[ResourceTemplate]:
        """Every resource template; ``read_resource(template.expand(name=...))`` reads one."""
        return await self._library.all("resources", self._library.templates, refresh)

    def resource_changes(self) -> Watch[ListChanges[Resource]]:
        """Which resources are added to the list, removed and changed from now on."""
        return self._library.changes("resources", self._library.resources)

    async def read_resource(
        self,
        uri: str,
        **options: Unpack[ReadOptions],
    ) -> ResourceResult:
        """The current contents of a resource, from the server; never cached, never fetched by us.

        Options as for ``call_tool``: ``context`` says in the audit whose read it is. The server may
        ask for input (2026-07-28). A ``ServerError`` with code -32002, or -32602 since 2026-07-28,
        means that the resource was not found.
        """

        async def read(traffic: Traffic | None) -> ResourceResult:
            return await self._library.read_resource(uri, options, traffic)

        return await self._recorded(self._new_read("resource", uri, None, options), read)

    async def follow(
        self,
        link: ResourceLink,
        **options: Unpack[ReadOptions],
    ) -> ResourceResult:
        """Read what a link in a result points to, with ``read_resource``, ``https`` links included.

        Raises ``InvalidArguments`` for a link that is not from a result of this session. The
        server chose the link: the host decides whether to read it.
        """
        uri = self._library.linked(link)
        return await self.read_resource(uri, **options)

    def subscribe_resource(self, uri: str) -> Watch[ResourceUpdate]:
        """A ``ResourceUpdate`` each time the server says that the resource changed.

        An async iterator and a context manager. In the stateless era each resource has a stream
        of its own. Raises ``NotSent`` where the server does not declare subscriptions.
        """
        return self._library.subscribe_resource(uri)

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """Every prompt the server lists, cached and refreshed as in ``list_tools``."""
        return await self._library.all("prompts", self._library.prompts, refresh)

    def prompt_changes(self) -> Watch[ListChanges[Prompt]]:
        """Which prompts are added to the list, removed and changed from now on."""
        return self._library.changes("prompts", self._library.prompts)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[ReadOptions],
    ) -> PromptResult:
        """The messages of a prompt. The server fills in the arguments, and checks them.

        Options as for ``call_tool``: ``context`` says in the audit whose read it is. The server may
        ask for input (2026-07-28).
        """

        async def read(traffic: Traffic | None) -> PromptResult:
            return await self._library.get_prompt(name, arguments, options, traffic)

        return await self._recorded(self._new_read("prompt", name, arguments, options), read)

    async def complete(
        self,
        ref: Prompt | ResourceTemplate | Mapping[str, Any],
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
        *,
        timeout: float | Timeouts | None = None,
    ) -> Completion:
        """What the server suggests for an argument of a prompt or a template.

        ``ref`` is the prompt or template, or the specification's reference; ``argument`` is
        ``{"name": ..., "value": the text typed so far}``; ``context`` has the arguments already
        known, by name. Nothing is cached: limit how often you ask.
        """
        return await self._library.complete(ref, argument, context, timeout)

    async def list_skills(self, *, refresh: bool = False) -> Listed[SkillEntry]:
        """Every skill the server lists, cached and refreshed as in ``list_tools``. Nothing of a
        skill is read; a server may have skills that it does not list.

        Raises ``NotSent`` where the server does not declare ``io.modelcontextprotocol/skills``.
        """
        return await self._skills.list_skills(refresh)

    async def load_skill(
        self,
        skill: str | SkillEntry,
        *,
        timeout: float | Timeouts | None = None,
        context: Hashable = None,
    ) -> Skill:
        """Load a skill, by the URI of its SKILL.md or an entry of ``list_skills``, if the approval
        hook allows it: it is asked with a ``SkillRequest``.

        Its SKILL.md is read and verified; other files are when they are asked for, ``Skill.read``.
        ``timeout`` bounds each request, ``context`` is as for ``call_tool``.

        Raises ``CallDenied`` where it was not approved, ``SkillError`` where what the server sends
        is not what it announced, ``NotSent`` as ``list_skills``, and what ``read_resource``
        raises; a ``ServerError`` with code -32602 means that the server does not have the skill.
        """
        return await self._skills.load_skill(skill, timeout, context)

    async def _recorded(
        self, entry: AuditEntry | None, read: Callable[[Traffic | None], Awaitable[T]]
    ) -> T:
        try:
            if entry is not None:
                await entry.open()
                entry.sending()
            found = await read(None if entry is None else entry.traffic)
        except BaseException as error:
            if isinstance(error, McpError):
                self._secrets.hide(error)
            if entry is not None:
                await entry.failed(error)
            raise
        if entry is not None:
            await entry.over()
        return found
