"""What a call is given, and the definition and connection that it is made with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from ..approval.one_call import RECONNECTED
from ..catalog.tool import Tool
from ..connection.cancellation import CancelToken
from ..connection.rpc import OnProgress, RpcConnection
from ..errors import ConfigError
from ..protocol.metadata import check_meta
from ..runtime.limits import Timeouts
from .retry import Retry
from .tool_validation import Strictness, strictness_of

__all__ = ["CallRequest", "InForce", "changes"]


class CallRequest(NamedTuple):
    """One call as the caller wants it: what ``call_tool`` was given."""

    name: str
    arguments: Mapping[str, Any] | None
    timeouts: Timeouts
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] | None = None
    validation: Strictness | None = None
    cancel: CancelToken | None = None
    context: Hashable = None
    retry: Retry | None = None

    def check(self) -> None:
        """Raises ``ConfigError`` for an option that is wrong in itself."""
        if self.validation is not None:
            strictness_of("validation", self.validation)
        if self.cancel is not None and not isinstance(self.cancel, CancelToken):
            raise ConfigError(f"cancel={self.cancel!r}: give a CancelToken")
        if isinstance(self.meta, Mapping):
            check_meta(self.meta)
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise ConfigError(f"retry={self.retry!r}: give Retry(attempts=...)")
        try:
            hash(self.context)
        except TypeError:
            raise ConfigError(
                f"context= is a {type(self.context).__name__} that has no hash: give a hashable "
                "value, such as a text or a tuple of texts"
            ) from None


class InForce(NamedTuple):
    """A definition, the connection on which it is in force, and how to see that it is no longer."""

    tool: Tool
    rpc: RpcConnection
    version: int
    """Of the list the definition is from."""
    fresh: bool
    """Whether that list was known to be current. A call may use one that is not."""


def changes(then: InForce, now: InForce) -> tuple[str, ...]:
    """What is not the same any more, as findings; none where the approval still holds."""
    meanwhile = "while approval was asked for"
    found: list[str] = []
    if now.tool != then.tool:
        from ..catalog.pins import differences  # only now: few calls need it

        found += differences(then.tool, now.tool)
        old, new = then.tool.hints, now.tool.hints
        found += [
            f"{hint} was {getattr(old, hint)} and is now {getattr(new, hint)}"
            for hint in ("read_only", "destructive", "idempotent", "open_world")
            if getattr(old, hint) is not getattr(new, hint)
        ]
    if found or now.tool.trusted is not then.tool.trusted:
        return (f"the definition of the tool changed {meanwhile}", *found)
    if now.rpc is not then.rpc:
        return (RECONNECTED,)
    return ()
