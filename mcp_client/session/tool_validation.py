"""The checkers of a tool: of its arguments, and of its structured content."""

from __future__ import annotations

from ..catalog.tool import Tool
from ..runtime.limits import Limits
from ..validation.checker import Checker, checker_for

__all__ = ["input_checker", "output_checker"]


def input_checker(tool: Tool, limits: Limits) -> Checker:
    """The checker of a tool's arguments. Raises ``InvalidSchema``."""
    checker: Checker | None = tool._memo.get("input")
    if checker is None:
        checker = tool._memo["input"] = checker_for(tool._definition["inputSchema"], limits)
    return checker


def output_checker(tool: Tool, limits: Limits) -> Checker | None:
    """The checker of a tool's structured content; None where it has no output schema."""
    schema = tool._definition.get("outputSchema")
    if schema is None:
        return None
    checker: Checker | None = tool._memo.get("output")
    if checker is None:
        checker = tool._memo["output"] = checker_for(schema, limits)
    return checker
