"""How strictly values are held to their JSON Schema."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import ConfigError

__all__ = ["Strictness", "check_strictness"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
"""What happens to a value that breaks its JSON Schema: it is refused, handed over with a finding,
or not looked at."""


def check_strictness(option: str, value: object) -> None:
    """Raises ``ConfigError`` unless ``value`` is a ``Strictness``."""
    if value not in ("strict", "warn", "off"):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")
