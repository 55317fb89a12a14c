"""How far a yes goes: once, for one script, until the session ends, for an hour, always."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

__all__ = ["CHOICES", "Choice", "HowFar", "Remember", "Scope"]

Choice: TypeAlias = Literal["once", "script", "session", "hour", "always", "exact"]
"""How far a yes goes: see ``CHOICES``."""
Scope: TypeAlias = Literal["call", "script", "session", "always"]
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_GIVE = "give 'call', 'script', 'session' or 'always'"
_MAX_SECONDS = 1e10


@with_option_names()
@frozen_dataclass
class Remember:
    """How far a yes goes. Raises ``ConfigError`` where it says nothing that can be kept.

    - "call": this one call, also where it has to be made again because the server refused it
      before running it: its session had ended, or it missed a header. Without it, that is asked
      about again.
    - "script": calls of this tool that the same run of a script makes (code mode), also where it
      is paused and goes on in another process: then for at most a day after this yes. Nothing of
      a call that no script makes is remembered so.
    - "session": calls of this tool until the session ends. Given to a script's call, it is for
      those of scripts only.
    - "always": the same, and kept in ``connect(state=...)``.

    The last three cover any arguments, unless ``where`` narrows them: see ``constraints``
    (``{"/path": {"glob": "/srv/*"}}``), or ``exact`` is true: then they are for exactly the
    arguments and ``_meta`` of this call, which are kept as a digest only. They hold for the same
    server, the same definition of the tool, the same trust, an equal context and the same origin,
    and for no call with a finding that this one did not have. A call whose arguments the approver
    edited is remembered in neither way. ``seconds`` limits how long they hold.

    For a skill (``SkillRequest``), "session" and "always" are for the same files with the same
    digests, on the same server and with an equal context; a skill with dynamic content is
    remembered in neither way, and ``where`` cannot be kept.
    """

    scope: Scope
    """"call", "script", "session" or "always"."""
    where: Mapping[str, Any] | None = None
    exact: bool = False
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scope, str) or self.scope not in _SCOPES:
            raise ConfigError(f"remember={self.scope!r}: {_GIVE}")
        from .constraints import Constraints  # most answers set none

        where = Constraints(self.where).wanted or None
        if where and self.scope == "call":
            raise ConfigError("Remember('call', where=...): one call has its arguments already")
        if type(self.exact) is not bool or (self.exact and (where or self.scope == "call")):
            raise ConfigError("Remember(exact=True) is not for 'call', and takes no where=")
        seconds = self.seconds
        if seconds is not None and (
            type(seconds) not in (int, float)
            or not 0 < seconds < _MAX_SECONDS
            or self.scope == "call"
        ):
            raise ConfigError(
                f"Remember(seconds={seconds!r}): give seconds above 0, and not for 'call'"
            )
        object.__setattr__(self, "where", where)

    def beyond_session(self) -> Remember:
        """Return the same for a session that ends with its call: an approval for a time is stored
        where "always" is."""
        if self.scope != "session" or self.seconds is None:
            return self
        return replace(self, scope="always")

    @classmethod
    def of(cls, value: Any) -> Remember | None:
        """From what ``Allow(remember=...)`` may be given. Raises ``ConfigError``."""
        if value is None or type(value) is cls:
            return value
        if type(value) is str and value in CHOICES:
            return CHOICES[value].remember
        if isinstance(value, str) and value not in _SCOPES:
            others = ", ".join(repr(name) for name in CHOICES if name not in _SCOPES)
            raise ConfigError(f"remember={value!r}: {_GIVE}, or {others} or Remember(...)")
        return cls(value)


@frozen_dataclass
class HowFar:
    """One way how far a yes can go."""

    label: str
    """As a person reads it."""
    remember: Remember


CHOICES: Mapping[str, HowFar] = {
    "once": HowFar("This once", Remember("call")),
    "script": HowFar("Until this script ends", Remember("script")),
    "session": HowFar("Until the session ends", Remember("session")),
    "hour": HowFar("For one hour", Remember("session", seconds=3_600)),
    "always": HowFar("Always", Remember("always")),
    "exact": HowFar("Always, for exactly these arguments", Remember("always", exact=True)),
}
"""By the names that ``ApprovalRequest.choices()`` gives: one list for hooks, rules, the terminal
and the page."""
