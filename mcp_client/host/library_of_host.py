"""What a host offers besides tools: the resources, prompts and skills of all its servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from ..connection.call_options import ReadOptions
from ..errors import ConfigError
from ..extensions.extension import SKILLS
from ..runtime.limits import Timeouts

if TYPE_CHECKING:
    from ..catalog.library import PromptResult, ResourceResult
    from ..catalog.listed import Listed
    from ..extensions.skill import Skill
    from ..extensions.skill_entry import SkillEntry
    from ..protocol.prompts import Prompt
    from ..protocol.resources import Resource
    from ..session.session import Session

__all__ = ["LibraryOfHost"]

_Gather: TypeAlias = "Callable[[str, Callable[[Session], Awaitable[Any]]], Awaitable[Any]]"


class LibraryOfHost:
    """The part of ``Host`` that reads."""

    def __init__(self, gather: _Gather, session: Callable[[str], Awaitable[Session]]) -> None:
        """``gather`` asks each connected server that has a feature, ``session`` gives that of one
        server."""
        self._gathered = gather
        self._session_of = session

    async def list_resources(self, *, refresh: bool = False) -> Listed[Resource]:
        """The resources of all connected servers that have some; each says its ``.server``."""
        found: Listed[Resource] = await self._gathered(
            "resources", lambda one: one.list_resources(refresh=refresh)
        )
        return found

    async def list_prompts(self, *, refresh: bool = False) -> Listed[Prompt]:
        """The prompts of all connected servers that have some; each says its ``.server``."""
        found: Listed[Prompt] = await self._gathered(
            "prompts", lambda one: one.list_prompts(refresh=refresh)
        )
        return found

    async def read_resource(
        self,
        uri: str,
        *,
        server: str,
        **options: Unpack[ReadOptions],
    ) -> ResourceResult:
        """The current contents of a resource of that server, as ``Session.read_resource``."""
        session = await self._session_of(server)
        return await session.read_resource(uri, **options)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        server: str,
        **options: Unpack[ReadOptions],
    ) -> PromptResult:
        """The messages of a prompt of that server, as ``Session.get_prompt``."""
        session = await self._session_of(server)
        return await session.get_prompt(name, arguments, **options)

    async def list_skills(self, *, refresh: bool = False) -> Listed[SkillEntry]:
        """The skills of all connected servers that have some; each says its ``.server``. Those of
        one name are among the findings: server and URI identify a skill, and never the name."""
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
        """Load a skill, as ``Session.load_skill`` does: an entry of ``list_skills``, or a URI on
        the ``server`` that has to be named for it."""
        server = getattr(skill, "server", None) if server is None else server
        if server is None:
            raise ConfigError("load_skill(uri): say which server's it is, server='...'")
        session = await self._session_of(server)
        return await session.load_skill(skill, timeout=timeout, context=context)
