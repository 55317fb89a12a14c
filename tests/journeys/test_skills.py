"""A skill's life over each transport: found, approved, loaded, read, changed, asked about again."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    Deny,
    HttpServer,
    MemoryServer,
    ServerError,
    StdioServer,
    ToolCall,
    connect,
)
from mcp_client.approval import SkillRequest
from mcp_client.audit import verify_audit
from mcp_client.errors import SkillError
from tests.support.guides import FORMS, GUIDE, HIDDEN, SKILLS, Guides
from tests.support.http_apps import LibraryApp
from tests.support.http_server import serving
from tests.support.starting import in_memory


@asynccontextmanager
async def a_server(transport: str) -> AsyncIterator[StdioServer | HttpServer | MemoryServer]:
    if transport == "stdio":
        root = Path(__file__).parents[2]
        yield StdioServer(sys.executable, ["-m", "tests.support.guides"], cwd=root)
    elif transport == "memory":
        yield in_memory(Guides())
    else:
        async with serving(LibraryApp(Guides())) as served:
            yield HttpServer(served.url)


class Person:
    """Lets tools run, and decides about skills as the test sets; stores what was asked."""

    def __init__(self) -> None:
        self.skills: list[SkillRequest] = []
        self.decision: Allow | Deny = Allow(remember="session")

    async def __call__(self, asked: ToolCall | SkillRequest) -> Allow | Deny:
        if isinstance(asked, ToolCall):
            return Allow()
        self.skills.append(asked)
        return self.decision


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_a_skill_is_approved_loaded_and_asked_about_again_when_it_changes(
    transport: str, tmp_path: Path
) -> None:
    person, log = Person(), tmp_path / "calls.jsonl"
    async with (
        a_server(transport) as server,
        connect(server, name="guides", approval=person, audit=log) as session,
    ):
        assert SKILLS in session.extensions
        listed = await session.list_skills()
        assert [(entry.name, entry.server) for entry in listed] == [("forms", "guides")]
        assert [one.name for one in listed.rejected] == ["skill://broken"]

        loaded = await session.load_skill(listed[0])
        assert loaded.text == "The forms.\n"
        await session.load_skill(GUIDE)
        assert len(person.skills) == 1, "remembered for these files"

        await session.call_tool("tamper")
        with pytest.raises(SkillError) as tampered:
            await loaded.read("references/FORMS.md")
        assert (tampered.value.reason, tampered.value.uri) == ("digest", FORMS)

        await session.call_tool("revise")
        with pytest.raises(SkillError):
            await loaded.read("references/FORMS.md")
        person.decision = Deny("not since it changed")
        with pytest.raises(CallDenied, match="not since it changed"):
            await session.load_skill(GUIDE)
        person.decision = Allow()
        loaded = await session.load_skill(GUIDE)
        assert await loaded.read_text("references/FORMS.md") == "Trick."
        assert len(person.skills) == 3

        assert (await session.load_skill(HIDDEN)).text == "The hidden.\n"
        with pytest.raises(ServerError, match="no skill"):
            await session.load_skill("skill://none/SKILL.md")
    found = await anyio.to_thread.run_sync(verify_audit, log)
    assert (found.calls, found.open_calls) == (8, ())
