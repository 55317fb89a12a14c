"""Scripts of a model, run on a session of ``tests.support.worlds``."""

from __future__ import annotations

from typing import Any

from mcp_client import Session
from mcp_client.adapters.calls import explain
from mcp_client.code.bindings import Bindings
from mcp_client.code.run import PausedRun, RunLog, ScriptResult, run_script

__all__ = ["attempt", "run"]


async def attempt(
    session: Session, code: str, *, run_log: RunLog | None = None, **options: Any
) -> ScriptResult | PausedRun:
    tools = Bindings(await session.list_tools())
    return await run_script(session, tools, code, options=options, explain=explain, run_log=run_log)  # type: ignore[arg-type]


async def run(session: Session, code: str, **options: Any) -> ScriptResult:
    """What a script led to that does not wait for a person."""
    found = await attempt(session, code, **options)
    assert isinstance(found, ScriptResult)
    return found
