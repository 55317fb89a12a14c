"""What ``doctor`` finds out about each tool.

Whether its schemas can be used; and of the tools that ``--allow`` names and that need no arguments,
whether a result is as its schema says.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import anyio

from ..catalog.tool import Tool
from ..errors import BrokenPromise, InvalidSchema, McpError, OutcomeUnknown
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..session.session import Session
from ..validation.checker import checker_for
from ..validation.worker_pool import WorkerPool
from .doctor_report import MOST, Report
from .policy import is_allowed

__all__ = ["check_tools"]

_ALL_SCHEMAS = 30.0
_ONE_SCHEMA = 5.0
"""Seconds."""


async def check_tools(
    report: Report, session: Session, tools: Iterable[Tool], options: argparse.Namespace
) -> None:
    """Add what is wrong with the tools to the report."""
    tools = list(tools)
    await _check_schemas(report, tools)
    for tool in tools:
        if is_allowed(options, tool):
            await _check_result(report, session, tool)


async def _check_schemas(report: Report, tools: list[Tool]) -> None:
    workers, checked, wrong = WorkerPool(), 0, 0
    try:
        with anyio.move_on_after(_ALL_SCHEMAS):
            for tool in tools:
                for key, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
                    problem = None if schema is None else await _problem(schema, workers)
                    if problem is not None and (wrong := wrong + 1) <= MOST:
                        report.found(
                            "breaks promises",
                            f"the {key}Schema of {tool.name} cannot be used: {problem}",
                            "Calls of this tool are refused; the others can be used. Tell the "
                            "server's author.",
                        )
                checked += 1
    finally:
        with anyio.CancelScope(shield=True):
            await workers.aclose()
    if wrong > MOST:
        report.found("breaks promises", f"{wrong - MOST} more schemas cannot be used", "")
    left = f"; {len(tools) - checked} not checked in time" if checked < len(tools) else ""
    report.promises["schemas"] = f"{checked} tools checked, {wrong} schemas cannot be used{left}"


async def _problem(schema: Any, workers: WorkerPool) -> str | None:
    try:
        await checker_for(schema, Limits()).prepare(workers, _ONE_SCHEMA)
    except InvalidSchema as error:
        return error.message
    return None


async def _check_result(report: Report, session: Session, tool: Tool) -> None:
    """Call a tool that needs no arguments."""
    name = safe_text(tool.name, 60)
    if tool.input_schema.get("required"):
        report.promises[f"call of {name}"] = "not tried: it needs arguments"
        return
    try:
        result = await session.call_tool(tool.name, {})
    except BrokenPromise as error:
        report.found(
            "breaks promises",
            f"the result of {tool.name} is not what it promises: {error.message}",
            "The tool ran. Tell the server's author.",
        )
        state = "broken"
    except OutcomeUnknown as error:
        report.found(
            "slow", f"{tool.name} gave no answer: {error.message}", "Give it longer with --timeout."
        )
        state = "no answer"
    except McpError as error:
        state = f"failed: {safe_text(error.message, 120)}"
    else:
        state = "the tool reports an error" if result.is_error else "kept"
    report.promises[f"call of {name}"] = state
