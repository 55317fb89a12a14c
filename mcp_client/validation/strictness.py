"""How strictly values are held to their JSON Schema."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import ConfigError

__all__ = ["Strictness", "check_strictness"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
"""What happens to a value that is known to break its JSON Schema: "strict" refuses it, "warn"
passes it on with a finding, "off" does not check it. What cannot be judged is passed on with a
finding."""


def check_strictness(option: str, value: object) -> None:
    """Raises ``ConfigError`` unless ``value`` is a ``Strictness``."""
    if value not in ("strict", "warn", "off"):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")
