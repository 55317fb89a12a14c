"""The scope of an approval: one call, one script, one session, one hour, always."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..runtime.frozen import frozen_dataclass
from ..runtime.option_names import with_option_names

__all__ = ["CHOICES", "Choice", "HowFar", "Remember", "Scope"]

Choice: TypeAlias = Literal["once", "script", "session", "hour", "always", "exact"]
"""The reach of an approval: see ``CHOICES``."""
Scope: TypeAlias = Literal["call", "script", "session", "always"]
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_GIVE = "give 'call', 'script', 'session' or 'always'"
_MAX_SECONDS = 1e10


@with_option_names()
@frozen_dataclass
class Remember:
    """The reach of an approval. Raises ``ConfigError`` for an invalid combination.

    - "call": this one call, even if it is repeated because the server refused it before running it:
      its session had ended, or a header was missing. Without "call", the repetition needs another
      approval.
    - "script": calls of this tool by the same run of a script (code mode), even if the run is
      paused and continues in another process: then for at most a day after this approval. It
      applies only to calls of scripts.
    - "session": calls of this tool until the session ends. For a script's call, it covers only
      calls of scripts.
    - "always": as "session", and stored in ``connect(state=...)``.

    The last three cover any arguments, unless ``where`` limits them (see ``constraints``:
    ``{"/path": {"glob": "/srv/*"}}``) or ``exact`` is true: then they cover exactly the arguments
    and ``_meta`` of this call, stored as a digest only. They apply to the same server, the same
    definition of the tool, the same trust, an equal context and the same origin. They never cover a
    call with a finding that this call did not have. A call whose arguments the approver edited
    cannot be remembered in this way. ``seconds`` limits the time.

    For a skill (``SkillRequest``), "session" and "always" cover the same files with the same
    digests, on the same server and with an equal context. A skill with dynamic content is never
    remembered, and ``where`` does not apply.
    """

    scope: Scope
    """"call", "script", "session" or "always"."""
    where: Mapping[str, Any] | None = None
    exact: bool = False
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scope, str) or self.scope not in _SCOPES:
            raise ConfigError(f"remember={self.scope!r}: {_GIVE}")
        where = self.where
        if where is not None:
            from .constraints import Constraints  # most approvals set none

            where = Constraints(where).wanted or None
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
        """Return the reach for a session that ends with its call.

        A reach with a limited time is stored as "always" is.
        """
        if self.scope != "session" or self.seconds is None:
            return self
        return replace(self, scope="always")

    @classmethod
    def of(cls, value: Any) -> Remember | None:
        """Parse the argument of ``Allow(remember=...)``. Raises ``ConfigError``."""
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
    """One possible reach of an approval."""

    label: str
    """The text for a person."""
    remember: Remember


CHOICES: Mapping[str, HowFar] = {
    "once": HowFar("This once", Remember("call")),
    "script": HowFar("Until this script ends", Remember("script")),
    "session": HowFar("Until the session ends", Remember("session")),
    "hour": HowFar("For one hour", Remember("session", seconds=3_600)),
    "always": HowFar("Always", Remember("always")),
    "exact": HowFar("Always, for exactly these arguments", Remember("always", exact=True)),
}
"""The reaches by the names in ``ApprovalRequest.choices()``, for hooks, rules and people."""
