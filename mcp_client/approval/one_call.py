"""The yes to one call, for when that same call has to be made again."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..catalog.call_context import same_context
from ..catalog.finding import Finding
from .decision import Allow
from .tool_call import ToolCall

__all__ = ["OneCallApproval", "is_known"]


def is_known(finding: Finding, asked: Iterable[Finding]) -> bool:
    """Whether a yes given with the findings ``asked`` covers ``finding``: it was among them, or
    says no more than that the connection is another one."""
    return finding.kind == "reconnected" or finding.known_as in {one.known_as for one in asked}


class OneCallApproval:
    """The yes to one call, for when that same call has to be made again: the server did not run
    it, or was restarted before it was sent."""

    asked: ToolCall | None = None
    """What was allowed; None where nothing was."""
    _by: str | None = None
    _edited_to: str | None = None

    def keep(self, asked: ToolCall, approved: ToolCall, by: str | None = None) -> None:
        """``approved`` is ``asked`` as ``by`` allowed it, with the arguments the approver gave."""
        self.asked, self._by = asked, by
        # The text, and not the hook's own mapping, which the hook may change afterwards.
        self._edited_to = approved.arguments_json if approved.edited else None

    def recall(self, call: ToolCall) -> Allow | None:
        old = self.asked
        if old is None or not _same_call(old, call):
            return None
        if not all(is_known(one, old.findings) for one in call.findings):
            return None
        reason = "this very call was allowed, and the server has not run it"
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
