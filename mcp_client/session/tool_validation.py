"""The checkers of a tool: of its arguments, and of its structured content."""

from __future__ import annotations

from ..catalog.tool import Tool
from ..runtime.limits import Limits
from ..validation.checker import Checker, checker_for

__all__ = ["input_checker", "output_checker"]


def input_checker(tool: Tool, limits: Limits) -> Checker:
    """The checker of a tool's arguments. Raises ``InvalidSchema``."""
    return tool.derived(_input_checker, limits)


def output_checker(tool: Tool, limits: Limits) -> Checker | None:
    """The checker of a tool's structured content; None where it has no output schema."""
    return tool.derived(_output_checker, limits)


def _input_checker(tool: Tool, limits: Limits) -> Checker:
    return checker_for(tool._definition["inputSchema"], limits)


def _output_checker(tool: Tool, limits: Limits) -> Checker | None:
    schema = tool._definition.get("outputSchema")
    return None if schema is None else checker_for(schema, limits)
