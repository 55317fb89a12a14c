"""The parts of ``Session`` besides tools: facts, resources, prompts, completion and skills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from ..connection.call_options import ReadOptions
from ..connection.connection import Connection
from ..connection.rpc import Traffic
from ..errors import McpError
from ..protocol.capabilities import Implementation, declared_extensions
from ..runtime.limits import Timeouts
from ..runtime.session_context import KnownSecrets
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..catalog.finding import Listed
    from ..catalog.library import Library, PromptResult, ResourceResult
    from ..catalog.tools import Catalog
    from ..catalog.watch import ListChanges
    from ..extensions.skill import Skill, SkillEntry
    from ..extensions.skills import Skills
    from ..protocol.content import ResourceLink
    from ..protocol.offers import Completion, Prompt, Resource, ResourceTemplate, ResourceUpdate
    from ..runtime.watch import Watch
    from ..sandbox.sandbox import Confinement
    from .session_options import Setup

__all__ = ["FactsOfSession", "LibraryOfSession"]

T = TypeVar("T")


class LibraryOfSession(ABC):
    """The part of ``Session`` for resources, prompts and skills."""

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
        """Return all resources that the server lists, cached and refreshed as in ``list_tools``.

        Raises ``NotSent`` if the server does not declare resources. The same applies to templates,
        prompts and completion (see ``capabilities``).
        """
        return await self._library.all("resources", self._library.resources, refresh)

    async def list_resource_templates(self, *, refresh: bool = False) -> Listed[ResourceTemplate]:
        """Return all resource templates; ``read_resource(template.expand(name=...))`` reads one."""
        return await self._library.all("resources", self._library.templates, refresh)

    def resource_changes(self) -> Watch[ListChanges[Resource]]:
        """Watch for resources that are added to the list, removed or changed from now on."""
        return self._library.changes("resources", self._library.resources)

    async def read_resource(self, uri: str, **options: Unpack[ReadOptions]) -> ResourceResult:
        """Request the current contents of a resource from the server; they are never cached.

        The server may ask for input (2026-07-28 ``server/resources``).

        Args:
            uri: The URI, passed to the server as it is; this client never fetches it itself.
            **options: As for ``call_tool``. The audit records ``context`` as the owner of the read.

        Returns:
            The contents.

        Raises:
            ServerError: Code -32002, or -32602 since 2026-07-28, if the resource does not exist.
        """

        async def read(traffic: Traffic | None) -> ResourceResult:
            return await self._library.read_resource(uri, options, traffic)

        return await self._recorded(self._new_read("resource", uri, None, options), read)

    async def follow(self, link: ResourceLink, **options: Unpack[ReadOptions]) -> ResourceResult:
        """Read the target of a link in a result with ``read_resource``, ``https`` links included.

        The server chose the link, so the host decides whether to read it. Raises
        ``InvalidArguments`` for a link that is not from a result of this session.
        """
        uri = self._library.linked(link)
        return await self.read_resource(uri, **options)

    def subscribe_resource(self, uri: str) -> Watch[ResourceUpdate]:
        """Watch a resource: yield a ``ResourceUpdate`` whenever the server reports a change.

        The watch is an async iterator and a context manager. In the stateless era each resource has
        a stream of its own. Raises ``NotSent`` if the server does not declare subscriptions.
        """
        return self._library.subscribe_resource(uri)

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """Return all prompts that the server lists, cached and refreshed as in ``list_tools``."""
        return await self._library.all("prompts", self._library.prompts, refresh)

    def prompt_changes(self) -> Watch[ListChanges[Prompt]]:
        """Watch for prompts that are added to the list, removed or changed from now on."""
        return self._library.changes("prompts", self._library.prompts)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[ReadOptions]
    ) -> PromptResult:
        """Request the messages of a prompt; the server checks and inserts the arguments.

        The server may ask for input (2026-07-28 ``server/prompts``).

        Args:
            name: The name of the prompt.
            arguments: The arguments, as strings.
            **options: As for ``call_tool``. The audit records ``context`` as the owner of the read.

        Returns:
            The messages.
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
        """Request the server's suggestions for an argument of a prompt or a template.

        Nothing is cached, so limit how often you call this (``server/utilities/completion``).

        Args:
            ref: The prompt or template, or the specification's reference.
            argument: ``{"name": ..., "value": the text typed so far}``.
            context: The arguments already known, by name.
            timeout: Seconds, or ``Timeouts``.

        Returns:
            The suggestions.
        """
        return await self._library.complete(ref, argument, context, timeout)

    async def list_skills(self, *, refresh: bool = False) -> Listed[SkillEntry]:
        """Return all skills that the server lists, cached and refreshed as in ``list_tools``.

        No skill is read, and a server may have skills that it does not list. Raises ``NotSent`` if
        the server does not declare ``io.modelcontextprotocol/skills``.
        """
        return await self._skills.list_skills(refresh)

    async def load_skill(
        self,
        skill: str | SkillEntry,
        *,
        timeout: float | Timeouts | None = None,
        context: Hashable = None,
    ) -> Skill:
        """Load a skill, if the approval hook allows it; the hook gets a ``SkillRequest``.

        The SKILL.md is read and verified. Other files are read on demand by ``Skill.read``.

        Args:
            skill: The URI of the SKILL.md, or an entry of ``list_skills``.
            timeout: Seconds for each request, or ``Timeouts``.
            context: As for ``call_tool``.

        Returns:
            The skill.

        Raises:
            CallDenied: The skill was not approved.
            SkillError: A file differs from what the server announced.
            NotSent: The server does not declare ``io.modelcontextprotocol/skills``.
            ServerError: Code -32602 if the server does not have the skill; see ``read_resource``.
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


class FactsOfSession:
    """The part of ``Session`` that describes the connection and the server."""

    name: str
    _connection: Connection
    _catalog: Catalog
    _setup: Setup

    @property
    def _transport(self) -> Transport:
        return self._connection.transport

    @property
    def generation(self) -> int:
        """The number of connections that the session has had."""
        return self._connection.generation

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, or None: for display, never for a decision."""
        info = self._connection.rpc.era.server.info
        return None if info is None else info.of_origin(self._connection.transport.origin)

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._connection.rpc.era.revision

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server declares, unchanged."""
        return self._connection.rpc.era.server.capabilities

    @property
    def sandbox(self) -> Confinement | None:
        """The restrictions of the server's process, or None; ``.sentences`` explains them."""
        return self._transport.sandbox

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """The extensions that the server declares, with their settings; immutable."""
        return declared_extensions(self._connection.rpc.era.server.capabilities)

    @property
    def instructions(self) -> str | None:
        """The server's advice for a model: untrusted text."""
        return self._connection.rpc.era.server.instructions

    @property
    def _model_instructions(self) -> dict[str, str]:
        """The instructions, by the server's name, as far as a model may be shown them.

        With a lock file these are the pinned ones, once the tools were listed.
        """
        pinned = self._catalog.instructions
        text = self.instructions if self._setup.pins is None else pinned
        return {} if text is None else {self.name: text}

    @property
    def server_response(self) -> Mapping[str, Any]:
        """The complete result of ``initialize`` or ``server/discover``: untrusted.

        If the session has had several connections, this is the newest result.
        """
        return self._connection.rpc.era.server.raw

    @property
    def session_id(self) -> str | None:
        """The id that the server assigned to the session (``Mcp-Session-Id``), or None.

        Only Streamable HTTP of the handshake era has one. It changes when the session is opened
        again. It is a secret: a server may accept requests from anyone who has it.
        """
        return self._transport.session_id
