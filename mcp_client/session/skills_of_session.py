"""What a session offers of skills."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING

from ..runtime.limits import Timeouts

if TYPE_CHECKING:
    from ..catalog.listed import Listed
    from ..extensions.skill import Skill
    from ..extensions.skill_entry import SkillEntry
    from ..extensions.skills import Skills

__all__ = ["SkillsOfSession"]


class SkillsOfSession:
    """The part of ``Session`` that is about skills."""

    def __init__(self, make_skills: Callable[[], Skills]) -> None:
        """``make_skills`` is called with the first use."""
        self._make_skills = make_skills

    @cached_property
    def _skills(self) -> Skills:
        return self._make_skills()

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
