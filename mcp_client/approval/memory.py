"""What is remembered for one session: its own answers, and those of the host's store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..catalog.call_context import is_storable
from ..runtime.safe_text import safe_text
from .decision import Allow, Remember
from .remembered import Answers, Remembered
from .request import ApprovalRequest

__all__ = ["ApprovalMemory"]

_log = logging.getLogger("mcp_client.approval")
_WHAT = {"call": "tool", "skill": "skill", "start": "server", "sampling": "use of the model"}


class ApprovalMemory:
    def __init__(
        self, identity: Callable[[], str | None] = lambda: None, store: Answers | None = None
    ) -> None:
        """``identity`` gives the server's ``lasting_identity``; without one the store is not used.

        It is called when it is first needed, because it computes a digest.
        """
        self.session = Answers()
        self.store = store
        self.waits = store is not None and store.path is not None
        """Whether looking into the store means reading a file."""
        self.identity = cache(identity)
        self._warned: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self.session.kept and self.store is None

    def recall(self, call: ApprovalRequest) -> Allow | None:
        """The yes that covers ``call``, if there is one."""
        found = None
        if self.session.kept:
            found = self.session.find(call, self.identity() or "")
        if found is None and self.store is not None:
            identity = self.identity()
            found = None if identity is None else self.store.find(call, identity)
        if found is None:
            return None
        what = _WHAT[found.kind]
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.when))
        return Allow(
            reason=f"remembered for this {what}, {found.scope}, on {day}",
            source="memory",
            by=found.by,
            expires=found.expires,
        )

    def keep(self, call: ApprovalRequest, remember: Remember, by: str | None = None) -> None:
        """The answer of ``by``. Raises ``ConfigError`` where the store cannot be written."""
        identity = self.identity()
        where = remember.where
        exact = remember.exact
        if where and _is_exact(where, call):  # the same, but with the arguments in clear
            where, exact = None, True
        store = None
        if remember.scope == "always":
            store = self.store
            missing = self._missing_for_always(call, identity)
            if missing is not None:
                store = None
                self._warn_once(call, missing)
        now = time.time()
        (store or self.session).add(
            Remembered(
                server=call.server,
                identity=identity or "",
                scope="session" if store is None else "always",
                where=where,
                exact=call.exactly if exact else None,
                context=call.context,
                origin=call.origin,
                when=float(int(now)),
                by=None if by is None else safe_text(by, 200),
                expires=None if remember.seconds is None else now + remember.seconds,
                findings=tuple(sorted({finding.known_as for finding in call.findings})),
                kind=call.kind,
                tool=call.subject,
                fingerprint=call.fingerprint or "",
                trusted=call.trusted,
            )
        )

    def _missing_for_always(self, call: ApprovalRequest, identity: str | None) -> str | None:
        if self.store is None:
            return "connect(answers=...) names no store"
        if identity is None:
            return "this server cannot be told apart from others later"
        if not is_storable(call.context):
            return "its context is not text, a number, a boolean or a tuple of them"
        return None

    def _warn_once(self, call: ApprovalRequest, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning(
                "%s: an answer for always is kept until the session ends: %s", call.server, why
            )


def _is_exact(where: Mapping[str, Any], call: Any) -> bool:
    from .constraints import Constraints

    if set(where) != {""} or set(where[""]) != {"equals"}:
        return False
    return Constraints(where).hold(call.arguments) is True
