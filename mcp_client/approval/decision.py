"""What an approval hook answers: yes or no, and how far a yes goes."""

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
    "not_an_answer",
    "not_arguments",
    "policy_of",
]

_MAX_PERSON_CHARS = 200
_MISSING = object()


@with_option_names()
@frozen_dataclass
class Allow:
    """Yes. With ``arguments``, yes to these instead of the caller's: they are checked again.

    - ``remember``: How far the yes goes: see ``Remember``. None: not beyond this question.
    - ``reason``: Why, for the record.
    - ``source``: What kind of approver decided, for the record: "hook", "person", "rule" or
      "memory".
    - ``by``: Who decided, by the host's own name for them, for the record: ``decision.by``. It has
      at most 200 characters, or ``ConfigError`` is raised.
    - ``expires_at``: Until when what allows the call holds, for the record: seconds since the
      beginning of 1970. It limits nothing; see ``Remember(seconds=...)`` and
      ``Rule(expires_at=...)``.

    Raises ``ConfigError`` for another ``remember``.
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
    """To be called where an answer that is given once was not used after all."""
    _scope: str | None = field(default=None, repr=False, compare=False)
    """How far a yes goes that was remembered."""

    def __post_init__(self) -> None:
        if self.remember is not None:
            Remember.of(self.remember)
        if self.by is not None:
            check_person(self.by)


@with_option_names()
@frozen_dataclass
class Deny:
    """No, and why; the caller gets the reason in ``CallDenied``. A no is never remembered.

    Raises ``ConfigError`` where the reason is not a text, or ``by`` no name.

    - ``reason``: A model may be given it.
    - ``source``: What kind of approver decided, as in ``Allow``; "gate" where no answer was usable.
    - ``by``: Who decided, as in ``Allow``; also ``CallDenied.by``.
    - ``rule``: The rule that says no, for the host alone: for ``CallDenied.rule`` and the audit.
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
    """``Allow`` and ``True`` look like answers, and a hook has to give one for each request. Raises
    ``ConfigError``, which names ``option``."""
    if hook is None or policy_of(hook) is not None:
        return
    if isinstance(hook, type) and issubclass(hook, Allow | Deny | ApprovalRequest):
        shown = hook.__name__
    elif isinstance(hook, Allow | Deny | bool):
        shown = repr(hook)
    elif callable(hook):
        return
    else:
        raise ConfigError(
            f"{option}={hook!r}: give a function from ToolCall (or its siblings) to Allow or Deny"
        )
    every = "deny_all" if hook is False or "Deny" in shown else "allow_all"
    raise ConfigError(
        f"{option}={shown} is an answer and not a hook: give {every} to answer everything so, or a "
        "function from ToolCall (or its siblings) to Allow or Deny"
    )


def check_person(by: object) -> str:
    """The name of who decides, as records show it. Raises ``ConfigError`` for one that is too long,
    because cut it may be the name of somebody else."""
    if not isinstance(by, str) or not by:
        raise ConfigError(f"by={by!r}: give the name of who decides")
    shown = safe_text(by, len(by))
    if len(shown) > _MAX_PERSON_CHARS:
        raise ConfigError(
            f"by={shown[:20]!r}...: the name of who decides has {len(shown):,} characters; give "
            f"one of at most {_MAX_PERSON_CHARS}"
        )
    return shown


def not_an_answer(answer: object) -> str:
    """What came in place of an answer, and what to give."""
    if isinstance(answer, type) and issubclass(answer, Allow | Deny):
        parts = "()" if issubclass(answer, Allow) else "(reason)"
        return (
            f"the class {answer.__name__}, neither Allow nor Deny: write {answer.__name__}{parts}"
        )
    return f"{type(answer).__name__}, neither Allow nor Deny: give Allow() or Deny(reason)"


def not_arguments(arguments: object) -> str:
    """What ``Allow`` was given for its arguments, and what to give."""
    text = f"Allow with arguments that are not a mapping but a {type(arguments).__name__}"
    if isinstance(arguments, str):
        return f"{text}; Allow takes no reason first: write Allow() or Allow(reason=...)"
    return f"{text}: give Allow(arguments={{...}}), or Allow() for those of the call"


R_co = TypeVar("R_co", bound=ApprovalRequest, covariant=True)


@dataclass(slots=True, eq=False, repr=False)
class Verdict(Generic[R_co]):
    """The gate's yes: to which request, whose, and why."""

    request: R_co
    """What was asked about, or the call with the approver's arguments."""
    source: str
    reason: str | None
    remember: Remember | None = None
    by: str | None = None
    expires_at: float | None = None
    """Until when the yes holds, where it is for more than this request."""
    recalled: str | None = None
    """How far the remembered yes goes that this is."""

    @property
    def scope(self) -> str:
        """How far it goes: "once", "script", "session" or "always"."""
        given = None if self.remember is None else self.remember.scope
        scope = self.recalled or given or "call"
        return "once" if scope == "call" else scope

    @property
    def for_good(self) -> bool:
        """Whether it was a yes for always, which also accepts a changed definition."""
        if self.remember is None or self.remember.scope != "always":
            return False
        return self.request.why_not_kept(self.remember) is None


Answer: TypeAlias = Allow | Deny
ApprovalHook: TypeAlias = Callable[[Any], Answer | Awaitable[Answer]]
"""Asked with an ``ApprovalRequest``: a ``ToolCall``, or one of its three siblings. A hook that
looks at what only calls have refuses the others."""


@runtime_checkable
class Policy(Protocol):
    """Decides calls without waiting; ``Rules`` is one, and a host may write its own.

    ``connect(approval=...)`` takes any object with these two members. Unlike a hook, a policy is
    asked before remembered answers, and again about arguments that the approver edited.
    """

    @property
    def ask(self) -> ApprovalHook | None:
        """The hook for calls the policy leaves open; None for the person at the terminal."""

    def decide(self, request: Any, /) -> Answer | None:
        """The answer to ``request``; None leaves it to remembered answers and then to ``ask``."""


_Hook = TypeVar("_Hook", bound=Callable[[Any], Answer])


def _as_policy(hook: _Hook) -> _Hook:
    """Make a policy of a hook that gives every request the same answer at once."""
    vars(hook).update(decide=hook, ask=hook)
    return hook


_ALLOWED = Allow()


@_as_policy
def allow_all(request: ApprovalRequest) -> Answer:
    """Yes to everything, of all four kinds. For tests, and for servers that cannot do harm."""
    return _ALLOWED


@_as_policy
def deny_all(request: ApprovalRequest) -> Answer:
    """Deny every request, also what was approved earlier: tools can be listed, not run.

    ``Rules([], ask=deny_all)`` denies everything that was not approved earlier.
    """
    return Deny("deny_all refuses every call")


def policy_of(hook: object) -> Policy | None:
    """Return ``hook`` if it is a ``Policy``. A callable is one only if its class or itself defines
    both members: a ``Mock`` has every attribute that is asked for, and is a hook."""
    if not isinstance(hook, Policy):
        return None
    defined = (getattr_static(hook, name, _MISSING) for name in ("ask", "decide"))
    return None if callable(hook) and _MISSING in defined else hook
