"""Arguments and results against the schemas of their tool, as strictly as the host wants."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ..catalog.tool import Tool
from ..errors import ConfigError, InvalidSchema
from ..runtime.limits import Limits
from ..validation.checker import Checker, Problem, checker_for
from ..validation.worker_pool import WorkerPool

__all__ = ["Strictness", "ToolValidation", "strictness_of"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
_MISSING = Problem("", "structuredContent", "none")


def strictness_of(option: str, value: object) -> None:
    """Raises ``ConfigError`` unless ``value`` is a ``Strictness``."""
    if value not in ("strict", "warn", "off"):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")


class ToolValidation:
    """What one session checks. ``seconds`` bound one check that takes a worker process."""

    def __init__(
        self, arguments: Strictness, results: Strictness, limits: Limits, workers: WorkerPool
    ) -> None:
        self.arguments = arguments
        self.results = results
        """For calls that do not say otherwise."""
        self._limits = limits
        self._workers = workers

    def arguments_fit(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """True: they are valid, or not to be checked. False: ask ``arguments_problem``."""
        return self.arguments == "off" or self._input(tool).is_known_valid(arguments)

    async def arguments_problem(
        self, tool: Tool, arguments: dict[str, Any], seconds: float
    ) -> Problem | None:
        return await self._input(tool).problem(arguments, self._workers, seconds)

    async def prepare_results(self, tool: Tool, seconds: float) -> None:
        """Raises ``InvalidSchema`` if results of ``tool`` could not be checked: before the call."""
        checker = self._output(tool)
        if checker is not None:
            await checker.prepare(self._workers, seconds)

    async def result_problem(
        self, tool: Tool, result: dict[str, Any], seconds: float
    ) -> Problem | None:
        """What is wrong with the structured content of ``result``, the server's whole answer."""
        checker = self._output(tool)
        if checker is None:
            return None
        if "structuredContent" not in result:
            return _MISSING
        content = result["structuredContent"]
        if checker.is_known_valid(content):
            return None
        try:
            return await checker.problem(content, self._workers, seconds)
        except InvalidSchema as error:
            # The tool ran: this error would say that nothing was sent.
            return Problem("", "", "", str(error))

    def _input(self, tool: Tool) -> Checker:
        return tool.derived(_input_checker, self._limits)

    def _output(self, tool: Tool) -> Checker | None:
        return tool.derived(_output_checker, self._limits)


def _input_checker(tool: Tool, limits: Limits) -> Checker:
    return checker_for(tool._definition["inputSchema"], limits)


def _output_checker(tool: Tool, limits: Limits) -> Checker | None:
    schema = tool._definition.get("outputSchema")
    return None if schema is None else checker_for(schema, limits)
