"""The strictness of validation against JSON Schemas."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

__all__ = ["Strictness", "Validation", "check_strictness", "validation_of"]

Strictness: TypeAlias = Literal["strict", "warn", "off"]
"""The treatment of a value that is not valid for its JSON Schema.

"strict" refuses it, "warn" passes it on with a finding, "off" does not check it. A value that could
not be checked is passed on with a finding.
"""


@with_option_names()
@frozen_dataclass
class Validation:
    """The strictness for the results and the arguments of calls.

    The part of a schema that cannot be checked is skipped, also with "strict", with a finding of
    the tool (``unchecked_arguments``, ``unchecked_result``).
    """

    _: KW_ONLY
    results: Strictness = "strict"
    """The treatment of a result that is not valid for the tool's output schema.

    "strict" raises ``InvalidResult``, which has the result; "warn" returns it with a finding; "off"
    does not check. A result that cannot be checked within ``Timeouts.validation`` is returned with
    a finding.
    """
    arguments: Strictness | None = None
    """The treatment of arguments that are not valid for the tool's input schema.

    With "strict" the call is not sent, and approval is not requested; with "warn" the approval hook
    sees the finding and the call continues. None, the default, is "warn", and "strict" for a
    model's arguments: ``Toolset.run`` reports the problem to the model. Arguments that cannot be
    checked within ``Timeouts.validation`` are refused by "strict" only.
    """

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
