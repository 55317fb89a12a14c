"""The decisions of an approval hook: ``Allow`` or ``Deny``, and how far an approval reaches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import getattr_static
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from ..errors import ConfigError
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from .remember import CHOICES, Choice, Remember, Scope
from .request import ApprovalRequest

__all__ = [
    "CHOICES",
    "Allow",
    "Answer",
    "ApprovalHook",
    "Deny",
    "Policy",
    "Remember",
    "Verdict",
    "allow_all",
    "check_hook",
    "check_person",
    "deny_all",
    "not_a_decision",
    "not_arguments",
    "policy_of",
    "quick",
]

_MAX_PERSON_CHARS = 200
_MISSING = object()


@with_option_names()
@frozen_dataclass
class Allow:
    """An approval. With ``arguments``, an approval of these instead of the caller's.

    The new arguments are validated again. Raises ``ConfigError`` for an invalid ``remember`` or
    ``by``.

    - ``remember``: How far the approval reaches: see ``Remember``. None covers only this request.
    - ``reason``: The reason, for the record.
    - ``source``: The kind of approver, for the record: "hook", "person", "rule" or "memory".
    - ``by``: The host's own name for the person who decided, for the record: ``decision.by``. At
      most 200 characters.
    - ``expires_at``: The end of what allows the call, for the record, in seconds since the
      beginning of 1970. It limits nothing; see ``Remember(seconds=...)`` and
      ``Rule(expires_at=...)``.
    """

    arguments: Mapping[str, Any] | None = None
    remember: Scope | Choice | Remember | None = None
    reason: str | None = None
    source: str = "hook"
    by: str | None = None
    expires_at: float | None = None
    _give_back: Callable[[], Awaitable[object]] | None = field(
        default=None, repr=False, compare=False
    )
    """Return a one-time approval that was not used after all."""
    _scope: str | None = field(default=None, repr=False, compare=False)
    """The reach of a remembered approval."""

    def __post_init__(self) -> None:
        if self.remember is not None:
            Remember.of(self.remember)
        if self.by is not None:
            check_person(self.by)


@with_option_names()
@frozen_dataclass
class Deny:
    """A denial; the caller gets the reason in ``CallDenied``. A denial is never remembered.

    Raises ``ConfigError`` if the reason is not a str, or ``by`` is not a name.

    - ``reason``: The reason, which a model may see.
    - ``source``: The kind of approver, as in ``Allow``; "gate" if no valid decision was returned.
    - ``by``: The person who decided, as in ``Allow``; also ``CallDenied.by``.
    - ``rule``: The rule that denies, for the host alone: for ``CallDenied.rule`` and the audit.
    """

    reason: str = "no reason was given"
    source: str = "hook"
    by: str | None = None
    rule: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise ConfigError(f"Deny({type(self.reason).__name__}): give the reason as a text")
        if self.by is not None:
            check_person(self.by)


def check_hook(option: str, hook: object) -> None:
    """Raise ``ConfigError``, which names ``option``, if ``hook`` is not a hook.

    ``Allow`` and ``True`` are decisions, and a hook has to return one for each request.
    """
    if hook is None or policy_of(hook) is not None:
        return
    if isinstance(hook, type) and issubclass(hook, Allow | Deny | ApprovalRequest):
        quoted = hook.__name__
    elif isinstance(hook, Allow | Deny | bool):
        quoted = repr(hook)
    elif callable(hook):
        return
    else:
        raise ConfigError(
            f"{option}={hook!r}: give a function from ToolCall (or its siblings) to Allow or Deny"
        )
    every = "deny_all" if hook is False or "Deny" in quoted else "allow_all"
    raise ConfigError(
        f"{option}={quoted} is a decision and not a hook: give {every} to decide everything so, or "
        "a function from ToolCall (or its siblings) to Allow or Deny"
    )


def check_person(by: object) -> str:
    """Return the name of the person who decides, or raise ``ConfigError`` if it is too long.

    A truncated name may be the name of another person.
    """
    if not isinstance(by, str) or not by:
        raise ConfigError(f"by={by!r}: give the name of who decides")
    quoted = safe_text(by, len(by))
    if len(quoted) > _MAX_PERSON_CHARS:
        raise ConfigError(
            f"by={quoted[:20]!r}...: the name of who decides has {len(quoted):,} characters; give "
            f"one of at most {_MAX_PERSON_CHARS}"
        )
    return quoted


def not_a_decision(answer: object) -> str:
    """Return a text about a value that is not a decision, and about what to return instead."""
    if isinstance(answer, type) and issubclass(answer, Allow | Deny):
        parts = "()" if issubclass(answer, Allow) else "(reason)"
        return (
            f"the class {answer.__name__}, neither Allow nor Deny: write {answer.__name__}{parts}"
        )
    return f"{type(answer).__name__}, neither Allow nor Deny: give Allow() or Deny(reason)"


def not_arguments(arguments: object) -> str:
    """Return a text about invalid arguments of ``Allow``, and about what to pass instead."""
    text = f"Allow with arguments that are not a mapping but a {type(arguments).__name__}"
    if isinstance(arguments, str):
        return f"{text}; Allow takes no reason first: write Allow() or Allow(reason=...)"
    return f"{text}: give Allow(arguments={{...}}), or Allow() for those of the call"


R_co = TypeVar("R_co", bound=ApprovalRequest, covariant=True)


@dataclass(slots=True, eq=False, repr=False)
class Verdict(Generic[R_co]):
    """The gate's approval: the request, the person and the reason."""

    request: R_co
    """The approved request, or the call with the approver's arguments."""
    source: str
    reason: str | None
    remember: Remember | None = None
    by: str | None = None
    expires_at: float | None = None
    """The end of an approval that covers more than this request."""
    recalled: str | None = None
    """The reach of a remembered approval, if this is one."""

    @property
    def scope(self) -> str:
        """The reach of the approval: "once", "script", "session" or "always"."""
        given = None if self.remember is None else self.remember.scope
        scope = self.recalled or given or "call"
        return "once" if scope == "call" else scope

    @property
    def is_permanent(self) -> bool:
        """Whether the approval is permanent and therefore also accepts a changed definition."""
        if self.remember is None or self.remember.scope != "always":
            return False
        return self.request.why_not_remembered(self.remember) is None


