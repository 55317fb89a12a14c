"""The load of a skill is in the audit: opened before it is decided, closed however it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import Allow, CallDenied, Deny, ServerError, Session, ToolCall, allow_all, connect
from mcp_client.approval import SkillRequest
from mcp_client.approval.skill_request import SKILL_FINDING
from mcp_client.audit import verify_audit
from mcp_client.errors import SkillError
from tests.support.skills import MAIN, PDF, SkillServer, entry_of

pytestmark = pytest.mark.one_backend

Decided = Allow | Deny


async def records_of(hook: Any, act: Callable[[Session], Any], server: SkillServer) -> Any:
    records: list[Any] = []
    async with connect(
        server.transport, name="docs", approval=hook, audit=records.append
    ) as session:
        try:
            await act(session)
        except (CallDenied, SkillError, ServerError):
            pass
    return records


async def test_a_load_is_opened_in_the_audit_before_it_is_decided_and_closed_after() -> None:
    server, records = SkillServer(), list[Any]()

    def hook(request: ToolCall | SkillRequest) -> Decided:
        assert [record["event"] for record in records] == ["opened"]
        return Allow(by="ana", source="person")

    async with connect(
        server.transport, name="docs", approval=hook, audit=records.append
    ) as session:
        await session.load_skill(PDF, context="agent")
    opened, closed = records
    assert (opened["skill"], opened["tool"], opened["server"]) == (PDF, None, "docs")
    assert (opened["files"], opened["bytes"]) == (2, len(MAIN) + 11)
    assert opened["fingerprint"].startswith("sha256:")
    assert (opened["context"], opened["revision"]) == ("agent", "2026-07-28")
    assert opened["findings"] == [SKILL_FINDING.to_json()]
    assert opened["facts"]["description"] == "Fill in forms"
    assert "11 bytes  references/FORMS.md" in opened["facts"]["file"]
    assert closed["call"] == opened["call"]
    assert (closed["event"], closed["outcome"], closed["delivery"]) == ("closed", "ok", "answered")
    assert (closed["decision"]["answer"], closed["decision"]["by"]) == ("allow", "ana")


async def test_every_way_a_load_ends_closes_its_record() -> None:
    def by_uri(session: Session) -> Any:
        return session.load_skill(PDF)

    evil = SkillServer()
    evil.files[PDF] = MAIN.replace(b"See", b"Eat")
    for hook, server, outcome, delivery in (
        (lambda request: Deny("no"), SkillServer(), "CallDenied", "not_sent"),
        (allow_all, evil, "SkillError", "answered"),
    ):
        opened, closed = await records_of(hook, by_uri, server)
        assert (opened["event"], closed["event"]) == ("opened", "closed")
        assert (closed["outcome"], closed["delivery"]) == (outcome, delivery)
    unknown = await records_of(
        allow_all, lambda session: session.load_skill("skill://x/SKILL.md"), SkillServer()
    )
    assert [record["outcome"] for record in unknown[1:]] == ["ServerError"]
    assert unknown[0]["fingerprint"] is None


async def test_the_log_of_loads_is_verified(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    async with connect(SkillServer().transport, approval=allow_all, audit=log) as session:
        await session.load_skill(PDF)
        await session.load_skill(PDF)
    found = await anyio.to_thread.run_sync(verify_audit, log)
    assert (found.calls, found.open_calls) == (2, ())


async def test_without_a_record_there_is_no_load() -> None:
    def broken(record: Any) -> None:
        raise OSError("the disk is full")

    server, asked = SkillServer(), list[Any]()

    def hook(request: Any) -> Decided:
        asked.append(request)
        return Allow()

    async with connect(server.transport, approval=hook, audit=broken) as session:
        with pytest.raises(CallDenied, match="audit"):
            await session.load_skill(PDF)
    assert (asked, server.reads) == ([], [])


async def test_a_skill_that_is_refused_before_it_is_known_needs_a_record_too() -> None:
    records: list[Any] = []

    def full(record: Any) -> None:
        records.append(dict(record))
        if record["event"] == "closed":
            raise OSError("the disk is full")

    async with connect(SkillServer().transport, approval=allow_all, audit=full) as session:
        with pytest.raises(ServerError) as caught:
            await session.load_skill("skill://x/SKILL.md")
    opened, closed = records
    assert (opened["files"], opened["bytes"], opened["findings"]) == (None, None, [])
    assert "facts" not in opened
    assert closed["outcome"] == "ServerError"
    assert "could not be closed" in "".join(caught.value.__notes__)


async def test_a_skill_of_very_many_files_is_recorded_with_the_first_of_them() -> None:
    server, records = SkillServer(), list[Any]()
    server.files |= {f"skill://pdf/{number}.md": b"x" for number in range(250)}
    fields = {"description": "Fill in forms", "allowed-tools": "Bash"}
    server.skills = [entry_of(PDF, server.files, **fields)]
    async with connect(server.transport, approval=allow_all, audit=records.append) as session:
        await session.load_skill(PDF)
    files = records[0]["facts"]["file"]
    assert len(files) == 201
    assert files[-1] == "and more"
    assert json.dumps(records).count("and more") == 1
