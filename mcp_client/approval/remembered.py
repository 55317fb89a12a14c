"""The remembered approvals of one session: its own, and those of the host's store.

It also has the approval of one call, in case that call has to be repeated.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio

from ..catalog.call_values import is_storable, same_context
from ..runtime.callbacks import in_thread
from ..runtime.safe_text import safe_text
from .decision import Allow, Remember
from .request import ApprovalRequest, is_known

if TYPE_CHECKING:
    from .decisions import Decision, Decisions
    from .tool_call import ToolCall

__all__ = ["ApprovalMemory", "OneCallApproval", "write_down"]

_log = logging.getLogger("mcp_client.approval")
_WRITE_SECONDS = 15.0
"""Waiting for another process that writes the same file takes at most ten."""
_making = threading.Lock()


class ApprovalMemory:
    """The memory of a gate: see ``gate.Memory``."""

    def __init__(
        self, identity: Callable[[], str | None] = lambda: None, store: Decisions | None = None
    ) -> None:
        """Set ``identity``, which returns the ``stable_identity`` of servers; None uses no store.

        It is used if a request has no identity, and only when needed, because it computes a digest.
        """
        self.store = store
        self.waits: bool = store is not None and store.waits
        """Whether a query of the store reads a file."""
        self.identity: Callable[[], str | None] = cache(identity)
        self._session: Decisions | None = None
        self._warned: set[str] = set()

    @property
    def session(self) -> Decisions:
        """The decisions that are remembered until the session ends."""
        if self._session is None:
            from .decisions import Decisions  # most sessions remember nothing

            with _making:
                self._session = self._session or Decisions()
        return self._session

    @property
    def is_empty(self) -> bool:
        """Whether no approval is remembered, as far as is known without waiting."""
        return self.store is None and self._is_session_empty

    @property
    def _is_session_empty(self) -> bool:
        return self._session is None or self._session.is_empty

    def observe(self, observer: Any) -> None:
        """Call ``observer.revoked(decisions, by)`` when some are revoked."""
        for store in filter(None, (self.session, self.store)):
            store.observers.add(observer)

    def recall(self, request: ApprovalRequest) -> Allow | None:
        """Return the approval that covers ``request``, if any."""
        found: Decision | None = None
        if not self._is_session_empty:
            found = self.session.find(request, self._identity(request) or "")
        if found is None and self.store is not None:
            identity = self._identity(request)
            found = None if identity is None else self.store.find(request, identity)
        if found is None:
            return None
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.decided_at))
        return Allow(
            reason=f"remembered for this {_WHAT[found.kind]}, {found.scope}, on {day}",
            source="memory",
            by=found.by,
            expires_at=found.expires_at,
            _scope=found.scope,
        )

    def keep(self, request: ApprovalRequest, remember: Remember, by: str | None = None) -> None:
        """Remember an approval.

        Args:
            request: The approved request.
            remember: The reach of the approval.
            by: The person who decided; None if unknown.

        Raises:
            ConfigError: The approval cannot be stored.
        """
        where = remember.where
        if where and _is_exact(where, request):  # the same, but with the arguments in clear
            remember = replace(remember, where=None, exact=True)
        identity = self._identity(request)
        if remember.scope == "always":
            missing = self._missing_for_always(request, identity)
            if missing is not None:
                self._warn_once(request, missing)
                remember = replace(remember, scope="session")
        always = self.store if remember.scope == "always" else None
        if remember.scope == "script" and self._missing_for_always(request, identity) is None:
            always = self.store
            if remember.seconds is None:
                remember = replace(remember, seconds=_SCRIPT_SECONDS)
        (always or self.session).add(request, remember, identity or "", by)

    def end(self) -> None:
        """Forget the approvals that are remembered until the session ends, because it does."""
        if self._session is not None:
            self._session.revoke_all()

    def end_run(self, script: str) -> None:
        """Forget the approvals for one run of a script, which is over.

        In the store they expire: the run may have been a part of one that continues elsewhere.
        """
        if not self._is_session_empty:
            over = {one.id for one in self.session.list() if one.script == script}
            if over:
                self.session._drop(over)

    def _identity(self, request: ApprovalRequest) -> str | None:
        identity: str | None = request._server_is()
        return self.identity() if identity is None else identity

    def _missing_for_always(self, request: ApprovalRequest, identity: str | None) -> str | None:
        if self.store is None:
            return "there is no state= to store it in"
        if identity is None:
            return "this server cannot be distinguished from others later"
        if not is_storable(request.context):
            return "its context is not text, a number, a boolean or a tuple of them"
        return None

    def _warn_once(self, request: ApprovalRequest, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning(
                "%s: an approval for always is stored until the session ends: %s",
                safe_text(request.server, 60),
                why,
            )


_SCRIPT_SECONDS = 86_400.0
"""A run that is paused goes on within that time, or its calls are asked about again."""
_WHAT = {"call": "tool", "skill": "skill", "start": "server", "sampling": "use of the model"}


def _is_exact(where: Mapping[str, Any], request: Any) -> bool:
    from .constraints import Constraints

    if set(where) != {""} or set(where[""]) != {"equals"}:
        return False
    return Constraints(where).hold(request.arguments) is True


class OneCallApproval:
    """The approval of one call, in case that call has to be repeated.

    The server did not run it, or was restarted before it was sent.
    """

    asked: ToolCall | None = None
    """The approved call, or None."""
    _by: str | None = None
    _edited_to: str | None = None

    def keep(self, asked: ToolCall, approved: ToolCall, by: str | None = None) -> None:
        """Store an approval.

        Args:
            asked: The call as it was made.
            approved: The call as it was allowed, perhaps with edited arguments.
            by: The person who decided; None if unknown.
        """
        self.asked, self._by = asked, by
        # The text, and not the hook's own mapping, which the hook may change afterwards.
        self._edited_to = approved.arguments_json if approved.edited else None

    def recall(self, call: ToolCall) -> Allow | None:
        """Return the approval if it is for this call."""
        old = self.asked
        if old is None or not _same_call(old, call):
            return None
        if not all(is_known(one, old.findings) for one in call.findings):
            return None
        reason = "this call was allowed, and the server has not run it"
        arguments = None if self._edited_to is None else json.loads(self._edited_to)
        return Allow(arguments, reason=reason, source="memory", by=self._by)


def _same_call(one: ToolCall, other: ToolCall) -> bool:
    return (
        one.server == other.server
        and one.arguments_json == other.arguments_json
        and one.meta_json == other.meta_json
        and one.trusted is other.trusted
        and one.tool.fingerprint == other.tool.fingerprint
        and same_context(one.context, other.context)
    )


async def write_down(
    what: str, write: Callable[..., object], *args: Any, seconds: float = _WRITE_SECONDS
) -> None:
    """Call ``write(*args)``, which writes a file, in a thread and for a limited time.

    An approval that cannot be stored in time is still valid.

    Args:
        what: The decision, as the log names it if the write takes too long.
        write: The function that writes.
        *args: Its arguments.
        seconds: The limit of time.
    """
    with anyio.move_on_after(seconds) as scope:
        await in_thread(write, *args)
    if scope.cancelled_caught:
        _log.warning("%s is not remembered: the write takes too long", what)