Answer: TypeAlias = Allow | Deny
ApprovalHook: TypeAlias = Callable[[Any], Answer | Awaitable[Answer]]
"""A hook: a function from an ``ApprovalRequest`` to ``Allow`` or ``Deny``, async or not.

The request is a ``ToolCall``, or one of its three siblings. A hook that uses attributes which only
calls have refuses the others.
"""


@runtime_checkable
class Policy(Protocol):
    """A policy that decides calls without waiting, such as ``Rules`` or a class of the host.

    ``connect(approval=...)`` accepts any object with these two members. Unlike a hook, a policy is
    consulted before remembered decisions, and again about arguments that the approver edited.
    """

    @property
    def ask(self) -> ApprovalHook | None:
        """The hook for calls that the policy leaves open; None asks the person at the terminal."""

    def decide(self, request: Any, /) -> Answer | None:
        """Return the decision; None defers to remembered decisions, then to ``ask``."""


_Hook = TypeVar("_Hook", bound=Callable[[Any], Answer])


def _as_policy(hook: _Hook) -> _Hook:
    """Make a policy of a hook that gives every request the same answer at once."""
    vars(hook).update(decide=hook, ask=hook)
    return hook


_ALLOWED = Allow()


@_as_policy
def allow_all(request: ApprovalRequest) -> Answer:
    """Allow every request of all four kinds. For tests, and for servers that can do no harm."""
    return _ALLOWED


@_as_policy
def deny_all(request: ApprovalRequest) -> Answer:
    """Deny every request: tools can be listed, not called."""
    return Deny("deny_all refuses every call")


def quick(hook: _Hook) -> _Hook:
    """Mark a plain hook that never waits, so that it is called in the event loop.

    Any other plain hook runs in a thread, because it may ask a person; that costs more than a call.
    Everything in the event loop stops while a quick hook runs, so it must not read files, ask
    anyone or call a server. A class of hooks has the attribute ``is_quick = True`` instead::

        @quick
        def approve(call: ToolCall) -> Allow | Deny:
            return Allow() if call.tool.name in READS else Deny("it may write")

    Raises ``ConfigError`` for an async function.
    """
    from ..runtime.callbacks import is_async  # only now: it loads anyio

    if not callable(hook) or is_async(hook):
        raise ConfigError(f"quick({hook!r}): give a plain function from ToolCall to Allow or Deny")
    hook.is_quick = True  # type: ignore[attr-defined]
    return hook


def policy_of(hook: object) -> Policy | None:
    """Return ``hook`` if it is a ``Policy``, else None.

    A callable is one only if its class or itself defines both members: a ``Mock`` has every
    attribute, and is a hook.
    """
    if not isinstance(hook, Policy):
        return None
    defined = (getattr_static(hook, name, _MISSING) for name in ("ask", "decide"))
    return None if callable(hook) and _MISSING in defined else hook
