"""A sandbox by landlock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Confined, Launch
    from .sandbox import Sandbox

__all__ = ["ENGINE"]


class _Engine:
    name = "landlock"

    def lacking(self, sandbox: Sandbox) -> str | None:
        return "it is not there yet"

    def confine(self, confined: Confined) -> Launch:
        raise NotImplementedError


ENGINE = _Engine()
