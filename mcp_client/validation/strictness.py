"""How strictly values are held to their JSON Schema."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

__all__ = ["Strictness", "Validation", "check_strictness", "validation_of"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
"""What happens to a value that is known to break its JSON Schema: "strict" refuses it, "warn"
passes it on with a finding, "off" does not check it. What cannot be judged is passed on with a
finding."""


@with_option_names()
@frozen_dataclass
class Validation:
    """A choice of how strictly the results and the arguments of calls are validated.

    The part of a schema that cannot be judged is skipped, also with "strict": a finding of the tool
    says so (``unchecked_arguments``, ``unchecked_result``).
    """

    _: KW_ONLY
    results: Strictness = "strict"
    """What happens to a result that breaks the tool's output schema. "strict" raises
    ``InvalidResult``, which has the result; "warn" returns it with a finding; "off" does not check.
    A result that cannot be judged within ``Timeouts.validation`` is returned with a finding."""
    arguments: Strictness | None = None
    """What happens to arguments that break the tool's input schema. With "strict" the call is not
    sent, and no one is asked; with "warn" the approval hook sees the finding and the call goes on.
    None, the default, is "warn", and "strict" for what a model wrote: ``Toolset.run`` tells the
    model what is wrong. Arguments that cannot be judged within ``Timeouts.validation`` are refused
    by "strict" alone."""

    def __post_init__(self) -> None:
        check_strictness("Validation(results)", self.results)
        if self.arguments is not None:
            check_strictness("Validation(arguments)", self.arguments)


def validation_of(option: str, value: object) -> Validation:
    """Return a ``Validation``, or a ``Strictness`` of results, as a ``Validation``.

    Raises ``ConfigError`` for anything else.
    """
    if isinstance(value, Validation):
        return value
    if value not in get_args(Strictness):
        raise ConfigError(
            f"{option}={value!r}: give 'strict', 'warn' or 'off', or Validation(results=..., "
            "arguments=...)"
        )
    return Validation(results=value)  # type: ignore[arg-type]  # it is one of these


def check_strictness(option: str, value: object) -> None:
    """Raise ``ConfigError`` unless ``value`` is a ``Strictness``."""
    if value not in get_args(Strictness):
        raise ConfigError(f"{option}={value!r}: give 'strict', 'warn' or 'off'")
