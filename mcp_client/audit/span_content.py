"""What a span shows of a call's arguments and result, where ``Audit(trace_content=True)`` asks.

Both are JSON texts. Arguments are shown as a record of the audit shows them. A result is not in the
audit: it is shown without what looks like a secret, and bounded likewise; of a redaction that is a
function of the host's, only arguments are its to decide.
"""

from __future__ import annotations

import json

from ..approval.tool_call import ToolCall
from ..catalog.result import ToolResult
from ..runtime.session_context import KnownSecrets
from .redaction import Redaction
from .shown_arguments import shown_arguments

__all__ = ["SpanContent"]


class SpanContent:
    def __init__(self, redaction: Redaction, secrets: KnownSecrets) -> None:
        self._redaction = redaction
        self._secrets = secrets

    def arguments(self, call: ToolCall) -> str:
        text = call.arguments_json
        shown = shown_arguments(self._redaction, self._secrets, text, None, call.tool)
        return json.dumps(shown.value)

    def result(self, result: ToolResult) -> str:
        shown = Redaction.show(self._redaction, self._secrets.json(result.raw))
        return json.dumps(shown.value)
