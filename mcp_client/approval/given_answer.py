"""The checks and copies of the arguments of ``ApprovalQueue.decide``."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from ..errors import ConfigError, InvalidArguments
from ..protocol.canonical_json import NotJson, canonical_of, frozen, plain
from .decision import Allow, Answer, Deny, Remember, check_person, not_an_answer, not_arguments

__all__ = ["ANY", "ids_of", "signed"]

ANY: Hashable = object()
"""The default of ``context``, which matches every context: None is that of calls without one."""


def ids_of(ids: Any) -> tuple[str, ...]:
    """Return the ids as a tuple. Raises ``ConfigError``."""
    try:
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
    except TypeError:
        wanted = (ids,)
    if not all(isinstance(id, str) for id in wanted):
        raise ConfigError("decide(): give the id of a pending call, or several: PendingApproval.id")
    return wanted


def signed(answer: Any, by: Any) -> Answer:
    """Return a copy of ``answer`` with the person ``by``; the original may be changed afterwards.

    Raises ``ConfigError`` and ``InvalidArguments``.
    """
    if type(answer) not in (Allow, Deny):
        raise ConfigError(f"decide() was given {not_an_answer(answer)}")
    changed: dict[str, Any] = {}
    if type(answer) is Allow:
        changed["remember"] = Remember.of(answer.remember) or Remember("call")
        changed["arguments"] = None if answer.arguments is None else _copied(answer.arguments)
    if by is not None:
        changed["by"] = check_person(by)
        changed["source"] = "person" if answer.source == "hook" else answer.source
    result: Answer = replace(answer, **changed)
    return result


def _copied(arguments: Any) -> Any:
    try:
        copy = plain(arguments)
        canonical_of(copy)
    except NotJson as error:
        raise InvalidArguments(
            f"decide(): the edited arguments are not JSON: {error}", path=error.path
        ) from None
    if type(copy) is not dict:
        raise ConfigError(f"decide() was given {not_arguments(arguments)}")
    return frozen(copy)
