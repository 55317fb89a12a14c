"""The records of the audit as log records of OpenTelemetry, in addition to a file or instead.

```python
connect(server, audit=["calls.jsonl", OpenTelemetryLog()])
```

Each record is one log record of the scope ``mcp_client``, in the same order: its event name is
``mcp_client.audit.`` and the record's ``event``, its body the record as one line of JSON, as it
would be in a file, without the members that chain lines. It has the trace and the span of the
call. Attributes describe it: ``mcp_client.call``, ``mcp_client.server``,
``gen_ai.tool.name``, and ``mcp_client.outcome`` once it is closed.

Telemetry may lose records, and what it loses does not stop a call: a fault is logged, and the call
goes on, whatever ``Audit(failure=...)`` is. Use a file or a state, too, for what must not be
lost.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from ..errors import ConfigError
from ..runtime.safe_text import safe_text

__all__ = ["OpenTelemetryLog"]

_log = logging.getLogger("mcp_client")
_ATTRIBUTES = {
    "call": "mcp_client.call",
    "server": "mcp_client.server",
    "tool": "gen_ai.tool.name",
    "outcome": "mcp_client.outcome",
}


class OpenTelemetryLog:
    """A place for the records of the audit: ``connect(audit=[..., OpenTelemetryLog()])``.

    Each becomes a log record of the host's ``LoggerProvider``; see ``mcp_client.audit.otel_log``.
    Raises ``ConfigError`` if the extra ``otel`` is not installed.
    """

    def __init__(self) -> None:
        try:
            self._api = import_module("opentelemetry._logs")
        except ImportError:
            raise ConfigError(
                "OpenTelemetryLog() needs the package opentelemetry-api 1.38 or newer: "
                'pip install "mcp-client-host[otel]"'
            ) from None

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Handle one call."""
        try:
            self._emit(record)
        except Exception as error:  # noqa: BLE001 - a fault in telemetry is not the call's
            _log.warning("a record of the audit was not logged: %s", type(error).__name__)

    def _emit(self, record: Mapping[str, Any]) -> None:
        severity = self._api.SeverityNumber.INFO
        when = datetime.fromisoformat(record["time"])
        attributes = {name: record.get(member) for member, name in _ATTRIBUTES.items()}
        known = {name: safe_text(value) for name, value in attributes.items() if value is not None}
        # A text: a number beyond 64 bits would cost the exporter the whole batch.
        self._api.get_logger("mcp_client").emit(
            timestamp=int(when.timestamp() * 1_000_000) * 1_000,
            severity_number=severity,
            severity_text=severity.name,
            body=json.dumps(record),
            attributes=known,
            event_name=f"mcp_client.audit.{record['event']}",
        )
